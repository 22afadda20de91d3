//! How long a store stays open, and the timer that closes it.
//!
//! ```text
//! open ──window over, or idle too long──► locked ──code of the app──► open ──► …
//!   │                                       │
//!   └── no app enrolled ──► the broker ends ◄┴── the longest time since a stronger factor is over
//! ```
//!
//! A timer, not the next request, closes the store: with no traffic it closes on time. Sessions
//! live on while it is locked; what they ask for is refused until it is open again. The window of
//! `config.toml` is the operator's; who asks for more gets what it allows.
//! Source: reference/secrets.md, sections 8 and 19 (rows 12 and 19).

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use jiff::Timestamp;
use keyless_core::{
    ApproveOnUse, Code, Error, SafeText,
    audit::{Action, Agent},
};
use keyless_store::AuditLog;
use keyless_vault::{LOOK, Moment, Vault};
use parking_lot::Mutex;
use serde::Deserialize;
use tokio::sync::Notify;

use crate::{broker::agent, opening};

/// `[unlock]` of `config.toml`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct UnlockConfig {
    /// What the others are when they are absent.
    pub profile: Profile,
    /// How long an unlock lasts: `"8h"`.
    pub window: Option<Span>,
    /// How long codes may prolong it since the passphrase: `"24h"`.
    pub longest: Option<Span>,
    /// How long no value may be used before the store locks: `"5m"`.
    pub idle: Option<Span>,
}

/// Ease or caution.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Profile {
    /// 8 hours, 24 with codes, however idle.
    #[default]
    Convenient,
    /// 15 minutes, an hour with codes, 5 minutes idle; every use is asked about.
    Strict,
}

/// A time such as `90s`, `30m` or `8h`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub struct Span(Duration);

/// How long a store stays open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    /// From an unlock, or a code.
    pub length: Duration,
    /// From the last stronger factor.
    pub longest: Duration,
    /// Without a use.
    pub idle: Option<Duration>,
    /// The least that every secret asks for.
    pub floor: ApproveOnUse,
}

/// Closes the store when it is time, and opens it again.
pub(crate) struct Keeper {
    vault: Arc<Vault>,
    log: AuditLog,
    /// That the store is open is on record, and that it was closed is not yet.
    on_record: AtomicBool,
    /// That codes open the store again is so, and that none does any more is not on record yet.
    takes_codes: AtomicBool,
    window: Window,
    born: Moment,
    locks_at: Mutex<Moment>,
    /// The window has changed.
    changed: Notify,
}

impl UnlockConfig {
    /// The window, for `asked` where that is shorter. `Code::ConfigInvalid` when the file's words
    /// don't fit each other.
    pub fn window(&self, asked: Option<Duration>) -> Result<Window, Error> {
        let (length, longest, idle, floor) = match self.profile {
            Profile::Convenient => (hours(8), hours(24), None, ApproveOnUse::Never),
            Profile::Strict => {
                let idle = Some(Duration::from_mins(5));
                (Duration::from_mins(15), hours(1), idle, ApproveOnUse::PerCall)
            }
        };
        let length = self.window.map_or(length, |span| span.0);
        let longest = self.longest.map_or(longest, |span| span.0);
        let idle = self.idle.map(|span| span.0).or(idle);
        if length > longest {
            let words = SafeText::words("[unlock] window is ").number(length.as_secs());
            let words = words.and(" s and longest is ").number(longest.as_secs());
            let words = words.and(" s: longest must be at least as long as window, and where one is not said it is the profile's");
            return Err(Error::with(Code::ConfigInvalid, words));
        }
        let length = asked.map_or(length, |asked| asked.min(longest));
        Ok(Window { length, longest, idle, floor })
    }
}

impl Window {
    /// How a line begins that says so.
    const LINE: &str = "[unlock] ";

    /// Itself, as a line that can be agreed to.
    pub(crate) fn line(&self) -> String {
        let Self { length, longest, idle, floor } = self;
        let idle = idle.map_or("never".to_owned(), |idle| idle.as_secs().to_string());
        let (length, longest) = (length.as_secs(), longest.as_secs());
        format!("{}window {length}, longest {longest}, idle {idle}, asks {floor}", Self::LINE)
    }

    /// The window that a line says; nothing where it says something else.
    pub(crate) fn of_line(line: &str) -> Option<Self> {
        let words: Vec<&str> = line.strip_prefix(Self::LINE)?.split(", ").collect();
        let [length, longest, idle, floor] = words[..] else { return None };
        let seconds = |word: &str| Some(Duration::from_secs(word.parse().ok()?));
        let floors = [ApproveOnUse::Never, ApproveOnUse::Session, ApproveOnUse::PerCall];
        let floor = floor.strip_prefix("asks ")?;
        Some(Self {
            length: seconds(length.strip_prefix("window ")?)?,
            longest: seconds(longest.strip_prefix("longest ")?)?,
            idle: seconds(idle.strip_prefix("idle ")?),
            floor: floors.into_iter().find(|one| one.to_string() == floor)?,
        })
    }

    /// Whether it keeps the store open for longer in any way, or asks less often.
    pub(crate) fn is_looser_than(&self, other: &Self) -> bool {
        let idle = |window: &Self| window.idle.unwrap_or(Duration::MAX);
        self.length > other.length
            || self.longest > other.longest
            || idle(self) > idle(other)
            || self.floor.tightened_by(other.floor) != self.floor
    }

    /// This window for a store that a run opens for itself: it stays open to that run's end, so until its agent's.
    pub(crate) fn for_one_run(self) -> Self {
        let life = hours(7 * 24);
        Self { length: life, longest: life, idle: None, ..self }
    }
}

impl Keeper {
    /// Keeps a vault that was just opened by a stronger factor.
    pub(crate) fn new(vault: Arc<Vault>, log: AuditLog, window: Window) -> Self {
        let (born, on_record, takes_codes) =
            (Moment::now(), AtomicBool::default(), AtomicBool::default());
        let locks_at = Mutex::new(born + window.length);
        Self { vault, log, on_record, takes_codes, window, born, locks_at, changed: Notify::new() }
    }

    /// Writes down that the operator has opened the store, and by what.
    pub(crate) async fn opened(&self, by: &str) {
        self.opened_by(agent("operator", "operator"), by).await;
    }

    async fn opened_by(&self, who: Agent, by: &str) {
        self.on_record.store(true, Ordering::Relaxed);
        self.takes_codes.store(false, Ordering::Relaxed);
        opening::record(&self.log, Action::Unlock, who, by).await;
    }

    /// Writes down that the store was closed, by whom and why, if that is not on record: a store that has locked itself is
    /// closed once more when no code opens it any longer.
    pub(crate) async fn closed(&self, who: &str, why: &str) {
        self.closed_until(false, who, why).await;
    }

    /// As [`Self::closed`], of a store that codes open again if it `takes_codes`.
    async fn closed_until(&self, takes_codes: bool, who: &str, why: &str) {
        let was_open = self.on_record.swap(false, Ordering::Relaxed);
        let took_codes = self.takes_codes.swap(takes_codes, Ordering::Relaxed);
        if was_open || took_codes {
            opening::record(&self.log, Action::Lock, agent(who, who), why).await;
        }
    }

    /// Runs until nothing but a stronger factor opens the store again.
    pub(crate) async fn run(&self) {
        // What can't be settled now is when the first code comes.
        let _ = self.vault.settle_codes(Timestamp::now(), self.born.elapsed()).await;
        loop {
            self.until_closing().await;
            // A code may have come meanwhile. What can't be read can't be reopened either.
            let relocked = self.vault.relock(|| self.rest().is_zero()).await;
            let Some(reopens) = relocked.unwrap_or(Some(false)) else { continue };
            if !reopens {
                self.vault.lock();
            }
            self.closed_until(reopens, "broker", "its time is over").await;
            if !reopens {
                return;
            }
            let end = (self.born + self.window.longest).over();
            tokio::select! {
                () = end => {
                    self.vault.lock();
                    return self.closed("broker", "no code opens it any longer").await;
                }
                () = self.until_open() => {}
            }
        }
    }

    /// Opens the locked store by a code, for at most what the window allows. Gives for how long. `session` is the
    /// agent's that has sent it, which is on record, as a wrong code is; without one it was the operator.
    pub(crate) async fn reopen(
        &self,
        code: &str,
        asked: Option<Duration>,
        session: Option<&str>,
    ) -> Result<Duration, Error> {
        let sender = session.map(|session| agent("mcp", session));
        let opener = sender.clone().unwrap_or_else(|| agent("operator", "operator"));
        let granted = self.open_again(code, asked, opener).await;
        if let Err(error) = &granted {
            let who = sender.unwrap_or_else(opening::unproven);
            opening::record_refusal(&self.log, who, error.code()).await;
        }
        granted
    }

    async fn open_again(
        &self,
        code: &str,
        asked: Option<Duration>,
        who: Agent,
    ) -> Result<Duration, Error> {
        let end = self.born + self.window.longest;
        let most = asked.unwrap_or(self.window.length).min(self.window.length);
        let mut granted = Duration::ZERO;
        let opening = || {
            granted = most.min(end.left());
            *self.locks_at.lock() = Moment::now() + granted;
        };
        let (now, clock) = (Timestamp::now(), self.born.elapsed());
        self.vault.reopen(code, now, clock, opening).await?;
        self.changed.notify_waiters();
        self.opened_by(who, "a code").await;
        Ok(granted)
    }

    /// Takes a code as proof of the operator: it opens a store that has locked itself, and is judged alone
    /// at an open one. Who asks for it puts a wrong one on record.
    pub(crate) async fn prove(&self, code: &str) -> Result<(), Error> {
        if self.vault.is_open() {
            return self.vault.judge_code(code, Timestamp::now(), self.born.elapsed()).await;
        }
        self.open_again(code, None, agent("operator", "operator")).await.map(drop)
    }

    /// The least that every secret asks for.
    pub(crate) fn floor(&self) -> ApproveOnUse {
        self.window.floor
    }

    /// Until the store locks, as things are; nothing while it is locked.
    pub(crate) fn locks_in(&self) -> Option<Duration> {
        let open = self.vault.is_open();
        open.then(|| self.locks_at.lock().left())
    }

    /// Whether a code can open the store.
    pub(crate) fn takes_codes(&self) -> bool {
        self.vault.can_reopen()
    }

    /// How long the store stays open from now on, if nobody uses it.
    fn rest(&self) -> Duration {
        let rest = self.locks_at.lock().left();
        let idle = self.window.idle.map(|idle| idle.saturating_sub(self.vault.idle()));
        idle.map_or(rest, |idle| idle.min(rest))
    }

    async fn until_closing(&self) {
        loop {
            let changed = self.changed.notified();
            let wait = self.rest();
            if wait.is_zero() {
                return;
            }
            tokio::select! {
                () = tokio::time::sleep(wait.min(LOOK)) => {}
                () = changed => {}
            }
        }
    }

    async fn until_open(&self) {
        loop {
            let changed = self.changed.notified();
            if self.vault.is_open() {
                return;
            }
            changed.await;
        }
    }
}

impl Span {
    /// Reads `90s`, `30m`, `8h`: from a second to a week.
    pub fn parse(text: &str) -> Result<Self, String> {
        let fault = || "a number and s, m or h, such as 30m".to_owned();
        let unit = text.chars().next_back().ok_or_else(fault)?;
        let number: u64 = text[..text.len() - unit.len_utf8()].parse().map_err(|_| fault())?;
        let seconds = match unit {
            's' => number,
            'm' => number.saturating_mul(60),
            'h' => number.saturating_mul(3600),
            _ => return Err(fault()),
        };
        match seconds {
            1..=604_800 => Ok(Self(Duration::from_secs(seconds))),
            _ => Err("from 1s to 168h".to_owned()),
        }
    }

    /// The time.
    pub fn duration(self) -> Duration {
        self.0
    }
}

impl TryFrom<String> for Span {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        Self::parse(&text)
    }
}

fn hours(count: u64) -> Duration {
    Duration::from_hours(count)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn window(text: &str, asked: Option<u64>) -> Result<Window, Code> {
        let config: UnlockConfig = toml::from_str(text).unwrap();
        config.window(asked.map(Duration::from_secs)).map_err(|error| error.code())
    }

    #[test]
    fn profiles_are_as_documented() {
        let easy = window("", None).unwrap();
        assert_eq!((easy.length, easy.longest, easy.idle), (hours(8), hours(24), None));
        let strict = window("profile = \"strict\"", None).unwrap();
        assert_eq!(strict.length, Duration::from_mins(15));
        assert_eq!((strict.longest, strict.idle), (hours(1), Some(Duration::from_mins(5))));
        assert_eq!(strict.floor, ApproveOnUse::PerCall);
        let own = window("profile = \"strict\"\nidle = \"30s\"", None).unwrap();
        assert_eq!(own.idle, Some(Duration::from_secs(30)));
    }

    #[test]
    fn who_asks_for_more_gets_what_there_is() {
        assert_eq!(window("", Some(60)).unwrap().length, Duration::from_mins(1));
        assert_eq!(window("longest = \"10h\"", Some(1_000_000)).unwrap().length, hours(10));
        let unfit = window("window = \"2h\"\nlongest = \"1h\"", None);
        assert_eq!(unfit, Err(Code::ConfigInvalid));
    }

    #[test]
    fn times_read() {
        assert_eq!(Span::parse("30m").unwrap().0.as_secs(), 1800);
        for bad in ["", "30", "m", "0s", "8d", "9999h", "1é"] {
            assert!(Span::parse(bad).is_err(), "{bad}");
        }
    }
}
