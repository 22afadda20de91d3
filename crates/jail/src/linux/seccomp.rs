//! The system call filter: what a coding agent never needs is refused with EPERM.
//!
//! A deny list, since the command is any program at all; the namespaces and the missing capabilities
//! are the wall, this is the second one. `clone3` is answered ENOSYS (its flags lie in memory, where a filter
//! can't look; libc falls back to `clone`), and on x86-64 so are the x32 numbers. A 32-bit program is killed at its
//! first call. All of it is one program: each that is installed costs every jail as much as some dozens of calls.

use std::collections::BTreeMap;
use std::io;

use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen::Dword, SeccompCmpOp, SeccompCondition,
    SeccompFilter, SeccompRule, TargetArch, apply_filter, sock_filter,
};

#[cfg(target_arch = "x86_64")]
const ARCHITECTURE: TargetArch = TargetArch::x86_64;
#[cfg(target_arch = "aarch64")]
const ARCHITECTURE: TargetArch = TargetArch::aarch64;

use crate::linux::channel::{During, Failure, Step};

type Rules = BTreeMap<i64, Vec<SeccompRule>>;

/// The filter, ready to be installed: to compile it takes as long as a small command.
pub(crate) struct Filter(BpfProgram);

impl Filter {
    /// Compiles it.
    pub(crate) fn compile() -> Result<Self, Failure> {
        let program = program().map_err(io::Error::other);
        let program =
            program.during(Step::SystemCalls, || "compile the system call filter".into())?;
        Ok(Self(program))
    }

    /// Installs it on this thread and all that it starts. Needs `no_new_privs`.
    pub(crate) fn install(&self) -> Result<(), Failure> {
        let installed = apply_filter(&self.0).map_err(|error| match error {
            seccompiler::Error::Prctl(error) | seccompiler::Error::Seccomp(error) => error,
            other => io::Error::other(other),
        });
        installed.during(Step::SystemCalls, || "install the system call filter".into())
    }
}

fn program() -> Result<BpfProgram, seccompiler::BackendError> {
    let refusal = SeccompAction::Errno(libc::EPERM.unsigned_abs());
    let allow = SeccompAction::Allow;
    // It jumps forward by so many steps, wherever it begins.
    let refusals: BpfProgram =
        SeccompFilter::new(refused()?, allow, refusal, ARCHITECTURE)?.try_into()?;
    Ok([unknown(), refusals].concat())
}

/// Linux 6.15's, for which the C library has no name yet.
const OPEN_TREE_ATTR: i64 = 467;

/// Refused whatever the arguments.
const ALWAYS: &[i64] = &[
    // Mounts: the jail's own are what hides the credentials.
    libc::SYS_fsconfig,
    libc::SYS_fsmount,
    libc::SYS_fsopen,
    libc::SYS_fspick,
    libc::SYS_mount,
    libc::SYS_mount_setattr,
    libc::SYS_move_mount,
    libc::SYS_open_tree,
    OPEN_TREE_ATTR,
    libc::SYS_pivot_root,
    libc::SYS_umount2,
    // Other namespaces, and files by handle instead of by path.
    libc::SYS_name_to_handle_at,
    libc::SYS_open_by_handle_at,
    libc::SYS_setns,
    // Other processes.
    libc::SYS_kcmp,
    libc::SYS_pidfd_getfd,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    // Kernel keyrings: the session keyring is the user's.
    libc::SYS_add_key,
    libc::SYS_keyctl,
    libc::SYS_request_key,
    // Large kernel surfaces with a history.
    libc::SYS_bpf,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
    libc::SYS_io_uring_setup,
    libc::SYS_lookup_dcookie,
    libc::SYS_nfsservctl,
    libc::SYS_perf_event_open,
    libc::SYS_userfaultfd,
    // The machine as a whole.
    libc::SYS_acct,
    libc::SYS_adjtimex,
    libc::SYS_clock_adjtime,
    libc::SYS_clock_settime,
    libc::SYS_delete_module,
    libc::SYS_finit_module,
    libc::SYS_init_module,
    // musl has no number for it there.
    #[cfg(not(all(target_arch = "aarch64", target_env = "musl")))]
    libc::SYS_kexec_file_load,
    libc::SYS_kexec_load,
    libc::SYS_quotactl,
    libc::SYS_quotactl_fd,
    libc::SYS_reboot,
    libc::SYS_settimeofday,
    libc::SYS_swapoff,
    libc::SYS_swapon,
    libc::SYS_syslog,
    libc::SYS_vhangup,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_ioperm,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_iopl,
];

/// Address families that lead nowhere but to the funnel, or within the jail.
const FAMILIES: &[i32] = &[libc::AF_UNIX, libc::AF_INET, libc::AF_INET6, libc::AF_NETLINK];
/// Linux, 32-bit `uname`, no address randomisation (debuggers), and the question what it is.
const PERSONALITIES: &[u32] = &[0, 0x8, 0x0004_0000, 0xffff_ffff];
/// `PTRACE_ATTACH`, `PTRACE_SEIZE`: of others. A child that asks to be traced still can be.
const ATTACHING: &[u32] = &[16, 0x4206];
/// Typing into the terminal that the caller's shell reads, and the console's clipboard.
const TERMINAL_INPUT: &[u32] = &[0x5412, 0x541c];

fn refused() -> Result<Rules, seccompiler::BackendError> {
    let mut rules: Rules = ALWAYS.iter().map(|call| (*call, vec![])).collect();
    let user_namespace = u64::from(libc::CLONE_NEWUSER.unsigned_abs());
    for call in [libc::SYS_clone, libc::SYS_unshare] {
        let asked = condition(0, SeccompCmpOp::MaskedEq(user_namespace), user_namespace)?;
        rules.insert(call, vec![SeccompRule::new(vec![asked])?]);
    }
    let families: Vec<u32> = FAMILIES.iter().map(|family| family.unsigned_abs()).collect();
    let other_netlink = vec![
        condition(0, SeccompCmpOp::Eq, u64::from(libc::AF_NETLINK.unsigned_abs()))?,
        condition(2, SeccompCmpOp::Ne, u64::from(libc::NETLINK_ROUTE.unsigned_abs()))?,
    ];
    let sockets = vec![none_of(0, &families)?, SeccompRule::new(other_netlink)?];
    rules.insert(libc::SYS_socket, sockets);
    rules.insert(libc::SYS_personality, vec![none_of(0, PERSONALITIES)?]);
    rules.insert(libc::SYS_ptrace, any_of(0, ATTACHING)?);
    rules.insert(libc::SYS_ioctl, any_of(1, TERMINAL_INPUT)?);
    Ok(rules)
}

/// The kernel reads these arguments as 32 bits, so the upper half must not matter.
fn condition(
    argument: u8,
    operator: SeccompCmpOp,
    value: u64,
) -> Result<SeccompCondition, seccompiler::BackendError> {
    SeccompCondition::new(argument, Dword, operator, value)
}

fn any_of(argument: u8, values: &[u32]) -> Result<Vec<SeccompRule>, seccompiler::BackendError> {
    let one = |value: &u32| {
        SeccompRule::new(vec![condition(argument, SeccompCmpOp::Eq, u64::from(*value))?])
    };
    values.iter().map(one).collect()
}

fn none_of(argument: u8, values: &[u32]) -> Result<SeccompRule, seccompiler::BackendError> {
    let other = |value: &u32| condition(argument, SeccompCmpOp::Ne, u64::from(*value));
    SeccompRule::new(values.iter().map(other).collect::<Result<_, _>>()?)
}

/// Answers ENOSYS to calls that there shall not be, and goes on for others. x32 calls carry the architecture of x86-64 and
/// numbers from 0x4000_0000 on.
fn unknown() -> BpfProgram {
    // Opcodes of linux/bpf_common.h: BPF_LD|BPF_W|BPF_ABS, BPF_JMP|BPF_JEQ|BPF_K, BPF_JMP|BPF_JGE|BPF_K, BPF_RET|BPF_K.
    const LOAD: u16 = 0x20;
    const IS: u16 = 0x15;
    const IS_FROM: u16 = 0x35;
    const ANSWER: u16 = 0x06;
    let step = |code, jt, jf, k| sock_filter { code, jt, jf, k };
    let clone3 = u32::try_from(libc::SYS_clone3).expect("numbers are small");
    let no_such_call = libc::SECCOMP_RET_ERRNO | libc::ENOSYS.unsigned_abs();
    // The call's number comes first in `seccomp_data`.
    let mut steps = vec![step(LOAD, 0, 0, 0)];
    if cfg!(target_arch = "x86_64") {
        steps.push(step(IS_FROM, 1, 0, 0x4000_0000));
    }
    steps.extend([step(IS, 0, 1, clone3), step(ANSWER, 0, 0, no_such_call)]);
    steps
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_filter_compiles_and_stays_below_the_kernels_limit() {
        let program = program().expect("a program");
        assert!((1..=4096).contains(&program.len()), "{}", program.len());
    }
}
