//! Gives up every privilege that the init had over the jail's namespaces, in two steps, as the first holds for all that it
//! starts.
//!
//! After both, no capability can come back: none is held, none may be inherited or raised, uid 0
//! means nothing to `execve`, and set-id files neither. The system call filter is separate
//! (`seccomp`), since it goes on last.

use std::fs;

use rustix::process::{Resource, Rlimit, setrlimit};
use rustix::thread::{
    CapabilitiesSecureBits, CapabilitySet, CapabilitySets, clear_ambient_capability_set,
    remove_capability_from_bounding_set, set_capabilities, set_capabilities_secure_bits,
    set_no_new_privs,
};

use crate::linux::channel::{During, Failure, Step};

/// Forbids new privileges to this process and all that come of it. What it holds it keeps.
pub(crate) fn forbid_new_privileges() -> Result<(), Failure> {
    let step = Step::Capabilities;
    empty_bounding_set().during(step, || "empty the capability bounding set".into())?;
    set_capabilities_secure_bits(secure_bits()).during(step, || "lock the secure bits".into())?;
    clear_ambient_capability_set().during(step, || "clear the ambient capabilities".into())?;
    set_no_new_privs(true).during(step, || "forbid new privileges".into())
}

/// Drops all capabilities of this process; for good, after [`forbid_new_privileges`].
pub(crate) fn drop_capabilities() -> Result<(), Failure> {
    let none = CapabilitySets {
        effective: CapabilitySet::empty(),
        permitted: CapabilitySet::empty(),
        inheritable: CapabilitySet::empty(),
    };
    set_capabilities(None, none).during(Step::Capabilities, || "drop all capabilities".into())
}

/// Forbids core dumps of this process and all that come of it; needs to be dumpable itself.
pub(crate) fn forbid_core_dumps() -> Result<(), Failure> {
    let step = Step::Capabilities;
    setrlimit(Resource::Core, Rlimit { current: Some(0), maximum: Some(0) })
        .during(step, || "forbid core dumps".into())?;
    // The limit does not hold for a `core_pattern` that is a pipe; this does, across `execve` too.
    match fs::write("/proc/self/coredump_filter", "0") {
        // A kernel without core dumps.
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
        other => other.during(step, || "empty the core dump filter".into()),
    }
}

/// The kernel refuses the first number that is no capability.
fn empty_bounding_set() -> rustix::io::Result<()> {
    for number in 0..u64::BITS {
        let one = CapabilitySet::from_bits_retain(1 << number);
        match remove_capability_from_bounding_set(one) {
            Ok(()) => {}
            Err(rustix::io::Errno::INVAL) => break,
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

fn secure_bits() -> CapabilitiesSecureBits {
    use CapabilitiesSecureBits as Bits;
    Bits::NO_ROOT
        | Bits::NO_ROOT_LOCKED
        | Bits::NO_SETUID_FIXUP
        | Bits::NO_SETUID_FIXUP_LOCKED
        | Bits::KEEP_CAPS_LOCKED
        | Bits::NO_CAP_AMBIENT_RAISE
        | Bits::NO_CAP_AMBIENT_RAISE_LOCKED
}
