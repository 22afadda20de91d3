//! What agents ask, and are told.

use keyless_core::{SecretPath, audit::Entry};
use keyless_store::AuditQuery;
use keyless_vault::{Entries, Metadata};

use super::*;
use crate::nl::{
    scene::{Served, registration},
    submit::Course,
};

/// What an agent is told of its access to a secret: nothing that is in the way, or the word for it.
async fn access(served: &Served, caller: &Caller, name: &str, kind: ActionType) -> Option<String> {
    let payload = json!({ "secret_name": name, "action_type": kind.as_str() });
    let told = served.nl.check_access(caller, payload.as_object().unwrap()).await.unwrap();
    let word = told.body()["nl_code"].as_str().map(ToOwned::to_owned);
    assert_eq!(told.body()["allowed"], word.is_none(), "{}", told.body());
    word
}

async fn entries(served: &Served) -> Vec<Entry> {
    served.nl.vault.store().audit_query(&AuditQuery::default()).await.unwrap()
}

const ACTIONS: [ActionType; 6] = [
    ActionType::Delegate,
    ActionType::Exec,
    ActionType::InjectStdin,
    ActionType::InjectTempfile,
    ActionType::SdkProxy,
    ActionType::Template,
];

#[tokio::test]
async fn access_is_what_grants_bounds_and_conditions_say_of_each_type() {
    let served = Served::new().await;
    let caller = served.agent("a", &ACTIONS, &[]).await;
    for kind in ACTIONS {
        assert_eq!(access(&served, &caller, "api/token", kind).await.as_deref(), Some("NL-E200"));
    }
    served.allow_types(&caller, &["sdk_proxy", "delegate"], json!({})).await;
    for kind in ACTIONS {
        let is_granted = matches!(kind, ActionType::SdkProxy | ActionType::Delegate);
        let told = access(&served, &caller, "{{nl:api/token}}", kind).await;
        assert_eq!(told.is_none(), is_granted, "{kind}: {told:?}");
    }
    // What is on record is a question about that type, and no try.
    let last = entries(&served).await.pop().unwrap();
    assert_eq!(last.detail.kind.as_deref(), Some("dry_run"));
    // A grant for other surroundings, and an agent that is registered for less.
    let other = served.agent("b", &ACTIONS, &[]).await;
    let elsewhere = json!({ "allowed_contexts": { "environment": "production" } });
    served.allow_as("g-other", &other, &["*"], elsewhere).await;
    for kind in ACTIONS {
        assert_eq!(access(&served, &other, "api/token", kind).await.as_deref(), Some("NL-E205"));
    }
    let narrow = served.agent("c", &[ActionType::Exec], &["*"]).await;
    let beyond = access(&served, &narrow, "api/token", ActionType::SdkProxy).await;
    assert_eq!(beyond.as_deref(), Some("NL-E108"));
}

#[tokio::test]
async fn a_list_of_commands_says_nothing_of_access_and_a_rule_does() {
    let served = Served::new().await;
    let caller = served.agent("a", &ACTIONS, &["*"]).await;
    let rule = |pattern: &str| {
        format!(
            "[[rules]]\nrule_id = 'CUSTOM-1'\nseverity = 'high'\npatterns = ['{pattern}']\n\
             description = 'No.'\norganization_id = 'acme'\ncreated_by = 'ann'\n\
             created_at = '2026-01-01T00:00:00Z'\n"
        )
    };
    let list = "[allowlist]\nentries = [{ entry_id = 'A1', patterns = ['git status'] }]\n";
    served.write_guard(&(rule("db/") + list));
    for kind in ACTIONS {
        assert_eq!(access(&served, &caller, "api/token", kind).await, None, "{kind}");
    }
    let ruled = access(&served, &caller, "db/password", ActionType::Exec).await;
    assert_eq!(ruled.as_deref(), Some("NL-E400"));
}

#[tokio::test]
async fn bait_is_bait_for_whoever_asks_about_it_as_any_type() {
    for kind in [ActionType::SdkProxy, ActionType::Delegate] {
        let served = Served::new().await;
        let bait = Metadata { honeypot: true, ..Metadata::default() };
        let path = SecretPath::parse("t/api/root").unwrap();
        served.nl.vault.add(path, bait, None, Entries::untold()).await.unwrap();
        let caller = served.agent("a", &ACTIONS, &["*"]).await;
        assert!(access(&served, &caller, "api/root", kind).await.is_some());
        let incidents = entries(&served).await;
        assert!(incidents.iter().any(|entry| entry.action == audit::Action::Incident), "{kind}");
        assert!(access(&served, &caller, "api/token", kind).await.is_some(), "it is not stopped");
    }
}

#[tokio::test]
async fn who_may_hand_nothing_on_has_no_access_for_that() {
    let mut served = Served::new().await;
    let caller = served.enrolled(registration("a"), &["*"]).await;
    assert_eq!(access(&served, &caller, "api/token", ActionType::Delegate).await, None);
    std::sync::Arc::get_mut(&mut served.nl).unwrap().max_depth = 0;
    assert!(access(&served, &caller, "api/token", ActionType::Delegate).await.is_some());
}

#[tokio::test]
async fn what_others_know_is_not_to_be_used_in_any_way() {
    let served = Served::new().await;
    let caller = served.agent("a", &ACTIONS, &["*"]).await;
    let path = SecretPath::parse("t/api/token").unwrap();
    let value = b"a value that others know".to_vec();
    served.nl.vault.put(&path, value.into(), Entries::untold()).await.unwrap();
    served.nl.vault.revoke_compromised(&path, Entries::untold()).await.unwrap();
    for kind in ACTIONS {
        assert!(access(&served, &caller, "api/token", kind).await.is_some(), "{kind}");
    }
}

#[tokio::test]
async fn a_listed_reference_means_its_secret_and_no_other() {
    let served = Served::new().await;
    let more = [
        "u/api/token",
        "t/prod/db/password",
        "t/prod/api/token",
        "t/x/api-token",
        "t/api/x-y",
        "t/api/x/y",
    ];
    for path in more {
        let path = SecretPath::parse(path).unwrap();
        served.nl.vault.add(path, Metadata::default(), None, Entries::untold()).await.unwrap();
    }
    let caller = served.agent("a", &ACTIONS, &["*"]).await;
    let asked = json!({ "scope": "t/" });
    let told = served.nl.listed(&caller, asked.as_object().unwrap()).await.unwrap();
    let listed = told["secrets"].as_array().unwrap();
    assert_eq!(listed.len(), 7, "{told}");
    for one in listed {
        for kind in ["exec", "template"] {
            let reference = &one["reference"];
            let action = json!({ "type": kind, "template": reference });
            let action = if kind == "exec" {
                action
            } else {
                json!({ "type": kind, "template_content": reference })
            };
            let action = Action::from_json(action).unwrap();
            let (meant, _) =
                served.nl.judge(&caller, &action, &mut Course::default(), false).await.unwrap();
            assert_eq!(meant[0].path.as_str(), one["name"], "{reference}");
        }
    }
    // As a grant's pattern has it, and not as the path begins letter by letter.
    for (scope, count) in [("API/*", 4), ("t/prod/**", 2), ("x", 2), ("nothing/*", 0)] {
        let asked = json!({ "scope": scope });
        let told = served.nl.listed(&caller, asked.as_object().unwrap()).await.unwrap();
        assert_eq!(told["secrets"].as_array().unwrap().len(), count, "{scope}: {told}");
    }
    let odd = json!({ "scope": "a b" });
    let fault = served.nl.listed(&caller, odd.as_object().unwrap()).await.unwrap_err();
    assert_eq!(fault.code(), Code::MessageMalformed);
    // What is plain stays short.
    let short = listed.iter().find(|one| one["name"] == "t/x/api-token").unwrap();
    assert_eq!(short["reference"], "{{nl:x/api-token}}");
}

#[tokio::test]
async fn rotations_are_asked_for_by_references_and_patterns() {
    let served = Served::new().await;
    let caller = served.agent("a", &ACTIONS, &["*"]).await;
    for path in ["t/api/token", "t/db/password"] {
        let draft = plain_entry(
            as_logged(&caller.aid),
            audit::Action::Rotate,
            audit::Outcome::Success,
            Target::Secrets(vec![SecretPath::parse(path).unwrap()]),
        );
        served.nl.log.append(draft).await.unwrap();
    }
    let asked = async |secrets: &str| {
        let payload = json!({ "secrets": secrets });
        let told = served.nl.rotations(&caller, payload.as_object().unwrap()).await;
        let named = |told: Value| {
            let all = told["rotations"].as_array().unwrap().clone();
            all.iter().map(|one| one["name"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
        };
        told.map(named).map_err(|fault| fault.code())
    };
    for one in ["t/api/token", "api/TOKEN", "api/*", "t/api/**", "api/token, api/none"] {
        assert_eq!(asked(one).await, Ok(vec!["t/api/token".to_owned()]), "{one}");
    }
    for both in ["*", "api/token,db/password"] {
        assert_eq!(asked(both).await.unwrap().len(), 2, "{both}");
    }
    assert_eq!(asked("u/**").await, Ok(Vec::new()));
    let many = |count: usize| vec!["api/token"; count].join(",");
    assert_eq!(asked(&many(64)).await.unwrap().len(), 1);
    for none in ["", "api/token,", "api token", &many(65)] {
        assert_eq!(asked(none).await, Err(Code::MessageMalformed), "{none}");
    }
}

#[tokio::test]
async fn what_no_grant_lets_be_used_now_is_not_listed() {
    let served = Served::new().await;
    let path = SecretPath::parse("t/prod/api/token").unwrap();
    served.nl.vault.add(path, Metadata::default(), None, Entries::untold()).await.unwrap();
    let caller = served.agent("a", &ACTIONS, &[]).await;
    let listed = async || {
        let told = served.nl.listed(&caller, &Map::new()).await.unwrap();
        let name = |one: &Value| one["reference"].as_str().unwrap().to_owned();
        told["secrets"].as_array().unwrap().iter().map(name).collect::<Vec<_>>()
    };
    served.allow(&caller, json!({ "allowed_environments": ["default"] })).await;
    let usable = ["{{nl:api/token}}", "{{nl:db/password}}"];
    assert_eq!(listed().await, usable);
    let ahead = json!({ "valid_from": "2098-01-01T00:00:00Z" });
    served.allow_as("g-ahead", &caller, &["*"], ahead).await;
    assert_eq!(listed().await, usable);
}
