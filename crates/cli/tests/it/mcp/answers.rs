//! Values, rotations, proposals, and what becomes of them over a restart.

use std::{thread, time::Duration};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use super::{Agent, USE, about, approve, lock, unlock, unlocked};
use crate::{
    terminal::at_a_terminal,
    world::{ALLOWED, TOKEN, VARIABLE, World},
};

#[test]
fn a_missing_value_is_typed_by_a_person_and_the_work_goes_on() {
    let mut world = World::with_store();
    let origin = world.origin(ALLOWED);
    world.write_config();
    world.declares(format!("required = [\"{TOKEN}\"]\n"));
    unlock(&world);
    let mut agent = Agent::connect(&world);
    let listed = agent.tool("secrets_list", &json!({})).unwrap();
    assert_eq!(
        listed,
        json!([{
            "path": TOKEN, "status": "registered", "expires_at": null, "source_name": null,
            "capabilities_hint": "read",
        }])
    );
    assert_eq!(agent.tool("secrets_validate", &about(TOKEN)), Err("not-provisioned".to_owned()));
    let id = agent.ask("secrets_request_provision", &about(TOKEN));
    assert_eq!(agent.status(&id), "pending");
    let value = world.canary.value();
    let screen = at_a_terminal(
        &world,
        world.keyless(&["approve", &id]),
        &format!(
            "expect('It asks for the value'); expect('Kept in'); expect('may receive it'); say('{ALLOWED}\\n')\n\
             expect('It goes into any part of a request.'); expect('not shown; empty refuses): '); say({value:?} + '\\n')\n\
             expect('[API_TOKEN]: '); say('{VARIABLE}\\n')\n\
             expect('done.'); finish(code=0)"
        ),
    );
    assert!(screen.contains(TOKEN) && screen.contains(&id), "{screen}");
    let polled = agent.poll(&id);
    assert_eq!(
        (&polled["kind"], &polled["status"]),
        (&json!("provision"), &json!({ "kind": "ok" }))
    );
    let run = world.keyless(&["run", "--", "sh", "-c", USE]).without_passphrase().run();
    assert_eq!(run.ok(), "200");
    world.assert_received(&origin);
    let actions: Vec<_> = world.log().iter().map(|entry| entry["action"].clone()).collect();
    for action in ["ask", "create", "answer"] {
        assert!(actions.contains(&json!(action)), "{actions:?}");
    }
}

/// The catalog says what a token of the operator's pattern looks like, where no rule of their own does. A pattern that the
/// project alone declares judges nothing: the agent could write one after the other there.
#[test]
fn a_value_is_judged_by_the_pattern_that_the_operator_says() {
    let world = World::with_store();
    let npm = world.watch(keyless_testkit::Canary::of(format!("npm_{}", "a1B2c3".repeat(6))));
    let other = world.another_value();
    for (path, value) in [
        ("team/npm/right", &npm),
        ("team/npm/wrong", &other),
        ("team/npm/unheard", &npm),
        ("team/npm/declared", &npm),
    ] {
        let add = ["secret", "add", path, "--value-stdin", "--allow-weak"];
        world.keyless(&add).stdin(value.as_str()).run().ok();
    }
    let pattern =
        |path: &str, id: &str| format!("[secret.\"team/npm/{path}\"]\npattern_id = {id:?}\n");
    let own = [("right", "npm-token"), ("wrong", "npm-token"), ("unheard", "no-such-token")];
    let own: String = own.iter().map(|(path, id)| pattern(path, id)).collect();
    world.home.write("keyless/index.toml", &own).unwrap();
    let paths = ["right", "wrong", "unheard", "declared"].map(|path| format!("team/npm/{path}"));
    world.declares(format!("required = {paths:?}\n{own}{}", pattern("declared", "npm-token")));
    unlock(&world);
    let mut agent = Agent::connect(&world);
    for (path, format) in
        [("right", "ok"), ("wrong", "invalid"), ("unheard", "unknown"), ("declared", "unknown")]
    {
        let told = agent.tool("secrets_validate", &about(&format!("team/npm/{path}"))).unwrap();
        assert_eq!(told["format"], json!(format), "{path}: {told}");
    }
}

#[test]
fn a_rotation_takes_an_express_yes() {
    let world = unlocked();
    let mut agent = Agent::connect(&world);
    let (first, remedy) = agent.fault("secrets_request_provision", &about(TOKEN));
    assert_eq!((&*first, &remedy["action"]), ("value-exists", &json!("request_rotation")));
    let id = agent.ask("secrets_request_rotation", &about(TOKEN));
    let refuse = "expect('Type yes'); say('y\\n'); expect('nothing was changed'); finish(code=0)";
    at_a_terminal(&world, world.keyless(&["approve", &id]), refuse);
    assert_eq!(agent.status(&id), "cancelled");
    let id = agent.ask("secrets_request_rotation", &about(TOKEN));
    let value = world.another_value();
    let without =
        world.keyless(&["approve", &id, "--accept", "--value-stdin"]).stdin(value.as_str()).run();
    assert!(without.exits(2).errors().contains("--overwrite"), "{}", without.errors());
    let options = ["approve", &id, "--accept", "--overwrite", "--value-stdin"];
    // What the secret has is no new value, and the agent is not told of one.
    let present = world.canary.value();
    let same = world.keyless(&options).stdin(present).run();
    assert!(same.exits(2).errors().contains("has already"), "{}", same.errors());
    assert_eq!(agent.status(&id), "pending");
    let rotate = ["secret", "rotate", TOKEN, "--value-stdin"];
    let same = world.keyless(&rotate).stdin(present).run();
    assert!(same.exits(2).errors().contains("--allow-weak"), "{}", same.errors());
    world.keyless(&options).stdin(value.as_str()).run().ok();
    assert_eq!(agent.status(&id), "ok");
    let secrets = world.keyless(&["secret", "list", "--json"]).run().data();
    assert_eq!(secrets["secrets"][0]["version"], json!(2));
}

/// Who answers with the whole address that stands around a value means the password in it, as `secret rotate` takes it.
#[test]
fn a_rotation_by_the_whole_address_keeps_the_password() {
    let world = unlocked();
    let (old, new) = (world.another_value(), world.another_value());
    let (path, form) = ("team/shop/database", "postgres://app:{}@db.example.com/shop");
    let whole = |password: &str| {
        let encoded = password.replace('/', "%2F").replace('+', "%2B").replace('@', "%40");
        form.replace("{}", &encoded)
    };
    let add = ["secret", "add", path, "--env", "DATABASE_URL", "--env-form", form, "--value-stdin"];
    world.keyless(&add).stdin(whole(&old)).run().ok();
    world.declares(format!("required = [\"{path}\"]\n"));
    let mut agent = Agent::connect(&world);
    let id = agent.ask("secrets_request_rotation", &about(path));
    let accept = ["--accept", "--overwrite", "--value-stdin"];
    let options = [&["approve", &id][..], &accept].concat();
    let other = whole(&new).replace("db.example", "db2.example");
    let refused = world.keyless(&options).stdin(other).run();
    assert!(refused.exits(2).errors().contains("give the password alone"), "{}", refused.errors());
    world.keyless(&options).stdin(whole(&new)).run().ok();
    assert_eq!(agent.status(&id), "ok");
    // The value is the password: given again, it is none that is new.
    let rotate = ["secret", "rotate", path, "--value-stdin"];
    let same = world.keyless(&rotate).stdin(new.as_str()).run();
    assert!(same.exits(2).errors().contains("has already"), "{}", same.errors());
}

/// The broker dies while a person's value is taken over: the value is there or it is not, and a request that says `ok`
/// has brought it.
#[test]
fn a_kill_during_an_approved_rotation_loses_no_value() {
    let world = World::with_token();
    let version = || {
        let shown = world.keyless(&["secret", "show", TOKEN, "--json"]).run().data();
        shown["version"].as_u64().unwrap()
    };
    let broker = || {
        let status = world.keyless(&["status", "--json"]).without_passphrase().run().data();
        Pid::from_raw(i32::try_from(status["broker"]["pid"].as_u64().unwrap()).unwrap()).unwrap()
    };
    unlock(&world);
    let mut agent = Agent::connect(&world);
    for round in 0..10_u64 {
        let id = agent.ask("secrets_request_rotation", &about(TOKEN));
        let (before, broker, value) = (version(), broker(), world.another_value());
        // Over the time that an answer takes, however busy the machine is.
        let killer = thread::spawn(move || {
            thread::sleep(Duration::from_millis(round * 60));
            kill_process(broker, Signal::KILL).unwrap();
        });
        let options = ["approve", &id, "--accept", "--overwrite", "--value-stdin"];
        world.keyless(&options).stdin(value).run();
        killer.join().unwrap();
        unlock(&world);
        let came = version() - before;
        let status = agent.status(&id);
        assert!(matches!((&*status, came), ("ok", 1) | ("pending", 0 | 1)), "{status} {came}");
        world.keyless(&["source", "check", TOKEN]).run().ok();
        if status == "pending" {
            approve(&world, &[&id, "--deny"]).ok();
            // The next round asks the same.
            approve(&world, &["--take-back", &id]).ok();
        }
    }
    world.keyless(&["audit", "verify"]).run().ok();
}

#[test]
fn proposals_are_taken_over_field_by_field() {
    let world = unlocked();
    let mut agent = Agent::connect(&world);
    let fields =
        json!({ "description": "Main token", "rotate_every_days": 60, "expires_at": "2031-01-01" });
    let id = agent.ask("secrets_propose_metadata", &json!({ "path": TOKEN, "fields": fields }));
    let script = "expect('PROPOSED BY THE AGENT'); expect('Take over description?'); say('y\\n')
expect('rotate_every_days?'); say('n\\n'); expect('expires_at?'); say('y\\n'); expect('done.'); finish(code=0)";
    at_a_terminal(&world, world.keyless(&["approve"]), script);
    let polled = agent.poll(&id);
    assert_eq!(polled["outcome"], json!({ "applied_fields": ["description", "expires_at"] }));
    let card = agent.tool("secrets_describe", &about(TOKEN)).unwrap();
    assert_eq!(
        (&card["description"], &card["expires_at"], &card["rotate_every_days"]),
        (&json!("Main token"), &json!("2031-01-01"), &Value::Null)
    );
}

#[test]
fn each_of_several_is_shown_as_it_is_once_its_turn_has_come() {
    let world = unlocked();
    let (mut first, mut second) = (Agent::connect(&world), Agent::connect(&world));
    for (agent, words) in [(&mut first, "Of the first"), (&mut second, "Of the second")] {
        let fields = json!({ "description": words });
        agent.ask("secrets_propose_metadata", &json!({ "path": TOKEN, "fields": fields }));
    }
    let script = "expect('Of the first'); expect('description?'); say('y\\n'); expect('done.')
expect('Of the first  Of the second'); expect('description?'); say('y\\n'); expect('done.'); finish(code=0)";
    at_a_terminal(&world, world.keyless(&["approve"]), script);
}

/// As where the secret is another project's as well: the agent is told to propose it.
#[test]
fn a_path_that_the_store_has_and_the_project_does_not_declare_can_be_accepted() {
    let world = unlocked();
    let path = "team/box/key";
    let value = world.another_value();
    world.keyless(&["secret", "add", path, "--value-stdin"]).stdin(&*value).run().ok();
    world.declares(format!("required = [\"{TOKEN}\"]\n"));
    let mut agent = Agent::connect(&world);
    assert_eq!(agent.tool("secrets_describe", &about(path)), Err("not-found".to_owned()));
    let proposed = json!({ "suggested_path": path, "metadata": { "description": "Found" } });
    let id = agent.ask("secrets_propose_new_path", &proposed);
    let shown = approve(&world, &[&id, "--accept"]).ok();
    assert!(shown.contains("The store has it: if you accept, this session sees it"), "{shown}");
    let outcome = json!({ "applied_fields": ["description"], "final_path": path });
    assert_eq!(agent.poll(&id)["outcome"], outcome);
    let card = agent.tool("secrets_describe", &about(path)).unwrap();
    assert_eq!((&card["description"], &card["status"]), (&json!("Found"), &json!("registered")));
}

#[test]
fn the_person_has_the_last_word_on_a_new_path() {
    let world = unlocked();
    let mut agent = Agent::connect(&world);
    let proposed =
        json!({ "suggested_path": "team/new/key", "metadata": { "description": "Found" } });
    let id = agent.ask("secrets_propose_new_path", &proposed);
    let script =
        "expect('[team/new/key]'); say('personal/new/key\\n'); expect('description?'); say('y\\n')
expect('done.'); finish(code=0)";
    at_a_terminal(&world, world.keyless(&["approve", &id]), script);
    let outcome = json!({ "applied_fields": ["description"], "final_path": "personal/new/key" });
    assert_eq!(agent.poll(&id)["outcome"], outcome);
    // The agent goes on with the path at once: it sees it, and asks for its value.
    let card = agent.tool("secrets_describe", &about("personal/new/key")).unwrap();
    assert_eq!(card["description"], json!("Found"));
    agent.ask("secrets_request_provision", &about("personal/new/key"));
    assert_eq!(
        agent.tool("secrets_describe", &about("team/new/key")),
        Err("not-found".to_owned()),
        "the suggestion was not taken"
    );
    let mut other = Agent::connect(&world);
    let seen = other.tool("secrets_describe", &about("personal/new/key"));
    assert_eq!(seen, Err("not-found".to_owned()), "nobody has declared it");
    let shown = world.keyless(&["secret", "show", "personal/new/key", "--json"]).run().data();
    assert_eq!(shown["description"], json!("Found"));
}

#[test]
fn a_registered_path_stands_in_the_projects_manifest() {
    let world = unlocked();
    let before = format!("# ours\nrequired = [\"{TOKEN}\"] # needed\n");
    let file = world.declares(&before);
    let mut agent = Agent::connect(&world);
    let proposed = json!({ "suggested_path": "team/new/key", "metadata": {} });
    let id = agent.ask("secrets_propose_new_path", &proposed);
    assert_eq!(agent.status(&id), "pending");
    approve(&world, &[&id, "--accept"]).ok();
    assert_eq!(agent.status(&id), "ok");
    assert_eq!(
        std::fs::read_to_string(file).unwrap(),
        format!("{before}optional = [\"team/new/key\"]\n")
    );
    let mut other = Agent::connect(&world);
    let listed = other.tool("secrets_list", &json!({})).unwrap();
    let paths: Vec<_> = listed.as_array().unwrap().iter().map(|row| row["path"].clone()).collect();
    assert_eq!(paths, [json!(TOKEN), json!("team/new/key")]);
}

/// A slip ends neither the command nor the request.
#[test]
fn a_mistyped_answer_is_asked_for_again() {
    let world = unlocked();
    let mut agent = Agent::connect(&world);
    let proposed = json!({ "suggested_path": "team/new/key", "metadata": {} });
    let id = agent.ask("secrets_propose_new_path", &proposed);
    let script = format!(
        "expect('[team/new/key]'); say('Team/New Key\\n'); expect('not the path of a secret'); expect('project/category/name')
expect('[team/new/key]'); say('{TOKEN}\\n'); expect('exists'); expect('another path')
expect('[team/new/key]'); say('personal/new/key\\n'); expect('done.'); finish(code=0)"
    );
    at_a_terminal(&world, world.keyless(&["approve", &id]), &script);
    assert_eq!(agent.poll(&id)["outcome"]["final_path"], json!("personal/new/key"));
    let listed = world.keyless(&["secret", "list"]).run().ok();
    assert!(listed.contains("personal/new/key") && listed.contains("without a value"), "{listed}");

    let id = agent.ask("secrets_request_provision", &about("personal/new/key"));
    let value = world.another_value();
    let script = format!(
        "expect('may receive it'); say('a..b\\n'); expect('error'); expect('may receive it'); say('api.github.com\\n')
expect('It goes into basic, header of a request, as a token for GitHub does.')
expect('empty refuses): '); say('changeme\\n'); expect('[NEW_KEY]: '); say('NO NAME\\n'); expect('error'); expect('[NEW_KEY]: '); say('\\n')
expect('does not look like a secret'); expect('may receive it'); say('{ALLOWED}\\n')
expect('empty refuses): '); say({value:?} + '\\n'); expect('[NEW_KEY]: '); say('\\n'); expect('done.'); finish(code=0)"
    );
    at_a_terminal(&world, world.keyless(&["approve", &id]), &script);
    assert_eq!(agent.status(&id), "ok");
}

/// A value that is none of its kind is asked for again, or confirmed; one that was pasted where hosts are asked for is stored
/// as none, and shown to nobody once more.
#[test]
fn a_value_is_held_against_its_form_and_a_host_against_tokens() {
    let world = unlocked();
    world.declares("required = [\"team/github/token\"]\n");
    let mut agent = Agent::connect(&world);
    let id = agent.ask("secrets_request_provision", &about("team/github/token"));
    let token = world.github_token();
    // What is typed where hosts are asked for is seen as it is typed: these two are nobody's.
    let (pasted, letters) = (format!("ghp_{}", "a1B2".repeat(9)), "Qm7xT4w9ZrK2bVp");
    let option = ["approve", &id, "--accept", "--value-stdin", "--to", "api.github.com"];
    let refused = world.keyless(&option).stdin("this-is-no-github-token").run();
    let told = "it has not the form of what GitHub issues (github_pat_…, 93 characters; ghp_…, 40 characters; gho_…)";
    assert!(refused.exits(2).errors().contains(told), "{}", refused.errors());
    assert!(!refused.errors().contains("this-is"), "{}", refused.errors());
    assert_eq!(agent.status(&id), "pending");
    let script = format!(
        "expect('may receive it'); say({pasted:?} + '\\n'); expect('looks like a token'); expect('all the same? [y/N]'); say('\\n')
expect('may receive it'); say({letters:?} + '\\n'); expect('one word'); expect('all the same? [y/N]'); say('n\\n')
expect('may receive it'); say('api.github.com\\n')
expect('empty refuses): '); say('api.github.com\\n'); expect('ghp_…, 40 characters'); expect('all the same? [y/N]'); say('\\n')
expect('empty refuses): '); say({token:?} + '\\n'); expect('[GITHUB_TOKEN]: '); say('\\n'); expect('done.'); finish(code=0)"
    );
    let screen = at_a_terminal(&world, world.keyless(&["approve", &id]), &script);
    let seen = screen.to_lowercase();
    let echoed = [&*pasted, letters].map(|typed| seen.matches(&typed.to_lowercase()).count());
    assert_eq!(echoed, [1, 1], "as they were typed, and never again: {screen}");
    assert_eq!(agent.status(&id), "ok");
    let shown = world.keyless(&["secret", "show", "team/github/token", "--json"]).run().data();
    assert_eq!(shown["to"], json!(["api.github.com"]));
    // Who insists is heard.
    let id = agent.ask("secrets_request_rotation", &about("team/github/token"));
    let other = world.another_value();
    let script = format!(
        "expect('Type yes'); say('yes\\n'); expect('empty refuses): '); say({other:?} + '\\n')
expect('not the form'); expect('all the same? [y/N]'); say('y\\n'); expect('done.'); finish(code=0)"
    );
    at_a_terminal(&world, world.keyless(&["approve", &id]), &script);
    assert_eq!(agent.status(&id), "ok");
}

/// No rule and no error: whoever answers sees it, and so does whoever looks later.
#[test]
fn a_pattern_that_nobody_knows_is_told_to_whoever_answers() {
    let world = unlocked();
    let mut agent = Agent::connect(&world);
    let known = |agent: &mut Agent<'_>| {
        agent.tool("secrets_describe", &about(TOKEN)).unwrap()["pattern_known"].clone()
    };
    let told = || {
        let checks = world.keyless(&["doctor", "--json"]).run().json()["data"]["checks"].clone();
        let mut checks = checks.as_array().unwrap().clone();
        checks.retain(|check| check["id"] == "patterns.unknown");
        checks
    };
    assert_eq!((known(&mut agent), told().len()), (json!(null), 0));
    let propose = |agent: &mut Agent<'_>, id: &str| {
        let fields = json!({ "pattern_id": id });
        agent.ask("secrets_propose_metadata", &json!({ "path": TOKEN, "fields": fields }))
    };
    let id = propose(&mut agent, "npm-tokn");
    let shown = approve(&world, &[&id, "--accept"]);
    let text = shown.ok() + &shown.errors();
    let words = "No pattern is called npm-tokn: nothing is checked or known by it. The nearest is npm-token.";
    assert!(text.contains(words), "{text}");
    assert_eq!(known(&mut agent), json!(false));
    assert!(told()[0]["found"].as_str().unwrap().contains(words), "{:?}", told());
    let index = "[secret.\"team/other/key\"]\npattern_id = \"corp-key\"\n";
    world.home.write("keyless/index.toml", index).unwrap();
    assert!(told()[1]["found"].as_str().unwrap().starts_with("team/other/key: No pattern"));

    // One of the operator's own is known.
    let pattern =
        "[[pattern]]\nid = \"corp-key\"\ndisplay_name = \"Corp\"\nformat_regex = \"^corp_.+$\"\n";
    world.home.write("keyless/patterns.d/corp.toml", pattern).unwrap();
    let id = propose(&mut agent, "corp-key");
    let shown = approve(&world, &[&id, "--accept"]);
    assert!(!(shown.ok() + &shown.errors()).contains("No pattern"));
    assert_eq!((known(&mut agent), told().len()), (json!(null), 0));
}

#[test]
fn what_a_manifest_declares_stands_beside_a_proposal_and_over_a_value() {
    let world = unlocked();
    let path = "team/acme/key";
    let manifest = format!(
        "required = [\"{path}\"]\n[secret.\"{path}\"]\ndescription = \"Nightly job\"\n\
         retrieval_url = \"https://acme.test/keys\"\npattern_id = \"github-pat\"\nrotate_every_days = 90\n"
    );
    world.declares(manifest);
    let mut agent = Agent::connect(&world);
    let fields = json!({ "description": "Words of mine", "rotate_every_days": 30 });
    let id = agent.ask("secrets_propose_metadata", &json!({ "path": path, "fields": fields }));
    let shown = approve(&world, &[&id, "--accept"]);
    let text = shown.ok() + &shown.errors();
    assert!(text.contains("Nightly job (declared)  Words of mine"), "{text}");
    assert!(text.contains("90 (declared)           30"), "{text}");
    let outcome = json!({ "applied_fields": ["description", "rotate_every_days"] });
    assert_eq!(agent.poll(&id)["outcome"], outcome);
    // The operator's word goes before the project's from now on.
    let card = agent.tool("secrets_describe", &about(path)).unwrap();
    assert_eq!(
        (&card["description"], &card["rotate_every_days"], &card["pattern_id"]),
        (&json!("Words of mine"), &json!(30), &json!("github-pat"))
    );
    let id = agent.ask("secrets_request_provision", &about(path));
    // The manifest's kind of token comes from the agent's side: it shows how one is got, for what it is, and fills nothing
    // in. Hosts are asked for as if nothing were known.
    let value = world.another_value();
    let script = format!(
        "expect('https://acme.test/keys'); expect('Declared by the project: GitHub'); expect('https://github.com/settings/tokens')
expect('osts'); say('\\n'); expect('not shown; empty refuses): '); say({value:?} + '\\n'); finish(code=0)"
    );
    at_a_terminal(&world, world.keyless(&["approve", &id]), &script);
    let shown = world.keyless(&["secret", "show", path, "--json"]).run().data();
    assert_eq!(shown["to"].as_array().map_or(0, Vec::len), 0, "{shown}");
}

/// Else a secret that one project wants to be asked about would be used from every other folder without a word.
#[test]
fn what_a_project_asks_for_stays_with_the_value_that_it_gets() {
    let world = World::with_store();
    let manifest = format!(
        "required = [\"{TOKEN}\"]\n[secret.\"{TOKEN}\"]\napprove_on_use = \"per-call\"\nrotate_every_days = 90\n"
    );
    let file = world.declares(manifest);
    unlock(&world);
    let mut agent = Agent::connect(&world);
    let id = agent.ask("secrets_request_provision", &about(TOKEN));
    let options = ["approve", &id, "--accept", "--value-stdin", "--to", ALLOWED];
    let shown = world.keyless(&options).stdin(world.canary.value()).run();
    let text = shown.ok() + &shown.errors();
    for words in ["asked for at use: per-call; that stays", "rotate_every_days: 90; that stays"] {
        assert!(text.contains(words), "{text}");
    }
    std::fs::remove_file(file).unwrap();
    let shown = world.keyless(&["secret", "show", TOKEN, "--json"]).run().data();
    assert_eq!(shown["approve_on_use"], json!("per-call"), "{shown}");
    assert_eq!(shown["upkeep"]["rotate_every_days"], json!(90), "{shown}");
}

/// Present values are those that are declared, whichever tool proposes others.
#[test]
fn a_declared_path_is_not_proposed_anew_over_what_is_declared() {
    let world = unlocked();
    let path = "team/acme/key";
    world.declares(format!(
        "required = [\"{path}\"]\n[secret.\"{path}\"]\ndescription = \"Nightly job\"\n"
    ));
    let mut agent = Agent::connect(&world);
    let metadata = json!({ "description": "Words of mine" });
    let proposed = json!({ "suggested_path": path, "metadata": metadata });
    let id = agent.ask("secrets_propose_new_path", &proposed);
    let shown = approve(&world, &[&id, "--deny"]);
    let text = shown.ok() + &shown.errors();
    assert!(text.contains("Nightly job (declared)  Words of mine"), "{text}");
}

/// What is asked at use is told before a rotation as it is before a use.
#[test]
fn a_projects_policy_is_told_with_every_request() {
    let world = unlocked();
    world.declares(format!(
        "required = [\"{TOKEN}\"]\n[overrides.\"{TOKEN}\"]\napprove_on_use = \"per-call\"\n"
    ));
    let mut agent = Agent::connect(&world);
    let id = agent.ask("secrets_request_rotation", &about(TOKEN));
    let shown = approve(&world, &[&id, "--deny"]);
    let text = shown.ok() + &shown.errors();
    assert!(text.contains("asked for at use: per-call"), "{text}");
}

/// Whoever was told no does not ask again, and neither does the next session; what is other than that may be asked, and the
/// person may take their word back.
#[test]
fn what_a_person_denied_is_not_asked_again_whatever_it_was() {
    let world = unlocked();
    world.declares(format!("required = [{TOKEN:?}, \"team/x/empty\"]\n"));
    let fields = |days: u32| json!({ "rotate_every_days": days });
    let proposal = |days| json!({ "path": TOKEN, "fields": fields(days) });
    let suggested = |days| json!({ "suggested_path": "team/new/key", "metadata": fields(days) });
    let all = [
        ("secrets_request_provision", about("team/x/empty"), None),
        ("secrets_request_rotation", about(TOKEN), None),
        ("secrets_propose_metadata", proposal(30), Some(proposal(60))),
        ("secrets_propose_new_path", suggested(30), Some(suggested(60))),
    ];
    let mut agent = Agent::connect(&world);
    for (tool, arguments, other) in &all {
        let id = agent.ask(tool, arguments);
        approve(&world, &[&id, "--deny"]).ok();
        assert_eq!(agent.status(&id), "cancelled", "the protocol's word for {tool}");
        for mut session in [Agent::connect(&world), Agent::connect(&world)] {
            let told = session.message_of(tool, arguments);
            assert!(told.contains(&id), "{tool}: {told}");
            assert_eq!(session.fault(tool, arguments).0, "approval-denied", "{tool}");
        }
        assert_eq!(agent.fault(tool, arguments).0, "approval-denied", "{tool}");
        if let Some(other) = other {
            assert_ne!(agent.ask(tool, other), id);
        }
        let standing = approve(&world, &["--list", "--json"]).data()["standing"].clone();
        assert_eq!((&standing[0]["id"], &standing[1]), (&json!(id), &Value::Null), "{standing}");
        approve(&world, &["--take-back", &id]).ok();
        assert_ne!(agent.ask(tool, arguments), id, "{tool}");
    }
    let log = world.log();
    let answers: Vec<_> = log.iter().filter(|entry| entry["action"] == "answer").collect();
    let denied = answers.iter().filter(|entry| entry["result"] == "denied").count();
    assert_eq!(denied, 8, "each denial, and that it was taken back: {answers:?}");
}

/// Who only closes a dialog has denied nothing.
#[test]
fn what_was_only_closed_may_be_asked_again() {
    let world = unlocked();
    let mut agent = Agent::connect(&world);
    let id = agent.ask("secrets_request_rotation", &about(TOKEN));
    let say = |word: &str| {
        let script =
            format!("expect('Type yes'); say('{word}\\n'); expect('nothing was'); finish(code=0)");
        at_a_terminal(&world, world.keyless(&["approve"]), &script);
    };
    say("");
    assert_eq!(agent.status(&id), "cancelled");
    let id = agent.ask("secrets_request_rotation", &about(TOKEN));
    say("no");
    assert_eq!(agent.status(&id), "cancelled");
    assert_eq!(agent.fault("secrets_request_rotation", &about(TOKEN)).0, "approval-denied");
}

#[test]
fn a_request_survives_the_brokers_restart() {
    let world = unlocked();
    let mut agent = Agent::connect(&world);
    let id = agent.ask("secrets_request_rotation", &about(TOKEN));
    lock(&world);
    let gone = agent.tool("secrets_poll_status", &json!({ "request_id": id }));
    assert_eq!(gone, Err("daemon-not-running".to_owned()));
    unlock(&world);
    assert_eq!(agent.status(&id), "pending");
    approve(&world, &[&id, "--deny"]).ok();
    assert_eq!(agent.status(&id), "cancelled");
}

#[test]
fn requests_are_answered_without_a_broker_too() {
    let world = unlocked();
    let mut agent = Agent::connect(&world);
    let id = agent.ask("secrets_request_rotation", &about(TOKEN));
    lock(&world);
    approve(&world, &[&id, "--deny"]).ok();
    unlock(&world);
    assert_eq!(agent.status(&id), "cancelled");
}

#[test]
fn what_waits_is_counted_where_one_looks_how_things_are() {
    let world = unlocked();
    let status = || world.keyless(&["status"]).without_passphrase().run().ok();
    assert!(!status().contains("Waiting"), "{}", status());
    let mut agent = Agent::connect(&world);
    let proposed = json!({ "suggested_path": "team/new/key", "metadata": {} });
    let id = agent.ask("secrets_propose_new_path", &proposed);
    assert!(status().contains("Waiting: 1 request for you; keyless approve\n"), "{}", status());
    approve(&world, &[&id, "--deny"]).ok();
    assert!(!status().contains("Waiting"), "{}", status());
}

/// A value that nobody stores, and a host that nobody notes, are not "done".
#[test]
fn an_option_of_which_nothing_comes_is_refused_by_name() {
    let world = unlocked();
    world.declares(format!("required = [\"team/first/key\", \"{TOKEN}\"]\n"));
    let mut agent = Agent::connect(&world);
    let proposed = json!({ "suggested_path": "team/new/key", "metadata": {} });
    let path = agent.ask("secrets_propose_new_path", &proposed);
    let about_it = json!({ "path": TOKEN, "fields": { "description": "Words" } });
    let fields = agent.ask("secrets_propose_metadata", &about_it);
    let rotation = agent.ask("secrets_request_rotation", &about(TOKEN));
    let refused = |words: &[&str], said: &str| {
        let seen =
            world.keyless(&[&["approve"], words].concat()).stdin("a value of nobody's").run();
        let errors = seen.exits(2).errors();
        assert!(errors.contains(said), "{words:?}: {errors}");
    };
    refused(&[&path, "--accept", "--value-stdin"], "--value-stdin: a new path");
    refused(&[&path, "--accept", "--to", "api.new.test"], "--to: a new path");
    refused(&[&fields, "--accept", "--env", "NEW"], "--env: this answer");
    refused(&[&fields, "--accept", "--path", "team/other/key"], "--path: this answer");
    refused(&[&rotation, "--deny", "--value-stdin"], "--value-stdin: this answer");
    refused(&[&rotation, "--accept", "--overwrite", "--path", "team/other/key"], "--path: this");
    let provision = agent.ask("secrets_request_provision", &about("team/first/key"));
    let first = [&provision, "--accept", "--overwrite", "--value-stdin"];
    refused(&first, "--overwrite: the secret has no value yet");
    refused(&[&rotation, "--value-stdin"], "--value-stdin goes with an answer");
    refused(&[&rotation, "--once"], "--accept --overwrite --value-stdin gives one");
    refused(&[&fields, "--session"], "--accept takes it over");
    for id in [&path, &fields, &rotation, &provision] {
        assert_eq!(agent.status(id), "pending");
    }
    approve(&world, &[&path, "--accept", "--path", "team/other/key"]).ok();
    assert_eq!(agent.status(&path), "ok");
}

/// A value that was asked for goes where `secret add` would have it go: the agent chose the door.
#[test]
fn what_is_asked_for_goes_into_the_places_of_its_service_alone() {
    let world = unlocked();
    let mut agent = Agent::connect(&world);
    let path = "team/github/ci-token";
    world.declares("required = [\"team/github/ci-token\"]\n");
    let id = agent.ask("secrets_request_provision", &about(path));
    let accept = ["approve", &id, "--accept", "--to", "api.github.com", "--value-stdin"];
    world.keyless(&accept).stdin(world.github_token()).run().ok();
    let shown = world.keyless(&["secret", "show", path]).run().ok();
    assert!(shown.contains("basic, header") && !shown.contains("body"), "{shown}");
    // And so do hosts that are named later.
    let later = ["secret", "add", "team/github/later", "--source", "env:LATER", "--env", "LATER"];
    world.keyless(&later).run().ok();
    world.keyless(&["secret", "set", "team/github/later", "--to", "api.github.com"]).run().ok();
    let shown = world.keyless(&["secret", "show", "team/github/later"]).run().ok();
    assert!(shown.contains("basic, header") && !shown.contains("body"), "{shown}");
}
