//! HTML text and attribute values as the common escapers write them. They differ in the quotes, and in what else they escape.

use zeroize::Zeroizing;

use super::{LOWER, UPPER};

/// One escaper's habits.
pub(super) struct Html {
    quote: &'static str,
    apostrophe: &'static str,
    markup: Markup,
    /// Characters beyond the five, and what becomes of them.
    more: &'static [(u8, &'static str)],
}

/// How letters beyond ASCII are written.
#[derive(Clone, Copy)]
pub(super) enum Letters {
    AsTheyAre,
    Decimal,
    HexLower,
    HexUpper,
}

/// What stands beside letters by number: Python's `xmlcharrefreplace` leaves the rest alone, and DOM serializers, XML
/// writers, PHP and .NET escape it as well.
pub(super) fn numbered() -> impl Iterator<Item = (&'static Html, Letters)> {
    let styles = [&PLAIN].into_iter().chain(&ALL[..7]);
    let letters = [Letters::Decimal, Letters::HexLower, Letters::HexUpper];
    styles.flat_map(move |style| letters.map(|letters| (style, letters)))
}

static PLAIN: Html = Html { quote: "\"", apostrophe: "'", markup: ["&", "<", ">"], more: &[] };

/// How `&`, `<` and `>` are written.
type Markup = [&'static str; 3];

const NAMES: Markup = ["&amp;", "&lt;", "&gt;"];

/// The longest of all replacements, in bytes.
const LONGEST: usize = 6;

pub(super) static ALL: [Html; 19] = [
    // Text: Python's `escape(quote=False)`, DOM serializers.
    Html { quote: "\"", apostrophe: "'", markup: NAMES, more: &[] },
    // Attributes: DOM serializers, PHP's default before 8.1.
    Html { quote: "&quot;", apostrophe: "'", markup: NAMES, more: &[] },
    // Lodash, Jinja's kin, Go's older templates.
    Html { quote: "&quot;", apostrophe: "&#39;", markup: NAMES, more: &[] },
    // Python's `html.escape`.
    Html { quote: "&quot;", apostrophe: "&#x27;", markup: NAMES, more: &[] },
    // Go's `html.EscapeString`, MarkupSafe.
    Html { quote: "&#34;", apostrophe: "&#39;", markup: NAMES, more: &[] },
    // PHP's `htmlspecialchars`.
    Html { quote: "&quot;", apostrophe: "&#039;", markup: NAMES, more: &[] },
    // XML.
    Html { quote: "&quot;", apostrophe: "&apos;", markup: NAMES, more: &[] },
    // OWASP's HTML rule.
    Html { quote: "&quot;", apostrophe: "&#x27;", markup: NAMES, more: &[(b'/', "&#x2F;")] },
    // Mustache.
    Html {
        quote: "&quot;",
        apostrophe: "&#39;",
        markup: NAMES,
        more: &[(b'/', "&#x2F;"), (b'`', "&#x60;"), (b'=', "&#x3D;")],
    },
    // Go's `html/template`: text and quoted attributes, then attributes without quotes.
    Html { quote: "&#34;", apostrophe: "&#39;", markup: NAMES, more: &[(b'+', "&#43;")] },
    Html {
        quote: "&#34;",
        apostrophe: "&#39;",
        markup: NAMES,
        more: &[(b'+', "&#43;"), (b' ', "&#32;"), (b'=', "&#61;"), (b'`', "&#96;")],
    },
    // .NET's `HtmlEncoder`, so Razor.
    Html { quote: "&quot;", apostrophe: "&#x27;", markup: NAMES, more: &[(b'+', "&#x2B;")] },
    // Numbers alone: PHP's filters, Askama.
    Html { quote: "&#34;", apostrophe: "&#39;", markup: ["&#38;", "&#60;", "&#62;"], more: &[] },
    // The same in hex, in both cases; JavaScript's `he` writes the first.
    Html {
        quote: "&#x22;",
        apostrophe: "&#x27;",
        markup: ["&#x26;", "&#x3C;", "&#x3E;"],
        more: HE,
    },
    Html {
        quote: "&#x22;",
        apostrophe: "&#x27;",
        markup: ["&#x26;", "&#x3c;", "&#x3e;"],
        more: HE,
    },
    // The entities of .NET's `HtmlEncoder` in lower case.
    Html { quote: "&quot;", apostrophe: "&#x27;", markup: NAMES, more: &[(b'+', "&#x2b;")] },
    // Handlebars.
    Html {
        quote: "&quot;",
        apostrophe: "&#x27;",
        markup: NAMES,
        more: &[(b'`', "&#x60;"), (b'=', "&#x3D;")],
    },
    // OWASP's rule in lower case, and in numbers that are not hex.
    Html { quote: "&quot;", apostrophe: "&#x27;", markup: NAMES, more: &[(b'/', "&#x2f;")] },
    Html { quote: "&quot;", apostrophe: "&#39;", markup: NAMES, more: &[(b'/', "&#47;")] },
];

const HE: &[(u8, &str)] = &[(b'`', "&#x60;")];

impl Html {
    pub(super) fn write(&self, text: &[u8]) -> Zeroizing<Vec<u8>> {
        self.write_with(Letters::AsTheyAre, text)
    }

    /// As [`Self::write`], with letters beyond ASCII as `letters` says. Bytes that are not UTF-8 have no numbers, and stay.
    pub(super) fn write_with(&self, letters: Letters, text: &[u8]) -> Zeroizing<Vec<u8>> {
        let mut out = Zeroizing::new(Vec::with_capacity(text.len() * LONGEST));
        for part in text.utf8_chunks() {
            for character in part.valid().chars() {
                match u8::try_from(character) {
                    Ok(byte) if byte.is_ascii() => self.write_ascii(byte, &mut out),
                    _ => letters.write(character, &mut out),
                }
            }
            out.extend_from_slice(part.invalid());
        }
        out
    }

    fn write_ascii(&self, byte: u8, out: &mut Vec<u8>) {
        let [ampersand, less, greater] = self.markup;
        match byte {
            b'"' => out.extend_from_slice(self.quote.as_bytes()),
            b'&' => out.extend_from_slice(ampersand.as_bytes()),
            b'\'' => out.extend_from_slice(self.apostrophe.as_bytes()),
            b'<' => out.extend_from_slice(less.as_bytes()),
            b'>' => out.extend_from_slice(greater.as_bytes()),
            _ => match self.more.iter().find(|(more, _)| *more == byte) {
                Some((_, escaped)) => out.extend_from_slice(escaped.as_bytes()),
                None => out.push(byte),
            },
        }
    }
}

impl Letters {
    fn write(self, character: char, out: &mut Vec<u8>) {
        let code = u32::from(character);
        let (mark, base, digits) = match self {
            Self::AsTheyAre => {
                let mut room = Zeroizing::new([0; 4]);
                return out.extend_from_slice(character.encode_utf8(&mut *room).as_bytes());
            }
            Self::Decimal => (&b"&#"[..], 10, LOWER),
            Self::HexLower => (&b"&#x"[..], 16, LOWER),
            Self::HexUpper => (&b"&#x"[..], 16, UPPER),
        };
        out.extend_from_slice(mark);
        let length = code.checked_ilog(base).map_or(1, |log| log + 1);
        for at in (0..length).rev() {
            let digit = code / base.pow(at) % base;
            out.push(digits[usize::try_from(digit).expect("it is below 16")]);
        }
        out.push(b';');
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(style: &Html, expected: &str) {
        assert_eq!(String::from_utf8_lossy(&style.write(b"a\"&'<>/`=+")), expected);
    }

    #[test]
    fn escapers_write_what_their_sources_say() {
        check(&ALL[0], "a\"&amp;'&lt;&gt;/`=+");
        check(&ALL[3], "a&quot;&amp;&#x27;&lt;&gt;/`=+");
        check(&ALL[4], "a&#34;&amp;&#39;&lt;&gt;/`=+");
        check(&ALL[8], "a&quot;&amp;&#39;&lt;&gt;&#x2F;&#x60;&#x3D;+");
        check(&ALL[9], "a&#34;&amp;&#39;&lt;&gt;/`=&#43;");
        check(&ALL[10], "a&#34;&amp;&#39;&lt;&gt;/&#96;&#61;&#43;");
        check(&ALL[11], "a&quot;&amp;&#x27;&lt;&gt;/`=&#x2B;");
        check(&ALL[12], "a&#34;&#38;&#39;&#60;&#62;/`=+");
        check(&ALL[13], "a&#x22;&#x26;&#x27;&#x3C;&#x3E;/&#x60;=+");
        check(&ALL[16], "a&quot;&amp;&#x27;&lt;&gt;/&#x60;&#x3D;+");
        check(&ALL[17], "a&quot;&amp;&#x27;&lt;&gt;&#x2f;`=+");
        check(&ALL[18], "a&quot;&amp;&#39;&lt;&gt;&#47;`=+");
    }

    #[test]
    fn letters_have_numbers() {
        let written = |letters| PLAIN.write_with(letters, "pä€🔑<".as_bytes());
        assert_eq!(*written(Letters::Decimal), b"p&#228;&#8364;&#128273;<");
        assert_eq!(*written(Letters::HexLower), b"p&#xe4;&#x20ac;&#x1f511;<");
        assert_eq!(*written(Letters::HexUpper), b"p&#xE4;&#x20AC;&#x1F511;<");
        assert_eq!(*PLAIN.write_with(Letters::Decimal, b"a\xff\xc3\xa4"), b"a\xff&#228;");
    }

    #[test]
    fn nothing_grows_beyond_the_room_made_for_it() {
        for style in &ALL {
            let written = [style.quote, style.apostrophe].into_iter().chain(style.markup);
            let longest = written.chain(style.more.iter().map(|(_, text)| *text));
            assert!(longest.map(str::len).max() <= Some(LONGEST));
        }
        for letter in ["\u{80}", "ä", "\u{7ff}", "€", "\u{ffff}", "🔑", "\u{10ffff}"] {
            let written = PLAIN.write_with(Letters::HexLower, letter.as_bytes());
            assert!(written.len() <= letter.len() * LONGEST, "{letter}");
        }
    }
}
