//! What every source behind `sources.toml` is to the router.

use std::{
    fmt,
    path::{Path, PathBuf},
    pin::Pin,
    time::Duration,
};

use keyless_core::{SafeText, SecretPath, SecretValue};
use serde::Serialize;
use toml::Table;
use zeroize::Zeroizing;

use super::supply::Supply;

/// An answer that takes a while.
pub type Answer<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// A place outside of the store where secrets are kept.
pub(crate) trait Backend: Send + Sync {
    /// What it can do, whatever the operator lets Keyless do.
    fn capabilities(&self) -> Capabilities;

    /// What it can do, asked of it anew where it is the one to say.
    fn asked_capabilities<'a>(
        &'a self,
        _with: &'a Supply,
    ) -> Answer<'a, Result<Capabilities, SourceFault>> {
        Box::pin(async { Ok(self.capabilities()) })
    }

    /// What the source calls the secret `path`; `rest` is what the route's prefix left of it.
    fn reference(&self, path: &SecretPath, rest: &str, _route: Option<&Table>) -> String {
        if rest.is_empty() { path.to_string() } else { rest.to_owned() }
    }

    /// What it calls the item that a handle writes so.
    fn place(&self, written: &str) -> String {
        written.to_owned()
    }

    /// What it lacks on this machine: its program, as it was allowed, its folder or its file. Asks nobody and starts
    /// nothing. Blocks.
    fn check_here(&self) -> Result<(), SourceFault> {
        Ok(())
    }

    /// How it is.
    fn state<'a>(&'a self, with: &'a Supply) -> Answer<'a, State>;

    /// The value of `reference`, `None` when there is none.
    fn get<'a>(
        &'a self,
        reference: &'a str,
        with: &'a Supply,
    ) -> Answer<'a, Result<Option<Fetched>, SourceFault>>;

    /// What it holds, by the references that [`get`](Self::get) takes; values are none of it.
    fn list<'a>(&'a self, _with: &'a Supply) -> Answer<'a, Result<Vec<Held>, SourceFault>> {
        Box::pin(async { Err(SourceFault::new(State::Available, "it can't say what it holds")) })
    }

    /// Puts `value` in place of what is there.
    fn put<'a>(
        &'a self,
        _reference: &'a str,
        _value: &'a SecretValue,
        _with: &'a Supply,
    ) -> Answer<'a, Result<(), SourceFault>> {
        Box::pin(async { Err(SourceFault::new(State::Available, "it takes no values")) })
    }

    /// Where on this machine its values lie, or what opens them: no agent gets to see it.
    fn files(&self) -> Vec<PathBuf> {
        Vec::new()
    }

    /// Forgets what it was let in or started with: the vault is locked.
    fn forget(&self) {}
}

/// A set of what a source can do. The numbers are the plugin protocol's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Capabilities(u32);

/// A value that a source gave.
pub(crate) struct Fetched {
    pub(crate) bytes: Zeroizing<Vec<u8>>,
    /// How long it may be kept, if the source says.
    pub(crate) lease: Option<Duration>,
}

/// The most that a source is asked for when it says what it holds: more than anybody looks through.
pub(super) const MAX_HELD: usize = 10_000;

/// Something that a source holds.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Held {
    /// What the source calls it.
    pub reference: String,
    /// What people call it, where that is something else.
    pub name: Option<String>,
}

/// Whether a source can be asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum State {
    /// The source can be asked.
    Available,
    /// A person has to open it first.
    Locked,
    /// It lacks a credential of its own.
    NeedsCredential,
    /// The program behind it is not there.
    NotInstalled,
    /// The source can't be asked for now.
    Unavailable,
}

/// Why a source gave nothing. The words are ours; what a source wrote may hold values. One that is available could not
/// do what this reference asks.
#[derive(Debug)]
pub(crate) struct SourceFault {
    pub(crate) state: State,
    pub(crate) words: SafeText,
}

impl Capabilities {
    /// Values can be fetched.
    pub const READ: Self = Self(1);
    /// References can be listed.
    pub const LIST: Self = Self(2);
    /// References can be checked.
    pub const VALIDATE: Self = Self(4);
    /// Values can be put.
    pub const WRITE: Self = Self(8);
    /// A put keeps the versions before it.
    pub const ROTATE: Self = Self(16);
    /// Fetching may ask a person.
    pub const BIOMETRIC_PROMPT: Self = Self(32);
    /// Fetching is on record at the source.
    pub const AUDIT_LOGGED: Self = Self(64);

    const WORDS: [(Self, &'static str); 7] = [
        (Self::READ, "read"),
        (Self::LIST, "list"),
        (Self::VALIDATE, "validate"),
        (Self::WRITE, "write"),
        (Self::ROTATE, "rotate"),
        (Self::BIOMETRIC_PROMPT, "prompt"),
        (Self::AUDIT_LOGGED, "audit"),
    ];

    /// The set of these bits; unknown ones are dropped.
    pub fn from_bits(bits: u32) -> Self {
        Self(bits & 127)
    }

    /// Both sets together.
    #[must_use]
    pub const fn and(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Whether all of `other` is in it.
    pub const fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// The set without what changes anything at the source.
    #[must_use]
    pub const fn read_only(self) -> Self {
        Self(self.0 & !(Self::WRITE.0 | Self::ROTATE.0))
    }

    /// The words of what is in it.
    pub fn words(self) -> impl Iterator<Item = &'static str> {
        Self::WORDS.into_iter().filter(move |(one, _)| self.contains(*one)).map(|(_, word)| word)
    }
}

impl SourceFault {
    pub(crate) fn new(state: State, words: &'static str) -> Self {
        Self { state, words: SafeText::words(words) }
    }
}

/// What a source lies in is not there.
pub(super) fn not_there(what: &'static str, place: &Path) -> SourceFault {
    let words = SafeText::words("no ").and(what).and(" at ");
    let words = words.as_they_wrote(&place.to_string_lossy());
    SourceFault { state: State::NotInstalled, words }
}

/// A value that can't be put: most places take text alone.
pub(super) fn no_text() -> SourceFault {
    SourceFault::new(State::Available, "it takes text alone")
}

/// It holds more than [`MAX_HELD`]: a part is not told as the whole.
pub(super) fn holds_too_much() -> SourceFault {
    let words = "it holds more than 10,000; see browse_below";
    SourceFault::new(State::Available, words)
}

impl State {
    /// The word in answers.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Available => "available",
            Self::Locked => "locked",
            Self::NeedsCredential => "needs-credential",
            Self::NotInstalled => "not-installed",
            Self::Unavailable => "unavailable",
        }
    }

    /// The state that answers call so.
    pub(crate) fn parse(word: &str) -> Option<Self> {
        let all = [
            Self::Available,
            Self::Locked,
            Self::NeedsCredential,
            Self::NotInstalled,
            Self::Unavailable,
        ];
        all.into_iter().find(|state| state.as_str() == word)
    }
}

impl fmt::Display for Capabilities {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.words().collect::<Vec<_>>().join(", "))
    }
}

impl fmt::Debug for Fetched {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Fetched")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_are_the_protocols() {
        let all = Capabilities::from_bits(u32::MAX);
        assert_eq!(all.to_string(), "read, list, validate, write, rotate, prompt, audit");
        assert_eq!(all.read_only().to_string(), "read, list, validate, prompt, audit");
        assert_eq!(Capabilities::from_bits(9).to_string(), "read, write");
        assert!(!Capabilities::READ.contains(Capabilities::WRITE));
    }
}
