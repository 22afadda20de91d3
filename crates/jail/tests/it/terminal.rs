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
        self.starts_in("", job, "");
    }

    /// The same, with words of the shell's before and behind.
    fn starts_in(&mut self, before: &str, job: &Scene, behind: &str) {
        let line: Vec<String> = job.command_line().iter().map(|word| format!("'{word}'")).collect();
        self.types(&format!("{before} {} {behind}\n", line.join(" ")));
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
    terminal.shows("/dev/pts/0");
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

/// What reads on when the shell has put its job aside: out of the session, and deaf to what a terminal says.
const THIEF: &str = r#"
import os, signal, time
if os.fork() == 0:
    os.setsid()
    for deaf in (signal.SIGTSTP, signal.SIGHUP, signal.SIGTTIN, signal.SIGTTOU):
        signal.signal(deaf, signal.SIG_IGN)
    print("here" + "after")
    while True:
        open(os.environ["LOOT"], "ab").write(os.read(0, 4096))
for _ in range(600):
    time.sleep(0.1)
"#;

/// Until a job is put aside what is typed is its own; then it is the shell's, and that of what the shell starts.
#[test]
fn nothing_that_is_typed_past_a_job_reaches_it() {
    if !which("script") {
        return;
    }
    let job = Scene::new(&["/usr/bin/python3", "-uc", THIEF]);
    let loot = job.folder("loot").join("all");
    let job = job.variable("LOOT", loot.to_str().expect("text"));
    let taken = || std::fs::read_to_string(&loot).unwrap_or_default();
    let types_past = |terminal: &mut Terminal| {
        terminal.types("read -sp 'word''? ' word; echo \"got $word.\"\n");
        terminal.shows("word? ");
        // Longer than whoever relays takes to look again.
        std::thread::sleep(Duration::from_millis(400));
        terminal.types("passphrase\n");
        terminal.shows("got passphrase.");
        terminal.shows("out> ");
    };

    let mut terminal = shell_outside();
    terminal.starts(&job);
    terminal.shows("hereafter\r\n");
    terminal.types("its own\n");
    terminal.shows("its own");
    std::thread::sleep(Duration::from_millis(200));
    terminal.types("\x1a");
    terminal.shows("Stopped");
    terminal.shows("out> ");
    types_past(&mut terminal);
    terminal.types("bg\n");
    terminal.shows("out> ");
    types_past(&mut terminal);
    terminal.types("kill %1; wait\n");
    terminal.shows("out> ");
    assert_eq!(taken(), "its own\n");

    // Who has none of it as a stream finds it by its name.
    let by_name = "os.dup2(os.open(\"/dev/tty\", os.O_RDWR), 0); os.setsid()";
    let by_name = THIEF.replace("os.setsid()", by_name);
    for (script, behind) in [(THIEF, "&"), (&by_name, "< /dev/null > /dev/null 2>&1 &")] {
        let job = Scene::new(&["/usr/bin/python3", "-uc", script]);
        let job = job.variable("LOOT", loot.to_str().expect("text"));
        terminal.starts_in("", &job, behind);
        terminal.shows("out> ");
        std::thread::sleep(Duration::from_millis(600));
        types_past(&mut terminal);
        terminal.types("kill %1; wait\n");
        terminal.shows("out> ");
        assert_eq!(taken(), "its own\n", "{behind}");
    }
    terminal.types("exit\n");
    terminal.status();
}

/// As it does behind a command that has no terminal of its own.
#[test]
fn a_script_is_interrupted_with_its_command() {
    if !which("script") {
        return;
    }
    let ends = Scene::new(&["/usr/bin/python3", "-uc", "import time; print('up'); time.sleep(60)"]);
    let heeds = "import signal, time; signal.signal(signal.SIGINT, lambda *_: exit(3)); print('up'); time.sleep(60)";
    let heeds = Scene::new(&["/usr/bin/python3", "-uc", heeds]);
    for (job, shell, then) in [
        (&ends, "bash", "\n$?=130."),
        (&ends, "dash", "\n$?=130."),
        (&heeds, "bash", "went on 3\r\n"),
    ] {
        let script = job.folder("work").join("script");
        let quoted = |word: &String| format!("'{}'", word.replace('\'', "'\\''"));
        let line = job.command_line().iter().map(quoted).collect::<Vec<_>>().join(" ");
        std::fs::write(&script, format!("{line}\necho \"went\" on $?\n")).expect("written");
        let mut terminal = shell_outside();
        terminal.types(&format!("{shell} {}\n", script.display()));
        terminal.shows("up\r\n");
        terminal.types("\x03");
        if then.contains('$') {
            // Of a line that was interrupted a shell does not do the rest.
            terminal.shows("out> ");
            terminal.types("echo '$?'=$?.\n");
        }
        terminal.shows(then);
        terminal.types("exit\n");
        terminal.status();
    }
}

/// Takes what is typed, key by key, wherever it is.
const LISTENER: &str = r#"
import os, signal, tty
for deaf in (signal.SIGHUP, signal.SIGINT, signal.SIGTSTP):
    signal.signal(deaf, signal.SIG_IGN)
terminal = os.open("/dev/tty", os.O_RDWR)
tty.setraw(terminal)
with open(os.environ["LOOT"], "ab", buffering=0) as loot:
    while True:
        loot.write(os.read(terminal, 100))
"#;

/// All that a script starts is in the foreground with it, what it does not wait for as well.
#[test]
fn what_a_script_asks_is_not_heard_by_its_jobs() {
    if !which("script") {
        return;
    }
    // One that says of itself that it waits for the terminal, and reads it by another stream.
    let pretends = "signal.raise_signal(signal.SIGTTIN); terminal = 1";
    let pretends = LISTENER.replace("terminal = os.open(\"/dev/tty\", os.O_RDWR)", pretends);
    for (text, streams) in [(LISTENER, ""), (LISTENER, ">/dev/null 2>&1"), (&*pretends, "")] {
        let job = Scene::new(&["/usr/bin/python3", "-uc", text]);
        let folder = job.folder("loot");
        let (loot, script) = (folder.join("all"), folder.join("script"));
        let job = job.variable("LOOT", loot.to_str().expect("text"));
        let quoted = |word: &String| format!("'{}'", word.replace('\'', "'\\''"));
        let line = job.command_line().iter().map(quoted).collect::<Vec<_>>().join(" ");
        let asks = "sleep 1; stty -a | grep -c '[^-]icanon.*[^-]echo '; read -p 'word? ' word; echo \"got $word.\"";
        std::fs::write(&script, format!("{line} {streams} &\n{asks}; kill $!\n")).expect("written");
        let mut terminal = shell_outside();
        terminal.types(&format!("bash {}\n", script.display()));
        terminal.shows("\n1\r\n");
        terminal.shows("word? ");
        std::thread::sleep(Duration::from_millis(400));
        terminal.types("passphrase\n");
        terminal.shows("got passphrase.");
        terminal.shows("out> ");
        assert_eq!(std::fs::read_to_string(&loot).unwrap_or_default(), "", "{streams}");
        terminal.types("exit\n");
        terminal.status();
    }
}

#[test]
fn a_job_in_the_background_is_let_read_in_the_foreground() {
    if !which("script") {
        return;
    }
    let mut terminal = shell_outside();
    let job = Scene::new(&["sh", "-c", "cat; stty size"]);
    terminal.starts_in("", &job, "&");
    terminal.shows("out> ");
    std::thread::sleep(Duration::from_millis(500));
    // The shell tells at its next prompt.
    terminal.types("\n");
    terminal.shows("Stopped");
    terminal.types("stty rows 31 cols 71; fg\n");
    // Behind the echo of the shell's.
    terminal.shows("fg\r\n");
    terminal.types("a line\n");
    terminal.shows("a line\r\na line\r\n");
    terminal.types("\x04");
    terminal.shows("31 71");
    terminal.shows("out> ");
    terminal.types("stty -a | grep -c '[^-]icanon.*[^-]echo ' ; exit\n");
    terminal.status();
}

/// A pager reads its keys, whatever runs before it in the pipeline; and who reads lines there gets them.
#[test]
fn in_a_pipeline_keys_are_for_who_reads_them() {
    if !which("script") {
        return;
    }
    let mut terminal = shell_outside();
    let job = Scene::new(&["sh", "-c", "echo first; sleep 2"]);
    let pager = "stty -F /dev/tty -icanon -echo; sleep 1; dd bs=1 count=3 2>/dev/null </dev/tty; stty -F /dev/tty sane; cat";
    terminal.starts_in("", &job, &format!("| sh -c '{pager}'"));
    std::thread::sleep(Duration::from_millis(500));
    terminal.types("key");
    terminal.shows("keyfirst\r\n");
    terminal.shows("out> ");

    let job = Scene::new(&["cat"]);
    terminal.starts_in("", &job, "| sed s/^/said:/");
    std::thread::sleep(Duration::from_millis(500));
    terminal.types("one\n");
    terminal.types("\x04");
    terminal.shows("said:one\r\n");
    terminal.shows("out> ");

    let job = Scene::new(&["sh", "-c", "cat; read word </dev/tty; echo read:$word"]);
    for first in ["(sleep 1; echo piped) |", "echo piped |"] {
        terminal.starts_in(first, &job, "");
        terminal.shows("piped\r\n");
        terminal.types("typed\n");
        terminal.shows("read:typed\r\n");
        terminal.shows("out> ");
    }
    terminal.types("exit\n");
    terminal.status();
}

#[test]
fn a_terminal_is_given_back_as_it_was() {
    if !which("script") {
        return;
    }
    let mut terminal = shell_outside();
    let raw = "import os, sys, tty; tty.setraw(0); print(\"ready\" + \"now\"); print(os.read(0, 1)); os.kill(os.getpid(), int(sys.argv[1]))";
    for (signal, status) in [("15", 143), ("9", 137)] {
        let job = Scene::new(&["/usr/bin/python3", "-uc", raw, signal]);
        terminal.starts(&job);
        terminal.shows("readynow");
        terminal.types("\x03");
        terminal.shows("b'\\x03'");
        terminal.shows("out> ");
        terminal.types("echo $?. $(stty -a | tr ' ;' '\\n\\n' | grep -Ex 'icanon|echo|isig|opost|icrnl' | wc -l)\n");
        terminal.shows(&format!("{status}. 5\r\n"));
        terminal.shows("out> ");
    }
    terminal.types("exit\n");
    terminal.status();
}

/// To the last byte, and no faster than it is taken.
#[test]
fn all_that_is_said_is_shown() {
    if !which("script") {
        return;
    }
    let job = Scene::new(&["seq", "200000"]);
    let mut terminal = Terminal::open(&job.command_line());
    terminal.shows("\r\n199999\r\n200000\r\n");
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
    terminal.types("kill %1\n");
    terminal.shows("out> ");
    std::thread::sleep(Duration::from_millis(500));
    terminal.types("echo $((6 * 7)).\n");
    terminal.shows("42.");
    terminal.types("exit\n");
    assert_eq!(terminal.status(), 0);
}
