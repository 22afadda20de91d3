//! Identities: their grammar, their life, their bounds.

use serde_json::json;

use super::*;
use crate::SecretPath;

#[test]
fn uris_have_a_grammar() {
    for text in [
        "nl://anthropic.com/claude-code/1.5.2",
        "nl://3m.com/a/0.0.1",
        "nl://1password.com/agent2/1.0.0-rc.1+b-7",
        "nl://acme.corp/deploy-bot/2.1.0",
    ] {
        let uri = AgentUri::parse(text).unwrap();
        assert_eq!(format!("nl://{}/{}/{}", uri.vendor(), uri.agent_type(), uri.version()), text);
    }
    for (text, error) in [
        ("http://a/b/1.0.0", AgentUriError::Shape),
        ("nl://a.com/b", AgentUriError::Shape),
        ("nl://a.com/b/1.0.0/c", AgentUriError::Shape),
        ("nl://A.com/b/1.0.0", AgentUriError::Vendor),
        ("nl://a..com/b/1.0.0", AgentUriError::Vendor),
        ("nl://-a.com/b/1.0.0", AgentUriError::Vendor),
        ("nl://a.com/9b/1.0.0", AgentUriError::AgentType),
        ("nl://a.com/b-/1.0.0", AgentUriError::AgentType),
        ("nl://a.com/b/1.0", AgentUriError::Version),
        ("nl://a.com/b/1.0.0\n", AgentUriError::Version),
        ("nl://a.com/b/1.0.0-", AgentUriError::Version),
    ] {
        assert_eq!(AgentUri::parse(text), Err(error), "{text:?}");
    }
}

#[test]
fn instances_and_credentials_have_a_look() {
    assert!(InstanceId::parse("550e8400-e29b-41d4-a716-446655440000").is_some());
    for text in ["550e8400-e29b-11d4-a716-446655440000", "550e8400e29b41d4a716446655440000", ""] {
        assert!(InstanceId::parse(text).is_none(), "{text}");
    }
    assert!(is_credential(&format!("nlk_{}", "aB3".repeat(15))));
    assert!(is_credential(&format!("nlk_acme_{}", "x".repeat(32))));
    for text in [
        "nlk_short",
        "key_aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
        "nlk_A_aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
    ] {
        assert!(!is_credential(text), "{text}");
    }
}

#[test]
fn only_some_may_change_a_state() {
    use AgentState::{Active, Provisioned, Revoked, Suspended};
    use LifecycleAuthority::{Authentication, Detection, Operator, Upkeep};
    for (from, to, by, may) in [
        (Provisioned, Active, Authentication, true),
        (Provisioned, Active, Upkeep, false),
        (Active, Suspended, Detection { score: 60 }, true),
        (Active, Suspended, Detection { score: 59 }, false),
        (Active, Suspended, Upkeep, true),
        (Active, Revoked, Detection { score: 79 }, false),
        (Active, Revoked, Detection { score: 80 }, true),
        (Suspended, Active, Operator, true),
        (Suspended, Active, Authentication, false),
        (Suspended, Revoked, Detection { score: 100 }, false),
        (Revoked, Active, Operator, false),
        (Revoked, Suspended, Operator, false),
    ] {
        assert_eq!(from.change_to(to, by).is_ok(), may, "{from} to {to} by {by:?}");
    }
}

fn aid() -> Aid {
    serde_json::from_value(json!({
        "nl_version": "1.0", "agent_uri": "nl://anthropic.com/claude-code/1.5.2",
        "instance_id": "550e8400-e29b-41d4-a716-446655440000", "organization_id": "org_acme_corp_2024",
        "agent_type": "coding_assistant", "trust_level": "L1", "capabilities": ["exec", "template"],
        "lifecycle": "active", "created_at": "2026-02-08T09:00:00Z", "expires_at": "2026-02-08T18:00:00Z",
        "scope": { "projects": ["myapp"], "environments": ["*"], "secret_patterns": ["myapp/**"] },
    }))
    .unwrap()
}

#[test]
fn an_identity_bounds_what_may_be_granted() {
    let (aid, none) = (aid(), Categories::default());
    let now = "2026-02-08T10:00:00Z".parse().unwrap();
    assert_eq!((aid.faults(now), aid.is_in_force(now)), (vec![], Ok(())));
    let of = |path: &str| vec![Subject::from(SecretPath::parse(path).unwrap())];
    assert_eq!(aid.covers(ActionType::Exec, &of("myapp/production/api/key"), &none), Ok(()));
    assert_eq!(aid.covers(ActionType::SdkProxy, &[], &none), Err(Code::CapabilityMissing));
    let other = aid.covers(ActionType::Exec, &of("other/production/api/key"), &none);
    assert_eq!(other, Err(Code::ScopeViolation));
    let late = "2026-02-08T18:00:00Z".parse().unwrap();
    assert_eq!(aid.is_in_force(late), Err(Code::AgentExpired));
    let suspended = Aid { lifecycle: AgentState::Suspended, ..aid.clone() };
    assert_eq!(suspended.is_in_force(now), Err(Code::AgentSuspended));
}

#[test]
fn faults_name_fields() {
    let now = "2026-02-08T10:00:00Z".parse().unwrap();
    let bad = Aid {
        nl_version: "2.0".into(),
        organization_id: "two words".into(),
        capabilities: vec![],
        agent_type: "custom:acme/thing".parse().unwrap(),
        ..aid()
    };
    let expected = ["nl_version", "organization_id", "capabilities", "metadata.risk_level"];
    let faults = bad.faults(now);
    let named = faults.iter().map(|fault| fault.split_once(" (").unwrap().0);
    assert_eq!(named.collect::<Vec<_>>(), expected);
    let mut told = serde_json::to_value(&bad).unwrap();
    // What is no action, though grants have a word for it, is not offered.
    told["capabilities"] = json!(["launch"]);
    let said = serde_json::from_value::<Aid>(told.clone()).unwrap_err().to_string();
    assert!(said.contains("sdk_proxy, delegate") && !said.contains("egress"), "{said}");
    told["capabilities"] = json!([]);
    told["surprise"] = json!(1);
    assert!(serde_json::from_value::<Aid>(told).is_err());
}

#[test]
fn a_scope_says_by_the_words_of_a_reference_whether_it_leaves_room_for_it() {
    let scope = |json: Value| serde_json::from_value::<AidScope>(json).unwrap();
    let bounds =
        scope(json!({ "projects": ["t"], "environments": ["prod"], "categories": ["db"] }));
    let patterns = |list: &[&str]| {
        scope(json!({ "projects": ["*"], "environments": ["*"], "secret_patterns": list }))
    };
    let cases = [
        (
            &bounds,
            &["TOKEN", "db/TOKEN", "T/db/TOKEN", "t/prod/TOKEN", "t/prod/db/x/TOKEN"][..],
            true,
        ),
        (&bounds, &["api/TOKEN", "u/db/TOKEN", "t/dev/TOKEN", "t/prod/api/TOKEN"][..], false),
        (&patterns(&["db/*"]), &["TOKEN", "db/TOKEN", "t/prod/db/TOKEN", "t/db/TOKEN"][..], true),
        (&patterns(&["db/*"]), &["api/TOKEN", "t/prod/api/TOKEN"][..], false),
        (&patterns(&["api_token"]), &["API-TOKEN", "api/API.TOKEN"][..], true),
        (&patterns(&["api_token"]), &["TOKEN", "api/TOKEN"][..], false),
        (&patterns(&["t/prod/*"]), &["api/TOKEN", "t/prod/TOKEN"][..], true),
        (&patterns(&["t/prod/*"]), &["u/prod/TOKEN", "t/dev/api/TOKEN"][..], false),
        (&patterns(&["t/api/**", "u/prod/api/x/y"]), &["api/TOKEN", "anything"][..], true),
    ];
    for (scope, names, leaves_room) in cases {
        for name in names {
            let reference = crate::Reference::parse(name).unwrap();
            assert_eq!(scope.leaves_room_for(&reference), leaves_room, "{scope:?} {name}");
        }
    }
}
