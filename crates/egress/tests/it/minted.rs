//! Tokens that answers mint: kept from the agent, whoever is in a hurry.

use std::io::Write as _;

use http::StatusCode;
use keyless_core::{EgressRule, Sealing};
use keyless_egress::{EngineConfig, Limits};
use keyless_testkit::{Handler, OriginOptions, TestCa, reply};

use crate::scene::{ALLOWED, Scene, Setting, comes_true};

/// A host that mints tokens at `/token`, and shows them again elsewhere; who asks says which one.
fn minting(limits: Limits) -> Scene {
    let ca = TestCa::new();
    let handler = Handler::new(|request| async move {
        let number = request.uri().query().unwrap_or_default().to_owned();
        let token = format!("minted-token-number-{number}-{}", "x".repeat(20));
        let text = match request.uri().path() {
            "/token" => format!(r#"{{"access_token":"{token}"}}"#),
            _ => token,
        };
        reply(StatusCode::OK, text)
    });
    Scene::of(Setting {
        allowed: OriginOptions::tls(&ca, &[ALLOWED]).handler(handler),
        rule: |rule| {
            let seal = vec![Sealing::parse("POST allowed.test/token").unwrap()];
            EgressRule { seal, ..rule }
        },
        config: EngineConfig { limits, ..EngineConfig::default() },
        ..Setting::with(ca)
    })
}

/// A client that has asked for the first token, and not read any answer.
fn asking(scene: &Scene) -> impl Sized + use<> {
    let mut client = scene.tls(ALLOWED, &[b"http/1.1"]);
    let request = format!("POST /token?1 HTTP/1.1\r\nhost: {ALLOWED}\r\ncontent-length: 0\r\n\r\n");
    client.write_all(request.as_bytes()).unwrap();
    client
}

/// An old token may still be shown by its server, so all are looked for: of those that no agent can be kept from, none comes.
#[test]
fn tokens_without_end_are_refused_and_the_first_one_is_still_scrubbed() {
    // Room for four.
    let scene = minting(Limits { minted_bytes: 4 * (256 + 48), ..Limits::default() });
    let mint =
        |number: u32| scene.curl(&["-X", "POST", &format!("https://allowed.test/token?{number}")]);
    for number in 1..=4 {
        let answer = mint(number);
        assert!(answer.body.contains(&scene.placeholder), "{number}: {}", answer.body);
    }
    let refused = mint(5);
    assert_eq!((refused.status, refused.refusal()), (502, Some("token_unavailable")));
    assert!(!refused.body.contains("minted-token") && refused.body.contains("another session"));
    // The same one again is no more to look for.
    assert_eq!(mint(4).status, 200);
    let shown = scene.curl(&["https://allowed.test/shown?1"]);
    assert!(shown.status == 200 && shown.body.contains(&scene.placeholder), "{}", shown.body);
}

/// While the entry about it is on its way to the log, its client goes.
#[test]
fn a_token_is_scrubbed_though_nobody_waited_for_it_to_be_on_record() {
    let scene = minting(Limits::default());
    *scene.broker.log_stands.lock() = true;
    let client = asking(&scene);
    assert!(comes_true(|| *scene.broker.kept.lock() == 1));
    drop(client);
    let shown = scene.curl(&["https://allowed.test/shown?1"]);
    assert!(shown.status == 200 && shown.body.contains(&scene.placeholder), "{}", shown.body);
}
