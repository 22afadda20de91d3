//! AWS Signature Version 4 of any request.
//!
//! Source: <https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_sigv-create-signed-request.html>

use data_encoding::HEXLOWER;
use hmac::{Hmac, KeyInit as _, Mac as _};
use jiff::Timestamp;
use sha2::{Digest as _, Sha256};
use zeroize::Zeroizing;

use super::provider::{encoded, set};

/// Who signs, and for whom.
pub(super) struct Signer<'a> {
    pub(super) access_key_id: &'a str,
    pub(super) secret_access_key: &'a str,
    pub(super) session_token: Option<&'a str>,
    pub(super) region: &'a str,
    pub(super) service: &'a str,
}

/// What is signed. `path` is escaped already, once.
pub(super) struct Signed<'a> {
    pub(super) method: &'a str,
    pub(super) host: &'a str,
    pub(super) path: &'a str,
    pub(super) query: &'a [(String, String)],
    pub(super) body: &'a [u8],
}

/// Adds what makes a request AWS's: the date, the digest, the signature.
pub(super) fn sign(
    signer: &Signer<'_>,
    request: &Signed<'_>,
    headers: &mut Vec<(String, Zeroizing<String>)>,
    now: Timestamp,
) {
    let date = now.strftime("%Y%m%dT%H%M%SZ").to_string();
    let day = &date[..8];
    let digest = hex(request.body);
    set(headers, "x-amz-date", date.clone());
    set(headers, "x-amz-content-sha256", digest.clone());
    if let Some(token) = signer.session_token {
        set(headers, "x-amz-security-token", token.to_owned());
    }
    let mut lines: Vec<(String, Zeroizing<String>)> = headers
        .iter()
        .map(|(name, value)| (name.clone(), Zeroizing::new(value.trim().to_owned())))
        .filter(|(name, _)| name != "user-agent" && name != "accept")
        .collect();
    lines.push(("host".to_owned(), Zeroizing::new(request.host.to_owned())));
    lines.sort_by(|(one, _), (other, _)| one.cmp(other));
    let names: Vec<&str> = lines.iter().map(|(name, _)| name.as_str()).collect();
    let names = names.join(";");
    let canonical_headers = Zeroizing::new(
        lines
            .iter()
            .map(|(name, value)| format!("{name}:{}\n", **value))
            .collect::<Vec<_>>()
            .concat(),
    );
    let mut query = request.query.to_vec();
    query.sort();
    let canonical = Zeroizing::new(format!(
        "{}\n{}\n{}\n{}\n{names}\n{digest}",
        request.method,
        request.path,
        encoded(&query),
        *canonical_headers
    ));
    let scope = format!("{day}/{}/{}/aws4_request", signer.region, signer.service);
    let text = format!("AWS4-HMAC-SHA256\n{date}\n{scope}\n{}", hex(canonical.as_bytes()));
    let signature = HEXLOWER.encode(&*mac(&*signing_key(signer, day), text.as_bytes()));
    let credential = format!("{}/{scope}", signer.access_key_id);
    let authorization = format!(
        "AWS4-HMAC-SHA256 Credential={credential}, SignedHeaders={names}, Signature={signature}"
    );
    set(headers, "authorization", authorization);
}

fn signing_key(signer: &Signer<'_>, day: &str) -> Zeroizing<[u8; 32]> {
    let first = Zeroizing::new([b"AWS4", signer.secret_access_key.as_bytes()].concat());
    let key = mac(&first, day.as_bytes());
    let key = mac(&*key, signer.region.as_bytes());
    let key = mac(&*key, signer.service.as_bytes());
    mac(&*key, b"aws4_request")
}

fn mac(key: &[u8], text: &[u8]) -> Zeroizing<[u8; 32]> {
    let mut mac = <Hmac<Sha256>>::new_from_slice(key).expect("a key of any length");
    mac.update(text);
    Zeroizing::new(mac.finalize().into_bytes().into())
}

fn hex(bytes: &[u8]) -> String {
    HEXLOWER.encode(&Sha256::digest(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// AWS's example of deriving a signing key:
    /// <https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_sigv-signing-key-examples.html>.
    #[test]
    fn the_signing_key_is_awss() {
        let signer = Signer {
            access_key_id: "AKIDEXAMPLE",
            secret_access_key: "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY",
            session_token: None,
            region: "us-east-1",
            service: "iam",
        };
        let key = HEXLOWER.encode(&*signing_key(&signer, "20150830"));
        assert_eq!(key, "c4afb1cc5771d871763a393e44b703571b55cc28424d1a5e86da6ed3c154a4b9");
    }
}
