//! The SDK's sessions, in which an id is one request's until it is answered or cancelled, as over stdio.
//!
//! The SDK leads an answer to the stream of whoever had its id last: the stream of the first would never end.

use std::{
    collections::HashMap,
    future::{Future, ready},
    sync::Arc,
};

use futures_util::{Stream, StreamExt as _, stream};
use parking_lot::Mutex;
use rmcp::{
    ErrorData, RoleServer,
    model::{ClientJsonRpcMessage, ClientRequest, JsonRpcMessage, RequestId, ServerJsonRpcMessage},
    service::{RxJsonRpcMessage, TxJsonRpcMessage},
    transport::{
        Transport,
        streamable_http_server::{
            SessionId, SessionManager,
            session::{EventStore, ServerSseMessage, local::LocalSessionManager},
        },
    },
};

use crate::message::{ALREADY_GREETED, ID_IN_USE, Waiting};

/// All sessions, and what waits in each.
pub(super) struct Sessions {
    inner: LocalSessionManager,
    waiting: Mutex<HashMap<SessionId, Arc<Mutex<Waiting>>>>,
}

/// A session's way to its server and back, which sees every answer.
pub(super) struct Seen<T> {
    inner: T,
    waiting: Arc<Mutex<Waiting>>,
}

impl Sessions {
    pub(super) fn new(inner: LocalSessionManager) -> Self {
        Self { inner, waiting: Mutex::default() }
    }

    fn waiting(&self, id: &SessionId) -> Arc<Mutex<Waiting>> {
        self.waiting.lock().get(id).cloned().unwrap_or_default()
    }
}

impl SessionManager for Sessions {
    type Error = <LocalSessionManager as SessionManager>::Error;
    type Transport = Seen<<LocalSessionManager as SessionManager>::Transport>;

    async fn create_session(&self) -> Result<(SessionId, Self::Transport), Self::Error> {
        let (id, inner) = self.inner.create_session().await?;
        let waiting = Arc::<Mutex<Waiting>>::default();
        self.waiting.lock().insert(id.clone(), Arc::clone(&waiting));
        Ok((id, Seen { inner, waiting }))
    }

    async fn initialize_session(
        &self,
        id: &SessionId,
        message: ClientJsonRpcMessage,
    ) -> Result<ServerJsonRpcMessage, Self::Error> {
        self.inner.initialize_session(id, message).await
    }

    async fn has_session(&self, id: &SessionId) -> Result<bool, Self::Error> {
        self.inner.has_session(id).await
    }

    async fn close_session(&self, id: &SessionId) -> Result<(), Self::Error> {
        self.waiting.lock().remove(id);
        self.inner.close_session(id).await
    }

    async fn create_stream(
        &self,
        id: &SessionId,
        message: ClientJsonRpcMessage,
    ) -> Result<impl Stream<Item = ServerSseMessage> + Send + Sync + 'static, Self::Error> {
        let (waiting, request) = (self.waiting(id), id_of(&message));
        // The first one made the session, and came another way.
        let why = if is_greeting(&message) {
            Some(ALREADY_GREETED)
        } else {
            (!waiting.lock().note(&message)).then_some(ID_IN_USE)
        };
        if let Some(why) = why {
            let refused = ErrorData::invalid_request(why, None);
            let refused = ServerJsonRpcMessage::error(refused, request);
            let only = stream::once(ready(ServerSseMessage::from_message(refused)));
            return Ok(only.left_stream());
        }
        let stream = self.inner.create_stream(id, message).await.inspect_err(|_| {
            if let Some(request) = &request {
                waiting.lock().forget(request);
            }
        });
        Ok(stream?.right_stream())
    }

    async fn accept_message(
        &self,
        id: &SessionId,
        message: ClientJsonRpcMessage,
    ) -> Result<(), Self::Error> {
        self.waiting(id).lock().note(&message);
        self.inner.accept_message(id, message).await
    }

    async fn create_standalone_stream(
        &self,
        id: &SessionId,
    ) -> Result<impl Stream<Item = ServerSseMessage> + Send + Sync + 'static, Self::Error> {
        self.inner.create_standalone_stream(id).await
    }

    async fn resume(
        &self,
        id: &SessionId,
        last_event_id: String,
    ) -> Result<impl Stream<Item = ServerSseMessage> + Send + Sync + 'static, Self::Error> {
        self.inner.resume(id, last_event_id).await
    }

    fn event_store(&self) -> Option<Arc<dyn EventStore>> {
        self.inner.event_store()
    }
}

impl<T: Transport<RoleServer>> Transport<RoleServer> for Seen<T> {
    type Error = T::Error;

    fn send(
        &mut self,
        item: TxJsonRpcMessage<RoleServer>,
    ) -> impl Future<Output = Result<(), T::Error>> + Send + 'static {
        self.waiting.lock().answered(&item);
        self.inner.send(item)
    }

    fn receive(&mut self) -> impl Future<Output = Option<RxJsonRpcMessage<RoleServer>>> + Send {
        self.inner.receive()
    }

    fn close(&mut self) -> impl Future<Output = Result<(), T::Error>> + Send {
        self.inner.close()
    }
}

fn is_greeting(message: &ClientJsonRpcMessage) -> bool {
    matches!(
        message,
        JsonRpcMessage::Request(request)
            if matches!(request.request, ClientRequest::InitializeRequest(_))
    )
}

fn id_of(message: &ClientJsonRpcMessage) -> Option<RequestId> {
    match message {
        JsonRpcMessage::Request(request) => Some(request.id.clone()),
        _ => None,
    }
}
