use std::{
    fs,
    io::{Read as _, Write as _},
    net::TcpStream,
    os::unix::fs::symlink,
    process::{Child, Command, Stdio},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::Duration,
};

use keyless_testkit::{Handler, Origin, OriginOptions, stream};
use rustix::{
    fs::{CWD, FileType, Mode, mknodat},
    process::Signal,
};
use serde_json::{Value, json};
use tokio::sync::Notify;

use crate::{
    proxy::{CATALOG, Sidecar},
    world::{ALLOWED, EVIL, PATIENCE, TOKEN, VARIABLE, World, wait_until},
};

const METRICS: &[&str] = &["--metrics-listen", "127.0.0.1:0"];

/// Mounts `value` as Kubernetes does: a new directory, and the link `..data` turned to it.
fn mount(world: &World, version: &str, value: &str) {
    world.home.write(&format!("operator/mounted/api/..{version}/token"), value).unwrap();
    let folder = world.operator_file("mounted/api");
    if !folder.join("token").is_symlink() {
        symlink("..data/token", folder.join("token")).unwrap();
    }
    symlink(format!("..{version}"), folder.join("..fresh")).unwrap();
    fs::rename(folder.join("..fresh"), folder.join("..data")).unwrap();
}

/// Puts a catalog in its place in one step.
fn write_catalog(world: &World, text: &str) {
    world.home.write("operator/catalog.fresh", text).unwrap();
    let fresh = world.operator_file("catalog.fresh");
    fs::rename(fresh, world.operator_file("catalog.yaml")).unwrap();
}

pub(crate) fn started<'w>(world: &'w World, options: &[&str]) -> Sidecar<'w> {
    write_catalog(world, CATALOG);
    mount(world, "v0", world.canary.value());
    Sidecar::start_with(world, &[METRICS, options].concat())
}

/// `GET` at the sidecar's listener for metrics and health: the status and the body.
fn page(sidecar: &Sidecar<'_>, path: &str) -> (u16, String) {
    let mut stream = TcpStream::connect(sidecar.word("metrics")).unwrap();
    write!(stream, "GET {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n").unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    let (head, body) = text.split_once("\r\n\r\n").unwrap();
    (head.split(' ').nth(1).unwrap().parse().unwrap(), body.to_owned())
}

fn health(sidecar: &Sidecar<'_>) -> Value {
    serde_json::from_str(&page(sidecar, "/healthz").1).unwrap()
}

fn reloads(sidecar: &Sidecar<'_>) -> u64 {
    health(sidecar)["reload"]["taken_up"].as_u64().unwrap()
}

fn log(world: &World) -> String {
    let text = fs::read_to_string(world.operator_file("log")).unwrap_or_default();
    world.saw("the sidecar's stderr", text.as_bytes());
    text
}

/// The words of a curl with the session's proxy.
fn curl_words(sidecar: &Sidecar<'_>, arguments: &[&str]) -> Vec<String> {
    let (proxy, ca) = (sidecar.word("proxy_url"), sidecar.word("ca"));
    let common = ["-sS", "--max-time", "120", "-x", proxy, "--cacert", ca];
    common.iter().chain(arguments).map(|&word| word.to_owned()).collect()
}

/// A curl in the background with the session's proxy.
fn curl(sidecar: &Sidecar<'_>, arguments: &[&str]) -> Child {
    let mut command = Command::new("curl");
    command.args(curl_words(sidecar, arguments));
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

/// At least a thousand requests, some of them after `done`: how many, and every status but 200.
fn ask_until(words: &[String], done: &AtomicBool) -> (usize, Vec<String>) {
    let (mut asked, mut failed) = (0, Vec::new());
    loop {
        let last = done.load(Ordering::Acquire);
        let urls = "https://api.allowed.test/status/200?[1-50]";
        let output = Command::new("curl").args(words).arg(urls).output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        asked += text.lines().count();
        failed.extend(text.lines().filter(|code| *code != "200").map(str::to_owned));
        if last && asked >= 1000 {
            return (asked, failed);
        }
    }
}

/// A download that goes on for minutes, under way.
fn endless(sidecar: &Sidecar<'_>, placeholder: &str) -> Child {
    let header = format!("x-key: {placeholder}");
    let url = "https://api.allowed.test/drip?n=1000000&chunk=1&ms=5";
    let mut child = curl(sidecar, &["-N", "-H", &header, url]);
    let mut first = [0; 10];
    child.stdout.as_mut().unwrap().read_exact(&mut first).unwrap();
    assert_eq!(first, [b'.'; 10], "{}", String::from_utf8_lossy(&first));
    child
}

fn exits(mut child: Child) -> Option<i32> {
    let ended = |child: &mut Child| child.try_wait().unwrap().and_then(|status| status.code());
    for _ in 0..2400 {
        if let Some(code) = ended(&mut child) {
            return Some(code);
        }
        thread::sleep(Duration::from_millis(50));
    }
    child.kill().unwrap();
    None
}

/// (e) 105.
#[test]
fn a_thousand_requests_during_twenty_reloads_do_not_fail() {
    let mut world = World::empty();
    let origin = world.origin(ALLOWED);
    let sidecar = started(&world, &[]);
    let header = format!("x-key: {}", sidecar.placeholder());
    let values: Vec<String> = (0..20).map(|_| world.another_value()).collect();
    let done = AtomicBool::new(false);
    let words = ["-H", &header, "-o", "/dev/null", "-w", "%{http_code}\n"];
    let base = curl_words(&sidecar, &words);
    let (asked, failed) = thread::scope(|scope| {
        let client = scope.spawn(|| ask_until(&base, &done));
        wait_until("the first request is there", || !origin.requests().is_empty());
        for (number, value) in values.iter().enumerate() {
            mount(&world, &format!("v{}", number + 1), value);
            let policy = if number % 2 == 0 { "allowlist" } else { "allow" };
            write_catalog(&world, &format!("{CATALOG}  egress: {{ policy: {policy} }}\n"));
            let before = reloads(&sidecar);
            sidecar.process.signal(Signal::HUP);
            wait_until("the change is in force", || reloads(&sidecar) > before);
        }
        done.store(true, Ordering::Release);
        client.join().unwrap()
    });
    assert!(failed.is_empty(), "{failed:?}");
    let requests = origin.requests();
    assert_eq!(requests.len(), asked);
    let got =
        |value: &str| requests.iter().any(|one| one.header("x-key").as_deref() == Some(value));
    assert!(got(world.canary.value()) && got(&values[19]), "from the first value to the last");
    let known = |seen: Option<String>| seen.is_some_and(|seen| !seen.contains("kloak_"));
    assert!(requests.iter().all(|one| known(one.header("x-key"))));
}

#[test]
fn a_rotated_value_is_taken_up_by_the_next_request_after_it_is_noticed() {
    let mut world = World::empty();
    let origin = world.origin(ALLOWED);
    let sidecar = started(&world, &[]);
    let header = format!("x-key: {}", sidecar.placeholder());
    let ask = || exits(curl(&sidecar, &["-H", &header, "https://api.allowed.test/"]));
    assert_eq!(ask(), Some(0));
    let fresh = world.another_value();
    mount(&world, "v1", &fresh);
    wait_until("the turned link is noticed", || reloads(&sidecar) > 0);
    assert_eq!(ask(), Some(0));
    assert_eq!(origin.requests()[1].header("x-key"), Some(fresh));
    log(&world);
}

#[test]
fn a_value_that_goes_bad_leaves_its_last_good_one_and_says_so() {
    let mut world = World::empty();
    let origin = world.origin(ALLOWED);
    let sidecar = started(&world, &[]);
    let header = format!("x-key: {}", sidecar.placeholder());
    let ask = || exits(curl(&sidecar, &["-f", "-H", &header, "https://api.allowed.test/"]));
    for bad in ["", "two\nlines\n"] {
        mount(&world, if bad.is_empty() { "v1" } else { "v2" }, bad);
        let problem = || health(&sidecar)["reload"]["problem"].to_string();
        let expected = if bad.is_empty() { "empty" } else { "CR, LF" };
        wait_until("the bad value is told", || problem().contains(expected));
        assert!(page(&sidecar, "/metrics").1.contains("keyless_in_step 0"));
        // Longer than any permit: the value is asked for anew.
        thread::sleep(Duration::from_secs(5));
        assert_eq!(ask(), Some(0));
    }
    fs::remove_file(world.operator_file("mounted/api/..data")).unwrap();
    assert_eq!(ask(), Some(0));
    let values = origin.requests().iter().filter_map(|it| it.header("x-key")).collect::<Vec<_>>();
    assert_eq!(values, [world.canary.value(); 3]);
    mount(&world, "v3", world.canary.value());
    wait_until("it is mended", || health(&sidecar)["reload"]["problem"].is_null());
}

#[test]
fn a_value_that_could_not_be_read_at_its_change_is_taken_up_without_another() {
    let mut world = World::empty();
    let origin = world.origin(ALLOWED);
    let sidecar = started(&world, &[]);
    let header = format!("x-key: {}", sidecar.placeholder());
    let ask = || exits(curl(&sidecar, &["-f", "-H", &header, "https://api.allowed.test/"]));
    let descriptors = |limit: &str| {
        let pid = sidecar.process.pid().to_string();
        let status = Command::new("prlimit").args(["--pid", &pid, limit]).status();
        assert!(status.unwrap().success());
    };
    let fresh = world.another_value();
    descriptors("--nofile=3:");
    mount(&world, "v1", &fresh);
    write_catalog(&world, &format!("{CATALOG}\n"));
    wait_until("the changes are noticed", || log(&world).matches("Not reloaded").count() == 2);
    descriptors("--nofile=1024:");
    wait_until("it is in force", || health(&sidecar)["reload"]["problem"].is_null());
    assert_eq!(ask(), Some(0));
    assert_eq!(origin.requests()[0].header("x-key"), Some(fresh));
}

#[test]
fn a_value_beside_a_broken_catalog_is_taken_up_by_a_hangup() {
    let mut world = World::empty();
    let origin = world.origin(ALLOWED);
    let sidecar = started(&world, &[]);
    let header = format!("x-key: {}", sidecar.placeholder());
    let fresh = world.another_value();
    write_catalog(&world, &CATALOG.replace("egressTo", "egresTo"));
    mount(&world, "v1", &fresh);
    // Before the files are found to have changed, or after: by then the value is in force.
    sidecar.process.signal(Signal::HUP);
    wait_until("the fault is noticed", || health(&sidecar)["reload"]["problem"].is_string());
    wait_until("the value is in force", || reloads(&sidecar) > 0);
    let asked = exits(curl(&sidecar, &["-f", "-H", &header, "https://api.allowed.test/"]));
    assert_eq!(asked, Some(0));
    assert_eq!(origin.requests()[0].header("x-key"), Some(fresh));
    assert!(health(&sidecar)["reload"]["problem"].as_str().unwrap().contains("egresTo"));
}

/// As systemd and Kubernetes run it: what a person would read on a terminal is in the log.
#[test]
fn what_is_not_as_it_should_be_is_in_the_log_of_a_proxy_that_speaks_json() {
    let mut world = World::empty();
    let origin = world.origin(ALLOWED);
    write_catalog(&world, CATALOG);
    mount(&world, "v0", &format!("{}\n", world.canary.value()));
    let sidecar = Sidecar::start_with(&world, &["--log-format", "json"]);
    let header = format!("x-key: {}", sidecar.placeholder());
    assert_eq!(exits(curl(&sidecar, &["-f", "-H", &header, "https://api.allowed.test/"])), Some(0));
    assert_eq!(origin.requests()[0].header("x-key").as_deref(), Some(world.canary.value()));
    let lines = log(&world);
    let first: Value = serde_json::from_str(lines.lines().next().unwrap()).unwrap();
    assert_eq!((&first["level"], &first["event"]), (&json!("warn"), &json!("warning")));
    assert!(first["message"].as_str().unwrap().contains("ends with a newline"), "{first}");
}

#[test]
fn a_broken_catalog_leaves_the_last_good_one_and_says_why_once() {
    let mut world = World::empty();
    let _origin = world.origin(ALLOWED);
    let sidecar = started(&world, &[]);
    let header = format!("x-key: {}", sidecar.placeholder());
    let ask = || exits(curl(&sidecar, &["-f", "-H", &header, "https://api.allowed.test/"]));
    write_catalog(&world, &CATALOG.replace("egressTo", "egresTo"));
    wait_until("the fault is noticed", || health(&sidecar)["reload"]["refused"] == 1);
    sidecar.process.signal(Signal::HUP);
    wait_until("it is read again", || health(&sidecar)["reload"]["refused"] == 2);
    assert_eq!(ask(), Some(0));
    let problem = health(&sidecar)["reload"]["problem"].as_str().unwrap().to_owned();
    assert!(problem.contains("egresTo") && problem.contains("catalog.yaml"), "{problem}");
    assert_eq!(log(&world).matches("Not reloaded").count(), 1, "{}", log(&world));
    let (_, metrics) = page(&sidecar, "/metrics");
    assert!(metrics.contains("keyless_in_step 0"), "{metrics}");
    assert!(metrics.contains("keyless_reloads_total{result=\"refused\"} 2"), "{metrics}");
    let doctor = || {
        let answer = world.keyless(&["doctor", "--json"]).run().json();
        let checks = answer["data"]["checks"].as_array().unwrap().clone();
        checks.into_iter().find(|check| check["id"] == "proxy.reload")
    };
    let told = doctor().unwrap();
    assert_eq!(told["state"], "fault", "{told}");
    assert!(told["found"].as_str().unwrap().contains("egresTo"), "{told}");
    write_catalog(&world, CATALOG);
    wait_until("it is mended", || health(&sidecar)["reload"]["problem"].is_null());
    assert_eq!(doctor().unwrap()["state"], "ok");
    assert!(page(&sidecar, "/metrics").1.contains("keyless_in_step 1"));
    // What took force and what did not is on record, without what stands there.
    let mut entries = world.log();
    entries.retain(|entry| entry["action"] == "config_reload");
    let results: Vec<_> = entries.iter().map(|entry| entry["result"].as_str().unwrap()).collect();
    assert_eq!(results, ["error", "error", "success"]);
    for (entry, file) in entries.iter().zip(["catalog.yaml", "config.toml", "catalog.yaml"]) {
        let target = entry["target"].as_str().unwrap();
        assert!(target.contains(file) && !entry.to_string().contains("egresTo"), "{entry}");
    }
}

/// Whoever opens one that nobody writes into waits for ever, and every later reload with it.
#[test]
fn a_pipe_in_the_catalogs_place_holds_up_no_reload() {
    let mut world = World::empty();
    let _origin = world.origin(ALLOWED);
    let sidecar = started(&world, &[]);
    let (pipe, catalog) = (world.operator_file("pipe"), world.operator_file("catalog.yaml"));
    mknodat(CWD, &pipe, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
    fs::rename(&pipe, &catalog).unwrap();
    sidecar.process.signal(Signal::HUP);
    wait_until("the fault is noticed", || health(&sidecar)["reload"]["refused"] != 0);
    let problem = health(&sidecar)["reload"]["problem"].as_str().unwrap().to_owned();
    assert!(problem.contains("catalog.yaml: it is no regular file"), "{problem}");
    write_catalog(&world, CATALOG);
    wait_until("it is mended", || health(&sidecar)["reload"]["problem"].is_null());
}

#[test]
fn limits_are_taken_up_by_sessions_that_are_open() {
    let mut world = World::empty();
    let _origin = world.origin(ALLOWED);
    let sidecar = started(&world, &[]);
    let ask = || sidecar.curl(sidecar.word("proxy_url"), &["https://api.allowed.test/status/204"]);
    assert!(ask().contains("204"));
    let config = |limits: &str| {
        let before = reloads(&sidecar);
        let text = format!("[egress.limits]\n{limits}");
        world.home.write("keyless/config.toml", text).unwrap();
        wait_until("the limits are in force", || reloads(&sidecar) > before);
    };
    config("requests_per_minute = 1\n");
    assert!(ask().contains("204"));
    assert!(ask().contains("quota_exceeded"));
    config("connections = 1\n");
    let (_, address) = sidecar.word("proxy_url").rsplit_once('@').unwrap();
    let held = TcpStream::connect(address.trim_end_matches('/')).unwrap();
    assert!(ask().contains("too_many_connections"));
    drop(held);
    config("");
    assert!(ask().contains("204"));
}

/// (e) 104.
#[test]
fn a_secret_that_leaves_the_catalog_is_withdrawn_from_what_is_open() {
    let mut world = World::empty();
    let origin = world.origin(ALLOWED);
    let sidecar = started(&world, &[]);
    let placeholder = sidecar.placeholder();
    let stream = endless(&sidecar, &placeholder);
    let rest = "spec:\n  secrets: []\n";
    write_catalog(&world, &CATALOG.replace(&CATALOG[CATALOG.find("spec:").unwrap()..], rest));
    let code = exits(stream);
    assert!(code.is_some_and(|code| code != 0), "the stream is cut: {code:?}");
    let gone = origin.wait_until(PATIENCE, |seen| seen.connections.iter().all(|one| one.closed));
    assert!(gone, "toward the destination as well");
    let header = format!("x-key: {placeholder}");
    let answer =
        sidecar.curl(sidecar.word("proxy_url"), &["-H", &header, "https://api.allowed.test/"]);
    assert!(answer.contains("x-keyless-refused: secret_withdrawn"), "{answer}");
    assert_eq!(health(&sidecar)["secrets"], 0);
    write_catalog(&world, CATALOG);
    wait_until("it is back", || health(&sidecar)["secrets"] == 1);
    assert_eq!(exits(curl(&sidecar, &["-f", "-H", &header, "https://api.allowed.test/"])), Some(0));
    let updates = || world.log().into_iter().filter(|entry| entry["action"] == "update").count();
    wait_until("both changes are logged", || updates() == 2);
}

/// As one change of a deployment takes both away.
#[test]
fn a_secret_that_leaves_the_catalog_with_its_file_is_not_missed() {
    let world = World::empty();
    let sidecar = started(&world, &[]);
    fs::remove_file(world.operator_file("mounted/api/..data")).unwrap();
    let rest = "spec:\n  secrets: []\n";
    write_catalog(&world, &CATALOG.replace(&CATALOG[CATALOG.find("spec:").unwrap()..], rest));
    wait_until("it is gone", || health(&sidecar)["secrets"] == 0);
    // Whatever is read after the catalog has been read by then.
    thread::sleep(Duration::from_secs(1));
    let problem = &health(&sidecar)["reload"]["problem"];
    assert!(problem.is_null(), "{problem}");
}

/// Each would be a sidecar that does less than its words say, or something else.
#[test]
fn what_would_not_work_as_written_is_refused_before_anything_listens() {
    let world = World::empty();
    mount(&world, "v0", world.canary.value());
    let place = |name: &str| world.operator_file(name).display().to_string();
    let (catalog, mounted, key) = (place("catalog.yaml"), place("mounted"), place("key"));
    let files = ["--catalog", &catalog, "--key-file", &key, "--session", "s"];
    let listens = ["--secrets-dir", &mounted, "--listen", "127.0.0.1:0"];
    let proxy = [&["proxy"], &files[..], &listens].concat();
    let placeholders = [&["placeholders"], &files[..]].concat();
    for (text, told) in [
        (
            format!("{CATALOG}      maxOccurrences: 0\n"),
            "catalog.yaml:8:23: `maxOccurrences` of `API_TOKEN` is 0",
        ),
        (
            format!("{CATALOG}      allow: ['GET evil.test/**']\n"),
            "`GET evil.test/**` is about a host, or port, that `egressTo` of `API_TOKEN`",
        ),
        (
            CATALOG.replace("API_TOKEN", "HTTPS_PROXY"),
            "catalog.yaml:5:12: `HTTPS_PROXY` is how agents are led to Keyless",
        ),
    ] {
        write_catalog(&world, &text);
        for command in [&proxy, &placeholders] {
            let errors = world.keyless(command).run().exits(2).errors();
            assert!(errors.contains(told), "{errors}");
        }
    }
    write_catalog(&world, CATALOG);
    let route = |to| format!("api.allowed.test:443=127.0.0.1:{to}");
    let routes = ["--connect-to", &route(1), "--connect-to", &route(2)];
    let errors = world.keyless(&[&proxy[..], &routes].concat()).run().exits(2).errors();
    assert!(errors.contains("api.allowed.test:443 stands there twice"), "{errors}");
}

#[test]
fn the_lockdown_is_flipped_by_the_catalog() {
    let mut world = World::empty();
    let (_origin, evil) = (world.origin(ALLOWED), world.origin(EVIL));
    // A name that no route knows: policy is asked before it is looked up.
    let sidecar = started(&world, &[]);
    let header = format!("x-key: {}", sidecar.placeholder());
    let ask = |url: &str| sidecar.curl(sidecar.word("proxy_url"), &["-k", "-H", &header, url]);
    assert!(ask("https://evil.test/").contains("200"));
    assert!(!ask("https://unlisted.invalid/").contains("destination_not_listed"));
    write_catalog(&world, &format!("{CATALOG}  egress: {{ policy: allowlist }}\n"));
    wait_until("it is in force", || reloads(&sidecar) > 0);
    let answer = ask("https://unlisted.invalid/");
    assert!(answer.contains("destination_not_listed"), "{answer}");
    assert!(ask("https://api.allowed.test/").contains("200"));
    write_catalog(&world, CATALOG);
    wait_until("it is flipped back", || reloads(&sidecar) > 1);
    assert!(!ask("https://unlisted.invalid/").contains("destination_not_listed"));
    world.assert_received_placeholder_only(&evil);
}

/// (e) 109 and 110, as far as metrics and logs go.
#[test]
fn metrics_and_json_logs_tell_what_happened_and_no_value_or_query() {
    let mut world = World::empty();
    let _origin = world.origin(ALLOWED);
    let sidecar = started(&world, &["--log-format", "json"]);
    let header = format!("x-key: {}", sidecar.placeholder());
    let url = "https://api.allowed.test/bytes?n=1234&secret-query=1";
    assert_eq!(exits(curl(&sidecar, &["-o", "/dev/null", "-H", &header, url])), Some(0));
    let proxy = sidecar.word("proxy_url").replace("thread-7:", "thread-7:x");
    sidecar.curl(&proxy, &["https://api.allowed.test/"]);
    let elsewhere = ["-H", "host: elsewhere.test", "https://api.allowed.test/refused"];
    assert_eq!(exits(curl(&sidecar, &elsewhere)), Some(0));
    let metrics = || page(&sidecar, "/metrics").1;
    let lines = [
        "keyless_requests_total{status=\"2xx\"} 1",
        "keyless_traffic_bytes_total{direction=\"received\"} 1234",
        "keyless_refusals_total{code=\"proxy_auth_required\"} 1",
        "keyless_uses_total 1",
        "keyless_secrets 1",
        "keyless_request_duration_seconds_count 1",
    ];
    for line in lines {
        wait_until(line, || metrics().contains(line));
    }
    let text = metrics();
    assert_eq!(page(&sidecar, "/readyz").0, 200);
    assert_eq!(page(&sidecar, "/else").0, 404);
    let told = |event: &str| log(&world).contains(&format!("\"event\":\"{event}\""));
    let all_told = || told("request") && log(&world).contains("authority_mismatch");
    wait_until("all are noted", || all_told() && told("refused"));
    let log = log(&world);
    let lines: Vec<Value> = log.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let of = |event: &str| lines.iter().find(|line| line["event"] == event).unwrap();
    let request = of("request");
    assert_eq!((&request["path"], &request["status"]), (&"/bytes".into(), &200.into()));
    assert_eq!(
        (&request["session"], &request["bytes_received"]),
        (&"thread-7".into(), &1234.into())
    );
    assert_eq!(of("refused")["code"], "proxy_auth_required");
    let refused = lines.iter().find(|line| line["code"] == "authority_mismatch").unwrap();
    assert_eq!(
        (&refused["authority"], &refused["status"], &refused["bytes_sent"]),
        (&"api.allowed.test:443".into(), &421.into(), &0.into())
    );
    assert!(refused["bytes_received"].as_u64() > Some(50), "{refused}");
    assert!(refused["duration_ms"].is_u64(), "{refused}");
    assert!(!log.contains("secret-query") && !text.contains("api.allowed.test"));
}

#[test]
fn sigterm_lets_end_what_is_under_way_and_begins_nothing() {
    let mut world = World::empty();
    // It goes on when everything else was seen, however long that takes.
    let go_on = Arc::new(Notify::new());
    let told = Arc::clone(&go_on);
    let in_two = Handler::new(move |_| {
        let reply = stream::in_two(vec![b'.'; 10].into(), vec![b'.'; 90].into(), told.clone());
        async { reply }
    });
    let _origin = world.origin_of(ALLOWED, in_two);
    let mut sidecar = started(&world, &["--drain", "5m"]);
    let mut download = curl(&sidecar, &["-N", "https://api.allowed.test/"]);
    download.stdout.as_mut().unwrap().read_exact(&mut [0; 10]).unwrap();
    sidecar.process.signal(Signal::TERM);
    wait_until("it drains", || page(&sidecar, "/readyz").0 == 503);
    assert_eq!(health(&sidecar)["status"], "draining");
    let answer = sidecar.curl(sidecar.word("proxy_url"), &["https://api.allowed.test/"]);
    assert!(answer.contains("x-keyless-refused: draining"), "{answer}");
    go_on.notify_one();
    let mut rest = Vec::new();
    download.stdout.as_mut().unwrap().read_to_end(&mut rest).unwrap();
    assert_eq!((rest.len(), exits(download)), (90, Some(0)));
    assert_eq!(sidecar.process.wait().code(), Some(0));
    let log = log(&world);
    assert!(log.contains("Draining: 1 under way.") && log.contains("Drained."), "{log}");
}

#[test]
fn a_drain_has_an_end() {
    let mut world = World::empty();
    let _origin = world.origin(ALLOWED);
    let mut sidecar = started(&world, &["--drain", "1s"]);
    let stream = endless(&sidecar, &sidecar.placeholder());
    sidecar.process.signal(Signal::TERM);
    assert_eq!(sidecar.process.wait().code(), Some(0));
    assert!(log(&world).contains("Drained; 1 cut."), "{}", log(&world));
    let code = exits(stream);
    assert!(code.is_some_and(|code| code != 0), "{code:?}");
}

/// Its client may ask another sidecar; nothing is wrong with its session.
#[test]
fn what_waits_at_the_end_of_a_drain_is_told_to_come_again() {
    let mut world = World::empty();
    let silent = Handler::new(|_| std::future::pending());
    let origin = world.origin_of(ALLOWED, silent);
    let mut sidecar = started(&world, &["--drain", "1s"]);
    let waiting = curl(&sidecar, &["-i", "https://api.allowed.test/"]);
    wait_until("it is asked", || !origin.requests().is_empty());
    sidecar.process.signal(Signal::TERM);
    assert_eq!(sidecar.process.wait().code(), Some(0));
    let output = waiting.wait_with_output().unwrap();
    let answer = String::from_utf8(output.stdout).unwrap();
    assert!(answer.contains(" 503") && answer.contains("x-keyless-refused: draining"), "{answer}");
}

#[test]
fn a_quota_of_the_operator_holds() {
    let mut world = World::empty();
    let origin = world.origin(ALLOWED);
    world.home.write("keyless/config.toml", "[egress.limits]\nrequests_per_minute = 5\n").unwrap();
    let sidecar = started(&world, &[]);
    let words = ["-w", "%{http_code} ", "-o", "/dev/null", "https://api.allowed.test/?[1-8]"];
    let output = curl(&sidecar, &words).wait_with_output().unwrap();
    let codes = String::from_utf8(output.stdout).unwrap();
    assert_eq!(codes.trim(), "200 200 200 200 200 429 429 429");
    assert_eq!(origin.requests().len(), 5);
}

/// The vault's sessions, in the process of `keyless run`.
#[test]
fn a_secret_that_is_removed_from_the_vault_is_withdrawn_from_a_run() {
    let mut world = World::with_token();
    let origin = world.origin(ALLOWED);
    let script = format!(
        "printf ready > ready
        curl -sSN -o /dev/null -H \"x-key: ${VARIABLE}\" 'https://api.allowed.test/drip?n=1000000&chunk=1&ms=5'
        echo \"stream: $?\"
        curl -sSi -H \"x-key: ${VARIABLE}\" https://api.allowed.test/"
    );
    let seen = thread::scope(|scope| {
        let (agent, ready) = (world.agent_sh(&script), world.home.work().join("ready"));
        let command = agent.into_command();
        let running = scope.spawn(move || {
            let mut command = command;
            command.stdin(Stdio::null()).output().unwrap()
        });
        wait_until("the agent runs", || ready.exists());
        wait_until("it streams", || !origin.requests().is_empty());
        world.keyless(&["secret", "remove", TOKEN, "--yes"]).run().ok();
        running.join().unwrap()
    });
    let text = String::from_utf8_lossy(&seen.stdout).into_owned();
    world.saw("stdout", &seen.stdout);
    assert!(text.contains("stream: ") && !text.contains("stream: 0"), "{text}");
    assert!(text.contains("x-keyless-refused: secret_withdrawn"), "{text}");
}

#[test]
fn locking_the_store_cuts_what_streams() {
    let mut world = World::with_token();
    let origin = world.origin(ALLOWED);
    world.write_config();
    world.keyless(&["unlock"]).run().ok();
    let url = "https://api.allowed.test/drip?n=1000000&chunk=1&ms=5";
    let script = format!("curl -sSN -o /dev/null {url:?}; echo \"stream: $?\"");
    let seen = thread::scope(|scope| {
        let agent = world.keyless(&["run", "--", "sh", "-c", &script]).without_passphrase();
        let mut command = agent.into_command();
        let running = scope.spawn(move || command.stdin(Stdio::null()).output().unwrap());
        wait_until("it streams", || !origin.requests().is_empty());
        world.keyless(&["lock"]).run().ok();
        running.join().unwrap()
    });
    let text = String::from_utf8_lossy(&seen.stdout).into_owned();
    assert!(text.contains("stream: ") && !text.contains("stream: 0"), "{text}");
}

#[test]
fn explain_asks_every_rule_and_sends_nothing() {
    let mut world = World::with_token();
    let origin = world.origin(ALLOWED);
    world.write_config();
    let explain = |url: &str, more: &[&str]| {
        let words = [&["egress", "explain", url, "--json"], more].concat();
        world.keyless(&words).without_passphrase().run().json()["data"].clone()
    };
    let rules = |answer: &Value| -> Vec<String> {
        let steps = answer["steps"].as_array().unwrap();
        steps.iter().map(|step| step["rule"].as_str().unwrap().to_owned()).collect()
    };
    let answer = explain("https://api.allowed.test/user?q=1", &[]);
    assert_eq!(
        (&answer["allowed"], rules(&answer)),
        (&true.into(), vec!["policy".to_owned(), "route".to_owned(), "interception".to_owned()],)
    );
    assert_eq!(answer["secrets"][0]["path"], TOKEN);
    assert_eq!(answer["secrets"][0]["locations"][2], serde_json::json!(["header", "swapped"]));
    let places = |answer: &Value| {
        let places = answer["secrets"][0]["locations"].as_array().unwrap().iter();
        places.map(|place| place[0].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    let all = ["basic", "body", "header", "path", "query", "websocket"];
    assert_eq!(places(&answer), all);
    assert_eq!(places(&explain("https://api.allowed.test/", &["--method", "post"])), all[..5]);
    let answer = explain("postgres://me@api.allowed.test:443/shop", &[]);
    assert_eq!(answer["secrets"][0]["locations"], serde_json::json!([["password", "swapped"]]));
    let answer =
        explain("http://api.allowed.test/", &["--connect-to", "api.allowed.test:80=127.0.0.1:1"]);
    assert_eq!(answer["secrets"][0]["locations"][2][1], "cleartext");
    for (url, code) in
        [("https://localhost/", "internal_destination"), ("https://github.com:22/", "port_refused")]
    {
        let answer = explain(url, &[]);
        assert_eq!((&answer["allowed"], &answer["code"]), (&false.into(), &code.into()), "{url}");
        assert_eq!(answer["secrets"], Value::Array(vec![]));
    }
    world
        .home
        .write("operator/locked.yaml", format!("{CATALOG}  egress: {{ policy: allowlist }}\n"))
        .unwrap();
    let catalog = world.operator_file("locked.yaml").display().to_string();
    let answer = explain("https://evil.test/", &["--catalog", &catalog]);
    assert_eq!(answer["code"], "destination_not_listed");
    let refused = world.keyless(&["egress", "explain", "https://localhost/"]).run();
    let words = refused.exits(4).text();
    assert!(
        words.starts_with("It would be refused: internal_destination.") && words.contains("zone"),
        "{words}"
    );
    world.keyless(&["egress", "explain", "ftp://x/"]).run().exits(2);
    world.keyless(&["egress", "explain", "https://x.test/", "--session", "s-none"]).run().exits(3);
    assert!(origin.connections().is_empty());
}

/// (e) 109.
#[test]
fn the_log_has_one_line_with_everything_for_each_request() {
    let mut world = World::empty();
    let _origins = (world.origin(ALLOWED), world.origin(EVIL));
    let mut sidecar = started(&world, &[]);
    let header = format!("x-key: {}", sidecar.placeholder());
    let url = "https://api.allowed.test/bytes?n=5&x=secret-query#[1-3]";
    let words = ["-H", &header, "-d", "123", "-o", "/dev/null", url];
    assert_eq!(exits(curl(&sidecar, &words)), Some(0));
    assert_eq!(exits(curl(&sidecar, &["-k", "-o", "/dev/null", "https://evil.test/"])), Some(0));
    sidecar.process.signal(Signal::TERM);
    assert_eq!(sidecar.process.wait().code(), Some(0));
    let log = world.log();
    let of_kind = |kind: &str| -> Vec<&Value> {
        log.iter().filter(|entry| entry["detail"]["kind"] == kind).collect()
    };
    assert_eq!(of_kind("released").len(), 1, "the first use, before the value was opened");
    let requests = of_kind("forwarded");
    assert_eq!(requests.len(), 3);
    for entry in requests {
        let detail = &entry["detail"];
        assert_eq!(entry["agent"]["session_id"], "thread-7");
        assert_eq!(entry["target"], "api.allowed.test:443");
        assert_eq!(entry["secrets_used"], serde_json::json!(["fleet/api/token"]));
        assert_eq!((&detail["method"], &detail["path"]), (&"POST".into(), &"/bytes".into()));
        assert_eq!((&detail["bytes_sent"], &detail["bytes_received"]), (&3.into(), &5.into()));
        assert_eq!(
            (&detail["status"], &detail["locations"]),
            (&200.into(), &serde_json::json!(["header"]))
        );
        assert!(detail["duration_ms"].is_u64() && entry["result"] == "success");
        assert_eq!(detail["rule"], "to api.allowed.test");
    }
    assert_eq!(of_kind("tunnel").len(), 1);
    assert_eq!(of_kind("tunnel")[0]["detail"]["rule"], "policy");
    assert!(of_kind("closed")[0]["detail"]["bytes_received"].as_u64().unwrap() > 0);
    assert!(!serde_json::to_string(&log).unwrap().contains("secret-query"));
    world.keyless(&["audit", "verify"]).without_passphrase().run().ok();
}

/// Protobuf keeps texts as they are, so what a span says can be seen without a decoder.
#[test]
fn traces_reach_a_collector_without_values_and_queries() {
    let mut world = World::empty();
    let _origin = world.origin(ALLOWED);
    let collector = Origin::start(OriginOptions::cleartext()).unwrap();
    let endpoint = format!("http://{}/otlp", collector.address());
    let mut sidecar = started(&world, &["--otlp-endpoint", &endpoint]);
    let header = format!("x-key: {}", sidecar.placeholder());
    let url = "https://api.allowed.test/bytes?n=5&x=secret-query";
    assert_eq!(exits(curl(&sidecar, &["-H", &header, "-o", "/dev/null", url])), Some(0));
    assert_eq!(exits(curl(&sidecar, &["-o", "/dev/null", "http://localhost:1/"])), Some(0));
    sidecar.process.signal(Signal::TERM);
    assert_eq!(sidecar.process.wait().code(), Some(0));
    let requests = collector.requests();
    assert_eq!(requests[0].target, "/otlp/v1/traces");
    assert_eq!(requests[0].header("content-type").as_deref(), Some("application/x-protobuf"));
    let sent: Vec<u8> = requests.into_iter().flat_map(|request| request.body).collect();
    world.saw("what the collector got", &sent);
    let text = String::from_utf8_lossy(&sent);
    for word in ["keyless.session", "thread-7", ALLOWED, "/bytes", "internal_destination"] {
        assert!(text.contains(word), "{word}: {text}");
    }
    assert!(!text.contains("secret-query") && !text.contains("kloak_"), "{text}");
    let correlation = world.log_of("internal_destination")[0]["correlation_id"].clone();
    let id = correlation.as_str().unwrap().trim_start_matches("req-").replace('-', "");
    let id = data_encoding::HEXLOWER.decode(id.as_bytes()).unwrap();
    assert!(sent.windows(id.len()).any(|bytes| bytes == id), "the trace is the log's request");
    log(&world);
}

/// What is left to the operator, to the body or to nobody is told as such.
#[test]
fn explain_says_what_the_engine_would_do() {
    let mut world = World::with_token();
    let _origins = (world.origin(ALLOWED), world.origin(EVIL));
    world.write_config();
    let add = |path: &str, more: &[&str]| {
        let add = ["secret", "add", path, "--value-stdin"];
        world.keyless(&[&add[..], more].concat()).stdin("value-of-2026-x9Kq").run().ok();
    };
    add("team/block/token", &["--to", "other.test", "--env", "B", "--on-foreign", "block"]);
    let graphql = "POST /graphql graphql:query";
    add("team/calls/token", &["--to", ALLOWED, "--env", "C", "--allow", graphql]);
    let explain = |method: &str, url: &str| {
        let words = ["egress", "explain", url, "--method", method, "--json"];
        world.keyless(&words).without_passphrase().run().json()["data"].clone()
    };
    let of = |answer: &Value, path: &str| {
        let mut all = answer["secrets"].as_array().unwrap().iter();
        all.find(|one| one["path"] == path).unwrap().clone()
    };
    let header = |answer: &Value, path: &str| of(answer, path)["locations"][2][1].clone();
    let (here, there) = ("https://api.allowed.test/graphql", "https://evil.test/");
    let answer = explain("POST", here);
    assert_eq!(header(&answer, "team/block/token"), "foreign_destination");
    assert_eq!(header(&answer, "team/calls/token"), "as its body calls");
    assert_eq!(header(&answer, TOKEN), "swapped");
    // Nobody looks into what goes to a host that no secret names.
    assert_eq!(header(&explain("GET", there), "team/block/token"), "left as it is");
    // Messages are read where some secret may stand in them.
    assert_eq!(of(&explain("GET", here), TOKEN)["locations"][5][1], "left as it is");

    // A place that the proxy fills and may not fill here refuses the request.
    add("team/set/token", &["--to", ALLOWED, "--inject", "bearer", "--allow", "GET /ok"]);
    let set = explain("GET", "https://api.allowed.test/ok");
    assert_eq!(
        (&set["allowed"], &of(&set, "team/set/token")["of_its_own"]),
        (&true.into(), &"sets it".into())
    );
    let refused = explain("POST", "https://api.allowed.test/other");
    assert_eq!((&refused["allowed"], &refused["code"]), (&false.into(), &"rule_denied".into()));
    assert_eq!(of(&refused, "team/set/token")["of_its_own"], "does not use it");

    world.keyless(&["secret", "set", TOKEN, "--approve-on-use", "per-call"]).run().ok();
    assert_eq!(header(&explain("GET", here), TOKEN), "asks");
    world.keyless(&["secret", "revoke", TOKEN, "--compromised", "--yes"]).run().ok();
    assert_eq!(header(&explain("GET", here), TOKEN), "secret_compromised");
}

/// What a start that fails leaves as it was: the certificate that clients of the running one trust, and the log.
#[test]
fn a_second_sidecar_of_a_session_takes_nothing_from_the_first() {
    let mut world = World::empty();
    let _origin = world.origin(ALLOWED);
    let sidecar = started(&world, &[]);
    let ca = sidecar.word("ca").to_owned();
    let before = fs::read_to_string(&ca).unwrap();
    let (catalog, mounted) = (world.operator_file("catalog.yaml"), world.operator_file("mounted"));
    let key = world.operator_file("key");
    let words = |more: &[&str]| {
        let paths = [catalog.to_str().unwrap(), mounted.to_str().unwrap(), key.to_str().unwrap()];
        let files =
            ["proxy", "--catalog", paths[0], "--secrets-dir", paths[1], "--key-file", paths[2]];
        world.keyless(&[&files[..], more].concat()).run()
    };
    let second = words(&["--session", "thread-7", "--listen", "127.0.0.1:0"]).exits(2).errors();
    assert!(second.contains("serves session thread-7") && second.contains("--session"), "{second}");
    assert!(second.contains("process "), "{second}");
    // Another session, at a port that is taken.
    let taken = sidecar.word("proxy_url").rsplit('@').next().unwrap().to_owned();
    words(&["--session", "other", "--listen", &taken]).exits(2);
    assert_eq!(fs::read_to_string(&ca).unwrap(), before);
    assert!(!world.home.keyless_home().join("run/ca-other.pem").exists());
    let log = world.keyless(&["audit", "tail", "--json"]).run().stdout;
    let starts = String::from_utf8(log).unwrap().matches("session_start").count();
    assert_eq!(starts, 1);
}
