//! The last words to a client whose connection is refused as a whole, in the protocol that it
//! speaks, so that `ssh`, `psql` or `mysql` show the reason and not a connection that breaks.
//!
//! | the client | is known by | is told |
//! |---|---|---|
//! | HTTP | its request line | the refusal as an answer |
//! | MySQL | port 3306, where the server begins | an ERR packet |
//! | PostgreSQL | `SSLRequest` or `StartupMessage` | `N` to TLS, then an `ErrorResponse` |
//! | Redis | an array of commands | `-ERR` |
//! | SMTP | ports 25 and 587, where the server begins | 554 |
//! | SSH | port 22, or its version line | `SSH_MSG_DISCONNECT` |
//! | TLS | a handshake record | a fatal alert, which has no room for words |
//!
//! Nothing of what the client says goes anywhere. Source: RFC 4253, section 11.1; PostgreSQL's
//! "Message Formats"; MySQL's `ERR_Packet`; RFC 5321, section 3.1; reference/egress.md (b) 21.

use std::time::Duration;

use keyless_core::{Authority, Error};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    time::timeout,
};

use super::{
    AnyStream,
    postgres::packet::{GSS_REQUEST, SSL_REQUEST, read_packet},
};
use crate::{refusal, tls::Prefixed};

/// How long a client may take to show what it speaks, and then to hear the answer.
const PATIENCE: Duration = Duration::from_secs(2);
/// `sqlserver_rejected_establishment_of_sqlconnection`.
const SQLSTATE: &str = "08004";
/// `ER_HOST_NOT_PRIVILEGED`.
const MYSQL_ERROR: u16 = 1130;
/// `SSH_DISCONNECT_HOST_NOT_ALLOWED_TO_CONNECT`.
const SSH_REASON: u32 = 1;

/// What a client speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Protocol {
    Http,
    MySql,
    Postgres,
    Redis,
    Smtp,
    Ssh,
    Tls,
    Unknown,
}

impl Protocol {
    /// Where the server speaks first, the port is all that there is to go by.
    pub(super) fn of_port(port: u16) -> Option<Self> {
        match port {
            22 => Some(Self::Ssh),
            25 | 587 => Some(Self::Smtp),
            3306 => Some(Self::MySql),
            _ => None,
        }
    }

    /// What begins so; `None` while that is open.
    pub(super) fn of_bytes(bytes: &[u8]) -> Option<Self> {
        match bytes {
            [] => None,
            [0x16, ..] => Some(Self::Tls),
            // Two bytes of length, and a request code or protocol version 3.
            [0, 0, _, _, rest @ ..] if rest.len() >= 4 => {
                let code = u32::from_be_bytes(*rest.first_chunk()?);
                let known = code >> 16 == 3 || code >> 16 == 1234;
                Some(if known { Self::Postgres } else { Self::Unknown })
            }
            [0, ..] if bytes.len() < 8 => None,
            [b'*', b'0'..=b'9', ..] => Some(Self::Redis),
            _ if bytes.starts_with(b"SSH-") => Some(Self::Ssh),
            _ if b"SSH-".starts_with(bytes) || bytes == b"*" => None,
            // A method is letters up to a space; what is longer is none.
            _ => match bytes.iter().position(|byte| !byte.is_ascii_uppercase()) {
                Some(1..) if bytes.contains(&b' ') => Some(Self::Http),
                None if bytes.len() < 20 => None,
                _ => Some(Self::Unknown),
            },
        }
    }

    /// Its name, for people.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Http => "HTTP",
            Self::MySql => "MySQL",
            Self::Postgres => "PostgreSQL",
            Self::Redis => "Redis",
            Self::Smtp => "SMTP",
            Self::Ssh => "SSH",
            Self::Tls => "TLS",
            Self::Unknown => "an unknown protocol",
        }
    }

    /// Whether it carries HTTP, or something whose own parser knows better.
    pub(super) fn may_be_http(self) -> bool {
        matches!(self, Self::Http | Self::Tls | Self::Unknown)
    }
}

/// Reads until it is clear what the client speaks, and leaves everything where it is.
pub(super) async fn recognise(stream: &mut Prefixed<AnyStream>) -> Option<Protocol> {
    let reading = async {
        loop {
            if let Some(protocol) = Protocol::of_bytes(&stream.prefix) {
                return Some(protocol);
            }
            stream.prefix.reserve(2048);
            match stream.inner.read_buf(&mut stream.prefix).await {
                Ok(0) | Err(_) => return None,
                Ok(_) => {}
            }
        }
    };
    timeout(PATIENCE, reading).await.ok().flatten()
}

/// Tells the client why, and waits for it to hang up.
pub(super) async fn say(mut stream: Prefixed<AnyStream>, authority: &Authority, error: &Error) {
    let telling = async {
        let protocol = match Protocol::of_port(authority.port) {
            Some(protocol) if stream.prefix.is_empty() => protocol,
            _ => recognise(&mut stream).await?,
        };
        say_as(&mut stream, protocol, error).await
    };
    // Best effort: the client may be gone already.
    let _ = timeout(2 * PATIENCE, telling).await;
}

async fn say_as(stream: &mut Prefixed<AnyStream>, protocol: Protocol, error: &Error) -> Option<()> {
    if protocol == Protocol::Postgres {
        decline_encryption(stream).await?;
    }
    let words = match protocol {
        Protocol::Http => refusal::raw_answer(error),
        Protocol::MySql => mysql(error),
        Protocol::Postgres => postgres(error),
        Protocol::Redis => format!("-ERR {}\r\n", line(error)).into_bytes(),
        Protocol::Smtp => format!("554 5.7.1 {}\r\n", line(error)).into_bytes(),
        Protocol::Ssh => ssh(error),
        Protocol::Tls => alert(error),
        Protocol::Unknown => return None,
    };
    stream.write_all(&words).await.ok()?;
    stream.shutdown().await.ok()?;
    // Closing over unread bytes resets the connection, and the words would be lost.
    while stream.read(&mut [0; 1024]).await.ok()? > 0 {}
    Some(())
}

/// The refusal on one line.
fn line(error: &Error) -> String {
    let remediation = error.code().remediation();
    format!(
        "keyless: {} [{}] Instead: {}",
        error.message(),
        error.code().as_str(),
        remediation.action
    )
}

/// Tells the refusal in a line to a client of which nothing is known, not even where it goes.
pub(super) async fn say_line(mut stream: AnyStream, error: &Error) {
    let saying = async {
        stream.write_all(format!("{}\n", line(error)).as_bytes()).await.ok()?;
        stream.shutdown().await.ok()?;
        // For the reason given above.
        while stream.read(&mut [0; 1024]).await.ok()? > 0 {}
        Some(())
    };
    let _ = timeout(PATIENCE, saying).await;
}

/// Says no to TLS and GSSAPI until the start-up packet has come.
async fn decline_encryption(stream: &mut Prefixed<AnyStream>) -> Option<()> {
    loop {
        let (code, _) = read_packet(stream).await.ok().flatten()?;
        if code != SSL_REQUEST && code != GSS_REQUEST {
            // Protocol 3 only: what else there is, such as a request to cancel, has no answer.
            return (code >> 16 == 3).then_some(());
        }
        stream.write_all(b"N").await.ok()?;
    }
}

/// An `ErrorResponse`.
pub(super) fn postgres(error: &Error) -> Vec<u8> {
    let remediation = error.code().remediation();
    let message = format!("keyless: {} [{}]", error.message(), error.code().as_str());
    let mut fields = Vec::new();
    for (kind, text) in [
        (b'S', "FATAL"),
        (b'V', "FATAL"),
        (b'C', SQLSTATE),
        (b'M', &message),
        (b'H', remediation.action),
    ] {
        fields.push(kind);
        fields.extend(text.bytes().filter(|byte| *byte != 0));
        fields.push(0);
    }
    fields.push(0);
    [&b"E"[..], &length(fields.len() + 4), &fields].concat()
}

fn mysql(error: &Error) -> Vec<u8> {
    let body = [&[0xff][..], &MYSQL_ERROR.to_le_bytes(), line(error).as_bytes()].concat();
    let [.., high, middle, low] = length(body.len());
    [&[low, middle, high, 0][..], &body].concat()
}

fn ssh(error: &Error) -> Vec<u8> {
    let text = line(error);
    // SSH_MSG_DISCONNECT: reason, words, and an empty language.
    let payload =
        [&[1][..], &SSH_REASON.to_be_bytes(), &length(text.len()), text.as_bytes(), &[0; 4]]
            .concat();
    // At least four bytes of padding, up to a multiple of eight with both lengths.
    let padding = 4 + (8 - (4 + 1 + payload.len() + 4) % 8) % 8;
    let padded = u8::try_from(padding).expect("at most eleven");
    let packet = length(1 + payload.len() + padding);
    [b"SSH-2.0-Keyless\r\n", &packet[..], &[padded], &payload, &[0; 12][..padding]].concat()
}

/// A fatal `access_denied`, or `internal_error` where nobody denied anything.
fn alert(error: &Error) -> Vec<u8> {
    let denied = error.code().http_status() < 500;
    vec![0x15, 3, 3, 0, 2, 2, if denied { 49 } else { 80 }]
}

fn length(bytes: usize) -> [u8; 4] {
    u32::try_from(bytes).expect("words are short").to_be_bytes()
}

#[cfg(test)]
mod tests {
    use keyless_core::Code;

    use super::*;

    #[test]
    fn protocols_are_known_by_their_first_bytes() {
        let ssl = [0, 0, 0, 8, 4, 0xd2, 0x16, 0x2f];
        let startup = [0, 0, 0, 40, 0, 3, 0, 0, b'u'];
        for (bytes, expected) in [
            (&ssl[..], Some(Protocol::Postgres)),
            (&startup, Some(Protocol::Postgres)),
            (&ssl[..5], None),
            (&[0, 1, 2, 3, 4, 5, 6, 7, 8], Some(Protocol::Unknown)),
            (b"SSH-2.0-OpenSSH_9.2\r\n", Some(Protocol::Ssh)),
            (b"SS", None),
            (b"SEARCH / HTTP/1.1", Some(Protocol::Http)),
            (b"GET", None),
            (b"GET /", Some(Protocol::Http)),
            (b"*1\r\n$4\r\nPING\r\n", Some(Protocol::Redis)),
            (&[0x16, 3, 1], Some(Protocol::Tls)),
            (b"\x01\x02", Some(Protocol::Unknown)),
            (b"", None),
        ] {
            assert_eq!(Protocol::of_bytes(bytes), expected, "{bytes:?}");
        }
    }

    #[test]
    fn an_ssh_packet_is_padded_to_eight() {
        let packet = ssh(&Code::PortRefused.into());
        let packet = packet.strip_prefix(b"SSH-2.0-Keyless\r\n").unwrap();
        assert_eq!(packet.len() % 8, 0);
        assert_eq!(u32::from_be_bytes(packet[..4].try_into().unwrap()) as usize, packet.len() - 4);
        assert!((4..12).contains(&packet[4]), "{}", packet[4]);
    }
}
