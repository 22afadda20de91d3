use keyless_core::Location;

use super::*;

const EXAMPLE: &str = r#"{
    "$schema": "https://example.test/schema.json",
    "schema_version": 1,
    "provider_id": "acme",
    "display_name": "Acme",
    "variants": [{
        "id": "acme-key",
        "display_name": "Key",
        "description": "For Acme",
        "format_regex": "^acme_[a-z]{8}$",
        "format_hint": "acme_ and eight letters",
        "retrieval": {
            "console_url": "https://acme.test/keys",
            "docs_url": "https://acme.test/docs",
            "steps": ["Open the page."],
            "notes": "Be quick."
        },
        "liveness": {
            "kind": "http",
            "url": "https://api.acme.test/me",
            "method": "HEAD",
            "auth": {"kind": "header", "name": "X-Key"},
            "expect_status": 204
        },
        "rotation": {"method": "provider-api", "every_days": 30, "guide_url": "https://acme.test/r"},
        "default_keychain_account": "acme"
    }],
    "env_var_patterns": [{"matches": ["ACME_*_KEY"], "variant": "acme-key", "scope": "personal"}],
    "env_var_skip": ["ACME_HOST"]
}"#;

fn path(text: &str) -> SecretPath {
    SecretPath::parse(text).unwrap()
}

#[test]
fn every_bundled_provider_reads_and_ids_are_unique() {
    let providers = Providers::bundled();
    assert_eq!(providers.faults, []);
    for wanted in [
        "anthropic",
        "openai",
        "gemini",
        "github",
        "gitlab",
        "bitbucket",
        "jira",
        "confluence",
        "linear",
        "slack",
        "discord",
        "notion",
        "stripe",
        "twilio",
        "sendgrid",
        "aws",
        "gcp",
        "azure",
        "cloudflare",
        "vercel",
        "npm",
        "pypi",
        "docker-hub",
        "hugging-face",
        "datadog",
        "sentry",
        "postgres",
        "langfuse",
        "clickup",
        "kimi",
        "ollama",
    ] {
        assert!(providers.provider(wanted).is_some(), "{wanted}");
    }
    let variants = || providers.iter().flat_map(|(_, provider)| &provider.variants);
    let ids: std::collections::BTreeSet<&str> = variants().map(|v| v.id.as_str()).collect();
    assert_eq!(ids.len(), variants().count());
}

/// Whatever a kind of token has not, the catalog says why.
#[test]
fn every_bundled_variant_is_whole() {
    for (_, provider) in Providers::bundled().iter() {
        let id = &provider.provider_id;
        for variant in &provider.variants {
            let id = &variant.id;
            assert!(variant.format_regex.is_some() && variant.format_hint.is_some(), "{id}");
            assert!(!variant.retrieval.steps.is_empty(), "{id}");
            assert!(variant.retrieval.docs_url.is_some(), "{id}");
            assert!(variant.env_var.is_some() && variant.rotation.is_some(), "{id}");
            let reasoned = variant.no_liveness.as_ref().is_some_and(|why| why.len() > 20);
            assert_ne!(variant.liveness.is_some(), reasoned, "{id}: one of the two");
            let Some(egress) = &variant.egress else {
                // What is used whole and stands in no request: an address, a connection, a file.
                let whole = ["discord-webhook", "slack-webhook", "postgres-url"];
                assert!(whole.contains(&id.as_str()) || id == "gcp-service-account-key", "{id}");
                continue;
            };
            assert!(!egress.to.is_empty() || egress.to_hint.is_some(), "{id}");
            assert!(!egress.locations.is_empty() && egress.placeholder.is_some(), "{id}");
        }
        let known = |pattern: &EnvPattern| !pattern.matches.is_empty();
        assert!(provider.env_var_patterns.iter().any(known), "{id}");
    }
}

/// A placeholder of the declared shape passes the format check that a tool would make.
#[test]
fn look_alikes_look_alike() {
    use keyless_core::{Placeholder, SessionKey};
    let providers = Providers::bundled();
    let mut checked = 0;
    for (_, provider) in providers.iter() {
        for variant in &provider.variants {
            let shape = variant.egress.as_ref().and_then(|egress| egress.placeholder.clone());
            let Some(shape) = shape else { continue };
            let form = PlaceholderShape::LookAlike(shape).form();
            let key = SessionKey::from_random([3; 32]);
            let placeholder = Placeholder::derive(&key, &path("team/a/b"), &form);
            let verdict = variant.judge(placeholder.as_str().as_bytes());
            assert_eq!(verdict, FormatVerdict::Ok, "{} {placeholder}", variant.id);
            checked += 1;
        }
    }
    assert!(checked > 40, "{checked}");
}

#[test]
fn what_an_answer_says() {
    let providers = Providers::bundled();
    let judge = |id: &str, status, body: &str| {
        let liveness = providers.variant(id).unwrap().1.liveness.clone().unwrap();
        liveness.judge(status, body.as_bytes())
    };
    for (status, verdict) in [
        (200, Some(true)),
        (400, Some(false)),
        (401, Some(false)),
        (403, Some(false)),
        (204, None),
        (302, None),
        (404, None),
        (429, None),
        (503, None),
    ] {
        assert_eq!(judge("npm-token", status, ""), verdict, "{status}");
    }
    // A token that may not read this is no dead one.
    assert_eq!(judge("stripe-live-secret", 403, ""), None);
    assert_eq!(judge("stripe-live-secret", 401, ""), Some(false));
    for (body, verdict) in [
        (r#"{"ok": true, "team": "T"}"#, Some(true)),
        (r#"{"ok": false, "error": "token_revoked"}"#, Some(false)),
        (r#"{"ok": false, "error": "internal_error"}"#, None),
        ("[]", None),
        ("<html>", None),
    ] {
        assert_eq!(judge("slack-bot-token", 200, body), verdict, "{body}");
    }
    assert_eq!(judge("linear-key", 200, r#"{"data": {"viewer": {"id": "u"}}}"#), Some(true));
    assert_eq!(judge("linear-key", 200, r#"{"data": {"viewer": null}, "errors": []}"#), None);
    assert_eq!(judge("linear-key", 400, "{}"), Some(false));
    // Cloudflare answers 200 about a token that is switched off, and says so in the body.
    for (word, verdict) in
        [("active", Some(true)), ("disabled", Some(false)), ("expired", Some(false)), ("new", None)]
    {
        let body = format!(r#"{{"success": true, "result": {{"status": "{word}"}}}}"#);
        assert_eq!(judge("cloudflare-api-token", 200, &body), verdict, "{word}");
    }
    // Confluence answers whoever it does not know as it answers anybody.
    assert_eq!(judge("confluence-api-token", 200, r#"{"type": "known"}"#), Some(true));
    assert_eq!(judge("confluence-api-token", 200, r#"{"type": "anonymous"}"#), Some(false));
    assert_eq!(judge("confluence-api-token", 403, "{}"), None, "it may not use Confluence");
    assert_eq!(judge("datadog-api-key", 200, r#"{"valid": true}"#), Some(true));
    assert_eq!(judge("datadog-api-key", 403, r#"{"errors": ["Forbidden"]}"#), Some(false));
}

/// A check carries the token: a project's file, or one from an address, reads with it at most.
#[test]
fn only_the_operators_own_catalog_checks_with_post() {
    let writes = EXAMPLE.replace("\"HEAD\"", "\"POST\"");
    let at = |tier| {
        let providers = Providers::bundled().with(tier, check::read("acme", &writes).unwrap());
        let variant = providers.variant("acme-key").unwrap().1.clone();
        (variant.liveness.is_some(), variant.no_liveness.is_some())
    };
    assert_eq!(at(Tier::User), (true, false));
    assert_eq!(at(Tier::Project), (false, true));
    assert_eq!(at(Tier::Url), (false, true));
    let reads = Providers::bundled().with(Tier::Url, check::read("acme", EXAMPLE).unwrap());
    assert!(reads.variant("acme-key").unwrap().1.liveness.is_some());
}

/// Which host that is, its owner says, and only our catalog and theirs may have it asked.
#[test]
fn a_check_at_each_customers_own_host_is_the_operators_own() {
    let with = |host: &str| {
        let own = EXAMPLE.replace("https://api.acme.test/me", "https://{host}/me");
        own.replace("\"HEAD\",", &format!("\"HEAD\", \"hosts\": [\"{host}\"],"))
    };
    let read = |host: &str| check::read("acme", &with(host));
    assert!(read("http://*.acme.test").unwrap_err().contains("https"));
    assert!(read("*.co.uk").unwrap_err().contains("public suffix"));
    let at = |tier| {
        let known = Providers::bundled().with(tier, read("*.acme.test").unwrap());
        known.variant("acme-key").unwrap().1.clone()
    };
    let own = at(Tier::User).liveness.unwrap();
    let host = |text: &str| keyless_core::Destination::parse(text).unwrap().authority().unwrap();
    assert_eq!(own.at(&host("eu.acme.test")).url, "https://eu.acme.test:443/me");
    for tier in [Tier::Project, Tier::Url] {
        let variant = at(tier);
        assert_eq!(variant.liveness, None);
        assert!(variant.no_liveness.unwrap().contains("own host"));
    }
}

#[test]
fn formats_judge_whole_values() {
    let providers = Providers::bundled();
    let judge = |id: &str, value: &str| providers.variant(id).unwrap().1.judge(value.as_bytes());
    let token = format!("ghp_{}", "a1".repeat(18));
    assert_eq!(judge("github-pat", &token), FormatVerdict::Ok);
    for wrong in [format!("x{token}"), format!("{token}\n"), token[1..].to_owned(), String::new()] {
        assert_eq!(judge("github-pat", &wrong), FormatVerdict::Invalid, "{wrong:?}");
    }
    assert_eq!(judge_format(None, b"x"), FormatVerdict::Unknown);
    assert_eq!(judge_format(Some("a|b"), b"ab"), FormatVerdict::Invalid);
    assert_eq!(judge_format(Some("["), b"x"), FormatVerdict::Unknown);
}

/// Whoever gives a value that is none of its kind is told what one looks like.
#[test]
fn a_value_that_is_unlike_its_kind_is_told_with_the_form() {
    let providers = Providers::bundled();
    let unlike = |at: &str, pattern, value: &str| {
        providers.unlike(&path(at), pattern, value.as_bytes()).map(|known| known.forms.join(", "))
    };
    let classic = format!("ghp_{}", "a1".repeat(18));
    assert_eq!(unlike("team/github/token", None, &classic), None, "one of several kinds");
    let forms = unlike("team/github/token", None, "this-is-no-github-token").unwrap();
    assert!(forms.contains("ghp_…") && forms.contains("github_pat_…"), "{forms}");
    let forms = unlike("team/x/token", Some("jira-api-token"), "api.example.com");
    assert_eq!(forms.as_deref(), Some("ATATT3…"));
    let other = unlike("team/github/token", Some("github-fine-grained-pat"), &classic);
    assert!(other.is_some_and(|forms| !forms.contains("ghp_…")));
    assert_eq!(unlike("team/nobody/token", None, "api.example.com"), None);
    assert!(providers.has_form_of_token(&classic) && !providers.has_form_of_token("github.com"));
}

#[test]
fn a_secret_is_known_by_pattern_or_by_path() {
    let providers = Providers::bundled();
    let known = |at: &str, id| providers.of_secret(&path(at), id).map(|(_, v)| v.id.as_str());
    assert_eq!(known("team/x/token", Some("github-pat")), Some("github-pat"));
    assert_eq!(known("team/github/token", None), Some("github-fine-grained-pat"));
    assert_eq!(known("team/prod/stripe/key", None), Some("stripe-live-secret"));
    assert_eq!(known("team/unheard-of/token", None), None);
    assert_eq!(known("shop/postgres/database-url", None), Some("postgres-url"));
    for password in
        ["shop/postgres/password", "shop/postgres/admin-pass", "shop/postgres/pgpassword"]
    {
        assert_eq!(known(password, None), None, "{password}: what stands in an address is none");
    }
    assert_eq!(known("team/github/token", Some("no-such-pattern")), None);
}

#[test]
fn who_takes_a_value_alone_is_not_told_one_of_several_tokens() {
    let providers = Providers::bundled();
    let alone = |at: &str, variable| {
        let known = providers.of_secret_alone(&path(at), None, variable);
        known.map(|(_, variant)| variant.id.as_str())
    };
    assert_eq!(alone("team/datadog/key", None), None);
    assert_eq!(alone("team/datadog/key", Some("DATADOG_APP_KEY")), Some("datadog-app-key"));
    assert_eq!(alone("team/datadog/key", Some("GITHUB_TOKEN")), None);
    assert_eq!(alone("team/datadog/api-key", None), Some("datadog-api-key"));
    assert_eq!(alone("team/slack/token", None), None);
    assert_eq!(alone("team/aws/key", None), None);
    let id = alone("team/aws/main", Some("AWS_ACCESS_KEY_ID"));
    assert_eq!((id, alone("team/aws/access-key", None)), (Some("aws-access-key"), id));
    assert_eq!(alone("team/openai/whatever", None), Some("openai-key"));
    // All that it might be are taken from one variable.
    assert_eq!(alone("team/stripe/key", None), Some("stripe-live-secret"));
    assert_eq!(alone("team/github/token", None), Some("github-fine-grained-pat"));
}

#[test]
fn a_projects_word_chooses_a_text_of_ours_and_no_more() {
    let providers = Providers::bundled();
    let guide = |at: &str, vaults, declared| {
        let found = providers.guide_declared(&path(at), vaults, declared);
        found.map(|(_, variant)| variant.id.as_str())
    };
    assert_eq!(guide("team/acme/key", None, Some("github-pat")), Some("github-pat"));
    assert_eq!(guide("team/acme/key", None, Some("no-such-pattern")), None);
    assert_eq!(guide("team/acme/key", None, None), None);
    // What the operator says, or the path, goes before it.
    assert_eq!(guide("team/acme/key", Some("npm-token"), Some("github-pat")), None);
    assert_eq!(guide("team/stripe/key", None, Some("github-pat")), None);
    // Whatever is not part of Keyless has its words from somebody else.
    let text = include_str!("../../catalog/npm.json");
    let others = Providers::bundled().with(Tier::Url, Provider::parse(text).unwrap());
    let declared = others.guide_declared(&path("team/acme/key"), None, Some("npm-token"));
    assert!(declared.is_none());
}

#[test]
fn what_is_left_open_is_completed() {
    let providers = Providers::bundled();
    let (_, variant) = providers.variant("github-pat").unwrap();
    let metadata = variant.complete(Metadata::default());
    let rule = metadata.egress.as_ref().unwrap();
    assert!(rule.to.iter().any(|to| to.to_string() == "api.github.com"));
    assert!(!rule.locations.contains(Location::Body));
    assert_eq!(metadata.env.as_ref().unwrap().as_str(), "GITHUB_TOKEN");
    assert_eq!(metadata.upkeep.rotate_every_days, Some(90));
    let own = vec![keyless_core::Destination::parse("ghe.corp.test").unwrap()];
    let said = Metadata { egress: Some(EgressRule::to(own.clone())), ..Metadata::default() };
    assert_eq!(variant.complete(said).egress.unwrap().to, own);
    // Nobody's default is a wildcard over other customers' hosts.
    let (_, jira) = providers.variant("jira-api-token").unwrap();
    assert!(jira.egress.as_ref().unwrap().to.iter().all(|to| !to.to_string().contains('*')));
}

#[test]
fn variables_are_known_by_their_parts() {
    let providers = Providers::bundled().with(Tier::User, check::read("acme", EXAMPLE).unwrap());
    let token = |name| match providers.of_variable(name) {
        Some(EnvMeaning::Token(_, variant, scope)) => Some((variant.id.as_str(), scope)),
        _ => None,
    };
    assert_eq!(token("GITHUB_TOKEN").unwrap().0, "github-fine-grained-pat");
    assert_eq!(token("github_bot_token").unwrap().0, "github-fine-grained-pat");
    assert_eq!(token("ACME_PROD_KEY"), Some(("acme-key", Scope::Personal)));
    for none in ["ACME_KEY", "ACME_A_B_KEY", "PATH", "GITHUB_SHA", "ACME__KEY"] {
        assert_eq!(token(none), None, "{none}");
    }
    assert!(matches!(providers.of_variable("ACME_HOST"), Some(EnvMeaning::Skip(_))));
}

#[test]
fn what_is_wrong_is_told() {
    let cases = [
        ("\"schema_version\": 1", "\"schema_version\": 2", "schema_version is 2"),
        ("\"schema_version\": 1", "\"schema_version\": 2, \"new\": {}", "schema_version is 2"),
        ("\"acme\",\n    \"display", "\"Acme\",\n    \"display", "is not lower-kebab"),
        ("\"acme\",\n    \"display", "\"other\",\n    \"display", "differ"),
        ("\"^acme_[a-z]{8}$\"", "\"acme_[a-z]{8}\"", "begins with ^"),
        ("\"^acme_[a-z]{8}$\"", "\"^[$\"", "format_regex"),
        ("[\"Open the page.\"]", "[]", "steps is empty"),
        ("\"^acme_[a-z]{8}$\"", "\"^a)|(?:.*$\"", "format_regex"),
        ("https://acme.test/keys", "http://acme.test/keys", "is not https"),
        ("https://acme.test/keys", "https://acme.test\\u202e/keys", "plain https"),
        ("https://acme.test/keys", "https://acme.test\\u001b[8m.evil.test/", "plain https"),
        ("https://acme.test/keys", "https://acme.test\u{2044}.evil.test/", "plain https"),
        ("https://api.acme.test/me", "https://u@api.acme.test/me", "plain https"),
        ("\"every_days\": 30", "\"every_days\": 0", "every_days"),
        ("\"expect_status\": 204", "\"expect_status\": 20", "expect_status"),
        ("\"expect_status\": 204", "\"expect_status\": 204, \"body\": {}", "goes with POST"),
        (
            "\"expect_status\": 204",
            "\"expect_status\": 204, \"headers\": {\"Authorization\": \"x\"}",
            "no credential",
        ),
        (
            "\"expect_status\": 204",
            "\"expect_status\": 204, \"valid_if\": {\"at\": \"ok\"}",
            "JSON pointer",
        ),
        ("\"name\": \"X-Key\"", "\"name\": \"X-Key\", \"form\": \"Key\"", "{} once"),
        ("https://api.acme.test/me", "https://{host}/me", "among which hosts"),
        ("\"HEAD\",", "\"HEAD\", \"hosts\": [\"*.acme.test\"],", "not at api.acme.test"),
        ("\"liveness\": {", "\"no_liveness\": \"why\", \"liveness\": {", "stand together"),
        ("\"variant\": \"acme-key\"", "\"variant\": \"gone\"", "not there"),
        ("\"display_name\": \"Acme\"", "\"display_name\": \"Acme\", \"extra\": 1", "extra"),
        (
            "\"default_keychain_account\": \"acme\"",
            "\"egress\": {\"to\": [\"acme.test\"]}",
            "egress.to does not name",
        ),
        (
            "\"default_keychain_account\": \"acme\"",
            "\"env_var\": \"HTTPS_PROXY\"",
            "variant \"acme-key\": env_var HTTPS_PROXY is how",
        ),
    ];
    assert!(check::read("acme", EXAMPLE).is_ok());
    for (from, to, expected) in cases {
        assert!(EXAMPLE.contains(from), "{from}");
        let fault = check::read("acme", &EXAMPLE.replacen(from, to, 1)).unwrap_err();
        assert!(fault.contains(expected), "{fault}");
    }
}

#[test]
fn one_bad_file_leaves_the_others_and_a_stronger_tier_stays() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
    file("acme.json", EXAMPLE);
    file("bad.json", "{");
    file("notes.txt", "ignored");
    let other = EXAMPLE.replace(
        "\"acme\",\n    \"display_name\": \"Acme\"",
        "\"github\",\n    \"display_name\": \"Mine\"",
    );
    file("github.json", &other);
    let files = provider_files(folder.path());
    let over =
        |known: Providers, file: &PathBuf| known.with_file(Tier::User, file, read_provider(file));
    let providers = files.iter().fold(Providers::bundled(), over);
    assert_eq!(providers.in_place[0].file, folder.path().join("github.json"));
    assert_eq!(providers.provider("github").unwrap().display_name, "Mine");
    assert!(providers.provider("acme").is_some());
    assert_eq!(providers.faults.len(), 1);
    let project = check::read("acme", &EXAMPLE.replace("Acme\",", "Theirs\",")).unwrap();
    let providers = providers.with(Tier::Project, project);
    assert_eq!(providers.provider("acme").unwrap().display_name, "Acme");
}

/// Agents write in projects: nothing there speaks for what somebody else knows, trusted or not, in whatever order.
#[test]
fn a_project_takes_nobodys_place() {
    let text = include_str!("../../catalog/npm.json").replace("registry.npmjs.org", "evil.test");
    let theirs = Provider::parse(&text).unwrap();
    let before = Providers::bundled();
    let providers = Providers::bundled().with(Tier::Project, theirs.clone());
    assert_eq!(providers.provider("npm"), before.provider("npm"));
    assert!(providers.left_out[0].why.contains("\"npm\" is known already"));
    assert!(providers.faults.is_empty());
    // Under a name of its own, a service's patterns and variables stay that service's.
    let sly = Provider { provider_id: "a-project".to_owned(), ..theirs };
    let providers = Providers::bundled().with(Tier::Project, sly.clone());
    assert_eq!(providers.variant("npm-token"), before.variant("npm-token"));
    assert_eq!(providers.of_variable("NPM_TOKEN"), before.of_variable("NPM_TOKEN"));
    let own = Provider { display_name: "Mine".to_owned(), ..sly.clone() };
    for tier in [Tier::Url, Tier::User] {
        let providers =
            Providers::default().with(Tier::Project, sly.clone()).with(tier, own.clone());
        assert_eq!(providers.provider("a-project"), Some(&own), "{tier:?}");
    }
}

/// Whoever can write the operator's folder is not the operator: until somebody with the factor has agreed, a file there
/// leads no token anywhere, by no name that Keyless knows and by none of its own.
#[test]
fn what_nobody_has_agreed_to_leads_nothing_anywhere() {
    let text = include_str!("../../catalog/npm.json");
    let theirs = text.replace("registry.npmjs.org", "evil.test");
    let before = Providers::bundled();
    let providers = Providers::bundled().with(Tier::Unagreed, Provider::parse(&theirs).unwrap());
    assert_eq!(providers.provider("npm"), before.provider("npm"));
    assert!(providers.unagreed[0].why.contains("what is known of npm without it stays"));
    // Under another name, in any order, with the places of the token that it takes for its own.
    let wide = text.replace("\"header\"", "\"header\", \"body\"");
    let sly = Provider { provider_id: "a-npm".to_owned(), ..Provider::parse(&wide).unwrap() };
    let npm = [Destination::parse("registry.npmjs.org").unwrap()];
    let token = format!("npm_{}", "a1B2".repeat(9));
    for tier in [Tier::Unagreed, Tier::Url, Tier::Project] {
        let providers = Providers::bundled().with(tier, sly.clone());
        assert_eq!(providers.variant("npm-token"), before.variant("npm-token"));
        assert_eq!(providers.of_variable("NPM_TOKEN"), before.of_variable("NPM_TOKEN"));
        assert_eq!(providers.of_value(token.as_bytes()), before.of_value(token.as_bytes()));
        for at in ["team/npm/token", "team/a-npm/token"] {
            let places = |known: &Providers, value| {
                known.locations_of(&path(at), &npm, value).map(|found| found.locations)
            };
            for value in [None, Some(token.as_bytes())] {
                let found = places(&providers, value);
                assert_eq!(found, places(&before, value), "{tier:?} {at}");
                assert!(found.is_some());
            }
        }
    }
    let own = Providers::bundled().with(Tier::Unagreed, sly);
    let variant = &own.provider("a-npm").unwrap().variants[0];
    assert_eq!((&variant.egress, &variant.liveness), (&None, &None));
}

/// A catalog from an address is taken for what it is about: other services' patterns and variables stay theirs.
#[test]
fn an_address_says_nothing_of_other_services_tokens() {
    // Before `github` in the alphabet.
    let sly = EXAMPLE.replace("\"acme-key\"", "\"github-pat\"").replace("ACME", "GITHUB");
    let sly = check::read("acme", &sly).unwrap();
    let providers = Providers::bundled().with(Tier::Url, sly.clone());
    let (provider, variant) = providers.variant("github-pat").unwrap();
    assert_eq!((&provider.provider_id[..], &variant.id[..]), ("github", "github-pat"));
    let before = Providers::bundled();
    for name in ["GITHUB_TOKEN", "GITHUB_HOST", "GITHUB_KEY"] {
        let Some(meaning) = before.of_variable(name) else { continue };
        assert_eq!(providers.of_variable(name), Some(meaning), "{name}");
    }
    // The operator's own file may.
    let own = Providers::bundled().with(Tier::User, sly);
    assert_eq!(own.variant("github-pat").unwrap().0.provider_id, "acme");
}

#[test]
fn a_slip_of_the_pen_is_near_to_what_was_meant() {
    let known = Providers::bundled();
    for (id, nearest) in [
        ("npm-tokn", Some("npm-token")),
        ("github-patt", Some("github-pat")),
        ("npm", Some("npm-token")),
        ("corp-internal-thing", None),
        ("", None),
    ] {
        assert_eq!(known.nearest(id), nearest, "{id}");
    }
}

#[test]
fn a_tokens_places_are_known_by_path_hosts_or_form() {
    let providers = Providers::bundled();
    let token = format!("ghp_{}", "a1B2".repeat(9));
    let (github, all) = (Some("GitHub"), "team/some/key");
    for (at, to, value, service) in [
        ("team/github/token", "api.github.com", "x", github),
        ("team/github/token", "*.github.com", "x", github),
        ("team/github/token", "api.allowed.test", "x", None),
        (all, "api.github.com", "x", github),
        (all, "api.github.com api.allowed.test", "x", None),
        (all, "api.allowed.test", "x", None),
        (all, "ghe.allowed.test", &token, github),
        ("team/jira/token", "acme.atlassian.net", "x", Some("Jira")),
        ("team/github/token", "", &token, None),
    ] {
        let to: Vec<_> =
            to.split_whitespace().map(|host| Destination::parse(host).unwrap()).collect();
        let known = providers.locations_of(&path(at), &to, Some(value.as_bytes()));
        let services = known.as_ref().map(|known| known.services.clone());
        assert_eq!(services, service.map(|service| vec![service]), "{at} {to:?}");
        let header = [Location::Basic, Location::Header].into_iter().collect::<Locations>();
        assert!(known.is_none_or(|known| known.locations == header), "{at} {to:?}");
    }
    // Whoever shares hosts has the places of all.
    let to = [Destination::parse("api.atlassian.com").unwrap()];
    let shared = providers.locations_of(&path(all), &to, None).unwrap();
    assert_eq!(shared.services, ["Confluence", "Jira"]);
}
