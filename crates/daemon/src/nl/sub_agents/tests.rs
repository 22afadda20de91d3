//! Sub-agents that agents ask for: no more than their parent, by a person's word, and over with it.

use jiff::Timestamp;
use keyless_core::{
    agent::AgentState,
    approval::{Asked, Decision},
    nl_message::Shape,
};
use serde_json::Value;

use super::*;
use crate::nl::{
    scene::{Served, registration},
    submit::Ahead,
};

fn payload(more: &Value) -> Map<String, Value> {
    let mut payload = json!({
        "agent_uri": "nl://acme.corp/reviewer/1.0.0", "agent_type": "coding_assistant",
        "capabilities": ["exec"], "requested_ttl_hours": 1, "purpose": "reviews",
    });
    payload.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    payload.as_object().unwrap().clone()
}

/// An agent that may hand work on, and lives for a day.
async fn parent(served: &Served) -> Caller {
    let capabilities = vec![ActionType::Delegate, ActionType::Exec];
    let life = SignedDuration::from_hours(24);
    let wanted = Registration { capabilities, life, ..registration("lead") };
    let agents = &served.nl.agents;
    let (aid, credential) = agents.register(wanted, Registrar::Operator).await.unwrap();
    let (uri, instance) = (aid.agent_uri.as_str(), aid.instance_id.as_str());
    let aid = agents.authenticate(uri, instance, &credential).await.unwrap();
    let caller = Caller { aid, source_ip: None, delegation: Vec::new(), acting: None };
    served.allow(&caller, json!({})).await;
    caller
}

async fn settle(served: &Served, decision: Decision) -> Asked {
    let requests = served.nl.requests.all().await.unwrap();
    let waiting = requests.into_iter().find(|request| request.settled.is_none()).unwrap();
    served.nl.requests.settle(&waiting.id, decision).await.unwrap();
    waiting.asked
}

#[tokio::test]
async fn a_person_allows_exactly_the_sub_agent_that_they_were_shown() {
    let served = Served::new().await;
    let (nl, parent) = (&served.nl, parent(&served).await);
    let fault = nl.register_agent(&parent, &payload(&json!({}))).await.unwrap_err();
    assert_eq!(fault.code(), Code::ApprovalRequired);
    assert!(fault.body(Shape::Bare)["details"]["approval_id"].is_string());
    assert_eq!(nl.agents.list().await.unwrap().len(), 1);
    let Asked::ActionApproval { wanted } = settle(&served, Decision::AllowOnce).await else {
        panic!("an action is asked about")
    };
    assert_eq!(wanted.agent, parent.aid.agent_uri);
    assert_eq!(wanted.purpose.as_deref(), Some("reviews"));
    for line in
        ["nl://acme.corp/reviewer/1.0.0 as its sub-agent", "may be handed on: exec", "for 1 h"]
    {
        assert!(wanted.text.contains(line), "{line}: {}", wanted.text);
    }
    // The word is for that one alone, once.
    let more = payload(&json!({ "capabilities": ["exec", "delegate"] }));
    let fault = nl.register_agent(&parent, &more).await.unwrap_err();
    assert_eq!(fault.code(), Code::ApprovalRequired);
    let done = nl.register_agent(&parent, &payload(&json!({}))).await.unwrap();
    let aid: Aid = serde_json::from_value(done.body()["aid"].clone()).unwrap();
    assert_eq!(aid.parent(), Some(&parent.aid.instance_id));
    assert_eq!(aid.organization_id, "acme");
    let fault = nl.register_agent(&parent, &payload(&json!({}))).await.unwrap_err();
    assert_eq!(fault.code(), Code::ApprovalRequired);
    // It has nothing of its own, and may hand nothing on that it could not do.
    let credential = done.body()["credential"]["value"].as_str().unwrap();
    let (uri, instance) = (aid.agent_uri.as_str(), aid.instance_id.as_str());
    let aid = nl.agents.authenticate(uri, instance, credential).await.unwrap();
    let child = Caller { aid, source_ip: None, delegation: Vec::new(), acting: None };
    let act = json!({ "action": { "type": "exec", "template": "true {{nl:t/api/token}}" } });
    let act = act.as_object().unwrap();
    let outcome =
        nl.submit(&child, act, "req-1", Timestamp::now(), Ahead::default()).await.unwrap();
    assert_eq!(outcome.fault.unwrap().code(), Code::GrantMissing);
    let below = payload(&json!({ "agent_uri": "nl://acme.corp/more/1.0.0" }));
    let fault = nl.register_agent(&child, &below).await.unwrap_err();
    assert_eq!(fault.code(), Code::CapabilityMissing);
}

#[tokio::test]
async fn nobody_is_asked_about_what_can_not_be() {
    let served = Served::new().await;
    let (nl, parent) = (&served.nl, parent(&served).await);
    // Somebody with a name, and somebody whose grants are left.
    served.agent("taken", &[ActionType::Exec], &[]).await;
    for (more, named) in [
        (json!({ "organization_id": "other" }), "organization_id"),
        (json!({ "capabilities": ["sdk_proxy"] }), "capabilities"),
        (json!({ "requested_ttl_hours": 25 }), "expires_at"),
        (json!({ "agent_uri": "nl://keyless.dev/run/0.1.0" }), "agent_uri"),
        (json!({ "agent_uri": "nl://acme.corp/taken/1.0.0" }), "agent_uri"),
        (json!({ "agent_uri": parent.aid.agent_uri.as_str() }), "agent_uri"),
        (json!({ "delegated_by": { "type": "human", "identifier": "ann" } }), "administrator"),
        (json!({ "session_context": { "a": "x".repeat(5000) } }), "too long"),
    ] {
        let fault = nl.register_agent(&parent, &payload(&more)).await.unwrap_err();
        let told = fault.body(Shape::Bare).to_string();
        assert!(told.contains(named), "{more}: {told}");
    }
    assert!(nl.requests.all().await.unwrap().is_empty());
    // What is free text passes for no line of its own.
    let forged = json!({ "session_context": { "a": "b\nfor 0 h at most" } });
    nl.register_agent(&parent, &payload(&forged)).await.unwrap_err();
    let Asked::ActionApproval { wanted } = settle(&served, Decision::Deny).await else {
        panic!("an action is asked about")
    };
    assert!(!wanted.text.contains("\nfor 0 h"), "{}", wanted.text);
    let fault = nl.register_agent(&parent, &payload(&forged)).await.unwrap_err();
    assert_eq!(fault.code(), Code::ApprovalDenied);
}

#[tokio::test]
async fn a_parent_ends_its_own_and_is_followed_by_them() {
    let served = Served::new().await;
    let (nl, parent) = (&served.nl, parent(&served).await);
    let child = async |name: &str, of: &Aid, hours: u32| {
        let uri = format!("nl://acme.corp/{name}/1.0.0");
        let more = json!({ "agent_uri": uri, "requested_ttl_hours": hours });
        let wanted: Wanted = serde_json::from_value(Value::Object(payload(&more))).unwrap();
        let parent = Some(of.instance_id.clone());
        let registration = Registration { parent, ..wanted.below(of) };
        nl.agents.register(registration, Registrar::Operator).await.unwrap().0
    };
    let first = child("first", &parent.aid, 2).await;
    let second = child("second", &first, 1).await;
    let other = child("third", &parent.aid, 1).await;
    let stranger = served.agent("stranger", &[ActionType::Delegate], &[]).await;
    let revocation = |aid: &Aid| {
        let wanted = json!({ "agent_uri": aid.agent_uri.as_str(), "reason": "decommissioned" });
        wanted.as_object().unwrap().clone()
    };
    // Neither a stranger's, nor the parent's own, nor from below.
    let below =
        Caller { aid: first.clone(), source_ip: None, delegation: Vec::new(), acting: None };
    for (who, whom) in
        [(&stranger, &first), (&parent, &parent.aid), (&below, &parent.aid), (&below, &other)]
    {
        let fault = nl.revoke_agents(who, &revocation(whom)).await.unwrap_err();
        assert_eq!(fault.code(), Code::AgentUnregistered);
    }
    let told = nl.revoke_agents(&parent, &revocation(&first)).await.unwrap();
    assert_eq!(told["status"], "completed");
    let state = async |aid: &Aid| nl.agents.show(&aid.instance_id).await.unwrap().lifecycle;
    assert_eq!(state(&first).await, AgentState::Revoked);
    assert_eq!(state(&second).await, AgentState::Revoked);
    assert_eq!(state(&other).await, AgentState::Provisioned);
    // Those of a session are over with it.
    nl.close_session(&parent.aid.instance_id).await.unwrap();
    assert_eq!(state(&other).await, AgentState::Revoked);
}
