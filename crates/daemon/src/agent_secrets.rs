//! The broker's answers to the toolset `secrets`, for one session.
//!
//! Only what the project declares is seen; without a manifest, what any session may use, in a jail what its own
//! may. What is told is
//! built from types that hold no value. Source: spec/secrets-through-mcp.md.

use std::{collections::HashSet, path::PathBuf, sync::Arc, time::Duration};

use futures_util::future::BoxFuture;
use jiff::{SignedDuration, Timestamp, civil::Date, tz::TimeZone};
use keyless_core::{
    ApproveOnUse, Code, Error, SafeText, SecretPath,
    approval::{Asked, Fields, Request, RequestId, Status},
};
use keyless_mcp::{
    Ask, Fault, Reply, Secrets, Words,
    secrets::{
        Described, Format, Freshness, Listed, Liveness, Outcome, Page, PollStatus, Polled, Remedy,
        Requested, SURFACE_VERSION, State, StatusKind, TrustLevel, UnlockMethod, Unlocked,
        Validated,
    },
};
use keyless_store::AuditLog;
use keyless_vault::{
    EnvelopeKind, FormatVerdict, IndexFile, Inventory, Manifest, Row, Secret, Vault,
};

use crate::{
    approvals::Question,
    broker::agent,
    caution::LastManifest,
    liveness::{LivenessChecks, LivenessVerdict},
    looked_over::looked_over,
    requests::{Requests, unknown},
    web::Web,
    window::Keeper,
};

/// One session's view.
pub(crate) struct AgentSecrets {
    pub(crate) vault: Arc<Vault>,
    pub(crate) requests: Arc<Requests>,
    pub(crate) log: AuditLog,
    pub(crate) session: String,
    /// The secrets of the run in whose jail it is; then no other is sent anywhere.
    pub(crate) given: Option<Vec<SecretPath>>,
    /// What the project declares in which that run began: beside what it was given it sees no more, wherever in the
    /// jail the tools are started.
    pub(crate) declared: Vec<SecretPath>,
    /// The text of the project's manifest, as the agent's side has it.
    pub(crate) manifest: Option<String>,
    pub(crate) last_manifest: Arc<LastManifest>,
    pub(crate) index_file: PathBuf,
    pub(crate) keeper: Arc<Keeper>,
    pub(crate) checks: Arc<LivenessChecks>,
    pub(crate) trust_level: TrustLevel,
    pub(crate) web: Arc<Web>,
}

impl Secrets for AgentSecrets {
    fn ask(&self, ask: Ask) -> BoxFuture<'_, Result<Reply, Error>> {
        Box::pin(self.answer(ask))
    }
}

impl AgentSecrets {
    async fn answer(&self, ask: Ask) -> Result<Reply, Error> {
        match ask {
            Ask::Describe { path } => {
                let secret = found(match self.vault.show(&path).await {
                    Err(error) if error.code() == Code::Locked => {
                        Vault::show_unverified(self.vault.store(), &path).await
                    }
                    shown => shown,
                })?;
                let mut inventory = self.view(secret.as_slice()).await?.of(&path);
                inventory.refuse_unread(&path)?;
                let row = inventory.take(&path)?;
                let pattern = row.upkeep.pattern_id.as_deref();
                let is_unknown = match pattern {
                    Some(id) => !self.checks.knows_pattern(&self.vault, id).await?,
                    None => false,
                };
                let described = described(&path, &row, today());
                let pattern_known = is_unknown.then_some(false);
                Ok(Reply::Described(Described { pattern_known, ..described }))
            }
            Ask::List { path_contains, scope, freshness } => {
                let today = today();
                let wanted = |row: &Listed| {
                    let path = row.path.as_str();
                    path_contains.as_ref().is_none_or(|text| path.contains(text))
                        && scope.as_ref().is_none_or(|scope| row.path.project() == scope)
                        && freshness.is_none_or(|freshness| row.status == freshness)
                };
                // What is told is not decided by: while the store is locked nobody vouches for it, as for what
                // `keyless secret list` shows.
                let secrets = match self.vault.list().await {
                    Err(error) if error.code() == Code::Locked => {
                        Vault::list_unverified(self.vault.store()).await?
                    }
                    listed => listed?,
                };
                let rows = self.view(&secrets).await?.all().rows;
                let rows = rows.iter().map(|(path, row)| listed(path, row, today));
                Ok(Reply::Listed(rows.filter(wanted).collect()))
            }
            Ask::Page { request_id } => {
                // Whoever asks for a way to the page has asked a person for something.
                self.requests.poll(&self.session, &request_id).await?;
                self.requests.pending(&request_id).await?;
                let url = self.web.link_for_agent()?;
                let url = url.map(|url| SafeText::default().as_they_wrote_in_full(&url).into());
                Ok(Reply::Page(Page { url }))
            }
            Ask::Poll { request_id } => {
                let request = self.requests.poll(&self.session, &request_id).await?;
                let polled = polled(&request, Timestamp::now());
                polled.map(Reply::Polled).ok_or_else(|| unknown(&request_id))
            }
            Ask::Request { path, asked, ttl_seconds } => {
                self.request(path, asked, ttl_seconds).await.map(Reply::Requested)
            }
            Ask::Status => Ok(Reply::Status(self.status().await?)),
            Ask::Unlock { totp, duration_seconds } => {
                let asked = duration_seconds.map(Duration::from_secs);
                let granted = match self.keeper.locks_in() {
                    // It is open: the code is neither judged nor used up, and the window stays as it is.
                    Some(rest) => rest,
                    None => self.keeper.reopen(&totp, asked, Some(&self.session)).await?,
                };
                let granted_seconds = Some(granted.as_secs());
                Ok(Reply::Unlocked(Unlocked { unlocked: true, granted_seconds }))
            }
            Ask::Validate { path, liveness } => {
                self.validate(path, liveness).await.map(Reply::Validated)
            }
        }
    }

    async fn request(
        &self,
        path: SecretPath,
        mut asked: Asked,
        ttl_seconds: Option<u32>,
    ) -> Result<Requested, Error> {
        refuse_others_words(&asked)?;
        if matches!(asked, Asked::NewPathProposal { .. }) {
            let (said, policy) = match self.declared_row(&path).await {
                Ok(row) if row.is_stored() => {
                    return Err(Error::with(Code::SecretExists, SafeText::default().and(&path)));
                }
                // What is declared only has still to be registered.
                Ok(row) => (declared(&row), row.approve_on_use),
                Err(error) if error.code() == Code::SecretNotFound => Default::default(),
                Err(error) => return Err(error),
            };
            asked = asked.with_declared(&said, policy);
        } else {
            let row = self.declared_row(&path).await?;
            asked = asked.with_declared(&declared(&row), row.approve_on_use);
            let policy = row.approve_on_use.tightened_by(self.keeper.floor());
            match &mut asked {
                Asked::UseApproval { .. } | Asked::Rotation { .. } if !row.has_value() => {
                    let words = SafeText::default().and(&path);
                    let words =
                        words.and(" has no value yet; ask for one with secrets_request_provision");
                    return Err(Error::with(Code::SecretUnavailable, words));
                }
                Asked::UseApproval { .. } if policy == ApproveOnUse::Never => {
                    let words = SafeText::default().and(&path);
                    let words = words.and(" is used without an approval; there is nothing to ask");
                    return Err(Error::with(Code::Usage, words));
                }
                Asked::Provision { .. } if row.has_value() && self.has_version(&path).await? => {
                    return Err(Error::with(Code::ValueExists, SafeText::default().and(&path)));
                }
                Asked::Provision { .. } | Asked::Rotation { .. } => {
                    self.refuse_unwritable(&path).await?;
                }
                Asked::UseApproval { per_call, .. } => {
                    *per_call = policy == ApproveOnUse::PerCall;
                    if let Some(request_id) = self.allowed_already(&path, &asked, policy).await? {
                        return Ok(Requested { request_id });
                    }
                }
                _ => {}
            }
        }
        let life = ttl_seconds.map(|seconds| SignedDuration::from_secs(seconds.max(1).into()));
        let request = self.requests.ask(&self.session, Some(&path), asked, life).await?;
        Ok(Requested { request_id: request.id })
    }

    /// The request whose word for the session holds: nobody is asked what they have answered.
    async fn allowed_already(
        &self,
        path: &SecretPath,
        asked: &Asked,
        policy: ApproveOnUse,
    ) -> Result<Option<RequestId>, Error> {
        if policy != ApproveOnUse::Session {
            return Ok(None);
        }
        let asked = asked.clone();
        self.requests
            .allowed_for_session(Question { session: &self.session, path: Some(path), asked })
            .await
    }

    /// Fails where a person could type what they like: nothing would take it. Where it is kept is no agent's matter.
    async fn refuse_unwritable(&self, path: &SecretPath) -> Result<(), Error> {
        match self.vault.refuse_unwritable(path).await {
            Err(error) if error.code() == Code::ValueNotStored => {
                let words = SafeText::default().and(path);
                let words = words.and(" is kept where Keyless may not write");
                Err(Error::with(Code::ValueNotStored, words))
            }
            // Declared and not in the store: it is added there.
            Err(error) if error.code() != Code::SecretNotFound => Err(error),
            _ => Ok(()),
        }
    }

    async fn status(&self) -> Result<keyless_mcp::secrets::Status, Error> {
        let locks_in = self.keeper.locks_in();
        // No key is needed to see what there is.
        let there = Vault::envelopes_unverified(self.vault.store()).await?;
        let methods = [
            (EnvelopeKind::Keyfile, UnlockMethod::Keyfile),
            (EnvelopeKind::Passphrase, UnlockMethod::Passphrase),
            (EnvelopeKind::Recovery, UnlockMethod::Recovery),
            (EnvelopeKind::Totp, UnlockMethod::Totp),
        ];
        let opens = |kind: EnvelopeKind| {
            there.iter().any(|envelope| envelope.kind == kind.as_str())
                // Open, it will lock itself, and a code opens what did; a person's lock takes a stronger factor.
                && (kind != EnvelopeKind::Totp || locks_in.is_some() || self.keeper.takes_codes())
        };
        let methods = methods.into_iter().filter(|(kind, _)| opens(*kind));
        let methods = methods.map(|(_, method)| method).collect();
        Ok(keyless_mcp::secrets::Status {
            state: if locks_in.is_some() { State::Unlocked } else { State::Locked },
            expires_in_seconds: locks_in.map(|rest| rest.as_secs()),
            available_methods: methods,
            trust_level: self.trust_level,
            surface_version: SURFACE_VERSION.into(),
        })
    }

    /// The value is fetched and dropped, which is on record before anything of it is told.
    async fn validate(&self, path: SecretPath, liveness: bool) -> Result<Validated, Error> {
        let row = self.row(&path).await?;
        // Both are the operator's word: an agent writes the manifest, and could try pattern after pattern.
        let rule = match (&row.upkeep.format_regex, &row.own_pattern) {
            (Some(own), _) => Some(own.clone()),
            (None, Some(pattern)) => self.checks.format_of(&self.vault, pattern).await?,
            (None, None) => None,
        };
        let judged = self.vault.judge_format(&path, rule.as_deref()).await;
        let judged = judged.map_err(|error| match error.code() {
            Code::SecretNotFound => {
                Error::with(Code::SecretUnavailable, SafeText::default().and(&path))
            }
            _ => error,
        })?;
        let who = agent("mcp", &self.session);
        self.log.append(looked_over(who, vec![path.clone()], "secrets_validate")).await?;
        let expires_at = row.upkeep.expires_at;
        let liveness = if liveness { Some(self.liveness(&path, &row).await?) } else { None };
        let format = match judged {
            FormatVerdict::Invalid => Format::Invalid,
            FormatVerdict::Ok => Format::Ok,
            FormatVerdict::Unknown => Format::Unknown,
        };
        let refused = format == Format::Invalid || liveness == Some(Liveness::Invalid);
        let remediation = refused.then(Remedy::another_value);
        Ok(Validated { path, format, liveness, expires_at, remediation })
    }

    /// A check is a use, of a secret of the session's: one that a person wants to be asked about is theirs to make.
    async fn liveness(&self, path: &SecretPath, row: &Row) -> Result<Liveness, Error> {
        refuse_not_given(self.given.as_deref(), path)?;
        if row.approve_on_use != ApproveOnUse::Never {
            let words = SafeText::words("checking ").and(path).and(" sends it to its service; ");
            let words = words.and("the operator can, with keyless secret check");
            return Err(Error::with(Code::ApprovalRequired, words));
        }
        let secret = self.vault.show(path).await?;
        let verdict = self.checks.check_for_agent(&self.vault, &secret, &self.session).await?;
        Ok(match verdict {
            LivenessVerdict::Rejected => Liveness::Invalid,
            LivenessVerdict::Unclear | LivenessVerdict::Unreachable => Liveness::Unreachable,
            LivenessVerdict::Unsupported => Liveness::Unsupported,
            LivenessVerdict::Valid => Liveness::Ok,
        })
    }

    /// What is known of a path that this project may see.
    async fn row(&self, path: &SecretPath) -> Result<Row, Error> {
        let mut row = self.declared_row(path).await?;
        row.approve_on_use = row.approve_on_use.tightened_by(self.keeper.floor());
        Ok(row)
    }

    /// As [`Self::row`], whatever the profile asks of every secret.
    async fn declared_row(&self, path: &SecretPath) -> Result<Row, Error> {
        let secret = found(self.vault.show(path).await)?;
        let view = self.view(secret.as_slice()).await?;
        View { floor: ApproveOnUse::Never, ..view }.of(path).take(path)
    }

    /// Whether a value of it was set here. One that another source keeps may not be there yet.
    async fn has_version(&self, path: &SecretPath) -> Result<bool, Error> {
        Ok(self.vault.show(path).await?.version.is_some())
    }

    /// What the session may see of these secrets of the store.
    async fn view<'a>(&self, secrets: &'a [Secret]) -> Result<View<'a>, Error> {
        let file = self.index_file.clone();
        let index = tokio::task::spawn_blocking(move || IndexFile::load(&file)).await;
        let index = index.map_err(|_| Error::from(Code::Internal))??;
        let mut manifest = match &self.manifest {
            Some(text) => self.last_manifest.parse(text)?,
            // What `keyless run` would give to any session.
            None => Arc::new(Manifest {
                optional: secrets
                    .iter()
                    .filter(|secret| usable(secret))
                    .map(|secret| secret.path.clone())
                    .collect(),
                ..Manifest::default()
            }),
        };
        if let Some(given) = &self.given {
            let seen: HashSet<&SecretPath> = given.iter().chain(&self.declared).collect();
            let manifest = Arc::make_mut(&mut manifest);
            manifest.required.retain(|path| seen.contains(path));
            manifest.optional.retain(|path| seen.contains(path));
        }
        // A path that a person registered for this session is seen, wherever it is declared since.
        for path in self.registered().await? {
            if !manifest.declares(&path) {
                Arc::make_mut(&mut manifest).optional.insert(path);
            }
        }
        Ok(View { manifest, index, secrets, floor: self.keeper.floor() })
    }

    /// The new paths of this session that a person has accepted, under the names that they gave.
    async fn registered(&self) -> Result<Vec<SecretPath>, Error> {
        let ours = |request: Request| {
            let settled = request.settled.filter(|_| request.session == self.session)?;
            settled.outcome.final_path
        };
        Ok(self.requests.all().await?.into_iter().filter_map(ours).collect())
    }
}

/// What a session may see, and of which secrets.
struct View<'a> {
    manifest: Arc<Manifest>,
    index: IndexFile,
    secrets: &'a [Secret],
    floor: ApproveOnUse,
}

impl View<'_> {
    fn all(&self) -> Inventory {
        let inventory = Inventory::merge(&self.manifest, &self.index, self.secrets);
        inventory.asking_at_least(self.floor)
    }

    /// Of `path` alone.
    fn of(&self, path: &SecretPath) -> Inventory {
        let secret = self.secrets.iter().find(|secret| secret.path == *path);
        let inventory = Inventory::merge_one(path, &self.manifest, &self.index, secret);
        inventory.asking_at_least(self.floor)
    }
}

/// What the store has of a secret, if it has it.
fn found(shown: Result<Secret, Error>) -> Result<Option<Secret>, Error> {
    match shown {
        Err(error) if error.code() == Code::SecretNotFound => Ok(None),
        shown => shown.map(Some),
    }
}

/// Fails on what no tool asks: the words about an action or a deploy, and those about one deed, are the broker's
/// own, so that a person never allows something other than what they have read.
fn refuse_others_words(asked: &Asked) -> Result<(), Error> {
    match asked {
        Asked::ActionApproval { .. }
        | Asked::DeployApply { .. }
        | Asked::UseApproval { deed: Some(_), .. } => {
            let words = SafeText::words("no tool asks that");
            Err(Error::with(Code::BadRequest, words))
        }
        Asked::MetadataProposal { .. }
        | Asked::NewPathProposal { .. }
        | Asked::Provision { .. }
        | Asked::Rotation { .. }
        | Asked::UseApproval { deed: None, .. } => Ok(()),
    }
}

/// What manifest, index and store say of a secret, as far as it can be proposed.
fn declared(row: &Row) -> Fields {
    Fields {
        description: row.description.clone(),
        retrieval_url: row.upkeep.retrieval_url.clone(),
        rotate_every_days: row.upkeep.rotate_every_days,
        expires_at: row.upkeep.expires_at,
        pattern_id: row.upkeep.pattern_id.clone(),
    }
}

/// Fails where a session has its own secrets and this is none of them.
fn refuse_not_given(given: Option<&[SecretPath]>, path: &SecretPath) -> Result<(), Error> {
    if given.is_none_or(|given| given.contains(path)) {
        return Ok(());
    }
    let words = SafeText::default().and(path);
    let words = words.and(" is none of this session's secrets, so it is not sent to its service");
    Err(Error::with(Code::ScopeViolation, words))
}

fn usable(secret: &Secret) -> bool {
    secret.metadata.env.is_some() && secret.metadata.egress.is_some()
}

fn listed(path: &SecretPath, row: &Row, today: Date) -> Listed {
    Listed {
        path: path.clone(),
        status: freshness(row, today),
        expires_at: row.upkeep.expires_at,
        source_name: None,
        capabilities_hint: row.upkeep.capabilities_hint().into(),
        approve_on_use: gated(row),
    }
}

fn described(path: &SecretPath, row: &Row, today: Date) -> Described {
    let upkeep = &row.upkeep;
    Described {
        path: path.clone(),
        status: freshness(row, today),
        expires_at: upkeep.expires_at,
        source_name: None,
        capabilities_hint: upkeep.capabilities_hint().into(),
        description: row.description.as_deref().map(written),
        retrieval_url: upkeep.retrieval_url.as_deref().map(written),
        rotation_method: upkeep.rotation_method.unwrap_or_default().as_str().into(),
        last_rotated_at: upkeep.last_rotated_at,
        rotate_every_days: upkeep.rotate_every_days,
        pattern_id: upkeep.pattern_id.as_deref().map(written),
        pattern_known: None,
        approve_on_use: gated(row),
    }
}

/// What is told of a request about a secret; of another nothing, it is not from here.
fn polled(request: &Request, now: Timestamp) -> Option<Polled> {
    let path = request.path.clone()?;
    let status = match request.status(now) {
        Status::Cancelled => StatusKind::Cancelled.into(),
        // The protocol has no other word where it is not the use that is asked for.
        Status::Denied if !request.asked.is_permission() => StatusKind::Cancelled.into(),
        Status::Denied => StatusKind::Denied.into(),
        Status::Expired => StatusKind::Expired.into(),
        Status::Failed { code } => PollStatus::from(&Fault::from(&Error::new(code))),
        Status::Ok => StatusKind::Ok.into(),
        Status::Once => StatusKind::Once.into(),
        Status::Pending => StatusKind::Pending.into(),
        Status::Session => StatusKind::Session.into(),
    };
    let outcome = request.settled.as_ref().map(|settled| settled.outcome.clone());
    let outcome = outcome.filter(|outcome| *outcome != keyless_core::approval::Outcome::default());
    Some(Polled {
        request_id: request.id.clone(),
        path,
        kind: request.asked.kind(),
        status,
        age_seconds: request.age_seconds(now),
        outcome: outcome.map(|outcome| Outcome {
            applied_fields: outcome.applied_fields,
            final_path: outcome.final_path,
        }),
    })
}

fn freshness(row: &Row, today: Date) -> Freshness {
    match row.upkeep.freshness(today) {
        keyless_vault::Freshness::Expired => Freshness::Expired,
        keyless_vault::Freshness::Expiring => Freshness::Expiring,
        keyless_vault::Freshness::Registered => Freshness::Registered,
    }
}

fn gated(row: &Row) -> Option<ApproveOnUse> {
    Some(row.approve_on_use).filter(|policy| *policy != ApproveOnUse::Never)
}

/// What the operator or the project wrote about a secret, never what is in it.
fn written(text: &str) -> Words {
    SafeText::default().as_they_wrote_in_full(text).into()
}

fn today() -> Date {
    Timestamp::now().to_zoned(TimeZone::UTC).date()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_jail_checks_the_secrets_of_its_session_alone() {
        let [ours, other] = ["a/b/ours", "a/b/other"].map(|path| SecretPath::parse(path).unwrap());
        let given = [ours.clone()];
        let refused = |given, path| refuse_not_given(given, path).err().map(|error| error.code());
        assert_eq!(refused(Some(&given), &ours), None);
        assert_eq!(refused(Some(&given), &other), Some(Code::ScopeViolation));
        assert_eq!(refused(Some(&[]), &ours), Some(Code::ScopeViolation));
        assert_eq!(refused(None, &other), None);
    }
}
