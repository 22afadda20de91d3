//! What a message came to, before it is written in the form that it came in.

use std::sync::Arc;

use jiff::Timestamp;
use keyless_core::{
    Code, json_size,
    nl_message::{Message, MessageType, Named, NlFault, Shape},
};
use serde_json::{Value, json};
use uuid::Uuid;

use super::rates::RateState;

/// What a message came to.
#[derive(Clone, Debug)]
pub(crate) struct Outcome {
    /// What the answer is.
    pub(crate) kind: MessageType,
    /// Its HTTP status.
    pub(crate) status: u16,
    /// The object, without its error.
    body: Value,
    /// The error, if it is one.
    pub(crate) fault: Option<NlFault>,
    /// Whether the same message has the same answer: not where nothing was done and another try may do.
    pub(crate) is_settled: bool,
    /// How the sender's window stands after all that it was counted for, if that is more than the message.
    rate: Option<RateState>,
}

/// An answer as it goes out.
#[derive(Clone, Debug)]
pub(crate) struct Answered {
    /// The HTTP status.
    pub(crate) status: u16,
    /// The whole message.
    pub(crate) body: Value,
    /// How the sender's window stands.
    pub(crate) rate: Option<RateState>,
    /// How long to wait before another try, in seconds.
    pub(crate) retry_after: Option<u64>,
}

impl Outcome {
    /// It was done.
    pub(crate) fn done(kind: MessageType, status: u16, body: Value) -> Self {
        Self { kind, status, body, fault: None, is_settled: true, rate: None }
    }

    /// It was not done. `body` is what an answer of its kind has beside the error.
    pub(crate) fn failed(kind: MessageType, body: Value, fault: NlFault) -> Self {
        let status = match fault.code() {
            // The action was done, and its command's status is its own affair.
            Code::NonzeroExit => 200,
            _ => fault.status(),
        };
        let is_settled = !fault.code().remediation().retryable;
        Self { kind, status, body, fault: Some(fault), is_settled, rate: None }
    }

    /// The same of what another try may change.
    pub(super) fn unsettled(self) -> Self {
        Self { is_settled: false, ..self }
    }

    /// The same, counted for more than the message.
    pub(super) fn counted(self, rate: Option<RateState>) -> Self {
        Self { rate, ..self }
    }

    /// The same for who sends the message once more: the window has gone on since.
    pub(super) fn again(self: &Arc<Self>) -> Arc<Self> {
        match self.rate {
            None => Arc::clone(self),
            Some(_) => Arc::new(Self { rate: None, ..(**self).clone() }),
        }
    }

    /// The same of something that has begun, or not: what has begun is done once.
    pub(super) fn of_begun(mut self, has_begun: bool) -> Self {
        self.is_settled |= has_begun;
        self
    }

    #[cfg(test)]
    pub(super) fn rate(&self) -> Option<RateState> {
        self.rate
    }

    /// The object in a form.
    pub(crate) fn render(&self, shape: Shape) -> Value {
        let mut body = self.body.clone();
        if let Some(fault) = &self.fault {
            body["error"] = fault.body(shape);
        }
        body
    }

    /// The object, without its error.
    pub(crate) fn body(&self) -> &Value {
        &self.body
    }

    /// How many bytes it takes as JSON, without its error.
    pub(crate) fn size(&self) -> usize {
        json_size(&self.body)
    }

    /// The same within `room` bytes: without what the action gave, and with a word about that, if it has more.
    pub(super) fn within(mut self, room: usize) -> Self {
        if self.size() > room {
            let exit = self.body["result"]["exit_code"].take();
            self.body["result"] = json!({ "exit_code": exit });
            let warning =
                json!("the output was left out: a message is answered with at most 16 MiB");
            match self.body["warnings"].as_array_mut() {
                Some(warnings) => warnings.push(warning),
                None => self.body["warnings"] = json!([warning]),
            }
        }
        self
    }

    /// The answer to `message`.
    pub(crate) fn to(&self, message: &Message, rate: Option<RateState>) -> Answered {
        let (id, now) = (message_id(), Timestamp::now());
        let mut body = self.render(message.shape);
        // Outside of an action too, who sent several learns which of them was refused.
        if let (Some(_), Some(request)) = (&self.fault, message.request_id())
            && body.get("request_id").is_none()
        {
            body["request_id"] = request.into();
        }
        let body = message.answered(self.kind, body, &id, now);
        // The window that is spent is the one to be told of.
        let rate = self.spent().or(self.rate).or(rate);
        Answered { status: self.status, body, rate, retry_after: self.retry_after() }
    }

    /// The window of one who has sent too much.
    fn spent(&self) -> Option<RateState> {
        let fault = self.fault.as_ref().filter(|fault| fault.code() == Code::RateLimited)?;
        let limit = u32::try_from(fault.details().get("limit")?.as_u64()?).ok()?;
        Some(RateState { limit, remaining: 0, reset: self.retry_after()? })
    }

    /// How long to wait, where it says so and another try may do.
    fn retry_after(&self) -> Option<u64> {
        self.fault.as_ref()?.details().get("retry_after_seconds")?.as_u64()
    }
}

/// The answer to what is no message, in the form that it seems to have, or in `usual`.
pub(crate) fn refused(fault: NlFault, named: Named, usual: Shape) -> Answered {
    Outcome::failed(MessageType::Error, json!({}), fault).to(&named.message(usual), None)
}

/// A name for a message of ours.
pub(crate) fn message_id() -> String {
    format!("msg_{}", Uuid::now_v7())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_output_without_room_is_left_out() {
        let body = json!({ "status": "success", "result": { "stdout": "\0".repeat(1000), "exit_code": 0 } });
        let outcome = Outcome::done(MessageType::ActionResponse, 200, body);
        assert_eq!(outcome.size(), outcome.body().to_string().len());
        assert!(outcome.size() > 6000 && outcome.clone().within(7000).body() == outcome.body());
        let cut = outcome.within(5000);
        assert!(cut.size() < 300, "{}", cut.body());
        assert_eq!(
            (&cut.body()["status"], &cut.body()["result"]),
            (&json!("success"), &json!({ "exit_code": 0 }))
        );
        assert_eq!(cut.body()["warnings"].as_array().map(Vec::len), Some(1));
    }
}
