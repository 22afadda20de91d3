//! Catalogs that are served, and catalogs that are refused with the line.

use keyless_core::{Code, Error, Location};
use proptest::prelude::*;
use rustix::fs::{CWD, FileType, Mode, mknodat};

use super::*;

const FULL: &str = r#"
apiVersion: keyless.dev/v1alpha1
kind: SecretProxy
metadata: { name: default }
spec:
  secrets:
    - env: GITHUB_TOKEN
      secretRef: { name: github, key: API_TOKEN }
      egressTo: ["api.github.com", "*.github.com", "http://git.internal.example:8080"]
      locations: [header, basic]
      placeholder: { prefix: ghp_, length: 40 }
      maxOccurrences: 2
      onForeign: block
    - env: OTHER
      secretRef: { name: other, key: token }
      egressTo: [api.other.example]
      placeholder: colon
  internal:
    allowlist: ["inference:8080", "10.0.0.7:443", "[fd00::7]:443"]
  egress:
    policy: allowlist
"#;

/// The custom resource of spec/egress-secret-proxy.md, "Future Work", with the indentation that it lost there.
const OF_THE_SPEC: &str = r#"
apiVersion: agents.jomcgi.dev/v1alpha1
kind: SecretProxy
metadata: { name: github-and-model, namespace: agent-platform }
spec:
  replicas: 3
  secrets:
    - env: GITHUB_TOKEN
      secretRef: { name: agent-github-bot, key: token }
      egressTo: ["api.github.com", "github.com"]
"#;

/// A catalog with one entry, some of whose lines are replaced.
fn with(env: &str, secret_ref: &str, to: &str, more: &str) -> String {
    format!(
        "apiVersion: keyless.dev/v1alpha1\nkind: SecretProxy\nspec:\n  secrets:\n    \
         - env: {env}\n      secretRef: {secret_ref}\n      egressTo: {to}\n{more}"
    )
}

fn usual(to: &str, more: &str) -> String {
    with("TOKEN", "{ name: a, key: b }", to, more)
}

#[test]
fn everything_that_can_be_said_is_understood() {
    let catalog = parse_catalog(FULL).unwrap();
    assert_eq!((catalog.name.as_deref(), catalog.entries.len()), (Some("default"), 2));
    let first = &catalog.entries[0];
    assert_eq!(first.path.as_str(), "fleet/github/api-token");
    assert_eq!((first.secret.name(), first.secret.key()), ("github", "API_TOKEN"));
    assert_eq!(first.rule.to.len(), 3);
    assert!(first.rule.locations.contains(Location::Basic));
    assert!(!first.rule.locations.contains(Location::Body));
    assert_eq!(first.rule.max_occurrences, Some(2));
    assert!(matches!(first.placeholder, PlaceholderShape::LookAlike(_)));
    assert_eq!(catalog.entries[1].placeholder, PlaceholderShape::Colon);
    let internal: Vec<String> = catalog.internal.iter().map(ToString::to_string).collect();
    assert_eq!(internal, ["inference:8080", "10.0.0.7:443", "[fd00::7]:443"]);
    assert_eq!(catalog.policy, EgressPolicy::Allowlist);
}

#[test]
fn little_is_enough() {
    let catalog = parse_catalog(&usual("[api.test]", "")).unwrap();
    assert_eq!(catalog.policy, EgressPolicy::Allow);
    assert_eq!(catalog.entries[0].placeholder, PlaceholderShape::Default);
    assert!(catalog.entries[0].rule.locations.contains(Location::Body));
}

#[test]
fn rules_about_requests_are_understood() {
    let more = "      allow: [\"GET,HEAD /repos/**\"]\n      \
                otherwise: deny\n      inject: bearer\n      preset: read-only\n";
    let rule = parse_catalog(&usual("[api.test]", more)).unwrap().entries.remove(0).rule;
    assert_eq!((rule.allow.len(), rule.ask.len()), (2, 0));
    assert_eq!(rule.otherwise, keyless_core::Otherwise::Deny);
    assert_eq!(rule.inject.unwrap().to_string(), "header:authorization=Bearer {}");
    let text = usual("[]", "      preset: npm-read\n").replace("      egressTo: []\n", "");
    let entry = parse_catalog(&text).unwrap().entries.remove(0);
    assert_eq!(entry.rule.to[0].to_string(), "registry.npmjs.org");
}

#[test]
fn rules_may_name_hosts_that_the_secret_goes_to() {
    for (to, line) in [
        ("['*.a.test', c.test]", "GET x.a.test/**"),
        ("[x.a.test]", "GET *.a.test/**"),
        ("['*.a.test']", "GET *.a.test/**"),
        ("['a.test:8443']", "GET a.test/**"),
        ("['a.test:8443']", "GET a.test:8443/**"),
        ("['http://a.test']", "GET a.test/**"),
    ] {
        let text = usual(to, &format!("      allow: ['{line}']\n"));
        assert_eq!(parse_catalog(&text).unwrap().entries[0].rule.allow.len(), 1, "{to} {line}");
    }
    // A preset's own may be about more hosts than the entry.
    parse_catalog(&usual("[api.github.com]", "      preset: github-read=a/b\n")).unwrap();
}

#[test]
fn faults_are_told_with_their_line() {
    let second =
        "    - env: TOKEN\n      secretRef: { name: c, key: d }\n      egressTo: [x.test]\n";
    let twin =
        "    - env: SECOND\n      secretRef: { name: A, key: B }\n      egressTo: [x.test]\n";
    let cases = [
        (usual("[]", ""), 7, "egressTo` is empty"),
        (usual("['*.co.uk']", ""), 7, "public suffix"),
        (usual("['*.github.io']", ""), 7, "public suffix"),
        (usual("['*']", ""), 7, "no destination"),
        (usual("[https://a.test/x]", ""), 7, "without a path"),
        (usual("[a.test]", second), 8, "taken by the entry in line 5"),
        (usual("[a.test]", twin), 9, "taken by the entry in line 6"),
        (with("1A", "{ name: a, key: b }", "[a.test]", ""), 5, "no variable"),
        (with("LD_PRELOAD", "{ name: a, key: b }", "[a.test]", ""), 5, "loader"),
        (with("HTTPS_PROXY", "{ name: a, key: b }", "[a.test]", ""), 5, "`HTTPS_PROXY` is how"),
        (with("no_proxy", "{ name: a, key: b }", "[a.test]", ""), 5, "`no_proxy` is how"),
        (with("SSL_CERT_FILE", "{ name: a, key: b }", "[a.test]", ""), 5, "choose another name"),
        (with("A", "{ name: .., key: b }", "[a.test]", ""), 6, "mounted secret"),
        (with("A", "{ name: a, key: ../../etc/shadow }", "[a.test]", ""), 6, "mounted secret"),
        (with("A", "{ name: a/b, key: c }", "[a.test]", ""), 6, "mounted secret"),
        (usual("[a.test]", "      locations: [cookie]\n"), 8, "none of basic"),
        (usual("[a.test]", "      locations: []\n"), 8, "locations` is empty"),
        (usual("[a.test]", "      onForeign: drop\n"), 8, "none of pass"),
        (usual("[a.test]", "      placeholder: short\n"), 8, "none of default"),
        (usual("[a.test]", "      placeholder: { prefix: a, length: 9 }\n"), 8, "guessed"),
        (usual("[a.test]", "  egress: { policy: deny }\n"), 8, "none of allow"),
        (usual("[a.test]", "  internal: { allowlist: [inference] }\n"), 8, "no exact host:port"),
        (usual("[a.test]", "  internal: { allowlist: ['*.svc:80'] }\n"), 8, "no exact host:port"),
        (usual("[a.test]", "      surprise: 1\n"), 8, "surprise"),
        (usual("[a.test]", "      maxOccurrences: many\n"), 8, ""),
        (usual("[a.test]", "      maxOccurrences: -1\n"), 8, ""),
        (usual("[a.test]", "      maxOccurrences: 0\n"), 8, "`maxOccurrences` of `TOKEN` is 0"),
        (usual("[a.test]", "      allow: ['GET b.test/**']\n"), 8, "`egressTo` of `TOKEN`"),
        (usual("[a.test]", "      ask: [GET /a, 'GET a.test:8443/**']\n"), 8, "a.test:8443/**`"),
        (usual("['*.a.test']", "      allow: ['GET a.test/**']\n"), 8, "`egressTo` of `TOKEN`"),
        (usual("a.test", ""), 7, ""),
        (usual("[a.test]", "      env: AGAIN\n"), 8, "duplicate"),
        (usual("[a.test]", "      allow: [GET /a, get /b]\n"), 8, "methods in capitals"),
        (usual("[a.test]", "      ask: ['POST /a/../b']\n"), 8, "dot segments"),
        (usual("[a.test]", "      allow: GET /a\n"), 8, ""),
        (
            usual("[a.test]", "      allow: [GET /a]\n      ask: [GET /b]\n"),
            9,
            "nobody can be asked",
        ),
        (usual("[a.test]", "      otherwise: ask\n"), 8, "nobody can be asked"),
        (usual("[a.test]", "      otherwise: block\n"), 8, "none of deny"),
        (usual("[a.test]", "      inject: 'header:Host={}'\n"), 8, "belongs to the message"),
        (usual("[a.test]", "      sign: hmac-md5\n"), 8, "one of aws:PATH"),
        (usual("[a.test]", "      sign: aws:fleet/aws/id\n"), 8, "no entry holds"),
        (usual("[a.test]", "      inject: bearer\n      sign: slack-webhook\n"), 9, "not both"),
        (usual("[a.test]", "      preset: github-read\n"), 8, "OWNER/REPO"),
        (usual("[a.test]", "      preset: github-raed=a/b\n"), 8, "there are anthropic"),
        ("apiVersion: v1\nkind: SecretProxy\nspec: { secrets: [] }".to_owned(), 1, "v1alpha1"),
        (FULL.replace("kind: SecretProxy", "kind: Secret"), 3, "SecretProxy"),
    ];
    for (text, line, words) in cases {
        let error = parse_catalog(&text).unwrap_err();
        assert_eq!(error.line(), Some(line), "{error}\n{text}");
        assert!(error.to_string().contains(words), "{error} lacks {words:?}");
    }
}

#[test]
fn the_specifications_resource_is_one() {
    let catalog = parse_catalog(OF_THE_SPEC).unwrap();
    assert_eq!(catalog.name.as_deref(), Some("github-and-model"));
    let [entry] = &catalog.entries[..] else { panic!("{catalog:?}") };
    assert_eq!((entry.env.as_str(), entry.rule.to.len()), ("GITHUB_TOKEN", 2));
    assert_eq!((entry.secret.name(), entry.secret.key()), ("agent-github-bot", "token"));
    let labelled = OF_THE_SPEC.replace("namespace: ", "labels: { app: agents }, namespace: ");
    assert_eq!(parse_catalog(&labelled).unwrap(), catalog);
    for surprise in [("replicas: 3", "replicas: many"), ("namespace: ", "nmespace: ")] {
        assert!(parse_catalog(&OF_THE_SPEC.replace(surprise.0, surprise.1)).is_err());
    }
}

/// The parser tells the keys that there are, and the page has a row for each.
#[test]
fn the_page_has_every_key() {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/fleet.md");
    let page = std::fs::read_to_string(page).unwrap();
    let rows: Vec<_> = page.lines().filter(|line| line.starts_with("| `")).collect();
    let keys_of = |text: &str| -> Vec<String> {
        let told = parse_catalog(text).unwrap_err().to_string();
        let (_, known) = told.split_once("expected one of ").unwrap();
        known.split(';').next().unwrap().split(", ").map(str::to_owned).collect()
    };
    let entry = keys_of(&usual("[a.test]", "      surprise: 1\n"));
    let spec = keys_of(&usual("[a.test]", "  surprise: 1\n"));
    assert!(entry.len() >= 15 && spec.len() >= 4, "{entry:?} {spec:?}");
    let in_rows =
        |name: &str| rows.iter().any(|row| row.split(" |").next().unwrap().contains(name));
    for key in entry
        .iter()
        .map(|key| format!("`{key}`"))
        .chain(spec.iter().map(|key| format!("`spec.{key}")))
    {
        assert!(in_rows(&key), "docs/fleet.md has no row for {key}");
    }
}

#[test]
fn the_place_is_told_once_and_in_front() {
    let told = |text: &str| parse_catalog(text).unwrap_err().to_string();
    let bad_host = "catalog:7:18: `*.co.uk` is no destination: `*.co.uk` is a public suffix: \
                    anybody can register a host there; name the host that the secret is for";
    assert_eq!(told(&usual("['*.co.uk']", "")), bad_host);
    let unclosed = "catalog:7:17: unclosed bracket '['; correct the YAML there (anchors, aliases \
                    and merge keys are not taken)";
    assert_eq!(told(&usual("[a.test", "")), unclosed);
    for text in [usual("&hosts [a.test]", ""), usual("[a.test]", "      surprise: 1\n")] {
        let line = told(&text);
        assert!(!line.contains('\n') && !line.contains("at line"), "{line}");
    }
}

#[test]
fn bombs_are_refused() {
    let mut laughs = "a: &a [x, x, x, x, x, x, x, x, x]\n".to_owned();
    for (name, of) in [("b", "a"), ("c", "b"), ("d", "c"), ("e", "d"), ("f", "e")] {
        let aliases = vec![format!("*{of}"); 9].join(", ");
        laughs = format!("{laughs}{name}: &{name} [{aliases}]\n");
    }
    let merged = usual("[a.test]", "").replace("spec:\n", "x: &x { a: 1 }\nspec:\n  <<: *x\n");
    let anchor = usual("&hosts [a.test]", "");
    let deep = format!("{}1{}", "[".repeat(5_000), "]".repeat(5_000));
    let two = format!("{FULL}---\n{FULL}");
    let large = format!("{FULL}# {}", "x".repeat(MAX_CATALOG_BYTES));
    for text in [&laughs, &merged, &anchor, &deep, &two, &large, "", "\0", "- 1", "null"] {
        assert!(parse_catalog(text).is_err(), "{}", &text[..text.len().min(80)]);
    }
}

#[test]
fn a_file_is_named_with_the_place() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("catalog.yaml");
    std::fs::write(&file, usual("[]", "")).unwrap();
    let error = Catalog::load(&file).unwrap_err();
    let shown = error.to_string();
    assert!(shown.contains("catalog.yaml:7:"), "{shown}");
    assert_eq!(Error::from(error).code(), Code::CatalogInvalid);
    let missing = Catalog::load(&folder.path().join("none")).unwrap_err().to_string();
    assert!(missing.contains("none: the file can't be read"), "{missing}");
    std::fs::write(&file, vec![b'#'; MAX_CATALOG_BYTES + 1]).unwrap();
    let large = Catalog::load(&file).unwrap_err();
    assert_eq!(large.fault(), &CatalogFault::TooLarge);
    let fifo = folder.path().join("fifo");
    mknodat(CWD, &fifo, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
    for path in [&*fifo, folder.path()] {
        assert_eq!(Catalog::load(path).unwrap_err().fault(), &CatalogFault::NoFile, "{path:?}");
    }
}

proptest! {
    #[test]
    fn any_text_gets_an_answer(text in ".{0,300}") {
        let _ = parse_catalog(&text);
    }

    #[test]
    fn any_damage_gets_an_answer(at in 0..FULL.len(), byte in 0x20_u8..0x7f) {
        let mut bytes = FULL.as_bytes().to_vec();
        bytes[at] = byte;
        let _ = parse_catalog(&String::from_utf8(bytes).unwrap());
    }
}
