//! How a value is spelled where it is put, so that what held a placeholder still parses.

use http::{HeaderMap, header};
use zeroize::Zeroizing;

const HEX: &[u8; 16] = b"0123456789ABCDEF";

/// The spelling that a place asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Escape {
    /// Inside a JSON string (RFC 8259, section 7).
    Json,
    /// Everything but RFC 3986's unreserved characters as `%XX`: right in path, query and form.
    Percent,
    /// As it is.
    Raw,
}

/// What the spelling of the placeholder itself says about the place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Spelling {
    /// Nothing: the place decides.
    AsTheBody,
    /// Percent-encoded, whatever is around it.
    Percent,
}

impl Escape {
    /// The spelling inside a body, by its `Content-Type`.
    pub(super) fn of_body(headers: &HeaderMap) -> Self {
        let content_type = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok());
        let essence = content_type.unwrap_or_default().split(';').next().unwrap_or_default();
        match essence.trim().to_ascii_lowercase().as_str() {
            "application/x-www-form-urlencoded" => Self::Percent,
            "application/json"
            | "text/json"
            | "application/json-seq"
            | "application/x-ndjson"
            | "application/ndjson"
            | "application/jsonl" => Self::Json,
            essence if essence.ends_with("+json") => Self::Json,
            _ => Self::Raw,
        }
    }

    /// The spelling for a placeholder that was found so.
    pub(super) fn for_spelling(self, spelling: Spelling) -> Self {
        match spelling {
            Spelling::AsTheBody => self,
            Spelling::Percent => Self::Percent,
        }
    }

    /// Appends `value` in this spelling.
    pub(super) fn write(self, value: &[u8], out: &mut Vec<u8>) {
        match self {
            Self::Json => value.iter().for_each(|byte| write_json(*byte, out)),
            Self::Percent => value.iter().for_each(|byte| write_percent(*byte, out)),
            Self::Raw => out.extend_from_slice(value),
        }
    }

    /// The same within so many strings, each in the text of the one around it.
    pub(super) fn write_within(self, strings: u32, value: &[u8], out: &mut Vec<u8>) {
        self.outermost(strings, value, |inner| self.write(inner, out));
    }

    /// How many bytes [`Self::write`] appends.
    pub(super) fn length(self, value: &[u8]) -> usize {
        match self {
            Self::Json => value.iter().map(|byte| json_length(*byte)).sum(),
            Self::Percent => value.iter().map(|byte| percent_length(*byte)).sum(),
            Self::Raw => value.len(),
        }
    }

    /// How many bytes [`Self::write_within`] appends.
    pub(super) fn length_within(self, strings: u32, value: &[u8]) -> usize {
        self.outermost(strings, value, |inner| self.length(inner))
    }

    /// Gives `last` what stands in the outermost string: the value, spelled for all those within.
    fn outermost<T>(self, strings: u32, value: &[u8], last: impl FnOnce(&[u8]) -> T) -> T {
        let inner = (1..strings).fold(None::<Zeroizing<Vec<u8>>>, |inner, _| {
            Some(escaped(self, inner.as_ref().map_or(value, |inner| inner)))
        });
        last(inner.as_ref().map_or(value, |inner| inner))
    }
}

fn escaped(escape: Escape, value: &[u8]) -> Zeroizing<Vec<u8>> {
    let mut out = Zeroizing::new(Vec::with_capacity(escape.length(value)));
    escape.write(value, &mut out);
    out
}

fn json_length(byte: u8) -> usize {
    match byte {
        b'"' | b'\\' => 2,
        0x00..=0x1f => 6,
        _ => 1,
    }
}

fn percent_length(byte: u8) -> usize {
    if is_unreserved(byte) { 1 } else { 3 }
}

fn write_json(byte: u8, out: &mut Vec<u8>) {
    match byte {
        b'"' | b'\\' => out.extend_from_slice(&[b'\\', byte]),
        0x00..=0x1f => {
            let [high, low] = hex(byte);
            out.extend_from_slice(&[b'\\', b'u', b'0', b'0', high, low]);
        }
        _ => out.push(byte),
    }
}

fn write_percent(byte: u8, out: &mut Vec<u8>) {
    if is_unreserved(byte) {
        return out.push(byte);
    }
    let [high, low] = hex(byte);
    out.extend_from_slice(&[b'%', high, low]);
}

/// RFC 3986, section 2.3: what no encoder touches.
pub(super) fn is_unreserved(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-._~".contains(&byte)
}

fn hex(byte: u8) -> [u8; 2] {
    [HEX[usize::from(byte >> 4)], HEX[usize::from(byte & 15)]]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_spelling_is_as_long_as_it_was_said_to_be() {
        let every: Vec<u8> = (0..=u8::MAX).collect();
        for escape in [Escape::Json, Escape::Percent, Escape::Raw] {
            for strings in 0..=4 {
                let mut out = Vec::new();
                escape.write_within(strings, &every, &mut out);
                assert_eq!(
                    out.len(),
                    escape.length_within(strings, &every),
                    "{escape:?} {strings}"
                );
            }
        }
    }
}
