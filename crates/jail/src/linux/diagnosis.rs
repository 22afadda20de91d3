//! Names the setting of this machine that a jail fell over.
//!
//! The kernel says EPERM for a dozen reasons; what the settings are tells them apart. Words only: the
//! decision is pure, [`Machine::read`] looks.

use std::fs;
use std::io;

use crate::linux::channel::Step;

/// The settings that decide whether an unprivileged jail can be made; `None` where a kernel has no such.
#[derive(Debug, Default)]
pub(crate) struct Machine {
    /// `kernel.unprivileged_userns_clone` (Debian's and Arch's kernels).
    userns_clone: Option<String>,
    /// `kernel.apparmor_restrict_unprivileged_userns` (Ubuntu 23.10 and later).
    apparmor_restricts: Option<String>,
    /// `user.max_user_namespaces`
    max_user_namespaces: Option<String>,
    /// `user.max_net_namespaces`
    max_net_namespaces: Option<String>,
    /// Whether a seccomp filter is on us already, as a container has.
    filtered: bool,
    /// Whether a profile of AppArmor is on us, as a container has where the host has AppArmor.
    confined: bool,
}

impl Machine {
    /// Reads them from `/proc`.
    pub(crate) fn read() -> Self {
        let setting = |path: &str| {
            fs::read_to_string(format!("/proc/sys/{path}")).ok().map(|text| text.trim().to_owned())
        };
        let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
        let profile = fs::read_to_string("/proc/self/attr/current").unwrap_or_default();
        Self {
            userns_clone: setting("kernel/unprivileged_userns_clone"),
            apparmor_restricts: setting("kernel/apparmor_restrict_unprivileged_userns"),
            max_user_namespaces: setting("user/max_user_namespaces"),
            max_net_namespaces: setting("user/max_net_namespaces"),
            filtered: status.lines().any(|line| line == "Seccomp:\t2"),
            confined: profile.trim_end().ends_with("(enforce)"),
        }
    }
}

/// Cause and remedy, or `None` if the failure is not one of the machine's settings.
pub(crate) fn diagnose(
    step: Step,
    error: &io::Error,
    machine: &Machine,
) -> Option<(String, String)> {
    let number = error.raw_os_error()?;
    let (cause, remedy) = match step {
        Step::UserNamespace => namespaces(number, machine)?,
        Step::PacketFilter => match number {
            libc::EPERM | libc::EACCES => apparmor(machine).unwrap_or(NO_NF_TABLES),
            _ => NO_NF_TABLES,
        },
        Step::Identity if number == libc::EPERM => apparmor(machine).unwrap_or(NO_SETFCAP),
        Step::Proc if number == libc::EPERM => NO_PROC,
        Step::Mounts if number == libc::ENOSYS => OLD_KERNEL,
        Step::SystemCalls => NO_SECCOMP,
        Step::Hide if number == libc::ENOSPC => TOO_MANY_SOCKETS,
        _ if matches!(number, libc::EPERM | libc::EACCES) => apparmor(machine)?,
        _ => return None,
    };
    Some((cause.to_owned(), remedy.to_owned()))
}

type Words = (&'static str, &'static str);

fn namespaces(number: i32, machine: &Machine) -> Option<Words> {
    let is_zero = |setting: &Option<String>| setting.as_deref() == Some("0");
    Some(match number {
        _ if is_zero(&machine.userns_clone) => (
            "unprivileged user namespaces are switched off: kernel.unprivileged_userns_clone is 0",
            "sudo sysctl -w kernel.unprivileged_userns_clone=1",
        ),
        _ if is_zero(&machine.max_user_namespaces) => (
            "user namespaces are switched off: user.max_user_namespaces is 0",
            "sudo sysctl -w user.max_user_namespaces=15000",
        ),
        _ if is_zero(&machine.max_net_namespaces) => (
            "network namespaces are switched off: user.max_net_namespaces is 0",
            "sudo sysctl -w user.max_net_namespaces=15000",
        ),
        libc::ENOSPC | libc::EUSERS => (
            "no more namespaces may be made: user.max_user_namespaces is reached, or 32 are nested",
            "sudo sysctl -w user.max_user_namespaces=15000",
        ),
        libc::EINVAL => (
            "this kernel has no user, PID or network namespaces (CONFIG_USER_NS, CONFIG_NET_NS)",
            "use a kernel that has them, or --no-jail",
        ),
        libc::EPERM | libc::EACCES if machine.filtered => (
            "the container or jail that this runs in forbids namespaces (its seccomp filter)",
            OPEN_CONTAINER,
        ),
        libc::EPERM | libc::EACCES => apparmor(machine).unwrap_or((
            "a security module or a chroot forbids user namespaces",
            "allow this program to make user namespaces (SELinux: user_namespace create), or use --no-jail",
        )),
        _ => return None,
    })
}

fn apparmor(machine: &Machine) -> Option<Words> {
    if machine.apparmor_restricts.as_deref() == Some("1") {
        return Some((
            "AppArmor takes all rights from user namespaces: kernel.apparmor_restrict_unprivileged_userns is 1",
            "sudo sysctl -w kernel.apparmor_restrict_unprivileged_userns=0",
        ));
    }
    let words = (
        "the AppArmor profile that this runs under forbids it, as a container's does",
        OPEN_CONTAINER,
    );
    machine.confined.then_some(words)
}

/// All at once: each of them alone only shows the next one that is in the way.
const OPEN_CONTAINER: &str = "start the container with --security-opt seccomp=unconfined --security-opt \
     systempaths=unconfined, on a host with AppArmor also --security-opt apparmor=unconfined, or use --no-jail";

const NO_NF_TABLES: Words = (
    "this kernel has no nf_tables with NAT (CONFIG_NF_TABLES_INET, CONFIG_NFT_REDIR), or does not load it",
    "sudo modprobe -a nf_tables nft_chain_nat nft_redir",
);
const NO_PROC: Words = (
    "a new /proc may not be mounted, since parts of this one are covered, as containers do",
    OPEN_CONTAINER,
);
const NO_SETFCAP: Words = (
    "root without CAP_SETFCAP, as in a container, may not map itself into a user namespace",
    "start the container with --cap-add SETFCAP, or run as another user",
);
const NO_SECCOMP: Words = (
    "this kernel has no system call filters (CONFIG_SECCOMP_FILTER)",
    "use a kernel that has them, or --no-jail",
);
const TOO_MANY_SOCKETS: Words = (
    "more sockets lie in /tmp, /var/tmp and the home than can be covered: a jail has fs.mount-max mounts",
    "find /tmp /var/tmp ~ -maxdepth 1 -type s shows them; remove those that no program uses any more",
);
const OLD_KERNEL: Words =
    ("this kernel is older than Linux 5.12", "use a newer kernel, or --no-jail");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_setting_is_named() {
        let check = |step, number, machine: Machine, expected: Option<&str>| {
            let found = diagnose(step, &io::Error::from_raw_os_error(number), &machine);
            let text = found.map(|(cause, remedy)| format!("{cause} {remedy}"));
            match expected {
                None => assert_eq!(text, None),
                Some(part) => assert!(text.clone().unwrap_or_default().contains(part), "{text:?}"),
            }
        };
        let one = || Some("1".to_owned());
        let zero = || Some("0".to_owned());
        let user = Step::UserNamespace;
        check(
            user,
            libc::EPERM,
            Machine { userns_clone: zero(), ..Machine::default() },
            Some("unprivileged_userns_clone=1"),
        );
        check(
            user,
            libc::ENOSPC,
            Machine { max_user_namespaces: zero(), ..Machine::default() },
            Some("max_user_namespaces=15000"),
        );
        check(
            user,
            libc::EPERM,
            Machine { filtered: true, ..Machine::default() },
            Some("seccomp=unconfined"),
        );
        check(
            user,
            libc::EPERM,
            Machine { apparmor_restricts: one(), ..Machine::default() },
            Some("apparmor"),
        );
        check(
            Step::Mounts,
            libc::EACCES,
            Machine { apparmor_restricts: one(), ..Machine::default() },
            Some("apparmor"),
        );
        check(
            Step::Mounts,
            libc::EACCES,
            Machine { confined: true, ..Machine::default() },
            Some("apparmor=unconfined"),
        );
        check(Step::PacketFilter, libc::EOPNOTSUPP, Machine::default(), Some("nft_redir"));
        check(Step::Proc, libc::EPERM, Machine::default(), Some("systempaths"));
        check(Step::Hide, libc::ENOSPC, Machine::default(), Some("remove those"));
        check(Step::Hide, libc::EIO, Machine::default(), None);
    }
}
