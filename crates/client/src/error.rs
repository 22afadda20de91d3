//! Why a call has no answer.

use std::time::Duration;

use keyless_core::{Code, action::ActionFault};
use serde_json::Value;

use crate::reach::hangs_for;

/// Why a call has no answer.
#[derive(Clone, Debug, thiserror::Error)]
pub enum Error {
    /// The broker can't be asked: it is not there, it hangs, it went away before it answered, or what it said can't be read.
    #[error(transparent)]
    Broker(#[from] keyless_core::Error),
    /// The time that [`Client::within`](crate::Client::within) gives is over. What was sent may still be done: the same
    /// request, sent again, has its answer.
    #[error("no answer within {} s", .0.as_secs_f32())]
    Late(Duration),
    /// The broker did not take the message, and says why.
    #[error("{}", .0.message)]
    Refused(Box<ActionFault>),
}

impl Error {
    /// The stable code, where it is one of ours.
    pub fn code(&self) -> Option<Code> {
        match self {
            Self::Broker(error) => Some(error.code()),
            Self::Late(_) => None,
            Self::Refused(fault) => fault.cause,
        }
    }

    /// What to do next, where that is known.
    pub fn next_step(&self) -> Option<&str> {
        match self {
            Self::Broker(error) => Some(error.code().remediation().action),
            Self::Late(_) => None,
            Self::Refused(fault) => fault.suggestion.as_deref(),
        }
    }
}

impl From<Code> for Error {
    fn from(code: Code) -> Self {
        Self::Broker(code.into())
    }
}

impl From<Error> for keyless_core::Error {
    fn from(error: Error) -> Self {
        match error {
            Error::Broker(error) => error,
            Error::Late(patience) => hangs_for(patience, None),
            Error::Refused(fault) => fault.cause.unwrap_or(Code::Internal).into(),
        }
    }
}

/// The fault of an answer, if it has one: in the words of [`ActionFault`], where an envelope has the number in `code`.
pub(crate) fn fault_in(answer: &mut Value) -> Option<ActionFault> {
    let mut error = answer.get_mut("error").map(Value::take).filter(Value::is_object)?;
    let word = error["name"].take();
    if word.is_string() {
        error["nl_code"] = std::mem::replace(&mut error["code"], word);
    }
    let ours = error["keyless_code"].as_str();
    let cause = Code::ALL.iter().copied().find(|code| Some(code.as_str()) == ours);
    // A fault that can't be read is one all the same.
    let fault: ActionFault = serde_json::from_value(error).unwrap_or_default();
    Some(ActionFault { cause, ..fault })
}
