//! The proof that a delegation's token is its presenter's, as the agent makes it and the broker checks it.
//!
//! `<unix time>.<hex>`: an HMAC-SHA256 of `token||agent uri||time` by a key that the token's subject is given when it
//! accepts it, each instance one of its own. Source: reference/nl.md, section 7, C-16.

use data_encoding::HEXLOWER;
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

/// The proof for a time in Unix seconds; `presenter` is the URI of the agent that shows it.
pub fn proof(key: &str, token: &str, presenter: &str, at: i64) -> String {
    let at = at.to_string();
    let mac = mac(key, token, presenter, &at).finalize().into_bytes();
    format!("{at}.{}", HEXLOWER.encode(&mac))
}

/// The time of a proof that was made by this key, for this token and presenter; nothing of any other.
pub fn proven_at(proof: &str, key: &str, token: &str, presenter: &str) -> Option<i64> {
    let (time, shown) = proof.split_once('.')?;
    let at = time.parse().ok()?;
    let shown = HEXLOWER.decode(shown.as_bytes()).ok()?;
    mac(key, token, presenter, time).verify_slice(&shown).is_ok().then_some(at)
}

fn mac(key: &str, token: &str, presenter: &str, time: &str) -> Hmac<Sha256> {
    let mut mac = <Hmac<Sha256> as KeyInit>::new_from_slice(key.as_bytes())
        .expect("HMAC takes a key of any length");
    mac.update(format!("{token}||{presenter}||{time}").as_bytes());
    mac
}
