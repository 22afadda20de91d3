//! `pack init`, with questions for those who want them.

use std::io::{IsTerminal as _, stdin, stdout};

use keyless_pack::{InitOptions, PackError, TargetId, commands};

use super::{Call, Outcome, args::InitWords, ask, words};

impl Call<'_> {
    pub(super) fn init(&self, init: &InitWords) -> Outcome {
        let guided = if init.guided { Some(self.guided()?) } else { None };
        let options = InitOptions { git: init.git, guided };
        let yes = init.guided || self.yes("Make a config repo?")?;
        self.answer(commands::init(&self.surroundings, &self.request, &options, yes)?, words::init)
    }

    /// Asks a person for targets and scope.
    fn guided(&self) -> Result<(Vec<TargetId>, String), PackError> {
        let (input, output) = (stdin().is_terminal(), stdout().is_terminal());
        if !input || !output || self.ui.is_json() {
            return Err(PackError::new(
                keyless_pack::Code::TtyRequired,
                "init --guided asks questions, and needs a terminal",
            )
            .with("stdin_is_terminal", input)
            .with("stdout_is_terminal", output)
            .hint("run it in a terminal, or leave --guided away"));
        }
        let mut targets = Vec::new();
        for target in TargetId::ALL.into_iter().filter(|target| *target != TargetId::ExportDir) {
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
