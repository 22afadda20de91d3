//! The event log: what agents report of the modules they used, and how often that went wrong.
//!
//! One JSON object a line in `state/logs/events.jsonl`, appended under a lock, so that no line is cut by
//! another. Lines that can't be read are counted and told, never a reason to fail.
//! Source: shared/reference/agentpack.md, section 14.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs::{self, File, OpenOptions},
    io::{self, Read as _, Seek as _, SeekFrom, Write as _},
    path::{Path, PathBuf},
};

use rustix::fs::{FlockOperation, flock};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{
    clock,
    error::{PackError, Result},
    manifest::{self, Manifest},
    paths::shown,
    plain_file,
    site::Site,
};

const VERSION: u64 = 1;
/// The longest event, in bytes; more is a transcript and no event.
pub const MAX_EVENT: usize = 1024 * 1024;
/// How many unreadable lines are told one by one.
const TOLD: usize = 20;

/// The payload of `record`.
#[derive(Clone, Debug, Serialize)]
pub struct RecordData {
    /// The log.
    pub path: String,
    /// `path` with `/` between its segments.
    pub path_posix: String,
    /// When the event was recorded, as RFC 3339 in UTC.
    pub recorded_at: String,
    /// The machine that recorded it.
    pub machine_id: String,
}

/// The payload of `score`.
#[derive(Clone, Debug, Serialize)]
pub struct ScoreData {
    /// The worst first; modules that nothing is known of last.
    pub modules: Vec<ModuleScore>,
    /// How the log could be read.
    pub read_stats: ReadStats,
}

/// How often a module was used, and failed.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct ModuleScore {
    /// The module.
    pub module_id: String,
    /// Its events.
    pub total: usize,
    /// Those that say that it failed.
    pub failures: usize,
    /// From 0 to 1; nothing without events.
    pub failure_rate: Option<f64>,
    /// The newest event.
    pub last_seen_at: Option<String>,
}

/// How many lines of the log could be read, and why the others could not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ReadStats {
    /// All lines.
    pub lines_total: usize,
    /// Lines without anything.
    pub lines_empty: usize,
    /// Events.
    pub records_ok: usize,
    /// Lines that were left out.
    pub skipped_total: usize,
    /// Of these: no text.
    pub skipped_io_errors: usize,
    /// Of these: no event.
    pub skipped_malformed_json: usize,
    /// Of these: events of another version.
    pub skipped_unsupported_schema_version: usize,
}

/// One line.
#[derive(Debug, Serialize, Deserialize)]
struct Line {
    schema_version: u64,
    recorded_at: String,
    machine_id: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    command_id: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    duration_ms: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    git_rev: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    module_id: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    snapshot_id: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    success: Option<bool>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    targets: Option<Vec<String>>,
    event: Value,
}

/// Appends one event; what is known of it by name stands beside it as well.
pub(crate) fn record(site: &Site, event: &str) -> Result<RecordData> {
    let event: Value = serde_json::from_str(event).map_err(|error| {
        PackError::config(format!("the event is no JSON: {error}"))
            .reason("event_invalid", &["fix_event", "retry_command"])
            .hint("give one JSON value on stdin, such as {\"module_id\":\"skill:x\",\"success\":true}")
    })?;
    let (recorded_at, machine_id) = (clock::now(), site.machine().to_owned());
    let line = Line::of(event, recorded_at.clone(), machine_id.clone());
    let path = log(site);
    append(&path, &serde_json::to_string(&line).expect("strings, numbers and a JSON value"))?;
    let path = shown(&path);
    Ok(RecordData { path_posix: path.clone(), path, recorded_at, machine_id })
}

/// Counts the log by module, modules of the manifest without events included.
pub(crate) fn score(site: &Site) -> Result<(ScoreData, Vec<String>)> {
    let path = log(site);
    let mut read = ReadStats::default();
    let mut warnings = Warnings::default();
    let mut modules: BTreeMap<String, ModuleScore> = BTreeMap::new();
    for (index, line) in bytes_of(&path)?.split_inclusive(|byte| *byte == b'\n').enumerate() {
        if let Some(line) = parsed(line, index + 1, &mut read, &mut warnings)
            && let Some(id) = line.module()
        {
            let score = modules.entry(id).or_default();
            score.total += 1;
            score.failures += usize::from(!line.succeeded());
            score.last_seen_at = score.last_seen_at.take().max(Some(line.recorded_at));
        }
    }
    let mut warnings = warnings.sentences();
    match known(site) {
        Ok(ids) => ids.into_iter().for_each(|id| {
            modules.entry(id).or_default();
        }),
        Err(error) => {
            warnings.push(format!("{}; only modules with events are shown", error.message()));
        }
    }
    Ok((ScoreData { modules: ranked(modules), read_stats: read }, warnings))
}

fn log(site: &Site) -> PathBuf {
    site.state().join("logs/events.jsonl")
}

fn append(path: &Path, line: &str) -> Result<()> {
    let fault = |error: io::Error| PackError::io("write", path, &error);
    fs::create_dir_all(path.parent().unwrap_or(path)).map_err(fault)?;
    let mut file =
        OpenOptions::new().read(true).append(true).create(true).open(path).map_err(fault)?;
    flock(&file, FlockOperation::LockExclusive).map_err(|error| fault(error.into()))?;
    // A writer that died in its line must not take ours with it.
    let gap = if ends_whole(&mut file).map_err(fault)? { "" } else { "\n" };
    file.write_all(format!("{gap}{line}\n").as_bytes()).map_err(fault)
}

fn ends_whole(file: &mut File) -> io::Result<bool> {
    if file.metadata()?.len() == 0 {
        return Ok(true);
    }
    let mut last = [0];
    file.seek(SeekFrom::End(-1))?;
    file.read_exact(&mut last)?;
    Ok(last == *b"\n")
}

fn bytes_of(path: &Path) -> Result<Vec<u8>> {
    match plain_file::read_whole(path) {
        Ok(bytes) => Ok(bytes),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => Err(PackError::io("read", path, &error)),
    }
}

fn parsed(line: &[u8], number: usize, read: &mut ReadStats, told: &mut Warnings) -> Option<Line> {
    read.lines_total += 1;
    if line.trim_ascii().is_empty() {
        read.lines_empty += 1;
        return None;
    }
    let skipped = |read: &mut ReadStats| read.skipped_total += 1;
    let Ok(text) = std::str::from_utf8(line) else {
        skipped(read);
        read.skipped_io_errors += 1;
        told.add(|| format!("failed to read line {number}: it is no UTF-8"));
        return None;
    };
    match serde_json::from_str::<Line>(text) {
        Ok(line) if line.schema_version == VERSION => {
            read.records_ok += 1;
            Some(line)
        }
        Ok(line) => {
            skipped(read);
            read.skipped_unsupported_schema_version += 1;
            let version = line.schema_version;
            told.add(|| format!("skipped unsupported schema_version {version} at line {number}"));
            None
        }
        Err(error) => {
            skipped(read);
            read.skipped_malformed_json += 1;
            told.add(|| format!("skipped malformed JSON at line {number}: {error}"));
            None
        }
    }
}

/// The ids of the manifest; none when there is no config repo.
fn known(site: &Site) -> Result<BTreeSet<String>> {
    if !site.repo.join(manifest::FILE).exists() {
        return Ok(BTreeSet::new());
    }
    Ok(Manifest::load(&site.repo)?.modules.into_iter().map(|module| module.id).collect())
}

#[expect(clippy::cast_precision_loss, reason = "a log has fewer than 2^52 lines")]
fn ranked(modules: BTreeMap<String, ModuleScore>) -> Vec<ModuleScore> {
    let mut scores: Vec<ModuleScore> = modules
        .into_iter()
        .map(|(module_id, score)| {
            let rate = (score.total > 0).then(|| score.failures as f64 / score.total as f64);
            ModuleScore { module_id, failure_rate: rate, ..score }
        })
        .collect();
    let rank = |score: &ModuleScore| score.failure_rate.unwrap_or(-1.0);
    // A stable sort: equals stay in the order of their ids.
    scores.sort_by(|a, b| rank(b).total_cmp(&rank(a)));
    scores
}

/// Sentences about single lines, the first few of them.
#[derive(Default)]
struct Warnings {
    told: Vec<String>,
    more: usize,
}

impl Warnings {
    fn add(&mut self, sentence: impl FnOnce() -> String) {
        if self.told.len() < TOLD {
            self.told.push(format!("events.jsonl: {}", sentence()));
        } else {
            self.more += 1;
        }
    }

    fn sentences(mut self) -> Vec<String> {
        if self.more > 0 {
            self.told.push(format!("events.jsonl: skipped {} more line(s)", self.more));
        }
        self.told
    }
}

impl Line {
    fn of(event: Value, recorded_at: String, machine_id: String) -> Self {
        let text = |names: &[&str]| first(&event, names).and_then(Value::as_str).map(str::to_owned);
        Self {
            schema_version: VERSION,
            recorded_at,
            machine_id,
            command_id: text(&["command_id", "commandId"]),
            duration_ms: first(&event, &["duration_ms", "durationMs"]).and_then(Value::as_u64),
            git_rev: text(&["git_rev", "gitRev"]),
            module_id: text(MODULE),
            snapshot_id: text(&["snapshot_id", "snapshotId"]),
            success: first(&event, SUCCESS).and_then(Value::as_bool),
            targets: targets(&event),
            event,
        }
    }

    fn module(&self) -> Option<String> {
        let inside = || first(&self.event, MODULE).and_then(Value::as_str).map(str::to_owned);
        self.module_id.clone().or_else(inside)
    }

    fn succeeded(&self) -> bool {
        let inside = || first(&self.event, SUCCESS).and_then(Value::as_bool);
        self.success.or_else(inside).unwrap_or(true)
    }
}

const MODULE: &[&str] = &["module_id", "moduleId"];
const SUCCESS: &[&str] = &["success", "ok", "successful"];

fn first<'v>(event: &'v Value, names: &[&str]) -> Option<&'v Value> {
    names.iter().find_map(|name| event.get(name))
}

fn targets(event: &Value) -> Option<Vec<String>> {
    let many = event.get("targets").and_then(Value::as_array);
    let rows: Vec<&Value> = many
        .map_or_else(|| event.get("target").into_iter().collect(), |rows| rows.iter().collect());
    let names: BTreeSet<String> =
        rows.into_iter().filter_map(Value::as_str).map(str::to_owned).collect();
    (!names.is_empty()).then(|| names.into_iter().collect())
}
