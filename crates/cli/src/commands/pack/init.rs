//! `pack init`, with questions for those who want them, and `pack bootstrap`.

use std::io::{IsTerminal as _, stdin, stdout};

use keyless_pack::{
    BootstrapOptions, BootstrapScope, InitOptions, PackError, TargetId, Unwatched, commands,
};

use super::{
    Call, Outcome,
    args::{BootstrapWords, InitWords},
    ask, words,
};
use crate::rows::fitted;

impl Call<'_> {
    pub(super) fn init(&self, init: &InitWords) -> Outcome {
        let json = self.ui.is_json();
        let guided = if init.guided { Some(self.guided()?) } else { None };
        let bootstraps = init.bootstrap
            || init.guided && ask("Install what agents need to work this repo, too?")?;
        let bootstrap = bootstraps.then_some(BootstrapOptions {
            scope: BootstrapScope::Project,
            adopt: false,
            dry_run: false,
        });
        let options = InitOptions { git: init.git, guided, bootstrap };
        // Who answered the questions has said yes; a program that reads the answer still says so.
        let yes = init.guided && !json || self.yes("Make a config repo?")?;
        self.answer(commands::init(&self.surroundings, &self.request, &options, yes)?, words::init)
    }

    pub(super) fn bootstrap(&self, bootstrap: &BootstrapWords) -> Outcome {
        let (at, request, dry_run) = (&self.surroundings, &self.request, self.args.global.dry_run);
        let options =
            BootstrapOptions { scope: bootstrap.scope.into(), adopt: bootstrap.adopt, dry_run };
        let yes = self.args.global.yes || dry_run;
        if yes || self.ui.is_json() {
            let done = commands::bootstrap(at, request, options, yes, &Unwatched)?;
            return self.answer(done, words::bootstrap);
        }
        let (planned, hash) = commands::bootstrap_for_review(at, request, options)?;
        self.ui.line(&fitted(words::bootstrap(&planned.data).trim_end()));
        if planned.data.changes.is_empty() {
            return Ok(());
        }
        commands::confirmed(self.plain_yes("Write these files?")?, "bootstrap")?;
        let done = commands::bootstrap_reviewed(at, request, options, &hash, &Unwatched)?;
        self.answer(done, words::bootstrap)
    }

    /// Asks a person for targets and scope.
    fn guided(&self) -> Result<(Vec<TargetId>, String), PackError> {
        let (input, output) = (stdin().is_terminal(), stdout().is_terminal());
        if !input || !output {
            return Err(PackError::new(
                keyless_pack::Code::TtyRequired,
                "init --guided asks questions, and needs a terminal",
            )
            .with("stdin_is_terminal", input)
            .with("stdout_is_terminal", output)
            .hint("run it in a terminal, or leave --guided away"));
        }
        commands::guided_init(&self.surroundings, &self.request)?;
        if self.ui.is_json() {
            commands::confirmed(self.args.global.yes, "init")?;
        }
        let mut targets = Vec::new();
        for target in TargetId::LISTED.into_iter().filter(|target| *target != TargetId::ExportDir) {
            if ask(&format!("Configure {target}?"))? {
                targets.push(target);
            }
        }
        let user = ask("Write into your home, for every project?")?;
        let project = ask("Write into the project that you stand in?")?;
        let scope = match (user, project) {
            (true, false) => "user",
            (false, true) => "project",
            _ => "both",
        };
        Ok((targets, scope.to_owned()))
    }
}
