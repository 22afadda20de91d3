//! The registry of what agents ask of a person: recorded before anybody is asked, answered once.
//!
//! Rows are sealed with the vault's key, and one whose seal does not fit is nobody's request. What a
//! row that was put back could revive, this process remembers to be over. The rules of time are
//! `core::approval`'s. Source: spec/secrets-through-mcp.md; reference/secrets.md, sections 12 and 18.

use std::{
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use jiff::{SignedDuration, Timestamp};
use keyless_core::{
    ApproveOnUse, Code, Error, SafeText, SecretPath,
    approval::{Asked, Decision, FullRequestId, Request, RequestId, Status},
    audit::{Action, Agent, Detail, Draft, Outcome, Target},
};
use keyless_store::{AuditLog, RequestRow, Store, StoreError, Told};
use keyless_vault::{Moment, Vault, Voucher};
use parking_lot::Mutex;
use tokio::sync::{Notify, futures::Notified};

use self::pace::Pace;
pub(crate) use self::{pace::Reached, waiters::Joined};
use crate::broker::{agent, fill_random};

mod pace;
#[cfg(test)]
mod tests;
mod waiters;

/// How long a request that is settled or expired can still be polled.
const KEPT: SignedDuration = SignedDuration::from_hours(1);
/// How often a caller that waits for a row looks at it: another process may answer too.
const LOOK: Duration = Duration::from_millis(250);
/// Before its end a request could be answered for the last time.
const LAST_MOMENT: SignedDuration = SignedDuration::from_secs(1);
/// Draws of an id before the store is taken to be at fault.
const DRAWS: usize = 8;

/// What tells a request from every other, also from one that has its name once it is swept.
type Identity = (RequestId, Option<FullRequestId>);

/// Whether the store has it too that a request is over.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kept {
    /// It could not be written, so that another process, or the next one, would not know.
    Owed,
    Written,
}

/// A request that is over, whatever the store has of it.
struct Over {
    kept: Kept,
    /// When it could not count any more, were it not over: by both clocks, since one that is set back lets it count again.
    until: (Moment, Timestamp),
}

/// What agents have asked, and what a person has said.
pub(crate) struct Requests {
    store: Store,
    voucher: Voucher,
    log: AuditLog,
    /// Held while one is recorded, so that two who ask the same at once find each other.
    asking: tokio::sync::Mutex<()>,
    pace: Mutex<Pace>,
    over: Mutex<HashMap<Identity, Over>>,
    /// Questions of uses that are held, each with how many wait for its answer; none once it is being withdrawn.
    held: Mutex<HashMap<RequestId, usize>>,
    taken_back: AtomicU64,
    changed: Notify,
}

impl Requests {
    pub(crate) fn new(vault: &Vault, log: AuditLog) -> Self {
        Self {
            store: vault.store().clone(),
            voucher: vault.request_voucher(),
            log,
            asking: tokio::sync::Mutex::default(),
            pace: Mutex::default(),
            over: Mutex::default(),
            held: Mutex::default(),
            taken_back: AtomicU64::new(0),
            changed: Notify::new(),
        }
    }

    /// Records a request, or gives the one that waits already and asks the same, which then waits no longer than either
    /// was to.
    ///
    /// Fails with [`Code::Usage`] (words that can't be shown), [`Code::ApprovalDenied`] (it was denied a short
    /// while ago) or [`Code::RateLimited`].
    pub(crate) async fn ask(
        &self,
        session: &str,
        path: Option<&SecretPath>,
        asked: Asked,
        life: Option<SignedDuration>,
    ) -> Result<Request, Error> {
        asked.check()?;
        let _asking = self.asking.lock().await;
        let (now, rows) = (Timestamp::now(), self.rows().await?);
        self.sweep(&rows, now).await?;
        refuse_if_denied(&rows, path, &asked, now)?;
        let same = |row: &&RequestRow| {
            let request = &row.request;
            request.status(now) == Status::Pending
                && (request.session.as_str(), request.path.as_ref(), &request.asked)
                    == (session, path, &asked)
        };
        if let Some(row) = rows.iter().find(same) {
            return self.narrow(row, life, now).await;
        }
        self.pace.lock().step(session)?;
        let make =
            |full_id| Request::new(full_id, path.cloned(), asked.clone(), session, life, now);
        self.admit(make, draw).await
    }

    /// The request of `row`, with no more than `life` from now on.
    async fn narrow(
        &self,
        row: &RequestRow,
        life: Option<SignedDuration>,
        now: Timestamp,
    ) -> Result<Request, Error> {
        let Some(narrowed) = life.and_then(|life| row.request.narrowed(life, now)) else {
            return Ok(row.request.clone());
        };
        let new = self.sealed(narrowed);
        if self.store.replace_request(row, &new, Told::nothing()).await? {
            self.changed.notify_waiters();
            return Ok(new.request);
        }
        // It was answered just now, or narrowed by another broker.
        self.any(&row.request.id).await
    }

    /// The limit that keeps a session from asking a person now.
    pub(crate) fn reached(&self, session: &str) -> Option<Reached> {
        self.pace.lock().reached(session, Instant::now())
    }

    /// Records the request of the first identity drawn whose name no other has that is kept in this store.
    async fn admit(
        &self,
        make: impl Fn(FullRequestId) -> Request,
        mut draw: impl FnMut() -> Result<FullRequestId, Error>,
    ) -> Result<Request, Error> {
        for _ in 0..DRAWS {
            let request = make(draw()?);
            // Together: no dialog opens that is not on record, and what is on record was asked.
            let entry = entry(Action::Ask, &request, agent("mcp", &request.session));
            let told = Told::in_log(&self.log, vec![entry]);
            match self.store.insert_request(&self.sealed(request.clone()), told).await {
                Ok(()) => {
                    self.changed.notify_waiters();
                    return Ok(request);
                }
                Err(StoreError::Taken(_)) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Err(Code::Internal.into())
    }

    /// Records a request for a value as [`ask`](Self::ask) would, however many there are.
    #[cfg(test)]
    pub(crate) async fn put(&self, number: u64, path: &SecretPath) {
        self.put_as(number, "m-1", Some(path.clone()), Asked::provision()).await;
    }

    /// Records any request, unchecked.
    #[cfg(test)]
    pub(crate) async fn put_as(
        &self,
        number: u64,
        session: &str,
        path: Option<SecretPath>,
        asked: Asked,
    ) -> RequestId {
        let full_id = FullRequestId::from_random((u128::from(number) << 80).to_be_bytes());
        let request = Request::new(full_id, path, asked, session, None, Timestamp::now());
        let row = self.sealed(request.clone());
        self.store.insert_request(&row, Told::nothing()).await.unwrap();
        self.changed.notify_waiters();
        request.id
    }

    /// The request `id` of this session; [`Code::RequestNotFound`] when it has none of that name.
    pub(crate) async fn poll(&self, session: &str, id: &RequestId) -> Result<Request, Error> {
        let row = self.row(id).await?;
        if row.request.session == session { Ok(row.request) } else { Err(unknown(id)) }
    }

    /// The request `id`, however it stands.
    pub(crate) async fn any(&self, id: &RequestId) -> Result<Request, Error> {
        Ok(self.row(id).await?.request)
    }

    /// The request `id` while it waits; [`Code::RequestSettled`] when it is too late.
    pub(crate) async fn pending(&self, id: &RequestId) -> Result<Request, Error> {
        let request = self.row(id).await?.request;
        match request.status(Timestamp::now()) {
            Status::Pending => Ok(request),
            status => Err(Error::with(Code::RequestSettled, too_late(&request, status))),
        }
    }

    /// Every genuine request, oldest first.
    pub(crate) async fn all(&self) -> Result<Vec<Request>, Error> {
        Ok(self.rows().await?.into_iter().map(|row| row.request).collect())
    }

    /// How many wait for a person. Fails where it can't be told, as of a store that has locked itself.
    pub(crate) async fn waiting(&self) -> Result<usize, Error> {
        let (all, now) = (self.all().await?, Timestamp::now());
        Ok(all.iter().filter(|request| request.status(now) == Status::Pending).count())
    }

    /// Answers a request. On record, and told to all who wait.
    pub(crate) async fn settle(
        &self,
        id: &RequestId,
        decision: Decision,
    ) -> Result<Request, Error> {
        let mut row = self.row(id).await?;
        loop {
            let settled = row.request.settle(decision.clone(), Timestamp::now())?;
            let entry = entry(Action::Answer, &settled, agent("operator", "operator"));
            let told = Told::in_log(&self.log, vec![entry]);
            if self.store.replace_request(&row, &self.sealed(settled.clone()), told).await? {
                self.changed.notify_waiters();
                return Ok(settled);
            }
            row = self.row(id).await?;
            // An agent that narrows its request meanwhile keeps nobody from an answer.
            if row.request.settled.is_some() {
                let words =
                    SafeText::default().and(id).and(" was answered by somebody else just now");
                return Err(Error::with(Code::RequestSettled, words));
            }
        }
    }

    /// Answers as well what waits and has its answer now: a value was given, a word for the session, or a denial.
    pub(crate) async fn settle_alike(&self, given: &Request) -> Result<(), Error> {
        let now = Timestamp::now();
        let (decision, is_alike): (_, fn(&Request, &Request) -> bool) = match given.status(now) {
            // Each session has a request of its own for a first value.
            Status::Ok if matches!(given.asked, Asked::Provision { .. }) => {
                let outcome = keyless_core::approval::Outcome::default();
                (Decision::Fulfil(outcome), |given, other| {
                    matches!(other.asked, Asked::Provision { .. }) && other.path == given.path
                })
            }
            // Each reason that a session gives is a request of its own.
            Status::Session => (Decision::AllowSession, is_good_for_session),
            // Of other sessions too, which could not ask it any more.
            Status::Denied => (Decision::Deny, |given, other| {
                is_denied_with(given, other.path.as_ref(), &other.asked)
            }),
            _ => return Ok(()),
        };
        let waits =
            |other: &&Request| is_alike(given, other) && other.status(now) == Status::Pending;
        for other in self.all().await?.iter().filter(waits) {
            match self.settle(&other.id, decision.clone()).await {
                // It was cancelled or ran out meanwhile.
                Err(error) if error.code() != Code::RequestSettled => return Err(error),
                _ => {}
            }
        }
        Ok(())
    }

    /// Revokes an approval, or lifts a denial. [`Code::RequestSettled`] when it has no effect any more. A word for the
    /// session goes whole, and so does a denial, however many requests it has answered. What can't be written has no effect here all the
    /// same, and is written when it is taken back once more.
    pub(crate) async fn take_back(&self, id: &RequestId) -> Result<Request, Error> {
        let row = self.stored(id).await?;
        let now = Timestamp::now();
        if !row.request.allows_use(now) && !row.request.denies(now) {
            let words = SafeText::default().and(id).and(" has no effect any more");
            return Err(Error::with(Code::RequestSettled, words));
        }
        let others = self.take_alike_back(&row.request).await;
        let over = self.take_one_back(&row).await;
        others.and(over)
    }

    /// Takes back the other answers like `given`'s that still count, where that allowed for the session or denied.
    pub(crate) async fn take_alike_back(&self, given: &Request) -> Result<(), Error> {
        let now = Timestamp::now();
        let status = given.status(now);
        let is_alike = |other: &Request| match status {
            Status::Session => other.allows_use(now) && is_good_for_session(given, other),
            Status::Denied => {
                other.denies(now) && is_denied_with(given, other.path.as_ref(), &other.asked)
            }
            _ => false,
        };
        let alike = |row: &&RequestRow| {
            let other = &row.request;
            other.id != given.id && other.status(now) == status && is_alike(other)
        };
        let all = self.all_stored().await?;
        let mut taken = Ok(());
        for row in all.iter().filter(alike) {
            // Each, though one can't be written; the first fault is told.
            taken = taken.and(self.take_one_back(row).await.map(drop));
        }
        taken
    }

    /// Takes one back together with its entry. Where only the log takes nothing, the row is written all the same, and the
    /// log is owed the entry: it would be missing for good otherwise, as the next try finds the row over.
    async fn take_one_back(&self, row: &RequestRow) -> Result<Request, Error> {
        let over = row.request.over();
        let entry = || entry(Action::Answer, &over, agent("operator", "operator"));
        let told = Told::in_log(&self.log, vec![entry()]);
        match self.put_over_told(row, &over, told).await {
            Err(StoreError::Unrecorded(_)) => {
                let put = self.put_over_told(row, &over, Told::nothing()).await;
                if put.map_err(unwritten)? {
                    self.log.owe(entry());
                }
            }
            other => drop(other.map_err(unwritten)?),
        }
        Ok(over)
    }

    /// Ends what was approved for a session, and what it asked leave for, since the session has ended.
    pub(crate) async fn end_session(&self, session: &str) -> Result<(), Error> {
        let (now, all) = (Timestamp::now(), self.all_stored().await?);
        let ends = |row: &&RequestRow| {
            let request = &row.request;
            // A value or a proposal is of use to the next session as well, and goes on waiting.
            let asks = request.status(now) == Status::Pending && request.asked.is_permission();
            request.session == session && (asks || request.allows_use(now))
        };
        self.put_all_over(all.iter().filter(ends), |request| request.abandoned(now)).await
    }

    /// Ends everything that was approved, whoever asked for it.
    pub(crate) async fn take_all_back(&self) -> Result<(), Error> {
        let (now, all) = (Timestamp::now(), self.all_stored().await?);
        let holds = |row: &&RequestRow| row.request.allows_use(now);
        self.put_all_over(all.iter().filter(holds), Request::over).await
    }

    /// Uses up an approval for one use; `false` when somebody else has.
    pub(crate) async fn spend(&self, request: &Request) -> Result<bool, Error> {
        let row = self.row(&request.id).await?;
        if !row.request.allows_use(Timestamp::now()) {
            return Ok(false);
        }
        self.put_over(&row, &row.request.over()).await
    }

    /// Waits until a request is no longer pending.
    pub(crate) async fn settled(&self, id: &RequestId) -> Result<Request, Error> {
        loop {
            let changed = self.changed.notified();
            let request = self.row(id).await?.request;
            if request.status(Timestamp::now()) != Status::Pending {
                return Ok(request);
            }
            let _ = tokio::time::timeout(LOOK, changed).await;
        }
    }

    /// Ends when a request was made or answered here after this call.
    pub(crate) fn changed(&self) -> Notified<'_> {
        self.changed.notified()
    }

    /// Changes whenever an approval was taken back: what was concluded before is to be asked anew.
    pub(crate) fn taken_back(&self) -> u64 {
        self.taken_back.load(Ordering::Acquire)
    }

    /// Ends each of `rows`, though one can't be written; the first fault is told.
    async fn put_all_over(
        &self,
        rows: impl Iterator<Item = &RequestRow>,
        over: impl Fn(&Request) -> Request,
    ) -> Result<(), Error> {
        let mut all = Ok(());
        for row in rows {
            let put = self.put_over(row, &over(&row.request)).await;
            all = all.and(put.map(drop));
        }
        all
    }

    async fn put_over(&self, row: &RequestRow, over: &Request) -> Result<bool, Error> {
        Ok(self.put_over_told(row, over, Told::nothing()).await?)
    }

    /// As [`Self::put_over`], with what the log is told of it: both are written, or neither.
    async fn put_over_told(
        &self,
        row: &RequestRow,
        over: &Request,
        told: Told<'_>,
    ) -> Result<bool, StoreError> {
        {
            let mut known = self.over.lock();
            match known.get(&identity(over)).map(|known| known.kept) {
                Some(Kept::Written) => return Ok(false),
                // Whoever tried before was told that it could not be written.
                Some(Kept::Owed) => {}
                None => {
                    let until = could_count_until(over, Moment::now(), Timestamp::now());
                    known.insert(identity(over), Over { kept: Kept::Owed, until });
                    self.taken_back.fetch_add(1, Ordering::AcqRel);
                }
            }
        }
        // Whether or not it can be put on record: what is taken back is taken back.
        let new = self.sealed(over.clone());
        let won = self.store.replace_request(row, &new, told).await?;
        if let Some(known) = self.over.lock().get_mut(&identity(over)) {
            known.kept = Kept::Written;
        }
        self.changed.notify_waiters();
        Ok(won)
    }

    /// A row as the store has it, but for what it was told to be over.
    async fn stored(&self, id: &RequestId) -> Result<RequestRow, Error> {
        let found = self.store.request(id).await?.filter(|row| self.is_genuine(row));
        let mut row = found.ok_or_else(|| unknown(id))?;
        self.correct_if(&mut row, |kept| kept == Kept::Written);
        Ok(row)
    }

    /// All rows as the store has them, but for those that it was told to be over.
    async fn all_stored(&self) -> Result<Vec<RequestRow>, Error> {
        let mut rows = self.store.requests().await?;
        rows.retain(|row| self.is_genuine(row));
        for row in &mut rows {
            self.correct_if(row, |kept| kept == Kept::Written);
        }
        Ok(rows)
    }

    /// Rows whose seal fits; what this process knows to be over is.
    async fn rows(&self) -> Result<Vec<RequestRow>, Error> {
        let mut rows = self.all_stored().await?;
        for row in &mut rows {
            self.correct_if(row, |_| true);
            self.keep_expired(row).await;
        }
        Ok(rows)
    }

    async fn row(&self, id: &RequestId) -> Result<RequestRow, Error> {
        let mut row = self.stored(id).await?;
        self.correct_if(&mut row, |_| true);
        self.keep_expired(&mut row).await;
        Ok(row)
    }

    /// What was seen to have expired stays so, whatever becomes of the clock.
    async fn keep_expired(&self, row: &mut RequestRow) {
        let now = Timestamp::now();
        if row.request.settled.is_some() || row.request.status(now) != Status::Expired {
            return;
        }
        let last = row.request.expires_at - LAST_MOMENT;
        let expired = self.sealed(row.request.abandoned(last.max(row.request.created_at)));
        // It has expired by the clock all the same where that can't be written, or somebody was faster.
        if self.store.replace_request(row, &expired, Told::nothing()).await.unwrap_or_default() {
            *row = expired;
        }
    }

    fn is_genuine(&self, row: &RequestRow) -> bool {
        self.voucher.fits(&RequestRow::sealed_bytes(&row.request), &row.seal)
    }

    fn correct_if(&self, row: &mut RequestRow, counts: impl Fn(Kept) -> bool) {
        if self.over.lock().get(&identity(&row.request)).is_some_and(|over| counts(over.kept)) {
            row.request = row.request.over();
        }
    }

    fn sealed(&self, request: Request) -> RequestRow {
        let seal = self.voucher.seal(&RequestRow::sealed_bytes(&request));
        RequestRow { request, seal }
    }

    /// Forgets what nobody polls any more.
    async fn sweep(&self, rows: &[RequestRow], now: Timestamp) -> Result<(), Error> {
        let old = |request: &Request| {
            let end = request.settled.as_ref().map_or(request.expires_at, |settled| settled.at);
            now.duration_since(end) > KEPT && !request.allows_use(now) && !request.denies(now)
        };
        let swept: Vec<_> =
            rows.iter().filter(|row| old(&row.request)).map(|row| row.request.id.clone()).collect();
        self.forget_over(Moment::now(), now);
        Ok(self.store.remove_requests(&swept).await?)
    }

    /// Forgets what could not count any more at this time, were its row put back as it was before it was over.
    fn forget_over(&self, moment: Moment, now: Timestamp) {
        self.over.lock().retain(|_, Over { until, .. }| moment < until.0 || now < until.1);
    }
}

/// The entry that tells what became of a request.
fn entry(action: Action, request: &Request, who: Agent) -> Draft {
    let status = request.status(Timestamp::now());
    let over = request.settled.as_ref().is_some_and(|settled| settled.over);
    let words = if over { "taken back" } else { status.as_str() };
    Draft {
        detail: Detail {
            kind: Some(request.asked.kind().as_str().to_owned()),
            note: Some(words.to_owned()),
            request_id: request.full_id.as_ref().map(|full| full.as_str().to_owned()),
            ..Detail::default()
        },
        ..Draft::new(
            Timestamp::now(),
            Arc::new(who),
            action,
            match status {
                Status::Denied => Outcome::Denied,
                Status::Failed { .. } => Outcome::Error,
                _ => Outcome::Success,
            },
            target(request),
            request.id.to_string(),
        )
    }
}

fn identity(request: &Request) -> Identity {
    (request.id.clone(), request.full_id.clone())
}

/// Until when a request that is over now could count as it was before: while it could be answered, and its answer used. Never
/// less than it can be polled for.
fn could_count_until(over: &Request, moment: Moment, now: Timestamp) -> (Moment, Timestamp) {
    let holds_until = over.settled.as_ref().and_then(|settled| settled.holds_until);
    let end = over.expires_at.max(holds_until.unwrap_or(over.expires_at));
    let left = now.duration_until(end).max(KEPT);
    (moment + left.unsigned_abs(), end.max(now.saturating_add(KEPT).unwrap_or(Timestamp::MAX)))
}

fn draw() -> Result<FullRequestId, Error> {
    let mut drawn = [0; 16];
    fill_random(&mut drawn)?;
    Ok(FullRequestId::from_random(drawn))
}

/// Whether a word for the session to the one answers the other: not what is to be asked about at every use.
pub(crate) fn is_good_for_session(given: &Request, other: &Request) -> bool {
    let is_each_time =
        |request: &Request| matches!(request.asked, Asked::UseApproval { per_call: true, .. });
    given.session == other.session
        && given.path == other.path
        && given.asked.is_good_for(&other.asked)
        && !is_each_time(given)
        && !is_each_time(other)
}

/// Whether a denial of the one is one of the other as well. It counts for its path, and what was asked about it, whoever
/// asks: a new session is no way round it.
fn is_denied_with(denied: &Request, path: Option<&SecretPath>, asked: &Asked) -> bool {
    denied.path.as_ref() == path && denied.asked.is_denied_with(asked)
}

fn refuse_if_denied(
    rows: &[RequestRow],
    path: Option<&SecretPath>,
    asked: &Asked,
    now: Timestamp,
) -> Result<(), Error> {
    let counts =
        |row: &&RequestRow| is_denied_with(&row.request, path, asked) && row.request.denies(now);
    match rows.iter().find(counts) {
        None => Ok(()),
        Some(row) => Err(denied(&row.request)),
    }
}

/// What the log says that a request is about.
fn target(request: &Request) -> Target {
    match &request.asked {
        Asked::ActionApproval { wanted } => Target::Secrets(wanted.secrets.clone()),
        Asked::DeployApply { wanted } => {
            let words = SafeText::words(wanted.verb.as_str()).and(" in ");
            let words = words.as_they_wrote(&wanted.project);
            Target::Named(words.and(", plan ").as_they_wrote(&wanted.plan_hash))
        }
        _ => Target::Secrets(request.path.iter().cloned().collect()),
    }
}

/// What a request is about, for the session that asked.
pub(crate) fn about(request: &Request) -> SafeText {
    match &request.path {
        Some(path) => SafeText::default().and(path),
        None => SafeText::words("the ").and(request.asked.word()),
    }
}

/// Tells of a denial, by its name, and by which policy a person was asked.
pub(crate) fn denied(request: &Request) -> Error {
    let words = match &request.asked {
        Asked::UseApproval { deed: None, per_call, .. } => {
            let policy = if *per_call { ApproveOnUse::PerCall } else { ApproveOnUse::Session };
            about(request).and(", whose approve_on_use is ").and(policy.as_str())
        }
        _ => about(request),
    };
    Error::with(Code::ApprovalDenied, words.and(", by ").and(&request.id))
}

/// Which end a request came to, and when.
fn too_late(request: &Request, status: Status) -> SafeText {
    let by_time = request.expires_at - LAST_MOMENT;
    let (what, at) = match &request.settled {
        Some(settled) if status != Status::Expired => (": it was settled ", settled.at),
        Some(settled) if settled.at < by_time => (": nobody waits for it since ", settled.at),
        _ => (": its time was over ", request.expires_at),
    };
    let seconds = u64::try_from(Timestamp::now().duration_since(at).as_secs()).unwrap_or(0);
    let words = SafeText::default().and(&request.id).and(" is ").and(status.as_str()).and(what);
    match seconds {
        0..=119 => words.and(seconds).and(" s ago"),
        _ => words.and(seconds / 60).and(" min ago"),
    }
}

/// That what is taken back counts for nothing here, and the store, as it takes nothing just now, still has it.
fn unwritten(error: StoreError) -> Error {
    let error = Error::from(error);
    let why = match error.code() {
        Code::DiskFull => SafeText::words("the disk is full"),
        _ => error.detail().clone(),
    };
    Error::with(Code::TakenBackUnwritten, why)
}

/// There is no request of this name, as far as the session that asks may know.
pub(crate) fn unknown(id: &RequestId) -> Error {
    Error::with(Code::RequestNotFound, SafeText::words("unknown request_id: ").and(id))
}
