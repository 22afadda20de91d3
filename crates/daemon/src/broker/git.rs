//! git, where a session has a token for its host: it logs in over HTTPS with that, whatever form a remote has, and keeps no
//! placeholder in a repository's settings, where the next session's git would find it.
//!
//! Said in variables (`GIT_CONFIG_COUNT`, git-config(1)), so that no file is written; what the user has there stays. Pure.

use keyless_core::{Destination, Host, Location};
use keyless_vault::Secret;

use super::{Inherited, Variable};

/// Hosts beside a service's own that are no git's.
const NO_GIT: [&str; 4] = ["api.", "raw.", "registry.", "uploads."];
const COUNT: &str = "GIT_CONFIG_COUNT";

/// The hosts of git that everybody knows, and the user name that each takes beside a token of which nothing else is known.
const KNOWN: [(&str, &str); 4] = [
    ("bitbucket.org", "x-token-auth"),
    ("codeberg.org", "x-access-token"),
    ("github.com", "x-access-token"),
    ("gitlab.com", "oauth2"),
];
/// The user name beside a token, by the beginning of its pattern in the catalog, for hosts of one's own too. `None` where
/// a token has a user name that its owner alone knows.
const BY_PATTERN: [(&str, Option<&str>); 5] = [
    ("bitbucket-api-token", Some("x-bitbucket-api-token-auth")),
    ("bitbucket-app-password", None),
    ("github-", Some("x-access-token")),
    ("gitlab-deploy-token", None),
    ("gitlab-", Some("oauth2")),
];

/// The variables by which git in the session logs in at the hosts of `chosen`, beside those of the user among `inherited`.
pub(super) fn git_variables(
    chosen: &[Secret],
    variables: &[Variable],
    inherited: &[&Inherited],
) -> Vec<(String, String)> {
    let own = inherited.iter().find(|one| one.name == COUNT);
    let own = own.map(|one| one.value.trim()).filter(|count| !count.is_empty());
    // What is no number stops every git, and is the user's to mend.
    let Ok(count) = own.map_or(Ok(0), str::parse::<u16>).map(usize::from) else {
        return Vec::new();
    };
    let mut settings: Vec<(String, String)> = Vec::new();
    let mut hosts: Vec<String> = Vec::new();
    for secret in chosen {
        let Some(variable) = variable_of(secret, variables) else { continue };
        for (host, user) in logins(secret) {
            if hosts.contains(&host) {
                continue;
            }
            let key = format!("credential.https://{host}.helper");
            if sets(inherited, &key) {
                continue;
            }
            // An empty one takes back those of other files, which would be asked first.
            settings.push((key.clone(), String::new()));
            settings.push((key, helper(user, variable)));
            for ssh in [format!("git@{host}:"), format!("ssh://git@{host}/")] {
                settings.push((format!("url.https://{host}/.insteadOf"), ssh));
            }
            hosts.push(host);
        }
    }
    if settings.is_empty() {
        return Vec::new();
    }
    let mut all = vec![(COUNT.to_owned(), (count + settings.len()).to_string())];
    for (index, (key, value)) in settings.into_iter().enumerate() {
        let number = count + index;
        all.push((format!("GIT_CONFIG_KEY_{number}"), key));
        all.push((format!("GIT_CONFIG_VALUE_{number}"), value));
    }
    all
}

/// The helper that git starts through a shell, with what it is to do behind it.
fn helper(user: &str, variable: &str) -> String {
    format!(
        "!f() {{ test \"$1\" = get || exit 0; echo username={user}; echo \"password=${variable}\"; }}; f"
    )
}

/// The variable that holds the secret's placeholder, and nothing beside it.
fn variable_of<'a>(secret: &'a Secret, variables: &[Variable]) -> Option<&'a str> {
    let metadata = &secret.metadata;
    let name = metadata.env.as_ref().filter(|_| metadata.env_form.is_none())?.as_str();
    variables.iter().any(|variable| variable.name == name).then_some(name)
}

/// The hosts of git at which the secret is a password, and the user name that goes with it.
fn logins(secret: &Secret) -> impl Iterator<Item = (String, &'static str)> + '_ {
    let metadata = &secret.metadata;
    let rule = metadata.egress.as_ref().filter(|rule| {
        rule.locations.contains(Location::Basic) && rule.inject.is_none() && rule.sign.is_none()
    });
    let pattern = metadata.upkeep.pattern_id.as_deref().unwrap_or_default();
    let by_pattern = BY_PATTERN.iter().find(|(begin, _)| pattern.starts_with(begin));
    rule.into_iter().flat_map(|rule| &rule.to).filter_map(move |to| {
        let host = plain_host(to)?;
        let known = KNOWN.iter().find(|(known, _)| *known == host);
        let is_other = NO_GIT.iter().any(|begin| host.starts_with(begin));
        let user = match by_pattern {
            Some((_, user)) => user.filter(|_| known.is_some() || !is_other)?,
            None => known?.1,
        };
        Some((host, user))
    })
}

/// The name, of a destination that is one host at HTTPS's own port.
fn plain_host(to: &Destination) -> Option<String> {
    match to.authority()? {
        authority if authority.port != 443 => None,
        authority => match authority.host {
            Host::Name(name) => Some(name.as_str().to_owned()),
            Host::Ip(_) => None,
        },
    }
}

/// Whether the user's own variables set this.
fn sets(inherited: &[&Inherited], key: &str) -> bool {
    let is_key = |one: &&&Inherited| one.name.starts_with("GIT_CONFIG_KEY_");
    inherited.iter().filter(is_key).any(|one| one.value.eq_ignore_ascii_case(key))
}

#[cfg(test)]
mod tests {
    use keyless_core::{EgressRule, SecretPath};
    use keyless_vault::{EnvName, Metadata};

    use super::*;

    fn secret(to: &[&str], pattern: Option<&str>) -> Secret {
        let to = to.iter().map(|to| Destination::parse(to).unwrap()).collect();
        let mut metadata = Metadata {
            egress: Some(EgressRule::to(to)),
            env: Some(EnvName::parse("TOKEN").unwrap()),
            ..Metadata::default()
        };
        metadata.upkeep.pattern_id = pattern.map(str::to_owned);
        let at = "2026-01-02T03:04:05Z".parse().unwrap();
        Secret {
            path: SecretPath::parse("team/git/token").unwrap(),
            metadata,
            created_at: at,
            updated_at: at,
            version: Some(1),
            rotated_at: None,
        }
    }

    /// Which of two tokens is taken is the word of who named them.
    #[test]
    fn the_first_token_for_a_host_counts() {
        let variables = ["ONE", "TWO"]
            .map(|name| Variable { name: name.to_owned(), placeholder: format!("kloak_{name}") });
        let [one, two] = ["ONE", "TWO"].map(|name| {
            let mut secret = secret(&["github.com"], None);
            secret.metadata.env = Some(EnvName::parse(name).unwrap());
            secret
        });
        for (chosen, name) in [([one.clone(), two.clone()], "ONE"), ([two, one], "TWO")] {
            let all = git_variables(&chosen, &variables, &[]);
            let helpers: Vec<_> =
                all.iter().filter(|(_, value)| value.contains("password=$")).collect();
            assert_eq!(helpers.len(), 1, "{all:?}");
            assert!(helpers[0].1.contains(&format!("password=${name}\"")), "{all:?}");
        }
    }

    fn told(secret: &Secret, inherited: &[(&str, &str)]) -> Vec<(String, String)> {
        let variables = [Variable { name: "TOKEN".to_owned(), placeholder: "kloak_X".to_owned() }];
        let inherited: Vec<Inherited> = inherited
            .iter()
            .map(|(name, value)| Inherited {
                name: (*name).to_owned(),
                value: (*value).to_owned().into(),
            })
            .collect();
        let inherited: Vec<&Inherited> = inherited.iter().collect();
        git_variables(std::slice::from_ref(secret), &variables, &inherited)
    }

    #[test]
    fn git_logs_in_with_the_variable_and_the_users_settings_stay() {
        let github = secret(&["api.github.com", "github.com"], None);
        let all = told(&github, &[("GIT_CONFIG_COUNT", "2"), ("GIT_CONFIG_KEY_0", "user.name")]);
        let of = |name: &str| all.iter().find(|(one, _)| one == name).unwrap().1.clone();
        assert_eq!(of("GIT_CONFIG_COUNT"), "6");
        assert_eq!(of("GIT_CONFIG_KEY_2"), "credential.https://github.com.helper");
        assert_eq!(of("GIT_CONFIG_VALUE_2"), "");
        assert!(of("GIT_CONFIG_VALUE_3").contains("password=$TOKEN"), "{all:?}");
        assert_eq!(of("GIT_CONFIG_KEY_4"), "url.https://github.com/.insteadOf");
        assert_eq!(of("GIT_CONFIG_VALUE_4"), "git@github.com:");
        assert!(
            all.iter().all(|(name, value)| name != "GIT_CONFIG_KEY_0" && !value.contains("kloak"))
        );
        // Whoever says a helper for the host by such a variable keeps it.
        let own = [
            ("GIT_CONFIG_COUNT", "1"),
            ("GIT_CONFIG_KEY_0", "credential.https://github.com.helper"),
        ];
        assert!(told(&github, &own).is_empty());
        assert!(told(&github, &[("GIT_CONFIG_COUNT", "many")]).is_empty());
    }

    #[test]
    fn which_hosts_are_gits() {
        let is_git = |secret: &Secret| !told(secret, &[]).is_empty();
        assert!(is_git(&secret(&["gitlab.com"], None)));
        assert!(is_git(&secret(&["api.ghe.acme.test", "ghe.acme.test"], Some("github-pat"))));
        assert!(!is_git(&secret(&["api.ghe.acme.test"], Some("github-pat"))));
        assert!(!is_git(&secret(&["api.github.com"], None)));
        assert!(!is_git(&secret(&["gitlab.com"], Some("gitlab-deploy-token"))));
        let bitbucket = secret(&["bitbucket.org"], Some("bitbucket-api-token"));
        let user = "username=x-bitbucket-api-token-auth";
        assert!(told(&bitbucket, &[]).iter().any(|(_, value)| value.contains(user)));
        assert!(!is_git(&secret(&["github.com:8443", "*.github.com"], None)));
        let mut header = secret(&["github.com"], None);
        header.metadata.egress.as_mut().unwrap().locations =
            [Location::Header].into_iter().collect();
        assert!(!is_git(&header));
    }
}
