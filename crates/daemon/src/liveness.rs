//! Whether a service takes a secret's value: one request of the token catalog's, under a permit.
//!
//! What is asked, the catalog says; where a value may go, its owner has said. A check that would lead elsewhere is
//! none, so no catalog, a project's least of all, brings a value to a host of its own. Over verified TLS on
//! port 443, from public addresses alone, and no redirect is followed. It is on record before it begins.
//! Source: reference/secrets.md, 9.3 and 18 (gaps 4 and 15).

mod record;
mod request;

use std::{collections::HashMap, sync::Arc, time::Duration};

use jiff::Timestamp;
use keyless_core::{
    Allowed, Authority, CheckBy, Code, EgressRule, Error, Injection, RequestFacts, SafeText,
    SecretPath, SecretValue, Signer, Slot, Verdict, audit::Agent, decide_agents_check,
    decide_check,
};
use keyless_egress::{Client, ClientAnswer, Released};
use keyless_store::AuditLog;
use keyless_vault::{Liveness, LivenessAuth, Metadata, Moment, Providers, Secret, Vault};
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use tokio::{sync::Mutex as AsyncMutex, task::spawn_blocking};
use zeroize::Zeroizing;

use self::{
    record::Record,
    request::{Credential, authority, headers, path_of, send, target, word},
};
use crate::{
    broker::agent, config::Config, egress_door::engine_config, places::Places, providers::providers,
};

/// How long an agent is told the same again.
const AGENTS_PACE: Duration = Duration::from_mins(1);

/// `[liveness]` of config.toml.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct LivenessConfig {
    /// Whether a value's service is asked before the value is saved.
    pub on_save: bool,
}

/// Asks services about values, by the catalog and the configuration as they are at that moment.
pub(crate) struct LivenessChecks {
    places: Places,
    log: AuditLog,
    /// What agents were told. Each secret's is held while its service is asked, and no other's.
    told: Mutex<HashMap<SecretPath, Arc<Turn>>>,
}

/// What agents were last told of a secret: the version, when, and the answer.
type Turn = AsyncMutex<Option<(Option<u32>, Moment, LivenessVerdict)>>;

/// What came of a check.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Checked {
    /// The answer.
    pub verdict: LivenessVerdict,
    /// The catalog's pattern whose check it was.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pattern: Option<String>,
    /// Who was asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
    /// The status of the answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
    /// Why nobody was asked, or nothing came of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
}

/// Whether a service takes a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum LivenessVerdict {
    /// The service refused it.
    Rejected,
    /// The service answered something that says neither.
    Unclear,
    /// The service could not be asked.
    Unreachable,
    /// No way to ask is known, or its owner has not said that it may go there.
    Unsupported,
    /// The service took it.
    Valid,
}

/// A check that there is, and the rule of the secret.
struct Proposal<'m> {
    pattern: String,
    liveness: Liveness,
    authority: Authority,
    by: CheckBy,
    rule: &'m EgressRule,
}

/// A check that may be made.
struct Plan {
    pattern: String,
    liveness: Liveness,
    authority: Authority,
    allowed: Allowed,
    /// The user beside the value, where the service wants one.
    user: Option<String>,
    /// The secret with the access key's id, where the value signs.
    key_id: Option<SecretPath>,
}

/// Who asks of a value.
pub(crate) struct Asker<'a> {
    vault: &'a Vault,
    who: Agent,
    /// Whom the value belongs to, for services that want to be told.
    user: Option<&'a str>,
}

impl<'a> Asker<'a> {
    /// The operator, at the vault.
    pub(crate) fn operator(vault: &'a Vault) -> Self {
        Self { vault, who: agent("operator", "operator"), user: None }
    }

    /// The same, of a value that belongs to this user of the service.
    pub(crate) fn of_user(self, user: Option<&'a str>) -> Self {
        Self { user, ..self }
    }
}

impl LivenessChecks {
    /// Checks by what is in force at these places.
    pub(crate) fn new(places: &Places, log: AuditLog) -> Self {
        Self { places: places.clone(), log, told: Mutex::default() }
    }

    /// Asks the service of a value whose secret is described by `metadata`. Fails when the log, the configuration
    /// or the list of catalogs can't be used; whatever the service does is an answer.
    pub(crate) async fn check(
        &self,
        metadata: &Metadata,
        value: SecretValue,
        asker: Asker<'_>,
    ) -> Result<Checked, Error> {
        let (known, config) = self.in_force().await?;
        match plan(&known, value.path(), metadata, asker.user) {
            Ok(plan) => self.carry_out(plan, &config, value, asker).await,
            Err(why) => Ok(unsupported(None, why)),
        }
    }

    /// As [`LivenessChecks::check`] for a value before it is saved, where the operator wants that.
    pub(crate) async fn check_on_save(
        &self,
        metadata: &Metadata,
        value: SecretValue,
        vault: &Vault,
    ) -> Result<Option<Checked>, Error> {
        if !self.in_force().await?.1.liveness.on_save {
            return Ok(None);
        }
        self.check(metadata, value, Asker::operator(vault)).await.map(Some)
    }

    /// As [`LivenessChecks::check`] for a stored value and an agent, whose check is a request that the secret's rules
    /// have to allow: [`Code::RuleDenied`] or [`Code::ApprovalRequired`] where they don't. It is told the same again
    /// for a minute: it can't have a service asked in a loop.
    pub(crate) async fn check_for_agent(
        &self,
        vault: &Vault,
        secret: &Secret,
        session: &str,
    ) -> Result<LivenessVerdict, Error> {
        let (known, config) = self.in_force().await?;
        let Some(plan) = plan_for_agent(&known, &secret.path, &secret.metadata)? else {
            return Ok(LivenessVerdict::Unsupported);
        };
        let turn = self.turn(&secret.path);
        let mut told = turn.lock().await;
        if let Some((version, when, verdict)) = *told
            && version == secret.version
            && when.elapsed() < AGENTS_PACE
        {
            return Ok(verdict);
        }
        let value = vault.open(&secret.path).await?.value;
        let asker = Asker { vault, who: agent("mcp", session), user: None };
        let checked = self.carry_out(plan, &config, value, asker).await?;
        *told = Some((secret.version, Moment::now(), checked.verdict));
        Ok(checked.verdict)
    }

    fn turn(&self, path: &SecretPath) -> Arc<Turn> {
        Arc::clone(self.told.lock().entry(path.clone()).or_default())
    }

    async fn in_force(&self) -> Result<(Providers, Config), Error> {
        let places = self.places.clone();
        let read = move || Ok((providers(&places)?, Config::load(&places.config_file())?));
        spawn_blocking(read).await.map_err(|_| Error::from(Code::Internal))?
    }

    async fn carry_out(
        &self,
        plan: Plan,
        config: &Config,
        value: SecretValue,
        asker: Asker<'_>,
    ) -> Result<Checked, Error> {
        let Plan { pattern, liveness, authority, allowed, user, key_id } = plan;
        let client = Client::new(engine_config(config, None)?).map_err(|_| Code::ConfigInvalid)?;
        let mut record =
            Record::new(&self.log, asker.who, &authority, &liveness, target(&liveness.url));
        let key_id = match key_id {
            None => None,
            Some(path) => Some(key_id_of(asker.vault, &path, &authority, &mut record).await?),
        };
        let released = Released::new(value, record.begin(allowed).await?);
        let now = Timestamp::now();
        let credential = Credential {
            value: released.open(now)?,
            user: user.as_deref(),
            key_id: key_id.as_ref().map(|key_id| key_id.open(now)).transpose()?,
        };
        let checked = match headers(&liveness, &credential, now) {
            None => unsupported(Some(pattern), "the value is no text, which a header needs".into()),
            Some(headers) => {
                let sent = send(&client, &liveness, &authority, &headers).await;
                answered(pattern, &authority, sent, &liveness)
            }
        };
        record.end(&checked).await?;
        Ok(checked)
    }
}

/// The id that stands beside a signature. Its owner lets it go to the same host, or there is no check.
async fn key_id_of(
    vault: &Vault,
    path: &SecretPath,
    authority: &Authority,
    record: &mut Record<'_>,
) -> Result<Released, Error> {
    let rule = vault.show(path).await?.metadata.egress;
    let allowed = rule.and_then(|rule| decide_check(path, &rule, authority, CheckBy::Value));
    let allowed = allowed.ok_or_else(|| {
        let words = SafeText::default().and(path).and(" may not go to the host of the check");
        Error::with(Code::ForeignDestination, words)
    })?;
    let value = vault.open(path).await?.value;
    Ok(Released::new(value, record.begin(allowed).await?))
}

fn answered(
    pattern: String,
    authority: &Authority,
    sent: Result<ClientAnswer, Error>,
    liveness: &Liveness,
) -> Checked {
    let (verdict, status, why) = match sent {
        Ok(answer) => {
            // Some answer with a token of their own.
            let body = Zeroizing::new(answer.body);
            let verdict = match liveness.judge(answer.status, &body) {
                None => LivenessVerdict::Unclear,
                Some(false) => LivenessVerdict::Rejected,
                Some(true) => LivenessVerdict::Valid,
            };
            (verdict, Some(answer.status), None)
        }
        Err(error) => (LivenessVerdict::Unreachable, None, Some(error.message())),
    };
    let host = Some(authority.host.to_string());
    Checked { verdict, pattern: Some(pattern), host, status, why }
}

impl Checked {
    /// Nobody could be asked.
    pub fn failed(error: &Error) -> Self {
        let (verdict, why) = (LivenessVerdict::Unreachable, Some(error.message()));
        Self { verdict, pattern: None, host: None, status: None, why }
    }
}

impl LivenessVerdict {
    /// The word in answers.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Rejected => "rejected",
            Self::Unclear => "unclear",
            Self::Unreachable => "unreachable",
            Self::Unsupported => "unsupported",
            Self::Valid => "valid",
        }
    }
}

/// The check of a secret, if there is one and its owner lets the value go there.
fn plan(
    known: &Providers,
    path: &SecretPath,
    metadata: &Metadata,
    user: Option<&str>,
) -> Result<Plan, String> {
    let proposal = propose(known, path, metadata)?;
    let Proposal { rule, ref authority, by, .. } = proposal;
    let allowed = decide_check(path, rule, authority, by)
        .ok_or("the value may not go to the host of the check; see --to")?;
    proposal.with(allowed, user)
}

/// As [`plan`] for an agent; nothing where there is no check, an error where its rules keep it from this one.
fn plan_for_agent(
    known: &Providers,
    path: &SecretPath,
    metadata: &Metadata,
) -> Result<Option<Plan>, Error> {
    let Ok(proposal) = propose(known, path, metadata) else { return Ok(None) };
    // It takes a second secret, whose rules and session nobody has asked about.
    if proposal.by == CheckBy::Signature {
        return Ok(None);
    }
    let Proposal { ref liveness, ref authority, by, rule, .. } = proposal;
    let method = word(liveness.method);
    let at = path_of(target(&liveness.url)).to_owned();
    let methods = vec![method.to_owned()];
    let request = RequestFacts { methods, path: at.clone(), ..RequestFacts::default() };
    let refused = |code, why: &'static str| {
        let words = SafeText::words("checking ").and(path).and(" sends ").and(method).and(" ");
        let words = words.as_they_wrote(&at).and(" to its service: ").and(why);
        Err(Error::with(code, words))
    };
    match decide_agents_check(path, rule, authority, by, &request) {
        Verdict::Allow(allowed) => Ok(proposal.with(allowed, None).ok()),
        Verdict::Ask(_) => {
            let why = "its rules ask first; the operator can, with keyless secret check";
            refused(Code::ApprovalRequired, why)
        }
        Verdict::Deny(code, why) => refused(code, why),
        Verdict::Pass => Ok(None),
    }
}

/// The check that the catalog knows for a secret, before anybody has said that it may be made.
fn propose<'m>(
    known: &Providers,
    path: &SecretPath,
    metadata: &'m Metadata,
) -> Result<Proposal<'m>, String> {
    let pattern = metadata.upkeep.pattern_id.as_deref();
    let (_, variant) =
        known.of_secret(path, pattern).ok_or("the catalog knows no such kind of token")?;
    let liveness = variant.liveness.clone().ok_or_else(|| match &variant.no_liveness {
        Some(why) => format!("no check: {why}"),
        None => "the catalog has no check for it".to_owned(),
    })?;
    let authority = authority(&liveness.url).ok_or("the catalog's address is no plain https")?;
    let rule = metadata.egress.as_ref().ok_or("the secret names no destination")?;
    let by = match liveness.auth {
        LivenessAuth::AwsSigv4 { .. } => CheckBy::Signature,
        _ => CheckBy::Value,
    };
    Ok(Proposal { pattern: variant.id.clone(), liveness, authority, by, rule })
}

impl Proposal<'_> {
    /// The plan, where all that the service wants beside the value is known.
    fn with(self, allowed: Allowed, user: Option<&str>) -> Result<Plan, String> {
        let Self { pattern, liveness, authority, rule, .. } = self;
        let user = user.map(str::to_owned).or_else(|| injected_user(rule));
        if let (LivenessAuth::BasicOfUser { user: wanted }, None) = (&liveness.auth, &user) {
            return Err(format!("the check also wants {wanted}: name it with --user"));
        }
        let key_id = match &rule.sign {
            Some(Signer::Aws { access_key_id }) => Some(access_key_id.clone()),
            _ => None,
        };
        Ok(Plan { pattern, liveness, authority, allowed, user, key_id })
    }
}

/// The user that the proxy itself puts before the value.
fn injected_user(rule: &EgressRule) -> Option<String> {
    let injection: &Injection = rule.inject.as_ref()?;
    match (injection.slot(), injection.around()) {
        (Slot::Basic, (before, "")) => before.strip_suffix(':').map(str::to_owned),
        _ => None,
    }
}

fn unsupported(pattern: Option<String>, why: String) -> Checked {
    let (verdict, why) = (LivenessVerdict::Unsupported, Some(why));
    Checked { verdict, pattern, host: None, status: None, why }
}

#[cfg(test)]
mod tests {
    use keyless_core::{Destination, RequestRule};
    use keyless_vault::{Tier, read_provider};

    use super::*;

    fn metadata(to: &str, pattern: Option<&str>) -> Metadata {
        let mut metadata = Metadata {
            egress: Some(EgressRule::to(vec![Destination::parse(to).unwrap()])),
            ..Metadata::default()
        };
        metadata.upkeep.pattern_id = pattern.map(str::to_owned);
        metadata
    }

    fn planned(known: &Providers, metadata: &Metadata) -> Result<String, String> {
        let path = SecretPath::parse("team/npm/token").unwrap();
        plan(known, &path, metadata, None).map(|plan| plan.authority.to_string())
    }

    #[test]
    fn a_value_is_checked_where_its_owner_lets_it_go() {
        let known = Providers::bundled();
        let npm = metadata("registry.npmjs.org", None);
        assert_eq!(planned(&known, &npm).unwrap(), "registry.npmjs.org:443");
        for elsewhere in ["npm.corp.test", "registry.npmjs.org:8443", "http://registry.npmjs.org"] {
            assert!(planned(&known, &metadata(elsewhere, None)).is_err(), "{elsewhere}");
        }
        assert!(planned(&known, &metadata("api.github.com", Some("github-pat"))).is_ok());
        assert!(planned(&known, &Metadata::default()).is_err(), "it names no host");
        // A key that signs goes nowhere itself.
        let mut signs = npm;
        let rule = signs.egress.as_mut().unwrap();
        rule.sign = Some(Signer::Aws { access_key_id: SecretPath::parse("a/b/c").unwrap() });
        assert!(planned(&known, &signs).is_err());
    }

    #[test]
    fn an_agents_check_is_a_request_that_rules_have_to_allow() {
        let known = Providers::bundled();
        let path = SecretPath::parse("team/npm/token").unwrap();
        let with = |allow: &[&str], ask: &[&str]| {
            let mut metadata = metadata("registry.npmjs.org", None);
            let rule = metadata.egress.as_mut().unwrap();
            let parse = |lines: &[&str]| {
                lines.iter().map(|line| RequestRule::parse(line).unwrap()).collect()
            };
            (rule.allow, rule.ask) = (parse(allow), parse(ask));
            metadata
        };
        let judged = |metadata: &Metadata| {
            let planned = plan_for_agent(&known, &path, metadata);
            planned.map(|plan| plan.is_some()).map_err(|error| error.code())
        };
        assert_eq!(judged(&with(&[], &[])), Ok(true));
        assert_eq!(judged(&with(&["GET /-/whoami"], &[])), Ok(true));
        assert_eq!(judged(&with(&["GET /left-pad"], &[])), Err(Code::RuleDenied));
        assert_eq!(judged(&with(&["* /**"], &["GET /-/**"])), Err(Code::ApprovalRequired));
        assert_eq!(judged(&metadata("npm.corp.test", None)), Ok(false));
        // The operator asks by the host alone.
        assert!(planned(&known, &with(&["GET /left-pad"], &["* /**"])).is_ok());
    }

    #[test]
    fn what_a_service_wants_beside_the_value() {
        let known = Providers::bundled();
        let path = SecretPath::parse("team/some/token").unwrap();
        let plan = |metadata: &Metadata, user| plan(&known, &path, metadata, user);
        // A user, from who asks or from how the proxy sets the credential.
        let mut twilio = metadata("api.twilio.com", Some("twilio-auth-token"));
        assert!(plan(&twilio, None).err().unwrap().contains("SID"), "it says what is missing");
        assert_eq!(plan(&twilio, Some("AC1")).ok().unwrap().user.unwrap(), "AC1");
        let rule = twilio.egress.as_mut().unwrap();
        rule.inject = Some(Injection::parse("basic:AC2:{}").unwrap());
        assert_eq!(plan(&twilio, None).ok().unwrap().user.unwrap(), "AC2");
        // A signature, and the id of its key.
        let mut aws = metadata("sts.amazonaws.com", Some("aws-secret-key"));
        assert!(plan(&aws, None).is_err(), "a key of AWS signs, and is never sent");
        let id = SecretPath::parse("team/aws/key-id").unwrap();
        let rule = aws.egress.as_mut().unwrap();
        rule.sign = Some(Signer::Aws { access_key_id: id.clone() });
        assert_eq!(plan(&aws, None).ok().unwrap().key_id.unwrap(), id);
        // Where there is no check, the catalog says why.
        let pypi = metadata("upload.pypi.org", Some("pypi-token"));
        assert!(plan(&pypi, None).err().unwrap().starts_with("no check: "));
    }

    /// Whoever writes a catalog can say what is asked, and not to whom.
    #[test]
    fn a_catalog_leads_no_value_elsewhere() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("npm.json");
        let ours = include_str!("../../vault/catalog/npm.json");
        std::fs::write(&file, ours.replace("registry.npmjs.org", "evil.test")).unwrap();
        let theirs = read_provider(&file).unwrap();
        let known = Providers::bundled().with(Tier::Project, theirs);
        assert!(planned(&known, &metadata("registry.npmjs.org", None)).is_err());
    }
}
