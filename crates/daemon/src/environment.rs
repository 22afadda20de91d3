//! The environment of the command: placeholders in, values and ways round the jail out. Pure.

use std::{collections::BTreeMap, ffi::OsString};

pub use keyless_vault::is_of_sessions;

use crate::broker::{Inherited, Variable};

/// Where proxies are named; inside the jail there is no route to them.
const PROXY_VARIABLES: &[&str] =
    &["http_proxy", "https_proxy", "all_proxy", "no_proxy", "ftp_proxy"];

/// What sends programs through a proxy that look at no variable of the others.
const PROXY_SWITCHES: &[&str] =
    &["NODE_USE_ENV_PROXY", "npm_config_proxy", "npm_config_https_proxy"];

/// This process's environment, as a session is told of it.
pub fn inherited() -> Vec<Inherited> {
    let text = |text: OsString| text.to_string_lossy().into_owned();
    let pair = |(name, value)| Inherited { name: text(name), value: text(value).into() };
    std::env::vars_os().map(pair).collect()
}

/// What changes in an environment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Changes<'a> {
    /// The secrets' variables.
    pub(crate) variables: &'a [Variable],
    /// Variables that hold values.
    pub(crate) remove: &'a [String],
    /// Sockets and agents that lead out of the jail.
    pub(crate) escapes: &'a [&'a str],
    /// Trust, and the proxy where there is no jail, or what git is told where there is one.
    pub(crate) set: &'a [(String, String)],
}

/// The command's whole environment, from the caller's.
pub(crate) fn command_environment(
    inherited: impl IntoIterator<Item = (OsString, OsString)>,
    changes: Changes<'_>,
) -> Vec<(OsString, OsString)> {
    let dropped = |name: &str| {
        name.starts_with("KEYLESS_")
            || changes.remove.iter().any(|removed| removed == name)
            || changes.escapes.contains(&name)
            || PROXY_SWITCHES.contains(&name)
            || PROXY_VARIABLES.contains(&name.to_ascii_lowercase().as_str())
    };
    let mut environment: BTreeMap<OsString, OsString> =
        inherited.into_iter().filter(|(name, _)| !name.to_str().is_some_and(dropped)).collect();
    for (name, value) in changes.set {
        environment.insert(name.into(), value.into());
    }
    for Variable { name, placeholder } in changes.variables {
        environment.insert(name.into(), placeholder.into());
    }
    environment.into_iter().collect()
}

/// The variables that send well-behaved programs through the proxy, for `--no-jail`.
pub(crate) fn proxy_variables(url: &str) -> Vec<(String, String)> {
    let mut all = Vec::new();
    for name in ["HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"] {
        all.push((name.to_owned(), url.to_owned()));
        all.push((name.to_lowercase(), url.to_owned()));
    }
    for name in ["NO_PROXY", "no_proxy"] {
        all.push((name.to_owned(), "localhost,127.0.0.1,::1".to_owned()));
    }
    for name in PROXY_SWITCHES {
        let value = if name.starts_with("NODE_") { "1" } else { url };
        all.push(((*name).to_owned(), value.to_owned()));
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_and_ways_out_are_gone() {
        let inherited = [
            ("PATH", "/bin"),
            ("GITHUB_TOKEN", "the real one"),
            ("VAULTED", "the source's variable"),
            ("SSH_AUTH_SOCK", "/tmp/agent"),
            ("KEYLESS_PASSPHRASE_FILE", "/home/p"),
            ("Https_Proxy", "http://corp:3128"),
            ("npm_config_proxy", "http://me:word@corp:3128"),
        ];
        let variables =
            [Variable { name: "GITHUB_TOKEN".to_owned(), placeholder: "kloak_X".to_owned() }];
        let environment = command_environment(
            inherited.map(|(name, value)| (name.into(), value.into())),
            Changes {
                variables: &variables,
                remove: &["VAULTED".to_owned()],
                escapes: &["SSH_AUTH_SOCK"],
                set: &[("SSL_CERT_FILE".to_owned(), "/ca".to_owned())],
            },
        );
        let expected = [("GITHUB_TOKEN", "kloak_X"), ("PATH", "/bin"), ("SSL_CERT_FILE", "/ca")];
        let expected: Vec<(OsString, OsString)> =
            expected.iter().map(|(name, value)| (name.into(), value.into())).collect();
        assert_eq!(environment, expected);
    }

    #[test]
    fn what_a_session_sets_no_secret_takes() {
        let set = keyless_jail::trust_environment().into_iter().map(|(name, _)| name.to_owned());
        let proxies = proxy_variables("http://127.0.0.1:1").into_iter().map(|(name, _)| name);
        for name in set.chain(proxies).chain(["KEYLESS_AGENT_SOCKET".to_owned()]) {
            assert!(is_of_sessions(&name), "{name}");
        }
        for name in ["GITHUB_TOKEN", "PROXY_TOKEN", "NPM_TOKEN"] {
            assert!(!is_of_sessions(name), "{name}");
        }
    }
}
