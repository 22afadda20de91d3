//! What the first process of a machine has to do, and what every guest needs of its machine.

use std::{fs, io, path::Path};

use rustix::{
    mount::{MountFlags, mount},
    system::{RebootCommand, reboot},
};

use crate::{
    Fault, log,
    settings::{OnExit, Settings},
};

/// Kind, target, what is there once it is mounted, options.
const FILE_SYSTEMS: &[(&str, &str, &str, &str)] = &[
    ("proc", "/proc", "/proc/self", ""),
    ("sysfs", "/sys", "/sys/kernel", ""),
    ("devtmpfs", "/dev", "/dev/null", "mode=0755"),
    ("devpts", "/dev/pts", "/dev/pts/ptmx", "mode=0620,ptmxmode=0666"),
    ("tmpfs", "/run", "/run/keyless", "mode=0755"),
];

/// Whether this process is the machine's first.
pub(crate) fn is_first_process() -> bool {
    std::process::id() == 1
}

/// Mounts what programs expect and the kernel does not mount. What fails is said, and left.
pub(crate) fn mount_kernel_file_systems() {
    for (kind, target, sign, options) in FILE_SYSTEMS {
        if Path::new(sign).exists() {
            continue;
        }
        let flags = MountFlags::NOSUID
            | if *kind == "devtmpfs" || *kind == "devpts" {
                MountFlags::NOEXEC
            } else {
                MountFlags::NODEV
            };
        let options = std::ffi::CString::new(*options).expect("no NUL in the table");
        let mounted = fs::create_dir_all(target)
            .and_then(|()| Ok(mount(*kind, *target, *kind, flags, options.as_c_str())?));
        if let Err(error) = mounted {
            log(format_args!("{target} is not mounted: {error}"));
        }
    }
    // So that `/run` is not mounted over twice by a second start.
    let _ = fs::create_dir_all("/run/keyless");
}

/// Names the funnel's DNS as the only resolver.
pub(crate) fn write_resolv_conf(settings: &Settings) -> Result<(), Fault> {
    let Some(path) = &settings.resolv_conf else { return Ok(()) };
    let write = || -> io::Result<()> {
        // Often a link to a file of a service that is not here.
        if fs::symlink_metadata(path).is_ok_and(|found| found.is_symlink()) {
            fs::remove_file(path)?;
        }
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder)?;
        }
        fs::write(path, "# keyless-guest answers every name\nnameserver 127.0.0.1\n")
    };
    write().map_err(Fault::step(path.display().to_string()))
}

/// Ends the machine.
pub(crate) fn end(how: OnExit) -> ! {
    rustix::fs::sync();
    let command = match how {
        OnExit::Halt => RebootCommand::Halt,
        OnExit::PowerOff => RebootCommand::PowerOff,
        OnExit::Reboot => RebootCommand::Restart,
    };
    if let Err(error) = reboot(command) {
        log(format_args!("the machine can't be ended: {error}"));
    }
    // Ending the first process would be a kernel panic.
    loop {
        std::thread::park();
    }
}
