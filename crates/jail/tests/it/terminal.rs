use std::io::{Read, Write};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use crate::process::which;
use crate::scene::{Scene, User, users};

/// A program in a pseudo-terminal (util-linux `script`), typed to and watched.
struct Terminal {
    script: Child,
    output: Receiver<Vec<u8>>,
    seen: String,
}

impl Terminal {
    fn open(line: &[String]) -> Self {
        let quoted: Vec<String> =
            line.iter().map(|word| format!("'{}'", word.replace('\'', "'\\''"))).collect();
        let mut script = Command::new("script")
            .args(["-qec", &quoted.join(" "), "/dev/null"])
            .env("TERM", "dumb")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("script starts");
        let mut stdout = script.stdout.take().expect("piped");
        let (sender, output) = channel();
        std::thread::spawn(move || {
            let mut buffer = [0; 4096];
            while let Ok(length @ 1..) = stdout.read(&mut buffer) {
                let _ = sender.send(buffer[..length].to_vec());
            }
        });
        Self { script, output, seen: String::new() }
    }

    fn types(&mut self, text: &str) {
        self.script.stdin.as_mut().expect("open").write_all(text.as_bytes()).expect("typed");
    }

    /// Types a scene's command into the shell that reads there.
    fn starts(&mut self, job: &Scene) {
        let line: Vec<String> = job.command_line().iter().map(|word| format!("'{word}'")).collect();
        self.types(&format!("{}\n", line.join(" ")));
    }

    /// Waits until `text` has been printed since the last call.
    fn shows(&mut self, text: &str) {
        let end = Instant::now() + Duration::from_secs(30);
        while !self.seen.contains(text) {
            let left = end.saturating_duration_since(Instant::now());
            match self.output.recv_timeout(left) {
                Ok(bytes) => self.seen.push_str(&String::from_utf8_lossy(&bytes)),
                Err(error) => panic!("{text:?} was not shown ({error}): {}", self.seen),
            }
        }
        let after = self.seen.find(text).expect("found above") + text.len();
        self.seen.drain(..after);
    }

    fn status(mut self) -> i32 {
        self.script.wait().expect("ends").code().unwrap_or(-1)
    }
}

/// Says when it is up and when it is continued; ends with status 6 when interrupted. Once up it forks
/// nothing and reads nothing: a shell that is stopped within `vfork` does not count as stopped, and
/// one within `read` may still take what is typed next.
const JOB: &str =
    r#"sleep 60 & trap "echo continued" CONT; trap "exit 6" INT; echo up; while :; do wait; done"#;

/// A shell in which jails are started, at its prompt. What is typed is echoed, so that is typed in pieces.
fn shell_outside() -> Terminal {
    let mut terminal = Terminal::open(&["bash".into(), "--norc".into(), "-i".into()]);
    terminal.types("PS1='out''> '\n");
    terminal.shows("out> ");
    terminal
}

/// What is typed is echoed, so the text waited for must not be part of it.
#[test]
fn an_interactive_shell_has_job_control() {
    if !which("script") {
        return;
    }
    let shell = Scene::new(&["bash", "--norc", "-i"]).variable("PS1", "in> ");
    let mut terminal = Terminal::open(&shell.command_line());
    terminal.shows("in> ");
    terminal.types("stty rows 33 cols 77; stty size; tty\n");
    terminal.shows("33 77");
    terminal.shows("/dev/console");
    terminal.types(&format!("sh -c '{JOB}'\n"));
    terminal.shows("up\r\n");
    terminal.types("\x1a");
    terminal.shows("Stopped");
    terminal.shows("in> ");
    terminal.types("fg\n");
    terminal.shows("continued\r\n");
    terminal.types("\x03");
    terminal.shows("in> ");
    terminal.types("echo status=$?.\n");
    terminal.shows("status=6.");
    terminal.types("exit 5\n");
    assert_eq!(terminal.status(), 5);
}

#[test]
fn the_shell_outside_can_stop_and_continue_it_and_interrupt_it() {
    if !which("script") {
        return;
    }
    let mut terminal = shell_outside();
    let job = Scene::new(&["bash", "--norc", "-i"]).variable("PS1", "in> ");
    terminal.starts(&job);
    terminal.shows("in> ");
    terminal.types("exit 5\n");
    terminal.shows("out> ");
    terminal.types("echo status=$?.\n");
    terminal.shows("status=5.");

    let job = Scene::new(&["sh", "-c", JOB]);
    terminal.starts(&job);
    terminal.shows("up\r\n");
    terminal.types("\x1a");
    terminal.shows("Stopped");
    terminal.shows("out> ");
    terminal.types("fg\n");
    terminal.shows("continued\r\n");
    terminal.types("\x03");
    terminal.shows("out> ");
    terminal.types("echo status=$?.\n");
    terminal.shows("status=6.");
    terminal.types("exit\n");
    assert_eq!(terminal.status(), 0);
}

#[test]
fn a_command_that_stops_itself_stops_the_caller() {
    if !which("script") {
        return;
    }
    let mut terminal = shell_outside();
    let job = Scene::new(&["sh", "-c", "echo up; kill -STOP $$; echo after; exit 7"]);
    terminal.starts(&job);
    terminal.shows("up\r\n");
    terminal.shows("Stopped");
    terminal.shows("out> ");
    terminal.types("fg\n");
    terminal.shows("after\r\n");
    terminal.shows("out> ");
    terminal.types("echo status=$?.\n");
    terminal.shows("status=7.");
    terminal.types("exit\n");
    assert_eq!(terminal.status(), 0);
}

#[test]
fn a_shell_that_suspends_itself_goes_on_where_it_was() {
    if !which("script") {
        return;
    }
    let mut terminal = shell_outside();
    let job = Scene::new(&["bash", "--norc", "-i"]).variable("PS1", "in> ");
    terminal.starts(&job);
    terminal.shows("in> ");
    for _ in 0..2 {
        terminal.types("suspend -f\n");
        terminal.shows("Stopped");
        terminal.shows("out> ");
        terminal.types("fg\n");
        terminal.shows("in> ");
        terminal.types("echo $((6 * 7)).\n");
        terminal.shows("42.");
        terminal.shows("in> ");
    }
    terminal.types("exit 5\n");
    terminal.shows("out> ");
    terminal.types("echo status=$?.\n");
    terminal.shows("status=5.");
    terminal.types("exit\n");
    assert_eq!(terminal.status(), 0);
}

/// As root's shell in which somebody else's command was put into the background.
#[test]
fn the_terminal_is_not_taken_from_another_users_shell() {
    if !which("script") || !users().contains(&User::Nobody) {
        return;
    }
    let mut terminal = shell_outside();
    let job = Scene::of(User::Nobody, &["sh", "-c", JOB]);
    terminal.starts(&job);
    terminal.shows("up\r\n");
    terminal.types("\x1a");
    terminal.shows("Stopped");
    terminal.shows("out> ");
    terminal.types("bg\n");
    terminal.shows("continued\r\n");
    // The shell reads while it ends; one that waits for it would take the terminal back.
    terminal.types("kill -INT %1\n");
    terminal.shows("out> ");
    std::thread::sleep(Duration::from_millis(500));
    terminal.types("echo $((6 * 7)).\n");
    terminal.shows("42.");
    terminal.types("exit\n");
    assert_eq!(terminal.status(), 0);
}
