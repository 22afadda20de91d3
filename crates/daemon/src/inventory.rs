//! The secrets of a project: its manifest, the operator's index and the store, read and merged.

use std::{collections::BTreeMap, path::Path};

use keyless_core::{ApproveOnUse, Error, SecretPath};
use keyless_store::Store;
use keyless_vault::{IndexFile, Inventory, Manifest, Vault};
use tokio::task::spawn_blocking;

use crate::{config::Config, places::Places};

/// How often every secret is asked about at least: the word of `[unlock] profile` in config.toml. Blocks.
pub fn asked_at_least(places: &Places) -> Result<ApproveOnUse, Error> {
    Ok(Config::load(&places.config_file())?.unlock.window(None)?.floor)
}

/// What the project at `project` may see, as it is in force here. Needs no key: metadata is not sealed. An empty answer
/// when the project has no manifest. `Code::ConfigInvalid` or `Code::ManifestInvalid` when one of the files is no TOML,
/// `Code::NotInitialised` when there is no vault.
pub async fn project_inventory(
    places: &Places,
    store: &Store,
    project: &Path,
) -> Result<Inventory, Error> {
    let (here, project) = (places.clone(), project.to_owned());
    let files = spawn_blocking(move || {
        let index = IndexFile::load(&here.index_file());
        (asked_at_least(&here), Manifest::load(&project), index)
    });
    let (floor, manifest, index) = files.await.expect("reading files does not panic");
    let (floor, manifest, index) = (floor?, manifest?, index?);
    let secrets = Vault::list_unverified(store).await?;
    Ok(Inventory::merge(&manifest, &index, &secrets).asking_at_least(floor))
}

/// How often a person is asked in the project around `folder`, of each secret that it declares; nothing of others, and
/// nothing outside of projects. Fails as [`project_inventory`] does.
pub async fn asked_in_project(
    places: &Places,
    store: &Store,
    folder: &Path,
) -> Result<BTreeMap<SecretPath, ApproveOnUse>, Error> {
    let Some(project) = Manifest::project_of(folder) else { return Ok(BTreeMap::new()) };
    let inventory = project_inventory(places, store, &project).await?;
    Ok(inventory.rows.into_iter().map(|(path, row)| (path, row.approve_on_use)).collect())
}
