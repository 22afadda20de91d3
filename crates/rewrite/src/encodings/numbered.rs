//! Letters by their numbers as JavaScript's `escape()` and mail have them.

use zeroize::Zeroizing;

use super::UPPER;

/// One writer's habits.
pub(super) struct Numbered {
    keeps: fn(u8) -> bool,
    others: Others,
}

/// What becomes of other letters.
#[derive(Clone, Copy)]
enum Others {
    /// `%XX` up to U+00FF, `%uXXXX` beyond, in UTF-16.
    Escape,
    /// `=XX` of each byte (RFC 2045, section 6.7).
    Mail,
    /// `%uXXXX`, all of them: what IIS reads, and filters seldom do.
    Wide(&'static [u8; 16]),
}

pub(super) static ALL: [Numbered; 4] = [
    Numbered { keeps: script, others: Others::Escape },
    Numbered { keeps: mail, others: Others::Mail },
    Numbered { keeps: nothing, others: Others::Wide(UPPER) },
    Numbered { keeps: nothing, others: Others::Wide(super::LOWER) },
];

impl Numbered {
    /// Bytes that are no UTF-8 are taken for letters of ISO 8859-1.
    pub(super) fn write(&self, text: &[u8]) -> Zeroizing<Vec<u8>> {
        let mut out = Zeroizing::new(Vec::with_capacity(text.len() * 6));
        if matches!(self.others, Others::Mail) {
            for &byte in text {
                if (self.keeps)(byte) {
                    out.push(byte);
                } else {
                    write(b"=", byte.into(), 2, UPPER, &mut out);
                }
            }
            return out;
        }
        for part in text.utf8_chunks() {
            let letters = part.valid().chars().map(u32::from);
            for code in letters.chain(part.invalid().iter().map(|byte| u32::from(*byte))) {
                self.write_letter(code, &mut out);
            }
        }
        out
    }

    fn write_letter(&self, code: u32, out: &mut Vec<u8>) {
        let byte = u8::try_from(code);
        match (self.others, byte) {
            (_, Ok(byte)) if (self.keeps)(byte) => out.push(byte),
            (Others::Escape | Others::Mail, Ok(_)) => write(b"%", code, 2, UPPER, out),
            (others, _) => {
                let digits = if let Others::Wide(digits) = others { digits } else { UPPER };
                // Outside of the first plane there are two.
                let pair = code
                    .checked_sub(0x1_0000)
                    .map(|rest| [0xd800 + (rest >> 10), 0xdc00 + (rest & 0x3ff)]);
                for unit in pair.as_ref().map_or(&[code][..], |pair| pair) {
                    write(b"%u", *unit, 4, digits, out);
                }
            }
        }
    }
}

fn write(sign: &[u8], code: u32, digits: u32, alphabet: &[u8; 16], out: &mut Vec<u8>) {
    out.extend_from_slice(sign);
    for at in (0..digits).rev() {
        let digit = usize::try_from(code >> (at * 4) & 15).expect("it is below 16");
        out.push(alphabet[digit]);
    }
}

/// ECMAScript's `escape` (B.2.1.1).
fn script(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"@*_+-./".contains(&byte)
}

/// What needs no number in a line of quoted-printable.
fn mail(byte: u8) -> bool {
    matches!(byte, b' '..=b'~') && byte != b'='
}

fn nothing(_: u8) -> bool {
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writers_number_letters_as_their_sources_say() {
        let text = "a b+c=d/é€🔑";
        for (style, expected) in ALL.iter().zip([
            "a%20b+c%3Dd/%E9%u20AC%uD83D%uDD11",
            "a b+c=3Dd/=C3=A9=E2=82=AC=F0=9F=94=91",
            "%u0061%u0020%u0062%u002B%u0063%u003D%u0064%u002F%u00E9%u20AC%uD83D%uDD11",
            "%u0061%u0020%u0062%u002b%u0063%u003d%u0064%u002f%u00e9%u20ac%ud83d%udd11",
        ]) {
            assert_eq!(String::from_utf8_lossy(&style.write(text.as_bytes())), expected);
        }
        assert_eq!(*ALL[0].write(b"a\xff"), *b"a%FF");
        assert_eq!(*ALL[1].write(b"a\xff"), *b"a=FF");
    }
}
