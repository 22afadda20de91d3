//! Uses that wait for a person's word, at the egress door and by the tools.

use serde_json::json;

use super::{Agent, USE, about, approve, gated, pending, unlock};
use crate::{
    terminal::at_a_terminal,
    world::{ALLOWED, TOKEN, VARIABLE, World, wait_until},
};

#[test]
fn every_use_waits_for_its_own_word() {
    let mut world = World::with_token();
    let origin = world.origin(ALLOWED);
    world.write_config();
    gated(&world, "per-call");
    unlock(&world);
    let script = format!("while read line; do {USE}; echo; done");
    let mut run = world.keyless(&["run", "--", "sh", "-c", &script]).without_passphrase().start();
    for (word, status) in [("--once", "200"), ("--once", "200"), ("--deny", "403"), ("", "403")] {
        run.say("go");
        // After a denial nobody is asked.
        if !word.is_empty() {
            wait_until("it is asked for", || !pending(&world).is_empty());
            let request = pending(&world).remove(0);
            let reason = request["asked"]["reason"].as_str().unwrap();
            assert_eq!(reason, "to send it with GET to api.allowed.test:443/");
            approve(&world, &[request["id"].as_str().unwrap(), word]).ok();
        }
        assert_eq!(run.line(), status, "{word}");
    }
    assert_eq!(origin.requests().len(), 2);
    wait_until("both denials are logged", || world.log_of("approval_denied").len() == 2);
    let standing = approve(&world, &["--list", "--json"]).data()["standing"].clone();
    assert_eq!(standing[0]["status"], json!({ "kind": "denied" }));
    approve(&world, &["--take-back", standing[0]["id"].as_str().unwrap()]).ok();
    run.say("go");
    wait_until("it is asked for again", || !pending(&world).is_empty());
}

/// Once the command runs the terminal is its own, so the person is told before where it is that they will be asked; a program
/// that reads stderr is not.
#[test]
fn who_starts_a_run_at_a_terminal_is_told_where_uses_wait() {
    let world = World::with_token();
    unlock(&world);
    let run = || world.keyless(&["run", "--", "echo", "begun"]).without_passphrase();
    let screen = at_a_terminal(&world, run(), "expect('begun'); finish(code=0)");
    assert!(!screen.contains("keyless approve"), "{screen}");
    gated(&world, "session");
    let told = format!(
        "expect('{TOKEN} waits for your word'); expect('keyless approve'); expect('begun')"
    );
    at_a_terminal(&world, run(), &format!("{told}\nfinish(code=0)"));
    gated(&world, "never");
    world.keyless(&["secret", "set", TOKEN, "--ask", "POST /**"]).run().ok();
    at_a_terminal(&world, run(), &format!("{told}\nfinish(code=0)"));
    let ran = run().run();
    assert_eq!((ran.errors(), ran.ok()), (String::new(), "begun\n".to_owned()));
}

/// At the terminal a slip is no answer: what is allowed one use at a time is not allowed for a session, and a key that
/// means nothing denies nothing.
#[test]
fn a_slip_at_the_terminal_is_asked_again() {
    let world = World::with_token();
    gated(&world, "per-call");
    unlock(&world);
    let mut agent = Agent::connect(&world);
    let asked = json!({ "path": TOKEN, "reason": "for the build" });
    let id = agent.ask("secrets_request_use_approval", &asked);
    let script = "question = 'Allow it [o]nce, or [d]eny it? '\n\
        for slip in ['s', 'x', '']:\n    expect(question); say(slip + '\\r'); expect('o allows it this once')\n\
        expect(question); say('o\\r'); expect('may be used once')\nfinish(code=0)";
    at_a_terminal(&world, world.keyless(&["approve", &id]), script);
    assert_eq!(agent.status(&id), "once");
    // Who comes later is told what became of it.
    let late = approve(&world, &[&id, "--deny"]).errors();
    let told = format!("{id} is once: it was settled ");
    let held = format!(", and holds; keyless approve --take-back {id} ends that");
    assert!(late.contains(&told) && late.contains(&held), "{late}");
    let unknown = approve(&world, &["prov-000000000000", "--deny"]).errors();
    assert!(unknown.contains("keyless approve --list shows what waits"), "{unknown}");
}

/// Nobody is led on through questions whose answers come to nothing.
#[test]
fn who_is_asked_for_a_value_is_told_when_it_is_too_late() {
    let world = World::with_store();
    world.declares(format!("required = [\"{TOKEN}\"]\n"));
    unlock(&world);
    let mut agent = Agent::connect(&world);
    let id = agent.ask("secrets_request_provision", &about(TOKEN));
    let value = world.canary.value();
    let script = format!(
        "import subprocess\nexpect('may receive it'); say('\\n'); expect('not shown; empty refuses): ')\n\
         subprocess.run([*sys.argv[1:], '--deny'], check=True, stdout=subprocess.DEVNULL)\n\
         say({value:?} + '\\n'); expect('is denied: it was settled'); finish(code=4)"
    );
    let screen = at_a_terminal(&world, world.keyless(&["approve", &id]), &script);
    assert!(!screen.contains("Variable for"), "{screen}");
}

/// There is nothing yet that a person could allow to be used.
#[test]
fn a_secret_without_a_value_is_provisioned_before_its_use_is_allowed() {
    let world = World::with_store();
    world.declares(format!(
        "required = [\"{TOKEN}\"]\n[secret.\"{TOKEN}\"]\napprove_on_use = \"session\"\n"
    ));
    unlock(&world);
    let mut agent = Agent::connect(&world);
    let asked = json!({ "path": TOKEN, "reason": "for the build" });
    let (told, remedy) = agent.fault("secrets_request_use_approval", &asked);
    let action = &remedy["action"];
    assert_eq!((&*told, action), ("not-provisioned", &json!("ask_user_to_provision")));
    assert_eq!(pending(&world).len(), 0);
}

/// Under the strict profile agents, their person and the operator are all told the policy that is in force.
#[test]
fn the_policy_that_is_told_is_the_one_in_force() {
    let world = World::with_token();
    world.home.write("keyless/config.toml", "[unlock]\nprofile = \"strict\"\n").unwrap();
    unlock(&world);
    let mut agent = Agent::connect(&world);
    let listed = agent.tool("secrets_list", &json!({})).unwrap();
    assert_eq!(listed[0]["approve_on_use"], json!("per-call"), "{listed}");
    let card = agent.tool("secrets_describe", &json!({ "path": TOKEN })).unwrap();
    assert_eq!(card["approve_on_use"], json!("per-call"), "{card}");
    agent.ask("secrets_request_rotation", &json!({ "path": TOKEN }));
    assert_eq!(pending(&world)[0]["known"]["approve_on_use"], json!("per-call"));
    let shown = world.keyless(&["secret", "show", TOKEN, "--json"]).run().data();
    assert_eq!(shown["approve_on_use"], json!("per-call"));
}

/// A run with its own broker waits as well, and is answered through the store.
#[test]
fn a_run_without_the_service_waits_too() {
    let mut world = World::with_token();
    let origin = world.origin(ALLOWED);
    gated(&world, "per-call");
    let mut run = world.agent_sh(USE).start();
    wait_until("it is asked for", || !pending(&world).is_empty());
    let id = pending(&world)[0]["id"].as_str().unwrap().to_owned();
    approve(&world, &[&id, "--once"]).ok();
    assert_eq!(run.line(), "200");
    world.assert_received(&origin);
    let log = world.log();
    let released = log.iter().find(|entry| entry["detail"]["kind"] == "released").unwrap();
    assert_eq!(released["detail"]["note"], format!("approval {id}"));
    assert!(log.iter().any(|entry| entry["correlation_id"] == *id), "what it was is on record too");
}

/// A permit lasts five seconds, and a person who is asked about the second secret may take longer.
#[test]
fn a_person_may_take_their_time_over_one_of_two_secrets() {
    let mut world = World::with_token();
    let origin = world.origin(ALLOWED);
    let other = world.another_value();
    let add = ["secret", "add", "team/api/other", "--to", ALLOWED, "--env", "OTHER"];
    world.keyless(&[&add[..], &["--value-stdin"]].concat()).stdin(other.as_str()).run().ok();
    let set = ["secret", "set", "team/api/other", "--approve-on-use", "per-call"];
    world.keyless(&set).run().ok();
    let script = format!("{USE} -H \"X-Other: $OTHER\"");
    let mut run = world.agent_sh(&script).start();
    wait_until("it is asked for", || !pending(&world).is_empty());
    std::thread::sleep(std::time::Duration::from_secs(6));
    let id = pending(&world)[0]["id"].as_str().unwrap().to_owned();
    approve(&world, &[&id, "--once"]).ok();
    assert_eq!(run.line(), "200");
    world.assert_received(&origin);
    assert_eq!(origin.requests().len(), 1);
}

/// A project asks for more caution than the owner does, and never for less.
#[test]
fn a_project_only_tightens() {
    let mut world = World::with_token();
    let origin = world.origin(ALLOWED);
    world.write_config();
    let manifest = |policy: &str| {
        format!(
            "required = [\"{TOKEN}\"]\n[overrides.\"{TOKEN}\"]\napprove_on_use = \"{policy}\"\n"
        )
    };
    unlock(&world);
    for (own, theirs, status) in
        [("never", "session", "403"), ("session", "never", "403"), ("never", "never", "200")]
    {
        gated(&world, own);
        world.declares(manifest(theirs));
        let mut run = world.keyless(&["run", "--", "sh", "-c", USE]).without_passphrase().start();
        if status == "403" {
            wait_until("it is asked for", || !pending(&world).is_empty());
            let asked = pending(&world).remove(0);
            let id = asked["id"].as_str().unwrap().to_owned();
            let shown = world.keyless(&["secret", "show", TOKEN, "--json"]).run().data();
            assert_eq!(
                [&asked["known"]["approve_on_use"], &shown["approve_on_use"]],
                [&json!("session"), &json!("session")],
                "{own} {theirs}"
            );
            approve(&world, &[&id, "--deny"]).ok();
            assert_eq!(run.line(), status, "{own} {theirs}");
            approve(&world, &["--take-back", &id]).ok();
        } else {
            assert_eq!(run.line(), status);
        }
    }
    assert_eq!(origin.requests().len(), 1);
    world.declares("required = [");
    let broken = world.keyless(&["run", "--", "true"]).without_passphrase().run();
    assert!(broken.exits(2).errors().contains("secrets.toml"), "{}", broken.errors());
}

/// One word that can't be read leaves nothing of an entry, and it may have been there to ask for a person.
#[test]
fn an_entry_that_cannot_be_read_asks_each_time() {
    let mut world = World::with_token();
    let origin = world.origin(ALLOWED);
    world.write_config();
    unlock(&world);
    let plain = format!("required = [\"{TOKEN}\", \"team/api/other\"]\n");
    let gate = "approve_on_use = \"per-call\"";
    let misspelt = format!("{plain}[overrides.\"{TOKEN}\"]\n{gate}\nretrieval_url = \"x\"\n");
    let at_odds = format!(
        "{plain}[secret.\"{TOKEN}\"]\ndescription = \"a\"\n[overrides.\"{TOKEN}\"]\n{gate}\n"
    );
    let undated = format!("[secret.\"{TOKEN}\"]\n{gate}\nexpires_at = \"soon\"\n");
    for (manifest, index) in [(&misspelt, ""), (&at_odds, ""), (&plain, &*undated)] {
        world.declares(manifest);
        world.home.write("keyless/index.toml", index).unwrap();
        let mut agent = Agent::connect(&world);
        assert_eq!(agent.tool("secrets_describe", &about(TOKEN)), Err("merge-failed".to_owned()));
        assert!(agent.tool("secrets_describe", &about("team/api/other")).is_ok());
        let listed = agent.tool("secrets_list", &json!({})).unwrap();
        assert_eq!(listed.as_array().unwrap().len(), 2, "{listed}");
        let mut run = world.keyless(&["run", "--", "sh", "-c", USE]).without_passphrase().start();
        wait_until("it is asked for", || !pending(&world).is_empty());
        let id = pending(&world)[0]["id"].as_str().unwrap().to_owned();
        approve(&world, &[&id, "--deny"]).ok();
        assert_eq!(run.line(), "403", "{manifest}{index}");
        approve(&world, &["--take-back", &id]).ok();
    }
    assert_eq!(origin.requests().len(), 0);
    world.declares(&misspelt);
    let warned = world.keyless(&["run", "--", "true"]).without_passphrase().run();
    assert!(warned.exits(0).errors().contains("retrieval_url"), "{}", warned.errors());
}

#[test]
fn a_rule_that_asks_holds_one_deed() {
    let mut world = World::with_store();
    let origin = world.origin(ALLOWED);
    world.write_config();
    world
        .add(
            TOKEN,
            &["--to", ALLOWED, "--env", VARIABLE, "--allow", "GET /**", "--ask", "DELETE /**"],
        )
        .ok();
    unlock(&world);
    let script = r#"while read method path; do
curl -sS -X $method -o body -w '%{http_code}' -H "X: $TOKEN" https://api.allowed.test$path; echo; done"#;
    let mut run = world.keyless(&["run", "--", "sh", "-c", script]).without_passphrase().start();
    run.say("GET /a");
    assert_eq!(run.line(), "200");
    for (path, word, status) in
        [("/a", "--once", "200"), ("/a", "--once", "200"), ("/b", "--deny", "403")]
    {
        run.say(&format!("DELETE {path}"));
        wait_until("it is asked for", || !pending(&world).is_empty());
        let request = pending(&world).remove(0);
        assert_eq!(request["asked"]["deed"], json!(format!("DELETE api.allowed.test:443{path}")));
        approve(&world, &[request["id"].as_str().unwrap(), word]).ok();
        assert_eq!(run.line(), status);
        if status == "200" {
            let note = format!("approval {}", request["id"].as_str().unwrap());
            assert!(world.log().iter().any(|entry| entry["detail"]["note"] == note), "{note}");
        }
    }
    assert_eq!(origin.requests().len(), 3);
}

#[test]
fn a_session_is_asked_once_until_it_is_revoked() {
    let mut world = World::with_token();
    let origin = world.origin(ALLOWED);
    world.write_config();
    gated(&world, "session");
    unlock(&world);
    let script = format!("while read line; do {USE}; echo; done");
    let mut run = world.keyless(&["run", "--", "sh", "-c", &script]).without_passphrase().start();
    run.say("go");
    wait_until("it is asked for", || !pending(&world).is_empty());
    let id = pending(&world)[0]["id"].as_str().unwrap().to_owned();
    approve(&world, &[&id, "--session"]).ok();
    assert_eq!(run.line(), "200");
    run.say("go");
    assert_eq!(run.line(), "200");
    approve(&world, &["--take-back", &id]).ok();
    run.say("go");
    wait_until("it is asked for again", || !pending(&world).is_empty());
    let again = pending(&world)[0]["id"].as_str().unwrap().to_owned();
    approve(&world, &[&again, "--deny"]).ok();
    assert_eq!(run.line(), "403");
    assert_eq!(origin.requests().len(), 2);
    // An end of the session is an end of what it was allowed.
    drop(run);
    wait_until("nothing holds", || {
        let standing = approve(&world, &["--list", "--json"]).data()["standing"].clone();
        standing.as_array().unwrap().iter().all(|one| one["status"]["kind"] == "denied")
    });
}

/// One word was said, so that one row says what holds; any of the requests' names is a name of it.
#[test]
fn a_word_for_a_session_is_one_row_however_many_requests_it_answered() {
    let world = World::with_token();
    gated(&world, "session");
    unlock(&world);
    let (mut agent, mut other) = (Agent::connect(&world), Agent::connect(&world));
    let asked = |reason: &str| json!({ "path": TOKEN, "reason": reason });
    let mut ask = |reason| agent.ask("secrets_request_use_approval", &asked(reason));
    let ids = ["to build", "to test", "to publish"].map(&mut ask);
    let theirs = other.ask("secrets_request_use_approval", &asked("to build"));
    approve(&world, &[&ids[1], "--session"]).ok();
    approve(&world, &[&theirs, "--session"]).ok();
    let standing = || approve(&world, &["--list", "--json"]).data()["standing"].clone();
    let rows = standing();
    let mut names: Vec<_> = rows[0]["also"].as_array().unwrap().iter().collect();
    names.push(&rows[0]["id"]);
    assert!(rows.as_array().unwrap().len() == 2 && names.len() == 3, "{rows}");
    assert!(ids.iter().all(|id| names.contains(&&json!(id))), "{rows}");
    assert_eq!((&rows[1]["id"], &rows[1]["also"]), (&json!(theirs), &json!(null)));
    let words = approve(&world, &["--list"]).ok();
    assert!(words.contains(&format!("{TOKEN} (3 requests)")), "{words}");
    let late = approve(&world, &[&ids[0], "--deny"]).errors();
    assert!(late.contains("--take-back"), "{late}");
    approve(&world, &["--take-back", &ids[2]]).ok();
    assert_eq!(standing()[0]["id"], json!(theirs));
}

/// Who asked is gone: leave for it is nothing to answer any more, while a value is good for the next agent too.
#[test]
fn what_a_session_asked_leave_for_goes_with_it() {
    let mut world = World::with_token();
    let _origin = world.origin(ALLOWED);
    world.write_config();
    gated(&world, "per-call");
    let manifest = format!("required = [\"{TOKEN}\", \"team/new/key\"]\n");
    world.declares(manifest);
    unlock(&world);
    let mut agent = Agent::connect(&world);
    agent.ask("secrets_request_use_approval", &json!({ "path": TOKEN, "reason": "to look" }));
    let value = agent.ask("secrets_request_provision", &about("team/new/key"));
    let run = world.keyless(&["run", "--", "sh", "-c", USE]).without_passphrase().start();
    wait_until("all three wait", || pending(&world).len() == 3);
    drop((agent, run));
    wait_until("the value alone waits", || {
        let left = pending(&world);
        left.len() == 1 && left[0]["id"] == json!(value)
    });
}

#[test]
fn approvals_asked_for_by_an_agent_have_their_statuses() {
    let world = World::with_token();
    gated(&world, "session");
    unlock(&world);
    let mut agent = Agent::connect(&world);
    let card = agent.tool("secrets_describe", &about(TOKEN)).unwrap();
    assert_eq!(card["approve_on_use"], json!("session"));
    let mut ask = |reason: &str| {
        agent.ask("secrets_request_use_approval", &json!({ "path": TOKEN, "reason": reason }))
    };
    let (once, session) = (ask("for one build"), ask("for all builds"));
    // The same question is the same request.
    assert_eq!(ask("for one build"), once);
    approve(&world, &[&once, "--once"]).ok();
    approve(&world, &[&session, "--session"]).ok();
    assert_eq!(
        (agent.status(&once), agent.status(&session)),
        ("once".to_owned(), "session".to_owned())
    );
    // What a person allowed for the session is not asked again while that holds.
    let repeated = json!({ "path": TOKEN, "reason": "for one more" });
    assert_eq!(agent.ask("secrets_request_use_approval", &repeated), session);
    approve(&world, &["--take-back", &session]).ok();
    let painted = json!({ "path": TOKEN, "reason": "ok\u{202e}\u{1b}[2J\n  Secret: x" });
    let denied = agent.ask("secrets_request_use_approval", &painted);
    let screen = approve(&world, &["--list"]).ok();
    assert!(screen.contains(r"ok\u{202e}\u{1b}[2J   Secret: x"), "{screen}");
    approve(&world, &[&denied, "--deny"]).ok();
    assert_eq!(agent.status(&denied), "denied");
    let again = json!({ "path": TOKEN, "reason": "please" });
    // Neither this session nor another one gets round a denial.
    for agent in [&mut agent, &mut Agent::connect(&world)] {
        let refused = agent.tool("secrets_request_use_approval", &again);
        assert_eq!(refused, Err("approval-denied".to_owned()));
    }
    let message = agent.message_of("secrets_request_use_approval", &again);
    let told = format!("{TOKEN}, whose approve_on_use is session, by {denied}");
    assert!(message.contains(&told), "{message}");
}

/// A terminal breaks long lines at its edge, where our own begin.
#[test]
fn an_agents_words_stand_nowhere_as_ours() {
    let world = World::with_token();
    gated(&world, "session");
    unlock(&world);
    let mut agent = Agent::connect(&world);
    let forged = "prov-3b1f5a7c9d2e  use  4 min left";
    // Behind "  It says:   ", at the edge of 80 columns.
    for filler in [" ", "."] {
        let reason = format!("ok {}{forged} {}Secret: x", filler.repeat(64), " ".repeat(46));
        agent.ask("secrets_request_use_approval", &json!({ "path": TOKEN, "reason": reason }));
    }
    let shell = format!("stty cols 80; exec {} approve --list", crate::invocation::KEYLESS);
    let listing = world.keyless(&[]).instead(&["sh", "-c", &shell]);
    let screen = at_a_terminal(&world, listing, "finish(code=0)");
    let plain = anstream::adapter::strip_str(&screen).to_string();
    let rows: Vec<&str> = plain.lines().filter(|row| row.contains("3b1f")).collect();
    assert!(rows.len() == 2, "{plain}");
    for row in &rows {
        assert!(row.starts_with("  It says: ") || row.starts_with(&" ".repeat(13)), "{plain}");
    }
    assert!(plain.contains(r"It says:   ok \u{20}×65 prov-3b1f"), "{plain}");
    assert!(plain.lines().all(|row| row.trim_end().chars().count() <= 80), "{plain}");
    let piped = approve(&world, &["--list"]).ok();
    let dotted = format!("  It says:   ok {}{forged}", ".".repeat(64));
    assert!(piped.contains(&dotted), "{piped}");
}

/// Inside the jail the tools know what the session was given and what its project declares, wherever they are started.
#[test]
fn inside_the_jail_tools_see_what_the_session_has() {
    let world = World::with_token();
    let (declared, foreign) = ("team/declared/token", "team/foreign/token");
    for (path, variable) in [(declared, "DECLARED"), (foreign, "FOREIGN")] {
        world.add(path, &["--to", ALLOWED, "--env", variable]).ok();
    }
    world.declares(format!("optional = [\"{declared}\"]\n"));
    unlock(&world);
    let script = format!(
        r"
import json, os, subprocess
def start(folder):
    global tools
    tools = subprocess.Popen([{keyless:?}, 'mcp'], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=folder)
    call('initialize', protocolVersion='2025-06-18', capabilities={{}}, clientInfo={{'name': 't', 'version': '1'}})
def call(method, **params):
    request = {{'jsonrpc': '2.0', 'id': 1, 'method': method, 'params': params}}
    print(json.dumps(request), file=tools.stdin, flush=True)
    return json.loads(tools.stdout.readline())['result']
def tool(name, **arguments):
    return json.loads(call('tools/call', name=name, arguments=arguments)['content'][0]['text'])
os.makedirs('elsewhere/.keyless')
os.makedirs('elsewhere/.git')
open('elsewhere/.keyless/secrets.toml', 'w').write('required = [{foreign:?}]')
for folder in ['.', 'elsewhere', '/tmp']:
    start(folder)
    seen = [row['path'] for row in tool('secrets_list')]
    asked = [tool(name, path={foreign:?})['error'] for name in ['secrets_describe', 'secrets_request_rotation', 'secrets_validate']]
    print(json.dumps([seen, asked]), flush=True)
",
        keyless = crate::invocation::KEYLESS,
    );
    let command = ["run", "--secret", TOKEN, "--", "python3", "-c", &script];
    let mut run = world.keyless(&command).without_passphrase().start();
    let unseen = json!(["not-found", "not-found", "not-found"]);
    assert_eq!(run.line(), json!([[declared], unseen]).to_string().replace(',', ", "), "project");
    assert_eq!(run.line(), json!([[], unseen]).to_string().replace(',', ", "), "elsewhere");
    assert_eq!(
        run.line(),
        json!([[TOKEN, declared], unseen]).to_string().replace(',', ", "),
        "no project"
    );
    assert!(run.wait().success());
}

/// Inside the jail, the tools and the traffic are one session: what is allowed to one counts for the other.
#[test]
fn inside_the_jail_tools_and_traffic_are_one_session() {
    let mut world = World::with_token();
    let origin = world.origin(ALLOWED);
    world.write_config();
    gated(&world, "session");
    unlock(&world);
    let script = format!(
        r"
import json, os, socket, subprocess, time
def bare(call):
    line = socket.socket(socket.AF_UNIX)
    line.connect(os.environ['KEYLESS_AGENT_SOCKET'])
    line.sendall(json.dumps(call).encode() + b'\n')
    return json.loads(line.makefile().readline())['code']
print(bare({{'call': 'lock'}}), bare({{'call': 'open_session', 'wanted': 'all', 'inherited': []}}), flush=True)
tools = subprocess.Popen([{keyless:?}, 'mcp'], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
def call(method, **params):
    request = {{'jsonrpc': '2.0', 'id': 1, 'method': method, 'params': params}}
    print(json.dumps(request), file=tools.stdin, flush=True)
    return json.loads(tools.stdout.readline())['result']
call('initialize', protocolVersion='2025-06-18', capabilities={{}}, clientInfo={{'name': 't', 'version': '1'}})
def tool(name, **arguments):
    return call('tools/call', name=name, arguments=arguments)['structuredContent']
asked = tool('secrets_request_use_approval', path='{TOKEN}', reason='for the build')['request_id']
print(asked, flush=True)
while tool('secrets_poll_status', request_id=asked)['status']['kind'] == 'pending':
    time.sleep(0.2)
print(subprocess.run(['sh', '-c', os.environ['USE']], capture_output=True, text=True).stdout, flush=True)
",
        keyless = crate::invocation::KEYLESS,
    );
    let command = ["run", "--", "python3", "-c", &script];
    let mut run = world.keyless(&command).without_passphrase().env("USE", USE).start();
    assert_eq!(run.line(), "operator_required operator_required");
    let id = run.line();
    approve(&world, &[&id, "--session"]).ok();
    assert_eq!(run.line(), "200");
    assert!(pending(&world).is_empty());
    world.assert_received(&origin);
}
