//! Who starts the broker, of processes that want one at once; and who serves, of brokers that start at once.

use std::{
    ffi::OsStr,
    fs::{File, OpenOptions},
    io::{self, Write as _},
    os::unix::{ffi::OsStrExt as _, fs::OpenOptionsExt as _},
    path::{Path, PathBuf},
    process,
    time::Duration,
};

use keyless_core::{Code, Error, SafeText};
use keyless_vault::read_settings;
use rustix::{
    fs::{FlockOperation, flock},
    io::Errno,
};
use tokio::{task::spawn_blocking, time::sleep};

use crate::{
    places::{Places, unusable},
    sockets::is_live,
    whole_file::Turn,
};

/// How often it is looked whether another broker serves by now, or is gone.
const LOOK: Duration = Duration::from_millis(20);
/// How often at most: a broker binds its sockets within milliseconds.
const LOOKS: u32 = 500;

/// No other process of this home starts a broker while this lives.
#[derive(Debug)]
pub struct UnlockingTurn {
    _folder: Turn,
}

/// Waits for this process's turn to start a broker. It ends with the process, however that ends.
pub async fn unlocking_turn(places: &Places) -> Result<UnlockingTurn, Error> {
    places.prepare_data()?;
    let folder = places.data().to_owned();
    let take = move || Turn::take_in(&folder).map_err(|error| unusable(&folder, &error));
    let turn = spawn_blocking(take).await.expect("it does not panic")?;
    Ok(UnlockingTurn { _folder: turn })
}

/// No other broker makes or removes this home's sockets while this lives.
#[derive(Debug)]
pub(crate) struct Serving {
    _file: File,
}

/// The folder with the sockets of the broker that serves this store; nothing where none does. Blocks for no time to speak of.
pub(crate) fn served_in(places: &Places) -> Option<PathBuf> {
    let path = places.broker_lock();
    let file = File::open(&path).ok()?;
    if flock(&file, FlockOperation::NonBlockingLockShared).is_ok() {
        // Whoever wrote it is gone.
        return None;
    }
    let told = read_settings(&path).ok()?;
    let folder = told.splitn(2, |&byte| byte == b'\n').nth(1)?;
    let folder = Path::new(OsStr::from_bytes(folder));
    folder.is_absolute().then(|| folder.to_owned())
}

/// The number of this process, and where it listens.
fn say_where(mut file: &File, runtime: &Path) -> io::Result<()> {
    let mut text = format!("{}\n", process::id()).into_bytes();
    text.extend(runtime.as_os_str().as_bytes());
    file.set_len(0)?;
    file.write_all(&text)
}

/// Makes sure that no broker serves this store, wherever it listens, and that none begins. Without that a broker would take the socket away
/// that another has bound since the first one looked. [`Code::StateUnfit`] when one serves.
pub(crate) async fn serve_alone(places: &Places) -> Result<Serving, Error> {
    places.prepare_data()?;
    let path = places.broker_lock();
    let open = OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(&path);
    let file = open.map_err(|error| unusable(&path, &error))?;
    for _ in 0..LOOKS {
        let taken = flock(&file, FlockOperation::NonBlockingLockExclusive);
        let elsewhere = taken.is_err().then(|| places.clone().where_served());
        if is_live(&elsewhere.as_ref().unwrap_or(places).agent_socket()).await {
            break;
        }
        match taken {
            Ok(()) => {
                say_where(&file, places.runtime()).map_err(|error| unusable(&path, &error))?;
                return Ok(Serving { _file: file });
            }
            // It has not bound its sockets yet, or has just removed them.
            Err(Errno::WOULDBLOCK) => sleep(LOOK).await,
            Err(error) => return Err(unusable(&path, &error.into())),
        }
    }
    let detail = SafeText::words(
        "the store is unlocked already: run keyless lock first, or have that broker serve NL by `http` under `nl` in config.toml",
    );
    Err(Error::with(Code::StateUnfit, detail))
}

#[cfg(test)]
mod tests {
    use keyless_sockets::bind_unix;

    use super::*;

    /// The second one may look after the first has looked, and before it has bound.
    #[tokio::test]
    async fn who_starts_second_waits_until_the_first_serves_or_is_gone() {
        let folder = tempfile::tempdir().unwrap();
        let places = Places::below(folder.path());
        places.prepare_runtime().unwrap();
        let first = serve_alone(&places).await.unwrap();
        let second = tokio::spawn({
            let places = places.clone();
            async move { serve_alone(&places).await }
        });
        sleep(LOOK * 4).await;
        assert!(!second.is_finished());
        let listener = bind_unix(&places.agent_socket(), 0o600).unwrap();
        let refused = second.await.unwrap().map(drop).unwrap_err();
        assert_eq!(refused.code(), Code::StateUnfit);
        drop((listener, first));
        let first = serve_alone(&places).await.unwrap();
        let second = tokio::spawn(async move { serve_alone(&places).await });
        sleep(LOOK * 2).await;
        drop(first);
        assert!(second.await.unwrap().is_ok());
    }
}
