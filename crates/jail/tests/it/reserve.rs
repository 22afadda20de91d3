use std::{
    fs,
    io::{BufRead, BufReader},
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use serde_json::{Value, json};

use crate::scene::{Scene, User, users};

/// A jail as actions have it, whose command is this script.
fn scene(user: User, script: &str, steps: Value) -> Scene {
    Scene::of(user, &["sh", "-c", script])
        .with("read_only", true)
        .with("own_directories", json!([["/tmp", 0o1777]]))
        .with("reserve", steps)
}

#[test]
fn jails_that_stand_already_are_like_others_and_shared_by_no_two() {
    let script = "id -u; ls -A /tmp; set -- /proc/[0-9]*; echo $#; touch /tmp/left /dev/shm/left; \
        grep -E 'CapEff|CapBnd|NoNewPrivs|Seccomp:' /proc/self/status | tr -d '\n'; echo; \
        touch /usr/changed 2>/dev/null || echo kept; ls /proc/self/fd | tr '\n' ' '; ls /dev/shm; \
        (setsid sleep 4713.5 &); cut -d' ' -f5,6 /proc/self/stat";
    for user in users() {
        let steps = json!(["run", "ready", "refill", "ready", "run", "run", "ready"]);
        let text = scene(user, script, steps).play().text();
        let (first, rest) = text.split_once("0 ready\n2 ready\n").expect("none, then two");
        assert!(first.contains("\nkept\n") && first.ends_with("Code(0)\n"), "{first}");
        assert!(first.contains("CapEff:\t0000000000000000"), "{first}");
        assert_eq!(rest, format!("{first}{first}0 ready\n"), "{user:?}");
    }
}

#[test]
fn what_a_command_leaves_has_ended_when_its_end_is_told() {
    // It holds the pipe, which is read to its end.
    let script = "trap '' TERM HUP; sleep 4714.5 & setsid sleep 4714.5 & exit 3";
    let text = scene(User::Caller, script, json!(["run", "refill", "run"])).play().text();
    assert_eq!(text, "Code(3)\nCode(3)\n");
}

#[test]
fn another_list_of_what_to_hide_takes_them_down() {
    for user in users() {
        let scene = scene(user, "cat \"$F\"", json!([]));
        let file = scene.folder("home").join("token");
        fs::write(&file, "canary\n").expect("written");
        let steps = json!(["run", "refill", "run", { "hide": file }, "run", "ready"]);
        let scene = scene.with("reserve", steps).variable("F", file.to_str().expect("text"));
        let text = scene.play().text();
        assert_eq!(text, "canary\nCode(0)\ncanary\nCode(0)\nCode(0)\n0 ready\n");
    }
}

#[test]
fn a_hidden_file_that_is_replaced_takes_them_down() {
    let scene = scene(User::Caller, "cat \"$F\"", json!([]));
    let folder = scene.folder("home");
    let (file, new) = (folder.join("token"), folder.join("new"));
    for path in [&file, &new] {
        fs::write(path, "canary\n").expect("written");
    }
    let steps = json!(["run", "refill", "ready", { "rename": [new, file] }, "run", "ready"]);
    let scene = scene.with("hide", json!([file])).with("reserve", steps);
    let text = scene.variable("F", file.to_str().expect("text")).play().text();
    assert_eq!(text, "Code(0)\n2 ready\nCode(0)\n0 ready\n");
}

#[test]
fn a_look_before_the_command_holds_for_a_moment_and_for_one_like_it() {
    let scene = scene(User::Caller, "cat \"$F\"", json!([]));
    let folder = scene.folder("home");
    let (file, other, new) = (folder.join("token"), folder.join("other"), folder.join("new"));
    for path in [&file, &other, &new] {
        fs::write(path, "canary\n").expect("written");
    }
    let steps = json!([
        "run", "refill", "look", "run", "ready", // as it was seen
        "look", { "rename": [new, file] }, "rest", "run", "ready", // too long ago
        "refill", "look", { "hide": other }, "run", "ready" // for another list
    ]);
    let scene = scene.with("hide", json!([file])).with("reserve", steps);
    let text = scene.variable("F", file.to_str().expect("text")).play().text();
    let expected = "Code(0)\nCode(0)\n1 ready\nCode(0)\n0 ready\nCode(0)\n0 ready\n";
    assert_eq!(text, expected);
}

#[test]
fn what_becomes_the_command_is_confined_while_it_waits() {
    for user in users() {
        let scene = scene(user, "true", json!(["run", "refill", "ready", "pause"]));
        let mut probe = waiting(&scene);
        let is_confined = |pid: &u32| {
            let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
            let capabilities = ["CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"];
            let mut expected: Vec<String> =
                capabilities.iter().map(|set| format!("{set}:\t{:016}", 0)).collect();
            expected.extend(["NoNewPrivs:\t1", "Seccomp:\t2"].map(str::to_owned));
            expected.iter().all(|line| status.lines().any(|other| other == line))
        };
        let end = Instant::now() + Duration::from_secs(30);
        // One in each of the jails.
        while below(probe.id()).iter().filter(|pid| is_confined(pid)).count() != 2 {
            assert!(Instant::now() < end, "{user:?}");
            thread::sleep(Duration::from_millis(10));
        }
        drop(probe.stdin.take());
        probe.wait().expect("ended");
    }
}

#[test]
fn a_ca_comes_with_the_command() {
    let pem = "-----BEGIN CERTIFICATE-----\nY2FuYXJ5\n-----END CERTIFICATE-----\n";
    for user in users() {
        let script = format!(
            "tail -n 3 {0} 2>/dev/null; echo x > {0} && echo open; true",
            keyless_jail::BUNDLE_IN_JAIL
        );
        // To jails that expect none, then to one that does; and none comes to that either.
        let steps = json!([
            "run", "refill", { "trust": pem }, "run", "ready", "refill", "run", "run", "refill",
            { "trust": "" }, "run"
        ]);
        let text = scene(user, &format!("{{ {script}; }} 2>/dev/null"), steps).play().text();
        let trusted = format!("{pem}Code(0)\n");
        let expected = format!("Code(0)\n{trusted}1 ready\n{trusted}{trusted}Code(0)\n");
        assert_eq!(text, expected, "{user:?}");
    }
}

/// Whether it stood already or not: some hundred links take longer to copy than all else that a jail is made of.
#[test]
fn directories_of_certificates_are_not_copied() {
    let pem = "-----BEGIN CERTIFICATE-----\nY2FuYXJ5\n-----END CERTIFICATE-----\n";
    let script = "grep ' /etc/ssl/certs ' /proc/self/mountinfo | grep -o ' - [a-z]*'; ls /etc/ssl/certs | wc -l";
    let count = fs::read_dir("/etc/ssl/certs").expect("a directory").count();
    for user in users() {
        let steps = json!([{ "trust": pem }, "run", "refill", "rest", "run"]);
        let text = scene(user, script, steps).play().text();
        assert_eq!(text, format!(" - overlay\n{count}\nCode(0)\n").repeat(2), "{user:?}");
    }
}

/// The keeper has the system's certificates ready for the jails to come.
#[test]
fn certificates_of_the_system_that_change_are_read_again() {
    let certs = "/etc/ssl/certs";
    let bundle = format!("{certs}/ca-certificates.crt");
    let steps = json!([{ "trust": "ours" }, "run", "run", { "rename": [format!("{certs}/new"), bundle] }, "run"]);
    let line = scene(User::Caller, "tr '\n' ' ' < /etc/ssl/certs/ca-certificates.crt", steps);
    let prepare = format!(
        "mount -t tmpfs of-the-test {certs} && echo one > {bundle} && echo two > {certs}/new && exec \"$@\""
    );
    let mut command = Command::new("unshare");
    command.args(["--user", "--map-root-user", "--mount", "sh", "-c", &prepare, "sh"]);
    let output = command.args(line.command_line()).output().expect("unshare starts");
    let text = String::from_utf8_lossy(&output.stdout);
    assert_eq!(text, "one oursCode(0)\none oursCode(0)\ntwo oursCode(0)\n", "{output:?}");
}

#[test]
fn many_at_once_do_well() {
    let steps = json!(["run", "refill", { "run_at_once": 40 }]);
    let text = scene(User::Caller, "true", steps).play().text();
    assert_eq!(text, "Code(0)\n40 did well\n");
}

#[test]
fn they_end_with_their_caller() {
    for user in users() {
        let scene = scene(user, "true", json!(["run", "refill", "ready", "pause"]));
        let mut probe = waiting(&scene);
        let end = Instant::now() + Duration::from_secs(30);
        let mut all = below(probe.id());
        // The keeper, and two processes of each of two jails, once the last of the first jail has gone.
        while all.len() != 5 {
            assert!(Instant::now() < end, "{all:?}");
            thread::sleep(Duration::from_millis(10));
            all = below(probe.id());
        }
        probe.kill().expect("killed");
        probe.wait().expect("ended");
        let end = Instant::now() + Duration::from_secs(30);
        // One that is dead may still be waited for by nobody.
        while all.iter().any(|pid| parent(*pid).is_some()) {
            assert!(Instant::now() < end, "some of {all:?} are left");
            thread::sleep(Duration::from_millis(10));
        }
    }
}

/// A probe that has two jails stand, until its input ends.
fn waiting(scene: &Scene) -> Child {
    let mut command = scene.command();
    let mut probe = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("starts");
    let mut lines = BufReader::new(probe.stdout.take().expect("piped")).lines();
    assert!(lines.any(|line| line.expect("text") == "2 ready"));
    probe
}

/// The processes that a process has started, and those that they have.
fn below(first: u32) -> Vec<u32> {
    let entries = fs::read_dir("/proc").expect("/proc").flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let all: Vec<(u32, u32)> = pids.filter_map(|pid| Some((pid, parent(pid)?))).collect();
    let mut found = vec![first];
    let mut next = 0;
    while let Some(one) = found.get(next).copied() {
        found.extend(all.iter().filter(|(_, parent)| *parent == one).map(|(pid, _)| *pid));
        next += 1;
    }
    found.split_off(1)
}

/// The parent of a process that is alive.
fn parent(pid: u32) -> Option<u32> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name before it is in parentheses and may hold anything.
    let mut fields = stat.rsplit_once(") ")?.1.split(' ');
    fields.next().filter(|state| *state != "Z")?;
    fields.next()?.parse().ok()
}
