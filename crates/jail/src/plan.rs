//! What a jail is asked to run, and the variables that must not reach it.
//!
//! The environment is the caller's to compose (placeholders are its business); this file only says
//! which of the user's variables lead out of a jail.

use std::ffi::OsString;
use std::fmt;
use std::mem;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use zeroize::Zeroize;

/// One command and the jail around it.
#[derive(Clone, Debug, Default)]
pub struct Plan {
    /// The program, looked up in the `PATH` of `environment` unless it has a slash, and its arguments.
    pub command: Vec<OsString>,
    /// The complete environment of the command; nothing of the caller's own is added. Its `HOME` and
    /// `JAVA_HOME` say where sockets and trust stores are looked for.
    pub environment: Vec<Variable>,
    /// Where the command starts; must be visible inside the jail.
    pub working_directory: PathBuf,
    /// Files, directories and sockets to cover. What does not exist is skipped; a symlink's target is covered.
    pub hide: Vec<PathBuf>,
    /// Paths to leave visible: one that is hidden is not, one below a hidden directory (or below `/run`,
    /// `/dev`) is brought back. What is hidden below a shown directory stays hidden.
    pub show: Vec<PathBuf>,
    /// The socket, shown or not, that programs inside find at [`TOOLS_SOCKET`] as well.
    pub tools_socket: Option<PathBuf>,
    /// The session's CA certificate, PEM; trusted by every runtime inside. Empty: no trust store is touched.
    pub ca_pem: String,
    /// Host name inside; the host's own when absent.
    pub uts_name: Option<OsString>,
    /// Directories to replace by empty ones of the jail's own, in memory, with these modes.
    pub own_directories: Vec<(PathBuf, u32)>,
    /// Files to make, each below one of `own_directories`.
    pub own_files: Vec<OwnFile>,
    /// Whether the host's files can't be changed, but for what is shown.
    pub read_only: bool,
    /// What the command may use up; as much as its user may when absent.
    pub bounds: Option<Bounds>,
    /// Signals that the command begins with as ignored, beside those that the caller ignores: SIGPIPE and SIGCHLD,
    /// which the caller needs for itself, may be among them.
    pub ignored_signals: Vec<i32>,
}

/// Where every jail has its session's socket for tools, if it has one: clients of MCP hand their servers few variables.
pub const TOOLS_SOCKET: &str = "/run/keyless/agent.sock";

/// What becomes of a process that goes on in another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Front {
    /// It ends at once.
    Leaves,
    /// It stays, passes signals on, and ends as the other one does, which ends with it.
    Stays,
}

/// What a command and all that it starts may use up of the machine, as far as the kernel can tell it from others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bounds {
    /// Processes and threads at a time; nearly so many for root, for whom the kernel counts only since Linux 6.14.
    pub processes: u64,
    /// Bytes in the directories of its own, which are in memory, and a quarter of it once more in `/dev/shm`. Never more
    /// than a quarter of the machine's memory.
    pub bytes: u64,
}

/// A variable of the command's environment. Its value may be a secret's: no `Debug`, and wiped on drop.
#[derive(Clone, Serialize, Deserialize)]
pub struct Variable {
    /// Its name.
    pub name: OsString,
    /// What it is set to.
    pub value: OsString,
}

impl<N: Into<OsString>, V: Into<OsString>> From<(N, V)> for Variable {
    fn from((name, value): (N, V)) -> Self {
        Self { name: name.into(), value: value.into() }
    }
}

impl fmt::Debug for Variable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Variable").field("name", &self.name).finish_non_exhaustive()
    }
}

impl Drop for Variable {
    fn drop(&mut self) {
        mem::take(&mut self.value).into_vec().zeroize();
    }
}

/// A file that only the jail has. Its content may be a value: no `Debug`, and wiped on drop.
#[derive(Clone, Serialize, Deserialize)]
pub struct OwnFile {
    /// Where the file is.
    pub path: PathBuf,
    /// Its mode.
    pub mode: u32,
    /// What is in it.
    pub content: Vec<u8>,
}

impl fmt::Debug for OwnFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OwnFile").field("path", &self.path).finish_non_exhaustive()
    }
}

impl Drop for OwnFile {
    fn drop(&mut self) {
        self.content.zeroize();
    }
}

/// Variables that name a way out of the jail, by socket or by agent. The caller leaves them out of the
/// command's environment; the sockets they name are covered as well.
pub const ESCAPE_VARIABLES: &[&str] = &[
    "BUILDKIT_HOST",
    "CONTAINER_HOST",
    "DBUS_SESSION_BUS_ADDRESS",
    "DBUS_SYSTEM_BUS_ADDRESS",
    "DOCKER_HOST",
    "GNOME_KEYRING_CONTROL",
    "GPG_AGENT_INFO",
    "I3SOCK",
    "KITTY_LISTEN_ON",
    "LISTEN_FDNAMES",
    "LISTEN_FDS",
    "LISTEN_PID",
    "NIX_REMOTE",
    "NOTIFY_SOCKET",
    "NVIM",
    "NVIM_LISTEN_ADDRESS",
    "OP_SESSION",
    "PIPEWIRE_REMOTE",
    "PULSE_SERVER",
    "SESSION_MANAGER",
    "SSH_AGENT_PID",
    "SSH_AUTH_SOCK",
    "STY",
    "SWAYSOCK",
    "TMUX",
    "VSCODE_GIT_ASKPASS_MAIN",
    "VSCODE_GIT_IPC_HANDLE",
    "VSCODE_IPC_HOOK_CLI",
    "WAYLAND_DISPLAY",
    "WEZTERM_UNIX_SOCKET",
    "WSL_INTEROP",
    "XAUTHORITY",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plan_in_words_says_no_value() {
        let own_files =
            vec![OwnFile { path: "/tmp/f".into(), mode: 0o600, content: b"canary".into() }];
        let environment = vec![("TOKEN", "canary").into()];
        let words = format!("{:?}", Plan { environment, own_files, ..Plan::default() });
        assert!(words.contains("TOKEN") && words.contains("/tmp/f"), "{words}");
        let bytes = format!("{:?}", b"canary".as_slice());
        assert!(!words.contains("canary") && !words.contains(&bytes), "{words}");
    }
}
