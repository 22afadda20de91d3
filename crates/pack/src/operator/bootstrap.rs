//! Installing the assets: one transaction, beside whatever the roots' manifests list already.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;
use serde_json::json;

use super::assets;
use crate::{
    apply::{After, HomeLock, Step, Transaction, Watch, interrupted, new_id, recover},
    deploy::{manifest, manifest_step},
    deployed::{Deployed, ManagedRow, MergedRow, file_name, legacy_name},
    desired::{Desired, DesiredFile},
    error::Result,
    gate::{Entries, Pass, Pending},
    manifest::Manifest,
    paths::shown,
    plan::{Change, Summary, check_adopt, compared, summary},
    site::Site,
    snapshot::SnapshotFile,
    targets::{Root, TargetId},
};

/// The payload of `bootstrap`.
#[derive(Clone, Debug, Serialize)]
pub struct BootstrapData {
    /// Whether anything was written.
    pub applied: bool,
    /// Why nothing was: `dry_run` or `no_changes`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<&'static str>,
    /// The snapshot of what was written.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub snapshot_id: Option<String>,
    /// The targets.
    pub targets: Vec<TargetId>,
    /// Where the assets go.
    pub scope: BootstrapScope,
    /// The changes.
    pub changes: Vec<Change>,
    /// Their number.
    pub summary: Summary,
}

/// How `bootstrap` is asked for.
#[derive(Clone, Copy, Debug)]
pub struct BootstrapOptions {
    /// Where the assets go.
    pub scope: BootstrapScope,
    /// Overwrite files that were not deployed.
    pub adopt: bool,
    /// Only say what would be written.
    pub dry_run: bool,
}

/// Whose directories get the assets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum BootstrapScope {
    /// The user's and the project's.
    Both,
    /// The project's.
    Project,
    /// The user's.
    User,
}

impl BootstrapScope {
    /// The word of the command line.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Both => "both",
            Self::Project => "project",
            Self::User => "user",
        }
    }

    pub(super) fn is_user(self) -> bool {
        self != Self::Project
    }

    pub(super) fn is_project(self) -> bool {
        self != Self::User
    }
}

/// Installs the assets of the chosen targets; nothing else changes. The caller has said yes unless it is a dry run.
pub(crate) fn bootstrap(
    site: &Site,
    options: BootstrapOptions,
    pass: &Pass<'_>,
    watch: &dyn Watch,
) -> Result<(BootstrapData, Vec<String>)> {
    if options.dry_run {
        return review(site, options, |_| ()).map(|(data, warnings, ())| (data, warnings));
    }
    let lock = HomeLock::take(site)?;
    let recovered = recover(site, &lock)?;
    let (scene, mut data) = Scene::open(site, options)?;
    check_adopt(&data.changes, options.adopt)?;
    if data.changes.is_empty() && scene.is_recorded() {
        data.reason = Some("no_changes");
    } else {
        pass(&scene.pending(site, &data))?;
        let transaction = scene.transaction(site, &data)?;
        data.snapshot_id = Some(transaction.run(&lock, watch)?);
        data.applied = true;
    }
    Ok((data, recovered.into_iter().chain(scene.deployed.warnings).collect()))
}

/// What [`bootstrap`] would do now, and what `judge` makes of it. Nothing is written.
pub(crate) fn review<T>(
    site: &Site,
    options: BootstrapOptions,
    judge: impl FnOnce(&Pending<'_>) -> T,
) -> Result<(BootstrapData, Vec<String>, T)> {
    let (scene, mut data) = Scene::open(site, options)?;
    let judged = judge(&scene.pending(site, &data));
    data.reason = Some("dry_run");
    let warnings = interrupted(site).into_iter().chain(scene.deployed.warnings).collect();
    Ok((data, warnings, judged))
}

/// The assets, and what was deployed where they go.
struct Scene {
    assets: Desired,
    deployed: Deployed,
    steps: Vec<Step>,
}

impl Scene {
    fn open(site: &Site, options: BootstrapOptions) -> Result<(Self, BootstrapData)> {
        let config = Manifest::load(&site.repo)?;
        let targets = config.chosen_targets(&site.target)?;
        let assets = wanted(site, &config, &targets, options.scope);
        let deployed = Deployed::read(site, &assets.roots, &config.targets, &[])?;
        let mut known = Deployed { files: deployed.files.clone(), ..Deployed::default() };
        // What else was deployed there is none of this command's business.
        known.files.retain(|place, _| assets.files.contains_key(place));
        let mut pairs = compared(site, &assets, &known)?;
        pairs.sort_by(|(a, _), (b, _)| (a.target, &a.path).cmp(&(b.target, &b.path)));
        let (changes, steps): (Vec<Change>, Vec<Step>) = pairs.into_iter().unzip();
        let data = BootstrapData {
            applied: false,
            reason: None,
            snapshot_id: None,
            targets,
            scope: options.scope,
            summary: summary(&changes),
            changes,
        };
        Ok((Self { assets, deployed, steps }, data))
    }

    fn pending<'p>(&'p self, site: &Site, data: &'p BootstrapData) -> Pending<'p> {
        Pending {
            command: "bootstrap",
            source: site.repo.clone(),
            changes: &data.changes,
            steps: &self.steps,
            entries: Entries::new(),
            may_hold_credentials: false,
            subject: json!({ "scope": data.scope }),
        }
    }

    /// Whether the roots' manifests list every asset as it is.
    fn is_recorded(&self) -> bool {
        self.assets.files.iter().all(|(place, file)| {
            self.deployed.files.get(place).is_some_and(|managed| {
                managed.sha == file.content.sha() && managed.modules == file.modules
            })
        })
    }

    fn transaction<'s>(&self, site: &'s Site, data: &BootstrapData) -> Result<Transaction<'s>> {
        let (id, created_at) = new_id();
        let mut steps = self.steps.clone();
        let mut state: Vec<_> = self
            .assets
            .files
            .iter()
            .map(|((target, path), file)| (*target, path.clone(), file.content.clone()))
            .collect();
        for root in &self.assets.roots {
            let mut listing = manifest(site, root.target, &id, &created_at, self.rows(root));
            listing.merged_files = self.merged(root);
            let step = manifest_step(site, root, file_name(root.target), Some(listing))?;
            if let After::File { content, .. } = &step.after {
                state.push((step.target, step.full(), content.clone()));
            }
            steps.push(step);
            if self.deployed.legacy.contains(&(root.target, root.path.clone())) {
                steps.push(manifest_step(site, root, legacy_name(), None)?);
            }
        }
        let managed = self.assets.files.iter().map(|((target, path), file)| SnapshotFile {
            target: target.to_string(),
            path: shown(path),
            sha256: file.content.sha(),
            executable: false,
        });
        Ok(Transaction {
            site,
            kind: "bootstrap",
            id,
            created_at,
            targets: data.targets.clone(),
            managed: managed.collect(),
            state,
            rolled_back_to: None,
            steps,
        })
    }

    /// What a root's manifest lists afterwards: what it listed, and the assets.
    fn rows(&self, root: &Root) -> Vec<ManagedRow> {
        let listed = self
            .deployed
            .files
            .iter()
            .filter(|(place, managed)| place.0 == root.target && managed.root == root.path);
        let mut rows: BTreeMap<String, ManagedRow> = listed
            .map(|(_, managed)| {
                let (sha256, module_ids) = (managed.sha, managed.modules.clone());
                let path = managed.path.to_string();
                (path.clone(), ManagedRow { path, sha256, module_ids })
            })
            .collect();
        let here = |file: &&DesiredFile| file.root == root.path;
        let of_target = self.assets.files.iter().filter(|((target, _), _)| *target == root.target);
        for file in of_target.map(|(_, file)| file).filter(here) {
            let path = file.path.to_string();
            let (sha256, module_ids) = (file.content.sha(), file.modules.clone());
            rows.insert(path.clone(), ManagedRow { path, sha256, module_ids });
        }
        rows.into_values().collect()
    }

    fn merged(&self, root: &Root) -> Vec<MergedRow> {
        let servers = self.deployed.servers.iter();
        let here =
            servers.filter(|((target, _), file)| *target == root.target && file.root == root.path);
        here.map(|(_, file)| MergedRow {
            path: file.path.to_string(),
            entries: file.entries.clone(),
        })
        .collect()
    }
}

fn wanted(site: &Site, config: &Manifest, targets: &[TargetId], scope: BootstrapScope) -> Desired {
    let (mut desired, mut roots) = (Desired::default(), BTreeSet::new());
    for target in targets {
        for file in assets(site, config, (*target, &config.targets[target]), scope) {
            roots.insert(Root { target: *target, path: file.root.clone(), scan_extras: true });
            desired.files.insert((*target, file.root.join(&file.path)), file);
        }
    }
    desired.roots = roots.into_iter().collect();
    desired
}
