//! Paths as servers read them, and patterns over them.
//!
//! Servers differ: `%2F` is a slash to one and a letter to another, `;v=1` is dropped or kept, `//`
//! is one slash or two. So a path has several readings, and a rule holds only when it holds in all
//! of them; then no server can read a request as something that the rule does not name. Dot
//! segments, control characters and doubly encoded bytes have no reading at all: no client needs
//! them. Of a rule that holds something back it is enough that it could hold, for servers that don't
//! look at capitals or at a segment's last dots, too. Source: design.md, section 5; reference/egress.md, row 30 and (c) 12.

use std::{fmt, str::FromStr};

/// A path pattern: `*` is anything within a segment, `**` any number of whole segments.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct PathGlob(String);

/// Why a text is not a [`PathGlob`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PathGlobError {
    /// No slash at the beginning.
    #[error("a path begins with `/`")]
    NotAbsolute,
    /// `**` beside other characters.
    #[error("`**` stands for whole segments, as in `/repos/**`")]
    PartOfSegment,
    /// Dot segments, control characters, broken or doubled escapes, a query.
    #[error("the path has dot segments, control characters, broken escapes or a query")]
    Unreadable,
}

/// The segments of a path in one reading.
pub(super) type Segments = Vec<Vec<u8>>;

/// One way in which a server may read a path.
#[derive(Clone, Copy, Debug)]
struct Reading {
    /// `%2F`, `%5C` and `\` are slashes.
    slashes: bool,
    /// `;` ends a segment.
    parameters: bool,
    /// `//` is one slash.
    merged: bool,
}

/// A path in every reading in which it differs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PathReadings(Vec<(usize, Segments)>);

const READINGS: [Reading; 8] = {
    let mut all = [Reading { slashes: false, parameters: false, merged: false }; 8];
    let mut index = 0;
    while index < 8 {
        all[index] =
            Reading { slashes: index & 1 != 0, parameters: index & 2 != 0, merged: index & 4 != 0 };
        index += 1;
    }
    all
};

impl PathReadings {
    /// The readings of a path as it was sent; `None` when no server should be sent it.
    pub(crate) fn of(path: &str) -> Option<Self> {
        if is_plain(path) {
            return Some(Self(vec![(0, segments(path, READINGS[0])?)]));
        }
        let read = |(index, reading): (usize, &Reading)| Some((index, segments(path, *reading)?));
        READINGS.iter().enumerate().map(read).collect::<Option<_>>().map(Self)
    }

    /// Number of readings.
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }
}

impl PathGlob {
    /// Parses a pattern.
    pub fn parse(text: &str) -> Result<Self, PathGlobError> {
        if !text.starts_with('/') {
            return Err(PathGlobError::NotAbsolute);
        }
        if text.split('/').any(|segment| segment != "**" && segment.contains("**")) {
            return Err(PathGlobError::PartOfSegment);
        }
        let readable = !text.contains(['?', '#', ' ']) && PathReadings::of(text).is_some();
        if readable { Ok(Self(text.to_owned())) } else { Err(PathGlobError::Unreadable) }
    }

    /// Whether the pattern holds in one of a path's readings, read in the same way itself.
    pub(super) fn matches(&self, path: &PathReadings, number: usize) -> bool {
        let (reading, path) = &path.0[number];
        let pattern = segments(&self.0, READINGS[*reading]);
        pattern.is_some_and(|pattern| fits(&pattern, path, u8::eq))
    }

    /// Whether it holds for some server that does not look at capitals, at a slash at the end, at dots and spaces at
    /// the end of a segment, or at the suffix of a format (`/token.json`).
    pub(super) fn could_match(&self, path: &PathReadings, number: usize) -> bool {
        let (reading, path) = &path.0[number];
        let Some(pattern) = segments(&self.0, READINGS[*reading]) else { return false };
        let pattern = without_last_slash(&pattern);
        let path: Segments = path.iter().map(|segment| without_end(segment)).collect();
        let path = without_last_slash(&path);
        let without_suffix = path.split_last().and_then(|(last, before)| {
            let dot = last.iter().rposition(|byte| *byte == b'.')?;
            Some([before, &[last[..dot].to_vec()]].concat())
        });
        let pattern: Segments = pattern.iter().map(|segment| without_end(segment)).collect();
        let could = |path: &[Vec<u8>]| fits(&pattern, path, u8::eq_ignore_ascii_case);
        could(path) || without_suffix.is_some_and(|path| could(&path))
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for PathGlob {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for PathGlob {
    type Err = PathGlobError;

    fn from_str(text: &str) -> Result<Self, PathGlobError> {
        Self::parse(text)
    }
}

/// Whether a name such as a JSON-RPC method matches a pattern with `*` for anything.
pub(super) fn name_matches(pattern: &str, name: &str) -> bool {
    wildcard(pattern.as_bytes(), name.as_bytes(), |byte| *byte == b'*', |one, other| one == other)
}

/// Whether every server reads the path alike.
fn is_plain(path: &str) -> bool {
    !path.contains(['%', ';', '\\']) && !path.contains("//")
}

fn segments(path: &str, reading: Reading) -> Option<Segments> {
    let mut all: Segments = Vec::new();
    let mut current = Vec::new();
    let mut in_parameters = false;
    let mut bytes = path.strip_prefix('/')?.as_bytes();
    while let [byte, rest @ ..] = bytes {
        bytes = rest;
        let (byte, encoded) = match byte {
            b'%' => {
                let byte = hex(bytes)?;
                bytes = &bytes[2..];
                (byte, true)
            }
            byte => (*byte, false),
        };
        match byte {
            b'/' if !encoded => {
                in_parameters = false;
                all.push(std::mem::take(&mut current));
            }
            b'/' | b'\\' if reading.slashes => {
                in_parameters = false;
                all.push(std::mem::take(&mut current));
            }
            _ if in_parameters => {}
            b'/' => current.extend_from_slice(b"%2F"),
            b'\\' => current.extend_from_slice(b"%5C"),
            b';' if reading.parameters => in_parameters = true,
            // Before two digits of base 16, escaped themselves or not, it would be decoded a second time by somebody.
            b'%' if begins_with_escape(bytes) => return None,
            byte if byte.is_ascii_control() => return None,
            byte => current.push(byte),
        }
    }
    all.push(current);
    if !all.iter().all(|segment| is_name(segment)) {
        return None;
    }
    if reading.merged {
        let last = all.pop()?;
        all.retain(|segment| !segment.is_empty());
        all.push(last);
    }
    Some(all)
}

/// Whether every server takes a segment for a name: no dots alone, with or without the spaces that Windows drops, and
/// UTF-8, since bytes too many for a dot or a slash are one to some.
fn is_name(segment: &[u8]) -> bool {
    let is_dots = segment.first() == Some(&b'.') && segment.iter().all(|byte| b". ".contains(byte));
    !is_dots && str::from_utf8(segment).is_ok()
}

/// Without the dots and spaces at its end, which Windows drops.
fn without_end(segment: &[u8]) -> Vec<u8> {
    let end = segment.iter().rposition(|byte| !b". ".contains(byte)).map_or(0, |last| last + 1);
    segment[..end].to_vec()
}

/// Whether what follows a `%` reads as two digits of base 16 once its own escapes are gone.
fn begins_with_escape(after: &[u8]) -> bool {
    let (mut digits, mut rest) = ([0; 2], after);
    for digit in &mut digits {
        (*digit, rest) = match rest {
            [b'%', escaped @ ..] => match hex(escaped) {
                Some(byte) => (byte, &escaped[2..]),
                None => return false,
            },
            [byte, rest @ ..] => (*byte, rest),
            [] => return false,
        };
    }
    hex(&digits).is_some()
}

/// Whether a pattern's segments are those of a path, where letters are the `same`.
fn fits(pattern: &[Vec<u8>], path: &[Vec<u8>], same: fn(&u8, &u8) -> bool) -> bool {
    let within =
        |glob: &Vec<u8>, segment: &Vec<u8>| wildcard(glob, segment, |byte| *byte == b'*', same);
    wildcard(pattern, path, |segment| segment == b"**", within)
}

fn without_last_slash(segments: &[Vec<u8>]) -> &[Vec<u8>] {
    match segments {
        [before @ .., last] if last.is_empty() && !before.is_empty() => before,
        all => all,
    }
}

fn hex(bytes: &[u8]) -> Option<u8> {
    let digit = |byte: &u8| char::from(*byte).to_digit(16).and_then(|it| u8::try_from(it).ok());
    match bytes {
        [high, low, ..] => Some(digit(high)? << 4 | digit(low)?),
        _ => None,
    }
}

/// Matches `items` with a pattern in which some members stand for any number of items. Going back
/// to the last such member is enough, so the time is bounded by the product of the lengths.
fn wildcard<T>(
    pattern: &[T],
    items: &[T],
    is_any: impl Fn(&T) -> bool,
    same: impl Fn(&T, &T) -> bool,
) -> bool {
    let (mut at, mut item) = (0, 0);
    let mut last_any: Option<(usize, usize)> = None;
    while item < items.len() {
        match pattern.get(at) {
            Some(member) if is_any(member) => {
                last_any = Some((at, item));
                at += 1;
            }
            Some(member) if same(member, &items[item]) => (at, item) = (at + 1, item + 1),
            _ => {
                let Some((any, from)) = last_any else { return false };
                last_any = Some((any, from + 1));
                (at, item) = (any + 1, from + 1);
            }
        }
    }
    pattern[at..].iter().all(is_any)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn holds(glob: &str, path: &str) -> bool {
        let glob = PathGlob::parse(glob).unwrap();
        PathReadings::of(path)
            .is_some_and(|path| (0..path.len()).all(|number| glob.matches(&path, number)))
    }

    #[test]
    fn stars_stay_within_their_reach() {
        for (glob, path) in [
            ("/", "/"),
            ("/repos/*/site", "/repos/acme/site"),
            ("/repos/acme/**", "/repos/acme"),
            ("/repos/acme/**", "/repos/acme/site/issues/1"),
            ("/**/issues", "/repos/acme/issues"),
            ("/**/a/**/b", "/a/x/a/y/b"),
            ("/v*/models", "/v1/models"),
            ("/a%20b/*", "/a%20b/%7Euser"),
            ("/~user", "/%7euser"),
            ("/projects/acme%2Fsite/issues", "/projects/acme%2fsite/issues"),
            ("/**", "/a;v=1//b%2Fc"),
        ] {
            assert!(holds(glob, path), "{glob} {path}");
        }
        for (glob, path) in [
            ("/repos/*", "/repos/acme/site"),
            ("/repos/acme", "/repos/acme/"),
            ("/repos/acme/**", "/repos/acmecorp"),
            ("/v*/models", "/v1/x/models"),
            ("/a", "/A"),
        ] {
            assert!(!holds(glob, path), "{glob} {path}");
        }
    }

    #[test]
    fn no_spelling_leads_past_a_rule() {
        for path in [
            "/repos/acme/../other",
            "/repos/acme/./x",
            "/repos/acme/%2e%2e/other",
            "/repos/acme/..%2fother",
            "/repos/acme/..;/other",
            "/repos/acme/%2e%2e;x=1/other",
            "/repos/acme/..%5cother",
            "/repos/acme/..\\other",
            "/repos/acme/%252e%252e/other",
            "/repos/acme/x%252fy",
            "/repos/acme/%25%32%65%25%32%65/other",
            "/repos/acme/%25%32e%25%32e/other",
            "/repos/acme/%252%65%252%65/other",
            "/repos/acme/..%25%32%66other",
            "/repos/acme/x%25%2532f",
            "/repos/acme/%c0%ae%c0%ae/other",
            "/repos/acme/..%c0%af",
            "/repos/acme/%e0%80%ae%e0%80%ae/other",
            "/repos/acme/%c0%2e",
            "/repos/acme/..%20/other",
            "/repos/acme/...%20./other",
            "/repos/acme/%00",
            "/repos/acme/%0d%0a",
            "/repos/acme/%zz",
            "/repos/acme/%2",
            "/repos//acme/x",
            "//repos/acme/x",
            "/repos%2Facme/x",
            "/repos;x/acme/y",
            "/repos/acme;x/y",
            "relative",
            "",
            "*",
        ] {
            assert!(!holds("/repos/acme/**", path), "{path}");
        }
    }

    #[test]
    fn what_some_server_takes_for_the_same_could_match() {
        let could = |glob: &str, path: &str| {
            let glob = PathGlob::parse(glob).unwrap();
            let path = PathReadings::of(path).unwrap();
            (0..path.len()).any(|number| glob.could_match(&path, number))
        };
        for path in [
            "/token",
            "/Token",
            "/token/",
            "/token.json",
            "//TOKEN/",
            "/token;v=1",
            "/token.",
            "/Token%20/",
        ] {
            assert!(could("/token", path), "{path}");
        }
        assert!(could("/repos/acme/**", "/repos/ACME/site"));
        assert!(could("/repos/", "/repos") && could("/", "/"));
        for path in ["/tokens", "/token/x", "/", "/x.token"] {
            assert!(!could("/token", path), "{path}");
        }
    }

    #[test]
    fn patterns_that_mean_nothing_are_refused() {
        for (text, why) in [
            ("", PathGlobError::NotAbsolute),
            ("repos", PathGlobError::NotAbsolute),
            ("/re**", PathGlobError::PartOfSegment),
            ("/***", PathGlobError::PartOfSegment),
            ("/a/../b", PathGlobError::Unreadable),
            ("/a?b=c", PathGlobError::Unreadable),
            ("/%zz", PathGlobError::Unreadable),
        ] {
            assert_eq!(PathGlob::parse(text), Err(why), "{text}");
        }
    }

    #[test]
    fn long_patterns_end() {
        let glob = format!("/{}", "*a".repeat(2_000));
        let path = format!("/{}", "a".repeat(1_000));
        assert!(!holds(&glob, &path));
    }
}
