//! The kernel, what a jail needs of it, memory that stays out of swap, the clock's year, who may trace whom, and who else
//! runs jobs here.

use std::{env, fs};

use jiff::Timestamp;
use keyless_core::{Code, Error};
use keyless_jail::JailError;

use super::Check;
use crate::{clock_watch::in_step, run::causes};

/// Locked memory that holds the values of a large store, in bytes.
const LOCKED_WANTED: u64 = 1024 * 1024;
/// No clock that goes right shows less: the seconds of 2025-01-01.
const RELEASED: i64 = 1_735_689_600;
/// Yama's word on who may trace whom: 0 is everybody of the account, 1 who started the process.
const TRACE_SCOPE: &str = "/proc/sys/kernel/yama/ptrace_scope";
/// Set by services that run jobs.
const CI_VARIABLES: &[&str] = &["CI", "GITHUB_ACTIONS", "GITLAB_CI", "BUILDKITE"];

pub(super) fn look() -> Vec<Check> {
    let mut checks = vec![kernel(), jail(), locked_memory(), clock()];
    checks.extend(tracing());
    checks.extend(jobs());
    checks
}

fn kernel() -> Check {
    let machine = rustix::system::uname();
    let (name, release) =
        (machine.sysname().to_string_lossy(), machine.release().to_string_lossy());
    Check::ok("machine.kernel", format!("{name} {release}"))
}

fn jail() -> Check {
    match keyless_jail::check() {
        Ok(()) => Check::ok("machine.jail", "namespaces, nf_tables and seccomp are to be had"),
        // Nothing that a person could set right.
        Err(error @ JailError::NotLinux) => {
            Check::note("machine.jail", error.to_string(), "keyless run --no-jail")
        }
        Err(error) => {
            let found = Error::with(Code::JailUnavailable, causes(&error)).message();
            let remedy = error.remedy().unwrap_or("keyless run --no-jail, which says what is lost");
            Check::fault("machine.jail", found, remedy)
        }
    }
}

fn locked_memory() -> Check {
    let limit = rustix::process::getrlimit(rustix::process::Resource::Memlock).current;
    match limit {
        Some(bytes) if bytes < LOCKED_WANTED => {
            let found = format!(
                "{} KiB may be locked: further values may be swapped to disk",
                bytes / 1024
            );
            Check::warning(
                "machine.memory",
                found,
                "ulimit -l 8192, or LimitMEMLOCK=8M in the unit",
            )
        }
        _ => Check::ok("machine.memory", "values are kept out of swap"),
    }
}

fn clock() -> Check {
    let now = Timestamp::now();
    if now.as_second() < RELEASED {
        let found = format!("the clock shows {}", now.strftime("%Y-%m-%d"));
        return Check::fault(
            "machine.clock",
            found,
            "set the clock: expiries and windows go by it",
        );
    }
    let shown = now.strftime("%Y-%m-%d %H:%M UTC");
    match in_step() {
        Some(false) => Check::warning(
            "machine.clock",
            format!(
                "{shown}, and nothing keeps it in step: entries of the log say clock_synced false"
            ),
            "run a time service: systemctl enable --now systemd-timesyncd, or chrony",
        ),
        Some(true) => Check::ok("machine.clock", format!("{shown}, kept in step")),
        None => Check::ok("machine.clock", shown.to_string()),
    }
}

/// Whether a program can trace another one of its account, on Linux.
fn tracing() -> Option<Check> {
    let setting = fs::read_to_string(TRACE_SCOPE).ok();
    cfg!(target_os = "linux").then(|| traceable(setting.as_deref().map(str::trim)))
}

/// By what Yama says, where the kernel has it.
fn traceable(scope: Option<&str>) -> Check {
    let found = "any process of your account can trace your shell, and reads what you type there";
    match scope {
        None => Check::warning(
            "machine.tracing",
            format!("{found} (this kernel is without Yama)"),
            "boot a kernel with Yama (CONFIG_SECURITY_YAMA, and yama in lsm=), or run agents in keyless run or as another account",
        ),
        Some("0") => Check::warning(
            "machine.tracing",
            format!("{found} (kernel.yama.ptrace_scope is 0)"),
            "sudo sysctl kernel.yama.ptrace_scope=1, and the same line in a file of /etc/sysctl.d",
        ),
        Some(_) => Check::ok("machine.tracing", "processes of your account can't trace each other"),
    }
}

/// A service that runs jobs, and nobody said that there is no person.
fn jobs() -> Option<Check> {
    if crate::ci::is_on() {
        let found = "env-only: nobody is asked; a value comes from the environment, else from the file that \
                     KEYLESS_SECRETS_FILE names, by what the operator's index.toml calls it, else KEYLESS_SECRET__ \
                     and its path, else what the catalog calls it";
        return Some(Check::ok("machine.mode", found));
    }
    let variable = CI_VARIABLES.iter().find(|name| env::var_os(name).is_some())?;
    let found = format!("{variable} is set, so this is a service that runs jobs");
    Some(Check::note("machine.mode", found, "KEYLESS_CI=1 takes values from the environment alone"))
}

#[cfg(test)]
mod tests {
    use super::{super::CheckState, *};

    #[test]
    fn tracing_is_a_warning_with_its_remedy_unless_yama_limits_it() {
        for (scope, state, remedy) in [
            (None, CheckState::Warning, "CONFIG_SECURITY_YAMA"),
            (Some("0"), CheckState::Warning, "kernel.yama.ptrace_scope=1"),
            (Some("1"), CheckState::Ok, ""),
            (Some("3"), CheckState::Ok, ""),
        ] {
            let check = traceable(scope);
            assert_eq!(check.state, state, "{scope:?}");
            assert!(check.remedy.unwrap_or_default().contains(remedy), "{scope:?}");
        }
    }
}
