//! What an import is asked, and what it answers.

use std::path::PathBuf;

use serde::Serialize;

use crate::targets::TargetId;

/// How `import` is asked for.
#[derive(Clone, Debug, Default)]
pub struct ImportOptions {
    /// Write; otherwise only say what would be.
    pub apply: bool,
    /// The home to look in; the user's when absent.
    pub home_root: Option<PathBuf>,
}

/// The payload of `import`.
#[derive(Clone, Debug, Serialize)]
pub struct ImportData {
    /// Whether anything was written.
    pub applied: bool,
    /// Why nothing was: `dry_run` or `no_changes`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<&'static str>,
    /// The config repo.
    pub repo: String,
    /// `repo` with `/` between its segments.
    pub repo_posix: String,
    /// The home that was looked in.
    pub home_root: String,
    /// `home_root` with `/` between its segments.
    pub home_root_posix: String,
    /// The project that was looked in.
    pub project: ImportProject,
    /// Everything that was found, by module id.
    pub plan: Vec<ImportItem>,
    /// Their number.
    pub summary: ImportSummary,
    /// What stands in the way.
    pub conflicts: Vec<ImportConflict>,
    /// Commands that go on from here.
    pub next_actions: Vec<String>,
    /// The profile for the project's modules; agentpack says it in words only.
    #[serde(skip)]
    pub profile: Option<String>,
}

/// The project.
#[derive(Clone, Debug, Serialize)]
pub struct ImportProject {
    /// Its id.
    pub project_id: String,
    /// Its directory.
    pub project_root: String,
    /// `project_root` with `/` between its segments.
    pub project_root_posix: String,
    /// Where it comes from, when git knows.
    pub origin_url: Option<String>,
}

/// Something that was found.
#[derive(Clone, Debug, Serialize)]
pub struct ImportItem {
    /// What becomes of it.
    pub op: ImportOp,
    /// The module that it is to be.
    pub module_id: String,
    /// That module's type.
    pub module_type: &'static str,
    /// `user` or `project`.
    pub scope: &'static str,
    /// The module's targets.
    pub targets: Vec<TargetId>,
    /// The module's tags.
    pub tags: Vec<String>,
    /// Where it stands.
    pub source_path: String,
    /// `source_path` with `/` between its segments.
    pub source_path_posix: String,
    /// Where it goes.
    pub dest_path: String,
    /// `dest_path` with `/` between its segments.
    pub dest_path_posix: String,
    /// Set when something stands there already.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub dest_exists: bool,
    /// Why it is skipped.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub skip_reason: Option<&'static str>,
    /// The modules that it was deployed from; agentpack does not say this.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub deployed_by: Vec<String>,
}

/// What becomes of something that was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ImportOp {
    /// It becomes a module.
    Create,
    /// A module of this id is there, or modules are that it was deployed from.
    SkipExistingModule,
    /// It can't be a module.
    SkipInvalid,
}

/// How many of each.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct ImportSummary {
    /// All of them.
    pub candidates: usize,
    /// Modules to make.
    pub create: usize,
    /// Modules that are there.
    pub skipped_existing_module: usize,
    /// What can't be a module.
    pub skipped_invalid: usize,
}

/// Something in the way.
#[derive(Clone, Debug, Serialize)]
pub struct ImportConflict {
    /// `dest_path_exists` or `duplicate_module_id_in_scan`.
    pub kind: &'static str,
    /// How many files it is about.
    pub count: usize,
    /// The module id, where it is about one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub module_id: Option<String>,
    /// Some of the files.
    pub sample_paths: Vec<String>,
    /// `sample_paths` with `/` between their segments.
    pub sample_paths_posix: Vec<String>,
    /// What to do.
    pub hint: &'static str,
}
