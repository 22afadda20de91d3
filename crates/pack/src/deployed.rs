//! What was deployed: the manifest file in each root, and for homes without any, the last snapshot.
//!
//! `<root>/.agentpack.manifest.<target>.json` lists the files that are ours there and what we wrote into
//! them. It is the middle of the three-way view: what we wrote, what is there now, what shall be there.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize};

use crate::{
    beneath::Beneath,
    desired::Place,
    error::Result,
    manifest::TargetConfig,
    paths::{RelPath, shown},
    servers::{DeployedServers, is_server_file},
    sha::Sha,
    site::Site,
    snapshot::{self, Snapshots},
    targets::{self, Root, TargetId},
};

/// A manifest file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct RootManifest {
    pub(crate) schema_version: u32,
    pub(crate) generated_at: String,
    pub(crate) tool: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) snapshot_id: Option<String>,
    /// The config repo that deployed it; agentpack does not write this.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) repo: Option<String>,
    pub(crate) managed_files: Vec<ManagedRow>,
    /// Files of which only some entries are ours; agentpack does not write this.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) merged_files: Vec<MergedRow>,
}

/// A file with entries of ours, by their names.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct MergedRow {
    pub(crate) path: String,
    pub(crate) entries: BTreeMap<String, Sha>,
}

/// A file of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct ManagedRow {
    pub(crate) path: String,
    pub(crate) sha256: Sha,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) module_ids: Vec<String>,
}

/// A file that was deployed.
#[derive(Clone, Debug)]
pub(crate) struct Managed {
    pub(crate) root: PathBuf,
    pub(crate) path: RelPath,
    pub(crate) sha: Sha,
    pub(crate) modules: Vec<String>,
}

/// Everything that was deployed to the chosen targets.
#[derive(Debug, Default)]
pub(crate) struct Deployed {
    pub(crate) files: BTreeMap<Place, Managed>,
    pub(crate) servers: BTreeMap<Place, DeployedServers>,
    /// Roots with a manifest that can be used.
    pub(crate) with_manifest: BTreeSet<(TargetId, PathBuf)>,
    /// Roots whose manifest still has its old name.
    pub(crate) legacy: BTreeSet<(TargetId, PathBuf)>,
    /// Roots that hold files of this repo and that its manifest no longer names.
    pub(crate) orphans: Vec<Root>,
    pub(crate) warnings: Vec<String>,
}

/// The name of a target's manifest file.
pub(crate) fn file_name(target: TargetId) -> RelPath {
    RelPath::name(&format!(".agentpack.manifest.{target}.json")).expect("a name of ours")
}

/// The name that older versions gave it.
pub(crate) fn legacy_name() -> RelPath {
    RelPath::name(".agentpack.manifest.json").expect("a name of ours")
}

/// What this config repo has deployed to these targets, whatever their options and scopes are now, by path. A manifest from
/// before these named their repo counts as its own.
pub(crate) fn by_path(
    site: &Site,
    configs: &BTreeMap<TargetId, TargetConfig>,
) -> Result<BTreeMap<PathBuf, Managed>> {
    let own = shown(&site.repo);
    let mut deployed = Deployed::default();
    for (target, config) in configs {
        for root in every_root(site, *target, config)? {
            if let Some(manifest) = deployed.manifest(site, &root)?
                && manifest.repo.as_ref().is_none_or(|repo| *repo == own)
            {
                deployed.take(&root, manifest);
            }
        }
    }
    Ok(deployed.files.into_iter().map(|((_, path), managed)| (path, managed)).collect())
}

/// Whether this is any target's manifest, old or new.
pub(crate) fn is_manifest(name: &str) -> bool {
    let json = Path::new(name).extension().is_some_and(|end| end == "json");
    json && name.starts_with(".agentpack.manifest")
}

impl Deployed {
    /// Reads the manifests of these roots, and of roots that were left behind.
    pub(crate) fn read(
        site: &Site,
        roots: &[Root],
        configs: &BTreeMap<TargetId, TargetConfig>,
        chosen: &[TargetId],
    ) -> Result<Self> {
        let mut deployed = Self::default();
        for root in roots {
            if let Some(manifest) = deployed.manifest(site, root)? {
                deployed.with_manifest.insert((root.target, root.path.clone()));
                deployed.take(root, manifest);
            }
        }
        for target in chosen {
            for root in every_root(site, *target, &configs[target])? {
                if !roots.iter().any(|known| known.target == root.target && known.path == root.path)
                {
                    deployed.left_behind(site, root);
                }
            }
        }
        if deployed.files.is_empty() {
            deployed.read_last_snapshot(site, roots)?;
        }
        Ok(deployed)
    }

    /// The usable manifest of a root; says why another is not used.
    fn manifest(&mut self, site: &Site, root: &Root) -> Result<Option<RootManifest>> {
        let Some(folder) = Beneath::open(&root.path, confine(site, &root.path))? else {
            return Ok(None);
        };
        for (name, is_legacy) in [(file_name(root.target), false), (legacy_name(), true)] {
            let Some(bytes) = folder.read(&name)? else { continue };
            let path = root.path.join(&name);
            match serde_json::from_slice::<RootManifest>(&bytes) {
                Ok(manifest) if manifest.schema_version != 1 => self.warnings.push(format!(
                    "{} is of version {} and is ignored",
                    path.display(),
                    manifest.schema_version
                )),
                Ok(manifest) if manifest.tool != root.target.as_str() => {
                    if !is_legacy {
                        let tool = manifest.tool;
                        self.warnings.push(format!(
                            "{} is of target `{tool}` and is ignored",
                            path.display()
                        ));
                    }
                }
                Ok(manifest) => {
                    if is_legacy {
                        self.legacy.insert((root.target, root.path.clone()));
                        self.warnings.push(format!(
                            "{} has an old name; the next deploy renames it",
                            path.display()
                        ));
                    }
                    return Ok(Some(manifest));
                }
                Err(error) if !is_legacy => {
                    self.warnings
                        .push(format!("{} can't be read and is ignored: {error}", path.display()));
                }
                Err(_) => {}
            }
        }
        Ok(None)
    }

    fn take(&mut self, root: &Root, manifest: RootManifest) {
        for row in manifest.merged_files {
            let full = root.path.join(&row.path);
            // A manifest in a stranger's project names no other file than the client's own.
            let path = RelPath::name(&row.path).filter(|_| is_server_file(root.target, &full));
            let Some(path) = path else {
                self.warnings.push(format!("{} holds no servers and is ignored", full.display()));
                continue;
            };
            let servers = DeployedServers { root: root.path.clone(), path, entries: row.entries };
            self.servers.insert((root.target, full), servers);
        }
        for row in manifest.managed_files {
            let Some(path) = RelPath::parse(&row.path) else {
                self.warnings.push(format!(
                    "{}: entry {:?} leads elsewhere and is ignored",
                    root.path.display(),
                    row.path
                ));
                continue;
            };
            let managed =
                Managed { root: root.path.clone(), path, sha: row.sha256, modules: row.module_ids };
            self.files.insert((root.target, root.path.join(&row.path)), managed);
        }
    }

    /// A root whose option was switched off: its files are still there, and still ours if we put them there.
    fn left_behind(&mut self, site: &Site, root: Root) {
        let seen = self.warnings.len();
        let Ok(Some(manifest)) = self.manifest(site, &root) else {
            self.warnings.truncate(seen);
            return;
        };
        self.warnings.truncate(seen);
        if manifest.managed_files.is_empty() && manifest.merged_files.is_empty() {
            return;
        }
        if manifest.repo.as_deref() == Some(&shown(&site.repo)) {
            self.take(&root, manifest);
            self.orphans.push(root);
        } else {
            self.warnings.push(format!(
                "{} holds {} file(s) of target `{}` that this manifest does not configure; they are left alone",
                root.path.display(),
                manifest.managed_files.len() + manifest.merged_files.len(),
                root.target
            ));
        }
    }

    /// Homes from before there were manifests know what they deployed from their snapshots.
    fn read_last_snapshot(&mut self, site: &Site, roots: &[Root]) -> Result<()> {
        let (snapshots, warnings) = Snapshots::list(site)?;
        self.warnings.extend(warnings);
        let deployed = |snapshot: &&snapshot::Snapshot| snapshot.kind != "bootstrap";
        let Some(last) = snapshots.iter().rev().find(deployed) else { return Ok(()) };
        for file in last.files_after() {
            let Some(target) = TargetId::parse(&file.target) else { continue };
            let of_target: Vec<Root> =
                roots.iter().filter(|root| root.target == target).cloned().collect();
            let full = PathBuf::from(&file.path);
            if let Some((root, path)) = crate::desired::deepest(&of_target, &full) {
                let managed = Managed { root, path, sha: file.sha256, modules: Vec::new() };
                self.files.insert((target, full), managed);
            }
        }
        Ok(())
    }
}

/// The directory that a root must not lead out of: a project's, for roots inside it.
pub(crate) fn confine<'s>(site: &'s Site, root: &Path) -> Option<&'s Path> {
    let inside =
        root.starts_with(&site.project_root) && !site.user_home.starts_with(&site.project_root);
    inside.then_some(site.project_root.as_path())
}

/// All roots that a target may have, whatever its options and scope are now.
pub(crate) fn every_root(
    site: &Site,
    target: TargetId,
    config: &TargetConfig,
) -> Result<Vec<Root>> {
    targets::roots(site, target, &config.with_everything(target))
}
