//! What the fields of a form in a body are called: frameworks take another method from one named `_method`.
//!
//! Parts of a multipart body are read as loosely as any server may: whatever could be a part's head is looked through,
//! and a name that readers could read in several ways counts in each. What can't be read so says so. Deliberately not
//! here: which names count (`keyless_core::RequestFacts`).

use std::collections::BTreeSet;

use http::{HeaderMap, Method, header};
use memchr::memmem;

use super::{find::percent_decoded, member, said::form_parameters};

/// What a server may take a body for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// `a=1&b=2`.
    Fields,
    /// An object whose members some take for fields.
    Json,
    /// Parts with heads of their own.
    Parts,
    /// One or the other, or in letters that are no ASCII.
    Unreadable,
}

/// More fields called `_method` than any form has.
const MAX_FIELDS: usize = 64;
/// More of a name, or of its value, is not looked at: `x-http-method-override`, all of it escaped, has 66 bytes.
const MAX_WRITTEN: usize = 96;

/// Names and values of fields.
type Fields = Vec<(Vec<u8>, Vec<u8>)>;

impl Form {
    /// `None` for a body that is no form to any server.
    pub(super) fn of(method: &Method, headers: &HeaderMap) -> Option<Self> {
        let types: Vec<_> = headers
            .get_all(header::CONTENT_TYPE)
            .iter()
            .map(|field| field.as_bytes().to_ascii_lowercase())
            .collect();
        // Rack takes a POST that doesn't say what it is for a form.
        if types.iter().all(|field| field.trim_ascii().is_empty()) {
            return (*method == Method::POST).then_some(Self::Fields);
        }
        let says =
            |word: &str| types.iter().any(|field| memmem::find(field, word.as_bytes()).is_some());
        let has_charset = types.iter().any(|field| !is_ascii_like(field));
        match (says("x-www-form-urlencoded"), says("multipart/")) {
            (false, false) => says("json").then_some(Self::Json),
            _ if has_charset => Some(Self::Unreadable),
            (true, false) => Some(Self::Fields),
            (false, true) => Some(Self::Parts),
            (true, true) => Some(Self::Unreadable),
        }
    }

    /// The fields that may have a name that counts, decoded; `None` where they can't be read.
    pub(super) fn fields(self, body: &[u8]) -> Option<Fields> {
        match self {
            Self::Fields => {
                // Most of a large form is not worth decoding.
                let may_count =
                    |pair: &&[u8]| has_word(pair) || memchr::memchr(b'%', pair).is_some();
                let pairs = body.split(|byte| *byte == b'&').filter(may_count);
                // Decoded, few have the word still, as a name or behind a semicolon.
                let counts = |(name, value): &(Vec<u8>, Vec<u8>)| has_word(name) || has_word(value);
                Some(pairs.flat_map(form_parameters).filter(counts).collect())
            }
            Self::Json => member::members(body),
            Self::Parts => parts(body),
            Self::Unreadable => None,
        }
    }
}

/// Whether there is the word that all names have which count, in any capitals.
fn has_word(text: &[u8]) -> bool {
    const WORD: &[u8] = b"method";
    memchr::memchr2_iter(b'm', b'M', text)
        .filter_map(|at| text.get(at..at + WORD.len()))
        .any(|word| word.eq_ignore_ascii_case(WORD))
}

/// Whether a field names no charset, or one whose first half is ASCII.
fn is_ascii_like(field: &[u8]) -> bool {
    const FINE: [&[u8]; 5] = [b"utf-8", b"utf8", b"us-ascii", b"iso-8859-1", b"windows-1252"];
    field.split(|byte| *byte == b';').skip(1).all(|parameter| {
        let at = parameter.iter().position(|byte| *byte == b'=').unwrap_or(parameter.len());
        let (name, value) = parameter.split_at(at);
        let value = value.get(1..).unwrap_or_default().trim_ascii();
        let value = value.strip_prefix(b"\"").unwrap_or(value);
        let value = value.strip_suffix(b"\"").unwrap_or(value);
        memmem::find(name, b"charset").is_none() || FINE.contains(&value)
    })
}

/// The fields of a multipart body that may have a name that counts; `None` where there is no end of them.
fn parts(body: &[u8]) -> Option<Fields> {
    // A delimiter begins a line (RFC 2046, section 5.1.1), and whatever could be one is taken for one.
    let begins = memmem::find_iter(body, b"--")
        .filter(|at| *at == 0 || b"\r\n".contains(&body[at - 1]))
        .chain([body.len()]);
    let mut fields = Vec::new();
    let (mut begun, mut count) = (None, 0);
    for next in begins {
        if let Some(at) = begun.replace(next) {
            let rest = &body[at..];
            let head = &rest[..next - at];
            let head = memmem::find(head, b"\r\n\r\n").map_or(head, |end| &head[..end]);
            let names = names(head)?;
            // Before their values are looked for, each in all of the rest.
            count += names.len();
            if count > MAX_FIELDS {
                return None;
            }
            for name in names {
                let values = values(head, rest, next - at);
                fields.extend(values.into_iter().map(|value| (name.clone(), value)));
            }
        }
    }
    Some(fields)
}

/// What ends a head: a blank line, to readers who take line feeds or returns alone for line ends, too.
const HEAD_ENDS: [&[u8]; 4] = [b"\r\n\r\n", b"\n\r\n", b"\n\n", b"\r\r"];

/// What may be the value of a part with this head, of so many bytes as far as can be told. One whose value is not seen
/// has an empty one, which no rule names.
fn values(head: &[u8], rest: &[u8], part: usize) -> Vec<Vec<u8>> {
    let begins = HEAD_ENDS.iter().filter_map(|end| Some(memmem::find(rest, end)? + end.len()));
    let begins: BTreeSet<usize> = begins.collect();
    let has_own = begins.first().is_some_and(|at| *at <= part);
    let is_coded = is_coded(head);
    let read = |at| if is_coded { Vec::new() } else { line_of(&rest[at..]).to_vec() };
    let unseen = (!has_own).then(Vec::new);
    unseen.into_iter().chain(begins.into_iter().map(read)).collect()
}

/// What a part may be called by what could be its head; `None` where a name is written so that it can't be read.
fn names(head: &[u8]) -> Option<BTreeSet<Vec<u8>>> {
    let lower = head.to_ascii_lowercase();
    let mut names = BTreeSet::new();
    for at in memmem::find_iter(&lower, b"name") {
        let is_word =
            at == 0 || !(lower[at - 1].is_ascii_alphanumeric() || b"-_".contains(&lower[at - 1]));
        if !is_word {
            continue;
        }
        let rest = head[at + 4..].trim_ascii_start();
        let starred = rest.strip_prefix(b"*").map(<[u8]>::trim_ascii_start);
        let value = match starred.unwrap_or(rest) {
            [b'=', value @ ..] => value.trim_ascii_start(),
            // In pieces (RFC 2231, section 3): `name*0=`, `name*0*=`.
            [b'0'..=b'9', ..] if starred.is_some() => return None,
            _ => continue,
        };
        let (written, is_cut) = quoted(value);
        let may_count = has_word(&written)
            || written.iter().any(|byte| b"%\\?".contains(byte))
            || (is_cut && starred.is_some());
        if !may_count {
            continue;
        }
        if is_cut {
            return None;
        }
        // An encoded word (RFC 2047).
        if memmem::find(&written, b"=?").is_some() {
            return None;
        }
        let bare = memmem::rfind(&written, b"'").map(|at| written[at + 1..].to_vec());
        for name in [Some(written), bare].into_iter().flatten() {
            let decoded = percent_decoded(&name).0;
            let plain = name.into_iter().filter(|byte| *byte != b'\\').collect();
            take([decoded, plain], &mut names)?;
        }
    }
    // By which Rack calls one that has no name.
    for at in memmem::find_iter(&lower, b"content-id:") {
        let id = line_of(head[at + 11..].trim_ascii_start()).trim_ascii();
        let bare = id.strip_prefix(b"<").and_then(|id| id.strip_suffix(b">")).unwrap_or(id);
        take([id.to_vec(), bare.to_vec()], &mut names)?;
    }
    Some(names)
}

/// Takes up those names that may count; `None` where there are too many.
fn take(found: [Vec<u8>; 2], names: &mut BTreeSet<Vec<u8>>) -> Option<()> {
    names.extend(found.into_iter().filter(|name| has_word(name)));
    (names.len() <= MAX_FIELDS).then_some(())
}

/// The beginning of the first line.
fn line_of(text: &[u8]) -> &[u8] {
    let text = &text[..text.len().min(MAX_WRITTEN)];
    text.split(|byte| b"\r\n".contains(byte)).next().unwrap_or_default()
}

/// A parameter's value without what stands around it, and whether it was cut. Of blanks that it begins with PHP leaves out
/// any number.
fn quoted(text: &[u8]) -> (Vec<u8>, bool) {
    let (quote, text) = match text {
        [quote @ (b'"' | b'\''), rest @ ..] => (Some(*quote), rest.trim_ascii_start()),
        _ => (None, text),
    };
    let written = &text[..text.len().min(MAX_WRITTEN)];
    let mut escaped = false;
    let ends = |byte: &u8| {
        let ends = match quote {
            Some(quote) => *byte == quote && !escaped,
            None => b"; \t\r\n".contains(byte),
        };
        escaped = *byte == b'\\' && !escaped;
        ends
    };
    match written.iter().position(ends) {
        Some(end) => (written[..end].to_vec(), false),
        None => (written.to_vec(), written.len() < text.len()),
    }
}

/// Whether a part's value may be something else than its bytes.
fn is_coded(head: &[u8]) -> bool {
    let lower = head.to_ascii_lowercase();
    memmem::find(&lower, b"transfer-encoding").is_some()
        || memmem::find(&lower, b"charset").is_some()
}

#[cfg(test)]
mod tests {
    use keyless_core::RequestFacts;

    use super::*;

    /// The methods that a form names; `None` where it can't be read.
    fn methods(content_type: &str, body: &[u8]) -> Option<Vec<String>> {
        let mut headers = HeaderMap::new();
        if !content_type.is_empty() {
            headers.insert(header::CONTENT_TYPE, content_type.parse().unwrap());
        }
        let mut facts = RequestFacts::default();
        if let Some(form) = Form::of(&Method::POST, &headers) {
            facts.add_parameters(form.fields(body)?);
        }
        Some(facts.methods)
    }

    const FIELDS: &str = "application/x-www-form-urlencoded";
    const PARTS: &str = "multipart/form-data; boundary=x";

    #[test]
    fn fields_are_found_however_they_are_written() {
        for form in [
            "_method=DELETE",
            "a=1&_method=delete&b=2",
            "%5Fmethod=DELETE",
            "a=1;.method=DELETE",
            "_METHOD=DELETE",
            "%5fMeth%4fd=DELETE",
            "X-HTTP-Method-Override=DELETE",
            "x_method_override=DELETE",
        ] {
            for kind in [FIELDS, "Application/X-WWW-Form-URLencoded; charset=\"UTF-8\"", ""] {
                assert_eq!(methods(kind, form.as_bytes()).unwrap(), ["DELETE"], "{kind} {form}");
            }
            assert_eq!(methods("application/json", form.as_bytes()).unwrap(), [""; 0]);
            assert_eq!(methods("text/plain", form.as_bytes()).unwrap(), [""; 0]);
        }
        assert_eq!(methods(FIELDS, b"method=DELETE&x=_method").unwrap(), [""; 0]);
        assert_eq!(methods("application/x-www-form-urlencoded; charset=utf-16", b"a=1"), None);
        assert_eq!(methods("multipart/x-www-form-urlencoded; boundary=x", b"a=1"), None);
    }

    #[test]
    fn parts_are_found_however_they_are_called() {
        let blanks = " \t".repeat(100);
        for name in [
            "Content-Disposition: form-data; name=\"_method\"",
            "content-disposition:form-data;filename=\"name=a\";NAME = _method",
            "Content-Disposition: form-data; name='_method'",
            "Content-Disposition: form-data;\r\n name=\"_method\"",
            "Content-Disposition: form-data; name=\"\\_method\"",
            "Content-Disposition: form-data; name=\"%5Fmethod\"",
            "Content-Disposition: form-data; name*=utf-8''%5fmethod",
            "Content-Disposition: form-data; name=\"_method[]\"",
            "X: a\n\nContent-Disposition: form-data; name=\"_method\"",
            "Content-ID: <_method>",
            &format!("Content-Disposition: form-data; name=\"{blanks}_method\""),
            &format!("Content-Disposition: form-data; name='{blanks}_method'"),
            &format!("Content-ID: {blanks}_method"),
        ] {
            let body = format!(
                "--x\r\nContent-Disposition: form-data; name=\"a\"\r\n\r\n1\r\n--x\r\n{name}\r\n\r\nDELETE\r\n--x--\r\n"
            );
            let found = methods(PARTS, body.as_bytes()).unwrap();
            assert!(found.contains(&"DELETE".to_owned()), "{name}: {found:?}");
            let lines = body.replace("\r\n", "\n");
            let found = methods(PARTS, lines.as_bytes()).unwrap();
            assert!(
                name.contains("\n\n") || found.contains(&"DELETE".to_owned()),
                "{name}: {found:?}"
            );
        }
        for name in ["name*0=\"_me\"; name*1=\"thod\"", "name=\"=?utf-8?q?=5Fmethod?=\""] {
            let body =
                format!("--x\r\nContent-Disposition: form-data; {name}\r\n\r\nDELETE\r\n--x--\r\n");
            assert_eq!(methods(PARTS, body.as_bytes()), None, "{name}");
        }
        // What is too long to be looked at as a whole.
        let long = "a".repeat(100);
        for name in [
            format!("name=\"_method[{long}]\""),
            format!("name*=utf-8'{long}'_method"),
            format!("name*={long}'en'_method"),
            format!("name=\"{}_method\"", "%20".repeat(40)),
        ] {
            let body =
                format!("--x\r\nContent-Disposition: form-data; {name}\r\n\r\nDELETE\r\n--x--\r\n");
            assert_eq!(methods(PARTS, body.as_bytes()), None, "{name}");
        }
        let plain = format!(
            "--x\r\nContent-Disposition: form-data; name=\"{long}\"\r\n\r\nDELETE\r\n--x--"
        );
        assert_eq!(methods(PARTS, plain.as_bytes()).unwrap(), [""; 0]);
        // Of a value that may be coded nobody knows which method it names.
        let coded = "--x\r\nContent-Disposition: form-data; name=\"_method\"\r\nContent-Transfer-Encoding: base64\r\n\r\nR0VU\r\n--x--";
        assert_eq!(methods(PARTS, coded.as_bytes()).unwrap(), [""]);
    }

    #[test]
    fn a_part_has_its_value_however_its_head_ends() {
        let form = |end: &str, more: &str| {
            let head = "Content-Disposition: form-data; name=\"_method\"";
            let body = format!("--x\r\n{head}{end}DELETE\r\n--x{more}--\r\n");
            methods(PARTS, body.as_bytes()).unwrap()
        };
        let other = "\r\nContent-Disposition: form-data; name=\"a\"\r\n\r\nPOST\r\n--x";
        for end in ["\r\n\r\n", "\n\n", "\n\r\n", "\r\r"] {
            assert_eq!(form(end, ""), ["DELETE"], "{end:?}");
            assert!(form(end, other).contains(&"DELETE".to_owned()), "{end:?}");
        }
        // One without a value that we see has one that no rule names.
        assert_eq!(form("\r\n", ""), [""]);
        assert_eq!(form("\r\n", other), ["", "POST"]);
    }

    /// Each of these once took minutes, or all memory.
    #[test]
    fn what_is_made_to_be_long_is_read_once() {
        for (many, is_read) in [
            ("name=", true),
            ("name ", true),
            ("name=_method;", true),
            ("\r\n--name=_method", true),
            ("content-id:", true),
            ("name: value\r\n", true),
            ("name=a_method", false),
            ("\r\n--\r\nname=_method\r\n\r\n", false),
        ] {
            let body = format!("--x\r\n{}\r\n", many.repeat(500_000 / many.len()));
            let found = methods(PARTS, body.as_bytes());
            assert_eq!(found.is_some(), is_read, "{many}");
        }
        for many in ["_method=POST&", "_method=POST;", "%&"] {
            let body = many.repeat(500_000 / many.len());
            assert!(methods(FIELDS, body.as_bytes()).unwrap().len() <= 1, "{many}");
        }
        let different: Vec<String> = (0..1000).map(|n| format!("_method={n}")).collect();
        let mut headers = HeaderMap::new();
        headers.insert(header::CONTENT_TYPE, FIELDS.parse().unwrap());
        let form = Form::of(&Method::POST, &headers).unwrap();
        let mut facts = RequestFacts::default();
        facts.add_parameters(form.fields(different.join("&").as_bytes()).unwrap());
        assert!(facts.has_unread_form && facts.methods.len() < 100);
    }

    #[test]
    fn what_a_file_holds_is_no_name() {
        let page =
            "<input type=hidden name=\"_method\" value=\"put\">\r\n<!-- a -- name=_method -->";
        let body = format!(
            "--x\r\nContent-Disposition: form-data; name=\"file\"; filename=\"a.html\"\r\n\r\n{page}\r\n--x--\r\n"
        );
        assert_eq!(methods(PARTS, body.as_bytes()).unwrap(), [""; 0]);
    }
}
