//! Work that is handed on: never more than whoever hands it on may do, and each time at a use.

use std::{
    fs,
    os::unix::fs::PermissionsExt,
    sync::atomic::{AtomicI64, Ordering},
};

use keyless_core::{
    Handle, SecretPath,
    agent::{AgentState, LifecycleAuthority, TrustLevel},
    approval::{Asked, Decision},
    grant::GrantId,
    threat::of_redactions,
};

use keyless_vault::Entries;

use super::*;
use crate::nl::{
    acting::Ending,
    agents::{Registration, as_logged},
    scene::{Served, registration},
};

use ActionType::{Delegate, Exec, Template};

fn asked(to: &Caller, actions: &[&str], max_uses: u64) -> Map<String, Value> {
    let scope = json!({ "secrets": ["api/token"], "actions": actions, "max_uses": max_uses });
    let asked = json!({ "delegate_to": to.aid.agent_uri.as_str(), "delegation_scope": scope });
    asked.as_object().cloned().unwrap()
}

fn action(action: Value) -> Action {
    Action::from_json(action).unwrap()
}

async fn token(served: &Served, from: &Caller, asked: &Map<String, Value>) -> Result<Value, Code> {
    let made = served.nl.create_delegation(from, asked).await;
    made.map(|made| made.body()["token_id"].clone()).map_err(|fault| fault.code())
}

/// `caller` acting under a token, with a proof that was not shown before.
async fn under(served: &Served, token: &Value, caller: Caller) -> Caller {
    static MADE: AtomicI64 = AtomicI64::new(0);
    let proof = proof(served, token, &caller, MADE.fetch_add(1, Ordering::Relaxed) % 25);
    let shown = json!({ "token_id": token, "binding_proof": proof });
    let acting = served.nl.acting(shown.as_object().unwrap()).await.unwrap();
    Caller { acting: Some(acting), ..caller }
}

async fn used(served: &Served, token: &Value) -> u64 {
    let all = served.nl.delegations.list().await.unwrap();
    all.into_iter().find(|(one, _)| one.token_id.as_str() == token).unwrap().1
}

async fn done(served: &Served, caller: &Caller, action: Action) -> Option<Code> {
    let outcome = served.nl.one(caller, Ok(action), "req-1", Timestamp::now()).await;
    outcome.fault.map(|fault| fault.code())
}

#[tokio::test]
async fn a_bound_that_there_is_not_is_told_beside_all_that_there_are() {
    let served = Served::new().await;
    let issuer = served.agent("a", &[Delegate, Exec], &["*"]).await;
    let helper = served.agent("b", &[Exec], &[]).await;
    let mut wanted = asked(&helper, &["exec"], 1);
    wanted["delegation_scope"]["max_use"] = json!(1);
    let fault = served.nl.create_delegation(&issuer, &wanted).await.unwrap_err();
    let words = fault.error().message();
    assert!(
        words.contains("max_use") && words.contains("`secrets`, `actions`, `max_uses`"),
        "{words}"
    );
}

#[tokio::test]
async fn handing_work_on_takes_a_use_of_the_token() {
    let served = Served::new().await;
    let issuer = served.agent("a", &[Delegate, Exec], &["*"]).await;
    let middle = served.agent("b", &[Delegate, Exec], &[]).await;
    // It may not act, so that the work ends before a command is run.
    let last = served.agent("c", &[Template], &[]).await;
    let root = token(&served, &issuer, &asked(&middle, &["delegate", "exec"], 2)).await.unwrap();
    let middle = under(&served, &root, middle).await;
    let inner = json!({ "type": "exec", "template": "true {{nl:api/token}}" });
    let delegate = action(json!({
        "type": "delegate", "delegate_to": last.aid.agent_uri.as_str(), "delegated_action": inner,
        "delegation_scope": { "secrets": ["api/token"], "max_uses": 1 },
    }));
    assert_eq!(done(&served, &middle, delegate.clone()).await, Some(Code::CapabilityMissing));
    // Nothing of it began.
    assert_eq!(used(&served, &root).await, 0);
    let worker = served.agent("e", &[Exec], &[]).await;
    // It gets as far as the value, which nobody has given yet, and leaves the rest of its uses.
    let mut begun = handed(&worker);
    if let Deed::Delegate { delegation_scope, .. } = &mut begun.deed {
        delegation_scope.max_uses = Some(2);
    }
    assert_eq!(done(&served, &middle, begun).await, Some(Code::SecretUnavailable));
    assert_eq!(used(&served, &root).await, 1);
    token(&served, &middle, &asked(&last, &["exec"], 1)).await.unwrap();
    assert_eq!(used(&served, &root).await, 2);
    let refused = token(&served, &middle, &asked(&last, &["exec"], 1)).await;
    assert_eq!(refused, Err(Code::DelegationExhausted));
    assert_eq!(done(&served, &middle, handed(&worker)).await, Some(Code::DelegationExhausted));
    // A token of somebody else's is nothing to hand on from.
    let stranger = served.agent("d", &[Delegate], &[]).await;
    let stranger = under(&served, &root, stranger).await;
    assert!(token(&served, &stranger, &asked(&last, &["exec"], 1)).await.is_err());
}

#[tokio::test]
async fn a_token_outlives_a_rotation_of_what_it_names() {
    let served = Served::new().await;
    let issuer = served.agent("a", &[Delegate, Template], &["*"]).await;
    let helper = served.agent("b", &[Template], &[]).await;
    let made = token(&served, &issuer, &asked(&helper, &["template"], 3)).await.unwrap();
    let helper = under(&served, &made, helper).await;
    let path = SecretPath::parse("t/api/token").unwrap();
    let render = json!({ "type": "template", "template_content": "{{nl:api/token}}" });
    for value in ["the value of before", "the value of now"] {
        served
            .nl
            .vault
            .put(&path, value.as_bytes().to_vec().into(), Entries::untold())
            .await
            .unwrap();
        assert_eq!(done(&served, &helper, action(render.clone())).await, None, "{value}");
    }
    assert_eq!(used(&served, &made).await, 2);
}

/// Its subject learns of nothing else whether its issuer may name it.
#[tokio::test]
async fn what_a_token_does_not_name_is_not_there() {
    let served = Served::new().await;
    let issuer = served.agent("a", &[Delegate, Exec], &["*"]).await;
    let helper = served.agent("b", &[Delegate, Exec], &[]).await;
    let made = token(&served, &issuer, &asked(&helper, &["exec"], 3)).await.unwrap();
    let aid = helper.aid.clone();
    let again = || Caller::alone(aid.clone(), None);
    let told = async |reference: &str| {
        let caller = under(&served, &made, again()).await;
        let template = format!("true {{{{nl:{reference}}}}}");
        let action = action(json!({ "type": "exec", "template": template, "dry_run": true }));
        let outcome = served.nl.one(&caller, Ok(action), "req-1", Timestamp::now()).await;
        outcome.fault.map(|fault| (fault.code(), fault.error().message().replace(reference, "…")))
    };
    assert_eq!(told("api/token").await, None);
    let there = told("db/password").await;
    assert_eq!(there.as_ref().map(|(code, _)| *code), Some(Code::GrantMissing));
    assert_eq!(there, told("db/nothing").await);
    // Who hands on what it may only do itself is told so in words.
    let caller = under(&served, &made, again()).await;
    let third = served.agent("c", &[Exec], &[]).await;
    let refused = served.nl.create_delegation(&caller, &asked(&third, &["exec"], 1)).await;
    let fault = refused.map(drop).unwrap_err();
    assert_eq!(fault.code(), Code::DelegationSubset);
    let words = fault.error().message();
    assert!(words.contains("not for actions of type delegate"), "{words}");
}

#[tokio::test]
async fn handing_work_on_makes_no_more_uses_of_it() {
    let served = Served::new().await;
    let issuer = served.agent("a", &[Delegate, Exec], &["*"]).await;
    let middle = served.agent("b", &[Delegate, Exec], &[]).await;
    let last = served.agent("c", &[Exec], &[]).await;
    let root = token(&served, &issuer, &asked(&middle, &["delegate", "exec"], 3)).await.unwrap();
    let middle = under(&served, &root, middle).await;
    let more = token(&served, &middle, &asked(&last, &["exec"], 4)).await;
    assert_eq!((more, used(&served, &root).await), (Err(Code::DelegationSubset), 0));
    token(&served, &middle, &asked(&last, &["exec"], 2)).await.unwrap();
    assert_eq!(used(&served, &root).await, 2);
    let more = token(&served, &middle, &asked(&last, &["exec"], 2)).await;
    assert_eq!(more, Err(Code::DelegationExhausted));
    // What can't be issued takes nothing.
    let itself = token(&served, &middle, &asked(&middle, &["exec"], 1)).await;
    assert_eq!((itself, used(&served, &root).await), (Err(Code::DelegationInvalid), 2));
}

#[tokio::test]
async fn a_token_is_not_wider_than_its_issuers_own_bounds() {
    let served = Served::new().await;
    let issuer = served.agent("a", &[Delegate], &["*"]).await;
    let helper = served.agent("b", &[Exec], &[]).await;
    let made = token(&served, &issuer, &asked(&helper, &["exec"], 2)).await.unwrap();
    let helper = under(&served, &made, helper).await;
    let exec = json!({ "type": "exec", "template": "true {{nl:api/token}}", "dry_run": true });
    assert_eq!(done(&served, &helper, action(exec)).await, Some(Code::CapabilityMissing));
}

#[tokio::test]
async fn who_has_no_grant_to_delegate_delegates_nothing() {
    let served = Served::new().await;
    let issuer = served.agent("a", &[Delegate, Exec], &["exec"]).await;
    let helper = served.agent("b", &[Exec], &[]).await;
    let refused = token(&served, &issuer, &asked(&helper, &["exec"], 2)).await;
    assert_eq!(refused, Err(Code::DelegationSubset));
}

#[tokio::test]
async fn the_file_of_a_template_for_another_is_judged_with_the_rest() {
    let served = Served::new().await;
    let issuer = served.agent("a", &[Delegate, Template], &["*"]).await;
    let helper = served.agent("b", &[Template], &[]).await;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("template");
    fs::write(&path, "{{nl:api/none}}").unwrap();
    for (path, mode) in [(folder.path(), 0o755), (&path, 0o644)] {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    }
    let delegate = action(json!({
        "type": "delegate", "delegate_to": helper.aid.agent_uri.as_str(), "dry_run": true,
        "delegated_action": { "type": "template", "template_path": path },
        "delegation_scope": { "secrets": ["api/token"], "max_uses": 1 },
    }));
    assert_eq!(done(&served, &issuer, delegate).await, Some(Code::SecretNotFound));
}

#[tokio::test]
async fn a_delegation_that_can_not_be_made_says_what_is_wrong_with_it() {
    let served = Served::new().await;
    let issuer = served.agent("a", &[Delegate, Exec], &["*"]).await;
    let helper = served.agent("b", &[Exec], &[]).await;
    let told = async |to: &str, scope: Value| {
        let delegate = action(json!({
            "type": "delegate", "delegate_to": to, "delegation_scope": scope,
            "delegated_action": { "type": "exec", "template": "true {{nl:api/token}}" },
        }));
        let outcome = served.nl.one(&issuer, Ok(delegate), "req-1", Timestamp::now()).await;
        let fault = outcome.fault.unwrap();
        assert_eq!(fault.code(), Code::DelegationInvalid);
        fault.error().detail().as_str().to_owned()
    };
    let scope = |uses: u64, life: u64| json!({ "secrets": ["api/token"], "max_uses": uses, "ttl_seconds": life });
    let (itself, other) = (issuer.aid.agent_uri.as_str(), helper.aid.agent_uri.as_str());
    for (to, scope, words) in [
        (itself, scope(1, 60), "not to itself"),
        (other, scope(0, 60), "max_uses is at least 1"),
        (other, scope(1, 0), "ttl_seconds is at least 1"),
        (
            "nl://acme.corp/nobody/1.0.0",
            scope(1, 60),
            "no active agent nl://acme.corp/nobody/1.0.0",
        ),
    ] {
        let told = told(to, scope).await;
        assert!(told.contains(words), "{told}");
    }
    assert!(served.nl.delegations.list().await.unwrap().is_empty());
}

/// A proof that a token is the caller's, made `seconds` from now.
fn proof(served: &Served, token: &Value, caller: &Caller, seconds: i64) -> String {
    let id = TokenId::parse(token.as_str().unwrap()).unwrap();
    let key = served.nl.delegations.binding_key(&id, &caller.aid.instance_id);
    let at = Timestamp::now() + SignedDuration::from_secs(seconds);
    keyless_client::proof(&key, id.as_str(), caller.aid.agent_uri.as_str(), at.as_second())
}

#[tokio::test]
async fn a_proof_is_good_for_all_that_its_message_asks_and_for_no_other() {
    let served = Served::new().await;
    let issuer = served.agent("a", &[Delegate, Exec], &["delegate"]).await;
    served.allow(&issuer, json!({ "require_human_approval": true })).await;
    let helper = served.agent("b", &[Exec], &[]).await;
    let made = token(&served, &issuer, &asked(&helper, &["exec"], 2)).await.unwrap();
    let exec = || action(json!({ "type": "exec", "template": "true {{nl:api/token}}" }));
    let message = async |proof: &str| {
        let shown = json!({ "token_id": made, "binding_proof": proof });
        let shown = shown.as_object().unwrap();
        let acting = served.nl.acting(shown).await.unwrap();
        Caller {
            acting: Some(acting),
            aid: helper.aid.clone(),
            source_ip: None,
            delegation: Vec::new(),
        }
    };
    // Nothing, and what another instance of the same software could make, prove nothing.
    let twin = served.agent("b", &[Exec], &[]).await;
    let nothing = json!({ "token_id": made });
    let unproven = served.nl.acting(nothing.as_object().unwrap()).await;
    let unproven = Caller { acting: unproven.ok(), ..served.agent("b", &[Exec], &[]).await };
    assert_eq!(done(&served, &unproven, exec()).await, Some(Code::DelegationInvalid));
    // Nor do they tell what its issuer may name: a name that there is and one that there is not get the same answer.
    let answers =
        ["{{nl:api/token}}", "{{nl:api/none}}", "{{nl:none}}", "{{nl:TOKEN}}"].map(async |name| {
            let read =
                json!({ "type": "exec", "template": format!("true {name}"), "dry_run": true });
            let outcome =
                served.nl.one(&unproven, Ok(action(read)), "req-1", Timestamp::now()).await;
            let fault = outcome.fault.unwrap();
            format!("{fault:?}")
        });
    let answers = futures_util::future::join_all(answers).await;
    assert!(answers.iter().all(|one| *one == answers[0]), "{answers:?}");
    let twins = message(&proof(&served, &made, &twin, 0)).await;
    assert_eq!(done(&served, &twins, exec()).await, Some(Code::DelegationInvalid));
    let first = proof(&served, &made, &helper, -1);
    assert_eq!(done(&served, &message(&first).await, exec()).await, Some(Code::ApprovalRequired));
    let waiting = served.nl.requests.all().await.unwrap();
    served.nl.requests.settle(&waiting[0].id, Decision::AllowOnce).await.unwrap();
    // The next message brings a proof of its own; the word is kept for it.
    assert_eq!(done(&served, &message(&first).await, exec()).await, Some(Code::DelegationInvalid));
    // Whoever has the key is told what is wrong with a proof by it.
    let wrong = async |seconds: i64| {
        let caller = message(&proof(&served, &made, &helper, seconds)).await;
        let outcome = served.nl.one(&caller, Ok(exec()), "req-1", Timestamp::now()).await;
        outcome.fault.unwrap().error().message()
    };
    assert!(wrong(-1).await.contains("was shown before"));
    assert!(wrong(-600).await.contains("seconds from now"));
    let second = proof(&served, &made, &helper, 0);
    let caller = message(&second).await;
    // It gets as far as the value, which nobody has given yet.
    assert_eq!(done(&served, &caller, exec()).await, Some(Code::SecretUnavailable));
    assert!(!served.nl.requests.all().await.unwrap()[0].allows_use(Timestamp::now()));
    // What else the same message asks rests on the same proof.
    assert_eq!(done(&served, &caller, exec()).await, Some(Code::ApprovalRequired));
}

/// Work for `to`, which reads a secret.
fn handed(to: &Caller) -> Action {
    action(json!({
        "type": "delegate", "delegate_to": to.aid.agent_uri.as_str(),
        "delegated_action": { "type": "exec", "template": "true {{nl:api/token}}" },
        "delegation_scope": { "secrets": ["api/token"], "max_uses": 1 },
    }))
}

/// A person is asked once about work for another, and it is done as far as it can be.
async fn is_asked_about_once(served: &Served, issuer: &Caller, helper: &Caller) {
    assert_eq!(done(served, issuer, handed(helper)).await, Some(Code::ApprovalRequired));
    let waiting = served.nl.requests.all().await.unwrap();
    served.nl.requests.settle(&waiting[0].id, Decision::AllowOnce).await.unwrap();
    // It gets as far as the value, which nobody has given yet.
    assert_eq!(done(served, issuer, handed(helper)).await, Some(Code::SecretUnavailable));
    assert_eq!(served.nl.requests.all().await.unwrap().len(), 1);
}

#[tokio::test]
async fn a_person_who_is_to_be_asked_is_asked_about_work_for_another() {
    let served = Served::new().await;
    let issuer = served.agent("a", &[Delegate, Exec], &[]).await;
    served.allow(&issuer, json!({ "require_human_approval": true })).await;
    let helper = served.agent("b", &[Exec], &[]).await;
    is_asked_about_once(&served, &issuer, &helper).await;
}

/// Whoever is asked, and whatever a person says, it can't be done.
#[tokio::test]
async fn nobody_is_asked_about_what_can_never_be_handed_on() {
    let served = Served::new().await;
    let issuer = served.agent("a", &[Delegate, Exec], &[]).await;
    served.allow(&issuer, json!({ "require_human_approval": true })).await;
    let helper = served.agent("b", &[Exec], &[]).await;
    let scope = |members: Value| {
        let mut scope = json!({ "secrets": ["api/token"] });
        scope.as_object_mut().unwrap().extend(members.as_object().unwrap().clone());
        scope
    };
    for (to, scope) in [
        (&helper, scope(json!({ "max_uses": 0 }))),
        (&helper, scope(json!({ "ttl_seconds": 0 }))),
        (&issuer, scope(json!({}))),
    ] {
        for is_dry_run in [true, false] {
            let never = action(json!({
                "type": "delegate", "delegate_to": to.aid.agent_uri.as_str(), "dry_run": is_dry_run,
                "delegated_action": { "type": "exec", "template": "true {{nl:api/token}}" },
                "delegation_scope": scope,
            }));
            assert_eq!(
                done(&served, &issuer, never).await,
                Some(Code::DelegationInvalid),
                "{scope}"
            );
        }
    }
    assert!(served.nl.requests.all().await.unwrap().is_empty());
}

/// Nor about work that its recipient, or the token that it would have, does not cover: in a dry run as well.
#[tokio::test]
async fn nobody_is_asked_about_work_that_its_recipient_could_not_do() {
    let served = Served::new().await;
    let issuer = served.agent("a", &[Delegate, Exec], &[]).await;
    served.allow(&issuer, json!({ "require_human_approval": true })).await;
    let helper = served.agent("b", &[Exec], &[]).await;
    let unable = served.agent("c", &[Template], &[]).await;
    let cases = [
        (&helper, "other/thing", Code::DelegationSubset, "delegation_scope does not name"),
        (&unable, "api/token", Code::CapabilityMissing, "is not registered for exec"),
    ];
    for (to, in_scope, code, words) in cases {
        for is_dry_run in [true, false] {
            let never = action(json!({
                "type": "delegate", "delegate_to": to.aid.agent_uri.as_str(), "dry_run": is_dry_run,
                "delegated_action": { "type": "exec", "template": "true {{nl:api/token}}" },
                "delegation_scope": { "secrets": [in_scope] },
            }));
            let outcome = served.nl.one(&issuer, Ok(never), "req-1", Timestamp::now()).await;
            let fault = outcome.fault.unwrap();
            assert_eq!(fault.code(), code, "{in_scope}");
            assert!(fault.error().to_string().contains(words), "{fault:?}");
        }
    }
    assert!(served.nl.requests.all().await.unwrap().is_empty());
    assert!(served.nl.delegations.list().await.unwrap().is_empty());
}

/// A person who is shown one secret has said nothing about another: what is handed on and what is done have one context.
#[tokio::test]
async fn what_is_handed_on_is_what_is_done() {
    let served = Served::new().await;
    let issuer = served.agent("a", &[Delegate, Exec], &[]).await;
    served.allow(&issuer, json!({ "require_human_approval": true })).await;
    let helper = served.agent("b", &[Exec], &[]).await;
    let context = |environment: &str| json!({ "project": "t", "environment": environment });
    let delegate = |outer: Value, inner: Value| {
        let mut whole = json!({
            "type": "delegate", "delegate_to": helper.aid.agent_uri.as_str(), "timeout_ms": 2000,
            "delegated_action": { "type": "exec", "template": "true {{nl:api/token}}" },
            "delegation_scope": { "secrets": ["api/token"] },
        });
        if !outer.is_null() {
            whole["context"] = outer;
        }
        if !inner.is_null() {
            whole["delegated_action"]["context"] = inner;
        }
        action(whole)
    };
    let two = delegate(context("staging"), context("production"));
    assert_eq!(done(&served, &issuer, two).await, Some(Code::MessageMalformed));
    assert!(served.nl.requests.all().await.unwrap().is_empty());
    for one in [delegate(context("dev"), Value::Null), delegate(Value::Null, context("dev"))] {
        let one = of_one_mind(one).unwrap();
        let Deed::Delegate { delegated_action, .. } = &one.deed else { unreachable!() };
        assert_eq!(one.context, delegated_action.context);
        // Nor does it take longer than the handing on may.
        assert_eq!(delegated_action.timeout().as_millis(), 2000);
    }
    let meant = |path: &str| {
        let handle = Handle::parse_alone("secret_ref", "{{nl:key}}").unwrap();
        Meant { handle, path: SecretPath::parse(path).unwrap() }
    };
    let (staging, production) = (meant("team/staging/api/key"), meant("team/production/api/key"));
    let differs = mean_the_same(std::slice::from_ref(&staging), std::slice::from_ref(&production));
    assert_eq!(differs.unwrap_err().code(), Code::ReferenceAmbiguous);
    assert!(mean_the_same(std::slice::from_ref(&staging), &[production, staging.clone()]).is_ok());
}

/// What did not begin leaves nothing that its recipient could go on with.
#[tokio::test]
async fn a_token_whose_action_did_not_begin_is_over() {
    let served = Served::new().await;
    let issuer = served.agent("a", &[Delegate, Exec], &["*"]).await;
    let helper = served.agent("b", &[Exec], &[]).await;
    // It can't be guarded against being watched between the check and its turn.
    let shown = of_redactions([false].into_iter(), Timestamp::now());
    let (instance, by) = (&helper.aid.instance_id, as_logged(&helper.aid));
    served.nl.detection.add(instance, by, &shown).await.unwrap();
    let mut many = handed(&helper);
    let Deed::Delegate { delegation_scope, .. } = &mut many.deed else { unreachable!() };
    delegation_scope.max_uses = Some(5);
    assert_eq!(done(&served, &issuer, many).await, Some(Code::ApprovalRequired));
    let tokens = served.nl.delegations.list().await.unwrap();
    let [(token, 0)] = &tokens[..] else { panic!("{tokens:?}") };
    assert_eq!(token.revoked.as_ref().unwrap().reason, "its action did not begin");
}

/// What it may go on with is no less than what it does at once.
#[tokio::test]
async fn a_person_is_shown_what_a_token_is_for() {
    let served = Served::new().await;
    let issuer = served.agent("a", &[Delegate, Exec], &[]).await;
    served.allow(&issuer, json!({ "require_human_approval": true })).await;
    let helper = served.agent("b", &[Exec], &[]).await;
    let mut wider = handed(&helper);
    let Deed::Delegate { delegation_scope, .. } = &mut wider.deed else { unreachable!() };
    (delegation_scope.max_uses, delegation_scope.ttl_seconds) = (Some(50), Some(900));
    assert_eq!(done(&served, &issuer, wider).await, Some(Code::ApprovalRequired));
    let waiting = served.nl.requests.all().await.unwrap();
    let Asked::ActionApproval { wanted } = &waiting[0].asked else { panic!("{waiting:?}") };
    assert!(
        wanted.text.ends_with("; by a token for api/token, 50 uses, 900 s at most"),
        "{}",
        wanted.text
    );
    // Not longer than it will have, whatever was asked for.
    let shown = |max_uses, ttl_seconds| {
        let scope =
            DelegationScope { max_uses, ttl_seconds, ..delegation_scope_of(&["api/token"]) };
        crate::nl::approve::token(&scope)
    };
    assert_eq!(shown(Some(9), Some(86_400)), "by a token for api/token, 9 uses, 3600 s at most");
    assert_eq!(shown(None, Some(900)), "by a token for api/token, one use, 300 s at most");
}

fn delegation_scope_of(secrets: &[&str]) -> DelegationScope {
    serde_json::from_value(json!({ "secrets": secrets })).unwrap()
}

/// What was handed on before, too: else it would act through another.
#[tokio::test]
async fn a_use_under_a_watched_agents_token_waits_for_a_person() {
    let served = Served::new().await;
    let issuer = served.agent("a", &[Delegate, Exec], &["*"]).await;
    let helper = served.agent("b", &[Exec], &[]).await;
    let made = token(&served, &issuer, &asked(&helper, &["exec"], 2)).await.unwrap();
    let shown = of_redactions([false].into_iter(), Timestamp::now());
    let (instance, by) = (&issuer.aid.instance_id, as_logged(&issuer.aid));
    served.nl.detection.add(instance, by, &shown).await.unwrap();
    let helper = under(&served, &made, helper).await;
    let exec = action(json!({ "type": "exec", "template": "true {{nl:api/token}}" }));
    assert_eq!(done(&served, &helper, exec).await, Some(Code::ApprovalRequired));
}

/// The uses that were had of an agent's one grant, `g-more`.
async fn had(served: &Served) -> u64 {
    served.nl.grants.show(&GrantId::parse("g-more").unwrap()).await.unwrap().used[0]
}

#[tokio::test]
async fn handing_work_on_and_doing_it_are_one_use_of_a_permission() {
    let served = Served::new().await;
    let issuer = served.agent("a", &[Delegate, Exec], &[]).await;
    let once = json!({ "max_uses": 1, "max_concurrent": 1, "max_per_minute": 2 });
    served.allow(&issuer, once).await;
    let helper = served.agent("b", &[Exec], &[]).await;
    // A watched one's work waits for a person, and nothing is had until it begins.
    let shown = of_redactions([false].into_iter(), Timestamp::now());
    let (instance, by) = (&helper.aid.instance_id, as_logged(&helper.aid));
    served.nl.detection.add(instance, by, &shown).await.unwrap();
    assert_eq!(done(&served, &issuer, handed(&helper)).await, Some(Code::ApprovalRequired));
    assert_eq!(had(&served).await, 0);
    let waiting = served.nl.requests.all().await.unwrap();
    served.nl.requests.settle(&waiting[0].id, Decision::AllowOnce).await.unwrap();
    // It gets as far as the value, which nobody has given yet.
    assert_eq!(done(&served, &issuer, handed(&helper)).await, Some(Code::SecretUnavailable));
    assert_eq!(had(&served).await, 1);
}

#[tokio::test]
async fn of_several_permissions_the_one_that_holds_longest_is_handed_on() {
    let served = Served::new().await;
    let issuer = served.agent("a", &[Delegate, Exec], &[]).await;
    // It is when it is handed on.
    let end = Timestamp::now() + SignedDuration::from_secs(1);
    let over = json!({ "valid_from": "2020-01-01T00:00:00Z", "valid_until": end });
    let soon = Timestamp::now() + SignedDuration::from_secs(60);
    let conditions = [
        over,
        json!({ "valid_from": "2020-01-01T00:00:00Z", "valid_until": soon }),
        json!({ "valid_from": "2020-01-01T00:00:00Z", "valid_until": "2099-01-01T00:00:00Z" }),
        json!({ "valid_from": "2098-01-01T00:00:00Z", "valid_until": "2099-06-01T00:00:00Z" }),
    ];
    let permissions = conditions.map(|conditions| {
        json!({ "action_types": ["delegate", "exec"], "secrets": ["*"], "conditions": conditions })
    });
    let grant = json!({
        "grant_id": "g1", "agent_uri": issuer.aid.agent_uri.as_str(), "organization_id": "acme",
        "granted_by": { "type": "human", "identifier": "ann", "granted_at": "2026-02-08T09:00:00Z" },
        "permissions": permissions,
    });
    served.nl.grants.create(serde_json::from_value(grant).unwrap()).await.unwrap();
    tokio::time::sleep(end.duration_since(Timestamp::now()).unsigned_abs()).await;
    let helper = served.agent("b", &[Exec], &[]).await;
    let scope =
        scope(&serde_json::from_value(json!({ "secrets": ["api/token"] })).unwrap(), vec![Exec]);
    let until = served.nl.footing(&issuer, scope.unwrap()).await.unwrap().until;
    assert_eq!(until, "2099-01-01T00:00:00Z".parse().unwrap());
    token(&served, &issuer, &asked(&helper, &["exec"], 2)).await.unwrap();
}

#[tokio::test]
async fn a_secret_is_handed_on_by_any_of_its_names() {
    let served = Served::new().await;
    let issuer = served.agent("a", &[Delegate, Exec], &[]).await;
    served.allow_secrets(&issuer, &["t/**"]).await;
    let helper = served.agent("b", &[Exec], &[]).await;
    let scope = |named: &str| {
        let scope = json!({ "secrets": [named] });
        super::scope(&serde_json::from_value(scope).unwrap(), vec![Exec]).unwrap()
    };
    for named in ["api/TOKEN", "token", "t/api/token"] {
        let footing = served.nl.footing(&issuer, scope(named)).await.unwrap();
        assert_eq!(footing.scope.secrets[0].as_str(), "t/api/token", "{named}");
    }
    assert!(served.nl.footing(&issuer, scope("t/api/*")).await.is_ok());
    for more in ["api/*", "*", "api/other", "u/api/token"] {
        let refused = served.nl.footing(&issuer, scope(more)).await.err().unwrap();
        assert_eq!(refused.code(), Code::DelegationSubset, "{more}");
    }
    // The next one hands on under the token's own words as well.
    let root = token(&served, &issuer, &asked(&helper, &["delegate", "exec"], 2)).await.unwrap();
    let helper = under(&served, &root, served.agent("c", &[Delegate, Exec], &[]).await).await;
    assert_eq!(
        served.nl.footing(&helper, scope("token")).await.unwrap().scope.secrets[0].as_str(),
        "t/api/token"
    );
}

#[test]
fn what_names_secrets_is_no_result() {
    let of = |result: Value| names_secrets(&serde_json::from_value(result).unwrap());
    assert!(!of(json!({ "stdout": "{{ nl: }}", "stderr": "", "exit_code": 0 })));
    assert!(of(json!({ "stdout": "ok", "stderr": "use {{nl:api/token}}" })));
    assert!(of(json!({ "data": { "a": ["{{nl:api/token}}"] } })));
    let binary = BASE64.encode(b"\xff{{nl:api/token}}");
    assert!(of(json!({ "stdout": binary, "stderr": "", "encoding": "base64" })));
    assert!(!of(json!({ "stdout": BASE64.encode(b"\xff"), "stderr": "", "encoding": "base64" })));
}

#[tokio::test]
async fn a_watched_agent_hands_nothing_on_without_a_person() {
    let served = Served::new().await;
    let issuer = served.agent("a", &[Delegate, Exec], &["*"]).await;
    let helper = served.agent("b", &[Exec], &[]).await;
    let shown = of_redactions([false].into_iter(), Timestamp::now());
    let (instance, by) = (&issuer.aid.instance_id, as_logged(&issuer.aid));
    served.nl.detection.add(instance, by, &shown).await.unwrap();
    is_asked_about_once(&served, &issuer, &helper).await;
}

async fn accepted(served: &Served, token: &Value, caller: &Caller) -> Result<String, Code> {
    let payload = json!({ "token_id": token });
    let told = served.nl.accept_delegation(caller, payload.as_object().unwrap()).await;
    let told = told.map_err(|fault| fault.code())?;
    Ok(told.body()["token_binding_key"].as_str().unwrap().to_owned())
}

#[tokio::test]
async fn a_token_is_that_of_the_first_instance_that_takes_it() {
    let served = Served::new().await;
    let issuer = served.agent("a", &[Delegate, Exec], &["*"]).await;
    let (first, twin) =
        (served.agent("b", &[Exec], &[]).await, served.agent("b", &[Exec], &[]).await);
    let exec = || action(json!({ "type": "exec", "template": "true {{nl:api/token}}" }));
    // By accepting it, whoever is first; at the same time one of them.
    for _ in 0..4 {
        let made = token(&served, &issuer, &asked(&first, &["exec"], 2)).await.unwrap();
        let (one, other) =
            tokio::join!(accepted(&served, &made, &first), accepted(&served, &made, &twin));
        assert_eq!(usize::from(one.is_ok()) + usize::from(other.is_ok()), 1);
        let (owner, late) = if one.is_ok() { (&first, &twin) } else { (&twin, &first) };
        assert!(accepted(&served, &made, owner).await.is_ok());
        assert_eq!(accepted(&served, &made, late).await, Err(Code::DelegationInvalid));
    }
    // By using it.
    let bound = async || {
        let wanted = keyless_store::AuditQuery::default();
        let all = served.nl.vault.store().audit_query(&wanted).await.unwrap();
        let notes = all
            .iter()
            .filter(|entry| entry.action == keyless_core::audit::Action::DelegationAccept);
        let notes = notes.filter_map(|entry| entry.detail.note.clone());
        notes.filter(|note| note.contains("from now on it is that of")).collect::<Vec<_>>()
    };
    // Each once, whoever accepted it how often, and whichever way it came to be.
    let before = bound().await;
    assert_eq!(before.len(), 4);
    let made = token(&served, &issuer, &asked(&first, &["exec"], 2)).await.unwrap();
    let first = under(&served, &made, first).await;
    assert_eq!(done(&served, &first, exec()).await, Some(Code::SecretUnavailable));
    let late = under(&served, &made, twin).await;
    assert_eq!(done(&served, &late, exec()).await, Some(Code::DelegationInvalid));
    assert_eq!(accepted(&served, &made, &late).await, Err(Code::DelegationInvalid));
    let instance = first.aid.instance_id.as_str();
    let theirs = |notes: &[String]| notes.iter().filter(|note| note.contains(instance)).count();
    assert_eq!(theirs(&bound().await), theirs(&before) + 1);
}

#[tokio::test]
async fn what_was_handed_to_an_agent_ends_with_it() {
    let served = Served::new().await;
    let issuer = served.agent("a", &[Delegate, Exec], &["*"]).await;
    let first = served.agent("b", &[Exec], &[]).await;
    let second = served.agent("b", &[Exec], &[]).await;
    let mut made = Vec::new();
    for _ in 0..3 {
        made.push(token(&served, &issuer, &asked(&first, &["exec"], 2)).await.unwrap());
    }
    accepted(&served, &made[0], &first).await.unwrap();
    accepted(&served, &made[1], &second).await.unwrap();
    let in_force = async || {
        let all = served.nl.delegations.list().await.unwrap();
        let is_one = |token: &Value| {
            let mut all = all.iter().map(|(token, _)| token);
            all.any(|one| one.token_id.as_str() == token && one.revoked.is_none())
        };
        made.iter().map(is_one).collect::<Vec<_>>()
    };
    let end = async |caller: &Caller| {
        let ending = Ending {
            who: as_logged(&caller.aid),
            reason: "a test",
            ends_delegations: true,
            ends_actions: true,
        };
        served.nl.revoke_all(std::slice::from_ref(&caller.aid), &ending).await.unwrap().0
    };
    assert_eq!(end(&first).await, 1);
    assert_eq!(in_force().await, [false, true, true]);
    // Nobody is left to accept what nobody had accepted.
    assert_eq!(end(&second).await, 2);
    assert_eq!(in_force().await, [false, false, false]);
}

#[tokio::test]
async fn work_is_handed_to_agents_of_the_house_that_are_known_well_enough() {
    let served = Served::new().await;
    let issuer = served.agent("a", &[Delegate, Exec], &["*"]).await;
    let least = Registration { trust_level: TrustLevel::L0, ..registration("least") };
    let least = served.enrolled(least, &[]).await;
    let elsewhere = Registration { organization_id: "b".to_owned(), ..registration("elsewhere") };
    let elsewhere = served.enrolled(elsewhere, &[]).await;
    let gone = served.agent("gone", &[Exec], &[]).await;
    let to = (AgentState::Suspended, LifecycleAuthority::Operator);
    served.nl.agents.change(&gone.aid.instance_id, to, "a test").await.unwrap();
    let agent_uri = AgentUri::parse("nl://acme.corp/nobody/1.0.0").unwrap();
    let aid = Aid { agent_uri, ..gone.aid.clone() };
    let nobody = Caller { aid, source_ip: None, delegation: Vec::new(), acting: None };
    for (to, code, words) in [
        (&least, Code::TrustTooLow, "least/1.0.0 is trusted L0"),
        (&elsewhere, Code::DelegationInvalid, "elsewhere/1.0.0 of the organization acme"),
        (&gone, Code::DelegationInvalid, "no active agent"),
        (&nobody, Code::DelegationInvalid, "no active agent"),
    ] {
        let refused = served.nl.create_delegation(&issuer, &asked(to, &["exec"], 2)).await;
        let action = served.nl.one(&issuer, Ok(handed(to)), "req-1", Timestamp::now()).await;
        for fault in [refused.unwrap_err(), action.fault.unwrap()] {
            assert_eq!(fault.code(), code);
            assert!(fault.error().detail().as_str().contains(words), "{fault:?}");
        }
    }
    assert!(served.nl.delegations.list().await.unwrap().is_empty());
    // Nor is it by way of a namesake: whoever takes it is looked at as well.
    let good = served.agent("b", &[Exec], &[]).await;
    let made = token(&served, &issuer, &asked(&good, &["exec"], 2)).await.unwrap();
    let exec = || action(json!({ "type": "exec", "template": "true {{nl:api/token}}" }));
    let low = Registration { trust_level: TrustLevel::L0, ..registration("b") };
    let foreign = Registration { organization_id: "b".to_owned(), ..registration("b") };
    for (wanted, code) in [(low, Code::TrustTooLow), (foreign, Code::DelegationInvalid)] {
        let namesake = served.enrolled(wanted, &[]).await;
        assert_eq!(accepted(&served, &made, &namesake).await, Err(code));
        let namesake = under(&served, &made, namesake).await;
        assert_eq!(done(&served, &namesake, exec()).await, Some(code));
    }
    accepted(&served, &made, &good).await.unwrap();
}

#[tokio::test]
async fn work_may_rest_on_several_grants() {
    let served = Served::new().await;
    let issuer = served.agent("a", &[Delegate, Exec], &[]).await;
    let helper = served.agent("b", &[Exec], &[]).await;
    let soon = Timestamp::now() + SignedDuration::from_secs(60);
    let late: Timestamp = "2099-01-01T00:00:00Z".parse().unwrap();
    for (id, types, secret, until) in [
        ("g1", json!(["delegate", "exec"]), "api/token", late),
        ("g2", json!(["delegate"]), "db/password", late),
        ("g3", json!(["exec"]), "db/password", soon),
    ] {
        let conditions = json!({ "valid_from": "2020-01-01T00:00:00Z", "valid_until": until });
        let grant = json!({
            "grant_id": id, "agent_uri": issuer.aid.agent_uri.as_str(), "organization_id": "acme",
            "granted_by": { "type": "human", "identifier": "ann", "granted_at": "2026-02-08T09:00:00Z" },
            "permissions": [{ "action_types": types, "secrets": [secret], "conditions": conditions }],
        });
        served.nl.grants.create(serde_json::from_value(grant).unwrap()).await.unwrap();
    }
    let footing = async |secrets: &[&str], kind: ActionType| {
        let wanted = serde_json::from_value(json!({ "secrets": secrets })).unwrap();
        let footing = served.nl.footing(&issuer, scope(&wanted, vec![kind]).unwrap()).await;
        footing.map(|footing| (footing.grant.to_string(), footing.until)).map_err(|f| f.code())
    };
    let both = ["api/token", "db/password"];
    // It lasts as long as all of them do.
    assert_eq!(footing(&both, Exec).await, Ok(("g3".to_owned(), soon)));
    assert_eq!(footing(&both[..1], Exec).await, Ok(("g1".to_owned(), late)));
    assert_eq!(footing(&both, Template).await, Err(Code::DelegationSubset));
    assert_eq!(footing(&["api/token", "api/other"], Exec).await, Err(Code::DelegationSubset));
    let both = action(json!({
        "type": "delegate", "delegate_to": helper.aid.agent_uri.as_str(),
        "delegated_action": { "type": "exec", "template": "true {{nl:api/token}} {{nl:db/password}}" },
        "delegation_scope": { "secrets": both, "max_uses": 1 },
    }));
    // It gets as far as the values, which nobody has given yet.
    assert_eq!(done(&served, &issuer, both).await, Some(Code::SecretUnavailable));
}

#[tokio::test]
async fn bait_in_a_delegations_scope_is_an_incident() {
    let served = Served::new().await;
    let bait = keyless_vault::Metadata { honeypot: true, ..keyless_vault::Metadata::default() };
    let path = SecretPath::parse("t/ops/master-key").unwrap();
    served.nl.vault.add(path.clone(), bait, None, Entries::untold()).await.unwrap();
    let caller = served.agent("a", &[Exec, Delegate], &["*"]).await;
    let helper = served.agent("b", &[Exec], &[]).await;
    let score =
        async || served.nl.detection.standing(&caller.aid.instance_id).await.unwrap().0.score;
    let named = |secrets: Value| {
        let mut wanted = asked(&helper, &["exec"], 1);
        wanted["delegation_scope"]["secrets"] = secrets;
        wanted
    };
    assert!(token(&served, &caller, &named(json!(["*"]))).await.is_ok());
    assert_eq!(score().await, 0);
    let touched = token(&served, &caller, &named(json!(["ops/MASTER_KEY"]))).await;
    assert_eq!(touched, Err(Code::HoneypotTouched));
    assert!(score().await > 0);
}

/// By nobody but the operator, in another process: the token is looked at as each use begins, and not again.
#[tokio::test]
async fn work_under_a_token_ends_with_its_issuer() {
    for to in [AgentState::Suspended, AgentState::Revoked] {
        let served = Served::new().await;
        served.add_asked().await;
        let nl = &served.nl;
        let issuer = served.agent("a", &[Delegate, Exec], &["*"]).await;
        let helper = served.agent("b", &[Exec], &[]).await;
        let mut wanted = asked(&helper, &["exec"], 2);
        wanted["delegation_scope"]["secrets"] = json!(["api/asked"]);
        let made = token(&served, &issuer, &wanted).await.unwrap();
        let helper = under(&served, &made, helper).await;
        let exec = action(json!({ "type": "exec", "template": "true {{nl:api/asked}}" }));
        let ending = async {
            served.until_asked().await;
            let to = (to, LifecycleAuthority::Operator);
            nl.agents.change(&issuer.aid.instance_id, to, "a test").await.unwrap();
            nl.dismiss_unfit(nl.present.busy()).await;
        };
        let both = async { tokio::join!(Box::pin(done(&served, &helper, exec)), ending) };
        let both = tokio::time::timeout(std::time::Duration::from_secs(20), both).await;
        assert_eq!(both.expect("it ends").0, Some(Code::DelegationRevoked), "{to}");
        // It is nothing that its doer has tried.
        let (_, incidents) = nl.detection.standing(&helper.aid.instance_id).await.unwrap();
        assert_eq!(incidents, 0);
    }
}

/// Whose message it is hears what became of them.
#[tokio::test]
async fn work_that_is_handed_on_by_an_action_ends_with_who_hands_it_on() {
    let served = Served::new().await;
    served.add_asked().await;
    let nl = &served.nl;
    let issuer = served.agent("a", &[Delegate, Exec], &["*"]).await;
    let helper = served.agent("b", &[Exec], &[]).await;
    let handed = action(json!({
        "type": "delegate", "delegate_to": helper.aid.agent_uri.as_str(),
        "delegated_action": { "type": "exec", "template": "true {{nl:api/asked}}" },
        "delegation_scope": { "secrets": ["api/asked"], "max_uses": 1 },
    }));
    let ending = async {
        served.until_asked().await;
        let to = (AgentState::Suspended, LifecycleAuthority::Operator);
        nl.agents.change(&issuer.aid.instance_id, to, "a test").await.unwrap();
        nl.dismiss_unfit(nl.present.busy()).await;
    };
    let both = async { tokio::join!(Box::pin(done(&served, &issuer, handed)), ending) };
    let both = tokio::time::timeout(std::time::Duration::from_secs(20), both).await;
    assert_eq!(both.expect("it ends").0, Some(Code::AgentSuspended));
}
