//! What is known of an action so far, for the log, whatever becomes of it.

use std::sync::Arc;

use jiff::Timestamp;
use keyless_action::Kept;
use keyless_core::{
    Grace, Handle, SafeText, SecretPath,
    audit::Stopped,
    grant::{Denial, Subject},
    nl_message::NlFault,
};
use keyless_vault::Vault;

use crate::nl::{
    actions::{ActionOutcome, ActionSession, Foresight, Redaction, older_version, version_warning},
    answer::Outcome,
    replays::Noting,
    resolve::Meant,
    room::Place,
};

/// An action's course.
#[derive(Default)]
pub(in crate::nl) struct Course {
    /// The secrets that it is about.
    pub(in crate::nl) about: Vec<SecretPath>,
    /// The rendered files that its command names.
    pub(in crate::nl) kept: Vec<Kept>,
    /// Their names as the agent wrote them, each secret's once.
    pub(in crate::nl) written: Vec<String>,
    /// The grants that allow it.
    pub(in crate::nl) grants: Vec<String>,
    /// When everything was allowed.
    pub(in crate::nl) resolved_at: Option<Timestamp>,
    /// Whether it was begun.
    pub(in crate::nl) ran: bool,
    /// What was taken out of its output.
    pub(in crate::nl) redacted: Vec<Redaction>,
    /// How its command was stopped, if it was.
    pub(in crate::nl) stopped: Option<Box<Stopped>>,
    /// What the log should know beside.
    pub(in crate::nl) note: Option<String>,
    /// What the agent should know beside.
    pub(in crate::nl) warnings: Vec<String>,
    /// What knows values that may stand in the agent's own words.
    pub(in crate::nl) knowing: Vec<Arc<ActionSession>>,
    /// References that are written in the deprecated way.
    pub(in crate::nl) aliases: Vec<String>,
    /// What goes on while it is judged.
    pub(in crate::nl) ahead: Ahead,
    /// Its place among those that are done.
    pub(in crate::nl) place: Option<Place>,
}

/// What is begun as soon as a message has come, and goes on while it is judged.
#[derive(Default)]
pub(in crate::nl) struct Ahead {
    /// Preparations for its command.
    pub(in crate::nl) foresight: Option<Foresight>,
    /// Its note in the store, which what it changes waits for.
    pub(in crate::nl) noting: Noting,
}

/// What became of an action that may be done.
pub(in crate::nl) enum Done {
    /// It was only checked.
    Checked,
    /// Another agent did it, or not; what it was told.
    Delegated(Box<Outcome>),
    /// It was done.
    Ran(Box<ActionOutcome>),
}

impl Course {
    /// Finds the older values that are asked for; a fault when one is not given any more.
    pub(in crate::nl) async fn warn_of_versions(
        &mut self,
        vault: &Vault,
        meant: &[Meant],
        grace: Grace,
    ) -> Result<(), NlFault> {
        for Meant { handle, path } in meant {
            let older = older_version(vault, handle, path, grace).await;
            let older = older
                .map_err(|error| NlFault::from(error).with("secret_ref", handle.as_written()))?;
            add_new(&mut self.warnings, older.and_then(|given| version_warning(handle, given)));
        }
        Ok(())
    }

    /// A denial that is about a rendered file says which: the command may name no secret itself.
    pub(in crate::nl) fn of_rendered(&self, fault: NlFault, denial: &Denial) -> NlFault {
        let path = denial.subject.as_ref().map(Subject::path);
        let has = |file: &&Kept| file.references.iter().any(|(_, inside)| Some(inside) == path);
        let Some(file) = self.kept.iter().find(has) else { return fault };
        let file = file.path.to_string_lossy();
        let words = SafeText::words("The command names the rendered file ").as_they_wrote(&file);
        let words = words.and(
            ", and what is in it is used by this action as well: ask for a grant of this type.",
        );
        fault.with("rendered_file", &*file).suggesting(words)
    }

    /// What was taken out of the output, as `name:encoding`, for the log.
    pub(in crate::nl) fn redacted_forms(&self) -> Option<String> {
        let forms = self.redacted.iter().map(|one| format!("{}:{}", one.name, one.encoding));
        let forms: Vec<String> = forms.collect();
        (!forms.is_empty()).then(|| forms.join(", "))
    }

    /// A text of the agent's without the values that its actions have had (NL-5.17).
    pub(in crate::nl) fn cleaned(&self, text: &str) -> String {
        self.knowing.iter().fold(text.to_owned(), |text, session| session.cleaned(&text))
    }

    /// What is written as `{{vault:…}}` is told in the log, whatever becomes of the action (chapter 02, 4.4).
    pub(in crate::nl) fn note_aliases(&mut self, handles: &[Handle]) {
        add_new(&mut self.aliases, aliases(handles));
    }

    pub(in crate::nl) fn warn_of_aliases(&mut self, handles: &[Handle]) {
        self.note_aliases(handles);
        add_new(&mut self.warnings, handles.iter().filter_map(Handle::alias_warning));
    }
}

/// The references that are written in the deprecated way.
fn aliases(handles: &[Handle]) -> impl Iterator<Item = String> {
    let written = |one: &Handle| SafeText::default().as_they_wrote(one.as_written()).to_string();
    handles.iter().filter(|one| one.is_alias()).map(written)
}

/// What the log says of them; nothing where there are none.
pub(in crate::nl) fn note_of_aliases(all: &[String]) -> Option<String> {
    let told: Vec<String> =
        all.iter().take(ALIASES_TOLD).map(|name| format!("{{{{vault:{name}}}}}")).collect();
    let more = all.len().saturating_sub(ALIASES_TOLD);
    let more = if more == 0 { String::new() } else { format!(" and {more} more") };
    (!told.is_empty()).then(|| format!("deprecated: {}{more}", told.join(", ")))
}

/// How many of these an entry names.
const ALIASES_TOLD: usize = 8;

/// What is said already is not said again.
pub(super) fn add_new(warnings: &mut Vec<String>, more: impl IntoIterator<Item = String>) {
    for warning in more {
        if !warnings.contains(&warning) {
            warnings.push(warning);
        }
    }
}
