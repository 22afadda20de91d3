//! Whether a new value could be put where a secret is kept.

use keyless_core::{Code, Error, SafeText, SecretPath};

use super::{Vault, secrets::not_stored};
use crate::{
    metadata::SourceConfig,
    router::Place,
    source::{Capability, SourceKind},
};

impl Vault {
    /// Fails with [`Code::ValueNotStored`] where a new value of `path` has no place that Keyless may write: nobody
    /// needs to be asked for one. A source that is only out of reach says so when the value comes.
    pub async fn refuse_unwritable(&self, path: &SecretPath) -> Result<(), Error> {
        let secret = self.show(path).await?;
        let refuse = |words: SafeText| Err(Error::with(Code::ValueNotStored, words));
        let SourceConfig::Routed { source, reference } = &secret.metadata.source else {
            let kind: SourceKind = secret.metadata.source.kind();
            if kind.capabilities().contains(&Capability::Write) {
                return Ok(());
            }
            return refuse(SafeText::words("the value is kept by the source ").and(kind.as_str()));
        };
        let Some(router) = &self.router else {
            return refuse("no sources are declared here; see sources.toml".into());
        };
        let named = source.as_deref().map(|source| (source, reference.as_deref()));
        match router.place(path, named).map_err(not_stored)? {
            Place::Local => Ok(()),
            Place::Source(at) => {
                let supply = self.supply(router, at.source()).await.map_err(not_stored)?;
                if at.may_put(&supply).await.unwrap_or(true) {
                    return Ok(());
                }
                let words = SafeText::words("Keyless may only read from the source ");
                refuse(words.as_they_wrote(at.source()).and("; see access in sources.toml"))
            }
        }
    }
}
