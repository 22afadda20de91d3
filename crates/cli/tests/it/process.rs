//! `keyless run` is not there: exit, signals, streams and terminal are the command's own.

use std::{
    fs::{self, Permissions},
    os::unix::{fs::PermissionsExt as _, process::ExitStatusExt as _},
};

use rustix::process::Signal;

use crate::{
    invocation::KEYLESS,
    terminal::at_a_terminal,
    world::{ALLOWED, World},
};

const BARE: &[&str] = &["--no-secrets"];

#[test]
fn exit_statuses_pass_and_nothing_is_added() {
    let world = World::empty();
    for code in [0, 1, 3, 126, 127, 255] {
        let script = format!("printf out; printf err >&2; exit {code}");
        let seen = world.agent_with(BARE, &["sh", "-c", &script]).run();
        seen.exits(code);
        assert_eq!((&seen.text()[..], &seen.errors()[..]), ("out", "err"));
    }
}

#[test]
fn a_command_that_can_not_be_had() {
    let world = World::empty();
    fs::write(world.home.work().join("plain.txt"), "not a program").unwrap();
    for options in [BARE, &["--no-secrets", "--no-jail"]] {
        let seen = world.agent_with(options, &["no-such-command-here"]).run();
        let errors = seen.exits(127).errors();
        assert!(errors.contains("error: The command does not exist"), "{errors}");
        assert!(errors.contains("no-such-command-here") && errors.contains("next:"), "{errors}");
        let seen = world.agent_with(options, &["./plain.txt"]).run();
        let errors = seen.exits(126).errors();
        assert!(errors.contains("plain.txt") && errors.contains("next:"), "{errors}");
    }
}

#[test]
fn a_death_by_signal_is_one() {
    let world = World::empty();
    for (signal, number) in [("TERM", 15), ("KILL", 9), ("INT", 2), ("SEGV", 11)] {
        let script = format!("kill -{signal} $$");
        for options in [BARE, &["--no-secrets", "--no-jail"]] {
            let seen = world.agent_with(options, &["sh", "-c", &script]).run();
            assert_eq!(seen.status.signal(), Some(number), "{options:?} {}", seen.errors());
        }
    }
    // As a shell tells it.
    let script = r#""$0" run --no-secrets -- sh -c 'kill -TERM $$' 2>/dev/null; echo $?"#;
    let shell = world.keyless(&[]).instead(&["bash", "-c", script, KEYLESS]);
    assert_eq!(shell.run().ok(), "143\n");
}

/// A home that is mounted at a second place, too, hides its credentials there as well.
#[test]
fn a_hidden_file_has_no_other_name() {
    let world = World::empty();
    world.home.write("home/.netrc", "machine api.test password other").unwrap();
    world.home.write("home/plain", "seen").unwrap();
    let script = r#"mkdir ../again && mount --bind "$HOME" ../again &&
        exec "$0" run --no-secrets -- cat ../again/.netrc ../again/plain"#;
    let namespaces = ["unshare", "-Urm", "sh", "-c", script, KEYLESS];
    assert_eq!(world.keyless(&[]).instead(&namespaces).run().ok(), "seen");
}

#[test]
fn signals_to_keyless_reach_the_command() {
    let world = World::empty();
    for (signal, word) in [(Signal::TERM, "TERM"), (Signal::HUP, "HUP"), (Signal::USR1, "USR1")] {
        let script = format!(
            "trap 'echo got {word}; exit 5' {word}; echo ready; while :; do sleep 0.05; done"
        );
        let mut run = world.agent_with(BARE, &["sh", "-c", &script]).start();
        assert_eq!(run.line(), "ready");
        run.signal(signal);
        assert_eq!(run.line(), format!("got {word}"));
        assert_eq!(run.wait().code(), Some(5));
    }
}

#[test]
fn ten_mebibytes_pass_unchanged() {
    let world = World::empty();
    // Every byte value at every position of a block, and no period that a buffer could share.
    let mut state = 0x2545_f491_4f6c_dd1d_u64;
    let bytes: Vec<u8> = std::iter::repeat_with(|| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (state >> 56) as u8
    })
    .take(10 << 20)
    .collect();
    let seen = world.agent_with(BARE, &["cat"]).stdin(bytes.clone()).run();
    seen.exits(0);
    assert!(seen.stdout == bytes, "{} bytes came back", seen.stdout.len());
    assert_eq!(seen.errors(), "");
}

/// What a shell gives as a file reaches the command, both ways; nothing else that was open does.
#[test]
fn a_shells_process_substitution_reaches_the_command() {
    let world = World::empty();
    for options in ["--no-secrets", "--no-secrets --no-jail"] {
        let script = format!(
            r#"exec 8</ 9< <(echo unnamed)
"$0" run {options} -- sh -c 'cat "$1" "$2"; echo out >"$3"; ls /proc/self/fd | grep -c "^[89]$"' sh \
    <(printf 'one\n') <(printf 'two\n') >(cat)"#
        );
        let shell = world.keyless(&[]).instead(&["bash", "-c", &script, KEYLESS]).run();
        shell.exits(i32::from(!options.contains("jail")));
        let mut lines: Vec<_> = shell.text().lines().map(str::to_owned).collect();
        lines.sort_unstable();
        let open = if options.contains("jail") { "2" } else { "0" };
        assert_eq!(lines, [open, "one", "out", "two"], "{options}: {}", shell.errors());
    }
}

#[test]
fn a_closed_stdin_is_closed() {
    let world = World::empty();
    assert_eq!(world.agent_with(BARE, &["wc", "-c"]).run().ok(), "0\n");
}

#[test]
fn an_interactive_shell_has_job_control() {
    let world = World::empty();
    let bash = world.agent_with(BARE, &["bash", "--norc", "--noprofile", "-i"]).env("TERM", "dumb");
    let transcript = at_a_terminal(
        &world,
        bash,
        r#"
resize(33, 111)
# The quotes keep the echo of this line from looking like the prompt.
say('PS1="rea""dy> "\n'); expect('ready> ')
say('stty size\n'); expect('33 111'); expect('ready> ')
resize(40, 99)
say('stty size\n'); expect('40 99'); expect('ready> ')
say('sleep 300 &\n'); expect('[1]'); expect('ready> ')
say('jobs\n'); expect('Running'); expect('ready> ')
say('fg\n'); expect('sleep 300'); foreground('sleep')
say('\x1a'); expect('Stopped'); expect('ready> ')
say('kill -CONT %1; kill %1; wait %1; echo wai""ted\n'); expect('waited'); expect('ready> ')
say('echo u""p; cat\n'); expect('up\r\n'); foreground('cat')
say('\x03'); expect('ready> ')
say('echo after $?\n'); expect('after 130')
say('exit 7\n')
finish(code=7)
"#,
    );
    for complaint in ["no job control", "cannot set terminal", "ioctl", "not permitted"] {
        assert!(!transcript.contains(complaint), "{transcript}");
    }
}

#[test]
fn ctrl_c_reaches_the_command() {
    let world = World::empty();
    let script = "echo ready; exec sleep 300";
    let sleeping = world.agent_with(BARE, &["sh", "-c", script]);
    at_a_terminal(&world, sleeping, "expect('ready'); pause(); say('\\x03'); finish(signal=2)");
    let script = "trap 'echo caught; exit 9' INT; echo ready; while :; do sleep 0.05; done";
    let catching = world.agent_with(BARE, &["sh", "-c", script]);
    at_a_terminal(
        &world,
        catching,
        "expect('ready'); pause(); say('\\x03'); expect('caught'); finish(code=9)",
    );
}

/// Put aside by a key, a command does not hear what is typed to the next program, whatever it does to its terminal.
#[test]
fn a_command_that_is_put_aside_reads_no_passphrase() {
    let world = World::with_store();
    let thief = r#"
import os, signal, time
if os.fork() == 0:
    os.setsid()
    for deaf in (signal.SIGTSTP, signal.SIGHUP):
        signal.signal(deaf, signal.SIG_IGN)
    print("here" + "after")
    while True:
        open("loot", "ab").write(os.read(0, 4096))
time.sleep(60)
"#;
    let thief = world.home.write("work/thief.py", thief).unwrap();
    let shell = world.keyless(&[]).without_passphrase().env("TERM", "dumb");
    let shell = shell.env("KEYLESS_BINARY", KEYLESS).env("THIEF", thief.to_str().unwrap());
    at_a_terminal(
        &world,
        shell.instead(&["bash", "--norc", "--noprofile", "-i"]),
        r#"
say('PS1="rea""dy> "\n'); expect('ready> ')
for put_aside in ['\x1a', 'bg\n', None]:
    if put_aside != 'bg\n':
        say('"$KEYLESS_BINARY" run --no-secrets -- python3 -u "$THIEF"' + ('\n' if put_aside else ' &\n'))
        expect('hereafter')
    if put_aside:
        pause(); say(put_aside); expect('ready> ')
    pause()
    say('"$KEYLESS_BINARY" unlock\n'); expect('Passphrase: ')
    say('no-such-word\n'); expect('Passphrase: ')
    say('\x03'); expect('ready> ')
    if put_aside != '\x1a':
        say('kill %1; wait; echo go""ne\n'); expect('gone'); expect('ready> ')
say('stty -a; exit 3\n')
finish(code=3)
"#,
    );
    let loot = fs::read_to_string(world.home.work().join("loot")).unwrap_or_default();
    assert_eq!(loot, "");
}

/// With `stty tostop`. Whoever is stopped within a write is stopped anew by every signal that continues it.
#[test]
fn a_job_that_is_stopped_for_writing_ends_when_it_is_told() {
    let world = World::empty();
    let shell = world.keyless(&[]).env("TERM", "dumb").env("KEYLESS_BINARY", KEYLESS);
    at_a_terminal(
        &world,
        shell.instead(&["bash", "--norc", "--noprofile", "-i"]),
        r#"
say('PS1="rea""dy> "; stty tostop\n'); expect('ready> ')
say('"$KEYLESS_BINARY" run --no-secrets -- sh -c "while sleep 0.1; do echo w; done" &\n'); expect('ready> ')
stopped = False
while not stopped:
    pause(); say('jobs\n'); expect('ready> ')
    say('jobs -s | grep -c Stopp''ed; echo co""unted\n')
    read(1); stopped = b'1\r\n' in unread; expect('counted'); expect('ready> ')
say('kill %1\n')
for look in range(20):
    pause(); say('jobs\n'); read(1)
    if b'Terminated' in unread: break
expect('Terminated')
say('exit 3\n'); finish(code=3)
"#,
    );
}

/// Of one signal a terminal gives to all that stands in a pipeline, and to a command that has not been given the terminal.
#[test]
fn ctrl_c_ends_a_pipeline_and_a_size_reaches_it() {
    let world = World::empty();
    let script =
        "trap 'stty size <&2 >&2; exit 9' INT; echo ready >&2; while :; do sleep 0.05; done";
    let line = r#""$0" run --no-secrets -- sh -c "$1" | cat; echo "${PIPESTATUS[0]}.""#;
    let shell = world.keyless(&[]);
    at_a_terminal(
        &world,
        shell.instead(&["bash", "-c", &format!("trap : INT; {line}"), KEYLESS, script]),
        "expect('ready'); resize(44, 88); pause(); say('\\x03'); expect('44 88'); expect('9.'); finish(code=0)",
    );
}

#[test]
fn files_are_hidden_and_shown_as_told() {
    let world = World::empty();
    world.home.write("work/private.txt", "private words").unwrap();
    world.home.write("work/folder/deep.txt", "deep words").unwrap();
    world.home.write("home/.netrc", "netrc words").unwrap();
    let script = "cat private.txt folder/deep.txt $HOME/.netrc 2>/dev/null; ls folder; true";
    let look = |options: &[&str]| {
        let options = [BARE, options].concat();
        world.agent_with(&options, &["sh", "-c", script]).run().ok()
    };
    assert_eq!(look(&[]), "private wordsdeep wordsdeep.txt\n");
    assert_eq!(look(&["--hide", "private.txt", "--hide", "folder"]), "");
    let netrc = world.home.home().join(".netrc");
    let shown = look(&["--show", netrc.to_str().unwrap()]);
    assert_eq!(shown, "private wordsdeep wordsnetrc wordsdeep.txt\n");
}

/// A slip in a name would leave open what was to be hidden.
#[test]
fn a_cover_over_nothing_is_told() {
    let world = World::with_store();
    let errors = |options: &[&str]| {
        let options = [BARE, options].concat();
        world.agent_with(&options, &["true"]).run().errors()
    };
    world.home.write("work/private.txt", "private words").unwrap();
    assert_eq!(errors(&["--hide", "private.txt"]), "");
    let told = errors(&["--hide", "privat.txt"]);
    assert!(told.contains("nothing is there, so nothing is hidden"), "{told}");
    let store = world.home.keyless_home().join("store.db");
    let told = errors(&["--show", store.to_str().unwrap()]);
    assert!(told.contains("what Keyless keeps for itself"), "{told}");
}

/// Codex has one; what it can't start fails at each command, and only the model reads of that.
#[test]
fn a_command_that_brings_a_sandbox_is_told_that_it_is_in_one() {
    let world = World::empty();
    let codex = world.home.write("work/codex", "#!/bin/sh\necho \"codex $*\"\n").unwrap();
    fs::set_permissions(&codex, Permissions::from_mode(0o755)).unwrap();
    let codex = codex.to_str().unwrap();
    let errors = |options: &[&str], more: &[&str]| {
        let line = [&[codex][..], more].concat();
        world.agent_with(&[BARE, options].concat(), &line).run().errors()
    };
    let warned = errors(&[], &["exec", "hi"]);
    assert!(warned.contains("--sandbox danger-full-access"), "{warned}");
    for more in [&["--sandbox", "danger-full-access"][..], &["--yolo"], &["-sdanger-full-access"]] {
        assert_eq!(errors(&[], more), "");
    }
    assert!(!errors(&["--no-jail"], &[]).contains("danger-full-access"));
}

#[test]
fn without_a_jail_the_proxy_still_swaps_and_keyless_says_what_is_lost() {
    let mut world = World::with_token();
    let origin = world.origin(ALLOWED);
    let script = r#"curl -sS -H "Authorization: Bearer $TOKEN" https://api.allowed.test/"#;
    let seen = world.agent_with(&["--no-jail"], &["sh", "-c", script]).run();
    assert!(seen.ok().contains("kloak_"), "{}", seen.text());
    world.assert_received(&origin);
    let errors = seen.errors();
    assert!(errors.contains("warning: --no-jail") && errors.contains("DNS"), "{errors}");
}

#[test]
fn ctrl_c_at_a_prompt_ends_keyless_and_gives_the_echo_back() {
    let world = World::with_store();
    let script = r#""$0" unlock; echo "status $?"; stty -a"#;
    let shell = world.keyless(&[]).without_passphrase();
    let screen = at_a_terminal(
        &world,
        shell.instead(&["bash", "-c", script, KEYLESS]),
        "expect('Passphrase: '); say('half\x03'); expect('status 130'); finish(code=0)",
    );
    assert!(!screen.contains("-echo ") && !screen.contains("-isig"), "{screen}");
    assert!(!screen.contains("half"), "{screen}");
}

/// Who comes back to the shell sees what is typed there, and what is typed once the question is asked anew is not seen.
#[test]
fn ctrl_z_at_a_prompt_gives_the_echo_back_until_it_goes_on() {
    let world = World::with_store();
    let script =
        r#"set -m; "$0" unlock; echo "stopped $?"; stty -a; echo end; fg; echo "status $?""#;
    let shell = world.keyless(&[]).without_passphrase();
    let screen = at_a_terminal(
        &world,
        // No other shell sets the terminal right by itself.
        shell.instead(&["dash", "-c", script, KEYLESS]),
        "expect('Passphrase: '); say('half\x1a'); expect('stopped 148'); expect('end')\n\
         for _ in range(3):\n    expect('Passphrase: '); say('no-such-word\\n')\n\
         expect('status '); finish(code=0)",
    );
    let (stopped, _) = screen.split_once("end").unwrap();
    assert!(stopped.contains(" echo ") && !stopped.contains("-isig"), "{screen}");
    assert!(!screen.contains("half") && !screen.contains("no-such-word"), "{screen}");
}

/// As under `nohup`: what the caller ignores stays ignored all the way down.
#[test]
fn ignored_signals_stay_ignored() {
    let world = World::empty();
    let script = r#"trap '' HUP; exec "$0" run --no-secrets -- sh -c 'kill -HUP $$; echo alive'"#;
    let shell = world.keyless(&[]).instead(&["sh", "-c", script, KEYLESS]);
    assert_eq!(shell.run().ok(), "alive\n");
}

/// Every signal that can be ignored; Rust's start and ours change some for this program, and the command must not notice.
#[test]
fn the_command_ignores_what_its_caller_ignores() {
    let world = World::empty();
    let ignoring = "for signal in $(seq 64); do trap '' $signal 2> /dev/null; done";
    let look = "grep SigIgn /proc/self/status";
    let ignored = |run: &str| {
        let script = format!("{ignoring}; exec {run} {look}");
        world.keyless(&[]).instead(&["bash", "-c", &script, KEYLESS]).run().ok()
    };
    let heeded = |run: &str| {
        let script = format!("exec {run} {look}");
        world.keyless(&[]).instead(&["bash", "-c", &script, KEYLESS]).run().ok()
    };
    for run in [r#""$0" run --no-secrets --"#, r#""$0" run --no-secrets --no-jail --"#] {
        assert_eq!(ignored(run), ignored(""), "{run}");
        assert_eq!(heeded(run), heeded(""), "{run}");
    }
}
