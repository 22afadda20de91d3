//! `keyless catalog trust`, and what `status` and `forget` say of the files of projects.

use std::{fmt::Write as _, io::IsTerminal as _, io::stderr, path::Path, process::ExitCode};

use keyless_core::{Code, Error, SafeText};
use keyless_daemon::{
    AgreedBy, Places, ProjectCatalogs, ProjectFile, Trust,
    vault::{Provider, Tier},
};
use serde_json::{Value, json};

use super::{describe, here, one_line};
use crate::{args::CatalogTrustArgs, prompt, ui::Ui};

/// What a person is asked of an address as well.
const QUESTION: &str = "A catalog says where freshly typed tokens may go. Trust this file?";

pub(super) fn trust(ui: &Ui, places: &Places, args: &CatalogTrustArgs) -> Result<ExitCode, Error> {
    refuse_without_person(ui)?;
    let catalogs = ProjectCatalogs::new(places);
    let mut files: Vec<ProjectFile> = if args.files.is_empty() {
        catalogs.around(&here())
    } else {
        args.files.iter().map(|file| catalogs.look(file)).collect()
    };
    files.retain(|file| file.trust != Trust::Trusted);
    if files.is_empty() {
        ui.line("There is no file of a project that does not count yet.");
    }
    let known = keyless_daemon::providers(places, AgreedBy::File)?;
    let is_known = |id: &str| {
        known.iter().any(|(tier, there)| tier != Tier::Project && there.provider_id == id)
    };
    let mut status = ExitCode::SUCCESS;
    for file in &files {
        let provider = match offered(file, &catalogs, is_known) {
            Ok(provider) => provider,
            Err(why) => {
                ui.warn(format!("{}: {why}", file.file.display()));
                status = ExitCode::FAILURE;
                continue;
            }
        };
        ui.line(&whole(file, provider));
        if prompt::acknowledged(QUESTION, "a terminal")? {
            catalogs.trust(file)?;
            ui.line(&format!("{} counts until the file changes.", provider.provider_id));
        } else {
            ui.line("It does not count.");
        }
    }
    Ok(status)
}

/// What a file says, if it could count, or why it could not.
fn offered<'f>(
    file: &'f ProjectFile,
    catalogs: &ProjectCatalogs,
    is_known: impl Fn(&str) -> bool,
) -> Result<&'f Provider, String> {
    let provider = file.provider.as_ref().map_err(|why| format!("{why}; it is left out"))?;
    let id = &provider.provider_id;
    if is_known(id) {
        return Err(format!("{id} is known already, and a project takes nobody's place"));
    }
    match catalogs.rival(file) {
        None => Ok(provider),
        Some(rival) => Err(format!(
            "{}, which you trust, says something else of {id}, and one catalog counts for all secrets; \
             keyless catalog forget FILE lets that one count no more",
            rival.file.display()
        )),
    }
}

/// An agent writes such files; whoever lets one count is somebody else.
fn refuse_without_person(ui: &Ui) -> Result<(), Error> {
    if keyless_daemon::is_inside_session() {
        let words = "this is an agent's session; a file is trusted outside of it";
        return Err(Error::with(Code::OperatorRequired, SafeText::words(words)));
    }
    if ui.is_json() || !stderr().is_terminal() {
        let words = "a file is trusted by a person at a terminal, and in no other way";
        return Err(Error::with(Code::TerminalRequired, SafeText::words(words)));
    }
    prompt::need_terminal("a terminal")
}

/// All that a file can bring about.
fn whole(file: &ProjectFile, provider: &Provider) -> String {
    let place = file.file.display().to_string();
    let mut words =
        format!("{}\nSHA-256 {}\n\n", one_line(&place), file.sha256.as_deref().unwrap_or_default());
    for variant in &provider.variants {
        describe(&mut words, provider, variant);
    }
    let patterns = provider.env_var_patterns.iter();
    for (what, names) in [
        (
            "Variables that hold its tokens",
            patterns.flat_map(|pattern| pattern.matches.clone()).collect(),
        ),
        ("Variables that hold none", provider.env_var_skip.clone()),
    ] {
        let names: Vec<String> = names;
        if !names.is_empty() {
            let _ = writeln!(words, "{what}: {}", one_line(&names.join(", ")));
        }
    }
    words
}

/// Lets a file count no more.
pub(super) fn forget(ui: &Ui, places: &Places, file: &str) -> Result<(), Error> {
    ProjectCatalogs::new(places).forget(Path::new(file))?;
    let words = "It counts no more; keyless catalog trust lets it count again.\n";
    ui.answer("catalog forget", &json!({ "file": file }), words);
    Ok(())
}

/// The files of this project, and those of others that were trusted once.
pub(super) fn files(places: &Places) -> Vec<ProjectFile> {
    let catalogs = ProjectCatalogs::new(places);
    let mut files = catalogs.around(&here());
    for file in catalogs.remembered() {
        if files.iter().all(|there| there.file != file.file) {
            files.push(file);
        }
    }
    files
}

/// One of them, as `status` tells it.
pub(super) fn data(file: &ProjectFile) -> Value {
    json!({
        "file": file.file,
        "provider": file.provider.as_ref().ok().map(|provider| &provider.provider_id),
        "sha256": file.sha256,
        "trust": file.trust,
        "fault": file.provider.as_ref().err(),
    })
}

pub(super) fn cells(file: &ProjectFile) -> Vec<String> {
    let (provider, fault) = match &file.provider {
        Ok(provider) => (provider.provider_id.clone(), None),
        Err(why) => (String::new(), Some(why.clone())),
    };
    let (word, next) = match file.trust {
        Trust::Changed => ("changed", "keyless catalog trust FILE, once you know why"),
        Trust::Trusted => ("trusted", ""),
        Trust::Untrusted => ("untrusted", "keyless catalog trust FILE lets it count"),
    };
    vec![
        file.file.display().to_string(),
        provider,
        word.to_owned(),
        fault.unwrap_or_else(|| next.to_owned()),
    ]
}
