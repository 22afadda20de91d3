//! Locks an open vault without ending what stands on it, and opens it again by a code.
//!
//! ```text
//! open ──timer: relock──► locked, codes can reopen ──code──► open
//!   │                          │
//!   └──a human: lock───────────┴──► locked, and only a stronger factor opens
//! ```
//!
//! Locked, the vault's key is wiped and nothing that it sealed can be read; who holds the vault is
//! told [`Code::Locked`]. What the judge of codes knows outlives every lock, and the broker: the store keeps it, so
//! that two brokers judge as one. Source: reference/secrets.md, 8.1.

use std::{
    sync::{Arc, Mutex, PoisonError, RwLock},
    time::Duration,
};

use jiff::Timestamp;
use keyless_core::{Code, Error};

use super::{Vault, birth::blocking};
use crate::{
    envelope::{self, EnvelopeKind, TotpGate, TotpSecret},
    index::Index,
    key::VaultKey,
    moment::Moment,
};

/// The key, while the vault is open.
pub(super) struct KeyPlace(RwLock<Option<Arc<VaultKey>>>);

/// What codes are judged by, and the secret behind them while it is in memory.
#[derive(Default)]
pub(super) struct Reopening {
    codes: Mutex<Codes>,
    judge: tokio::sync::Mutex<Judge>,
}

/// The gate, as this process knows it.
#[derive(Default)]
struct Judge {
    gate: TotpGate,
    /// What it has told the store; while that stands there, no other has judged.
    told: Option<String>,
}

impl Judge {
    /// The gate with what the store was told, by this process or another.
    fn with(
        &self,
        told: Option<&str>,
        secret: &TotpSecret,
        now: Timestamp,
        clock: Duration,
    ) -> TotpGate {
        if told.is_some() && self.told.as_deref() == told {
            return self.gate.clone();
        }
        self.gate.clone().joined(told, secret, now, clock)
    }
}

/// Held while the key comes or goes, so that a human's lock is the last word.
#[derive(Default)]
struct Codes {
    secret: Option<Arc<TotpSecret>>,
    /// How often a human has locked the vault.
    locks: u64,
    /// How often it was locked, by whomever.
    closings: u64,
}

/// When a value was opened last.
pub(super) struct LastUse(Mutex<Moment>);

impl Vault {
    /// Wipes the key, as a timer does, if its time `is_over`, which is asked when nobody can open it meanwhile; nothing where
    /// it is not. Gives whether a code of the operator's authenticator app can open the vault again.
    pub async fn relock(&self, is_over: impl FnOnce() -> bool) -> Result<Option<bool>, Error> {
        let locks = lock(&self.reopening.codes).locks;
        if self.is_open() {
            let secret = self.totp_secret().await?.map(Arc::new);
            let mut codes = lock(&self.reopening.codes);
            if !is_over() {
                return Ok(None);
            }
            codes.secret = secret.filter(|_| codes.locks == locks);
            self.close(&mut codes);
        }
        Ok(Some(lock(&self.reopening.codes).secret.is_some()))
    }

    /// Wipes the key, as a human does: no code opens the vault again.
    pub fn lock(&self) {
        let mut codes = lock(&self.reopening.codes);
        codes.secret = None;
        codes.locks += 1;
        self.close(&mut codes);
    }

    /// Opens a vault that [`Vault::relock`] has locked. `clock` is any time that never jumps; `opening` is called when it
    /// will be open, before anybody can see that it is.
    ///
    /// Fails with [`Code::TotpUnavailable`] when no code can, else as [`TotpGate::check`] does. An
    /// open vault stays open, and the code is judged all the same.
    pub async fn reopen(
        &self,
        code: &str,
        now: Timestamp,
        clock: Duration,
        opening: impl FnOnce(),
    ) -> Result<(), Error> {
        let (secret, locks) = {
            let codes = lock(&self.reopening.codes);
            (codes.secret.clone().ok_or(Code::TotpUnavailable)?, codes.locks)
        };
        self.judge(&secret, code, now, clock).await?;
        let rows = self.store.rows().await?;
        let kind = EnvelopeKind::Totp.as_str();
        let row = rows.envelopes.iter().find(|row| row.kind == kind).cloned();
        let row = row.ok_or(Code::TotpUnavailable)?;
        let key = blocking(move || envelope::open_by_totp(&row, &secret)).await?;
        let index = Index::verify(&rows, &key)?;
        self.seen.lock().await.refuse_rollback(&index)?;
        let codes = lock(&self.reopening.codes);
        if codes.locks != locks {
            return Err(Code::TotpUnavailable.into());
        }
        opening();
        *self.key.0.write().unwrap_or_else(PoisonError::into_inner) = Some(Arc::new(key));
        self.last_use.now();
        Ok(())
    }

    /// Judges a code while the vault is open, and changes nothing: a person proves who they are.
    ///
    /// Fails with [`Code::TotpUnavailable`] when no app is enrolled, else as [`TotpGate::check`] does.
    pub async fn judge_code(
        &self,
        code: &str,
        now: Timestamp,
        clock: Duration,
    ) -> Result<(), Error> {
        let secret = self.totp_secret().await?.ok_or(Code::TotpUnavailable)?;
        self.judge(&secret, code, now, clock).await
    }

    /// Takes up what the store has of codes that were judged, while the vault is open: where nobody who has the app's
    /// secret has written that, the codes that may have been used are over by the time that the vault has locked itself.
    /// Nothing without an app. What can't be done now, the first code does.
    pub async fn settle_codes(&self, now: Timestamp, clock: Duration) -> Result<(), Error> {
        let Some(secret) = self.totp_secret().await? else { return Ok(()) };
        let mut judge = self.reopening.judge.lock().await;
        let told = self.store.code_gate().await?;
        let gate = judge.with(told.as_deref(), &secret, now, clock).settled();
        let next = gate.told(&secret, now, clock);
        if self.store.replace_code_gate(told.as_deref(), &next).await? {
            *judge = Judge { gate, told: Some(next) };
        }
        Ok(())
    }

    /// A code counts, right or wrong, once the store has it that it was judged.
    async fn judge(
        &self,
        secret: &TotpSecret,
        code: &str,
        now: Timestamp,
        clock: Duration,
    ) -> Result<(), Error> {
        let mut judge = self.reopening.judge.lock().await;
        loop {
            let told = self.store.code_gate().await?;
            let mut gate = judge.with(told.as_deref(), secret, now, clock);
            let judged = gate.check(secret, code, now, clock);
            let next = gate.told(secret, now, clock);
            if self.store.replace_code_gate(told.as_deref(), &next).await? {
                *judge = Judge { gate, told: Some(next) };
                return judged;
            }
        }
    }

    /// Whether values can be opened.
    pub fn is_open(&self) -> bool {
        self.key.0.read().unwrap_or_else(PoisonError::into_inner).is_some()
    }

    /// Whether a code can open the vault now: it is locked, and by a timer.
    pub fn can_reopen(&self) -> bool {
        !self.is_open() && lock(&self.reopening.codes).secret.is_some()
    }

    /// How often the vault was locked: what was opened before may be used on only while this stays.
    pub fn closings(&self) -> u64 {
        lock(&self.reopening.codes).closings
    }

    /// How long no value was opened, with the time that the machine was suspended.
    pub fn idle(&self) -> Duration {
        lock(&self.last_use.0).elapsed()
    }

    /// The key; [`Code::Locked`] while there is none.
    pub(super) fn key(&self) -> Result<Arc<VaultKey>, Error> {
        let key = self.key.0.read().unwrap_or_else(PoisonError::into_inner).clone();
        key.ok_or_else(|| Code::Locked.into())
    }

    fn close(&self, codes: &mut Codes) {
        codes.closings += 1;
        *self.key.0.write().unwrap_or_else(PoisonError::into_inner) = None;
        if let Some(router) = &self.router {
            router.forget_all();
        }
    }
}

impl KeyPlace {
    pub(super) fn of(key: VaultKey) -> Self {
        Self(RwLock::new(Some(Arc::new(key))))
    }
}

impl LastUse {
    pub(super) fn now(&self) {
        *lock(&self.0) = Moment::now();
    }
}

impl Default for LastUse {
    fn default() -> Self {
        Self(Mutex::new(Moment::now()))
    }
}

/// What is behind these locks is whole after every step, so a panic elsewhere spoils nothing.
fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
