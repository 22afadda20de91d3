//! What went wrong, and what helps: the words at the places where somebody new stumbles.

use std::{
    fs::{self, Permissions},
    net::TcpListener,
    os::unix::fs::PermissionsExt as _,
};

use rustix::fs::{CWD, FileType, Mode, mknodat};

use crate::{
    invocation::{Invocation, KEYLESS, Seen},
    proxy::CATALOG,
    terminal::at_a_terminal,
    terminal_ui::tmux::Window,
    world::{TOKEN, VARIABLE, World},
};

#[test]
fn a_passphrase_that_is_too_short_gets_advice_about_passphrases() {
    let world = World::empty();
    world.home.write("operator/short", "brief").unwrap();
    let file = world.operator_file("short");
    let init = ["init", "--passphrase-file", file.to_str().unwrap()];
    let errors = world.keyless(&init).run().exits(2).errors();
    assert!(errors.contains("too short to keep a store with"), "{errors}");
    assert!(errors.contains("next:  take one of 12 characters or more"), "{errors}");
}

#[test]
fn a_times_forms_are_said() {
    let world = World::with_token();
    let query = |since: &str| world.keyless(&["audit", "query", "--since", since, "--json"]).run();
    for since in ["yesterday", "today", "2h", "2020-01-01", "2020-01-01T00:00:00Z"] {
        // A day that ended meanwhile has the entry of its own that is written here.
        let asked = |since: &str| {
            let day = jiff::Zoned::now().date();
            world.keyless(&["secret", "set", TOKEN, "--description", since]).run().ok();
            let found = query(since).data()["entries"].as_array().unwrap().len();
            (day == jiff::Zoned::now().date()).then_some(found)
        };
        let found = asked(since).or_else(|| asked(since));
        assert_ne!(found.unwrap(), 0, "{since}");
    }
    let refused = world.keyless(&["audit", "query", "--since", "some day"]).run();
    let errors = refused.exits(2).errors();
    assert!(errors.contains("2026-02-08, today, yesterday, or how long ago"), "{errors}");
}

#[test]
fn the_next_step_is_one() {
    let world = World::with_token();
    // A verb's own page, where its arguments do not fit.
    world.home.write("work/.env", format!("{VARIABLE}=\n")).unwrap();
    let import = ["secret", "import", ".env", "--only", "NOPE", "--yes"];
    let errors = world.keyless(&import).run().exits(2).errors();
    assert!(errors.contains("--only NOPE: there is no such variable in .env"), "{errors}");
    assert!(errors.contains("see keyless secret import --help"), "{errors}");
    assert!(!errors.contains(VARIABLE), "the others are not asked about: {errors}");
    // Where there is no repository, one is needed; the folder's owner is not to blame.
    let errors = world.keyless(&["hooks", "install"]).run().exits(3).errors();
    assert!(errors.contains("next:  run it inside a git repository"), "{errors}");
    // A job has variables, and neither sources nor a person.
    let manifest = format!("required = [\"{TOKEN}\"]\n");
    world.declares(manifest);
    let job = world.keyless(&["--ci", "run", "--secret", TOKEN, "--", "true"]);
    let errors = job.without_passphrase().run().exits(1).errors();
    assert!(errors.contains("next:  set one of the variables that it names"), "{errors}");
}

#[test]
fn who_begins_with_agents_is_told_what_is_meant() {
    let world = World::with_token();
    let uri = "nl://acme.corp/bot/1.0.0";
    let agent = |verb: &str| world.keyless(&["agent", verb, uri]).run();
    assert!(
        agent("show")
            .exits(3)
            .errors()
            .contains("There is no such agent. (nl://acme.corp/bot/1.0.0)")
    );
    let register = ["agent", "register", uri];
    let said = world.keyless(&register).run().ok();
    assert!(said.contains("It may use no secret until there is a grant"), "{said}");
    // By its name, as long as one has it.
    let shown = agent("show").ok();
    assert!(shown.contains("\nthreat:          0 ("), "{shown}");
    assert!(!shown.contains('{'), "words, and no JSON among them: {shown}");
    let errors = agent("suspend").exits(2).errors();
    assert!(errors.contains("it has not acted yet"), "{errors}");
    assert!(errors.contains("does not fit how things stand"), "{errors}");
    agent("activate").ok();
    let errors = agent("activate").exits(2).errors();
    assert!(errors.contains("it is active already"), "{errors}");
    // What is granted to nobody, or names nothing, is said.
    let grant = |pattern: &str| {
        let create = ["grant", "create", "--agent", uri, "--secret", pattern, "--for", "1h"];
        let made = world.keyless(&create).run();
        made.ok();
        made.errors()
    };
    assert!(!grant("api/*").contains("warning"));
    let strange = ["grant", "create", "--agent", "nl://acme.corp/bott/1.0.0", "--secret", "api/*"];
    let strange = world.keyless(&[&strange[..], &["--for", "1h"]].concat()).run();
    let said = strange.errors();
    assert!(said.contains("no agent is registered as nl://acme.corp/bott/1.0.0"), "{said}");
    let idle = grant("apis/*");
    assert!(idle.contains("warning: apis/* names no secret so far"), "{idle}");
    let said = world.keyless(&register).run().ok();
    assert!(said.contains("There are grants for it already"), "{said}");
    let errors = agent("suspend").exits(2).errors();
    assert!(errors.contains("several agents have this name; say which instance"), "{errors}");
    let explain = ["grant", "explain", "--agent", uri, "team/api/nope"];
    let errors = world.keyless(&explain).run().errors();
    assert!(errors.contains("there is no secret team/api/nope in the store"), "{errors}");
    // An action without the request that it belongs in, and a reference without its beginning.
    world.home.write("work/action.json", r#"{"type":"exec","template":"true"}"#).unwrap();
    let errors = world.keyless(&["action", "submit", "action.json"]).run().exits(2).errors();
    assert!(errors.contains("an action alone") && errors.contains("keyless schema"), "{errors}");
    assert!(errors.contains("action.json: "), "{errors}");
    // With the place in the file, and which request of several.
    let good = serde_json::json!({"nl_version": "1.0", "request_id": "1",
        "agent": {"agent_uri": "nl://acme.corp/bot/1.0.0", "instance_id": "1"},
        "action": {"type": "exec", "template": "true"}});
    for (text, words) in [
        ("{\n  \"nl_version\": 1.0,,\n}".to_owned(), "action.json: this is no JSON: "),
        ("{\n  \"nl_version\": 1.0,,\n}".to_owned(), "line 2 column 21"),
        (format!("[{good}, {{}}]"), "action.json, request 2: "),
    ] {
        world.home.write("work/action.json", text).unwrap();
        let errors = world.keyless(&["action", "submit", "action.json"]).run().exits(2).errors();
        assert!(errors.contains(words), "{words}: {errors}");
    }
    let ran = world.keyless(&["exec", "--", "echo {{api/TOKEN}}"]).run();
    assert_eq!(ran.ok(), "{{api/TOKEN}}\n");
    assert!(
        ran.errors().contains("a reference to a secret is {{nl:api/TOKEN}}"),
        "{}",
        ran.errors()
    );
    let errors = world.keyless(&["exec", "--timeout", "1", "--", "sleep 9"]).run().errors();
    assert!(errors.contains("--timeout SECONDS"), "{errors}");
}

/// Twenty-four words are copied by hand from rows, on a narrow screen too; and one value is one.
#[test]
fn a_new_phrase_stands_in_rows() {
    let world = World::with_token();
    let add = world.keyless(&["vault", "envelope", "change", "recovery"]);
    let window = Window::open(&world, add, (80, 24));
    window.seen(&["Recovery phrase, shown this once", "Is it written down?"]);
    let screen = window.screen(false);
    let rows: Vec<Vec<&str>> = screen
        .lines()
        .filter(|line| line.starts_with("    "))
        .map(|line| line.split_whitespace().collect())
        .collect();
    assert_eq!(rows.iter().map(Vec::len).collect::<Vec<_>>(), [6, 6, 6, 6], "{screen}");
    window.say("n");
    window.press("Enter");
    window.closed();

    let value = world.github_token();
    world.home.write("work/.env", format!("GITHUB_TOKEN={value}\n")).unwrap();
    let setup = world.keyless(&["setup", "--yes"]).run().text();
    assert!(setup.contains("1 value taken in"), "{setup}");
    // It was the operator's; the agent's side is searched without it.
    std::fs::remove_file(world.home.work().join(".env")).unwrap();
}

/// The operator's verbs say so in an agent's session, where they would find no store and no broker.
#[test]
fn in_an_agents_session_the_operators_verbs_say_where_they_belong() {
    let world = World::with_token();
    let script = format!(
        "for verb in init lock unlock web approve ui 'secret list'; do {KEYLESS} $verb 2>&1; echo \"exit $?\"; done; \
         {KEYLESS} status"
    );
    let said = world.agent_sh(&script).run().ok();
    assert_eq!(said.matches("error: This is an agent's session").count(), 7, "{said}");
    assert_eq!(said.matches("next:  run it outside of keyless run").count(), 7, "{said}");
    assert_eq!(said.matches("exit 5").count(), 7, "{said}");
    assert!(said.contains("\nThis is an agent's session"), "status: {said}");
    assert!(!said.contains("keyless init"), "{said}");
}

#[test]
fn a_command_line_that_cannot_be_read_has_a_next_step_too() {
    let world = World::empty();
    let told = |words: &[&str], says: &[&str]| {
        let errors = world.keyless(words).run().exits(2).errors();
        for said in says {
            assert!(errors.contains(said), "{words:?}: {errors}");
        }
        assert!(!errors.contains("For more information"), "{errors}");
    };
    told(
        &["secret", "add", "GITHUB_TOKEN"],
        &["error: ", "such as team/github/token", "next:  see keyless secret add --help.\n"],
    );
    told(&["secret", "lst"], &["list", "next:  see keyless secret --help.\n"]);
    told(&["nonsense"], &["next:  see keyless --help.\n"]);
}

#[test]
fn what_is_no_argument_is_not_told_as_one() {
    let world = World::with_token();
    let told = |seen: &Seen, status: i32, says: &[&str]| {
        let errors = seen.exits(status).errors();
        for said in says {
            assert!(errors.contains(said), "{errors}");
        }
        assert!(!errors.contains("The arguments do not fit"), "{errors}");
    };
    let run = world.keyless(&["run", "--", "true"]).env("X", "@secret:nonsense").run();
    told(&run, 2, &["The session can't be had", "the variable X is an alias of no secret"]);
    world.add("team/idle/key", &[]).ok();
    let run = world.keyless(&["run", "--secret", "team/idle/key", "--", "true"]).run();
    told(&run, 2, &["keyless secret set team/idle/key --to HOST"]);
    let accept = world.keyless(&["audit", "accept-break", "--reason", "x"]).run();
    told(&accept, 2, &["does not fit how things stand", "there is no break to accept"]);
    let restore = ["secret", "restore", TOKEN, "--version", "9"];
    let told_next =
        ["The secret has no such version.", "next:  see which there are: keyless secret versions"];
    told(&world.keyless(&restore).run(), 3, &told_next);
    let web = World::empty().keyless(&["web"]).run();
    told(&web, 3, &["next:  run keyless init"]);
    // Who sits at a terminal is that person.
    told(&world.keyless(&["web"]).run(), 5, &["next:  have the person run keyless unlock"]);
    at_a_terminal(
        &world,
        world.keyless(&["web"]),
        "expect('next:  run keyless unlock'); finish(code=5)",
    );
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let serve = world.keyless(&["serve", "--http", &address]).run();
    told(&serve, 2, &["The address can't be listened at.", "next:  take another address or port"]);
    assert_eq!(world.keyless(&["audit", "tail", "-n", "0"]).run().ok(), "None was asked for.\n");
}

/// A slip at the second prompt does not throw away what came before.
#[test]
fn a_new_passphrase_is_asked_for_until_it_can_be_used() {
    let world = World::empty();
    at_a_terminal(
        &world,
        world.keyless(&["init"]).without_passphrase(),
        "expect('characters or more): '); say('short\\n'); expect('too short')\n\
         expect('characters or more): '); say('correct horse battery\\n'); expect('Once more: ')\n\
         say('correct horse batery\\n'); expect('The two passphrases differ.')\n\
         expect('characters or more): '); say('correct horse battery\\n'); expect('Once more: ')\n\
         say('correct horse battery\\n'); expect('Made the store')\n\
         expect('written down?'); say('y\\n'); finish(code=0)",
    );
}

/// What is told as the reason is the reason, and what is told to do helps.
#[test]
fn an_error_names_the_reason_and_what_helps() {
    let world = World::with_token();
    let told = |words: &[&str]| world.keyless(words).run().exits(3).errors();
    let errors = told(&["secret", "validate"]);
    assert!(errors.contains("keyless setup writes a manifest there"), "{errors}");
    assert!(!errors.contains("check the path"), "{errors}");
    let bad = |path: &str| world.keyless(&["secret", "add", path]).run().exits(2).errors();
    let errors = bad("team/GitHub/API_KEY");
    assert!(
        errors.contains("segment 2 has `G` in it") && errors.contains("team/github/api-key?"),
        "{errors}"
    );
    let errors = bad("bad path");
    assert!(errors.contains("segment 1 has a space in it"), "{errors}");
    let errors = told(&["action", "submit", "nope.json"]);
    assert!(errors.contains("nope.json"), "{errors}");
    let reveal = world.keyless(&["secret", "reveal", TOKEN]).without_passphrase();
    let script = "expect('Passphrase'); say('\\x04'); finish(signal=2)";
    let screen = at_a_terminal(&world, reveal, script);
    assert!(!screen.contains("no terminal"), "{screen}");
}

/// The same of what is not there or not private, where a sidecar or somebody without a home looks for it.
#[test]
fn an_error_names_the_place_and_what_helps() {
    let world = World::with_token();
    let told = |run: Invocation<'_>, code: i32, says: &[&str]| {
        let errors = run.run().exits(code).errors();
        for said in says {
            assert!(errors.contains(said), "{said}: {errors}");
        }
        errors
    };
    let no_home = |home: &str| world.keyless(&["status"]).env("KEYLESS_HOME", "").env("HOME", home);
    for errors in [
        told(no_home(""), 3, &["neither HOME nor KEYLESS_HOME is set", "export HOME=FOLDER"]),
        told(no_home("some/folder"), 3, &["absolute path", "some/folder", "KEYLESS_HOME=FOLDER"]),
    ] {
        assert!(!errors.contains("check the path"), "{errors}");
    }
    let explain = ["egress", "explain", "--session", "nope", "https://api.allowed.test/"];
    told(world.keyless(&explain), 3, &["nope", "keyless session list"]);

    world.home.write("operator/catalog.yaml", CATALOG).unwrap();
    fs::create_dir(world.operator_file("mounted")).unwrap();
    let place = |name: &str| world.operator_file(name).display().to_string();
    let (catalog, mounted, key) = (place("catalog.yaml"), place("mounted"), place("key"));
    let nowhere = ["--catalog", "nope.yaml", "--key-file", &key];
    for command in [
        &["proxy", "--secrets-dir", &mounted, "--listen", "127.0.0.1:0"][..],
        &["placeholders", "--session", "s"],
    ] {
        let says = ["the catalog nope.yaml: it is not there", "docs/fleet.md", "check the path"];
        let errors = told(world.keyless(&[command, &nowhere].concat()), 3, &says);
        assert!(!errors.contains("correct the catalog"), "{errors}");
    }
    let files = ["--catalog", &catalog, "--key-file", &key];
    let proxy = [&["proxy", "--secrets-dir", &mounted, "--listen", "127.0.0.1:0"], &files[..]];
    let errors = told(world.keyless(&proxy.concat()), 3, &["mounted/", "check the path"]);
    assert!(!errors.contains("source check"), "{errors}");
    fs::write(&key, "a key that is long enough\n").unwrap();
    fs::set_permissions(&key, Permissions::from_mode(0o644)).unwrap();
    let placeholders = [&["placeholders", "--session", "s"], &files[..]].concat();
    told(world.keyless(&placeholders), 2, &["open to everybody", "chmod 600"]);
    fs::set_permissions(&key, Permissions::from_mode(0o640)).unwrap();
    world.keyless(&placeholders).run().ok();
    // What has no end, and what nobody writes into.
    let endless = [&proxy.concat()[..], &["--forward-token", "/dev/zero"]].concat();
    fs::set_permissions(&mounted, Permissions::from_mode(0o700)).unwrap();
    told(world.keyless(&endless), 3, &["/dev/zero: it is no regular file", "check the path"]);
    for words in [["action", "submit", "/dev/zero"], ["grant", "create", "--file=/dev/zero"]] {
        told(world.keyless(&words), 3, &["/dev/zero: file too large"]);
    }
    for file in [&key, &catalog] {
        fs::remove_file(file).unwrap();
        mknodat(CWD, file, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
        told(
            world.keyless(&placeholders),
            if file == &key { 3 } else { 2 },
            &["it is no regular file"],
        );
    }
}

/// What follows a slip at a terminal is typed once more, and into no shell.
#[test]
fn what_is_mistyped_is_asked_for_again() {
    let world = World::with_store();
    let passphrase = fs::read_to_string(world.operator_file("passphrase")).unwrap();
    let (passphrase, value) = (passphrase.trim(), world.canary.value());
    let add = ["secret", "add", TOKEN, "--to", "api.test"];
    let script = format!(
        "expect('Passphrase: '); say('mistyped words\\n'); expect('type it again'); expect('Passphrase: ')\n\
         say({passphrase:?} + '\\n'); expect('Value (not shown): '); say('short\\n'); expect('type it again')\n\
         expect('Value (not shown): '); say({value:?} + '\\n'); expect('Added'); finish(code=0)"
    );
    at_a_terminal(&world, world.keyless(&add).without_passphrase(), &script);
    // Not for ever; and what was typed ahead by then is gone.
    let shell = "stty -echo; \"$@\"; read -r -t 1 line; echo \"left: [$line]\"; exit 5";
    let reveal = ["bash", "-c", shell, "bash", KEYLESS, "secret", "reveal", TOKEN];
    let script = "for _ in range(2):\n    expect('Passphrase: '); say('mistyped words\\n'); expect('type it again')\n\
                  expect('Passphrase: '); say('mistyped words\\na value\\n'); expect('left: []'); finish(code=5)";
    at_a_terminal(&world, world.keyless(&[]).without_passphrase().instead(&reveal), script);
    // A file would be as wrong each time.
    world.home.write("operator/wrong", "another passphrase\n").unwrap();
    let file = world.operator_file("wrong");
    let list = ["secret", "versions", TOKEN, "--passphrase-file", file.to_str().unwrap()];
    let errors = world.keyless(&list).run().exits(5).errors();
    assert_eq!(errors.matches("error:").count(), 1, "{errors}");
}

#[test]
fn where_no_request_can_go_is_said() {
    let world = World::with_store();
    let said = |host: &str| {
        let path = format!("team/{}/key", host.split(['.', ':']).next().unwrap());
        world.add(&path, &["--to", host, "--env", "KEY"]).errors()
    };
    for (host, why) in [
        ("smtp.corp.example:587", "port 587 is for mail or shells, and refused (port_refused)"),
        ("cache.corp.example:6379", "port 6379 is Redis's, which the proxy puts no value into"),
        ("db.corp.example:3306", "port 3306 is MySQL's"),
        ("files.corp.example:21", "port 21 is FTP's"),
        ("bus.corp.example:4222", "port 4222 is NATS's"),
    ] {
        let warned = said(host);
        assert!(warned.contains(why) && warned.contains("keyless exec --host"), "{warned}");
    }
    let warned = said("githubcom");
    assert!(warned.contains("githubcom is a name of one word"), "{warned}");
    assert!(!said("pg.corp.example:5432").contains("no request carries"));
}

#[test]
fn a_limit_that_was_set_is_taken_back() {
    let world = World::with_token();
    let set =
        |most: &str| world.keyless(&["secret", "set", TOKEN, "--max-occurrences", most]).run();
    assert!(set("2").ok().contains("max_occurrences: none -> 2"));
    assert!(set("none").ok().contains("max_occurrences: 2 -> none"));
    let errors = set("0").exits(2).errors();
    assert!(errors.contains("a number from 1 on, or none"), "{errors}");
}

/// Who looks for the broker with `ps`, `pgrep` or `ss` looks for its name.
#[test]
fn the_broker_is_found_by_its_name() {
    let world = World::with_token();
    world.keyless(&["unlock"]).run().ok();
    let pid = world.keyless(&["status", "--json"]).run().data()["broker"]["pid"].to_string();
    let of = |file: &str| fs::read_to_string(format!("/proc/{pid}/{file}")).unwrap();
    assert_eq!(of("comm"), "keyless\n");
    assert!(of("cmdline").starts_with("keyless\0broker\0"), "{}", of("cmdline"));
}

/// The phrase leaves nothing to scroll back to, and who breaks off there is told what is left to do.
#[test]
fn a_phrase_is_shown_on_a_screen_of_its_own() {
    let world = World::empty();
    let pass = world.another_value();
    let script = format!(
        "expect(': '); say({pass:?} + '\\n'); expect(': '); say({pass:?} + '\\n')\n\
         expect('written down?'); say('\\x03'); expect('change recovery shows another'); finish(code=2)"
    );
    let screen = at_a_terminal(&world, world.keyless(&["init"]).without_passphrase(), &script);
    let (before, shown) = screen.split_once("\u{1b}[?1049h").unwrap();
    let (shown, after) = shown.split_once("\u{1b}[?1049l").unwrap();
    assert!(shown.contains("Recovery phrase, shown this once"), "{screen}");
    let last = shown.lines().find(|line| line.starts_with("    ")).unwrap().trim();
    assert!(!before.contains(last) && !after.contains(last), "{screen}");
}

#[test]
fn lock_says_what_it_cuts_off() {
    let world = World::with_token();
    world.keyless(&["unlock"]).run().ok();
    let mut run = world.keyless(&["run", "--", "sleep", "60"]).without_passphrase().start();
    crate::world::wait_until("its session is open", || {
        let status = world.keyless(&["status", "--json"]).run().data();
        status["broker"]["sessions"] == 1
    });
    let locked = world.keyless(&["lock"]).run().ok();
    assert!(locked.contains("Locked; with it 1 session:"), "{locked}");
    run.signal(rustix::process::Signal::TERM);
    run.wait();
}

/// The standard library's and the system's words are nobody's advice.
#[test]
fn what_is_wrong_is_said_in_plain_words() {
    let world = World::with_store();
    let told = |words: &[&str], code: i32| {
        let seen = world.keyless(words).run();
        seen.exits(code).text() + &seen.errors()
    };
    assert!(told(&["audit", "tail", "--lines", "x"], 2).contains("it is no whole number"));
    let grant = [
        "grant",
        "create",
        "--agent",
        "nl://a.test/b/1.0.0",
        "--secret",
        "a/b/c",
        "--max-uses",
        "0",
    ];
    assert!(told(&grant, 2).contains("it has to be 1 or more"));
    assert!(told(&["catalog", "list", "nosuch"], 0).contains("Nothing in the catalog has nosuch"));
    assert!(told(&["catalog", "validate", "nofile"], 3).contains("next:"));
    let route = |name: &'static str| ["source", "add", name, "--type", "env", "--route", "team/"];
    told(&route("one"), 0);
    assert!(told(&route("two"), 2).contains("it leads to the source one already"));
    let rule = ["secret", "add", "a/b/c", "--to", "a.test", "--allow", "POST /a graphql:quer"];
    assert!(told(&rule, 2).contains("not \"quer\""));
}

/// The opener may be there without a browser.
#[test]
fn a_page_that_no_browser_took_is_not_told_as_opened() {
    let world = World::with_store();
    world.keyless(&["unlock"]).run().ok();
    let opener = world.home.write("bin/xdg-open", "#!/bin/sh\nexit 3\n").unwrap();
    fs::set_permissions(&opener, Permissions::from_mode(0o755)).unwrap();
    let path = format!("{}:{}", opener.parent().unwrap().display(), std::env::var("PATH").unwrap());
    let seen = world.keyless(&["web", "--open", "--json"]).env("PATH", path).run();
    assert_eq!(seen.data()["opened"], serde_json::json!(false), "{}", seen.text());
}
