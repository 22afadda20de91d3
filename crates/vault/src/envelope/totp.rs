//! Time-based codes (RFC 6238) that open a store again which has locked itself.
//!
//! The 32-byte secret wraps the vault's key and is itself sealed with it, so it comes into memory
//! only when a stronger factor has opened the store once: a code can reopen, never cold-start. The
//! broker keeps it over a relock by timer and drops it when a human locks. Source:
//! reference/secrets.md, 8.1, with its weaknesses mended: replays count as failures, and neither
//! the last code nor a lockout is forgotten by locking.

use std::{collections::VecDeque, fmt, time::Duration};

use data_encoding::BASE32_NOPAD;
use hmac::{Hmac, KeyInit, Mac};
use jiff::Timestamp;
use keyless_core::{Code, Error, SafeText};
use serde::{Deserialize, Serialize};
use sha1::Sha1;
use subtle::ConstantTimeEq;
use zeroize::Zeroizing;

use super::{draw_salt, read_salt, unreadable};
use crate::{
    key::{self, KEY_BYTES, Purpose, Subkey, VaultKey},
    random,
    seal::{self, Sealed},
};

const INFO: &str = "keyless/v1/envelope/totp";
const APP_INFO: &str = "keyless/v1/envelope/totp/app";
const APP_BYTES: usize = 8;
const LABEL: &str = "totp-secret";
/// Seconds that a code is for.
const STEP: i64 = 30;
const DIGITS: usize = 6;
/// This many failures within [`FAILURE_WINDOW`] close the gate for [`LOCKOUT`].
const FAILURES: usize = 5;
const FAILURE_WINDOW: Duration = Duration::from_secs(30);
/// This many do so however far they are apart: nobody mistypes as often without one that is right.
const SLOW_FAILURES: u32 = 100;
/// For how long the gate is closed at first. Each time after that it is twice as long, until a code is right.
const LOCKOUT: Duration = Duration::from_mins(1);
/// How often that doubles: to about an hour.
const DOUBLINGS: u32 = 6;

/// The secret that an authenticator app shares; wiped on drop, never printed.
pub struct TotpSecret(Zeroizing<[u8; KEY_BYTES]>);

/// Judges codes: each opens once, and guessing is cut short.
#[derive(Clone, Debug, Default)]
pub struct TotpGate {
    last_accepted: Option<Accepted>,
    /// When the recent failures were, on the caller's monotonic clock.
    failures: VecDeque<Duration>,
    /// How many there were since the gate was closed last.
    slow_failures: u32,
    /// How often it was closed since a code was right.
    closings: u32,
    closed_until: Option<Duration>,
}

/// A code that was right.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Accepted {
    /// A name for the app: steps of another one are none of its own.
    app: String,
    step: i64,
}

/// A gate as the next process takes it up: a clock that never jumps is that of one process.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
struct Kept {
    last_accepted: Option<Accepted>,
    failures: Vec<Timestamp>,
    slow_failures: u32,
    closings: u32,
    closed_until: Option<Timestamp>,
}

/// What stands in the envelope beside the wrapped key.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Parameters {
    salt: String,
    nonce: String,
    sealed_secret: String,
}

impl TotpSecret {
    pub(crate) fn generate() -> Result<Self, Error> {
        Ok(Self(Zeroizing::new(random::bytes::<KEY_BYTES>()?)))
    }

    /// The `otpauth://` URI for an authenticator app, to show to the operator once.
    pub fn expose_to_operator(&self) -> Zeroizing<String> {
        let secret = Zeroizing::new(BASE32_NOPAD.encode(&*self.0));
        Zeroizing::new(format!(
            "otpauth://totp/Keyless:store?secret={}&issuer=Keyless&algorithm=SHA1&digits=6&period=30",
            *secret
        ))
    }

    pub(super) fn wrapping_key(&self, parameters: &Parameters) -> Result<Subkey, Error> {
        Ok(key::derive(Some(&read_salt(&parameters.salt)?), &*self.0, INFO))
    }

    /// Reads the secret back from its envelope's parameters, with the vault's key.
    pub(super) fn unseal(text: &str, key: &VaultKey) -> Result<Self, Error> {
        let parameters: Parameters = serde_json::from_str(text).map_err(|_| unreadable())?;
        let decode =
            |text: &str| data_encoding::BASE64.decode(text.as_bytes()).map_err(|_| unreadable());
        let (nonce, sealed) = (decode(&parameters.nonce)?, decode(&parameters.sealed_secret)?);
        let opened = seal::open(&key.derive(Purpose::Totp), LABEL, &nonce, &sealed);
        let bytes = Zeroizing::new(opened.map_err(|_| Error::from(Code::StoreTampered))?);
        let mut secret = Zeroizing::new([0; KEY_BYTES]);
        if bytes.len() != KEY_BYTES {
            return Err(unreadable());
        }
        secret.copy_from_slice(&bytes);
        Ok(Self(secret))
    }

    /// Tells one app from another, and nothing of its secret.
    fn app(&self) -> String {
        let name = key::derive(None, &*self.0, APP_INFO);
        data_encoding::HEXLOWER.encode(&name[..APP_BYTES])
    }

    fn code_of(&self, step: i64) -> String {
        code(&*self.0, step)
    }
}

impl TotpGate {
    /// Accepts `code` at `now`, if it is one of this moment that was not used before. `clock` is
    /// any time that never jumps; failures are counted by it.
    ///
    /// Fails with [`Code::TotpWrong`], [`Code::TotpReplayed`], or [`Code::TotpClosed`] while too
    /// many failures have closed the gate, also for a right code.
    pub fn check(
        &mut self,
        secret: &TotpSecret,
        code: &str,
        now: Timestamp,
        clock: Duration,
    ) -> Result<(), Error> {
        self.refuse_while_closed(clock)?;
        let current = now.as_second().div_euclid(STEP);
        // Every candidate is computed and compared, whatever was found before.
        let mut found = None;
        for step in [current - 1, current, current + 1] {
            if bool::from(secret.code_of(step).as_bytes().ct_eq(code.trim().as_bytes())) {
                found = Some(step);
            }
        }
        match found {
            Some(step) if !self.was_used(&secret.app(), step) => {
                let accepted = Accepted { app: secret.app(), step };
                *self = Self { last_accepted: Some(accepted), ..Self::default() };
                Ok(())
            }
            Some(_) => Err(self.fail(clock, Code::TotpReplayed)),
            None => Err(self.fail(clock, Code::TotpWrong)),
        }
    }

    /// The gate as it was told by [`TotpGate::told`], at `now`, which is `clock` here. What can't be read tells
    /// nothing; a wall clock that was set prolongs no lockout beyond its length.
    #[must_use]
    pub fn taken_up(told: &str, now: Timestamp, clock: Duration) -> Self {
        let kept: Kept = serde_json::from_str(told).unwrap_or_default();
        let since = |at: Timestamp| Duration::try_from(now.duration_since(at)).unwrap_or_default();
        let recent = kept.failures.iter().map(|at| since(*at)).filter(|ago| *ago < FAILURE_WINDOW);
        let closed_until = kept.closed_until.map(|until| {
            let rest = Duration::try_from(until.duration_since(now)).unwrap_or_default();
            clock + rest.min(lockout(kept.closings.saturating_sub(1)))
        });
        Self {
            last_accepted: kept.last_accepted,
            // This process may be younger than the failure.
            failures: recent.map(|ago| clock.saturating_sub(ago)).take(FAILURES).collect(),
            slow_failures: kept.slow_failures,
            closings: kept.closings,
            closed_until,
        }
    }

    /// The gate in words that another process takes up.
    pub fn told(&self, now: Timestamp, clock: Duration) -> String {
        let then = |at: &Duration| now.saturating_sub(clock.saturating_sub(*at)).ok();
        let until = |end: Duration| now.saturating_add(end.saturating_sub(clock)).ok();
        let kept = Kept {
            last_accepted: self.last_accepted.clone(),
            failures: self.failures.iter().filter_map(then).collect(),
            slow_failures: self.slow_failures,
            closings: self.closings,
            closed_until: self.closed_until.and_then(until),
        };
        serde_json::to_string(&kept).expect("plain data")
    }

    /// The same, and no code is good that was used in `other`'s eyes.
    #[must_use]
    pub fn no_earlier_than(mut self, other: &Self) -> Self {
        if let Some(Accepted { app, step }) = &other.last_accepted
            && self.last_accepted.as_ref().is_none_or(|last| last.app == *app && last.step < *step)
        {
            self.last_accepted.clone_from(&other.last_accepted);
        }
        self
    }

    fn was_used(&self, app: &str, step: i64) -> bool {
        self.last_accepted.as_ref().is_some_and(|last| last.app == app && step <= last.step)
    }

    fn refuse_while_closed(&mut self, clock: Duration) -> Result<(), Error> {
        match self.closed_until {
            Some(until) if clock < until => Err(closed(until.saturating_sub(clock))),
            _ => {
                self.closed_until = None;
                Ok(())
            }
        }
    }

    fn fail(&mut self, clock: Duration, code: Code) -> Error {
        self.failures.retain(|at| clock.saturating_sub(*at) < FAILURE_WINDOW);
        self.failures.push_back(clock);
        self.slow_failures = self.slow_failures.saturating_add(1);
        if self.failures.len() >= FAILURES || self.slow_failures >= SLOW_FAILURES {
            self.failures.clear();
            self.slow_failures = 0;
            self.closed_until = Some(clock + lockout(self.closings));
            self.closings = self.closings.saturating_add(1);
        }
        code.into()
    }
}

impl fmt::Debug for TotpSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TotpSecret")
    }
}

impl Parameters {
    pub(super) fn draw(secret: &TotpSecret, key: &VaultKey) -> Result<Self, Error> {
        let Sealed { nonce, ciphertext } =
            seal::seal(&key.derive(Purpose::Totp), LABEL, &*secret.0)?;
        Ok(Self {
            salt: draw_salt()?,
            nonce: data_encoding::BASE64.encode(&nonce),
            sealed_secret: data_encoding::BASE64.encode(&ciphertext),
        })
    }
}

/// For how long the gate is closed, when it was closed so often since a code was right.
fn lockout(closings: u32) -> Duration {
    LOCKOUT * 2_u32.pow(closings.min(DOUBLINGS))
}

fn closed(rest: Duration) -> Error {
    let seconds = rest.as_secs() + 1;
    let words = SafeText::words("too many codes; try again in ").number(seconds).and(" s");
    Error::with(Code::TotpClosed, words).again_after(Some(seconds))
}

/// HOTP (RFC 4226) of a step, in six digits.
fn code(secret: &[u8], step: i64) -> String {
    let mut mac = <Hmac<Sha1> as KeyInit>::new_from_slice(secret).expect("any length of key");
    mac.update(&step.to_be_bytes());
    let digest = mac.finalize().into_bytes();
    let offset = usize::from(digest[19] & 0x0f);
    let word: [u8; 4] = digest[offset..offset + 4].try_into().expect("four bytes");
    let number = (u32::from_be_bytes(word) & 0x7fff_ffff) % 1_000_000;
    format!("{number:0DIGITS$}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn secret() -> TotpSecret {
        TotpSecret(Zeroizing::new([7; KEY_BYTES]))
    }

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn refusal(gate: &mut TotpGate, code: &str, second: i64) -> Option<Code> {
        let clock = Duration::from_secs(u64::try_from(second).unwrap());
        gate.check(&secret(), code, at(second), clock).err().map(|error| error.code())
    }

    fn right(second: i64) -> String {
        secret().code_of(second / STEP)
    }

    /// RFC 6238, appendix B (SHA-1), the last six of its eight digits.
    #[test]
    fn the_vectors_of_the_rfc() {
        let vectors: [(i64, &str); 6] = [
            (59, "287082"),
            (1_111_111_109, "081804"),
            (1_111_111_111, "050471"),
            (1_234_567_890, "005924"),
            (2_000_000_000, "279037"),
            (20_000_000_000, "353130"),
        ];
        for (second, expected) in vectors {
            assert_eq!(code(b"12345678901234567890", second / STEP), expected, "{second}");
        }
    }

    #[test]
    fn a_code_of_the_step_before_and_after_opens_and_others_do_not() {
        for (skew, expected) in [
            (-60, Some(Code::TotpWrong)),
            (-30, None),
            (0, None),
            (30, None),
            (60, Some(Code::TotpWrong)),
        ] {
            let mut gate = TotpGate::default();
            assert_eq!(refusal(&mut gate, &right(9000 + skew), 9000), expected, "{skew}");
        }
    }

    #[test]
    fn a_code_opens_once_and_an_earlier_one_no_more() {
        let mut gate = TotpGate::default();
        assert_eq!(refusal(&mut gate, &right(9000), 9000), None);
        assert_eq!(refusal(&mut gate, &right(9000), 9001), Some(Code::TotpReplayed));
        assert_eq!(refusal(&mut gate, &right(8970), 9002), Some(Code::TotpReplayed));
        assert_eq!(refusal(&mut gate, &right(9030), 9003), None);
    }

    /// Three codes of a million are right at any time: four guesses in each half minute would find one within weeks.
    #[test]
    fn guessing_gets_slower_until_a_code_is_right() {
        let (mut gate, mut second, mut guesses) = (TotpGate::default(), 9000, 0);
        for _ in 0..24 * 3600 / 8 {
            second += 8;
            guesses += u32::from(refusal(&mut gate, "x", second) == Some(Code::TotpWrong));
        }
        assert!(guesses < 3000, "{guesses} in a day, eight seconds apart");
        // The person who has the app waits for an hour at most, and all is as it was.
        second += 3840;
        assert_eq!(refusal(&mut gate, &right(second), second), None);
        for _ in 0..5 {
            assert_eq!(refusal(&mut gate, "x", second), Some(Code::TotpWrong));
        }
        assert_eq!(refusal(&mut gate, &right(second + 60), second + 60), None);
    }

    #[test]
    fn five_failures_close_the_gate_for_a_minute() {
        let mut gate = TotpGate::default();
        assert_eq!(refusal(&mut gate, &right(9000), 9000), None);
        // Replays count as well.
        for second in 9001..=9003 {
            assert_eq!(refusal(&mut gate, "000000", second), Some(Code::TotpWrong));
        }
        for second in 9004..=9005 {
            assert_eq!(refusal(&mut gate, &right(9000), second), Some(Code::TotpReplayed));
        }
        assert_eq!(refusal(&mut gate, &right(9030), 9035), Some(Code::TotpClosed));
        assert_eq!(refusal(&mut gate, &right(9060), 9064), Some(Code::TotpClosed));
        assert_eq!(refusal(&mut gate, &right(9065), 9065), None);
    }

    #[test]
    fn sparse_mistakes_never_close_it() {
        let mut gate = TotpGate::default();
        for round in 0..20 {
            assert_eq!(refusal(&mut gate, "junk", 9000 + round * 10), Some(Code::TotpWrong));
        }
        assert_eq!(refusal(&mut gate, &right(9300), 9300), None);
    }

    /// A process that takes the gate up counts on from where the one before it was.
    #[test]
    fn another_process_counts_on() {
        let clock = Duration::from_secs;
        let mut gate = TotpGate::default();
        assert_eq!(refusal(&mut gate, &right(9000), 9000), None);
        for second in 9001..=9004 {
            assert_eq!(refusal(&mut gate, "x", second), Some(Code::TotpWrong));
        }
        let again = |gate: &TotpGate, second: i64, code: &str| {
            let mut next =
                TotpGate::taken_up(&gate.told(at(9004), clock(9004)), at(second), clock(1));
            let judged = next.check(&secret(), code, at(second), clock(1));
            (next, judged.err().map(|error| error.code()))
        };
        assert_eq!(again(&gate, 9005, &right(9000)).1, Some(Code::TotpReplayed));
        let (closed, fifth) = again(&gate, 9005, "x");
        assert_eq!(fifth, Some(Code::TotpWrong));
        let told = closed.told(at(9005), clock(1));
        for (second, expected) in [
            (9006, Some(Code::TotpClosed)),
            (9064, Some(Code::TotpClosed)),
            (9065, None),
            // The wall clock was set back: no longer than a lockout lasts.
            (5000, Some(Code::TotpClosed)),
        ] {
            let mut next = TotpGate::taken_up(&told, at(second), clock(3));
            let judged = next.check(&secret(), &right(second), at(second), clock(3));
            assert_eq!(judged.err().map(|error| error.code()), expected, "{second}");
        }
        let mut back = TotpGate::taken_up(&told, at(5000), clock(3));
        back.check(&secret(), &right(9030), at(9030), clock(63)).unwrap();
        // What nobody can read tells nothing.
        assert_eq!(
            refusal(&mut TotpGate::taken_up("?", at(9000), clock(1)), &right(9000), 9000),
            None
        );
    }

    /// Setting the wall clock back or forth neither reopens the gate nor revives a code.
    #[test]
    fn clock_jumps_gain_nothing() {
        let (mut gate, secret) = (TotpGate::default(), secret());
        let clock = Duration::from_secs;
        gate.check(&secret, &right(9000), at(9000), clock(1)).unwrap();
        let back = gate.check(&secret, &right(6000), at(6000), clock(2)).unwrap_err();
        assert_eq!(back.code(), Code::TotpReplayed);
        for second in 3..=6 {
            gate.check(&secret, "000000", at(9000), clock(second)).unwrap_err();
        }
        let forth = gate.check(&secret, &right(90_000), at(90_000), clock(7)).unwrap_err();
        assert_eq!((forth.code(), forth.retry_after()), (Code::TotpClosed, Some(60)));
    }
}
