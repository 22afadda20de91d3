//! Token endpoints that are asked on the host.

use std::time::Duration;

use keyless_core::{Authority, ClientAuth, EgressRule, Error, GrantKind, OauthGrant, decide_grant};
use keyless_egress::{Broker as _, RequestInfo, TokenReply, TokenRequest};
use keyless_testkit::{Alpn, OriginOptions, Script, Step, TestCa};

use crate::scene::{ALLOWED, Scene, Setting};

/// A scene whose secret is the refresh token for an endpoint that does this on each connection.
fn endpoint(steps: impl IntoIterator<Item = Step>) -> Scene {
    let ca = TestCa::new();
    let allowed = OriginOptions::tls(&ca, &[ALLOWED]).alpn(Alpn::Http1);
    Scene::of(Setting {
        allowed: allowed.script(Script::new(steps)),
        rule: |rule| {
            let grant = OauthGrant {
                kind: GrantKind::RefreshToken,
                authority: Authority::parse("allowed.test:443").unwrap(),
                target: "/token".to_owned(),
                client_id: "client".to_owned(),
                scope: None,
                client_secret: None,
                auth: ClientAuth::Body,
            };
            EgressRule { oauth: Some(grant), ..rule }
        },
        ..Setting::with(ca)
    })
}

fn ask(scene: &Scene) -> Result<TokenReply, Error> {
    let (allowed, grant) = decide_grant(&scene.secret.path, &scene.secret.rule).unwrap();
    let request = RequestInfo {
        correlation_id: "req-1".to_owned(),
        authority: grant.authority.clone(),
        method: "POST".to_owned(),
        path: grant.target.clone(),
        locations: Vec::new(),
        rules: Vec::new(),
    };
    scene.runtime.block_on(async {
        let released = scene.broker.release(&request, vec![allowed]).await?;
        let credential = &released[0];
        scene.engine.fetch_token(&TokenRequest { grant, credential, client_secret: None }).await
    })
}

/// The old refresh token is spent by then: an answer that is lost can't be asked for again.
#[test]
fn an_answer_comes_whole_however_long_after_its_head() {
    let body = r#"{"access_token":"access","refresh_token":"next","expires_in":60}"#;
    let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n", body.len());
    let (first, rest) = body.split_at(20);
    let pause = Step::Pause(Duration::from_millis(100));
    let scene = endpoint([
        Step::ReadHead,
        Step::Send(head.into()),
        pause.clone(),
        Step::Send(first.to_owned().into()),
        pause,
        Step::Send(rest.to_owned().into()),
        Step::ReadToEnd,
    ]);
    let reply = ask(&scene).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(&**reply.access_token, b"access");
    assert_eq!(&**reply.refresh_token.unwrap(), b"next");
    assert_eq!(reply.expires_in, Some(60));
}
