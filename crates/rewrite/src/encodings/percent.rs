//! Percent-encoding as the common encoders do it. They differ in what they leave alone.

use zeroize::Zeroizing;

use super::{LOWER, UPPER};

/// One encoder's habits.
pub(super) struct Percent {
    keeps: fn(u8) -> bool,
    space: &'static [u8],
    digits: &'static [u8; 16],
}

/// Each encoder with upper-case and with lower-case digits.
pub(super) static ALL: [Percent; 26] = [
    Percent { keeps: component, space: b"%20", digits: UPPER },
    Percent { keeps: component, space: b"%20", digits: LOWER },
    Percent { keeps: form, space: b"+", digits: UPPER },
    Percent { keeps: form, space: b"+", digits: LOWER },
    Percent { keeps: form_php, space: b"+", digits: UPPER },
    Percent { keeps: form_php, space: b"+", digits: LOWER },
    Percent { keeps: path, space: b"%20", digits: UPPER },
    Percent { keeps: path, space: b"%20", digits: LOWER },
    Percent { keeps: query, space: b"%20", digits: UPPER },
    Percent { keeps: query, space: b"%20", digits: LOWER },
    Percent { keeps: unreserved, space: b"%20", digits: UPPER },
    Percent { keeps: unreserved, space: b"%20", digits: LOWER },
    Percent { keeps: unreserved, space: b"+", digits: UPPER },
    Percent { keeps: unreserved, space: b"+", digits: LOWER },
    Percent { keeps: unreserved_and_slash, space: b"%20", digits: UPPER },
    Percent { keeps: unreserved_and_slash, space: b"%20", digits: LOWER },
    Percent { keeps: segment, space: b"%20", digits: UPPER },
    Percent { keeps: segment, space: b"%20", digits: LOWER },
    Percent { keeps: segment_go, space: b"%20", digits: UPPER },
    Percent { keeps: segment_go, space: b"%20", digits: LOWER },
    Percent { keeps: uri, space: b"%20", digits: UPPER },
    Percent { keeps: uri, space: b"%20", digits: LOWER },
    Percent { keeps: form_dotnet, space: b"+", digits: UPPER },
    Percent { keeps: form_dotnet, space: b"+", digits: LOWER },
    Percent { keeps: nothing, space: b"%20", digits: UPPER },
    Percent { keeps: nothing, space: b"%20", digits: LOWER },
];

/// The styles that may encode what is encoded already, as a link inside the query of another.
pub(super) fn twice() -> impl Iterator<Item = &'static Percent> {
    ALL.iter().filter(|style| (style.keeps)(b'a'))
}

impl Percent {
    pub(super) fn write(&self, text: &[u8]) -> Zeroizing<Vec<u8>> {
        let mut out = Zeroizing::new(Vec::with_capacity(text.len() * 3));
        for &byte in text {
            match byte {
                b' ' => out.extend_from_slice(self.space),
                _ if (self.keeps)(byte) => out.push(byte),
                _ => {
                    let digit = |value: u8| self.digits[usize::from(value)];
                    out.extend_from_slice(&[b'%', digit(byte >> 4), digit(byte & 15)]);
                }
            }
        }
        out
    }
}

/// RFC 3986, section 2.3; Go's `url.QueryEscape` (with `+`).
fn unreserved(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-._~".contains(&byte)
}

/// Python's `urllib.parse.quote`.
fn unreserved_and_slash(byte: u8) -> bool {
    unreserved(byte) || byte == b'/'
}

/// ECMAScript's `encodeURIComponent`.
fn component(byte: u8) -> bool {
    unreserved(byte) || b"!*'()".contains(&byte)
}

/// WHATWG `application/x-www-form-urlencoded`, Java's `URLEncoder`.
fn form(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"*-._".contains(&byte)
}

/// PHP's `urlencode`.
fn form_php(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-._".contains(&byte)
}

/// .NET's `HttpUtility.UrlEncode`.
fn form_dotnet(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-_.!*()".contains(&byte)
}

/// RFC 3986's `pchar`, as Spring and many others write one segment of a path.
fn segment(byte: u8) -> bool {
    unreserved(byte) || b"!$&'()*+,;=:@".contains(&byte)
}

/// Go's `url.PathEscape`.
fn segment_go(byte: u8) -> bool {
    unreserved(byte) || b"$&+=:@".contains(&byte)
}

/// ECMAScript's `encodeURI`.
fn uri(byte: u8) -> bool {
    segment(byte) || b"/?#".contains(&byte)
}

/// WHATWG URL, path percent-encode set: what a URL parser encodes on its own.
fn path(byte: u8) -> bool {
    query(byte) && !b"?^`{}".contains(&byte)
}

/// WHATWG URL, special-query percent-encode set.
fn query(byte: u8) -> bool {
    byte.is_ascii_graphic() && !b"\"#<>'".contains(&byte)
}

/// Servers that take no chances, and people who want to get past a filter.
fn nothing(_: u8) -> bool {
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(keeps: fn(u8) -> bool, space: &'static [u8], text: &str, expected: &str) {
        let style = Percent { keeps, space, digits: UPPER };
        assert_eq!(String::from_utf8_lossy(&style.write(text.as_bytes())), expected);
    }

    #[test]
    fn encoders_keep_what_their_sources_say() {
        let text = "a-._~ /!*'()+é";
        check(unreserved, b"+", text, "a-._~+%2F%21%2A%27%28%29%2B%C3%A9");
        check(unreserved_and_slash, b"%20", text, "a-._~%20/%21%2A%27%28%29%2B%C3%A9");
        check(component, b"%20", text, "a-._~%20%2F!*'()%2B%C3%A9");
        check(form, b"+", text, "a-._%7E+%2F%21*%27%28%29%2B%C3%A9");
        check(form_php, b"+", text, "a-._%7E+%2F%21%2A%27%28%29%2B%C3%A9");
        check(form_dotnet, b"+", text, "a-._%7E+%2F!*%27()%2B%C3%A9");
        check(segment, b"%20", "a/b+c=d:e@f;g?[|]", "a%2Fb+c=d:e@f;g%3F%5B%7C%5D");
        check(segment_go, b"%20", "a/b+c=d:e@f;g!", "a%2Fb+c=d:e@f%3Bg%21");
        check(uri, b"%20", "a/b+c=d:e@f;g?#[|]", "a/b+c=d:e@f;g?#%5B%7C%5D");
        check(path, b"%20", "/a?b#c'd ", "/a%3Fb%23c%27d%20");
        check(query, b"%20", "/a?b#c'd ", "/a?b%23c%27d%20");
        check(nothing, b"%20", "a1", "%61%31");
    }
}
