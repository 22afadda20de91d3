//! What the store gives a source, so that it can be asked: its own credential, and the secrets that its settings name.

use keyless_core::{SafeText, SecretPath, SecretValue, alias};

use super::backend::{SourceFault, State};

/// Values for one source, fetched anew whenever it is asked for something.
#[derive(Default)]
pub(crate) struct Supply {
    credential: Option<SecretValue>,
    named: Vec<SecretValue>,
}

/// A setting's text, or the secret that stands in its place.
#[derive(Clone, Debug)]
pub(crate) enum Setting {
    Text(String),
    Secret(SecretPath),
}

impl Supply {
    /// `named` are the secrets of the source's settings.
    pub(crate) fn new(credential: Option<SecretValue>, named: Vec<SecretValue>) -> Self {
        Self { credential, named }
    }

    /// The source's own credential.
    pub(crate) fn credential(&self) -> Option<&SecretValue> {
        self.credential.as_ref()
    }

    /// Whether a source that was started with `other` would be started with the same now.
    pub(crate) fn names_the_same_as(&self, other: &[SecretValue]) -> bool {
        let same = |(one, two): (&SecretValue, &SecretValue)| {
            one.path() == two.path() && one.is_same_as(two)
        };
        self.named.len() == other.len() && self.named.iter().zip(other).all(same)
    }

    /// The secrets of the settings once more, for a source that goes on with them.
    pub(crate) fn named_again(&self) -> Vec<SecretValue> {
        self.named.iter().map(SecretValue::copy_for_cache).collect()
    }

    /// The value of a secret that a setting names, as text.
    pub(crate) fn text_of(&self, path: &SecretPath) -> Result<&str, SourceFault> {
        let lacks = |what: &'static str| SourceFault {
            state: State::NeedsCredential,
            words: SafeText::words("its settings name ").and(path).and(what),
        };
        let value = self.named.iter().find(|value| value.path() == path);
        let value = value.ok_or_else(|| lacks(", which could not be opened"))?;
        std::str::from_utf8(value.expose_to_its_source())
            .map_err(|_| lacks(", whose value is no text"))
    }
}

impl Setting {
    /// The error is a fragment of a sentence.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        match alias(text) {
            None => Ok(Self::Text(text.to_owned())),
            Some(Ok(path)) => Ok(Self::Secret(path)),
            Some(Err(error)) => Err(format!("{text:?}: {error}")),
        }
    }

    /// What stands there itself; nothing where a secret does.
    pub(crate) fn written(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(text),
            Self::Secret(_) => None,
        }
    }

    /// What it comes to now.
    pub(crate) fn resolve<'a>(&'a self, with: &'a Supply) -> Result<&'a str, SourceFault> {
        match self {
            Self::Text(text) => Ok(text),
            Self::Secret(path) => with.text_of(path),
        }
    }
}
