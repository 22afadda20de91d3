//! How far the setting up of a project has come, so that it can go on where it was left.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use data_encoding::HEXLOWER;
use jiff::Timestamp;
use keyless_core::Error;
use keyless_vault::read_settings_text;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::{
    places::{Places, private_directory, unusable},
    whole_file::write_whole,
};

const SCHEMA: u32 = 1;

/// The steps, in their order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Step {
    /// Looking through the project.
    Scan,
    /// Saying what goes where.
    Propose,
    /// Writing it down in the project.
    Manifest,
    /// Getting the values.
    Provision,
    /// Looking whether everything is in order.
    Doctor,
}

/// How a step stands; done and skipped ones are not run again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum StepStatus {
    /// It is over.
    Done,
    /// It failed, and is tried again.
    Failed,
    /// It was begun.
    InProgress,
    /// It was not wanted.
    Skipped,
}

/// The file. One that can't be read is a fresh one.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct SetupState {
    schema_version: u32,
    started_at: Timestamp,
    last_step: Option<Step>,
    steps: BTreeMap<Step, StepState>,
    #[serde(skip)]
    file: PathBuf,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct StepState {
    status: StepStatus,
    #[serde(skip_serializing_if = "Option::is_none")]
    completed_at: Option<Timestamp>,
}

impl SetupState {
    /// Begins anew for the project at `root`.
    pub fn fresh(places: &Places, root: &Path) -> Self {
        Self {
            schema_version: SCHEMA,
            started_at: Timestamp::now(),
            last_step: None,
            steps: BTreeMap::new(),
            file: file_of(places, root),
        }
    }

    /// Goes on where it was left, or begins anew. Blocks.
    pub fn resume(places: &Places, root: &Path) -> Self {
        let file = file_of(places, root);
        let text = read_settings_text(&file).unwrap_or_default();
        match toml::from_str::<Self>(&text) {
            Ok(state) if state.schema_version == SCHEMA => Self { file, ..state },
            _ => Self::fresh(places, root),
        }
    }

    /// Whether a step needs no second run.
    pub fn is_over(&self, step: Step) -> bool {
        let status = self.steps.get(&step).map(|state| state.status);
        matches!(status, Some(StepStatus::Done | StepStatus::Skipped))
    }

    /// Whether a step did what it is for, here or when it was begun.
    pub fn is_done(&self, step: Step) -> bool {
        self.steps.get(&step).is_some_and(|state| state.status == StepStatus::Done)
    }

    /// Writes down how a step stands. Blocks.
    pub fn note(&mut self, step: Step, status: StepStatus) -> Result<(), Error> {
        let over = matches!(status, StepStatus::Done | StepStatus::Skipped);
        let completed_at = over.then(Timestamp::now);
        self.last_step = Some(step);
        self.steps.insert(step, StepState { status, completed_at });
        if let Some(folder) = self.file.parent() {
            private_directory(folder)?;
        }
        let text = toml::to_string(self).expect("a state is plain data");
        write_whole(&self.file, text.as_bytes(), 0o600)
            .map_err(|error| unusable(&self.file, &error))
    }
}

fn file_of(places: &Places, root: &Path) -> PathBuf {
    let digest = Sha256::digest(root.as_os_str().as_encoded_bytes());
    places.setup_state().join(format!("{}.toml", HEXLOWER.encode(&digest[..8])))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn what_is_done_stays_done_and_the_rest_is_tried_again() {
        let home = tempfile::tempdir().unwrap();
        let (places, root) = (Places::below(home.path()), Path::new("/a/project"));
        let mut state = SetupState::fresh(&places, root);
        state.note(Step::Manifest, StepStatus::Done).unwrap();
        state.note(Step::Provision, StepStatus::Failed).unwrap();
        let again = SetupState::resume(&places, root);
        assert!(again.is_over(Step::Manifest) && !again.is_over(Step::Provision));
        assert!(!SetupState::resume(&places, Path::new("/another")).is_over(Step::Manifest));
        fs::write(&state.file, "nonsense").unwrap();
        assert!(!SetupState::resume(&places, root).is_over(Step::Manifest));
    }
}
