//! Why a change or a drift is there: its modules, and the layer that each file came from.

use std::{
    cell::OnceCell,
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use serde::Serialize;

use crate::{
    manifest::{Module, ModuleKind},
    overlay::{OverlayScope, Overlays, patch},
    paths::RelPath,
    plan::{Op, Plan},
    site::Site,
    status::{DriftKind, StatusData},
    targets::TargetId,
    workspace::Resolved,
};

/// The payload of `explain plan` and `explain diff`.
#[derive(Clone, Debug, Serialize)]
pub struct ExplainPlanData {
    /// The profile.
    pub profile: String,
    /// The targets.
    pub targets: Vec<TargetId>,
    /// The changes with their modules.
    pub changes: Vec<ExplainedChange>,
}

/// A change with its modules.
#[derive(Clone, Debug, Serialize)]
pub struct ExplainedChange {
    /// What is done.
    pub op: Op,
    /// The target.
    pub target: TargetId,
    /// The absolute path.
    pub path: String,
    /// `path` with `/` between its segments.
    pub path_posix: String,
    /// The modules that want it.
    pub modules: Vec<ExplainedModule>,
}

/// A module and where its file came from.
#[derive(Clone, Debug, Serialize)]
pub struct ExplainedModule {
    /// The module.
    pub module_id: String,
    /// Its type, as agentpack spells it here.
    pub module_type: Option<&'static str>,
    /// `project`, `machine`, `global`, `upstream` or `missing`.
    pub layer: Option<&'static str>,
    /// The file in the module.
    pub module_path: Option<String>,
}

/// The payload of `explain status`.
#[derive(Clone, Debug, Serialize)]
pub struct ExplainStatusData {
    /// The profile.
    pub profile: String,
    /// The targets.
    pub targets: Vec<TargetId>,
    /// The drift with its modules.
    pub drift: Vec<ExplainedDrift>,
}

/// A drift with its modules.
#[derive(Clone, Debug, Serialize)]
pub struct ExplainedDrift {
    /// How the place differs.
    pub kind: DriftKind,
    /// The target.
    pub target: TargetId,
    /// The absolute path.
    pub path: String,
    /// `path` with `/` between its segments.
    pub path_posix: String,
    /// What is wanted.
    pub expected: Option<String>,
    /// What is there.
    pub actual: Option<String>,
    /// The modules that want it, or wanted it.
    pub modules: Vec<String>,
}

/// Explains a plan.
pub(crate) fn plan(site: &Site, plan: &Plan) -> ExplainPlanData {
    let modules: BTreeMap<&str, &Resolved> =
        plan.workspace.modules.iter().map(|module| (module.module.id.as_str(), module)).collect();
    let overlays = OnceCell::new();
    let explained = |id: &str, output: &RelPath| {
        if let Some(resolved) = modules.get(id) {
            return explained(resolved, id, output);
        }
        let known = plan.workspace.manifest.modules.iter().find(|module| module.id == id);
        let overlays = || overlays.get_or_init(|| Overlays::open(site));
        known.map_or_else(
            || ExplainedModule::unknown(id),
            |known| unchosen(known, output, overlays()),
        )
    };
    let changes = plan.changes.iter().zip(&plan.steps).map(|(change, step)| {
        let place = (step.target, step.full());
        let ids = match (plan.desired.files.get(&place), plan.deployed.files.get(&place)) {
            (Some(file), _) => file.modules.clone(),
            (None, Some(managed)) => managed.modules.clone(),
            (None, None) => {
                let servers = plan.desired.servers.get(&place).into_iter();
                servers
                    .flat_map(|file| file.entries.keys())
                    .map(|name| format!("mcp_server:{name}"))
                    .collect()
            }
        };
        ExplainedChange {
            op: change.op,
            target: change.target,
            path: change.path.clone(),
            path_posix: change.path_posix.clone(),
            modules: ids.iter().map(|id| explained(id, &step.path)).collect(),
        }
    });
    ExplainPlanData {
        profile: site.profile.clone(),
        targets: plan.workspace.targets.clone(),
        changes: changes.collect(),
    }
}

/// Explains a status: files of ours only, as agentpack does.
pub(crate) fn status(plan: &Plan, status: StatusData) -> ExplainStatusData {
    let drift = status.drift.into_iter().filter_map(|item| {
        let place = (item.target, PathBuf::from(&item.path));
        let modules = match (plan.desired.files.get(&place), plan.deployed.files.get(&place)) {
            (Some(file), _) => file.modules.clone(),
            (None, Some(managed)) => managed.modules.clone(),
            (None, None) => return None,
        };
        Some(ExplainedDrift {
            kind: item.kind,
            target: item.target,
            path: item.path,
            path_posix: item.path_posix,
            expected: item.expected,
            actual: item.actual,
            modules,
        })
    });
    let mut drift: Vec<ExplainedDrift> = drift.collect();
    // Not root by root, as in `status`.
    drift.sort_by(|a, b| (a.target, Path::new(&a.path)).cmp(&(b.target, Path::new(&b.path))));
    ExplainStatusData { profile: status.profile, targets: status.targets, drift }
}

impl ExplainedModule {
    /// No module of the manifest.
    fn unknown(id: &str) -> Self {
        Self { module_id: id.to_owned(), module_type: None, layer: None, module_path: None }
    }
}

/// A module that the manifest has and the profile leaves out: it is not composed, so its file is told from the output.
fn unchosen(module: &Module, output: &RelPath, overlays: &Overlays) -> ExplainedModule {
    let path = match module.kind {
        ModuleKind::Instructions => "AGENTS.md",
        ModuleKind::Command | ModuleKind::Prompt => output.file_name(),
        ModuleKind::Skill => output.as_str().split_once('/').map_or("", |(_, inside)| inside),
    };
    let touches = |folder: &Path| {
        folder.join(path).is_file()
            || folder.join(format!("{}/{path}.patch", patch::FOLDER)).is_file()
    };
    let topmost = overlays.of(&module.id).into_iter().rev().find(|(_, folder)| touches(folder));
    ExplainedModule {
        module_id: module.id.clone(),
        module_type: Some(kind(module.kind)),
        layer: Some(topmost.map_or("upstream", |(scope, _)| layer(scope))),
        module_path: Some(path.to_owned()),
    }
}

fn explained(resolved: &Resolved, id: &str, output: &RelPath) -> ExplainedModule {
    let path = module_path(resolved, output);
    let layer = match &path {
        None => "missing",
        Some(path) => resolved.composed.layers.get(path).map_or("upstream", |scope| layer(*scope)),
    };
    ExplainedModule {
        module_id: id.to_owned(),
        module_type: Some(kind(resolved.module.kind)),
        layer: Some(layer),
        module_path: path.map(|path| path.to_string()),
    }
}

/// The module's file behind an output.
pub(crate) fn module_path(resolved: &Resolved, output: &RelPath) -> Option<RelPath> {
    match resolved.module.kind {
        ModuleKind::Instructions => RelPath::parse("AGENTS.md"),
        ModuleKind::Command | ModuleKind::Prompt => resolved.composed.tree.0.keys().next().cloned(),
        ModuleKind::Skill => {
            // The longest of the module's paths that the output ends with: what stands before is the skill's directory.
            let ends = |path: &&RelPath| output.as_str().ends_with(&format!("/{path}"));
            resolved
                .composed
                .tree
                .0
                .keys()
                .filter(ends)
                .max_by_key(|path| path.as_str().len())
                .cloned()
        }
    }
}

fn layer(scope: OverlayScope) -> &'static str {
    scope.as_str()
}

fn kind(kind: ModuleKind) -> &'static str {
    match kind {
        ModuleKind::Command => "Command",
        ModuleKind::Instructions => "Instructions",
        ModuleKind::Prompt => "Prompt",
        ModuleKind::Skill => "Skill",
    }
}
