//! A company's own proxy between us and the world: CONNECT with its own credential, then TLS to the
//! destination as always, so that the proxy sees names and never a value.
//!
//! Where names are only known to that proxy, zones can't be judged by address: a name that resolves
//! here is judged as ever, one that does not is the proxy's to judge, and literal addresses are
//! judged in any case. Source: reference/egress.md (b) 20.

use std::{fmt, sync::Arc};

use data_encoding::BASE64;
use keyless_core::{Authority, Code, Destination, Error, SafeText};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};
use zeroize::Zeroizing;

/// The longest answer to a CONNECT.
const MAX_HEAD: usize = 16 << 10;
const MAX_FIELDS: usize = 64;

/// The proxy that leads out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UpstreamProxy {
    /// Where it is: the operator's exact word, so zones don't apply to it.
    pub address: Authority,
    /// Its `user:password`, if it asks for one.
    pub credential: Option<ProxyCredential>,
    /// Hosts that are reached without it, beside exact routes and internal exceptions.
    pub direct: Vec<Destination>,
}

/// `user:password`; never shown.
#[derive(Clone, PartialEq, Eq)]
pub struct ProxyCredential(Arc<Zeroizing<String>>);

impl ProxyCredential {
    /// Takes `user:password`; nothing without a colon.
    pub fn new(pair: Zeroizing<String>) -> Option<Self> {
        pair.contains(':').then(|| Self(Arc::new(pair)))
    }
}

impl fmt::Debug for ProxyCredential {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ProxyCredential")
    }
}

impl UpstreamProxy {
    /// Whether `authority` is reached without it.
    pub(crate) fn leaves_out(&self, authority: &Authority) -> bool {
        self.direct.iter().any(|host| host.names(&authority.host))
    }

    /// Has it connect `stream` to `target`.
    pub(crate) async fn connect(
        &self,
        mut stream: TcpStream,
        target: &Authority,
    ) -> Result<TcpStream, Error> {
        let mut head = Zeroizing::new(format!("CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n"));
        if let Some(ProxyCredential(pair)) = &self.credential {
            let coded = Zeroizing::new(BASE64.encode(pair.as_bytes()));
            head.push_str("Proxy-Authorization: Basic ");
            head.push_str(&coded);
            head.push_str("\r\n");
        }
        head.push_str("\r\n");
        stream.write_all(head.as_bytes()).await.map_err(|error| broke(&error))?;
        match status(&mut stream).await? {
            200..=299 => Ok(stream),
            407 => Err(failed("it does not take our credential (407)")),
            other => {
                let words = SafeText::words("the upstream proxy answered ").and(other);
                Err(Error::with(Code::ConnectFailed, words))
            }
        }
    }
}

/// Reads the answer's head, and not a byte beyond: what follows is the destination's.
async fn status(stream: &mut TcpStream) -> Result<u16, Error> {
    let mut head = Vec::with_capacity(256);
    while !head.ends_with(b"\r\n\r\n") {
        if head.len() >= MAX_HEAD {
            return Err(failed("its answer is too long"));
        }
        head.push(stream.read_u8().await.map_err(|error| broke(&error))?);
    }
    let mut fields = [httparse::EMPTY_HEADER; MAX_FIELDS];
    let mut answer = httparse::Response::new(&mut fields);
    match answer.parse(&head) {
        Ok(httparse::Status::Complete(_)) => Ok(answer.code.unwrap_or_default()),
        _ => Err(failed("it does not speak HTTP")),
    }
}

fn failed(words: &'static str) -> Error {
    Error::with(Code::UpstreamProxyFailed, words.into())
}

fn broke(error: &std::io::Error) -> Error {
    let words = SafeText::words("it broke off: ").and(error.kind());
    Error::with(Code::UpstreamProxyFailed, words)
}
