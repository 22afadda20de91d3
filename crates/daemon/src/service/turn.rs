//! Who starts the broker, of processes that want one at once.

use std::fs::File;

use keyless_core::Error;
use rustix::fs::{FlockOperation, flock};
use tokio::task::spawn_blocking;

use crate::places::{Places, unusable};

/// No other process of this home starts a broker while this lives.
#[derive(Debug)]
pub struct UnlockingTurn {
    _folder: File,
}

/// Waits for this process's turn to start a broker. It ends with the process, however that ends.
pub async fn unlocking_turn(places: &Places) -> Result<UnlockingTurn, Error> {
    places.prepare_runtime()?;
    let folder = places.runtime().to_owned();
    let take = move || {
        let opened = File::open(&folder);
        let held = opened.and_then(|file| {
            flock(&file, FlockOperation::LockExclusive)?;
            Ok(file)
        });
        held.map_err(|error| unusable(&folder, &error))
    };
    let held = spawn_blocking(take).await.expect("it does not panic")?;
    Ok(UnlockingTurn { _folder: held })
}
