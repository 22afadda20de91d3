//! Real git, real commits: what is checked, and what becomes of hooks that were there.

use std::{
    fs,
    os::unix::{ffi::OsStrExt as _, fs::PermissionsExt as _},
    process::Command,
};

use serde_json::json;

use crate::{
    invocation::{KEYLESS, Seen},
    world::{TOKEN, World},
};

/// A word that a machine made up, in the form of a service's token, from pieces.
fn token() -> String {
    format!("ghp_{}", "Zk3v9QwT1rXb7LmN5pYc2HsDf8GjKa4EuVoR")
}

fn git(world: &World, arguments: &[&str]) -> Seen {
    let identity = ["-c", "user.name=t", "-c", "user.email=t@example.com"];
    world.keyless(&[]).instead(&[&["git"], &identity[..], arguments].concat()).run()
}

fn commit(world: &World, file: &str, text: &str) -> Seen {
    world.home.write(&format!("work/{file}"), text).unwrap();
    git(world, &["add", "-A"]).ok();
    git(world, &["commit", "-q", "-m", file])
}

#[test]
fn a_commit_holds_no_secret_and_no_alias_of_nothing() {
    let world = World::with_token();
    git(&world, &["init", "-q"]).ok();
    world.keyless(&["hooks", "install"]).run().ok();
    commit(&world, ".env.example", &format!("TOKEN=@secret:{TOKEN}\n")).ok();

    let refused = commit(&world, "config.yaml", &format!("a: 1\nkey: {}\n", token()));
    let said = refused.exits(1).text() + &refused.errors();
    assert!(said.contains("config.yaml:2: looks like a credential"), "{said}");
    assert!(!said.contains(&token()), "{said}");
    commit(&world, "config.yaml", &format!("key: {} # keyless:not-a-secret\n", token())).ok();

    let refused = commit(&world, "mcp.json", "{\"env\": {\"A\": \"@secret:team/none/such\"}}\n");
    assert!((refused.exits(1).text() + &refused.errors()).contains("not known here"));
    let found = world.keyless(&["hooks", "check", "--staged", "--json"]).run();
    assert_eq!(found.exits(1).json()["data"]["findings"][0]["kind"], json!("alias"));
    world.declares("required = [\"team/none/such\"]\n");
    commit(&world, "more.txt", "the manifest names it now\n").ok();
}

/// Its own settings name it, which an agent may have written.
#[test]
fn a_program_that_the_repository_names_is_not_run() {
    let world = World::with_token();
    git(&world, &["init", "-q"]).ok();
    world.home.write("work/a.txt", "a\n").unwrap();
    git(&world, &["add", "a.txt"]).ok();
    let ran = world.home.work().join("ran");
    let program = format!("touch {} #", ran.display());
    git(&world, &["config", "core.fsmonitor", &program]).ok();
    world.keyless(&["hooks", "check", "--staged"]).run().ok();
    assert!(!ran.exists());
    git(&world, &["status"]).ok();
    assert!(ran.exists(), "git runs it elsewhere");
}

/// Git fetches what it lacks, and its settings say by which program.
#[test]
fn a_server_that_the_repository_names_is_not_asked_for_what_is_missing() {
    let world = World::with_token();
    git(&world, &["init", "-q"]).ok();
    world.home.write("work/a.txt", "a\n").unwrap();
    git(&world, &["add", "a.txt"]).ok();
    git(&world, &["commit", "-q", "-m", "a"]).ok();
    let ran = world.home.work().join("ran");
    let program = world.home.write("work/.git/u", "").unwrap();
    fs::write(&program, format!("#!/bin/sh\ntouch {}\n", ran.display())).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    let missing = "1234567890123456789012345678901234567890";
    git(&world, &["update-index", "--add", "--cacheinfo", &format!("100644,{missing},miss.txt")])
        .ok();
    for (key, value) in [
        ("core.repositoryFormatVersion", "1"),
        ("extensions.partialClone", "evil"),
        ("remote.evil.url", world.home.work().to_str().unwrap()),
        ("remote.evil.promisor", "true"),
        ("remote.evil.uploadpack", program.to_str().unwrap()),
        ("protocol.file.allow", "always"),
        ("protocol.ext.allow", "always"),
    ] {
        git(&world, &["config", key, value]).ok();
    }
    let check =
        |arguments: &[&str]| world.keyless(&[&["hooks", "check"], arguments].concat()).run();
    let said = check(&["--staged"]).exits(3).errors();
    assert!(said.contains("git does not have the bytes of miss.txt"), "{said}");
    git(&world, &["config", "remote.evil.url", &format!("ext::{}", program.display())]).ok();
    check(&["--staged"]).exits(3);
    check(&["--commits", "HEAD"]).ok();
    check(&["--commits", missing]).exits(3);
    assert!(!ran.exists());
    git(&world, &["cat-file", "-p", missing]);
    assert!(ran.exists(), "git runs it elsewhere");
}

/// Settings and code that a program reads itself get the alias as it stands there.
#[test]
fn an_alias_that_nothing_resolves_is_not_committed() {
    let world = World::with_token();
    git(&world, &["init", "-q"]).ok();
    world.keyless(&["hooks", "install"]).run().ok();
    for (file, line) in
        [("app.yaml", "token: \"@secret:PATH\"\n"), ("prog.py", "t = '@secret:PATH'\n")]
    {
        let line = line.replace("PATH", TOKEN);
        let said = commit(&world, file, &line).exits(1).errors();
        let expected = format!("{file}:1: nothing resolves @secret:{TOKEN} in this file");
        assert!(said.contains(&expected) && said.contains("start it with keyless run"), "{said}");
        commit(&world, file, &line.replace('\n', " # keyless:not-a-secret\n")).ok();
    }
    commit(&world, ".mcp.json", &format!("{{\"env\": {{\"A\": \"@secret:{TOKEN}\"}}}}\n")).ok();
    // A value that nobody typed, under a name that says nothing.
    let said =
        commit(&world, ".env.test", "A=1\nNEXTAUTH=q7w2n9d4k1s8z5x3c6v0b2m7j4h9g1f5t8r3y6p2\n");
    assert!(
        said.exits(1).errors().contains(".env.test:2: looks like a credential"),
        "{}",
        said.errors()
    );
    let said = commit(
        &world,
        ".dev.vars",
        "DATABASE_URL=postgres://app:hunter2secret@db.internal/app\nDB_PASSWORD=Sommer2026!\n",
    );
    let said = said.exits(1).errors();
    assert!(said.contains(".dev.vars:1: looks") && said.contains(".dev.vars:2: looks"), "{said}");
    // Under the name of a service's token its format decides, slashes or not.
    let said = commit(
        &world,
        "settings.py",
        "AWS_SECRET_ACCESS_KEY = 'q9/Zk3v/QwT1rXb7LmN5/Yc2HsDf8Gj/a4EuVoR6'\n",
    );
    assert!(said.exits(1).errors().contains("settings.py:1: looks like"), "{}", said.errors());
}

/// What `setup` and `import` take for a secret's value in a `.env` file is committed by nobody, be it short; what examples
/// have is.
#[test]
fn a_short_secret_in_a_dotenv_file_is_found_under_its_name() {
    let world = World::with_token();
    let check = |text: &str| {
        let file = world.home.write("work/.env", text).unwrap();
        world.keyless(&["hooks", "check", file.to_str().unwrap()]).run()
    };
    for line in [
        "JWT_SECRET=x8fj2kd9s0a7g3h5",
        "ACME_TOKEN=7c1b9e0d5a3f4466",
        "FOO_TOKEN=qT9vX2mK4pL7nR1s",
        "SESSION_SECRET=Zx9!kq27Lm",
        "SECRET_KEY=9d8a7f6b5c4e3d2a1f0b",
    ] {
        let said = check(&format!("# ours\n{line}\n")).exits(1).text();
        assert!(said.contains(".env:2: looks like a credential"), "{line}: {said}");
    }
    check(&format!(
        "JWT_SECRET=changeme\nA_TOKEN=test1234\nB_TOKEN=${{OTHER_2}}\nC_TOKEN=@secret:{TOKEN}\n\
         D_TOKEN=kloak_01hzy3v7q8r9s0t1u2v3w4x5y6\nE_SECRET=your-secret-1\nCACHE_KEY=users-v1\n\
         AUTH_PROVIDER=oauth2-github\nTOKEN_TTL=15minutes\nF_TOKEN=x8fj2kd9s0a7g3h5 # keyless:not-a-secret\n"
    ))
    .exits(0);
}

/// An MCP client hands an alias to its server as it stands, unless that is started by `keyless run`.
#[test]
fn an_alias_of_a_server_that_run_does_not_start_is_not_committed() {
    let world = World::with_token();
    let check = |file: &str, text: &str| {
        let file = world.home.write(&format!("work/{file}"), text).unwrap();
        world.keyless(&["hooks", "check", file.to_str().unwrap()]).run()
    };
    let server = |command: &str| {
        format!(
            "{{\n  \"mcpServers\": {{\n    \"gh\": {{{command},\n      \"env\": {{\"GITHUB_TOKEN\": \"@secret:{TOKEN}\"}}}}\n  }}\n}}\n"
        )
    };
    let bare = server("\"command\": \"sh\", \"args\": [\"-c\", \"gh-mcp\"]");
    for file in [".mcp.json", ".cursor/mcp.json", "claude_desktop_config.json"] {
        let seen = check(file, &bare);
        let said = seen.exits(1).text();
        let expected =
            format!("nothing resolves @secret:{TOKEN} here: the server gh is not started");
        assert!(said.contains(&format!("{file}:4: {expected}")), "{file}: {said}");
        assert!(said.contains("with run -- COMMAND"), "{said}");
    }
    // One that is elsewhere has no command that run could start.
    for written in [format!("@secret:{TOKEN}"), format!("Bearer @secret:{TOKEN}")] {
        let headers = format!(
            "\"type\": \"http\", \"url\": \"https://mcp.test/\",\n      \"headers\": {{\"Authorization\": {written:?}}}"
        );
        let text = format!("{{\"mcpServers\": {{\"gh\": {{{headers}}}}}}}\n");
        let said = check(".mcp.json", &text).exits(1).text();
        assert!(said.contains("the server gh is elsewhere, and is sent these words"), "{said}");
        assert!(said.contains("${GITHUB_TOKEN}") && !said.contains("run -- COMMAND"), "{said}");
    }
    let codex = format!(
        "[mcp_servers.gh]\ncommand = \"gh-mcp\"\n[mcp_servers.gh.env]\nGITHUB_TOKEN = \"@secret:{TOKEN}\"\n"
    );
    let said = check(".codex/config.toml", &codex).exits(1).text();
    assert!(said.contains("config.toml:4: nothing resolves"), "{said}");
    check(
        ".mcp.json",
        &server("\"command\": \"/usr/bin/keyless\", \"args\": [\"run\", \"--\", \"gh-mcp\"]"),
    )
    .exits(0);
}

/// What takes a value out of its file goes by the form of the file, and works.
#[test]
fn what_is_to_be_done_about_a_secret_fits_its_file() {
    let world = World::with_store();
    let token = token();
    for (file, text, next) in [
        (".env", format!("A={token}\n"), "keyless secret import FILE --leave aliases"),
        (
            ".mcp.json",
            format!("{{\"env\": {{\"A\": \"{token}\"}}}}\n"),
            "keyless pack adopt-secret --file",
        ),
        (
            "c.json",
            format!("{{\"token\": \"{token}\"}}\n"),
            "keyless secret import FILE puts the value",
        ),
        ("app.py", format!("t = '{token}'\n"), "keyless secret add PATH keeps the value"),
    ] {
        let path = world.home.write(&format!("work/{file}"), &text).unwrap();
        let said = world.keyless(&["hooks", "check", path.to_str().unwrap()]).run().exits(1).text();
        assert_eq!(said.matches("Next: ").count(), 1, "{said}");
        assert!(said.contains(next), "{file}: {said}");
        assert_eq!(said.contains("--leave"), file == ".env", "{file}: {said}");
    }
}

/// git asks another hook before the commit of a merge.
#[test]
fn a_merge_brings_no_secret_in() {
    let world = World::empty();
    git(&world, &["init", "-q", "-b", "main"]).ok();
    commit(&world, "one", "fine\n").ok();
    git(&world, &["checkout", "-q", "-b", "side"]).ok();
    commit(&world, "two", &format!("key = {}\n", token())).ok();
    git(&world, &["checkout", "-q", "main"]).ok();
    commit(&world, "three", "fine\n").ok();
    let said = world.keyless(&["hooks", "install"]).run().ok();
    assert!(said.contains("cherry-pick"), "{said}");
    let said = git(&world, &["merge", "--no-edit", "side"]);
    let said = said.exits(1).text() + &said.errors();
    assert!(said.contains("two:1: looks like a credential"), "{said}");

    world.keyless(&["hooks", "uninstall"]).run().ok();
    assert!(!world.home.work().join(".git/hooks/pre-merge-commit").exists());
}

/// A bare remote beside the repository, which has one commit there and our hooks.
fn with_remote(world: &World) {
    git(world, &["init", "-q", "-b", "main"]).ok();
    git(world, &["init", "-q", "--bare", "../home/remote.git"]).ok();
    git(world, &["remote", "add", "origin", "../home/remote.git"]).ok();
    let said = world.keyless(&["hooks", "install"]).run().ok();
    assert!(said.contains("pre-push"), "{said}");
    unchecked(world, "one", "fine\n");
    git(world, &["push", "-q", "-u", "origin", "main"]).ok();
}

/// A commit that git asked nobody about.
fn unchecked(world: &World, file: &str, text: &str) -> String {
    world.home.write(&format!("work/{file}"), text).unwrap();
    git(world, &["add", "-A"]).ok();
    git(world, &["commit", "-q", "--no-verify", "-m", file]).ok();
    git(world, &["rev-parse", "HEAD"]).ok().trim_end().to_owned()
}

#[test]
fn a_push_brings_no_secret_that_no_commit_was_asked_about() {
    let world = World::with_token();
    with_remote(&world);
    let brought = unchecked(&world, "config.yaml", &format!("a: 1\nkey: {}\n", token()));
    unchecked(&world, "config.yaml", &format!("a: 1\nb: 2\nkey: {}\n", token()));
    // It is gone in the end, and would be pushed all the same.
    unchecked(&world, "config.yaml", "a: 1\n");
    let said = git(&world, &["push", "-q"]).exits(1).errors();
    let row = format!("config.yaml:2 (commit {}): looks like a credential", &brought[..12]);
    assert!(said.contains(&row) && said.matches("looks like a credential").count() == 1, "{said}");
    assert!(said.contains("git rebase -i") && !said.contains(&token()), "{said}");

    // The same as a branch that the remote has nothing of, and by name.
    git(&world, &["push", "-q", "origin", "main:topic"]).exits(1);
    let seen = world.keyless(&["hooks", "check", "--json", "--commits", "origin/main..main"]).run();
    let seen = seen.exits(1).json();
    assert_eq!(seen["data"]["findings"][0]["commit"], json!(brought));
    assert_eq!(seen["data"]["findings"][0]["line"], json!(2));
    assert_eq!(seen["data"]["whole"], json!(true));

    // What a later commit says to be no secret is none in an earlier one.
    unchecked(&world, "config.yaml", &format!("key: {} # keyless:not-a-secret\n", token()));
    git(&world, &["push", "-q"]).ok();
    // What is there is not looked at again, and what goes away brings nothing.
    git(&world, &["push", "-q", "origin", "main:topic"]).ok();
    git(&world, &["push", "-q", "origin", ":topic"]).ok();
    unchecked(&world, "config.yaml", &format!("new: {}\n", token()));
    git(&world, &["push", "-q", "--no-verify"]).ok();
    unchecked(&world, "two", "fine\n");
    git(&world, &["push", "-q"]).ok();
}

/// What an agent writes about its work is committed with it.
#[test]
fn a_message_holds_no_secret() {
    let world = World::with_token();
    with_remote(&world);
    let with_message = |message: &str, more: &[&str]| {
        git(&world, &[&["commit", "-q", "--allow-empty", "-m", message], more].concat())
    };
    let message = format!("fix the login\n\nit works with {}\n", token());
    let said = with_message(&message, &[]).exits(1).errors();
    assert!(said.contains("(message):3: looks like a credential"), "{said}");
    assert!(said.contains("COMMIT_EDITMSG") && !said.contains(&token()), "{said}");
    with_message(&format!("{} keyless:not-a-secret", token()), &[]).ok();
    // What an editor was shown below is no part of it: a value that goes away is.
    let cut = "# ------------------------ >8 ------------------------";
    world.home.write("work/drafted", format!("drop it\n{cut}\n-key: {}\n", token())).unwrap();
    world.keyless(&["hooks", "check", "--message", "drafted"]).run().ok();
    git(&world, &["push", "-q"]).ok();

    // Nobody was asked about these.
    with_message(&message, &["--no-verify"]).ok();
    let head = git(&world, &["rev-parse", "HEAD"]).ok();
    let said = git(&world, &["push", "-q"]).exits(1).errors();
    let row = format!("(message):3 (commit {}): looks like a credential", &head[..12]);
    assert!(said.contains(&row) && !said.contains(&token()), "{said}");
    git(&world, &["reset", "-q", "--hard", "HEAD~1"]).ok();
    git(&world, &["tag", "-a", "-m", &message, "inner"]).ok();
    git(&world, &["tag", "-a", "-m", "a tag of it", "outer", "inner"]).ok();
    let said = git(&world, &["push", "-q", "origin", "outer"]).exits(1).errors();
    assert!(said.contains("(message of the tag inner):3: looks like a credential"), "{said}");
    assert!(said.contains("git tag -f") && !said.contains(&token()), "{said}");
}

#[test]
fn what_a_push_is_called_does_not_change_what_is_looked_at() {
    let world = World::with_token();
    with_remote(&world);
    unchecked(&world, "two", &format!("key: {}\n", token()));
    git(&world, &["push", "-q", "--no-verify"]).ok();
    unchecked(&world, "two", "fine now\n");
    // A remote by its URL has what was last seen of it, and a ref may be typed with blanks.
    let url = git(&world, &["config", "remote.origin.url"]).ok();
    git(&world, &["push", "-q", url.trim_end(), "HEAD:refs/heads/by-url"]).ok();
    let head = git(&world, &["rev-parse", "HEAD"]).ok();
    let lines = format!("HEAD^{{/fine now}} {} refs/heads/x {}\n", head.trim_end(), "0".repeat(40));
    world.keyless(&["hooks", "check", "--push", "origin"]).stdin(lines).run().ok();
    // What is not known is no reason to find nothing.
    for unknown in ["orign/main..HEAD", "nonsense"] {
        let said = world.keyless(&["hooks", "check", "--commits", unknown]).run();
        assert!(said.exits(3).errors().contains(unknown), "{}", said.errors());
    }
}

/// However many: a person has looked at each.
#[test]
fn many_lines_that_are_marked_later_let_a_push_through() {
    let world = World::with_token();
    with_remote(&world);
    let lines = |mark: &str| -> String {
        let lines: Vec<String> = (0..300).map(|n| format!("key{n}: {}{mark}\n", token())).collect();
        lines.concat()
    };
    unchecked(&world, "two", &lines(""));
    let said = git(&world, &["push", "-q"]).exits(1).errors();
    assert!(said.contains("There is more"), "{said}");
    assert_eq!(said.matches("looks like a credential").count(), 200);
    unchecked(&world, "two", &lines(" # keyless:not-a-secret"));
    git(&world, &["push", "-q"]).ok();
}

/// Of a merge, what neither side has; of a tag, what it stands for.
#[test]
fn whatever_is_pushed_is_looked_at() {
    let world = World::with_token();
    with_remote(&world);
    git(&world, &["checkout", "-q", "-b", "side"]).ok();
    unchecked(&world, "two", "side\n");
    git(&world, &["checkout", "-q", "main"]).ok();
    unchecked(&world, "two", "main\n");
    git(&world, &["merge", "-q", "--no-commit", "side"]).exits(1);
    let merge = unchecked(&world, "two", &format!("key: {}\n", token()));
    let said = git(&world, &["push", "-q"]).exits(1).errors();
    assert!(said.contains(&format!("two:1 (commit {})", &merge[..12])), "{said}");
    git(&world, &["push", "-q", "origin", "side"]).ok();

    git(&world, &["tag", "-a", "-m", "x", "v1"]).ok();
    git(&world, &["reset", "-q", "--hard", "origin/main"]).ok();
    let said = git(&world, &["push", "-q", "--tags"]).exits(1).errors();
    assert!(said.contains("two:1"), "{said}");
    // Another object stands in for it here, and is not what would be pushed.
    let object = git(&world, &["rev-parse", "v1:two"]).ok();
    let harmless = git(&world, &["rev-parse", "main:one"]).ok();
    git(&world, &["replace", object.trim_end(), harmless.trim_end()]).ok();
    git(&world, &["push", "-q", "--tags"]).exits(1);
    git(&world, &["replace", "-d", object.trim_end()]).ok();
    // A file, and a tree, that no commit holds.
    for (name, of) in [("file", "v1:two"), ("tree", "v1^{tree}")] {
        git(&world, &["update-ref", &format!("refs/loose/{name}"), of]).ok();
        let said = git(&world, &["push", "-q", "origin", &format!("refs/loose/{name}")]);
        assert!(said.exits(1).errors().contains("looks like a credential"), "{}", said.errors());
    }
    git(&world, &["push", "-q", "origin", "main^{tree}:refs/loose/fine"]).ok();
    // Somebody else has pushed since: what is there is unknown here.
    let lines = format!("refs/tags/v1 {merge} refs/heads/main {}\n", "1".repeat(40));
    let check = ["hooks", "check", "--push", "origin"];
    world.keyless(&check).stdin(lines.clone()).run().exits(1);
    let said = world.keyless(&check).stdin("no such line\n").run().exits(2).errors();
    assert!(said.contains("--commits REVISION"), "{said}");
}

/// They give nothing away, so only what stands in the end counts.
#[test]
fn a_push_brings_no_alias_of_nothing() {
    let world = World::with_token();
    with_remote(&world);
    unchecked(&world, ".env.example", "TOKEN=@secret:team/none/such\n");
    let last = unchecked(&world, "app.yaml", &format!("token: '@secret:{TOKEN}'\n"));
    let said = git(&world, &["push", "-q"]).exits(1).errors();
    assert!(said.contains(".env.example:1 (commit "), "{said}");
    assert!(said.contains(&format!("app.yaml:1 (commit {}): nothing", &last[..12])), "{said}");
    unchecked(&world, ".env.example", &format!("TOKEN=@secret:{TOKEN}\n"));
    unchecked(&world, "app.yaml", "token: from the environment\n");
    git(&world, &["push", "-q"]).ok();
}

#[test]
fn a_hook_before_pushes_that_was_there_gets_gits_lines_too() {
    let world = World::empty();
    git(&world, &["init", "-q", "-b", "main"]).ok();
    let hook = world.home.work().join(".git/hooks/pre-push");
    let text = "#!/bin/sh\ncat >> ../ran\necho \"$@\" >> ../ran\ntest ! -e forbidden\n";
    world.home.write("work/.git/hooks/pre-push", text).unwrap();
    fs::set_permissions(&hook, fs::Permissions::from_mode(0o755)).unwrap();
    with_remote(&world);
    let ran = fs::read_to_string(world.home.root().join("ran")).unwrap();
    let expected = [" refs/heads/main ", "origin ../home/remote.git"];
    assert!(expected.iter().all(|expected| ran.contains(expected)), "{ran}");
    assert_eq!(ran.lines().count(), 2, "{ran}");
    unchecked(&world, "two", &format!("key = {}\n", token()));
    git(&world, &["push", "-q"]).exits(1);
    git(&world, &["reset", "-q", "--hard", "origin/main"]).ok();
    unchecked(&world, "forbidden", "the other hook refuses\n");
    git(&world, &["push", "-q"]).exits(1);
    world.keyless(&["hooks", "uninstall"]).run().ok();
    assert_eq!(fs::read_to_string(&hook).unwrap(), text);
}

/// One that would take for ever is not let through, and says what helps.
#[test]
fn a_push_is_looked_through_within_its_time() {
    let world = World::empty();
    with_remote(&world);
    let head = unchecked(&world, "two", "fine\n");
    let lines = format!("refs/heads/main {head} refs/heads/main {}\n", "0".repeat(40));
    let check = ["hooks", "check", "--push", "origin", "--within"];
    let seen = world.keyless(&[&check[..], &["0", "--json"]].concat()).stdin(lines.clone()).run();
    assert_eq!(seen.exits(1).json()["data"]["whole"], json!(false));
    let said =
        world.keyless(&[&check[..], &["0"]].concat()).stdin(lines.clone()).run().exits(1).text();
    assert!(said.contains("push fewer commits at a time"), "{said}");
    world.keyless(&[&check[..], &["60"]].concat()).stdin(lines.clone()).run().ok();
}

/// The finding does not show what it found.
#[test]
fn a_files_name_is_no_secret() {
    let world = World::empty();
    git(&world, &["init", "-q"]).ok();
    world.keyless(&["hooks", "install"]).run().ok();
    let said = commit(&world, &format!("notes/{}/a.txt", token()), "fine\n").exits(1).errors();
    assert!(said.contains("notes/ghp_…/a.txt: its name looks like a credential"), "{said}");
    assert!(!said.contains(&token()), "{said}");
}

/// git does not run it either.
#[test]
fn a_hook_that_never_ran_is_told() {
    let world = World::empty();
    git(&world, &["init", "-q"]).ok();
    world.home.write("work/.git/hooks/pre-commit", "#!/bin/sh\nexit 1\n").unwrap();
    let said = world.keyless(&["hooks", "install"]).run().ok();
    assert!(said.contains("is not executable") && !said.contains("runs first"), "{said}");
    assert!(said.contains("chmod +x pre-commit.before-keyless"), "{said}");
    commit(&world, "one", "fine\n").ok();
}

#[test]
fn a_hook_that_was_there_goes_on_as_ever() {
    let world = World::empty();
    git(&world, &["init", "-q"]).ok();
    git(&world, &["config", "core.hooksPath", ".husky"]).ok();
    world
        .home
        .write("work/.husky/pre-commit", "#!/bin/sh\necho ran >> ../ran\ntest ! -e forbidden\n")
        .unwrap();
    let hook = world.home.work().join(".husky/pre-commit");
    fs::set_permissions(&hook, fs::Permissions::from_mode(0o755)).unwrap();
    let before = fs::read(&hook).unwrap();
    for _ in 0..2 {
        let seen = world.keyless(&["hooks", "install", "--json"]).run().data();
        assert_eq!(seen["chained"], json!(true));
    }
    commit(&world, "one", "fine\n").ok();
    commit(&world, "two", &format!("key = {}\n", token())).exits(1);
    fs::remove_file(world.home.work().join("two")).unwrap();
    commit(&world, "forbidden", "the other hook refuses\n").exits(1);
    let ran = fs::read_to_string(world.home.root().join("ran")).unwrap();
    assert_eq!(ran.lines().count(), 3);

    world.keyless(&["hooks", "uninstall"]).run().ok();
    assert_eq!(fs::read(&hook).unwrap(), before);
    let left = fs::read_dir(hook.parent().unwrap()).unwrap().count();
    assert_eq!(left, 1, "nothing of ours is left");

    let shared = world.home.root().join("home/hooks");
    git(&world, &["config", "core.hooksPath", shared.to_str().unwrap()]).ok();
    world.keyless(&["hooks", "install"]).run().exits(2);
    world.keyless(&["hooks", "install", "--shared"]).run().ok();
}

/// husky writes its folder anew at each install of packages, and what is added there with it.
#[test]
fn a_folder_of_huskys_gets_no_hook() {
    let world = World::empty();
    git(&world, &["init", "-q"]).ok();
    git(&world, &["config", "core.hooksPath", ".husky/_"]).ok();
    world.home.write("work/.husky/_/pre-commit", "#!/bin/sh\n").unwrap();
    let errors = world.keyless(&["hooks", "install"]).run().exits(2).errors();
    assert!(errors.contains("keyless hooks check --staged"), "{errors}");
    assert!(errors.contains(".husky/pre-commit"), "{errors}");
    let left = fs::read_dir(world.home.work().join(".husky/_")).unwrap().count();
    assert_eq!(left, 1);
}

/// A package's manifest says what its files may name, and so does that of the repository around it.
#[test]
fn every_manifest_around_a_file_counts() {
    let world = World::with_store();
    git(&world, &["init", "-q"]).ok();
    world.declares("required = [\"team/root/key\"]\n");
    let package = "required = [\"team/package/key\"]\n";
    world.home.write("work/package/.keyless/secrets.toml", package).unwrap();
    world.keyless(&["hooks", "install"]).run().ok();
    let both = "A=@secret:team/package/key\nB=@secret:team/root/key\n";
    commit(&world, "package/.env.example", both).ok();
    let said = commit(&world, ".env.example", both).exits(1).errors();
    assert!(said.contains(".env.example:1: @secret:team/package/key names a secret"), "{said}");
    assert!(!said.contains("team/root/key"), "{said}");
}

/// git reads `:0:name` as a stage and a name.
#[test]
fn no_name_of_a_file_hides_what_is_in_it() {
    let world = World::empty();
    git(&world, &["init", "-q"]).ok();
    world.keyless(&["hooks", "install"]).run().ok();
    commit(&world, "notes", "fine\n").ok();
    for name in ["0:notes", "1:notes", "-n", ":(top)a", "line\nend", " \u{202e}"] {
        let said = commit(&world, name, &format!("key = {}\n", token())).exits(1).errors();
        let rows = said.lines().filter(|line| line.contains("looks like a credential"));
        assert_eq!(rows.count(), 1, "{name:?}: {said}");
        fs::remove_file(world.home.work().join(name)).unwrap();
    }
}

/// Links are looked into too, and submodules are none of this repository's files.
#[test]
fn files_of_every_kind_are_looked_into() {
    let world = World::empty();
    git(&world, &["init", "-q"]).ok();
    let work = world.home.work();
    for sub in ["sub", "was"] {
        git(&world, &["init", "-q", sub]).ok();
        git(&world, &["-C", sub, "commit", "-q", "--allow-empty", "-m", "x"]).ok();
    }
    git(&world, &["add", "was"]).ok();
    git(&world, &["commit", "-q", "-m", "x"]).ok();
    let check = |files: u64, findings: usize| {
        git(&world, &["add", "-A"]).ok();
        let seen = world.keyless(&["hooks", "check", "--staged", "--json"]).run().json();
        assert_eq!(seen["data"]["files"], json!(files));
        assert_eq!(seen["data"]["findings"].as_array().unwrap().len(), findings, "{seen}");
    };
    check(0, 0);
    // What was a submodule is a file now, beside files in names and bytes of every kind.
    fs::remove_dir_all(work.join("was")).unwrap();
    world.home.write("work/was", format!("key = {}\n", token())).unwrap();
    let name = std::ffi::OsStr::from_bytes(b"no \xff\xfe text");
    fs::write(work.join(name), format!("key = {}\n", token())).unwrap();
    std::os::unix::fs::symlink(format!("token={}", token()), work.join("link")).unwrap();
    for (name, text) in
        [("empty", ""), ("open", "no end of a line"), ("ends", "a\n\n"), ("bin", "\0\n")]
    {
        world.home.write(&format!("work/{name}"), text).unwrap();
    }
    world.home.write("work/great", "x\n".repeat(100_000)).unwrap();
    check(8, 3);
}

/// A name that git no longer knows any bytes for, and one whose bytes another object stands in for.
#[test]
fn nothing_passes_that_git_does_not_hand_out_as_it_is_committed() {
    let world = World::empty();
    git(&world, &["init", "-q"]).ok();
    let object = |text: &str| {
        world.home.write("work/key", text).unwrap();
        git(&world, &["add", "key"]).ok();
        git(&world, &["rev-parse", ":key"]).ok().trim_end().to_owned()
    };
    let harmless = object("nothing\n");
    let staged = object(&format!("key = {}\n", token()));
    let check = || world.keyless(&["hooks", "check", "--staged"]).run();
    git(&world, &["replace", &staged, &harmless]).ok();
    check().exits(1);
    git(&world, &["replace", "-d", &staged]).ok();

    let kept = world.home.work().join(".git/objects").join(&staged[..2]).join(&staged[2..]);
    fs::set_permissions(&kept, fs::Permissions::from_mode(0o644)).unwrap();
    fs::write(&kept, "broken").unwrap();
    let said = check().exits(3).errors();
    assert!(said.contains("git says: "), "{said}");
    fs::remove_file(&kept).unwrap();
    let said = check().exits(3).errors();
    assert!(said.contains("git does not have the bytes of key"), "{said}");
}

/// Each process takes milliseconds, and a commit may bring thousands of files.
#[test]
fn git_is_asked_as_often_for_many_files_as_for_one() {
    let world = World::empty();
    git(&world, &["init", "-q"]).ok();
    let counting = "#!/bin/sh\necho git >> \"$HOME/asked\"\nPATH=${PATH#*:} exec git \"$@\"\n";
    world.home.write("bin/git", counting).unwrap();
    let bin = world.home.root().join("bin");
    fs::set_permissions(bin.join("git"), fs::Permissions::from_mode(0o755)).unwrap();
    let environment = world.home.environment();
    let path = environment.iter().find(|(name, _)| *name == "PATH").map(|(_, path)| path.clone());
    let path = format!("{}:{}", bin.display(), path.unwrap().to_str().unwrap());
    let asked = world.home.root().join("home/asked");
    let mut counts = Vec::new();
    for files in [1, 40] {
        for file in 0..files {
            world.home.write(&format!("work/{file}"), format!("{file}\n")).unwrap();
        }
        git(&world, &["add", "-A"]).ok();
        let seen =
            world.keyless(&["hooks", "check", "--staged", "--json"]).env("PATH", &path).run();
        assert_eq!(seen.data()["files"], json!(files));
        counts.push(fs::read_to_string(&asked).unwrap().lines().count());
        fs::remove_file(&asked).unwrap();
    }
    assert_eq!(counts[0], counts[1]);
}

/// An agent's session does not see which secrets there are, so what a commit names is not judged by that.
#[test]
fn an_agent_commits_aliases_and_no_values() {
    let world = World::with_token();
    git(&world, &["init", "-q"]).ok();
    world.keyless(&["hooks", "install"]).run().ok();
    world.home.write("work/.env.example", format!("TOKEN=@secret:{TOKEN}\n")).unwrap();
    let commit = "git -c user.name=t -c user.email=t@example.com commit -q -m x";
    let seen = world.agent_sh(&format!("git add -A && {commit}")).run();
    let said = seen.exits(0).errors();
    assert!(said.contains("1 alias was not looked up"), "{said}");

    world.home.write("work/config.yaml", format!("key: {}\n", token())).unwrap();
    let said = world.agent_sh(&format!("git add -A && {commit}")).run().exits(1).errors();
    assert!(said.contains("config.yaml:1: looks like a credential"), "{said}");
    let program = KEYLESS;
    let said = world.agent_sh(&format!("{program} secret list")).run().exits(5).errors();
    assert!(said.contains("This is an agent's session"), "{said}");
    assert!(!said.contains("keyless init"), "{said}");
}

/// What an agent puts where git looks for a hook holds none of the operator's commands up.
#[test]
fn a_hook_that_is_no_file_is_not_waited_for() {
    let world = World::with_store();
    git(&world, &["init", "-q"]).ok();
    let hook = world.home.write("work/.git/hooks/pre-commit", "").unwrap();
    fs::remove_file(&hook).unwrap();
    assert!(Command::new("mkfifo").arg(&hook).status().unwrap().success());
    for words in [&["doctor"][..], &["hooks", "install"], &["hooks", "uninstall"]] {
        world.keyless(words).run();
    }
}

/// A link may lead to what has no end.
#[test]
fn a_device_is_no_file_to_be_looked_through() {
    let world = World::empty();
    let link = world.home.work().join("endless");
    std::os::unix::fs::symlink("/dev/zero", &link).unwrap();
    let seen = world.keyless(&["hooks", "check", "endless"]).run();
    assert!(seen.exits(3).errors().contains("is a device, and no file"), "{}", seen.errors());
    let long = format!("{}\nTOKEN={}\n", "a line\n".repeat(6 << 20), world.github_token());
    world.home.write("work/long", long).unwrap();
    assert!(world.keyless(&["hooks", "check", "long"]).run().exits(1).text().contains("long:"));
    std::fs::remove_file(world.home.work().join("long")).unwrap();
}
