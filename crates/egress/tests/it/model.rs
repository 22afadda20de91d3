//! The whole proxy against a model of it, and against no proxy at all: random requests, in random
//! pieces, under random rules. Source: reference/egress.md (e) 117.

mod request;

use std::{cell::Cell, io::Write as _, net::TcpStream, sync::Arc};

use keyless_core::{
    Destination, EgressRule, Location, Locations, OnForeign, Placeholder, PlaceholderForm,
    SecretPath, SessionKey,
};
use keyless_egress::SessionSecret;
use keyless_testkit::{Alpn, OriginOptions, TestCa};
use proptest::{
    prelude::*,
    test_runner::{Config, TestRunner},
};
use rustls::StreamOwned;

use self::request::{Framing, Piece, Request, Seen};
use crate::scene::{ALLOWED, Answer, OTHER, Scene, Setting, read_rest};

/// What the owners of two secrets say.
#[derive(Clone, Debug)]
struct Rules {
    locations: Vec<Location>,
    most: Option<u32>,
    /// What the second secret, which is for another host, does here.
    blocks: bool,
}

impl Rules {
    /// The model: what the origin sees, or nothing where the request is refused.
    fn expect(&self, request: &Request, words: [&str; 2], value: &str) -> Option<Seen> {
        let mut count = 0;
        let mut text = |location: Location, pieces: &[Piece]| {
            let mut text = String::new();
            for piece in pieces {
                match piece {
                    Piece::Ours => {
                        count += 1;
                        let fits = self.most.is_none_or(|most| count <= most);
                        if !fits || !self.locations.contains(&location) {
                            return None;
                        }
                        text.push_str(value);
                    }
                    Piece::Foreign if self.blocks => return None,
                    other => text.push_str(other.text(words)),
                }
            }
            Some(text)
        };
        let seen = Seen {
            path: text(Location::Path, &request.path)?,
            query: match &request.query {
                Some(query) => Some(text(Location::Query, query)?),
                None => None,
            },
            headers: (request.headers.iter())
                .map(|(name, pieces)| Some(((*name).to_owned(), text(Location::Header, pieces)?)))
                .collect::<Option<_>>()?,
            password: match &request.password {
                Some(password) => Some(text(Location::Basic, password)?),
                None => None,
            },
            body: text(Location::Body, &request.body)?,
        };
        Some(seen.grouped())
    }
}

fn rules() -> impl Strategy<Value = Rules> {
    let all = [Location::Basic, Location::Body, Location::Header, Location::Path, Location::Query];
    // Mostly one that lets most requests pass: refusals are easy to come by.
    let locations = prop_oneof![
        3 => Just(all.to_vec()),
        1 => proptest::sample::subsequence(all.to_vec(), 1..=5),
    ];
    let most = prop_oneof![3 => Just(None), 1 => (1_u32..4).prop_map(Some)];
    (locations, most, any::<bool>()).prop_map(|(locations, most, blocks)| Rules {
        locations,
        most,
        blocks,
    })
}

fn scene() -> Scene {
    let ca = TestCa::new();
    let allowed = OriginOptions::tls(&ca, &[ALLOWED]).alpn(Alpn::Http1);
    Scene::of(Setting { allowed, ..Setting::with(ca) })
}

fn runner(cases: u32) -> TestRunner {
    TestRunner::new(Config { cases, failure_persistence: None, ..Config::default() })
}

/// A second secret, for another host.
fn foreign() -> SessionSecret {
    let path = SecretPath::parse("team/test/foreign").unwrap();
    let key = SessionKey::from_random([9; 32]);
    SessionSecret {
        placeholder: Placeholder::derive(&key, &path, &PlaceholderForm::Default),
        rule: EgressRule::to(vec![Destination::parse(OTHER).unwrap()]),
        path,
    }
}

fn put_in_force(scene: &Scene, rules: &Rules, second: &SessionSecret) {
    let rule = EgressRule {
        locations: rules.locations.iter().copied().collect::<Locations>(),
        max_occurrences: rules.most,
        ..scene.secret.rule.clone()
    };
    let on_foreign = if rules.blocks { OnForeign::Block } else { OnForeign::Pass };
    let secrets = [
        SessionSecret { rule, ..scene.secret.clone() },
        SessionSecret { rule: EgressRule { on_foreign, ..second.rule.clone() }, ..second.clone() },
    ];
    scene.engine.replace_secrets(&scene.session, &secrets);
}

/// Sends the pieces, each in a record of its own, and reads until the other side ends.
fn converse(
    stream: &mut StreamOwned<rustls::ClientConnection, TcpStream>,
    pieces: &[Vec<u8>],
) -> String {
    for piece in pieces {
        // Refused before its end, a request need not be read to its end.
        if stream.write_all(piece).and_then(|()| stream.flush()).is_err() {
            break;
        }
    }
    read_rest(stream)
}

#[test]
fn every_request_arrives_as_the_model_says() {
    let (scene, second) = (scene(), foreign());
    let words = [scene.placeholder.as_str(), second.placeholder.as_str()];
    let (forwarded, number) = (Cell::new(0), Cell::new(0));
    let check = |(request, rules): (Request, Rules)| {
        put_in_force(&scene, &rules, &second);
        number.set(number.get() + 1);
        let request = Request { number: number.get(), ..request };
        let mut stream = scene.tls(ALLOWED, &[b"http/1.1"]);
        let answer = Answer::parse(&converse(&mut stream, &request.written(ALLOWED, words)));
        scene.assert_sealed(&answer);
        let case = request.number.to_string();
        let mut arrived = scene.allowed.requests();
        arrived.retain(|request| request.header("x-case").as_ref() == Some(&case));
        scene.allowed.clear();
        if let Some(expected) = rules.expect(&request, words, scene.canary.value()) {
            prop_assert_eq!(answer.status, 200, "{}", answer.head);
            prop_assert_eq!(arrived.len(), 1);
            let method = request.method.to_owned();
            prop_assert_eq!(Seen::of(&arrived[0]), (method, expected));
            forwarded.set(forwarded.get() + 1);
        } else {
            prop_assert!(arrived.iter().all(|request| !request.complete), "{arrived:?}");
            // Where the body came in chunks, the head may be gone already.
            let early = request.framing == Framing::Length;
            prop_assert!(!early || answer.refusal().is_some(), "{}", answer.head);
            prop_assert!(!early || arrived.is_empty());
        }
        Ok(())
    };
    runner(300).run(&(request::any(), rules()), check).unwrap();
    assert!(forwarded.get() > 60, "only {} requests passed", forwarded.get());
}

/// What holds no placeholder is on the wire what it would be without a proxy.
#[test]
fn without_a_placeholder_nothing_differs_from_no_proxy() {
    let scene = scene();
    let config = {
        let mut roots = rustls::RootCertStore::empty();
        roots.add(scene.ca.certificate().clone()).unwrap();
        let provider = rustls::crypto::aws_lc_rs::default_provider();
        rustls::ClientConfig::builder_with_provider(provider.into())
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth()
    };
    let config = Arc::new(config);
    let direct = || {
        let name = ALLOWED.to_owned().try_into().unwrap();
        let client = rustls::ClientConnection::new(Arc::clone(&config), name).unwrap();
        StreamOwned::new(client, TcpStream::connect(scene.allowed.address()).unwrap())
    };
    let check = |(request, bytes): (Request, usize)| {
        let request = request.without_placeholders(bytes);
        let pieces = request.written(ALLOWED, ["", ""]);
        let mut seen = Vec::new();
        for proxied in [false, true] {
            scene.allowed.clear();
            let mut stream = if proxied { scene.tls(ALLOWED, &[b"http/1.1"]) } else { direct() };
            let answer = converse(&mut stream, &pieces);
            seen.push((request::comparable(&scene.allowed, &request), request::answered(&answer)));
        }
        prop_assert_eq!(&seen[0], &seen[1]);
        Ok(())
    };
    runner(100).run(&(request::any(), 0_usize..100_000), check).unwrap();
}
