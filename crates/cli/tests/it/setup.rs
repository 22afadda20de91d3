//! A project comes to Keyless: everything that is a credential is found, nothing of it is lost, and it can be left and
//! taken up again.

use std::{fmt::Write as _, fs, os::unix::fs::PermissionsExt as _, process::Command};

use serde_json::{Value, json};

use crate::{
    invocation::{KEYLESS, Seen},
    mcp::{Agent, approve, unlocked},
    terminal::at_a_terminal,
    world::World,
};

/// Names of credentials as projects have them, and the path that each shall have.
const CREDENTIALS: &[(&str, &str)] = &[
    ("ACME_API_KEY", "personal/acme/api-key"),
    ("ANTHROPIC_API_KEY", "team/anthropic/api-key"),
    ("API_KEY", "personal/work/api-key"),
    ("AWS_SECRET_ACCESS_KEY", "team/aws/secret-access-key"),
    ("GITHUB_TOKEN", "team/github/token"),
    ("JWT_SECRET", "personal/work/jwt-secret"),
    ("SENTRY_AUTH_TOKEN", "team/sentry/auth-token"),
    ("SMTP_PASSWORD", "personal/smtp/password"),
    ("STRIPE_SECRET_KEY", "team/stripe/secret-key"),
    ("TEST_GITHUB_TOKEN", "personal/github/test-github-token"),
];
/// Settings beside them.
const SETTINGS: &[&str] =
    &["AWS_REGION", "CI", "DB_HOST", "LANG", "LOG_LEVEL", "NODE_ENV", "PORT", "PUBLIC_URL"];

/// A project whose `.env` holds all of them.
fn project(world: &World) -> String {
    let mut text = String::from("# a real project's\n");
    for (name, _) in CREDENTIALS {
        writeln!(text, "{name}={}", world.another_value()).unwrap();
    }
    for name in SETTINGS {
        writeln!(text, "{name}=plain").unwrap();
    }
    writeln!(text, "REDIS_URL=redis://app:{}@cache:6379", world.another_value()).unwrap();
    world.home.write("operator/work/.env", &text).unwrap();
    let files = [
        ("src/app.ts", "const a = process.env.LINEAR_API_KEY;\n// process.env.COMMENTED_TOKEN\n"),
        (
            "compose.yaml",
            "services:\n  db:\n    environment:\n      POSTGRES_PASSWORD: ${POSTGRES_PASSWORD}\n",
        ),
        ("package.json", "{\"scripts\": {\"release\": \"NPM_TOKEN=$NPM_TOKEN npm publish\"}}\n"),
        ("node_modules/x/index.js", "process.env.FOREIGN_TOKEN\n"),
        (
            ".mcp.json",
            "{\"mcpServers\": {\"x\": {\"env\": {\"NOTION_TOKEN\": \"${NOTION_TOKEN}\"}}}}\n",
        ),
    ];
    for (file, text) in files {
        world.home.write(&format!("operator/work/{file}"), text).unwrap();
    }
    text
}

fn setup(world: &World, options: &[&str]) -> Seen {
    let root = world.operator_file("work");
    world.keyless(&[&["setup", "--root", root.to_str().unwrap(), "--json"], options].concat()).run()
}

/// The same for people, without a question.
fn set_up(world: &World, options: &[&str]) -> Seen {
    let root = world.operator_file("work");
    world.keyless(&[&["setup", "--root", root.to_str().unwrap(), "--yes"], options].concat()).run()
}

/// Files from which nothing is taken, and values that are too short to be taken, are named with what is in them.
#[test]
fn what_stays_raw_is_told() {
    let world = World::with_store();
    let token = format!("ntn_{}", "Zk3v9QwT1rXb7LmN5pYc2HsDf8GjKa4EuVoR6tBi0nSx9");
    let key = format!("q9/Zk3v/QwT1rXb7LmN5/{}", "Yc2HsDf8Gj/a4EuVoR6");
    for (file, text) in [
        (".flaskenv", format!("FLASK_SECRET_KEY={}\n", world.another_value())),
        (".dev.vars", format!("CLOUDFLARE_API_TOKEN={}\n", world.another_value())),
        (".envrc", format!("export LINEAR_API_KEY={}\n", world.another_value())),
        ("prod.env", "SMTP_PASSWORD=Sommer2026!\n".to_owned()),
        (
            "compose.yaml",
            format!(
                "services:\n  a:\n    environment:\n      POSTGRES_PASSWORD: Winter2025!\n      A_TOKEN: ${{A_TOKEN}}\n  b:\n    environment:\n      - NOTION_TOKEN={token}\n"
            ),
        ),
        ("app.py", format!("x = 1\nAWS_SECRET_ACCESS_KEY = '{key}'\n")),
    ] {
        world.home.write(&format!("operator/work/{file}"), &text).unwrap();
    }
    let seen = setup(&world, &["--scan-only"]);
    let found = phases(seen.exits(0));
    assert_eq!(
        found[0].2["raw"],
        json!({
            "app.py": ["AWS_SECRET_ACCESS_KEY"],
            "compose.yaml": ["NOTION_TOKEN", "POSTGRES_PASSWORD"],
            "prod.env": ["SMTP_PASSWORD"],
        })
    );
    let variables = found[1].2["variables"].as_array().unwrap();
    for name in ["LINEAR_API_KEY", "FLASK_SECRET_KEY", "CLOUDFLARE_API_TOKEN"] {
        let one = variables.iter().find(|one| one["variable"] == name);
        assert!(one.is_some_and(|one| one["path"].is_string()), "{name}");
    }
    let root = world.operator_file("work");
    let seen = world.keyless(&["setup", "--scan-only", "--root", root.to_str().unwrap()]).run();
    let said = seen.exits(0).errors();
    assert!(
        said.contains("raw values stay in compose.yaml (NOTION_TOKEN, POSTGRES_PASSWORD)"),
        "{said}"
    );
    assert!(said.contains("keyless secret import prod.env --allow-weak"), "{said}");
    assert!(!said.contains(&token) && !said.contains("Winter2025"), "{said}");
}

/// As other commands have them in their envelopes.
#[test]
fn each_line_for_machines_has_what_was_warned_of() {
    let world = World::with_store();
    let text = "JWT_SECRET=wQ7z9Lk2Xp4vBn8sTr3m\nPIN_SECRET=ab12\n";
    world.home.write("operator/work/.env", text).unwrap();
    let seen = setup(&world, &["--yes", "--leave", "empty"]);
    let warned = |phase: &str| {
        let text = seen.text();
        let lines = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        lines.into_iter().find(|line| line["phase"] == phase).unwrap()["warnings"].to_string()
    };
    let carried = "no request can carry JWT_SECRET";
    assert!(warned("provision").contains(carried), "{}", warned("provision"));
    let last = warned("doctor");
    assert!(last.contains("raw values stay in .env (PIN_SECRET)"), "{last}");
    assert!(!last.contains(carried), "each stands once: {last}");
}

/// The lines, by their phase.
fn phases(seen: &Seen) -> Vec<(String, String, Value)> {
    let line = |line: &str| {
        let line: Value = serde_json::from_str(line).unwrap();
        let word = |key: &str| line[key].as_str().unwrap().to_owned();
        (word("phase"), word("status"), line["data"].clone())
    };
    seen.text().lines().map(line).collect()
}

/// Without a terminal, and without --yes, the questions end it.
#[test]
fn what_ends_it_early_is_the_last_line_for_machines() {
    let world = World::with_store();
    project(&world);
    let seen = setup(&world, &[]);
    let answer = seen.text();
    let lines: Vec<Value> =
        answer.lines().map(|line| serde_json::from_str(line).expect(&answer)).collect();
    let last = lines.last().unwrap();
    assert!(last["ok"] == json!(false) && last["errors"][0]["code"].is_string(), "{last}");
}

#[test]
fn no_credential_of_a_project_is_lost() {
    let world = World::with_store();
    let before = project(&world);
    let seen = setup(&world, &["--scan-only"]);
    let found = phases(seen.exits(0));
    let variables = found[1].2["variables"].as_array().unwrap();
    let of = |name: &str| variables.iter().find(|one| one["variable"] == name);
    for (name, path) in CREDENTIALS {
        assert_eq!(of(name).unwrap()["path"], json!(path), "{name}");
    }
    for name in ["LINEAR_API_KEY", "NOTION_TOKEN", "NPM_TOKEN", "POSTGRES_PASSWORD", "REDIS_URL"] {
        assert!(of(name).unwrap()["path"].is_string(), "{name}");
    }
    for name in SETTINGS {
        assert!(of(name).unwrap()["skipped"].is_string(), "{name}");
    }
    assert!(of("COMMENTED_TOKEN").is_none() && of("FOREIGN_TOKEN").is_none());
    assert!(!world.operator_file("work/.keyless").exists(), "it only looked");

    // Without a terminal nobody is asked; what only a person knows is told to be missing.
    let seen = setup(&world, &["--yes", "--leave", "aliases", "--also-uncarried"]);
    let came = phases(seen.exits(1));
    let state = |phase: &str| came.iter().find(|one| one.0 == phase).unwrap().1.clone();
    assert_eq!(
        [state("manifest"), state("provision"), state("doctor")],
        ["done", "failed", "failed"]
    );
    let listed = world.keyless(&["secret", "list", "--json"]).run().data();
    let kept = listed["secrets"].as_array().unwrap().len();
    assert_eq!(kept, CREDENTIALS.len() + 1, "{listed}");
    let after = fs::read_to_string(world.operator_file("work/.env")).unwrap();
    assert_eq!(after.lines().count(), before.lines().count());
    assert_eq!(after.matches("=@secret:").count(), kept);
    let manifest = fs::read_to_string(world.operator_file("work/.keyless/secrets.toml")).unwrap();
    assert!(
        manifest.contains(
            "# GITHUB_TOKEN: .env\n[secret.\"team/github/token\"]\nenv_var = \"GITHUB_TOKEN\"\n"
        ),
        "{manifest}"
    );

    // Again, where it was left.
    for path in
        ["team/linear/api-key", "team/notion/token", "team/npm/token", "personal/postgres/password"]
    {
        world
            .keyless(&["secret", "add", path, "--value-stdin"])
            .stdin(world.another_value())
            .run()
            .ok();
    }
    let seen = setup(&world, &["--resume", "--yes"]);
    // But for the hosts, which nobody has said.
    let came = phases(seen.exits(1));
    let states: Vec<_> = came.iter().map(|one| one.1.as_str()).collect();
    assert_eq!(states, ["skipped", "skipped", "skipped", "done", "failed"], "{}", seen.text());
}

/// Names that no table has, each with a value that nobody typed: by the critic's list.
#[test]
fn a_value_that_nobody_typed_is_a_secret_under_any_name() {
    let world = World::with_store();
    let names = [
        "ENCRYPTION",
        "FERNET",
        "HMAC",
        "JWT",
        "MAILGUN",
        "NEXTAUTH",
        "OAUTH",
        "OTP_SEED",
        "PGPASS",
        "REDIS_PW",
        "SENDGRID",
        "SLACK_HOOK",
        "SUPABASE_SERVICE_ROLE",
    ];
    let mut text = String::new();
    for name in names {
        writeln!(text, "{name}=Zk3v9QwT1rXb7LmN5pYc2HsDf8GjKa4EuVoRx6Bi").unwrap();
    }
    text += "MSSQL=Server=db.test;User Id=sa;Password=Xk29fjs0dkfj;\n\
             LARAVEL=base64:3q2+7wF4nL0sV9kXy1ZbT6pRm8cJ5hGdQ2uWe7oAi4E=\n\
             TELEGRAM_BOT=123456789:AAF3kd9sLq27XbvP0wZ8mNt5RyHcJ1uGeo4\n\
             MAILER=key-9f2c71b04ad8e6537bc1d20f98ea4b56\n";
    world.home.write("operator/work/.env", &text).unwrap();
    world
        .home
        .write("operator/work/.env.ci", "GIT_SHA=9f2c71b04ad8e6537bc1d20f98ea4b569f2c71b0\n")
        .unwrap();
    let found = phases(setup(&world, &["--scan-only"]).exits(0));
    let variables = found[1].2["variables"].as_array().unwrap();
    for one in variables {
        let is_skipped = one["variable"] == "GIT_SHA";
        assert_eq!(one["path"].is_string(), !is_skipped, "{one}");
    }
    assert_eq!(variables.len(), names.len() + 5);
}

#[test]
fn a_person_is_asked_before_anything_is_written_and_for_what_is_missing() {
    let world = World::with_store();
    world.home.write("work/app.py", "import os\nos.environ['ACME_API_KEY']\n").unwrap();
    let value = world.canary.value();
    let screen = at_a_terminal(
        &world,
        world.keyless(&["setup"]),
        &format!(
            "expect('personal/acme/api-key'); expect('secrets.toml? [y/N]'); say('y\\n')\n\
             expect('ACME_API_KEY: hosts that may receive it (empty: none yet): '); say('no host!\\n')\n\
             expect('give names such as api.example.com'); say('y\\n')\n\
             expect('give a whole name such as api.example.com'); say('api.acme.test\\n')\n\
             expect('personal/acme/api-key may go to api.acme.test, into any part of a request.')\n\
             expect('ACME_API_KEY (not shown; empty skips): '); say({value:?} + '\\n')\n\
             expect('every value is there'); expect('doctor'); finish(code=0)"
        ),
    );
    assert!(screen.contains("in order"), "{screen}");
    world.keyless(&["secret", "validate", "--values"]).run().ok();
    let refused = world.keyless(&["setup", "--force"]).run();
    assert!(refused.exits(2).errors().contains("--yes"), "{}", refused.errors());
}

/// Nobody gives a value before they have seen where it may go: by the catalog's word, the secret's own, or their own.
#[test]
fn where_a_value_may_go_is_said_before_it_is_typed() {
    let world = World::with_store();
    let reads = "import os\nos.environ['GITHUB_TOKEN']\n";
    world.home.write("operator/work/app.py", reads).unwrap();
    let seen = setup(&world, &["--yes"]);
    let came = phases(seen.exits(1));
    let (_, _, data) = came.iter().find(|one| one.0 == "propose").unwrap();
    let github = &data["variables"][0];
    let hosts = github["to"].as_array().unwrap().iter().map(|host| host.as_str().unwrap());
    let hosts = hosts.collect::<Vec<_>>().join(", ");
    assert!(hosts.starts_with("api.github.com, github.com"), "{github}");
    assert_eq!(github["locations"], json!(["basic", "header"]), "{github}");
    let root = world.operator_file("work");
    let value = world.github_token();
    let again = ["setup", "--json", "--root", root.to_str().unwrap()];
    at_a_terminal(
        &world,
        world.keyless(&again),
        &format!(
            "expect('may go to {hosts}, into basic, header of a request, as the catalog says.')\n\
             expect('GITHUB_TOKEN (not shown; empty skips): '); say({value:?} + '\\n'); finish(code=0)"
        ),
    );
}

/// What a second project on the machine has in a variable of the same name is its own, and its sessions get that.
#[test]
fn a_second_project_gets_a_path_of_its_own_for_its_own_value() {
    let mut world = World::with_store();
    let github = world.origin("api.github.com");
    let (one, two) = (world.github_token(), world.github_token());
    let set_up = |folder: &str, options: &[&str]| {
        let root = world.home.root().join(folder);
        let first = ["setup", "--root", root.to_str().unwrap(), "--yes"];
        world.keyless(&[&first, options].concat()).run()
    };
    world.home.write("operator/one/.env", format!("GITHUB_TOKEN={one}\n")).unwrap();
    set_up("operator/one", &["--leave", "empty"]).ok();
    let file = world.home.write("work/.env", format!("GITHUB_TOKEN={two}\n")).unwrap();
    let seen = set_up("work", &["--leave", "empty"]);
    assert!(seen.ok().contains("1 value taken in; every value is there"), "{}", seen.text());
    let told = "GITHUB_TOKEN goes to work/github/token: team/github/token holds another value";
    assert!(seen.errors().contains(told), "{}", seen.errors());
    let manifest = world.home.work().join(".keyless/secrets.toml");
    let text = fs::read_to_string(&manifest).unwrap();
    assert!(text.contains("[secret.\"work/github/token\"]") && !text.contains("team/"), "{text}");
    let script = "curl -sS -o /dev/null -H \"X: $GITHUB_TOKEN\" https://api.github.com/";
    world.agent_sh(script).run().ok();
    assert_eq!(github.requests()[0].header("x"), Some(two.as_str().into()));

    // What is declared already is nobody's to move: said, and no success.
    let third = world.github_token();
    fs::write(&file, format!("GITHUB_TOKEN={third}\n")).unwrap();
    let seen = set_up("work", &[]);
    assert!(!seen.exits(1).text().contains("every value is there"), "{}", seen.text());
    let told = "work/github/token holds another value. Next: keyless secret import";
    assert!(seen.errors().contains(told), "{}", seen.errors());
    let next = "--as GITHUB_TOKEN=work/github/token-2";
    assert!(seen.errors().contains(next), "{}", seen.errors());

    // And that advice leads to its value being used.
    let by_hand = "GITHUB_TOKEN=work/github/token-2";
    let import = ["secret", "import", file.to_str().unwrap(), "--as", by_hand, "--yes"];
    let seen = world.keyless(&import).run();
    seen.ok();
    assert!(seen.errors().contains("declares work/github/token-2 for GITHUB_TOKEN from now on"));
    set_up("work", &["--leave", "empty"]).ok();
    world.agent_sh(script).run().ok();
    assert_eq!(github.requests()[1].header("x"), Some(third.as_str().into()));
}

/// `keyless run` can't use what names no host: without a person it is missing, to setup and doctor alike.
#[test]
fn hosts_that_are_missing_leave_a_setting_up_unfinished() {
    let world = World::with_store();
    world
        .home
        .write("operator/work/.env", format!("ACME_API_KEY={}\n", world.another_value()))
        .unwrap();
    let seen = set_up(&world, &[]);
    assert!(seen.exits(1).text().contains("hosts are missing"), "{}", seen.text());
    let next = "keyless secret set personal/acme/api-key --to HOST";
    assert!(seen.errors().contains(next), "{}", seen.errors());
    let examined = phases(&setup(&world, &["--yes"])).pop().unwrap();
    let state = |data: &Value| {
        let checks = data["checks"].as_array().unwrap().iter();
        let mut hosts = checks.filter(|check| check["id"] == "project.hosts");
        hosts.next().map(|check| check["state"].clone())
    };
    assert_eq!(
        (examined.1.as_str(), state(&examined.2)),
        ("failed", Some(json!("warning"))),
        "{examined:?}"
    );
    world.keyless(&["secret", "set", "personal/acme/api-key", "--to", "api.acme.test"]).run().ok();
    assert!(!set_up(&world, &[]).ok().contains("missing"));
    // What nobody requires, or no host helps, may be meant.
    let manifest = world.operator_file("work/.keyless/secrets.toml");
    let text = fs::read_to_string(&manifest).unwrap().replace("required", "optional");
    fs::write(&manifest, text).unwrap();
    world.keyless(&["secret", "set", "personal/acme/api-key", "--to", "none"]).run().ok();
    let examined = phases(&setup(&world, &["--yes"])).pop().unwrap();
    assert_eq!((examined.1.as_str(), state(&examined.2)), ("done", Some(json!("note"))));
}

/// Who wants nothing taken in is told why the store is opened, and everything that stays.
#[test]
fn what_a_person_leaves_where_it_is_is_told() {
    let world = World::with_store();
    let (github, acme) = (world.github_token(), world.another_value());
    let text = format!("GITHUB_TOKEN={github}\nACME_API_KEY={acme}\n");
    world.home.write("operator/work/.env", text).unwrap();
    let root = world.operator_file("work");
    let passphrase = fs::read_to_string(world.operator_file("passphrase")).unwrap();
    let screen = at_a_terminal(
        &world,
        world.keyless(&["setup", "--root", root.to_str().unwrap()]).without_passphrase(),
        &format!(
            "expect('secrets.toml? [y/N]'); say('n\\n')\n\
             expect('The store is opened to compare it with the values in .env')\n\
             expect('assphrase'); say({passphrase:?})\nexpect('[y/N]'); say('n\\n'); finish(code=0)"
        ),
    );
    assert!(
        screen.contains("0 values taken in; 2 values stay in their files, as you said"),
        "{screen}"
    );
    assert!(screen.contains("GITHUB_TOKEN, ACME_API_KEY)"), "{screen}");
    assert!(!screen.contains("everything is in order"), "{screen}");
}

/// A key that is never sent signs with the id beside it, and an address that no request carries has no hosts to ask for.
#[test]
fn what_signs_and_what_nothing_carries_is_known_when_hosts_are_asked_for() {
    let world = World::with_store();
    let key = format!("q9/Zk3v/QwT1rXb7LmN5/{}", "Yc2HsDf8Gj/a4EuVoR6");
    let text = format!(
        "AWS_ACCESS_KEY_ID=AKIA{}\nAWS_SECRET_ACCESS_KEY={key}\n\
         LOCAL_DB=postgres://app:wQ7z9Lk2Xp4vBn@localhost/shop\n\
         SHOP_PEM=\"-----BEGIN EC PRIVATE KEY-----\nMHcCAQEEIBzv9\n-----END EC PRIVATE KEY-----\n\"\n",
        "Q7W2N9D4K1S8Z5X3"
    );
    let file = world.home.write("operator/work/.env", text).unwrap();
    let root = world.operator_file("work");
    let seen = set_up(&world, &["--leave", "aliases"]);
    let errors = seen.exits(1).errors();
    let next = ", with --sign aws:team/aws/access-key-id for team/aws/secret-access-key";
    assert!(errors.contains(next), "{errors}");
    let left = fs::read_to_string(&file).unwrap();
    assert!(left.contains("-----BEGIN EC PRIVATE KEY-----"), "its program finds it nowhere else");
    let screen = at_a_terminal(
        &world,
        world.keyless(&["setup", "--root", root.to_str().unwrap()]),
        "expect('AWS_ACCESS_KEY_ID: hosts'); say('s3.us-east-1.amazonaws.com\\n')\n\
         expect('AWS_SECRET_ACCESS_KEY: hosts'); say('s3.us-east-1.amazonaws.com\\n')\n\
         expect('it signs: --sign aws:team/aws/access-key-id'); finish(code=0)",
    );
    assert!(!screen.contains("LOCAL_DB: hosts") && !screen.contains("SHOP_PEM: hosts"), "{screen}");
    let shown = world.keyless(&["secret", "show", "team/aws/secret-access-key"]).run().ok();
    assert!(shown.contains("aws:team/aws/access-key-id"), "{shown}");

    // Who gives it by hand is told too.
    let other = [
        "secret",
        "add",
        "team/eu/secret-access-key",
        "--value-stdin",
        "--env",
        "EU_SECRET_ACCESS_KEY",
    ];
    let to = ["--to", "s3.eu-west-1.amazonaws.com"];
    let seen = world.keyless(&[&other[..], &to].concat()).stdin(key.as_str()).run();
    assert!(seen.errors().contains("--sign aws:team/eu/access-key-id"), "{}", seen.errors());
}

/// A project with these files beside another one, whose value for Stripe is stored.
fn beside_another(world: &World, files: &[(&str, String)]) -> String {
    let shops = format!("sk_live_{}", "Hb7Qw2Zk9vT1rXLmN5pYc3sD");
    world.home.write("operator/shop/.env", format!("STRIPE_SECRET_KEY={shops}\n")).unwrap();
    let shop = world.operator_file("shop");
    world.keyless(&["setup", "--root", shop.to_str().unwrap(), "--yes"]).run().ok();
    for (file, text) in files {
        world.home.write(&format!("operator/work/{file}"), text).unwrap();
    }
    shops
}

/// Wherever a value stands that setting up reads: it is compared with what the vault has, and never given up for it.
#[test]
fn a_value_in_a_file_from_which_none_is_taken_is_no_other_projects() {
    let own = format!("sk_live_{}", "Zk3v9QwT1rXb7LmN5pYc2HsD");
    let client = r#"{"mcpServers": {"x": {"env": {"STRIPE_SECRET_KEY": "VALUE"}}}}"#;
    let compose = "services:\n  web:\n    environment:\n      STRIPE_SECRET_KEY: VALUE\n";
    let dockerfile = "FROM node\nENV STRIPE_SECRET_KEY=VALUE\n";
    for (file, text) in
        [("compose.yaml", compose), (".mcp.json", client), ("Dockerfile", dockerfile)]
    {
        let world = World::with_store();
        let shops = beside_another(&world, &[(file, text.replace("VALUE", &own))]);
        let seen = set_up(&world, &[]);
        let missing = "1 value is missing: keyless secret add work/stripe/secret-key";
        assert!(seen.exits(1).text().contains(missing), "{file}: {}", seen.text());
        let told = format!(
            "STRIPE_SECRET_KEY goes to work/stripe/secret-key: team/stripe/secret-key holds another value than {file}"
        );
        assert!(seen.errors().contains(&told), "{file}: {}", seen.errors());
        let manifest = world.operator_file("work/.keyless/secrets.toml");
        let text_of_manifest = fs::read_to_string(&manifest).unwrap();
        assert!(!text_of_manifest.contains("team/"), "{text_of_manifest}");

        // A manifest that setting up did not write is nobody's to change: said, and no success.
        let theirs = "required = [\"team/stripe/secret-key\"]\n";
        fs::write(&manifest, theirs).unwrap();
        let seen = set_up(&world, &[]);
        assert!(!seen.exits(1).text().contains("every value is there"), "{}", seen.text());
        let told = "team/stripe/secret-key holds another value, which keyless run uses";
        assert!(seen.errors().contains(told), "{file}: {}", seen.errors());
        assert_eq!(fs::read_to_string(&manifest).unwrap(), theirs);

        // The same value is the project's own, and nothing is said of it.
        let place = world.operator_file("work").join(file);
        fs::write(place, text.replace("VALUE", &shops)).unwrap();
        let seen = set_up(&world, &["--force"]);
        assert!(seen.ok().contains("every value is there"), "{}", seen.text());
        assert!(!seen.errors().contains("stored already"), "{}", seen.errors());
    }
}

/// A name alone may mean what is stored, and may not: it is told, and asked where somebody is.
#[test]
fn what_is_stored_is_used_by_a_name_alone_only_with_a_word() {
    let named = [("app.js", "const key = process.env.STRIPE_SECRET_KEY;\n".to_owned())];
    let world = World::with_store();
    beside_another(&world, &named);
    let seen = setup(&world, &["--yes"]);
    let lines = seen.exits(0).text();
    let propose: Value = serde_json::from_str(lines.lines().nth(1).unwrap()).unwrap();
    assert_eq!(propose["data"]["variables"][0]["uses_stored"], true, "{propose}");
    let told = "STRIPE_SECRET_KEY uses what is stored already: team/stripe/secret-key";
    assert!(propose["warnings"][0].as_str().unwrap().contains(told), "{propose}");
    // Once it is declared it is the project's own word.
    assert!(!setup(&world, &["--yes", "--force"]).text().contains("stored already"));

    let skipped = "expect('(not shown; empty skips): '); say('\\n'); finish(code=1)";
    for (answer, declared, end) in [
        ("y", "team/stripe/secret-key", "finish(code=0)"),
        ("n", "work/stripe/secret-key", skipped),
    ] {
        let world = World::with_store();
        beside_another(&world, &named);
        let root = world.operator_file("work");
        at_a_terminal(
            &world,
            world.keyless(&["setup", "--root", root.to_str().unwrap()]),
            &format!(
                "expect('Stripe; uses what is stored already'); expect('secrets.toml? [y/N]'); say('y\\n')\n\
                 expect('project\\'s too? [y/N]'); say('{answer}\\n')\n{end}"
            ),
        );
        let manifest = fs::read_to_string(root.join(".keyless/secrets.toml")).unwrap();
        assert!(manifest.contains(&format!("required = [\n    {declared:?},\n]")), "{manifest}");
    }
}

/// What a shell or docker compose makes of a line is not what stands there: it stays, and that is said.
#[test]
fn a_value_that_its_readers_put_together_stays_and_is_named() {
    let world = World::with_store();
    let (part, plain) = (world.another_value(), world.another_value());
    let stays = format!("G_SECRET={part}${{OTHER}}{part}\n");
    let file =
        world.home.write("operator/work/.env", format!("{stays}ACME_API_KEY={plain}\n")).unwrap();
    let seen = set_up(&world, &["--leave", "aliases"]);
    let named =
        format!("G_SECRET (line 1 of {}) is put together by whoever reads it", file.display());
    assert!(seen.errors().contains(&named), "{}", seen.errors());
    // Nobody has that value yet.
    let missing = "1 value is missing: keyless secret add personal/g/secret";
    assert!(seen.exits(1).text().contains(missing), "{}", seen.text());
    let after = format!("{stays}ACME_API_KEY=@secret:personal/acme/api-key\n");
    assert_eq!(fs::read_to_string(&file).unwrap(), after);
    let again = phases(&setup(&world, &["--yes"]));
    let (_, _, data) = again.iter().find(|one| one.0 == "provision").unwrap();
    assert!(data["left"][0].as_str().unwrap().starts_with("G_SECRET"), "{data}");
}

/// A shell reads two variables there; as one value they would be gone from the file, and neither would be right.
#[test]
fn a_line_that_sets_two_variables_stays_and_both_are_named() {
    let world = World::with_store();
    let [one, other] = [world.another_value(), world.another_value()];
    let line = format!("export DEPLOYA_TOKEN={one} DEPLOYB_TOKEN={other}\n");
    let file = world.home.write("operator/work/.envrc", &line).unwrap();
    let seen = set_up(&world, &["--leave", "aliases"]);
    for name in ["DEPLOYA_TOKEN", "DEPLOYB_TOKEN"] {
        let named = format!("{name} (line 1 of {})", file.display());
        assert!(seen.errors().contains(&named), "{}", seen.errors());
    }
    assert_eq!(fs::read_to_string(&file).unwrap(), line);
}

/// A program in the jail finds what no request carries in its file alone: there it stays, unless somebody says otherwise.
#[test]
fn what_no_request_carries_stays_in_its_file() {
    let world = World::with_store();
    let (token, key) = (world.github_token(), world.another_value());
    let text = format!("GITHUB_TOKEN={token}\nJWT_SECRET={key}\n");
    let file = world.home.write("operator/work/.env", text).unwrap();
    let seen = set_up(&world, &["--leave", "empty"]);
    // The store has both: keyless exec gives the second one to a command.
    assert!(seen.ok().contains("2 values taken in"), "{}", seen.text());
    let left = || fs::read_to_string(&file).unwrap();
    assert_eq!(left(), format!("GITHUB_TOKEN=\nJWT_SECRET={key}\n"));
    let said = seen.errors();
    assert!(said.contains("no request can carry JWT_SECRET"), "{said}");
    assert!(said.contains("it stays in the file"), "{said}");
    // Nor is anybody led to take it out afterwards.
    assert!(said.contains(".env holds in JWT_SECRET") && !said.contains("import .env"), "{said}");
    let seen = set_up(&world, &["--leave", "empty", "--also-uncarried"]);
    let said = seen.errors();
    assert!(said.contains("a program in keyless run does not find it"), "{said}");
    assert_eq!(left(), "GITHUB_TOKEN=\nJWT_SECRET=\n");
}

/// No host helps a value whose protocol carries no placeholder, so nobody is asked for one.
#[test]
fn what_no_request_carries_is_asked_for_without_hosts() {
    let world = World::with_store();
    world.home.write("work/app.py", "import os\nos.environ['SMTP_PASSWORD']\n").unwrap();
    let value = world.canary.value();
    let script = format!(
        "expect('secrets.toml? [y/N]'); say('y\\n')\n\
         expect('may go to no host: its name is of SMTP, which carries no placeholder')\n\
         expect('SMTP_PASSWORD (not shown; empty skips): '); say({value:?} + '\\n')\n\
         expect('keyless exec gives such a value to one command'); finish(code=0)"
    );
    let screen = at_a_terminal(&world, world.keyless(&["setup"]), &script);
    assert!(!screen.contains("hosts that may receive it"), "{screen}");
}

/// There is no store to be missed where there is nothing to put into it.
#[test]
fn a_project_without_secrets_needs_no_store() {
    let world = World::empty();
    world.home.write("operator/work/README.md", "# Nothing secret\n").unwrap();
    let seen = setup(&world, &["--yes"]);
    let came = phases(seen.exits(0));
    let states: Vec<_> = came.iter().map(|one| one.1.as_str()).collect();
    assert_eq!(states, ["done", "done", "skipped", "skipped", "done"], "{}", seen.text());
    let shown = world.keyless(&["status"]).run().ok();
    assert!(shown.contains("Broker:  none\n"), "{shown}");
}

/// A value that looks like none is no reason to leave: the person is asked again, or goes on to the next one.
#[test]
fn a_weak_value_is_asked_for_again_or_skipped() {
    let world = World::with_store();
    let reads = "import os\nos.environ['ACME_API_KEY']\nos.environ['OTHER_API_KEY']\n";
    world.home.write("work/app.py", reads).unwrap();
    let value = world.canary.value();
    at_a_terminal(
        &world,
        world.keyless(&["setup"]),
        &format!(
            "expect('secrets.toml? [y/N]'); say('y\\n')\n\
             expect('ACME_API_KEY: hosts that may receive it'); say('\\n')\n\
             expect('personal/acme/api-key may go to no host yet'); expect('--to HOST')\n\
             expect('ACME_API_KEY (not shown; empty skips): '); say('changeme\\n')\n\
             expect('does not look like a secret'); expect('skip it: keyless secret add personal/acme/api-key')\n\
             expect('ACME_API_KEY (not shown; empty skips): '); say({value:?} + '\\n')\n\
             expect('OTHER_API_KEY: hosts that may receive it'); say('api.other.test\\n')\n\
             expect('OTHER_API_KEY (not shown; empty skips): '); say('changeme\\n')\n\
             expect('does not look like a secret'); expect('may go to api.other.test')\n\
             expect('OTHER_API_KEY (not shown; empty skips): '); say('\\n')\n\
             expect('1 value is missing: keyless secret add personal/other/api-key'); finish(code=1)"
        ),
    );
    let listed = world.keyless(&["secret", "list", "--json"]).run().data();
    let paths: Vec<_> =
        listed["secrets"].as_array().unwrap().iter().map(|one| &one["path"]).collect();
    assert_eq!(paths, ["personal/acme/api-key"]);
}

/// A path that an agent proposed and a person took without a value: it is there, and its value is missing all the same.
#[test]
fn a_secret_without_a_value_gets_its_first_one() {
    let world = unlocked();
    let mut agent = Agent::connect(&world);
    let mut path = |name: &str| {
        let path = format!("personal/{name}/api-key");
        let proposed = json!({ "suggested_path": path, "metadata": {} });
        let id = agent.ask("secrets_propose_new_path", &proposed);
        approve(&world, &[&id, "--accept"]).ok();
        path
    };
    let (held, asked) = (path("acme"), path("other"));
    let reads = "import os\nos.environ['ACME_API_KEY']\nos.environ['OTHER_API_KEY']\n";
    world.home.write("operator/work/app.py", reads).unwrap();
    let found = format!("ACME_API_KEY={}\n", world.another_value());
    world.home.write("operator/work/.env", found).unwrap();
    let seen = setup(&world, &["--yes"]);
    let came = phases(seen.exits(1));
    let (_, _, data) = came.iter().find(|one| one.0 == "provision").unwrap();
    assert_eq!(*data, json!({ "imported": 1, "left": [], "missing": [asked] }));
    assert!(seen.text().contains(&format!("keyless secret rotate {asked}")), "{}", seen.text());
    let value = world.another_value();
    let script = format!(
        "expect('ACME_API_KEY: hosts that may receive it'); say('\\n')\n\
         expect('OTHER_API_KEY: hosts that may receive it'); say('\\n')\n\
         expect('OTHER_API_KEY (not shown; empty skips): '); say({value:?} + '\\n'); finish(code=0)"
    );
    let root = world.operator_file("work");
    at_a_terminal(&world, world.keyless(&["setup", "--root", root.to_str().unwrap()]), &script);
    for path in [held, asked] {
        let shown = world.keyless(&["secret", "show", &path, "--json"]).run().data();
        assert_eq!(shown["version"], json!(1), "{shown}");
    }
}

/// The project says that it can do without: nothing has failed, and it is told all the same.
#[test]
fn an_optional_value_that_is_missing_fails_nothing() {
    let world = World::with_store();
    let manifest = "optional = [\"team/acme/api-key\"]\n[secret.\"team/acme/api-key\"]\nenv_var = \"ACME_API_KEY\"\n";
    world.home.write("operator/work/.keyless/secrets.toml", manifest).unwrap();
    let seen = setup(&world, &["--yes"]);
    let came = phases(seen.exits(0));
    let (_, status, data) = came.iter().find(|one| one.0 == "provision").unwrap();
    assert_eq!((status.as_str(), &data["missing"]), ("done", &json!(["team/acme/api-key"])));
    let told = "1 optional value is missing: keyless secret add team/acme/api-key";
    assert!(seen.text().contains(told), "{}", seen.text());
}

/// Nobody can be asked then: the others are taken in all the same, and that one is told to be missing.
#[test]
fn without_a_terminal_a_weak_value_stays_missing() {
    let world = World::with_store();
    let held = format!("ACME_API_KEY={}\nOTHER_API_KEY=changeme\n", world.another_value());
    world.home.write("operator/work/.env", held).unwrap();
    world.home.write("operator/work/app.py", "import os\nos.environ['OTHER_API_KEY']\n").unwrap();
    let seen = setup(&world, &["--yes"]);
    let came = phases(seen.exits(1));
    let (_, status, data) = came.iter().find(|one| one.0 == "provision").unwrap();
    assert_eq!((status.as_str(), &data["imported"]), ("failed", &json!(1)), "{data}");
    assert_eq!(data["missing"], json!(["personal/other/api-key"]));
}

/// Where an alias stands, the project has said already which secret it means: that is what is proposed and declared.
#[test]
fn an_alias_keeps_its_path() {
    let world = World::with_store();
    let aliases =
        "GITHUB_TOKEN=@secret:acme/production/github\nPLAIN=@secret:acme/production/plain\n";
    world.home.write("operator/work/.env", aliases).unwrap();
    world.home.write("operator/work/app.py", "import os\nos.environ['GITHUB_TOKEN']\n").unwrap();
    let found = phases(setup(&world, &["--write-manifest"]).exits(0));
    let variables = found[1].2["variables"].as_array().unwrap();
    let paths: Vec<_> = variables.iter().map(|one| one["path"].clone()).collect();
    assert_eq!(paths, ["acme/production/github", "acme/production/plain"].map(Value::from));
    let manifest = fs::read_to_string(world.operator_file("work/.keyless/secrets.toml")).unwrap();
    assert!(manifest.contains("\"acme/production/plain\""), "{manifest}");
    assert!(!manifest.contains("team/github"), "{manifest}");
}

/// A secret may be in what could not be looked into, so it is named; the rest is found all the same.
#[test]
fn folders_that_can_not_be_read_are_named() {
    let world = World::empty();
    world.home.write("operator/work/.env", "GITHUB_TOKEN=\n").unwrap();
    for place in ["closed/.env", "open/b.ts", "open/c.ts"] {
        world.home.write(&format!("operator/work/{place}"), "process.env.X_TOKEN\n").unwrap();
    }
    let closed = ["work/closed", "work/open/b.ts"].map(|place| world.operator_file(place));
    for place in &closed {
        fs::set_permissions(place, fs::Permissions::from_mode(0o000)).unwrap();
    }
    // Nothing is closed to root.
    let is_root = rustix::process::geteuid().is_root();
    let ids = ["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups"];
    let before: &[&str] = if is_root { &ids } else { &[] };
    if is_root {
        let mut chown = Command::new("chown");
        chown.args(["-R", "65534:65534"]).arg(world.home.root());
        assert!(chown.status().unwrap().success());
    }
    let root = world.operator_file("work");
    let words = ["setup", "--scan-only", "--root", root.to_str().unwrap()];
    let scan = |more: &[&str]| {
        let line = [before, &[KEYLESS], &words, more].concat();
        world.keyless(&[]).instead(&line).run()
    };
    let seen = scan(&["--json"]);
    let found = phases(seen.exits(0));
    assert_eq!(found[0].2["unreadable"], json!(["closed", "open/b.ts"]));
    let names = found[1].2["variables"].as_array().unwrap().iter();
    let names: Vec<_> = names.map(|one| one["variable"].as_str().unwrap()).collect();
    assert_eq!(names, ["GITHUB_TOKEN", "X_TOKEN"]);
    let told = scan(&[]).ok();
    assert!(told.contains("2 files; can't be read: closed, open/b.ts"), "{told}");
    let warned = scan(&[]).errors();
    assert!(warned.contains("closed can't be read. Next: let yourself read it"), "{warned}");
    fs::set_permissions(&closed[0], fs::Permissions::from_mode(0o700)).unwrap();
}

/// One byte of another encoding, or a quote that is never closed, hides its own line and no other.
#[test]
fn what_can_not_be_read_hides_nothing_else() {
    let world = World::with_store();
    let (token, acme) = (world.github_token(), world.another_value());
    let mut text = b"# clef d\xe9v\n".to_vec();
    text.extend(format!("GITHUB_TOKEN={token}\n").bytes());
    text.extend(b"CAFE_SECRET=d\xe9j\xe0-vu-2026\n");
    text.extend(format!("LATER_SECRET=\"{acme}\n").bytes());
    let file = world.home.write("work/.env", &text).unwrap();
    let lines = json!({ ".env": [3, 4] });
    let seen = world.keyless(&["setup", "--json", "--scan-only"]).run();
    assert_eq!(phases(seen.exits(0))[0].2["unread_lines"], lines);
    assert!(seen.text().contains("lines 3, 4 of .env can't be read"), "{}", seen.text());

    let seen = world.keyless(&["setup", "--yes", "--leave", "aliases"]).run();
    let said = seen.ok();
    assert!(said.contains("1 variable in 1 file") && said.contains("1 value taken in"), "{said}");
    assert!(said.contains("see the warnings") && !said.contains("in order"), "{said}");
    assert!(seen.errors().contains("of .env can't be read as NAME=value"), "{}", seen.errors());
    // All else stands as it stood, byte for byte.
    let value = text.windows(token.len()).position(|part| part == token.as_bytes()).unwrap();
    let end = value + token.len();
    let alias = b"@secret:team/github/token";
    assert_eq!(fs::read(&file).unwrap(), [&text[..value], alias, &text[end..]].concat());

    fs::write(&file, &text).unwrap();
    let warned = world.agent_sh("true").run().errors();
    assert!(
        warned.contains(".env (GITHUB_TOKEN) holds raw values of this run's secrets"),
        "{warned}"
    );
    let examined = world.keyless(&["doctor"]).run().text();
    assert!(examined.contains(".env holds raw values"), "{examined}");
    assert!(examined.contains("lines 3, 4 of .env can't be read"), "{examined}");
    let imported = world.keyless(&["secret", "import", file.to_str().unwrap(), "--yes"]).run();
    assert!(
        imported.ok().contains("present") && imported.errors().contains("line 3 can't be read")
    );
    // It was ours to have written.
    fs::remove_file(&file).unwrap();
}

/// A file of which nobody knows what it holds is not in order.
#[test]
fn a_file_of_values_that_can_not_be_read_is_warned_of() {
    let world = World::with_store();
    let utf16 = "GITHUB_TOKEN=x\n".encode_utf16().flat_map(u16::to_le_bytes);
    let text: Vec<u8> = [0xff, 0xfe].into_iter().chain(utf16).collect();
    world.home.write("work/.env", &text).unwrap();
    let seen = world.keyless(&["setup", "--json", "--yes"]).run();
    let came = phases(seen.exits(1));
    assert_eq!(came[0].2["unreadable"], json!([".env"]));
    let (_, status, data) = came.last().unwrap();
    let checks = data["checks"].as_array().unwrap().iter();
    let found: Vec<_> = checks
        .filter(|check| check["id"] == "project.unreadable")
        .map(|one| &one["state"])
        .collect();
    assert_eq!((status.as_str(), found), ("failed", vec![&json!("warning")]));
    let seen = world.keyless(&["setup", "--yes"]).run();
    assert!(
        seen.exits(1).text().contains(".env can't be read: see the warnings"),
        "{}",
        seen.text()
    );
    assert!(seen.errors().contains(".env can't be read, so nobody knows"), "{}", seen.errors());
    let examined = world.keyless(&["doctor"]).run().text();
    assert!(examined.contains("warning  project.unreadable"), "{examined}");
}

/// What lies in the settings of a client is told as the doctor tells it, whether it is the value that is stored or another.
#[test]
fn a_value_in_a_clients_settings_leaves_nothing_in_order() {
    let world = World::with_store();
    let (token, other) = (world.github_token(), world.github_token());
    let client = |value: &str| {
        let text = format!(
            "{{\"mcpServers\": {{\"gh\": {{\"env\": {{\"GITHUB_TOKEN\": {value:?}}}}}}}}}\n"
        );
        world.home.write("work/.mcp.json", text).unwrap()
    };
    // Alone: it is missing, and where it lies is said.
    let file = client(&token);
    let alone = world.keyless(&["setup", "--yes"]).run();
    let told = "1 value is missing: keyless secret add team/github/token; a value for it stands in .mcp.json";
    assert!(alone.exits(1).text().contains(told), "{}", alone.text());
    let scanned = world.keyless(&["setup", "--json", "--scan-only"]).run();
    assert_eq!(phases(&scanned)[0].2["raw"], json!({ ".mcp.json": ["GITHUB_TOKEN"] }));
    // The same as in the file of values.
    world.home.write("work/.env", format!("GITHUB_TOKEN={token}\n")).unwrap();
    let seen = world.keyless(&["setup", "--yes", "--leave", "empty"]).run();
    let said = seen.ok();
    assert!(said.contains("see the warnings") && !said.contains("in order"), "{said}");
    let told = format!("{}:1 holds a credential", file.display());
    assert!(seen.errors().contains(&told), "{}", seen.errors());
    assert!(world.keyless(&["doctor"]).run().text().contains(&told));
    // Another one: the first time as the second.
    client(&other);
    for text in [format!("GITHUB_TOKEN={token}\n"), "GITHUB_TOKEN=\n".to_owned()] {
        world.home.write("work/.env", text).unwrap();
        let seen = world.keyless(&["setup", "--yes", "--leave", "empty"]).run();
        let told = "GITHUB_TOKEN stays in .mcp.json: team/github/token holds another value, which keyless run uses";
        assert!(seen.errors().contains(told), "{}", seen.errors());
        let said = seen.exits(1).text();
        assert!(said.contains("not finished: see provision above"), "{said}");
    }
    fs::remove_file(&file).unwrap();
}

/// What the doctor warns of beside the project is counted, so that nobody takes its silence for more than it is.
#[test]
fn what_the_doctor_warns_of_beside_the_project_is_counted() {
    let world = World::with_store();
    world.home.write("keyless/catalog/acme.json", "{}").unwrap();
    let examined = world.keyless(&["doctor", "--json"]).run().data();
    let checks = examined["checks"].as_array().unwrap().iter();
    let count = checks.filter(|check| check["state"] == "warning").count();
    let warnings = if count == 1 { "1 warning".to_owned() } else { format!("{count} warnings") };
    let said = world.keyless(&["setup", "--yes"]).run().ok();
    assert!(
        said.contains(&format!("this project is in order; {warnings}: keyless doctor")),
        "{said}"
    );
}

/// Who wanted no manifest is asked again, and nothing is called done meanwhile.
#[test]
fn what_a_person_declined_is_asked_again() {
    let world = World::with_store();
    world.home.write("work/app.py", "import os\nos.environ['ACME_API_KEY']\n").unwrap();
    let declines = "expect('secrets.toml? [y/N]'); say('n\\n')\n\
                    expect('without a manifest nothing says which values are missing')\n\
                    expect('manifest is left to do: keyless setup --resume asks again'); finish(code=0)";
    for words in [&["setup"][..], &["setup", "--resume"]] {
        let screen = at_a_terminal(&world, world.keyless(words), declines);
        assert!(!screen.contains("every value is there"), "{screen}");
    }
    at_a_terminal(
        &world,
        world.keyless(&["setup", "--resume"]),
        "expect('secrets.toml? [y/N]'); say('y\\n')\n\
         expect('hosts that may receive it'); say('\\n'); expect('empty skips): '); say('\\n')\n\
         expect('1 value is missing'); finish(code=1)",
    );
    // One that is gone is nobody's work done.
    fs::remove_file(world.home.work().join(".keyless/secrets.toml")).unwrap();
    let seen = world.keyless(&["setup", "--resume", "--yes"]).run();
    assert!(seen.exits(1).text().contains("manifest   done"), "{}", seen.text());
}

/// A folder of a project is no project of its own.
#[test]
fn a_folder_of_a_project_is_set_up_with_it() {
    let world = World::with_store();
    let manifest = "optional = [\"team/acme/api-key\"]\n";
    world.home.write("work/.keyless/secrets.toml", manifest).unwrap();
    world.home.write("work/deep/app.py", "import os\nos.environ['OTHER_API_KEY']\n").unwrap();
    let line = format!("cd deep && exec {KEYLESS} setup --yes");
    let seen = world.keyless(&[]).instead(&["/bin/sh", "-c", &line]).run();
    let told = format!("of the project at {}", world.home.work().canonicalize().unwrap().display());
    assert!(seen.ok().contains(&told), "{}", seen.text());
    assert!(!world.home.work().join("deep/.keyless").exists());
    assert_eq!(
        fs::read_to_string(world.home.work().join(".keyless/secrets.toml")).unwrap(),
        manifest
    );
}

/// Before anything is asked that could not be kept.
#[test]
fn without_a_store_one_is_offered_or_missed_at_the_start() {
    let world = World::empty();
    world.home.write("work/app.py", "import os\nos.environ['ACME_API_KEY']\n").unwrap();
    let seen = world.keyless(&["setup", "--yes"]).run();
    let said = seen.exits(1).text();
    assert!(
        seen.errors().contains("no store yet, so no value is taken in. Next: keyless init"),
        "{}",
        seen.errors()
    );
    assert!(
        said.contains("no value is taken in") && !said.contains("nothing is at fault"),
        "{said}"
    );
    assert!(said.contains("declared and has no value") && !said.contains("0 more"), "{said}");
    fs::remove_dir_all(world.home.work().join(".keyless")).unwrap();
    let value = world.canary.value();
    at_a_terminal(
        &world,
        world.keyless(&["setup"]),
        &format!(
            "expect('There is no store yet. Make one now, as keyless init does? [y/N]'); say('y\\n')\n\
             expect('written down?'); say('y\\n')\n\
             expect('secrets.toml? [y/N]'); say('y\\n')\n\
             expect('hosts that may receive it'); say('api.acme.test\\n')\n\
             expect('empty skips): '); say({value:?} + '\\n')\n\
             expect('every value is there'); finish(code=0)"
        ),
    );
}

/// What is known of a database is an address; a variable that names a password holds none.
#[test]
fn a_databases_password_is_no_address() {
    let world = World::with_store();
    world.home.write("work/app.py", "import os\nos.environ['POSTGRES_PASSWORD']\n").unwrap();
    let (value, address) = (world.another_value(), "personal/postgres/database-url");
    at_a_terminal(
        &world,
        world.keyless(&["setup"]),
        &format!(
            "expect('personal/postgres/password'); expect('secrets.toml? [y/N]'); say('y\\n')\n\
             expect('hosts that may receive it'); say('\\n'); expect('empty skips): '); say({value:?} + '\\n')\n\
             expect('every value is there'); finish(code=0)"
        ),
    );
    let add = |path: &str| {
        let add = ["secret", "add", path, "--value-stdin", "--to", "db.example.com:5432"];
        world.keyless(&add).stdin(world.another_value()).run().errors()
    };
    let unlike = "has not the form of what PostgreSQL issues";
    assert!(add(address).contains(unlike), "{}", add(address));
    assert!(!add("shop/postgres/password").contains(unlike));
}

/// Values that stay where an agent reads them, and secrets that no run can use, are told at the end and by the doctor.
#[test]
fn what_setting_up_leaves_unfinished_is_said() {
    let world = World::with_store();
    let line = format!("ACME_API_KEY={}\n", world.another_value());
    let file = world.home.write("operator/work/.env", line).unwrap();
    let root = world.operator_file("work");
    let set_up = |code: i32| {
        let seen = world.keyless(&["setup", "--root", root.to_str().unwrap(), "--yes"]).run();
        (seen.exits(code).text(), seen.errors())
    };
    let (said, warned) = set_up(1);
    assert!(said.contains("hosts are missing: see the warnings"), "{said}");
    assert!(warned.contains("keyless run shows (ACME_API_KEY)"), "{warned}");
    assert!(warned.contains("keyless secret set personal/acme/api-key --to HOST"), "{warned}");
    world.keyless(&["secret", "set", "personal/acme/api-key", "--to", "api.acme.test"]).run().ok();
    let import = ["secret", "import", file.to_str().unwrap(), "--leave", "empty", "--yes"];
    world.keyless(&import).run().ok();
    assert_eq!(fs::read_to_string(&file).unwrap(), "ACME_API_KEY=\n");
    let (said, warned) = set_up(0);
    assert!(said.contains("is in order"), "{said}");
    assert!(!warned.contains("warning"), "{warned}");
    // A variable of another name whose value is a token of a service's form is one too; an example's is none.
    world
        .home
        .write("operator/work/.env.local", format!("MAGIC={}\n", world.github_token()))
        .unwrap();
    world
        .home
        .write("operator/work/.env.example", format!("MAGIC={}\n", world.github_token()))
        .unwrap();
    // Nor does the name of a setting hide one from a person.
    let mode = "operator/work/.env.staging";
    world.home.write(mode, "APP_MODE=q7w2n9d4k1s8z5x3c6v0b2m7j4h9g1f5t8r3y6p2\n").unwrap();
    let (said, warned) = set_up(0);
    assert!(said.contains("nothing is at fault, but see the warnings"), "{said}");
    let doubt =
        ".env.staging holds what looks like a credential under the name of a setting (APP_MODE)";
    assert!(warned.contains(doubt) && warned.contains("--also APP_MODE"), "{warned}");
    assert!(warned.contains(".env.local holds raw values"), "{warned}");
    assert!(!warned.contains(".env.example"), "{warned}");
}
