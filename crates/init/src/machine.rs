//! What the first process of a machine has to do, and what every guest needs of its machine.

use std::{
    fs, io,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
};

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

const RESOLV_CONF: &str = "# keyless-guest answers every name\nnameserver 127.0.0.1\n";

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

/// The funnel's DNS as the only resolver, until this is dropped.
pub(crate) struct Resolver<'a> {
    file: Option<&'a Path>,
    before: Before,
}

/// What stood in the resolver's place.
enum Before {
    Nothing,
    File(Vec<u8>),
    Link(PathBuf),
}

impl<'a> Resolver<'a> {
    /// Names it, once it answers.
    pub(crate) fn name(settings: &'a Settings) -> Result<Self, Fault> {
        let Some(file) = settings.resolv_conf.as_deref() else {
            return Ok(Self { file: None, before: Before::Nothing });
        };
        let step = || Fault::step(file.display().to_string());
        let before = Before::of(file).map_err(step())?;
        // What fails from here on puts it back.
        let this = Self { file: Some(file), before };
        let write = || -> io::Result<()> {
            // Often to a file of a service that is not here.
            if matches!(this.before, Before::Link(_)) {
                fs::remove_file(file)?;
            }
            if let Some(folder) = file.parent() {
                fs::create_dir_all(folder)?;
            }
            fs::write(file, RESOLV_CONF)
        };
        write().map_err(step())?;
        Ok(this)
    }

    fn put_back(&self, file: &Path) -> io::Result<()> {
        match fs::read(file) {
            // Somebody else has named another one meanwhile.
            Ok(text) if !RESOLV_CONF.as_bytes().starts_with(&text) => return Ok(()),
            _ => {}
        }
        match &self.before {
            Before::File(text) => fs::write(file, text),
            Before::Nothing => fs::remove_file(file),
            Before::Link(target) => {
                match fs::remove_file(file) {
                    Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                    _ => {}
                }
                symlink(target, file)
            }
        }
    }
}

impl Before {
    fn of(file: &Path) -> io::Result<Self> {
        match fs::read_link(file) {
            Ok(target) => Ok(Self::Link(target)),
            Err(_) => match fs::read(file) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Self::Nothing),
                text => text.map(Self::File),
            },
        }
    }
}

impl Drop for Resolver<'_> {
    fn drop(&mut self) {
        let Some(file) = self.file.filter(|_| !is_first_process()) else { return };
        if let Err(error) = self.put_back(file) {
            log(format_args!("{} is not as it was: {error}", file.display()));
        }
    }
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
