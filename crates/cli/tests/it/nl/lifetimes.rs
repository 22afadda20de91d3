//! How long a value is where: in an action that has begun, and in the broker's memory.

use std::process::{Command, id};

use super::*;
use crate::world::wait_until;

/// A program that an action waits for until the test ends it.
struct Pause {
    /// Its arguments, which no other test's has.
    program: String,
}

impl Pause {
    fn new(seconds: u32) -> Self {
        Self { program: format!("sleep {seconds}.{}", id()) }
    }

    fn pid(&self) -> Option<String> {
        let lines = Command::new("ps").args(["-eo", "pid,args"]).output().unwrap();
        let lines = String::from_utf8_lossy(&lines.stdout).into_owned();
        let ours = |line: &str| {
            let (pid, args) = line.trim().split_once(' ')?;
            (args == self.program).then(|| pid.to_owned())
        };
        lines.lines().find_map(ours)
    }

    fn begun(&self) {
        wait_until("the action has come to its pause", || self.pid().is_some());
    }

    fn end(&self) {
        assert!(Command::new("kill").arg(self.pid().unwrap()).status().unwrap().success());
    }

    /// What hashes the value that it reads once the pause is over.
    fn then_hash(&self) -> Value {
        let command = format!("read V; {}; printf %s \"$V\" | sha256sum", self.program);
        json!({
            "type": "inject_stdin", "command": command, "secret_ref": "{{nl:db/PASSWORD}}",
            "timeout_ms": 600_000,
        })
    }
}

fn hash(answer: &Value) -> String {
    let text = answer["body"]["result"]["stdout"].as_str();
    text.unwrap_or_else(|| panic!("{answer}"))[..64].to_owned()
}

/// NL-2.16, NL-2.17.
#[test]
fn an_action_under_way_keeps_its_value_and_the_next_has_the_new_one() {
    let world = with_secrets();
    let served = Served::start(&world);
    granted(&world, AGENT, &["db/*"]);
    let at_once = json!({
        "type": "inject_stdin", "command": "read V; printf %s \"$V\" | sha256sum",
        "secret_ref": "{{nl:db/PASSWORD}}",
    });
    let before = hash(&served.act(&at_once));
    let pause = Pause::new(590);
    let mut under_way = served.acting(&pause.then_hash());
    pause.begun();
    let rotate = ["secret", "rotate", BOXED, "--value-stdin"];
    world.keyless(&rotate).stdin(world.another_value()).run().ok();
    let after = hash(&served.act(&at_once));
    assert_ne!(after, before);
    pause.end();
    let answers: Value = serde_json::from_str(&under_way.line()).unwrap();
    assert_eq!(hash(&answers[0]), before);
}

/// NL-5.1: of an action whose broker was killed in the middle the next one says in the log that it has no end.
#[test]
fn what_a_killed_broker_was_at_is_on_record() {
    let world = with_secrets();
    let mut served = Served::start(&world);
    granted(&world, AGENT, &["db/*"]);
    let over = served.act(&json!({ "type": "exec", "template": "true {{nl:db/PASSWORD}}" }));
    assert_eq!(over["body"]["status"], "success", "{over}");
    // What another process of this home is at goes on.
    let other = Pause::new(550);
    let template = format!("true {{{{nl:db/PASSWORD}}}}; {}; true", other.program);
    let mut goes_on = world.keyless(&["exec", "--timeout", "600", "--", &template]).start();
    other.begun();
    let pause = Pause::new(560);
    let _under_way = served.acting(&pause.then_hash());
    pause.begun();
    let of_it = |entry: &Value| entry["action"] == "inject_stdin";
    let released = world.log().into_iter().find(of_it).unwrap();
    assert_eq!(released["detail"]["kind"], "released");
    for _ in 0..2 {
        served.kill_and_begin_again();
        let log = world.log();
        let ends: Vec<_> =
            log.iter().filter(|entry| entry["error_code"] == "action_interrupted").collect();
        let [end] = &ends[..] else { panic!("{ends:#?}") };
        for member in
            ["agent", "action", "target", "secrets_used", "correlation_id", "delegated_by"]
        {
            assert_eq!(end[member], released[member], "{member}");
        }
        assert_eq!(
            (&end["result"], &end["detail"]["action_id"]),
            (&json!("error"), &released["detail"]["action_id"])
        );
        assert_eq!(end["detail"]["note"], "its broker was gone before it ended");
    }
    other.end();
    assert!(goes_on.wait().success());
    // A broker that ends by itself says so of what it is at.
    let pause = Pause::new(540);
    let mut under_way = served.acting(&pause.then_hash());
    pause.begun();
    world.keyless(&["lock"]).run().ok();
    let answers: Value = serde_json::from_str(&under_way.line()).unwrap();
    let error = &answers[0]["body"]["error"];
    assert_eq!(error["keyless_code"], "action_interrupted", "{answers}");
    served.broker.wait();
    let ended = world.log().into_iter().rfind(of_it).unwrap();
    let told = (&ended["error_code"], &ended["detail"]["exit_code"]);
    assert_eq!(told, (&json!("action_interrupted"), &Value::Null), "{ended}");
    assert_eq!(world.keyless(&["audit", "verify", "--json"]).run().data()["status"], "valid");
}

/// NL-3.2: the environment of an action's programs is its own, their arguments are not; it is told so.
#[test]
fn another_account_reads_no_variable_and_an_argument_is_warned_of() {
    let world = with_secrets();
    let served = Served::start(&world);
    granted(&world, AGENT, &["db/*"]);
    let pause = Pause::new(570);
    let template = format!("V={{{{nl:db/PASSWORD}}}} {}; true", pause.program);
    let action = json!({ "type": "exec", "template": template, "timeout_ms": 600_000 });
    let mut under_way = served.acting(&action);
    pause.begun();
    let look = "cat /proc/*/cmdline /proc/*/environ 2>/dev/null; true";
    let account = ["--reuid=65534", "--regid=65534", "--clear-groups", "sh", "-c", look];
    // Only root may become somebody else.
    let seen = Command::new("setpriv").args(account).output().unwrap();
    assert!(world.canary.find(&seen.stdout).is_none());
    if seen.status.success() {
        let program = pause.program.replace(' ', "\0");
        let is_seen = seen.stdout.windows(program.len()).any(|part| part == program.as_bytes());
        assert!(is_seen, "its arguments are");
    }
    pause.end();
    let answers: Value = serde_json::from_str(&under_way.line()).unwrap();
    assert_eq!(answers[0]["body"].get("warnings"), None, "{answers}");
    let shown = json!({ "type": "exec", "template": "expr length {{nl:db/PASSWORD}}" });
    let answer = served.act(&shown);
    let warning = answer["body"]["warnings"][0].as_str().unwrap_or_else(|| panic!("{answer}"));
    assert!(warning.starts_with("db/PASSWORD: it stands in a program's arguments"), "{warning}");
}

/// NL-1.5. What it begins once it may act again is another matter.
#[test]
fn a_suspension_ends_what_is_under_way() {
    let world = with_secrets();
    let served = Served::start(&world);
    granted(&world, AGENT, &["db/*"]);
    let instance = served.agents["agent"]["instance_id"].as_str().unwrap();
    let pause = Pause::new(605);
    let mut under_way = served.acting(&pause.then_hash());
    pause.begun();
    world.keyless(&["agent", "suspend", instance]).run().ok();
    let answers: Value = serde_json::from_str(&under_way.line()).unwrap();
    let told = (&answers[0]["body"]["status"], &answers[0]["body"]["error"]["nl_code"]);
    assert_eq!(told, (&json!("denied"), &json!("NL-E103")), "{answers}");
    wait_until("its process has ended", || pause.pid().is_none());
    world.keyless(&["agent", "activate", instance]).run().ok();
    let answer = served.act(&json!({ "type": "exec", "template": "true {{nl:db/PASSWORD}}" }));
    assert_eq!(answer["body"]["status"], "success", "{answer}");
}

/// NL-3.3, read by an account that may: nobody else gets as far (`mcp::neighbours`).
#[test]
fn a_brokers_memory_has_no_value_of_an_agent_that_is_no_more() {
    let world = with_secrets();
    let served = Served::with(&world, "detection = 'record'");
    granted(&world, AGENT, &["db/*"]);
    let Ok(before) = served.broker.memory() else { return };
    let holds_value = || world.canary.find(&served.broker.memory().unwrap()).is_some();
    assert!(before.len() > 1_000_000 && world.canary.find(&before).is_none());
    let shown =
        json!({ "type": "inject_stdin", "command": "cat", "secret_ref": "{{nl:db/PASSWORD}}" });
    let entered =
        json!({ "type": "exec", "template": "sh -c 'printf %s \"$1\"' x {{nl:db/PASSWORD}}" });
    let in_file = json!({
        "type": "inject_tempfile", "command": "cat {{nl:F}}", "file_refs": { "F": "{{nl:db/PASSWORD}}" },
    });
    let rendered = json!({ "type": "template", "template_content": "x={{nl:db/PASSWORD}}", "output_path": "x" });
    for action in [&shown, &entered, &in_file, &rendered] {
        let answer = served.act(action);
        assert_eq!(answer["body"]["status"], "success", "{answer}");
    }
    // Looked for in whatever the agent does next: it would be seen if it were there.
    assert!(holds_value());
    let instance = served.agents["agent"]["instance_id"].as_str().unwrap();
    world.keyless(&["agent", "revoke", instance]).run().ok();
    wait_until("nothing of it is left", || !holds_value());
}
