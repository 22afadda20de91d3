//! The only text that may go to the agent's side.
//!
//! `SafeText` is built from words of ours, names with a grammar, numbers, and what the agent itself
//! sent. There is no way from bytes or a `String` into it, so a value that was copied into a
//! `String` does not compile into a reply. Source: design.md, section 1.

use std::{fmt, io};

use serde::{Serialize, Serializer};

use crate::{Authority, Destination, Host, Placeholder, SecretPath, is_invisible};

/// The most of an agent's own words that are repeated back, in characters.
const MAX_ECHO: usize = 300;
/// The most blanks side by side that stand as they are: more of them push what follows to where it seems to be ours.
const MAX_BLANKS: usize = 8;

/// Text that can't hold a value.
#[derive(Clone, Default, Debug, PartialEq, Eq)]
pub struct SafeText(String);

mod sealed {
    pub trait Sealed {}
}

/// A type whose text may be shown to an agent. Closed: implemented here and nowhere else.
pub trait AgentSafe: fmt::Display + sealed::Sealed {
    /// How it reads among words of ours.
    #[doc(hidden)]
    fn write_to(&self, words: &mut String) {
        use fmt::Write;
        write!(words, "{self}").expect("writing to a String does not fail");
    }
}

macro_rules! agent_safe {
    ($($kind:ty),*) => {$(
        impl sealed::Sealed for $kind {}
        impl AgentSafe for $kind {}
    )*};
}

agent_safe!(&'static str, u16, u32, u64, usize, i32);
agent_safe!(SecretPath, Host, Authority, Destination, Placeholder, SafeText);
agent_safe!(crate::Location, crate::path::PathError, crate::destination::DestinationError);
agent_safe!(crate::host::HostError, crate::authority::AuthorityError, std::net::IpAddr);
agent_safe!(crate::SessionId, crate::SessionIdError, crate::ForwardLineError);
agent_safe!(crate::placeholder::LookAlikeError, crate::secret::ValueError);
agent_safe!(crate::approval::RequestId, crate::approval::RequestKind);

impl<T: AgentSafe> sealed::Sealed for &T {}
impl<T: AgentSafe> AgentSafe for &T {
    fn write_to(&self, words: &mut String) {
        (**self).write_to(words);
    }
}

impl sealed::Sealed for io::ErrorKind {}
impl AgentSafe for io::ErrorKind {
    /// The commonest in plain words: `entity not found` tells nobody what to do.
    fn write_to(&self, words: &mut String) {
        match self {
            Self::NotFound => words.push_str("it is not there"),
            Self::AlreadyExists => words.push_str("it is there already"),
            Self::PermissionDenied => words.push_str("you may not read or write it"),
            other => words.push_str(&other.to_string()),
        }
    }
}

impl SafeText {
    /// Begins with words of ours.
    pub fn words(words: &'static str) -> Self {
        Self(words.to_owned())
    }

    /// Appends anything that is safe by type.
    #[must_use]
    pub fn and(mut self, safe: impl AgentSafe) -> Self {
        safe.write_to(&mut self.0);
        self
    }

    /// Appends a number.
    #[must_use]
    pub fn number(self, number: u64) -> Self {
        self.and(number)
    }

    /// Appends what the agent or operator itself wrote (an argument, a file's name, a header's
    /// name), on one line, shortened, and with characters that can't be seen made visible. Never for anything that
    /// passed through a swap.
    #[must_use]
    pub fn as_they_wrote(mut self, text: &str) -> Self {
        match text.char_indices().nth(MAX_ECHO) {
            None => self.as_they_wrote_in_full(text),
            Some((end, _)) => {
                self = self.as_they_wrote_in_full(&text[..end]);
                self.0.push('…');
                self
            }
        }
    }

    /// [`SafeText::as_they_wrote`] without shortening, for what was limited when it came in. Many blanks in a row are
    /// counted: `\u{20}×61`.
    #[must_use]
    pub fn as_they_wrote_in_full(self, text: &str) -> Self {
        self.with_blanks(text, MAX_BLANKS)
    }

    /// As [`SafeText::as_they_wrote_in_full`], for a line that is laid out by blanks: up to `most` side by side stay.
    #[must_use]
    pub fn as_they_laid_out(self, line: &str, most: usize) -> Self {
        self.with_blanks(line, most)
    }

    fn with_blanks(mut self, text: &str, most: usize) -> Self {
        let mut blanks = 0;
        for character in text.chars() {
            if matches!(character, ' ' | '\n') {
                blanks += 1;
                continue;
            }
            self.push_blanks(blanks, most);
            blanks = 0;
            match character {
                '\'' | '"' | '\\' => self.0.push(character),
                other if is_invisible(other) => self.0.extend(other.escape_unicode()),
                other => self.0.extend(other.escape_debug()),
            }
        }
        self.push_blanks(blanks, most);
        self
    }

    fn push_blanks(&mut self, blanks: usize, most: usize) {
        if blanks <= most {
            self.0.extend(std::iter::repeat_n(' ', blanks));
        } else {
            use fmt::Write;
            write!(self.0, " \\u{{20}}×{blanks} ").expect("writing to a String does not fail");
        }
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for SafeText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Serialize for SafeText {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0)
    }
}

impl From<&'static str> for SafeText {
    fn from(words: &'static str) -> Self {
        Self::words(words)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn their_words_are_shortened_and_made_visible() {
        let text = SafeText::words("host ").as_they_wrote("a\u{202e}b'\n\r");
        assert_eq!(text.as_str(), "host a\\u{202e}b' \\r");
        // A letter and a sign without a shape.
        let text = SafeText::default().as_they_wrote("a\u{3164}b\u{2800}\u{fe00} é ❤");
        assert_eq!(text.as_str(), "a\\u{3164}b\\u{2800}\\u{fe00} é ❤");
        // What pushes the rest of a line to where it seems to be ours.
        let blanks = format!("{}a{}b{}", " ".repeat(8), " ".repeat(9), "\n".repeat(61));
        let text = SafeText::default().as_they_wrote(&blanks);
        assert_eq!(text.as_str(), "        a \\u{20}×9 b \\u{20}×61 ");
        let line = SafeText::default().as_they_laid_out(&blanks[..18], 9);
        assert_eq!(line.as_str(), "        a         b"[..18].to_owned());
        let long = SafeText::default().as_they_wrote(&"x".repeat(400));
        assert_eq!(long.as_str().chars().count(), MAX_ECHO + 1);
    }
}
