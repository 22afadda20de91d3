//! Values for one action: asked about, written down, opened.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

use futures_util::future::BoxFuture;
use jiff::Timestamp;
use keyless_action::{Edition, Entrusted, Release, Released, Standing};
use keyless_core::{
    ActionType, Allowed, ApproveOnUse, Code, Error, Placeholder, PlaceholderForm, SafeText,
    SecretPath, SessionKey,
    action::Action,
    approval::{Asked, MAX_DEED_REASON_CHARS, RequestId},
    audit::{Agent, Detail, Draft, Outcome, Target},
    grant::PermissionRef,
};
use keyless_vault::Vault;
use parking_lot::Mutex;

use super::Asking;
use crate::{
    approvals::{Question, UseGate as _, WantedUse, approved_by},
    broker::Broker,
    nl::{
        approve::{deed_hash, what},
        grants::Grants,
        room::Place,
    },
    permits::{PermitLife, permit, uptime},
};

/// Said of a value that `unsafe_expose` lets into a jail.
const EXPOSED: &str = "unsafe_expose: the value itself entered the action";

/// What the values are for.
pub(super) struct Of {
    pub(super) action: Action,
    /// The rendered files that it was judged with, by the actions that made them.
    pub(super) kept: Vec<String>,
    pub(super) action_id: String,
    pub(super) correlation_id: String,
    pub(super) asking: Asking,
    /// By whose name they are asked.
    pub(super) session: String,
    /// Where it is done; others have it while a person is asked.
    pub(super) place: Option<Place>,
    /// What permits it; nothing where a person acts.
    pub(super) permissions: Vec<PermissionRef>,
}

/// Whether what was rendered may still be used.
pub(super) struct StillSo {
    pub(super) vault: Arc<Vault>,
    /// What knows whether permissions still hold; nothing where a person acts.
    pub(super) grants: Option<Arc<Grants>>,
}

/// One action's way to values: each verdict opens its secret once.
pub(super) struct ActionRelease {
    broker: Broker,
    agent: Arc<Agent>,
    of: Of,
    allowed: Mutex<HashMap<SecretPath, Vec<Allowed>>>,
    placeholders: HashMap<SecretPath, String>,
    still: StillSo,
}

impl ActionRelease {
    /// `forms` are those of the placeholders that this action will need, which `key` makes.
    pub(super) fn new(
        broker: &Broker,
        agent: &Agent,
        key: &SessionKey,
        of: Of,
        verdicts: Vec<Allowed>,
        forms: &BTreeMap<SecretPath, PlaceholderForm>,
        still: StillSo,
    ) -> Self {
        let placeholder = |(path, form): (&SecretPath, &PlaceholderForm)| {
            (path.clone(), Placeholder::derive(key, path, form).to_string())
        };
        let mut allowed: HashMap<_, Vec<_>> = HashMap::new();
        for verdict in verdicts {
            allowed.entry(verdict.path().clone()).or_default().push(verdict);
        }
        Self {
            broker: broker.clone(),
            agent: Arc::new(agent.clone()),
            of,
            allowed: Mutex::new(allowed),
            placeholders: forms.iter().map(placeholder).collect(),
            still,
        }
    }

    async fn open(&self, secret: &Entrusted) -> Result<Released, Error> {
        let path = &secret.path;
        let verdict = self.allowed.lock().get_mut(path).and_then(Vec::pop);
        let verdict = verdict.ok_or(Code::Internal)?;
        let approval = self.pass_gate(path).await?;
        if approval.is_some() {
            // They may have taken minutes, in which a grant can end or be revoked.
            self.still.permitted(&self.of.permissions).await?;
        }
        let value = match secret.version {
            None => self.broker.session_values().open(path).await?,
            Some(version) => self.broker.vault().open_version(path, version).await?.value,
        };
        let entry = self.entry(secret, verdict, approval.as_ref());
        let permit = permit(self.broker.log(), entry, PermitLife::AtOnce).await?;
        Ok(Released::new(value, permit, uptime))
    }

    /// Returns once a person has allowed the use, where its owner wants to be asked.
    async fn pass_gate(&self, path: &SecretPath) -> Result<Option<RequestId>, Error> {
        if self.of.asking == Asking::Operator {
            return Ok(None);
        }
        let policy = self.broker.session_values().policy(path).await?;
        if policy == ApproveOnUse::Never {
            return Ok(None);
        }
        let action = &self.of.action;
        let reason = SafeText::words("for ").and(action.kind().as_str()).and(": ");
        let reason = reason.as_they_wrote_in_full(&what(&action.deed));
        if reason.as_str().chars().count() > MAX_DEED_REASON_CHARS {
            return self.allowed_for_session(path, policy).await.map(Some);
        }
        // A file that was rendered anew may have another text.
        let occasion = [&[deed_hash(action)], &self.of.kept[..]].concat().join("\n");
        let (session, occasion) = (&self.of.session, occasion.as_str());
        let wanted = WantedUse { session, path, policy, reason: &reason, deed: None, occasion };
        let asking = Arc::clone(self.broker.requests()).pass(wanted);
        match &self.of.place {
            Some(place) => place.lent(asking).await,
            None => asking.await,
        }
    }

    /// The word for the session, for what is too long to be asked about: [`Code::RuleDenied`] without one.
    async fn allowed_for_session(
        &self,
        path: &SecretPath,
        policy: ApproveOnUse,
    ) -> Result<RequestId, Error> {
        let asked = Asked::use_approval(String::new());
        let question = Question { session: &self.of.session, path: Some(path), asked };
        let allowed = match policy {
            ApproveOnUse::Session => self.broker.requests().allowed_for_session(question).await?,
            _ => None,
        };
        allowed.ok_or_else(|| {
            let words = "a person would have to allow it, and it is too long to be shown: send a shorter one; an action may run a script";
            Error::with(Code::RuleDenied, SafeText::words(words))
        })
    }

    fn entry(&self, secret: &Entrusted, verdict: Allowed, approval: Option<&RequestId>) -> Draft {
        let path = &secret.path;
        let is_exposed = secret.rule.is_some() && self.of.action.kind() != ActionType::SdkProxy;
        Draft {
            secrets_used: vec![path.clone()],
            detail: Detail {
                action_id: Some(self.of.action_id.clone()),
                kind: Some("released".to_owned()),
                note: note(secret, is_exposed, approval),
                ..Detail::default()
            },
            allowed: Some(verdict),
            ..Draft::new(
                Timestamp::now(),
                Arc::clone(&self.agent),
                self.of.action.kind().into(),
                Outcome::Success,
                Target::Secrets(vec![path.clone()]),
                self.of.correlation_id.clone(),
            )
        }
    }
}

fn note(secret: &Entrusted, is_exposed: bool, approval: Option<&RequestId>) -> Option<String> {
    let exposed = is_exposed.then(|| EXPOSED.to_owned());
    let older = secret.version.map(|version| format!("version {version}, which was replaced"));
    let all: Vec<String> =
        exposed.into_iter().chain(older).chain(approved_by([approval])).collect();
    (!all.is_empty()).then(|| all.join("; "))
}

impl Release for ActionRelease {
    fn placeholder(&self, path: &SecretPath) -> Result<String, Error> {
        self.placeholders.get(path).cloned().ok_or(Code::Internal.into())
    }

    fn release<'a>(&'a self, secret: &'a Entrusted) -> BoxFuture<'a, Result<Released, Error>> {
        Box::pin(self.open(secret))
    }
}

impl Standing for ActionRelease {
    fn is_permitted<'a>(&'a self, at: &'a PermissionRef) -> BoxFuture<'a, bool> {
        self.still.is_permitted(at)
    }

    fn edition<'a>(&'a self, path: &'a SecretPath) -> BoxFuture<'a, Option<Edition>> {
        self.still.edition(path)
    }
}

impl StillSo {
    /// [`Code::GrantMissing`] names the grant that does not hold any more.
    async fn permitted(&self, permissions: &[PermissionRef]) -> Result<(), Error> {
        let Some(grants) = &self.grants else { return Ok(()) };
        for at in permissions {
            if !grants.holds(at).await? {
                let words = SafeText::words("grant ").as_they_wrote(at.grant.as_str());
                let words = words.and(" ended or was revoked while a person was asked");
                return Err(Error::with(Code::GrantMissing, words));
            }
        }
        Ok(())
    }
}

impl Standing for StillSo {
    fn is_permitted<'a>(&'a self, at: &'a PermissionRef) -> BoxFuture<'a, bool> {
        Box::pin(async move {
            let Some(grants) = &self.grants else { return false };
            grants.holds(at).await.unwrap_or(false)
        })
    }

    fn edition<'a>(&'a self, path: &'a SecretPath) -> BoxFuture<'a, Option<Edition>> {
        Box::pin(async move { self.vault.show(path).await.ok().as_ref().map(super::edition) })
    }
}
