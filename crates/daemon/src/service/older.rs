//! Brokers of versions that did not say beside the store where they listen: after an update one may still have it open, below
//! another `XDG_RUNTIME_DIR` than this environment's.

use std::path::PathBuf;

use futures_util::future::join_all;
use keyless_client::PATIENCE;
use keyless_core::{Code, Error, SafeText};

use super::{
    Status,
    client::{Asked, ask},
};
use crate::places::Places;

/// A broker that is not where this store's would be, and does not say that it serves another.
pub struct OlderBroker {
    /// Where it listens.
    pub socket: PathBuf,
    /// How it is; nothing of one that does not answer in time, of which nobody knows whether it has this store open.
    pub status: Option<Status>,
    process: Option<u64>,
}

impl OlderBroker {
    /// What is to be known of it, as a sentence without its end.
    pub fn in_words(&self) -> String {
        let process = self.process.map(|process| format!(", process {process},"));
        let (process, socket) = (process.unwrap_or_default(), self.socket.display());
        if self.status.is_some() {
            return format!(
                "an older keyless{process} may have this store open; it listens at {socket}"
            );
        }
        let seconds = PATIENCE.as_secs();
        format!(
            "an older keyless{process} may have this store open, and has not answered within {seconds} s; it listens at {socket}"
        )
    }

    /// What ends it, as commands.
    pub fn next(&self) -> String {
        match (&self.status, self.process) {
            (Some(_), _) => "keyless lock, then keyless unlock".to_owned(),
            (None, Some(process)) => {
                format!("kill -KILL {process} (its sessions end with it), then keyless unlock")
            }
            (None, None) => {
                "end the process that listens there (kill -KILL), then keyless unlock".to_owned()
            }
        }
    }

    /// That nothing can be asked of it: it may have the store open still.
    pub fn hangs(&self) -> Error {
        let words = SafeText::default().as_they_wrote_in_full(&self.in_words());
        Error::with(Code::BrokerHangs, words)
    }

    fn of(socket: PathBuf, asked: Asked, places: &Places) -> Option<Self> {
        match asked {
            Asked::Answered(status) => {
                let serves = status.serves.as_ref();
                let is_ours = serves.is_none_or(|data| *data == places.data().to_string_lossy());
                let process = Some(status.pid.into());
                is_ours.then_some(Self { socket, status: Some(*status), process })
            }
            Asked::Hangs { process } => Some(Self { socket, status: None, process }),
            Asked::Nobody => None,
        }
    }
}

/// The older brokers, where a broker of this store could have been started. All are asked at once, so that several that
/// hang take no longer than one.
pub async fn older_brokers(places: &Places) -> Vec<OlderBroker> {
    let ours = places.agent_socket();
    let others = places.runtimes().into_iter().filter(|folder| ours.parent() != Some(folder));
    let asking = others.map(async |folder| {
        let socket = folder.join("agent.sock");
        let asked = ask(&socket).await;
        OlderBroker::of(socket, asked, places)
    });
    join_all(asking).await.into_iter().flatten().collect()
}
