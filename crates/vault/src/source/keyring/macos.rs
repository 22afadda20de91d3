//! The keychain of this user ("login"), by the store of the `keyring` crates.
//!
//! An item is a generic password: its service and its account, which a reference calls `username`. macOS asks a person
//! before it lets a program read what another one wrote; here it is told not to ask, for the whole process, since a
//! dialog that an agent can call up is one that people learn to click away. Such an item is refused like one in a locked keychain.

use std::{
    collections::HashMap,
    sync::{Arc, OnceLock},
};

use apple_native_keyring_store::keychain::Store;
use keyless_core::SecretValue;
use keyring_core::{CredentialStore, Entry, Error};
use security_framework::{
    base::Error as Status,
    os::macos::keychain::{KeychainUserInteractionLock, SecKeychain},
};
use tokio::task::spawn_blocking;
use zeroize::Zeroizing;

use super::{Attributes, Held, SourceFault, State};

/// `errSecAuthFailed` and `errSecInteractionNotAllowed` of Security/SecBase.h: a person would have to be asked.
const REFUSED: [i32; 2] = [-25293, -25308];

/// A locked keychain tells what it holds, and says that it is locked when a value is asked for.
pub(super) async fn state() -> Result<State, SourceFault> {
    blocking(|store| store.search(&HashMap::from([("service", "keyless")]))).await?;
    Ok(State::Available)
}

pub(super) async fn list() -> Result<Vec<Held>, SourceFault> {
    let items = blocking(|store| store.search(&HashMap::new())).await?;
    Ok(items.iter().filter_map(Entry::get_specifiers).filter_map(written).collect())
}

pub(super) async fn get(
    attributes: &Attributes<'_>,
) -> Result<Option<Zeroizing<Vec<u8>>>, SourceFault> {
    let (service, account) = names(attributes)?;
    let asked = blocking(move |store| match store.build(&service, &account, None)?.get_secret() {
        Err(Error::NoEntry) => Ok(None),
        asked => asked.map(Zeroizing::new).map(Some),
    });
    asked.await
}

pub(super) async fn put(
    attributes: Attributes<'_>,
    value: &SecretValue,
) -> Result<(), SourceFault> {
    let (service, account) = names(&attributes)?;
    let secret = Zeroizing::new(value.expose_to_its_source().to_vec());
    blocking(move |store| store.build(&service, &account, None)?.set_secret(&secret)).await
}

/// Away from the tasks that must not wait, and with nobody asked.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce(Arc<CredentialStore>) -> Result<T, Error> + Send + 'static,
) -> Result<T, SourceFault> {
    /// Dialogs are off as long as this is held, which is for good.
    static SILENCE: OnceLock<Option<KeychainUserInteractionLock>> = OnceLock::new();
    let done = spawn_blocking(|| {
        let silence = SILENCE.get_or_init(|| SecKeychain::disable_user_interaction().ok());
        if silence.is_none() {
            let words = "the keychain can't be kept from asking a person";
            return Err(SourceFault::new(State::Unavailable, words));
        }
        Ok(work(Store::new()?)?)
    });
    done.await.unwrap_or_else(|_| Err(broken()))
}

/// The service and the account.
fn names(attributes: &Attributes<'_>) -> Result<(String, String), SourceFault> {
    match (attributes.get("service"), attributes.get("username")) {
        (Some(service), Some(account)) if attributes.len() == 2 => {
            Ok(((*service).to_owned(), (*account).to_owned()))
        }
        _ => {
            let words = "a reference to the keychain is service=NAME,username=ACCOUNT and no more";
            Err(SourceFault::new(State::Available, words))
        }
    }
}

/// An item's names as a reference; none where they can't be written as one.
fn written((service, account): (String, String)) -> Option<Held> {
    let fits = |word: &str| !word.is_empty() && !word.contains(',');
    let reference = format!("service={service},username={account}");
    (fits(&service) && fits(&account)).then_some(Held { reference, name: None })
}

fn broken() -> SourceFault {
    SourceFault::new(State::Unavailable, "the keychain, or the way to it, failed")
}

impl From<Error> for SourceFault {
    fn from(error: Error) -> Self {
        let status = match &error {
            Error::PlatformFailure(inner) | Error::NoStorageAccess(inner) => {
                inner.downcast_ref::<Status>().map(|status| status.code())
            }
            _ => None,
        };
        if status.is_some_and(|status| REFUSED.contains(&status)) {
            let words =
                "the keychain is locked, or lets Keyless have this only after asking a person";
            return Self::new(State::Locked, words);
        }
        match error {
            Error::Invalid(..) | Error::TooLong(..) => {
                Self::new(State::Available, "the keychain takes no such name or value")
            }
            _ => broken(),
        }
    }
}
