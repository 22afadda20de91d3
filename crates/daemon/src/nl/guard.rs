//! The guard with the organization's rules, `guard.toml`, taken up again when the file changes.
//!
//! A file that can't be used leaves the last good rules in force; without any, everything is blocked (NL-4.5).

pub mod claude;

use std::{
    fs, io,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    sync::Arc,
};

use jiff::Timestamp;
use keyless_action::Kept;
use keyless_core::{
    Code, Error, SafeText,
    action::{Action, Deed, TemplateSource},
    audit::{self, Detail, Draft, Outcome, Target},
    deny::{Attempt, Blocked, Category, Decision, Given, Guard, GuardConfig},
    nl_message::NlFault,
};
use keyless_store::AuditLog;
use parking_lot::Mutex;

use crate::broker::{agent, plain_entry};
use keyless_vault::{read_settings_text, toml_fault};

/// The guard of one home. Cheap to share, safe to ask from many tasks.
pub struct GuardRules {
    file: PathBuf,
    state: Mutex<State>,
    /// Where a change of the file is written down.
    log: Option<AuditLog>,
}

#[derive(Default)]
struct State {
    /// What the file looked like when it was last read; nothing before that.
    seen: Option<Look>,
    guard: Option<Arc<Guard>>,
    fault: Option<Error>,
}

/// Size, inode and time of change; all zero when there is no file.
type Look = (u64, u64, i64, i64);

impl GuardRules {
    /// The guard whose own rules are in `file`, which need not be there.
    pub fn new(file: PathBuf) -> Self {
        Self { file, state: Mutex::default(), log: None }
    }

    /// Writes down when other rules are taken up, or could not be.
    #[must_use]
    pub fn logging(self, log: AuditLog) -> Self {
        Self { log: Some(log), ..self }
    }

    /// The rules that are in force, and what is wrong with the file if they are not its.
    pub fn current(&self) -> (Option<Arc<Guard>>, Option<Error>) {
        let mut state = self.state.lock();
        let look = look_at(&self.file);
        if state.seen != look || look.is_none() {
            match load(&self.file) {
                Ok(guard) => (state.guard, state.fault) = (Some(Arc::new(guard)), None),
                Err(error) => state.fault = Some(error),
            }
            if state.seen.is_some() && state.seen != look {
                self.record(state.fault.as_ref());
            }
            state.seen = look;
        }
        (state.guard.clone(), state.fault.clone())
    }

    fn record(&self, fault: Option<&Error>) {
        let Some(log) = &self.log else { return };
        let draft = Draft {
            error_code: fault.map(Error::code),
            detail: Detail { kind: Some("guard_rules".to_owned()), ..Detail::default() },
            ..plain_entry(
                agent("broker", "broker"),
                audit::Action::Update,
                if fault.is_some() { Outcome::Error } else { Outcome::Success },
                Target::Named(SafeText::words("guard.toml")),
            )
        };
        // A log that can't be written stops actions by itself.
        let _ = log.append_soon(draft);
    }

    /// Judges a text. `action_type` is NL's word.
    pub fn check(&self, action_type: &str, text: &str) -> Decision {
        self.decide(action_type, text, Given::default())
    }

    fn decide(&self, action_type: &str, text: &str, given: Given<'_>) -> Decision {
        let attempt = Attempt { action_type, text, given, now: Timestamp::now() };
        match self.current().0 {
            Some(guard) => guard.check(&attempt),
            None => Decision::Block(Box::new(Blocked::failure(text))),
        }
    }

    /// Judges an action, with what it hands to others and the rendered files that its command names.
    pub fn check_action(&self, action: &Action, kept: &[Kept]) -> Result<(), NlFault> {
        match self.judged(action, kept) {
            Decision::Allow => Ok(()),
            Decision::Block(blocked) => Err(fault(&blocked)),
        }
    }

    /// The same of one that says no more than the secret that it would use. A list of what may run says nothing of that.
    pub fn check_unsaid(&self, action: &Action) -> Result<(), NlFault> {
        match self.judged(action, &[]) {
            Decision::Block(blocked) if blocked.category != Category::Allowlist => {
                Err(fault(&blocked))
            }
            _ => Ok(()),
        }
    }

    fn judged(&self, action: &Action, kept: &[Kept]) -> Decision {
        let text = match &action.deed {
            Deed::Delegate { delegated_action, .. } => return self.judged(delegated_action, kept),
            Deed::Exec { template } => template.clone(),
            Deed::InjectStdin { command, .. } | Deed::InjectTempfile { command, .. } => {
                command.clone()
            }
            Deed::SdkProxy { provider, service, operation, .. } => {
                format!("{provider} {service} {operation}")
            }
            // What stands at a path is judged once it is read.
            Deed::Template { source, .. } => match source {
                TemplateSource::Inline(text) | TemplateSource::Path(text) => text.clone(),
            },
        };
        let (references, files): (Vec<&str>, Vec<&str>) = match &action.deed {
            Deed::InjectTempfile { file_refs, .. } => file_refs
                .iter()
                .map(|(name, reference)| (reference.as_str(), name.as_str()))
                .unzip(),
            _ => (Vec::new(), Vec::new()),
        };
        let input = match &action.deed {
            Deed::InjectStdin { secret_ref, .. } => Some(secret_ref.as_str()),
            _ => None,
        };
        let rendered: Vec<_> = kept.iter().map(|file| file.path.to_string_lossy()).collect();
        let rendered: Vec<&str> = rendered.iter().map(AsRef::as_ref).collect();
        let given = Given { input, references: &references, files: &files, rendered: &rendered };
        self.decide(action.kind().as_str(), &text, given)
    }
}

/// What an agent is told about a block.
pub fn fault(blocked: &Blocked) -> NlFault {
    let rule = SafeText::default().as_they_wrote(&blocked.rule_id);
    let words = rule.and(": ").as_they_wrote(&blocked.reason);
    let details = serde_json::to_value(blocked).unwrap_or_default();
    let fault = NlFault::new(blocked.code(), words)
        .suggesting(SafeText::default().as_they_wrote(&blocked.safe_alternative.description));
    let fields = details.as_object().cloned().unwrap_or_default();
    fields.into_iter().fold(fault, |fault, (name, value)| fault.with(&name, value))
}

fn look_at(file: &Path) -> Option<Look> {
    match fs::metadata(file) {
        Ok(found) => Some((found.size(), found.ino(), found.mtime(), found.mtime_nsec())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Some((0, 0, 0, 0)),
        Err(_) => None,
    }
}

fn load(file: &Path) -> Result<Guard, Error> {
    let text = match read_settings_text(file) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Guard::standard()),
        Err(error) => return Err(invalid(file, &error.to_string())),
    };
    let config: GuardConfig =
        toml::from_str(&text).map_err(|error| invalid(file, &toml_fault(&text, &error)))?;
    Guard::with(&config).map_err(|fault| invalid(file, &fault.to_string()))
}

fn invalid(file: &Path, why: &str) -> Error {
    let place = SafeText::default().as_they_wrote(&file.to_string_lossy());
    Error::with(Code::GuardUnavailable, place.and(": ").as_they_wrote(why))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_changed_file_is_taken_up_and_a_bad_one_is_not() {
        let home = tempfile::tempdir().unwrap();
        let file = home.path().join("guard.toml");
        let rules = GuardRules::new(file.clone());
        let blocks = |text| rules.check("exec", text) != Decision::Allow;
        assert!(blocks("env") && !blocks("kubectl apply"));
        let rule = "[[rules]]\nrule_id = 'CUSTOM-1'\nseverity = 'high'\npatterns = ['^kubectl']\n\
                    description = 'No.'\norganization_id = 'acme'\ncreated_by = 'ann'\n\
                    created_at = '2026-01-01T00:00:00Z'\n";
        fs::write(&file, rule).unwrap();
        assert_eq!(rules.current().1, None);
        assert!(blocks("kubectl apply"));
        fs::write(&file, "rules = 'none at all'").unwrap();
        assert!(blocks("kubectl apply") && blocks("env"));
        let fault = rules.current().1.unwrap();
        assert_eq!(fault.code(), Code::GuardUnavailable);
        let fresh = GuardRules::new(file);
        assert!(fresh.check("exec", "ls") != Decision::Allow);
    }

    /// Not every rule is about secrets.
    #[test]
    fn an_agent_is_told_which_rule_or_list_stops_it() {
        let home = tempfile::tempdir().unwrap();
        let file = home.path().join("guard.toml");
        let rule = "[[rules]]\nrule_id = 'CUSTOM-1'\nseverity = 'high'\npatterns = ['^kubectl']\n\
                    description = 'Deploys go through the pipeline.'\norganization_id = 'acme'\n\
                    created_by = 'ann'\ncreated_at = '2026-01-01T00:00:00Z'\n\
                    [allowlist]\nentries = [{ entry_id = 'A1', patterns = ['ls'] }]\n";
        fs::write(&file, rule).unwrap();
        let rules = GuardRules::new(file);
        for (command, told) in [
            ("kubectl apply", "CUSTOM-1: Deploys go through the pipeline."),
            ("date", "ALLOWLIST: Only listed commands may run here, and this is none of them."),
        ] {
            let Decision::Block(blocked) = rules.check("exec", command) else {
                panic!("{command} is allowed")
            };
            let message = fault(&blocked).error().message();
            assert_eq!(message, format!("Keyless stopped this before anything ran. ({told})"));
        }
    }

    /// What enters a command's files or its standard input is had by it like what its text names.
    #[test]
    fn a_list_counts_every_secret_that_a_command_gets() {
        let home = tempfile::tempdir().unwrap();
        let file = home.path().join("guard.toml");
        let list = "[allowlist]\nentries = [{ entry_id = 'A1', patterns = ['sort.*'], max_secrets = 1, \
                    allowed_secret_refs = ['db/PASSWORD'] }]\n";
        fs::write(&file, list).unwrap();
        let rules = GuardRules::new(file);
        let passes = |action: serde_json::Value| {
            rules.check_action(&serde_json::from_value(action).unwrap(), &[]).is_ok()
        };
        let piped = |reference: &str, command: &str| {
            passes(serde_json::json!({
                "type": "inject_stdin", "command": command, "secret_ref": reference,
            }))
        };
        assert!(piped("{{nl:db/PASSWORD}}", "sort"));
        assert!(!piped("{{nl:api/TOKEN}}", "sort"));
        assert!(!piped("{{nl:db/PASSWORD}}", "sort {{nl:db/PASSWORD}}"));
        let in_files = |command: &str, files: serde_json::Value| {
            passes(serde_json::json!({
                "type": "inject_tempfile", "command": command, "file_refs": files,
            }))
        };
        let (listed, other) = ("{{nl:db/PASSWORD}}", "{{nl:api/TOKEN}}");
        for command in ["sort {{nl:F}}", "sort {{vault:F}}", "sort {{nl:F@latest}}", "sort"] {
            assert!(in_files(command, serde_json::json!({ "F": listed })), "{command}");
            assert!(!in_files(command, serde_json::json!({ "F": other })), "{command}");
        }
        let misnamed = serde_json::json!({ "db/PASSWORD": other });
        assert!(!in_files("sort {{vault:db/PASSWORD}}", misnamed));
        let chained = serde_json::json!({ "A": "{{nl:TOKEN}}", "TOKEN": listed });
        assert!(!in_files("sort {{nl:A}}", chained));
    }
}
