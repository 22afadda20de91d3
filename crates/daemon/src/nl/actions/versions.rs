//! Older values: `@vN` and `@previous`, while they are given.

use std::{collections::HashMap, sync::Arc, time::Instant};

use crate::values::Values;
use futures_util::future::BoxFuture;
use jiff::Timestamp;
use keyless_core::{
    ApproveOnUse, Code, Error, Given, Grace, Had, Handle, SafeText, SecretPath, SecretValue,
    Version,
};
use keyless_vault::{SourceConfig, Vault};

/// The older value of a secret that a handle asks for; nothing where it means the one in force.
/// [`Code::SecretNotFound`] when it is not given, or not any more.
pub(in crate::nl) async fn older(
    vault: &Vault,
    handle: &Handle,
    path: &SecretPath,
    grace: Grace,
) -> Result<Option<Given>, Error> {
    if handle.version() == Version::Latest {
        return Ok(None);
    }
    let now = Timestamp::now();
    match given(vault, path, handle.version(), grace, now).await? {
        Some(given) if given.is_in_force => Ok(None),
        Some(given) => Ok(Some(given)),
        None => {
            let words = SafeText::words("that version of '").as_they_wrote(handle.as_written());
            Err(Error::with(Code::SecretNotFound, words.and("' is not given out, or not any more")))
        }
    }
}

/// What a version of a secret comes to at a time; nothing when it is not given. Versions are known of values that the
/// store keeps.
pub(in crate::nl) async fn given(
    vault: &Vault,
    path: &SecretPath,
    version: Version,
    grace: Grace,
    now: Timestamp,
) -> Result<Option<Given>, Error> {
    let secret = vault.show(path).await?;
    let is_here = secret.metadata.source == SourceConfig::Local;
    // What is sealed of a grant is what tokens are had for, not what is used.
    let is_minted = secret.metadata.egress.as_ref().is_some_and(|rule| rule.oauth.is_some());
    let Some(in_force) = secret.version.filter(|_| is_here && !is_minted) else { return Ok(None) };
    let had = vault.versions(path).await?.into_iter();
    let had = had.map(|version| Had { version: version.version, since: version.created_at });
    Ok(version.choose(&had.collect::<Vec<_>>(), in_force, grace, now))
}

/// What an agent is told of a value that it should stop asking for.
pub(in crate::nl) fn warning(handle: &Handle, given: Given) -> Option<String> {
    given.is_deprecated.then(|| {
        let (name, version) = (handle.as_written(), given.version);
        format!("{name}: version {version} was replaced and is given for a day more; write {{{{nl:{name}}}}}")
    })
}

/// The values of sessions, some of them as they were before.
pub(super) struct AtVersions {
    pub(super) inner: Arc<dyn Values>,
    pub(super) vault: Arc<Vault>,
    pub(super) versions: HashMap<SecretPath, u32>,
}

impl Values for AtVersions {
    fn open<'a>(&'a self, path: &'a SecretPath) -> BoxFuture<'a, Result<SecretValue, Error>> {
        match self.versions.get(path) {
            None => self.inner.open(path),
            Some(version) => Box::pin(async move {
                self.vault.open_version(path, *version).await.map(|reading| reading.value)
            }),
        }
    }

    fn policy<'a>(&'a self, path: &'a SecretPath) -> BoxFuture<'a, Result<ApproveOnUse, Error>> {
        self.inner.policy(path)
    }

    fn closings(&self) -> u64 {
        self.inner.closings()
    }

    fn expire<'a>(&'a self, path: &'a SecretPath, since: Instant) -> BoxFuture<'a, bool> {
        match self.versions.get(path) {
            None => self.inner.expire(path, since),
            Some(_) => Box::pin(async { false }),
        }
    }
}
