//! AWS Signature Version 4 of one JSON call: POST to `/`, without a query.
//!
//! Source: <https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_sigv-create-signed-request.html>

use data_encoding::HEXLOWER;
use hmac::{Hmac, KeyInit, Mac};
use jiff::Timestamp;
use sha2::{Digest, Sha256};
use zeroize::Zeroizing;

const CONTENT_TYPE: &str = "application/x-amz-json-1.1";
const SIGNED: &str = "content-type;host;x-amz-date;x-amz-target";

/// Who signs, and for whom.
pub(super) struct Signer<'a> {
    pub(super) access_key_id: &'a str,
    pub(super) secret_access_key: &'a [u8],
    pub(super) region: &'a str,
    pub(super) service: &'a str,
}

/// The headers of a signed call, without `host`, which follows from the address.
pub(super) fn sign(
    signer: &Signer<'_>,
    host: &str,
    target: &str,
    body: &[u8],
    now: Timestamp,
) -> [(&'static str, String); 4] {
    let date = now.strftime("%Y%m%dT%H%M%SZ").to_string();
    let day = &date[..8];
    let canonical = format!(
        "POST\n/\n\ncontent-type:{CONTENT_TYPE}\nhost:{host}\nx-amz-date:{date}\nx-amz-target:{target}\n\n{SIGNED}\n{}",
        HEXLOWER.encode(&Sha256::digest(body))
    );
    let scope = format!("{day}/{}/{}/aws4_request", signer.region, signer.service);
    let hashed = HEXLOWER.encode(&Sha256::digest(canonical.as_bytes()));
    let text = format!("AWS4-HMAC-SHA256\n{date}\n{scope}\n{hashed}");
    let key = signing_key(signer, day);
    let signature = HEXLOWER.encode(&*mac(&*key, text.as_bytes()));
    let credential = format!("{}/{scope}", signer.access_key_id);
    let authorization = format!(
        "AWS4-HMAC-SHA256 Credential={credential}, SignedHeaders={SIGNED}, Signature={signature}"
    );
    [
        ("content-type", CONTENT_TYPE.to_owned()),
        ("x-amz-date", date),
        ("x-amz-target", target.to_owned()),
        ("authorization", authorization),
    ]
}

fn signing_key(signer: &Signer<'_>, day: &str) -> Zeroizing<[u8; 32]> {
    let mut first = Zeroizing::new(Vec::with_capacity(4 + signer.secret_access_key.len()));
    first.extend_from_slice(b"AWS4");
    first.extend_from_slice(signer.secret_access_key);
    let key = mac(&first, day.as_bytes());
    let key = mac(&*key, signer.region.as_bytes());
    let key = mac(&*key, signer.service.as_bytes());
    mac(&*key, b"aws4_request")
}

fn mac(key: &[u8], text: &[u8]) -> Zeroizing<[u8; 32]> {
    let mut mac = <Hmac<Sha256> as KeyInit>::new_from_slice(key).expect("a key of any length");
    mac.update(text);
    Zeroizing::new(mac.finalize().into_bytes().into())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// AWS's example of deriving a signing key:
    /// <https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_sigv-signing-key-examples.html> (2015-08-30, us-east-1, iam).
    #[test]
    fn the_signing_key_is_awss() {
        let signer = Signer {
            access_key_id: "AKIDEXAMPLE",
            secret_access_key: b"wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY",
            region: "us-east-1",
            service: "iam",
        };
        let key = HEXLOWER.encode(&*signing_key(&signer, "20150830"));
        assert_eq!(key, "c4afb1cc5771d871763a393e44b703571b55cc28424d1a5e86da6ed3c154a4b9");
    }
}
