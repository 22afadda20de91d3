//! The operator's passkeys: which there are, and whether one has proven who is at the page.
//!
//! A passkey says who is here and opens nothing: the store is open already, or the passphrase opens it. What a
//! browser signs names the page that asked, so an agent's look-alike page gets nothing that is of use here.
//! A row without the vault's seal is nobody's passkey.

mod ceremony;
mod handlers;

use jiff::Timestamp;
use keyless_core::{Code, Error, SafeText};
use keyless_store::{Passkey, PasskeyRow, StoreError};
use keyless_vault::Vault;

use self::ceremony::{Expected, Registered};
pub(super) use self::{
    ceremony::{Assertion, CHALLENGE_BYTES},
    handlers::{challenge, register, remove},
};
use super::{Web, visitors::Visit};

/// What stands before a passkey's proof in the field for the factor.
const MARK: &str = "passkey:";
/// More than a person has.
const MOST: usize = 16;

/// The passkeys of a vault.
pub(super) struct Passkeys<'a>(pub(super) &'a Vault);

impl Passkeys<'_> {
    /// All of them, oldest first.
    pub(super) async fn all(&self) -> Result<Vec<Passkey>, Error> {
        Ok(self.rows().await?.into_iter().map(|row| row.passkey).collect())
    }

    /// Says whether `assertion` proves the operator at `page`; each count is good once.
    pub(super) async fn prove(&self, page: &Page<'_>, assertion: &Assertion) -> Result<(), Error> {
        let challenge = page.visit.take_challenge().ok_or_else(|| {
            let words = SafeText::words("it came too late; ask it once more");
            Error::with(Code::PasskeyRefused, words)
        })?;
        let id = assertion.id();
        let old = self.rows().await?.into_iter().find(|row| row.passkey.id == id);
        let old = old.ok_or_else(|| {
            Error::with(Code::PasskeyRefused, SafeText::words("it is not registered here"))
        })?;
        let expected = Expected { challenge, origin: page.origin };
        let counter = assertion.judge(&old.passkey, &expected)?;
        let used_at = Some(Timestamp::now());
        let new = self.sealed(Passkey { counter, used_at, ..old.passkey.clone() });
        if self.0.store().replace_passkey(&old, &new).await? {
            return Ok(());
        }
        Err(Error::with(Code::PasskeyRefused, SafeText::words("it was used elsewhere just now")))
    }

    async fn add(&self, name: &str, registered: Registered) -> Result<(), Error> {
        if self.rows().await?.len() >= MOST {
            let words = SafeText::words("there are 16 passkeys; remove one first");
            return Err(Error::with(Code::StateUnfit, words));
        }
        let Registered { id, public_key, algorithm, counter } = registered;
        let (name, created_at) = (name.to_owned(), Timestamp::now());
        let passkey =
            Passkey { id, name, public_key, algorithm, counter, created_at, used_at: None };
        match self.0.store().insert_passkey(&self.sealed(passkey)).await {
            Err(StoreError::Taken(_)) => Err(Error::with(
                Code::StateUnfit,
                SafeText::words("that passkey is registered already"),
            )),
            other => Ok(other?),
        }
    }

    async fn remove(&self, id: &str) -> Result<(), Error> {
        if self.0.store().remove_passkey(id).await? {
            return Ok(());
        }
        Err(Error::with(
            Code::StateUnfit,
            SafeText::words("there is no passkey of that name any more"),
        ))
    }

    async fn rows(&self) -> Result<Vec<PasskeyRow>, Error> {
        let voucher = self.0.passkey_voucher();
        let mut rows = self.0.store().passkeys().await?;
        rows.retain(|row| voucher.fits(&PasskeyRow::sealed_bytes(&row.passkey), &row.seal));
        Ok(rows)
    }

    fn sealed(&self, passkey: Passkey) -> PasskeyRow {
        let seal = self.0.passkey_voucher().seal(&PasskeyRow::sealed_bytes(&passkey));
        PasskeyRow { passkey, seal }
    }
}

/// Where a passkey's answer must come from.
pub(super) struct Page<'a> {
    pub(super) visit: &'a Visit,
    pub(super) origin: &'a str,
}

/// The proof that stands in the field for the factor, when a passkey has filled it.
pub(super) fn read(factor: &str) -> Option<Assertion> {
    serde_json::from_str(factor.strip_prefix(MARK)?).ok()
}

#[cfg(test)]
mod tests {
    use super::{ceremony::tests::Device, *};
    use crate::web::scene::Scene;

    #[tokio::test]
    async fn an_answer_is_good_once_and_for_a_sealed_key_alone() {
        let scene = Scene::new().await;
        let (web, mut device) = (&scene.web, Device::new());
        let passkeys = Passkeys(&web.desk.vault);
        let opened = web
            .visitors
            .open(&web.visitors.new_link(crate::web::visitors::Whose::Operators).unwrap())
            .unwrap()
            .unwrap();
        let visit = web.visitors.visit(&opened.place, &opened.cookie).unwrap();
        let page = Page { visit: &visit, origin: device.origin };
        device.challenge = visit.new_challenge().unwrap();
        let unknown = passkeys.prove(&page, &device.assertion()).await;
        assert_eq!(unknown.unwrap_err().code(), Code::PasskeyRefused);
        let row = passkeys.sealed(device.passkey());
        web.desk.vault.store().insert_passkey(&row).await.unwrap();
        device.challenge = visit.new_challenge().unwrap();
        passkeys.prove(&page, &device.assertion()).await.unwrap();
        assert!(
            passkeys.prove(&page, &device.assertion()).await.is_err(),
            "the challenge is used up"
        );
        let planted = Device::new();
        let other = Passkey { id: "b3RoZXI".to_owned(), ..planted.passkey() };
        let row = PasskeyRow { passkey: other, seal: row.seal };
        web.desk.vault.store().insert_passkey(&row).await.unwrap();
        assert_eq!(passkeys.all().await.unwrap().len(), 1, "a row of somebody without the vault");
    }
}
