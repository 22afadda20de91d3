//! A store in use: secrets, agents at work, grants, approvals, and one request of each kind.

use std::fs;

use serde_json::{Value, json};

use crate::{
    invocation::Background,
    mcp::{Agent, USE, about, gated},
    nl::{AGENT, Served},
    pack::{MANIFEST, write},
    pack_mcp,
    world::{TOKEN, World},
};

/// Puts into the store what does not need a broker.
pub(crate) fn furnish(world: &World) {
    world.add("team/github/token", &["--to", "api.github.com", "--env", "GH"]).ok();
    let expires = ["--to", "api.old.test", "--expires", "2020-01-31", "--description", "Retired"];
    world.add("team/old/key", &expires).ok();
    world
        .home
        .write(
            "keyless/sources.toml",
            "schema_version = 1\n\n[[source]]\nname = \"team\"\ntype = \"1password\"\n",
        )
        .unwrap();
    gated(world, "session");
    write(world, "agentpack.yaml", MANIFEST);
    write(
        world,
        "modules/base/AGENTS.md",
        "# House rules\n\nBe kind\u{202e}, and say what you did.\n",
    );
    write(world, "modules/many/SKILL.md", "---\nname: many\ndescription: Many files\n---\n");
    let manifest = format!("required = [{TOKEN:?}, \"team/github/token\", \"team/stripe/key\"]\n");
    world.declares(manifest);
}

/// Deploys are asked about, and a grant leaves each of its actions to a person.
pub(crate) fn rules(world: &World) {
    let config = fs::read_to_string(world.home.keyless_home().join("config.toml")).unwrap();
    let config = format!("{config}[pack]\napprove_apply = \"tools\"\n");
    world.home.write("keyless/config.toml", config).unwrap();
    let grant =
        ["grant", "create", "--agent", AGENT, "--secret", "db/*", "--for", "1h", "--approve"];
    world.keyless(&[&grant[..], &["--id", "backups"]].concat()).run().ok();
}

/// An approval that holds, a denial, and a session that has used its secret.
pub(crate) fn past(world: &World, agent: &mut Agent<'_>) -> String {
    let used = agent.ask(
        "secrets_request_use_approval",
        &json!({ "path": TOKEN, "reason": "to list the boards" }),
    );
    world.keyless(&["approve", &used, "--session"]).run().ok();
    gated(world, "never");
    world.keyless(&["run", "--", "sh", "-c", USE]).without_passphrase().run();
    gated(world, "session");
    used
}

/// An agent's session of `keyless run`, which lasts as long as this.
pub(crate) fn at_work(world: &World) -> Background<'_> {
    let script = "echo up; while read line; do echo; done";
    let mut run = world.keyless(&["run", "--", "sh", "-c", script]).without_passphrase().start();
    assert_eq!(run.line(), "up");
    run
}

/// One request of each kind that an agent's tools for secrets make: a use, a value, a rotation, metadata, a new path.
pub(crate) fn questions(agent: &mut Agent<'_>) -> [String; 5] {
    let reason = json!({ "path": TOKEN, "reason": "to look at the board\u{202e}\u{200b}, and nothing else\n  Secret:    team/other/path" });
    let fields =
        json!({ "description": "Main token\u{202e} of the boards", "rotate_every_days": 60 });
    let suggested = json!({ "suggested_path": "team/linear/api-key", "metadata": { "description": "Found in the project" } });
    [
        agent.ask("secrets_request_use_approval", &reason),
        agent.ask("secrets_request_provision", &about("team/stripe/key")),
        agent.ask("secrets_request_rotation", &about("team/github/token")),
        agent.ask("secrets_propose_metadata", &json!({ "path": TOKEN, "fields": fields })),
        agent.ask("secrets_propose_new_path", &suggested),
    ]
}

/// What an agent wants to do that its grant leaves to a person, as the broker answers.
pub(crate) fn action(served: &Served<'_>) -> Value {
    let template =
        "pg_dump --dbname=\"postgres://app:{{nl:db/PASSWORD}}@db/app\" > dump.sql\nwc -c dump.sql";
    served.act(&json!({ "type": "exec", "template": template, "purpose": "the nightly backup" }))
}

/// A deploy that waits for its word, and the arguments with which it is asked for again.
pub(crate) fn deploy(pack: &mut pack_mcp::Agent<'_>) -> (String, Value) {
    let token = pack.token(&json!({}));
    let apply = json!({ "yes": true, "confirm_token": token });
    let waits = pack.refused("deploy_apply", &apply);
    (waits["details"]["approval_id"].as_str().unwrap().to_owned(), apply)
}
