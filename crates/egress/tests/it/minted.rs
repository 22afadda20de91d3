//! Tokens that answers mint: kept from the agent, whoever is in a hurry.

use std::{
    io::{Read, Write},
    sync::Arc,
    thread,
    time::Duration,
};

use http::{HeaderValue, Method, StatusCode};
use keyless_core::{Code, EgressRule, Sealing};
use keyless_egress::{EngineConfig, Limits};
use keyless_testkit::{Handler, OriginOptions, TestCa, reply};
use tokio::sync::Semaphore;

use crate::{
    scene::{ALLOWED, Scene, Setting, comes_true, read_head},
    streams,
};

/// Where a token's answer is held up at its server.
#[derive(Clone)]
struct Gate {
    reached: Arc<Semaphore>,
    opened: Arc<Semaphore>,
}

impl Gate {
    fn closed() -> Self {
        Self { reached: Arc::new(Semaphore::new(0)), opened: Arc::new(Semaphore::new(0)) }
    }

    fn open() -> Self {
        let gate = Self::closed();
        gate.opened.close();
        gate
    }

    async fn pass(&self) {
        self.reached.add_permits(1);
        // An error is a gate that stays open.
        let _ = self.opened.acquire().await;
    }

    fn is_reached(&self) -> bool {
        self.reached.available_permits() > 0
    }
}

/// A host that mints tokens at `/token`, also where a header names that path, and shows them again elsewhere; who asks
/// says which one.
fn minting(limits: Limits, gate: &Gate) -> Scene {
    let (ca, gate) = (TestCa::new(), gate.clone());
    let handler = Handler::new(move |request| {
        let gate = gate.clone();
        async move {
            let number = request.uri().query().unwrap_or_default().to_owned();
            let token = format!("minted-token-number-{number}-{}", "x".repeat(20));
            let named = request.headers().get("x-original-url").map(HeaderValue::as_bytes);
            if named.unwrap_or(request.uri().path().as_bytes()) != b"/token" {
                return reply(StatusCode::OK, token);
            }
            gate.pass().await;
            let value = match &*number {
                "inside" => format!(r#"[{{"value":"{token}"}}]"#),
                "digits" => "73519024688135790".to_owned(),
                _ => format!(r#""{token}""#),
            };
            let mut answer = reply(StatusCode::OK, format!(r#"{{"access_token":{value}}}"#));
            if number.starts_with("page") {
                *answer.body_mut() = reply(StatusCode::OK, "<a page>").into_body();
                let html = HeaderValue::from_static("text/html; charset=utf-8");
                answer.headers_mut().insert(http::header::CONTENT_TYPE, html);
            }
            answer
        }
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
fn asking(scene: &Scene) -> impl Read + Write + use<> {
    let mut client = scene.tls(ALLOWED, &[b"http/1.1"]);
    let head = format!("POST /token?1 HTTP/1.1\r\nhost: {ALLOWED}\r\ncontent-length: 0\r\n\r\n");
    client.write_all(head.as_bytes()).unwrap();
    client
}

fn has_kept_one(scene: &Scene) -> bool {
    comes_true(|| *scene.broker.kept.lock() == 1)
}

#[track_caller]
fn assert_scrubbed(scene: &Scene) {
    let shown = scene.curl(&["https://allowed.test/shown?1"]);
    assert!(shown.status == 200 && shown.body.contains(&scene.placeholder), "{}", shown.body);
}

#[test]
fn a_token_is_sealed_inside_an_object_and_refused_as_a_number() {
    let scene = minting(Limits::default(), &Gate::open());
    let inside = scene.curl(&["-X", "POST", "https://allowed.test/token?inside"]);
    let whole = format!(r#"{{"access_token":[{{"value":"{}"}}]}}"#, scene.placeholder);
    assert_eq!((inside.status, inside.body.trim_end()), (200, &*whole));
    let digits = scene.curl(&["-X", "POST", "https://allowed.test/token?digits"]);
    assert!(digits.status == 502 && !digits.body.contains("73519"), "{}", digits.body);
    assert!(digits.body.contains(r#""code":"token_unavailable""#), "{}", digits.body);
}

/// Some servers take the method or the path of a header.
#[test]
fn a_header_that_makes_it_the_token_endpoint_is_seen() {
    let scene = minting(Limits::default(), &Gate::open());
    for (number, arguments) in [
        &["-X", "PUT", "-H", "X-HTTP-Method-Override: post", "https://allowed.test/token"][..],
        &["-X", "PUT", "https://allowed.test/token?_method=POST"],
        &["-X", "POST", "-H", "X-Original-URL: /token", "https://allowed.test/other?3"],
    ]
    .into_iter()
    .enumerate()
    {
        let answer = scene.curl(arguments);
        assert!(!answer.body.contains("minted-token"), "{arguments:?}: {}", answer.body);
        assert!(answer.body.contains(&scene.placeholder), "{arguments:?}: {}", answer.body);
        assert!(comes_true(|| *scene.broker.kept.lock() == number + 1), "{arguments:?}");
    }
}

/// Some endpoints answer other methods as well, and cut blanks off a path; what is no data there passes.
#[test]
fn another_method_mints_no_token_in_clear() {
    let scene = minting(Limits::default(), &Gate::open());
    for (number, arguments) in [
        &["https://allowed.test/token?1"][..],
        &["-X", "PUT", "https://allowed.test/token?2"],
        &["-X", "PATCH", "https://allowed.test/Token?3"],
        &["-X", "POST", "https://allowed.test/token%20?4"],
    ]
    .into_iter()
    .enumerate()
    {
        let answer = scene.curl(arguments);
        let is_minted = answer.body.contains("minted-token");
        assert!(!is_minted, "{arguments:?}: {}", answer.body);
        // Of a path that the origin does not know, it is no JSON.
        let is_sealed = answer.body.contains(&scene.placeholder) || answer.status == 502;
        assert!(is_sealed, "{number} {arguments:?}: {}", answer.body);
    }
    let page = scene.curl(&["https://allowed.test/token?page"]);
    assert_eq!((page.status, &page.body[..]), (200, "<a page>"));
}

/// An old token may still be shown by its server, so all are looked for: of those that no agent can be kept from, none comes.
#[test]
fn tokens_without_end_are_refused_and_the_first_one_is_still_scrubbed() {
    // Room for four.
    let limits = Limits { minted_bytes: 4 * (256 + 48), ..Limits::default() };
    let scene = minting(limits, &Gate::open());
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
    assert_scrubbed(&scene);
}

/// While the entry about it is on its way to the log, its client goes.
#[test]
fn a_token_is_scrubbed_though_nobody_waited_for_it_to_be_on_record() {
    let scene = minting(Limits::default(), &Gate::open());
    *scene.broker.log_stands.lock() = true;
    let client = asking(&scene);
    assert!(has_kept_one(&scene));
    drop(client);
    assert_scrubbed(&scene);
}

/// It is minted once its request is there, and its server may show it from then on.
#[test]
fn a_token_is_scrubbed_though_its_client_left_before_it_came() {
    let gate = Gate::closed();
    let scene = minting(Limits::default(), &gate);
    let client = asking(&scene);
    assert!(comes_true(|| gate.is_reached()));
    drop(client);
    assert!(comes_true(|| scene.engine.connections() == 0));
    gate.opened.close();
    assert!(has_kept_one(&scene));
    assert_scrubbed(&scene);
    assert!(comes_true(|| scene.engine.in_flight() == 0));
}

#[test]
fn a_token_is_scrubbed_though_its_stream_was_reset_before_it_came() {
    let gate = Gate::closed();
    let scene = minting(Limits::default(), &gate);
    scene.runtime.block_on(async {
        let mut client = streams::client(&scene).await;
        let mut request = streams::get("/token?1");
        *request.method_mut() = Method::POST;
        tokio::select! {
            _ = client.send_request(request) => panic!("nobody answers"),
            _ = gate.reached.acquire() => {}
        }
        drop(client);
        while scene.engine.connections() > 0 {
            tokio::task::yield_now().await;
        }
    });
    gate.opened.close();
    assert!(has_kept_one(&scene));
    assert_scrubbed(&scene);
}

#[test]
fn a_token_is_scrubbed_though_its_secret_was_withdrawn_before_it_came() {
    let gate = Gate::closed();
    let scene = minting(Limits::default(), &gate);
    let mut client = asking(&scene);
    assert!(comes_true(|| gate.is_reached()));
    scene.engine.replace_secrets(&scene.session, &[]);
    // Time to notice, of which nothing tells while the answer is awaited.
    thread::sleep(Duration::from_millis(300));
    gate.opened.close();
    assert!(has_kept_one(&scene));
    assert!(scene.waits_for(Code::SecretWithdrawn));
    assert!(!read_head(&mut client).contains("200"));
    assert_scrubbed(&scene);
}
