//! Whether a service takes a value: asked by the operator or on saving, only where the value may go anyway.

use http::{HeaderMap, Request, StatusCode};
use keyless_testkit::{Handler, Origin, RequestBody, reply};
use serde_json::{Value, json};

use crate::world::{EVIL, TOKEN, World};

const GITHUB: &str = "api.github.com";
const PATH: &str = "team/github/token";

/// An origin that takes this value alone, as the catalog's check for GitHub asks.
fn github(world: &mut World, value: &str) -> Origin {
    let right = format!("Bearer {value}");
    let takes =
        move |headers: &HeaderMap| headers.get("authorization").is_some_and(|v| *v == *right);
    let handler = Handler::new(move |request: Request<RequestBody>| {
        let asked = request.uri().path() == "/user" && takes(request.headers());
        async move { reply(if asked { StatusCode::OK } else { StatusCode::UNAUTHORIZED }, "{}") }
    });
    let origin = world.origin_of(GITHUB, handler);
    world.write_config();
    origin
}

fn add(world: &World, value: &str, more: &[&str]) -> crate::invocation::Seen {
    let words = ["secret", "add", PATH, "--pattern", "github-pat", "--value-stdin", "--json"];
    world.keyless(&[&words, more].concat()).stdin(value).run()
}

fn check(world: &World, code: i32) -> Value {
    let seen = world.keyless(&["secret", "check", PATH, "--json"]).run();
    seen.exits(code).json()["data"]["secrets"][0].clone()
}

#[test]
fn a_service_tells_whether_it_takes_a_value() {
    let mut world = World::with_store();
    let (value, other) = (world.github_token(), world.github_token());
    let origin = github(&mut world, &value);
    // One that is refused is not saved, unless its owner says so.
    let refused = add(&world, &other, &["--check"]).exits(2).json();
    assert_eq!(refused["errors"][0]["code"], json!("value_weak"));
    assert!(refused.to_string().contains("its service refuses it"), "{refused}");
    add(&world, &other, &[]).data();
    let seen = check(&world, 1);
    assert_eq!((&seen["verdict"], &seen["status"]), (&json!("rejected"), &json!(401)));
    let rotate = ["secret", "rotate", PATH, "--value-stdin", "--check"];
    world.keyless(&rotate).stdin(&value[..]).run().ok();
    let expected = json!({ "path": PATH, "verdict": "valid", "pattern": "github-pat", "host": GITHUB, "status": 200 });
    assert_eq!(check(&world, 0), expected);
    assert_eq!(origin.requests().len(), 4);
    // On record before it is asked, and with what came of it.
    let log = world.log();
    let checks: Vec<_> = log.iter().filter(|entry| entry["detail"]["kind"] == "check").collect();
    assert_eq!(checks.len(), 8);
    assert_eq!(checks[7]["detail"]["note"], json!("valid"));
    assert_eq!(checks[7]["secrets_used"], json!([PATH]));
    assert_eq!(checks[6]["correlation_id"], checks[7]["correlation_id"]);
    drop(origin);
    assert_eq!(check(&world, 0)["verdict"], json!("unreachable"));
    // As configured: each value that is saved.
    let _origin = github(&mut world, &value);
    let config = world.home.keyless_home().join("config.toml");
    let text = std::fs::read_to_string(&config).unwrap();
    std::fs::write(&config, format!("{text}[liveness]\non_save = true\n")).unwrap();
    let rotate = ["secret", "rotate", PATH, "--value-stdin"];
    world.keyless(&rotate).stdin(&other[..]).run().exits(2);
    world.keyless(&[&rotate[..], &["--allow-weak"]].concat()).stdin(&other[..]).run().ok();
}

#[test]
fn a_check_goes_nowhere_but_to_the_values_own_host() {
    let mut world = World::with_store();
    let value = world.github_token();
    let evil = world.origin(EVIL);
    let away = Handler::new(|_: Request<RequestBody>| async {
        let mut answer = reply(StatusCode::FOUND, "");
        answer.headers_mut().insert("location", format!("https://{EVIL}/").parse().unwrap());
        answer
    });
    let origin = world.origin_of(GITHUB, away);
    world.write_config();
    add(&world, &value, &[]).data();
    assert_eq!(check(&world, 0)["verdict"], json!("unclear"), "a redirect is not followed");
    // Neither a catalog nor a caller says where else.
    let ours = include_str!("../../../vault/catalog/github.json");
    world.home.write("keyless/catalog/github.json", ours.replace(GITHUB, EVIL)).unwrap();
    let seen = check(&world, 0);
    assert_eq!(seen["verdict"], json!("unsupported"));
    assert!(seen["why"].as_str().unwrap().contains("--to"), "{seen}");
    assert_eq!((origin.requests().len(), evil.connections().len()), (1, 0));
}

/// An agent's check is a use: its session's secrets alone, and only as their rules about requests allow.
#[test]
fn an_agents_check_keeps_to_its_session_and_to_the_rules() {
    let mut world = World::with_token();
    let value = world.github_token();
    let origin = github(&mut world, &value);
    add(&world, &value, &["--to", GITHUB, "--env", "GITHUB_TOKEN"]).data();
    world.keyless(&["unlock", "--for", "10m"]).run().ok();
    let script = format!(
        r"
import json, subprocess
tools = subprocess.Popen([{keyless:?}, 'mcp'], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
def call(method, **params):
    request = {{'jsonrpc': '2.0', 'id': 1, 'method': method, 'params': params}}
    print(json.dumps(request), file=tools.stdin, flush=True)
    return json.loads(tools.stdout.readline())['result']
call('initialize', protocolVersion='2025-06-18', capabilities={{}}, clientInfo={{'name': 't', 'version': '1'}})
said = call('tools/call', name='secrets_validate', arguments={{'path': '{PATH}', 'liveness': True}})
said = json.loads(said['content'][0]['text'])
print(said.get('error') or said['liveness'])
",
        keyless = crate::invocation::KEYLESS,
    );
    let asked = |given: &str| {
        let run = ["run", "--secret", given, "--", "python3", "-c", &script];
        world.keyless(&run).without_passphrase().run().ok().trim().to_owned()
    };
    assert_eq!(asked(TOKEN), "scope-violation");
    world.keyless(&["secret", "set", PATH, "--allow", "GET /repos/**"]).run().ok();
    assert_eq!(asked(PATH), "rule-denied");
    assert_eq!(origin.requests().len(), 0);
    world.keyless(&["secret", "set", PATH, "--allow", "GET /user"]).run().ok();
    assert_eq!(asked(PATH), "ok");
    assert_eq!(origin.requests().len(), 1);
}
