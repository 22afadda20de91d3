//! What sources over HTTP need of the one HTTP stack: one request, one bounded answer.
//!
//! The broker gives it. Over verified TLS; without TLS to the machine itself alone. It follows no redirects,
//! so that a credential goes nowhere else.

use std::fmt;

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
