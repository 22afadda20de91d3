//! Runs one command in one session: jail, funnel and egress joined.
//!
//! The funnel's sockets belong to the jail's network namespace; the accept loops run out here, so
//! nothing of Keyless but a tiny init is inside. A connection goes straight to the engine when the
//! broker is in this process, and through the broker's socket with a preamble when it is a service.

mod inside;
mod jailed;
mod proxied;
mod session;
mod signals;

use std::{
    ffi::OsString,
    path::{Path, PathBuf},
    time::{Duration, SystemTime},
};

use futures_util::future::BoxFuture;
use keyless_core::Error;
use keyless_egress::AUTHORITY_LIFE;
use tokio::time::sleep;

pub use self::{inside::run_inside, jailed::check_jail, session::SessionHandle};
pub(crate) use self::{
    jailed::{causes, explain_jail},
    session::{EngineCarrier, loopback_listener},
};
use crate::places::Places;

/// How long before the end of a run's trust it is told.
const NOTICE: Duration = Duration::from_hours(4);
const LOOKED_AT: Duration = Duration::from_mins(10);

/// What to run.
#[derive(Clone, Debug)]
pub struct RunSpec {
    /// The program and its arguments; not empty.
    pub command: Vec<OsString>,
    /// More paths to hide.
    pub hide: Vec<PathBuf>,
    /// Paths to show though they are hidden by default.
    pub show: Vec<PathBuf>,
    /// Keyless's own paths, always hidden.
    pub own: Vec<PathBuf>,
    /// Whether there is a jail round it.
    pub isolation: Isolation,
    /// Variables that the command must not inherit, beside those that hold the session's values.
    pub remove: Vec<String>,
    /// Where a person would be asked about deploys, if the operator wants one to be. Without a broker nobody answers
    /// there, and a jail, which shows no config, must not make an open gate of that.
    pub deploys_ask_at: Option<PathBuf>,
    /// Where the operator finds a run that opened the store by itself.
    pub entered_in: Option<Places>,
}

/// What stands between the command and the world.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Isolation {
    /// Its own namespaces, and no way out but the funnel.
    Jail,
    /// Proxy variables, which a program may ignore.
    ProxyOnly,
}

/// How the command ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// With this exit status.
    Code(i32),
    /// By this signal.
    Signal(i32),
}

/// A command that has come to its end.
#[derive(Clone, Debug)]
pub struct Ran {
    /// How it ended.
    pub ended: Ended,
    /// Whether its session was over before: the broker was locked, is gone, or was told to end it.
    pub outlived_session: bool,
    /// Why the session's end is not on record.
    pub unrecorded: Option<Error>,
}

/// Runs the command to its end, and ends the session.
// Boxed, as what is awaited in another crate is compiled in that one, and the binary's own is not optimised.
pub fn run(spec: &RunSpec, session: SessionHandle) -> BoxFuture<'_, Result<Ran, Error>> {
    Box::pin(async move {
        let entry = session.entry(spec.entered_in.as_ref())?;
        let running = async {
            match spec.isolation {
                Isolation::Jail => jailed::run(spec, &session).await,
                Isolation::ProxyOnly => proxied::run(spec, &session).await,
            }
        };
        let ending = async {
            if let Some(entry) = &entry {
                entry.taken().await;
                session.close().await;
            }
            std::future::pending().await
        };
        let ended = tokio::select! {
            ended = running => ended,
            never = ending => match never {},
        };
        let was_ended = entry.is_some_and(|entry| !entry.is_there());
        let over = session.end().await;
        // What the command came to is its own, whatever becomes of the session.
        let (ended, unrecorded) = (ended?, over.as_ref().err().cloned());
        Ok(Ran { ended, outlived_session: was_ended || over.unwrap_or(false), unrecorded })
    })
}

/// Comes to an end a few hours before a command that began then, and all that it starts, stop trusting their session's
/// certificates: what they trust is given to them at the start, and can't be renewed inside.
pub async fn trust_ends_soon(began: SystemTime) {
    // Not by one sleep: a machine that was suspended has slept less than the clock says.
    while !is_soon(began, SystemTime::now()) {
        sleep(LOOKED_AT).await;
    }
}

fn is_soon(began: SystemTime, now: SystemTime) -> bool {
    now.duration_since(began).is_ok_and(|age| age + NOTICE >= AUTHORITY_LIFE)
}

/// The paths that must be hidden beside Keyless's own: files named on the command line.
pub fn absolute_paths<'a>(paths: impl IntoIterator<Item = &'a Path>) -> Vec<PathBuf> {
    paths.into_iter().filter_map(|path| std::path::absolute(path).ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_run_is_told_before_its_trust_ends() {
        let began = SystemTime::now();
        let after = |hours| is_soon(began, began + Duration::from_hours(hours));
        assert_eq!([0, 42, 43, 47, 60].map(after), [false, false, true, true, true]);
    }
}
