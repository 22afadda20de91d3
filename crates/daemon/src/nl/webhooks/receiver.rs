//! `[[nl.webhooks]]`: where a receiver is, and the key that it knows us by.

use std::{fmt, fs, os::unix::fs::PermissionsExt as _, path::PathBuf};

use keyless_core::{Authority, Code, Error, Host, SafeText, Scheme};
use serde::Deserialize;
use zeroize::Zeroizing;

use crate::places::unusable;

/// As long as the shortest key that is worth its name.
const LEAST_KEY: usize = 16;
/// For others than the owner.
const OTHERS: u32 = 0o077;

/// A receiver of notifications. Taken up at the start of the process.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Webhook {
    /// Where it is.
    pub url: HookUrl,
    /// A file with the key of its HMAC, readable by its owner alone. Read for each message, so that it can be changed.
    pub key_file: PathBuf,
}

/// `https://HOST[:PORT]/PATH`; `http://` on this machine alone.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub struct HookUrl {
    pub(super) scheme: Scheme,
    pub(super) authority: Authority,
    pub(super) target: String,
}

impl Webhook {
    /// The key; what is wrong with its file, if it can't be used.
    pub(crate) fn key(&self) -> Result<Zeroizing<Vec<u8>>, Error> {
        let file = &self.key_file;
        let meta = fs::metadata(file).map_err(|error| unusable(file, &error))?;
        let refused = |words: &'static str| {
            let place = SafeText::default().as_they_wrote(&file.to_string_lossy());
            Err(Error::with(Code::ConfigInvalid, place.and(words)))
        };
        if meta.permissions().mode() & OTHERS != 0 {
            return refused(": others can read it; chmod 600");
        }
        let bytes = Zeroizing::new(fs::read(file).map_err(|error| unusable(file, &error))?);
        let key = bytes.trim_ascii_end();
        if key.len() < LEAST_KEY {
            return refused(": a key has at least 16 bytes; openssl rand -hex 32 makes one");
        }
        Ok(Zeroizing::new(key.to_vec()))
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
}
