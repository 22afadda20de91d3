//! The secrets of a project: its manifest, the operator's index and the store, read and merged.

use std::{collections::BTreeMap, path::Path};

use keyless_core::{ApproveOnUse, Error, SecretPath};
use keyless_store::Store;
use keyless_vault::{IndexFile, Inventory, Manifest, Secret, Vault};
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
    let files = Files::read(places, project).await?;
    Ok(files.merged(&Vault::list_unverified(store).await?))
}

/// The variables of the project at `project`, with the path that it declares for each. One that two of its paths want is
/// left out. Fails as [`project_inventory`] does.
pub async fn declared_variables(
    places: &Places,
    store: &Store,
    project: &Path,
) -> Result<BTreeMap<String, SecretPath>, Error> {
    let mut found: BTreeMap<String, Option<SecretPath>> = BTreeMap::new();
    for (path, row) in project_inventory(places, store, project).await?.rows {
        let Some(name) = row.env else { continue };
        found.entry(name.to_string()).and_modify(|path| *path = None).or_insert(Some(path));
    }
    Ok(found.into_iter().filter_map(|(name, path)| Some((name, path?))).collect())
}

/// How often a person is asked in the project around `folder`, of each of these `secrets` that it declares; nothing of
/// others, and nothing outside of projects. Fails as [`project_inventory`] does where a file can't be read.
pub async fn asked_in_project(
    places: &Places,
    secrets: &[Secret],
    folder: &Path,
) -> Result<BTreeMap<SecretPath, ApproveOnUse>, Error> {
    let Some(project) = Manifest::project_of(folder) else { return Ok(BTreeMap::new()) };
    let inventory = Files::read(places, &project).await?.merged(secrets);
    Ok(inventory.rows.into_iter().map(|(path, row)| (path, row.approve_on_use)).collect())
}

/// What the files say that a project's secrets are merged from.
struct Files {
    floor: ApproveOnUse,
    manifest: Manifest,
    index: IndexFile,
}

impl Files {
    async fn read(places: &Places, project: &Path) -> Result<Self, Error> {
        let (here, project) = (places.clone(), project.to_owned());
        let files = spawn_blocking(move || {
            let index = IndexFile::load(&here.index_file());
            (asked_at_least(&here), Manifest::load(&project), index)
        });
        let (floor, manifest, index) = files.await.expect("reading files does not panic");
        Ok(Self { floor: floor?, manifest: manifest?, index: index? })
    }

    fn merged(&self, secrets: &[Secret]) -> Inventory {
        Inventory::merge(&self.manifest, &self.index, secrets).asking_at_least(self.floor)
    }
}
