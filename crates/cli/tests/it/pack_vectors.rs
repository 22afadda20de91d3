//! Sessions that agentpack 0.9.1 itself was recorded in, run again: the same envelopes, fields and exit statuses, and
//! warnings about the same things. Fields may be added; words in messages, warnings and hints are our own.

use std::{collections::BTreeMap, fs};

use serde::Deserialize;
use serde_json::Value;

use crate::world::World;

const SESSION: &str = include_str!("../vectors/agentpack-0.9.1/session.json");
const DRIFT: &str = include_str!("../vectors/agentpack-0.9.1/drift.json");

/// What is warned about: as agentpack says it, and as we do.
const WARNINGS: &[(&str, &str)] = &[
    ("no target manifests found", "no root has a usable target manifest"),
    ("no usable target manifest for", "has no usable target manifest of"),
    ("operator assets missing", "operator assets missing"),
    ("operator assets incomplete", "operator assets incomplete"),
    ("overlay drift (", " overlay of `"),
    ("is not ignored", "does not ignore"),
];
/// What only we warn about.
const OUR_WARNINGS: &[&str] = &["were edited on disk", "will be deleted"];

#[derive(Deserialize)]
struct Step {
    files: BTreeMap<String, Option<String>>,
    run: Vec<String>,
    exit: i32,
    answer: Value,
}

/// Where we do otherwise, and why: the step's command, and the fields that are not compared.
const DEPARTURES: &[(&str, &[&str])] = &[
    // A prompt's file in its module is found, where agentpack says that it is missing.
    ("explain diff", &["layer", "module_path"]),
    // Reading needs no merge base when nothing changed upstream.
    ("overlay rebase instructions:base --yes", &["*"]),
    // A lockfile of another version is told from a broken one.
    ("fetch --yes", &["code", "reason_code", "next_actions", "error"]),
    // Going back takes away what was adopted since, so the user's own file is there again.
    ("rollback --to $FIRST --yes", &["*"]),
    // Commands and reasons in words.
    ("evolve propose", &["suggestions", "reason_message"]),
    ("evolve propose --dry-run", &["suggestions", "reason_message"]),
    ("evolve propose --dry-run --module-id prompt:review", &["suggestions", "reason_message"]),
    // One more target is compiled in.
    ("plan --target emacs", &["allowed"]),
    (
        "add prompt local:modules/prompts/draftpr.md --id prompt:bad --targets emacs --yes",
        &["allowed"],
    ),
    // The files of a new repo are in our words; prompts and commands are found in their modules.
    ("plan --profile default", &["after_sha256"]),
    ("explain plan --profile empty", &["layer"]),
];

#[test]
fn a_recorded_session_of_agentpack_is_answered_the_same() {
    replayed(SESSION);
}

#[test]
fn a_new_repo_its_drift_and_its_overlays_are_answered_as_agentpack_does() {
    replayed(DRIFT);
}

fn replayed(session: &str) {
    let world = World::empty();
    let root = fs::canonicalize(world.home.root()).unwrap();
    for folder in ["ap/repo", "project/.git"] {
        fs::create_dir_all(root.join(folder)).unwrap();
    }
    let mut steps: Vec<Step> = serde_json::from_str(session).unwrap();
    for step in &mut steps {
        out_of_the_circle(&mut step.answer);
    }
    let mut first = None;
    for step in &steps {
        for (path, text) in &step.files {
            match text {
                Some(script) if path == "sh" => {
                    let script = format!("cd {} && {{ {script}; }}", root.display());
                    world.keyless(&[]).instead(&["sh", "-ec", &script]).run().exits(0);
                }
                Some(text) => drop(world.home.write(path, text).unwrap()),
                None => fs::remove_file(root.join(path)).unwrap(),
            }
        }
        let words: Vec<&str> = step
            .run
            .iter()
            .map(|word| if word == "$FIRST" { first.as_deref().unwrap() } else { word.as_str() })
            .collect();
        let mut command = world.keyless(&[&["pack", "--json"], &words[..]].concat()).into_command();
        command
            .current_dir(root.join("project"))
            .env("AGENTPACK_HOME", root.join("ap"))
            .env("HOSTNAME", "box");
        let output = command.output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        let what = step.run.join(" ");
        let answer: Value =
            serde_json::from_str(&text).unwrap_or_else(|error| panic!("{what}: {error}\n{text}"));
        if let (None, Some(id)) = (&first, answer["data"]["snapshot_id"].as_str()) {
            first = Some(id.to_owned());
        }
        let skipped = DEPARTURES
            .iter()
            .find(|(command, _)| *command == what)
            .map_or(&[][..], |(_, fields)| fields);
        if skipped == ["*"] {
            continue;
        }
        assert_eq!(output.status.code(), Some(step.exit), "{what}\n{text}");
        let root = root.to_str().unwrap();
        assert_warned(&what, &step.answer, &answer);
        assert_holds(&what, "", &step.answer, &answer, &Told { root, skipped });
    }
}

/// Where nothing is wanted and nothing was deployed, agentpack's `status` misses manifests and sends to `deploy --apply`, which
/// has nothing to do and writes none. Ours does neither.
fn out_of_the_circle(answer: &mut Value) {
    let missing = |warning: &Value| warning.as_str().unwrap().contains("no target manifests found");
    if answer["data"]["drift"] != serde_json::json!([]) {
        return;
    }
    let warnings = answer["warnings"].as_array_mut().unwrap();
    let before = warnings.len();
    warnings.retain(|warning| !missing(warning));
    if warnings.len() < before {
        let is_deploy =
            |text: &Value| text.as_str().is_some_and(|text| text.contains("deploy --apply"));
        let data = &mut answer["data"];
        data["next_actions"].as_array_mut().unwrap().retain(|next| !is_deploy(next));
        let detailed = data["next_actions_detailed"].as_array_mut().unwrap();
        detailed.retain(|next| !is_deploy(&next["command"]));
    }
}

/// As many warnings about each thing as were recorded.
#[track_caller]
fn assert_warned(what: &str, recorded: &Value, answer: &Value) {
    let said = |envelope: &Value| -> Vec<String> {
        serde_json::from_value(envelope["warnings"].clone()).unwrap()
    };
    let (recorded, answer) = (said(recorded), said(answer));
    let (mut theirs, mut ours) = (recorded.clone(), answer.clone());
    for (their_words, our_words) in WARNINGS {
        let count = |list: &mut Vec<String>, words: &str| {
            let all = list.len();
            list.retain(|warning| !warning.contains(words));
            all - list.len()
        };
        let counted = (count(&mut theirs, their_words), count(&mut ours, our_words));
        assert_eq!(counted.0, counted.1, "{what}: {their_words}\n{recorded:#?}\n{answer:#?}");
    }
    ours.retain(|warning| !OUR_WARNINGS.iter().any(|words| warning.contains(words)));
    assert!(theirs.is_empty() && ours.is_empty(), "{what}\n{theirs:#?}\n{ours:#?}");
}

struct Told<'a> {
    root: &'a str,
    skipped: &'a [&'a str],
}

/// Everything that was recorded is there, with the same value.
#[track_caller]
fn assert_holds(what: &str, at: &str, recorded: &Value, answer: &Value, told: &Told<'_>) {
    match (recorded, answer) {
        (Value::Object(fields), Value::Object(_)) => {
            for (name, value) in fields {
                let words =
                    ["message", "hint", "warnings", "error", "suggestion"].contains(&name.as_str());
                if words || told.skipped.contains(&name.as_str()) {
                    continue;
                }
                let here = answer
                    .get(name)
                    .unwrap_or_else(|| panic!("{what}: {at}/{name} is missing in {answer:#}"));
                assert_holds(what, &format!("{at}/{name}"), value, here, told);
            }
        }
        (Value::Array(recorded), Value::Array(answer)) => {
            assert_eq!(recorded.len(), answer.len(), "{what}: {at}\n{recorded:#?}\n{answer:#?}");
            for (index, (recorded, answer)) in recorded.iter().zip(answer).enumerate() {
                assert_holds(what, &format!("{at}/{index}"), recorded, answer, told);
            }
        }
        (Value::String(recorded), Value::String(answer)) if recorded == "$ID" => {
            assert!(answer.bytes().all(|b| b.is_ascii_digit()), "{what}: {at}: {answer}");
        }
        (Value::String(recorded), Value::String(answer)) => {
            assert_eq!(*recorded, answer.replace(told.root, "$ROOT"), "{what}: {at}");
        }
        _ => assert_eq!(recorded, answer, "{what}: {at}"),
    }
}
