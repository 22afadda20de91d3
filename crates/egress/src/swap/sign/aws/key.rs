//! Keys that hold for one day, region and service, and signatures with them.

use data_encoding::HEXLOWER;
use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::Sha256;
use zeroize::Zeroizing;

/// The signature of `text` in this scope.
pub(super) fn signature(key: &[u8], scope: [&str; 3], text: &[u8]) -> String {
    let mut derived = Zeroizing::new([b"AWS4", key].concat());
    for word in scope.into_iter().chain(["aws4_request"]) {
        derived = Zeroizing::new(mac(&derived, word.as_bytes()).to_vec());
    }
    HEXLOWER.encode(&mac(&derived, text))
}

fn mac(key: &[u8], message: &[u8]) -> [u8; 32] {
    let mac = Hmac::<Sha256>::new_from_slice(key).expect("HMAC takes a key of any length");
    mac.chain_update(message).finalize().into_bytes().into()
}
