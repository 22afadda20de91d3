//! `pack import`: what agents have already, taken into the config repo.

use std::fmt::Write as _;

use keyless_pack::{ImportData, ImportItem, ImportOp, ImportOptions, commands};

use super::{Call, Outcome, args::ImportWords, for_people};
use crate::rows::fitted;

impl Call<'_> {
    pub(super) fn import(&self, words: &ImportWords) -> Outcome {
        let (at, request, global) = (&self.surroundings, &self.request, &self.args.global);
        let mut options = ImportOptions {
            apply: words.apply && !global.dry_run,
            home_root: words.home_root.clone(),
        };
        let mut yes = global.yes;
        if options.apply && !yes && !self.ui.is_json() {
            options.apply = false;
            let planned = commands::import(at, request, &options, false)?;
            // With nothing to make there is nothing to say yes to.
            yes = planned.data.summary.create == 0 || {
                self.ui.line(&fitted(import(&planned.data).trim_end()));
                self.plain_yes("Make these modules?")?
            };
            options.apply = true;
        }
        self.answer(commands::import(at, request, &options, yes)?, import)
    }
}

/// What there is of it already.
fn there(item: &ImportItem) -> String {
    match (item.skip_reason, &item.deployed_by[..]) {
        (Some("already_deployed"), []) => "  (is deployed already)".to_owned(),
        (Some("already_deployed"), from) => {
            format!("  (is deployed already, from {})", from.join(", "))
        }
        _ => "  (is a module already)".to_owned(),
    }
}

fn import(data: &ImportData) -> String {
    let mut text = String::new();
    for item in &data.plan {
        let (mark, why) = match item.op {
            ImportOp::Create => ("+", String::new()),
            ImportOp::SkipExistingModule => ("=", there(item)),
            ImportOp::SkipInvalid => {
                ("!", format!("  ({})", item.skip_reason.unwrap_or("skipped")))
            }
        };
        writeln!(text, "{mark} {}  {}{why}", item.module_id, item.source_path).expect("a string");
    }
    for conflict in &data.conflicts {
        let paths = conflict.sample_paths.join(", ");
        writeln!(text, "in the way: {paths}; {}", conflict.hint).expect("a string");
    }
    let summary = &data.summary;
    let (create, there) = (summary.create, summary.skipped_existing_module);
    let (verb, other) = (if data.applied { "made" } else { "to make" }, summary.skipped_invalid);
    writeln!(text, "{create} module(s) {verb}, {there} there already, {other} left where they are")
        .expect("a string");
    if let Some(profile) = &data.profile {
        writeln!(text, "The project's modules are of profile {profile}.").expect("a string");
    }
    if data.applied {
        for action in &data.next_actions {
            writeln!(text, "next: {}", for_people(action)).expect("a string");
        }
    }
    text
}
