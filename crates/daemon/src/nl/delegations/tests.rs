//! Tokens in a store: bound to who they are for, used as often as they say, revoked with all below.

use jiff::SignedDuration;
use keyless_core::{
    ActionType, SecretPath,
    agent::AgentUri,
    delegation::TokenScope,
    grant::{Categories, GrantId, SecretPattern, Subject},
};

use super::*;
use crate::{nl::scene::aid, scene::Scene};

struct Somebody(AgentUri, InstanceId);

fn somebody(number: u8) -> Somebody {
    let uri = AgentUri::parse(&format!("nl://acme.corp/agent{number}/1.0.0")).unwrap();
    Somebody(uri, InstanceId::parse(&format!("{number:08}-0000-4000-8000-000000000000")).unwrap())
}

async fn hand_on(all: &Delegations, from: u8, parent: Option<&Token>) -> Token {
    let (issuer, subject) = (somebody(from), somebody(from + 1));
    let scope = TokenScope {
        secrets: vec![SecretPattern::parse("k8s/DEPLOY_TOKEN").unwrap()],
        actions: vec![ActionType::Exec],
        max_uses: 2,
    };
    let order = Order {
        issuer: (&issuer.0, &issuer.1),
        subject: (&subject.0, Some(&subject.1)),
        scope,
        life: SignedDuration::from_mins(5),
        root: "human:ann",
        grant: &GrantId::parse("g1").unwrap(),
        grant_until: "2099-01-01T00:00:00Z".parse().unwrap(),
        parent,
        categories: &Categories::default(),
        max_depth: 3,
    };
    all.create(order).await.unwrap()
}

async fn present(all: &Delegations, token: &Token, by: u8) -> Result<Token, Error> {
    let who = somebody(by);
    let subjects = [Subject::from(SecretPath::parse("x/k8s/deploy-token").unwrap())];
    let presented = Presented {
        agent_uri: &who.0,
        instance_id: &who.1,
        source_ip: None,
        action: ActionType::Exec,
        subjects: &subjects,
        categories: &Categories::default(),
    };
    all.verify(&token.token_id, &presented, &|_| true).await
}

#[tokio::test]
async fn a_name_alone_is_good_for_nothing() {
    let scene = Scene::new().await;
    let all = Delegations::new(&scene.vault, scene.log.clone());
    let token = hand_on(&all, 1, None).await;
    let (id, subject, now) = (&token.token_id, somebody(2), Timestamp::now());
    let by = |who: Somebody| Aid { agent_uri: who.0, instance_id: who.1, ..aid("any") };
    let code = |outcome: Result<Token, Error>| outcome.map(drop).map_err(|error| error.code());
    // Who made it, and whoever else has heard its name, gets no key for it.
    for other in [somebody(1), somebody(3), Somebody(somebody(2).0, somebody(3).1)] {
        let accepted = all.accept(id, &by(other)).await.map(|(token, _)| token);
        assert_eq!(code(accepted), Err(Code::DelegationInvalid));
    }
    let (_, key) = all.accept(id, &by(somebody(2))).await.unwrap();
    let made = |key: &str, by: u8, seconds: i64| {
        let at = now + SignedDuration::from_secs(seconds);
        keyless_client::proof(key, id.as_str(), somebody(by).0.as_str(), at.as_second())
    };
    let good = made(&key, 2, 0);
    // As a broker that was started anew, or another one, has it.
    let elsewhere = Delegations::new(&scene.vault, scene.log.clone());
    let shown_at = async |broker: &Delegations, proof: &str| {
        let outcome = broker.take_proof(id, (&subject.0, &subject.1), proof, now).await;
        outcome.map_err(|error| error.code())
    };
    let shown = async |proof: &str| shown_at(&all, proof).await;
    for bad in [
        String::new(),
        format!("{}.00", now.as_second()),
        made("guessed", 2, 0),
        made(&key, 2, -60),
        made(&key, 3, 0),
    ] {
        assert_eq!(shown(&bad).await, Err(Code::DelegationInvalid), "{bad}");
    }
    // Unless clocks may be further apart; and what one broker has taken, one that allows more takes no more.
    let loose = Delegations::new(&scene.vault, scene.log.clone());
    let loose = loose.allowing(SignedDuration::from_secs(90));
    assert_eq!(shown_at(&loose, &made(&key, 2, -60)).await, Ok(()));
    let once = made(&key, 2, -20);
    assert_eq!(shown(&once).await, Ok(()));
    let later = now + SignedDuration::from_secs(40);
    let again = loose.take_proof(id, (&subject.0, &subject.1), &once, later).await;
    assert_eq!(again.map_err(|error| error.code()), Err(Code::DelegationInvalid));
    assert_eq!(shown(&good).await, Ok(()));
    // Shown once, it is no proof any more, wherever.
    assert_eq!(shown(&good).await, Err(Code::DelegationInvalid));
    assert_eq!(shown_at(&elsewhere, &good).await, Err(Code::DelegationInvalid));
    assert_eq!(code(present(&all, &token, 2).await), Ok(()));
    for _ in 0..2 {
        all.take_uses(&token.token_id, 1).await.unwrap();
    }
    let spent = code(present(&all, &token, 2).await);
    assert_eq!(spent, Err(Code::DelegationExhausted));
    assert!(all.take_uses(&token.token_id, 1).await.is_err());
}

#[tokio::test]
async fn what_came_of_a_token_ends_with_it() {
    let scene = Scene::new().await;
    let all = Delegations::new(&scene.vault, scene.log.clone());
    let first = hand_on(&all, 1, None).await;
    let second = hand_on(&all, 2, Some(&first)).await;
    let third = hand_on(&all, 3, Some(&second)).await;
    let other = hand_on(&all, 5, None).await;
    present(&all, &third, 4).await.unwrap();
    // A subject can't revoke what it was handed; an issuer above can.
    let below = all.revoke(&second.token_id, Revoker::Agent(&somebody(3).1), "mine").await;
    assert!(below.is_err());
    let ended = all.revoke(&second.token_id, Revoker::Agent(&somebody(1).1), "done").await.unwrap();
    assert_eq!(ended, 1);
    let refused = present(&all, &third, 4).await.unwrap_err();
    assert_eq!(refused.code(), Code::DelegationRevoked);
    present(&all, &first, 2).await.unwrap();

    let agents = Agents::new(&scene.vault, scene.log.clone()).unwrap();
    assert_eq!(all.revoke_of_agent(&agents, &somebody(1).1).await.unwrap(), 1);
    present(&all, &other, 6).await.unwrap();
    let listed = all.list().await.unwrap();
    let depths: Vec<_> = listed
        .iter()
        .map(|(token, _)| token.revoked.as_ref().map(|over| over.cascade_depth))
        .collect();
    assert_eq!(depths, [Some(None), Some(None), Some(Some(0)), None]);
    let entries = scene.vault.store().audit_tail(20).await.unwrap();
    let revoked = entries.iter().filter(|entry| entry.action == Action::DelegationRevoke);
    let told: Vec<_> = revoked
        .map(|entry| {
            let over = entry.detail.revocation.as_deref().unwrap();
            (over.cascade_depth, over.reason.as_str(), over.root_revocation_id.as_str())
        })
        .collect();
    let (first, second) = (first.token_id.as_str(), second.token_id.as_str());
    let below = (Some(0), "cascade_from_parent", second);
    assert_eq!(told, [(None, "done", second), below, (None, "agent_not_in_force", first)]);
}

#[tokio::test]
async fn what_is_over_for_long_is_forgotten() {
    let scene = Scene::new().await;
    let all = Delegations::new(&scene.vault, scene.log.clone());
    let first = hand_on(&all, 1, None).await;
    let second = hand_on(&all, 2, Some(&first)).await;
    let over = first.expires_at;
    let listed = async |at: Timestamp| {
        all.forget(at).await.unwrap();
        all.list().await.unwrap().len()
    };
    assert_eq!(listed(over + SignedDuration::from_hours(23)).await, 2);
    present(&all, &second, 3).await.unwrap();
    assert_eq!(listed(over + SignedDuration::from_hours(24)).await, 0);
    let refused = present(&all, &second, 3).await.unwrap_err();
    assert_eq!(refused.code(), Code::DelegationInvalid);
}

/// What a verifier has who knows the protocol alone: the object as it is shown, and the public key.
fn is_signed(shown: &serde_json::Value, key: &serde_json::Value) -> bool {
    let mut object = shown.as_object().unwrap().clone();
    let signature = object.remove("signature").unwrap();
    assert_eq!((&signature["algorithm"], &signature["kid"]), (&"EdDSA".into(), &key["kid"]));
    let value = BASE64.decode(signature["value"].as_str().unwrap().as_bytes()).unwrap();
    let public = data_encoding::BASE64URL_NOPAD.decode(key["x"].as_str().unwrap().as_bytes());
    let public = aws_lc_rs::signature::UnparsedPublicKey::new(
        &aws_lc_rs::signature::ED25519,
        public.unwrap(),
    );
    // Members sorted, no white space: RFC 8785, for ASCII keys and integers.
    public.verify(canonical(&object.into()).as_bytes(), &value).is_ok()
}

fn canonical(value: &serde_json::Value) -> String {
    match value.as_object() {
        None => match value.as_array() {
            None => value.to_string(),
            Some(items) => {
                format!("[{}]", items.iter().map(canonical).collect::<Vec<_>>().join(","))
            }
        },
        Some(members) => {
            let sorted: std::collections::BTreeMap<_, _> = members.iter().collect();
            let member = |(key, value)| format!("\"{key}\":{}", canonical(value));
            format!("{{{}}}", sorted.into_iter().map(member).collect::<Vec<_>>().join(","))
        }
    }
}

#[tokio::test]
async fn a_token_is_what_the_broker_has_signed() {
    let scene = Scene::new().await;
    let all = Delegations::new(&scene.vault, scene.log.clone());
    let token = hand_on(&all, 1, None).await;
    let key = all.signing_key();
    let shown = |token: &Token| serde_json::to_value(token).unwrap();
    assert!(is_signed(&shown(&token), &key));
    let mut more = shown(&token);
    more["scope"]["max_uses"] = 3.into();
    assert!(!is_signed(&more, &key));
    present(&all, &token, 2).await.unwrap();
    // One that the store vouches for and the broker has not signed, or not so, hands nothing on, nor does what is below.
    let child = hand_on(&all, 2, Some(&token)).await;
    let unsigned = Token { signature: None, ..token.clone() };
    let expires_at = token.expires_at + SignedDuration::from_secs(1);
    let other = Token { expires_at, ..token.clone() };
    for changed in [unsigned, other] {
        let seal = all.voucher.seal(&DelegationRow::sealed_bytes(&changed));
        let row = DelegationRow { token: changed, used: 0, seal };
        scene.vault.store().replace_delegations(&[row], Told::nothing()).await.unwrap();
        for (token, by) in [(&token, 2), (&child, 3)] {
            let refused = present(&all, token, by).await.unwrap_err();
            assert_eq!(refused.code(), Code::DelegationInvalid);
        }
    }
    // Its end is signed as well.
    all.revoke(&child.token_id, Revoker::Operator, "a test").await.unwrap();
    let listed = all.list().await.unwrap();
    let (over, _) = listed.iter().find(|(one, _)| one.token_id == child.token_id).unwrap();
    assert!(over.revoked.is_some() && is_signed(&shown(over), &key));
}
