//! Docker's daemon and its client for the tests, out of Debian's packages without installing them: installed, it would start
//! with the machine, and it doesn't go with the `docker-ce` that a developer may have. 65 MB, once.

use std::{fs, path::Path};

use super::{is_on_path, vm};
use crate::shell::{Failure, ask, command, run as call};

/// What the tests start, and what the daemon wants to be there.
const PROGRAMS: &[&str] = &["containerd", "docker", "dockerd", "runc"];
const PACKAGES: &[&str] = &["containerd", "docker.io", "runc"];
/// Where a package has them; the first is not on everybody's PATH.
const FOLDERS: &[&str] = &["/usr/sbin", "/usr/bin"];
/// The client's own, since Debian 13.
const CLIENT: &str = "docker-cli";

/// Puts into the cache what the machine has not.
pub(super) fn ensure() -> Result<(), Failure> {
    let bin = vm::cache("docker")?.join("bin");
    let is_there = |name: &str| {
        let somewhere = |folder: &&str| Path::new(folder).join(name).exists();
        is_on_path(name) || FOLDERS.iter().any(somewhere) || bin.join(name).exists()
    };
    let missing: Vec<_> = PROGRAMS.iter().filter(|name| !is_there(name)).collect();
    if missing.is_empty() {
        return Ok(());
    }
    let scratch = bin.with_file_name("unpacked");
    let _ = fs::remove_dir_all(&scratch);
    fs::create_dir_all(&scratch).map_err(Failure::file(&scratch))?;
    fs::create_dir_all(&bin).map_err(Failure::file(&bin))?;
    let mut packages = PACKAGES.to_vec();
    packages.extend(ask("apt-cache", &["show", CLIENT]).map(|_| CLIENT));
    let download = [&["download", "-qq"], &*packages].concat();
    call(command("apt-get", &download).current_dir(&scratch))?;
    let place = scratch.display().to_string();
    for package in packages {
        let archive = vm::only(&scratch, &format!("/{package}_"))?.display().to_string();
        call(&mut command("dpkg-deb", &["-x", &archive, &place]))?;
    }
    for name in missing {
        let mut places = FOLDERS.iter().map(|folder| scratch.join(&folder[1..]).join(name));
        let from = places.find(|place| place.exists()).ok_or_else(|| {
            Failure::Other(format!("{name} is in none of Debian's {}", PACKAGES.join(", ")))
        })?;
        fs::rename(&from, bin.join(name)).map_err(Failure::file(&from))?;
    }
    fs::remove_dir_all(&scratch).map_err(Failure::file(&scratch))
}
