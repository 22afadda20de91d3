//! `keyless manual`: a manual page for each command, made of what `--help` says.

use std::{fs, io, process::ExitCode};

use keyless_core::{Code, Error, SafeText};
use serde_json::json;

use crate::{
    args::{self, ManualArgs},
    ui::Ui,
};

pub(super) fn run(ui: &Ui, args: &ManualArgs) -> Result<ExitCode, Error> {
    let write = || -> io::Result<usize> {
        fs::create_dir_all(&args.folder)?;
        clap_mangen::generate_to(args::grouped(), &args.folder)?;
        Ok(fs::read_dir(&args.folder)?.count())
    };
    let pages = write().map_err(|error| {
        let place = SafeText::default().as_they_wrote(&args.folder.to_string_lossy());
        Error::with(Code::PathUnusable, place.and(": ").and(error.kind()))
    })?;
    let words = format!("{pages} pages in {}.\n", args.folder.display());
    ui.answer(
        "manual",
        &json!({ "folder": args.folder.to_string_lossy(), "pages": pages }),
        &words,
    );
    Ok(ExitCode::SUCCESS)
}
