//! What sources over HTTP need of the one HTTP stack: one request, one bounded answer.
//!
//! The broker gives it. Over verified TLS; without TLS to the machine itself alone. It follows no redirects,
//! so that a credential goes nowhere else.

use std::{fmt, net::IpAddr};

use zeroize::Zeroizing;

use super::backend::Answer;

/// The largest answer that a source reads, in bytes.
pub const MAX_ANSWER_BYTES: usize = 1024 * 1024;

/// Sends requests for sources.
pub trait SourceHttp: Send + Sync {
    /// Sends one and reads the answer, of at most [`MAX_ANSWER_BYTES`].
    fn send(&self, request: HttpRequest) -> Answer<'_, Result<HttpAnswer, HttpFault>>;
}

/// One request.
pub struct HttpRequest {
    /// Such as `GET`.
    pub method: &'static str,
    /// `https://…`, or `http://` to the machine itself.
    pub url: String,
    /// Names and values; values may be credentials.
    pub headers: Vec<(String, Zeroizing<String>)>,
    /// May hold values.
    pub body: Zeroizing<Vec<u8>>,
}

/// What came back.
pub struct HttpAnswer {
    /// The status.
    pub status: u16,
    /// May hold values.
    pub body: Zeroizing<Vec<u8>>,
}

/// Why nothing came back, without a word of the server's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HttpFault {
    /// Neither https nor on this machine.
    #[error("the address is neither https nor on this machine")]
    Cleartext,
    /// The answer was too large, or no HTTP.
    #[error("the answer can't be read")]
    Protocol,
    /// The server did not prove who it is.
    #[error("the server could not prove who it is")]
    Tls,
    /// It took too long.
    #[error("there was no answer in time")]
    TimedOut,
    /// Nobody there.
    #[error("the server can't be reached")]
    Unreachable,
}

impl HttpRequest {
    /// A request without a body.
    pub(crate) fn new(method: &'static str, url: String) -> Self {
        Self { method, url, headers: Vec::new(), body: Zeroizing::default() }
    }

    /// Adds a header.
    #[must_use]
    pub(crate) fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), Zeroizing::new(value.to_owned())));
        self
    }

    /// Gives it a body of JSON.
    #[must_use]
    pub(crate) fn json(mut self, body: Zeroizing<Vec<u8>>) -> Self {
        self.body = body;
        self.header("content-type", "application/json")
    }
}

impl fmt::Debug for HttpRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.method, self.url)
    }
}

impl fmt::Debug for HttpAnswer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.status)
    }
}

/// Whether a source at this address can be asked: over TLS, or on this machine, by an address or a name that lead nowhere
/// else. Where another name leads is not known before it is asked.
pub(crate) fn is_ever_asked(address: &str) -> bool {
    if address.starts_with("https://") {
        return true;
    }
    let Some(rest) = address.strip_prefix("http://") else { return false };
    let authority = rest.split('/').next().unwrap_or_default();
    let (host, port) = authority.rsplit_once(':').unwrap_or((authority, ""));
    let host = if port.contains(']') { authority } else { host };
    let host = host.trim_matches(['[', ']']).trim_end_matches('.').to_ascii_lowercase();
    let is_local_name = host == "localhost" || host.ends_with(".localhost");
    is_local_name || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_tls_a_source_is_on_this_machine() {
        for (address, fits) in [
            ("https://10.0.0.1:8200", true),
            ("http://127.0.0.1:8200", true),
            ("http://[::1]:8200/", true),
            ("http://localhost:8200", true),
            ("http://vault.localhost./v1", true),
            ("http://vault.example.com", false),
            ("http://localhost.example.com", false),
            ("http://127.0.0.1.example.com:8200", false),
            ("http://10.0.0.1:8200", false),
            ("http://192.0.2.1", false),
            ("http://[2001:db8::1]", false),
            ("http://[2001:db8::1]:8200/v1", false),
            ("vault.example.com", false),
        ] {
            assert_eq!(is_ever_asked(address), fits, "{address}");
        }
    }
}
