//! What a client that has chapter 08 in hand finds at the door: statuses, codes, headers, forms.

use std::{
    io::{Read as _, Write as _},
    os::unix::fs::PermissionsExt as _,
};

use super::*;

/// A body as a bare action request, but for these changes; `null` takes a member away.
fn bare(served: &Served<'_>, changes: &Value) -> Value {
    let mut body = json!({
        "nl_version": "1.0", "request_id": format!("req_{}", jiff::Timestamp::now().as_nanosecond()),
        "agent": claim(served), "action": { "type": "exec", "template": "true" },
    });
    for (key, value) in changes.as_object().unwrap() {
        if value.is_null() {
            body.as_object_mut().unwrap().remove(key);
        } else {
            body[key] = value.clone();
        }
    }
    body
}

fn claim(served: &Served<'_>) -> Value {
    let agent = &served.agents["agent"];
    json!({ "agent_uri": agent["agent_uri"], "instance_id": agent["instance_id"] })
}

fn enveloped(id: &str, payload: &Value) -> Value {
    json!({
        "nl_version": "1.0", "message_type": "action_request", "message_id": id,
        "timestamp": format!("{:.3}", jiff::Timestamp::now()), "payload": payload,
    })
}

fn post(path: &str, body: &Value) -> Value {
    json!({ "over": "http", "method": "POST", "path": path, "body": body })
}

fn told(answer: &Value) -> (u64, &str) {
    let body = &answer["body"];
    let error = body.get("error").unwrap_or(&body["payload"]["error"]);
    let code = error["nl_code"].as_str().or_else(|| error["code"].as_str());
    (answer["status"].as_u64().unwrap(), code.unwrap_or_default())
}

#[test]
fn each_fault_has_the_registrys_status() {
    let world = with_secrets();
    let served = Served::start(&world);
    granted(&world, AGENT, &["db/*"]);
    let other = served.agents["helper"]["instance_id"].as_str().unwrap();
    let nobody = "/nl/v1/delegations/00000000-0000-4000-8000-000000000000";
    let actions = |changes: &Value| post("/nl/v1/actions", &bare(&served, changes));
    let delegation = |scope: &Value| {
        let body = json!({ "agent": claim(&served), "subject": HELPER, "scope": scope });
        post("/nl/v1/delegations", &body)
    };
    let at = |method: &str, path: &str| json!({ "over": "http", "method": method, "path": path });
    let scope = json!({ "secrets": ["db/PASSWORD"], "max_uses": 1 });
    let no_use = json!({ "secrets": ["db/PASSWORD"], "max_uses": 0 });
    let bounded = json!({ "secrets": ["db/PASSWORD"], "resource_constraints": { "exec": {} } });
    let exec = |template: &str| json!({ "action": { "type": "exec", "template": template } });
    let placed = json!({ "type": "template", "template_content": "x", "output_path": "/etc/x" });
    let said = json!({ "type": "exec", "template": "true", "purpose": "{{nl:db/PASSWORD}}" });
    let mut typed = actions(&json!({}));
    typed["headers"] = json!({ "Content-Type": "text/plain" });
    let mut nobody_s = actions(&json!({}));
    nobody_s["headers"] = json!({ "Authorization": "Bearer nlk_guessed" });
    let mut of_page = at("GET", "/nl/v1/health");
    of_page["headers"] = json!({ "Origin": "http://a.test" });
    let mut large = actions(&json!({}));
    large["text"] = " ".repeat((1 << 20) + 1).into();
    let slow = json!({ "type": "exec", "template": "sleep 9", "timeout_ms": 1000 });
    let of_type = |kind: &str| json!({ "action": { "type": kind } });
    let later = json!({
        "nl_version": "1.0", "message_type": "action_request", "message_id": "m-1",
        "timestamp": "2020-01-01T00:00:00.000Z", "payload": {},
    });
    let cases = [
        (actions(&json!({})), (200, "")),
        (actions(&json!({ "nl_version": null })), (400, "NL-E800")),
        (actions(&json!({ "request_id": null })), (400, "NL-E800")),
        (actions(&json!({ "nl_version": "2.0" })), (400, "NL-E801")),
        (actions(&exec("true \0 x")), (400, "NL-E800")),
        (actions(&json!({ "action": placed })), (400, "NL-E800")),
        (actions(&json!({ "action": said })), (400, "NL-E301")),
        (delegation(&scope), (201, "")),
        (delegation(&no_use), (422, "NL-E704")),
        (delegation(&bounded), (422, "NL-E704")),
        (at("DELETE", nobody), (404, "NL-E700")),
        (at("GET", &format!("/nl/v1/agents/{other}")), (404, "NL-E100")),
        (at("GET", "/nl/v1/nowhere"), (404, "NL-E806")),
        (at("GET", "/nl/v1/actions"), (405, "NL-E806")),
        (at("GET", "/nl/v1/audit"), (403, "NL-E501")),
        (nobody_s, (401, "NL-E100")),
        (actions(&exec("true {{nl:api/TOKEN}}")), (403, "NL-E200")),
        (of_page, (421, "NL-E205")),
        (actions(&of_type("steal")), (400, "NL-E300")),
        (actions(&exec("true {{nl:../db/PASSWORD}}")), (400, "NL-E301")),
        (actions(&exec("true {{nl:db/PASSWORD@v01}}")), (400, "NL-E301")),
        (actions(&exec("true {{nl:THERE}}")), (404, "NL-E302")),
        (actions(&json!({ "action": slow })), (408, "NL-E303")),
        (actions(&exec("true {{nl:nowhere://a}}")), (400, "NL-E306")),
        (actions(&exec("true {{nl:@a.test/B}}")), (404, "NL-E700")),
        (actions(&exec("cat .env")), (403, "NL-E400")),
        (large, (413, "NL-E803")),
        (typed, (415, "NL-E804")),
        (post("/nl/v1/actions", &later), (400, "NL-E805")),
        (actions(&exec("false")), (200, "NL-EX01")),
    ];
    let steps: Vec<Value> = cases.iter().map(|(step, _)| step.clone()).collect();
    let begun = jiff::Timestamp::now().as_second();
    let answers = served.client(&json!(steps));
    for ((step, expected), answer) in cases.iter().zip(&answers) {
        assert_eq!(told(answer), *expected, "{step}: {answer}");
    }
    assert_eq!(answers[10]["body"]["error"]["detail"]["reason"], "delegation_not_found");
    assert_eq!(answers[11]["body"]["error"]["detail"]["instance_id"], other);
    assert_eq!(answers[13]["allow"], "POST");
    let now = jiff::Timestamp::now().as_second();
    // A page is nobody, and is not counted.
    for answer in answers.iter().filter(|answer| answer["status"] != 421) {
        let reset: i64 = answer["reset"].as_str().unwrap().parse().unwrap();
        assert!((begun..=now + 61).contains(&reset), "{answer}");
    }
}

/// NL-8.17, NL-8.18, NL-8.22; chapter 08, section 9.
#[test]
fn who_sends_too_much_is_told_when_to_come_back() {
    let world = with_secrets();
    let served = Served::start(&world);
    let path = |name: &str| {
        format!("/nl/v1/agents/{}", served.agents[name]["instance_id"].as_str().unwrap())
    };
    let get =
        |name: &str| json!({ "over": "http", "as": name, "method": "GET", "path": path(name) });
    // What is refused counts as well.
    let elsewhere = json!({ "over": "http", "method": "GET", "path": path("helper") });
    let mut steps = vec![elsewhere];
    steps.extend(vec![get("agent"); 121]);
    steps.extend([
        get("helper"),
        json!({ "over": "http", "method": "GET", "path": "/nl/v1/health" }),
    ]);
    let begun = jiff::Timestamp::now();
    let answers = served.client(&json!(steps));
    for (sent, answer) in answers[..120].iter().enumerate() {
        let status = if sent == 0 { 404 } else { 200 };
        assert_eq!(answer["status"], status, "{answer}");
        let left = (119 - sent).to_string();
        assert_eq!((&answer["limit"], &answer["remaining"]), (&json!("120"), &json!(left)));
        assert_eq!(answer["retry_after"], Value::Null);
    }
    for answer in &answers[120..122] {
        assert_eq!(told(answer), (429, "NL-E202"), "{answer}");
        let detail = &answer["body"]["error"]["detail"];
        assert_eq!(
            (&detail["limit"], &detail["window_seconds"], &detail["scope"]),
            (&json!(120), &json!(60), &json!("per_agent"))
        );
        let wait = detail["retry_after_seconds"].as_i64().unwrap();
        assert!((1..=60).contains(&wait), "{detail}");
        assert_eq!(answer["retry_after"], wait.to_string());
        assert_eq!((&answer["limit"], &answer["remaining"]), (&json!("120"), &json!("0")));
        let reset: jiff::Timestamp = detail["reset_at"].as_str().unwrap().parse().unwrap();
        let seconds: i64 = answer["reset"].as_str().unwrap().parse().unwrap();
        assert!(reset > begun && (reset.as_second() - seconds).abs() <= 1, "{answer}");
    }
    // Neither another agent nor who is nobody is kept by that.
    let [helper, health] = &answers[122..] else { panic!("{answers:#?}") };
    assert_eq!((&helper["status"], &helper["remaining"]), (&json!(200), &json!("119")));
    assert_eq!((&health["status"], &health["limit"]), (&json!(200), &json!("300")));
    assert_eq!(health["backpressure"], Value::Null);
}

/// NL-5.1: what is refused before it is read is on record too, as whose it is.
#[test]
fn what_nobody_reads_is_on_record() {
    let world = with_secrets();
    let served = Served::with(&world, "[nl.rates]\nagent = 9");
    let actions = |changes: &Value| post("/nl/v1/actions", &bare(&served, changes));
    let text = |text: &str| json!({ "over": "http", "method": "POST", "path": "/nl/v1/actions", "text": text });
    let doubled = format!(
        r#"{{ "nl_version": "1.0", "request_id": "req_d", "agent": {}, "agent": 7 }}"#,
        claim(&served)
    );
    let mut typed = actions(&json!({}));
    typed["headers"] = json!({ "Content-Type": "text/plain" });
    let steps = [
        actions(&json!({ "nl_version": "2.0", "request_id": "req_v" })),
        actions(&json!({ "request_id": "a b" })),
        text(&doubled),
        text("{"),
        typed,
        text(&" ".repeat((1 << 20) + 1)),
    ];
    let expected = [
        (400, "NL-E801"),
        (400, "NL-E800"),
        (400, "NL-E800"),
        (400, "NL-E800"),
        (415, "NL-E804"),
        (413, "NL-E803"),
    ];
    let before = world.log().len();
    let answers = served.client(&json!(steps));
    let all: Vec<_> = answers.iter().map(told).collect();
    assert_eq!(all, expected, "{answers:#?}");
    assert_eq!((&answers[0]["limit"], &answers[5]["remaining"]), (&json!("9"), &json!("3")));
    let entries = world.log().split_off(before);
    let refused = |entry: &&Value| entry["detail"]["attempted_action"] == "action_request";
    let refused: Vec<_> = entries.iter().filter(refused).collect();
    let codes: Vec<_> = refused.iter().map(|entry| entry["error_code"].as_str().unwrap()).collect();
    let malformed = "message_malformed";
    let unfit = [
        "version_unsupported",
        malformed,
        malformed,
        malformed,
        "media_type_unsupported",
        "message_too_large",
    ];
    assert_eq!(codes, unfit);
    for entry in &refused {
        assert_eq!(
            (&entry["agent"]["uri"], &entry["result"]),
            (&json!(AGENT), &json!("error")),
            "{entry}"
        );
        assert_eq!(entry["detail"]["source_ip"], "127.0.0.1");
    }
    assert_eq!(refused[0]["correlation_id"], "req_v");

    // Over a socket as well. A flood of them is one entry a minute, as of other messages beyond what an agent may send.
    let before = world.log().len();
    let lines = ["{", "[]", "{", "{", "{", "{", "{", "{"];
    let answers = served.client(&json!([{ "over": "unix", "raw": lines, "messages": [] }]));
    let codes = answers[0].as_array().unwrap()[1..].iter();
    let codes: Vec<_> =
        codes.map(|answer| answer["payload"]["error"]["code"].as_str().unwrap()).collect();
    assert_eq!(
        codes,
        ["NL-E800", "NL-E800", "NL-E800", "NL-E202", "NL-E202", "NL-E202", "NL-E202", "NL-E202"]
    );
    let entries = world.log().split_off(before);
    let of = |code: &str| entries.iter().filter(|entry| entry["error_code"] == code).count();
    assert_eq!((of(malformed), of("rate_limited")), (3, 1));
}

/// Chapter 08, 9.5: before anybody is known, and so whoever it is.
#[test]
fn an_address_has_so_many_messages_whoever_sends_them() {
    let world = with_secrets();
    let served = Served::with(&world, "[nl.rates]\naddress = 4\nagent = 7");
    let me = format!("/nl/v1/agents/{}", served.agents["agent"]["instance_id"].as_str().unwrap());
    let get = |credential: Option<&str>| {
        let line = credential.map(|shown| format!("Bearer {shown}"));
        let headers = line.map_or_else(|| json!({}), |line| json!({ "Authorization": line }));
        json!({ "over": "http", "method": "GET", "path": me, "headers": headers })
    };
    let action = json!({ "type": "exec", "template": "true", "dry_run": true });
    let answers = served.client(&json!([
        get(Some("nlk_guessed")),
        get(Some("nlk_guessed_again")),
        get(Some("")),
        get(None),
        get(None),
        { "door": "unix", "action": action },
        { "over": "unix", "messages": [] },
    ]));
    let statuses: Vec<_> = answers[..5].iter().map(|answer| answer["status"].as_u64()).collect();
    assert_eq!(statuses, [401, 401, 401, 200, 429].map(Some), "{answers:#?}");
    // Who is nobody is told how the address's window stands.
    assert_eq!((&answers[1]["limit"], &answers[1]["remaining"]), (&json!("4"), &json!("2")));
    assert_eq!((&answers[3]["limit"], &answers[3]["remaining"]), (&json!("7"), &json!("6")));
    let refused = &answers[4];
    assert_eq!(told(refused), (429, "NL-E202"), "{refused}");
    let detail = &refused["body"]["error"]["detail"];
    assert_eq!((&detail["limit"], &detail["scope"]), (&json!(4), &json!("per_ip")), "{detail}");
    let wait = detail["retry_after_seconds"].as_u64().unwrap();
    assert!((1..=60).contains(&wait), "{detail}");
    assert_eq!(refused["retry_after"], wait.to_string());
    assert_eq!((&refused["limit"], &refused["remaining"]), (&json!("4"), &json!("0")));
    // The machine's own socket has no address.
    assert_eq!(answers[5]["status"], "dry_run_ok", "{}", answers[5]);
    let capabilities = &answers[6][0]["payload"]["server_capabilities"];
    assert_eq!(capabilities["rate_limit"]["requests_per_minute"], 7, "{}", answers[6]);
}

#[test]
fn messages_have_the_forms_of_the_wire() {
    let world = with_secrets();
    let served = Served::start(&world);
    let socket = world.home.keyless_home().join("run/nl.sock");
    let mode = std::fs::metadata(&socket).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let exec = |template: &str| json!({ "type": "exec", "template": template });
    let payload = |template: &str| json!({ "agent": claim(&served), "action": exec(template) });
    let mut again = payload("echo two");
    again["request_id"] = "another".into();
    let mut stranger = payload("true");
    stranger["agent"]["instance_id"] = "00000000-0000-4000-8000-000000000000".into();
    let mut named = post("/nl/v1/actions", &enveloped("m-2", &stranger));
    named["headers"] = json!({ "X-NL-Instance-ID": stranger["agent"]["instance_id"] });
    let me = format!("/nl/v1/agents/{}", served.agents["agent"]["instance_id"].as_str().unwrap());
    let answers = served.client(&json!([
        post("/nl/v1/actions", &enveloped("m-1", &payload("echo one"))),
        post("/nl/v1/actions", &enveloped("m-1", &payload("echo one"))),
        post("/nl/v1/actions", &enveloped("m-1", &again)),
        named,
        { "over": "http", "action": exec(r"printf 'a\377b'; echo c >&2") },
        { "over": "http", "method": "GET", "path": me },
        post("/nl/v1/actions", &enveloped("m-3", &stranger)),
    ]));
    let payload = |at: usize| &answers[at]["body"]["payload"];
    assert_eq!(payload(0)["result"]["stdout"], "one\n", "{}", answers[0]);
    assert_eq!(payload(1)["action_id"], payload(0)["action_id"]);
    // The envelope's id is as good for one message alone as the request's.
    assert_eq!(
        (&answers[2]["status"], &payload(2)["error"]["code"]),
        (&json!(409), &json!("NL-E802"))
    );
    // Who is not known has no action: an error is a message of its own.
    assert_eq!(
        (&answers[3]["status"], &answers[3]["body"]["message_type"]),
        (&json!(401), &json!("error"))
    );
    // Head and body name two agents.
    assert_eq!(told(&answers[6]), (400, "NL-E800"), "{}", answers[6]);
    let result = &answers[4]["body"]["result"];
    let base64 = (&json!("base64"), &json!("Yf9i"), &json!("Ywo="));
    assert_eq!((&result["encoding"], &result["stdout"], &result["stderr"]), base64);
    for time in ["created_at", "expires_at"] {
        let text = answers[5]["body"][time].as_str().unwrap();
        assert_eq!((text.len(), text.get(19..20)), (24, Some(".")), "{text}");
    }
}

#[test]
fn who_may_not_act_is_on_record_with_each_try() {
    let world = with_secrets();
    let served = Served::start(&world);
    let instance = served.agents["agent"]["instance_id"].as_str().unwrap();
    let action = json!({ "type": "exec", "template": "true" });
    assert_eq!(served.act(&action)["body"]["status"], "success");
    world.keyless(&["agent", "suspend", instance, "--reason", "a test"]).run().ok();
    let denied = served.act(&action);
    assert_eq!(told(&denied), (403, "NL-E103"), "{denied}");
    assert_eq!(denied["body"]["status"], "denied");
    let query = ["audit", "query", "--agent", AGENT, "--result", "denied", "--json"];
    let entries = world.keyless(&query).run().data()["entries"].clone();
    let entry = entries.as_array().unwrap().last().unwrap();
    assert_eq!(
        (&entry["action"], &entry["error_code"]),
        (&json!("denied"), &json!("agent_suspended"))
    );
    assert_eq!(denied["body"]["audit_ref"], format!("aud_{}", entry["sequence"]));
}

#[test]
fn what_a_known_agent_is_refused_is_on_record() {
    let world = with_secrets();
    let served = Served::start(&world);
    let actions = |changes: &Value| post("/nl/v1/actions", &bare(&served, changes));
    let unknown = json!({ "token_id": "00000000-0000-4000-8000-000000000000" });
    let attested = json!({ "attestation": "none.such.token" });
    let attested = {
        let mut agent = claim(&served);
        agent.as_object_mut().unwrap().extend(attested.as_object().unwrap().clone());
        agent
    };
    let once = json!({ "request_id": "req_once" });
    let other = json!({ "request_id": "req_once", "action": { "type": "exec", "template": "id" } });
    let exec = json!({ "type": "exec", "template": "true" });
    let batch = |count: usize| json!({ "action": null, "actions": vec![exec.clone(); count] });
    let cases = [
        (json!({ "agent": attested }), (401, "NL-E106"), "attestation_invalid"),
        (json!({ "delegation": unknown }), (400, "NL-E704"), "delegation_invalid"),
        (json!({ "delegation": "x" }), (400, "NL-E800"), "message_malformed"),
        (other, (409, "NL-E802"), "message_replayed"),
        (batch(0), (400, "NL-E800"), "message_malformed"),
        (batch(21), (400, "NL-E800"), "message_malformed"),
    ];
    let mut steps = vec![actions(&once)];
    steps.extend(cases.iter().map(|(changes, ..)| actions(changes)));
    let answers = served.client(&json!(steps));
    let log = world.log();
    for ((changes, code, word), answer) in cases.iter().zip(&answers[1..]) {
        assert_eq!(told(answer), *code, "{changes}: {answer}");
        let name = answer["body"]["audit_ref"].as_str().unwrap_or_else(|| panic!("{answer}"));
        let is_it = |entry: &&Value| name == format!("aud_{}", entry["sequence"]);
        let entry = log.iter().find(is_it).unwrap();
        assert_eq!(entry["error_code"], *word, "{entry}");
        assert_eq!(entry["agent"]["uri"], AGENT, "{entry}");
    }
    // What is not its own is an incident, of the least weight.
    let instance = served.agents["agent"]["instance_id"].as_str().unwrap();
    let shown = world.keyless(&["agent", "show", instance, "--json"]).run().data();
    assert_eq!(shown["threat"]["incidents"], 2, "{shown}");
    assert_eq!(shown["threat"]["level"], "green", "{shown}");
}

#[test]
fn who_begins_more_than_its_grant_lets_it_is_told_when_it_may_again() {
    let world = with_secrets();
    let served = Served::start(&world);
    granted_with(&world, AGENT, &["db/*"], &["--max-per-minute", "1"]);
    let act = json!({ "over": "http", "action": { "type": "exec", "template": "true {{nl:db/PASSWORD}}" } });
    let answers = served.client(&json!([act, act]));
    assert_eq!(answers[0]["body"]["status"], "success", "{}", answers[0]);
    let refused = &answers[1];
    assert_eq!(told(refused), (429, "NL-E202"), "{refused}");
    let detail = &refused["body"]["error"]["detail"];
    assert_eq!((&detail["limit"], &detail["scope"]), (&json!(1), &json!("per_grant")), "{detail}");
    assert!(detail["grant_id"].is_string() && detail["reset_at"].is_string(), "{detail}");
    let wait = detail["retry_after_seconds"].as_u64().unwrap();
    assert!((1..=60).contains(&wait), "{detail}");
    assert_eq!(refused["retry_after"], wait.to_string());
    assert_eq!((&refused["limit"], &refused["remaining"]), (&json!("1"), &json!("0")));
}

/// What the agent sends byte for byte, and what it is answered: the status, and all of it.
fn raw(
    served: &Served<'_>,
    (method, path): (&str, &str),
    more: &str,
    body: &str,
) -> (String, String) {
    let own = |key: &str| served.agents["agent"][key].as_str().unwrap();
    let place = served.base.split('/').nth(2).unwrap();
    let head = format!(
        "{method} {path} HTTP/1.1\r\nHost: {place}\r\nConnection: close\r\nAuthorization: Bearer {}\r\n\
         X-NL-Agent-URI: {}\r\nX-NL-Instance-ID: {}\r\n{more}Content-Length: {}\r\n\r\n{body}",
        own("credential"),
        own("agent_uri"),
        own("instance_id"),
        body.len(),
    );
    let mut stream = std::net::TcpStream::connect(place).unwrap();
    stream.write_all(head.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    (answer.split(' ').nth(1).unwrap().to_owned(), answer)
}

/// Whatever lies between, which may have read the other one, has read the same as Keyless.
#[test]
fn what_is_said_twice_is_refused() {
    let world = with_secrets();
    let served = Served::start(&world);
    let said =
        |method: &str, path: &str, more: &str, body: &str| raw(&served, (method, path), more, body);
    let (typed, body) =
        ("Content-Type: application/json\r\n", bare(&served, &json!({})).to_string());
    let act = |more: &str| said("POST", "/nl/v1/actions", &format!("{typed}{more}"), &body);
    assert_eq!(act("").0, "200");
    for (more, named) in [
        ("Authorization: Bearer nlk_another\r\n", "authorization"),
        ("X-NL-Agent-URI: nl://acme.corp/other/1.0.0\r\n", "x-nl-agent-uri"),
        ("X-NL-Instance-ID: x\r\n", "x-nl-instance-id"),
        ("X-NL-Attestation: a\r\nX-NL-Attestation: b\r\n", "x-nl-attestation"),
        ("Content-Type: text/plain\r\n", "content-type"),
        ("X-NL-Request-ID: a\r\nX-NL-Request-ID: b\r\n", "x-nl-request-id"),
    ] {
        let (status, answer) = act(more);
        assert_eq!(status, "400", "{more}: {answer}");
        assert!(
            answer.contains(&format!("the header {named} is there more than once")),
            "{answer}"
        );
    }
    let get = |path: &str| said("GET", path, "", "");
    let instance = served.agents["agent"]["instance_id"].as_str().unwrap();
    let shown = format!("/nl/v1/agents/{instance}");
    assert_eq!(get(&format!("{shown}?x=1")).0, "200");
    for path in
        ["/nl/v1/rotations?since=2026-01-01T00:00:00Z&since=x", &format!("{shown}?instance_id=x")]
    {
        let (status, answer) = get(path);
        assert_eq!(status, "400", "{path}: {answer}");
        assert!(answer.contains("is there more than once"), "{answer}");
    }
    // Whose it is is known where the sender is said once.
    let is_it = |entry: &Value| {
        entry["agent"]["uri"] == AGENT && entry["error_code"] == "message_malformed"
    };
    assert_eq!(world.log().iter().filter(|entry| is_it(entry)).count(), 4);
}

/// NL-5.17: of the values that its own actions have had, by then.
#[test]
fn an_agents_words_keep_no_value_in_the_log() {
    let world = with_secrets();
    let served = Served::with(&world, "detection = 'record'");
    granted(&world, AGENT, &["db/*"]);
    let value = world.canary.value();
    let act = |id: &str, action: &Value| {
        let mut action = action.clone();
        action["purpose"] = json!(format!("because of {value}, as I know"));
        let body = bare(&served, &json!({ "request_id": id, "action": action })).to_string();
        let typed = "Content-Type: application/json\r\n";
        raw(&served, ("POST", "/nl/v1/actions"), typed, &body)
    };
    let entered =
        json!({ "type": "inject_stdin", "command": "cat", "secret_ref": "{{nl:db/PASSWORD}}" });
    let tried = json!({ "type": "exec", "template": format!("true {{{{nl:{value}}}}}") });
    for (id, action, status) in [
        ("r-first", &entered, "200"),
        (&*format!("r-{value}"), &entered, "200"),
        ("r-third", &tried, "404"),
        ("r-fourth", &json!({ "type": value, "template": "true" }), "400"),
    ] {
        let (told, answer) = act(id, action);
        assert_eq!(told, status, "{id}: {answer}");
    }
    let log = json!(world.log()).to_string();
    assert!(world.canary.find(log.as_bytes()).is_none(), "{log}");
    let taken = "because of [REDACTED:db/PASSWORD], as I know";
    assert_eq!(log.matches(taken).count(), 3, "{log}");
    assert!(log.contains("r-[REDACTED:db/PASSWORD]"), "{log}");
}

#[test]
fn what_a_message_asks_in_vain_is_on_record() {
    let world = with_secrets();
    let served = Served::start(&world);
    let own = |name: &str| served.agents[name]["instance_id"].as_str().unwrap().to_owned();
    let scope = json!({ "secrets": ["db/PASSWORD"], "max_uses": 1 });
    let token = "00000000-0000-4000-8000-000000000000";
    let cases = [
        ("delegation_request", json!({ "delegate_to": HELPER, "delegation_scope": scope }), HELPER),
        ("delegation_revoke", json!({ "token_id": token }), token),
        ("x_keyless_accept_delegation", json!({ "token_id": token }), token),
        ("agent_get", json!({ "instance_id": own("helper") }), &own("helper")),
        (
            "agent_register",
            json!({ "agent_uri": "nl://acme.corp/x/1.0.0" }),
            "nl://acme.corp/x/1.0.0",
        ),
        ("revocation_request", json!({ "agent_uri": HELPER, "reason": "compromised" }), HELPER),
        ("x_keyless_rotate_credential", json!({ "instance_id": own("helper") }), &own("helper")),
        ("audit_query", json!({}), ""),
        (
            "x_keyless_check_access",
            json!({ "secret_name": "db/PASSWORD", "action_type": "x" }),
            "db/PASSWORD",
        ),
        ("federated_action", json!({}), ""),
        ("teleport", json!({}), ""),
    ];
    let messages: Vec<_> = cases.iter().map(|(kind, payload, _)| json!([kind, payload])).collect();
    let answers = served.client(&json!([{ "over": "unix", "messages": messages }])).remove(0);
    let log = world.log();
    for ((kind, _, about), answer) in cases.iter().zip(&answers.as_array().unwrap()[1..]) {
        assert!(answer["payload"]["error"].is_object(), "{kind}: {answer}");
        let called = if *kind == "teleport" { "unknown: teleport" } else { kind };
        let is_it = |entry: &&Value| entry["detail"]["attempted_action"] == called;
        let entry = log.iter().find(is_it).unwrap_or_else(|| panic!("{kind}: {log:#?}"));
        let code = answer["payload"]["error"]["keyless_code"].clone();
        assert_eq!((&entry["agent"]["uri"], &entry["error_code"]), (&json!(AGENT), &code));
        assert!(entry["target"].as_str().unwrap().contains(about), "{entry}");
        assert!(
            ["denied", "blocked"].map(|word| json!(word)).contains(&entry["action"]),
            "{entry}"
        );
    }
    // Whoever guesses is told of once a minute, whatever they say that they are, and a flood is too.
    let guess = |uri: &str| {
        json!({
            "over": "http", "method": "GET", "path": "/nl/v1/rotations",
            "headers": { "Authorization": "Bearer nlk_guessed", "X-NL-Agent-URI": uri },
        })
    };
    let helper =
        json!({ "over": "unix", "as": "helper", "messages": vec![json!(["agent_get", {}]); 123] });
    served.client(&json!([
        guess("nl://a.test/a/1.0.0"),
        guess(AGENT),
        guess("nl://c.test/c/1.0.0"),
        helper
    ]));
    let log = world.log();
    let told = |code: &str, by: &str| {
        let is_it = |entry: &&Value| {
            entry["error_code"] == code && entry["agent"]["uri"].as_str().unwrap().contains(by)
        };
        log.iter().filter(is_it).collect::<Vec<_>>()
    };
    let [guessed] = told("agent_unknown", "/broker/")[..] else { panic!("{log:#?}") };
    assert_eq!(guessed["target"], "nl://a.test/a/1.0.0", "{guessed}");
    assert_eq!(guessed["detail"]["attempted_action"], "rotation_notification", "{guessed}");
    assert_eq!(guessed["detail"]["source_ip"], "127.0.0.1", "{guessed}");
    let [flood] = told("rate_limited", HELPER)[..] else { panic!("{log:#?}") };
    assert_eq!(flood["detail"]["attempted_action"], "agent_get", "{flood}");
}

#[test]
fn who_asks_a_person_too_often_is_told_when_to_ask_again() {
    let world = with_secrets();
    let served = Served::start(&world);
    granted_with(&world, AGENT, &["db/*"], &["--approve"]);
    let ask = |number: usize| {
        let template = format!("true {number} {{{{nl:db/PASSWORD}}}}");
        json!({ "over": "http", "action": { "type": "exec", "template": template } })
    };
    let answers = served.client(&json!((0..11).map(ask).collect::<Vec<_>>()));
    assert_eq!(told(&answers[9]), (403, "NL-E204"), "{}", answers[9]);
    let refused = &answers[10];
    assert_eq!(told(refused), (429, "NL-E202"), "{refused}");
    let detail = &refused["body"]["error"]["detail"];
    assert_eq!((&detail["limit"], &detail["scope"]), (&json!(10), &json!("per_agent")), "{detail}");
    assert_eq!(detail["window_seconds"], 60, "{detail}");
    let (again, reset) = (detail["retry_after_seconds"].as_u64(), detail["reset_at"].as_str());
    assert!(again.is_some_and(|wait| (1..=61).contains(&wait)) && reset.is_some(), "{detail}");
    assert_eq!(refused["retry_after"], again.unwrap().to_string(), "{refused}");
    assert_eq!((&refused["limit"], &refused["remaining"]), (&json!("10"), &json!("0")));
}

#[test]
fn what_can_not_be_read_does_not_pass_for_nothing() {
    let world = with_secrets();
    let served = Served::start(&world);
    let actions = |changes: &Value| post("/nl/v1/actions", &bare(&served, changes));
    let cases = [
        json!({ "agent": "x" }),
        json!({ "agent": [] }),
        json!({ "agent": { "agent_uri": AGENT } }),
        json!({ "delegation": [] }),
        json!({ "delegation": true }),
    ];
    let answers = served.client(&json!(cases.iter().map(actions).collect::<Vec<_>>()));
    for (changes, answer) in cases.iter().zip(&answers) {
        assert_eq!(told(answer), (400, "NL-E800"), "{changes}: {answer}");
    }
    // The headers say who it is; nothing is said here.
    let silent = json!({ "agent": null, "delegation": null });
    assert_eq!(served.client(&json!([actions(&silent)]))[0]["body"]["status"], "success");
}

#[test]
fn a_flood_is_an_entry_and_does_not_flood_the_log() {
    let world = with_secrets();
    let served = Served::start(&world);
    let dry = json!({ "type": "exec", "template": "true", "dry_run": true });
    let step = json!({ "door": "unix", "action": dry });
    let answers = served.client(&json!(vec![step; 126]));
    let refused = answers.iter().filter(|one| one["error"]["code"] == "NL-E202").count();
    assert!(refused >= 5, "{refused}");
    let told = world.log();
    let told = told.iter().filter(|entry| entry["error_code"] == "rate_limited").count();
    assert_eq!(told, 1);
}

#[test]
fn a_time_is_as_far_off_as_the_operator_says() {
    let world = with_secrets();
    let mut served = Served::with(&world, "clock_skew = { messages = 10 }");
    granted(&world, AGENT, &["db/*"]);
    let sent = |served: &Served<'_>, id: &str, seconds: i64| {
        let at = jiff::Timestamp::now() - jiff::SignedDuration::from_secs(seconds);
        let mut message = enveloped(id, &bare(served, &json!({})));
        message["timestamp"] = format!("{at:.3}").into();
        served.client(&json!([post("/nl/v1/actions", &message)])).remove(0)
    };
    let is_late = |answer: &Value| answer["body"]["payload"]["error"]["code"] == "NL-E805";
    assert_eq!(sent(&served, "m-1", 0)["status"], 200);
    let late = sent(&served, "m-2", 60);
    assert!(is_late(&late), "{late}");
    assert!(late.to_string().contains("more than 10 seconds from now"), "{late}");
    served.broker.signal(rustix::process::Signal::TERM);
    served.broker.wait();
    let again = Served::with(&world, "");
    assert_eq!(sent(&again, "m-3", 60)["status"], 200);
    assert!(is_late(&sent(&again, "m-4", 310)));
}

#[test]
fn the_published_text_rules_where_the_operator_says_so() {
    let world = with_secrets();
    let served = Served::with(&world, "profile = 'final'");
    granted_with(&world, AGENT, &["db/*"], &["--id", "g1"]);
    let mut none = world.keyless(&["grant", "show", "g1", "--json"]).run().data()["grant"].clone();
    (none["grant_id"], none["agent_uri"]) = (json!("g2"), json!(HELPER));
    none["permissions"][0]["conditions"]["max_uses"] = json!(0);
    world.keyless(&["grant", "create", "--file", "-"]).stdin(none.to_string()).run().ok();
    let shown =
        json!({ "type": "inject_stdin", "command": "cat", "secret_ref": "{{nl:db/PASSWORD}}" });
    let answers = served.client(&json!([
        { "over": "http", "action": shown },
        { "door": "unix", "as": "helper", "action": shown },
        { "over": "http", "method": "GET", "path": "/.well-known/nl-protocol" },
        { "over": "http", "method": "GET", "path": "/nl/v1/health" },
        { "over": "http", "action": { "type": "exec", "template": "true {{nl:other/KEY}}" } },
    ]));
    let missing = &answers[4]["body"]["error"];
    assert_eq!(
        (&missing["code"], &missing["nl_code"]),
        (&json!("GRANT_DENIED"), &json!("NL-E200"))
    );
    assert_eq!(
        answers[0]["body"]["result"]["stdout"], "[NL-REDACTED:db/PASSWORD]\n",
        "{}",
        answers[0]
    );
    assert_eq!(answers[1]["error"]["code"], "NL-E202", "{}", answers[1]);
    assert_eq!(answers[2]["body"]["capabilities"]["nl_profile"], "final", "{}", answers[2]);
    assert_eq!(answers[3]["body"]["nl_profile"], "final", "{}", answers[3]);
    let log = world.log();
    for action in ["inject_stdin", "incident", "denied", "grant_create", "agent_register"] {
        let mut entries = log.iter().filter(|entry| entry["action"] == action).peekable();
        assert!(entries.peek().is_some(), "{action}");
        entries.for_each(|entry| assert_eq!(entry["metadata"]["nl_profile"], "final", "{entry}"));
    }
}

/// An action that the store takes no note of does not begin, so this service does nothing for anybody.
#[test]
fn a_store_that_takes_no_notes_is_no_healthy_service() {
    let world = with_secrets();
    let served = Served::start(&world);
    granted(&world, AGENT, &["db/*"]);
    let health = || served.get("/nl/v1/health")["body"]["status"].clone();
    let act =
        || served.client(&json!([post("/nl/v1/actions", &bare(&served, &json!({})))])).remove(0);
    assert_eq!(health(), "healthy");
    world.sqlite(
        "CREATE TRIGGER full BEFORE INSERT ON messages_begun BEGIN SELECT raise(ABORT, 'no'); END",
    );
    assert_eq!(act()["status"], 500);
    assert_ne!(health(), "healthy");
    world.sqlite("DROP TRIGGER full");
    // Nobody has to act for it to be noticed.
    wait_until("it is healthy again", || health() == "healthy");
    assert_eq!(act()["status"], 200);
}
