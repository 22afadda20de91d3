//! An organization's administrator at every door: registers, looks, revokes and reads the log by message.

use super::*;

const WORKER: &str = "nl://acme.corp/worker/1.0.0";
const COLLEAGUE: &str = "nl://acme.corp/colleague/1.0.0";

fn administers(over: &str) {
    let world = with_secrets();
    let mut served = Served::start(&world);
    let register = ["agent", "register", "nl://acme.corp/onboarding/1.0.0", "--organization"];
    let data = world.keyless(&[&register[..], &["acme", "--administrator", "--json"]].concat());
    let data = data.run().data();
    assert_eq!(data["aid"]["metadata"]["administrator"], true, "{data}");
    served.know("admin", &data);
    let listed = world.keyless(&["agent", "list"]).run().ok();
    assert!(listed.contains("provisioned, administrator"), "{listed}");

    let wanted = json!({
        "agent_uri": WORKER, "organization_id": "acme", "agent_type": "ci_cd_pipeline",
        "capabilities": ["exec", "delegate"], "scope": { "projects": ["*"], "environments": ["*"] },
        "delegated_by": { "type": "human", "identifier": "ann@acme.corp" },
        "requested_ttl_hours": 2,
    });
    let send = |name: &str, kind: &str, payload: Value| json!({ "door": over, "as": name, "send": [kind, payload] });
    let answers = served.client(&json!([
        send("agent", "agent_register", wanted.clone()),
        send("admin", "agent_register", wanted),
    ]));
    let refused = answers[0]["error"].to_string();
    assert!(refused.contains("NL-E100") && refused.contains("--administrator"), "{refused}");
    let worker = &answers[1];
    assert_eq!(worker["aid"]["lifecycle"], "provisioned", "{worker}");
    assert_eq!(worker["aid"]["trust_level"], "L1");
    assert_eq!(worker["aid"]["delegated_by"]["identifier"], "ann@acme.corp");
    assert_eq!(worker["credential"]["type"], "api_key");
    served.know("worker", worker);
    let instance = &worker["aid"]["instance_id"];

    let act = json!({
        "door": over, "as": "worker", "action": { "type": "exec", "template": "true {{nl:db/PASSWORD}}" },
    });
    // It is somebody now, and may do what a grant says: the operator's word, not the administrator's.
    assert_eq!(served.client(&json!([act])).remove(0)["status"], "denied");
    granted_with(&world, WORKER, &["db/*"], &["--organization", "acme"]);
    let scope = json!({ "secrets": ["db/PASSWORD"], "actions": ["exec"], "max_uses": 2 });
    let handed = send(
        "worker",
        "delegation_request",
        json!({ "delegate_to": COLLEAGUE, "delegation_scope": scope }),
    );
    let colleague = ["agent", "register", COLLEAGUE, "--organization", "acme"];
    world.keyless(&colleague).run().ok();
    let token = served.client(&json!([handed])).remove(0)["token_id"].clone();
    // Neither whom it is for nor an agent elsewhere can end it; the administrator of who issued it can.
    let end = json!({ "token_id": token });
    let answers = served.client(&json!([
        send("helper", "delegation_revoke", end.clone()),
        send("admin", "delegation_revoke", end),
    ]));
    assert!(answers[0]["error"].to_string().contains("NL-E700"), "{}", answers[0]);
    assert_eq!(answers[1]["status"], "revoked", "{}", answers[1]);
    let shown = world.keyless(&["delegation", "list", "--json"]).run().data();
    let reason = &shown["delegations"][0]["token"]["revoked"]["reason"];
    assert_eq!(*reason, "by an administrator", "{shown}");
    let revocation = json!({
        "revocation_id": "rev-1", "agent_uri": WORKER, "scope": "global", "reason": "compromised",
        "effective": "immediate", "revoke_delegations": true, "cancel_inflight": true,
    });
    let answers = served.client(&json!([
        act,
        send("admin", "agent_get", json!({ "instance_id": instance })),
        send("agent", "audit_query", json!({ "target": BOXED, "page_size": 5 })),
        send("admin", "audit_query", json!({ "target": BOXED, "page_size": 5 })),
        send("agent", "revocation_request", revocation.clone()),
        send("admin", "revocation_request", revocation),
        act,
    ]));
    assert_eq!(answers[0]["status"], "success", "{}", answers[0]);
    assert!(answers[1]["last_active_at"].is_string(), "{}", answers[1]);
    assert!(answers[2]["error"].to_string().contains("NL-E501"), "{}", answers[2]);
    let page = &answers[3];
    assert_eq!(page["pagination"], json!({ "page": 1, "page_size": 5, "total": 2 }), "{page}");
    assert_eq!(page["results"][1]["agent"]["session_id"], *instance, "{page}");
    assert_eq!(answers[5]["status"], "completed", "{}", answers[5]);
    assert_eq!(answers[5]["revocation_id"], "rev-1");
    assert_eq!(answers[5]["local_result"]["aid_revoked"], true);
    let refused = answers[6]["error"].to_string();
    assert!(answers[4]["error"].is_object() && refused.contains("NL-E104"), "{answers:?}");
    let log = world.log();
    let ended = log.iter().find(|entry| {
        entry["action"] == "agent_transition"
            && entry["target"].to_string().contains(instance.as_str().unwrap())
            && entry["detail"]["note"].to_string().contains("compromised")
    });
    assert_eq!(ended.unwrap()["agent"]["uri"], "nl://acme.corp/onboarding/1.0.0");
    assert!(
        !serde_json::to_string(&log)
            .unwrap()
            .contains(worker["credential"]["value"].as_str().unwrap())
    );
}

#[test]
fn an_administrator_does_its_work_over_http() {
    administers("http");
}

#[test]
fn an_administrator_does_its_work_over_a_unix_socket() {
    administers("unix");
}

#[test]
fn an_administrator_does_its_work_over_stdio() {
    administers("stdio");
}

/// Chapter 01, 11.5.
#[test]
fn an_agent_gets_a_new_credential_and_its_old_one_is_nobodys() {
    let world = with_secrets();
    let mut served = Served::start(&world);
    let register = ["agent", "register", "nl://acme.corp/onboarding/1.0.0", "--administrator"];
    let data = world.keyless(&[&register[..], &["--json"]].concat()).run().data();
    served.know("admin", &data);
    let instance = |served: &Served<'_>, name: &str| served.agents[name]["instance_id"].clone();
    let own = |name: &str| json!({ "over": "http", "as": name, "method": "GET", "path": "/nl/v1/rotations" });
    let rotate = |served: &Served<'_>, by: &str, whose: &str| {
        let payload = json!({ "instance_id": instance(served, whose), "reason": "a test" });
        json!({ "door": "http", "as": by, "send": ["x_keyless_rotate_credential", payload] })
    };
    // By the operator, while the agent works.
    assert_eq!(served.client(&json!([own("agent")]))[0]["status"], 200);
    let by = ["agent", "rotate", AGENT, "--reason", "it was in a log", "--json"];
    let rotated = world.keyless(&by).run().data();
    assert_eq!(rotated["aid"]["instance_id"], instance(&served, "agent"), "{rotated}");
    assert_eq!(served.client(&json!([own("agent")]))[0]["status"], 401);
    let mut credentials = vec![served.agents["agent"]["credential"].clone()];
    served.know("agent", &rotated);
    assert_eq!(served.client(&json!([own("agent")]))[0]["status"], 200);
    // By itself; its connection, which was opened with the old one, is nobody's as well.
    let asks = json!([["x_keyless_rotate_credential", {}], ["agent_get", {}]]);
    let told = served.client(&json!([{ "over": "unix", "messages": asks }])).remove(0);
    let rotated = &told[1]["payload"];
    assert_eq!(rotated["credential"]["type"], "api_key", "{told}");
    assert_eq!(told[2]["payload"]["error"]["code"], "NL-E100", "{told}");
    credentials.push(served.agents["agent"]["credential"].clone());
    served.know("agent", rotated);
    // Another agent has no say in it, nor has an administrator about those that the operator registered.
    let wanted = json!({
        "agent_uri": WORKER, "organization_id": "local", "agent_type": "ci_cd_pipeline", "capabilities": ["exec"],
        "delegated_by": { "type": "human", "identifier": "ann@acme.corp" }, "requested_ttl_hours": 2,
    });
    let registered = json!([{ "door": "http", "as": "admin", "send": ["agent_register", wanted] }]);
    served.know("worker", &served.client(&registered).remove(0));
    let answers = served.client(&json!([
        rotate(&served, "helper", "worker"),
        rotate(&served, "helper", "agent"),
        rotate(&served, "admin", "agent"),
        own("agent"),
        rotate(&served, "admin", "worker"),
        own("worker"),
    ]));
    for answer in &answers[..3] {
        assert!(answer["error"].to_string().contains("NL-E100"), "{answer}");
    }
    assert_eq!(answers[3]["status"], 200, "{}", answers[3]);
    assert_eq!(answers[5]["status"], 401, "{}", answers[5]);
    credentials.push(served.agents["worker"]["credential"].clone());
    served.know("worker", &answers[4]);
    assert_eq!(served.client(&json!([own("worker")]))[0]["status"], 200, "{}", answers[4]);
    let log = world.log();
    let rotations = log.iter().filter(|entry| entry["action"] == "agent_rotate");
    let by: Vec<_> =
        rotations.map(|entry| (&entry["agent"]["uri"], &entry["detail"]["note"])).collect();
    assert_eq!(by.len(), 3, "{by:?}");
    assert_eq!(by[0].1, "credential rotated: it was in a log");
    assert_eq!((by[1].0, by[2].0), (&json!(AGENT), &json!("nl://acme.corp/onboarding/1.0.0")));
    let log = serde_json::to_string(&log).unwrap();
    assert!(credentials.iter().all(|old| !log.contains(old.as_str().unwrap())));

    // In a file, and of nobody who is no more.
    let file = world.operator_file("bot.credential");
    let place = file.to_str().unwrap();
    let said = world.keyless(&["agent", "rotate", AGENT, "--credential-file", place]).run().ok();
    let kept = std::fs::read_to_string(&file).unwrap();
    assert!(kept.starts_with("nlk_") && !said.contains(kept.trim()), "{said}");
    // No jail shows it: what is in there would act as this agent.
    let seen = world.keyless(&["run", "--no-secrets", "--", "cat", place]).run();
    assert_eq!(seen.text(), "", "{}", seen.errors());
    world.keyless(&["agent", "revoke", AGENT]).run().ok();
    let refused = world.keyless(&["agent", "rotate", AGENT]).run();
    assert!(refused.errors().contains("revoked"), "{}", refused.errors());
}
