//! `keyless hooks check`: raw secrets in files, and aliases that nothing resolves.

use std::{collections::BTreeSet, env, fs, path::Path, process::ExitCode};

use keyless_core::{Code, Error, SafeText, SecretPath};
use keyless_daemon::{
    Places,
    setup::{aliases_in, known_paths},
};
use keyless_pack::{NOT_A_SECRET, TokenForms, scan, utf16_text};
use serde::Serialize;
use serde_json::json;

use super::{super::pack::token_forms, git};
use crate::{args::HooksCheckArgs, ui::Ui};

/// Something that should not be committed.
#[derive(Debug, Serialize)]
struct Found {
    file: String,
    line: usize,
    kind: &'static str,
    what: String,
}

pub(super) async fn run(ui: &Ui, args: &HooksCheckArgs) -> Result<ExitCode, Error> {
    let here = if args.staged { git::top()? } else { current_folder()? };
    let known = known_paths(&Places::from_environment()?, &here).await?;
    let forms = token_forms();
    let (mut found, mut looked_at) = (Vec::new(), 0);
    if args.staged {
        for file in git::staged()? {
            let Some(bytes) = git::staged_bytes(&file) else { continue };
            looked_at += 1;
            look(&file, &bytes, &forms, &known, &mut found);
        }
    }
    for file in &args.files {
        let bytes = fs::read(file).map_err(|error| {
            let place = SafeText::default().as_they_wrote(&file.to_string_lossy());
            Error::with(Code::PathUnusable, place.and(": ").and(error.kind()))
        })?;
        looked_at += 1;
        look(file, &bytes, &forms, &known, &mut found);
    }
    let data = json!({ "files": looked_at, "findings": found });
    ui.answer("hooks check", &data, &words(&found));
    Ok(if found.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn look(
    file: &Path,
    bytes: &[u8],
    forms: &TokenForms,
    known: &BTreeSet<SecretPath>,
    found: &mut Vec<Found>,
) {
    let name = file.to_string_lossy().into_owned();
    found.extend(scan(&name, bytes, forms).into_iter().map(|finding| Found {
        file: finding.file,
        line: finding.line,
        kind: "secret",
        what: format!("looks like a credential ({})", finding.kind),
    }));
    let decoded = utf16_text(bytes);
    let Some(text) = decoded.as_deref().or_else(|| std::str::from_utf8(bytes).ok()) else { return };
    let lines: Vec<&str> = text.lines().collect();
    for alias in aliases_in(file, text) {
        let marked = lines.get(alias.line - 1).is_some_and(|line| line.contains(NOT_A_SECRET));
        let what = match &alias.path {
            Some(path) if known.contains(path) => continue,
            _ if marked => continue,
            Some(path) => format!("@secret:{path} names a secret that is not known here"),
            None => format!("@secret:{} is no path (project/category/name)", alias.written),
        };
        found.push(Found { file: name.clone(), line: alias.line, kind: "alias", what });
    }
}

fn words(found: &[Found]) -> String {
    let rows = found.iter().map(|one| format!("{}:{}: {}\n", one.file, one.line, one.what));
    let mut words: String = rows.collect();
    if found.is_empty() {
        return "Nothing found.\n".to_owned();
    }
    if found.iter().any(|one| one.kind == "secret") {
        words.push_str("Next: keyless secret import FILE --leave aliases, or take the value out and rotate it.\n");
    }
    if found.iter().any(|one| one.kind == "alias") {
        words.push_str("Next: keyless secret add PATH, or declare it in .keyless/secrets.toml.\n");
    }
    words.push_str("A line that only looks like one may carry the words ");
    words.push_str(NOT_A_SECRET);
    words.push_str(".\n");
    words
}

fn current_folder() -> Result<std::path::PathBuf, Error> {
    env::current_dir().map_err(|error| {
        Error::with(Code::PathUnusable, SafeText::words("the current folder: ").and(error.kind()))
    })
}
