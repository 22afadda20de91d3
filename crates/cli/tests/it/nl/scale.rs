//! Many actions: none fails for being one of many, and none leaves anything.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    io::{BufRead as _, BufReader, Write as _},
    os::unix::net::UnixStream,
    path::{Path, PathBuf},
    process::id,
    sync::atomic::{AtomicU64, Ordering},
    time::Instant,
};

use super::*;
use crate::world::{PATIENCE, wait_until};

/// Actions at the same time, and how many of them are one agent's, which has no more places.
const AT_ONCE: usize = 100;
const OF_ONE: usize = 8;
/// Places for actions of all agents.
const ALL_PLACES: usize = 32;
/// What stands ready for the next actions: the keeper, and two processes of each of two jails.
const STANDING: usize = 5;
/// Actions one after the other, and agents: one sends at most 120 messages a minute.
const IN_ALL: usize = 1000;
const AGENTS: usize = 10;

/// An agent's connection to `nl.sock`.
pub(super) struct Line {
    stream: BufReader<UnixStream>,
}

impl Line {
    pub(super) fn of(served: &Served<'_>, agent: &Value) -> Self {
        let socket = served.world.home.keyless_home().join("run/nl.sock");
        let mut line = Self { stream: BufReader::new(UnixStream::connect(socket).unwrap()) };
        assert_eq!(line.ask("handshake", agent)["status"], "authenticated");
        line
    }

    pub(super) fn act(&mut self, action: &Value) -> Value {
        self.ask("action_request", &json!({ "action": action }))
    }

    pub(super) fn ask(&mut self, kind: &str, payload: &Value) -> Value {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let message = json!({
            "nl_version": "1.0", "message_type": kind, "payload": payload,
            "message_id": format!("scale-{}", NUMBER.fetch_add(1, Ordering::Relaxed)),
            "timestamp": format!("{:.3}", jiff::Timestamp::now()),
        });
        writeln!(self.stream.get_mut(), "{message}").unwrap();
        let mut answer = String::new();
        self.stream.read_line(&mut answer).unwrap();
        serde_json::from_str::<Value>(&answer).unwrap()["payload"].clone()
    }
}

/// More agents, who may use everything; of two organizations, which send at most 1,000 messages a minute each.
fn agents(served: &Served<'_>, count: usize) -> Vec<Value> {
    let organizations = ["local", "other"];
    for organization in organizations {
        let grant = ["grant", "create", "--agent", AGENT, "--for", "1h", "--secret", "*"];
        let whose = ["--organization", organization, "--action", "*"];
        served.world.keyless(&[&grant[..], &whose].concat()).run().ok();
    }
    let registered = organizations.iter().cycle().take(count).map(|organization| {
        let register = ["agent", "register", AGENT, "--organization", organization, "--json"];
        let data = served.world.keyless(&register).run().data();
        json!({
            "agent_uri": AGENT,
            "instance_id": data["aid"]["instance_id"],
            "credential": data["credential"]["value"],
        })
    });
    registered.collect()
}

#[test]
fn a_hundred_at_once_all_succeed() {
    let world = with_secrets();
    let served = Served::with(&world, "detection = 'record'");
    let agents = agents(&served, AT_ONCE.div_ceil(OF_ONE));
    let lines: Vec<Line> =
        (0..AT_ONCE).map(|number| Line::of(&served, &agents[number / OF_ONE])).collect();
    let acting: Vec<_> = (0..)
        .zip(lines)
        .map(|(number, mut line)| {
            let template = format!("sleep 0.1; printf '{number} %s' {{{{nl:db/PASSWORD}}}}");
            thread::spawn(move || line.act(&json!({ "type": "exec", "template": template })))
        })
        .collect();
    for (number, one) in acting.into_iter().enumerate() {
        let answer = one.join().unwrap();
        let expected = format!("{number} [REDACTED:db/PASSWORD]");
        assert_eq!(answer["result"]["stdout"], expected, "{answer}");
    }
}

/// NL-8.26.
#[test]
fn while_every_place_is_taken_it_is_suggested_to_wait() {
    let world = with_secrets();
    let served = Served::start(&world);
    let agents = agents(&served, ALL_PLACES / OF_ONE);
    let lines: Vec<Line> =
        (0..ALL_PLACES).map(|number| Line::of(&served, &agents[number / OF_ONE])).collect();
    let acting: Vec<_> = lines
        .into_iter()
        .map(|mut line| {
            thread::spawn(move || line.act(&json!({ "type": "exec", "template": "sleep 3" })))
        })
        .collect();
    let suggested = || {
        let answer = served.get("/nl/v1/health");
        assert_eq!(answer["status"], 200, "{answer}");
        (answer["backpressure"].clone(), answer["delay"].clone())
    };
    wait_until("every place is taken", || suggested() == (json!("true"), json!("250")));
    for one in acting {
        assert_eq!(one.join().unwrap()["status"], "success");
    }
    assert_eq!(suggested(), (Value::Null, Value::Null));
}

/// What a broker, its descendants and its home consist of.
#[derive(Debug, PartialEq, Eq)]
struct Remains {
    /// How many.
    descendants: usize,
    /// By what they lead to; the store's connections come and go with the load.
    descriptors: BTreeMap<String, usize>,
    files: BTreeSet<PathBuf>,
    mounts: String,
}

impl Remains {
    pub(super) fn of(served: &Served<'_>) -> Self {
        let broker = served.broker.pid();
        let mut files = BTreeSet::new();
        for folder in ["home", "keyless", "run", "tmp", "work"] {
            files_below(&served.world.home.root().join(folder), &mut files);
        }
        Self {
            descendants: descendants(broker).len(),
            descriptors: descriptors(broker),
            files,
            mounts: fs::read_to_string(format!("/proc/{broker}/mountinfo")).unwrap(),
        }
    }
}

/// What there is once nothing is under way any more, and nothing has come or gone for a second.
fn at_rest(served: &Served<'_>) -> Remains {
    let deadline = Instant::now() + PATIENCE;
    let (mut last, mut since) = (Remains::of(served), Instant::now());
    while last.descendants != STANDING || since.elapsed() < Duration::from_secs(1) {
        assert!(Instant::now() < deadline, "in vain for {STANDING} processes at rest: {last:?}");
        thread::sleep(Duration::from_millis(50));
        let now = Remains::of(served);
        if now != last {
            (last, since) = (now, Instant::now());
        }
    }
    last
}

fn processes() -> impl Iterator<Item = u32> {
    let entries = fs::read_dir("/proc").unwrap().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

fn parent(pid: u32) -> Option<u32> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("PPid:"))?;
    line.trim().parse().ok()
}

fn descendants(of: u32) -> BTreeSet<u32> {
    let parents: Vec<(u32, u32)> =
        processes().filter_map(|pid| Some((pid, parent(pid)?))).collect();
    let (mut all, mut above) = (BTreeSet::new(), vec![of]);
    while let Some(one) = above.pop() {
        let below = parents.iter().filter(|(_, parent)| *parent == one).map(|(pid, _)| *pid);
        above.extend(below.filter(|pid| all.insert(*pid)));
    }
    all
}

fn descriptors(of: u32) -> BTreeMap<String, usize> {
    let mut all = BTreeMap::new();
    for entry in fs::read_dir(format!("/proc/{of}/fd")).unwrap().flatten() {
        let Ok(to) = fs::read_link(entry.path()) else { continue };
        let to = to.to_string_lossy();
        let kind = to.split(':').next().unwrap_or_default();
        if !kind.contains("store.db") {
            *all.entry(kind.to_owned()).or_default() += 1;
        }
    }
    all
}

fn files_below(folder: &Path, into: &mut BTreeSet<PathBuf>) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            files_below(&path, into);
        }
        into.insert(path);
    }
}

#[test]
fn a_thousand_actions_leave_nothing() {
    let mut world = with_secrets();
    let _origin = world.origin(ALLOWED);
    let served = Served::with(&world, "detection = 'record'");
    let lines: Vec<Line> =
        agents(&served, AGENTS).iter().map(|agent| Line::of(&served, agent)).collect();
    // Seen in the arguments of whatever is left of an action.
    let mark = format!("mark-{}", id());
    let actions = [
        (
            json!({
                "type": "exec",
                "template": format!("(setsid sh -c ': {mark}; sleep 300; :' &); printf %s {{{{nl:db/PASSWORD}}}} | sort -o /tmp/left; printf %s \"$(cat /tmp/left)\""),
            }),
            "[REDACTED:db/PASSWORD]",
        ),
        (
            json!({ "type": "inject_stdin", "command": "head -c 100", "secret_ref": "{{nl:db/PASSWORD}}" }),
            "[REDACTED:db/PASSWORD]\n",
        ),
        (
            json!({ "type": "inject_tempfile", "command": "cat {{nl:F}}", "file_refs": { "F": "{{nl:db/PASSWORD}}" } }),
            "[REDACTED:db/PASSWORD]",
        ),
        (json!({ "type": "exec", "template": "printf %.6s {{nl:api/TOKEN}}" }), "kloak_"),
    ];
    let run = |lines: Vec<Line>, each: usize| -> Vec<Line> {
        let acting: Vec<_> = lines
            .into_iter()
            .map(|mut line| {
                let actions = actions.clone();
                thread::spawn(move || {
                    for number in 0..each {
                        let (action, expected) = &actions[number % actions.len()];
                        let answer = line.act(action);
                        assert_eq!(answer["result"]["stdout"], *expected, "{number}: {answer}");
                    }
                    line
                })
            })
            .collect();
        acting.into_iter().map(|one| one.join().unwrap()).collect()
    };
    let lines = run(lines, actions.len());
    let before = at_rest(&served);
    let lines = run(lines, IN_ALL / AGENTS);
    let deadline = Instant::now() + PATIENCE;
    let mut left = Remains::of(&served);
    while left != before && Instant::now() < deadline {
        thread::sleep(Duration::from_millis(50));
        left = Remains::of(&served);
    }
    assert_eq!(left, before);
    let marked = processes().filter(|pid| {
        let arguments = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        String::from_utf8_lossy(&arguments).contains(&mark)
    });
    assert_eq!(marked.count(), 0);
    drop(lines);
    world.keyless(&["audit", "verify"]).run().ok();
}
