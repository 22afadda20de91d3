//! The source `keyring`: what the system keeps for this user. On Linux the desktop's keyring over the Secret Service (GNOME
//! Keyring, KWallet, KeePassXC), on macOS the keychain.
//!
//! A reference is attributes, `service=github,username=ada`; of a path they are `service=keyless,username=PATH`, the two
//! names that other libraries use. Nothing prompts: a locked keyring is told as such. What it holds is told by
//! attributes and labels; no value is asked for.

#[cfg(target_os = "linux")]
mod linux;
#[cfg(target_os = "macos")]
mod macos;

use std::{collections::HashMap, time::Duration};

use keyless_core::{SecretPath, SecretValue};
use tokio::time::timeout;
use toml::Table;

#[cfg(target_os = "linux")]
use self::linux as system;
#[cfg(target_os = "macos")]
use self::macos as system;
use super::{
    backend::{Answer, Backend, Capabilities, Fetched, Held, SourceFault, State},
    supply::Supply,
};
use crate::router::optional;

/// For everything from the asking to the value.
const PATIENCE: Duration = Duration::from_secs(10);

/// What a reference names, by the keyring's names.
type Attributes<'a> = HashMap<&'a str, &'a str>;

/// The keyring of whoever runs the broker.
pub(crate) struct KeyringSource {
    service: String,
}

impl KeyringSource {
    pub(crate) fn new(settings: &Table) -> Result<Self, String> {
        let service = optional(settings, "service")?.unwrap_or_else(|| "keyless".to_owned());
        if service.contains([',', '=']) {
            return Err("service has neither , nor =".to_owned());
        }
        Ok(Self { service })
    }
}

impl Backend for KeyringSource {
    fn capabilities(&self) -> Capabilities {
        Capabilities::READ.and(Capabilities::LIST).and(Capabilities::WRITE)
    }

    fn reference(&self, path: &SecretPath, _rest: &str, _: Option<&Table>) -> String {
        format!("service={},username={path}", self.service)
    }

    fn state<'a>(&'a self, _: &'a Supply) -> Answer<'a, State> {
        Box::pin(async {
            match within(system::state()).await {
                Ok(state) => state,
                Err(fault) => fault.state,
            }
        })
    }

    fn list<'a>(&'a self, _: &'a Supply) -> Answer<'a, Result<Vec<Held>, SourceFault>> {
        Box::pin(within(system::list()))
    }

    fn get<'a>(
        &'a self,
        reference: &'a str,
        _: &'a Supply,
    ) -> Answer<'a, Result<Option<Fetched>, SourceFault>> {
        Box::pin(within(async move {
            let found = system::get(&attributes(reference)?).await?;
            Ok(found.map(|bytes| Fetched { bytes, lease: None }))
        }))
    }

    fn put<'a>(
        &'a self,
        reference: &'a str,
        value: &'a SecretValue,
        _: &'a Supply,
    ) -> Answer<'a, Result<(), SourceFault>> {
        Box::pin(within(async move { system::put(attributes(reference)?, value).await }))
    }
}

fn attributes(reference: &str) -> Result<Attributes<'_>, SourceFault> {
    let pairs = reference.split(',').map(|pair| pair.split_once('='));
    let known: Option<Attributes<'_>> = pairs.collect();
    known.filter(|known| known.keys().all(|name| !name.is_empty())).ok_or_else(|| {
        let words = "a reference is attributes, such as service=github,username=ada";
        SourceFault::new(State::Available, words)
    })
}

async fn within<T>(work: impl Future<Output = Result<T, SourceFault>>) -> Result<T, SourceFault> {
    timeout(PATIENCE, work).await.unwrap_or_else(|_| {
        Err(SourceFault::new(State::Unavailable, "the keyring did not answer in time"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reference_is_attributes() {
        let known = attributes("service=a,username=team/x/y=z").unwrap();
        assert_eq!((known["service"], known["username"]), ("a", "team/x/y=z"));
        for bad in ["", "service", "service=a,", "=a", "service=a,b"] {
            assert!(attributes(bad).is_err(), "{bad}");
        }
        let source = KeyringSource::new(&Table::new()).unwrap();
        let path = SecretPath::parse("team/x/y").unwrap();
        assert_eq!(source.reference(&path, "", None), "service=keyless,username=team/x/y");
    }
}
