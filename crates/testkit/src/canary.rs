//! A canary: a random value that must never be seen, and the search for it in each form it could take.
//!
//! The forms are those of `reference/egress.md` (e): raw, base64 at three alignments (both alphabets),
//! hex, percent, JSON and HTML escapes. Compressed data is not unpacked here: decode first, then look.

use std::{
    fmt, fs,
    io::{self, Read as _},
    os::unix::ffi::OsStrExt as _,
    path::Path,
    thread::sleep,
    time::Duration,
};

use data_encoding::{BASE64_NOPAD, BASE64URL_NOPAD, HEXLOWER, HEXUPPER};

/// A sentinel value of at least 24 characters, with all the encodings in which it would be a leak.
pub struct Canary {
    value: String,
    forms: Vec<(Form, Vec<u8>)>,
}

/// Where a canary was seen.
#[derive(Debug, PartialEq, Eq)]
pub struct Sighting {
    /// The encoding it was in.
    pub form: &'static str,
    /// Bytes from the start of what was searched.
    pub offset: usize,
}

type Form = &'static str;

/// How often a search begins anew, and after which pause: ten seconds in all.
const ATTEMPTS: usize = 1000;
const PAUSE: Duration = Duration::from_millis(10);

impl Canary {
    /// Makes a random canary of letters, digits and `_`: fits headers, URLs and files unescaped.
    pub fn new() -> Self {
        Self::of(format!("canary_{}", random_hex()))
    }

    /// Makes a random canary whose percent, JSON, HTML and base64 forms all differ from its raw one.
    pub fn awkward() -> Self {
        Self::of(format!("canary+/\"\\&<%'={}", random_hex()))
    }

    /// Watches for `value`.
    ///
    /// # Panics
    /// When it is shorter than 24 bytes: a short value is seen everywhere by chance.
    pub fn of(value: impl Into<String>) -> Self {
        let value = value.into();
        assert!(value.len() >= 24, "a canary needs at least 24 bytes");
        let forms = forms(value.as_bytes());
        Self { value, forms }
    }

    /// Returns the value itself, for giving it to the store or the origin.
    pub fn value(&self) -> &str {
        &self.value
    }

    /// Returns the first form of the value in `haystack`, if any.
    pub fn find(&self, haystack: &[u8]) -> Option<Sighting> {
        self.forms
            .iter()
            .find_map(|(form, bytes)| Some(Sighting { form, offset: position(haystack, bytes)? }))
    }

    /// Fails the test when `haystack` has the value in any form. `what` names the haystack.
    ///
    /// # Panics
    /// When the value is there; the message does not repeat it.
    #[track_caller]
    pub fn assert_absent(&self, what: &str, haystack: &[u8]) {
        if let Some(sighting) = self.find(haystack) {
            panic!("the canary is in {what}: {sighting}");
        }
    }

    /// Fails the test when any file under `root` has the value in its name, content or link target.
    ///
    /// # Panics
    /// When the value is there, or when a file can't be read.
    #[track_caller]
    pub fn assert_absent_under(&self, root: &Path) {
        let mut found = self.find_under(root);
        // A process that ends takes files away under the search: it begins anew, and sees them all.
        for _ in 0..ATTEMPTS {
            match &found {
                Err(error) if error.kind() == io::ErrorKind::NotFound => sleep(PAUSE),
                _ => break,
            }
            found = self.find_under(root);
        }
        match found {
            Ok(None) => {}
            Ok(Some((path, sighting))) => panic!("the canary is in {path}: {sighting}"),
            Err(error) => panic!("cannot search {}: {error}", root.display()),
        }
    }

    /// Returns the first file under `root` (links are not followed) that has the value, if any.
    ///
    /// # Errors
    /// When a folder or file can't be read. Sockets, pipes and devices are searched by name only.
    pub fn find_under(&self, root: &Path) -> io::Result<Option<(String, Sighting)>> {
        let mut folders = vec![root.to_path_buf()];
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(&folder)? {
                let (path, kind) =
                    entry.and_then(|entry| Ok((entry.path(), entry.file_type()?)))?;
                let mut bytes = path.as_os_str().as_bytes().to_vec();
                if kind.is_dir() {
                    folders.push(path.clone());
                } else if kind.is_symlink() {
                    bytes.extend(fs::read_link(&path)?.as_os_str().as_bytes());
                } else if kind.is_file() {
                    bytes.push(b'\n');
                    bytes.extend(fs::read(&path)?);
                }
                if let Some(sighting) = self.find(&bytes) {
                    return Ok(Some((path.display().to_string(), sighting)));
                }
            }
        }
        Ok(None)
    }
}

impl Default for Canary {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Display for Sighting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at byte {}", self.form, self.offset)
    }
}

fn forms(value: &[u8]) -> Vec<(Form, Vec<u8>)> {
    let mut forms = vec![
        ("as is", value.to_vec()),
        ("hex", HEXLOWER.encode(value).into_bytes()),
        ("hex, upper case", HEXUPPER.encode(value).into_bytes()),
        ("percent, every byte", percent(value, |_| false)),
        ("percent", percent(value, |byte| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte))),
        ("JSON", json(value)),
        ("JSON, / escaped", replace(&json(value), b'/', b"\\/")),
        ("JSON, every character", unicode_escapes(value)),
        ("HTML", html(value)),
    ];
    for shift in 0..3 {
        forms.push(("base64", base64_inner(&BASE64_NOPAD, value, shift)));
        forms.push(("base64, url-safe", base64_inner(&BASE64URL_NOPAD, value, shift)));
    }
    let lower: Vec<_> = forms
        .iter()
        .filter(|(form, _)| form.starts_with("percent"))
        .map(|(form, bytes)| (*form, lower_escapes(bytes)))
        .collect();
    forms.extend(lower);
    forms
}

/// The characters of base64 that depend on the value alone when `shift` bytes stand before it.
fn base64_inner(encoding: &data_encoding::Encoding, value: &[u8], shift: usize) -> Vec<u8> {
    let mut shifted = vec![0; shift];
    shifted.extend_from_slice(value);
    let text = encoding.encode(&shifted).into_bytes();
    let first = (shift * 8).div_ceil(6);
    let last = shifted.len() * 8 / 6;
    text[first..last].to_vec()
}

fn percent(value: &[u8], plain: impl Fn(u8) -> bool) -> Vec<u8> {
    value
        .iter()
        .flat_map(
            |&byte| {
                if plain(byte) { vec![byte] } else { format!("%{byte:02X}").into_bytes() }
            },
        )
        .collect()
}

fn lower_escapes(text: &[u8]) -> Vec<u8> {
    let mut out = text.to_vec();
    for at in 0..out.len() {
        if out[at] == b'%' && at + 3 <= out.len() {
            out[at + 1..at + 3].make_ascii_lowercase();
        }
    }
    out
}

fn json(value: &[u8]) -> Vec<u8> {
    let quoted = serde_json::Value::from(String::from_utf8_lossy(value)).to_string();
    quoted.as_bytes()[1..quoted.len() - 1].to_vec()
}

fn unicode_escapes(value: &[u8]) -> Vec<u8> {
    value.iter().flat_map(|byte| format!("\\u{byte:04x}").into_bytes()).collect()
}

fn html(value: &[u8]) -> Vec<u8> {
    let mut out = replace(value, b'&', b"&amp;");
    for (byte, entity) in
        [(b'<', &b"&lt;"[..]), (b'>', b"&gt;"), (b'"', b"&quot;"), (b'\'', b"&#39;")]
    {
        out = replace(&out, byte, entity);
    }
    out
}

fn replace(text: &[u8], from: u8, to: &[u8]) -> Vec<u8> {
    text.iter().flat_map(|&byte| if byte == from { to.to_vec() } else { vec![byte] }).collect()
}

fn position(haystack: &[u8], needle: &[u8]) -> Option<usize> {
    memchr::memmem::find(haystack, needle)
}

fn random_hex() -> String {
    let mut bytes = [0; 16];
    fs::File::open("/dev/urandom")
        .and_then(|mut source| source.read_exact(&mut bytes))
        .expect("Linux always has /dev/urandom");
    HEXLOWER.encode(&bytes)
}

#[cfg(test)]
mod tests {
    use data_encoding::BASE64;
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn base64_is_found_wherever_the_value_stands(
            before in proptest::collection::vec(any::<u8>(), 0..20),
            after in proptest::collection::vec(any::<u8>(), 0..20),
        ) {
            let canary = Canary::awkward();
            let text = [&before[..], canary.value().as_bytes(), &after[..]].concat();
            prop_assert!(canary.find(BASE64.encode(&text).as_bytes()).is_some());
            prop_assert!(canary.find(HEXUPPER.encode(&text).as_bytes()).is_some());
            prop_assert!(canary.find(&text).is_some());
        }
    }

    #[test]
    fn escapes_are_found() {
        let canary = Canary::of("canary+/\"\\&<%'=0123456789");
        for text in [
            "canary%2B%2F%22%5C%26%3C%25%27%3D0123456789",
            "canary%2b%2f%22%5c%26%3c%25%27%3d0123456789",
            r#"canary+\/\"\\&<%'=0123456789"#,
            r"canary+/&quot;\&amp;&lt;%&#39;=0123456789",
        ] {
            assert!(canary.find(text.as_bytes()).is_some(), "{text}");
        }
    }

    #[test]
    fn other_values_are_not_sighted() {
        assert_eq!(Canary::new().find(Canary::new().value().as_bytes()), None);
    }

    #[test]
    #[should_panic(expected = "the canary is in")]
    fn a_file_with_the_value_fails_the_test() {
        let (home, canary) = (crate::ScratchHome::new().unwrap(), Canary::new());
        home.write("home/deep/er", canary.value()).unwrap();
        canary.assert_absent_under(home.root());
    }
}
