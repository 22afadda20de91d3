use std::sync::Arc;

use futures_util::FutureExt;
use keyless_core::{
    EgressRule, Handle,
    database::{DatabaseParameter, DatabaseQuery, DatabaseRefusal, DatabaseRows},
};
use parking_lot::Mutex;
use serde_json::json;

use super::*;
use crate::{
    executor::Checked,
    ports::{Edition, Entrusted, Entry},
    sdk::{Databases, Providers},
};

const PASSWORD: &str = "s3ntinel-of-the-database";

/// Keeps the bodies and the statements' parameters that are sent; no answer comes of the database
/// `gone`, and what is asked for below `/moved` is elsewhere.
#[derive(Default)]
struct Recording(Mutex<Vec<String>>);

impl Databases for Recording {
    fn query(&self, query: DatabaseQuery) -> BoxFuture<'_, Result<DatabaseRows, DatabaseFault>> {
        let DatabaseQuery { authority, user, database, password, parameters, .. } = query;
        let mut line =
            format!("{user}:{}@{authority}/{database}", String::from_utf8_lossy(&password));
        for parameter in parameters {
            line += match &parameter {
                DatabaseParameter::List { array, .. } => array,
                DatabaseParameter::Null => " NULL",
                DatabaseParameter::Text(text) => text,
            };
        }
        self.0.lock().push(line);
        if database == "gone" {
            return Box::pin(async { Err(DatabaseFault::Stopped(Code::Internal.into())) });
        }
        let message = format!("no table {PASSWORD}");
        let refusal = DatabaseRefusal { sqlstate: "42P01".to_owned(), message, position: None };
        Box::pin(async move { Err(DatabaseFault::Refused(refusal)) })
    }
}

impl Http for Recording {
    fn send(&self, call: Call) -> BoxFuture<'_, Result<Answer, Error>> {
        self.0.lock().push(String::from_utf8_lossy(&call.body).into_owned());
        let body = Zeroizing::new(b"{}".to_vec());
        let moved = call.target.strip_prefix("/moved/").map(|to| {
            let to = format!("https://me:{PASSWORD}@{to}.test/{PASSWORD}?token={PASSWORD}");
            ("location".to_owned(), Zeroizing::new(to))
        });
        let status = if moved.is_some() { 302 } else { 200 };
        let headers = moved.into_iter().collect();
        Box::pin(async move { Ok(Answer { status, headers, body }) })
    }
}

fn material(handle: &str, path: &str, value: &str) -> Material {
    let secret = Entrusted {
        handle: Handle::parse_alone("", handle).unwrap(),
        path: path.parse().unwrap(),
        version: None,
        entry: Entry::Value,
        rule: None,
        is_exposed: false,
        edition: Edition { version: Some(1), set_at: Timestamp::UNIX_EPOCH },
    };
    Material { secret, bytes: Zeroizing::new(value.as_bytes().to_vec()) }
}

fn materials() -> Vec<Material> {
    vec![
        material("{{nl:github/TOKEN}}", "team/github/token", "ghp_1"),
        material("{{nl:aws/KEYS}}", "team/aws/keys", "AKIA1:k"),
        material("{{nl:db/PASSWORD}}", "team/db/password", PASSWORD),
    ]
}

/// What comes of a call, and the bodies that were sent.
fn done(
    materials: Vec<Material>,
    call: (&str, &str, &str, &str),
    parameters: &Value,
    hosts: &[&str],
) -> (Result<Called, Error>, Vec<String>) {
    let (called, sent, _) = remembered(materials, call, parameters, hosts);
    (called, sent)
}

/// The same, and what is remembered of it.
fn remembered(
    materials: Vec<Material>,
    (provider, service, operation, credential): (&str, &str, &str, &str),
    parameters: &Value,
    hosts: &[&str],
) -> (Result<Called, Error>, Vec<String>, Vec<Known>) {
    let action = json!({
        "type": "sdk_proxy", "provider": provider, "service": service, "operation": operation,
        "parameters": parameters, "credentials_ref": credential
    });
    let work = Work {
        action_id: "act_1".to_owned(),
        checked: Checked::unchecked(serde_json::from_value(action).unwrap()),
        secrets: Vec::new(),
        allowed_hosts: hosts.iter().map(|host| host.parse().unwrap()).collect(),
        kept: Vec::new(),
        permissions: Vec::new(),
        working_directory: None,
    };
    let (sent, materials) = (Arc::new(Recording::default()), Materials::holding(materials));
    let services = Services {
        providers: Providers::bundled().with_document("own", &own()),
        http: Arc::clone(&sent) as _,
        databases: Arc::clone(&sent) as _,
    };
    let known = Mutex::new(Vec::<Known>::new());
    let remember = |more: Vec<Known>| known.lock().extend(more);
    let called = draft(&services.providers, &work.action().deed).and_then(|draft| {
        call(draft, &work, &materials, &services, 1 << 20, &remember).now_or_never().unwrap()
    });
    let sent = sent.0.lock().clone();
    (called, sent, known.into_inner())
}

fn draft(providers: &Providers, deed: &Deed) -> Result<Draft, Error> {
    let Deed::SdkProxy { provider, service, operation, parameters, .. } = deed else { panic!() };
    providers.draft(Wanted { provider, service, operation, parameters: parameters.clone() })
}

const ISSUE: (&str, &str, &str, &str) = ("github", "issues", "create", "{{nl:github/TOKEN}}");

/// A document of the operator's.
fn own() -> Value {
    json!({
        "openapi": "3.0.0", "servers": [{"url": "https://own.test"}],
        "components": {"securitySchemes": {"key": {"type": "http", "scheme": "basic"}}},
        "paths": {"/me": {"get": {"operationId": "me"}}}
    })
}

/// What a category is called ties no secret to a service that the operator wrote down: a login of a web site would go to
/// all of them.
#[test]
fn a_service_of_the_operators_is_opened_by_what_names_its_host() {
    let me = ("http", "own", "me", "{{nl:http/LOGIN}}");
    for path in ["team/http/login", "team/own/login"] {
        let login = || vec![material("{{nl:http/LOGIN}}", path, "me:token")];
        let (refused, sent) = done(login(), me, &json!({}), &[]);
        let refused = refused.err().unwrap();
        assert_eq!(refused.code(), Code::ForeignDestination);
        assert!(refused.message().contains("keyless secret set --to"), "{refused:?}");
        assert!(sent.is_empty());
        assert_eq!(done(login(), me, &json!({}), &["own.test"]).1.len(), 1);
        let mut bound = login();
        bound[0].secret.rule = Some(serde_json::from_value(json!({"to": ["own.test"]})).unwrap());
        assert_eq!(done(bound, me, &json!({}), &[]).1.len(), 1);
    }
}

fn issue() -> Value {
    json!({"owner": "o", "repo": "r", "title": "{{nl:db/PASSWORD}}"})
}

#[test]
fn a_parameter_s_value_goes_where_the_grant_lets_it() {
    let (refused, sent) = done(materials(), ISSUE, &issue(), &[]);
    assert_eq!(refused.err().unwrap().code(), Code::ForeignDestination);
    assert!(sent.is_empty());
    let (done, sent) = done(materials(), ISSUE, &issue(), &["api.github.com"]);
    assert_eq!((done.ok().unwrap().refused.is_none(), sent.len()), (true, 1));
    assert!(sent[0].contains(PASSWORD));
}

/// `site` is the agent's word: the secret's category says nothing of it.
#[test]
fn a_host_that_the_agent_names_is_the_grants_to_allow() {
    let jira = || vec![material("{{nl:jira/KEY}}", "team/jira/key", "me:token")];
    let call = ("jira", "myself", "get", "{{nl:jira/KEY}}");
    let site = json!({ "site": "evil-tenant" });
    let (refused, sent) = done(jira(), call, &site, &[]);
    assert_eq!(refused.err().unwrap().code(), Code::ForeignDestination);
    assert!(sent.is_empty());
    assert_eq!(done(jira(), call, &json!({ "site": "acme" }), &["acme.atlassian.net"]).1.len(), 1);
    assert_eq!(done(jira(), call, &site, &["acme.atlassian.net"]).1.len(), 0);
}

/// Before any value is opened, as it is when the call is made.
#[test]
fn where_a_call_would_go_is_judged_without_the_credential() {
    let providers = Providers::bundled();
    let rule: EgressRule = serde_json::from_value(json!({ "to": ["acme.atlassian.net"] })).unwrap();
    let granted: Vec<Destination> = vec!["acme.atlassian.net".parse().unwrap()];
    let judged = |path: &str, rule: Option<&EgressRule>, hosts: &[Destination], site: &str| {
        let deed = serde_json::from_value(json!({
            "type": "sdk_proxy", "provider": "jira", "service": "myself", "operation": "get",
            "parameters": { "site": site }, "credentials_ref": "{{nl:jira/KEY}}"
        }));
        let action: keyless_core::action::Action = deed.unwrap();
        let bounds = BoundTo { path: &path.parse().unwrap(), rule, allowed_hosts: hosts };
        let draft = draft(&providers, &action.deed).ok().unwrap();
        draft.check_destination(&bounds).map_err(|error| error.code())
    };
    let foreign = Err(Code::ForeignDestination);
    assert_eq!(judged("team/jira/key", None, &[], "acme"), foreign);
    assert_eq!(judged("team/jira/key", None, &granted, "acme"), Ok(()));
    assert_eq!(judged("team/jira/key", Some(&rule), &[], "acme"), Ok(()));
    assert_eq!(judged("team/jira/key", Some(&rule), &granted, "other"), foreign);
}

fn checked(provider: &str, operation: &str, parameters: &Value, rule: &Value) -> Result<(), Code> {
    let deed = serde_json::from_value(json!({
        "type": "sdk_proxy", "provider": provider, "service": "rest", "operation": operation,
        "parameters": parameters, "credentials_ref": "{{nl:a/KEY}}"
    }));
    let action: keyless_core::action::Action = deed.unwrap();
    let rule: EgressRule = serde_json::from_value(rule.clone()).unwrap();
    let path = "team/a/key".parse().unwrap();
    let bounds = BoundTo { path: &path, rule: Some(&rule), allowed_hosts: &[] };
    let providers = Providers::bundled();
    let checked = draft(&providers, &action.deed);
    checked.and_then(|draft| draft.check_destination(&bounds)).map_err(|error| error.code())
}

/// At the paths that these services have.
#[test]
fn what_answers_with_a_credential_is_withheld() {
    for (provider, host, withheld, open) in [
        (
            "github",
            "api.github.com",
            &[
                "POST /repos/acme/site/actions/runners/registration-token",
                "POST /orgs/acme/actions/runners/remove-token",
                "POST /enterprises/acme/actions/runners/registration-token",
                "POST /app/installations/7/access_tokens",
                "POST /applications/abc/token",
                "POST /applications/abc/token/scoped",
            ][..],
            &["GET /repos/acme/site/actions/runners", "GET /user"][..],
        ),
        (
            "gitlab",
            "gitlab.com",
            &[
                "POST /personal_access_tokens/self/rotate",
                "POST /groups/1/access_tokens",
                "POST /projects/1/access_tokens/2/rotate",
                "POST /user/personal_access_tokens",
                "POST /users/3/impersonation_tokens",
                "POST /projects/1/deploy_tokens",
                "GET /groups/1/variables/TOKEN",
                "GET /projects/1/variables.json",
                "GET /admin/ci/variables",
                "POST /runners/reset_authentication_token",
            ],
            &["GET /projects/1/issues.json", "GET /personal_access_tokens/self"],
        ),
        (
            "stripe",
            "api.stripe.com",
            &["GET /v1/apps/secrets/find", "POST /v1/terminal/connection_tokens"],
            &["GET /v1/charges"],
        ),
        (
            "openai",
            "api.openai.com",
            &["POST /chatkit/sessions", "POST /realtime/transcription_sessions"],
            &["GET /models"],
        ),
    ] {
        let rule = json!({ "to": [host] });
        for operation in withheld {
            let checked = checked(provider, operation, &json!({}), &rule);
            assert_eq!(checked, Err(Code::ActionBlocked), "{provider} {operation}");
        }
        for operation in open {
            assert_eq!(checked(provider, operation, &json!({}), &rule), Ok(()), "{operation}");
        }
    }
}

/// What frameworks take in place of the method is another operation, in a query, a form and JSON.
#[test]
fn an_operation_is_not_another_one_by_a_parameter() {
    for (provider, host, operation) in [
        ("github", "api.github.com", "GET /repos/o/r"),
        ("gitlab", "gitlab.com", "POST /projects/1/issues/2"),
        ("stripe", "api.stripe.com", "POST /v1/customers/c"),
    ] {
        // With the secret's own rules or without.
        let allow = operation.split_once(' ').map(|(method, _)| format!("{method} /**")).unwrap();
        for rule in [json!({ "to": [host] }), json!({ "to": [host], "allow": [allow] })] {
            let checked = |parameters| checked(provider, operation, &parameters, &rule);
            let own = operation.split(' ').next().unwrap();
            for fine in [
                json!({ "page": 1 }),
                json!({ "_method": own }),
                json!({ "_method": null }),
                json!({ "title": "_method=DELETE", "method": "DELETE" }),
                json!({ "a": { "_method": "DELETE" } }),
            ] {
                assert_eq!(checked(fine.clone()), Ok(()), "{provider}: {fine}");
            }
            for other in [
                json!({ "_method": "DELETE" }),
                json!({ "_method": " delete" }),
                json!({ "_METHOD": "DELETE" }),
                json!({ "X-HTTP-Method-Override": "DELETE" }),
                json!({ "_method": "{{nl:a/METHOD}}" }),
            ] {
                assert_eq!(checked(other.clone()), Err(Code::BadRequest), "{provider}: {other}");
            }
        }
    }
    let rule = json!({ "to": ["api.stripe.com"] });
    let of_form = |parameters| checked("stripe", "POST /v1/customers/c", &parameters, &rule);
    for (name, value) in [
        ("_method[]", json!("DELETE")),
        ("_method", json!(["DELETE"])),
        ("_method", json!({ "x": "PUT" })),
        (" _method", json!("PUT")),
        (".method", json!("PUT")),
        ("_Method", json!("PUT")),
        ("x_http_method", json!("PUT")),
    ] {
        assert_eq!(of_form(json!({ name: value })), Err(Code::BadRequest), "{name}: {value}");
    }
    let deed = serde_json::from_value(json!({
        "type": "sdk_proxy", "provider": "github", "service": "rest", "operation": "POST /repos/o/r/issues",
        "parameters": { "_method": "DELETE" }, "credentials_ref": "{{nl:a/KEY}}"
    }));
    let action: keyless_core::action::Action = deed.unwrap();
    let words = draft(&Providers::bundled(), &action.deed).err().unwrap().message();
    assert!(words.contains("_method") && words.contains("do a DELETE in place of"), "{words}");
    assert!(words.contains("name the operation that is meant"), "{words}");
}

#[test]
fn what_is_no_text_is_no_parameter() {
    let mut binary = materials();
    binary[2].bytes = Zeroizing::new(b"s3ntinel\xff".to_vec());
    let (refused, sent) = done(binary, ISSUE, &issue(), &["api.github.com"]);
    let refused = refused.err().unwrap();
    assert_eq!(refused.code(), Code::BadRequest);
    assert!(refused.message().contains("team/db/password is not text"), "{refused:?}");
    assert!(sent.is_empty());
}

#[test]
fn a_bound_secret_is_no_parameter() {
    let rule: EgressRule = serde_json::from_value(json!({"to": ["api.github.com"]})).unwrap();
    let mut bound = materials();
    bound[2].secret.rule = Some(rule.clone());
    let (refused, sent) = done(bound, ISSUE, &issue(), &["api.github.com"]);
    assert_eq!(refused.err().unwrap().code(), Code::LocationNotAllowed);
    assert!(sent.is_empty());
    let mut exposed = materials();
    (exposed[2].secret.rule, exposed[2].secret.is_exposed) = (Some(rule), true);
    assert_eq!(done(exposed, ISSUE, &issue(), &["api.github.com"]).1.len(), 1);
}

#[test]
fn no_fault_of_a_call_tells_a_value() {
    let everywhere = ["api.github.com", "acme.atlassian.net", "s3.us-east-1.amazonaws.com"];
    let secret = "{{nl:db/PASSWORD}}";
    let aws = ("aws", "s3", "list_buckets", "{{nl:aws/KEYS}}");
    let get = ("aws", "s3", "get_object", "{{nl:aws/KEYS}}");
    for (call, parameters) in [
        (aws, json!({ "region": secret })),
        (aws, json!({ "Nothing": secret })),
        (get, json!({"Bucket": "{{nl:db/PASSWORD}}", "Nothing": "a"})),
    ] {
        let (refused, sent) = done(materials(), call, &parameters, &everywhere);
        let message = refused.err().unwrap().message();
        assert!(!message.contains(PASSWORD), "{message}");
        assert!(sent.is_empty());
    }
    let mut dots = materials();
    dots[2].bytes = Zeroizing::new(b"..".to_vec());
    let parameters = json!({"Bucket": secret, "Key": "k"});
    let (refused, _) = done(dots, get, &parameters, &everywhere);
    assert_eq!(refused.err().unwrap(), Error::new(Code::BadRequest));
    let mut keys = materials();
    let credential = json!({"AccessKeyId": "A", "SecretAccessKey": "k", "region": "a secret's"});
    keys[1].bytes = Zeroizing::new(credential.to_string().into_bytes());
    let (refused, _) = done(keys, aws, &json!({}), &everywhere);
    let message = refused.err().unwrap().message();
    assert!(!message.contains("a secret's"), "{message}");
}

#[test]
fn a_redirect_is_told_and_not_followed() {
    let rest = ("github", "rest", "GET /moved/elsewhere", "{{nl:github/TOKEN}}");
    let (called, sent) = done(materials(), rest, &json!({}), &["api.github.com"]);
    let refused = called.ok().unwrap().refused.expect("no success");
    let words =
        "the service answered 302 and points elsewhere, which is not followed: elsewhere.test:443";
    assert_eq!((refused.as_str(), sent.len()), (words, 1));
}

#[test]
fn parameters_do_not_grow_without_bound() {
    let mut large = materials();
    large[2].bytes = Zeroizing::new(vec![b'x'; 64 << 10]);
    let parameters = json!({"owner": "o", "repo": "r", "title": "{{nl:db/PASSWORD}}".repeat(100)});
    let (refused, sent) = done(large, ISSUE, &parameters, &["api.github.com"]);
    assert_eq!(refused.err().unwrap().code(), Code::MessageTooLarge);
    assert!(sent.is_empty());
}

const READ: (&str, &str, &str, &str) = ("postgres", "database", "query", "{{nl:db/PASSWORD}}");

fn statement(extra: Value) -> Value {
    let mut parameters = json!({"sql": "SELECT $1", "values": [[1, "a\"b", null]]});
    let Value::Object(extra) = extra else { panic!("an object") };
    parameters.as_object_mut().unwrap().extend(extra);
    parameters
}

#[test]
fn a_password_goes_where_its_rule_or_the_grant_says() {
    let at = |host: &str| statement(json!({"host": host, "user": "me", "database": "shop"}));
    let sent_to = |materials, parameters, hosts: &[&str]| done(materials, READ, &parameters, hosts);
    // A category is no place: an agent could name any.
    let mut named = materials();
    named[2].secret.path = "team/postgres/password".parse().unwrap();
    for mine in [materials(), named] {
        let (refused, sent) = sent_to(mine, at("evil.test"), &["db.test:5432"]);
        assert_eq!(refused.err().unwrap().code(), Code::ForeignDestination);
        assert!(sent.is_empty());
    }
    let (done, sent) = sent_to(materials(), at("db.test"), &["db.test:5432"]);
    assert_eq!(sent, [format!("me:{PASSWORD}@db.test:5432/shop{{\"1\",\"a\\\"b\",NULL}}")]);
    let done = done.ok().unwrap();
    assert_eq!(done.refused.unwrap().as_str(), "the database refused it: 42P01");
    let known = remembered(materials(), READ, &at("db.test"), &["db.test:5432"]).2;
    assert!(known.iter().any(|known| *known.value == PASSWORD.as_bytes()));
    let rule: EgressRule = serde_json::from_value(json!({"to": ["db.test:5432"]})).unwrap();
    for (host, goes) in [("db.test", true), ("evil.test", false)] {
        let mut bound = materials();
        bound[2].secret.rule = Some(rule.clone());
        // The grant widens no rule.
        let sent = sent_to(bound, at(host), &["evil.test:5432"]).1;
        assert_eq!(!sent.is_empty(), goes, "{host}");
    }
}

/// The credential of the database is a URL.
fn with_url(url: &str) -> Vec<Material> {
    let mut materials = materials();
    materials[2].bytes = Zeroizing::new(url.as_bytes().to_vec());
    materials
}

#[test]
fn a_failed_call_leaves_the_parts_of_its_credential_remembered() {
    let url = with_url("postgres://me:p%40ss-w0rd@db.test/gone");
    let (failed, sent, known) = remembered(url, READ, &statement(json!({})), &[]);
    assert_eq!((failed.err().unwrap().code(), sent.len()), (Code::Internal, 1));
    assert!(known.iter().any(|known| *known.value == *b"p@ss-w0rd"));
}

#[test]
fn a_url_says_all_by_itself() {
    let with = || with_url("postgres://me:p%40ss-w0rd@db.test/shop?sslmode=disable");
    let (called, sent, known) = remembered(with(), READ, &statement(json!({})), &[]);
    assert!(sent[0].starts_with("me:p@ss-w0rd@db.test:5432/shop"), "{sent:?}");
    assert!(called.is_ok());
    assert!(known.iter().any(|known| *known.value == *b"p@ss-w0rd"));
    for extra in [json!({"host": "evil.test"}), json!({"user": "postgres"}), json!({"port": 1})] {
        let (refused, sent) = done(with(), READ, &statement(extra), &["evil.test:5432"]);
        assert_eq!(refused.err().unwrap().code(), Code::BadRequest);
        assert!(sent.is_empty());
    }
}
