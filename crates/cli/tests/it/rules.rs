//! What a secret may be used for, and credentials that the proxy sets: by `secret add`, and by a
//! fleet's catalog (which shares the reading of both).

use serde_json::json;

use crate::world::{ALLOWED, TOKEN, VARIABLE, World};

const SHOW: &str = r#"
for method in GET POST; do
    curl -sS -o /dev/null -w '%{http_code} ' -X $method -H "Authorization: Bearer $TOKEN" "https://api.allowed.test/repos/acme/site"
done
curl -sS -X DELETE -H "Authorization: Bearer $TOKEN" "https://api.allowed.test/repos/acme/site""#;

/// Such a rule names nothing: an `allow` then refuses everything, and an `ask` asks nobody.
#[test]
fn a_rule_that_names_nothing_is_told() {
    let world = World::with_store();
    let add = |rules: &[&str]| {
        let to = ["--to", ALLOWED, "--to", "files.allowed.test:8443", "--env", VARIABLE];
        world.add(TOKEN, &[&to, rules].concat())
    };
    for rule in ["GET evil.test/**", "GET api.allowed.test:8443/**"] {
        for option in ["--allow", "--ask"] {
            let errors = add(&[option, rule]).exits(2).errors();
            assert!(errors.contains(rule), "{errors}");
            assert!(errors.contains("api.allowed.test, files.allowed.test:8443"), "{errors}");
        }
    }
    let seen = add(&["--allow", "GTE,HEAD /a", "--ask", "DELTE api.allowed.test/**"]);
    seen.ok();
    for words in ["GTE in the rule GTE,HEAD /a", "mean GET?", "DELTE in the rule", "mean DELETE?"] {
        assert!(seen.errors().contains(words), "{words}: {}", seen.errors());
    }
    let set = |rules: &[&str]| world.keyless(&[&["secret", "set", TOKEN], rules].concat()).run();
    set(&["--allow", "GET evil.test/**"]).exits(2);
    let fine = set(&["--to", "evil.test", "--any-request", "--allow", "GET,LIST evil.test/**"]);
    fine.ok();
    assert_eq!(fine.errors(), "");
}

#[test]
fn a_request_outside_the_rules_goes_nowhere_and_says_why() {
    let mut world = World::with_store();
    let origin = world.origin(ALLOWED);
    let rules = ["--allow", "GET,HEAD /repos/acme/**"];
    world.add(TOKEN, &[&["--to", ALLOWED, "--env", VARIABLE], &rules[..]].concat()).ok();
    let said = world.agent_sh(SHOW).run().ok();
    assert!(said.starts_with("200 403 {"), "{said}");
    world.assert_received(&origin);
    assert_eq!(origin.requests().len(), 1);
    let refused = world.log_of("rule_denied");
    assert_eq!(refused[0]["detail"]["method"], "POST");
    assert_eq!(refused[0]["detail"]["rule"], "otherwise deny");
    assert_eq!(
        (&refused[0]["detail"]["status"], &refused[0]["detail"]["bytes_sent"]),
        (&403.into(), &0.into())
    );
    assert!(refused[0]["detail"]["bytes_received"].as_u64() > Some(50));
    assert!(refused[0]["detail"]["duration_ms"].is_u64());
    let log = world.log();
    let forwarded = log.iter().find(|entry| entry["detail"]["kind"] == "forwarded").unwrap();
    assert_eq!(forwarded["detail"]["rule"], "allow GET,HEAD /repos/acme/**");
    let note = refused[0]["detail"]["note"].as_str().unwrap();
    assert!(note.contains(TOKEN) && note.ends_with("no allow rule names it"), "{note}");
    // A rule that is taken away gives every request back.
    world.keyless(&["secret", "set", TOKEN, "--any-request"]).run().ok();
    assert!(world.agent_sh(SHOW).run().ok().starts_with("200 200 "));
}

#[test]
fn the_proxy_sets_what_no_client_sends() {
    let mut world = World::with_store();
    let origin = world.origin(ALLOWED);
    world.add(TOKEN, &["--to", ALLOWED, "--inject", "header:X-Api-Key={}"]).ok();
    let said = world
        .agent_sh("curl -sS https://api.allowed.test/; curl -sS -H 'X-Api-Key: stale' https://api.allowed.test/")
        .run()
        .ok();
    assert_eq!(said.matches("x-api-key: kloak_").count(), 2, "{said}");
    for request in origin.requests() {
        assert_eq!(request.header("x-api-key").as_deref(), Some(world.canary.value()));
    }
}

#[test]
fn presets_bring_hosts_places_and_rules() {
    let world = World::with_store();
    world.add("team/github/site", &["--preset", "github-read=acme/site"]).ok();
    let shown = world.keyless(&["secret", "show", "team/github/site", "--json"]).run().data();
    assert_eq!(shown["to"], json!(["api.github.com", "github.com"]));
    assert_eq!(shown["locations"], json!(["basic", "header"]));
    assert_eq!(shown["allow"][0], "GET,HEAD api.github.com/repos/acme/site/**");
    for (option, bad, words) in [
        ("--preset", "github-read", "OWNER/REPO"),
        ("--preset", "github-raed=a/b", "github-read"),
        ("--allow", "get /x", "methods in capitals"),
        ("--inject", "header:Host", "belongs to the message"),
        ("--sign", "hmac-md5 X={hex} {body}", "one of aws:PATH"),
    ] {
        let seen = world.add("team/other/site", &["--to", ALLOWED, option, bad]);
        seen.exits(2);
        assert!(seen.errors().contains(words), "{}", seen.errors());
    }
}
