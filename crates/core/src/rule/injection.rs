//! The second mode: the proxy sets a credential itself, for clients that send no placeholder.
//!
//! `bearer`, `header:X-Api-Key={}`, `basic:x-access-token:{}`, `query:key`; `{}` is the value.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};

/// Where the proxy puts the value, and what stands around it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Injection {
    slot: Slot,
    before: String,
    after: String,
}

/// A place in a request that holds one credential.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Slot {
    /// The user and password of `Authorization: Basic`.
    Basic,
    /// A header; its name in lower case.
    Header(String),
    /// A parameter of the query.
    Query(String),
}

/// Why a text is not an [`Injection`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InjectionError {
    /// The connection's own headers, or those that say what is asked and where.
    #[error("that header belongs to the message itself and can't hold a credential")]
    Forbidden,
    /// No `{}`, or several.
    #[error("the form holds `{{}}` for the value exactly once, as in `Authorization=Bearer {{}}`")]
    Form,
    /// The name is no header's or parameter's.
    #[error("the name has characters that can't stand there")]
    Name,
    /// Not one of the words.
    #[error("one of bearer, header:NAME=FORM, basic:USER:{{}}, query:NAME")]
    Unknown,
}

/// Headers that carry the message rather than a credential.
const FORBIDDEN: [&str; 17] = [
    "connection",
    "content-encoding",
    "content-length",
    "content-type",
    "expect",
    "forwarded",
    "host",
    "keep-alive",
    "proxy-authorization",
    "proxy-connection",
    "range",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "via",
    "x-keyless-refused",
];

impl Injection {
    /// Parses a setting.
    pub fn parse(text: &str) -> Result<Self, InjectionError> {
        if text == "bearer" {
            return Self::parse("header:Authorization=Bearer {}");
        }
        let (kind, rest) = text.split_once(':').ok_or(InjectionError::Unknown)?;
        let (slot, form) = match kind {
            "basic" => (Slot::Basic, rest),
            "header" => {
                let (name, form) = rest.split_once('=').unwrap_or((rest, "{}"));
                (Slot::Header(header_name(name)?), form)
            }
            "query" => (Slot::Query(parameter_name(rest)?), "{}"),
            _ => return Err(InjectionError::Unknown),
        };
        let (before, after) = form.split_once("{}").ok_or(InjectionError::Form)?;
        let printable = form.bytes().all(|byte| matches!(byte, b' '..=b'~'));
        let has_colon = slot != Slot::Basic || form.contains(':');
        if after.contains("{}") || !printable || !has_colon {
            return Err(InjectionError::Form);
        }
        Ok(Self { slot, before: before.to_owned(), after: after.to_owned() })
    }

    /// Where it goes.
    pub fn slot(&self) -> &Slot {
        &self.slot
    }

    /// What stands before and after the value there.
    pub fn around(&self) -> (&str, &str) {
        (&self.before, &self.after)
    }
}

/// A header that may hold a credential, in lower case.
pub(super) fn header_name(name: &str) -> Result<String, InjectionError> {
    let token = |b: u8| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&b);
    let name = name.to_ascii_lowercase();
    if name.is_empty() || name.len() > 128 || !name.bytes().all(token) {
        return Err(InjectionError::Name);
    }
    if FORBIDDEN.contains(&name.as_str()) { Err(InjectionError::Forbidden) } else { Ok(name) }
}

fn parameter_name(name: &str) -> Result<String, InjectionError> {
    let fine = |b: u8| b.is_ascii_alphanumeric() || b"-._~[]$".contains(&b);
    if name.is_empty() || name.len() > 128 || !name.bytes().all(fine) {
        return Err(InjectionError::Name);
    }
    Ok(name.to_owned())
}

impl fmt::Display for Injection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { slot, before, after } = self;
        match slot {
            Slot::Basic => write!(f, "basic:{before}{{}}{after}"),
            Slot::Header(name) => write!(f, "header:{name}={before}{{}}{after}"),
            Slot::Query(name) => write!(f, "query:{name}"),
        }
    }
}

impl FromStr for Injection {
    type Err = InjectionError;

    fn from_str(text: &str) -> Result<Self, InjectionError> {
        Self::parse(text)
    }
}

impl TryFrom<String> for Injection {
    type Error = InjectionError;

    fn try_from(text: String) -> Result<Self, InjectionError> {
        Self::parse(&text)
    }
}

impl From<Injection> for String {
    fn from(injection: Injection) -> Self {
        injection.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_read_and_write_back() {
        for (text, full) in [
            ("bearer", "header:authorization=Bearer {}"),
            ("header:X-Api-Key", "header:x-api-key={}"),
            ("header:Authorization=token {}", "header:authorization=token {}"),
            ("basic:x-access-token:{}", "basic:x-access-token:{}"),
            ("basic:{}:", "basic:{}:"),
            ("query:api_key", "query:api_key"),
        ] {
            let read = Injection::parse(text).unwrap();
            assert_eq!(read.to_string(), full);
            assert_eq!(Injection::parse(full).unwrap(), read);
        }
    }

    #[test]
    fn settings_that_mean_nothing_are_refused() {
        for (text, why) in [
            ("", InjectionError::Unknown),
            ("cookie:a", InjectionError::Unknown),
            ("header:Host={}", InjectionError::Forbidden),
            ("header:a b={}", InjectionError::Name),
            ("header:={}", InjectionError::Name),
            ("header:A=Bearer", InjectionError::Form),
            ("header:A={}{}", InjectionError::Form),
            ("header:A=\r\n{}", InjectionError::Form),
            ("basic:{}", InjectionError::Form),
            ("query:a&b", InjectionError::Name),
        ] {
            assert_eq!(Injection::parse(text), Err(why), "{text}");
        }
    }
}
