//! The forms in which a server would echo a value, and the scrubber that puts a marker in their place.
//!
//! A form is a pattern and the way to write the marker in the same form, so that what held a value
//! before still parses after. Covered: as is, percent (the rules of the common encoders, both hex
//! cases, twice, and everything encoded), base64 (whole, and inside anything longer at each of the three
//! alignments, both alphabets), hex, JSON strings and those in JSON strings, HTML text and attributes, and what shells, databases and
//! languages make of quotes (a `curl` line in a manual, a statement or a traceback in an error's text), letters by number as
//! JavaScript's `escape()` and mail (quoted-printable) have them. A value with letters
//! beyond ASCII also as ISO 8859-1, in percent too, and with these by number as HTML and XML have them.
//!
//! Base64 broken into lines is found by `wrapped.rs`, from the same forms.
//!
//! Deliberately not here: the forms in which somebody disguises a value (`sanitizer.rs`), for which a text or the beginning
//! of a stream is looked through afterwards (`sanitized.rs`). Here a response stays as it can be parsed. Whoever controls a
//! server can always find a form that nobody listed, such as a cipher.
//! Follows reference/egress.md, traps 13, 24 and 25.

mod html;
mod json;
mod numbered;
mod percent;
mod quoted;
mod symbols;

use data_encoding::{HEXLOWER, HEXUPPER};
use zeroize::Zeroizing;

pub(crate) use self::symbols::{Alphabet, Shared};
use self::{
    html::{Html, Letters},
    json::Json,
    numbered::Numbered,
    percent::Percent,
    quoted::Quoted,
    symbols::{PADDING, Place},
};
use crate::{
    rewriter::{Kinds, Rewriter},
    sanitizer::FoundAs,
    wrapped::Wrapped,
};

const UPPER: &[u8; 16] = b"0123456789ABCDEF";
const LOWER: &[u8; 16] = b"0123456789abcdef";

/// Forms with fewer bytes than this are left out: they would be found where no value is. The value
/// as it is stays in, whatever its length.
pub const MIN_ECHO: usize = 8;

/// Lines of a value with fewer bytes than this are not looked for on their own.
pub const MIN_LINE: usize = 12;

/// One form of a value.
pub struct Echo {
    pattern: Zeroizing<Vec<u8>>,
    form: Form,
}

impl Echo {
    /// The bytes to look for. As secret as the value.
    pub fn pattern(&self) -> &[u8] {
        &self.pattern
    }

    /// What kind of form it is, for people.
    pub(crate) fn found_as(&self) -> FoundAs {
        match self.form {
            Form::AsIs
            | Form::Html(_)
            | Form::HtmlNumbers(..)
            | Form::Json(_)
            | Form::JsonInJson(..)
            | Form::Latin1
            | Form::Numbered(_)
            | Form::Quoted(_) => FoundAs::Plain,
            Form::Base64(_) | Form::Base64Middle(..) => FoundAs::Base64,
            Form::HexLower | Form::HexUpper => FoundAs::Hex,
            Form::Latin1Percent(_) | Form::Percent(_) | Form::PercentTwice(_) => FoundAs::Percent,
        }
    }

    /// What the bytes beside it carry of the value.
    pub(crate) fn shared(&self) -> Shared {
        match self.form {
            Form::Base64Middle(alphabet, place) => alphabet.shared(place),
            _ => Shared::default(),
        }
    }

    /// `marker` in the same form.
    ///
    /// The middle of a base64 text shares bits with what surrounds it: there the marker has a letter more at such an end,
    /// and as much padding as it takes for the rest to decode as before.
    pub fn replacement(&self, marker: &str) -> Vec<u8> {
        let marker = marker.as_bytes();
        let written = match self.form {
            Form::Base64Middle(alphabet, place) => alphabet.marker_at(place, marker, 0),
            form => form.write(marker),
        };
        written.to_vec()
    }

    /// As [`Self::replacement`], in as many bytes as the pattern has: cut, or padded with `*`.
    pub fn replacement_within(&self, marker: &str) -> Vec<u8> {
        match self.form {
            Form::Base64(alphabet) => {
                let mut marker = marker.as_bytes().to_vec();
                marker.resize(self.bytes(), PADDING);
                alphabet.whole(&marker).to_vec()
            }
            Form::Base64Middle(alphabet, place) => {
                alphabet.marker_within(place, marker.as_bytes()).to_vec()
            }
            _ => {
                let mut written = self.replacement(marker);
                written.resize(self.pattern.len(), PADDING);
                written
            }
        }
    }

    /// As [`Self::replacement`], for a pattern that line ends cut, in no fewer symbols; `None` for forms that nobody
    /// breaks into lines.
    fn replacement_in_lines(&self, marker: &str) -> Option<Vec<u8>> {
        let mut marker = marker.as_bytes().to_vec();
        match self.form {
            Form::Base64(alphabet) => {
                marker.resize(self.bytes().max(marker.len()), PADDING);
                Some(alphabet.whole(&marker).to_vec())
            }
            Form::Base64Middle(alphabet, place) => {
                Some(alphabet.marker_at(place, &marker, self.bytes()).to_vec())
            }
            _ => None,
        }
    }

    /// Bytes that base64 stands for.
    fn bytes(&self) -> usize {
        if let Form::Base64Middle(_, place) = self.form {
            return place.length();
        }
        let padding = self.pattern.iter().rev().take_while(|byte| **byte == b'=').count();
        self.pattern.len() / 4 * 3 - padding
    }
}

/// Lists the forms of `value`, no bytes twice; none if it is empty.
///
/// What ends with white space (a key's last line end) may be echoed without. A value of several lines may be echoed
/// line by line (a PEM key in a log), so each line is a value of its own beside the whole, without the white space
/// around it. Lines shorter than
/// [`MIN_LINE`] and PEM boundaries (`-----BEGIN ...`) are left out: they are not secret, and stand
/// in many an answer.
pub fn echoes(value: &[u8]) -> Vec<Echo> {
    let mut all = Vec::new();
    add_forms(value, &mut all);
    let trimmed = value.trim_ascii_end();
    if trimmed.len() < value.len() && trimmed.len() >= MIN_ECHO {
        add_forms(trimmed, &mut all);
    }
    for line in lines(trimmed) {
        add_forms(line, &mut all);
    }
    all
}

/// What anything that contains `value` contains in one of these alphabets, where that is long enough to be told.
pub(crate) fn middles(
    alphabets: [Alphabet; 2],
    value: &[u8],
) -> impl Iterator<Item = (Zeroizing<Vec<u8>>, Shared)> {
    let placed = alphabets.into_iter().flat_map(|alphabet| alphabet.middles(value));
    placed.filter(|(text, _)| text.len() >= MIN_ECHO)
}

/// A rewriter from every form of each value to its marker in the same form.
///
/// Where two values share a form, the marker of the first one is taken. Its streams are covered. Base64 is also found
/// where it is broken into lines.
pub fn scrubber<'a>(secrets: impl IntoIterator<Item = (&'a [u8], &'a str)>) -> Rewriter {
    scrubber_with(secrets, Echo::replacement, Echo::replacement_in_lines)
}

/// As [`scrubber`], with markers that are cut, or padded with `*`, to the length of what they replace.
pub fn length_keeping_scrubber<'a>(
    secrets: impl IntoIterator<Item = (&'a [u8], &'a str)>,
) -> Rewriter {
    scrubber_with(secrets, Echo::replacement_within, |echo, marker| {
        matches!(echo.form, Form::Base64(_) | Form::Base64Middle(..))
            .then(|| echo.replacement_within(marker))
    })
}

fn scrubber_with<'a>(
    secrets: impl IntoIterator<Item = (&'a [u8], &'a str)>,
    replacement: impl Fn(&Echo, &str) -> Vec<u8>,
    in_lines: impl Fn(&Echo, &str) -> Option<Vec<u8>>,
) -> Rewriter {
    let (mut pairs, mut texts, mut markers) = (Vec::new(), Vec::new(), Vec::new());
    let mut kinds = Kinds { pairs: Vec::new(), wrapped: Vec::new() };
    for (number, (value, marker)) in secrets.into_iter().enumerate() {
        for mut echo in echoes(value) {
            let kind = (number, echo.found_as());
            kinds.pairs.push(kind);
            if let Some(marker) = in_lines(&echo, marker) {
                kinds.wrapped.push(kind);
                texts.push(echo.pattern.clone());
                markers.push(Zeroizing::new(marker));
            }
            let replacement = replacement(&echo, marker);
            pairs.push((core::mem::take(&mut *echo.pattern), replacement));
        }
    }
    Rewriter::new(pairs).covered().behind(Wrapped::new(&texts, markers)).telling(kinds)
}

/// A way of writing bytes down.
#[derive(Clone, Copy)]
enum Form {
    AsIs,
    Base64(Alphabet),
    /// The part of a longer base64 text that depends on the value alone.
    Base64Middle(Alphabet, Place),
    HexLower,
    HexUpper,
    Html(&'static Html),
    /// With letters beyond ASCII by number.
    HtmlNumbers(&'static Html, Letters),
    Json(&'static Json),
    /// The inside of a string in the JSON that is the inside of a string.
    JsonInJson(&'static Json, &'static Json),
    /// ISO 8859-1.
    Latin1,
    Latin1Percent(&'static Percent),
    /// By number, as `escape()` and mail have it.
    Numbered(&'static Numbered),
    Percent(&'static Percent),
    PercentTwice(&'static Percent),
    Quoted(&'static Quoted),
}

impl Form {
    /// All but the one that is not a way to write a whole, most likely first.
    fn all() -> impl Iterator<Item = Self> {
        [Self::AsIs]
            .into_iter()
            .chain(percent::ALL.iter().map(Self::Percent))
            .chain(json::ALL.iter().map(Self::Json))
            .chain(html::ALL.iter().map(Self::Html))
            .chain(quoted::ALL.iter().map(Self::Quoted))
            .chain(numbered::ALL.iter().map(Self::Numbered))
            .chain(json::nested().map(|(inner, outer)| Self::JsonInJson(inner, outer)))
            .chain(percent::twice().map(Self::PercentTwice))
            .chain(Alphabet::BASE64.map(Self::Base64))
            .chain([Self::HexLower, Self::HexUpper])
    }

    /// The forms that only a value with letters beyond ASCII has.
    fn beyond_ascii() -> impl Iterator<Item = Self> {
        [Self::Latin1]
            .into_iter()
            .chain(percent::ALL.iter().map(Self::Latin1Percent))
            .chain(html::numbered().map(|(style, letters)| Self::HtmlNumbers(style, letters)))
    }

    /// `text` in this form, in an allocation that was never moved.
    fn write(self, text: &[u8]) -> Zeroizing<Vec<u8>> {
        match self {
            Self::AsIs | Self::Base64Middle(..) => Zeroizing::new(text.to_vec()),
            Self::Base64(alphabet) => alphabet.whole(text),
            Self::HexLower => Zeroizing::new(HEXLOWER.encode(text).into_bytes()),
            Self::HexUpper => Zeroizing::new(HEXUPPER.encode(text).into_bytes()),
            Self::Html(style) => style.write(text),
            Self::HtmlNumbers(style, letters) => style.write_with(letters, text),
            Self::Json(style) => style.write(text),
            Self::JsonInJson(inner, outer) => outer.write(&inner.write(text)),
            Self::Latin1 => latin1(text),
            Self::Latin1Percent(style) => style.write(&latin1(text)),
            Self::Numbered(style) => style.write(text),
            Self::Percent(style) => style.write(text),
            Self::PercentTwice(style) => style.write(&style.write(text)),
            Self::Quoted(style) => style.write(text),
        }
    }
}

/// `text` in ISO 8859-1; as it is where it has letters that this has not, or is no UTF-8.
fn latin1(text: &[u8]) -> Zeroizing<Vec<u8>> {
    let as_it_is = || Zeroizing::new(text.to_vec());
    let Ok(letters) = str::from_utf8(text) else { return as_it_is() };
    let mut out = Zeroizing::new(Vec::with_capacity(text.len()));
    for letter in letters.chars() {
        let Ok(byte) = u8::try_from(letter) else { return as_it_is() };
        out.push(byte);
    }
    out
}

fn add_forms(value: &[u8], all: &mut Vec<Echo>) {
    if value.is_empty() {
        return;
    }
    let first = all.len();
    let mut add = |pattern: Zeroizing<Vec<u8>>, form| {
        let long_enough = pattern.len() >= MIN_ECHO || matches!(form, Form::AsIs);
        // Forms of other lines are not compared: a set of patterns knows twins itself.
        if long_enough && all[first..].iter().all(|echo| *echo.pattern != *pattern) {
            all.push(Echo { pattern, form });
        }
    };
    let beyond_ascii = (!value.is_ascii()).then(Form::beyond_ascii).into_iter().flatten();
    for form in Form::all().chain(beyond_ascii) {
        let pattern = form.write(value);
        // Without padding it is no different from the beginning of something longer.
        let is_whole = pattern.last() == Some(&b'=');
        match form {
            Form::Base64(alphabet) if !is_whole => {
                add(pattern, Form::Base64Middle(alphabet, Place::first(value.len())));
            }
            _ => add(pattern, form),
        }
    }
    for alphabet in Alphabet::BASE64 {
        for (text, place) in alphabet.placed(value) {
            add(text, Form::Base64Middle(alphabet, place));
        }
    }
}

/// The lines of a value of several lines that are looked for on their own.
pub(crate) fn lines(value: &[u8]) -> impl Iterator<Item = &[u8]> {
    value
        .split(|byte| matches!(byte, b'\n' | b'\r'))
        .map(<[u8]>::trim_ascii)
        .filter(move |line| line.len() >= MIN_LINE && line.len() < value.len())
        .filter(|line| !line.starts_with(b"-----"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn patterns(value: &str) -> Vec<String> {
        let text = |echo: &Echo| String::from_utf8_lossy(echo.pattern()).into_owned();
        echoes(value.as_bytes()).iter().map(text).collect()
    }

    fn scrub(value: &str, text: &str) -> String {
        let scrubber = scrubber([(value.as_bytes(), "kloak_<1>")]);
        String::from_utf8_lossy(&scrubber.rewrite(text.as_bytes())).into_owned()
    }

    #[test]
    fn an_alphanumeric_value_has_few_forms() {
        let forms = patterns("abcdefgh");
        assert_eq!(forms[0], "abcdefgh");
        for form in ["%61%62%63%64%65%66%67%68", "YWJjZGVmZ2g=", "YWJjZGVmZ2", "6162636465666768"] {
            assert!(forms.iter().any(|have| have == form), "{form}");
        }
        assert_eq!(forms.len(), 8, "{forms:?}");
    }

    #[test]
    fn short_forms_are_left_out_but_the_value_stays() {
        assert_eq!(patterns("a"), ["a"]);
        assert_eq!(patterns("ab"), ["ab", "%u0061%u0062"]);
        assert_eq!(patterns("a<b")[..2], ["a<b", "%61%3C%62"]);
        assert!(patterns("").is_empty());
    }

    #[test]
    fn no_form_is_listed_twice() {
        let mut forms = patterns("p\\u0070/<&>\"'=+ ~*é");
        let all = forms.len();
        forms.sort();
        forms.dedup();
        assert_eq!(forms.len(), all);
    }

    #[test]
    fn the_marker_takes_the_form_of_what_it_replaces() {
        let value = "a/b<c>d\"e";
        assert_eq!(scrub(value, "[a/b<c>d\"e]"), "[kloak_<1>]");
        assert_eq!(scrub(value, "[a%2Fb%3Cc%3Ed%22e]"), "[kloak_%3C1%3E]");
        assert_eq!(scrub(value, "[a\\/b<c>d\\\"e]"), "[kloak_<1>]");
        // As Go and Spring put a token of base64 into a path.
        assert_eq!(scrub("abc+def/ghi=", "/t/abc+def%2Fghi=/x"), "/t/kloak_%3C1%3E/x");
        assert_eq!(scrub(value, "[a/b\\u003cc\\u003ed\\\"e]"), "[kloak_\\u003c1\\u003e]");
        assert_eq!(scrub(value, "[a/b&lt;c&gt;d&quot;e]"), "[kloak_&lt;1&gt;]");
        // As Go's and .NET's templates write it.
        assert_eq!(scrub("abc+def\"ghi", "[abc&#43;def&#34;ghi]"), "[kloak_&lt;1&gt;]");
        assert_eq!(scrub("abc+def\"ghi", "[abc&#x2B;def&quot;ghi]"), "[kloak_&lt;1&gt;]");
        assert_eq!(scrub("abc+def\"ghi", "[abc&#x2b;def&quot;ghi]"), "[kloak_&lt;1&gt;]");
        // As Handlebars and Symfony write it.
        let key = "abc/def\"&+ghi==";
        assert_eq!(scrub(key, "[abc/def&quot;&amp;+ghi&#x3D;&#x3D;]"), "[kloak_&lt;1&gt;]");
        assert_eq!(scrub(key, "[abc&#x2f;def&quot;&amp;+ghi==]"), "[kloak_&lt;1&gt;]");
        assert_eq!(scrub(key, "[abc&#47;def&quot;&amp;+ghi==]"), "[kloak_&lt;1&gt;]");
        assert_eq!(scrub(key, r"[abc\/def\u0022\u0026+ghi==]"), r"[kloak_\u003c1\u003e]");
        assert_eq!(scrub("ab+c/def", "[ab\\u002bc\\/def]"), "[kloak_\\u003c1\\u003e]");
        assert_eq!(scrub("ab<c/def", "[ab\\u003Cc\\/def]"), "[kloak_\\u003C1\\u003E]");
        assert_eq!(scrub(value, "[a/b&#x3c;c&#x3e;d&#x22;e]"), "[kloak_&#x3c;1&#x3e;]");
        // A link in the query of another, and a body in a log's line.
        assert_eq!(scrub(value, "[a%252Fb%253Cc%253Ed%2522e]"), "[kloak_%253C1%253E]");
        assert_eq!(
            scrub("abc+def/ghi=", "?next=abc%252bdef%252fghi%253d"),
            "?next=kloak_%253c1%253e"
        );
        assert_eq!(scrub(value, r#"[a/b<c>d\\\"e]"#), "[kloak_<1>]");
        assert_eq!(scrub(value, r#"[a\\\/b<c>d\\\"e]"#), "[kloak_<1>]");
        assert_eq!(scrub(value, r#"[a/b\\u003cc\\u003ed\\\"e]"#), r"[kloak_\\u003c1\\u003e]");
        assert_eq!(scrub("abc\n\"def\"", r#"[abc\\n\\\"def\\\"]"#), "[kloak_<1>]");
        assert_eq!(scrub(value, "[612f623c633e642265]"), "[6b6c6f616b5f3c313e]");
        assert_eq!(scrub(value, "[YS9iPGM+ZCJl]"), "[a2xvYWtfPDE+]");
    }

    #[test]
    fn letters_beyond_ascii_are_found_in_other_charsets_and_by_number() {
        let value = "pässwörd-\"gehéim\"";
        let latin1: Vec<u8> = value.chars().map(|c| u8::try_from(c).unwrap()).collect();
        let scrubbed = scrubber([(value.as_bytes(), "<1>")]).rewrite(&latin1).into_owned();
        assert_eq!(scrubbed, b"<1>");
        for (text, expected) in [
            ("[p%E4ssw%F6rd-%22geh%E9im%22]", "[kloak_%3C1%3E]"),
            ("[p%e4ssw%f6rd-%22geh%e9im%22]", "[kloak_%3c1%3e]"),
            ("[p&#228;ssw&#246;rd-\"geh&#233;im\"]", "[kloak_<1>]"),
            ("[p&#228;ssw&#246;rd-&quot;geh&#233;im&quot;]", "[kloak_&lt;1&gt;]"),
            ("[p&#xe4;ssw&#xf6;rd-\"geh&#xe9;im\"]", "[kloak_<1>]"),
            ("[p&#xE4;ssw&#xF6;rd-&quot;geh&#xE9;im&quot;]", "[kloak_&lt;1&gt;]"),
        ] {
            assert_eq!(scrub(value, text), expected);
        }
        // JavaScript's `escape()`, and mail.
        assert_eq!(scrub("key=\u{20ac}-abcdef", "[key%3D%u20AC-abcdef]"), "[kloak_%3C1%3E]");
        assert_eq!(scrub("key=abcdef", "[key=3Dabcdef]"), "[kloak_<1>]");
        assert_eq!(scrub("keyé-abcdef", "[key=C3=A9-abcdef]"), "[kloak_<1>]");
        // What is not in it, or no text.
        for other in ["12345678€ä".as_bytes(), b"12345678\xff\xc3\xa4"] {
            assert_eq!(*super::latin1(other), *other);
        }
    }

    #[test]
    fn in_the_middle_of_base64_the_marker_stands_so_that_the_rest_decodes() {
        // base64("x:" + value + "!"): one symbol at either end is shared with the surroundings.
        let scrubbed = scrub("abcdefghi", "eDphYmNkZWZnaGkh");
        let decoded = data_encoding::BASE64.decode(scrubbed.as_bytes()).unwrap();
        assert_eq!(String::from_utf8(decoded).unwrap(), "x:qkloak_<1>*i!");
    }

    #[test]
    fn lines_of_a_value_are_looked_for_on_their_own() {
        let key = "-----BEGIN KEY-----\r\nMIIEvQIBADANBgkq\r\nshort\n-----END KEY-----\n";
        assert_eq!(scrub(key, "1: MIIEvQIBADANBgkq\n2: short"), "1: kloak_<1>\n2: short");
        assert_eq!(scrub(key, "-----BEGIN KEY-----"), "-----BEGIN KEY-----");
        assert_eq!(scrub(key, key), "kloak_<1>");
        // The last line end is the text's own as often as not.
        assert_eq!(scrub(key, &format!("<{}>", key.trim_end())), "<kloak_<1>>");
    }
}
