use jiff::SignedDuration;
use keyless_core::{
    ActionType, Code,
    agent::{AgentState, LifecycleAuthority, Risk},
    nl_message::Shape,
};
use serde_json::json;

use super::*;
use crate::nl::{
    agents::{Registrar, Registration},
    scene::{Served, registration},
    submit::Ahead,
};

/// An administrator of `acme` that lives for a day.
async fn administrator(served: &Served) -> Caller {
    let life = SignedDuration::from_hours(24);
    let wanted = Registration { life, is_administrator: true, ..registration("admin") };
    let (mut aid, _) = served.nl.agents.register(wanted, Registrar::Operator).await.unwrap();
    let to = (AgentState::Active, LifecycleAuthority::Operator);
    aid = served.nl.agents.change(&aid.instance_id, to, "a test").await.unwrap();
    Caller { aid, source_ip: None, delegation: Vec::new(), acting: None }
}

fn wanted(more: &Value) -> Map<String, Value> {
    let mut wanted = json!({
        "agent_uri": "nl://acme.corp/worker/1.0.0", "organization_id": "acme",
        "agent_type": "ci_cd_pipeline", "capabilities": ["exec"],
        "delegated_by": { "type": "human", "identifier": "ann" },
    });
    let fields = more.as_object().unwrap().clone();
    wanted.as_object_mut().unwrap().extend(fields);
    wanted.as_object().unwrap().clone()
}

fn payload(value: &Value) -> Map<String, Value> {
    value.as_object().unwrap().clone()
}

/// Of people no attestation is wanted.
#[tokio::test]
async fn no_agent_registers_a_person() {
    let served = Served::new().await;
    let (nl, by) = (&served.nl, administrator(&served).await);
    let person = wanted(&json!({ "agent_type": "human" }));
    let told = nl.register_agent(&by, &person).await.unwrap_err().body(Shape::Bare);
    assert!(told["message"].to_string().contains("keyless agent register --type human"), "{told}");
}

#[tokio::test]
async fn an_administrator_registers_nothing_beyond_itself() {
    let served = Served::new().await;
    let (nl, by) = (&served.nl, administrator(&served).await);
    for (more, named) in [
        (json!({ "organization_id": "other" }), "organization_id"),
        (json!({ "agent_uri": "nl://keyless.dev/run/0.1.0" }), "agent_uri"),
        (json!({ "capabilities": ["sdk_proxy"] }), "capabilities"),
        (json!({ "requested_ttl_hours": 25 }), "expires_at"),
        (json!({ "capabilities": [] }), "capabilities"),
        (json!({ "agent_type": "custom" }), "metadata.risk_level"),
        (json!({ "agent_uri": "http://a" }), "nl://"),
        (json!({ "delegated_by": null }), "type"),
    ] {
        let fault = nl.register_agent(&by, &wanted(&more)).await.unwrap_err();
        let told = fault.body(Shape::Bare)["message"].to_string();
        assert!(told.contains(named), "{more}: {told}");
    }
    let done = nl.register_agent(&by, &wanted(&json!({ "requested_ttl_hours": 2 }))).await.unwrap();
    let aid: Aid = serde_json::from_value(done.body()["aid"].clone()).unwrap();
    assert!(!aid.is_administrator());
    assert_eq!(aid.expires_at.duration_since(aid.created_at), SignedDuration::from_hours(2));
    let credential = done.body()["credential"]["value"].as_str().unwrap();
    let (uri, instance) = (aid.agent_uri.as_str(), aid.instance_id.as_str());
    let aid = nl.agents.authenticate(uri, instance, credential).await.unwrap();
    // One that is not told how long lives no longer than its administrator.
    let over = Timestamp::now() + SignedDuration::from_hours(1);
    let short = Caller {
        aid: Aid { expires_at: over, ..by.aid.clone() },
        source_ip: None,
        delegation: Vec::new(),
        acting: None,
    };
    let done = nl.register_agent(&short, &wanted(&json!({}))).await.unwrap();
    let brief: Aid = serde_json::from_value(done.body()["aid"].clone()).unwrap();
    assert!(brief.expires_at < over);
    // Ten a minute, for the whole organization; the refused ones count.
    let fault = nl.register_agent(&by, &wanted(&json!({}))).await.unwrap_err();
    assert_eq!(fault.code(), Code::RateLimited);
    // Who is registered so is no administrator, whatever is said of it.
    let worker = Caller { aid, source_ip: None, delegation: Vec::new(), acting: None };
    let fault = nl.register_agent(&worker, &wanted(&json!({}))).await.unwrap_err();
    assert_eq!(fault.code(), Code::OperatorRequired);
    let fault = nl.audited(&worker, &Map::new()).await.unwrap_err();
    assert_eq!(fault.code(), Code::AuditQueryDenied);
    let uri = json!({ "agent_uri": by.aid.agent_uri, "reason": "compromised" });
    let fault = nl.revoke_agents(&worker, &payload(&uri)).await.unwrap_err();
    assert_eq!((fault.code(), fault.status()), (Code::AgentUnregistered, 404));
}

/// Whose credential is right is not told that they could not be authenticated.
#[tokio::test]
async fn who_is_known_and_asks_for_too_much_is_not_sent_for_a_credential() {
    let served = Served::new().await;
    let (nl, by) = (&served.nl, administrator(&served).await);
    let worker = served.agent("worker", &[ActionType::Exec], &[]).await;
    let nobody = json!({ "agent_uri": "nl://acme.corp/nobody/1.0.0", "reason": "compromised" });
    let other = json!({ "instance_id": "11111111-1111-4111-8111-111111111111" });
    for caller in [&by, &worker] {
        for fault in [
            nl.revoke_agents(caller, &payload(&nobody)).await.unwrap_err(),
            nl.shown(caller, &payload(&other)).await.unwrap_err(),
        ] {
            assert_eq!((fault.code(), fault.status()), (Code::AgentUnregistered, 404));
            let told = fault.body(Shape::Bare)["message"].to_string();
            assert!(told.contains("There is no such agent."), "{told}");
        }
    }
    for fault in [
        nl.register_agent(&worker, &wanted(&json!({}))).await.unwrap_err(),
        nl.rotate_credential(&worker, &payload(&other)).await.unwrap_err(),
    ] {
        assert_eq!((fault.code(), fault.status()), (Code::OperatorRequired, 403));
        let told = fault.body(Shape::Bare)["message"].to_string();
        assert!(told.contains("an administrator of the agent's organization"), "{told}");
    }
}

#[tokio::test]
async fn an_organizations_own_type_of_agent_says_how_much_could_go_wrong() {
    let served = Served::new().await;
    let (nl, by) = (&served.nl, administrator(&served).await);
    for kind in ["custom", "custom:acme/reviewer"] {
        let more = json!({
            "agent_type": kind, "metadata": { "risk_level": "high", "team": "platform" },
        });
        let done = nl.register_agent(&by, &wanted(&more)).await.unwrap();
        let aid: Aid = serde_json::from_value(done.body()["aid"].clone()).unwrap();
        assert_eq!(aid.agent_type.risk(&aid.metadata), Some(Risk::High));
        assert_eq!(aid.metadata["team"], "platform");
    }
    for risk in [json!("total"), json!(3)] {
        let more = json!({ "agent_type": "custom", "metadata": { "risk_level": risk } });
        assert!(nl.register_agent(&by, &wanted(&more)).await.is_err(), "{risk}");
    }
    let promoted = json!({ "metadata": { "administrator": true } });
    let fault = nl.register_agent(&by, &wanted(&promoted)).await.unwrap_err();
    assert_eq!(fault.code(), Code::AgentExceeds);
}

#[tokio::test]
async fn a_revocation_ends_what_is_under_way() {
    let served = Served::new().await;
    served.add_asked().await;
    let nl = &served.nl;
    let by = administrator(&served).await;
    let worker = served.agent("worker", &[ActionType::Exec], &["*"]).await;
    let message = payload(&json!({
        "action": { "type": "exec", "template": "{{nl:t/api/asked}}" },
    }));
    // It waits for a person, as a command would for its end.
    let acting = nl.submit(&worker, &message, "req-1", Timestamp::now(), Ahead::default());
    let revocation = payload(&json!({
        "revocation_id": "r-1", "agent_uri": worker.aid.agent_uri, "reason": "compromised",
        "propagate_to": ["partner.test"],
    }));
    let revoking = async {
        served.until_asked().await;
        nl.revoke_agents(&by, &revocation).await.unwrap()
    };
    let (outcome, told) = tokio::join!(Box::pin(acting), Box::pin(revoking));
    assert_eq!(outcome.unwrap().fault.unwrap().code(), Code::AgentRevoked);
    assert_eq!((&told["revocation_id"], &told["status"]), (&json!("r-1"), &json!("partial")));
    assert_eq!(told["local_result"]["inflight_actions_cancelled"], 1, "{told}");
    assert_eq!(told["federation_results"][0]["trust_domain"], "partner.test");
    let state = nl.agents.show(&worker.aid.instance_id).await.unwrap().lifecycle;
    assert_eq!(state, AgentState::Revoked);
    // The same again changes nothing.
    let again = nl.revoke_agents(&by, &revocation).await.unwrap();
    assert_eq!(again["local_result"]["inflight_actions_cancelled"], 0);
    let scheduled = json!({
        "agent_uri": worker.aid.agent_uri, "reason": "compromised", "effective": "scheduled",
    });
    let nobody = json!({ "agent_uri": "nl://acme.corp/nobody/1.0.0", "reason": "compromised" });
    for (wanted, code) in [(scheduled, Code::MessageMalformed), (nobody, Code::AgentUnregistered)] {
        let fault = nl.revoke_agents(&by, &payload(&wanted)).await.unwrap_err();
        assert_eq!(fault.code(), code);
    }
}

#[tokio::test]
async fn an_administrator_sees_its_own_organization() {
    let served = Served::new().await;
    let (nl, by) = (&served.nl, administrator(&served).await);
    let other = Registration { organization_id: "other".to_owned(), ..registration("other") };
    let (other, _) = nl.agents.register(other, Registrar::Operator).await.unwrap();
    let worker = served.agent("worker", &[ActionType::Exec], &["*"]).await;
    let message = payload(&json!({
        "action": { "type": "exec", "template": "true {{nl:t/api/token}}", "dry_run": true },
    }));
    nl.submit(&worker, &message, "req-1", Timestamp::now(), Ahead::default()).await.unwrap();
    let asked = payload(&json!({ "page_size": "1", "page": "2" }));
    let page = nl.audited(&by, &asked).await.unwrap();
    assert_eq!((&page["query"], &page["pagination"]["page"]), (&json!("by_time"), &json!(2)));
    for (out_of_range, words) in [
        (json!({ "page_size": 1000 }), "page_size is a number from 1 to 100"),
        (json!({ "page_size": "101" }), "page_size is a number from 1 to 100"),
        (json!({ "page_size": 0 }), "page_size is a number from 1 to 100"),
        (json!({ "page": "0" }), "page is a number from 1 on"),
        (json!({ "page": "two" }), "page is a number from 1 on"),
        (json!({ "page": -1 }), ""),
        (
            json!({ "from": "2026-02-02T00:00:00Z", "to": "2026-02-01T00:00:00Z" }),
            "from lies behind to",
        ),
        (json!({ "agent_uri": "acme/bot" }), "nl://VENDOR/TYPE/VERSION"),
    ] {
        let fault = nl.audited(&by, &payload(&out_of_range)).await.unwrap_err();
        assert_eq!((fault.code(), fault.status()), (Code::MessageMalformed, 400), "{out_of_range}");
        assert!(fault.error().detail().as_str().contains(words), "{:?}", fault.error());
    }
    let all = nl.audited(&by, &payload(&json!({ "page_size": 100 }))).await.unwrap();
    let entries = all["results"].as_array().unwrap();
    assert_eq!(page["results"][0], entries[1]);
    // Its own query is there as well, and nothing of the operator's or another organization's.
    let of = |entry: &Value| entry["agent"]["organization_id"].clone();
    assert!(entries.iter().all(|entry| of(entry) == "acme"), "{entries:?}");
    assert!(entries.iter().any(|entry| entry["action"] == "query"), "{entries:?}");
    let beyond = payload(&json!({ "page": usize::MAX, "page_size": 100 }));
    let beyond = nl.audited(&by, &beyond).await.unwrap();
    assert_eq!(beyond["results"], json!([]));
    let asked = json!({ "target": "t/api/token", "result": "success" });
    let found = nl.audited(&by, &payload(&asked)).await.unwrap();
    assert_eq!(found["query"], "by_secret");
    assert!(found["pagination"]["total"].as_u64() >= Some(1), "{found}");
    let shown = |id: &InstanceId| payload(&json!({ "instance_id": id.as_str() }));
    let seen = nl.shown(&by, &shown(&worker.aid.instance_id)).await.unwrap();
    assert_eq!(seen["agent_uri"], worker.aid.agent_uri.as_str());
    let own = json!({ "instance_id": worker.aid.instance_id.as_str().to_uppercase() });
    let seen = nl.shown(&worker, &payload(&own)).await.unwrap();
    assert_eq!(seen["agent_uri"], worker.aid.agent_uri.as_str());
    for (who, whom) in [(&by, &other.instance_id), (&worker, &by.aid.instance_id)] {
        assert_eq!(nl.shown(who, &shown(whom)).await.unwrap_err().status(), 404);
    }
}
