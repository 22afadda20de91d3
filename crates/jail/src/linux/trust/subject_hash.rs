//! The name under which OpenSSL finds a certificate in a hashed directory: eight hex digits.
//!
//! It is the start of SHA-1 over the subject in canonical form: each value as UTF-8, lower case in
//! ASCII, without spaces at its ends, runs of spaces as one; the outer SEQUENCE's header left out.
//!
//! Source: OpenSSL `X509_NAME_hash_ex` and `x509_name_canon` (crypto/x509/x_name.c).

use sha1::{Digest, Sha1};

const SEQUENCE: u8 = 0x30;
const VERSION: u8 = 0xa0;
const UTF8_STRING: u8 = 0x0c;
/// Types whose bytes already are UTF-8: `UTF8String`, `PrintableString`, `IA5String`, `VisibleString`.
const TEXTUAL: &[u8] = &[UTF8_STRING, 0x13, 0x16, 0x1a];
/// Types that OpenSSL would convert first: `T61String`, `UniversalString`, `BMPString`.
const CONVERTED: &[u8] = &[0x14, 0x1c, 0x1e];

/// The hash of a certificate's subject (DER), or `None` if it can't be parsed or has a value in an
/// encoding of the last century.
pub(crate) fn subject_hash(certificate: &[u8]) -> Option<String> {
    let digest = Sha1::digest(canonical(subject(certificate)?)?);
    let start = <[u8; 4]>::try_from(&digest[..4]).expect("SHA-1 gives 20 bytes");
    Some(format!("{:08x}", u32::from_le_bytes(start)))
}

/// The content of the subject's SEQUENCE.
fn subject(certificate: &[u8]) -> Option<&[u8]> {
    let (_, certificate, _) = element(certificate)?;
    let (_, body, _) = element(certificate)?;
    let (tag, _, after) = element(body)?;
    let mut rest = if tag == VERSION { after } else { body };
    // Serial number, signature algorithm, issuer, validity.
    for _ in 0..4 {
        rest = element(rest)?.2;
    }
    match element(rest)? {
        (SEQUENCE, content, _) => Some(content),
        _ => None,
    }
}

fn canonical(mut name: &[u8]) -> Option<Vec<u8>> {
    let mut canonical = Vec::new();
    while !name.is_empty() {
        let (set, mut attributes, rest) = element(name)?;
        let mut content = Vec::new();
        while !attributes.is_empty() {
            let (sequence, attribute, next) = element(attributes)?;
            content.extend(encode(sequence, &canonical_attribute(attribute)?));
            attributes = next;
        }
        canonical.extend(encode(set, &content));
        name = rest;
    }
    Some(canonical)
}

fn canonical_attribute(attribute: &[u8]) -> Option<Vec<u8>> {
    let (oid, oid_content, value) = element(attribute)?;
    let (tag, value, _) = element(value)?;
    let value = match tag {
        tag if TEXTUAL.contains(&tag) => encode(UTF8_STRING, &folded(value)),
        tag if CONVERTED.contains(&tag) => return None,
        tag => encode(tag, value),
    };
    Some([encode(oid, oid_content), value].concat())
}

/// Lower case, words apart by one space.
fn folded(value: &[u8]) -> Vec<u8> {
    let space = |byte: &u8| byte.is_ascii_whitespace() || *byte == 0x0b;
    let words: Vec<Vec<u8>> = value
        .split(space)
        .filter(|word| !word.is_empty())
        .map(<[u8]>::to_ascii_lowercase)
        .collect();
    words.join(&b' ')
}

/// Tag, content and what follows of the first DER element.
fn element(bytes: &[u8]) -> Option<(u8, &[u8], &[u8])> {
    let (&tag, rest) = bytes.split_first()?;
    let (&first, mut rest) = rest.split_first()?;
    let mut length = usize::from(first);
    if first >= 0x80 {
        let digits = usize::from(first & 0x7f);
        if !(1..=4).contains(&digits) {
            return None;
        }
        let (number, after) = rest.split_at_checked(digits)?;
        length = number.iter().fold(0, |length, digit| length << 8 | usize::from(*digit));
        rest = after;
    }
    let (content, after) = rest.split_at_checked(length)?;
    Some((tag, content, after))
}

fn encode(tag: u8, content: &[u8]) -> Vec<u8> {
    let mut bytes = vec![tag];
    match u8::try_from(content.len()) {
        Ok(short) if short < 0x80 => bytes.push(short),
        _ => {
            let digits: Vec<u8> =
                content.len().to_be_bytes().into_iter().skip_while(|digit| *digit == 0).collect();
            bytes.push(0x80 | u8::try_from(digits.len()).expect("a usize has eight bytes"));
            bytes.extend(digits);
        }
    }
    bytes.extend(content);
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::linux::trust::pem;

    /// `openssl req -x509 -newkey ec:.. -subj '/C=DE/O=  Keyless   TEST /CN=Session CA ü/emailAddress=Me@Example.COM'`, and
    /// what `openssl x509 -subject_hash` says of it (OpenSSL 3.0).
    const CERTIFICATE: &str = include_str!("../../../tests/vectors/spaced-subject.pem");
    const HASH: &str = include_str!("../../../tests/vectors/spaced-subject.hash");

    #[test]
    fn the_hash_is_openssls() {
        let der = pem::certificates(CERTIFICATE).remove(0);
        assert_eq!(subject_hash(&der).as_deref(), Some(HASH.trim()));
    }

    #[test]
    fn no_prefix_of_a_certificate_is_taken_for_one() {
        let der = pem::certificates(CERTIFICATE).remove(0);
        assert!((0..der.len()).all(|end| subject_hash(&der[..end]).is_none()));
    }
}
