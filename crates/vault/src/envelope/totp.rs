//! Time-based codes (RFC 6238) that open a store again which has locked itself.
//!
//! The 32-byte secret wraps the vault's key and is itself sealed with it, so it comes into memory
//! only when a stronger factor has opened the store once: a code can reopen, never cold-start. The
//! broker keeps it over a relock by timer and drops it when a human locks. Source:
//! reference/secrets.md, 8.1, with its weaknesses mended: replays count as failures, and neither
//! the last code nor a lockout is forgotten by locking. What the store keeps of that is sealed with a key of the
//! app's secret, which is there whenever a code is judged, and the vault's own key is not.

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
const GATE_INFO: &str = "keyless/v1/envelope/totp/gate";
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
    /// How many codes were judged: what the store has is no older than what is known here, or was put back.
    judged: u64,
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
    judged: u64,
    /// Over all the others, in hexadecimal.
    seal: String,
}

impl Kept {
    /// The state in `told`, and whether a holder of `secret` wrote it. What can't be read gives an empty state.
    fn read(told: &str, secret: &TotpSecret) -> (Self, bool) {
        let kept: Self = serde_json::from_str(told).unwrap_or_default();
        let fits = kept.seal_by(secret).as_bytes().ct_eq(kept.seal.as_bytes()).into();
        (kept, fits)
    }

    fn seal_by(&self, secret: &TotpSecret) -> String {
        let Self {
            last_accepted,
            failures,
            slow_failures,
            closings,
            closed_until,
            judged,
            seal: _,
        } = self;
        let all = (last_accepted, failures, slow_failures, closings, closed_until, judged);
        let text = serde_json::to_vec(&all).expect("plain data");
        let key = key::derive(None, &*secret.0, GATE_INFO);
        data_encoding::HEXLOWER.encode(&key::derive_mac(&key, &[&text]))
    }
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
        self.judged = self.judged.saturating_add(1);
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
                let judged = self.judged;
                *self = Self { last_accepted: Some(accepted), judged, ..Self::default() };
                Ok(())
            }
            Some(_) => Err(self.fail(clock, Code::TotpReplayed)),
            None => Err(self.fail(clock, Code::TotpWrong)),
        }
    }

    /// The gate with what the store was told by [`TotpGate::told`], by whichever process, at `now`, which is `clock` here.
    /// Where nothing stands there that who has `secret` has written, or something older than what is known here,
    /// somebody else has written the store: what is known here holds. Where nothing is known here either, it holds as far as it
    /// hinders, and no code of this moment is good, since it may have been used.
    #[must_use]
    pub fn joined(
        self,
        told: Option<&str>,
        secret: &TotpSecret,
        now: Timestamp,
        clock: Duration,
    ) -> Self {
        let (kept, is_ours) = Kept::read(told.unwrap_or_default(), secret);
        match is_ours {
            true if kept.judged >= self.judged => Self::of(kept, now, clock).no_earlier_than(&self),
            false if self.judged == 0 => {
                let step = now.as_second().div_euclid(STEP) + 1;
                let last_accepted = Some(Accepted { app: secret.app(), step });
                Self { last_accepted, judged: 0, ..Self::of(kept, now, clock) }
            }
            _ => self,
        }
    }

    /// One that is known from now on, whether or not a code was judged yet.
    #[must_use]
    pub(crate) fn settled(self) -> Self {
        Self { judged: self.judged.max(1), ..self }
    }

    /// A wall clock that was set prolongs no lockout beyond its length.
    fn of(kept: Kept, now: Timestamp, clock: Duration) -> Self {
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
            judged: kept.judged,
        }
    }

    /// The gate of an app that was just enrolled, in the same words as [`TotpGate::told`].
    pub(crate) fn told_at_enrolment(secret: &TotpSecret) -> String {
        Self { judged: 1, ..Self::default() }.told(secret, Timestamp::UNIX_EPOCH, Duration::ZERO)
    }

    /// The gate in words that another process takes up.
    pub fn told(&self, secret: &TotpSecret, now: Timestamp, clock: Duration) -> String {
        let then = |at: &Duration| now.saturating_sub(clock.saturating_sub(*at)).ok();
        let until = |end: Duration| now.saturating_add(end.saturating_sub(clock)).ok();
        let mut kept = Kept {
            last_accepted: self.last_accepted.clone(),
            failures: self.failures.iter().filter_map(then).collect(),
            slow_failures: self.slow_failures,
            closings: self.closings,
            closed_until: self.closed_until.and_then(until),
            judged: self.judged,
            seal: String::new(),
        };
        kept.seal = kept.seal_by(secret);
        serde_json::to_string(&kept).expect("plain data")
    }

    /// This state, in which no code is good that was used according to `other` either.
    #[must_use]
    fn no_earlier_than(mut self, other: &Self) -> Self {
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

    fn taken_up(told: &str, second: i64, clock: u64) -> TotpGate {
        let clock = Duration::from_secs(clock);
        TotpGate::default().joined(Some(told), &secret(), at(second), clock)
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
            let mut next = taken_up(&gate.told(&secret(), at(9004), clock(9004)), second, 1);
            let judged = next.check(&secret(), code, at(second), clock(1));
            (next, judged.err().map(|error| error.code()))
        };
        assert_eq!(again(&gate, 9005, &right(9000)).1, Some(Code::TotpReplayed));
        let (closed, fifth) = again(&gate, 9005, "x");
        assert_eq!(fifth, Some(Code::TotpWrong));
        let told = closed.told(&secret(), at(9005), clock(1));
        for (second, expected) in [
            (9006, Some(Code::TotpClosed)),
            (9064, Some(Code::TotpClosed)),
            (9065, None),
            // The wall clock was set back: no longer than a lockout lasts.
            (5000, Some(Code::TotpClosed)),
        ] {
            let mut next = taken_up(&told, second, 3);
            let judged = next.check(&secret(), &right(second), at(second), clock(3));
            assert_eq!(judged.err().map(|error| error.code()), expected, "{second}");
        }
        let mut back = taken_up(&told, 5000, 3);
        back.check(&secret(), &right(9030), at(9030), clock(63)).unwrap();
    }

    /// Who can write the store has no secret: what they put there, or put back, makes no code good again and opens no gate.
    #[test]
    fn what_somebody_else_has_written_opens_nothing() {
        let clock = Duration::from_secs;
        let mut gate = TotpGate::default();
        assert_eq!(refusal(&mut gate, &right(9000), 9000), None);
        let early = gate.told(&secret(), at(9000), clock(9000));
        for second in 9001..=9005 {
            assert_eq!(refusal(&mut gate, "x", second), Some(Code::TotpWrong));
        }
        let late = gate.told(&secret(), at(9005), clock(9005));
        let emptied = late.replace("\"closings\":1", "\"closings\":0");
        assert_ne!(late, emptied);
        for told in [None, Some("?"), Some("{}"), Some(&early[..]), Some(&emptied[..])] {
            let mut here = gate.clone().joined(told, &secret(), at(9006), clock(9006));
            assert_eq!(refusal(&mut here, &right(9030), 9006), Some(Code::TotpClosed), "{told:?}");
        }
        // A process that knows nothing yet takes no code that may have been used, and a lockout from anybody.
        for (told, expected) in [
            (None, Code::TotpReplayed),
            (Some("{}"), Code::TotpReplayed),
            (Some(&emptied[..]), Code::TotpClosed),
        ] {
            let mut fresh = TotpGate::default().joined(told, &secret(), at(9006), clock(9006));
            assert_eq!(refusal(&mut fresh, &right(9030), 9006), Some(expected), "{told:?}");
            assert_eq!(refusal(&mut fresh, &right(9090), 9090), None, "{told:?}");
        }
        // An app that was just enrolled has used none.
        let enrolled = TotpGate::told_at_enrolment(&secret());
        let mut fresh = taken_up(&enrolled, 9006, 1);
        assert_eq!(refusal(&mut fresh, &right(9006), 9006), None);
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
