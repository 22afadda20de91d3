//! One session's broker: verdicts in, values out, everything written down first.
//!
//! A secret's first use toward an authority is durable in the log before its value is opened. The
//! permit lives for seconds; uses within it are written down when their request is over, in
//! one entry that has everything about it, and a log that can't be written stops them all. So a
//! kept-alive request costs no disk write, a rotated value is taken up within seconds, and no first
//! use is ever missing from the log.
//! A secret whose owner wants to be asked passes the [`UseGate`] first: at every request, or once in a
//! while of a permit's life; an approval that is taken back ends all permits at once, and so does a store that is locked.

mod deciding;
mod leases;
mod outgoing;
mod under_way;

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use futures_util::future::{BoxFuture, try_join_all};
use jiff::Timestamp;
use keyless_core::{
    Allowed, ApproveOnUse, Authority, Code, Consent, Error, Held, SafeText, SecretPath,
    SecretValue,
    audit::{Action, Agent, Detail, Draft, Outcome, Target},
};
use keyless_egress::{
    Broker, Event, Finished, Incident, Kept, Minted, Recording, Released, RequestInfo,
};
use keyless_store::AuditLog;
use tokio::time::{sleep, timeout};
use uuid::Uuid;

use self::{
    deciding::deciding_setting,
    leases::{Epoch, Lease, Leases},
    under_way::{UnderWay, note_once, redacted_count, redacted_forms},
};
pub(crate) use self::{outgoing::Outgoing, under_way::milliseconds};
use crate::{
    approvals::{NobodyToAsk, UseGate, WantedUse, approved_by},
    caution::Caution,
    minted::MintedTokens,
    permits::{PermitLife, permit, uptime},
    telemetry::Telemetry,
    values::Values,
};

/// The longest path, in bytes, that a person is asked about: a longer one could not be judged.
const MAX_SHOWN_PATH: usize = 200;

/// For how long a process that ends tries to write what the store or the log is owed.
pub(crate) const LAST_TRIES: Duration = Duration::from_secs(5);

/// How soon it is tried again.
const AGAIN: Duration = Duration::from_millis(100);

/// Writes what nobody will try again once this process has ended: tries it for [`LAST_TRIES`], all in all. A try that is
/// under way then, held up by another process, is not waited for.
pub(crate) async fn at_last<T: Future<Output = Result<(), Error>>>(
    write: impl Fn() -> T,
) -> Result<(), Error> {
    let words = SafeText::words("another process keeps it locked; retry");
    let mut last = Error::with(Code::StoreUnusable, words);
    let tries = async {
        while let Err(error) = write().await {
            last = error;
            sleep(AGAIN).await;
        }
    };
    let written = timeout(LAST_TRIES, tries).await;
    written.map_err(|_| last)
}

/// One session's way to values and to the log.
pub(crate) struct SessionBroker {
    values: Arc<dyn Values>,
    log: AuditLog,
    agent: Arc<Agent>,
    gate: Arc<dyn UseGate>,
    caution: Caution,
    leases: Leases,
    minted: MintedTokens,
    under_way: UnderWay,
    telemetry: Option<Telemetry>,
    outgoing: Option<Arc<Outgoing>>,
}

/// A value that may be used, which is not on record yet.
struct Fetched {
    value: SecretValue,
    policy: ApproveOnUse,
    /// Before its use was allowed.
    epoch: Epoch,
}

impl SessionBroker {
    pub(crate) fn new(values: Arc<dyn Values>, log: AuditLog, agent: Agent) -> Self {
        let (agent, gate) = (Arc::new(agent), Arc::new(NobodyToAsk));
        let (leases, minted) = (Leases::default(), MintedTokens::default());
        let under_way = UnderWay::default();
        let (caution, telemetry, outgoing) = (Caution::default(), None, None);
        Self { values, log, agent, gate, caution, leases, minted, under_way, telemetry, outgoing }
    }

    /// Keeps what it releases there as well.
    pub(crate) fn noting(self, outgoing: Arc<Outgoing>) -> Self {
        Self { outgoing: Some(outgoing), ..self }
    }

    /// Tells these as well.
    pub(crate) fn observed_by(self, telemetry: Telemetry) -> Self {
        Self { telemetry: Some(telemetry), ..self }
    }

    /// With a person who can be asked, as often as `caution` says where that is more often.
    pub(crate) fn asking(self, gate: Arc<dyn UseGate>, caution: Caution) -> Self {
        Self { gate, caution, ..self }
    }

    /// Ends what a person has allowed this session.
    pub(crate) async fn end_approvals(&self) -> Result<(), Error> {
        self.gate.end_session(&self.agent.session_id).await
    }

    /// As [`Self::end_approvals`], for a process that is about to end: tried as [`at_last`] does.
    pub(crate) async fn end_approvals_at_last(&self) -> Result<(), Error> {
        at_last(|| self.end_approvals()).await
    }

    /// Records that the session begins, or has other secrets now, durably.
    pub(crate) async fn record_life(
        &self,
        action: Action,
        secrets: Vec<SecretPath>,
    ) -> Result<(), Error> {
        self.log.append(self.life(action, secrets)).await.map(drop)
    }

    /// Leaves to the log that the session begins, or has other secrets now: in the order of these calls.
    pub(crate) fn leave_life(&self, action: Action, secrets: Vec<SecretPath>) {
        self.log.owe(self.life(action, secrets));
    }

    /// Leaves to the log that the session is over. What can't be written now is written once it can be, as long as this
    /// process lives.
    pub(crate) fn leave_end(&self) {
        self.leave_life(Action::SessionEnd, Vec::new());
    }

    /// As [`Self::leave_end`], but durably: fails where the log can't be written now.
    pub(crate) async fn record_end(&self) -> Result<(), Error> {
        self.leave_end();
        self.log.flush().await
    }

    /// Has written what the log is still owed, before this process ends.
    pub(crate) async fn pay(&self) -> Result<(), Error> {
        self.log.flush_within(LAST_TRIES).await
    }

    /// Resolves once no value is being fetched whose loss would cost more than another try.
    pub(crate) async fn settle(&self) {
        self.values.settle().await;
    }

    /// The next use of `path` fetches its value anew.
    pub(crate) fn forget(&self, path: &SecretPath) {
        self.leases.forget(|leased| leased == path);
    }

    /// The next use of anything fetches its value anew.
    pub(crate) fn forget_all(&self) {
        self.leases.forget(|_| true);
    }

    /// Releases what no lease is left for. A person may take minutes over one value, while a permit
    /// lasts for seconds: so all are allowed and fetched before any is written down and released.
    async fn release_all(
        &self,
        request: &RequestInfo,
        uses: Vec<Allowed>,
    ) -> Result<Vec<Arc<Released>>, Error> {
        let lease =
            |allowed: &Allowed, epoch| self.lease(allowed.path(), &request.authority, epoch);
        if let [_, _, ..] = &uses[..] {
            let epoch = self.epoch();
            for allowed in uses.iter().filter(|allowed| lease(allowed, epoch).is_none()) {
                let policy = self.policy(allowed.path()).await?;
                self.pass_gate(request, allowed.path(), policy).await?;
            }
        }
        let mut fetched: Vec<Option<Fetched>> = uses.iter().map(|_| None).collect();
        // Fetching may take a while too, and a lease end meanwhile. Of values that change together it is all old ones or
        // all new ones.
        let leased = loop {
            let epoch = self.epoch();
            let leased: Vec<_> = uses.iter().map(|allowed| lease(allowed, epoch)).collect();
            let is_lacking = |at: &usize| match &fetched[*at] {
                Some(fetched) => fetched.epoch.closings != epoch.closings,
                None => leased[*at].is_none(),
            };
            let Some(at) = (0..uses.len()).find(is_lacking) else { break leased };
            let before = fetched[at].take();
            let mut anew = self.fetch(request, uses[at].path()).await?;
            if let Some(before) = before {
                // A word for once was used up by the first try.
                anew.epoch.taken_back = before.epoch.taken_back;
            }
            fetched[at] = Some(anew);
        };
        let all = uses.into_iter().zip(fetched).zip(leased).enumerate();
        let released = all.map(async |(at, ((allowed, fetched), leased))| match fetched {
            Some(fetched) => {
                self.record_use(request, allowed, request.rules.get(at), fetched).await
            }
            None => leased.ok_or_else(|| Code::Internal.into()),
        });
        try_join_all(released).await
    }

    /// The value, once its use is allowed.
    async fn fetch(&self, request: &RequestInfo, path: &SecretPath) -> Result<Fetched, Error> {
        let epoch = self.epoch();
        let policy = self.policy(path).await?;
        self.pass_gate(request, path, policy).await?;
        let value = match self.minted.open(path) {
            Some(minted) => minted?,
            None => self.values.open(path).await?,
        };
        Ok(Fetched { value, policy, epoch })
    }

    /// Writes a use down, and gives its value for as long as a permit lasts.
    async fn record_use(
        &self,
        request: &RequestInfo,
        allowed: Allowed,
        rule: Option<&String>,
        Fetched { value, policy, epoch }: Fetched,
    ) -> Result<Arc<Released>, Error> {
        let path = allowed.path().clone();
        let mut draft = self.use_of(request, vec![path.clone()], rule);
        let own = self.under_way.approval(request, &path);
        draft.detail.note = approved_by([allowed.approval(), own.as_ref()]);
        draft.allowed = Some(allowed);
        let permit = permit(&self.log, draft, PermitLife::AtOnce).await?;
        let until = permit.until();
        let released = Arc::new(Released::new(value, permit, uptime));
        if let Some(outgoing) = &self.outgoing {
            let is_minted = self.minted.parent_of(&path).is_some();
            outgoing.note(&path, released.open_toward(&request.authority)?, is_minted);
        }
        if policy != ApproveOnUse::PerCall {
            let lease = Lease::new(Arc::clone(&released), until, epoch);
            self.leases.put(path, request.authority.clone(), lease, uptime());
        }
        Ok(released)
    }

    /// When a person is asked about a secret. Fails where its value may not be used now at all: the
    /// vault is locked, say, or others know the value.
    pub(crate) async fn policy(&self, path: &SecretPath) -> Result<ApproveOnUse, Error> {
        match self.minted.parent_of(path) {
            // Its parent's owner was asked before it was minted; what ends the parent's use ends its own.
            Some(parent) => self.values.policy(&parent).await.map(|_| ApproveOnUse::Never),
            None => Ok(self.caution.tighten(path, self.values.policy(path).await?)),
        }
    }

    /// Returns once a person has allowed the use, where its owner wants to be asked.
    async fn pass_gate(
        &self,
        request: &RequestInfo,
        path: &SecretPath,
        policy: ApproveOnUse,
    ) -> Result<(), Error> {
        // Its head and body are one use.
        let is_asked_about = policy != ApproveOnUse::Never;
        if !is_asked_about || self.under_way.approval(request, path).is_some() {
            return Ok(());
        }
        let reason = SafeText::words("to send it with ").as_they_wrote(&request.method).and(" to ");
        let reason = reason.and(&request.authority).as_they_wrote(&request.path);
        let session = &self.agent.session_id;
        let occasion = format!("{} {} {}", request.method, request.authority, request.path);
        let occasion = occasion.as_str();
        let wanted = WantedUse { session, path, policy, reason: &reason, deed: None, occasion };
        let passed =
            Arc::clone(&self.gate).pass(wanted).await.map_err(|error| error.about(path))?;
        if let Some(approval) = passed {
            self.under_way.note_approved(request, path, approval);
        }
        Ok(())
    }

    /// The value released earlier, if its permit still has some time.
    fn lease(
        &self,
        path: &SecretPath,
        authority: &Authority,
        epoch: Epoch,
    ) -> Option<Arc<Released>> {
        self.leases.value(path, authority, uptime(), epoch)
    }

    fn epoch(&self) -> Epoch {
        Epoch { taken_back: self.gate.taken_back(), closings: self.values.closings() }
    }

    fn use_of(
        &self,
        request: &RequestInfo,
        secrets: Vec<SecretPath>,
        rule: Option<&String>,
    ) -> Draft {
        let target = Target::Authority(request.authority.clone());
        let correlation_id = request.correlation_id.clone();
        let mut draft = self.draft(Action::Egress, Outcome::Success, target, correlation_id);
        draft.detail = Detail {
            method: Some(request.method.clone()),
            path: Some(request.path.clone()),
            locations: request.locations.clone(),
            rule: rule.cloned(),
            swaps: Some(secrets.len() as u64),
            kind: Some("released".to_owned()),
            ..Detail::default()
        };
        draft.secrets_used = secrets;
        draft
    }

    fn life(&self, action: Action, secrets: Vec<SecretPath>) -> Draft {
        let target = if secrets.is_empty() { Target::Session } else { Target::Secrets(secrets) };
        let correlation_id = format!("req-{}", Uuid::now_v7());
        self.draft(action, Outcome::Success, target, correlation_id)
    }

    fn draft(
        &self,
        action: Action,
        outcome: Outcome,
        target: Target,
        correlation_id: String,
    ) -> Draft {
        Draft::new(
            Timestamp::now(),
            Arc::clone(&self.agent),
            action,
            outcome,
            target,
            correlation_id,
        )
    }
}

impl SessionBroker {
    /// That a server has sent values back, and they were taken out. It is the server's doing: no agent's score changes by it.
    fn value_in_output(&self, incident: Incident) -> Draft {
        let Incident { correlation_id, authority, request, redacted } = incident;
        let mut secrets: Vec<SecretPath> = Vec::new();
        for one in &redacted {
            note_once(&mut secrets, &one.secret);
        }
        let target = Target::Secrets(secrets);
        let draft = self.draft(Action::Incident, Outcome::Blocked, target, correlation_id);
        let (method, path) = request.unzip();
        let detail = Detail {
            authority: authority.as_ref().map(ToString::to_string),
            kind: Some("value_in_output".to_owned()),
            method,
            note: redacted_forms(&redacted),
            path,
            redacted_count: Some(redacted_count(&redacted)),
            ..Detail::default()
        };
        Draft { detail, ..draft }
    }
}

impl Broker for SessionBroker {
    fn release<'a>(
        &'a self,
        request: &'a RequestInfo,
        uses: Vec<Allowed>,
    ) -> BoxFuture<'a, Result<Vec<Arc<Released>>, Error>> {
        Box::pin(async move {
            self.log.check()?;
            let secrets: Vec<_> = uses.iter().map(|allowed| allowed.path().clone()).collect();
            let epoch = self.epoch();
            let leased = secrets.iter().map(|path| self.lease(path, &request.authority, epoch));
            let all = match leased.collect::<Option<Vec<_>>>() {
                Some(leased) => leased,
                None => Box::pin(self.release_all(request, uses)).await?,
            };
            if let Some(telemetry) = &self.telemetry {
                telemetry.metrics.used(all.len());
            }
            self.under_way.note(request, &secrets);
            Ok(all)
        })
    }

    fn ask<'a>(
        &'a self,
        request: &'a RequestInfo,
        held: &'a Held,
    ) -> BoxFuture<'a, Result<Consent, Error>> {
        Box::pin(async move {
            if request.path.len() > MAX_SHOWN_PATH {
                let words = "a person would have to judge it, and its path is too long to be shown";
                return Err(
                    Error::with(Code::RuleDenied, SafeText::words(words)).about(held.path())
                );
            }
            let deed = SafeText::default().as_they_wrote(&request.method).and(" ");
            let deed = deed.and(&request.authority).as_they_wrote(&request.path);
            let reason = SafeText::words("the secret's rules say to ask about this request");
            let wanted = WantedUse {
                session: &self.agent.session_id,
                path: held.path(),
                policy: ApproveOnUse::PerCall,
                reason: &reason,
                deed: Some(deed.as_str()),
                occasion: deed.as_str(),
            };
            let passed = Arc::clone(&self.gate)
                .pass(wanted)
                .await
                .map_err(|error| error.about(held.path()))?;
            let approval = passed.ok_or(Code::Internal)?;
            Ok(Consent::to(held, approval))
        })
    }

    fn keep(&self, minted: Minted) -> Result<(Kept, Recording<'_>), Error> {
        let used = self.under_way.used_one(&minted.correlation_id, &minted.parents);
        let parent = used.or_else(|| minted.parents.first().cloned()).ok_or(Code::Internal)?;
        let kept = self.minted.keep(&parent, &minted)?;
        // The token that made room is not to be had any more.
        self.leases.forget(|leased| self.minted.has_dropped(leased));
        let target = Target::Secrets(vec![kept.path().clone()]);
        let correlation_id = minted.correlation_id;
        let mut draft = self.draft(Action::Create, Outcome::Success, target, correlation_id);
        draft.detail.authority = Some(minted.authority.to_string());
        draft.detail.kind = Some("minted".to_owned());
        let recording = async move { self.log.append(draft).await.map(drop) };
        Ok((kept, Box::pin(recording)))
    }

    fn renew<'a>(
        &'a self,
        secrets: Vec<SecretPath>,
        authority: &'a Authority,
        since: Instant,
    ) -> BoxFuture<'a, bool> {
        Box::pin(async move {
            let mut renewed = false;
            for path in secrets {
                let was_used = self.leases.has(&path, authority);
                if was_used && self.values.expire(&path, since).await {
                    self.leases.remove(&path, authority);
                    renewed = true;
                }
            }
            renewed
        })
    }

    fn check(&self) -> Result<(), Error> {
        self.log.check()
    }

    fn record(&self, event: Event) -> Result<(), Error> {
        self.log.check()?;
        if let Some(telemetry) = &self.telemetry {
            telemetry.refused(&self.agent.session_id, &event);
        }
        let target = match event.authority {
            Some(authority) => Target::Authority(authority),
            None => Target::Connection,
        };
        let mut draft = self.draft(event.action, event.outcome, target, event.correlation_id);
        let (method, path) = event.request.unzip();
        let note = Some(event.note.as_str().to_owned()).filter(|note| !note.is_empty());
        let kind = (event.outcome == Outcome::Success).then(|| "tunnel".to_owned());
        draft.secrets_used = event.secrets;
        draft.error_code = event.code;
        let rule = match event.code {
            Some(code) => deciding_setting(code),
            None => Some("policy"),
        };
        let rule = rule.map(str::to_owned);
        let secrets_named = event.named;
        let so_far = event.so_far;
        draft.detail = Detail {
            bytes_received: so_far.map(|so_far| so_far.received),
            bytes_sent: so_far.map(|so_far| so_far.sent),
            duration_ms: so_far.map(|so_far| milliseconds(so_far.took)),
            kind,
            method,
            note,
            path,
            rule,
            secrets_named,
            status: so_far.and_then(|so_far| so_far.status),
            ..Detail::default()
        };
        self.log.append_soon(draft)
    }

    /// An incident of its own (NL-2.6.7), as in an action's output.
    fn incident(&self, incident: Incident) {
        self.log.owe(self.value_in_output(incident));
    }

    fn finished(&self, mut finished: Finished) {
        if let Some(telemetry) = &self.telemetry {
            telemetry.finished(&self.agent.session_id, &finished);
        }
        let target = finished.authority.take().map_or(Target::Connection, Target::Authority);
        let correlation_id = std::mem::take(&mut finished.correlation_id);
        let draft = self.draft(Action::Egress, Outcome::Success, target, correlation_id);
        self.under_way.end(finished, draft, &self.log);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use futures_util::future::ready;
    use keyless_core::{
        Binding, By, Destination, EgressRule, EgressUse, Location, RequestFacts, Scheme, Verdict,
        decide_egress,
    };
    use keyless_store::AuditQuery;
    use keyless_vault::{Entries, Metadata};
    use zeroize::Zeroizing;

    use super::*;
    use crate::{
        broker::{self, agent},
        config::Config,
        egress_door::EgressDoor,
        scene::Scene,
    };

    /// A vault that a timer has locked.
    struct Locked;

    impl Values for Locked {
        fn open<'a>(&'a self, _: &'a SecretPath) -> BoxFuture<'a, Result<SecretValue, Error>> {
            Box::pin(ready(Err(Code::Locked.into())))
        }

        fn policy<'a>(&'a self, _: &'a SecretPath) -> BoxFuture<'a, Result<ApproveOnUse, Error>> {
            Box::pin(ready(Err(Code::Locked.into())))
        }
    }

    fn authority() -> Authority {
        Authority::parse("api.test:443").unwrap()
    }

    /// The verdict about a use in the request.
    fn allowed(path: &SecretPath) -> Allowed {
        let rule = EgressRule::to(vec![Destination::parse("api.test").unwrap()]);
        let (scheme, authority, request) = (Scheme::Https, &authority(), &RequestFacts::default());
        let by = By::Placeholder { location: Location::Header, occurrence: 1 };
        let use_ = EgressUse { path, rule: &rule, scheme, authority, by, request };
        let Verdict::Allow(allowed) = decide_egress(&use_) else { panic!("not allowed") };
        allowed
    }

    fn request() -> RequestInfo {
        RequestInfo {
            correlation_id: "req-2".to_owned(),
            authority: authority(),
            method: "GET".to_owned(),
            path: "/".to_owned(),
            locations: vec![Location::Header],
            rules: Vec::new(),
        }
    }

    /// What a session came to is not lost with it, where the log takes nothing just then.
    #[tokio::test]
    async fn an_end_that_the_log_refuses_for_a_moment_is_written() {
        let scene = Scene::new().await;
        let broker = SessionBroker::new(Arc::new(Locked), scene.log.clone(), agent("run", "s-1"));
        let refuse =
            "CREATE TRIGGER full BEFORE INSERT ON audit BEGIN SELECT raise(ABORT, 'no'); END";
        scene.behind_its_back(refuse);
        assert_eq!(broker.record_end().await.unwrap_err().code(), Code::AuditUnavailable);
        broker.finished(Finished {
            correlation_id: "req-1".to_owned(),
            authority: Some(authority()),
            request: None,
            status: None,
            sent: 1,
            received: 1,
            took: Duration::from_millis(1),
            redacted: Vec::new(),
        });
        scene.behind_its_back("DROP TRIGGER full");
        broker.pay().await.unwrap();
        drop(broker);
        let all = scene.vault.store().audit_query(&AuditQuery::default()).await.unwrap();
        let ours = all.iter().filter(|entry| entry.agent.session_id == "s-1");
        let actions: Vec<Action> = ours.map(|entry| entry.action).collect();
        assert_eq!(actions, [Action::SessionEnd, Action::Egress]);
    }

    /// Two values that change together, and do so while the first is being fetched.
    #[derive(Default)]
    struct Turning(AtomicU64);

    impl Values for Turning {
        fn open<'a>(&'a self, path: &'a SecretPath) -> BoxFuture<'a, Result<SecretValue, Error>> {
            let value = format!("value-number-{}", self.0.load(Ordering::Relaxed));
            let _ = self.0.compare_exchange(0, 1, Ordering::Relaxed, Ordering::Relaxed);
            let value = SecretValue::new(path.clone(), value.into_bytes(), Binding::Destinations);
            Box::pin(ready(value.map_err(|_| Code::Internal.into())))
        }

        fn closings(&self) -> u64 {
            self.0.load(Ordering::Relaxed)
        }
    }

    #[tokio::test]
    async fn a_request_has_all_old_values_or_all_new_ones() {
        let scene = Scene::new().await;
        let values = Arc::new(Turning::default());
        let broker = SessionBroker::new(values, scene.log.clone(), agent("run", "s-1"));
        let paths = ["team/api/id", "team/api/key"].map(|path| SecretPath::parse(path).unwrap());
        let released = broker.release(&request(), paths.iter().map(allowed).collect()).await;
        let released = released.unwrap();
        let opened = released.iter().map(|one| one.open_toward(&authority()).unwrap());
        assert!(opened.into_iter().all(|value| value == b"value-number-1"));
    }

    #[tokio::test]
    async fn a_lease_ends_when_the_store_is_locked() {
        let scene = Scene::new().await;
        let path = SecretPath::parse("team/api/token").unwrap();
        let value = Zeroizing::new(b"a-value-of-some-length".to_vec());
        let terms = Metadata::default();
        scene.vault.add(path.clone(), terms, Some(value), Entries::untold()).await.unwrap();
        let door = EgressDoor::new(&Config::default()).unwrap();
        let vault = Arc::clone(&scene.vault);
        let values = broker::Broker::new(door, vault, scene.log.clone()).session_values();
        let broker = SessionBroker::new(values, scene.log.clone(), agent("run", "s-1"));
        let release = async || {
            let released = broker.release(&request(), vec![allowed(&path)]).await;
            released.map_err(|error| error.code())
        };
        let (first, again) = (release().await.unwrap(), release().await.unwrap());
        assert!(Arc::ptr_eq(&first[0], &again[0]), "the permit has some seconds left");
        scene.vault.lock();
        assert_eq!(release().await.err(), Some(Code::Locked));
    }

    #[tokio::test]
    async fn a_minted_token_goes_nowhere_while_the_vault_is_locked() {
        let scene = Scene::new().await;
        let broker = SessionBroker::new(Arc::new(Locked), scene.log.clone(), agent("run", "s-1"));
        let minted = Minted {
            parents: vec![SecretPath::parse("team/auth/client").unwrap()],
            correlation_id: "req-1".to_owned(),
            authority: authority(),
            kind: "access_token".to_owned(),
            value: Zeroizing::new(b"token-number-1".to_vec()),
        };
        let (kept, recording) = broker.keep(minted).unwrap();
        recording.await.unwrap();
        let refused = broker.release(&request(), vec![allowed(kept.path())]).await;
        assert_eq!(refused.err().map(|error| error.code()), Some(Code::Locked));
    }
}
