//! Declared HMACs: the header and message of a webhook's signature, as data.

use bytes::Bytes;
use data_encoding::{BASE64, HEXLOWER};
use hmac::{Hmac, KeyInit as _, Mac as _};
use http::{HeaderValue, request::Parts};
use jiff::Timestamp;
use keyless_core::{Code, Error, HmacSigner, Piece, SignatureHash};
use sha1::Sha1;
use sha2::Sha256;

use super::name_of;

/// Signs `body` and what else the message has, and sets the headers.
pub(super) fn sign(
    signer: &HmacSigner,
    key: &[u8],
    parts: &mut Parts,
    body: &Bytes,
) -> Result<(), Error> {
    let timestamp = Timestamp::now().as_second().to_string();
    let mut message = Vec::with_capacity(body.len() + 64);
    for piece in &signer.message {
        message.extend_from_slice(match piece {
            Piece::Base64 | Piece::Hex => &[],
            Piece::Body => body,
            Piece::Method => parts.method.as_str().as_bytes(),
            Piece::Path => parts.uri.path().as_bytes(),
            Piece::Query => parts.uri.query().unwrap_or_default().as_bytes(),
            Piece::Text(text) => text.as_bytes(),
            Piece::Timestamp => timestamp.as_bytes(),
        });
    }
    let signature = signature(signer.hash, key, &message);
    let value: String = (signer.form.iter())
        .map(|piece| match piece {
            Piece::Base64 => BASE64.encode(&signature),
            Piece::Hex => HEXLOWER.encode(&signature),
            Piece::Text(text) => text.clone(),
            Piece::Timestamp => timestamp.clone(),
            Piece::Body | Piece::Method | Piece::Path | Piece::Query => String::new(),
        })
        .collect();
    let unfit = |_| Error::new(Code::Internal);
    let value = HeaderValue::try_from(value).map_err(unfit)?;
    parts.headers.insert(name_of(&signer.header)?, value);
    if let Some(name) = &signer.timestamp_header {
        let value = HeaderValue::try_from(timestamp).map_err(unfit)?;
        parts.headers.insert(name_of(name)?, value);
    }
    Ok(())
}

fn signature(hash: SignatureHash, key: &[u8], message: &[u8]) -> Vec<u8> {
    const ANY_LENGTH: &str = "HMAC takes a key of any length";
    match hash {
        SignatureHash::Sha1 => {
            let mac = Hmac::<Sha1>::new_from_slice(key).expect(ANY_LENGTH);
            mac.chain_update(message).finalize().into_bytes().to_vec()
        }
        SignatureHash::Sha256 => {
            let mac = Hmac::<Sha256>::new_from_slice(key).expect(ANY_LENGTH);
            mac.chain_update(message).finalize().into_bytes().to_vec()
        }
    }
}

#[cfg(test)]
mod tests {
    use http::Request;
    use keyless_core::Signer;

    use super::*;

    fn signed(signer: &str, key: &[u8], body: &'static [u8]) -> Parts {
        let Signer::Hmac(signer) = Signer::parse(signer).unwrap() else { panic!("not an HMAC") };
        let (mut parts, ()) = Request::get("/p?q=1").body(()).unwrap().into_parts();
        sign(&signer, key, &mut parts, &Bytes::from_static(body)).unwrap();
        parts
    }

    /// GitHub's own example: docs.github.com, "Validating webhook deliveries".
    #[test]
    fn githubs_example() {
        let parts = signed("github-webhook", b"It's a Secret to Everybody", b"Hello, World!");
        let expected = "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17";
        assert_eq!(parts.headers["x-hub-signature-256"], expected);
    }

    #[test]
    fn the_time_is_signed_and_said() {
        let parts = signed("slack-webhook", b"key", b"body");
        let time = parts.headers["x-slack-request-timestamp"].to_str().unwrap();
        let message = format!("v0:{time}:body");
        let mac = signature(SignatureHash::Sha256, b"key", message.as_bytes());
        let expected = format!("v0={}", HEXLOWER.encode(&mac));
        assert_eq!(parts.headers["x-slack-signature"], expected);
        let stripe = signed("stripe-webhook", b"key", b"body");
        let value = stripe.headers["stripe-signature"].to_str().unwrap();
        let (time, mac) = value.strip_prefix("t=").unwrap().split_once(",v1=").unwrap();
        let expected = signature(SignatureHash::Sha256, b"key", format!("{time}.body").as_bytes());
        assert_eq!(mac, HEXLOWER.encode(&expected));
    }

    #[test]
    fn target_and_base64_are_understood() {
        let parts = signed("hmac-sha1 X-Sig={base64} {method}{path}?{query}{body}", b"k", b"b");
        let mac = signature(SignatureHash::Sha1, b"k", b"GET/p?q=1b");
        assert_eq!(parts.headers["x-sig"], BASE64.encode(&mac));
    }
}
