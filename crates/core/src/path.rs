//! A secret's identity: `project/category/name`, or `project/environment/category/name`.
//!
//! Parsing is the only way in, so a `SecretPath` that exists is well formed. What the agent writes
//! (`github/API_TOKEN`) is a [`Reference`](crate::Reference), not a path. Source: design.md, section 2.

use std::{fmt, str::FromStr, sync::Arc};

use serde::{Deserialize, Serialize};

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
    #[error("segment {index} is not lower-kebab (a-z, 0-9 and single inner hyphens)")]
    BadSegment {
        /// Position of the segment, from 1.
        index: usize,
    },
    /// Two slashes in a row, or one at an end.
    #[error("segment {index} is empty")]
    EmptySegment {
        /// Position of the segment, from 1.
        index: usize,
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

impl SecretPath {
    /// Parses `project/category/name` or `project/environment/category/name[/more of the name]`.
    pub fn parse(text: &str) -> Result<Self, PathError> {
        if text.len() > MAX_PATH_BYTES {
            return Err(PathError::TooLong);
        }
        let segments: Vec<&str> = text.split('/').collect();
        if segments.len() < 3 {
            return Err(PathError::TooFewSegments { found: segments.len() });
        }
        if let Some(index) = segments.iter().position(|segment| segment.is_empty()) {
            return Err(PathError::EmptySegment { index: index + 1 });
        }
        if segments[0].starts_with("__") || segments[0] == "_test" {
            return Err(PathError::Reserved);
        }
        match segments.iter().position(|segment| !is_lower_kebab(segment)) {
            Some(index) => Err(PathError::BadSegment { index: index + 1 }),
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

fn is_lower_kebab(segment: &str) -> bool {
    segment.split('-').all(|word| {
        !word.is_empty() && word.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit())
    })
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
        let cases = [
            ("team/github", PathError::TooFewSegments { found: 2 }),
            ("team//token", PathError::EmptySegment { index: 2 }),
            ("__sys/a/b", PathError::Reserved),
            ("_test/a/b", PathError::Reserved),
            ("team/GitHub/token", PathError::BadSegment { index: 2 }),
            ("team/github/to--ken", PathError::BadSegment { index: 3 }),
            ("team/github/-token", PathError::BadSegment { index: 3 }),
            ("team/github/to\nken", PathError::BadSegment { index: 3 }),
        ];
        for (text, expected) in cases {
            assert_eq!(SecretPath::parse(text), Err(expected), "{text:?}");
        }
        assert_eq!(SecretPath::parse(&format!("a/b/{}", "c".repeat(255))), Err(PathError::TooLong));
    }
}
