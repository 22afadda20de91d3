//! Which requests of a client wait for their answers: an id is one request's until it is answered or cancelled. Pure.

use std::collections::HashSet;

use rmcp::{
    RoleServer,
    model::{ClientNotification, JsonRpcMessage, RequestId},
    service::{RxJsonRpcMessage, TxJsonRpcMessage},
};

/// What is said to a request whose id is another one's.
pub(crate) const ID_IN_USE: &str =
    "a request with this id still waits for its answer; give each one its own";

/// The ids of one client's requests. The SDK keeps one answer for each: of two requests with one, both would be done and
/// one answered.
#[derive(Debug, Default)]
pub(crate) struct Waiting(HashSet<RequestId>);

impl Waiting {
    /// Remembers a request until it is answered or cancelled; whether it has its id to itself.
    pub(crate) fn note(&mut self, message: &RxJsonRpcMessage<RoleServer>) -> bool {
        match message {
            JsonRpcMessage::Request(request) => self.0.insert(request.id.clone()),
            JsonRpcMessage::Notification(note) => {
                // What is cancelled gets no answer.
                if let ClientNotification::CancelledNotification(cancelled) = &note.notification
                    && let Some(id) = &cancelled.params.request_id
                {
                    self.0.remove(id);
                }
                true
            }
            JsonRpcMessage::Error(_) | JsonRpcMessage::Response(_) => true,
        }
    }

    /// Takes note of what is said to the client: whose request is answered may use its id again.
    pub(crate) fn answered(&mut self, message: &TxJsonRpcMessage<RoleServer>) {
        match message {
            JsonRpcMessage::Response(response) => self.forget(&response.id),
            JsonRpcMessage::Error(error) => {
                if let Some(id) = &error.id {
                    self.forget(id);
                }
            }
            JsonRpcMessage::Notification(_) | JsonRpcMessage::Request(_) => {}
        }
    }

    /// Takes an id back whose request was not passed on.
    pub(crate) fn forget(&mut self, id: &RequestId) {
        self.0.remove(id);
    }
}
