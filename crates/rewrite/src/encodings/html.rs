//! HTML text and attribute values as the common escapers write them. They differ in the quotes.

use zeroize::Zeroizing;

/// One escaper's habits. All write `&amp;`, `&lt;` and `&gt;`.
pub(super) struct Html {
    quote: &'static str,
    apostrophe: &'static str,
    /// Characters beyond the five, and what becomes of them.
    more: &'static [(u8, &'static str)],
}

/// The longest of all replacements, in bytes.
const LONGEST: usize = 6;

pub(super) static ALL: [Html; 9] = [
    // Text: Python's `escape(quote=False)`, DOM serializers.
    Html { quote: "\"", apostrophe: "'", more: &[] },
    // Attributes: DOM serializers, PHP's default before 8.1.
    Html { quote: "&quot;", apostrophe: "'", more: &[] },
    // Lodash, Jinja's kin, Go's older templates.
    Html { quote: "&quot;", apostrophe: "&#39;", more: &[] },
    // Python's `html.escape`.
    Html { quote: "&quot;", apostrophe: "&#x27;", more: &[] },
    // Go's `html.EscapeString`, MarkupSafe.
    Html { quote: "&#34;", apostrophe: "&#39;", more: &[] },
    // PHP's `htmlspecialchars`.
    Html { quote: "&quot;", apostrophe: "&#039;", more: &[] },
    // XML.
    Html { quote: "&quot;", apostrophe: "&apos;", more: &[] },
    // OWASP's HTML rule.
    Html { quote: "&quot;", apostrophe: "&#x27;", more: &[(b'/', "&#x2F;")] },
    // Mustache, Handlebars.
    Html {
        quote: "&quot;",
        apostrophe: "&#39;",
        more: &[(b'/', "&#x2F;"), (b'`', "&#x60;"), (b'=', "&#x3D;")],
    },
];

impl Html {
    pub(super) fn write(&self, text: &[u8]) -> Zeroizing<Vec<u8>> {
        let mut out = Zeroizing::new(Vec::with_capacity(text.len() * LONGEST));
        for byte in text {
            match byte {
                b'"' => out.extend_from_slice(self.quote.as_bytes()),
                b'&' => out.extend_from_slice(b"&amp;"),
                b'\'' => out.extend_from_slice(self.apostrophe.as_bytes()),
                b'<' => out.extend_from_slice(b"&lt;"),
                b'>' => out.extend_from_slice(b"&gt;"),
                _ => match self.more.iter().find(|(more, _)| more == byte) {
                    Some((_, escaped)) => out.extend_from_slice(escaped.as_bytes()),
                    None => out.push(*byte),
                },
            }
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(style: &Html, expected: &str) {
        assert_eq!(String::from_utf8_lossy(&style.write(b"a\"&'<>/`=")), expected);
    }

    #[test]
    fn escapers_write_what_their_sources_say() {
        check(&ALL[0], "a\"&amp;'&lt;&gt;/`=");
        check(&ALL[3], "a&quot;&amp;&#x27;&lt;&gt;/`=");
        check(&ALL[4], "a&#34;&amp;&#39;&lt;&gt;/`=");
        check(&ALL[8], "a&quot;&amp;&#39;&lt;&gt;&#x2F;&#x60;&#x3D;");
    }

    #[test]
    fn nothing_grows_beyond_the_room_made_for_it() {
        for style in &ALL {
            let written = [style.quote, style.apostrophe];
            let longest = written.iter().chain(style.more.iter().map(|(_, text)| text));
            assert!(longest.map(|text| text.len()).max() <= Some(LONGEST));
        }
    }
}
