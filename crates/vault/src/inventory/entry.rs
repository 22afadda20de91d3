//! One `[secret."PATH"]` or `[overrides."PATH"]` table, as people write it.

use std::fmt;

use jiff::civil::Date;
use keyless_core::{ApproveOnUse, SecretPath};
use serde::Deserialize;
use toml::{Table, Value};

use crate::{
    metadata::EnvName,
    providers::{NO_FORMAT, compile},
    upkeep::{RotationMethod, Upkeep},
};

/// What a file says of one secret.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Entry {
    /// What it is for.
    pub description: Option<String>,
    /// The variable in which programs look for it.
    pub env: Option<EnvName>,
    /// When a human is asked.
    pub approve_on_use: Option<ApproveOnUse>,
    /// What keeps it fresh.
    pub upkeep: Upkeep,
}

/// What a project may say about a secret that is not its own: never more than the owner allows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Override {
    /// What the project uses it for.
    pub description: Option<String>,
    /// When a human is asked, if that is oftener.
    pub approve_on_use: Option<ApproveOnUse>,
    /// How often it is to be renewed, if that is oftener.
    pub rotate_every_days: Option<u32>,
}

/// One of the two files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InventoryFile {
    /// The operator's.
    Index,
    /// The project's.
    Manifest,
}

/// Something in a file that can't be used; what stands beside it can.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The file that it is in.
    pub file: InventoryFile,
    /// Where, such as `required[2]` or `secret."team/x"`.
    pub place: String,
    /// The path of which something is said that can't be read, if it is one.
    pub path: Option<SecretPath>,
    /// Whether it may have asked for more caution with secrets that can't be told.
    pub of_any: bool,
    /// Why, as a fragment of a sentence.
    pub why: String,
}

/// The table as it is written; dates and policies are words there.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct RawEntry {
    description: Option<String>,
    retrieval_url: Option<String>,
    format_regex: Option<String>,
    default_gate: Option<Gate>,
    approve_on_use: Option<ApproveOnUse>,
    expires_at: Option<Day>,
    last_rotated_at: Option<Day>,
    rotate_every_days: Option<u32>,
    rotation_method: Option<RotationMethod>,
    required_scopes: Vec<String>,
    pattern_id: Option<String>,
    env_var: Option<EnvName>,
    cache_ttl_seconds_max: Option<u64>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct RawOverride {
    description: Option<String>,
    gate: Option<Gate>,
    approve_on_use: Option<ApproveOnUse>,
    rotate_every_days: Option<u32>,
}

/// The older word for [`ApproveOnUse`]; who wrote `confirm` meant to be asked each time.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Gate {
    Auto,
    Confirm,
    TouchId,
}

/// `YYYY-MM-DD`, as a string or as TOML's own date.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(try_from = "Value")]
struct Day(Date);

impl InventoryFile {
    /// What people know it by.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Index => "index.toml",
            Self::Manifest => ".keyless/secrets.toml",
        }
    }
}

impl Entry {
    pub(super) fn read(table: &Value) -> Result<Self, String> {
        let raw: RawEntry = table.clone().try_into().map_err(|error| one_line(&error))?;
        if raw.rotate_every_days == Some(0) {
            return Err("rotate_every_days is at least 1".to_owned());
        }
        if let Some(rule) = &raw.format_regex {
            compile(rule).map_err(|_| NO_FORMAT.to_owned())?;
        }
        Ok(Self {
            description: raw.description,
            env: raw.env_var,
            approve_on_use: stricter(raw.default_gate, raw.approve_on_use),
            upkeep: Upkeep {
                retrieval_url: raw.retrieval_url,
                format_regex: raw.format_regex,
                pattern_id: raw.pattern_id,
                expires_at: raw.expires_at.map(|day| day.0),
                last_rotated_at: raw.last_rotated_at.map(|day| day.0),
                rotate_every_days: raw.rotate_every_days,
                rotation_method: raw.rotation_method,
                required_scopes: raw.required_scopes,
                cache_ttl_seconds_max: raw.cache_ttl_seconds_max,
            },
        })
    }
}

impl Override {
    pub(super) fn read(table: &Value) -> Result<Self, String> {
        let raw: RawOverride = table.clone().try_into().map_err(|error| one_line(&error))?;
        if raw.rotate_every_days == Some(0) {
            return Err("rotate_every_days is at least 1".to_owned());
        }
        Ok(Self {
            description: raw.description,
            approve_on_use: stricter(raw.gate, raw.approve_on_use),
            rotate_every_days: raw.rotate_every_days,
        })
    }

    /// Whether it says nothing.
    pub(super) fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

impl Fault {
    /// What is said of `path` there can't be used.
    pub(super) fn of(file: InventoryFile, place: String, path: SecretPath, why: String) -> Self {
        Self { path: Some(path), ..Self::of_none(file, place, why) }
    }

    /// What stands there can't be used, and asked for no caution.
    pub(super) fn of_none(file: InventoryFile, place: String, why: String) -> Self {
        Self { file, place, path: None, of_any: false, why }
    }
}

/// Reads a table of tables by path; what can't be read is told and left out.
pub(super) fn by_path<T>(
    file: InventoryFile,
    section: &'static str,
    table: Option<&Value>,
    read: impl Fn(&Value) -> Result<T, String>,
    faults: &mut Vec<Fault>,
) -> Vec<(SecretPath, T)> {
    let empty = Table::new();
    let entries = match table {
        None => &empty,
        Some(Value::Table(entries)) => entries,
        Some(_) => {
            let why = "is not a table of secrets".to_owned();
            faults.push(Fault { of_any: true, ..Fault::of_none(file, section.to_owned(), why) });
            &empty
        }
    };
    let mut all = Vec::with_capacity(entries.len());
    for (text, value) in entries {
        let place = format!("{section}.{text:?}");
        match SecretPath::parse(text) {
            Err(error) => faults.push(Fault::of_none(file, place, error.to_string())),
            Ok(path) => match read(value) {
                Ok(entry) => all.push((path, entry)),
                Err(why) => faults.push(Fault::of(file, place, path, why)),
            },
        }
    }
    all
}

fn stricter(gate: Option<Gate>, policy: Option<ApproveOnUse>) -> Option<ApproveOnUse> {
    let gate = gate.map(|gate| match gate {
        Gate::Auto => ApproveOnUse::Never,
        Gate::Confirm | Gate::TouchId => ApproveOnUse::PerCall,
    });
    gate.max(policy)
}

fn one_line(error: &toml::de::Error) -> String {
    error.message().lines().next().unwrap_or("can't be read").to_owned()
}

impl TryFrom<Value> for Day {
    type Error = String;

    fn try_from(value: Value) -> Result<Self, String> {
        let text = match &value {
            Value::String(text) => text.clone(),
            Value::Datetime(at) => at.to_string(),
            _ => String::new(),
        };
        text.parse().map(Self).map_err(|_| format!("{text:?} is not a date such as 2026-11-30"))
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}: {}", self.file.as_str(), self.place, self.why)
    }
}
