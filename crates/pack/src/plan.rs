//! What a deploy would change: desired, deployed and disk, compared place by place.
//!
//! ```text
//! disk \ desired      wanted                                   not wanted, ours
//! nothing             create                                   -
//! as wanted           -                                        delete
//! other, ours         update (managed; edited if not ours any more)  delete (edited …)
//! other, not ours     update (adopt): needs the caller's word  -
//! ```

use std::{
    collections::HashMap,
    path::{Path, PathBuf},
};

use rayon::prelude::*;
use serde::Serialize;

use crate::{
    apply::{After, Step, interrupted},
    beneath::{Beneath, Difference, Disk, differs},
    deployed::{Deployed, Managed, confine},
    desired::{Desired, DesiredFile, Place},
    error::{Code, PackError, Result},
    gate::Entries,
    operator,
    paths::shown,
    servers,
    sha::Sha,
    site::Site,
    targets::TargetId,
    workspace::Workspace,
};

/// One change, as payloads show it.
#[derive(Clone, Debug, Serialize)]
pub struct Change {
    /// The target.
    pub target: TargetId,
    /// `create`, `update` or `delete`.
    pub op: Op,
    /// The absolute path.
    pub path: String,
    /// `path` with `/` between its segments.
    pub path_posix: String,
    /// What is there.
    pub before_sha256: Option<Sha>,
    /// What shall be there.
    pub after_sha256: Option<Sha>,
    /// For updates: whether the file is ours.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub update_kind: Option<UpdateKind>,
    /// Why, in words.
    pub reason: &'static str,
    /// Set when the file was changed on disk after it was deployed; agentpack does not say this.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub edited: bool,
}

/// What is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Op {
    /// A file that is not there.
    Create,
    /// A file of ours that nobody wants any more.
    Delete,
    /// A file with other content.
    Update,
}

/// Whose file is updated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum UpdateKind {
    /// The user's.
    AdoptUpdate,
    /// Ours.
    ManagedUpdate,
}

/// How many of each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Summary {
    /// Files to create.
    pub create: usize,
    /// Files to update.
    pub update: usize,
    /// Files to delete.
    pub delete: usize,
}

/// The payload of `plan` and `diff`.
#[derive(Clone, Debug, Serialize)]
pub struct PlanData {
    /// The profile.
    pub profile: String,
    /// The targets, by name.
    pub targets: Vec<TargetId>,
    /// The changes, by target and path.
    pub changes: Vec<Change>,
    /// Their number.
    pub summary: Summary,
}

/// A plan with everything that is needed to carry it out.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) workspace: Workspace,
    pub(crate) desired: Desired,
    pub(crate) deployed: Deployed,
    pub(crate) changes: Vec<Change>,
    /// One for each change, in the same order.
    pub(crate) steps: Vec<Step>,
    pub(crate) warnings: Vec<String>,
}

impl Plan {
    /// Reads everything and compares; writes nothing.
    pub(crate) fn make(site: &Site) -> Result<Self> {
        let mut workspace = Workspace::open(site)?;
        let mut desired = Desired::of(site, &workspace)?;
        let (manifest, targets) = (&workspace.manifest, &workspace.targets);
        let mut deployed = Deployed::read(site, &desired.roots, &manifest.targets, targets)?;
        operator::keep(site, manifest, targets, &mut desired, &mut deployed);
        let mut warnings: Vec<String> = interrupted(site).into_iter().collect();
        warnings.extend(manifest.warnings_of_untaken());
        warnings.append(&mut workspace.warnings);
        warnings.append(&mut desired.warnings);
        warnings.append(&mut deployed.warnings);
        let mut pairs = compared(site, &desired, &deployed)?;
        pairs.extend(servers::compared(site, &desired, &deployed)?);
        pairs.sort_by(|(a, _), (b, _)| (a.target, &a.path).cmp(&(b.target, &b.path)));
        let (changes, steps): (Vec<Change>, Vec<Step>) = pairs.into_iter().unzip();
        warnings.extend(edited(&changes));
        Ok(Self { workspace, desired, deployed, changes, steps, warnings })
    }

    pub(crate) fn data(&self, site: &Site) -> PlanData {
        PlanData {
            profile: site.profile.clone(),
            targets: self.workspace.targets.clone(),
            changes: self.changes.clone(),
            summary: summary(&self.changes),
        }
    }

    /// Whether a step changes entries of ours in a file that others write too.
    pub(crate) fn is_merge(&self, step: &Step) -> bool {
        let place = (step.target, step.full());
        self.desired.servers.contains_key(&place) || self.deployed.servers.contains_key(&place)
    }

    /// The entries that are ours or shall be, in files that others write too.
    pub(crate) fn entries(&self) -> Entries {
        let mut entries = Entries::new();
        for (place, file) in &self.desired.servers {
            entries.entry(place.clone()).or_default().extend(file.entries.keys().cloned());
        }
        for (place, file) in &self.deployed.servers {
            entries.entry(place.clone()).or_default().extend(file.entries.keys().cloned());
        }
        entries
    }
}

/// Refuses to overwrite the user's own files without the word for it.
pub(crate) fn check_adopt(changes: &[Change], adopt: bool) -> Result<()> {
    let adopts = |change: &&Change| change.update_kind == Some(UpdateKind::AdoptUpdate);
    let mut paths: Vec<&str> =
        changes.iter().filter(adopts).map(|change| change.path.as_str()).collect();
    if adopt || paths.is_empty() {
        return Ok(());
    }
    let count = paths.len();
    paths.sort_unstable();
    paths.truncate(20);
    let message = format!(
        "{count} existing file(s) that were not deployed by agentpack would be overwritten"
    );
    Err(PackError::new(Code::AdoptConfirmRequired, message)
        .with("flag", "--adopt")
        .with("adopt_updates", count)
        .with("sample_paths", paths)
        .hint("look at the diff; with --adopt they are backed up and overwritten"))
}

/// The number of each.
pub(crate) fn summary(changes: &[Change]) -> Summary {
    let count = |op| changes.iter().filter(|change| change.op == op).count();
    Summary { create: count(Op::Create), update: count(Op::Update), delete: count(Op::Delete) }
}

/// Open roots, those that exist.
pub(crate) type OpenRoots = HashMap<PathBuf, Beneath>;

/// Opens every root that a file is in.
pub(crate) fn open_roots<'p>(
    site: &Site,
    paths: impl Iterator<Item = &'p Path>,
) -> Result<OpenRoots> {
    let mut open = OpenRoots::new();
    let mut tried = std::collections::HashSet::new();
    for path in paths {
        if tried.insert(path)
            && let Some(root) = Beneath::open(path, confine(site, path))?
        {
            open.insert(path.to_owned(), root);
        }
    }
    Ok(open)
}

/// What differs between the wanted and the deployed files, and the disk.
pub(crate) fn compared(
    site: &Site,
    desired: &Desired,
    deployed: &Deployed,
) -> Result<Vec<(Change, Step)>> {
    let wanted = desired.files.values().map(|file| file.root.as_path());
    let managed = deployed.files.values().map(|file| file.root.as_path());
    let open = open_roots(site, wanted.chain(managed))?;
    let wanted = desired.files.par_iter().map(|(place, file)| {
        let disk = look(&open, &file.root, &file.path)?;
        wanted_change(place, file, disk, deployed.files.get(place))
    });
    let unwanted =
        deployed.files.par_iter().filter(|(place, _)| !desired.files.contains_key(*place)).map(
            |(place, managed)| {
                let disk = look(&open, &managed.root, &managed.path)?;
                Ok(unwanted_change(place, managed, disk))
            },
        );
    let found: Vec<Option<(Change, Step)>> = wanted.chain(unwanted).collect::<Result<_>>()?;
    Ok(found.into_iter().flatten().collect())
}

/// What stands at a place; nothing where its root does not exist.
pub(crate) fn look(open: &OpenRoots, root: &Path, path: &crate::paths::RelPath) -> Result<Disk> {
    open.get(root).map_or(Ok(Disk::Absent), |root| root.look(path))
}

fn wanted_change(
    place: &Place,
    file: &DesiredFile,
    disk: Disk,
    managed: Option<&Managed>,
) -> Result<Option<(Change, Step)>> {
    let ours = managed.is_some() && matches!(disk, Disk::File(_));
    let (op, kind, reason) = match (&disk, differs(&disk, &file.content, file.executable)) {
        (Disk::Directory, _) => return Err(directory_in_the_way(place)),
        (_, Difference::None) => return Ok(None),
        (Disk::Absent, _) => (Op::Create, None, "file missing"),
        (_, Difference::Execution) if ours => {
            (Op::Update, Some(UpdateKind::ManagedUpdate), "executable bit differs")
        }
        // The user's own file with the right bytes: its mode is the user's business.
        (_, Difference::Execution) => return Ok(None),
        _ if ours => (Op::Update, Some(UpdateKind::ManagedUpdate), "content differs"),
        _ => (Op::Update, Some(UpdateKind::AdoptUpdate), "would overwrite unmanaged existing file"),
    };
    let edited = ours && managed.map(|managed| managed.sha) != disk.sha();
    let after = After::File { content: file.content.clone(), executable: file.executable };
    let adopted = kind == Some(UpdateKind::AdoptUpdate);
    let change = change(place, op, kind, reason, edited, &disk, after.sha());
    let step = Step {
        target: place.0,
        root: file.root.clone(),
        path: file.path.clone(),
        op: if op == Op::Create { "create" } else { "update" },
        before: disk,
        after,
        adopted,
    };
    Ok(Some((change, step)))
}

fn unwanted_change(place: &Place, managed: &Managed, disk: Disk) -> Option<(Change, Step)> {
    // A link or directory that took our file's place is not ours to remove.
    if !matches!(disk, Disk::File(_)) {
        return None;
    }
    let edited = disk.sha() != Some(managed.sha);
    let change = change(place, Op::Delete, None, "no longer managed", edited, &disk, None);
    let step = Step {
        target: place.0,
        root: managed.root.clone(),
        path: managed.path.clone(),
        op: "delete",
        before: disk,
        after: After::Absent,
        adopted: false,
    };
    Some((change, step))
}

pub(crate) fn change(
    place: &Place,
    op: Op,
    update_kind: Option<UpdateKind>,
    reason: &'static str,
    edited: bool,
    disk: &Disk,
    after: Option<Sha>,
) -> Change {
    let path = shown(&place.1);
    Change {
        target: place.0,
        op,
        path_posix: path.clone(),
        path,
        before_sha256: disk.sha(),
        after_sha256: after,
        update_kind,
        reason,
        edited,
    }
}

fn directory_in_the_way(place: &Place) -> PackError {
    let path = shown(&place.1);
    PackError::new(Code::IoInvalidPath, format!("{path} is a directory, and a file belongs there"))
        .with("path", path.clone())
        .with("path_posix", path)
        .with("target", place.0.as_str())
        .hint("move the directory away")
}

/// One sentence about files that were changed on disk since they were deployed.
fn edited(changes: &[Change]) -> Option<String> {
    let edited: Vec<&str> =
        changes.iter().filter(|change| change.edited).map(|change| change.path.as_str()).collect();
    let sample = edited.iter().take(5).copied().collect::<Vec<_>>().join(", ");
    (!edited.is_empty()).then(|| {
        format!(
            "{} deployed file(s) were edited on disk and would be overwritten or deleted; a deploy backs them up \
             first, `agentpack evolve propose` takes the edits over: {sample}{}",
            edited.len(),
            if edited.len() > 5 { ", …" } else { "" }
        )
    })
}
