//! The pack under faults: killed at any point, a full disk, many at once. Whole or not at all.
//! Weaknesses 3, 5, 6 and 7 of shared/reference/agentpack.md, section 18.

use std::{
    fs,
    path::Path,
    process::{Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use serde_json::Value;

use crate::{
    pack::{MANIFEST, codex, deploy, fill, picture, run, with_repo, write},
    world::World,
};

/// How often a process is killed: this often while it applies, and again while it rolls back.
const KILLS: u32 = 300;
const FILES: usize = 40;

/// Random points of a command's life, from its start to a little after its end, each between two of the others so
/// that every stretch is hit.
fn points(whole: Duration) -> impl Iterator<Item = Duration> {
    let random = std::hash::RandomState::new();
    (0..KILLS).map(move |kill| {
        let within = std::hash::BuildHasher::hash_one(&random, kill) % 1000;
        // In a mixed order, so that a point does not follow from the one before.
        let stretch = kill * 7 % KILLS * 1000 + u32::try_from(within).unwrap_or_default();
        whole.mul_f64(1.07 * f64::from(stretch) / f64::from(KILLS * 1000))
    })
}

/// Starts a command and kills it after this long; whether it was still alive.
fn killed_after(world: &World, arguments: &[&str], delay: Duration) {
    let mut command = world
        .keyless(&[&["pack", "--json"], arguments].concat())
        .env("AGENTPACK_FSYNC", "0")
        .into_command();
    let mut child =
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    thread::sleep(delay);
    child.kill().unwrap();
    child.wait().unwrap();
}

/// After any kill: the next command that writes brings one of the two states back, and leaves no litter.
#[track_caller]
fn assert_whole(world: &World, states: [&[(std::path::PathBuf, Vec<u8>)]; 2]) {
    run(world, &["doctor", "--fix", "--yes"]).exits(0);
    let now = picture(&codex(world));
    assert!(states.contains(&now.as_slice()), "{} files, neither before nor after", now.len());
    let home = world.home.home().join(".agentpack/state");
    assert!(!home.join("journal.json").exists());
    for entry in fs::read_dir(home.join("snapshots")).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            assert!(
                path.with_extension("json").exists(),
                "{} belongs to no snapshot",
                path.display()
            );
        }
    }
}

fn measured(work: impl FnOnce()) -> Duration {
    let start = Instant::now();
    work();
    start.elapsed()
}

/// A world whose Codex also has settings of the user's, into which an MCP server goes.
fn with_settings() -> World {
    let world = with_repo(FILES);
    world.home.write("home/.codex/config.toml", "# mine\nmodel = \"o5\"\n").unwrap();
    turn(&world, "first");
    world
}

/// Another word in every file, and in the server's entry.
fn turn(world: &World, text: &str) {
    fill(world, FILES, text);
    let servers = format!("mcp_servers:\n  one: {{ command: \"server-{text}\" }}\n");
    write(world, "agentpack.yaml", &format!("{MANIFEST}{servers}"));
}

/// Weaknesses 5 and 6.
#[test]
fn a_deploy_that_is_killed_anywhere_is_whole_or_undone() {
    let world = with_settings();
    deploy(&world);
    let first = picture(&codex(&world));
    turn(&world, "second");
    let whole = measured(|| drop(deploy(&world)));
    let second = picture(&codex(&world));
    let mut words = ["first", "second"].iter().cycle();
    for point in points(whole) {
        turn(&world, words.next().unwrap());
        killed_after(&world, &["deploy", "--apply", "--yes"], point);
        assert_whole(&world, [&first, &second]);
    }
    turn(&world, "third");
    deploy(&world);
    assert_eq!(run(&world, &["plan"]).data()["changes"], Value::Array(Vec::new()));
}

#[test]
fn a_rollback_that_is_killed_anywhere_is_whole_or_undone() {
    let world = with_settings();
    let ids: Vec<String> = ["first", "second"]
        .iter()
        .map(|word| {
            turn(&world, word);
            deploy(&world)["snapshot_id"].as_str().unwrap().to_owned()
        })
        .collect();
    let second = picture(&codex(&world));
    let whole = measured(|| drop(run(&world, &["rollback", "--to", &ids[0], "--yes"]).data()));
    let first = picture(&codex(&world));
    for point in points(whole) {
        // Pruning may take the two deploys away in the end; until then they are gone back and forth to.
        let to = &ids[usize::from(picture(&codex(&world)) == first)];
        killed_after(&world, &["rollback", "--to", to, "--yes"], point);
        assert_whole(&world, [&first, &second]);
    }
}

/// The journal is there, the process is dead: reading says so, writing undoes it.
#[test]
fn an_interrupted_apply_is_told_and_undone() {
    let world = with_repo(400);
    deploy(&world);
    let before = picture(&codex(&world));
    let journal = world.home.home().join(".agentpack/state/journal.json");
    for attempt in 0..20 {
        fill(&world, 400, &format!("attempt-{attempt}"));
        let mut command =
            world.keyless(&["pack", "--json", "deploy", "--apply", "--yes"]).into_command();
        let mut child = command.stdout(Stdio::null()).spawn().unwrap();
        while !journal.exists() && child.try_wait().unwrap().is_none() {
            thread::sleep(Duration::from_micros(200));
        }
        child.kill().unwrap();
        child.wait().unwrap();
        if journal.exists() {
            let told = run(&world, &["plan"]).exits(0).json()["warnings"].to_string();
            assert!(told.contains("an earlier apply was interrupted"), "{told}");
            let mended =
                run(&world, &["doctor", "--fix", "--yes"]).exits(0).json()["warnings"].to_string();
            assert!(
                mended.contains("was undone") || mended.contains("had been complete"),
                "{mended}"
            );
            if mended.contains("was undone") {
                assert_eq!(picture(&codex(&world)), before);
                return;
            }
        }
        deploy_quietly(&world);
        fill(&world, 400, "first");
        deploy_quietly(&world);
    }
    panic!("no kill hit an apply");
}

fn deploy_quietly(world: &World) {
    run(world, &["deploy", "--apply", "--yes"]).exits(0);
}

/// A user's edit between the kill and the recovery is not lost.
#[test]
fn recovery_leaves_alone_what_somebody_else_wrote() {
    let world = with_repo(1);
    deploy(&world);
    let agents = codex(&world).join("AGENTS.md");
    recovers_without(&world, &agents, || fs::write(&agents, "the user's\n").unwrap());
    assert_eq!(fs::read_to_string(&agents).unwrap(), "the user's\n");
}

/// Nor is what stood in a target that somebody has taken away as a whole.
#[test]
fn recovery_keeps_the_backups_of_a_target_that_is_gone() {
    let world = with_repo(1);
    deploy(&world);
    recovers_without(&world, &codex(&world).join("AGENTS.md"), || {
        fs::remove_dir_all(codex(&world)).unwrap();
    });
    assert!(!codex(&world).exists());
}

/// Recovers from a deploy that died once it had changed `agents`, after somebody's `change`: the place is told
/// of, and the only copy of what it held before stays.
fn recovers_without(world: &World, agents: &Path, change: impl FnOnce()) {
    let state = world.home.home().join(".agentpack/state");
    let sha = |text: &str| keyless_pack::Sha::of(text.as_bytes()).to_string();
    let journal = serde_json::json!({
        "version": 1, "id": "123", "kind": "deploy", "folders": [],
        "steps": [{
            "root": codex(world), "path": "AGENTS.md", "confine": null, "after": sha("half done\n"),
            "before": {"was": "file", "sha256": sha("Be kind.\n"), "mode": 420, "backup": state.join("snapshots/123/backup/codex/a")},
        }],
    });
    let snapshot = state.join("snapshots/123");
    let (backup, other) = (snapshot.join("backup/codex/a"), snapshot.join("backup/codex/b"));
    fs::create_dir_all(backup.parent().unwrap()).unwrap();
    fs::write(&backup, "Be kind.\n").unwrap();
    fs::write(&other, "restored\n").unwrap();
    fs::write(snapshot.join(".keyless"), "").unwrap();
    fs::write(state.join("journal.json"), journal.to_string()).unwrap();
    change();
    let told = run(world, &["doctor", "--fix", "--yes"]).exits(0).json()["warnings"].to_string();
    assert!(told.contains("left alone") && told.contains(agents.to_str().unwrap()), "{told}");
    assert!(told.contains("snapshots/123/backup/codex/a"), "{told}");
    // Whatever is swept later.
    run(world, &["doctor", "--fix", "--yes"]).exits(0);
    assert_eq!(fs::read_to_string(&backup).unwrap(), "Be kind.\n");
    assert!(!other.exists() && !state.join("journal.json").exists());
}

/// Weakness 7.
#[test]
fn a_full_disk_undoes_what_was_written() {
    let world = with_repo(20);
    fs::create_dir_all(codex(&world)).unwrap();
    let keyless = crate::invocation::KEYLESS;
    let big = "x".repeat(30_000);
    write(&world, "big/a.md", &big);
    // The target is a tiny file system of its own, in a namespace of its own.
    let script = format!(
        "set -e
mount -t tmpfs -o size=200k tmpfs $HOME/.codex
{keyless} pack --json deploy --apply --yes >/dev/null
sums() {{ (cd $HOME/.codex && find . -type f | sort | xargs sha256sum); }}
sums > $HOME/before
for n in 0 1 2 3 4 5 6 7 8 9; do cp $HOME/.agentpack/repo/big/a.md $HOME/.agentpack/repo/modules/many/data/$n.md; done
{keyless} pack --json deploy --apply --yes > $HOME/answer || echo failed > $HOME/failed
sums > $HOME/after
cmp $HOME/before $HOME/after
test ! -e $HOME/.agentpack/state/journal.json
rm -r $HOME/.agentpack/repo/modules/many/data
{keyless} pack --json deploy --apply --yes >/dev/null"
    );
    let seen = world.keyless(&[]).instead(&["unshare", "-Urm", "sh", "-c", &script]).run();
    seen.exits(0);
    let home = world.home.home();
    let answer: Value = serde_json::from_slice(&fs::read(home.join("answer")).unwrap()).unwrap();
    assert_eq!(answer["errors"][0]["code"], "E_IO_DISK_FULL", "{answer}");
    assert_eq!(answer["errors"][0]["details"]["undone"], true, "{answer}");
    assert!(home.join("failed").exists());
}

/// Weakness 8: what a deploy wrote survives a power cut when the command has ended, unless somebody gives that up.
#[test]
fn what_was_deployed_is_on_the_disk_when_the_command_ends() {
    let world = with_repo(3);
    let calls = |fsync: &str, text: &str| {
        fill(&world, 3, text);
        let seen = world.home.root().join("calls");
        let strace =
            ["strace", "-f", "-e", "trace=fsync,fdatasync,syncfs", "-o", seen.to_str().unwrap()];
        let deploy = [crate::invocation::KEYLESS, "pack", "--json", "deploy", "--apply", "--yes"];
        let command = [&strace[..], &deploy].concat();
        world.keyless(&[]).env("AGENTPACK_FSYNC", fsync).instead(&command).run().exits(0);
        let calls = fs::read_to_string(seen).unwrap();
        ["syncfs(", "fsync("].map(|call| calls.contains(call))
    };
    assert_eq!(calls("", "first"), [true, true]);
    assert_eq!(calls("0", "second"), [false, false]);
}

/// Weakness 3: many deploys of different repos into one root end with one whole state.
#[test]
fn many_deploys_at_once_end_with_one_of_them_whole() {
    let world = with_repo(FILES);
    deploy(&world);
    let repo = world.home.home().join(".agentpack/repo");
    let words = ["alpha", "beta", "gamma", "delta"];
    for word in words {
        fill(&world, FILES, word);
        copy(&repo, &world.home.home().join(format!("repo-{word}")));
    }
    for _ in 0..3 {
        let children: Vec<_> = words
            .iter()
            .map(|word| {
                let repo = world.home.home().join(format!("repo-{word}"));
                let arguments = [
                    "pack",
                    "--json",
                    "--repo",
                    repo.to_str().unwrap(),
                    "deploy",
                    "--apply",
                    "--yes",
                ];
                // The last one waits for all of them, and a disk that others write to would keep each one waiting.
                let call = world.keyless(&arguments).env("AGENTPACK_FSYNC", "0");
                let mut command = call.into_command();
                command.stdout(Stdio::piped()).spawn().unwrap()
            })
            .collect();
        for child in children {
            let output = child.wait_with_output().unwrap();
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
        }
        let first = fs::read_to_string(codex(&world).join("skills/many/data/0.md")).unwrap();
        let winner = first.split(' ').next().unwrap();
        for number in 0..FILES {
            let text =
                fs::read_to_string(codex(&world).join(format!("skills/many/data/{number}.md")))
                    .unwrap();
            assert_eq!(text, format!("{winner} {number}\n").repeat(20));
        }
        let repo = world.home.home().join(format!("repo-{winner}"));
        let plan = run(&world, &["--repo", repo.to_str().unwrap(), "plan"]).data();
        assert_eq!(plan["changes"], Value::Array(Vec::new()), "manifest and disk agree");
    }
}

/// Homes have a lock each; what keeps their deploys apart in one root is the root's. Who loses is told, and undone.
#[test]
fn deploys_of_two_homes_into_one_root_end_with_one_of_them_whole() {
    let world = with_repo(FILES);
    deploy(&world);
    let repo = world.home.home().join(".agentpack/repo");
    let words = ["alpha", "beta"];
    let home = |word: &str| world.home.home().join(format!("home-{word}"));
    for word in words {
        fill(&world, FILES, word);
        fs::create_dir_all(home(word)).unwrap();
        copy(&repo, &home(word).join("repo"));
    }
    let start = |word: &&str| {
        let arguments = ["pack", "--json", "deploy", "--apply", "--yes"];
        let call = world.keyless(&arguments).env("AGENTPACK_HOME", home(word));
        let mut command = call.env("AGENTPACK_FSYNC", "0").into_command();
        command.stdout(Stdio::piped()).spawn().unwrap()
    };
    for _ in 0..10 {
        let children: Vec<_> = words.iter().map(start).collect();
        let mut applied = 0;
        for child in children {
            let output = child.wait_with_output().unwrap();
            let answer: Value = serde_json::from_slice(&output.stdout).unwrap();
            let (ok, code) = (answer["ok"] == true, &answer["errors"][0]["code"]);
            assert!(ok || code == "E_PLAN_CHANGED" || code == "E_BUSY", "{answer:#}");
            applied += u32::from(ok);
        }
        assert!(applied > 0, "one of them has its way");
        let skill = codex(&world).join("skills/many/data");
        let read = |number: usize| fs::read_to_string(skill.join(format!("{number}.md"))).unwrap();
        let winner = read(0).split(' ').next().unwrap().to_owned();
        for number in 0..FILES {
            assert_eq!(read(number), format!("{winner} {number}\n").repeat(20));
        }
        let call = world.keyless(&["pack", "--json", "plan"]);
        let plan = call.env("AGENTPACK_HOME", home(&winner)).run().data();
        assert_eq!(plan["changes"], Value::Array(Vec::new()), "manifest and disk agree");
    }
}

fn copy(from: &Path, to: &Path) {
    assert!(Command::new("cp").arg("-r").arg(from).arg(to).status().unwrap().success());
}
