//! Holds a use of a secret until a person has allowed it.
//!
//! Both doors that open values ask here: a secret whose owner said `session` or `per-call`, and a
//! request outside a secret's rules that says `ask`. What was allowed before counts; else the use
//! waits for its answer, and whoever waits for the same thing waits for the same answer. An action that a grant
//! leaves to a person, and a deploy, are asked about in the same way, by who does not wait.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use jiff::Timestamp;
use keyless_core::{
    ApproveOnUse, Code, Error, SafeText, SecretPath,
    approval::{Asked, Request, RequestId, Status},
};

use crate::requests::{Joined, Requests, about, denied};

/// A use on its way through the gate.
pub(crate) type Passing<'a> = BoxFuture<'a, Result<Option<RequestId>, Error>>;

/// The gate that is asked whether a use may go on. Object-safe.
pub(crate) trait UseGate: Send + Sync + 'static {
    /// Returns when the use may go on, which may take minutes, with the approval that it rests on, if it
    /// needs one. Fails with [`Code::ApprovalDenied`], or with [`Code::ApprovalRequired`] when nobody answered.
    /// Who leaves meanwhile takes the question along, unless somebody else waits for its answer too.
    fn pass(self: Arc<Self>, wanted: WantedUse<'_>) -> Passing<'_>;

    /// Changes whenever an approval was taken back or used up.
    fn taken_back(&self) -> u64;

    /// Ends what was approved for the session.
    fn end_session<'a>(&'a self, session: &'a str) -> BoxFuture<'a, Result<(), Error>>;
}

/// A use that a person has to allow.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WantedUse<'a> {
    /// The session that wants it.
    pub(crate) session: &'a str,
    /// The secret that is to be used.
    pub(crate) path: &'a SecretPath,
    /// How often a person is asked; with [`ApproveOnUse::Never`] nobody is.
    pub(crate) policy: ApproveOnUse,
    /// What the use is for, as the person will read it.
    pub(crate) reason: &'a SafeText,
    /// The one thing that is to be allowed, such as `DELETE api.github.com/repos/a/b`; `None` asks for
    /// the secret as such.
    pub(crate) deed: Option<&'a str>,
    /// The use in full, however long, where `reason` may be short of it.
    pub(crate) occasion: &'a str,
}

/// A permission that is asked for by somebody who does not wait.
pub(crate) struct Question<'a> {
    /// The session that asks.
    pub(crate) session: &'a str,
    /// The secret that it is about, if it is about one.
    pub(crate) path: Option<&'a SecretPath>,
    /// What is asked.
    pub(crate) asked: Asked,
}

/// How a use stands before anybody is asked.
enum Standing {
    /// For the whole session.
    Allowed(RequestId),
    Denied(Request),
    /// Allowed once; to be used up.
    Once(Request),
    /// Asked already.
    Pending(Request),
    Unasked,
}

/// How a use stands, for somebody who does not wait.
pub(crate) enum Stand {
    /// It may go on; a word that was good once is used up.
    Passed,
    /// A person is asked.
    Waits(Box<Request>),
}

impl Requests {
    /// The word for the whole session by which a use may go on, if there is one.
    pub(crate) async fn allowed_for_session(
        &self,
        question: Question<'_>,
    ) -> Result<Option<RequestId>, Error> {
        match question.standing(&self.all().await?, ApproveOnUse::Session) {
            Standing::Allowed(id) => Ok(Some(id)),
            Standing::Denied(_) | Standing::Once(_) | Standing::Pending(_) | Standing::Unasked => {
                Ok(None)
            }
        }
    }

    /// As [`UseGate::pass`], without waiting for an answer; one that was given counts once.
    pub(crate) async fn stand(&self, question: Question<'_>) -> Result<Stand, Error> {
        loop {
            match question.standing(&self.all().await?, ApproveOnUse::PerCall) {
                Standing::Allowed(_) => return Ok(Stand::Passed),
                Standing::Denied(request) => return Err(denied(&request)),
                Standing::Once(request) if self.spend(&request).await? => return Ok(Stand::Passed),
                Standing::Once(_) => {}
                Standing::Pending(request) => return Ok(Stand::Waits(request.into())),
                Standing::Unasked => {
                    let Question { session, path, asked } = question;
                    return Ok(Stand::Waits(self.ask(session, path, asked, None).await?.into()));
                }
            }
        }
    }
}

impl UseGate for Requests {
    fn pass(self: Arc<Self>, wanted: WantedUse<'_>) -> Passing<'_> {
        Box::pin(async move {
            if wanted.policy == ApproveOnUse::Never {
                return Ok(None);
            }
            let question = wanted.question();
            loop {
                let (pending, waiter) = match question.standing(&self.all().await?, wanted.policy) {
                    Standing::Allowed(id) => return Ok(Some(id)),
                    Standing::Denied(request) => return Err(denied(&request)),
                    Standing::Once(request) if self.spend(&request).await? => {
                        return Ok(Some(request.id));
                    }
                    Standing::Once(_) => continue,
                    Standing::Pending(request) => match self.join(&request.id) {
                        Joined::Withdrawn => {
                            // Whoever waited has just left: it is about to be over.
                            self.settled(&request.id).await?;
                            continue;
                        }
                        Joined::Waits(waiter) => (request, Some(waiter)),
                        Joined::AskedAhead => (request, None),
                    },
                    Standing::Unasked => {
                        let (request, waiter) = self.ask_held(&wanted, &question.asked).await?;
                        (request, Some(waiter))
                    }
                };
                let answered = self.settled(&pending.id).await?;
                match answered.status(Timestamp::now()) {
                    Status::Session => return Ok(Some(answered.id)),
                    // Used up while it is still held, by the use that was shown: who leaves now leaves no word behind.
                    Status::Once
                        if answered.asked.is_good_once_for(&question.asked)
                            && self.spend(&answered).await? =>
                    {
                        return Ok(Some(answered.id));
                    }
                    Status::Once => drop(waiter),
                    Status::Denied => return Err(denied(&answered)),
                    _ => return Err(nobody_answered(&answered)),
                }
            }
        })
    }

    fn taken_back(&self) -> u64 {
        Requests::taken_back(self)
    }

    fn end_session<'a>(&'a self, session: &'a str) -> BoxFuture<'a, Result<(), Error>> {
        Box::pin(Requests::end_session(self, session))
    }
}

impl Question<'_> {
    fn standing(&self, requests: &[Request], policy: ApproveOnUse) -> Standing {
        let now = Timestamp::now();
        let about = |request: &&Request| {
            request.path.as_ref() == self.path && request.asked.is_same_permission(&self.asked)
        };
        // A no counts whoever asks and however far it would go; a yes, as it was shown.
        let ours = |request: &&Request| {
            about(request)
                && request.session == self.session
                && request.asked.is_good_for(&self.asked)
        };
        let status = |wanted: Status| {
            move |request: &&Request| {
                request.status(now) == wanted
                    && (wanted == Status::Pending || request.allows_use(now))
            }
        };
        let is_shown = |request: &&Request| request.asked.is_good_once_for(&self.asked);
        let once = requests.iter().filter(ours).filter(is_shown).find(status(Status::Once));
        // A word for the session, which may come of any of them, is waited for once.
        let waits = |request: &&Request| policy == ApproveOnUse::Session || is_shown(request);
        let pending = requests.iter().filter(ours).filter(waits).find(status(Status::Pending));
        if let Some(request) = requests.iter().filter(about).find(|request| request.denies(now)) {
            return Standing::Denied(request.clone());
        }
        if let (ApproveOnUse::Session, Some(request)) =
            (policy, requests.iter().filter(ours).find(status(Status::Session)))
        {
            return Standing::Allowed(request.id.clone());
        }
        match (once, pending) {
            (Some(once), _) => Standing::Once(once.clone()),
            (None, Some(pending)) => Standing::Pending(pending.clone()),
            (None, None) => Standing::Unasked,
        }
    }
}

impl<'a> WantedUse<'a> {
    fn question(&self) -> Question<'a> {
        let asked = Asked::UseApproval {
            reason: self.reason.as_str().to_owned(),
            deed: self.deed.map(ToOwned::to_owned),
            // One deed is one question, whatever the secret's own policy is.
            per_call: self.deed.is_none() && self.policy == ApproveOnUse::PerCall,
            occasion: self.deed.is_none().then(|| Asked::occasion_of(self.occasion)),
        };
        Question { session: self.session, path: Some(self.path), asked }
    }
}

/// The gate where no person can be reached: a fleet's proxy, a session without secrets.
pub(crate) struct NobodyToAsk;

impl UseGate for NobodyToAsk {
    fn pass(self: Arc<Self>, wanted: WantedUse<'_>) -> Passing<'_> {
        Box::pin(async move {
            if wanted.policy == ApproveOnUse::Never {
                return Ok(None);
            }
            let words = SafeText::default().and(wanted.path);
            Err(match wanted.deed {
                // No rule of its own: a preset's. It is no use to try again, or to look for a person.
                Some(_) => {
                    let why = ": a person would have to be asked, and nobody can be asked here";
                    Error::with(Code::RuleDenied, words.and(why))
                }
                None => {
                    Error::with(Code::ApprovalRequired, words.and(": nobody can be asked here"))
                }
            })
        })
    }

    fn taken_back(&self) -> u64 {
        0
    }

    fn end_session<'a>(&'a self, _: &'a str) -> BoxFuture<'a, Result<(), Error>> {
        Box::pin(async { Ok(()) })
    }
}

/// The note of an entry about a use that persons have allowed: the entries about their words have these names.
pub(crate) fn approved_by<'a>(
    approvals: impl IntoIterator<Item = Option<&'a RequestId>>,
) -> Option<String> {
    let named = approvals.into_iter().flatten().map(|id| format!("approval {id}"));
    let words = named.collect::<Vec<_>>().join("; ");
    (!words.is_empty()).then_some(words)
}

fn nobody_answered(request: &Request) -> Error {
    let words = about(request).and(": ").and(&request.id).and(" was not answered in time");
    Error::with(Code::ApprovalRequired, words)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use keyless_core::approval::Decision;
    use tokio::{task::JoinHandle, time::timeout};

    use super::*;
    use crate::scene::Scene;

    /// For what is not to happen.
    const PATIENCE: Duration = Duration::from_millis(200);
    /// For what is to.
    const LONG: Duration = Duration::from_secs(20);

    /// A use on its way, whose client leaves when this is aborted.
    fn held(
        requests: &Arc<Requests>,
        occasion: &str,
        policy: ApproveOnUse,
    ) -> JoinHandle<Result<Option<RequestId>, Error>> {
        let (requests, occasion) = (Arc::clone(requests), occasion.to_owned());
        tokio::spawn(async move {
            let path = SecretPath::parse("team/a/key").unwrap();
            let reason = SafeText::words("to send it");
            let (session, path, reason) = ("s-1", &path, &reason);
            let occasion = occasion.as_str();
            let wanted = WantedUse { session, path, policy, reason, deed: None, occasion };
            requests.pass(wanted).await
        })
    }

    async fn passes(requests: &Arc<Requests>, occasion: &str, policy: ApproveOnUse) -> bool {
        let mut held = held(requests, occasion, policy);
        let passed = timeout(PATIENCE, &mut held).await;
        held.abort();
        passed.is_ok_and(|passed| passed.unwrap().is_ok())
    }

    async fn pending(requests: &Requests) -> Vec<Request> {
        let (all, now) = (requests.all().await.unwrap(), Timestamp::now());
        all.into_iter().filter(|request| request.status(now) == Status::Pending).collect()
    }

    /// The questions, once there are as many.
    async fn asked(requests: &Requests, questions: usize) -> Vec<Request> {
        let asking = async {
            loop {
                let pending = pending(requests).await;
                if pending.len() == questions {
                    return pending;
                }
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        timeout(LONG, asking).await.unwrap()
    }

    /// Returns once so many wait for the answer.
    async fn waiting(requests: &Requests, id: &RequestId, count: usize) {
        let joining = async {
            while requests.holders(id) != Some(count) {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        timeout(LONG, joining).await.unwrap();
    }

    #[tokio::test]
    async fn a_word_for_once_is_for_the_use_that_was_shown() {
        for policy in [ApproveOnUse::PerCall, ApproveOnUse::Session] {
            let scene = Scene::new().await;
            let requests = Arc::new(Requests::new(&scene.vault, scene.log.clone()));
            let harmless = held(&requests, "GET a/harmless", policy);
            let shown = asked(&requests, 1).await.remove(0);
            let danger = held(&requests, "DELETE b/danger", policy);
            match policy {
                ApproveOnUse::Session => waiting(&requests, &shown.id, 2).await,
                _ => drop(asked(&requests, 2).await),
            }
            requests.settle(&shown.id, Decision::AllowOnce).await.unwrap();
            assert_eq!(harmless.await.unwrap().unwrap(), Some(shown.id), "{policy:?}");
            assert!(!danger.is_finished(), "{policy:?}");
            assert!(!passes(&requests, "GET a/harmless", policy).await, "{policy:?}: once");
        }
    }

    #[tokio::test]
    async fn different_uses_are_different_questions_unless_the_session_may_be_allowed() {
        for (policy, questions) in [(ApproveOnUse::PerCall, 2), (ApproveOnUse::Session, 1)] {
            let scene = Scene::new().await;
            let requests = Arc::new(Requests::new(&scene.vault, scene.log.clone()));
            held(&requests, "GET a", policy);
            let first = asked(&requests, 1).await.remove(0);
            for occasion in ["GET b", "GET a"] {
                held(&requests, occasion, policy);
            }
            waiting(&requests, &first.id, 4 - questions).await;
            asked(&requests, questions).await;
        }
    }

    /// Nobody is there any more to whom it would matter, and the next who asks the same has not been seen.
    #[tokio::test]
    async fn who_leaves_takes_the_question_along_and_a_late_word_with_it() {
        for policy in [ApproveOnUse::PerCall, ApproveOnUse::Session] {
            let scene = Scene::new().await;
            let requests = Arc::new(Requests::new(&scene.vault, scene.log.clone()));
            let (one, two) = (held(&requests, "GET a", policy), held(&requests, "GET a", policy));
            let shown = asked(&requests, 1).await.remove(0);
            waiting(&requests, &shown.id, 2).await;
            one.abort();
            waiting(&requests, &shown.id, 1).await;
            assert_eq!(asked(&requests, 1).await[0].id, shown.id, "the other still waits");
            two.abort();
            asked(&requests, 0).await;
            // As another process answers, which knows no more than the store.
            let operator = Requests::new(&scene.vault, scene.log.clone());
            let late = operator.pending(&shown.id).await.unwrap_err();
            assert_eq!(late.code(), Code::RequestSettled);
            let words = late.detail().as_str();
            assert!(words.contains(" is expired: nobody waits for it since "), "{words}");
            let late = operator.settle(&shown.id, Decision::AllowOnce).await.unwrap_err();
            assert_eq!(late.code(), Code::RequestSettled);
            assert!(!passes(&requests, "GET a", policy).await, "{policy:?}");
        }
    }

    /// A fleet's preset may say to ask; whoever sends that is told that it is of no use.
    #[tokio::test]
    async fn where_nobody_can_be_asked_a_rule_that_asks_denies() {
        let path = SecretPath::parse("fleet/a/key").unwrap();
        let (policy, reason) = (ApproveOnUse::PerCall, SafeText::words("to send it"));
        let (deed, occasion) = (Some("DELETE a"), "DELETE a");
        let wanted =
            WantedUse { session: "s-1", path: &path, policy, reason: &reason, deed, occasion };
        let refused = Arc::new(NobodyToAsk).pass(wanted).await.unwrap_err();
        assert!(refused.code() == Code::RuleDenied && !refused.code().remediation().retryable);
    }

    /// What a session asks ahead, by its tools, is about no use in particular.
    #[tokio::test]
    async fn what_was_asked_ahead_is_good_for_the_next_use() {
        let scene = Scene::new().await;
        let requests = Arc::new(Requests::new(&scene.vault, scene.log.clone()));
        let path = SecretPath::parse("team/a/key").unwrap();
        let ahead = Asked::use_approval("to look".to_owned());
        let request = requests.ask("s-1", Some(&path), ahead, None).await.unwrap();
        requests.settle(&request.id, Decision::AllowOnce).await.unwrap();
        let passed = timeout(LONG, held(&requests, "GET a", ApproveOnUse::PerCall)).await;
        assert_eq!(passed.unwrap().unwrap().unwrap(), Some(request.id));
    }
}
