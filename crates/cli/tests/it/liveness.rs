//! Whether a service takes a value: asked by the operator or on saving, only where the value may go anyway.

use std::sync::{Arc, Mutex};

use data_encoding::BASE64;
use http::{HeaderMap, Request, StatusCode};
use keyless_testkit::{Canary, Handler, Origin, RequestBody, reply};
use serde_json::{Value, json};
use tokio::sync::Barrier;

use crate::{
    mcp::{Agent, about, approve, unlock},
    world::{EVIL, TOKEN, World},
};

const GITHUB: &str = "api.github.com";
const PATH: &str = "team/github/token";

/// An origin that takes this value alone, as the catalog's check for GitHub asks.
pub(crate) fn github(world: &mut World, value: &str) -> Origin {
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
    // One that can't be asked says nothing of the value, and that is told.
    let another = world.github_token();
    let seen = world.keyless(&[&rotate[..], &["--json"]].concat()).stdin(&another[..]).run();
    let answer = seen.exits(0).json();
    assert_eq!(answer["data"]["check"]["verdict"], json!("unreachable"), "{answer}");
    assert!(answer["warnings"][0].as_str().unwrap().contains("not checked (unreachable)"));
    // As configured: each value that is saved.
    let _origin = github(&mut world, &value);
    let config = world.home.keyless_home().join("config.toml");
    let text = std::fs::read_to_string(&config).unwrap();
    std::fs::write(&config, format!("{text}[liveness]\non_save = true\n")).unwrap();
    let rotate = ["secret", "rotate", PATH, "--value-stdin"];
    world.keyless(&rotate).stdin(&other[..]).run().exits(2);
    world.keyless(&[&rotate[..], &["--allow-weak"]].concat()).stdin(&other[..]).run().ok();
}

/// One that takes its time holds up no other, and the answers stand in the order of the list.
#[test]
fn services_are_asked_at_the_same_time() {
    let mut world = World::with_store();
    let both = Arc::new(Barrier::new(2));
    let handler = Handler::new(move |_: Request<RequestBody>| {
        let both = Arc::clone(&both);
        async move {
            both.wait().await;
            reply(StatusCode::OK, "{}")
        }
    });
    let _origin = world.origin_of(GITHUB, handler);
    world.write_config();
    for path in ["team/github/one", "team/github/two"] {
        let words = ["secret", "add", path, "--pattern", "github-pat", "--value-stdin"];
        let token = world.github_token();
        world.keyless(&[&words[..], &["--env", "X"]].concat()).stdin(token).run().ok();
    }
    let seen = world.keyless(&["secret", "check", "--json"]).run().data();
    let said = |number: usize| {
        (seen["secrets"][number]["path"].clone(), seen["secrets"][number]["verdict"].clone())
    };
    assert_eq!(said(0), (json!("team/github/one"), json!("valid")), "{seen}");
    assert_eq!(said(1), (json!("team/github/two"), json!("valid")), "{seen}");
}

/// Services that say in the body what others say by status, that want a user beside the value, or a signature.
#[test]
fn services_are_asked_in_their_own_way() {
    let mut world = World::with_store();
    let said = |body: &'static str| {
        Handler::new(move |request: Request<RequestBody>| async move {
            let is_post = request.method() == "POST" && request.uri().path() == "/api/auth.test";
            reply(if is_post { StatusCode::OK } else { StatusCode::NOT_FOUND }, body)
        })
    };
    let add = |world: &World, path: &str, pattern: &str, value: &str, more: &[&str]| {
        let words = ["secret", "add", path, "--pattern", pattern, "--value-stdin", "--allow-weak"];
        world.keyless(&[&words, more].concat()).stdin(value).run().ok();
    };
    let check = |world: &World, words: &[&str]| {
        let seen = world.keyless(&[&["secret", "check", "--json"], words].concat()).run();
        seen.json()["data"]["secrets"][0].clone()
    };
    let slack = world.another_value();
    for (body, verdict) in [
        (r#"{"ok": true}"#, "valid"),
        (r#"{"ok": false, "error": "token_revoked"}"#, "rejected"),
        (r#"{"ok": false, "error": "fatal_error"}"#, "unclear"),
    ] {
        let _origin = world.origin_of("slack.com", said(body));
        world.write_config();
        let path = format!("team/slack/{verdict}");
        add(&world, &path, "slack-bot-token", &slack, &["--env", "SLACK"]);
        let seen = check(&world, &[&path]);
        assert_eq!(seen["verdict"], json!(verdict), "{body}");
        let why = seen["why"].as_str().unwrap_or_default();
        assert_eq!(why == "it answered 200, which says neither", verdict == "unclear", "{seen}");
    }
    // A user that the value alone does not tell.
    let token = world.another_value();
    let right = format!("Basic {}", BASE64.encode(format!("AC42:{token}").as_bytes()));
    world.watch(Canary::of(right.trim_start_matches("Basic ")));
    let handler = Handler::new(move |request: Request<RequestBody>| {
        let is_right = request.headers().get("authorization").is_some_and(|sent| *sent == *right);
        let is_asked = request.uri().path() == "/2010-04-01/Accounts.json";
        let status = if is_right && is_asked { StatusCode::OK } else { StatusCode::UNAUTHORIZED };
        async move { reply(status, "{}") }
    });
    let _twilio = world.origin_of("api.twilio.com", handler);
    world.write_config();
    add(&world, "team/twilio/token", "twilio-auth-token", &token, &["--env", "TWILIO"]);
    let seen = check(&world, &["team/twilio/token"]);
    assert_eq!(seen["verdict"], json!("unsupported"));
    assert!(seen["why"].as_str().unwrap().contains("SID, AC…: name it with --user"), "{seen}");
    let seen = check(&world, &["team/twilio/token", "--user", "AC42"]);
    assert_eq!(seen["verdict"], json!("valid"), "{seen}");
    let seen = check(&world, &["team/twilio/token", "--user", "AC41"]);
    assert_eq!(seen["verdict"], json!("rejected"), "{seen}");
    // Where there is no check, it is said why, and so does the catalog.
    add(&world, "team/pypi/token", "pypi-token", &world.another_value(), &["--env", "PYPI"]);
    let why = check(&world, &["team/pypi/token"])["why"].clone();
    assert!(why.as_str().unwrap().starts_with("no check: "), "{why}");
    let shown = world.keyless(&["catalog", "show", "pypi"]).run().ok();
    assert!(shown.contains("no check:"), "{shown}");
    let shown = world.keyless(&["catalog", "show", "npm"]).run().ok();
    assert!(shown.contains("https://registry.npmjs.org/-/whoami"), "{shown}");
}

/// A key of AWS is never sent: it signs the question who is asking.
#[test]
fn a_key_of_aws_signs_its_check() {
    const STS: &str = "sts.amazonaws.com";
    let mut world = World::with_store();
    let (key, id) = (world.another_value(), "AKIDEXAMPLE");
    let sent = Arc::new(Mutex::new(Vec::new()));
    let keep = Arc::clone(&sent);
    let handler = Handler::new(move |request: Request<RequestBody>| {
        let header = |name: &str| {
            request.headers().get(name).map(|value| value.to_str().unwrap().to_owned())
        };
        let line = format!("{} {}", request.method(), request.uri());
        keep.lock().unwrap().push((line, header("authorization"), header("x-amz-date")));
        async move { reply(StatusCode::OK, "<GetCallerIdentityResponse/>") }
    });
    let _origin = world.origin_of(STS, handler);
    world.write_config();
    let add = |path: &str, value: &str, more: &[&str]| {
        let words = ["secret", "add", path, "--to", STS, "--value-stdin", "--allow-weak"];
        world.keyless(&[&words, more].concat()).stdin(value).run().ok();
    };
    add("team/aws/key-id", id, &["--env", "AWS_ACCESS_KEY_ID"]);
    let sign = ["--sign", "aws:team/aws/key-id", "--pattern", "aws-secret-key"];
    add("team/aws/key", &key, &[&sign[..], &["--env", "AWS_SECRET_ACCESS_KEY"]].concat());
    let seen = world.keyless(&["secret", "check", "team/aws/key", "--json"]).run().data();
    assert_eq!(seen["secrets"][0]["verdict"], json!("valid"), "{seen}");
    let (line, authorization, date) = sent.lock().unwrap()[0].clone();
    assert_eq!(line, "GET /?Action=GetCallerIdentity&Version=2011-06-15");
    let (authorization, date) = (authorization.unwrap(), date.unwrap());
    let scope = format!("{}/us-east-1/sts/aws4_request", &date[..8]);
    assert!(authorization.contains(&format!("Credential={id}/{scope}")), "{authorization}");
    let entries = world.log();
    let uses = entries.iter().filter(|entry| entry["detail"]["kind"] == "check");
    assert!(uses.clone().any(|entry| entry["secrets_used"] == json!(["team/aws/key-id"])));
    assert!(uses.count() >= 3);
    // botocore signs the same request to the same signature.
    let script = format!(
        "import datetime, sys
import botocore.auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials
when = datetime.datetime.strptime('{date}', '%Y%m%dT%H%M%SZ')
botocore.auth.get_current_datetime = lambda *_, **__: when
request = AWSRequest('GET', 'https://{STS}/?Action=GetCallerIdentity&Version=2011-06-15')
keys = Credentials('{id}', sys.stdin.read())
botocore.auth.SigV4Auth(keys, 'sts', 'us-east-1').add_auth(request)
print(request.headers['Authorization'])"
    );
    let peer = world.keyless(&[]).instead(&["python3", "-c", &script]).stdin(&key[..]).run().ok();
    let signature = |text: &str| text.trim().rsplit_once("Signature=").unwrap().1.to_owned();
    assert_eq!(signature(&authorization), signature(&peer), "{peer}");
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

/// Where each customer has a host of their own, the secret's owner says which it is, by `--to` and nothing else.
#[test]
fn a_service_is_asked_at_the_customers_own_host() {
    const SITE: &str = "acme.atlassian.net";
    const OTHER: &str = "other.atlassian.net";
    const RESOURCE: &str = "acme.openai.azure.com";
    let mut world = World::with_store();
    let (token, key) = (world.another_value(), world.another_value());
    let right = format!("Basic {}", BASE64.encode(format!("me@acme.test:{token}").as_bytes()));
    world.watch(Canary::of(right.trim_start_matches("Basic ")));
    let takes = |path: &'static str, name: &'static str, right: String| {
        Handler::new(move |request: Request<RequestBody>| {
            let is_asked = request.method() == "GET" && request.uri() == path;
            let is_right = request.headers().get(name).is_some_and(|sent| *sent == *right);
            let status = match (is_asked, is_right) {
                (false, _) => StatusCode::NOT_FOUND,
                (true, false) => StatusCode::UNAUTHORIZED,
                (true, true) => StatusCode::OK,
            };
            async move { reply(status, "{}") }
        })
    };
    let site = world.origin_of(SITE, takes("/rest/api/3/myself", "authorization", right));
    let models = "/openai/models?api-version=2024-10-21";
    let resource = world.origin_of(RESOURCE, takes(models, "api-key", key.clone()));
    let away = Handler::new(|_: Request<RequestBody>| async {
        let mut answer = reply(StatusCode::FOUND, "");
        answer.headers_mut().insert("location", format!("https://{EVIL}/").parse().unwrap());
        answer
    });
    let other = world.origin_of(OTHER, away);
    let evil = world.origin(EVIL);
    world.write_config();
    let add = |path: &str, pattern: &str, value: &str, to: &[&str]| {
        let words = ["secret", "add", path, "--pattern", pattern, "--value-stdin", "--allow-weak"];
        let to = to.iter().flat_map(|host| ["--to", host]);
        let words: Vec<&str> = words.into_iter().chain(to).chain(["--env", "X"]).collect();
        world.keyless(&words).stdin(value).run().ok();
    };
    let check = |words: &[&str]| {
        let seen = world.keyless(&[&["secret", "check", "--json"], words].concat()).run();
        seen.json()["data"]["secrets"][0].clone()
    };
    let said = |seen: &Value| (seen["verdict"].clone(), seen["host"].clone());
    add("team/jira/token", "jira-api-token", &token, &["api.atlassian.com", SITE]);
    let seen = check(&["team/jira/token"]);
    assert!(
        seen["why"].as_str().unwrap().contains("e-mail address: name it with --user"),
        "{seen}"
    );
    let seen = check(&["team/jira/token", "--user", "me@acme.test"]);
    assert_eq!(said(&seen), (json!("valid"), json!(SITE)), "{seen}");
    let seen = check(&["team/jira/token", "--user", "you@acme.test"]);
    assert_eq!(said(&seen), (json!("rejected"), json!(SITE)), "{seen}");
    add("team/azure/key", "azure-openai-key", &key, &[RESOURCE]);
    let seen = check(&["team/azure/key"]);
    assert_eq!(said(&seen), (json!("valid"), json!(RESOURCE)), "{seen}");
    assert_eq!((site.requests().len(), resource.requests().len()), (2, 1));
    // None of its own, or more than one: it is said what to do, and nobody is asked.
    add("team/jira/any", "jira-api-token", &token, &["*.atlassian.net"]);
    let seen = check(&["team/jira/any", "--user", "me@acme.test"]);
    assert_eq!(seen["verdict"], json!("unsupported"), "{seen}");
    assert!(seen["why"].as_str().unwrap().contains("--to names none"), "{seen}");
    add("team/jira/both", "jira-api-token", &token, &[SITE, OTHER]);
    let seen = check(&["team/jira/both", "--user", "me@acme.test"]);
    assert_eq!(seen["verdict"], json!("unsupported"), "{seen}");
    assert!(seen["why"].as_str().unwrap().contains(&format!("({SITE}, {OTHER})")), "{seen}");
    assert_eq!((site.requests().len(), other.connections().len()), (2, 0));
    // A redirect takes it nowhere.
    add("team/jira/other", "jira-api-token", &token, &[OTHER]);
    let seen = check(&["team/jira/other", "--user", "me@acme.test"]);
    assert_eq!(said(&seen), (json!("unclear"), json!(OTHER)), "{seen}");
    assert_eq!((other.requests().len(), evil.connections().len()), (1, 0));
    let shown = world.keyless(&["catalog", "show", "jira"]).run().ok();
    assert!(shown.contains("GET https://{host}/rest/api/3/myself"), "{shown}");
    assert!(shown.contains("{host}: the secret's own among *.atlassian.net"), "{shown}");
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
    // Its tools see no secret that the session was not given.
    assert_eq!(asked(TOKEN), "not-found");
    world.keyless(&["secret", "set", PATH, "--allow", "GET /repos/**"]).run().ok();
    assert_eq!(asked(PATH), "rule-denied");
    assert_eq!(origin.requests().len(), 0);
    world.keyless(&["secret", "set", PATH, "--allow", "GET /user"]).run().ok();
    assert_eq!(asked(PATH), "ok");
    assert_eq!(origin.requests().len(), 1);
}

/// What its service refuses an agent can't mend: it is told who can, and how it asks them.
#[test]
fn a_value_that_its_service_refuses_is_the_persons_to_rotate() {
    let mut world = World::with_store();
    let (value, other) = (world.github_token(), world.github_token());
    let _origin = github(&mut world, &value);
    add(&world, &other, &["--to", GITHUB, "--env", "GITHUB_TOKEN"]).data();
    unlock(&world);
    let mut agent = Agent::connect(&world);
    let asked = json!({ "path": PATH, "liveness": true });
    let told = agent.tool("secrets_validate", &asked).unwrap();
    let advice = &told["remediation"];
    assert_eq!(
        (&told["liveness"], &advice["actor"], &advice["action"], &advice["retryable"]),
        (&json!("invalid"), &json!("user"), &json!("ask_user_to_rotate"), &json!(false)),
        "{told}"
    );
    let words = advice["user_message"].as_str().unwrap();
    assert!(words.contains("secrets_request_rotation"), "{words}");
    // As advised.
    let id = agent.ask("secrets_request_rotation", &about(PATH));
    approve(&world, &[&id, "--deny"]).ok();
    let rotate = ["secret", "rotate", PATH, "--value-stdin"];
    world.keyless(&rotate).stdin(&value[..]).run().ok();
    let told = agent.tool("secrets_validate", &asked).unwrap();
    assert_eq!((&told["liveness"], &told["remediation"]), (&json!("ok"), &json!(null)), "{told}");
}
