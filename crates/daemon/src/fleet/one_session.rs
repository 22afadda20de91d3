//! One sidecar of a home serves a session: its certificate file is one, and so is the authority that clients trust by it.

use std::{
    fs::{self, File, OpenOptions},
    io::Write as _,
    os::unix::fs::OpenOptionsExt as _,
    process,
};

use keyless_core::{Code, Error, SafeText, SessionId};
use rustix::{
    fs::{FlockOperation, flock},
    io::Errno,
};

use crate::places::{Places, unusable};

/// No other sidecar of this home serves the session while this lives, however its process ends.
pub(super) struct OneSession {
    _file: File,
}

impl OneSession {
    /// [`Code::StateUnfit`] while another process has it.
    pub(super) fn take(places: &Places, session: &SessionId) -> Result<Self, Error> {
        let path = places.runtime().join(format!("ca-{}.lock", session.as_str()));
        let mut options = OpenOptions::new();
        let options = options.create(true).truncate(false).write(true).mode(0o600);
        let mut file = options.open(&path).map_err(|error| unusable(&path, &error))?;
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(Errno::WOULDBLOCK) => {
                let told = fs::read_to_string(&path).unwrap_or_default();
                let who = told.trim().parse().map_or_else(
                    |_| "another process".to_owned(),
                    |pid: u32| format!("process {pid}"),
                );
                let words = SafeText::default().as_they_wrote(&who).and(" serves session ");
                let words = words.as_they_wrote(session.as_str());
                let next = "; give this one another --session, or another KEYLESS_HOME";
                return Err(Error::with(Code::StateUnfit, words.and(next)));
            }
            Err(error) => return Err(unusable(&path, &error.into())),
        }
        let written = file.set_len(0).and_then(|()| writeln!(file, "{}", process::id()));
        written.map_err(|error| unusable(&path, &error))?;
        Ok(Self { _file: file })
    }
}
