//! The secrets of a project: its manifest, the operator's index and the store, read and merged.

use std::path::Path;

use keyless_core::Error;
use keyless_store::Store;
use keyless_vault::{IndexFile, Inventory, Manifest, Vault};
use tokio::task::spawn_blocking;

use crate::places::Places;

/// What the project at `project` may see. Needs no key: metadata is not sealed. An empty answer
/// when the project has no manifest. `Code::ManifestInvalid` when one of the files is no TOML,
/// `Code::NotInitialised` when there is no vault.
pub async fn project_inventory(
    places: &Places,
    store: &Store,
    project: &Path,
) -> Result<Inventory, Error> {
    let (index, project) = (places.index_file(), project.to_owned());
    let files = spawn_blocking(move || (Manifest::load(&project), IndexFile::load(&index)));
    let (manifest, index) = files.await.expect("reading files does not panic");
    let (manifest, index) = (manifest?, index?);
    let secrets = Vault::list_unverified(store).await?;
    Ok(Inventory::merge(&manifest, &index, &secrets))
}
