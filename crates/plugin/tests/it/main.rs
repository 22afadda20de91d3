//! Both ends together, and a plugin that does everything wrong.
#![expect(clippy::unwrap_used, reason = "a test that can't go on has failed")]

use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::PathBuf,
    time::{Duration, Instant},
};

use keyless_plugin::{
    Availability, ClientError, Entry, Fault, Found, Launch, Limits, PluginClient, SecretSource,
    Status, Text,
};
use serde_json::{Value, json};
use tempfile::TempDir;

/// What a well-behaved plugin of a few lines does; `HOOK` is run before each answer.
const SCRIPT: &str = r#"#!/usr/bin/env python3
import json, os, sys, time, signal
store = {}
HEAD
for line in sys.stdin:
    request = json.loads(line)
    id, method, params = request["id"], request["method"].split(".")[1], request["params"]
    error = result = None
    HOOK
    if method == "init":
        config = params["config"]
        result = {"source_name": "probe", "capabilities_bits": 9, "plugin_version": "0"}
    elif method == "is_available":
        result = {"status": "available", "detail": json.dumps([config, dict(os.environ)])}
    elif method == "get":
        found = store.get(params["reference"])
        result = {"value": found, "lease_seconds": 5} if found else {"found": False}
    elif method == "put":
        result = {"replaced": params["reference"] in store}
        store[params["reference"]] = params["value"]
    elif method == "delete":
        result = {"existed": store.pop(params["reference"], None) is not None}
    else:
        error = {"kind": "unsupported-capability", "capability": method}
    answer = {"jsonrpc": "2.0", "id": id}
    answer.update({"error": error} if error else {"result": result})
    print(json.dumps(answer), flush=True)
"#;

struct Scene {
    folder: TempDir,
    launch: Launch,
}

impl Scene {
    fn new(head: &str, hook: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let program = folder.path().join("keyless-source-probe");
        let script = SCRIPT.replace("HEAD", head).replace("HOOK", hook);
        fs::write(&program, &script).unwrap();
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
        let limits = Limits {
            answer: Duration::from_secs(20),
            idle: Duration::from_mins(1),
            grace: Duration::from_secs(5),
        };
        let path = std::env::var("PATH").unwrap();
        let launch = Launch {
            name: "probe".to_owned(),
            checksum_sha256: sha256(&program),
            program,
            environment: vec![
                ("PATH".to_owned(), Text::new(path)),
                ("GRANTED".to_owned(), Text::new("yes".to_owned())),
            ],
            config: Text::new(json!({ "vault": "team" }).to_string()),
            limits,
        };
        Self { folder, launch }
    }

    fn client(&self) -> PluginClient {
        let again = |text: &Text| Text::new(text.expose().to_owned());
        let Launch { environment, config, .. } = &self.launch;
        let environment = environment.iter().map(|(name, value)| (name.clone(), again(value)));
        PluginClient::new(Launch {
            name: self.launch.name.clone(),
            program: self.launch.program.clone(),
            checksum_sha256: self.launch.checksum_sha256.clone(),
            environment: environment.collect(),
            config: again(config),
            limits: self.launch.limits,
        })
    }

    fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }
}

fn sha256(program: &PathBuf) -> String {
    let output = std::process::Command::new("sha256sum").arg(program).output().unwrap();
    String::from_utf8(output.stdout).unwrap()[..64].to_uppercase()
}

#[tokio::test]
async fn a_plugin_is_started_configured_and_asked() {
    let scene = Scene::new("", "");
    let client = scene.client();
    assert_eq!(client.capabilities().await.unwrap(), 9);
    let availability = client.is_available().await.unwrap();
    assert_eq!(availability.status, Status::Available);
    let told: Value = serde_json::from_str(&availability.detail.unwrap()).unwrap();
    assert_eq!(told[0], json!({ "vault": "team" }));
    let environment = told[1].as_object().unwrap();
    assert_eq!(environment["GRANTED"], json!("yes"));
    assert!(!environment.contains_key("HOME"), "{environment:?}");
    assert!(client.get("a").await.unwrap().is_none());
    assert!(!client.put("a", Text::new("one".to_owned())).await.unwrap());
    assert!(client.put("a", Text::new("two".to_owned())).await.unwrap());
    let found = client.get("a").await.unwrap().unwrap();
    assert_eq!((found.value.expose(), found.lease_seconds), ("two", Some(5)));
    let unsupported = client.list().await.unwrap_err();
    assert!(matches!(unsupported, ClientError::Fault(Fault::UnsupportedCapability { .. })));
    // A fault of its own is no failure: it goes on, and knows what it knew.
    assert!(client.get("a").await.unwrap().is_some());
    assert!(client.delete("a").await.unwrap());
}

/// Whether this is how the client tells it.
type IsExpected = fn(&ClientError) -> bool;

/// Each of these ends the plugin, and the third of them within a minute disables it.
#[tokio::test]
async fn a_plugin_that_does_wrong_is_ended() {
    let on_get = |code: &str| format!("if method == 'get':\n        {code}");
    let flood = "sys.stdout.write('x' * (2 << 20)); sys.stdout.flush()";
    let cases: [(&str, String, IsExpected); 7] = [
        ("hangs", on_get("time.sleep(3600)"), |e| matches!(e, ClientError::TimedOut)),
        ("floods", on_get(flood), |e| matches!(e, ClientError::TooLong)),
        ("lies about the id", on_get("id += 1"), |e| matches!(e, ClientError::Lied)),
        ("dies", on_get("sys.exit(1)"), |e| matches!(e, ClientError::Died)),
        ("answers something else", on_get("method = 'delete'"), |e| matches!(e, ClientError::Lied)),
        ("writes no JSON", on_get("print('hello', flush=True)"), |e| {
            matches!(e, ClientError::Lied)
        }),
        ("stops half way", on_get("os.kill(os.getpid(), signal.SIGKILL)"), |e| {
            matches!(e, ClientError::Died)
        }),
    ];
    for (name, hook, expected) in cases {
        let mut scene = Scene::new("", &hook);
        if name == "hangs" {
            scene.launch.limits.answer = Duration::from_secs(2);
        }
        let client = scene.client();
        for _ in 0..3 {
            let error = client.get("a").await.unwrap_err();
            assert!(expected(&error), "{name}: {error}");
        }
        let error = client.get("a").await.unwrap_err();
        assert!(matches!(error, ClientError::Disabled), "{name}: {error}");
        assert!(error.to_string().contains("started again at the next question after"), "{error}");
    }
}

/// Whoever asked may have less patience than the plugin is given; neither does it stay, nor is its answer taken for
/// that to the next question.
#[tokio::test]
async fn what_was_asked_is_done_to_its_end_though_nobody_waits() {
    let hook = "if method == 'get' and params['reference'] == 'slow': time.sleep(1)";
    let scene = Scene::new("", hook);
    let client = scene.client();
    client.put("slow", Text::new("late".to_owned())).await.unwrap();
    client.put("quick", Text::new("soon".to_owned())).await.unwrap();
    let impatient = tokio::time::timeout(Duration::from_millis(100), client.get("slow")).await;
    assert!(impatient.is_err());
    assert_eq!(client.get("quick").await.unwrap().unwrap().value.expose(), "soon");

    let mark = tempfile::tempdir().unwrap();
    let mark = mark.path().join("process");
    let hook = format!(
        "if method == 'get':\n        with open({mark:?}, 'w') as f: f.write(str(os.getpid()))\n        time.sleep(3600)"
    );
    let mut scene = Scene::new("", &hook);
    scene.launch.limits.answer = Duration::from_secs(2);
    let client = scene.client();
    client.capabilities().await.unwrap();
    let impatient = tokio::time::timeout(Duration::from_secs(1), client.get("a")).await;
    assert!(impatient.is_err());
    until_it_ended(&fs::read_to_string(&mark).unwrap()).await;
}

/// Nobody asks it for an answer then, and the next question starts another one.
#[tokio::test]
async fn a_plugin_that_dies_between_questions_leaves_nothing_behind() {
    let mark = tempfile::tempdir().unwrap();
    let (own, helper) = (mark.path().join("own"), mark.path().join("helper"));
    let hook = format!(
        "if params.get('reference') == 'last':
        import subprocess, threading
        sleep = subprocess.Popen(['sleep', '3600'], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        open({helper:?}, 'w').write(str(sleep.pid))
        open({own:?}, 'w').write(str(os.getpid()))
        threading.Timer(0.2, os._exit, [1]).start()"
    );
    let scene = Scene::new("", &hook);
    let client = scene.client();
    assert!(client.get("last").await.unwrap().is_none());
    until_it_ended(&fs::read_to_string(&own).unwrap()).await;
    assert!(client.get("next").await.unwrap().is_none());
    until_it_ended(&fs::read_to_string(&helper).unwrap()).await;
}

/// More than any pipe holds: a plugin that writes it would stand still if nobody read.
#[tokio::test]
async fn stderr_is_drained() {
    let scene = Scene::new("", "sys.stderr.write('e' * (1 << 20)); sys.stderr.flush()");
    let client = scene.client();
    assert!(client.get("a").await.unwrap().is_none());
}

#[tokio::test]
async fn another_name_is_refused_without_repeating_it() {
    let scene = Scene::new("", "method = 'x' if method == 'init' else method");
    let error = scene.client().get("a").await.unwrap_err();
    assert!(matches!(error, ClientError::Fault(_)), "{error}");
    let mut other = Scene::new("", "");
    other.launch.name = "someone".to_owned();
    let error = other.client().get("a").await.unwrap_err();
    assert!(matches!(error, ClientError::Lied) && !error.to_string().contains("probe"), "{error}");
}

#[tokio::test]
async fn only_the_program_that_was_allowed_is_started() {
    let scene = Scene::new("", "if params.get('reference') == 'die': sys.exit(1)");
    let client = scene.client();
    assert!(client.get("a").await.is_ok());
    // At every start, not at the first alone.
    let text = fs::read_to_string(&scene.launch.program).unwrap();
    fs::write(&scene.launch.program, text + "\n# changed\n").unwrap();
    assert!(matches!(client.get("die").await.unwrap_err(), ClientError::Died));
    assert!(matches!(client.get("a").await.unwrap_err(), ClientError::Checksum));
    let open = Scene::new("", "");
    fs::set_permissions(&open.launch.program, fs::Permissions::from_mode(0o777)).unwrap();
    assert!(matches!(open.client().get("a").await.unwrap_err(), ClientError::Unsafe));
    let mut missing = Scene::new("", "");
    missing.launch.program = missing.file("missing");
    let error = missing.client().get("a").await.unwrap_err();
    assert!(matches!(error, ClientError::Unstartable(_)));
}

/// Idle, it is asked to go, and has the time to.
#[tokio::test]
async fn an_idle_plugin_is_ended_in_peace() {
    let mark = tempfile::tempdir().unwrap();
    let mark = mark.path().join("ended");
    let head = format!(
        "def ended(*_):\n    open({mark:?}, 'w').close()\n    sys.exit(0)\nsignal.signal(signal.SIGTERM, ended)"
    );
    fs::create_dir_all(mark.parent().unwrap()).unwrap();
    let mut scene = Scene::new(&head, "");
    scene.launch.limits.idle = Duration::from_millis(100);
    let client = scene.client();
    assert!(client.get("a").await.unwrap().is_none());
    let began = Instant::now();
    while !mark.exists() {
        assert!(began.elapsed() < Duration::from_secs(30), "it was not asked to go");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    // And comes back when it is asked again.
    assert!(client.get("a").await.unwrap().is_none());
}

/// What it has started goes with it, also when it goes in peace itself.
#[tokio::test]
async fn nothing_of_an_ended_plugin_stays() {
    let mark = tempfile::tempdir().unwrap();
    let mark = mark.path().join("child");
    let stays =
        format!("trap '' TERM; echo $$ > {0}.new; mv {0}.new {0}; exec sleep 3600", mark.display());
    let head = format!(
        "import subprocess\nsubprocess.Popen(['sh', '-c', {stays:?}], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)\n\
         while not os.path.exists({mark:?}): time.sleep(0.01)\n\
         signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))"
    );
    let mut scene = Scene::new(&head, "");
    scene.launch.limits.idle = Duration::from_millis(100);
    let client = scene.client();
    assert!(client.get("a").await.unwrap().is_none());
    until_it_ended(fs::read_to_string(&mark).unwrap().trim()).await;
}

async fn until_it_ended(process: &str) {
    // Empty once it has ended, though nobody may have waited for it yet.
    let command = || fs::read(format!("/proc/{process}/cmdline")).unwrap_or_default();
    let began = Instant::now();
    while !command().is_empty() {
        assert!(began.elapsed() < Duration::from_secs(30), "process {process} goes on");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// The author's end, over plain buffers.
#[test]
fn the_authors_end_answers_each_line() {
    struct Fixed(Option<Value>);
    impl SecretSource for Fixed {
        fn capabilities(&self) -> u32 {
            keyless_plugin::READ | keyless_plugin::LIST
        }
        fn is_available(&mut self) -> Availability {
            Availability::available()
        }
        fn get(&mut self, reference: &str) -> Result<Option<Found>, Fault> {
            let text = || Text::new(format!("value of {reference}"));
            Ok((reference != "none").then(|| Found::forever(text())))
        }
        fn configure(&mut self, config: Value) -> Result<(), Fault> {
            self.0 = Some(config);
            Ok(())
        }
        fn list(&mut self) -> Result<Vec<Entry>, Fault> {
            Ok(vec![Entry { reference: "a".to_owned(), display: None }])
        }
    }
    let ask = |method: &str, params: &str| {
        format!(
            "{{\"jsonrpc\":\"2.0\",\"id\":7,\"method\":\"secret_source.{method}\",\"params\":{params}}}\n"
        )
    };
    let input = [
        ask("init", r#"{"source_name":"x","config":{},"protocol_version":"1.0"}"#),
        ask("init", r#"{"source_name":"x","config":{},"protocol_version":"2.0"}"#),
        ask("is_available", "{}"),
        ask("get", r#"{"reference":"a"}"#),
        ask("get", r#"{"reference":"none"}"#),
        ask("list", "{}"),
        ask("put", r#"{"reference":"a","value":"v"}"#),
        ask("dance", "{}"),
        "nonsense\n".to_owned(),
    ]
    .concat();
    let mut output = Vec::new();
    keyless_plugin::serve_on("fixed", Fixed(None), input.as_bytes(), &mut output).unwrap();
    let text = String::from_utf8(output).unwrap();
    let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let kind = |n: usize| lines[n]["error"]["kind"].clone();
    assert_eq!(lines[0]["result"]["capabilities_bits"], json!(3));
    assert_eq!(kind(1), json!("unavailable"));
    assert_eq!(lines[2]["result"], json!({ "status": "available" }));
    assert_eq!(lines[3]["result"], json!({ "found": true, "value": "value of a" }));
    assert_eq!(lines[4]["result"], json!({ "found": false }));
    assert_eq!(lines[5]["result"], json!({ "entries": [{ "reference": "a" }] }));
    assert_eq!(
        (kind(6), kind(7)),
        (json!("unsupported-capability"), json!("unsupported-capability"))
    );
    assert_eq!((kind(8), lines[8]["id"].clone()), (json!("other"), json!(0)));
    assert_eq!(lines[3]["id"], json!(7));
}
