//! Locks that end with the process that holds them.

use std::{
    fs::{self, File, OpenOptions},
    io::{Read as _, Seek as _, Write as _},
    thread,
    time::{Duration, Instant},
};

use rustix::{
    fs::{FlockOperation, flock},
    io::Errno,
};

use crate::{
    error::{Code, PackError, Result},
    plain_file,
    site::Site,
};

/// How long a command waits for another one.
const PATIENCE: Duration = Duration::from_secs(30);

/// The one writer of a home.
#[derive(Debug)]
pub(crate) struct HomeLock {
    _file: File,
}

impl HomeLock {
    /// Waits until this process is the home's only writer.
    pub(crate) fn take(site: &Site) -> Result<Self> {
        let folder = site.state();
        fs::create_dir_all(&folder).map_err(|error| PackError::io("create", &folder, &error))?;
        let path = folder.join("lock");
        let fault = |error: std::io::Error| PackError::io("lock", &path, &error);
        let opened =
            OpenOptions::new().read(true).write(true).create(true).truncate(false).open(&path);
        let mut file = opened.map_err(fault)?;
        let holder = || {
            let pid = fs::read_to_string(&path).unwrap_or_default();
            format!("process {} is applying in {}", pid.trim(), site.home.display())
        };
        wait_for(|| held(&file).map_err(|error| fault(error.into())), holder)?;
        // For people and for E_BUSY; the lock itself is the kernel's.
        let _ = file.set_len(0).and_then(|()| file.rewind());
        let _ = writeln!(file, "{}", std::process::id());
        Ok(Self { _file: file })
    }

    /// The process that holds a home's lock now.
    pub(crate) fn holder(site: &Site) -> Option<String> {
        let mut file = plain_file::open(&site.state().join("lock")).ok()?;
        let free = flock(&file, FlockOperation::NonBlockingLockShared).is_ok();
        let mut pid = String::new();
        let _ = file.read_to_string(&mut pid);
        (!free).then(|| pid.trim().to_owned())
    }
}

/// The one writer of a config repo's manifest and lockfile, from whatever home.
#[derive(Debug)]
pub(crate) struct RepoLock {
    _folder: File,
}

impl RepoLock {
    /// Waits until this call is the only writer; what it changes is to be read after that.
    pub(crate) fn take(site: &Site) -> Result<Self> {
        let fault = |error: std::io::Error| PackError::io("lock", &site.repo, &error);
        // The directory itself: a file of ours in it would be a change that git sees.
        let folder = File::open(&site.repo).map_err(fault)?;
        wait_for(
            || held(&folder).map_err(|error| fault(error.into())),
            || format!("another command is changing {}", site.repo.display()),
        )?;
        Ok(Self { _folder: folder })
    }
}

/// Tries again and again, up to the limit.
pub(crate) fn wait_for(
    mut tried: impl FnMut() -> Result<bool>,
    holder: impl Fn() -> String,
) -> Result<()> {
    let deadline = Instant::now() + PATIENCE;
    while !tried()? {
        if Instant::now() > deadline {
            let message = format!("{}; waited {} s", holder(), PATIENCE.as_secs());
            return Err(PackError::new(Code::Busy, message)
                .hint("wait for it to end, then run the command again"));
        }
        thread::sleep(Duration::from_millis(10));
    }
    Ok(())
}

fn held(file: &File) -> std::result::Result<bool, Errno> {
    match flock(file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(true),
        Err(Errno::WOULDBLOCK) => Ok(false),
        Err(error) => Err(error),
    }
}
