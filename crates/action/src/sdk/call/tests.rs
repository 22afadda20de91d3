use futures_util::FutureExt;
use keyless_core::{EgressRule, Handle};
use parking_lot::Mutex;
use serde_json::json;

use super::*;
use crate::ports::{Edition, Entrusted, Entry};

const PASSWORD: &str = "s3ntinel-of-the-database";

/// Keeps the bodies that are sent.
#[derive(Default)]
struct Recording(Mutex<Vec<String>>);

impl Http for Recording {
    fn send(&self, call: Call) -> BoxFuture<'_, Result<Answer, Error>> {
        self.0.lock().push(String::from_utf8_lossy(&call.body).into_owned());
        let body = Zeroizing::new(b"{}".to_vec());
        Box::pin(async move { Ok(Answer { status: 200, content_type: None, body }) })
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
    (provider, service, operation, credential): (&str, &str, &str, &str),
    parameters: &Value,
    hosts: &[&str],
) -> (Result<Called, Error>, Vec<String>) {
    let action = json!({
        "type": "sdk_proxy", "provider": provider, "service": service, "operation": operation,
        "parameters": parameters, "credentials_ref": credential
    });
    let work = Work {
        action_id: "act_1".to_owned(),
        action: serde_json::from_value(action).unwrap(),
        secrets: Vec::new(),
        allowed_hosts: hosts.iter().map(|host| host.parse().unwrap()).collect(),
        permissions: Vec::new(),
        working_directory: None,
    };
    let (http, materials) = (Recording::default(), Materials::holding(materials));
    let called = call(&work, &materials, &Providers::bundled(), &http, 1 << 20).now_or_never();
    (called.unwrap(), http.0.into_inner())
}

const ISSUE: (&str, &str, &str, &str) = ("github", "issues", "create", "{{nl:github/TOKEN}}");

fn issue() -> Value {
    json!({"owner": "o", "repo": "r", "title": "{{nl:db/PASSWORD}}"})
}

#[test]
fn a_parameter_s_value_goes_where_the_grant_lets_it() {
    let (refused, sent) = done(materials(), ISSUE, &issue(), &[]);
    assert_eq!(refused.err().unwrap().code(), Code::ForeignDestination);
    assert!(sent.is_empty());
    let (done, sent) = done(materials(), ISSUE, &issue(), &["api.github.com"]);
    assert_eq!((done.ok().unwrap().status, sent.len()), (200, 1));
    assert!(sent[0].contains(PASSWORD));
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
        (get, json!({"Bucket": "b", "Key": "{{nl:db/PASSWORD}}/.."})),
    ] {
        let (refused, sent) = done(materials(), call, &parameters, &everywhere);
        let message = refused.err().unwrap().message();
        assert!(!message.contains(PASSWORD), "{message}");
        assert!(sent.is_empty());
    }
    let mut dots = materials();
    dots[2].bytes = Zeroizing::new(b"..".to_vec());
    let parameters = json!({"Bucket": "b", "Key": secret});
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
fn parameters_do_not_grow_without_bound() {
    let mut large = materials();
    large[2].bytes = Zeroizing::new(vec![b'x'; 64 << 10]);
    let parameters = json!({"owner": "o", "repo": "r", "title": "{{nl:db/PASSWORD}}".repeat(100)});
    let (refused, sent) = done(large, ISSUE, &parameters, &["api.github.com"]);
    assert_eq!(refused.err().unwrap().code(), Code::MessageTooLarge);
    assert!(sent.is_empty());
}
