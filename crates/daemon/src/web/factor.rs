//! The proof that the operator is at the page: the store's passphrase, a code of their app, or a passkey.

use std::{collections::VecDeque, time::Duration};

use keyless_core::{
    Code, Error, SafeText,
    audit::{Action, Outcome},
};
use keyless_vault::{Factor, Moment, Passphrase, Vault};
use parking_lot::Mutex;
use zeroize::Zeroizing;

use super::{
    Desk, Web,
    passkeys::{self, Page, Passkeys},
    visitors::Visit,
};
use crate::broker::fill_random;

/// This many wrong ones within [`WINDOW`] close the gate for [`CLOSED`].
const FAILURES: usize = 5;
const WINDOW: Duration = Duration::from_mins(1);
const CLOSED: Duration = Duration::from_mins(1);
const CODE_DIGITS: usize = 6;

/// Judges proofs, one at a time: a passphrase costs 64 MiB. A passkey's can't be guessed and costs nothing: it is
/// not counted, and who guesses at the others keeps nobody's passkey out.
#[derive(Default)]
pub(super) struct FactorGate {
    turn: tokio::sync::Mutex<()>,
    failures: Mutex<Failures>,
    /// The failures of passkeys, for the log alone, which they shall not fill.
    of_passkeys: Mutex<Failures>,
}

#[derive(Default)]
struct Failures {
    recent: VecDeque<Moment>,
    closed_until: Option<Moment>,
}

impl FactorGate {
    /// Fails as unlocking does, and with [`Code::TotpClosed`] after too many wrong ones. A wrong one is on record; what
    /// could not be judged is neither.
    /// A store that is locked is opened by a code only: [`Code::Locked`] for anything else.
    pub(super) async fn prove(
        &self,
        web: &Web,
        visit: &Visit,
        text: Zeroizing<String>,
    ) -> Result<(), Error> {
        let desk = &web.desk;
        let is_code = text.len() == CODE_DIGITS && text.bytes().all(|byte| byte.is_ascii_digit());
        if is_code {
            return self.judge(desk, desk.keeper.prove(&text)).await;
        }
        if let Some(assertion) = passkeys::read(&text)
            && desk.vault.is_open()
        {
            let page = Page { visit, origin: &web.origin() };
            let proven = Passkeys(&desk.vault).prove(&page, &assertion).await;
            if let Err(error) = &proven
                && says_wrong(error)
            {
                self.note_passkey(desk, error).await?;
            }
            return proven;
        }
        self.prove_passphrase(desk, text).await
    }

    /// Takes the passphrase itself and nothing else.
    pub(super) async fn prove_passphrase(
        &self,
        desk: &Desk,
        text: Zeroizing<String>,
    ) -> Result<(), Error> {
        if !desk.vault.is_open() {
            // Nothing that the page has says whether it is the right one.
            return Err(Code::Locked.into());
        }
        self.judge(desk, by_passphrase(&desk.vault, text)).await
    }

    async fn judge(
        &self,
        desk: &Desk,
        proof: impl Future<Output = Result<(), Error>>,
    ) -> Result<(), Error> {
        let _turn = self.turn.lock().await;
        self.failures.lock().refuse_while_closed(Moment::now())?;
        let proven = proof.await;
        if let Err(error) = &proven
            && says_wrong(error)
        {
            self.failures.lock().add(Moment::now());
            record(desk, error).await?;
        }
        proven
    }

    /// As many failures a minute as are taken of the other proofs are on record.
    async fn note_passkey(&self, desk: &Desk, error: &Error) -> Result<(), Error> {
        let now = Moment::now();
        {
            let mut failures = self.of_passkeys.lock();
            if failures.refuse_while_closed(now).is_err() {
                return Ok(());
            }
            failures.add(now);
        }
        record(desk, error).await
    }
}

/// Whether the proof was judged, and was not the one. What can't be judged, as by a store that can't be read, is nobody's
/// guess: counted, it would close the gate to the operator.
fn says_wrong(error: &Error) -> bool {
    matches!(
        error.code(),
        Code::PasskeyRefused | Code::TotpReplayed | Code::TotpWrong | Code::WrongPassphrase
    )
}

async fn record(desk: &Desk, error: &Error) -> Result<(), Error> {
    let note = "a proof that failed at the page";
    desk.record(Action::Denied, Outcome::Denied, Some(error.code()), note).await
}

/// Opens the store once more, and sees that it is the same vault.
async fn by_passphrase(vault: &Vault, text: Zeroizing<String>) -> Result<(), Error> {
    let factor = Factor::Passphrase(Passphrase::new(text));
    let opened = Vault::unlock(vault.store().clone(), factor).await?;
    let mut nonce = [0; 32];
    fill_random(&mut nonce)?;
    let seal = opened.operator_voucher().seal(&nonce);
    if vault.operator_voucher().fits(&nonce, &seal) {
        return Ok(());
    }
    Err(Code::WrongPassphrase.into())
}

impl Failures {
    fn refuse_while_closed(&mut self, now: Moment) -> Result<(), Error> {
        match self.closed_until {
            Some(until) if now < until => {
                let words = SafeText::words("the next one counts in ");
                let words = words.number(until.since(now).as_secs() + 1).and(" s");
                Err(Error::with(Code::TotpClosed, words))
            }
            _ => {
                self.closed_until = None;
                Ok(())
            }
        }
    }

    fn add(&mut self, now: Moment) {
        self.recent.retain(|then| now.since(*then) < WINDOW);
        self.recent.push_back(now);
        if self.recent.len() >= FAILURES {
            self.recent.clear();
            self.closed_until = Some(now + CLOSED);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn guessing_is_cut_short() {
        let (mut failures, now) = (Failures::default(), Moment::now());
        for _ in 0..FAILURES {
            assert!(failures.refuse_while_closed(now).is_ok());
            failures.add(now);
        }
        let refused = failures.refuse_while_closed(now).unwrap_err();
        assert_eq!(refused.code(), Code::TotpClosed);
        assert!(failures.refuse_while_closed(now + CLOSED).is_ok());
    }

    #[tokio::test]
    async fn guesses_and_passkeys_are_apart() {
        let scene = crate::web::scene::Scene::new().await;
        let (gate, visit) = (FactorGate::default(), scene.proven_visit());
        let prove = async |text: &str| {
            let proven = gate.prove(&scene.web, &visit, Zeroizing::new(text.to_owned())).await;
            proven.map_err(|error| error.code())
        };
        let passkey = r#"passkey:{"id":"aWQ","client":"aWQ","data":"aWQ","signature":"aWQ"}"#;
        for _ in 0..=FAILURES {
            assert_eq!(prove(passkey).await, Err(Code::PasskeyRefused));
        }
        for _ in 0..FAILURES {
            assert_eq!(prove("not the passphrase").await, Err(Code::WrongPassphrase));
        }
        assert_eq!(prove("correct horse battery staple").await, Err(Code::TotpClosed));
        assert_eq!(prove(passkey).await, Err(Code::PasskeyRefused), "it is judged all the same");
    }

    /// The operator would be shut out, and the log tell of somebody who guesses.
    #[tokio::test]
    async fn what_can_not_be_judged_is_no_guess() {
        let scene = crate::web::scene::Scene::new().await;
        let (gate, visit) = (FactorGate::default(), scene.proven_visit());
        let prove = async |text: &str| {
            let proven = gate.prove(&scene.web, &visit, Zeroizing::new(text.to_owned())).await;
            proven.map_err(|error| error.code())
        };
        // No app is enrolled.
        for _ in 0..=FAILURES {
            assert_eq!(prove("123456").await, Err(Code::TotpUnavailable));
        }
        assert_eq!(prove("not the passphrase").await, Err(Code::WrongPassphrase));
        let desk = &scene.web.desk;
        let wanted = keyless_store::AuditQuery {
            action: Some(Action::Denied),
            ..keyless_store::AuditQuery::default()
        };
        assert_eq!(desk.vault.store().audit_query(&wanted).await.unwrap().len(), 1);
        assert_eq!(prove("correct horse battery staple").await, Ok(()));
        desk.vault.store().close().await;
        for _ in 0..=FAILURES {
            let refused = prove("correct horse battery staple").await.unwrap_err();
            assert!(!matches!(refused, Code::WrongPassphrase | Code::TotpClosed), "{refused:?}");
        }
    }

    #[tokio::test]
    async fn a_passphrase_is_not_judged_at_a_locked_store() {
        let scene = crate::web::scene::Scene::new().await;
        let (gate, desk) = (FactorGate::default(), &scene.web.desk);
        desk.vault.lock();
        for _ in 0..=FAILURES {
            let text = Zeroizing::new("not the passphrase".to_owned());
            let refused = gate.prove_passphrase(desk, text).await.unwrap_err();
            assert_eq!(refused.code(), Code::Locked);
        }
    }
}
