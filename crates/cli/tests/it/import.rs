//! From `.env` files and the environment into the vault: what is shown, what is kept, what is left behind.

use serde_json::{Value, json};

use crate::{
    terminal::at_a_terminal,
    world::{ALLOWED, World},
};

/// A value that no service issues and everybody would take for one.
fn value(world: &World) -> String {
    world.another_value()
}

fn states(answer: &Value) -> Vec<(String, String, Option<String>)> {
    let text = |value: &Value| value.as_str().map(str::to_owned);
    let row = |row: &Value| {
        (text(&row["variable"]).unwrap(), text(&row["state"]).unwrap(), text(&row["path"]))
    };
    answer["variables"].as_array().unwrap().iter().map(row).collect()
}

fn row(name: &str, state: &str, path: Option<&str>) -> (String, String, Option<String>) {
    (name.to_owned(), state.to_owned(), path.map(str::to_owned))
}

/// The whole way at a terminal: shown without values, asked, kept, aliases left behind; and the work goes on with them.
#[test]
fn a_dotenv_file_becomes_aliases_of_what_is_in_the_vault() {
    let mut world = World::with_store();
    let origin = world.origin(ALLOWED);
    let (acme, smtp) = (world.canary.value().to_owned(), value(&world));
    let file = world.operator_file(".env");
    let text = format!(
        "# of the project\nPORT=8080\nexport ACME_API_KEY='{acme}'  # theirs\nSMTP_PASSWORD=\"{smtp}\"\nGITHUB_TOKEN=${{OTHER}}\nwhat\n"
    );
    std::fs::write(&file, &text).unwrap();
    let options = [
        "secret",
        "import",
        file.to_str().unwrap(),
        "--leave",
        "aliases",
        "--as",
        "ACME_API_KEY=team/acme/key",
        "--also-uncarried",
    ];
    let screen = at_a_terminal(
        &world,
        world.keyless(&options),
        "expect('line 6'); expect('team/acme/key'); expect('in place of 2 values'); expect('[y/N]'); say('y\\n')\n\
         expect('2 values are gone'); finish(code=0)",
    );
    assert!(
        screen.contains("personal/smtp/password") && screen.contains("is a setting by its name"),
        "{screen}"
    );
    let expected = "# of the project\nPORT=8080\nexport ACME_API_KEY=@secret:team/acme/key  # theirs\n\
                    SMTP_PASSWORD=@secret:personal/smtp/password\nGITHUB_TOKEN=${OTHER}\nwhat\n";
    assert_eq!(std::fs::read_to_string(&file).unwrap(), expected);

    world.keyless(&["secret", "set", "team/acme/key", "--to", ALLOWED]).run().ok();
    let script = r#"curl -sS -o /dev/null -H "X: $ACME_API_KEY" https://api.allowed.test/"#;
    world.agent_with(&["--secret", "team/acme/key"], &["sh", "-c", script]).run().ok();
    assert_eq!(origin.requests()[0].header("x"), Some(acme.as_str().into()));
}

/// What a shell or docker compose makes of a line is the credential; what stands there would be stored in its place.
#[test]
fn a_value_that_its_readers_put_together_stays_and_is_named() {
    let world = World::with_store();
    let (part, plain) = (value(&world), value(&world));
    let file = world.operator_file(".env");
    let stays = format!(
        "G_SECRET=pre${{GITHUB_TOKEN}}{part}\nN_SECRET=$'{part}'\nQ_SECRET={part}\\\ndef\n"
    );
    std::fs::write(&file, format!("{stays}ACME_KEY='{plain}'\n")).unwrap();
    let options =
        ["secret", "import", file.to_str().unwrap(), "--leave", "aliases", "--allow-weak", "--yes"];
    let seen = world.keyless(&options).run();
    seen.ok();
    for named in ["G_SECRET (line 1)", "N_SECRET (line 2)", "Q_SECRET (line 3)"] {
        assert!(seen.errors().contains(named), "{}", seen.errors());
    }
    let expected = format!("{stays}ACME_KEY=@secret:personal/acme/key\n");
    assert_eq!(std::fs::read_to_string(&file).unwrap(), expected);
    let secrets = world.keyless(&["secret", "list", "--json"]).run().data();
    assert_eq!(secrets["secrets"].as_array().unwrap().len(), 1, "{secrets}");
}

/// Where two variables find their paths taken, each is offered one of its own.
#[test]
fn two_variables_are_never_offered_one_path() {
    let world = World::with_store();
    let paths = ["team/acme/key", "personal/acme/key"];
    for path in paths {
        let add = ["secret", "add", path, "--value-stdin"];
        world.keyless(&add).stdin(world.another_value()).run().ok();
    }
    let (one, two) = (value(&world), value(&world));
    let text = format!("A_KEY={one}\nB_KEY={two}\nC_KEY={one}\n");
    let file = world.home.write("operator/shop/.env", text).unwrap();
    let [a, b, c] =
        [("A", 0), ("B", 1), ("C", 0)].map(|(name, at)| format!("{name}_KEY={}", paths[at]));
    let options = [
        "secret",
        "import",
        file.to_str().unwrap(),
        "--as",
        &a,
        "--as",
        &b,
        "--as",
        &c,
        "--dry-run",
    ];
    let seen = world.keyless(&[&options[..], &["--json"]].concat()).run().data();
    for (at, offered) in [
        (0, "--as A_KEY=shop/acme/key gives"),
        (1, "--as B_KEY=shop/acme/key-2 gives"),
        (2, "--as C_KEY=shop/acme/key gives"),
    ] {
        let why = seen["variables"][at]["why"].as_str().unwrap();
        assert!(why.contains(offered), "{seen}");
    }
}

/// Broken off before the file was written: the second run finds the values in the vault, and goes on.
#[test]
fn a_second_run_finishes_what_a_first_one_began_and_overwrites_nothing() {
    let world = World::with_store();
    let (ours, other) = (value(&world), value(&world));
    let file = world.operator_file(".env");
    let path = file.to_str().unwrap();
    std::fs::write(&file, format!("ACME_KEY={ours}\nWEAK_TOKEN=changeme\n")).unwrap();
    let import = |options: &[&str]| {
        world.keyless(&[&["secret", "import", path, "--json"], options].concat()).run()
    };
    let weak = row("WEAK_TOKEN", "skipped", Some("personal/weak/token"));
    let planned = import(&["--dry-run"]).data();
    assert_eq!(states(&planned), [row("ACME_KEY", "new", Some("personal/acme/key")), weak.clone()]);
    assert_eq!(import(&[]).exits(2).json()["errors"][0]["code"], json!("terminal_required"));
    assert_eq!(states(&import(&["--yes"]).data())[0].1, "imported");
    let again = import(&["--yes", "--leave", "empty"]).data();
    assert_eq!((states(&again)[0].1.as_str(), &again["replaced"]), ("present", &json!(1)));
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "ACME_KEY=\nWEAK_TOKEN=changeme\n");

    std::fs::write(&file, format!("ACME_KEY={other}\n")).unwrap();
    let taken = import(&["--yes", "--leave", "empty"]).data();
    assert_eq!(states(&taken), [row("ACME_KEY", "taken", Some("personal/acme/key"))]);
    assert_eq!(std::fs::read_to_string(&file).unwrap(), format!("ACME_KEY={other}\n"));
    // Both are kept: the store's is the first one still.
    std::fs::write(&file, format!("ACME_KEY={ours}\n")).unwrap();
    assert_eq!(states(&import(&["--dry-run"]).data())[0].1, "present");

    // Where the store does not open nothing is taken, nor taken away.
    let text = format!("NEW_KEY={other}\n");
    std::fs::write(&file, &text).unwrap();
    let options = ["secret", "import", path, "--yes", "--leave", "empty"];
    world.keyless(&options).without_passphrase().run().exits(2);
    assert_eq!(std::fs::read_to_string(&file).unwrap(), text);
}

#[test]
fn the_environment_and_documents_are_read_too() {
    let world = World::with_store();
    let options = ["secret", "import", "--from-env", "--only", "ACME_KEY", "--yes", "--json"];
    let seen = world.keyless(&options).env_with_value("ACME_KEY", &value(&world)).run().data();
    assert_eq!(seen["imported"], json!(1), "{seen}");
    assert_eq!(seen["variables"].as_array().unwrap().len(), 1, "the others are nobody's business");
    let file = world.operator_file("settings.yaml");
    std::fs::write(&file, format!("smtp:\n  password: {}\n  port: 25\n", value(&world))).unwrap();
    let path = file.to_str().unwrap();
    let seen = world.keyless(&["secret", "import", path, "--yes", "--json"]).run().data();
    assert_eq!(states(&seen), [row("smtp_password", "imported", Some("personal/smtp/password"))]);
    world.keyless(&["secret", "import", path, "--yes", "--leave", "empty"]).run().exits(2);
}

/// An entry of a list has a number for a name; a text there has nothing that says what it is, and is told.
#[test]
fn lists_of_a_document_are_looked_into() {
    let world = World::with_store();
    let token = world.github_token();
    let file = world.operator_file("l.json");
    let text = format!(
        "{{\"providers\": [{{\"token\": \"{token}\"}}], \"hosts\": [\"a.test\", \"b.test\"]}}"
    );
    std::fs::write(&file, text).unwrap();
    let options = ["secret", "import", file.to_str().unwrap(), "--yes"];
    let dry = world.keyless(&[&options[..], &["--dry-run"]].concat()).run();
    assert!(dry.errors().contains("2 texts in lists were not looked at"), "{}", dry.errors());
    let seen = world.keyless(&[&options[..], &["--json"]].concat()).run().data();
    assert_eq!((&seen["imported"], &seen["in_lists"]), (&json!(1), &json!(2)), "{seen}");
    assert_eq!(seen["variables"][0]["variable"], "providers_1_token", "{seen}");
}

/// The value of a line that a later one overrules is in no vault, so it is neither thrown away nor left unnoticed.
#[test]
fn an_overruled_line_is_told_before_and_after() {
    let world = World::with_store();
    let (first, second) = (value(&world), value(&world));
    let text = format!("# ours\nACME_TOKEN='{first}'\nPORT=1\nPORT=2\nACME_TOKEN={second}\n");
    let file = world.home.write("work/.env", text).unwrap();
    world.declares("required = []\n");
    let options = ["secret", "import", file.to_str().unwrap(), "--leave", "aliases", "--yes"];
    let seen = world.keyless(&options).run();
    seen.ok();
    let warned = seen.errors();
    assert!(
        warned.contains("line 2 of ") && warned.contains("take the line out by hand"),
        "{warned}"
    );
    assert_eq!(warned.matches("overrules").count(), 1, "{warned}");
    let left = std::fs::read_to_string(&file).unwrap();
    let alias = "ACME_TOKEN=@secret:personal/acme/token\n";
    assert_eq!(left, format!("# ours\nACME_TOKEN='{first}'\nPORT=1\nPORT=2\n{alias}"));
    let again = world.keyless(&[&options[..], &["--json"]].concat()).run().data();
    assert_eq!(again["overruled_lines"], json!([2]), "{again}");
    let doctor = world.keyless(&["doctor"]).run().text();
    assert!(doctor.contains("later lines overrule (ACME_TOKEN in line 2)"), "{doctor}");
    assert!(!doctor.contains("--leave empty") && !doctor.contains(&first), "{doctor}");
    std::fs::remove_file(file).unwrap();
}

/// An advice that is followed to the letter takes nothing out that a program finds there or nowhere, before anything is stored.
#[test]
fn what_no_request_carries_is_left_out_of_every_advice() {
    let world = World::with_store();
    let (token, secret) = (world.github_token(), value(&world));
    let mode = "APP_MODE=q7w2n9d4k1s8z5x3c6v0b2m7j4h9g1f5t8r3y6p2";
    let text = format!("GITHUB_TOKEN={token}\nJWT_SECRET={secret}\n{mode}\n");
    let file = world.home.write("work/.env", text).unwrap();
    world.declares("required = []\n");
    let doctor = world.keyless(&["doctor"]).run().text();
    assert!(doctor.contains("--leave empty --skip JWT_SECRET takes"), "{doctor}");
    let doubt = "--also APP_MODE --leave aliases --skip JWT_SECRET, if it is one";
    assert!(doctor.contains(doubt), "{doctor}");
    let looked = world.keyless(&["setup", "--scan-only"]).run().errors();
    assert!(looked.contains(doubt), "{looked}");
    std::fs::remove_file(file).unwrap();
}

/// An ordinary application reads the whole address: what stands for the password stands in it, and a shell that reads the file
/// leaves it there.
#[test]
fn an_addresss_password_is_the_secret_and_programs_find_the_address() {
    let world = World::with_store();
    let (password, other) = (value(&world), value(&world));
    let encoded = password.replace('/', "%2F").replace('+', "%2B").replace('@', "%40");
    let text = format!(
        "PORT=1\nexport DATABASE_URL='postgres://app:{encoded}@db.example.com/shop'  # ours\n\
         REDIS_URL=redis://app:{other}@cache.example.com:6379\nJWT_SECRET={other}\n"
    );
    let file = world.home.write("work/.env", text).unwrap();
    let options =
        ["secret", "import", file.to_str().unwrap(), "--leave", "comments", "--yes", "--json"];
    let seen = world.keyless(&options).run();
    let data = seen.data();
    assert_eq!(data["imported"], json!(3), "{data}");
    let of = |name: &str| {
        let rows = data["variables"].as_array().unwrap();
        rows.iter().find(|row| row["variable"] == name).unwrap()
    };
    let database = of("DATABASE_URL");
    assert_eq!(database["to"], json!(["db.example.com:5432"]), "{database}");
    assert_eq!(database["uncarried"], json!(null), "{database}");
    let why = |name: &str| of(name)["uncarried"].as_str().unwrap().to_owned();
    assert!(why("REDIS_URL").contains("an address for Redis"), "{data}");
    assert!(why("JWT_SECRET").contains("signs or encrypts"), "{data}");
    let path = database["path"].as_str().unwrap();
    assert_eq!(
        std::fs::read_to_string(&file).unwrap(),
        format!(
            "PORT=1\n# export DATABASE_URL=@secret:{path}  # ours\n\
             REDIS_URL=redis://app:{other}@cache.example.com:6379\nJWT_SECRET={other}\n"
        )
    );
    // As by setup, its word takes them out as well.
    let said = world.keyless(&[&options[..6], &["--dry-run"]].concat()).run().errors();
    assert!(said.contains("--also-uncarried takes it out, too"), "{said}");
    let also = world.keyless(&[&options[..], &["--also-uncarried"]].concat()).run().data();
    assert_eq!(also["replaced"], json!(2), "{also}");
    assert_eq!(
        std::fs::read_to_string(&file).unwrap(),
        format!(
            "PORT=1\n# export DATABASE_URL=@secret:{path}  # ours\n# REDIS_URL=@secret:{}\n# JWT_SECRET=@secret:{}\n",
            of("REDIS_URL")["path"].as_str().unwrap(),
            of("JWT_SECRET")["path"].as_str().unwrap()
        )
    );
    let shown = world.keyless(&["secret", "show", path, "--json"]).run().data();
    assert_eq!(shown["env_form"], "postgres://app:{}@db.example.com/shop", "{shown}");
    assert_eq!(shown["locations"], json!(["password"]), "{shown}");
    let found = world.agent_sh("set -a; . ./.env; echo $DATABASE_URL; echo $PORT").run().ok();
    let (begin, rest) = found.split_once("kloak_").unwrap();
    assert_eq!((begin, &rest[26..]), ("postgres://app:", "@db.example.com/shop\n1\n"), "{found}");
    // Back in the file, it is what the store has; and the form is taken back as it was given.
    let text = format!("DATABASE_URL=postgres://app:{encoded}@db.example.com/shop\n");
    std::fs::write(&file, text).unwrap();
    let again = world.keyless(&options).run().data();
    assert_eq!(states(&again)[0].1, "present", "{again}");
    // The same password in another address is another value: its line stays.
    let elsewhere = format!("DATABASE_URL=postgres://app:{encoded}@db2.example.com/staging\n");
    std::fs::write(&file, &elsewhere).unwrap();
    world.keyless(&options).run();
    assert_eq!(std::fs::read_to_string(&file).unwrap(), elsewhere);
    // Of who gives the whole address at a rotation the password is taken, and no other address.
    let new = value(&world).replace(['/', '+', '@'], "x");
    let whole = |host: &str| format!("postgres://app:{new}@{host}/shop");
    let rotate = ["secret", "rotate", path, "--value-stdin"];
    let refused = world.keyless(&rotate).stdin(whole("db2.example.com")).run();
    assert!(refused.exits(2).errors().contains("give the password alone"), "{}", refused.errors());
    world.keyless(&rotate).stdin(whole("db.example.com")).run().ok();
    std::fs::write(&file, format!("DATABASE_URL={}\n", whole("db.example.com"))).unwrap();
    let again = world.keyless(&options).run().data();
    assert_eq!(states(&again)[0].1, "present", "{again}");
    world.keyless(&["secret", "set", path, "--env-form", "none"]).run().ok();
    let bare = world.agent_sh("echo $DATABASE_URL").run().ok();
    assert!(bare.starts_with("kloak_"), "{bare}");
    let refused = world.keyless(&["secret", "set", path, "--env-form", "postgres://db"]).run();
    assert!(refused.exits(2).errors().contains("has the mark {} once"), "{}", refused.errors());
}

/// However many: they go in as one change of the vault, and are in one entry of the log.
#[test]
fn many_values_are_one_change_of_the_vault() {
    let world = World::with_store();
    let (file, shared) = (world.operator_file(".env"), value(&world));
    let shared = format!("ACME_KEY={shared}\nACME_TOKEN={shared}\n");
    let lines = (0..30).map(|number| format!("ACME_KEY_{number}={}\n", value(&world)));
    let text: String = std::iter::once(shared).chain(lines).collect();
    std::fs::write(&file, text).unwrap();
    let generation =
        || -> u64 { world.sqlite_says("SELECT generation FROM commitment").parse().unwrap() };
    let before = generation();
    let path = file.to_str().unwrap();
    let one = ["--as", "ACME_KEY=team/acme/key", "--as", "ACME_TOKEN=team/acme/key"];
    let options = ["secret", "import", path, "--yes", "--json"];
    let seen = world.keyless(&[&options[..], &one].concat()).run().data();
    assert_eq!(seen["imported"], json!(32), "{seen}");
    assert_eq!(generation(), before + 1);
    let created: Vec<_> =
        world.log().into_iter().filter(|entry| entry["action"] == "create").collect();
    assert_eq!(created.len(), 1, "who ends it between two entries would have a part of them");
    let paths = created[0]["target"].as_str().unwrap().split(',');
    assert_eq!(paths.count(), 31, "two variables share a path");
    let about = ["audit", "query", "--secret", "team/acme/key", "--json"];
    let about = world.keyless(&about).run().data();
    assert_eq!(about["entries"][0]["action"], "create", "{about}");
}

/// Killed at any point, the file is the old one or the new one, and a value that is gone from it is in the vault.
#[test]
fn nothing_is_lost_when_it_is_killed() {
    let world = World::with_store();
    let file = world.operator_file(".env");
    let lines = |value: &dyn Fn() -> String| -> String {
        let lines = (0..6).map(|number| format!("ACME_KEY_{number}={}\n", value()));
        lines.collect::<Vec<_>>().concat()
    };
    let (text, empty) = (lines(&|| value(&world)), lines(&String::new));
    std::fs::write(&file, &text).unwrap();
    let options = ["secret", "import", file.to_str().unwrap(), "--yes", "--leave", "empty"];
    let kept = || {
        let listed = world.keyless(&["secret", "list", "--json"]).run().data();
        listed["secrets"].as_array().unwrap().len()
    };
    for round in 0..10 {
        let mut import = world.keyless(&options).start();
        std::thread::sleep(std::time::Duration::from_millis(40 * round));
        import.signal(rustix::process::Signal::KILL);
        import.wait();
        let now = std::fs::read_to_string(&file).unwrap();
        let kept = kept();
        assert!(kept == 6 || (now == text && kept == 0), "after {round}: {kept} kept, none half");
    }
    world.keyless(&options).run().ok();
    assert_eq!((std::fs::read_to_string(&file).unwrap(), kept()), (empty, 6));
    world.keyless(&["source", "check"]).run().ok();
}
