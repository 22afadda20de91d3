//! The source `1password`: its command-line tool `op`, read-only.
//!
//! A reference is `op://VAULT/ITEM/FIELD`. With a service account its token is the source's
//! credential; without one a person signs in, and `op` asks them.

use std::path::PathBuf;

use keyless_core::{SecretPath, SecretValue};
use serde::Deserialize;
use toml::Table;
use zeroize::Zeroizing;

use super::{
    backend::{Answer, Backend, Capabilities, Fetched, Held, SourceFault, State},
    program::{Program, Ran},
    supply::Supply,
};
use crate::router::{SourceType, optional};

const TOKEN: &str = "OP_SERVICE_ACCOUNT_TOKEN";
/// What `op read` says of what is not there, whatever its version.
const NO_SUCH: &[&str] = &[
    "isn't an item",
    "isn't a vault",
    "isn't a field",
    "isn't a section",
    "does not have a field",
    "could not find item",
    "could not find vault",
    "could not find field",
    "no item found",
    "item not found",
    "vault not found",
    "no vault matched",
    "no item matched",
];

/// One account.
pub(crate) struct OnePasswordSource {
    program: Program,
    account: Option<String>,
    vault: Option<String>,
}

/// An item of `op item list`; its names are no secret, and nothing else of it is read.
#[derive(Deserialize)]
struct Item {
    id: String,
    title: String,
    vault: ItsVault,
}

#[derive(Deserialize)]
struct ItsVault {
    id: String,
    #[serde(default)]
    name: Option<String>,
}

impl OnePasswordSource {
    pub(crate) fn new(settings: &Table) -> Result<Self, String> {
        Ok(Self {
            program: Program::of(settings, SourceType::OnePassword)?,
            account: optional(settings, "account")?,
            vault: optional(settings, "vault")?,
        })
    }

    async fn op(&self, arguments: &[&str], with: &Supply) -> Result<Ran, SourceFault> {
        let mut words = arguments.to_vec();
        if let Some(account) = &self.account {
            words.extend(["--account", account]);
        }
        let token = with.credential().map(SecretValue::expose_to_its_source);
        let token = token.and_then(|token| std::str::from_utf8(token).ok());
        let secrets: Vec<(&str, &str)> = token.into_iter().map(|token| (TOKEN, token)).collect();
        self.program.run(&words, None, &secrets, with).await
    }
}

impl Backend for OnePasswordSource {
    fn capabilities(&self) -> Capabilities {
        let descriptive = Capabilities::BIOMETRIC_PROMPT.and(Capabilities::AUDIT_LOGGED);
        Capabilities::READ.and(Capabilities::LIST).and(Capabilities::VALIDATE).and(descriptive)
    }

    fn reference(&self, path: &SecretPath, rest: &str, route: Option<&Table>) -> String {
        let own = route.and_then(|route| route.get("vault")?.as_str());
        let vault = own.or(self.vault.as_deref()).unwrap_or_else(|| path.project());
        // An item without a field means its password.
        if rest.contains('/') {
            format!("op://{vault}/{rest}")
        } else {
            format!("op://{vault}/{rest}/password")
        }
    }

    fn place(&self, written: &str) -> String {
        format!("op://{written}")
    }

    fn files(&self) -> Vec<PathBuf> {
        self.program.files(&[".op"], &[".op", "op"])
    }

    fn check_here(&self) -> Result<(), SourceFault> {
        self.program.check()
    }

    fn state<'a>(&'a self, with: &'a Supply) -> Answer<'a, State> {
        Box::pin(async move {
            match self.op(&["whoami"], with).await {
                Ok(ran) if ran.status.success() => State::Available,
                Ok(_) => State::Locked,
                Err(fault) => fault.state,
            }
        })
    }

    fn list<'a>(&'a self, with: &'a Supply) -> Answer<'a, Result<Vec<Held>, SourceFault>> {
        Box::pin(async move {
            let mut words = vec!["item", "list", "--format", "json"];
            if let Some(vault) = &self.vault {
                words.extend(["--vault", vault]);
            }
            let ran = self.op(&words, with).await?;
            if !ran.status.success() {
                return Err(refusal(&ran));
            }
            let items: Vec<Item> = serde_json::from_slice(&ran.output)
                .map_err(|_| SourceFault::new(State::Unavailable, "what op lists can't be read"))?;
            let held = |item: Item| Held {
                reference: format!("op://{}/{}/password", item.vault.id, item.id),
                name: Some(format!("{}/{}", item.vault.name.unwrap_or_default(), item.title)),
            };
            Ok(items.into_iter().map(held).collect())
        })
    }

    fn get<'a>(
        &'a self,
        reference: &'a str,
        with: &'a Supply,
    ) -> Answer<'a, Result<Option<Fetched>, SourceFault>> {
        Box::pin(async move {
            if !reference.starts_with("op://") {
                let words = "a reference of 1Password begins with op://";
                return Err(SourceFault::new(State::Available, words));
            }
            let ran = self.op(&["read", "--no-newline", reference], with).await?;
            if ran.status.success() {
                let bytes = Zeroizing::new(ran.output.to_vec());
                return Ok(Some(Fetched { bytes, lease: None }));
            }
            if ran.complains_of(NO_SUCH) {
                return Ok(None);
            }
            Err(refusal(&ran))
        })
    }
}

fn refusal(ran: &Ran) -> SourceFault {
    let signed_out = ["not currently signed in", "no account found", "session expired", "sign in"];
    if ran.complains_of(&signed_out) {
        return SourceFault::new(State::Locked, "op is not signed in");
    }
    SourceFault { state: State::Unavailable, words: ran.ending() }
}
