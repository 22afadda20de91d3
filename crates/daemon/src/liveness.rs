//! Whether a service takes a secret's value: one request of the token catalog's, under a permit.
//!
//! What is asked, the catalog says; where a value may go, its owner has said. A check that would lead elsewhere is
//! none, so no catalog, a project's least of all, brings a value to a host of its own. Over verified TLS on
//! port 443, from public addresses alone, and no redirect is followed. It is on record before it begins.
//! Source: reference/secrets.md, 9.3 and 18 (gaps 4 and 15).

use std::{collections::HashMap, sync::Arc, time::Duration};

use data_encoding::BASE64;
use jiff::Timestamp;
use keyless_core::{
    Allowed, Authority, Code, EgressRule, Error, Permit, RequestFacts, SafeText, Scheme,
    SecretPath, SecretValue, Verdict,
    audit::{Action, Agent, Detail, Draft, Outcome, Target},
    decide_agents_check, decide_check,
};
use keyless_egress::{Client, ClientRequest, Released, Whose};
use keyless_store::AuditLog;
use keyless_vault::{
    Liveness, LivenessAuth, LivenessMethod, Metadata, Moment, Providers, Secret, Vault,
};
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use tokio::{sync::Mutex as AsyncMutex, task::spawn_blocking};
use uuid::Uuid;
use zeroize::Zeroizing;

use crate::{
    broker::agent, config::Config, egress_door::engine_config, places::Places, providers::providers,
};

/// More than any service answers to a question about a token.
const MAX_ANSWER: usize = 1 << 20;
/// From the entry in the log to the moment when the value is put into the request.
const PERMIT_LIFE: Duration = Duration::from_secs(30);
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
    rule: &'m EgressRule,
}

/// A check that may be made.
struct Plan {
    pattern: String,
    liveness: Liveness,
    authority: Authority,
    allowed: Allowed,
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
        who: Agent,
    ) -> Result<Checked, Error> {
        let (known, config) = self.in_force().await?;
        match plan(&known, value.path(), metadata) {
            Ok(plan) => self.carry_out(plan, &config, value, who).await,
            Err(why) => Ok(unsupported(None, why)),
        }
    }

    /// As [`LivenessChecks::check`] for a value before it is saved, where the operator wants that.
    pub(crate) async fn check_on_save(
        &self,
        metadata: &Metadata,
        value: SecretValue,
    ) -> Result<Option<Checked>, Error> {
        if !self.in_force().await?.1.liveness.on_save {
            return Ok(None);
        }
        self.check(metadata, value, agent("operator", "operator")).await.map(Some)
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
        let checked = self.carry_out(plan, &config, value, agent("mcp", session)).await?;
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
        who: Agent,
    ) -> Result<Checked, Error> {
        let Plan { pattern, liveness, authority, allowed } = plan;
        let client = Client::new(engine_config(config, None)?).map_err(|_| Code::ConfigInvalid)?;
        let target = target(&liveness.url);
        let mut record = Record::new(&self.log, who, &authority, &liveness, target);
        let released = Released::new(value, record.begin(allowed).await?);
        let checked = match credential(&liveness.auth, released.open(Timestamp::now())?) {
            None => unsupported(Some(pattern), "the value is no text, which a header needs"),
            Some((name, text)) => {
                let headers = vec![("accept", "*/*"), ("user-agent", "keyless"), (name, &*text)];
                let method = word(liveness.method);
                let request = ClientRequest { method, target, headers, body: &[] };
                let (scheme, whose) = (Scheme::Https, Whose::Catalogs);
                let sent = client.send(scheme, &authority, whose, &request, MAX_ANSWER).await;
                let sent = sent.map(|answer| answer.status);
                answered(pattern, &authority, &sent, liveness.expect_status)
            }
        };
        record.end(&checked).await?;
        Ok(checked)
    }
}

fn answered(
    pattern: String,
    authority: &Authority,
    sent: &Result<u16, Error>,
    expected: u16,
) -> Checked {
    let verdict = match sent {
        Ok(status) => judge(*status, expected),
        Err(_) => LivenessVerdict::Unreachable,
    };
    Checked {
        verdict,
        pattern: Some(pattern),
        host: Some(authority.host.to_string()),
        status: sent.as_ref().ok().copied(),
        why: sent.as_ref().err().map(Error::message),
    }
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
fn plan(known: &Providers, path: &SecretPath, metadata: &Metadata) -> Result<Plan, &'static str> {
    let Proposal { pattern, liveness, authority, rule } = propose(known, path, metadata)?;
    let allowed = decide_check(path, rule, &authority)
        .ok_or("the value may not go to the host of the check; see --to")?;
    Ok(Plan { pattern, liveness, authority, allowed })
}

/// As [`plan`] for an agent; nothing where there is no check, an error where its rules keep it from this one.
fn plan_for_agent(
    known: &Providers,
    path: &SecretPath,
    metadata: &Metadata,
) -> Result<Option<Plan>, Error> {
    let Ok(proposal) = propose(known, path, metadata) else { return Ok(None) };
    let Proposal { pattern, liveness, authority, rule } = proposal;
    let method = word(liveness.method);
    let at = path_of(target(&liveness.url));
    let (methods, target) = (vec![method.to_owned()], at.to_owned());
    let request = RequestFacts { methods, path: target, ..RequestFacts::default() };
    let refused = |code, why: &'static str| {
        let words = SafeText::words("checking ").and(path).and(" sends ").and(method).and(" ");
        let words = words.as_they_wrote(at).and(" to its service: ").and(why);
        Err(Error::with(code, words))
    };
    match decide_agents_check(path, rule, &authority, &request) {
        Verdict::Allow(allowed) => Ok(Some(Plan { pattern, liveness, authority, allowed })),
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
) -> Result<Proposal<'m>, &'static str> {
    let pattern = metadata.upkeep.pattern_id.as_deref();
    let (_, variant) =
        known.of_secret(path, pattern).ok_or("the catalog knows no such kind of token")?;
    let liveness = variant.liveness.clone().ok_or("the catalog has no check for it")?;
    let authority = authority(&liveness.url).ok_or("the catalog's address is no plain https")?;
    let rule = metadata.egress.as_ref().ok_or("the secret names no destination")?;
    Ok(Proposal { pattern: variant.id.clone(), liveness, authority, rule })
}

/// The two entries about one check.
struct Record<'a> {
    log: &'a AuditLog,
    who: Arc<Agent>,
    authority: Authority,
    secrets: Vec<SecretPath>,
    correlation_id: String,
    detail: Detail,
}

impl<'a> Record<'a> {
    fn new(
        log: &'a AuditLog,
        who: Agent,
        authority: &Authority,
        liveness: &Liveness,
        target: &str,
    ) -> Self {
        let path = path_of(target).to_owned();
        let method = Some(word(liveness.method).to_owned());
        let kind = Some("check".to_owned());
        Self {
            log,
            who: Arc::new(who),
            authority: authority.clone(),
            secrets: Vec::new(),
            correlation_id: format!("req-{}", Uuid::now_v7()),
            detail: Detail { method, path: Some(path), kind, ..Detail::default() },
        }
    }

    /// Writes down that the value is used; only that opens it.
    async fn begin(&mut self, allowed: Allowed) -> Result<Permit, Error> {
        self.secrets = vec![allowed.path().clone()];
        let mut draft = self.draft(Outcome::Success);
        draft.allowed = Some(allowed);
        let recorded = self.log.append(draft).await?;
        let until = Timestamp::now() + PERMIT_LIFE;
        Permit::from_recorded(recorded, until).ok_or_else(|| Code::Internal.into())
    }

    async fn end(&mut self, checked: &Checked) -> Result<(), Error> {
        self.detail.status = checked.status;
        self.detail.note = Some(checked.verdict.as_str().to_owned());
        let outcome = match checked.verdict {
            LivenessVerdict::Valid => Outcome::Success,
            LivenessVerdict::Rejected => Outcome::Denied,
            _ => Outcome::Error,
        };
        self.log.append(self.draft(outcome)).await.map(drop)
    }

    fn draft(&self, outcome: Outcome) -> Draft {
        Draft {
            secrets_used: self.secrets.clone(),
            detail: self.detail.clone(),
            ..Draft::new(
                Timestamp::now(),
                Arc::clone(&self.who),
                Action::Egress,
                outcome,
                Target::Authority(self.authority.clone()),
                self.correlation_id.clone(),
            )
        }
    }
}

/// An answer that is neither the expected one nor a refusal says nothing: a limit, a redirect, a fault of theirs.
/// Some services call a token that they don't know a bad request.
fn judge(status: u16, expected: u16) -> LivenessVerdict {
    match status {
        _ if status == expected => LivenessVerdict::Valid,
        400 | 401 | 403 => LivenessVerdict::Rejected,
        _ => LivenessVerdict::Unclear,
    }
}

/// The header that carries the value; nothing when it can't.
fn credential<'a>(auth: &'a LivenessAuth, value: &[u8]) -> Option<(&'a str, Zeroizing<String>)> {
    let text = std::str::from_utf8(value).ok()?;
    let basic = |pair: Zeroizing<String>| {
        Zeroizing::new(format!("Basic {}", *Zeroizing::new(BASE64.encode(pair.as_bytes()))))
    };
    Some(match auth {
        LivenessAuth::BasicPassword => ("authorization", basic(Zeroizing::new(format!(":{text}")))),
        LivenessAuth::BasicUser => ("authorization", basic(Zeroizing::new(format!("{text}:")))),
        LivenessAuth::Bearer => ("authorization", Zeroizing::new(format!("Bearer {text}"))),
        LivenessAuth::Header { name } => (name, Zeroizing::new(text.to_owned())),
    })
}

fn unsupported(pattern: Option<String>, why: &'static str) -> Checked {
    let (verdict, why) = (LivenessVerdict::Unsupported, Some(why.to_owned()));
    Checked { verdict, pattern, host: None, status: None, why }
}

fn word(method: LivenessMethod) -> &'static str {
    match method {
        LivenessMethod::Get => "GET",
        LivenessMethod::Head => "HEAD",
        LivenessMethod::Post => "POST",
    }
}

/// The catalog has seen to it that the address is https, with a host and nothing else before the path.
fn authority(url: &str) -> Option<Authority> {
    let rest = url.strip_prefix("https://")?;
    let host = rest.split(['/', '?', '#']).next()?;
    Authority::parse_for(host, Scheme::Https).ok()
}

fn target(url: &str) -> &str {
    let rest = url.strip_prefix("https://").unwrap_or(url);
    let path = rest.find('/').map_or("/", |at| &rest[at..]);
    path.split('#').next().unwrap_or("/")
}

fn path_of(target: &str) -> &str {
    target.split('?').next().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use keyless_core::{Destination, RequestRule, Signer};
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

    fn planned(known: &Providers, metadata: &Metadata) -> Result<String, &'static str> {
        let path = SecretPath::parse("team/npm/token").unwrap();
        plan(known, &path, metadata).map(|plan| plan.authority.to_string())
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

    #[test]
    fn what_an_answer_says() {
        use LivenessVerdict::{Rejected, Unclear, Valid};
        for (status, verdict) in [
            (200, Valid),
            (400, Rejected),
            (401, Rejected),
            (403, Rejected),
            (204, Unclear),
            (302, Unclear),
            (404, Unclear),
            (429, Unclear),
            (503, Unclear),
        ] {
            assert_eq!(judge(status, 200), verdict, "{status}");
        }
    }

    #[test]
    fn where_the_value_stands() {
        let header = |auth: LivenessAuth| {
            credential(&auth, b"abc").map(|(name, text)| format!("{name}: {}", *text)).unwrap()
        };
        assert_eq!(header(LivenessAuth::Bearer), "authorization: Bearer abc");
        assert_eq!(header(LivenessAuth::BasicUser), "authorization: Basic YWJjOg==");
        assert_eq!(header(LivenessAuth::BasicPassword), "authorization: Basic OmFiYw==");
        assert_eq!(header(LivenessAuth::Header { name: "X-Key".to_owned() }), "X-Key: abc");
        assert!(credential(&LivenessAuth::Bearer, b"\xff").is_none());
        assert_eq!(target("https://a.test/b?c=d#e"), "/b?c=d");
        assert_eq!(target("https://a.test"), "/");
    }
}
