//! Several actions in one message.

use keyless_core::agent::{AgentState, LifecycleAuthority};

use super::*;
use crate::nl::scene::Served;

#[tokio::test]
async fn each_action_of_a_message_is_counted() {
    let served = Served::new().await;
    let caller = served.agent("a", &[ActionType::Exec], &["*"]).await;
    let action = json!({ "type": "exec", "template": "true {{nl:api/token}}", "dry_run": true });
    let payload = json!({ "actions": vec![action; MAX_BATCH] });
    let mut answers = Vec::new();
    for number in 0..7 {
        let id = format!("req-{number}");
        let all = payload.as_object().unwrap();
        let outcome = served.nl.submit(&caller, all, &id, Timestamp::now()).await.unwrap();
        answers.extend(outcome.body()["responses"].as_array().unwrap().clone());
    }
    let done = answers.iter().filter(|answer| answer["status"] == "dry_run_ok").count();
    // 120 a minute, and the first of each message, which the door has counted.
    assert_eq!((done, answers.len()), (127, 140));
    assert_eq!(answers[139]["error"]["nl_code"], "NL-E202", "{}", answers[139]);
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
