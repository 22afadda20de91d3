//! Which places of a source may be named by their reference alone, without a secret here that stands for them.
//!
//! `references` of a source in `sources.toml`: globs as grants have them, `prod/*`, with `#` before what names a field
//! (`prod/db#password`), since a handle writes a field as one more segment. None, unless the operator says so.

use keyless_core::grant::SecretPattern;

/// One entry.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct OpenPlaces {
    item: SecretPattern,
    field: Option<SecretPattern>,
}

impl OpenPlaces {
    /// Reads one; nothing where it is no glob.
    pub(super) fn parse(text: &str) -> Option<Self> {
        // Compared with places as grants' patterns are, which begin with a provider.
        let pattern = |glob: &str| SecretPattern::parse(&format!("x://{glob}")).ok();
        let Some((item, field)) = text.split_once('#') else {
            return Some(Self { item: pattern(text)?, field: None });
        };
        let field = pattern(field).filter(|_| !field.contains('/'))?;
        Some(Self { item: pattern(item)?, field: Some(field) })
    }

    /// What a source would call `place`, if this entry opens it: an item, and the field of it that is meant.
    pub(super) fn opened<'a>(&self, place: &'a str) -> Option<(&'a str, Option<&'a str>)> {
        let names =
            |pattern: &SecretPattern, text: &str| pattern.names_place(&format!("x://{text}"));
        match &self.field {
            None => names(&self.item, place).then_some((place, None)),
            Some(field) => {
                let (item, last) = place.rsplit_once('/')?;
                (names(&self.item, item) && names(field, last)).then_some((item, Some(last)))
            }
        }
    }
}

/// Whether a place is written in the one way that there is to write it: what a source would take for another spelling
/// of a place could be that of a secret with rules of its own.
pub(super) fn is_plain(place: &str) -> bool {
    let fine = |part: &str| !part.is_empty() && part != "." && part != "..";
    place.split('/').all(fine) && !place.contains(':')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_opens_places_and_fields() {
        for (entry, place, opened) in [
            ("prod/*", "prod/db", Some(("prod/db", None))),
            ("prod/*", "prod/db/password", None),
            ("prod/**", "prod/db/password", Some(("prod/db/password", None))),
            ("prod/db#password", "prod/db/password", Some(("prod/db", Some("password")))),
            ("prod/db#password", "prod/db/user", None),
            ("prod/*#*", "prod/db/user", Some(("prod/db", Some("user")))),
            ("prod/*#*", "prod/db", None),
            ("prod/db", "prod/DB", None),
        ] {
            let entry = OpenPlaces::parse(entry).unwrap();
            assert_eq!(entry.opened(place), opened, "{entry:?} {place}");
        }
        for text in ["", "a//b", "a b", "a#", "#b", "a#b/c", "a#b#c"] {
            assert_eq!(OpenPlaces::parse(text), None, "{text:?}");
        }
        for place in ["", "a//b", "/a", "a/../b", "./a", "arn:aws:x"] {
            assert!(!is_plain(place), "{place:?}");
        }
    }
}
