//! `@secret:PATH`: a secret named in a configuration, as a whole value.
//!
//! It stays what it is in every file and is resolved where it is used, so that writing a
//! configuration back never writes anything else. In the middle of a text it is just text.
//! Source: design.md, section 2.

use crate::{PathError, SecretPath};

/// What every alias begins with.
pub const ALIAS_PREFIX: &str = "@secret:";

/// The secret that `text` is an alias of; `None` when it is no alias, an error when it is one of
/// nothing that could be a secret.
pub fn alias(text: &str) -> Option<Result<SecretPath, PathError>> {
    let path = text.strip_prefix(ALIAS_PREFIX).filter(|path| !path.is_empty())?;
    Some(SecretPath::parse(path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_alias_is_a_whole_value() {
        let found = alias("@secret:team/github/token").unwrap().unwrap();
        assert_eq!(found.as_str(), "team/github/token");
        for text in ["", "@secret:", "Bearer @secret:a/b/c", " @secret:a/b/c", "@Secret:a/b/c"] {
            assert_eq!(alias(text), None, "{text:?}");
        }
        assert!(alias("@secret:a/b").unwrap().is_err());
        assert!(alias("@secret:a/b/c ").unwrap().is_err());
    }
}
