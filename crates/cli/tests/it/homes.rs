//! A jail hides every home of Keyless, not its own run's alone.

use std::{
    fs,
    os::unix::fs::{PermissionsExt as _, symlink},
    path::Path,
    process::Command,
};

use crate::{
    invocation::{Invocation, KEYLESS},
    world::World,
};

/// The default home: no `KEYLESS_HOME`.
fn default_home<'w>(world: &'w World, arguments: &[&str]) -> Invocation<'w> {
    let pass = world.home.work().join("pass");
    world.keyless(arguments).env("KEYLESS_HOME", "").env("KEYLESS_PASSPHRASE_FILE", pass)
}

/// A home at `place`, whose store is made.
fn home_at<'w>(world: &'w World, place: &Path, arguments: &[&str]) -> Invocation<'w> {
    world.keyless(arguments).env("KEYLESS_HOME", place)
}

/// What a command in a jail reads of these files, and that it can write none of them.
fn seen_of(places: &[&Path]) -> String {
    let look = |place: &&Path| {
        let place = place.display();
        format!(
            "cat {place} 2>/dev/null; echo planted 2>/dev/null >>{place} && echo written {place};"
        )
    };
    places.iter().map(look).chain(["true".to_owned()]).collect()
}

#[test]
fn a_run_sees_no_home_whichever_is_its_own() {
    let world = World::empty();
    world.home.write("work/pass", "a passphrase of another home").unwrap();
    let phrase = world.home.work().join("phrase");
    let of_default = ["init", "--recovery-file", phrase.to_str().unwrap()];
    default_home(&world, &of_default).run().ok();
    // One that no variable leads to any more.
    let elsewhere = world.home.work().join("keyless");
    home_at(&world, &elsewhere, &["init", "--recovery-file", "other"]).run().ok();
    world.make_store();

    let config = world.home.home().join(".config/keyless/config.toml");
    let store = world.home.home().join(".local/share/keyless/store.db");
    let (pass, other) = (world.home.work().join("pass"), elsewhere.join("store.db"));
    let script = seen_of(&[&config, &store, &other, &pass, &phrase]);
    for run in [world.keyless(&[]), default_home(&world, &[]), home_at(&world, &elsewhere, &[])] {
        let run = run.instead(&[KEYLESS, "run", "--no-secrets", "--", "sh", "-c", &script]);
        let seen = run.run();
        assert_eq!(seen.ok(), "", "{}", seen.errors());
    }
    assert!(!config.exists());
    // A home that is not known: what is seen of it in a session is the operator's all the same.
    let script = format!(
        "KEYLESS_HOME={0} {KEYLESS} init --passphrase-file {0}.pass 2>&1; cp -r $SEEN new && KEYLESS_HOME=new {KEYLESS} secret list 2>&1",
        world.home.work().join("inside").display()
    );
    world.home.write("work/inside.pass", "a passphrase of a home inside").unwrap();
    let copied = world.home.root().join("tmp/copied");
    std::fs::create_dir(&copied).unwrap();
    std::fs::copy(&other, copied.join("store.db")).unwrap();
    let run = world.agent_with(&["--no-secrets"], &["sh", "-c", &script]).env("SEEN", copied);
    let said = run.run();
    assert_eq!(
        said.text().matches("error: This is an agent's session").count(),
        2,
        "{}",
        said.text()
    );
}

#[test]
fn a_home_of_xdgs_variables_is_hidden_from_the_default_one() {
    let world = World::empty();
    let moved = world.home.root().join("moved");
    let moved_home = |arguments: &[&str]| {
        let run = home_at(&world, Path::new(""), arguments);
        run.env("XDG_CONFIG_HOME", &moved).env("XDG_DATA_HOME", &moved)
    };
    moved_home(&["init"]).run().ok();
    home_at(&world, Path::new(""), &["init"]).run().ok();
    let usual = world.home.home().join(".local/share/keyless/store.db");
    let script = seen_of(&[&moved.join("keyless/store.db"), &usual]);
    let run = ["run", "--no-secrets", "--", "sh", "-c", &script];
    for run in [world.keyless(&run), moved_home(&run), home_at(&world, Path::new(""), &run)] {
        let seen = run.run();
        assert_eq!(seen.ok(), "", "{}", seen.errors());
    }
}

/// A home and a phrase that are made while a command runs: it sees nothing of where a home is without variables, and of
/// others whoever makes them is told.
#[test]
fn a_home_that_is_made_meanwhile_is_hidden_where_homes_are_by_themselves() {
    let world = World::with_store();
    world.home.write("work/pass", "a passphrase of another home").unwrap();
    let usual = world.home.home().join(".local/share/keyless");
    let script = format!(
        "mkdir -p {0}; echo x >{0}/store.db && echo planted; echo began; read line; cat {0}/*; echo over",
        usual.display()
    );
    let mut run = world.keyless(&["run", "--no-secrets", "--", "sh", "-c", &script]).start();
    assert_eq!(run.line(), "began");
    let made = default_home(&world, &["init"]).run();
    made.ok();
    assert!(!made.errors().contains("keyless run is open"), "{}", made.errors());
    let elsewhere = world.home.work().join("elsewhere");
    let seen = "and may read it: end that first";
    assert!(home_at(&world, &elsewhere, &["init"]).run().errors().contains(seen));
    let phrase = world.home.work().join("later");
    let phrase = phrase.to_str().unwrap();
    let change = ["vault", "envelope", "change", "recovery", "--output", phrase];
    assert!(world.keyless(&change).run().errors().contains(seen));
    run.say("go on");
    assert_eq!(run.line(), "over");
    run.wait();
    fs::remove_file(phrase).unwrap();
    assert!(!world.keyless(&change).run().errors().contains(seen));
}

/// One home of the account that is damaged, or made so, takes no other one along: its settings have no end, or are waited for.
#[test]
fn a_home_whose_settings_are_no_files_holds_nobody_up() {
    let world = World::with_store();
    let elsewhere = world.home.work().join("keyless");
    home_at(&world, &elsewhere, &["init", "--recovery-file", "other"]).run().ok();
    for name in ["config.toml", "sources.toml", "state/passphrase-files"] {
        for is_fifo in [true, false] {
            let file = elsewhere.join(name);
            let _ = fs::remove_file(&file);
            if is_fifo {
                assert!(Command::new("mkfifo").arg(&file).status().unwrap().success());
            } else {
                symlink("/dev/zero", &file).unwrap();
            }
            let run = world.keyless(&["run", "--no-secrets", "--", "true"]);
            assert_eq!(run.run().ok(), "", "{name}");
            // Whose home it is is told what is wrong with it.
            let checked = home_at(&world, &elsewhere, &["doctor"]).run();
            if name != "state/passphrase-files" {
                assert!(checked.text().contains("no regular file"), "{name}: {}", checked.text());
            }
            fs::remove_file(&file).unwrap();
        }
    }
}

/// The command has the streams of the run, and a descriptor's path names another file in every process.
#[test]
fn a_passphrase_that_came_by_a_descriptor_is_no_agents_to_read() {
    let world = World::with_store();
    let pass = world.operator_file("another");
    fs::copy(world.operator_file("passphrase"), &pass).unwrap();
    fs::set_permissions(&pass, fs::Permissions::from_mode(0o600)).unwrap();
    let pass = pass.to_str().unwrap();
    let reads = ["sh", "-c", "cat /proc/self/fd/0"];
    for (file, streams) in [("/dev/stdin", format!("<{pass}")), (pass, format!("<>{pass} 1>&0"))] {
        let run = [KEYLESS, "run", "--passphrase-file", file, "--no-secrets", "--"];
        let line = format!("exec {} {streams}", shell(&[&run[..], &reads].concat()));
        let told = world.keyless(&[]).without_passphrase().instead(&["sh", "-c", &line]).run();
        let told = told.exits(2);
        assert!(told.errors().contains("would inherit"), "{}", told.errors());
    }
    // What it was read from is remembered by its name.
    let run = format!("exec {KEYLESS} run --passphrase-file /proc/self/fd/9 -- true 9<{pass}");
    world.keyless(&[]).without_passphrase().instead(&["sh", "-c", &run]).run().ok();
    let seen = world.agent_with(&["--no-secrets"], &["cat", pass]).run();
    assert_eq!(seen.ok(), "");
}

fn shell(words: &[&str]) -> String {
    words.iter().map(|word| format!("'{word}'")).collect::<Vec<_>>().join(" ")
}
