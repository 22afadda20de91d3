//! Whether a value stands in a text: as it is, percent-encoded as in a URL, escaped as in JSON, in base64 as in a Basic
//! credential, in hex or in base32.

use data_encoding::{BASE32_NOPAD, BASE64_NOPAD, HEXLOWER_PERMISSIVE};
use zeroize::Zeroizing;

/// Whether `value` occurs in `text` in one of these forms.
pub(super) fn occurs(value: &[u8], text: &[u8]) -> bool {
    stands_in(value, text)
        || text.contains(&b'%') && stands_in(value, &percent_decoded(text))
        || runs(text)
            .filter(|run| run.len() * 3 / 4 >= value.len())
            .any(|run| is_in_base64(value, run))
        || text.contains(&b'\\') && stands_in(value, &json_unescaped(text))
        || runs(text).any(|run| is_in_hex(value, run) || is_in_base32(value, run))
}

fn stands_in(value: &[u8], text: &[u8]) -> bool {
    text.windows(value.len()).any(|window| window == value)
}

fn percent_decoded(text: &[u8]) -> Zeroizing<Vec<u8>> {
    let mut decoded = Zeroizing::new(Vec::with_capacity(text.len()));
    let mut rest = text;
    while let Some((first, after)) = rest.split_first() {
        let code = after.get(..2).filter(|_| *first == b'%');
        if let Some(byte) = code.and_then(|code| HEXLOWER_PERMISSIVE.decode(code).ok()?.pop()) {
            decoded.push(byte);
            rest = &after[2..];
        } else {
            decoded.push(*first);
            rest = after;
        }
    }
    decoded
}

fn json_unescaped(text: &[u8]) -> Zeroizing<Vec<u8>> {
    let mut plain = Zeroizing::new(Vec::with_capacity(text.len()));
    let mut rest = text;
    while let Some((first, after)) = rest.split_first() {
        let escape = after.first().filter(|_| *first == b'\\');
        let (byte, length) = match escape {
            Some(b'u') => match ascii_of(after.get(1..5)) {
                Some(byte) => (byte, 6),
                None => (*first, 1),
            },
            Some(b'n') => (b'\n', 2),
            Some(b'r') => (b'\r', 2),
            Some(b't') => (b'\t', 2),
            Some(other) => (*other, 2),
            None => (*first, 1),
        };
        plain.push(byte);
        rest = &rest[length..];
    }
    plain
}

/// The character that these digits stand for, if it is one byte.
fn ascii_of(digits: Option<&[u8]>) -> Option<u8> {
    let code = HEXLOWER_PERMISSIVE.decode(digits?).ok()?;
    (code[0] == 0 && code[1].is_ascii()).then_some(code[1])
}

/// The digits may begin at any place of the run.
fn is_in_hex(value: &[u8], run: &[u8]) -> bool {
    let code = Zeroizing::new(HEXLOWER_PERMISSIVE.encode(value).into_bytes());
    run.len() >= code.len() && stands_in(&code, &Zeroizing::new(run.to_ascii_lowercase()))
}

/// Groups of eight symbols may begin at any place of the run.
fn is_in_base32(value: &[u8], run: &[u8]) -> bool {
    if run.len() * 5 / 8 < value.len() {
        return false;
    }
    let run = Zeroizing::new(run.to_ascii_uppercase());
    (0..8.min(run.len())).any(|begin| {
        let run = &run[begin..];
        let groups = &run[..run.len() / 8 * 8];
        let decode = |text: &[u8]| BASE32_NOPAD.decode(text).ok().map(Zeroizing::new);
        let decoded = decode(run).or_else(|| decode(groups));
        decoded.is_some_and(|decoded| stands_in(value, &decoded))
    })
}

/// What could be base64, of either alphabet.
fn runs(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    let is_of_base64 = |byte: &u8| byte.is_ascii_alphanumeric() || b"+/-_".contains(byte);
    text.split(move |byte| !is_of_base64(byte))
}

/// Other letters may stand right before, so that nothing says where a group of four begins.
fn is_in_base64(value: &[u8], run: &[u8]) -> bool {
    let in_one_alphabet = |byte: &u8| match byte {
        b'-' => b'+',
        b'_' => b'/',
        other => *other,
    };
    let run = Zeroizing::new(run.iter().map(in_one_alphabet).collect::<Vec<_>>());
    (0..4.min(run.len())).any(|begin| {
        let run = &run[begin..];
        // A last letter alone is no byte.
        let whole = &run[..run.len() - usize::from(run.len() % 4 == 1)];
        let quarters = &whole[..whole.len() / 4 * 4];
        let decode = |text: &[u8]| BASE64_NOPAD.decode(text).ok().map(Zeroizing::new);
        let decoded = decode(whole).or_else(|| decode(quarters));
        decoded.is_some_and(|decoded| stands_in(value, &decoded))
    })
}

#[cfg(test)]
mod tests {
    use data_encoding::{BASE64, BASE64URL};
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_value_is_found_wherever_it_stands(
            value in proptest::collection::vec(any::<u8>(), 8..40),
            before in proptest::collection::vec(any::<u8>(), 0..9),
            after in proptest::collection::vec(any::<u8>(), 0..9),
            word in "[a-z]{0,5}",
        ) {
            let text = [&before[..], &value, &after].concat();
            prop_assert!(occurs(&value, &text));
            let code = |byte: &u8| ["%", &HEXLOWER_PERMISSIVE.encode(&[*byte])].concat();
            let percent: String = text.iter().map(code).collect();
            let mut forms = vec![format!("{word}={percent}")];
            for coded in [BASE64.encode(&text), BASE64URL.encode(&text), BASE64_NOPAD.encode(&text)] {
                forms.push(format!("{word}{coded}"));
            }
            for form in forms {
                prop_assert!(occurs(&value, form.as_bytes()), "{}", form);
            }
        }
    }

    #[test]
    fn a_value_is_found_as_json_hex_and_base32_have_it() {
        let value = b"s3cret/with\"quote+8";
        let hex = HEXLOWER_PERMISSIVE.encode(value);
        let base32 = data_encoding::BASE32.encode(value);
        for text in [
            r#"{"token":"s3cret\/with\"quote\u002b8"}"#,
            r#"{"token":"s3cret/with\u0022quote+8"}"#,
            &format!("key={hex}"),
            &hex.to_uppercase(),
            &base32,
            &format!("x={}", base32.to_lowercase()),
        ] {
            assert!(occurs(value, text.as_bytes()), "{text}");
        }
    }

    #[test]
    fn another_value_is_not() {
        for text in [&b""[..], b"%", b"%3", b"MTIzNDU2Nw==", b"%31%32%33%34%35%36%37", b"A"] {
            assert!(!occurs(b"12345678", text), "{text:?}");
        }
    }
}
