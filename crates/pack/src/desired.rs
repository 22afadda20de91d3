//! What every target shall hold: one map from path to content, made in memory.

use std::{
    collections::{BTreeMap, HashMap},
    path::{Path, PathBuf},
};

use serde_json::json;

use crate::{
    error::{Code, PackError, Result},
    paths::{RelPath, shown},
    servers::{self, ServerFile},
    sha::Content,
    site::Site,
    targets::{self, Output, Root, TargetId},
    workspace::Workspace,
};

/// Where a file is: the target that it belongs to and its absolute path.
pub(crate) type Place = (TargetId, PathBuf);

/// All roots and all files.
#[derive(Debug, Default)]
pub(crate) struct Desired {
    pub(crate) roots: Vec<Root>,
    pub(crate) files: BTreeMap<Place, DesiredFile>,
    /// Files of which only some entries are ours.
    pub(crate) servers: BTreeMap<Place, ServerFile>,
    pub(crate) warnings: Vec<String>,
}

/// One file.
#[derive(Clone, Debug)]
pub(crate) struct DesiredFile {
    /// The root that it is managed from.
    pub(crate) root: PathBuf,
    /// Its path below that.
    pub(crate) path: RelPath,
    pub(crate) content: Content,
    pub(crate) executable: bool,
    /// Sorted.
    pub(crate) modules: Vec<String>,
}

impl Desired {
    /// Maps every module to every target that it is for.
    pub(crate) fn of(site: &Site, workspace: &Workspace) -> Result<Self> {
        let mut desired = Self::default();
        for target in &workspace.targets {
            let config = &workspace.manifest.targets[target];
            let roots = targets::roots(site, *target, config)?;
            let modules: Vec<_> = workspace
                .modules
                .iter()
                .filter(|resolved| resolved.module.is_for(*target))
                .map(|resolved| (&resolved.module, &resolved.composed.tree))
                .collect();
            let instructions = targets::combined_instructions(&modules)?;
            let outputs = targets::outputs(site, *target, config, &modules, instructions.as_ref())
                .map_err(|error| error.with("target", target.as_str()))?;
            for output in outputs {
                desired.add(*target, &roots, output)?;
            }
            desired.servers.extend(servers::wanted(site, &workspace.manifest, *target));
            desired.roots.extend(roots);
        }
        desired.roots.sort();
        desired.warn_about_case();
        Ok(desired)
    }

    fn add(&mut self, target: TargetId, roots: &[Root], output: Output) -> Result<()> {
        let full = output.root.join(&output.path);
        let (root, path) = deepest(roots, &full).unwrap_or((output.root, output.path));
        let mut modules = output.modules;
        modules.sort();
        let new = DesiredFile {
            root,
            path,
            content: output.content,
            executable: output.executable,
            modules,
        };
        match self.files.entry((target, full)) {
            std::collections::btree_map::Entry::Vacant(entry) => {
                entry.insert(new);
            }
            std::collections::btree_map::Entry::Occupied(mut entry) => {
                let (_, full) = entry.key().clone();
                let old = entry.get_mut();
                if old.content != new.content {
                    return Err(conflict(target, &full, old, &new));
                }
                old.executable |= new.executable;
                old.modules.extend(new.modules);
                old.modules.sort();
                old.modules.dedup();
            }
        }
        Ok(())
    }

    /// Two names that differ by case alone are one file on many machines.
    fn warn_about_case(&mut self) {
        let mut seen: HashMap<(TargetId, String), &Path> = HashMap::with_capacity(self.files.len());
        let mut warnings = Vec::new();
        for (target, path) in self.files.keys() {
            let folded = shown(path).to_lowercase();
            if let Some(other) = seen.insert((*target, folded), path) {
                warnings.push(format!(
                    "{target}: {} and {} differ by case alone and are one file on some machines",
                    other.display(),
                    path.display()
                ));
            }
        }
        self.warnings.extend(warnings);
    }
}

/// The deepest root that a path is below, and the rest of the path.
pub(crate) fn deepest(roots: &[Root], path: &Path) -> Option<(PathBuf, RelPath)> {
    let below = |root: &Root| Some((root.path.clone(), RelPath::below(&root.path, path)?));
    roots.iter().filter_map(below).max_by_key(|(root, _)| root.components().count())
}

fn conflict(target: TargetId, path: &Path, old: &DesiredFile, new: &DesiredFile) -> PackError {
    let side =
        |file: &DesiredFile| json!({"sha256": file.content.sha(), "module_ids": file.modules});
    let message = format!(
        "{} and {} want different content in {}",
        old.modules.join(", "),
        new.modules.join(", "),
        path.display()
    );
    PackError::new(Code::DesiredStateConflict, message)
        .with("target", target.as_str())
        .with("path", shown(path))
        .with("existing", side(old))
        .with("new", side(new))
        .hint("rename one of the files, or take one of the modules out of the profile")
}
