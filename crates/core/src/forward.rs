//! The line that a node's forwarder writes before a guest's own bytes: whose they are.
//!
//! ```text
//! keyless-forward/1 thread-7\n              over a Unix socket that only its user can reach
//! keyless-forward/1 thread-7 TOKEN\n        over TCP, where anybody on the machine could connect
//! ```
//!
//! The guest can't choose it: the forwarder knows it from the socket that the guest's hypervisor
//! connected to. What follows is the guest's preamble. Source: spec/egress-secret-proxy.md,
//! decision 5; reference/egress.md (d), "Preamble later".

use std::fmt;

use crate::SessionId;

/// The longest line in bytes, its line feed included.
pub const MAX_FORWARD_BYTES: usize = 512;

const GREETING: &str = "keyless-forward/1";
/// A token that can be guessed admits anybody.
const TOKEN_BYTES: std::ops::RangeInclusive<usize> = 16..=256;

/// Which session, and what admits the forwarder.
#[derive(Clone, PartialEq, Eq)]
pub struct ForwardLine {
    /// The session.
    pub session: SessionId,
    /// What admits the forwarder where the socket does not. It opens no value: who has it can act
    /// as a guest of this node.
    pub token: Option<ForwardToken>,
}

/// 16 to 256 visible ASCII characters.
#[derive(Clone)]
pub struct ForwardToken(String);

/// Why bytes are not a [`ForwardLine`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ForwardLineError {
    /// Longer than [`MAX_FORWARD_BYTES`], or not text.
    #[error("the forwarder's line is not one line of at most 512 bytes")]
    NotALine,
    /// It does not begin with this version's greeting.
    #[error("the forwarder's line does not begin with `keyless-forward/1`")]
    Greeting,
    /// The session or the token is not one.
    #[error("the forwarder's line does not name a session, and at most a token")]
    Words,
}

impl ForwardLine {
    /// Reads the line from the beginning of what arrived. `Ok(None)`: it has not ended yet. Else the
    /// line and how many bytes it took.
    pub fn read(received: &[u8]) -> Result<Option<(Self, usize)>, ForwardLineError> {
        let window = &received[..received.len().min(MAX_FORWARD_BYTES)];
        let Some(end) = window.iter().position(|byte| *byte == b'\n') else {
            let full = window.len() == MAX_FORWARD_BYTES;
            return if full { Err(ForwardLineError::NotALine) } else { Ok(None) };
        };
        let line = str::from_utf8(&window[..end]).map_err(|_| ForwardLineError::NotALine)?;
        let mut words = line.split(' ');
        if words.next() != Some(GREETING) {
            return Err(ForwardLineError::Greeting);
        }
        let (session, token, more) = (words.next(), words.next(), words.next());
        let session = session.and_then(|word| SessionId::parse(word).ok());
        let token = token.map(ForwardToken::parse).transpose();
        match (session, token, more) {
            (Some(session), Ok(token), None) => Ok(Some((Self { session, token }, end + 1))),
            _ => Err(ForwardLineError::Words),
        }
    }
}

impl fmt::Display for ForwardLine {
    /// Writes the line, its line feed included.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{GREETING} {}", self.session)?;
        if let Some(token) = &self.token {
            write!(f, " {}", token.0)?;
        }
        writeln!(f)
    }
}

impl fmt::Debug for ForwardLine {
    /// Without the token.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ForwardLine({})", self.session)
    }
}

impl ForwardToken {
    /// Checks the grammar.
    pub fn parse(text: &str) -> Result<Self, ForwardLineError> {
        if TOKEN_BYTES.contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_graphic()) {
            Ok(Self(text.to_owned()))
        } else {
            Err(ForwardLineError::Words)
        }
    }
}

impl PartialEq for ForwardToken {
    /// In a time that does not tell how much of it was right.
    fn eq(&self, other: &Self) -> bool {
        let (a, b) = (self.0.as_bytes(), other.0.as_bytes());
        let differing = a.iter().zip(b).fold(0, |seen, (x, y)| seen | (x ^ y));
        a.len() == b.len() && std::hint::black_box(differing) == 0
    }
}

impl Eq for ForwardToken {}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(session: &str, token: Option<&str>) -> ForwardLine {
        let token = token.map(|text| ForwardToken::parse(text).unwrap());
        ForwardLine { session: SessionId::parse(session).unwrap(), token }
    }

    #[test]
    fn a_line_is_read_as_it_was_written() {
        for line in [line("thread-7", None), line("a.b_c", Some("0123456789abcdef"))] {
            let text = line.to_string();
            let received = [text.as_bytes(), b"api.test:443\n\x16\x03"].concat();
            assert_eq!(ForwardLine::read(&received), Ok(Some((line, text.len()))));
            for cut in 0..text.len() {
                assert_eq!(ForwardLine::read(&received[..cut]), Ok(None), "{cut}");
            }
        }
    }

    #[test]
    fn what_is_no_line_is_refused() {
        use ForwardLineError::{Greeting, NotALine, Words};
        let long = format!("keyless-forward/1 {}\n", "a".repeat(600));
        for (text, error) in [
            ("api.test:443\n", Greeting),
            ("keyless-forward/2 s\n", Greeting),
            ("keyless-forward/1\n", Words),
            ("keyless-forward/1 \n", Words),
            ("keyless-forward/1 a/b\n", Words),
            ("keyless-forward/1 s short\n", Words),
            ("keyless-forward/1 s 0123456789abcdef x\n", Words),
            ("keyless-forward/1 s\r\n", Words),
            (&long, NotALine),
        ] {
            assert_eq!(ForwardLine::read(text.as_bytes()), Err(error), "{text}");
        }
        assert_eq!(ForwardLine::read(b"\xff\n"), Err(NotALine));
    }

    #[test]
    fn tokens_are_compared_whole() {
        let token = |text: &str| ForwardToken::parse(text).unwrap();
        assert!(token("0123456789abcdef") == token("0123456789abcdef"));
        assert!(token("0123456789abcdef") != token("0123456789abcdeF"));
        assert!(token("0123456789abcdef") != token("0123456789abcdef0"));
    }
}
