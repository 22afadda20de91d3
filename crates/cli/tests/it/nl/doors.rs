//! The whole story at every door: registered, granted, acting in every way, denied, rotated, revoked.

use super::*;

fn story(over: &str) {
    let mut world = with_secrets();
    let github = world.origin("api.github.com");
    world.add("team/github/token", &["--to", "api.github.com"]).ok();
    let served = Served::with(&world, "detection = 'record'");
    let grant = ["grant", "create", "--agent", AGENT, "--for", "1h", "--action", "*", "--id", "g1"];
    let secrets = ["--secret", "db/*", "--secret", "github/*"];
    world.keyless(&[&grant[..], &secrets].concat()).run().ok();
    let hello = json!({ "door": over, "as": "helper", "send": ["agent_get", {
        "instance_id": served.agents["helper"]["instance_id"],
    }] });
    let step = |action: Value| json!({ "door": over, "action": action });
    let count = json!({ "type": "exec", "template": "printf %s {{nl:db/PASSWORD}} | wc -c" });
    let answers = served.client(&json!([
        hello,
        step(count.clone()),
        step(json!({
            "type": "template", "template_content": "P={{nl:db/PASSWORD}}\n", "output_path": "a.env",
        })),
        step(json!({
            "type": "inject_stdin", "command": "cat", "secret_ref": "{{nl:db/PASSWORD}}",
        })),
        step(json!({
            "type": "inject_tempfile", "command": "stat -c %a {{nl:KEY}}",
            "file_refs": { "KEY": "{{nl:db/PASSWORD}}" },
        })),
        step(json!({
            "type": "sdk_proxy", "provider": "github", "service": "users",
            "operation": "get_authenticated", "parameters": {},
            "credentials_ref": "{{nl:github/TOKEN}}",
        })),
        step(json!({
            "type": "delegate", "delegate_to": HELPER, "delegated_action": count,
            "delegation_scope": { "secrets": ["db/PASSWORD"], "max_uses": 1, "ttl_seconds": 60 },
        })),
        step(json!({ "type": "exec", "template": "psql {{nl:db/PASSWORD}}", "dry_run": true })),
        step(json!({ "type": "exec", "template": "true {{nl:api/TOKEN}}" })),
        { "door": over, "send": ["delegation_request", {
            "delegate_to": HELPER,
            "delegation_scope": { "secrets": ["db/PASSWORD"], "actions": ["exec"], "max_uses": 2 },
        }] },
    ]));
    let length = format!("{}\n", world.canary.value().len());
    assert_eq!(answers[0]["agent_uri"], HELPER, "{}", answers[0]);
    assert_eq!(answers[1]["result"]["stdout"], length, "{}", answers[1]);
    assert_eq!(answers[2]["result"]["permissions"], "0600", "{}", answers[2]);
    assert_eq!(answers[3]["result"]["stdout"], "[REDACTED:db/PASSWORD]\n", "{}", answers[3]);
    assert_eq!(answers[4]["result"]["stdout"], "400\n", "{}", answers[4]);
    assert_eq!(answers[5]["status"], "success", "{}", answers[5]);
    world.assert_received(&github);
    assert_eq!(answers[6]["result"]["stdout"], length, "{}", answers[6]);
    assert_eq!(answers[7]["status"], "dry_run_ok", "{}", answers[7]);
    assert_eq!(answers[8]["status"], "denied", "{}", answers[8]);
    let token = &answers[9]["token_id"];
    let since = jiff::Timestamp::now().to_string();
    let rotate = ["secret", "rotate", BOXED, "--value-stdin"];
    let fresh = world.another_value() + "longer";
    world.keyless(&rotate).stdin(fresh.clone()).run().ok();
    let under = json!({
        "door": over, "as": "helper", "action": count, "delegation": { "token_id": token },
    });
    let answers = served.client(&json!([
        { "door": over, "send": ["rotation_notification", { "since": since }] },
        step(count.clone()),
        under,
        { "door": over, "send": ["delegation_revoke", { "token_id": token }] },
        under,
    ]));
    assert_eq!(answers[0]["rotations"][0]["secret_ref"], BOXED, "{}", answers[0]);
    let length = format!("{}\n", fresh.len());
    assert_eq!(answers[1]["result"]["stdout"], length, "{}", answers[1]);
    assert_eq!(answers[2]["result"]["stdout"], length, "{}", answers[2]);
    assert_eq!(answers[3]["status"], "revoked", "{}", answers[3]);
    assert_eq!(answers[4]["status"], "denied", "{}", answers[4]);
    world.keyless(&["grant", "revoke", "g1"]).run().ok();
    let denied = served.client(&json!([step(count)])).remove(0);
    assert_eq!(denied["status"], "denied", "{denied}");
}

#[test]
fn the_whole_story_over_http() {
    story("http");
}

#[test]
fn the_whole_story_over_a_unix_socket() {
    story("unix");
}

#[test]
fn the_whole_story_over_stdio() {
    story("stdio");
}

/// What comes back would not be recognised, wherever the value was read.
#[test]
fn an_encoder_of_what_a_command_reads_is_stopped() {
    let world = with_secrets();
    let served = Served::with(&world, "detection = 'record'");
    let grant = ["grant", "create", "--agent", AGENT, "--for", "1h", "--action", "*"];
    world.keyless(&[&grant[..], &["--secret", "db/*"]].concat()).run().ok();
    let step = |action: Value| json!({ "door": "http", "action": action });
    let secret = "{{nl:db/PASSWORD}}";
    let stdin =
        |command: &str| json!({ "type": "inject_stdin", "command": command, "secret_ref": secret });
    let file = |command: &str| json!({ "type": "inject_tempfile", "command": command, "file_refs": { "KEY": secret } });
    let exec = |template: &str| json!({ "type": "exec", "template": template });
    let rendered = json!({
        "type": "template", "template_content": "P={{nl:db/PASSWORD}}\n", "output_path": "a.env",
    });
    let answers = served.client(&json!([
        step(rendered),
        step(stdin("base64")),
        step(file("xxd {{nl:KEY}}")),
        step(exec("base64 /tmp/nl-secure/a.env")),
        step(exec("base64 <<X\n{{nl:db/PASSWORD}}\nX")),
        step(stdin("wc -c")),
        step(file("base64 {{nl:KEY}} | wc -c")),
        step(exec("wc -l < /tmp/nl-secure/a.env")),
    ]));
    assert_eq!(answers[0]["status"], "success", "{}", answers[0]);
    for stopped in &answers[1..5] {
        assert_eq!(stopped["error"]["details"]["rule_id"], "KL-REFENC", "{stopped}");
    }
    for done in &answers[5..] {
        assert_eq!(done["status"], "success", "{done}");
    }
}
