//! From a variable's name, and its value where there is one, to a path: by the catalog first, then by words.

use keyless_core::{Destination, EgressRule, Placeholder, SecretPath};
use keyless_vault::{
    EnvForm, EnvMeaning, FormatVerdict, Metadata, Provider, Providers, Scope, Variant,
};

use super::{carrying::Login, names, values};
use crate::{environment::is_of_sessions, operator::read_variable};

/// Says what variables of one project hold.
pub struct Proposer<'a> {
    providers: &'a Providers,
    project: String,
    looks_secret: &'a dyn Fn(&str) -> bool,
}

/// What a variable holds.
#[derive(Clone, Debug, PartialEq)]
pub enum Judged {
    /// A secret, for which this is proposed.
    Secret(Proposal),
    /// Nothing to keep, and why: a fragment of a sentence.
    Skip(&'static str),
}

/// Where a variable's value should go, and what is known of it.
#[derive(Clone, Debug, PartialEq)]
pub struct Proposal {
    /// Its path.
    pub path: SecretPath,
    /// The variable.
    pub variable: String,
    /// The catalog's pattern, if it knows one.
    pub pattern: Option<String>,
    /// The service, for people.
    pub service: Option<String>,
    /// Where the catalog lets it go, or the address that its value is.
    pub to: Vec<Destination>,
    /// The rule and the form of an address whose password is the secret.
    pub login: Option<Box<(EgressRule, EnvForm)>>,
}

/// Why a proxy's address is none, though it may have a password in it.
const OF_SESSIONS: &str = "is set by sessions; a proxy stands in [egress.upstream_proxy]";

/// Why a setting whose value is random is told to a person.
const DOUBTFUL: &str = "is a setting by its name, yet its value looks made up (keyless secret import FILE --also NAME takes it)";

/// How many paths of one name a project is offered; nobody has as many values for one variable.
const MOST_NUMBERED: usize = 20;

/// What a name begins with when it is for trying things out.
const TEST_PREFIXES: &[&str] = &["DEMO_", "DUMMY_", "TEST_"];

impl Judged {
    /// Whether it is left out by its name though its value may be a credential.
    pub fn is_doubtful(&self) -> bool {
        matches!(self, Self::Skip(DOUBTFUL))
    }
}

impl<'a> Proposer<'a> {
    /// A proposer for the project of this name. `looks_secret` says whether a line `NAME=value` holds what looks
    /// like a credential by its form.
    pub fn new(
        providers: &'a Providers,
        project: &str,
        looks_secret: &'a dyn Fn(&str) -> bool,
    ) -> Self {
        let project = names::kebab(project).unwrap_or_else(|| "project".to_owned());
        Self { providers, project, looks_secret }
    }

    /// What `name` holds, by its name alone.
    pub fn judge_name(&self, name: &str) -> Judged {
        if is_of_sessions(name) {
            return Judged::Skip(OF_SESSIONS);
        }
        if let Some(judged) = self.by_catalog(name, None) {
            return judged;
        }
        if names::is_setting(name) {
            return Judged::Skip("is a setting by its name");
        }
        if !names::is_secret(name) {
            return Judged::Skip("does not look like a secret");
        }
        if names::is_ambiguous(name) {
            return Judged::Skip("says nothing of whose secret it is");
        }
        self.by_words(name)
    }

    /// What `name` holds, by its name and its value: what looks like a credential is one under any name.
    pub fn judge(&self, name: &str, value: &str) -> Judged {
        if let Some(why) = stands_for_another(value) {
            return Judged::Skip(why);
        }
        match self.judge_name(name) {
            // No session would give it to a command, whatever is in it.
            skip @ Judged::Skip(OF_SESSIONS) => skip,
            Judged::Skip(_) if self.is_known_token(value) => self.by_value(name, value),
            Judged::Skip(_)
                if holds_password(value)
                    || values::holds_credential_field(value)
                    || self.looks(name, value) =>
            {
                self.by_words(name)
            }
            Judged::Skip(_) if values::is_made_up(value) && !names::is_open(name) => {
                if names::is_setting(name) || self.providers.of_variable(name).is_some() {
                    Judged::Skip(DOUBTFUL)
                } else {
                    self.by_words(name)
                }
            }
            Judged::Skip(why) if names::is_secret(name) && !names::is_setting(name) => {
                // The catalog's word on a name stands; that a name says little does not lose its value.
                if self.providers.of_variable(name).is_some() {
                    Judged::Skip(why)
                } else {
                    self.by_words(name)
                }
            }
            Judged::Secret(_) => {
                self.by_catalog(name, Some(value)).unwrap_or_else(|| self.by_words(name))
            }
            skip @ Judged::Skip(_) => skip,
        }
    }

    /// Whether a variable of an environment holds a credential, by its name or by the form of its value. One that is
    /// merely random under a name that says nothing holds none: terminals, sessions and invocations are numbered.
    pub fn is_credential(&self, name: &str, value: &str) -> bool {
        let proposal = match self.judge(name, value) {
            Judged::Secret(proposal) => proposal,
            Judged::Skip(OF_SESSIONS) => return false,
            // `CI_REGISTRY_PASSWORD` begins as settings do.
            skip @ Judged::Skip(_) => {
                return names::ends_in_secret(name)
                    && (skip.is_doubtful() || values::is_chosen_password(name, value));
            }
        };
        proposal.pattern.is_some()
            || names::is_secret(name)
            || holds_password(value)
            || values::holds_credential_field(value)
            || self.looks(name, value)
    }

    /// The place that an alias names: it is the project's own word.
    pub(super) fn aliased(&self, name: &str, path: SecretPath) -> Proposal {
        Proposal { path, ..self.named(name) }
    }

    /// Paths under the project's own name for what finds `path` taken: `team/github/token` as `shop/github/token`,
    /// then `shop/github/token-2` and so on.
    pub(super) fn of_project(&self, path: &SecretPath) -> impl Iterator<Item = SecretPath> + use<> {
        let rest = path.as_str().split_once('/').map_or("", |(_, rest)| rest);
        let wanted = format!("{}/{rest}", self.project);
        let numbered = (2..=MOST_NUMBERED).map({
            let wanted = wanted.clone();
            move |number| format!("{wanted}-{number}")
        });
        std::iter::once(wanted).chain(numbered).filter_map(|path| SecretPath::parse(&path).ok())
    }

    /// A place for a variable that a person wants kept, whatever it looks like.
    pub(super) fn named(&self, name: &str) -> Proposal {
        match self.by_catalog(name, None).unwrap_or_else(|| self.by_words(name)) {
            Judged::Secret(proposal) => proposal,
            Judged::Skip(_) => self.own(name),
        }
    }

    /// What the store should know of a value of this proposal.
    pub fn metadata(&self, proposal: &Proposal, value: &[u8]) -> Metadata {
        let env = read_variable(&proposal.variable).ok();
        let mut metadata = Metadata { env, ..Metadata::default() };
        if let Some((rule, form)) = proposal.login.as_deref() {
            metadata.egress = Some(rule.clone());
            metadata.env_form = Some(form.clone());
        }
        let Some((_, variant)) =
            proposal.pattern.as_deref().and_then(|id| self.providers.variant(id))
        else {
            return metadata;
        };
        let mut metadata = variant.complete(metadata);
        if variant.judge(value) == FormatVerdict::Invalid {
            // The service is right, its format is another: a look-alike would look wrong.
            metadata.upkeep.format_regex = None;
            metadata.upkeep.pattern_id = None;
            metadata.placeholder = Metadata::default().placeholder;
        }
        metadata
    }

    fn by_catalog(&self, name: &str, value: Option<&str>) -> Option<Judged> {
        let upper = name.to_ascii_uppercase();
        let test = TEST_PREFIXES.iter().find_map(|prefix| upper.strip_prefix(prefix));
        let meaning = self.providers.of_variable(name);
        let (meaning, scope) = match (meaning, test) {
            (None, Some(plain)) => (self.providers.of_variable(plain)?, Some(Scope::Personal)),
            (meaning, _) => (meaning?, None),
        };
        Some(match meaning {
            EnvMeaning::Skip(_) => Judged::Skip("is a setting of a service in the catalog"),
            EnvMeaning::Token(provider, variant, its_scope) => {
                let variant = value.map_or(variant, |value| fitting(provider, variant, value));
                proposal(name, provider, variant, scope.unwrap_or(its_scope))
            }
        })
    }

    /// By a format that only one service's tokens have.
    fn by_value(&self, name: &str, value: &str) -> Judged {
        match self.providers.of_value(value.as_bytes()) {
            Some((provider, variant)) => proposal(name, provider, variant, Scope::Team),
            None => self.by_words(name),
        }
    }

    fn is_known_token(&self, value: &str) -> bool {
        self.providers.of_value(value.as_bytes()).is_some() && (self.looks_secret)(value)
    }

    /// Whether a line holds what looks like a credential.
    pub(super) fn finds_in(&self, line: &str) -> bool {
        (self.looks_secret)(line)
    }

    fn looks(&self, name: &str, value: &str) -> bool {
        (self.looks_secret)(&format!("{name}={value}"))
    }

    /// `ACME_API_KEY` as `personal/acme/api-key`; what says nothing of a service is the project's own.
    fn by_words(&self, name: &str) -> Judged {
        let kebab = names::kebab(name).unwrap_or_default();
        let path = match kebab.split_once('-') {
            Some((service, purpose)) if !names::is_ambiguous(name) => {
                format!("personal/{service}/{purpose}")
            }
            _ => return Judged::Secret(self.own(name)),
        };
        secret(name, &path, None, Vec::new())
    }

    /// Under the project's own name.
    fn own(&self, name: &str) -> Proposal {
        let purpose = names::kebab(name).unwrap_or_else(|| "value".to_owned());
        let path = SecretPath::parse(&format!("personal/{}/{purpose}", self.project));
        let short = || SecretPath::parse("personal/project/value").expect("it is a path");
        Proposal {
            path: path.unwrap_or_else(|_| short()),
            variable: name.to_owned(),
            pattern: None,
            service: None,
            to: Vec::new(),
            login: None,
        }
    }
}

impl Proposal {
    /// What stands around the value in its variable.
    pub(super) fn form(&self) -> Option<&EnvForm> {
        self.login.as_deref().map(|(_, form)| form)
    }

    /// With where the address leads that the value is.
    pub(super) fn with_login(&mut self, login: &Login) {
        if self.to.is_empty() {
            self.to.clone_from(&login.rule.to);
        }
        self.login = Some(Box::new((login.rule.clone(), login.form.clone())));
    }
}

/// `GITHUB_TOKEN` as `team/github/token`.
fn proposal(name: &str, provider: &Provider, variant: &Variant, scope: Scope) -> Judged {
    let id = provider.provider_id.as_str();
    let kebab = names::kebab(name).unwrap_or_default();
    let purpose =
        kebab.strip_prefix(id).map_or(kebab.as_str(), |rest| rest.trim_start_matches('-'));
    let purpose = if purpose.is_empty() { "token" } else { purpose };
    let scope = match scope {
        Scope::Personal => "personal",
        Scope::Sandbox => "sandbox",
        Scope::Team => "team",
    };
    let to = variant.egress.as_ref().map(|egress| egress.to.clone()).unwrap_or_default();
    secret(name, &format!("{scope}/{id}/{purpose}"), Some((provider, variant)), to)
}

fn secret(
    name: &str,
    path: &str,
    known: Option<(&Provider, &Variant)>,
    to: Vec<Destination>,
) -> Judged {
    let Ok(path) = SecretPath::parse(path) else {
        return Judged::Skip("has no name that a path could have");
    };
    Judged::Secret(Proposal {
        path,
        variable: name.to_owned(),
        pattern: known.map(|(_, variant)| variant.id.clone()),
        service: known.map(|(provider, _)| provider.display_name.clone()),
        to,
        login: None,
    })
}

/// The service's kind of token whose format the value has; else the one that the name means.
fn fitting<'v>(provider: &'v Provider, variant: &'v Variant, value: &str) -> &'v Variant {
    let fits = |variant: &&Variant| variant.judge(value.as_bytes()) == FormatVerdict::Ok;
    let meant = Some(variant).filter(fits);
    meant.or_else(|| provider.variants.iter().find(fits)).unwrap_or(variant)
}

/// Why a value is none of its own.
pub(super) fn stands_for_another(value: &str) -> Option<&'static str> {
    let value = value.trim();
    let wrapped = |open: &str, close: &str| value.starts_with(open) && value.ends_with(close);
    if value.is_empty() {
        return Some("is empty");
    }
    if value.starts_with(keyless_core::ALIAS_PREFIX) {
        return Some("is an alias already");
    }
    if Placeholder::is_begun_by(value.as_bytes()) {
        return Some("is a placeholder already");
    }
    let other =
        wrapped("${", "}") || wrapped("$(", ")") || wrapped("{{", "}}") || wrapped("<", ">");
    (other || value.starts_with("op://")).then_some("refers to something else")
}

/// `scheme://user:password@host`.
fn holds_password(value: &str) -> bool {
    let Some((_, rest)) = value.split_once("://") else { return false };
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let Some((login, _)) = authority.rsplit_once('@') else { return false };
    login
        .split_once(':')
        .is_some_and(|(_, password)| !password.is_empty() && !password.starts_with('$'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path_of(judged: &Judged) -> Result<&str, &'static str> {
        match judged {
            Judged::Secret(proposal) => Ok(proposal.path.as_str()),
            Judged::Skip(why) => Err(why),
        }
    }

    #[test]
    fn names_become_paths_by_catalog_then_words() {
        let providers = Providers::bundled();
        let proposer = Proposer::new(&providers, "My App", &|_| false);
        let rows = [
            ("GITHUB_TOKEN", Ok("team/github/token")),
            ("OPENAI_API_KEY", Ok("team/openai/api-key")),
            ("AWS_SECRET_ACCESS_KEY", Ok("team/aws/secret-access-key")),
            ("DATABASE_URL", Ok("team/postgres/database-url")),
            ("TEST_GITHUB_TOKEN", Ok("personal/github/test-github-token")),
            ("ACME_API_KEY", Ok("personal/acme/api-key")),
            ("SMTP_PASSWORD", Ok("personal/smtp/password")),
            ("AWS_REGION", Err("is a setting of a service in the catalog")),
            ("REDIS_HOST", Err("is a setting by its name")),
            ("CI_COMMIT_SHA", Err("is a setting by its name")),
            ("API_KEY", Err("says nothing of whose secret it is")),
            ("GREETING", Err("does not look like a secret")),
            ("SSL_CERT_FILE", Err(OF_SESSIONS)),
        ];
        for (name, expected) in rows {
            assert_eq!(path_of(&proposer.judge_name(name)), expected, "{name}");
        }
    }

    #[test]
    fn what_a_value_is_outweighs_a_name_that_says_little() {
        let providers = Providers::bundled();
        let looks = |line: &str| line.contains("Zk3v9QwT1rXb7LmN5pYc2HsDf8GjKa4EuVoR");
        let proposer = Proposer::new(&providers, "app", &looks);
        let token = format!("ghp_{}", "Zk3v9QwT1rXb7LmN5pYc2HsDf8GjKa4EuVoR");
        let rows = [
            ("MAGIC", token.as_str(), Ok("team/github/magic")),
            ("API_KEY", "0f3a9b7c5d1e8246", Ok("personal/app/api-key")),
            ("REDIS_URL", "redis://app:hunter2@cache:6379/0", Ok("personal/redis/url")),
            ("REDIS_URL", "redis://cache:6379/0", Err("is a setting by its name")),
            ("MSSQL", "Server=db;User Id=sa;Password=Xk29fjs0dkfj;", Ok("personal/app/mssql")),
            ("NEXTAUTH", "q7w2n9d4k1s8z5x3c6v0b2m7j4h9g1f5t8r3y6p2", Ok("personal/app/nextauth")),
            ("OTP_SEED", "JB5WY3DP2EHPK3PXQ7N4ZT6A", Ok("personal/otp/seed")),
            (
                "GIT_SHA",
                "9f2c71b04ad8e6537bc1d20f98ea4b569f2c71b0",
                Err("does not look like a secret"),
            ),
            ("APP_MODE", "q7w2n9d4k1s8z5x3c6v0b2m7j4h9g1f5t8r3y6p2", Err(DOUBTFUL)),
            ("AWS_REGION", "q7w2n9d4k1s8z5x3c6v0b2m7j4h9g1f5t8r3y6p2", Err(DOUBTFUL)),
            ("APP_MODE", "blue", Err("is a setting by its name")),
            ("GITHUB_TOKEN", "", Err("is empty")),
            ("HTTPS_PROXY", "http://ada:hunter2@proxy.test:3128", Err(OF_SESSIONS)),
            ("GITHUB_TOKEN", "${OTHER}", Err("refers to something else")),
            ("GITHUB_TOKEN", "@secret:team/github/token", Err("is an alias already")),
            ("AWS_REGION", "eu-central-1", Err("is a setting of a service in the catalog")),
        ];
        for (name, value, expected) in rows {
            assert_eq!(path_of(&proposer.judge(name, value)), expected, "{name}={value}");
        }
        let Judged::Secret(classic) = proposer.judge("GITHUB_TOKEN", &token) else { panic!() };
        assert_eq!(classic.pattern.as_deref(), Some("github-pat"), "by the value's format");
        assert!(proposer.metadata(&classic, token.as_bytes()).upkeep.format_regex.is_some());
        let odd = proposer.metadata(&classic, b"another form altogether");
        assert!(odd.egress.is_some() && odd.upkeep.format_regex.is_none());
    }
}
