use std::io::{Read, Write};
use std::process::Stdio;

use serde_json::json;

use crate::scene::{Scene, users};

#[test]
fn the_exit_status_is_the_commands() {
    for user in users() {
        for status in [0, 1, 7, 255] {
            assert_eq!(Scene::script(user, &format!("exit {status}")).play().status(), status);
        }
    }
}

#[test]
fn a_death_by_signal_is_told_exactly() {
    for signal in [9, 10, 15, 34] {
        let outcome = Scene::new(&["sh", "-c", &format!("kill -{signal} $$")]).play();
        assert_eq!(outcome.status(), 128 + signal, "{}", outcome.errors());
    }
}

#[test]
fn a_signal_sent_to_the_jail_reaches_the_command() {
    let script = "trap 'echo caught; exit 3' USR1; : > \"$F\"; while :; do sleep 0.05; done";
    let scene = Scene::new(&["sh", "-c", script]);
    let ready = scene.folder("home").join("ready");
    let ready = ready.to_str().expect("text");
    let outcome = scene.with("signal_once", json!([ready, 10])).variable("F", ready).play();
    assert_eq!(outcome.status(), 3, "{}", outcome.errors());
}

#[test]
fn streams_pass_through() {
    let mut child = Scene::new(&["sh", "-c", "tr a-z A-Z; echo oops >&2"])
        .command()
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("starts");
    child.stdin.take().expect("piped").write_all(b"hello").expect("written");
    let output = child.wait_with_output().expect("ends");
    assert_eq!((&output.stdout[..], &output.stderr[..]), (&b"HELLO"[..], &b"oops\n"[..]));
}

#[test]
fn a_missing_command_is_127_and_one_that_cannot_run_126() {
    for user in users() {
        assert_eq!(Scene::of(user, &["no-such-command"]).play().status(), 127);
        assert_eq!(Scene::of(user, &["/etc/passwd"]).play().status(), 126);
        let hidden = Scene::of(user, &["true"]).with("working_directory", "/run/systemd").play();
        assert_eq!(hidden.status(), 125);
        assert!(hidden.errors().contains("working directory /run/systemd"), "{}", hidden.errors());
    }
}

#[test]
fn user_and_environment_are_as_asked_and_processes_are_its_own() {
    for user in users() {
        let text =
            Scene::script(user, "id -u; env | sort; ls /proc | grep -c '^[0-9]'; cat /proc/1/comm")
                .variable("GREETING", "hello")
                .play()
                .text();
        let own = if user == crate::scene::User::Nobody {
            65_534
        } else {
            rustix::process::getuid().as_raw()
        };
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[0], own.to_string());
        assert!(lines.contains(&"GREETING=hello") && !text.contains("CARGO"), "{text}");
        // init, sh, ls, grep
        assert!(lines[lines.len() - 2].parse::<u32>().expect("a number") <= 5, "{text}");
    }
}

#[test]
fn the_hosts_name_is_kept_or_replaced() {
    let text =
        Scene::new(&["sh", "-c", "uname -n; getent hosts elsewhere"]).with("uts_name", "elsewhere");
    assert_eq!(text.play().text().lines().next(), Some("elsewhere"));
}

#[test]
fn threads_work() {
    let threads = "import threading; r=[]; t=[threading.Thread(target=r.append,args=(i,)) for i in range(20)]; \
        [x.start() for x in t]; [x.join() for x in t]; print(sum(r))";
    for user in users() {
        assert_eq!(Scene::of(user, &["/usr/bin/python3", "-c", threads]).play().text(), "190\n");
    }
    let worker = "const {Worker}=require('worker_threads'); \
        new Worker('process.exit(5)',{eval:true}).on('exit', c => console.log('worker', c))";
    if which("node") {
        assert_eq!(Scene::new(&["node", "-e", worker]).play().text(), "worker 5\n");
    }
}

#[test]
fn nothing_survives_the_command() {
    let scene = Scene::script(crate::scene::User::Caller, "setsid sleep 4711.25 & echo started");
    assert_eq!(scene.play().text(), "started\n");
    assert!(!running("4711.25"));
}

#[test]
fn nothing_survives_the_caller() {
    for user in users() {
        let number = format!("471{}.125", user as u8);
        let script = format!("trap '' TERM HUP INT; setsid sleep {number} & sleep {number}");
        let scene = Scene::script(user, &script).with("abort_after_ms", 300);
        let mut child = scene.command().stdout(Stdio::piped()).spawn().expect("starts");
        let mut text = String::new();
        // Ends when the last process that holds the pipe is gone.
        child.stdout.take().expect("piped").read_to_string(&mut text).expect("read");
        assert!(!child.wait().expect("ends").success());
        assert!(!running(&number));
    }
}

fn running(argument: &str) -> bool {
    let entries = std::fs::read_dir("/proc").expect("/proc").flatten();
    entries.filter_map(|entry| std::fs::read(entry.path().join("cmdline")).ok()).any(|line| {
        let mut arguments = line.split(|byte| *byte == 0);
        arguments.next() == Some(b"sleep") && arguments.next() == Some(argument.as_bytes())
    })
}

pub(crate) fn which(program: &str) -> bool {
    ["/usr/bin", "/usr/local/bin", "/bin"]
        .iter()
        .any(|folder| std::path::Path::new(folder).join(program).exists())
}
