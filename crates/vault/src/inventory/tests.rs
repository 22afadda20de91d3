use jiff::{Timestamp, civil::date};

use super::*;
use crate::metadata::Metadata;

fn path(text: &str) -> SecretPath {
    SecretPath::parse(text).unwrap()
}

fn stored(at: &str, metadata: Metadata) -> Secret {
    let at_epoch = Timestamp::UNIX_EPOCH;
    Secret {
        path: path(at),
        metadata,
        created_at: at_epoch,
        updated_at: at_epoch,
        version: Some(1),
        rotated_at: Some(at_epoch),
    }
}

fn merged(manifest: &str, index: &str, secrets: &[Secret]) -> Inventory {
    let (manifest, index) = (Manifest::parse(manifest).unwrap(), IndexFile::parse(index).unwrap());
    let all = Inventory::merge(&manifest, &index, secrets);
    // A path by itself is as it is among the others.
    let known = secrets.iter().map(|secret| &secret.path);
    for path in all.rows.keys().chain(known) {
        let stored = secrets.iter().find(|secret| secret.path == *path);
        let one = Inventory::merge_one(path, &manifest, &index, stored);
        assert_eq!(one.rows.get(path), all.rows.get(path));
        assert_eq!(
            (one.rows.len(), one.faults),
            (usize::from(all.rows.contains_key(path)), all.faults.clone())
        );
    }
    all
}

const MANIFEST: &str = ".keyless/secrets.toml";

fn words(faults: &[Fault]) -> Vec<String> {
    faults.iter().map(ToString::to_string).collect()
}

#[test]
fn every_field_of_an_index_reads() {
    let index = r#"
        [secret."team/ci/api-key"]
        description = "API token used by team CI"
        retrieval_url = "https://example.invalid/tokens"
        format_regex = "^x{8}$"
        default_gate = "auto"
        approve_on_use = "session"
        expires_at = "2026-12-01"
        last_rotated_at = 2026-04-15
        rotate_every_days = 90
        rotation_method = "provider-ui"
        required_scopes = ["repo"]
        pattern_id = "github-pat"
        env_var = "CI_KEY"
        cache_ttl_seconds_max = 60
    "#;
    let inventory = merged(r#"required = ["team/ci/api-key"]"#, index, &[]);
    let row = &inventory.rows[&path("team/ci/api-key")];
    assert_eq!(row.approve_on_use, ApproveOnUse::Session);
    assert_eq!(row.upkeep.expires_at, Some(date(2026, 12, 1)));
    assert_eq!(row.upkeep.last_rotated_at, Some(date(2026, 4, 15)));
    assert_eq!(row.upkeep.capabilities_hint(), "read,rotate");
    assert_eq!(row.env.as_ref().unwrap().as_str(), "CI_KEY");
    assert_eq!((row.origin, row.required, row.stored), (Origin::Operator, true, Stored::Nothing));
    assert!(inventory.faults.is_empty() && inventory.warnings.is_empty());
}

#[test]
fn only_declared_paths_are_seen() {
    let secrets = ["team/a/one", "team/a/two"].map(|at| stored(at, Metadata::default()));
    let inventory = merged(r#"optional = ["team/a/two"]"#, "", &secrets);
    assert_eq!(inventory.rows.keys().collect::<Vec<_>>(), [&path("team/a/two")]);
    assert!(merged("", "", &secrets).rows.is_empty());
}

#[test]
fn a_project_tightens_and_never_loosens() {
    let metadata = Metadata {
        approve_on_use: ApproveOnUse::Session,
        upkeep: Upkeep { rotate_every_days: Some(60), ..Upkeep::default() },
        ..Metadata::default()
    };
    let secrets = [stored("team/a/one", metadata)];
    let said = |policy: &str, days: u32| {
        let manifest = format!(
            "required = [\"team/a/one\"]\n[overrides.\"team/a/one\"]\n\
             approve_on_use = {policy:?}\nrotate_every_days = {days}"
        );
        let inventory = merged(&manifest, "", &secrets);
        let row = inventory.rows[&path("team/a/one")].clone();
        (row.approve_on_use, row.upkeep.rotate_every_days, inventory.warnings.len())
    };
    assert_eq!(said("per-call", 30), (ApproveOnUse::PerCall, Some(30), 0));
    assert_eq!(said("never", 90), (ApproveOnUse::Session, Some(60), 2));
    // The same in the words of a secret of the project's own, and of the older gate.
    let own = "required = [\"team/a/one\"]\n[secret.\"team/a/one\"]\napprove_on_use = \"never\"\n\
               format_regex = \"^a\"\nretrieval_url = \"https://evil.test/\"";
    let inventory =
        merged(own, "[secret.\"team/a/one\"]\nretrieval_url = \"https://a.test\"", &secrets);
    assert_eq!(
        words(&inventory.warnings),
        [format!(
            "{MANIFEST}: secret.\"team/a/one\": approve_on_use, format_regex, retrieval_url not taken over: the operator's word stands"
        )]
    );
    let row = &inventory.rows[&path("team/a/one")];
    assert_eq!(row.approve_on_use, ApproveOnUse::Session);
    assert_eq!(row.upkeep.format_regex, None);
    assert_eq!(row.upkeep.retrieval_url.as_deref(), Some("https://a.test"));
    let gate = "required = [\"team/a/one\"]\n[overrides.\"team/a/one\"]\ngate = \"confirm\"";
    let inventory = merged(gate, "", &secrets);
    assert_eq!(inventory.rows[&path("team/a/one")].approve_on_use, ApproveOnUse::PerCall);
}

#[test]
fn one_fault_is_told_of_one_entry() {
    let manifest = r#"
        required = ["team/a/one", "Team/bad", 7, "team/a/one"]
        optional = ["team/a/one", "team/a/two"]
        extra = 1
        [overrides."team/a/one"]
        retrieval_url = "https://evil.test"
        [overrides."team/a/own"]
        description = "x"
        [secret."team/a/own"]
        expires_at = "soon"
        [secret."team/a/two"]
        description = "fine"
        [secret.nonsense]
    "#;
    let inventory = merged(manifest, "[secret.\"team/a/one\"]\nrotate_every_days = 0", &[]);
    assert_eq!(inventory.rows.len(), 2);
    assert_eq!(
        words(&inventory.faults),
        [
            "index.toml: secret.\"team/a/one\": rotate_every_days is at least 1",
            ".keyless/secrets.toml: extra: is unknown; there are required, optional, overrides, secret",
            ".keyless/secrets.toml: required[1]: segment 1 has `T` in it, and takes a-z, 0-9 and single inner hyphens alone: project/category/name, such as team/github/token",
            ".keyless/secrets.toml: required[2]: is not a path in quotes",
            ".keyless/secrets.toml: required[3]: stands there twice",
            ".keyless/secrets.toml: optional \"team/a/one\": is required as well; one of the two lists is enough",
            ".keyless/secrets.toml: secret.\"nonsense\": 1 of at least 3 segments: project/category/name, such as team/github/token",
            ".keyless/secrets.toml: secret.\"team/a/own\": \"soon\" is not a date such as 2026-11-30",
            ".keyless/secrets.toml: overrides.\"team/a/one\": unknown field `retrieval_url`, expected one of `description`, `gate`, `approve_on_use`, `rotate_every_days`",
        ]
    );
    assert_eq!(
        words(&inventory.warnings),
        [
            ".keyless/secrets.toml: team/a/one: is declared and nothing else is known of it",
            ".keyless/secrets.toml: overrides.\"team/a/own\": is neither required nor optional, so nobody sees it",
        ]
    );
    let two = &inventory.rows[&path("team/a/two")];
    assert_eq!((two.origin, two.required), (Origin::Project, false));
}

/// The errors and warnings of reference/secrets.md, section 2, in our words; what stands beside them can be used.
#[test]
fn every_fault_of_a_manifest_has_its_words() {
    let faults = [
        (
            "[overrides.\"team/a/x\"]\ndescription = \"b\"\n[secret.\"team/a/x\"]\ndescription = \"a\"",
            "overrides.\"team/a/x\": the project has a secret of that path itself: these lines belong under [secret.\"team/a/x\"]",
        ),
        (
            "[overrides.\"team/a/x\"]\nformat_regex = \"^a\"",
            "overrides.\"team/a/x\": unknown field `format_regex`, expected one of `description`, `gate`, `approve_on_use`, `rotate_every_days`",
        ),
        (
            "[overrides.\"team/a/x\"]\nrotate_every_days = 0",
            "overrides.\"team/a/x\": rotate_every_days is at least 1",
        ),
        (
            "[overrides.\"team/x\"]\ngate = \"auto\"",
            "overrides.\"team/x\": 2 of at least 3 segments: project/category/name, such as team/github/token",
        ),
        (
            "[secret.\"team/a/x\"]\napprove_on_use = \"always\"",
            "secret.\"team/a/x\": unknown variant `always`, expected one of `never`, `session`, `per-call`",
        ),
        (
            "[secret.\"team/a/x\"]\nlast_rotated_at = \"2026-02-30\"",
            "secret.\"team/a/x\": \"2026-02-30\" is not a date such as 2026-11-30",
        ),
        ("required = \"team/a/x\"", "required: is not a list of paths"),
        ("optional = [[]]", "optional[0]: is not a path in quotes"),
        (
            "optional = [\"team//x\"]",
            "optional[0]: segment 2 is empty: no slash at an end, nor two in a row: project/category/name, such as team/github/token",
        ),
        (
            "required = [\"__sources/corp/token\"]",
            "required[0]: the first segment is reserved (`_test` and names that start with `__`)",
        ),
        (
            "required = [\"_test/a/b\"]",
            "required[0]: the first segment is reserved (`_test` and names that start with `__`)",
        ),
        ("secret = 3", "secret: is not a table of secrets"),
        ("overrides = []", "overrides: is not a table of secrets"),
    ];
    for (broken, expected) in faults {
        let inventory = merged(broken, "", &[]);
        assert_eq!(words(&inventory.faults), [format!("{MANIFEST}: {expected}")], "{broken}");
        // Nothing of it blinds the list.
        let beside = broken.replacen("required = ", "ignored = ", 1);
        let whole = format!("required = [\"team/b/fine\"]\n{beside}");
        assert_eq!(merged(&whole, "", &[]).rows.len(), 1, "{whole}");
    }
    let warnings = [
        ("required = [\"team/a/x\"]", "team/a/x: is declared and nothing else is known of it"),
        (
            "required = [\"team/a/x\"]\n[secret.\"team/a/x\"]\n[overrides.\"team/b/y\"]\ngate = \"confirm\"",
            "overrides.\"team/b/y\": is neither required nor optional, so nobody sees it",
        ),
        (
            "[secret.\"team/a/x\"]\ndescription = \"a\"",
            "secret.\"team/a/x\": is neither required nor optional, so nobody sees it",
        ),
    ];
    for (manifest, expected) in warnings {
        let expected = format!("{MANIFEST}: {expected}");
        assert_eq!(words(&merged(manifest, "", &[]).warnings), [expected], "{manifest}");
    }
    let known = [stored("team/a/x", Metadata::default())];
    let empty = "required = [\"team/a/x\"]\n[overrides.\"team/a/x\"]";
    let warned = words(&merged(empty, "", &known).warnings);
    assert_eq!(warned, [".keyless/secrets.toml: overrides.\"team/a/x\": says nothing"]);
    // What the operator says already, and what they say in place of the project.
    for (said, expected) in [
        (
            "[overrides.\"team/a/x\"]\ngate = \"auto\"",
            "overrides.\"team/a/x\": changes nothing: all that it says is so already",
        ),
        (
            "[secret.\"team/a/x\"]\ndescription = \"theirs\"\nenv_var = \"X\"\napprove_on_use = \"per-call\"",
            "secret.\"team/a/x\": description not taken over: the operator's word stands",
        ),
    ] {
        let metadata = Metadata { description: Some("ours".to_owned()), ..Metadata::default() };
        let known = [stored("team/a/x", metadata)];
        let warned =
            words(&merged(&format!("required = [\"team/a/x\"]\n{said}"), "", &known).warnings);
        assert_eq!(warned, [format!("{MANIFEST}: {expected}")], "{said}");
    }
}

/// A word that is none of ours may have been one that tightens: of the paths that it names, or of any where it names none.
#[test]
fn an_unknown_word_asks_a_person_about_what_it_may_have_meant() {
    let known = ["team/a/one", "team/a/two"].map(|at| stored(at, Metadata::default()));
    let (asked, free) = (ApproveOnUse::PerCall, ApproveOnUse::Never);
    for (unknown, place, meant, expected) in [
        (
            "[override.\"team/a/one\"]\napprove_on_use = \"per-call\"",
            "override.\"team/a/one\"",
            " (did you mean overrides?)",
            [asked, free],
        ),
        (
            "[[overides]]\npath = \"team/a/one\"",
            "overides",
            " (did you mean overrides?)",
            [asked, asked],
        ),
        (
            "requird = [\"team/a/two\"]",
            "requird.\"team/a/two\"",
            " (did you mean required?)",
            [free, asked],
        ),
        ("approve_on_use = \"per-call\"", "approve_on_use", "", [asked, asked]),
        ("[policy]\nask = true", "policy", "", [asked, asked]),
    ] {
        let manifest = if unknown.starts_with('[') {
            format!("required = [\"team/a/one\", \"team/a/two\"]\n{unknown}")
        } else {
            format!("{unknown}\nrequired = [\"team/a/one\", \"team/a/two\"]")
        };
        let inventory = merged(&manifest, "", &known);
        let words_of_it = format!(
            "{MANIFEST}: {place}: is unknown{meant}; there are required, optional, overrides, secret"
        );
        assert_eq!(words(&inventory.faults), [words_of_it], "{unknown}");
        let asks: Vec<ApproveOnUse> =
            inventory.rows.values().map(|row| row.approve_on_use).collect();
        assert_eq!(asks, expected, "{unknown}");
    }
    // The same of the operator's own file, and of a table of ours that is none.
    let required = "required = [\"team/a/one\"]";
    let index = "[secrets.\"team/a/one\"]\napprove_on_use = \"per-call\"";
    for (manifest, index) in [(required, index), (&format!("{required}\noverrides = 1"), "")] {
        let rows = merged(manifest, index, &known).rows;
        assert_eq!(rows[&path("team/a/one")].approve_on_use, asked, "{manifest} {index}");
    }
}

#[test]
fn no_toml_is_refused_as_a_whole() {
    for text in
        ["required = [", "required = []\nrequired = []", "[secret.\"a/b/c\"]\n[secret.\"a/b/c\"]"]
    {
        assert!(Manifest::parse(text).is_err(), "{text}");
    }
    let folder = tempfile::tempdir().unwrap();
    assert_eq!(Manifest::load(folder.path()).unwrap(), Manifest::default());
    std::fs::create_dir(folder.path().join(".keyless")).unwrap();
    std::fs::write(folder.path().join(".keyless/secrets.toml"), "x = [").unwrap();
    let error = Manifest::load(folder.path()).unwrap_err();
    assert_eq!(error.code(), keyless_core::Code::ManifestInvalid);
}

#[test]
fn a_project_is_found_from_below_and_not_beyond_its_repository() {
    let folder = tempfile::tempdir().unwrap();
    let (repository, deep) = (folder.path().join("repo"), folder.path().join("repo/a/b"));
    std::fs::create_dir_all(&deep).unwrap();
    std::fs::create_dir_all(folder.path().join(".keyless")).unwrap();
    std::fs::write(folder.path().join(".keyless/secrets.toml"), "").unwrap();
    std::fs::create_dir(repository.join(".git")).unwrap();
    assert_eq!(Manifest::project_of(&deep), None);
    std::fs::create_dir(repository.join(".keyless")).unwrap();
    std::fs::write(repository.join(".keyless/secrets.toml"), "").unwrap();
    assert_eq!(Manifest::project_of(&deep), Some(repository));
}
