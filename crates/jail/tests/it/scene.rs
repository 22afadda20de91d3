//! A command in a jail, as a user, and its outcome.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

use serde_json::{Value, json};

const PROBE: &str = env!("CARGO_BIN_EXE_jail-probe");
const NOBODY: u32 = 65_534;

/// Who makes the jail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum User {
    /// Whoever runs the tests.
    Caller,
    /// `nobody`, which only root can become.
    Nobody,
}

/// Every user that these tests can be.
pub(crate) fn users() -> Vec<User> {
    if rustix::process::getuid().is_root() {
        vec![User::Caller, User::Nobody]
    } else {
        vec![User::Caller]
    }
}

/// The scene before it is played.
pub(crate) struct Scene {
    user: User,
    orders: Value,
    // Readable by everyone; the copy of the probe lives in it.
    folder: tempfile::TempDir,
}

impl Scene {
    pub(crate) fn new(command: &[&str]) -> Self {
        Self::of(User::Caller, command)
    }

    /// A shell script, with `-e`.
    pub(crate) fn script(user: User, text: &str) -> Self {
        Self::of(user, &["sh", "-ec", text])
    }

    pub(crate) fn of(user: User, command: &[&str]) -> Self {
        let folder = tempfile::tempdir_in("/var/tmp").expect("a folder");
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).expect("readable");
        fs::copy(PROBE, folder.path().join("probe")).expect("the probe");
        let path = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
        let orders = json!({ "command": command, "environment": [["PATH", path]] });
        Self { user, orders, folder }
    }

    /// A folder of the user's own, seen by both sides under the same name.
    pub(crate) fn folder(&self, name: &str) -> PathBuf {
        let path = self.folder.path().join(name);
        fs::create_dir_all(&path).expect("a folder");
        if self.user == User::Nobody {
            std::os::unix::fs::chown(&path, Some(NOBODY), Some(NOBODY)).expect("given away");
        }
        path
    }

    /// Sets one field of the probe's orders.
    pub(crate) fn with(mut self, field: &str, value: impl Into<Value>) -> Self {
        self.orders[field] = value.into();
        self
    }

    pub(crate) fn variable(mut self, name: &str, value: &str) -> Self {
        self.orders["environment"].as_array_mut().expect("a list").push(json!([name, value]));
        self
    }

    /// The probe's command line, to be run by something else.
    pub(crate) fn command_line(&self) -> Vec<String> {
        let probe = self.folder.path().join("probe").display().to_string();
        let orders = self.orders.to_string();
        match self.user {
            User::Caller => vec![probe, orders],
            User::Nobody => {
                let id = NOBODY.to_string();
                let become_nobody = ["setpriv", "--reuid", &id, "--regid", &id, "--clear-groups"];
                become_nobody.iter().map(ToString::to_string).chain([probe, orders]).collect()
            }
        }
    }

    pub(crate) fn command(&self) -> Command {
        let line = self.command_line();
        let mut command = Command::new(&line[0]);
        command.args(&line[1..]).stdin(Stdio::null());
        command
    }

    pub(crate) fn play(&self) -> Outcome {
        Outcome(self.command().output().expect("the probe starts"))
    }
}

/// What came out.
pub(crate) struct Outcome(Output);

impl Outcome {
    pub(crate) fn status(&self) -> i32 {
        let ended = self.0.status;
        ended.code().or_else(|| Some(128 + ended.signal()?)).unwrap_or(-1)
    }

    pub(crate) fn errors(&self) -> String {
        String::from_utf8_lossy(&self.0.stderr).into_owned()
    }

    /// Standard output of a command that must have succeeded.
    pub(crate) fn text(&self) -> String {
        let text = String::from_utf8_lossy(&self.0.stdout).into_owned();
        assert_eq!(self.status(), 0, "{text}{}", self.errors());
        text
    }
}
