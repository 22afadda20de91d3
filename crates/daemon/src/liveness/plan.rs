//! Which check may be made of a secret's value: the catalog's, where its owner lets the value go there.
//!
//! Where each customer of a service has a host of their own, the catalog says what such hosts are called, and its owner
//! which one it is: by an exact destination, the only one of that kind. Nobody else names it.

use std::collections::BTreeSet;

use keyless_core::{
    Allowed, Authority, CheckBy, Code, Destination, EgressRule, Error, Injection, RequestFacts,
    SafeText, SecretPath, Signer, Slot, Verdict, decide_agents_check, decide_check,
};
use keyless_vault::{Liveness, LivenessAuth, Metadata, Providers};

use super::request::{authority, path_of, target, word};

/// A check that there is, and the rule of the secret.
struct Proposal<'m> {
    pattern: String,
    liveness: Liveness,
    authority: Authority,
    by: CheckBy,
    rule: &'m EgressRule,
}

/// A check that may be made.
pub(super) struct Plan {
    pub(super) pattern: String,
    pub(super) liveness: Liveness,
    pub(super) authority: Authority,
    pub(super) allowed: Allowed,
    /// The user beside the value, where the service wants one.
    pub(super) user: Option<String>,
    /// The secret with the access key's id, where the value signs.
    pub(super) key_id: Option<SecretPath>,
}

/// The check of a secret, if there is one and its owner lets the value go there.
pub(super) fn plan(
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
pub(super) fn plan_for_agent(
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
    let rule = metadata.egress.as_ref().ok_or("the secret names no destination; see --to")?;
    let liveness = match &liveness.hosts[..] {
        [] => liveness,
        hosts => {
            let own = own_host(hosts, &rule.to)?;
            liveness.at(&own)
        }
    };
    let authority = authority(&liveness.url).ok_or("the catalog's address is no plain https")?;
    let by = match liveness.auth {
        LivenessAuth::AwsSigv4 { .. } => CheckBy::Signature,
        _ => CheckBy::Value,
    };
    Ok(Proposal { pattern: variant.id.clone(), liveness, authority, by, rule })
}

/// The one host among these that the secret may go to.
fn own_host(among: &[Destination], to: &[Destination]) -> Result<Authority, String> {
    let within = to.iter().filter(|to| to.is_within(among));
    let own: BTreeSet<Authority> = within.filter_map(Destination::authority).collect();
    let own: Vec<Authority> = own.into_iter().collect();
    let listed = |hosts: Vec<String>| hosts.join(", ");
    match &own[..] {
        [one] => Ok(one.clone()),
        [] => {
            let among = listed(among.iter().map(ToString::to_string).collect());
            Err(format!(
                "each customer has a host of their own ({among}), and the secret's --to names none without a wildcard: add yours"
            ))
        }
        several => {
            let hosts = listed(several.iter().map(|own| own.host.to_string()).collect());
            Err(format!(
                "the secret's --to names more than one host that it could be checked at ({hosts}): give each a secret of its own"
            ))
        }
    }
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

    /// A service that has a host for each customer is asked at the one that the secret's owner names, and nowhere else.
    #[test]
    fn a_customers_own_host_is_the_one_that_the_owner_names() {
        let known = Providers::bundled();
        let path = SecretPath::parse("team/some/token").unwrap();
        let to = |hosts: &str, pattern: &str| {
            let parse = |host| Destination::parse(host).unwrap();
            let rule = EgressRule::to(hosts.split_whitespace().map(parse).collect());
            let mut metadata = Metadata { egress: Some(rule), ..Metadata::default() };
            metadata.upkeep.pattern_id = Some(pattern.to_owned());
            metadata
        };
        let asked = |hosts: &str, pattern: &str| {
            let plan = plan(&known, &path, &to(hosts, pattern), Some("me@acme.test"))?;
            assert_eq!(plan.authority, authority(&plan.liveness.url).unwrap());
            Ok(format!("{} {}", plan.authority, target(&plan.liveness.url)))
        };
        let jira = |hosts: &str| -> Result<String, String> { asked(hosts, "jira-api-token") };
        let at_acme = "acme.atlassian.net:443 /rest/api/3/myself";
        for hosts in [
            "acme.atlassian.net",
            "ACME.atlassian.net acme.atlassian.net. api.atlassian.com jira.acme.test",
            "acme.atlassian.net *.atlassian.net http://other.atlassian.net other.atlassian.net:8443",
        ] {
            assert_eq!(jira(hosts).as_deref(), Ok(at_acme), "{hosts}");
        }
        for none in [
            "api.atlassian.com",
            "*.atlassian.net",
            "atlassian.net",
            "a.b.atlassian.net",
            "acme.atlassian.net.evil.test",
            "acme-atlassian.net",
            "http://acme.atlassian.net",
            "acme.atlassian.net:8443",
            "127.0.0.1",
        ] {
            let why = jira(none).unwrap_err();
            assert!(why.contains("(*.atlassian.net)") && why.contains("--to"), "{none}: {why}");
        }
        let why = jira("acme.atlassian.net other.atlassian.net").unwrap_err();
        assert!(why.contains("(acme.atlassian.net, other.atlassian.net)"), "{why}");
        let why = plan(&known, &path, &to("acme.atlassian.net", "jira-api-token"), None).err();
        assert!(why.unwrap().contains("e-mail address: name it with --user"));
        let wiki = asked("acme.atlassian.net", "confluence-api-token");
        assert_eq!(wiki.unwrap(), "acme.atlassian.net:443 /wiki/rest/api/user/current");
        let azure = asked("acme.openai.azure.com", "azure-openai-key");
        let models = "/openai/models?api-version=2024-10-21";
        assert_eq!(azure.unwrap(), format!("acme.openai.azure.com:443 {models}"));
        for site in ["api.datadoghq.com", "api.datadoghq.eu", "api.us5.datadoghq.com"] {
            let datadog = asked(&format!("{site} http-intake.logs.{site}"), "datadog-api-key");
            assert_eq!(datadog.unwrap(), format!("{site}:443 /api/v1/validate"));
        }
    }

    /// An agent asks by the same rules as of any other check, and never where the operator could not.
    #[test]
    fn an_agent_asks_a_customers_own_host_by_the_rules_about_requests() {
        let known = Providers::bundled();
        let path = SecretPath::parse("team/some/token").unwrap();
        let judged = |to: &str, allow: &str| {
            let mut metadata = metadata(to, Some("azure-openai-key"));
            metadata.egress.as_mut().unwrap().allow = vec![RequestRule::parse(allow).unwrap()];
            let planned = plan_for_agent(&known, &path, &metadata);
            planned.map(|plan| plan.is_some()).map_err(|error| error.code())
        };
        assert_eq!(judged("acme.openai.azure.com", "GET /openai/models"), Ok(true));
        let elsewhere = judged("acme.openai.azure.com", "POST /openai/deployments/**");
        assert_eq!(elsewhere, Err(Code::RuleDenied));
        assert_eq!(judged("*.openai.azure.com", "* /**"), Ok(false));
    }

    /// Whoever writes a catalog can say what is asked, and not to whom.
    #[test]
    fn a_catalog_leads_no_value_elsewhere() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("npm.json");
        let ours = include_str!("../../../vault/catalog/npm.json");
        std::fs::write(&file, ours.replace("registry.npmjs.org", "evil.test")).unwrap();
        let theirs = read_provider(&file).unwrap();
        let known = Providers::bundled().with(Tier::Url, theirs);
        assert!(planned(&known, &metadata("registry.npmjs.org", None)).is_err());
        // Nor whatever host an owner has named.
        let any = ours
            .replace("https://registry.npmjs.org", "https://{host}")
            .replace("\"kind\": \"http\",", "\"kind\": \"http\", \"hosts\": [\"*.corp.test\"],");
        std::fs::write(&file, any).unwrap();
        let theirs = || read_provider(&file).unwrap();
        let at_corp = |tier| {
            let known = Providers::bundled().with(tier, theirs());
            planned(&known, &metadata("npm.corp.test", Some("npm-token")))
        };
        assert_eq!(at_corp(Tier::User).unwrap(), "npm.corp.test:443");
        assert!(at_corp(Tier::Url).is_err());
    }
}
