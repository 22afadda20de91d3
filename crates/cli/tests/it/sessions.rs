//! Sessions by the operator's commands: seen, looked into, ended.

use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;

use crate::{
    invocation::KEYLESS,
    mcp::{Agent, USE, approve, gated, pending, unlock, unlocked},
    world::{ALLOWED, TOKEN, VARIABLE, World, wait_until},
};

fn open(world: &World) -> Vec<serde_json::Value> {
    let listed = world.keyless(&["session", "list", "--json"]).run().data();
    listed["sessions"].as_array().unwrap().clone()
}

#[test]
fn sessions_are_listed_looked_into_and_ended_by_command() {
    let world = unlocked();
    assert!(open(&world).is_empty());
    let mut agent = Agent::connect(&world);
    let reason = json!({ "path": TOKEN, "reason": "to look" });
    agent.tool("secrets_status", &json!({})).unwrap();
    let waits = "echo up; while read line; do echo; done";
    let mut run = world.keyless(&["run", "--", "sh", "-c", waits]).without_passphrase().start();
    assert_eq!(run.line(), "up");
    let sessions = open(&world);
    let of = |kind| sessions.iter().find(|one| one["kind"] == kind).unwrap();
    assert_eq!(of("run")["secrets"], json!([TOKEN]));
    let words = world.keyless(&["session", "list"]).run().ok();
    assert!(words.contains("keyless run") && words.contains("Tools of an agent"), "{words}");

    let id = of("run")["id"].as_str().unwrap();
    let shown = world.keyless(&["session", "show", id, "--json"]).run().data();
    assert_eq!(shown["entries"][0]["action"], "session_start");
    // Nobody is there to be asked.
    let unasked = world.keyless(&["session", "end", id]).run();
    assert!(unasked.exits(2).errors().contains("--yes"), "{}", unasked.errors());
    world.keyless(&["session", "end", id, "--yes"]).run().ok();
    assert!(open(&world).iter().all(|one| one["kind"] == "tools"));
    world.keyless(&["session", "end", id, "--yes"]).run().exits(4);
    let tools = of("tools")["id"].as_str().unwrap();
    world.keyless(&["session", "end", tools, "--yes"]).run().ok();
    assert!(agent.tool("secrets_request_use_approval", &reason).is_err());
    let log = world.keyless(&["session", "show", id]).run().ok();
    assert!(log.contains("session_end"), "{log}");
    let nobody = world.keyless(&["session", "show", "nobody"]).run();
    assert!(nobody.exits(3).errors().contains("on record"), "{}", nobody.errors());
}

/// Its requests are refused from then on, and nobody would know why.
#[test]
fn a_command_that_outlives_its_session_is_told() {
    let world = unlocked();
    let run = |meanwhile: &str| {
        let script = format!(
            r#""$0" run -- sh -c 'echo up > up; while [ -e up ]; do sleep 0.05; done' &
            while [ ! -e up ]; do sleep 0.05; done; {meanwhile}; rm up; wait $!"#
        );
        let run = world.keyless(&[]).without_passphrase();
        run.instead(&["sh", "-c", &script, KEYLESS]).run()
    };
    let seen = run("true");
    assert_eq!((seen.ok().as_str(), seen.errors().as_str()), ("", ""));
    let seen = run(r#""$0" lock"#);
    seen.ok();
    assert!(seen.errors().contains("the session was over before"), "{}", seen.errors());
}

/// NL-1.5: whom the operator suspends uses nothing, by whichever door; activated, its command goes on.
#[test]
fn what_a_suspended_agents_command_has_open_is_cut() {
    let mut world = World::with_token();
    let origin = world.origin(ALLOWED);
    world.write_config();
    world.keyless(&["unlock"]).run().ok();
    let script = format!(
        "ask() {{ curl -sSi -m 20 -H \"x-key: ${VARIABLE}\" https://api.allowed.test/ | tr -d '\\r'; }}
        curl -sSN -m 20 -o /dev/null -H \"x-key: ${VARIABLE}\" 'https://api.allowed.test/drip?n=1000000&chunk=1&ms=5'
        echo \"stream: $?\"
        ask | grep -i refused
        until ask | grep '^HTTP/.* 200'; do sleep 0.1; done"
    );
    let agents = |world: &World| {
        let listed = world.keyless(&["agent", "list", "--json"]).run().data();
        let agents = listed["agents"].as_array().unwrap().iter();
        let runs = agents.filter(|one| one["agent_uri"].as_str().unwrap().contains("/run/"));
        let ids: Vec<String> =
            runs.map(|one| one["instance_id"].as_str().unwrap().to_owned()).collect();
        ids
    };
    // By a broker for all, then by one for this run alone.
    for is_own in [false, true] {
        origin.clear();
        let run = world.keyless(&["run", "--", "sh", "-c", &script]);
        let mut run = if is_own { run } else { run.without_passphrase() }.start();
        wait_until("it streams", || !origin.requests().is_empty());
        let [instance] = &agents(&world)[..] else { panic!("{:?}", agents(&world)) };
        world.keyless(&["agent", "suspend", instance]).run().ok();
        assert_ne!(run.line(), "stream: 0");
        assert_eq!(run.line().to_lowercase(), "x-keyless-refused: agent_suspended");
        world.keyless(&["agent", "activate", instance]).run().ok();
        assert!(run.line().contains("200"));
        assert!(run.wait().success());
    }
}

/// A run that opened the store by itself is under the operator's commands all the same.
#[test]
fn a_run_with_a_factor_of_its_own_is_seen_and_ended() {
    let mut world = World::with_token();
    let origin = world.origin(ALLOWED);
    world.write_config();
    let run = |end: &str| {
        let script = format!(
            r#""$0" run -- sh -c 'echo up > up; while [ -e up ]; do sleep 0.05; done; curl -sSf https://{ALLOWED}/ || echo refused' &
            while [ ! -e up ]; do sleep 0.05; done
            "$0" session list --json > list; {end}; rm up; wait $!"#
        );
        world.keyless(&[]).instead(&["sh", "-c", &script, KEYLESS]).run()
    };
    let listed = || {
        let text = std::fs::read_to_string(world.home.work().join("list")).unwrap();
        let listed: serde_json::Value = serde_json::from_str(&text).unwrap();
        listed["data"]["sessions"].clone()
    };
    let went_on = run("true");
    assert!(!went_on.ok().contains("refused") && went_on.errors().is_empty());
    assert_eq!((&listed()[0]["kind"], &listed()[0]["secrets"]), (&json!("run"), &json!([TOKEN])));
    assert_eq!(origin.requests().len(), 1);
    assert!(open(&world).is_empty());
    let by_name = r#""$0" session end --yes $(grep -o 's-[0-9a-f-]*' list | head -1) > ended"#;
    for end in [r#""$0" lock > ended"#, by_name] {
        let seen = run(&format!("{end}; sleep 1"));
        assert!(seen.ok().contains("refused"), "{}", seen.errors());
        assert!(seen.errors().contains("the session was over before"), "{}", seen.errors());
        assert_eq!(origin.requests().len(), 1);
    }
}

/// Kills the broker that serves.
pub(crate) fn kill_broker(world: &World) {
    let status = world.keyless(&["status", "--json"]).without_passphrase().run().data();
    let pid = i32::try_from(status["broker"]["pid"].as_u64().unwrap()).unwrap();
    kill_process(Pid::from_raw(pid).unwrap(), Signal::KILL).unwrap();
    wait_until("it is gone", || {
        let status = world.keyless(&["status", "--json"]).without_passphrase().run().data();
        status["broker"].is_null()
    });
}

/// The sessions of `keyless run` that are agents now.
pub(crate) fn agents(world: &World) -> Vec<String> {
    let listed = world.keyless(&["agent", "list", "--json"]).run().data();
    let name = |one: &serde_json::Value| one["session_context"]["session"].as_str().map(Into::into);
    listed["agents"].as_array().unwrap().iter().filter_map(name).collect()
}

/// What the log has about the ends of sessions: whose, and why.
pub(crate) fn ends(world: &World) -> Vec<(String, String)> {
    let log = world.log().into_iter().filter(|entry| entry["action"] == "session_end");
    let text = |value: &serde_json::Value| value.as_str().unwrap_or_default().to_owned();
    log.map(|one| (text(&one["agent"]["session_id"]), text(&one["detail"]["note"]))).collect()
}

/// The broker was killed, so that nothing ended what it had open: the next one does, once, and with all that was theirs.
#[test]
fn what_a_killed_broker_had_open_is_ended_by_the_next() {
    const WHY: &str = "its broker was gone without ending it";
    let mut world = World::with_token();
    let _origin = world.origin(ALLOWED);
    world.write_config();
    gated(&world, "session");
    unlock(&world);
    let script = format!("{USE}; echo; exec sleep 300");
    let mut run = world.keyless(&["run", "--", "sh", "-c", &script]).without_passphrase().start();
    wait_until("it is asked for", || !pending(&world).is_empty());
    approve(&world, &[pending(&world)[0]["id"].as_str().unwrap(), "--session"]).ok();
    assert_eq!(run.line(), "200");
    let standing = || approve(&world, &["--list", "--json"]).data()["standing"].clone();
    assert_eq!(standing().as_array().unwrap().len(), 1);
    let killed = agents(&world).remove(0);
    assert!(ends(&world).is_empty());

    kill_broker(&world);
    drop(run);
    // A run that opens the store by itself is a broker too; its own session lives.
    let own = world.keyless(&["run", "--", "sh", "-c", "echo up; exec sleep 300"]);
    let mut own = own.start();
    assert_eq!(own.line(), "up");
    let ended = [(killed.clone(), WHY.to_owned())];
    assert_eq!(ends(&world), ended);
    assert_eq!(standing(), json!([]));
    let alone = agents(&world);
    assert!(alone.len() == 1 && alone[0] != killed, "{alone:?}");
    let left = std::fs::read_dir(world.home.keyless_home().join("run")).unwrap();
    let left = left.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let left: Vec<_> = left.filter(|name| name.starts_with(&killed)).collect();
    assert!(left.is_empty(), "{left:?}");

    // While that one lives, a service that begins leaves it alone; once it was killed, the next one does not.
    unlock(&world);
    assert_eq!((agents(&world), ends(&world)), (alone.clone(), ended.to_vec()));
    own.signal(Signal::KILL);
    own.wait();
    kill_broker(&world);
    unlock(&world);
    assert_eq!(agents(&world), [""; 0]);
    assert_eq!(ends(&world)[1..], [(alone[0].clone(), WHY.to_owned())]);
    kill_broker(&world);
    unlock(&world);
    assert_eq!(ends(&world).len(), 2);
    world.keyless(&["audit", "verify"]).run().ok();
}
