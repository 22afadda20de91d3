//! The source `bitwarden`: its command-line tool `bw`, read-only.
//!
//! A reference is an item's whole name or its id, with `#FIELD` for one of `password` (the default),
//! `username`, `notes` and `totp`. The source's credential is the session key that `bw unlock`
//! prints. Source: <https://bitwarden.com/help/cli/>

use std::path::PathBuf;

use keyless_core::SecretValue;
use serde::Deserialize;
use toml::Table;
use zeroize::Zeroizing;

use super::{
    backend::{Answer, Backend, Capabilities, Fetched, Held, SourceFault, State},
    program::{Program, Ran},
    supply::Supply,
};
use crate::router::SourceType;

const SESSION: &str = "BW_SESSION";
const FIELDS: [&str; 4] = ["notes", "password", "totp", "username"];

/// One account.
pub(crate) struct BitwardenSource {
    program: Program,
}

/// An item of `bw list items`, without what is secret in it.
#[derive(Deserialize)]
struct Item {
    id: String,
    name: String,
}

impl BitwardenSource {
    pub(crate) fn new(settings: &Table) -> Result<Self, String> {
        Ok(Self { program: Program::of(settings, SourceType::Bitwarden)? })
    }

    /// The id of the one item of that name. `bw get` would do with any whose name, user or address has the word in it.
    async fn find(&self, name: &str, with: &Supply) -> Result<Option<String>, SourceFault> {
        let found = self.items(&["--search", name], with).await?;
        let mut named = found.into_iter().filter(|item| item.name == name);
        match (named.next(), named.next()) {
            (Some(_), Some(_)) => {
                let words = "several items go by this name; use the id of one";
                Err(SourceFault::new(State::Available, words))
            }
            (one, _) => Ok(one.map(|item| item.id)),
        }
    }

    async fn items(&self, which: &[&str], with: &Supply) -> Result<Vec<Item>, SourceFault> {
        let ran = self.bw(&[&["list", "items"], which].concat(), with).await?;
        if !ran.status.success() {
            return Err(refusal(&ran));
        }
        // It prints the values as well: they are skipped where they stand, and the text is wiped.
        serde_json::from_slice(&ran.output)
            .map_err(|_| SourceFault::new(State::Unavailable, "what bw lists can't be read"))
    }

    async fn bw(&self, arguments: &[&str], with: &Supply) -> Result<Ran, SourceFault> {
        let session = with.credential().map(SecretValue::expose_to_its_source);
        let session = session.and_then(|session| std::str::from_utf8(session).ok());
        let secrets: Vec<(&str, &str)> = session.into_iter().map(|key| (SESSION, key)).collect();
        let words = [&["--nointeraction", "--raw"], arguments].concat();
        self.program.run(&words, None, &secrets, with).await
    }
}

impl Backend for BitwardenSource {
    fn capabilities(&self) -> Capabilities {
        Capabilities::READ.and(Capabilities::LIST)
    }

    fn files(&self) -> Vec<PathBuf> {
        // The first is macOS's.
        self.program.files(&["Library/Application Support/Bitwarden CLI"], &["Bitwarden CLI"])
    }

    fn check_here(&self) -> Result<(), SourceFault> {
        self.program.check()
    }

    fn state<'a>(&'a self, with: &'a Supply) -> Answer<'a, State> {
        Box::pin(async move {
            let ran = match self.bw(&["status"], with).await {
                Ok(ran) => ran,
                Err(fault) => return fault.state,
            };
            let says = |word: &[u8]| ran.output.windows(word.len()).any(|part| part == word);
            match ran.status.success() {
                true if says(b"\"status\":\"unlocked\"") => State::Available,
                true if says(b"\"status\":\"locked\"") => State::Locked,
                true => State::NeedsCredential,
                false => State::Unavailable,
            }
        })
    }

    fn list<'a>(&'a self, with: &'a Supply) -> Answer<'a, Result<Vec<Held>, SourceFault>> {
        Box::pin(async move {
            let items = self.items(&[], with).await?;
            let held = |item: Item| Held { reference: item.id, name: Some(item.name) };
            Ok(items.into_iter().map(held).collect())
        })
    }

    fn get<'a>(
        &'a self,
        reference: &'a str,
        with: &'a Supply,
    ) -> Answer<'a, Result<Option<Fetched>, SourceFault>> {
        Box::pin(async move {
            let (item, field) = reference.rsplit_once('#').unwrap_or((reference, "password"));
            if !FIELDS.contains(&field) || item.starts_with('-') {
                let words = "a reference is ITEM, or ITEM# with password, username, notes or totp";
                return Err(SourceFault::new(State::Available, words));
            }
            let found =
                if is_id(item) { Some(item.to_owned()) } else { self.find(item, with).await? };
            let Some(id) = found else { return Ok(None) };
            let ran = self.bw(&["get", field, &id], with).await?;
            if ran.status.success() {
                let bytes = Zeroizing::new(ran.output.to_vec());
                return Ok(Some(Fetched { bytes, lease: None }));
            }
            if ran.complains_of(&["not found"]) {
                return Ok(None);
            }
            Err(refusal(&ran))
        })
    }
}

/// Whether it has the form of an id, which `bw get` looks up and does not search for.
fn is_id(text: &str) -> bool {
    let groups = text.split('-').map(|group| {
        let is_hex = group.bytes().all(|b| b.is_ascii_hexdigit());
        is_hex.then_some(group.len())
    });
    groups.eq([8, 4, 4, 4, 12].map(Some))
}

fn refusal(ran: &Ran) -> SourceFault {
    if ran.complains_of(&["not logged in"]) {
        return SourceFault::new(State::NeedsCredential, "nobody is logged in to bw");
    }
    if ran.complains_of(&["vault is locked", "mac failed"]) {
        return SourceFault::new(State::Locked, "bw is locked, or its session key has ended");
    }
    SourceFault { state: State::Unavailable, words: ran.ending() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_told_from_a_name() {
        assert!(is_id("0e7e3cd5-8A1f-4b7a-9a3c-b2a1003fe6b1"));
        for name in ["stripe", "", "0e7e3cd5", "0e7e3cd5-8a1f-4b7a-9a3c-b2a1003fe6bx", "a-b-c-d-e"]
        {
            assert!(!is_id(name), "{name}");
        }
    }
}
