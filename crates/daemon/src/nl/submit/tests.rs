//! Several actions in one message.

use std::{fs::Permissions, os::unix::fs::PermissionsExt as _};

use keyless_core::{
    action::MAX_BATCH,
    agent::{AgentState, LifecycleAuthority},
    approval::Decision,
    audit,
    grant::GrantId,
    threat::Incident,
};
use serde_json::json;

use keyless_store::AuditQuery;
use keyless_vault::{Entries, Metadata};

use super::*;
use crate::{
    nl::{
        agents::Registration,
        replays::{Fingerprint, Replays},
        scene::{Served, aid, registration},
    },
    scene::behind_the_back,
};

/// `stage/*` names a category while there is one of that name, and an environment where there never was.
#[tokio::test]
async fn a_pattern_means_the_same_once_the_last_of_its_category_is_gone() {
    let served = Served::new().await;
    let caller = served.agent("a", &[ActionType::Exec], &[]).await;
    served.allow_secrets(&caller, &["stage/*"]).await;
    let path = |text: &str| SecretPath::parse(text).unwrap();
    let (category, environment) = (path("t/stage/x"), path("t/stage/db/pw"));
    for path in [&category, &environment] {
        let new = (path.clone(), Metadata::default());
        served.nl.vault.add(new.0, new.1, None, Entries::untold()).await.unwrap();
    }
    let code = async |reference: &str| {
        let template = format!("true {{{{nl:{reference}}}}}");
        let action = json!({ "type": "exec", "template": template, "dry_run": true });
        let action = Action::from_json(action).unwrap();
        let outcome = served.nl.one(&caller, Ok(action), "req-1", Timestamp::now()).await;
        outcome.fault.map(|fault| fault.code())
    };
    let refused = Some(Code::GrantMissing);
    assert_eq!((code("t/stage/x").await, code("t/stage/db/pw").await), (None, refused));
    served.nl.vault.remove(&category, Entries::untold()).await.unwrap();
    let gone = Some(Code::SecretNotFound);
    assert_eq!((code("t/stage/x").await, code("t/stage/db/pw").await), (gone, refused));
}

#[tokio::test]
async fn each_action_of_a_message_is_counted() {
    let served = Served::new().await;
    let caller = served.agent("a", &[ActionType::Exec], &["*"]).await;
    let action = json!({ "type": "exec", "template": "true {{nl:api/token}}", "dry_run": true });
    let payload = json!({ "actions": vec![action; MAX_BATCH] });
    let mut answers = Vec::new();
    let mut left = Vec::new();
    for number in 0..7 {
        let id = format!("req-{number}");
        let all = payload.as_object().unwrap();
        let outcome =
            served.nl.submit(&caller, all, &id, Timestamp::now(), Ahead::default()).await.unwrap();
        answers.extend(outcome.body()["responses"].as_array().unwrap().clone());
        left.push(outcome.rate().map(|rate| rate.remaining));
    }
    assert_eq!(left[..3], [Some(101), Some(82), Some(63)]);
    let done = answers.iter().filter(|answer| answer["status"] == "dry_run_ok").count();
    // 120 a minute, and the first of each message, which the door has counted.
    assert_eq!((done, answers.len()), (127, 140));
    assert_eq!(answers[139]["error"]["nl_code"], "NL-E202", "{}", answers[139]);
}

#[tokio::test]
async fn a_dry_run_says_what_would_stop_the_action() {
    let served = Served::new().await;
    let may = [ActionType::Exec, ActionType::Template, ActionType::SdkProxy];
    let caller = served.agent("a", &may, &["*"]).await;
    let checked = async |action: Value| {
        let mut action = action;
        action["dry_run"] = json!(true);
        let outcome = served.nl.one(&caller, read(action), "req-1", Timestamp::now()).await;
        outcome.fault.map(|fault| fault.code())
    };
    let exec = |template: &str| json!({ "type": "exec", "template": template });
    assert_eq!(checked(exec("true {{nl:api/token}}")).await, None);
    for unfit in ["echo '{{nl:api/token}}", "echo $(({{nl:api/token}}))"] {
        assert_eq!(checked(exec(unfit)).await, Some(Code::PlaceholderInvalid), "{unfit}");
    }
    let elsewhere = json!({
        "type": "template", "template_content": "{{nl:api/token}}", "output_path": "/etc/passwd",
    });
    assert_eq!(checked(elsewhere).await, Some(Code::MessageMalformed));
    for (provider, service) in [("aws", "s3"), ("github", "repos"), ("postgres", "database")] {
        let unknown = checked(call(provider, service, "no_such_thing")).await;
        assert_eq!(unknown, Some(Code::BadRequest), "{provider}");
    }
    assert_eq!(checked(call("nobody", "x", "y")).await, Some(Code::ProviderNotConfigured));
    // There is such an operation, which this grant does not let change anything.
    let writing = checked(call("postgres", "database", "execute")).await;
    assert_eq!(writing, Some(Code::GrantMissing));
    assert_eq!(checked(call("postgres", "tables", "execute")).await, Some(Code::BadRequest));
    assert_eq!(checked(call("aws", "s3", "list_buckets")).await, None);
    let foreign = checked(call("github", "rest", "GET /user")).await;
    assert_eq!(foreign, Some(Code::ForeignDestination));
    let path = SecretPath::parse("t/api/token").unwrap();
    served
        .nl
        .vault
        .put(&path, b"a value that others know".to_vec().into(), Entries::untold())
        .await
        .unwrap();
    served.nl.vault.revoke_compromised(&path, Entries::untold()).await.unwrap();
    assert_eq!(checked(exec("true {{nl:api/token}}")).await, Some(Code::SecretCompromised));
    // The one that was compromised stays so when there is another.
    served
        .nl
        .vault
        .put(&path, b"a value that nobody knows".to_vec().into(), Entries::untold())
        .await
        .unwrap();
    assert_eq!(checked(exec("true {{nl:api/token}}")).await, None);
    let before = checked(exec("true {{nl:api/token@previous}}")).await;
    assert_eq!(before, Some(Code::SecretCompromised));
}

fn call(provider: &str, service: &str, operation: &str) -> Value {
    json!({
        "type": "sdk_proxy", "provider": provider, "service": service, "operation": operation,
        "parameters": {}, "credentials_ref": "{{nl:api/token}}",
    })
}

/// A credential goes where its secret belongs, a parameter where the grant lets it go.
#[tokio::test]
async fn a_credential_and_a_parameter_are_judged_by_where_a_service_is() {
    let served = Served::new().await;
    let path = SecretPath::parse("t/github/token").unwrap();
    served.nl.vault.add(path, Metadata::default(), None, Entries::untold()).await.unwrap();
    let caller = served.agent("a", &[ActionType::SdkProxy], &["*"]).await;
    let checked = async |credential: &str, parameter: &str| {
        let action = json!({
            "type": "sdk_proxy", "provider": "github", "service": "rest", "operation": "POST /gists",
            "parameters": { "body": { "description": parameter } },
            "credentials_ref": credential, "dry_run": true,
        });
        let outcome = served.nl.one(&caller, read(action), "req-1", Timestamp::now()).await;
        outcome.fault.map(|fault| fault.code())
    };
    // `github` is where such a secret belongs, `db` is not.
    let (belongs, foreign) = ("{{nl:github/token}}", "{{nl:db/password}}");
    assert_eq!(checked(belongs, "text").await, None);
    for parameter in [foreign, belongs] {
        assert_eq!(checked(belongs, parameter).await, Some(Code::ForeignDestination));
    }
    assert_eq!(checked(foreign, belongs).await, Some(Code::ForeignDestination));
    // The same handle in both places is the credential, however it is spelt there.
    assert_eq!(checked(foreign, foreign).await, Some(Code::ForeignDestination));
    assert_eq!(checked("{{vault:db/password}}", belongs).await, Some(Code::ForeignDestination));
    assert_eq!(
        checked("{{nl:db/password}}", "{{nl:t/db/password}}").await,
        Some(Code::ForeignDestination)
    );
    served.allow(&caller, json!({ "allowed_hosts": ["api.github.com"] })).await;
    for parameter in [foreign, belongs] {
        assert_eq!(checked(belongs, parameter).await, None);
    }
    // What names its hosts is a credential and nothing else, unless its owner lets it out of hand.
    let path = SecretPath::parse("t/slack/token").unwrap();
    let to = vec!["slack.com".parse().unwrap()];
    let bound = Metadata { egress: Some(keyless_core::EgressRule::to(to)), ..Metadata::default() };
    let exposed = Metadata { unsafe_expose: true, ..bound.clone() };
    let vault = &served.nl.vault;
    vault.add(path.clone(), bound.clone(), None, Entries::untold()).await.unwrap();
    let written = "{{nl:slack/token}}";
    assert_eq!(checked(belongs, written).await, Some(Code::LocationNotAllowed));
    vault.set_metadata(&path, &bound, exposed, Entries::untold()).await.unwrap();
    assert_eq!(checked(belongs, written).await, None);
}

/// Nobody is asked about a call that would fail at its parameters.
#[tokio::test]
async fn where_a_parameter_goes_is_judged_before_a_person_is_asked() {
    let served = Served::new().await;
    let may = [ActionType::SdkProxy, ActionType::Delegate];
    let caller = served.agent("a", &may, &[]).await;
    served.allow(&caller, json!({ "require_human_approval": true })).await;
    let helper = served.agent("b", &may, &[]).await;
    let path = SecretPath::parse("t/github/token").unwrap();
    served.nl.vault.add(path, Metadata::default(), None, Entries::untold()).await.unwrap();
    let call = json!({
        "type": "sdk_proxy", "provider": "github", "service": "rest", "operation": "POST /gists",
        "parameters": { "body": { "description": "{{nl:db/password}}" } },
        "credentials_ref": "{{nl:github/token}}",
    });
    let handed = json!({
        "type": "delegate", "delegate_to": helper.aid.agent_uri.as_str(), "delegated_action": call,
        "delegation_scope": { "secrets": ["db/password", "github/token"] },
    });
    let mut statement = call.clone();
    statement["provider"] = json!("postgres");
    statement["service"] = json!("database");
    statement["operation"] = json!("query");
    statement["parameters"] = json!({ "sql": "select $1", "values": ["{{nl:db/password}}"] });
    for action in [call, handed, statement] {
        let outcome = served.nl.one(&caller, read(action), "req-1", Timestamp::now()).await;
        let fault = outcome.fault.unwrap();
        assert_eq!(fault.code(), Code::ForeignDestination, "{}", fault.error().message());
    }
    assert!(served.nl.requests.all().await.unwrap().is_empty());
}

#[tokio::test]
async fn an_action_that_can_not_be_done_takes_no_use_of_its_grant() {
    let served = Served::new().await;
    let may = [ActionType::Exec, ActionType::Template, ActionType::SdkProxy];
    let caller = served.agent("a", &may, &[]).await;
    served.allow(&caller, json!({ "max_uses": 1 })).await;
    let unfit = [
        json!({ "type": "exec", "template": "echo $'{{nl:api/token}}'" }),
        json!({
            "type": "template", "template_content": "{{nl:api/token}}", "output_path": "/etc/passwd",
        }),
        call("github", "repos", "nothing"),
        call("postgres", "database", "drop"),
        // Its host is neither the grant's nor where such a secret belongs.
        call("github", "rest", "GET /user"),
        // It answers with a credential, and the next lacks what its path is made of.
        call("slack", "oauth", "v2.access"),
        call("github", "repos", "get"),
    ];
    let id = keyless_core::grant::GrantId::parse("g-more").unwrap();
    for action in unfit {
        let done = read(action.clone());
        let outcome = served.nl.one(&caller, done, "req-1", Timestamp::now()).await;
        assert!(outcome.fault.is_some(), "{action}");
        assert_eq!(served.nl.grants.show(&id).await.unwrap().used, [0], "{action}");
    }
}

#[tokio::test]
async fn a_template_that_has_no_room_takes_no_use_of_its_grant() {
    let served = Served::new().await;
    let caller = served.agent("a", &[ActionType::Template], &[]).await;
    served.allow(&caller, json!({ "max_uses": 1 })).await;
    let tried = async |text: &str, path: &str| {
        let action = json!({ "type": "template", "template_content": text, "output_path": path });
        let outcome = served.nl.one(&caller, read(action), "req-1", Timestamp::now()).await;
        outcome.fault.map(|fault| fault.code())
    };
    let large = "x".repeat(1 << 20);
    for number in 0..16 {
        assert_eq!(tried(&large, &format!("{number}.txt")).await, None);
    }
    assert_eq!(tried("x={{nl:api/token}}", "app.env").await, Some(Code::RenderedFull));
    let id = keyless_core::grant::GrantId::parse("g-more").unwrap();
    assert_eq!(served.nl.grants.show(&id).await.unwrap().used, [0]);
    // One that takes another's place has its room; its value is not here.
    assert_eq!(tried("x={{nl:api/token}}", "3.txt").await, Some(Code::SecretUnavailable));
}

#[tokio::test]
async fn what_lies_beyond_an_agents_own_bounds_is_said_to() {
    let served = Served::new().await;
    let scope = json!({ "projects": ["t"], "environments": ["*"], "categories": ["db"] });
    let wanted =
        Registration { scope: serde_json::from_value(scope.clone()).unwrap(), ..registration("a") };
    let caller = served.enrolled(wanted, &["*"]).await;
    let asked = async |name: &str| {
        let template = format!("true {{{{nl:{name}}}}}");
        let action = json!({ "type": "exec", "template": template, "dry_run": true });
        served.nl.one(&caller, read(action), "req-1", Timestamp::now()).await.fault
    };
    assert_eq!(asked("db/PASSWORD").await.map(|fault| fault.code()), None);
    let beyond = asked("api/TOKEN").await.unwrap();
    assert_eq!(beyond.code(), Code::ScopeViolation);
    assert_eq!(beyond.details()["kind"], "aid_scope");
    assert_eq!(beyond.details()["agent_scope"], scope);
    assert_eq!(beyond.details()["required_scope"]["category"], "api");
    // By its words alone, whether or not it is there.
    for (there, missing, code) in [
        ("api/TOKEN", "api/NOTHING", Code::ScopeViolation),
        ("t/default/api/TOKEN", "t/default/api/NOTHING", Code::ScopeViolation),
        ("t/api/token", "t/api/nothing", Code::SecretNotFound),
        ("TOKEN", "NOTHING", Code::SecretNotFound),
    ] {
        let mut told = Vec::new();
        for name in [there, missing] {
            let fault = asked(name).await.unwrap();
            assert_eq!(fault.code(), code, "{name}");
            let body = fault.body(keyless_core::nl_message::Shape::Bare).to_string();
            told.push(body.replace(name, "NAME"));
        }
        assert_eq!(told[0], told[1]);
    }
    let nothing = asked("db/NOTHING").await.unwrap();
    assert_eq!(nothing.code(), Code::SecretNotFound);
}

#[tokio::test]
async fn what_a_grant_can_not_be_used_for_stands_in_nobodys_way() {
    let served = Served::new().await;
    let path = SecretPath::parse("t/prod/api/token").unwrap();
    served.nl.vault.add(path, Metadata::default(), None, Entries::untold()).await.unwrap();
    let elsewhere = served.agent("a", &[ActionType::Exec], &[]).await;
    served.allow(&elsewhere, json!({ "allowed_environments": ["default"] })).await;
    let ahead = served.agent("b", &[ActionType::Exec], &[]).await;
    served
        .allow_as("g-ahead", &ahead, &["*"], json!({ "valid_from": "2098-01-01T00:00:00Z" }))
        .await;
    served.allow_secrets(&ahead, &["t/api/token"]).await;
    let asked = async |caller: &Caller, name: &str| {
        let template = format!("true {{{{nl:{name}}}}}");
        let action = json!({ "type": "exec", "template": template, "dry_run": true });
        let outcome = served.nl.one(caller, read(action), "req-1", Timestamp::now()).await;
        outcome.fault.map(|fault| fault.code())
    };
    for caller in [&elsewhere, &ahead] {
        assert_eq!(asked(caller, "api/TOKEN").await, None);
        assert_eq!(asked(caller, "TOKEN").await, None);
    }
    // What is meant by nothing else is said to be refused, and why.
    let in_full = "t/prod/api/token";
    assert_eq!(asked(&elsewhere, in_full).await, Some(Code::EnvironmentRestricted));
    assert_eq!(asked(&ahead, in_full).await, Some(Code::GrantNotYetValid));
    assert_eq!(asked(&ahead, "db/PASSWORD").await, Some(Code::GrantNotYetValid));
}

#[tokio::test]
async fn several_that_can_not_be_used_are_told_as_none() {
    let served = Served::new().await;
    for path in ["t/prod/mail/key", "t/dev/mail/key"] {
        let path = SecretPath::parse(path).unwrap();
        served.nl.vault.add(path, Metadata::default(), None, Entries::untold()).await.unwrap();
    }
    // Of the same short name, and not what is meant.
    let bait = Metadata { honeypot: true, ..Metadata::default() };
    let path = SecretPath::parse("t/stage/mail/key").unwrap();
    served.nl.vault.add(path, bait, None, Entries::untold()).await.unwrap();
    let caller = served.agent("a", &[ActionType::Exec], &[]).await;
    served.allow(&caller, json!({ "allowed_environments": ["default"] })).await;
    let action = json!({ "type": "exec", "template": "true {{nl:mail/KEY}}", "dry_run": true });
    let outcome = served.nl.one(&caller, read(action), "req-1", Timestamp::now()).await;
    let fault = outcome.fault.unwrap();
    assert_eq!(fault.code(), Code::SecretNotFound);
    assert!(!fault.details().contains_key("paths"), "{fault:?}");
}

#[tokio::test]
async fn a_secret_that_is_written_in_several_ways_is_named_once() {
    let served = Served::new().await;
    let caller = served.agent("a", &[ActionType::Exec], &["*"]).await;
    let named = async |template: &str| {
        let action = json!({ "type": "exec", "template": template, "dry_run": true });
        let outcome = served.nl.one(&caller, read(action), "req-1", Timestamp::now()).await;
        outcome.body()["secrets_validated"].clone()
    };
    let several = "true {{nl:TOKEN}} {{nl:db/PASSWORD}} {{nl:t/api/token}} {{nl:api/TOKEN@latest}}";
    assert_eq!(named(several).await, json!(["t/api/token", "db/PASSWORD"]));
    let alias = "true {{nl:api/TOKEN}} {{vault:api/TOKEN}}";
    assert_eq!(named(alias).await, json!(["api/TOKEN"]));
}

#[tokio::test]
async fn what_a_grant_names_and_nobody_keeps_is_not_found() {
    let served = Served::new().await;
    let caller = served.agent("a", &[ActionType::Exec], &[]).await;
    served.allow_secrets(&caller, &["api/*", "t/prod/db/*"]).await;
    let asked = async |name: &str| {
        let template = format!("true {{{{nl:{name}}}}}");
        let action = json!({ "type": "exec", "template": template, "dry_run": true });
        let outcome = served.nl.one(&caller, read(action), "req-1", Timestamp::now()).await;
        outcome.fault.map(|fault| fault.code())
    };
    assert_eq!(asked("api/TOKEN").await, None);
    for covered in ["api/NOTHING", "t/api/nothing", "t/prod/api/nothing", "t/prod/db/NOTHING"] {
        assert_eq!(asked(covered).await, Some(Code::SecretNotFound), "{covered}");
    }
    // Of what no grant names it is not told whether it is there.
    for beyond in ["db/PASSWORD", "db/NOTHING", "t/db/password", "t/prod/NOTHING"] {
        assert_eq!(asked(beyond).await, Some(Code::GrantMissing), "{beyond}");
    }
}

#[tokio::test]
async fn what_can_not_be_read_is_on_record_as_what_it_says_it_is() {
    let served = Served::new().await;
    let caller = served.agent("a", &[ActionType::Exec], &["*"]).await;
    let long = "x".repeat(4000);
    for (action, logged, attempted) in [
        (json!({ "type": "template" }), audit::Action::Template, None),
        (json!({ "type": "exec", "template": "true {{nl:a b}}" }), audit::Action::Exec, None),
        (json!({ "type": "teleport\n" }), audit::Action::Blocked, Some("unknown: teleport ")),
        (json!({ "type": "egress" }), audit::Action::Blocked, Some("unknown: egress")),
        (json!({ "type": long }), audit::Action::Blocked, Some("unknown: xxx")),
        (json!("exec"), audit::Action::Blocked, None),
    ] {
        let outcome = served.nl.one(&caller, read(action.clone()), "req-1", Timestamp::now()).await;
        assert!(outcome.fault.is_some(), "{action}");
        let entry = served.nl.vault.store().audit_tail(1).await.unwrap().remove(0);
        assert_eq!((entry.action, entry.result), (logged, audit::Outcome::Error), "{action}");
        let said = entry.detail.attempted_action.as_deref();
        assert_eq!(said.is_some(), attempted.is_some(), "{action}");
        assert!(said.unwrap_or_default().starts_with(attempted.unwrap_or_default()), "{said:?}");
        assert!(said.unwrap_or_default().chars().count() < 320, "{said:?}");
    }
}

#[tokio::test]
async fn a_deprecated_reference_is_on_record_whatever_becomes_of_it() {
    let served = Served::new().await;
    let caller = served.agent("a", &[ActionType::Exec], &["*"]).await;
    for (template, noted) in [
        ("true {{vault:api/token}} {{vault:api/token}} {{nl:db/password}}", "{{vault:api/token}}"),
        ("true {{vault:nothing/HERE}}", "{{vault:nothing/HERE}}"),
        ("cat .env; true {{vault:api/token}}", "{{vault:api/token}}"),
        ("true {{nl:api/token}}", ""),
    ] {
        let action = json!({ "type": "exec", "template": template, "dry_run": true });
        served.nl.one(&caller, read(action), "req-1", Timestamp::now()).await;
        let entry = served.nl.vault.store().audit_tail(1).await.unwrap().remove(0);
        let note = (!noted.is_empty()).then(|| format!("deprecated: {noted}"));
        assert_eq!(entry.detail.note, note, "{template}");
    }
}

#[tokio::test]
async fn a_message_has_one_action_or_several() {
    let served = Served::new().await;
    let caller = served.agent("a", &[ActionType::Exec], &["*"]).await;
    let action = json!({ "type": "exec", "template": "true", "dry_run": true });
    let unfit = [
        json!({ "action": action, "actions": [action] }),
        json!({ "actions": [] }),
        json!({ "actions": vec![&action; MAX_BATCH + 1] }),
    ];
    for unfit in unfit {
        let all = unfit.as_object().unwrap();
        let refused = served.nl.submit(&caller, all, "r", Timestamp::now(), Ahead::default()).await;
        assert_eq!(refused.err().map(|fault| fault.code()), Some(Code::MessageMalformed));
    }
}

#[tokio::test]
async fn an_agent_that_is_suspended_begins_nothing_more_of_its_message() {
    let served = Served::new().await;
    let caller = served.agent("a", &[ActionType::Exec], &["*"]).await;
    let (nl, instance) = (&served.nl, &caller.aid.instance_id);
    let action = json!({ "type": "exec", "template": "true {{nl:api/token}}", "dry_run": true });
    let checked = async || nl.one(&caller, read(action.clone()), "req-1", Timestamp::now()).await;
    assert_eq!(checked().await.fault.map(|fault| fault.code()), None);
    // As the operator does while an earlier action of the message runs.
    let to = (AgentState::Suspended, LifecycleAuthority::Operator);
    nl.agents.change(instance, to, "a test").await.unwrap();
    assert_eq!(checked().await.fault.map(|fault| fault.code()), Some(Code::AgentSuspended));
}

#[tokio::test]
async fn an_action_of_several_that_waits_for_a_person_goes_on_and_no_other_is_done_twice() {
    let served = Served::new().await;
    let caller = served.agent("a", &[ActionType::Exec, ActionType::Template], &["exec"]).await;
    served.allow_types(&caller, &["template"], json!({ "require_human_approval": true })).await;
    // Each gets as far as the value, which nobody has given yet.
    let payload = json!({ "actions": [
        { "type": "exec", "template": "true {{nl:api/token}}" },
        { "type": "template", "template_content": "{{nl:api/token}}" },
    ] });
    let payload = payload.as_object().unwrap();
    let send = async || {
        let outcome = served
            .nl
            .submit(&caller, payload, "req-1", Timestamp::now(), Ahead::default())
            .await
            .unwrap();
        let answers = outcome.body()["responses"].as_array().unwrap().clone();
        let told =
            answers.iter().map(|answer| answer["error"]["nl_code"].as_str().map(str::to_owned));
        (outcome.is_settled, answers[0]["action_id"].clone(), told.collect::<Vec<_>>())
    };
    let (unavailable, asked) = (Some("NL-E305".to_owned()), Some("NL-E204".to_owned()));
    let (is_settled, first, told) = send().await;
    assert_eq!((is_settled, told), (false, vec![unavailable.clone(), asked]));
    let waiting = served.nl.requests.all().await.unwrap();
    served.nl.requests.settle(&waiting[0].id, Decision::AllowOnce).await.unwrap();
    let (is_settled, again, told) = send().await;
    assert_eq!((is_settled, told), (true, vec![unavailable.clone(), unavailable]));
    assert_eq!(first, again);
    // Under the same name there is no other action in the place of one that was done.
    let other = json!({ "actions": [{ "type": "exec", "template": "false {{nl:api/token}}" }] });
    let other = other.as_object().unwrap();
    let refused =
        served.nl.submit(&caller, other, "req-1", Timestamp::now(), Ahead::default()).await;
    assert_eq!(refused.unwrap_err().code(), Code::MessageReplayed);
}

#[tokio::test]
async fn a_refusal_that_passes_is_not_the_answer_for_good() {
    let served = Served::new().await;
    let caller = served.agent("a", &[ActionType::Exec], &[]).await;
    served.allow(&caller, json!({ "max_concurrent": 1 })).await;
    let nl = &served.nl;
    let action = json!({ "type": "exec", "template": "true {{nl:api/token}}" });
    let code = async |held: &Caller| {
        let outcome = nl.one(held, read(action.clone()), "req-1", Timestamp::now()).await;
        (outcome.fault.map(|fault| fault.code()), outcome.is_settled)
    };
    let allowed = nl.allowed(&caller, &read(action.clone()).unwrap(), &mut Course::default()).await;
    let allowance = allowed.map_err(|fault| fault.code()).unwrap().allowance;
    let running = nl.grants.reserve(&allowance, None).await.unwrap().started();
    assert_eq!(code(&caller).await, (Some(Code::ConcurrencyExceeded), false));
    drop(running);
    // It has begun: it is done once, though another try might do.
    assert_eq!(code(&caller).await, (Some(Code::SecretUnavailable), true));
}

#[tokio::test]
async fn a_grant_that_is_revoked_while_a_person_is_asked_opens_nothing() {
    let served = Served::new().await;
    served.add_asked().await;
    let caller = served.agent("a", &[ActionType::Exec], &["*"]).await;
    let nl = &served.nl;
    let action = read(json!({ "type": "exec", "template": "true {{nl:t/api/asked}}" }));
    let acting = nl.one(&caller, action, "req-1", Timestamp::now());
    let answering = async {
        served.until_asked().await;
        nl.grants.revoke(&GrantId::parse("g-a").unwrap(), None).await.unwrap();
        let waiting = nl.requests.all().await.unwrap();
        nl.requests.settle(&waiting[0].id, Decision::AllowOnce).await.unwrap();
    };
    let (outcome, ()) = tokio::join!(Box::pin(acting), Box::pin(answering));
    let fault = outcome.fault.unwrap();
    // It is refused before the value is even looked for; there is none.
    assert_eq!(fault.code(), Code::GrantMissing, "{fault:?}");
    assert!(fault.error().detail().as_str().contains("grant g-a ended"), "{fault:?}");
}

#[tokio::test]
async fn an_action_that_waits_for_a_person_leaves_its_place_to_others() {
    let served = Served::new().await;
    served.add_asked().await;
    let caller = served.agent("a", &[ActionType::Exec], &["*"]).await;
    let action = read(json!({ "type": "exec", "template": "true {{nl:t/api/asked}}" }));
    let acting = served.nl.one(&caller, action, "req-1", Timestamp::now());
    let others = async {
        served.until_asked().await;
        let mut places = Vec::new();
        // Four agents with eight each have all that there are.
        for agent in [(); 4].map(|()| aid("other").instance_id) {
            for _ in 0..8 {
                places.push(served.nl.room.enter(&agent).await.ok());
            }
        }
        places.into_iter().flatten().count()
    };
    tokio::select! {
        outcome = Box::pin(acting) => panic!("{:?}", outcome.fault),
        count = tokio::time::timeout(Duration::from_secs(10), others) => assert_eq!(count, Ok(32)),
    }
}

#[tokio::test]
async fn what_another_run_has_begun_is_judged_at_most() {
    let served = Served::new().await;
    let caller = served.agent("a", &[ActionType::Exec], &[]).await;
    served.allow(&caller, json!({ "max_uses": 1 })).await;
    let nl = &served.nl;
    let print = Fingerprint { instance: "a".to_owned(), digest: [0; 32] };
    let before = Replays::of(nl.vault.store().clone());
    let _begun = before.enter("req-1", print.clone()).await.unwrap();
    let payload = json!({ "action": { "type": "exec", "template": "true {{nl:api/token}}" } });
    let payload = payload.as_object().unwrap();
    let done = async |id: &str| {
        let (_first, noting) = nl.replays.enter_ahead(id, print.clone()).await.unwrap();
        let ahead = Ahead { noting, ..Ahead::default() };
        let outcome = nl.submit(&caller, payload, id, Timestamp::now(), ahead).await;
        outcome.map(|outcome| outcome.fault.map(|fault| fault.code())).map_err(|fault| fault.code())
    };
    assert_eq!(done("req-1").await, Err(Code::MessageReplayed));
    // Its grant has its one use still.
    assert_eq!(done("req-2").await, Ok(Some(Code::SecretUnavailable)));
    assert_eq!(done("req-3").await, Ok(Some(Code::GrantExhausted)));
}

#[tokio::test]
async fn a_dry_run_that_is_said_beside_the_action_does_nothing() {
    let served = Served::new().await;
    let caller = served.agent("a", &[ActionType::Exec], &["*"]).await;
    let action = json!({ "type": "exec", "template": "true {{nl:api/token}}" });
    for payload in [
        json!({ "action": action, "dry_run": true }),
        json!({ "actions": [action], "dry_run": true }),
    ] {
        let payload = payload.as_object().unwrap();
        let refused =
            served.nl.submit(&caller, payload, "r", Timestamp::now(), Ahead::default()).await;
        assert_eq!(refused.unwrap_err().code(), Code::MessageMalformed);
    }
}

/// The guard would have stopped it, which is no way to look for bait unseen.
#[tokio::test]
async fn bait_in_an_action_that_is_stopped_is_bait() {
    let served = Served::new().await;
    let bait = Metadata { honeypot: true, ..Metadata::default() };
    let path = SecretPath::parse("t/ops/master").unwrap();
    served.nl.vault.add(path, bait, None, Entries::untold()).await.unwrap();
    let caller = served.agent("a", &[ActionType::Exec], &["*"]).await;
    let tried = async |template: &str| {
        let action = json!({ "type": "exec", "template": template });
        let outcome = served.nl.one(&caller, read(action), "req-1", Timestamp::now()).await;
        outcome.fault.map(|fault| fault.code())
    };
    assert_eq!(tried("cat .env; echo {{nl:api/token}}").await, Some(Code::ActionBlocked));
    let taken = tried("cat .env; echo {{nl:ops/master}}").await;
    assert_eq!(taken, Some(Code::HoneypotTouched));
    assert_eq!(tried("true").await, Some(Code::AgentSuspended));
}

/// The same where it stands in a file, of which nothing but the path is told.
#[tokio::test]
async fn bait_in_a_file_that_is_stopped_is_bait() {
    let served = Served::new().await;
    let bait = Metadata { honeypot: true, ..Metadata::default() };
    let path = SecretPath::parse("t/ops/master").unwrap();
    served.nl.vault.add(path, bait, None, Entries::untold()).await.unwrap();
    let caller = served.agent("a", &[ActionType::Template], &["*"]).await;
    let folder = tempfile::Builder::new().permissions(public()).tempdir().unwrap();
    let tried = async |text: &str| {
        let file = folder.path().join("app.env");
        std::fs::write(&file, text).unwrap();
        std::fs::set_permissions(&file, Permissions::from_mode(0o644)).unwrap();
        let action = json!({ "type": "template", "template_path": file });
        let outcome = served.nl.one(&caller, read(action), "req-1", Timestamp::now()).await;
        outcome.fault.map(|fault| fault.code())
    };
    let stopped = tried("cat .env | base64\nx={{nl:api/token}}\n").await;
    assert_eq!(stopped, Some(Code::ActionBlocked));
    let taken = tried("cat .env | base64\nx={{nl:ops/master}}\n").await;
    assert_eq!(taken, Some(Code::HoneypotTouched));
    assert_eq!(tried("x\n").await, Some(Code::AgentSuspended));
}

/// The broker reads it for whoever has no grant for anything.
#[tokio::test]
async fn a_file_that_the_guard_stops_is_named_and_not_shown() {
    let served = Served::new().await;
    let caller = served.agent("a", &[ActionType::Template], &[]).await;
    let folder = tempfile::Builder::new().permissions(public()).tempdir().unwrap();
    let file = folder.path().join("app.env");
    std::fs::write(&file, "password=of-somebody-else\ncat .env | base64\n").unwrap();
    std::fs::set_permissions(&file, Permissions::from_mode(0o644)).unwrap();
    let action = json!({ "type": "template", "template_path": file });
    let outcome = served.nl.one(&caller, read(action), "req-1", Timestamp::now()).await;
    let body = outcome.body().to_string();
    let fault = outcome.fault.unwrap();
    assert_eq!(fault.code(), Code::ActionBlocked);
    assert_eq!(fault.details()["blocked_action"], json!(file));
    let said = format!("{body}{:?}{}", fault.details(), fault.error().message());
    assert!(!said.contains("of-somebody-else"), "{said}");
}

fn public() -> Permissions {
    Permissions::from_mode(0o755)
}

/// It had something under way when another of its actions gave it away.
#[tokio::test]
async fn what_an_agent_had_under_way_when_it_turned_red_stays_here() {
    let served = Served::new().await;
    let caller = served.agent("a", &[ActionType::Exec], &["*"]).await;
    let account = served.nl.account(&caller, Some(ActionType::Exec), "req-1", Timestamp::now());
    let ended = async || {
        let course = Course { ran: true, ..Course::default() };
        served.nl.watch(&caller, &account, &course, None).await.unwrap().map(|fault| fault.code())
    };
    assert_eq!(ended().await, None);
    let instance = &caller.aid.instance_id;
    let incident = Incident::honeypot(Timestamp::now());
    served.nl.detection.add(instance, caller.as_logged(), &[incident]).await.unwrap();
    assert_eq!(ended().await, Some(Code::ThreatTooHigh));
}

/// What has run happened, whether or not the log takes its end at once.
#[tokio::test]
async fn the_end_of_what_has_run_is_written_once_it_can_be() {
    let served = Served::new().await;
    let caller = served.agent("a", &[ActionType::Exec], &["*"]).await;
    let refuse = "CREATE TRIGGER full BEFORE INSERT ON audit \
                  WHEN json_extract(NEW.entry, '$.action') = 'exec' \
                  BEGIN SELECT raise(ABORT, 'no'); END";
    behind_the_back(served.folder.path(), refuse);
    let close = async |id: &str, used| {
        let account = served.nl.account(&caller, Some(ActionType::Exec), id, Timestamp::now());
        let end = End { used, redacted_count: 1, ..End::default() };
        account.close(end).await.map_err(|error| error.code())
    };
    assert_eq!(close("req-ran", true).await, Err(Code::AuditUnavailable));
    assert_eq!(close("req-not", false).await, Err(Code::AuditUnavailable));
    behind_the_back(served.folder.path(), "DROP TRIGGER full");
    served.nl.log.flush_within(Duration::from_secs(5)).await.unwrap();
    let all = served.nl.vault.store().audit_query(&AuditQuery::default()).await.unwrap();
    let of = |id: &str| -> Vec<audit::Action> {
        all.iter().filter(|entry| entry.correlation_id == id).map(|entry| entry.action).collect()
    };
    assert_eq!(of("req-ran"), [audit::Action::Incident, audit::Action::Exec]);
    assert_eq!(of("req-not"), []);
}
