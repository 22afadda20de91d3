//! Going back: to how a snapshot left its targets, or to how they were before it.
//!
//! For every place that was touched since: what the snapshot left there, where it was one of its files;
//! else what the first change after it found there. So a file that a deploy adopted comes back as its user
//! wrote it. Other targets are not touched, and what is overwritten is backed up by the rollback's own
//! snapshot. What was done in other projects stays. Everything is read and checked before anything is written.

mod entries;
mod reach;

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
};

use serde::Serialize;
use serde_json::json;

use self::reach::Reach;
use crate::{
    apply::{After, HomeLock, Step, Transaction, Watch, new_id, recover},
    beneath::{Beneath, Difference, Disk, differs},
    deployed::{Deployed, confine, is_manifest},
    desired::{Place, deepest},
    error::{Code, PackError, Result},
    gate::{Entries, Pass, Pending},
    manifest::{Manifest, TargetConfig},
    paths::{RelPath, shown},
    plain_file,
    plan::{self, Change, Op, Summary},
    servers,
    sha::Content,
    site::Site,
    snapshot::{self, Snapshot, SnapshotChange, SnapshotFile, Snapshots},
    targets::{self, Root, TargetId},
};

/// The payload of `rollback`.
#[derive(Clone, Debug, Serialize)]
pub struct RollbackData {
    /// The snapshot.
    pub rolled_back_to: String,
    /// The snapshot of the rollback itself.
    pub event_snapshot_id: String,
}

/// What a rollback would do.
#[derive(Clone, Debug, Serialize)]
pub struct RollbackPreview {
    /// The snapshot.
    pub rolled_back_to: String,
    /// That nothing was written.
    pub dry_run: bool,
    /// What would change.
    pub changes: Vec<Change>,
    /// How much that is.
    pub summary: Summary,
}

/// What a place shall hold.
#[derive(Clone, Debug)]
enum Goal {
    Absent,
    File { content: Content, mode: Mode },
    Link(String),
}

/// Which mode a file comes back with.
#[derive(Clone, Copy, Debug)]
enum Mode {
    /// The bits that it had.
    Exact(u32),
    /// Its own bits, executable or not.
    Executable(bool),
    /// Its own bits as they are.
    Kept,
}

/// Where a rollback to `to` works: in the project that the snapshot was made in, wherever the caller stands.
pub(crate) fn site_of(site: Site, to: &str) -> Site {
    let id = to.strip_prefix("before:").unwrap_or(to);
    // Where there is none, the rollback itself says so.
    match Snapshots::load(&site, id).ok().and_then(|goal| goal.project_root) {
        Some(root) => site.in_project(Path::new(&root)),
        None => site,
    }
}

/// Rolls back to `to`: a snapshot's id, or `before:` and a snapshot's id.
pub(crate) fn rollback(
    site: &Site,
    to: &str,
    pass: &Pass<'_>,
    watch: &dyn Watch,
) -> Result<(RollbackData, Vec<String>)> {
    let lock = HomeLock::take(site)?;
    let mut warnings: Vec<String> = recover(site, &lock)?.into_iter().collect();
    let Prepared { goal, before, scene, goals, entries, steps, warnings: more } =
        prepared(site, to)?;
    warnings.extend(more);
    let (manifests, reviewed) = reviewed(&steps);
    let changes: Vec<Change> = reviewed.iter().map(change_of).collect();
    let listings: Vec<_> =
        manifests.iter().map(|step| (shown(&step.full()), step.after.sha())).collect();
    pass(&Pending {
        command: "rollback",
        source: site.snapshots().join(&goal.id),
        changes: &changes,
        steps: &reviewed,
        entries,
        may_hold_credentials: true,
        subject: json!({ "to": to, "manifests": listings }),
    })?;
    let (event, created_at) = new_id();
    let files = if before { Vec::new() } else { goal.files_after() };
    let state = goals.iter().filter_map(|((target, path), goal)| match goal {
        Goal::File { content, .. } => Some((*target, path.clone(), content.clone())),
        _ => None,
    });
    let transaction = Transaction {
        site,
        kind: "rollback",
        id: event,
        created_at,
        targets: scene.targets.iter().copied().collect(),
        state: state.collect(),
        managed: files.into_iter().filter(|file| scene.has(&file.target)).collect(),
        steps,
        rolled_back_to: Some(goal.id.clone()),
    };
    let event_snapshot_id = transaction.run(&lock, watch)?;
    Ok((RollbackData { rolled_back_to: to.to_owned(), event_snapshot_id }, warnings))
}

/// What [`rollback`] would change; only looks.
pub(crate) fn preview(site: &Site, to: &str) -> Result<(RollbackPreview, Vec<String>)> {
    let Prepared { steps, warnings, .. } = prepared(site, to)?;
    let changes: Vec<Change> = reviewed(&steps).1.iter().map(change_of).collect();
    let summary = plan::summary(&changes);
    let rolled_back_to = to.to_owned();
    Ok((RollbackPreview { rolled_back_to, dry_run: true, changes, summary }, warnings))
}

/// A rollback of which nothing is written yet.
struct Prepared<'s> {
    goal: Snapshot,
    before: bool,
    scene: Scene<'s>,
    goals: BTreeMap<Place, Goal>,
    entries: Entries,
    steps: Vec<Step>,
    warnings: Vec<String>,
}

fn prepared<'s>(site: &'s Site, to: &str) -> Result<Prepared<'s>> {
    let (id, before) = match to.strip_prefix("before:") {
        Some(id) => (id, true),
        None => (to, false),
    };
    let goal = Snapshots::load(site, id)?;
    if goal.kind == "rollback" && !before {
        return Err(PackError::new(
            Code::SnapshotInvalid,
            format!("snapshot {id} is a rollback itself"),
        )
        .with("snapshot_id", id)
        .hint("name the deploy that it went back to, or use before: and this id to take it back"));
    }
    let (all, mut warnings) = Snapshots::list(site)?;
    if before && Snapshots::may_lack(&all, &goal) {
        warnings.push(format!(
            "snapshots after {id} have been pruned: a file that only they made may come back as a later one found it; \
             look at what `rollback --to before:{id} --dry-run` says"
        ));
    }
    let manifest = Manifest::load(&site.repo).unwrap_or_default();
    let scene = Scene { site, manifest, targets: chosen(site, &goal)? };
    let mut goals = scene.goals(&goal, before, &all)?;
    let entries = scene.merge(&mut goals)?;
    let steps = scene.steps(&goals)?;
    Ok(Prepared { goal, before, scene, goals, entries, steps, warnings })
}

/// The manifests' steps, and those that a person is shown.
fn reviewed(steps: &[Step]) -> (Vec<Step>, Vec<Step>) {
    steps.iter().cloned().partition(|step| is_manifest(file_name(step.path.as_str())))
}

/// A step as a person is shown it.
fn change_of(step: &Step) -> Change {
    let op = match (&step.before, &step.after) {
        (_, After::Absent) => Op::Delete,
        (Disk::Absent, _) => Op::Create,
        _ => Op::Update,
    };
    let place = (step.target, step.full());
    plan::change(&place, op, None, "rolled back", false, &step.before, step.after.sha())
}

/// The snapshot's targets, as far as `--target` leaves them.
fn chosen(site: &Site, snapshot: &Snapshot) -> Result<BTreeSet<TargetId>> {
    let mut targets = BTreeSet::new();
    for name in &snapshot.targets {
        let target = TargetId::parse(name).ok_or_else(|| {
            snapshot::damaged(
                &site.snapshots().join(&snapshot.id),
                &format!("it is of an unknown target `{name}`"),
            )
        })?;
        if site.target == "all" || site.target == *name {
            targets.insert(target);
        }
    }
    if targets.is_empty() {
        let message = format!("snapshot {} has nothing of target `{}`", snapshot.id, site.target);
        return Err(PackError::new(Code::SnapshotInvalid, message)
            .hint("choose one of its targets, or none"));
    }
    Ok(targets)
}

struct Scene<'s> {
    site: &'s Site,
    manifest: Manifest,
    targets: BTreeSet<TargetId>,
}

impl Scene<'_> {
    fn has(&self, target: &str) -> bool {
        TargetId::parse(target).is_some_and(|target| self.targets.contains(&target))
    }

    /// What every place shall hold.
    fn goals(
        &self,
        goal: &Snapshot,
        before: bool,
        all: &[Snapshot],
    ) -> Result<BTreeMap<Place, Goal>> {
        let mut goals = BTreeMap::new();
        if !before {
            for file in goal.files_after().iter().filter(|file| self.has(&file.target)) {
                let place = self.place(goal, &file.target, &file.path)?;
                let content = self.left(goal, file)?;
                goals
                    .insert(place, Goal::File { content, mode: Mode::Executable(file.executable) });
            }
            for change in goal
                .changes
                .iter()
                .filter(|change| self.has(&change.target) && is_manifest(file_name(&change.path)))
            {
                self.manifest_goal(goal, change, &mut goals)?;
            }
        }
        // A deploy's snapshot lists all the files that were ours.
        let lists_all = !before && goal.kind != "bootstrap" && goal.managed_files.is_some();
        let may_lack = lists_all && Snapshots::may_lack(all, goal);
        let first = snapshot::order(&goal.id);
        let reach = Reach::of(self, goal);
        for later in all {
            let order = snapshot::order(&later.id);
            if order < first || (order == first && !before) {
                continue;
            }
            for change in later.changes.iter().filter(|change| self.has(&change.target)) {
                if !reach.has(later, change)? {
                    continue;
                }
                let place = self.place(later, &change.target, &change.path)?;
                if goals.contains_key(&place) {
                    continue;
                }
                // Whoever made it was pruned. No change that took over a user's file ever is.
                if may_lack && is_of_ours(change, &place) {
                    goals.insert(place, Goal::Absent);
                    continue;
                }
                // The first change since then saw it as it was then.
                if let Some(found) = self.found(later, change)? {
                    goals.insert(place, found);
                }
            }
        }
        // A bootstrap knows its own files only.
        if !before && goal.kind != "bootstrap" {
            self.forgotten(&mut goals)?;
        }
        Ok(goals)
    }

    /// Files of ours that no snapshot remembers any more, because it was pruned, go too.
    fn forgotten(&self, goals: &mut BTreeMap<Place, Goal>) -> Result<()> {
        for (place, _) in self.deployed()?.files {
            goals.entry(place).or_insert(Goal::Absent);
        }
        Ok(())
    }

    /// What is ours now.
    fn deployed(&self) -> Result<Deployed> {
        let chosen: Vec<TargetId> =
            self.targets.iter().copied().filter(|target| self.config(*target).is_some()).collect();
        Deployed::read(self.site, &self.known_roots()?, &self.manifest.targets, &chosen)
    }

    /// The roots of the chosen targets, as they are configured now.
    fn known_roots(&self) -> Result<Vec<Root>> {
        let mut known = Vec::new();
        for target in &self.targets {
            if let Some(config) = self.config(*target) {
                known.extend(targets::roots(self.site, *target, config)?);
            }
        }
        Ok(known)
    }

    /// The content that a snapshot left in one of its files.
    fn left(&self, goal: &Snapshot, file: &SnapshotFile) -> Result<Content> {
        let stored = snapshot::state_path(self.site, &goal.id, &file.target, Path::new(&file.path));
        let bytes = plain_file::read_whole(&stored)
            .map_err(|error| snapshot::damaged(&stored, &error.to_string()))?;
        let content = Content::new(bytes);
        if content.sha() == file.sha256 {
            return Ok(content);
        }
        Err(snapshot::damaged(&stored, "its content is not what was deployed"))
    }

    /// A manifest file as the snapshot left it, where it kept a copy.
    fn manifest_goal(
        &self,
        goal: &Snapshot,
        change: &SnapshotChange,
        goals: &mut BTreeMap<Place, Goal>,
    ) -> Result<()> {
        let place = self.place(goal, &change.target, &change.path)?;
        let Some(sha256) = change.after_sha256 else {
            goals.insert(place, Goal::Absent);
            return Ok(());
        };
        let (target, path) = (change.target.clone(), change.path.clone());
        let file = SnapshotFile { target, path, sha256, executable: false };
        goals.insert(place, Goal::File { content: self.left(goal, &file)?, mode: Mode::Kept });
        Ok(())
    }

    /// What a change found in its place; `None` where an older program did not keep it.
    fn found(&self, later: &Snapshot, change: &SnapshotChange) -> Result<Option<Goal>> {
        if let Some(target) = &change.before_link {
            return Ok(Some(Goal::Link(target.clone())));
        }
        match change.op.as_str() {
            "create" => return Ok(Some(Goal::Absent)),
            "rollback_restore" if change.before_sha256.is_none() && later.repo.is_some() => {
                return Ok(Some(Goal::Absent));
            }
            _ => {}
        }
        if change.backup_path.is_none() {
            return Ok(None);
        }
        // Where it must be, whatever the snapshot's file says.
        let path =
            snapshot::backup_path(self.site, &later.id, &change.target, Path::new(&change.path));
        let bytes = plain_file::read_whole(&path)
            .map_err(|error| snapshot::damaged(&path, &error.to_string()))?;
        let content = Content::new(bytes);
        if change.before_sha256.is_some_and(|sha| sha != content.sha()) {
            return Err(snapshot::damaged(&path, "the backup is not what was backed up"));
        }
        Ok(Some(Goal::File { content, mode: change.before_mode.map_or(Mode::Kept, Mode::Exact) }))
    }

    /// A path of a snapshot, if it can be one of its target's at all.
    fn place(&self, snapshot: &Snapshot, target: &str, path: &str) -> Result<Place> {
        let file = self.site.snapshots().join(format!("{}.json", snapshot.id));
        let bad = || snapshot::damaged(&file, &format!("{path} is no place of target `{target}`"));
        let target = TargetId::parse(target).ok_or_else(bad)?;
        let full = PathBuf::from(path);
        let config = self.config(target);
        if targets::owns(self.site, target, config, &full) {
            Ok((target, full))
        } else {
            Err(bad())
        }
    }

    fn config(&self, target: TargetId) -> Option<&TargetConfig> {
        self.manifest.targets.get(&target)
    }

    /// The steps from the disk to the goals.
    fn steps(&self, goals: &BTreeMap<Place, Goal>) -> Result<Vec<Step>> {
        let known = self.known_roots()?;
        let deployed = self.deployed()?;
        let mut steps = Vec::new();
        for (place @ (target, full), goal) in goals {
            let (root, path) = Self::root_of(&known, *target, full)?;
            let before = match Beneath::open(&root, confine(self.site, &root))? {
                Some(folder) => folder.look(&path)?,
                None => Disk::Absent,
            };
            let (op, after) = match goal {
                Goal::Absent if before.is_absent() => continue,
                Goal::Absent => ("rollback_delete", After::Absent),
                Goal::Link(target) => ("rollback_restore", After::Link(target.clone())),
                Goal::File { content, mode: Mode::Exact(mode) } => {
                    ("rollback_restore", After::Restored { content: content.clone(), mode: *mode })
                }
                Goal::File { content, mode } => {
                    let can = matches!(&before, Disk::File(file) if file.mode & 0o111 != 0);
                    let executable = matches!(mode, Mode::Executable(true)) || can;
                    ("rollback_restore", After::File { content: content.clone(), executable })
                }
            };
            if is_there(&before, &after) {
                continue;
            }
            if matches!(before, Disk::Directory) {
                return Err(PackError::new(
                    Code::IoInvalidPath,
                    format!("{} is a directory", full.display()),
                )
                .with("path", shown(full))
                .hint("move the directory away"));
            }
            // Its only copy may be the backup, which is kept then.
            let adopted =
                !before.is_absent() && !deployed.files.contains_key(place) && is_ordinary(place);
            steps.push(Step { target: *target, root, path, op, before, after, adopted });
        }
        Ok(steps)
    }

    /// The root that a path is written from: one that is configured, else the nearest directory of the target's.
    fn root_of(known: &[Root], target: TargetId, full: &Path) -> Result<(PathBuf, RelPath)> {
        let of_target: Vec<Root> =
            known.iter().filter(|root| root.target == target).cloned().collect();
        let found = deepest(&of_target, full).or_else(|| {
            // Links above what exists are the user's own; below it there is nothing to follow.
            let folder = full.ancestors().skip(1).find(|folder| folder.is_dir())?;
            Some((folder.to_owned(), RelPath::below(folder, full)?))
        });
        found.ok_or_else(|| {
            PackError::new(Code::IoInvalidPath, format!("{} can't be reached", full.display()))
                .with("path", shown(full))
        })
    }
}

/// Whether a deploy changed a file that was wholly ours already.
fn is_of_ours(change: &SnapshotChange, place: &Place) -> bool {
    matches!(change.op.as_str(), "update" | "delete") && !change.adopted && is_ordinary(place)
}

/// Whether a file is of one owner: no manifest, and none that has servers of several.
fn is_ordinary((target, full): &Place) -> bool {
    let name = full.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    !is_manifest(name) && !servers::is_server_file(*target, full)
}

fn is_there(disk: &Disk, after: &After) -> bool {
    match (disk, after) {
        (Disk::File(file), After::Restored { content, mode }) => {
            file.sha == content.sha() && file.mode == *mode
        }
        (disk, After::File { content, executable }) => {
            differs(disk, content, *executable) == Difference::None
        }
        (disk, after) => disk.sha() == after.sha() && !matches!(disk, Disk::Directory),
    }
}

fn file_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or_default()
}
