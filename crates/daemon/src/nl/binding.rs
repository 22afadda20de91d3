//! The proof that a token is its presenter's: whether it is good here and now, and who brings none.
//!
//! How it is reckoned is in `keyless_client::proof`. Whoever only overheard a token's name has no key, and a proof that was
//! overheard was shown already. Source: reference/nl.md, section 7, C-16.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use jiff::{SignedDuration, Timestamp};
use keyless_client::proven_at;
use keyless_core::{Code, Error, SafeText};

use super::grants::Reservation;
use crate::config::MAX_PROOF_SKEW;

/// How far a proof's time may be off, where nobody says otherwise.
pub(super) const SKEW: SignedDuration = SignedDuration::from_secs(30);

/// How it is known that a token is its presenter's.
pub(crate) enum Binding {
    /// The issuer's own message has the work in it, and Keyless hands that over by itself.
    Issuers {
        /// Whether a person has allowed this very work.
        was_asked_about: bool,
        /// What the issuer's message has reserved for it: handing it over and doing it are one use.
        held: Arc<Reservation>,
    },
    /// Not at all: a name alone is good for nothing.
    Missing,
    /// By a proof.
    Shown(ShownProof),
}

/// A proof, which is good for one message: shown with another it is refused, and all that this message asks rests
/// on it.
pub(crate) struct ShownProof {
    text: String,
    is_taken: AtomicBool,
}

impl ShownProof {
    pub(crate) fn new(text: &str) -> Self {
        Self { text: text.to_owned(), is_taken: AtomicBool::new(false) }
    }

    /// Has the proof taken, unless it was for this message.
    pub(crate) async fn once(
        &self,
        take: impl AsyncFnOnce(&str) -> Result<(), Error>,
    ) -> Result<(), Error> {
        if !self.is_taken.load(Ordering::Acquire) {
            take(&self.text).await?;
            self.is_taken.store(true, Ordering::Release);
        }
        Ok(())
    }
}

/// Until when a proof could be shown again, if it fits and its time is no more than `skew` from now. Another broker of the
/// store may allow more, so that it is the most that any may.
pub(super) fn fits(
    proof: &str,
    (key, token, presenter): (&str, &str, &str),
    (now, skew): (Timestamp, SignedDuration),
) -> Result<Timestamp, Error> {
    let invalid = || Error::new(Code::DelegationInvalid);
    let at = proven_at(proof, key, token, presenter).ok_or_else(invalid)?;
    if now.as_second().abs_diff(at) > skew.as_secs().unsigned_abs() {
        // Only who has the key hears this.
        let words = SafeText::words("the time of the binding_proof is more than ")
            .and(skew.as_secs().unsigned_abs());
        let words = words.and(" seconds from now: make one for each message, as it is sent");
        return Err(Error::with(Code::DelegationInvalid, words));
    }
    let at = Timestamp::from_second(at).ok();
    at.and_then(|at| at.checked_add(MAX_PROOF_SKEW).ok()).ok_or_else(invalid)
}
