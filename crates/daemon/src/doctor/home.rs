//! Keyless's own directories: whose they are, who may look into them, how much room there is.

use std::{
    fs,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
};

use rustix::{
    fs::{Access, access},
    io::Errno,
};

use super::Check;
use crate::{passphrase::recovery_file, places::Places};

/// Below this a log or a new version may not fit, in bytes.
const ROOM_WANTED: u64 = 64 * 1024 * 1024;

pub(super) fn look(places: &Places) -> Vec<Check> {
    let mut checks: Vec<Check> = Vec::new();
    let private: Vec<PathBuf> = places.all().into_iter().filter(|folder| folder.exists()).collect();
    let bad: Vec<Check> = private.iter().filter_map(|folder| permissions(folder)).collect();
    if bad.is_empty() {
        checks
            .push(Check::ok("home.permissions", "nobody else may write to Keyless's directories"));
    }
    checks.extend(bad);
    checks.extend(recovery_phrase(places));
    checks.extend(private.first().and_then(|folder| room(folder)));
    checks
}

/// What opens the store lies beside it since `init` had nobody to show it to.
fn recovery_phrase(places: &Places) -> Option<Check> {
    let file = recovery_file(places);
    file.exists().then(|| {
        let place = file.display();
        let found = format!("the recovery phrase of init, which opens the store unless it was changed since, lies in {place}");
        let remedy = "write it down, or move it off this machine, and delete the file";
        Check::warning("home.recovery", found, remedy)
    })
}

fn permissions(folder: &Path) -> Option<Check> {
    let metadata = fs::metadata(folder).ok()?;
    let (place, me) = (folder.display(), rustix::process::geteuid().as_raw());
    if metadata.uid() != me {
        let found = format!("{place} belongs to user {}", metadata.uid());
        return Some(Check::fault("home.permissions", found, format!("chown -R {me} {place}")));
    }
    if metadata.mode() & 0o022 != 0 {
        let found = format!("others may write to {place}");
        return Some(Check::fault("home.permissions", found, format!("chmod go-w {place}")));
    }
    let may = access(folder, Access::READ_OK | Access::WRITE_OK | Access::EXEC_OK);
    if may == Err(Errno::ROFS) {
        let found = format!("{place} is on a file system that is mounted read-only");
        let remedy = "mount it for writing, or set KEYLESS_HOME to a folder elsewhere";
        return Some(Check::fault("home.permissions", found, remedy));
    }
    if may.is_err() {
        let found = format!("you may not read and write {place}");
        return Some(Check::fault("home.permissions", found, format!("chmod u+rwx {place}")));
    }
    None
}

fn room(folder: &Path) -> Option<Check> {
    let disk = rustix::fs::statvfs(folder).ok()?;
    let free = disk.f_bavail.saturating_mul(disk.f_frsize);
    let found = format!("{} MiB free", free / 1024 / 1024);
    Some(if free < ROOM_WANTED {
        let remedy = "make room: a use that can't be logged is refused";
        Check::warning("home.room", format!("{}: {found}", folder.display()), remedy)
    } else {
        Check::ok("home.room", found)
    })
}
