//! Which secrets a pattern names: globs over the secret's own path, never over what an agent wrote.
//!
//! A pattern is compared with the form of the path that has as many segments (C-09): `name`, `category/name`,
//! `project/environment/name`, `project/environment/category/name`, or the path itself. `*` and `?` stay within a
//! segment; `**` does not, and is compared with whole paths only, so that `api/**` is a project. A lone `*` or `**` is
//! every secret. Letters and signs are folded as in references. One that begins with `provider://` is compared with where
//! a secret is kept, letter by letter, and with nothing else. A place that no secret here stands for is named by its very
//! reference alone: no wildcard reaches it.

use std::{borrow::Cow, collections::BTreeSet, fmt, str::FromStr};

use serde::{Deserialize, Serialize};

use crate::{Reading, SecretPath};

/// The longest pattern, in bytes.
const MAX: usize = 512;

/// A secret that an action needs, and how it may be called.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Subject {
    path: SecretPath,
    places: Vec<String>,
    is_place: bool,
}

/// The categories that this vault's secrets have: a pattern of two segments means one of these before it means an environment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Categories(BTreeSet<String>);

/// A pattern of secrets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SecretPattern {
    written: String,
    folded: String,
    kind: Kind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// Everything.
    All,
    /// No wildcard.
    Exact,
    /// Wildcards within segments; this many segments.
    Segments(usize),
    /// With `**`.
    Tree,
}

/// All the ways to write one secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Forms<'a> {
    /// By their number of segments, the whole ones last.
    short: Vec<Cow<'a, str>>,
    whole: Vec<Cow<'a, str>>,
    places: Vec<Cow<'a, str>>,
    /// Whether it is a place that no secret stands for.
    is_place: bool,
}

/// Why a text is no pattern.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "a pattern has letters, digits, `-`, `_`, `.`, `*`, `?` and single `/`, or names a provider with `://`"
)]
pub struct PatternError;

impl Categories {
    /// The categories of these secrets.
    pub fn of<'a>(paths: impl IntoIterator<Item = &'a SecretPath>) -> Self {
        Self(paths.into_iter().map(|path| path.category().to_owned()).collect())
    }

    fn has(&self, name: &str) -> bool {
        self.0.contains(name)
    }
}

impl Subject {
    /// A secret whose value is kept at `places`, each `provider://place`.
    pub fn new(path: SecretPath, places: Vec<String>) -> Self {
        Self { path, places, is_place: false }
    }

    /// A place of a source that no secret stands for, in each way to write it; `path` is what the log calls it.
    pub fn of_place(path: SecretPath, places: Vec<String>) -> Self {
        Self { path, places, is_place: true }
    }

    /// Whether it is a place that no secret stands for: it is of no project, environment or category.
    pub fn is_place(&self) -> bool {
        self.is_place
    }

    /// Its path.
    pub fn path(&self) -> &SecretPath {
        &self.path
    }

    /// All the ways to write it.
    pub fn forms(&self, categories: &Categories) -> Forms<'_> {
        let places = self.places.iter().map(|place| place.as_str().into()).collect();
        if self.is_place {
            return Forms { short: Vec::new(), whole: Vec::new(), places, is_place: true };
        }
        Forms { places, ..Forms::of(&self.path, categories) }
    }
}

impl From<SecretPath> for Subject {
    /// One that is kept here.
    fn from(path: SecretPath) -> Self {
        Self::new(path, Vec::new())
    }
}

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.path.fmt(f)
    }
}

impl<'a> Forms<'a> {
    fn of(path: &'a SecretPath, categories: &Categories) -> Self {
        // As in references, a slash inside a name is a hyphen wherever the name is not the end of the whole path.
        let name: Cow<'a, str> = if path.name().contains('/') {
            path.name().replace('/', "-").into()
        } else {
            path.name().into()
        };
        let (project, environment, category) =
            (path.project(), path.environment(), path.category());
        let mut short = vec![name.clone(), format!("{category}/{name}").into()];
        if !categories.has(environment) {
            short.push(format!("{environment}/{name}").into());
        }
        let whole = vec![
            Cow::Borrowed(path.as_str()),
            format!("{project}/{environment}/{name}").into(),
            format!("{project}/{environment}/{category}/{name}").into(),
        ];
        Self { short, whole, places: Vec::new(), is_place: false }
    }

    pub(super) fn each(&self) -> impl Iterator<Item = &str> {
        self.short.iter().chain(&self.whole).chain(&self.places).map(AsRef::as_ref)
    }

    fn whole(&self) -> impl Iterator<Item = &str> {
        self.whole.iter().map(AsRef::as_ref)
    }
}

impl SecretPattern {
    /// Parses one.
    pub fn parse(text: &str) -> Result<Self, PatternError> {
        let provider = text.split_once("://");
        let body = provider.map_or(text, |(_, path)| path);
        let allowed = |c: char| c.is_ascii_alphanumeric() || "-_.*?".contains(c);
        let segments_fit =
            body.split('/').all(|part| !part.is_empty() && part.chars().all(allowed));
        let provider_fits = provider.is_none_or(|(name, _)| {
            !name.is_empty()
                && name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_'))
        });
        if text.len() > MAX || !segments_fit || !provider_fits {
            return Err(PatternError);
        }
        let folded = if provider.is_some() { text.to_owned() } else { fold(text) };
        let kind = if folded == "*" || folded == "**" {
            Kind::All
        } else if folded.contains("**") {
            Kind::Tree
        } else if folded.contains(['*', '?']) {
            Kind::Segments(folded.split('/').count())
        } else {
            Kind::Exact
        };
        Ok(Self { written: text.to_owned(), folded, kind })
    }

    /// As it was written.
    pub fn as_str(&self) -> &str {
        &self.written
    }

    /// Whether it names this secret, or begins a way to write it: its path, or `category/name`. As a folder it does so by
    /// whole segments.
    pub fn leads_to(&self, forms: &Forms<'_>, is_folder: bool) -> bool {
        let goes_on = |rest: &str| !is_folder || rest.starts_with('/');
        let begins = |form: &str| {
            form.contains('/') && form.strip_prefix(&*self.folded).is_some_and(goes_on)
        };
        let is_beginning = matches!(self.kind, Kind::Exact) && forms.each().any(begins);
        is_beginning || self.matches(forms)
    }

    /// Whether it names this secret.
    pub fn matches(&self, forms: &Forms<'_>) -> bool {
        if forms.is_place {
            // Its operator has said nothing else of it, so that they have to have meant this one.
            return self.is_of_provider()
                && self.is_exact()
                && forms.places.iter().any(|place| *place == self.folded);
        }
        if self.is_of_provider() {
            return forms.places.iter().any(|place| glob(&self.folded, place));
        }
        match self.kind {
            Kind::All => true,
            Kind::Exact => forms.each().any(|form| form == self.folded),
            Kind::Segments(count) => forms
                .each()
                .any(|form| form.split('/').count() == count && glob(&self.folded, form)),
            Kind::Tree => forms.whole().any(|form| glob(&self.folded, form)),
        }
    }

    /// Whether it may name what a reference says, where some of the path is not written. That a pattern of two segments
    /// means an environment which is not written is not supposed.
    pub(crate) fn may_name(&self, reading: &Reading) -> bool {
        if self.is_of_provider() || matches!(self.kind, Kind::All | Kind::Tree) {
            return true;
        }
        let Reading { project, environment, category, name } = reading;
        let [project, environment, category] =
            [project, environment, category].map(Option::as_deref);
        let name = Some(name.as_str());
        let is_default = environment.is_none_or(|environment| environment == "default");
        let forms: [(bool, &[Option<&str>]); 6] = [
            (true, &[name]),
            (true, &[category, name]),
            (environment.is_some(), &[environment, name]),
            (is_default, &[project, category, name]),
            (true, &[project, environment, name]),
            (true, &[project, environment, category, name]),
        ];
        let parts: Vec<&str> = self.folded.split('/').collect();
        let fits = |form: &[Option<&str>]| {
            let mut pairs = parts.iter().zip(form);
            parts.len() == form.len()
                && pairs.all(|(part, said)| said.is_none_or(|said| glob(part, said)))
        };
        // One of more segments is a path with slashes in its name, which a reference may write as hyphens.
        parts.len() > 4 || forms.iter().any(|(is_one, form)| *is_one && fits(form))
    }

    /// Whether everything that it names is surely named by `wide` too. Errs on the side of no.
    pub fn is_within(&self, wide: &Self) -> bool {
        match (self.kind, wide.kind) {
            (_, Kind::All) => true,
            (Kind::All, _) => false,
            _ if self.folded == wide.folded => true,
            _ if self.is_of_provider() != wide.is_of_provider() => false,
            _ if self.is_of_provider() => glob(&wide.folded, &self.folded),
            (Kind::Exact | Kind::Segments(_), Kind::Segments(count)) => {
                self.folded.split('/').count() == count && glob(&wide.folded, &self.folded)
            }
            // Shorter forms are not the whole path, with which a tree is compared.
            (Kind::Exact | Kind::Segments(_), Kind::Tree) => {
                self.folded.split('/').count() >= 3 && glob(&wide.folded, &self.folded)
            }
            (Kind::Tree, Kind::Tree) => glob(&wide.folded, &self.folded),
            _ => false,
        }
    }

    /// As [`Self::is_within`], where a whole path may also be named by a shorter form of it.
    pub fn is_within_by_form(&self, wide: &Self, categories: &Categories) -> bool {
        let path = || SecretPath::parse(&self.folded).ok().filter(|_| self.kind == Kind::Exact);
        self.is_within(wide)
            || path().is_some_and(|path| wide.matches(&Forms::of(&path, categories)))
    }

    /// Whether it names this `provider://place`, whatever stands there.
    pub fn names_place(&self, place: &str) -> bool {
        self.is_of_provider() && glob(&self.folded, place)
    }

    /// Whether it is about where secrets are kept.
    pub fn is_of_provider(&self) -> bool {
        self.written.contains("://")
    }

    /// Whether it has no wildcard.
    pub fn is_exact(&self) -> bool {
        self.kind == Kind::Exact
    }

    /// What a secret's form has to be, or to begin with, to be worth a look.
    pub(super) fn key(&self) -> Key<'_> {
        let first = self.folded.split('/').next().unwrap_or_default();
        match self.kind {
            Kind::Exact => Key::Whole(&self.folded),
            Kind::Segments(_) | Kind::Tree if !first.contains(['*', '?']) => Key::First(first),
            _ => Key::Any,
        }
    }
}

/// Where an index keeps a pattern.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Key<'a> {
    Any,
    First(&'a str),
    Whole(&'a str),
}

impl fmt::Display for SecretPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.written)
    }
}

impl FromStr for SecretPattern {
    type Err = PatternError;

    fn from_str(text: &str) -> Result<Self, PatternError> {
        Self::parse(text)
    }
}

impl Serialize for SecretPattern {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.written)
    }
}

impl<'de> Deserialize<'de> for SecretPattern {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        Self::parse(&text).map_err(serde::de::Error::custom)
    }
}

fn fold(text: &str) -> String {
    let folded = |c: char| match c {
        '_' | '.' => '-',
        other => other.to_ascii_lowercase(),
    };
    text.chars().map(folded).collect()
}

/// Whether a glob fits a whole text: `**` any run, `*` any run without `/`, `?` one character but `/`. The text may be
/// a glob itself: then whether it surely fits whatever that one does. Takes the product of both lengths at most.
fn glob(pattern: &str, text: &str) -> bool {
    // What may stand for a `/`, or for nothing or more than one character, in a text that is a glob.
    const ANY_RUN: char = '\0';
    let text = text.replace("**", ANY_RUN.encode_utf8(&mut [0; 1]));
    let text = text.as_bytes();
    let in_segment = |byte: u8| byte != b'/' && char::from(byte) != ANY_RUN;
    // Which beginnings of the text the pattern so far can have taken.
    let mut reached = vec![false; text.len() + 1];
    reached[0] = true;
    let mut signs = pattern.bytes().peekable();
    while let Some(sign) = signs.next() {
        let crosses = sign == b'*' && signs.next_if_eq(&b'*').is_some();
        if sign == b'*' {
            for at in 0..text.len() {
                reached[at + 1] |= reached[at] && (crosses || in_segment(text[at]));
            }
            continue;
        }
        for at in (0..text.len()).rev() {
            let fits = match sign {
                b'?' => in_segment(text[at]) && text[at] != b'*',
                sign => text[at] == sign,
            };
            reached[at + 1] = reached[at] && fits;
        }
        reached[0] = false;
    }
    reached[text.len()]
}
