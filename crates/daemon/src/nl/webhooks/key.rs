//! The key that a receiver knows us by: in a file, or a secret that an alias names. Either is fetched for each message,
//! so that it can be changed, and is kept nowhere.

use std::{
    io,
    path::{Path, PathBuf},
};

use keyless_core::{
    ActionType, Authority, Code, Error, SafeText, SecretPath, alias, allow_operators_action,
    audit::{Action, Detail, Draft, Outcome, Target},
};
use keyless_store::AuditLog;
use keyless_vault::{MAX_VALUE_BYTES, PlainFile, Vault};
use zeroize::Zeroizing;

use super::message::signature;
use crate::{
    broker::{agent, plain_entry},
    permits::{PermitLife, permit, uptime},
    places::unusable,
};

/// As long as the shortest key that is worth its name.
const LEAST_KEY: usize = 16;

/// What a receiver's table says about its key.
pub(crate) const ONE_OF_TWO: &str =
    "name a secret with key = \"@secret:PATH\", or a file of mode 0600 with key_file";

/// Where the key of a receiver's HMAC is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HookKey {
    /// In a file, readable by its owner alone.
    File(PathBuf),
    /// In a secret.
    Secret(SecretPath),
}

impl HookKey {
    /// The secret that `text` is an alias of. The error doesn't repeat `text`, which may be a key.
    pub(crate) fn named(text: &str) -> Result<Self, String> {
        match alias(text) {
            Some(Ok(path)) => Ok(Self::Secret(path)),
            Some(Err(why)) => Err(format!("key is an alias of no secret: {why}")),
            None => Err(format!("key is no alias, and no key stands in config.toml: {ONE_OF_TWO}")),
        }
    }

    /// What is wrong with its file, if it is in one. A secret is looked for when it is used.
    pub(crate) fn check(&self) -> Result<(), Error> {
        match self {
            Self::File(file) => read(file).map(drop),
            Self::Secret(_) => Ok(()),
        }
    }

    /// The file that it is in.
    pub(crate) fn file(&self) -> Option<&PathBuf> {
        match self {
            Self::File(file) => Some(file),
            Self::Secret(_) => None,
        }
    }

    /// Signs what `receiver` is told. The use of a secret is on record before it opens.
    ///
    /// Fails as opening does, while the store is locked too.
    pub(super) async fn sign(
        &self,
        vault: &Vault,
        log: &AuditLog,
        receiver: &Authority,
        body: &[u8],
    ) -> Result<String, Error> {
        let path = match self {
            Self::File(file) => return Ok(signature(&read(file)?, body)),
            Self::Secret(path) => path,
        };
        let value = vault.open_unattended(path).await?.value;
        let permit = permit(log, entry(path, receiver), PermitLife::AtOnce).await?;
        let key = value.open_with_permit(&permit, uptime())?.trim_ascii_end();
        if key.len() < LEAST_KEY {
            return Err(too_short(SafeText::default().and(path)));
        }
        Ok(signature(key, body))
    }
}

fn read(file: &Path) -> Result<Zeroizing<Vec<u8>>, Error> {
    let place = || SafeText::default().as_they_wrote(&file.to_string_lossy());
    let fault = |error: io::Error| unusable(file, &error);
    let opened = PlainFile::open(file).map_err(fault)?;
    if opened.is_open_to_others().map_err(fault)? {
        let words = ": others can read it; chmod 600";
        return Err(Error::with(Code::ConfigInvalid, place().and(words)));
    }
    let bytes = opened.bytes(MAX_VALUE_BYTES).map_err(fault)?;
    let key = bytes.trim_ascii_end();
    if key.len() < LEAST_KEY {
        return Err(too_short(place()));
    }
    Ok(Zeroizing::new(key.to_vec()))
}

fn too_short(place: SafeText) -> Error {
    let words = ": a key has at least 16 bytes; openssl rand -hex 32 makes one";
    Error::with(Code::ConfigInvalid, place.and(words))
}

fn entry(path: &SecretPath, receiver: &Authority) -> Draft {
    let about = Target::Authority(receiver.clone());
    let who = agent("broker", "broker");
    Draft {
        secrets_used: vec![path.clone()],
        detail: Detail {
            kind: Some("released".to_owned()),
            note: Some("signs what this receiver is told".to_owned()),
            ..Detail::default()
        },
        allowed: Some(allow_operators_action(path, ActionType::SdkProxy)),
        ..plain_entry(who, Action::RotationNotification, Outcome::Success, about)
    }
}
