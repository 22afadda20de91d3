//! What a secret may be used for inside its host, and credentials that the proxy sets itself.

use std::{io::Write as _, sync::atomic::Ordering};

use keyless_core::{Code, EgressRule, Injection, RequestRule};

use crate::scene::{Answer, Scene, Setting, comes_true};

fn scene(rule: fn(EgressRule) -> EgressRule) -> Scene {
    Scene::of(Setting { rule, ..Setting::default() })
}

fn lines(lines: &[&str]) -> Vec<RequestRule> {
    lines.iter().map(|line| RequestRule::parse(line).unwrap()).collect()
}

fn inject(rule: EgressRule, place: &str) -> EgressRule {
    EgressRule { inject: Some(Injection::parse(place).unwrap()), ..rule }
}

/// Sends the placeholder as a bearer.
fn bearer(scene: &Scene, arguments: &[&str]) -> Answer {
    let header = format!("authorization: Bearer {}", scene.placeholder);
    scene.curl(&[&["-H", &header], arguments].concat())
}

fn assert_refused(scene: &Scene, answer: &Answer, words: &str) {
    assert_eq!(answer.status, 403, "{}\n{}", answer.head, answer.body);
    assert_eq!(answer.refusal(), Some(Code::RuleDenied.as_str()));
    assert!(answer.body.contains(words), "{}", answer.body);
    scene.assert_sealed(answer);
}

#[test]
fn requests_that_a_rule_names_get_the_value() {
    let scene = scene(|rule| EgressRule { allow: lines(&["GET,POST /repos/acme/**"]), ..rule });
    let answer = bearer(&scene, &["https://allowed.test/repos/acme/site?page=1"]);
    assert_eq!(answer.status, 200, "{}", answer.body);
    let expected = format!("Bearer {}", scene.canary.value());
    assert_eq!(scene.allowed.requests()[0].header("authorization"), Some(expected));
    scene.assert_sealed(&answer);
}

#[test]
fn other_requests_go_without_it_and_nowhere() {
    let scene = scene(|rule| EgressRule { allow: lines(&["GET,POST /repos/acme/**"]), ..rule });
    let outside = "no allow rule names it";
    let otherwise = "servers could read its path in other ways";
    for (arguments, words) in [
        (&["-X", "DELETE", "https://allowed.test/repos/acme/site"][..], outside),
        (&["https://allowed.test/repos/other"], outside),
        (&["https://allowed.test/repos/acme%2fsite"], outside),
        (&["https://allowed.test//repos/acme"], outside),
        (&["https://allowed.test/repos;x/acme"], outside),
        (&["https://allowed.test/repos/acme/../other"], otherwise),
        (&["https://allowed.test/repos/acme/%2e%2e/other"], otherwise),
        (&["https://allowed.test/repos/acme/..%2fother"], otherwise),
        (&["https://allowed.test/repos/acme/..;/other"], otherwise),
        (&["https://allowed.test/repos/acme/%252e%252e/other"], otherwise),
        (
            &[
                "-H",
                "X-HTTP-Method-Override: delete",
                "-d",
                "",
                "https://allowed.test/repos/acme/x",
            ],
            outside,
        ),
        (&["-d", "", "https://allowed.test/repos/acme/x?_method=DELETE"], outside),
        (&["-H", "X_HTTP_METHOD: DELETE", "-d", "", "https://allowed.test/repos/acme/x"], outside),
        (&["-d", "", "https://allowed.test/repos/acme/x?.method=DELETE"], outside),
        (&["-d", "", "https://allowed.test/repos/acme/x?_METHOD=DELETE"], outside),
        (&["-d", "", "https://allowed.test/repos/acme/x?X-HTTP-Method-Override=DELETE"], outside),
        (&["-d", "", "https://allowed.test/repos/acme/x?%2emethod=DELETE"], outside),
        (&["-g", "-d", "", "https://allowed.test/repos/acme/x?_method[]=DELETE"], outside),
        (&["-d", "", "https://allowed.test/repos/acme/x?_method%00=DELETE"], outside),
        (&["-d", "", "https://allowed.test/repos/acme/x?a=1;_method=DELETE"], outside),
        (&["-H", "X-Original-URL: /admin", "https://allowed.test/repos/acme/x"], "another path"),
        (&["-H", "X_Rewrite_URL: /admin", "https://allowed.test/repos/acme/x"], "another path"),
    ] {
        // curl would settle the path itself, a newer one also where its dots are encoded.
        let arguments = [&["--path-as-is"], arguments].concat();
        assert_refused(&scene, &bearer(&scene, &arguments), words);
    }
    assert_eq!(scene.allowed.requests().len(), 0);
    // Without the placeholder there is nothing to judge.
    let plain = scene.curl(&["https://allowed.test/repos/other"]);
    assert_eq!((plain.status, scene.allowed.requests().len()), (200, 1));
}

/// Rails and Laravel take a method from a form.
#[test]
fn a_form_names_no_method_that_its_rules_do_not() {
    let scene = scene(|rule| EgressRule {
        allow: lines(&["POST /notes/**", "PATCH /notes/open", "* /free"]),
        ..rule
    });
    let long = format!("a={}&_method=DELETE", "x".repeat(9 << 20));
    std::fs::write(scene.path("long"), long).unwrap();
    let long = format!("@{}", scene.path("long").display());
    let send = |path: &str, arguments: &[&str]| {
        let url = format!("https://allowed.test{path}");
        bearer(&scene, &[arguments, &[&url]].concat())
    };
    let (shut, open) = ("/notes/shut", "/notes/open");
    for (path, arguments) in [
        (shut, &["-d", "a=1&method=DELETE"][..]),
        (shut, &["-F", "a=1"]),
        (open, &["-d", "_method=patch"]),
        (open, &["-F", "a=1", "-F", "_method=PATCH"]),
        ("/free", &["-d", "_method=DELETE"]),
        ("/free", &["-d", &long]),
        (shut, &["-H", "content-type: application/octet-stream", "--data-binary", &long]),
        (
            shut,
            &["-H", "content-type: text/plain", "-H", "transfer-encoding: chunked", "-d", &long],
        ),
    ] {
        assert_eq!(send(path, arguments).status, 200, "{path} {arguments:?}");
    }
    let named = "no allow rule names it";
    let untold = "transfer-encoding: chunked";
    for (path, arguments, words) in [
        (shut, &["-d", "_method=DELETE"][..], named),
        (shut, &["-d", "a=1&%5fmethod=patch"], named),
        (shut, &["-F", "a=1", "-F", "_method=DELETE"], named),
        (shut, &["-H", "content-type;", "-d", "_method=DELETE"], named),
        (shut, &["-d", "_METHOD=DELETE"], named),
        (shut, &["-F", "a=1", "-F", "_Method=DELETE"], named),
        (shut, &["-H", "content-type: application/json", "-d", "{\"_METHOD\":\"DELETE\"}"], named),
        (
            shut,
            &["-H", "content-type: application/json", "-d", "{\"x-http-method\":\"DELETE\"}"],
            named,
        ),
        (shut, &["-H", untold, "-d", "_method=DELETE"], named),
        (open, &["-F", "_method=DELETE"], named),
        (open, &["-d", &long], "may name another method"),
        (shut, &["-F", &format!("a=<{}", &long[1..])], "may name another method"),
        (shut, &["-H", untold, "-d", &long], "may name another method"),
    ] {
        assert_refused(&scene, &send(path, arguments), words);
    }
    assert_eq!(scene.allowed.requests().len(), 8);
    // JSON, as Laravel takes it.
    let json = ["-H", "content-type: application/json"];
    let large = |member: &str| format!("{{\"a\":\"{}\",{member}\"b\":1}}", "x".repeat(500_000));
    for (path, body, is_allowed) in [
        (shut, r#"{"a":{"_method":"DELETE"}}"#.to_owned(), true),
        (open, r#"{"_method":"patch"}"#.to_owned(), true),
        (shut, large(""), true),
        ("/free", large(r#""_method":"DELETE","#), true),
        (shut, r#"{"_method":"DELETE"}"#.to_owned(), false),
        (shut, r#"{"\u005fmethod":"DELETE"}"#.to_owned(), false),
        (shut, large(r#""_method":"DELETE","#), false),
    ] {
        std::fs::write(scene.path("json"), &body).unwrap();
        let data = format!("@{}", scene.path("json").display());
        // One that tells no length is not read before it goes, so that nobody knows which method it names.
        let is_read = body.len() < 100 && is_allowed;
        let framings = [&[][..], &["-H", untold]];
        for more in framings.into_iter().take(if is_read { 1 } else { 2 }) {
            scene.allowed.clear();
            let answer = send(path, &[&json[..], more, &["--data-binary", &data]].concat());
            let arrived = scene.allowed.requests();
            if is_allowed {
                assert_eq!((answer.status, arrived[0].body_bytes), (200, body.len() as u64));
            } else {
                // Of a long one, the head may be gone already.
                assert!(!arrived.iter().any(|request| request.complete), "{path} {more:?}");
                assert_eq!(answer.refusal(), Some("rule_denied"), "{path} {more:?}");
            }
        }
    }
    // What says to be coded so that nobody looks into it is not watched either; a server may take it as it is.
    std::fs::write(scene.path("json"), large(r#""_method":"DELETE","#)).unwrap();
    let data = format!("@{}", scene.path("json").display());
    let coded = ["-H", "content-encoding: aws-chunked, gzip", "--data-binary", &data];
    assert_refused(&scene, &send(shut, &[&json[..], &coded].concat()), "may name another method");
    let mut deflated = flate2::write::DeflateEncoder::new(Vec::new(), flate2::Compression::fast());
    deflated.write_all(large("").as_bytes()).unwrap();
    std::fs::write(scene.path("json"), deflated.finish().unwrap().repeat(300)).unwrap();
    let coded = ["-H", "content-encoding: deflate", "--data-binary", &data];
    assert_refused(&scene, &send(shut, &[&json[..], &coded].concat()), "may name another method");
    a_coded_form_names_no_other_method(&scene, &send);
    // Without the placeholder nothing is judged, and all of it arrives.
    for more in [&[][..], &["-H", untold]] {
        let plain =
            [&["--data-binary", &long], more, &["https://allowed.test/notes/shut"]].concat();
        assert_eq!(scene.curl(&plain).status, 200);
        assert_eq!(scene.allowed.requests().pop().unwrap().body_bytes, (9 << 20) + 17);
    }
}

/// PHP takes a form as it came, whatever its coding.
fn a_coded_form_names_no_other_method(scene: &Scene, send: &dyn Fn(&str, &[&str]) -> Answer) {
    let part = "\r\n--x\r\ncontent-disposition: form-data; name=\"_method\"\r\n\r\nDELETE\r\n--x--";
    let file = scene.path("coded");
    let data = format!("@{}", file.display());
    let parts = "multipart/form-data; boundary=x";
    for (content_type, beside, is_allowed) in [
        ("application/x-www-form-urlencoded", "&a=method&", true),
        ("application/x-www-form-urlencoded", "&_method=DELETE&", false),
        (parts, part, false),
    ] {
        let plain = b"a=1";
        let mut gzip = flate2::GzBuilder::new()
            .comment(beside)
            .write(Vec::new(), flate2::Compression::default());
        gzip.write_all(plain).unwrap();
        let length = u32::try_from(beside.len()).unwrap().to_le_bytes();
        let frame = zstd::encode_all(&plain[..], 0).unwrap();
        let skipped = [&[0x50, 0x2a, 0x4d, 0x18], &length[..], beside.as_bytes(), &frame].concat();
        for (coding, coded) in [("gzip", gzip.finish().unwrap()), ("zstd", skipped)] {
            std::fs::write(&file, coded).unwrap();
            let content_type = format!("content-type: {content_type}");
            let coding = format!("content-encoding: {coding}");
            let arguments = ["-H", &content_type, "-H", &coding, "--data-binary", &data];
            let answer = send("/notes/shut", &arguments);
            if is_allowed {
                assert_eq!(answer.status, 200, "{coding} {}", answer.body);
            } else {
                assert_refused(scene, &answer, "no allow rule names it");
            }
        }
    }
}

#[test]
fn bodies_are_looked_into_where_a_rule_says_so() {
    let scene = scene(|rule| EgressRule {
        allow: lines(&[
            "POST /graphql graphql:query,mutation.addComment",
            "POST /rpc json-rpc:tools/*",
            "POST /free",
        ]),
        ..rule
    });
    let json = ["-H", "content-type: application/json"];
    let send = |path: &str, body: &str| {
        let url = format!("https://allowed.test{path}");
        bearer(&scene, &[&json[..], &["--data-binary", body, &url]].concat())
    };
    for (path, body) in [
        ("/graphql", r#"{"query":"query Q { viewer { login } }"}"#),
        ("/graphql", r#"{"query":"mutation { a: addComment(body: \"x\") { id } }"}"#),
        ("/rpc", r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#),
        ("/free", "anything"),
    ] {
        assert_eq!(send(path, body).status, 200, "{body}");
    }
    let listing = r#"{"method":"tools/list"}"#;
    let untold = ["-H", "transfer-encoding: chunked", "--data-binary", listing];
    let untold = [&json[..], &untold, &["https://allowed.test/rpc"]].concat();
    assert_eq!(bearer(&scene, &untold).status, 200, "of no declared length");
    let arrived = scene.allowed.requests();
    assert_eq!(arrived.len(), 5);
    assert_eq!(arrived[4].body, listing.as_bytes());
    assert_eq!(arrived[0].body, br#"{"query":"query Q { viewer { login } }"}"#);
    for (path, body) in [
        ("/graphql", r#"{"query":"mutation viewer { deleteRef { id } }"}"#),
        ("/graphql", r#"[{"query":"{ a }"},{"query":"mutation { deleteRef }"}]"#),
        ("/graphql", r#"{"query":"{ a }","query":"mutation { deleteRef }"}"#),
        ("/graphql?query=mutation%7BdeleteRef%7D", r#"{"query":"{ a }"}"#),
        ("/graphql?query=mutation%7BdeleteRef%7D", ""),
        ("/rpc", r#"{"jsonrpc":"2.0","id":1,"method":"admin/drop"}"#),
        ("/rpc", r#"[{"method":"tools/list"},{"method":"admin/drop"}]"#),
        ("/rpc", "not json"),
    ] {
        assert_refused(&scene, &send(path, body), "no allow rule names it");
    }
    for (path, body) in [
        ("/graphql", r#"{"id":"persisted"}"#),
        ("/graphql", r#"{"query":"{ a }","extensions":{"persistedQuery":{"sha256Hash":"00"}}}"#),
        ("/graphql", r#"{"query":"{ a }","documentId":"b"}"#),
        ("/graphql?documentId=b", r#"{"query":"{ a }"}"#),
        (
            "/graphql?query=%7Ba%7D&extensions=%7B%22persistedQuery%22%3A%7B%22sha256Hash%22%3A%2200%22%7D%7D",
            "",
        ),
        ("/graphql?doc_id=b", ""),
    ] {
        assert_refused(&scene, &send(path, body), "a GraphQL document by an id or hash");
    }
    let long = format!(r#"{{"method":"tools/list","x":"{}"}}"#, "x".repeat(300 * 1024));
    std::fs::write(scene.path("long"), long).unwrap();
    let long = format!("@{}", scene.path("long").display());
    assert_refused(&scene, &send("/rpc", &long), "256 KiB");
    let untold = ["-H", "transfer-encoding: chunked", "--data-binary", &long];
    let untold = [&json[..], &untold, &["https://allowed.test/rpc"]].concat();
    assert_refused(&scene, &bearer(&scene, &untold), "256 KiB");
    assert_eq!(scene.allowed.requests().len(), 5);
}

/// PHP folds names, and others look at no capitals or part parameters by semicolons.
#[test]
fn a_query_calls_what_any_server_reads_in_it() {
    let scene =
        scene(|rule| EgressRule { allow: lines(&["GET /graphql graphql:query.viewer"]), ..rule });
    let send =
        |query: &str| bearer(&scene, &["-g", &format!("https://allowed.test/graphql?{query}")]);
    let fine = [
        "query=query{viewer}",
        "query=query{viewer}&variables={%22a%22:1}&operationName=",
        "query=query{viewer}&+x=query{secret};y=2",
        "Query=query{viewer}",
    ];
    for query in fine {
        assert_eq!(send(query).status, 200, "{query}");
    }
    let (unreadable, by_id) = ("no allow rule names it", "a GraphQL document by an id or hash");
    for (query, words) in [
        ("query=query{viewer}&+query=query{secret}", unreadable),
        ("query=query{viewer}&%20%09query=query{secret}", unreadable),
        ("query=query{viewer}&query%00=query{secret}", unreadable),
        ("query=query{viewer}&query%00x=query{secret}", unreadable),
        ("query=query{viewer}&query[]=query{secret}", unreadable),
        ("query=query{viewer}&quer%ffy=query{secret}", unreadable),
        ("query=query{viewer}&a=1;query=query{secret}", unreadable),
        ("query=query{viewer}&a;query=query{secret}", unreadable),
        ("query=query+A{viewer}&Query=query+B{secret}&operationName=B", unreadable),
        ("+query=query{secret}", unreadable),
        ("query=query{viewer}&+documentId=5", by_id),
        ("query=query{viewer}&document.id=5", by_id),
        ("query=query{viewer}&documentId%00=5", by_id),
        ("query=query{viewer}&a=1;documentId=5", by_id),
    ] {
        assert_refused(&scene, &send(query), words);
    }
    assert_eq!(scene.allowed.requests().len(), fine.len());
}

#[test]
fn a_request_waits_for_the_operators_word() {
    let scene = scene(|rule| EgressRule { ask: lines(&["DELETE /**"]), ..rule });
    assert_eq!(bearer(&scene, &["https://allowed.test/x"]).status, 200);
    let delete = ["-X", "DELETE", "https://allowed.test/x"];
    assert_refused(&scene, &bearer(&scene, &delete), "the operator said no");
    assert_eq!(scene.allowed.requests().len(), 1);
    *scene.broker.consents.lock() = true;
    assert_eq!(bearer(&scene, &delete).status, 200);
    scene.canary.find(&scene.allowed.everything_received()).unwrap();
    assert_eq!(*scene.broker.asked.lock(), ["DELETE /x", "DELETE /x"]);
}

#[test]
fn the_proxy_sets_a_header_and_drops_what_was_sent() {
    let scene = scene(|rule| inject(rule, "bearer"));
    for sent in [
        &[][..],
        &["-H", "Authorization: Bearer stale"],
        &["-H", "authorization: x", "-H", "authorization: y"],
    ] {
        let answer = scene.curl(&[sent, &["https://allowed.test/"]].concat());
        assert_eq!(answer.status, 200, "{}", answer.body);
        assert!(answer.body.contains(&format!("Bearer {}", scene.placeholder)), "{}", answer.body);
        scene.assert_sealed(&answer);
    }
    let own = bearer(&scene, &["https://allowed.test/"]);
    assert_eq!(own.status, 200);
    let expected = format!("Bearer {}", scene.canary.value());
    for request in scene.allowed.requests() {
        assert_eq!(request.header("authorization"), Some(expected.clone()));
        assert_eq!(
            request
                .headers
                .iter()
                .filter(|(name, _)| name.eq_ignore_ascii_case("authorization"))
                .count(),
            1
        );
    }
    let releases = scene.broker.releases.lock();
    assert_eq!(releases[0].locations, [keyless_core::Location::Header]);
}

#[test]
fn the_proxy_sets_basic_and_query() {
    let basic = scene(|rule| inject(rule, "basic:x-access-token:{}"));
    let answer = basic.curl(&["-u", "me:wrong", "https://allowed.test/"]);
    let credential = format!("x-access-token:{}", basic.canary.value());
    let expected = format!("Basic {}", data_encoding::BASE64.encode(credential.as_bytes()));
    assert_eq!(basic.allowed.requests()[0].header("authorization"), Some(expected));
    basic.assert_sealed(&answer);
    let query = scene(|rule| inject(rule, "query:key"));
    for target in ["/a?x=1&key=stale&y=%2F&k%65y=stale", "/b?key=stale", "/c"] {
        query.assert_sealed(&query.curl(&[&format!("https://allowed.test{target}")]));
    }
    let value = query.canary.value();
    let requests = query.allowed.requests();
    for (request, target) in requests.iter().zip(["/a?x=1&y=%2F&key=", "/b?key=", "/c?key="]) {
        let expected = format!("https://allowed.test{target}{value}");
        assert_eq!(request.target, expected);
    }
    assert_eq!(requests.len(), 3);
}

#[test]
fn a_placeholder_of_an_injected_secret_stands_nowhere_else() {
    let scene = scene(|rule| inject(rule, "bearer"));
    let header = format!("X-Other: {}", scene.placeholder);
    let answer = scene.curl(&["-H", &header, "https://allowed.test/"]);
    assert_eq!(answer.refusal(), Some("location_not_allowed"), "{}", answer.body);
    assert!(answer.body.contains("the proxy sets it itself"), "{}", answer.body);
    // Elsewhere nothing is set, and the placeholder is useless.
    let answer = scene.curl(&["-k", "-H", &header, "https://other.test/"]);
    assert_eq!(answer.status, 200);
    scene.assert_sealed(&answer);
}

#[test]
fn what_is_set_obeys_the_rules_too() {
    let scene = scene(|rule| {
        inject(EgressRule { allow: lines(&["GET /open/**"]), ..rule }, "header:X-Api-Key={}")
    });
    assert_eq!(scene.curl(&["https://allowed.test/open/x"]).status, 200);
    assert_refused(&scene, &scene.curl(&["https://allowed.test/shut"]), "no allow rule names it");
    let value = scene.canary.value().to_owned();
    assert_eq!(scene.allowed.requests()[0].header("x-api-key"), Some(value.clone()));
    assert_eq!(scene.allowed.requests().len(), 1);
    // Nor does the agent set it in another spelling, which some servers take for the same.
    for (version, own) in [("--http1.1", "X_Api_Key: evil"), ("--http2", "x-api_key: evil")] {
        let sent = scene.curl(&[version, "-H", own, "https://allowed.test/open/x"]);
        assert_eq!(sent.status, 200);
        let request = scene.allowed.requests().pop().unwrap();
        assert_eq!(request.header("x-api-key"), Some(value.clone()));
        let name = own.split(':').next().unwrap();
        assert_eq!(request.header(&name.to_ascii_lowercase()), None, "{own}");
    }
}

/// A person is not asked for nobody, whatever the client has sent by then.
#[test]
fn a_client_that_leaves_takes_its_question_along() {
    let scene = scene(|rule| EgressRule { ask: lines(&["* /**"]), ..rule });
    *scene.broker.hesitant_operator.lock() = true;
    std::fs::write(scene.path("long"), vec![b'x'; 4 << 20]).unwrap();
    let long = format!("@{}", scene.path("long").display());
    let (scene, waiting) = (&scene, || scene.broker.waiting.load(Ordering::SeqCst));
    std::thread::scope(|scope| {
        let mut clients = Vec::new();
        for version in ["--http1.1", "--http2"] {
            for body in [&[][..], &["--data-binary", &long]] {
                let leave = ["--max-time", "5", version, "https://allowed.test/held"];
                let arguments = [body, &leave].concat();
                clients.push(scope.spawn(move || bearer(scene, &arguments).status));
            }
        }
        assert!(comes_true(|| waiting() == clients.len()));
        assert!(clients.into_iter().all(|client| client.join().unwrap() == 0));
    });
    assert!(comes_true(|| waiting() == 0));
    assert_eq!(scene.allowed.requests().len(), 0);
}
