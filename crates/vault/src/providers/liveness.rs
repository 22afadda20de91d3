//! The request that tells whether a token works, and what an answer to it means.
//!
//! `kind`, `url`, `method`, `auth` and `expect_status` are schema version 1; the rest is ours: services that want a
//! header or a question beside the token, that say in the body what others say by status, or that have a host for each
//! customer. Which one that is no catalog says: the secret's owner does.

use std::collections::BTreeMap;

use keyless_core::{Authority, Destination, Injection};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// What stands in an address for the host that a customer has for themselves.
pub(super) const OWN_HOST: &str = "{host}";

/// A request that tells whether a token works.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Liveness {
    /// `http`.
    pub kind: LivenessKind,
    /// https, to a host that the variant's `egress` names, or `https://{host}/…` with `hosts`.
    pub url: String,
    /// Where each customer has a host of their own: among these `{host}` is the one that the secret itself may go to.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hosts: Vec<Destination>,
    /// The method of the request.
    #[serde(default)]
    pub method: LivenessMethod,
    /// Where the token stands.
    pub auth: LivenessAuth,
    /// What the service wants beside it, such as the version of its interface.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub headers: BTreeMap<String, String>,
    /// What is asked: JSON, with POST alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub body: Option<Value>,
    /// The status that means it works.
    pub expect_status: u16,
    /// What the answer of that status also says when it works.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub valid_if: Option<Says>,
    /// What an answer of any status says when it doesn't.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rejected_if: Option<Says>,
    /// The statuses that mean that it doesn't; 400, 401 and 403 where nothing stands here.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub refused_status: Vec<u16>,
}

/// A place in an answer's JSON, and what stands there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Says {
    /// A JSON pointer, such as `/ok`.
    pub at: String,
    /// One of these; anything but null where nothing stands here.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub among: Vec<Value>,
}

/// The one kind of liveness check.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LivenessKind {
    /// An HTTP request.
    Http,
}

/// The method of a liveness check.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum LivenessMethod {
    /// Reads.
    #[default]
    Get,
    /// Reads without a body.
    Head,
    /// Asks.
    Post,
}

/// Where the token stands in a liveness check.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum LivenessAuth {
    /// It signs (AWS Signature Version 4), and its access key's id stands beside it.
    AwsSigv4 {
        /// The service's name in the signature.
        service: String,
        /// The region's.
        region: String,
    },
    /// The password of Basic, for a user that only the secret's owner knows.
    BasicOfUser {
        /// What the user is called here, such as "the account's email address".
        user: String,
    },
    /// The password of Basic.
    BasicPassword,
    /// The user of Basic.
    BasicUser,
    /// `Authorization: Bearer`.
    Bearer,
    /// A header of its own.
    Header {
        /// Its name.
        name: String,
        /// What stands in it, with `{}` for the token, such as `Bot {}`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        form: Option<String>,
    },
}

impl Liveness {
    /// Whether an answer of this status and body says that the token works; nothing where it says neither. Services
    /// limit, redirect and fail, and some call a token that they don't know a bad request.
    pub fn judge(&self, status: u16, body: &[u8]) -> Option<bool> {
        let wants_body = self.valid_if.is_some() || self.rejected_if.is_some();
        let said = if wants_body { serde_json::from_slice(body).ok() } else { None };
        let holds = |says: &Says| said.as_ref().is_some_and(|said| says.holds(said));
        if status == self.expect_status && self.valid_if.as_ref().is_none_or(holds) {
            return Some(true);
        }
        let refused: &[u16] = match self.refused_status.as_slice() {
            [] => &[400, 401, 403],
            named => named,
        };
        let rejected = self.rejected_if.as_ref().is_some_and(holds);
        (rejected || refused.contains(&status)).then_some(false)
    }

    /// This check, for a customer whose own host is `own`: it takes the place of the pattern's host in the URL.
    #[must_use]
    pub fn at(mut self, own: &Authority) -> Self {
        let beyond = self.url.strip_prefix("https://").and_then(|url| url.strip_prefix(OWN_HOST));
        if let Some(beyond) = beyond {
            self.url = format!("https://{own}{beyond}");
        }
        self
    }

    /// Whether it only reads: what a catalog that is not the operator's own may ask for.
    pub fn only_reads(&self) -> bool {
        self.method != LivenessMethod::Post && self.body.is_none()
    }

    /// What is wrong with it, as a fragment of a sentence.
    pub(super) fn fault(&self) -> Option<&'static str> {
        let status = |status: &u16| (100..=599).contains(status);
        let statuses = self.refused_status.iter().chain([&self.expect_status]);
        let mut said = self.valid_if.iter().chain(&self.rejected_if);
        let header = |name: &str, form: &str| Injection::parse(&format!("header:{name}={form}"));
        let mut beside = self.headers.iter();
        let own = |name: &str| name.eq_ignore_ascii_case("authorization");
        if !statuses.into_iter().all(status) {
            Some("liveness.expect_status is from 100 to 599")
        } else if !said.all(|says| says.at.starts_with('/')) {
            Some("what an answer says stands at a JSON pointer, such as /ok")
        } else if self.body.is_some() && self.method != LivenessMethod::Post {
            Some("liveness.body goes with POST")
        } else if let LivenessAuth::Header { name, form } = &self.auth
            && header(name, form.as_deref().unwrap_or("{}")).is_err()
        {
            Some("liveness.auth names a header, and its form has {} once")
        } else if !beside
            .all(|(name, text)| !own(name) && header(name, &format!("{text}{{}}")).is_ok())
        {
            Some("liveness.headers has names and plain texts, and no credential")
        } else {
            None
        }
    }
}

impl Says {
    fn holds(&self, said: &Value) -> bool {
        match said.pointer(&self.at) {
            None => false,
            Some(there) if self.among.is_empty() => !there.is_null(),
            Some(there) => self.among.contains(there),
        }
    }
}
