//! What an `exec` action costs over a bare `sh -c`: message, guard, grant, log, jail, funnel, cleaning, all included.
//!
//! Budget (design.md, section 7): <= 5 ms over a bare `sh -c`, 100 at the same time without a failure. The bare shell
//! gets the value in its environment, as people do it today. Each action leaves a jail to be taken down and one to be
//! built, which is done after its answer: with a pause between them none meets what the one before has left, as when a
//! model thinks in between; back to back all of them do.

use std::{
    io::{BufRead, BufReader, Write as _},
    os::unix::net::UnixStream,
    path::Path,
    process::Command,
    thread,
    time::{Duration, Instant},
};

use keyless_benches::{Binary, Result, Table, decimals, finish, median, percentile, private};
use serde_json::{Value, json};

/// One agent sends at most 120 messages a minute.
const ROUNDS: usize = 100;
/// Until all that an action has left is done.
const PAUSE: Duration = Duration::from_millis(30);
const AT_ONCE: u8 = 100;
/// Actions that one agent may do at the same time.
const OF_ONE: u8 = 8;
const AGENT: &str = "nl://bench.test/agent/1.0.0";
const VALUE: &str = "value-of-the-benchmark-0001";
/// What is measured: a name, and the command.
const KINDS: &[(&str, &str)] = &[
    ("exec, no secret", "true"),
    ("exec, a value in the jail", "true {{nl:db/PASSWORD}}"),
    ("exec, a placeholder and its way out", "true {{nl:api/TOKEN}}"),
];

fn main() -> Result<()> {
    let scratch = tempfile::tempdir()?;
    let binary = Binary::find(&scratch.path().join("home"))?;
    let passphrase = scratch.path().join("passphrase");
    private(&passphrase, "correct horse battery staple bench")?;
    prepare(&binary, scratch.path(), &passphrase)?;
    finish(binary.command().args(["unlock", "--passphrase-file"]).arg(&passphrase), b"")?;
    let measured = measure(&binary, &scratch.path().join("home/keyless"), &passphrase);
    // The broker that `unlock` left behind, before its home goes.
    let _ = binary.command().arg("lock").output();
    for table in measured? {
        println!("{table}");
    }
    println!("Budget: <= 5 ms over a bare `sh -c`; {AT_ONCE} at once without a failure.");
    Ok(())
}

/// A store with a secret that enters jails and one that names its host, and a grant for both.
fn prepare(binary: &Binary, scratch: &Path, passphrase: &Path) -> Result<()> {
    let with = |arguments: &[&str]| {
        let mut command = binary.command();
        command.args(arguments).arg("--passphrase-file").arg(passphrase);
        command
    };
    finish(with(&["init"]).arg("--recovery-file").arg(scratch.join("phrase")), b"")?;
    for (path, rule) in [("bench/db/password", &[][..]), ("bench/api/token", &["--to", "a.test"])] {
        let add = [&["secret", "add", path, "--value-stdin"], rule].concat();
        finish(&mut with(&add), VALUE.as_bytes())?;
    }
    let grant = ["grant", "create", "--agent", AGENT, "--secret", "*", "--for", "1h"];
    finish(&mut with(&grant), b"")
}

fn measure(binary: &Binary, home: &Path, passphrase: &Path) -> Result<[Table; 3]> {
    let mut agents = Vec::new();
    for _ in 0..AT_ONCE.div_ceil(OF_ONE) {
        let mut register = binary.command();
        register.args(["agent", "register", AGENT, "--json", "--passphrase-file"]).arg(passphrase);
        let answer: Value = serde_json::from_slice(&register.output()?.stdout)?;
        agents.push(json!({
            "agent_uri": AGENT,
            "instance_id": answer["data"]["aid"]["instance_id"],
            "credential": answer["data"]["credential"]["value"],
        }));
    }
    let socket = home.join("run/nl.sock");
    let (resting, hurrying) = agents.split_at(KINDS.len());
    let rested = one_by_one(&socket, resting, "with a pause", PAUSE)?;
    let hurried = one_by_one(&socket, hurrying, "back to back", Duration::ZERO)?;
    Ok([rested, hurried, at_once(&socket, &agents)?])
}

fn one_by_one(socket: &Path, agents: &[Value], how: &str, pause: Duration) -> Result<Table> {
    let mut lines = Vec::new();
    for (agent, _) in agents.iter().zip(KINDS) {
        lines.push(Line::open(socket, agent)?);
    }
    let mut times = vec![Vec::new(); 1 + KINDS.len()];
    for _ in 0..ROUNDS {
        thread::sleep(pause);
        let start = Instant::now();
        bare().output()?;
        times[0].push(start.elapsed().as_secs_f64() * 1e3);
        for (((_, template), line), times) in KINDS.iter().zip(&mut lines).zip(&mut times[1..]) {
            thread::sleep(pause);
            let start = Instant::now();
            line.exec(template)?;
            times.push(start.elapsed().as_secs_f64() * 1e3);
        }
    }
    let mut table = Table::new(&[how, "median ms", "p99 ms", "over sh -c, ms", "of sh -c"]);
    let names = std::iter::once("sh -c").chain(KINDS.iter().map(|(name, _)| *name));
    for (name, own) in names.zip(&times) {
        table.row([
            name.to_owned(),
            decimals(median(own), 2),
            decimals(percentile(own, 99.0), 2),
            decimals(median(own) - median(&times[0]), 2),
            decimals(median(own) / median(&times[0]), 2),
        ]);
    }
    Ok(table)
}

fn at_once(socket: &Path, agents: &[Value]) -> Result<Table> {
    let start = Instant::now();
    let bare: Vec<_> = (0..AT_ONCE).map(|_| thread::spawn(|| bare().output())).collect();
    let failed = bare.into_iter().filter_map(|one| one.join().ok()).filter(Result::is_err);
    let (failed, took) = (failed.count(), start.elapsed().as_secs_f64() * 1e3);
    let mut table = Table::new(&["100 at once", "ms for all", "ms each", "failed"]);
    let mut row = |name: &str, took: f64, failed: usize| {
        let each = decimals(took / f64::from(AT_ONCE), 2);
        table.row([name.to_owned(), decimals(took, 0), each, failed.to_string()]);
    };
    row("sh -c", took, failed);
    let mut lines = Vec::new();
    for number in 0..AT_ONCE {
        lines.push(Line::open(socket, &agents[usize::from(number / OF_ONE)])?);
    }
    let start = Instant::now();
    let acting: Vec<_> = lines
        .into_iter()
        .map(|mut line| thread::spawn(move || line.exec(KINDS[1].1).is_ok()))
        .collect();
    let ended = acting.into_iter().map(thread::JoinHandle::join);
    let failed = ended.filter(|done| !matches!(done, Ok(true))).count();
    row(KINDS[1].0, start.elapsed().as_secs_f64() * 1e3, failed);
    Ok(table)
}

fn bare() -> Command {
    let mut command = Command::new("/bin/sh");
    command.args(["-c", "true \"$PASSWORD\""]).env("PASSWORD", VALUE);
    command
}

/// An agent's connection to the broker.
struct Line {
    stream: BufReader<UnixStream>,
    messages: usize,
}

impl Line {
    fn open(socket: &Path, agent: &Value) -> Result<Self> {
        let stream = BufReader::new(UnixStream::connect(socket)?);
        let mut line = Self { stream, messages: 0 };
        line.ask("handshake", agent)?;
        Ok(line)
    }

    fn exec(&mut self, template: &str) -> Result<()> {
        let action = json!({ "action": { "type": "exec", "template": template } });
        self.ask("action_request", &action)
    }

    fn ask(&mut self, kind: &str, payload: &Value) -> Result<()> {
        self.messages += 1;
        let message = json!({
            "nl_version": "1.0", "message_type": kind, "payload": payload,
            "message_id": format!("bench-{:p}-{}-{}", self, self.messages, jiff::Timestamp::now()),
            "timestamp": format!("{:.3}", jiff::Timestamp::now()),
        });
        // At once, as clients do: a write for each token would be measured too.
        self.stream.get_mut().write_all(format!("{message}\n").as_bytes())?;
        let mut text = String::new();
        self.stream.read_line(&mut text)?;
        let answer: Value = serde_json::from_str(&text)?;
        let status = answer["payload"]["status"].as_str().unwrap_or_default();
        if ["authenticated", "success"].contains(&status) { Ok(()) } else { Err(text.into()) }
    }
}
