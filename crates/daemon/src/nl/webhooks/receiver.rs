//! `[[nl.webhooks]]`: where a receiver is, and the key that it knows us by.

use std::{fmt, path::PathBuf};

use keyless_core::{Authority, Host, Scheme};
use serde::Deserialize;

use super::key::{HookKey, ONE_OF_TWO};

/// A receiver of notifications. Taken up at the start of the process.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "Written")]
pub struct Webhook {
    /// Where it is.
    pub url: HookUrl,
    /// What it knows us by.
    pub key: HookKey,
}

/// A receiver as it stands in the file.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    url: HookUrl,
    #[serde(default)]
    key: Option<String>,
    #[serde(default)]
    key_file: Option<PathBuf>,
}

/// `https://HOST[:PORT]/PATH`; `http://` on this machine alone.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub struct HookUrl {
    pub(super) scheme: Scheme,
    pub(super) authority: Authority,
    pub(super) target: String,
}

impl TryFrom<Written> for Webhook {
    type Error = String;

    fn try_from(Written { url, key, key_file }: Written) -> Result<Self, String> {
        let key = match (key, key_file) {
            (Some(text), None) => HookKey::named(&text)?,
            (None, Some(file)) => HookKey::File(file),
            (Some(_), Some(_)) => return Err("a receiver has key or key_file, not both".to_owned()),
            (None, None) => {
                return Err(format!("a receiver has no key: {ONE_OF_TWO}"));
            }
        };
        Ok(Self { url, key })
    }
}

impl TryFrom<String> for HookUrl {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let (scheme, rest) = match text.split_once("://") {
            Some(("http", rest)) => (Scheme::Http, rest),
            Some(("https", rest)) => (Scheme::Https, rest),
            _ => return Err("a receiver's URL begins with https://".to_owned()),
        };
        let (host, path) = rest.split_at(rest.find(['/', '?']).unwrap_or(rest.len()));
        let authority =
            Authority::parse_for(host, scheme).map_err(|error| format!("{host:?}: {error}"))?;
        let is_here = match &authority.host {
            Host::Ip(address) => address.is_loopback(),
            Host::Name(name) => name.as_str() == "localhost",
        };
        if scheme == Scheme::Http && !is_here {
            return Err("without https:// a receiver is on this machine".to_owned());
        }
        if !path.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'#') {
            return Err("the path has no white space and no fragment".to_owned());
        }
        let slash = if path.starts_with('/') { "" } else { "/" };
        Ok(Self { scheme, authority, target: format!("{slash}{path}") })
    }
}

impl fmt::Display for HookUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.scheme == Scheme::Http { "http" } else { "https" };
        write!(f, "{scheme}://{}{}", self.authority, self.target)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_receiver_is_behind_tls_or_here() {
        let read = |text: &str| HookUrl::try_from(text.to_owned()).map(|url| url.to_string());
        assert_eq!(read("https://a.test/x?y=1").unwrap(), "https://a.test:443/x?y=1");
        assert_eq!(read("http://127.0.0.1:9/x").unwrap(), "http://127.0.0.1:9/x");
        assert_eq!(read("https://a.test").unwrap(), "https://a.test:443/");
        for bad in [
            "http://a.test/",
            "ftp://a.test",
            "a.test",
            "https://",
            "https://a.test/ x",
            "https://u:p@a.test/",
        ] {
            assert!(read(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_key_is_in_a_file_or_a_secret() {
        let read = |lines: &str| {
            toml::from_str::<Webhook>(&format!("url = 'https://a.test'\n{lines}"))
                .map(|hook| hook.key)
                .map_err(|error| error.message().to_owned())
        };
        assert_eq!(read("key_file = '/a'"), Ok(HookKey::File("/a".into())));
        let path = keyless_core::SecretPath::parse("team/hooks/key").unwrap();
        assert_eq!(read("key = '@secret:team/hooks/key'"), Ok(HookKey::Secret(path)));
        for (lines, expected) in [
            ("", "has no key: "),
            ("key_file = '/a'\nkey = '@secret:team/hooks/key'", "not both"),
            ("key = '@secret:team/key'", "no secret: "),
            ("key = 'a literal one'", "key = \"@secret:PATH\""),
        ] {
            let fault = read(lines).unwrap_err();
            assert!(fault.contains(expected) && !fault.contains("literal"), "{lines}: {fault}");
        }
    }
}
