//! What tools for agents cost: the start of `keyless mcp` to the reply to `initialize`, and single calls.
//!
//! Budgets (design.md, section 7; issue 4): cold start <= 30 ms with a warm broker, `secrets_list` of 1,000 paths <= 5 ms,
//! a metadata call <= 1 ms. Baselines of the same run: `true`, and `ping`, which is the protocol and nothing else.

use std::{
    fmt::Write as _,
    fs,
    io::{BufRead, BufReader, Write as _},
    path::Path,
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
    time::Instant,
};

use keyless_benches::{Binary, Result, Table, decimals, finish, median, percentile, private};
use serde_json::{Value, json};

const ROUNDS: usize = 30;
const CALLS: usize = 300;
const SECRETS: usize = 1000;

fn main() -> Result<()> {
    let scratch = tempfile::tempdir()?;
    let binary = Binary::find(&scratch.path().join("home"))?;
    let project = scratch.path().join("project");
    let passphrase = scratch.path().join("passphrase");
    private(&passphrase, "correct horse battery staple bench")?;
    prepare(&binary, scratch.path(), &project, &passphrase)?;
    finish(binary.command().args(["unlock", "--passphrase-file"]).arg(&passphrase), b"")?;
    let measured =
        starts(&binary, &project).and_then(|starts| Ok((starts, calls(&binary, &project)?)));
    // The broker that `unlock` left behind, before its home goes.
    let _ = binary.command().arg("lock").output();
    let (starts, calls) = measured?;
    println!("{starts}\n{calls}");
    println!(
        "Budgets: start to reply <= 30 ms, list of {SECRETS} <= 5 ms, a metadata call <= 1 ms."
    );
    Ok(())
}

/// A store with many secrets, all of which the project declares.
fn prepare(binary: &Binary, scratch: &Path, project: &Path, passphrase: &Path) -> Result<()> {
    let (mut variables, mut paths) = (String::new(), String::new());
    for number in 0..SECRETS {
        writeln!(variables, "BENCH_KEY_{number:04}=value-of-the-benchmark-{number:04}")?;
        writeln!(paths, "    \"personal/bench/key-{number:04}\",")?;
    }
    fs::create_dir_all(project.join(".keyless"))?;
    fs::write(project.join(".keyless/secrets.toml"), format!("required = [\n{paths}]\n"))?;
    let file = scratch.join("many.env");
    fs::write(&file, variables)?;
    let phrase = scratch.join("phrase");
    let factor = ["--passphrase-file".as_ref(), passphrase.as_os_str()];
    finish(binary.command().arg("init").args(factor).arg("--recovery-file").arg(phrase), b"")?;
    finish(binary.command().args(["secret", "import", "--yes"]).arg(file).args(factor), b"")
}

fn starts(binary: &Binary, project: &Path) -> Result<Table> {
    let (mut bare, mut server) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        let start = Instant::now();
        Command::new("/bin/true").output()?;
        bare.push(start.elapsed().as_secs_f64() * 1e3);
        let start = Instant::now();
        let client = Client::start(binary, project)?;
        server.push(start.elapsed().as_secs_f64() * 1e3);
        drop(client);
    }
    let mut table = Table::new(&["process", "median ms", "p99 ms", "over true, ms"]);
    for (name, times) in [("true", &bare), ("keyless mcp, start to the reply", &server)] {
        table.row([
            name.to_owned(),
            decimals(median(times), 2),
            decimals(percentile(times, 99.0), 2),
            decimals(median(times) - median(&bare), 2),
        ]);
    }
    Ok(table)
}

fn calls(binary: &Binary, project: &Path) -> Result<Table> {
    let mut client = Client::start(binary, project)?;
    let tool = |name: &str, arguments: Value| json!({ "name": name, "arguments": arguments });
    let kinds = [
        ("ping", "ping", json!({})),
        ("secrets_status", "tools/call", tool("secrets_status", json!({}))),
        (
            "secrets_describe",
            "tools/call",
            tool("secrets_describe", json!({ "path": "personal/bench/key-0500" })),
        ),
        ("secrets_list, 1,000 paths", "tools/call", tool("secrets_list", json!({}))),
    ];
    let mut table = Table::new(&["call", "median ms", "p99 ms", "over ping, ms"]);
    let mut ping = None;
    for (name, method, params) in &kinds {
        let mut times = Vec::new();
        for _ in 0..CALLS {
            times.push(client.call(method, params)?);
        }
        let base = *ping.get_or_insert(median(&times));
        table.row([
            (*name).to_owned(),
            decimals(median(&times), 3),
            decimals(percentile(&times, 99.0), 3),
            decimals(median(&times) - base, 3),
        ]);
    }
    Ok(table)
}

/// An agent's side of one `keyless mcp`.
struct Client {
    child: Child,
    to: ChildStdin,
    from: BufReader<ChildStdout>,
    calls: u64,
}

impl Client {
    /// Starts it, and waits for the reply to `initialize`.
    fn start(binary: &Binary, project: &Path) -> Result<Self> {
        let mut command = binary.command();
        command.arg("mcp").current_dir(project).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.stderr(Stdio::inherit()).spawn()?;
        let to = child.stdin.take().ok_or("a piped stdin is there")?;
        let from = BufReader::new(child.stdout.take().ok_or("a piped stdout is there")?);
        let mut client = Self { child, to, from, calls: 0 };
        let hello = json!({
            "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": { "name": "bench", "version": "1" },
        });
        client.call("initialize", &hello)?;
        writeln!(
            client.to,
            "{}",
            json!({ "jsonrpc": "2.0", "method": "notifications/initialized" })
        )?;
        Ok(client)
    }

    /// Gives how long the answer took to come, in milliseconds. What the client makes of it is its own.
    fn call(&mut self, method: &str, params: &Value) -> Result<f64> {
        self.calls += 1;
        let request =
            json!({ "jsonrpc": "2.0", "id": self.calls, "method": method, "params": params });
        let start = Instant::now();
        writeln!(self.to, "{request}")?;
        let mut line = String::new();
        self.from.read_line(&mut line)?;
        let milliseconds = start.elapsed().as_secs_f64() * 1e3;
        let answer: Value = serde_json::from_str(&line)?;
        let failed = answer["result"]["isError"] == json!(true) || answer["result"].is_null();
        if failed { Err(format!("{method}: {line}").into()) } else { Ok(milliseconds) }
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
