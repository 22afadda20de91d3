//! Actions of one agent: `keyless-action` with the vault's values, a jail for each, and egress behind it.
//!
//! Who may do what is decided before; what comes here is allowed, secret by secret. Each value's
//! release is durable in the log before it opens. Source: reference/nl.md, section 3; design.md, section 1.

mod concealed;
mod door;
mod jails;
mod operator;
mod release;
mod resolve;
mod services;
mod standby;
mod versions;

use std::{collections::BTreeMap, path::PathBuf, sync::Arc};

use keyless_action::{BoundTo, Checked, Edition, Entrusted, Entry, Executor, Kept, Limits, Work};
use keyless_core::{
    ActionType, Allowed, Code, Destination, Error, Grace, Handle, SafeText, SecretPath, SessionKey,
    action::{Action, Deed},
    audit::Agent,
    grant::PermissionRef,
};
use keyless_vault::{Metadata, Secret};
use zeroize::Zeroizing;

pub(super) use self::concealed::concealed;
pub(in crate::nl) use self::jails::Foresight;
pub(crate) use self::standby::Standby;
use self::{
    jails::Jails,
    release::{ActionRelease, StillSo},
};
use super::{grants::Grants, room::Place};
use crate::{
    broker::{Broker, fill_random},
    places::Places,
};

pub use self::operator::{OwnActions, OwnTerms, fill};
pub use self::resolve::{Resolved, resolve_handles};
pub(super) use self::versions::{
    given as given_version, older as older_version, warning as version_warning,
};
/// What came of an action; everything in it may be seen by the agent.
pub use keyless_action::{ExitReport, Outcome as ActionOutcome, Redaction};

/// The actions of one agent, and what is remembered of them: rendered files, and the values to look
/// for in what comes back.
pub struct ActionSession {
    broker: Broker,
    agent: Agent,
    /// The session by whose name a person is asked, and what they allowed is remembered.
    asks_as: String,
    key: Arc<Zeroizing<[u8; 32]>>,
    jails: Jails,
    executor: Executor,
    grace: Grace,
}

/// One action that may be done.
pub struct ActionOrder {
    /// `act_…`.
    pub action_id: String,
    /// Joins the entries of the log about it, `req-…`.
    pub correlation_id: String,
    /// What is to be done, as `could_run` gave it; the text of a template's file is in it.
    pub checked: Checked,
    /// The verdict about the secret of each handle, of those in rendered files as well.
    pub allowed: Vec<(Handle, Allowed)>,
    /// The rendered files that it was judged with, by the actions that made them.
    pub kept: Vec<String>,
    /// The hosts that a value in a jail may reach: those of the grant.
    pub allowed_hosts: Vec<Destination>,
    /// What permits it; nothing where a person acts.
    pub permissions: Vec<PermissionRef>,
    /// What knows whether the permissions of earlier actions still hold; nothing where a person acts.
    pub(in crate::nl) grants: Option<Arc<Grants>>,
    /// Where a command starts, if a person runs it.
    pub working_directory: Option<PathBuf>,
    /// Whether somebody is asked about secrets whose owner wants that.
    pub asking: Asking,
    /// Preparations that were begun before; without any they begin now.
    pub(in crate::nl) foresight: Option<Foresight>,
}

/// Whether a person is asked about a secret whose owner wants to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asking {
    /// An agent acts: they are.
    Agent,
    /// They act themselves.
    Operator,
}

impl ActionSession {
    /// For one agent, as the log knows it; `asks_as` is the session that approvals are remembered for. `jails` may be
    /// shared with others.
    pub fn open(
        broker: &Broker,
        places: &Places,
        agent: Agent,
        asks_as: String,
        limits: Limits,
        grace: Grace,
        jails: &Arc<Standby>,
    ) -> Result<Self, Error> {
        let mut key = Zeroizing::new([0_u8; 32]);
        fill_random(&mut *key)?;
        let key = Arc::new(key);
        let jails = Jails::new(broker, places, agent.clone(), Arc::clone(&key), jails);
        let executor = Executor::new(services::services(broker.engine(), places), limits);
        Ok(Self { broker: broker.clone(), agent, asks_as, key, jails, executor, grace })
    }

    /// Finds what would stop an action, `act_…`, that is allowed: as far as it shows without a value. A service may be
    /// called at `hosts` and where its secret names; nothing says that these are not known yet.
    pub(super) async fn could_run<'a>(
        &self,
        action: &Action,
        action_id: &str,
        secrets: impl Iterator<Item = (&'a Handle, &'a SecretPath)>,
        hosts: Option<&[Destination]>,
    ) -> Result<Checked, Error> {
        let checked = self.executor.check(action, action_id)?;
        let parameters = action.handles_of_parameters().unwrap_or_default();
        for (handle, path) in secrets {
            let secret = self.sound(handle, path).await?;
            let (Deed::SdkProxy { credentials_ref, .. }, Some(allowed_hosts)) =
                (&action.deed, hosts)
            else {
                continue;
            };
            let bounds = BoundTo { path, rule: secret.metadata.egress.as_ref(), allowed_hosts };
            if Handle::parse_alone("credentials_ref", credentials_ref).as_ref() == Ok(handle) {
                checked.check_destination(&bounds)?;
            }
            if parameters.contains(handle) {
                checked.check_parameter(&bounds, secret.metadata.unsafe_expose)?;
            }
        }
        Ok(checked)
    }

    /// As [`Executor::check_room`].
    pub(super) fn check_room(&self, action: &Action, action_id: &str) -> Result<(), Error> {
        self.executor.check_room(action, action_id)
    }

    /// A text without the values that this agent's actions have had.
    pub(super) fn cleaned(&self, text: &str) -> String {
        self.executor.without_values(text)
    }

    /// Finds whether any of these values must not be used any more, whatever it is for.
    pub(super) async fn may_use<'a>(
        &self,
        secrets: impl Iterator<Item = (&'a Handle, &'a SecretPath)>,
    ) -> Result<(), Error> {
        for (handle, path) in secrets {
            self.sound(handle, path).await?;
        }
        Ok(())
    }

    /// A secret whose value that is meant is not compromised.
    async fn sound(&self, handle: &Handle, path: &SecretPath) -> Result<Secret, Error> {
        let secret = self.broker.vault().show(path).await?;
        if secret.is_compromised() {
            let words = SafeText::default().as_they_wrote(handle.as_written());
            return Err(Error::with(Code::SecretCompromised, words));
        }
        let older = versions::older(self.broker.vault(), handle, path, self.grace).await?;
        if older.is_some_and(|given| secret.metadata.compromises(Some(given.version))) {
            let words = SafeText::words("that version of ");
            let words = words.as_they_wrote(handle.as_written());
            return Err(Error::with(Code::SecretCompromised, words));
        }
        Ok(secret)
    }

    /// The rendered files that an action's command names: what is in them is used by it. `grants` know whether what
    /// permitted them still does; nothing where a person acts.
    pub(super) async fn kept_in(&self, action: &Action, grants: Option<&Arc<Grants>>) -> Vec<Kept> {
        let standing = StillSo { vault: self.broker.vault().clone(), grants: grants.cloned() };
        self.executor.kept_in(action, &standing).await
    }

    /// Does an action. Nothing of a value is in what it gives.
    pub async fn run(&self, order: ActionOrder) -> Result<ActionOutcome, Error> {
        self.run_at(order, None).await
    }

    /// As [`Self::run`], in a place that others have while a person is asked.
    pub(super) async fn run_at(
        &self,
        order: ActionOrder,
        place: Option<Place>,
    ) -> Result<ActionOutcome, Error> {
        // What is opened is on record first, which takes a while.
        let working_directory = order.working_directory.as_deref();
        let berth = order
            .checked
            .action()
            .kind()
            .runs_command()
            .then(|| self.jails.berth(working_directory, order.foresight));
        let mut secrets = Vec::with_capacity(order.allowed.len());
        let mut allowed = Vec::with_capacity(order.allowed.len());
        let mut forms = BTreeMap::new();
        for (handle, verdict) in order.allowed {
            let path = verdict.path().clone();
            let secret = self.broker.vault().show(&path).await?;
            let edition = edition(&secret);
            let given = versions::older(self.broker.vault(), &handle, &path, self.grace).await?;
            let version = given.map(|given| given.version);
            let metadata = secret.metadata;
            let entry = entry(order.checked.action().kind(), &metadata);
            if entry == Entry::Placeholder {
                forms.insert(path.clone(), metadata.placeholder.form());
            }
            let is_exposed = metadata.unsafe_expose;
            let rule = metadata.egress;
            secrets.push(Entrusted { handle, path, version, entry, rule, is_exposed, edition });
            allowed.push(verdict);
        }
        let release = ActionRelease::new(
            &self.broker,
            &self.agent,
            &SessionKey::from_random(**self.key),
            release::Of {
                action: order.checked.action().clone(),
                kept: order.kept.clone(),
                action_id: order.action_id.clone(),
                correlation_id: self.cleaned(&order.correlation_id),
                asking: order.asking,
                session: self.asks_as.clone(),
                place,
                permissions: order.permissions.clone(),
            },
            allowed,
            &forms,
            StillSo { vault: self.broker.vault().clone(), grants: order.grants },
        );
        let work = Work {
            action_id: order.action_id,
            checked: order.checked,
            secrets,
            kept: order.kept,
            allowed_hosts: order.allowed_hosts,
            permissions: order.permissions,
            working_directory: order.working_directory,
        };
        Ok(self.executor.run(&work, berth, &release).await)
    }
}

fn edition(secret: &Secret) -> Edition {
    Edition { version: secret.version, set_at: secret.updated_at }
}

/// Rule 1 of the design: what names its destinations enters as a placeholder. A service is called by the
/// broker itself, toward these destinations alone.
fn entry(kind: ActionType, metadata: &Metadata) -> Entry {
    let bound = metadata.egress.is_some() && !metadata.unsafe_expose;
    if bound && kind != ActionType::SdkProxy { Entry::Placeholder } else { Entry::Value }
}
