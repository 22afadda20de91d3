//! How cautious a session is beyond what its secrets say themselves: the operator's index and the project's
//! manifest may ask for a person more often, never less.

use std::{collections::BTreeMap, fs, path::Path};

use keyless_core::{ApproveOnUse, Code, Error, SafeText, SecretPath};
use keyless_vault::{IndexFile, Inventory, Manifest, Vault};

/// The policies that were tightened, by path.
#[derive(Clone, Debug, Default)]
pub struct Caution(BTreeMap<SecretPath, ApproveOnUse>);

impl Caution {
    /// What the index and the manifest say of the vault's secrets. Blocks to read the index.
    ///
    /// Fails with [`Code::ManifestInvalid`] when one of them can't be read: what it would have tightened is not
    /// known, so no session opens.
    pub async fn of(
        vault: &Vault,
        index_file: &Path,
        manifest: Option<&str>,
    ) -> Result<Self, Error> {
        let secrets = vault.list().await?;
        let index = IndexFile::load(index_file)?;
        let mut manifest = match manifest {
            Some(text) => parse(text)?,
            None => Manifest::default(),
        };
        // The index counts for every secret, declared or not; so do the manifest's own words.
        let declared = |path: &SecretPath| manifest.required.contains(path);
        let others: Vec<_> = secrets
            .iter()
            .map(|secret| secret.path.clone())
            .filter(|path| !declared(path))
            .collect();
        manifest.optional.extend(others);
        let rows = Inventory::merge(&manifest, &index, &secrets).rows;
        let policies = rows.into_iter().map(|(path, row)| (path, row.approve_on_use));
        Ok(Self(policies.filter(|(_, policy)| *policy != ApproveOnUse::Never).collect()))
    }

    /// The policy of `path`, of which its secret says `own`.
    pub(crate) fn tighten(&self, path: &SecretPath, own: ApproveOnUse) -> ApproveOnUse {
        self.0.get(path).map_or(own, |more| own.tightened_by(*more))
    }
}

/// The text of the manifest of the project that `folder` lies in. It is the agent's side that reads it,
/// with the agent's rights.
pub fn manifest_of(folder: &Path) -> Result<Option<String>, Error> {
    let Some(project) = Manifest::project_of(folder) else { return Ok(None) };
    let file = project.join(".keyless/secrets.toml");
    let fault = |words: SafeText| {
        let place = SafeText::default().as_they_wrote(&file.to_string_lossy());
        Error::with(Code::ManifestInvalid, place.and(": ").and(words))
    };
    let length =
        fs::metadata(&file).map_err(|error| fault(SafeText::default().and(error.kind())))?;
    if length.len() > Manifest::MAX_BYTES {
        return Err(fault("it has more than 1 MiB".into()));
    }
    let text = fs::read_to_string(&file);
    text.map(Some).map_err(|error| fault(SafeText::default().and(error.kind())))
}

/// Reads a manifest's text.
pub(crate) fn parse(text: &str) -> Result<Manifest, Error> {
    Manifest::parse(text).map_err(|fault| {
        let words = SafeText::words(".keyless/secrets.toml: ").as_they_wrote(&fault);
        Error::with(Code::ManifestInvalid, words)
    })
}
