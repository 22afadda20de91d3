//! What an agent asks of a person, and how that may end. Pure: the time and the id are arguments.
//!
//! ```text
//!             ┌─► ok | cancelled          a value, a rotation, a proposal
//!   pending ──┼─► once | session           the use of a secret; an action or a deploy, which are allowed once
//!             ├─► denied                   refused in so many words, whatever was asked: remembered for a while
//!             ├─► failed                   what was accepted could not be carried out
//!             └─► expired                  nobody answered in time
//! ```
//!
//! A settled request never changes, and the time is looked at in every step, so that a late answer
//! does nothing. Kinds, statuses and ids are those of spec/secrets-through-mcp.md; what an approval
//! is good for is reference/secrets.md, section 19 (rows 3 to 5).

mod asked;
mod deed;
mod id;
#[cfg(test)]
mod tests;

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

pub use self::{
    asked::{
        Asked, Field, Fields, MAX_DEED_REASON_CHARS, MAX_REASON_CHARS, RequestKind, is_web_page,
    },
    deed::{
        FileOp, MAX_DEPLOY_DIFF, MAX_DEPLOY_FILES, PackVerb, WantedAction, WantedDeploy, WantedFile,
    },
    id::{FullRequestId, RequestId},
};
use crate::{Code, Error, SafeText, SecretPath};

/// How long a request waits for its answer; an agent may ask for less, never for more.
pub const REQUEST_LIFE: SignedDuration = SignedDuration::from_mins(5);
/// How long an `once` may wait for its use.
pub const ONCE_LIFE: SignedDuration = SignedDuration::from_mins(5);
/// How long a `session` holds if the session does not end before.
pub const SESSION_LIFE: SignedDuration = SignedDuration::from_hours(8);
/// How long a denial is remembered: nobody is asked the same again before.
pub const COOL_DOWN: SignedDuration = SignedDuration::from_mins(10);
/// How far the clock may go back before what it says of a request is no longer believed.
const CLOCK_SLACK: SignedDuration = SignedDuration::from_secs(30);

/// One request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// What it is called.
    pub id: RequestId,
    /// What it is, beyond its name; none where a version of Keyless recorded it that knew the name alone.
    pub full_id: Option<FullRequestId>,
    /// The secret that it is about; for a new path, the one suggested. A deploy is about none.
    pub path: Option<SecretPath>,
    /// What is asked.
    pub asked: Asked,
    /// The session that asks: only this one may poll the request and use what comes of it.
    pub session: String,
    /// When it was recorded.
    pub created_at: Timestamp,
    /// When it is too late to answer.
    pub expires_at: Timestamp,
    /// The answer.
    pub settled: Option<Settled>,
}

/// An answer, and what has come of it since.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Settled {
    /// When the answer was given.
    pub at: Timestamp,
    /// How it ended; never [`Status::Pending`].
    pub status: Status,
    /// What was applied.
    #[serde(default)]
    pub outcome: Outcome,
    /// Until when an approval holds, for `once` and `session`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub holds_until: Option<Timestamp>,
    /// Whether its effect is over before its time: an approval that is used up, revoked or whose
    /// session has ended, a denial that was lifted.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub over: bool,
}

/// How a request stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
pub enum Status {
    /// The person closed it without an answer.
    Cancelled,
    /// It was refused, in so many words.
    Denied,
    /// Nobody answered in time.
    Expired,
    /// It was accepted and could not be carried out.
    Failed {
        /// Why it could not.
        #[serde(with = "asked::code_word")]
        code: Code,
    },
    /// The value was given, or the proposal accepted.
    Ok,
    /// One use was allowed.
    Once,
    /// The request waits for an answer.
    Pending,
    /// Uses were allowed for the rest of the session.
    Session,
}

/// What a person made of a request, beyond yes and no.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Outcome {
    /// The proposed fields that were taken over.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub applied_fields: Option<Vec<Field>>,
    /// The name that a new path got.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub final_path: Option<SecretPath>,
}

/// A person's answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    /// One use.
    AllowOnce,
    /// Every use until the session ends.
    AllowSession,
    /// None of it.
    Cancel,
    /// No, and don't ask the same again soon.
    Deny,
    /// Accepted, but it could not be carried out.
    Fail(Code),
    /// Done, and this is what came of it.
    Fulfil(Outcome),
}

impl Request {
    /// A request that was made at `now`. `life` narrows [`REQUEST_LIFE`].
    pub fn new(
        full_id: FullRequestId,
        path: Option<SecretPath>,
        asked: Asked,
        session: &str,
        life: Option<SignedDuration>,
        now: Timestamp,
    ) -> Self {
        let life = life.map_or(REQUEST_LIFE, |life| life.min(REQUEST_LIFE));
        let expires_at = now.checked_add(life).unwrap_or(now);
        let (id, full_id, session) = (full_id.name(), Some(full_id), session.to_owned());
        Self { id, full_id, path, asked, session, created_at: now, expires_at, settled: None }
    }

    /// This request, expiring `life` after `now`; `None` where it already expires by then.
    #[must_use]
    pub fn narrowed(&self, life: SignedDuration, now: Timestamp) -> Option<Self> {
        let expires_at = now.checked_add(life).ok()?;
        (expires_at < self.expires_at).then(|| Self { expires_at, ..self.clone() })
    }

    /// How it stands at `now`. A clock that was put back behind the request ends it as well.
    pub fn status(&self, now: Timestamp) -> Status {
        match &self.settled {
            Some(settled) => settled.status,
            None if now >= self.expires_at || is_before(now, self.created_at) => Status::Expired,
            None => Status::Pending,
        }
    }

    /// This request with its answer. [`Code::RequestSettled`] when it has one already or has expired,
    /// [`Code::AnswerUnfit`] when the answer does not fit what is asked.
    pub fn settle(&self, decision: Decision, now: Timestamp) -> Result<Self, Error> {
        if self.status(now) != Status::Pending {
            let words = SafeText::default().and(&self.id).and(" is ");
            return Err(Error::with(Code::RequestSettled, words.and(self.status(now).as_str())));
        }
        let is_use = self.asked.kind() == RequestKind::UseApproval;
        let (status, outcome, life) = match (decision, self.asked.is_permission()) {
            (Decision::AllowOnce, true) => (Status::Once, Outcome::default(), Some(ONCE_LIFE)),
            (Decision::AllowSession, true) if is_use => {
                (Status::Session, Outcome::default(), Some(SESSION_LIFE))
            }
            (Decision::Deny, _) => (Status::Denied, Outcome::default(), None),
            (Decision::Cancel, false) => (Status::Cancelled, Outcome::default(), None),
            (Decision::Fulfil(outcome), false) => (Status::Ok, outcome, None),
            (Decision::Fail(code), _) => (Status::Failed { code }, Outcome::default(), None),
            (_, _) => {
                let words = SafeText::words("that is no answer to a request of kind ");
                return Err(Error::with(Code::AnswerUnfit, words.and(self.asked.kind())));
            }
        };
        let holds_until = life.and_then(|life| now.checked_add(life).ok());
        let settled = Some(Settled { at: now, status, outcome, holds_until, over: false });
        Ok(Self { settled, ..self.clone() })
    }

    /// Whether it allows a use at `now`.
    pub fn allows_use(&self, now: Timestamp) -> bool {
        let Some(Settled { status, holds_until: Some(until), at, over: false, .. }) = &self.settled
        else {
            return false;
        };
        let given = matches!(status, Status::Once | Status::Session);
        given && now < *until && !is_before(now, *at)
    }

    /// This request without further effect; its status stays what the person said.
    #[must_use]
    pub fn over(&self) -> Self {
        let mut over = self.clone();
        if let Some(settled) = &mut over.settled {
            settled.over = true;
        }
        over
    }

    /// This request once the session that asked is gone: if it waits it has expired, and what was allowed is over.
    #[must_use]
    pub fn abandoned(&self, now: Timestamp) -> Self {
        if self.status(now) != Status::Pending {
            return self.over();
        }
        let (status, outcome) = (Status::Expired, Outcome::default());
        let settled = Some(Settled { at: now, status, outcome, holds_until: None, over: true });
        Self { settled, ..self.clone() }
    }

    /// Whether it is a denial that still counts at `now`. What was only closed is none: the agent asks its user, who may want
    /// it tried again.
    pub fn denies(&self, now: Timestamp) -> bool {
        self.settled.as_ref().is_some_and(|settled| {
            let over = settled.at.checked_add(COOL_DOWN).is_ok_and(|over| now >= over);
            settled.status == Status::Denied && !settled.over && !over
        })
    }

    /// Seconds since it was made; 0 when the clock went back.
    pub fn age_seconds(&self, now: Timestamp) -> u64 {
        u64::try_from(now.duration_since(self.created_at).as_secs()).unwrap_or(0)
    }
}

impl Status {
    /// The word in answers.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Cancelled => "cancelled",
            Self::Denied => "denied",
            Self::Expired => "expired",
            Self::Failed { .. } => "failed",
            Self::Ok => "ok",
            Self::Once => "once",
            Self::Pending => "pending",
            Self::Session => "session",
        }
    }
}

fn is_before(now: Timestamp, then: Timestamp) -> bool {
    then.duration_since(now) > CLOCK_SLACK
}
