//! The broker in the background: unlocked once, used by many, locked again in every way.

use std::{
    cell::RefCell,
    fs,
    io::{Read as _, Write as _},
    net::Shutdown,
    os::unix::{
        fs::PermissionsExt as _,
        net::{UnixListener, UnixStream},
        process::ExitStatusExt as _,
    },
    process::{Child, Stdio},
    sync::{Arc, Mutex},
    thread,
    time::{Duration, Instant},
};

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::{
    invocation::{self, Invocation, KEYLESS},
    terminal::at_a_terminal,
    world::{ALLOWED, TOKEN, World, wait_until},
};

const USE: &str = r#"curl -sS -H "X: $TOKEN" https://api.allowed.test/"#;

fn unlocked(window: &str) -> World {
    let world = World::with_token();
    unlock(&world, window);
    world
}

fn unlock(world: &World, window: &str) {
    let data = world.keyless(&["unlock", "--for", window, "--json"]).run().data();
    assert_eq!(data["unlocked"], json!(true));
}

fn status(world: &World) -> Value {
    let status = world.keyless(&["status", "--json"]).without_passphrase().run().data();
    if let Some(pid) = status["broker"]["pid"].as_u64() {
        for file in ["cmdline", "environ"] {
            let bytes = fs::read(format!("/proc/{pid}/{file}")).unwrap_or_default();
            world.saw(&format!("the broker's {file}"), &bytes);
        }
    }
    status
}

/// `keyless run` as a user has it after `keyless unlock`: no passphrase, no routes of its own.
const RUN: [&str; 2] = ["run", "--"];

/// Of brokers that are started by hand at the same instant one serves; none takes the sockets of another away.
#[test]
fn of_brokers_that_start_at_once_one_serves() {
    const BROKERS: usize = 4;
    let world = World::with_token();
    for round in 0..6 {
        let start = |_| {
            let mut command = world.keyless(&["broker"]).into_command();
            command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
            command.spawn().unwrap()
        };
        let brokers: RefCell<Vec<Child>> = RefCell::new((0..BROKERS).map(start).collect());
        let is_over = |broker: &mut Child| broker.try_wait().unwrap().is_some();
        wait_until("all but one have ended", || {
            brokers.borrow_mut().iter_mut().filter_map(|one| is_over(one).then_some(())).count()
                >= BROKERS - 1
        });
        let (refused, serving): (Vec<_>, Vec<_>) = brokers
            .into_inner()
            .into_iter()
            .map(|mut one| (is_over(&mut one), one))
            .partition(|one| one.0);
        for (_, broker) in refused {
            let output = broker.wait_with_output().unwrap();
            let errors = String::from_utf8_lossy(&output.stderr);
            assert!(errors.contains("the store is unlocked already"), "round {round}: {errors}");
            assert!(errors.contains("next:  "), "{errors}");
        }
        let [(_, serving)] = <[_; 1]>::try_from(serving).expect("one of them serves");
        wait_until("one serves", || {
            status(&world)["broker"]["pid"] == json!(invocation::serving(serving.id()))
        });
        let run = world.keyless(&["run", "--", "true"]).without_passphrase().run();
        run.ok();
        let locked = world.keyless(&["lock", "--json"]).run().data();
        assert_eq!(locked["was_unlocked"], json!(true), "round {round}");
        let output = serving.wait_with_output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }
}

/// A shell or a service manager knows a broker by the process that it has started, which stands in front of it.
#[test]
fn the_process_in_front_of_a_broker_passes_signals_on_and_ends_as_it_does() {
    let world = World::with_token();
    let process = |id: u32| rustix::process::Pid::from_raw(id.cast_signed()).unwrap();
    for (is_to_front, signal, end) in [
        (true, Signal::KILL, (None, Some(9))),
        (false, Signal::KILL, (None, Some(9))),
        (false, Signal::TERM, (Some(0), None)),
        (true, Signal::INT, (Some(0), None)),
        (true, Signal::TERM, (Some(0), None)),
    ] {
        let mut command = world.keyless(&["broker"]).into_command();
        let mut front = command.stdin(Stdio::null()).stdout(Stdio::null()).spawn().unwrap();
        let pid = || status(&world)["broker"]["pid"].as_u64();
        wait_until("it serves", || pid().is_some());
        let serving = u32::try_from(pid().unwrap()).unwrap();
        assert_ne!(serving, front.id());
        let told = if is_to_front { front.id() } else { serving };
        rustix::process::kill_process(process(told), signal).unwrap();
        let ended = front.wait().unwrap();
        assert_eq!((ended.code(), ended.signal()), end, "{is_to_front} {signal:?}");
        wait_until("nobody serves", || status(&world)["broker"].is_null());
    }
}

#[test]
fn a_run_needs_no_passphrase_until_lock() {
    let mut world = World::with_token();
    let origin = world.origin(ALLOWED);
    world.write_config();
    unlock(&world, "10m");
    let run = || {
        let command = [&RUN[..], &["sh", "-c", USE]].concat();
        world.keyless(&command).without_passphrase().run()
    };
    let before = status(&world);
    assert_eq!((&before["unlocked"], &before["broker"]["sessions"]), (&json!(true), &json!(0)));
    assert!(before["broker"]["locks_in_seconds"].as_u64().unwrap() <= 600, "{before}");
    assert!(run().ok().contains("kloak_"));
    world.assert_received(&origin);
    let socket = world.home.keyless_home().join("run/agent.sock");
    assert_eq!(fs::metadata(&socket).unwrap().permissions().mode() & 0o777, 0o600);

    // Its own routes are not the broker's.
    let routed = ["run", "--connect-to", "x.test:443=127.0.0.1:1", "--", "true"];
    let seen = world.keyless(&routed).without_passphrase().run();
    assert!(seen.exits(5).errors().contains("a broker of its own"), "{}", seen.errors());

    let locked = world.keyless(&["lock", "--json"]).run().data();
    assert_eq!(
        locked,
        json!({ "locked": true, "was_unlocked": true, "runs_ended": 0, "sessions_ended": 0 })
    );
    wait_until("the broker is gone", || status(&world)["unlocked"] == json!(false));
    let seen = run();
    assert!(seen.exits(5).errors().contains("next:  run keyless unlock"), "{}", seen.errors());
    let again = world.keyless(&["lock", "--json"]).run().data();
    assert_eq!(again["was_unlocked"], json!(false));
    // The secret; what config.toml says is agreed to, route and root, and the window kept with them; the store opens; the session
    // and its agent begin; a release, the echo that came back and its request; both end; it closes.
    wait_until("its end is on record", || world.log().last().unwrap()["action"] == "lock");
    let log = world.log();
    let actions: Vec<_> = log.iter().map(|entry| entry["action"].as_str().unwrap()).collect();
    let [route, root, window] = ["config_reload"; 3];
    let expected = ["create", route, root, window, "unlock", "session_start", "agent_register"];
    let after = ["egress", "incident", "egress", "agent_transition", "session_end", "lock"];
    assert_eq!(actions, [&expected[..], &after].concat(), "{log:?}");
    assert!(log[3]["target"].as_str().unwrap().starts_with("[unlock] window "), "{log:?}");
    let is_told = |entry: &Value| entry["agent"].is_object() && entry["timestamp"].is_string();
    assert!(log.iter().all(is_told), "who and when: {log:?}");
}

#[test]
fn the_store_locks_itself() {
    let world = unlocked("1s");
    // Nobody asks it anything meanwhile: the log is read in the store.
    wait_until("its end is on record", || world.log().last().unwrap()["action"] == "lock");
    wait_until("the broker is gone", || status(&world)["unlocked"] == json!(false));
}

#[test]
fn a_wrong_passphrase_opens_nothing() {
    let world = World::with_token();
    world.home.write("operator/passphrase", "something else entirely\n").unwrap();
    let seen = world.keyless(&["unlock", "--json"]).run();
    assert_eq!(seen.exits(5).json()["errors"][0]["code"], json!("wrong_passphrase"));
    assert_eq!(status(&world)["unlocked"], json!(false));
    world.keyless(&["run", "--", "true"]).run().exits(5);
    let refused = world.log_of("wrong_passphrase");
    let seen = |entry: &Value| (entry["action"].clone(), entry["result"].clone());
    let tried: Vec<_> = refused.iter().map(seen).collect();
    assert_eq!(tried, vec![(json!("unlock"), json!("denied")); 2], "{:?}", world.log());
    world.keyless(&["audit", "verify"]).without_passphrase().run().ok();
}

#[test]
fn the_recovery_phrase_opens_the_store() {
    let world = World::with_token();
    let phrase = fs::read_to_string(world.operator_file("recovery")).unwrap();
    let phrase = world.watch(keyless_testkit::Canary::of(phrase.trim_end()));
    let unlock = world.keyless(&["unlock", "--recovery"]).without_passphrase();
    at_a_terminal(
        &world,
        unlock,
        &format!("expect(': '); say({phrase:?} + '\\n'); finish(code=0)"),
    );
    assert_eq!(status(&world)["unlocked"], json!(true));
}

/// Which word it is, by its number; the words themselves are nowhere to be seen.
#[test]
fn a_mistyped_recovery_phrase_is_told_by_the_number_of_its_word() {
    let world = World::with_token();
    let phrase = fs::read_to_string(world.operator_file("recovery")).unwrap();
    let mut words: Vec<&str> = phrase.split_whitespace().collect();
    let told = |words: &[&str], why: &str| {
        let typed = world.watch(keyless_testkit::Canary::of(words.join(" ")));
        at_a_terminal(
            &world,
            world.keyless(&["unlock", "--recovery"]).without_passphrase(),
            &format!(
                "expect(': '); say({typed:?} + '\\n'); expect('The recovery phrase does not open the store.')\n\
                 expect({why:?}); expect('24 words again'); finish(code=5)"
            ),
        );
    };
    told(&words[1..], "as typed there are 23");
    words[6] = "keyless";
    told(&words, "word 7");
    told(&["abandon"; 24], "do not fit together");
    assert_eq!(status(&world)["unlocked"], json!(false));
}

/// Nobody has to be asked for anything then, and no code is looked at.
#[test]
fn an_agent_that_unlocks_an_open_store_is_told_that_it_is_open() {
    let world = unlocked("10m");
    let mut agent = crate::mcp::Agent::connect(&world);
    let told = agent.tool("secrets_unlock", &json!({ "totp": "000000" })).unwrap();
    let left = told["granted_seconds"].as_u64().unwrap();
    assert!(told["unlocked"] == json!(true) && (1..=600).contains(&left), "{told}");
}

#[test]
fn a_killed_run_ends_its_session() {
    let world = unlocked("10m");
    let command = [&RUN[..], &["sh", "-c", "echo ready; exec sleep 300"]].concat();
    let mut run = world.keyless(&command).without_passphrase().start();
    assert_eq!(run.line(), "ready");
    assert_eq!(status(&world)["broker"]["sessions"], json!(1));
    run.signal(Signal::KILL);
    wait_until("its session is gone", || status(&world)["broker"]["sessions"] == json!(0));
    let sockets = fs::read_dir(world.home.keyless_home().join("run")).unwrap();
    let mut names: Vec<_> = sockets.map(|entry| entry.unwrap().file_name()).collect();
    names.sort();
    assert_eq!(names, ["agent.sock", "nl.sock", "operator.sock"]);
}

/// A terminal, cron and ssh have each their own `XDG_RUNTIME_DIR`, or none, and one store.
#[test]
fn one_broker_is_found_wherever_the_sockets_would_be() {
    let world = World::empty();
    let other = world.home.root().join("tmp/other");
    fs::create_dir(&other).unwrap();
    let here = |words: &[&str]| world.keyless(words).env("KEYLESS_HOME", "");
    let there = |words: &[&str]| here(words).env("XDG_RUNTIME_DIR", &other);
    here(&["init"]).run().ok();
    here(&["unlock"]).run().ok();
    let is_open = |status: Invocation<'_>| status.run().data()["unlocked"].clone();
    assert_eq!(is_open(there(&["status", "--json"])), json!(true));
    let again = there(&["unlock"]).run().ok();
    assert!(again.starts_with("Unlocked already"), "{again}");
    // A broker that somebody starts in the foreground is refused as well.
    there(&["broker"]).run().exits(2);
    let seen = there(&["run", "--", "true"]).without_passphrase().run();
    seen.ok();
    let locked = there(&["lock", "--json"]).run().data();
    assert_eq!(locked["was_unlocked"], json!(true));
    wait_until("it is closed here", || is_open(here(&["status", "--json"])) == json!(false));
    // The next one listens where it was started.
    there(&["unlock"]).run().ok();
    assert!(other.join("keyless/agent.sock").exists());
    assert_eq!(here(&["lock"]).run().ok(), "Locked.\n");
    wait_until("it is closed there", || is_open(there(&["status", "--json"])) == json!(false));
}

#[test]
fn lock_cuts_running_sessions_off() {
    let mut world = World::with_token();
    let origin = world.origin(ALLOWED);
    world.write_config();
    unlock(&world, "10m");
    let script = format!("while read line; do {USE} -o /dev/null 2>/dev/null; echo $?; done");
    let command = [&RUN[..], &["sh", "-c", &script]].concat();
    let mut session = world.keyless(&command).without_passphrase().start();
    session.say("go");
    assert_eq!(session.line(), "0");
    world.keyless(&["lock"]).run().ok();
    wait_until("the broker is gone", || status(&world)["unlocked"] == json!(false));
    let before = origin.requests().len();
    session.say("go");
    assert_ne!(session.line(), "0");
    assert_eq!(origin.requests().len(), before);
}

#[test]
fn the_jailed_agent_does_not_see_the_broker() {
    let world = unlocked("10m");
    let script = r"
import glob, os, socket
home = os.environ['STORE']
print(sorted(glob.glob(home + '/**', recursive=True)))
s = socket.socket(socket.AF_UNIX)
try: s.connect(home + '/run/agent.sock'); s.sendall(b'{\x22call\x22:\x22lock\x22}\n'); print('reached', s.recv(99))
except OSError as error: print('refused', error)
";
    let command = [&RUN[..], &["python3", "-c", script]].concat();
    let store = world.home.keyless_home();
    let text = world.keyless(&command).without_passphrase().env("STORE", store).run().ok();
    assert!(text.contains("refused") && !text.contains(".db"), "{text}");
    assert_eq!(status(&world)["unlocked"], json!(true));
}

/// Who opens the store from a file leaves that file where an agent of the same account may look: in
/// the service's sessions, in those without secrets, and after the store was locked again.
#[test]
fn a_file_that_a_passphrase_was_read_from_stays_hidden() {
    let world = unlocked("10m");
    let file = world.operator_file("passphrase");
    let read = |options: &[&str]| {
        let arguments = [&["run"], options, &["--", "cat", file.to_str().unwrap()]].concat();
        world.keyless(&arguments).without_passphrase().run().ok()
    };
    assert_eq!([read(&[]), read(&["--no-secrets"])], ["", ""]);
    world.keyless(&["lock"]).run().ok();
    assert_eq!(read(&["--no-secrets"]), "");
}

#[test]
fn unlock_twice_is_once() {
    let world = unlocked("10m");
    let pid = status(&world)["broker"]["pid"].clone();
    unlock(&world, "10m");
    assert_eq!(status(&world)["broker"]["pid"], pid);
}

/// Read by an account that may: nobody else gets as far (`mcp::neighbours`).
#[test]
fn a_passphrase_is_gone_once_the_store_is_open() {
    let world = unlocked("10m");
    let pid = status(&world)["broker"]["pid"].as_u64().unwrap();
    if fs::File::open(format!("/proc/{pid}/mem")).is_err() {
        return;
    }
    let passphrase = fs::read_to_string(world.operator_file("passphrase")).unwrap();
    let script = format!(
        r"
found, seen = False, 0
with open('/proc/{pid}/maps') as maps, open('/proc/{pid}/mem', 'rb', 0) as memory:
    for line in maps:
        span, mode = line.split()[:2]
        if mode.startswith('rw'):
            start, end = (int(at, 16) for at in span.split('-'))
            try:
                memory.seek(start)
                part = memory.read(end - start)
            except OSError:
                continue
            seen += len(part)
            found = found or {:?}.encode() in part
print(seen > 1_000_000, found)",
        passphrase.trim_end()
    );
    let looked = std::process::Command::new("python3").args(["-c", &script]).output().unwrap();
    assert_eq!(
        String::from_utf8(looked.stdout).unwrap(),
        "True False
"
    );
}

/// Of several at once the first starts the broker, and the others find it.
#[test]
fn unlocks_at_once_are_one() {
    let world = World::with_token();
    let mut all: Vec<_> =
        (0..3).map(|_| world.keyless(&["unlock", "--for", "10m"]).start()).collect();
    for unlock in &mut all {
        assert!(unlock.wait().success());
    }
    assert_eq!(status(&world)["unlocked"], json!(true));
    assert_eq!(world.log().iter().filter(|entry| entry["action"] == "unlock").count(), 1);
}

/// Whoever is later finds the first one's broker, wherever that one's environment has its sockets.
#[test]
fn unlocks_at_once_in_several_environments_are_one() {
    let world = World::empty();
    let here = |words: &[&str]| world.keyless(words).env("KEYLESS_HOME", "");
    here(&["init"]).run().ok();
    for round in 0..3 {
        let start = |number: usize| {
            let runtime = world.home.root().join(format!("tmp/runtime-{number}"));
            fs::create_dir_all(&runtime).unwrap();
            let mut command = here(&["unlock"]).env("XDG_RUNTIME_DIR", &runtime).into_command();
            command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
            command.spawn().unwrap()
        };
        let all: Vec<Child> = (0..4).map(start).collect();
        for unlock in all {
            let output = unlock.wait_with_output().unwrap();
            let errors = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success(), "round {round}: {errors}");
        }
        here(&["lock"]).run().ok();
    }
}

/// One of a version that did not say beside the store where it listens.
#[test]
fn an_older_broker_of_another_environment_is_told_and_locked() {
    let world = World::empty();
    let other = world.home.root().join("tmp/other");
    fs::create_dir(&other).unwrap();
    let here = |words: &[&str]| world.keyless(words).env("KEYLESS_HOME", "");
    let there = |words: &[&str]| here(words).env("XDG_RUNTIME_DIR", &other);
    here(&["init"]).run().ok();
    here(&["unlock"]).run().ok();
    let socket = {
        let state = here(&["status", "--json"]).run().data()["broker"].clone();
        assert!(state["serves"].as_str().unwrap().ends_with("/keyless"), "{state}");
        let checks = there(&["doctor", "--json"]).run().json()["data"]["checks"].to_string();
        assert!(!checks.contains("broker.version"), "{checks}");
        here(&["lock"]).run().ok();
        world.home.root().join("home/.local/state/keyless/run/agent.sock")
    };
    wait_until("its socket is gone", || !socket.exists());
    fs::create_dir_all(socket.parent().unwrap()).unwrap();
    let listener = UnixListener::bind(&socket).unwrap();
    let old = thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut asked = [0; 256];
            let read = stream.read(&mut asked).unwrap_or_default();
            let is_lock = asked[..read].windows(4).any(|word| word == b"lock");
            let answer = if is_lock {
                json!({ "answer": "locked" })
            } else {
                json!({ "answer": "status", "pid": 17, "locks_in_seconds": 60, "sessions": 0 })
            };
            let _ = stream.write_all(format!("{answer}\n").as_bytes());
            if is_lock {
                return;
            }
        }
    });
    let told = |seen: &str| {
        assert!(seen.contains("an older keyless, process 17, may have this store open"), "{seen}");
        assert!(seen.contains("keyless lock"), "{seen}");
    };
    let seen = there(&["status", "--json"]).run().json();
    assert_eq!(seen["data"]["unlocked"], json!(true));
    told(&seen["warnings"].to_string());
    told(&there(&["doctor", "--json"]).run().json()["data"]["checks"].to_string());
    told(&there(&["unlock"]).run().errors());
    // Where both say that they are there, both are ended.
    let locked = there(&["lock"]).run();
    assert_eq!(locked.ok(), "Locked.\n");
    assert!(locked.errors().contains("process 17"), "{}", locked.errors());
    old.join().unwrap();
    assert_eq!(there(&["lock"]).run().ok(), "It was locked already.\n");
}

/// One that is stopped or stuck is told in time, with what ends it, and nothing is said to be locked that it may have open.
#[test]
fn an_older_broker_that_hangs_is_told_with_what_ends_it() {
    let world = World::empty();
    let other = world.home.root().join("tmp/other");
    fs::create_dir(&other).unwrap();
    let here = |words: &[&str]| {
        world.keyless(words).env("KEYLESS_HOME", "").env("XDG_RUNTIME_DIR", &other)
    };
    here(&["init"]).run().ok();
    let socket = world.home.root().join("home/.local/state/keyless/run/agent.sock");
    fs::create_dir_all(socket.parent().unwrap()).unwrap();
    // It takes connections, as the kernel does for one that is stopped, and no call.
    let _listener = UnixListener::bind(&socket).unwrap();
    let process = std::process::id();
    let hangs = format!(
        "an older keyless, process {process}, may have this store open, and has not answered within 5 s"
    );
    let ends = format!("kill -KILL {process} (its sessions end with it), then keyless unlock");
    let told = |seen: &str| {
        assert!(seen.contains(&hangs), "{seen}");
        assert!(seen.contains(&ends), "{seen}");
    };
    let begun = std::time::Instant::now();
    let seen = here(&["status"]).run();
    assert!(seen.ok().contains(&format!("Broker:  an older one does not answer: {ends}")));
    told(&seen.errors());
    assert!(begun.elapsed().as_secs() < 20, "{:?}", begun.elapsed());
    told(&here(&["doctor", "--json"]).run().json()["data"]["checks"].to_string());
    let unlocked = here(&["unlock"]).run();
    unlocked.ok();
    told(&unlocked.errors());
    let locked = here(&["lock", "--json"]).run().json();
    assert_eq!(locked["errors"][0]["code"], json!("broker_hangs"), "{locked}");
    assert!(locked.to_string().contains(&hangs), "{locked}");
    // What is there and answers was locked all the same.
    let status = here(&["status", "--json"]).run().json();
    assert_eq!(status["data"]["unlocked"], json!(false), "{status}");
}

/// What keeps the broker in the background from coming up is said by who started it, and by the doctor.
#[test]
fn why_no_broker_comes_up_is_told() {
    let world = World::with_token();
    let missing = world.operator_file("proxy-credential");
    let proxy = format!(
        "[egress.upstream_proxy]\naddress = \"proxy.test:3128\"\ncredential_file = {missing:?}\n"
    );
    world.home.write("keyless/config.toml", proxy).unwrap();
    let refused = world.keyless(&["unlock", "--json"]).run().json();
    assert_eq!(refused["errors"][0]["code"], json!("path_unusable"), "{refused}");
    assert!(refused.to_string().contains("proxy-credential"), "{refused}");
    let doctor = world.keyless(&["doctor", "--json"]).run().exits(1).json();
    let checks = doctor["data"]["checks"].as_array().unwrap();
    let config = checks.iter().find(|check| check["id"] == "files.config").unwrap();
    assert_eq!(config["state"], json!("fault"), "{config}");
}

/// The command that fails and the check that says why agree.
#[test]
fn times_that_do_not_fit_each_other_are_a_fault_to_doctor_as_to_unlock() {
    let world = World::with_token();
    for said in ["longest = \"2h\"", "profile = \"strict\"\nwindow = \"2h\""] {
        world.home.write("keyless/config.toml", format!("[unlock]\n{said}\n")).unwrap();
        let refused = world.keyless(&["unlock", "--json"]).run().json();
        assert_eq!(refused["errors"][0]["code"], json!("config_invalid"), "{refused}");
        let doctor = world.keyless(&["doctor", "--json"]).run().exits(1).json();
        let checks = doctor["data"]["checks"].as_array().unwrap();
        let config = checks.iter().find(|check| check["id"] == "files.config").unwrap();
        assert_eq!(config["state"], json!("fault"), "{said}: {config}");
        assert!(config.to_string().contains("longest must be at least"), "{said}: {config}");
    }
}

/// What an authenticator app shows for its URI at a moment.
fn code_of(uri: &str) -> String {
    let script = format!(
        "import base64, hmac, struct, time\n\
         secret = base64.b32decode({uri:?}.split('secret=')[1].split('&')[0] + '====')\n\
         mac = hmac.new(secret, struct.pack('>q', int(time.time()) // 30), 'sha1').digest()\n\
         at = mac[19] & 15\n\
         print('%06d' % ((struct.unpack('>I', mac[at:at+4])[0] & 0x7fffffff) % 1000000))"
    );
    let output = std::process::Command::new("python3").args(["-c", &script]).output().unwrap();
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

/// The store locks itself, a session on it goes on, and a code opens it again.
#[test]
fn a_code_reopens_the_store_under_a_running_session() {
    let mut world = World::with_token();
    let origin = world.origin(ALLOWED);
    world.write_config();
    let uri_file = world.operator_file("uri");
    let enrol = ["vault", "envelope", "add", "totp", "--output", uri_file.to_str().unwrap()];
    world.keyless(&enrol).run().ok();
    let uri = fs::read_to_string(&uri_file).unwrap().trim().to_owned();
    // Long enough for the session to begin on a busy machine.
    unlock(&world, "10s");
    let status_of = "-o /dev/null -w '%{http_code}\\n'";
    let script = format!("while read line; do {USE} {status_of}; done");
    let command = [&RUN[..], &["sh", "-c", &script]].concat();
    let mut session = world.keyless(&command).without_passphrase().start();
    let locked = || {
        let status = status(&world);
        status["broker"]["locked"] == json!(true) && status["broker"]["takes_codes"] == json!(true)
    };
    wait_until("the window is over", locked);
    session.say("go");
    assert_eq!(session.line(), "423");
    // A slip of the pen ends nothing.
    world.home.write("operator/mistyped", "something else entirely\n").unwrap();
    let mistyped = world.operator_file("mistyped").display().to_string();
    let refused = world.keyless(&["unlock", "--passphrase-file", &mistyped]).run();
    assert!(refused.exits(5).errors().contains("does not open the store"), "{}", refused.errors());
    assert!(locked());
    // Over MCP, the same is a matter of a code, which the agent may pass on.
    let mut agent = crate::mcp::Agent::connect(&world);
    let told = agent.tool("secrets_status", &json!({})).unwrap();
    assert_eq!(told["available_methods"], json!(["passphrase", "recovery", "totp"]), "{told}");
    // What there is takes no key to tell; whatever takes a value does.
    let listed = agent.tool("secrets_list", &json!({})).unwrap();
    assert_eq!(listed[0]["path"], json!(TOKEN), "{listed}");
    let card = agent.tool("secrets_describe", &json!({ "path": TOKEN })).unwrap();
    assert_eq!(card["status"], json!("registered"), "{card}");
    let (error, remediation) = agent.fault("secrets_validate", &json!({ "path": TOKEN }));
    assert_eq!(
        (error.as_str(), &remediation["actor"], &remediation["action"], &remediation["retryable"]),
        ("locked", &json!("agent"), &json!("request_totp"), &json!(true))
    );
    let (error, remediation) = agent.fault("secrets_unlock", &json!({ "totp": "000000" }));
    assert_eq!((error.as_str(), &remediation["action"]), ("totp-wrong", &json!("request_totp")));
    drop(agent);
    let reopen = |code: &str, exit: i32| {
        let unlock = world.keyless(&["unlock", "--code", "--for", "10m"]).without_passphrase();
        let script = format!("expect(': '); say({code:?} + '\\n'); finish(code={exit})");
        at_a_terminal(&world, unlock, &script);
    };
    reopen("12345", 5);
    let code = code_of(&uri);
    reopen(&code, 0);
    assert_eq!(status(&world)["broker"]["locked"], json!(false));
    // Open, a code is still how it will be opened again.
    let told = crate::mcp::Agent::connect(&world).tool("secrets_status", &json!({})).unwrap();
    assert_eq!(told["state"], json!("unlocked"));
    assert_eq!(told["available_methods"], json!(["passphrase", "recovery", "totp"]), "{told}");
    session.say("go");
    assert_eq!(session.line(), "200");
    world.assert_received(&origin);
    // The same code a second time is a replay, whatever it would open.
    reopen(&code, 5);
    drop(session);
    world.keyless(&["lock"]).run().ok();
    wait_until("the broker is gone", || status(&world)["unlocked"] == json!(false));
    let openings = || -> Vec<String> {
        let log = world.log();
        let log =
            log.iter().filter(|entry| ["unlock", "lock"].iter().any(|one| entry["action"] == *one));
        log.map(|entry| format!("{} {}", entry["action"], entry["error_code"])).collect()
    };
    let expected = [
        r#""unlock" null"#,
        r#""lock" null"#,
        r#""unlock" "wrong_passphrase""#,
        r#""unlock" "totp_wrong""#,
        r#""unlock" "totp_wrong""#,
        r#""unlock" null"#,
        r#""unlock" "totp_replayed""#,
        r#""lock" null"#,
    ];
    wait_until("each is on record", || openings() == expected);
}

/// Whoever reads the log can tell which agent has opened the store, or tried.
#[test]
fn a_code_that_an_agent_passes_on_is_on_record_as_its_sessions() {
    let world = World::with_token();
    let uri_file = world.operator_file("uri");
    let enrol = ["vault", "envelope", "add", "totp", "--output", uri_file.to_str().unwrap()];
    world.keyless(&enrol).run().ok();
    let uri = fs::read_to_string(&uri_file).unwrap().trim().to_owned();
    unlock(&world, "1s");
    wait_until("the window is over", || status(&world)["broker"]["takes_codes"] == json!(true));
    let mut agent = crate::mcp::Agent::connect(&world);
    assert_eq!(agent.fault("secrets_unlock", &json!({ "totp": "000000" })).0, "totp-wrong");
    let code = code_of(&uri);
    let told = agent.tool("secrets_unlock", &json!({ "totp": code })).unwrap();
    assert_eq!(told["unlocked"], json!(true), "{told}");
    let log = world.log();
    let opened: Vec<_> = log.iter().filter(|entry| entry["action"] == "unlock").collect();
    let [cold, refused, opened] = opened[..] else { panic!("{log:?}") };
    assert_eq!(cold["agent"]["session_id"], "operator", "{cold}");
    for (entry, result) in [(refused, "denied"), (opened, "success")] {
        let session = entry["agent"]["session_id"].as_str().unwrap();
        let uri = entry["agent"]["uri"].as_str().unwrap();
        assert!(session.starts_with("m-") && uri.contains("/mcp/"), "{entry}");
        assert_eq!(entry["result"], result, "{entry}");
    }
    assert!(!log.iter().any(|entry| entry.to_string().contains(&code)), "{log:?}");
}

/// That no code opens the store any more is a change of its own, and on record.
#[test]
fn a_lock_of_a_store_that_takes_codes_is_on_record() {
    let world = World::with_token();
    let uri_file = world.operator_file("uri");
    let enrol = ["vault", "envelope", "add", "totp", "--output", uri_file.to_str().unwrap()];
    world.keyless(&enrol).run().ok();
    unlock(&world, "1s");
    wait_until("the window is over", || status(&world)["broker"]["takes_codes"] == json!(true));
    let locks = || -> Vec<String> {
        let log = world.log();
        let locks = log.iter().filter(|entry| entry["action"] == "lock");
        locks.map(|entry| format!("{}: {}", entry["agent"], entry["detail"]["note"])).collect()
    };
    assert_eq!(locks().len(), 1, "{:?}", locks());
    world.keyless(&["lock"]).run().ok();
    wait_until("the broker is gone", || status(&world)["broker"].is_null());
    let locks = locks();
    assert_eq!(locks.len(), 2, "{locks:?}");
    assert!(locks[1].contains("operator") && locks[1].contains("for good"), "{locks:?}");
}

#[test]
fn the_profile_bounds_what_is_asked_for() {
    let world = World::with_store();
    world.home.write("keyless/config.toml", "[unlock]\nprofile = \"strict\"\n").unwrap();
    let seen = world.keyless(&["unlock", "--for", "48h", "--json"]).run();
    assert_eq!(seen.data()["locks_in_seconds"], json!(3600));
    assert_eq!(seen.json()["warnings"], json!(["the store stays open for 60 min at most"]));
    let unfit = "[unlock]\nwindow = \"2h\"\nlongest = \"1h\"\n";
    world.keyless(&["lock"]).run().ok();
    world.home.write("keyless/config.toml", unfit).unwrap();
    wait_until("the broker is gone", || status(&world)["unlocked"] == json!(false));
    world.keyless(&["unlock"]).run().exits(2);
}

/// systemd itself reads the unit; a unit of somebody else is left alone.
#[test]
fn a_unit_for_systemd_is_written() {
    let world = World::with_store();
    let passphrase = world.operator_file("passphrase");
    let install = || {
        let options =
            ["broker", "install", "--passphrase-file", passphrase.to_str().unwrap(), "--json"];
        world.keyless(&options).run()
    };
    let unit = install().data()["unit"].as_str().unwrap().to_owned();
    install().ok();
    let mut verify = std::process::Command::new("systemd-analyze");
    let output = verify
        .args(["--user", "verify", &unit])
        .env("XDG_RUNTIME_DIR", world.home.root())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success() && !said.contains("keyless-broker.service:"), "{said}");
    std::fs::write(&unit, "[Service]\nExecStart=/bin/true\n").unwrap();
    install().exits(3);
}

/// A lock that a script holds, say, or the pipe that waits for its end.
#[test]
fn the_broker_keeps_nothing_open_of_who_started_it() {
    let world = World::with_store();
    let script = "exec 9> held; exec \"$0\" unlock --for 10m";
    let script = ["sh", "-c", script, crate::invocation::KEYLESS];
    world.keyless(&[]).instead(&script).run().ok();
    let pid = status(&world)["broker"]["pid"].as_u64().unwrap();
    let open = fs::read_dir(format!("/proc/{pid}/fd")).unwrap();
    let open: Vec<_> = open.filter_map(|one| fs::read_link(one.ok()?.path()).ok()).collect();
    assert!(!open.is_empty() && !open.iter().any(|file| file.ends_with("held")), "{open:?}");
    world.keyless(&["lock"]).run().ok();
}

/// The usual bound on open files is there for programs that use `select`, and too low for a broker's connections.
#[test]
fn the_broker_may_open_many_files_and_what_it_starts_has_the_usual_bound() {
    let world = World::with_token();
    let bounded = |words: &str| {
        let script = format!("ulimit -Sn 512; exec \"$0\" {words}");
        let script = ["sh", "-c", &script, crate::invocation::KEYLESS];
        world.keyless(&[]).instead(&script).run().ok()
    };
    let soft_and_hard = |pid: u64| {
        let limits = fs::read_to_string(format!("/proc/{pid}/limits")).unwrap();
        let line = limits.lines().find_map(|line| line.strip_prefix("Max open files")).unwrap();
        let mut words = line.split_whitespace().map(str::to_owned);
        (words.next().unwrap(), words.next().unwrap())
    };
    bounded("unlock --for 10m");
    let (soft, hard) = soft_and_hard(status(&world)["broker"]["pid"].as_u64().unwrap());
    assert_eq!(soft, hard);
    assert_eq!(bounded("exec -- 'ulimit -Sn'"), "512\n", "in a jail of the broker's");
    let says_its_own = "sh -c 'sleep 0.5; ulimit -Sn'";
    assert_eq!(bounded(&format!("run -- {says_its_own}")), "512\n");
    let and_its_parents = "sh -c 'sleep 0.5; ulimit -Sn; grep files /proc/$PPID/limits'";
    let seen = bounded(&format!("run --no-jail -- {and_its_parents}"));
    let (own, parents) = seen.split_once('\n').unwrap();
    assert_eq!(own, "512");
    assert_eq!(parents.split_whitespace().nth(3), Some(&*hard), "{parents}");
    world.keyless(&["lock"]).run().ok();
    assert_eq!(bounded(&format!("run -- {says_its_own}")), "512\n", "without a broker");
}

/// A test runner's scratch folder, say: deeper than a socket's address has room for.
#[test]
fn a_home_may_lie_deep_or_be_named_from_here() {
    let world = World::empty();
    let deep = world.home.work().join("a-folder-in-a-folder/".repeat(10));
    fs::create_dir_all(&deep).unwrap();
    let near = world.home.work().join("near");
    let greeting = r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}
{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"secrets_status","arguments":{}}}
"#;
    for (named, place) in [(deep.to_str().unwrap(), &deep), ("near", &near)] {
        let keyless = |arguments: &[&str]| world.keyless(arguments).env("KEYLESS_HOME", named);
        let recovery = world.operator_file(&format!("recovery-{}", named.len()));
        keyless(&["init", "--recovery-file", recovery.to_str().unwrap()]).run().ok();
        keyless(&["unlock", "--for", "10m"]).run().ok();
        let add =
            ["secret", "add", "team/api/token", "--value-stdin", "--env", "TOKEN", "--to", ALLOWED];
        keyless(&add).stdin(world.canary.value()).run().ok();
        // Over the session's three sockets: its offer, its way out, its tools. The last line has no line end.
        let inside = "curl -sS http://10.0.0.1/ -o /dev/null -w '%{http_code}'; exec \"$0\" mcp";
        let run = ["run", "--", "sh", "-c", inside, crate::invocation::KEYLESS];
        let seen = keyless(&run).without_passphrase().stdin(greeting.trim_end()).run();
        assert!(seen.ok().contains("\\\"state\\\":\\\"unlocked\\\""), "{}", seen.text());
        // The operator's, and that of agents.
        let waiting = keyless(&["approve", "--list", "--json"]).run();
        assert_eq!(waiting.data()["pending"], json!([]));
        for socket in ["agent", "operator", "nl"] {
            assert!(place.join(format!("run/{socket}.sock")).exists(), "{socket} in {named}");
        }
        let status = keyless(&["status", "--json"]).without_passphrase().run().data();
        assert_eq!(status["unlocked"], json!(true), "{status}");
        let doctor = keyless(&["doctor", "--json"]).without_passphrase().run().json();
        let checks = doctor["data"]["checks"].as_array().unwrap();
        let sockets = checks.iter().find(|check| check["id"] == "broker.sockets");
        assert_eq!(sockets.unwrap()["state"], "ok", "{doctor}");
        assert_eq!(keyless(&["lock"]).without_passphrase().run().ok(), "Locked.\n");
    }
}

#[test]
fn a_passphrase_of_two_lines_opens_the_store_everywhere() {
    let world = World::empty();
    let file =
        world.home.write("operator/two-lines", "a first line of it\nand a second\n").unwrap();
    let recovery = world.operator_file("recovery");
    let keyless =
        |arguments: &[&str]| world.keyless(arguments).env("KEYLESS_PASSPHRASE_FILE", &file);
    keyless(&["init", "--recovery-file", recovery.to_str().unwrap()]).run().ok();
    keyless(&["unlock", "--for", "10m"]).run().ok();
    assert_eq!(keyless(&["run", "--", "echo", "ran"]).without_passphrase().run().ok(), "ran\n");
    keyless(&["lock"]).run().ok();
}

/// SIGHUP means that the files have changed, as everywhere among services; new sessions trust the roots that came.
#[test]
fn a_hangup_has_the_files_read_again_and_closes_nothing() {
    let world = unlocked("10m");
    let status_before = status(&world);
    let pid = i32::try_from(status_before["broker"]["pid"].as_u64().unwrap()).unwrap();
    world.write_config();
    // Whose certificates are trusted is for who has the factor to say.
    world.keyless(&["unlock"]).run().ok();
    let pid = rustix::process::Pid::from_raw(pid).unwrap();
    rustix::process::kill_process(pid, Signal::HUP).unwrap();
    let root = world.ca.pem();
    let line = root.lines().nth(1).unwrap();
    let script = format!("grep -cF '{line}' \"$SSL_CERT_FILE\"");
    let trusts = || {
        let command = [&RUN[..], &["sh", "-c", &script]].concat();
        world.keyless(&command).without_passphrase().run().text() == "1\n"
    };
    wait_until("new sessions trust the root", trusts);
    assert_eq!(status(&world)["broker"]["pid"], status_before["broker"]["pid"]);
    // That it took force is on record, and so is what did not.
    let reloads = |entry: &Value| entry["action"] == "config_reload";
    let last = || world.log().into_iter().rfind(reloads).unwrap_or_default();
    wait_until("it is on record", || last()["result"] == "success");
    assert!(last()["target"].as_str().unwrap().contains("config.toml"), "{}", last());
    world.home.write("keyless/config.toml", "[egress]\nextra_roots = ['/nowhere.pem']\n").unwrap();
    world.keyless(&["unlock"]).run().ok();
    wait_until("it is on record", || last()["error_code"] == "path_unusable");
    let refused = last();
    assert_eq!(refused["error_code"], "path_unusable", "{refused}");
    assert!(!refused.to_string().contains("nowhere"), "{refused}");
}

#[test]
fn a_window_is_not_shortened_without_a_word() {
    let world = unlocked("8h");
    let said = world.keyless(&["unlock", "--for", "30m"]).run().ok();
    assert!(said.contains("--for did not change that: keyless lock first"), "{said}");
}

/// Its socket takes connections as ever, and nobody reads from them.
#[test]
fn a_broker_that_hangs_is_named_and_keeps_nobody_waiting() {
    let world = unlocked("10m");
    let pid = i32::try_from(status(&world)["broker"]["pid"].as_u64().unwrap()).unwrap();
    let process = rustix::process::Pid::from_raw(pid).unwrap();
    rustix::process::kill_process(process, Signal::STOP).unwrap();
    let begun = Instant::now();
    told_soon(&world, &["lock"]);
    // Waited for once: the second call would have five seconds of its own.
    assert!(begun.elapsed() < Duration::from_secs(9), "{:?}", begun.elapsed());
    for words in [&["lock"][..], &["status"], &["run", "--", "true"]] {
        let seen = world.keyless(words).without_passphrase().run();
        let said = seen.exits(7).errors();
        assert!(said.contains(&format!("from process {pid}")), "{words:?}: {said}");
        assert!(said.contains("(kill -KILL)"), "{words:?}: {said}");
    }
    // Once it goes on, it does what it was asked.
    rustix::process::kill_process(process, Signal::CONT).unwrap();
    wait_until("it is locked", || status(&world)["broker"].is_null());
}

/// Seconds within which it is told that a broker hangs: five for the broker, the rest for this machine.
const SOON: Duration = Duration::from_secs(20);

/// Runs `keyless` and gives what it said on its way out with 7, which has to be soon.
fn told_soon(world: &World, words: &[&str]) -> String {
    let begun = Instant::now();
    let said = world.keyless(words).run().exits(7).errors();
    assert!(begun.elapsed() < SOON, "{words:?}: {:?}", begun.elapsed());
    said
}

#[test]
fn the_operators_commands_say_that_the_broker_hangs() {
    let world = unlocked("10m");
    let pid = i32::try_from(status(&world)["broker"]["pid"].as_u64().unwrap()).unwrap();
    let process = rustix::process::Pid::from_raw(pid).unwrap();
    rustix::process::kill_process(process, Signal::STOP).unwrap();
    let id = "prov-0123456789ab";
    for words in [
        &["approve", "--list"][..],
        &["approve", id, "--deny"],
        &["approve", "--take-back", id],
        &["session", "list"],
        &["web"],
    ] {
        let said = told_soon(&world, words);
        assert!(said.contains(&format!("from process {pid}")), "{words:?}: {said}");
        assert!(said.contains("(kill -KILL)"), "{words:?}: {said}");
    }
    rustix::process::kill_process(process, Signal::CONT).unwrap();
    world.keyless(&["approve", "--list"]).run().ok();
}

/// Any program of this account can take the socket's place; one that says nothing keeps nobody waiting.
#[test]
fn who_sits_silent_in_the_place_of_the_operators_socket_is_named() {
    let world = unlocked("10m");
    let socket = world.home.keyless_home().join("run/operator.sock");
    fs::remove_file(&socket).unwrap();
    let _silent = UnixListener::bind(&socket).unwrap();
    fs::set_permissions(&socket, fs::Permissions::from_mode(0o600)).unwrap();
    let own = format!("from process {}", std::process::id());
    for words in [&["approve", "--list"][..], &["web"]] {
        let said = told_soon(&world, words);
        assert!(said.contains(&own), "{words:?}: {said}");
    }
}

/// What goes over one of the broker's sockets, which a relay in its place writes down.
fn overheard(world: &World, name: &str) -> Arc<Mutex<Vec<u8>>> {
    let socket = world.home.keyless_home().join("run").join(name);
    let behind = socket.with_extension("behind");
    fs::rename(&socket, &behind).unwrap();
    let listener = UnixListener::bind(&socket).unwrap();
    fs::set_permissions(&socket, fs::Permissions::from_mode(0o600)).unwrap();
    let heard = Arc::new(Mutex::new(Vec::new()));
    let all = Arc::clone(&heard);
    thread::spawn(move || {
        for near in listener.incoming().flatten() {
            let far = UnixStream::connect(&behind).unwrap();
            let pairs = [(near.try_clone().unwrap(), far.try_clone().unwrap()), (far, near)];
            for (mut from, mut to) in pairs {
                let all = Arc::clone(&all);
                thread::spawn(move || {
                    let mut some = [0; 4096];
                    while let Ok(count @ 1..) = from.read(&mut some) {
                        all.lock().unwrap().extend_from_slice(&some[..count]);
                        if to.write_all(&some[..count]).is_err() {
                            break;
                        }
                    }
                    let _ = to.shutdown(Shutdown::Write);
                });
            }
        }
    });
    heard
}

/// Whoever calls is asked at their own terminal, wherever input and output of the command go; to a broker that runs
/// goes a proof, and neither of its sockets ever has the passphrase.
#[test]
fn the_factor_is_asked_at_the_callers_terminal_and_goes_over_no_socket() {
    let world = World::with_token();
    let passphrase = fs::read_to_string(world.operator_file("passphrase")).unwrap();
    let passphrase = world.watch(keyless_testkit::Canary::of(passphrase.trim()));
    let typed = |command: &str| {
        let script = format!(r#""$0" {command} < /dev/null > out 2> err"#);
        let invocation = world.keyless(&[]).without_passphrase();
        let invocation = invocation.instead(&["sh", "-c", &script, KEYLESS]);
        let script = format!("expect('assphrase'); say({passphrase:?} + '\\n'); finish(code=0)");
        at_a_terminal(&world, invocation, &script)
    };
    assert!(!typed("unlock --for 10m").contains("Unlocked"), "that is in the file");
    assert_eq!(status(&world)["unlocked"], json!(true));
    let heard = ["agent.sock", "operator.sock"].map(|name| overheard(&world, name));
    let mut agent = crate::mcp::Agent::connect(&world);
    let asked = json!({ "path": TOKEN });
    let id = agent.ask("secrets_request_rotation", &asked);
    typed(&format!("approve {id} --deny"));
    assert_eq!(agent.status(&id), "cancelled");
    for heard in heard {
        let heard = heard.lock().unwrap();
        assert!(!heard.is_empty());
        world.saw("a socket", &heard);
    }
    let out = fs::read_to_string(world.home.work().join("out")).unwrap();
    assert!(out.contains("nothing was changed"), "{out}");
}

/// A broker in the foreground asks at its own terminal and not its input, and its opening is on record as the operator's.
#[test]
fn a_broker_asks_at_its_own_terminal_and_says_so_in_the_log() {
    let world = World::with_token();
    let passphrase = fs::read_to_string(world.operator_file("passphrase")).unwrap();
    let passphrase = world.watch(keyless_testkit::Canary::of(passphrase.trim()));
    let own = world.keyless(&[]).without_passphrase();
    let own =
        own.instead(&["sh", "-c", r#"echo wrong > in; exec "$0" broker --for 10m < in"#, KEYLESS]);
    let script = format!(
        "expect('assphrase'); say({passphrase:?} + '\\n'); expect('Listening on'); say('\\x03'); finish(code=0)"
    );
    at_a_terminal(&world, own, &script);
    let log = world.log();
    let opened: Vec<_> = log.iter().filter(|entry| entry["action"] == "unlock").collect();
    assert_eq!(opened.len(), 1, "{opened:?}");
    assert_eq!(
        (&opened[0]["result"], &opened[0]["agent"]["session_id"], &opened[0]["detail"]["note"]),
        (&json!("success"), &json!("operator"), &json!("from cold"))
    );
}
