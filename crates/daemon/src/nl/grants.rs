//! The grants of a store: asked at every action, changed by the operator alone.
//!
//! They are kept in memory as an index, which is made anew when any process has changed one. Rows whose seal does not fit
//! permit nothing. Uses are taken in the store before a value is read, and given back if the action does not begin.

mod reservation;

use std::sync::Arc;

use jiff::Timestamp;
use keyless_core::{
    Code, Error, SafeText,
    audit::{Action, Detail, Draft, Outcome, Target},
    grant::{
        Allowance, Counts, Denial, DenyReason, Explained, Grant, GrantId, GrantIndex, GrantState,
        PermissionRef, Request, Verdict, evaluate, explain,
    },
    nl_message::NlFault,
};
use keyless_store::{AuditLog, GrantRow, Store, StoreError, Told, Untaken, UseOf, Uses};
use keyless_vault::{Vault, Voucher};
use parking_lot::Mutex;
use uuid::Uuid;

pub use self::reservation::{Reservation, Running};
use self::reservation::{Slots, Wanted};
use crate::broker::{agent, plain_entry};

/// The grants of an open vault.
pub struct Grants {
    store: Store,
    voucher: Voucher,
    log: AuditLog,
    loaded: Mutex<Loaded>,
    slots: Arc<Slots>,
}

/// What was last read.
#[derive(Clone, Default)]
pub(crate) struct Loaded {
    revision: Option<i64>,
    pub(super) index: Arc<GrantIndex>,
    /// Whether some permission has so many uses and no more.
    is_counted: bool,
    uses: Arc<Uses>,
}

/// A grant as a person sees it.
#[derive(Clone, Debug)]
pub struct ShownGrant {
    /// The whole object.
    pub grant: Grant,
    /// Where it stands now.
    pub state: GrantState,
    /// The uses that were had, of each permission.
    pub used: Vec<u64>,
}

impl Grants {
    /// The grants of a vault's store.
    pub fn new(vault: &Vault, log: AuditLog) -> Self {
        Self {
            store: vault.store().clone(),
            voucher: vault.nl_voucher(),
            log,
            loaded: Mutex::default(),
            slots: Arc::default(),
        }
    }

    /// Decides an action by what has just been read. `held` is what the work that it is a part of has reserved already.
    pub(crate) fn evaluate(
        &self,
        loaded: &Loaded,
        request: &Request<'_>,
        held: Option<&Reservation>,
    ) -> Verdict {
        let counted = Counted { uses: &loaded.uses, slots: &self.slots, held };
        evaluate(request, &loaded.index, &counted, Timestamp::now())
    }

    /// Every permission's word about an action, the nearest first.
    pub async fn explain(&self, request: &Request<'_>) -> Result<Vec<Explained>, Error> {
        let loaded = self.refresh().await?;
        let counted = Counted { uses: &loaded.uses, slots: &self.slots, held: None };
        Ok(explain(request, &loaded.index, &counted, Timestamp::now()))
    }

    /// Whether a permission still holds, its uses aside.
    pub async fn holds(&self, at: &PermissionRef) -> Result<bool, Error> {
        Ok(self.refresh().await?.index.holds(at, Timestamp::now()))
    }

    /// Takes one use and one place of each permission but those of `held`, all or none. [`Code::GrantMissing`] when a
    /// grant was revoked since it was asked, [`Code::GrantExhausted`] when somebody else was faster, [`Code::ConcurrencyExceeded`] when as many are under way as may be, [`Code::RateLimited`], with when
    /// another one may begin, when as many began within a minute.
    pub async fn reserve(
        &self,
        allowance: &Allowance,
        held: Option<&Reservation>,
    ) -> Result<Reservation, NlFault> {
        let index = Arc::clone(&self.loaded.lock().index);
        let mut wanted = Vec::new();
        let mut places = Vec::new();
        let is_held = |at: &PermissionRef| held.is_some_and(|held| held.is_of(at));
        for at in allowance.permissions().iter().filter(|at| !is_held(at)) {
            let conditions = &index.permission(at).ok_or(Code::GrantMissing)?.conditions;
            wanted.push(UseOf { permission: at.clone(), max_uses: conditions.max_uses });
            let (max_concurrent, max_per_minute) =
                (conditions.max_concurrent, conditions.max_per_minute);
            places.push(Wanted { at: at.clone(), max_concurrent, max_per_minute });
        }
        let running = self.slots.enter(places)?;
        match self.store.take_uses(&wanted).await.map_err(Error::from)? {
            Ok(()) => {
                let counted = wanted.into_iter().filter(|one| one.max_uses.is_some());
                let had = counted.map(|one| one.permission).collect();
                Ok(Reservation::new(self.store.clone(), had, running))
            }
            Err(untaken) => {
                let (code, at, what) = match &untaken {
                    Untaken::Exhausted(at) => (Code::GrantExhausted, at, ""),
                    Untaken::Revoked(at) => (Code::GrantMissing, at, " was revoked"),
                };
                let words = SafeText::words("grant ").as_they_wrote(at.grant.as_str());
                Err(NlFault::new(code, words.and(what)))
            }
        }
    }

    /// A denial with when another try may do, where as many began within a minute as may.
    pub(crate) fn with_window(&self, fault: NlFault, denial: &Denial) -> NlFault {
        let at = denial.at.as_ref().filter(|_| denial.reason == DenyReason::Rate);
        let index = Arc::clone(&self.loaded.lock().index);
        let most = at.and_then(|at| Some((at, index.permission(at)?.conditions.max_per_minute?)));
        match most {
            Some((at, most)) => self.slots.spent(fault, at, most),
            None => fault,
        }
    }

    /// Makes a grant that [`check_grant`] finds sound.
    pub async fn create(&self, grant: Grant) -> Result<(), Error> {
        check_grant(&grant)?;
        let row = self.sealed(grant);
        let told = Told::in_log(&self.log, vec![entry(Action::GrantCreate, &row.grant, None)]);
        match self.store.insert_grant(&row, told).await {
            Err(StoreError::Taken(_)) => {
                let words = SafeText::words("there is a grant of that name: ");
                let words = words.as_they_wrote(row.grant.grant_id.as_str());
                Err(Error::with(Code::StateUnfit, words))
            }
            done => Ok(done?),
        }
    }

    /// Takes a grant back. At once: what has begun may end, nothing begins.
    pub async fn revoke(&self, id: &GrantId, reason: Option<&str>) -> Result<Grant, Error> {
        let rows = self.genuine().await?;
        let row =
            rows.into_iter().find(|row| row.grant.grant_id == *id).ok_or_else(|| missing(id))?;
        if !row.grant.revocable {
            let words =
                SafeText::words("the grant says that it can't be revoked; suspend its agent");
            return Err(Error::with(Code::StateUnfit, words));
        }
        if row.grant.revoked {
            return Ok(row.grant);
        }
        let new = self.sealed(Grant { revoked: true, ..row.grant.clone() });
        let told = Told::in_log(&self.log, vec![entry(Action::GrantRevoke, &new.grant, reason)]);
        if !self.store.replace_grant(&row, &new, told).await? {
            let words = SafeText::words("somebody else changed the grant just now");
            return Err(Error::with(Code::RequestSettled, words));
        }
        Ok(new.grant)
    }

    /// Every genuine grant, oldest first.
    pub async fn list(&self) -> Result<Vec<ShownGrant>, Error> {
        let grants = self.genuine().await?.into_iter().map(|row| row.grant);
        let uses = self.store.grant_uses().await?;
        Ok(grants.map(|grant| shown(grant, &uses)).collect())
    }

    /// One grant.
    pub async fn show(&self, id: &GrantId) -> Result<ShownGrant, Error> {
        let found = self.list().await?.into_iter().find(|shown| shown.grant.grant_id == *id);
        found.ok_or_else(|| missing(id))
    }

    /// Brings what is in memory up to date.
    pub(crate) async fn refresh(&self) -> Result<Loaded, Error> {
        let revision = self.store.nl_revision().await?;
        let mut loaded = self.loaded.lock().clone();
        if loaded.revision != Some(revision) {
            let grants = self.genuine().await?.into_iter().map(|row| row.grant);
            loaded.index = Arc::new(GrantIndex::new(grants));
            let mut permissions = loaded.index.grants().iter().flat_map(|grant| &grant.permissions);
            loaded.is_counted = permissions.any(|one| one.conditions.max_uses.is_some());
            loaded.revision = Some(revision);
        }
        if loaded.is_counted {
            loaded.uses = Arc::new(self.store.grant_uses().await?);
        }
        *self.loaded.lock() = loaded.clone();
        Ok(loaded)
    }

    async fn genuine(&self) -> Result<Vec<GrantRow>, Error> {
        let mut rows = self.store.grants().await?;
        rows.retain(|row| self.voucher.fits(&GrantRow::sealed_bytes(&row.grant), &row.seal));
        Ok(rows)
    }

    fn sealed(&self, grant: Grant) -> GrantRow {
        let seal = self.voucher.seal(&GrantRow::sealed_bytes(&grant));
        GrantRow { grant, seal }
    }
}

/// [`Code::Usage`] names what makes a grant none, or one that can never permit anything.
pub fn check_grant(grant: &Grant) -> Result<(), Error> {
    let faults = grant.faults(Timestamp::now());
    if faults.is_empty() {
        return Ok(());
    }
    let words = SafeText::words("the grant can't be used: ").as_they_wrote(&faults.join(", "));
    Err(Error::with(Code::Usage, words))
}

/// The entry that tells what became of a grant.
fn entry(action: Action, grant: &Grant, note: Option<&str>) -> Draft {
    let note = note.map(|note| SafeText::default().as_they_wrote(note).as_str().to_owned());
    let target = Target::Named(SafeText::default().as_they_wrote(grant.agent_uri.as_str()));
    let grants = vec![grant.grant_id.as_str().to_owned()];
    Draft {
        detail: Detail { grants, note, ..Detail::default() },
        ..plain_entry(agent("operator", "operator"), action, Outcome::Success, target)
    }
}

/// Every grant as it is written down, without a key: it is no secret, and nobody has vouched for it.
pub async fn list_grants(store: &Store) -> Result<Vec<ShownGrant>, Error> {
    let uses = store.grant_uses().await?;
    let grants = store.grants().await?.into_iter().map(|row| row.grant);
    Ok(grants.map(|grant| shown(grant, &uses)).collect())
}

/// A name for a new grant.
pub fn new_grant_id() -> GrantId {
    let id = format!("grant_{}", Uuid::new_v4());
    GrantId::parse(&id).expect("a UUID is printable")
}

fn shown(grant: Grant, counted: &Uses) -> ShownGrant {
    let used =
        grant.permission_refs().map(|(at, _)| counted.get(&at).copied().unwrap_or(0)).collect();
    let state = grant.state(&OnlyUses(counted), Timestamp::now());
    ShownGrant { grant, state, used }
}

fn missing(id: &GrantId) -> Error {
    Error::with(Code::GrantUnknown, SafeText::default().as_they_wrote(id.as_str()))
}

struct Counted<'a> {
    uses: &'a Uses,
    slots: &'a Slots,
    held: Option<&'a Reservation>,
}

impl Counted<'_> {
    /// One, of a permission whose use and place are those of the action itself.
    fn its_own(&self, at: &PermissionRef) -> u32 {
        u32::from(self.held.is_some_and(|held| held.is_of(at)))
    }
}

impl Counts for Counted<'_> {
    fn uses(&self, at: &PermissionRef) -> u64 {
        let uses = self.uses.get(at).copied().unwrap_or(0);
        uses.saturating_sub(self.its_own(at).into())
    }

    fn running(&self, at: &PermissionRef) -> u32 {
        self.slots.running(at).saturating_sub(self.its_own(at))
    }

    fn recent(&self, at: &PermissionRef) -> u32 {
        self.slots.recent(at).saturating_sub(self.its_own(at))
    }
}

struct OnlyUses<'a>(&'a Uses);

impl Counts for OnlyUses<'_> {
    fn uses(&self, at: &PermissionRef) -> u64 {
        self.0.get(at).copied().unwrap_or(0)
    }

    fn running(&self, _: &PermissionRef) -> u32 {
        0
    }

    fn recent(&self, _: &PermissionRef) -> u32 {
        0
    }
}

#[cfg(test)]
mod tests;
