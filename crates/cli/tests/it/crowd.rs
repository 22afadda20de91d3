//! As many connections as there may be, and one more. Source: reference/egress.md (e) 116.

use std::{
    collections::BTreeSet,
    fs,
    io::{Read as _, Write as _},
    net::TcpStream,
    process::Command,
};

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use serde_json::json;

use crate::{
    fleet::started,
    mcp::{Agent, approve, gated, pending, unlock},
    proxy::{CATALOG, Sidecar},
    world::{ALLOWED, EVIL, PATIENCE, TOKEN, World},
};

const TUNNELS: u64 = 2000;
const AGENTS: usize = 50;

/// A connection that asked for a tunnel, and the answer's head.
fn tunnel(address: &str, credential: &str) -> (TcpStream, String) {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let head = format!(
        "CONNECT {EVIL}:443 HTTP/1.1\r\nhost: {EVIL}:443\r\nproxy-authorization: {credential}\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).unwrap();
    let (mut answer, mut byte) = (Vec::new(), [0]);
    while !answer.ends_with(b"\r\n\r\n") && stream.read(&mut byte).unwrap() == 1 {
        answer.push(byte[0]);
    }
    (stream, String::from_utf8(answer).unwrap())
}

/// Resident memory in KiB.
fn resident(pid: u32) -> u64 {
    memory(pid, "VmRSS:")
}

/// The most that it ever was.
fn peak(pid: u32) -> u64 {
    memory(pid, "VmHWM:")
}

fn memory(pid: u32, what: &str) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix(what)).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

#[test]
fn two_thousand_idle_tunnels_take_little_and_one_more_is_told_so() {
    let mut world = World::empty();
    let _origin = world.origin(EVIL);
    // The usual bound of a login, which the sidecar raises by itself.
    let own = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: Some(1024), ..own }).unwrap();
    let sidecar = started(&world, &[]);
    setrlimit(Resource::Nofile, Rlimit { current: own.maximum, ..own }).unwrap();
    let url = sidecar.word("proxy_url").strip_prefix("http://").unwrap();
    let (credential, address) = url.split_once('@').unwrap();
    let credential = format!("Basic {}", data_encoding::BASE64.encode(credential.as_bytes()));
    let pid = sidecar.process.pid();
    let (first, answer) = tunnel(address, &credential);
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    let before = resident(pid);
    let mut open = vec![first];
    while (open.len() as u64) < TUNNELS {
        let (stream, answer) = tunnel(address, &credential);
        assert!(answer.starts_with("HTTP/1.1 200"), "{}: {answer}", open.len());
        open.push(stream);
    }
    let each = (resident(pid) - before) / TUNNELS;
    assert!(each < 64, "{each} KiB for each tunnel");
    let (_, answer) = tunnel(address, &credential);
    assert!(
        answer.starts_with("HTTP/1.1 503") && answer.contains("too_many_connections"),
        "{answer}"
    );
}

/// (e) 33.
#[test]
fn a_large_upload_without_a_placeholder_arrives_as_it_was() {
    const SIZE: usize = 100 << 20;
    let mut world = World::empty();
    let origin = world.origin_with(ALLOWED, |options| options.keep(SIZE + 1));
    // Where a body may be swapped, one that streams may become longer yet: its length is not told in advance.
    let catalog = format!("{CATALOG}      locations: [header]\n");
    world.home.write("operator/catalog.yaml", catalog).unwrap();
    world.home.write("operator/mounted/api/token", world.canary.value()).unwrap();
    let keeping = Sidecar::start_with(&world, &[]);
    // No placeholder, and nothing that repeats.
    let mut state = 1_u64;
    let words = (0..SIZE / 8).flat_map(|_| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()
    });
    let bytes: Vec<u8> = words.collect();
    let file = world.home.work().join("upload");
    fs::write(&file, &bytes).unwrap();
    let send = |sidecar: &Sidecar<'_>, file: &str| {
        let (proxy, ca) = (sidecar.word("proxy_url"), sidecar.word("ca"));
        let mut curl = Command::new("curl");
        curl.args(["-sS", "-o", "/dev/null", "-w", "%{http_code}", "-x", proxy, "--cacert", ca]);
        let output = curl.args(["-T", file, "https://api.allowed.test/sink"]).output();
        let output = output.unwrap();
        assert_eq!(output.stdout, b"200", "{}", String::from_utf8_lossy(&output.stderr));
    };
    let upload = |sidecar: &Sidecar<'_>| {
        send(sidecar, "/etc/hostname");
        origin.clear();
        let before = peak(sidecar.process.pid());
        send(sidecar, file.to_str().unwrap());
        let grown = peak(sidecar.process.pid()) - before;
        assert!(grown < 16 << 10, "{grown} KiB");
        let request = origin.requests().remove(0);
        assert!(request.complete && request.body == bytes);
        request.header("content-length")
    };
    assert_eq!(upload(&keeping), Some(SIZE.to_string()));
    drop(keeping);
    world.home.write("operator/catalog.yaml", CATALOG).unwrap();
    assert_eq!(upload(&Sidecar::start_with(&world, &[])), None);
    fs::remove_file(file).unwrap();
}

/// One broker, one store, one secret: nobody waits in vain, and the log has all of them in its one chain.
#[test]
fn fifty_agents_at_once() {
    let mut world = World::with_token();
    let origin = world.origin(ALLOWED);
    world.write_config();
    world.keyless(&["unlock", "--for", "10m"]).run().ok();
    let script = r#"curl -sS -o /dev/null -H "X: $TOKEN" https://api.allowed.test/"#;
    let words = ["run", "--no-jail", "--", "sh", "-c", script];
    let agents: Vec<_> = (0..AGENTS).map(|_| world.keyless(&words).start()).collect();
    for mut agent in agents {
        assert!(agent.wait().success());
    }
    let requests = origin.requests();
    let value = Some(world.canary.value().to_owned());
    assert_eq!(requests.iter().filter(|request| request.header("x") == value).count(), AGENTS);
    let uses = world.log().into_iter().filter(|entry| entry["detail"]["kind"] == "released");
    assert_eq!(uses.count(), AGENTS);
    world.keyless(&["audit", "verify"]).run().ok();
}

/// One broker, and as many servers of tools: each has its own request, and a word to one is none to another.
#[test]
fn fifty_agents_ask_at_once() {
    let world = World::with_token();
    gated(&world, "session");
    unlock(&world);
    let mut agents: Vec<Agent<'_>> = (0..AGENTS).map(|_| Agent::connect(&world)).collect();
    let want = |number: usize| json!({ "path": TOKEN, "reason": format!("for number {number}") });
    let ids: Vec<String> = agents
        .iter_mut()
        .enumerate()
        .map(|(number, agent)| agent.ask("secrets_request_use_approval", &want(number)))
        .collect();
    assert_eq!(ids.iter().collect::<BTreeSet<_>>().len(), AGENTS);
    assert_eq!(pending(&world).len(), AGENTS);
    approve(&world, &[&ids[7], "--session"]).ok();
    for (number, agent) in agents.iter_mut().enumerate() {
        let expected = if number == 7 { "session" } else { "pending" };
        assert_eq!(agent.status(&ids[number]), expected, "{number}");
    }
    world.keyless(&["audit", "verify"]).run().ok();
}
