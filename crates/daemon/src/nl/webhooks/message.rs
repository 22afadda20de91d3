//! What a receiver is told, and the signature by which it knows from whom.

use data_encoding::HEXLOWER;
use hmac::{Hmac, KeyInit as _, Mac as _};
use jiff::Timestamp;
use keyless_core::{
    audit::Entry,
    nl_message::{MessageType, NL_VERSION},
};
use serde_json::{Map, Value, json};
use sha2::Sha256;

/// The message about an entry of the log, with what is told of it.
pub(super) fn message(entry: &Entry, payload: &Map<String, Value>, now: Timestamp) -> Value {
    json!({
        "nl_version": NL_VERSION,
        "message_type": MessageType::RotationNotification.as_str(),
        "message_id": entry.entry_id,
        "timestamp": format!("{now:.3}"),
        "payload": payload,
    })
}

/// The value of `X-NL-Signature`, over the body as it is sent.
pub(super) fn signature(key: &[u8], body: &[u8]) -> String {
    let mac = Hmac::<Sha256>::new_from_slice(key).expect("HMAC takes a key of any length");
    let digest = mac.chain_update(body).finalize().into_bytes();
    format!("sha256={}", HEXLOWER.encode(&digest))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 4231, test case 2.
    #[test]
    fn a_signature_is_an_hmac_of_the_body() {
        assert_eq!(
            signature(b"Jefe", b"what do ya want for nothing?"),
            "sha256=5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843"
        );
    }
}
