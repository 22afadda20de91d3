//! `pack overlay`: edit, path, rebase; opening an editor is the command line's.

use std::{
    io::{IsTerminal as _, stdin},
    process::Command as Process,
};

use keyless_pack::{EditOptions, RebaseOptions, commands};

use super::{
    Call, Outcome,
    args::{self, OverlayCommand, OverlayEditWords},
    words,
};

impl Call<'_> {
    pub(super) fn overlay(&self, command: &OverlayCommand) -> Outcome {
        let (at, request, dry_run) = (&self.surroundings, &self.request, self.args.global.dry_run);
        match command {
            OverlayCommand::Edit(edit) => self.overlay_edit(edit),
            OverlayCommand::Path(path) => {
                let answer =
                    commands::overlay_path(at, request, &path.module_id, path.scope.into())?;
                self.answer(answer, words::overlay_path)
            }
            OverlayCommand::Rebase(rebase) => {
                let options = RebaseOptions {
                    scope: rebase.scope.into(),
                    sparsify: rebase.sparsify,
                    dry_run,
                };
                let yes = dry_run || self.yes("Rebase the overlay onto upstream?")?;
                let answer =
                    commands::overlay_rebase(at, request, &rebase.module_id, options, yes)?;
                self.answer(answer, words::overlay_rebase)
            }
        }
    }

    fn overlay_edit(&self, edit: &OverlayEditWords) -> Outcome {
        let scope = if edit.project { args::ScopeWord::Project } else { edit.scope };
        let options = EditOptions {
            kind: edit.kind.into(),
            sparse: edit.sparse,
            materialize: edit.materialize,
        };
        let yes = self.yes("Make or extend the overlay?")?;
        let (at, request) = (&self.surroundings, &self.request);
        let mut answer =
            commands::overlay_edit(at, request, &edit.module_id, scope.into(), options, yes)?;
        if edit.project {
            answer.warnings.push("--project is deprecated: use --scope project".to_owned());
        }
        let editor = at.editor.clone().filter(|_| !self.ui.is_json() && stdin().is_terminal());
        if let Some(editor) = editor {
            let opened = Process::new("sh")
                .arg("-c")
                .arg(format!("{editor} \"$1\""))
                .arg("sh")
                .arg(&answer.data.overlay_dir)
                .status();
            if !opened.is_ok_and(|status| status.success()) {
                self.ui.warn(format!(
                    "the editor `{editor}` failed; the overlay is there all the same"
                ));
            }
        }
        self.answer(answer, words::overlay_edit)
    }
}
