//! A secret's identity: `project/category/name`, or `project/environment/category/name`.
//!
//! Parsing is the only way in, so a `SecretPath` that exists is well formed. What the agent writes
//! (`github/API_TOKEN`) is a [`Reference`](crate::Reference), not a path. Source: design.md, section 2.

use std::{fmt, str::FromStr, sync::Arc};

use serde::{Deserialize, Serialize};

use crate::{alias::ALIAS_PREFIX, is_invisible};

/// The longest path in bytes; longer ones would not fit an index row of any source we know.
pub(crate) const MAX_PATH_BYTES: usize = 255;

/// A secret's identity: three or more lower-kebab segments joined by `/`. Cheap to clone.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct SecretPath(Arc<str>);

/// Why a text is not a [`SecretPath`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PathError {
    /// A segment has a character outside `a-z`, `0-9` and inner `-`.
    #[error("segment {index} {fault}, and takes a-z, 0-9 and single inner hyphens alone{}", nearest(.nearest_form.as_ref()))]
    BadSegment {
        /// Position of the segment, from 1.
        index: usize,
        /// What of it is not lower-kebab.
        fault: SegmentFault,
        /// What may have been meant.
        nearest_form: Option<SecretPath>,
    },
    /// Two slashes in a row, or one at an end.
    #[error("segment {index} is empty: no slash at an end, nor two in a row{}", nearest(.nearest_form.as_ref()))]
    EmptySegment {
        /// Position of the segment, from 1.
        index: usize,
        /// What may have been meant.
        nearest_form: Option<SecretPath>,
    },
    /// The first segment is kept for Keyless itself.
    #[error("the first segment is reserved (`_test` and names that start with `__`)")]
    Reserved,
    /// Fewer than three segments.
    #[error("{found} of at least 3 segments: project/category/name, such as team/github/token")]
    TooFewSegments {
        /// How many there were.
        found: usize,
    },
    /// More than 255 bytes.
    #[error("longer than 255 bytes")]
    TooLong,
}

/// What makes a segment other than lower-kebab.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SegmentFault {
    /// The first character that no segment takes.
    Character(char),
    /// Two hyphens side by side.
    DoubledHyphen,
    /// A hyphen at the beginning.
    FirstHyphen,
    /// A hyphen at the end.
    LastHyphen,
}

impl SecretPath {
    /// Parses `project/category/name` or `project/environment/category/name[/more of the name]`.
    pub fn parse(text: &str) -> Result<Self, PathError> {
        if text.len() > MAX_PATH_BYTES {
            return Err(PathError::TooLong);
        }
        let segments: Vec<&str> = text.split('/').collect();
        if segments[0].starts_with("__") || segments[0] == "_test" {
            return Err(PathError::Reserved);
        }
        let mut each = (1..).zip(&segments);
        if let Some((index, fault)) = each.find_map(|(index, one)| Some((index, fault(one)?))) {
            return Err(PathError::BadSegment { index, fault, nearest_form: nearest_form(text) });
        }
        if segments.len() < 3 {
            return Err(PathError::TooFewSegments { found: segments.len() });
        }
        match segments.iter().position(|segment| segment.is_empty()) {
            Some(index) => {
                Err(PathError::EmptySegment { index: index + 1, nearest_form: nearest_form(text) })
            }
            None => Ok(Self(text.into())),
        }
    }

    /// The whole path.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The first segment.
    pub fn project(&self) -> &str {
        self.segment(0)
    }

    /// The second of four or more segments; `default` with three.
    pub fn environment(&self) -> &str {
        if self.has_environment() { self.segment(1) } else { "default" }
    }

    /// What kind of thing the secret opens: the segment before the name.
    pub fn category(&self) -> &str {
        self.segment(if self.has_environment() { 2 } else { 1 })
    }

    /// The rest; from five segments on it contains slashes.
    pub fn name(&self) -> &str {
        let skipped = if self.has_environment() { 3 } else { 2 };
        self.0.splitn(skipped + 1, '/').last().expect("a path has at least three segments")
    }

    fn has_environment(&self) -> bool {
        self.0.bytes().filter(|byte| *byte == b'/').count() >= 3
    }

    fn segment(&self, index: usize) -> &str {
        self.0.split('/').nth(index).expect("a path has at least three segments")
    }
}

impl fmt::Display for SecretPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for SecretPath {
    type Err = PathError;

    fn from_str(text: &str) -> Result<Self, PathError> {
        Self::parse(text)
    }
}

impl TryFrom<String> for SecretPath {
    type Error = PathError;

    fn try_from(text: String) -> Result<Self, PathError> {
        Self::parse(&text)
    }
}

impl From<SecretPath> for String {
    fn from(path: SecretPath) -> Self {
        path.0.as_ref().to_owned()
    }
}

impl fmt::Display for SegmentFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Character(' ') => f.write_str("has a space in it"),
            Self::Character(other) if is_invisible(*other) || other.is_whitespace() => {
                write!(f, "has U+{:04X} in it", u32::from(*other))
            }
            Self::Character(other) => write!(f, "has `{other}` in it"),
            Self::DoubledHyphen => f.write_str("has two hyphens in a row"),
            Self::FirstHyphen => f.write_str("begins with a hyphen"),
            Self::LastHyphen => f.write_str("ends with a hyphen"),
        }
    }
}

/// What of a segment is not lower-kebab; an empty one is another fault.
fn fault(segment: &str) -> Option<SegmentFault> {
    let is_strange = |c: &char| !matches!(c, 'a'..='z' | '0'..='9' | '-');
    if let Some(strange) = segment.chars().find(is_strange) {
        return Some(SegmentFault::Character(strange));
    }
    [
        (segment.starts_with('-'), SegmentFault::FirstHyphen),
        (segment.ends_with('-'), SegmentFault::LastHyphen),
        (segment.contains("--"), SegmentFault::DoubledHyphen),
    ]
    .into_iter()
    .find_map(|(fails, fault)| fails.then_some(fault))
}

/// The path that such a text is with capitals made small, as in references, hyphens for blanks, `_` and `.`, and without
/// what is empty. None where anything else would be lost.
fn nearest_form(text: &str) -> Option<SecretPath> {
    let text = text.strip_prefix(ALIAS_PREFIX).unwrap_or(text);
    let is_separator = |c: char| c.is_ascii_whitespace() || matches!(c, '-' | '.' | '_');
    let folded = |segment: &str| {
        let words = segment.split(is_separator).filter(|word| !word.is_empty());
        words.map(str::to_ascii_lowercase).collect::<Vec<_>>().join("-")
    };
    let segments: Vec<String> =
        text.split('/').map(folded).filter(|segment| !segment.is_empty()).collect();
    let is_path = segments.len() >= 3 && segments.iter().all(|segment| fault(segment).is_none());
    if is_path { SecretPath::parse(&segments.join("/")).ok() } else { None }
}

/// The end of an error: what may have been meant, or else the form of all paths.
fn nearest(form: Option<&SecretPath>) -> String {
    match form {
        Some(path) => format!("; did you mean {path}?"),
        None => ": project/category/name, such as team/github/token".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_segments_are_in_the_default_environment() {
        let path = SecretPath::parse("team/github/api-token").unwrap();
        let parts = (path.project(), path.environment(), path.category(), path.name());
        assert_eq!(parts, ("team", "default", "github", "api-token"));
    }

    #[test]
    fn further_segments_belong_to_the_name() {
        let path = SecretPath::parse("team/prod/aws/deploy/key").unwrap();
        let parts = (path.project(), path.environment(), path.category(), path.name());
        assert_eq!(parts, ("team", "prod", "aws", "deploy/key"));
    }

    #[test]
    fn each_fault_is_told_apart() {
        let meant = |path| Some(SecretPath::parse(path).unwrap());
        let bad = |index, fault, nearest_form| PathError::BadSegment { index, fault, nearest_form };
        let strange = SegmentFault::Character;
        let cases = [
            ("", PathError::TooFewSegments { found: 1 }),
            ("team/github", PathError::TooFewSegments { found: 2 }),
            (
                "team//b/token",
                PathError::EmptySegment { index: 2, nearest_form: meant("team/b/token") },
            ),
            ("team//token", PathError::EmptySegment { index: 2, nearest_form: None }),
            ("__sys/a/b", PathError::Reserved),
            ("_test/a/b", PathError::Reserved),
            ("bad path", bad(1, strange(' '), None)),
            ("team/GitHub/token", bad(2, strange('G'), meant("team/github/token"))),
            ("team/github/api_key", bad(3, strange('_'), meant("team/github/api-key"))),
            ("team/my app/API.key/", bad(2, strange(' '), meant("team/my-app/api-key"))),
            ("team/github/schlüssel", bad(3, strange('ü'), None)),
            (
                "team/github/to--ken",
                bad(3, SegmentFault::DoubledHyphen, meant("team/github/to-ken")),
            ),
            ("team/github/-token", bad(3, SegmentFault::FirstHyphen, meant("team/github/token"))),
            ("team/github/token-", bad(3, SegmentFault::LastHyphen, meant("team/github/token"))),
            ("@secret:team/github/token", bad(1, strange('@'), meant("team/github/token"))),
            ("https://team/github/token", bad(1, strange(':'), None)),
            ("team/github/to\nken", bad(3, strange('\n'), meant("team/github/to-ken"))),
        ];
        for (text, expected) in cases {
            assert_eq!(SecretPath::parse(text), Err(expected), "{text:?}");
        }
        assert_eq!(SecretPath::parse(&format!("a/b/{}", "c".repeat(255))), Err(PathError::TooLong));
    }

    #[test]
    fn a_fault_says_which_rule_and_what_may_have_been_meant() {
        for (text, words) in [
            (
                "bad path",
                "segment 1 has a space in it, and takes a-z, 0-9 and single inner hyphens alone: \
                 project/category/name, such as team/github/token",
            ),
            (
                "team/github/API_KEY",
                "segment 3 has `A` in it, and takes a-z, 0-9 and single inner hyphens alone; did you mean \
                 team/github/api-key?",
            ),
            (
                "team/git\u{202e}hub/key",
                "segment 2 has U+202E in it, and takes a-z, 0-9 and single inner hyphens alone: \
                 project/category/name, such as team/github/token",
            ),
            (
                "/team/github/key",
                "segment 1 is empty: no slash at an end, nor two in a row; did you mean team/github/key?",
            ),
        ] {
            assert_eq!(SecretPath::parse(text).unwrap_err().to_string(), words, "{text:?}");
        }
    }
}
