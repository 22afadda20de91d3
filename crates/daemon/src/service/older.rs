//! Brokers of versions that did not say beside the store where they listen: after an update one may still have it open, below
//! another `XDG_RUNTIME_DIR` than this environment's.

use std::path::PathBuf;

use super::{Status, status};
use crate::places::Places;

/// A broker that is not where this store's would be, and does not say that it serves another.
pub struct OlderBroker {
    /// Where it listens.
    pub socket: PathBuf,
    /// How it is.
    pub status: Status,
}

impl OlderBroker {
    /// What is to be known of it, as a sentence without its end.
    pub fn in_words(&self) -> String {
        let (process, socket) = (self.status.pid, self.socket.display());
        format!(
            "an older keyless, process {process}, may have this store open; it listens at {socket}"
        )
    }
}

/// Those that answer, where a broker of this store could have been started.
pub async fn older_brokers(places: &Places) -> Vec<OlderBroker> {
    let ours = places.agent_socket();
    let mut found = Vec::new();
    for folder in places.runtimes().into_iter().filter(|folder| ours.parent() != Some(folder)) {
        let socket = folder.join("agent.sock");
        let Ok(Some(status)) = status(&socket).await else { continue };
        if status.serves.as_ref().is_none_or(|data| *data == places.data().to_string_lossy()) {
            found.push(OlderBroker { socket, status });
        }
    }
    found
}
