//! The network of these tests is one that Linux makes for them: loopback, one address of the open
//! internet on it, and a name server that says what each case needs.

use std::{
    collections::BTreeMap,
    io::Write as _,
    process::{Command, Stdio},
};

use serde_json::{Value, json};

use crate::{invocation::KEYLESS, proxy::CATALOG, world::World};

const PUBLIC: &str = "93.184.216.34";

/// What a sidecar with this catalog says to CONNECTs, in a network where names are as in `names`.
fn ask(catalog: &str, names: &Value, targets: &[&str]) -> Value {
    ask_with(catalog, &json!({ "names": names, "targets": targets }))
}

/// By all that the script can be told.
fn ask_with(catalog: &str, asked: &Value) -> Value {
    let world = World::empty();
    world.home.write("operator/catalog.yaml", catalog).unwrap();
    world.home.write("operator/mounted/api/token", world.canary.value()).unwrap();
    let place = |name: &str| world.operator_file(name).display().to_string();
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/zones.py");
    let (catalog, mounted) = (place("catalog.yaml"), place("mounted"));
    let mut command = Command::new("unshare");
    command.args(["--user", "--map-root-user", "--net", "--mount", "python3", script]);
    command.args([KEYLESS, "--json", "proxy", "--catalog", &catalog, "--secrets-dir", &mounted]);
    command.current_dir(world.home.work()).env_clear().envs(world.home.environment());
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    child.stdin.take().unwrap().write_all(asked.to_string().as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    world.saw("stdout", &output.stdout);
    world.saw("stderr", &output.stderr);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

fn said<'a>(answers: &'a Value, target: &str) -> &'a str {
    answers["answers"][target]["said"].as_str().unwrap()
}

/// (e) 93 and 94: by name.
#[test]
fn a_name_that_leads_inside_is_refused_whatever_the_spelling() {
    let inside = [
        "127.0.0.1",
        "10.0.0.1",
        "172.16.0.1",
        "172.31.255.255",
        "192.168.0.1",
        "169.254.169.254",
        "fd00::1",
        "fe80::1",
        "::1",
        "::",
        "0.0.0.0",
        "100.64.0.1",
        "192.0.0.170",
        "198.18.0.1",
        "240.0.0.1",
        "224.0.0.1",
        "fec0::1",
        "100::1",
        "168.63.129.16",
        "::ffff:169.254.169.254",
        "64:ff9b::a9fe:a9fe",
        "64:ff9b:1::a9fe:a9fe",
        "2002:a9fe:a9fe::",
        "2001:0:4136:e378:8000:63bf:f5ff:fffe",
        "::a9fe:a9fe",
        "::ffff:0:7f00:1",
        "0:0:0:0:0:ffff:7f00:1",
    ];
    let mut names = BTreeMap::new();
    for (number, address) in inside.iter().enumerate() {
        names.insert(format!("n{number}.test"), vec![*address]);
        // One bad answer among good ones.
        names.insert(format!("m{number}.test"), vec![PUBLIC, address]);
    }
    names.insert("translated.test".to_owned(), vec!["64:ff9b::5db8:d822"]);
    names.insert("public.test".to_owned(), vec![PUBLIC]);
    let targets: Vec<String> = names.keys().map(|name| format!("{name}:443")).collect();
    let targets: Vec<&str> = targets.iter().map(String::as_str).collect();
    let answers = ask(CATALOG, &json!(names), &targets);
    for target in targets {
        // An address of NAT64 is the IPv4 address in it; there is no translator in this network.
        let expected = match target {
            "translated.test:443" => "connect_failed",
            "public.test:443" => "200",
            _ => "internal_destination",
        };
        assert_eq!(
            said(&answers, target),
            expected,
            "{target} {}",
            names[&target[..target.len() - 4]][0]
        );
    }
    assert_eq!(answers["dialled"], json!([PUBLIC]));
}

/// What listens on this machine is inside, behind whatever address.
#[test]
fn a_public_address_of_the_machine_itself_is_inside() {
    let names = json!({ "ours.test": [PUBLIC] });
    let asked = json!({ "names": names, "targets": ["ours.test:443"], "is_ours": true });
    let answers = ask_with(CATALOG, &asked);
    assert_eq!(said(&answers, "ours.test:443"), "internal_destination");
    assert_eq!(answers["dialled"], json!([]));
}

/// (e) 97.
#[test]
fn only_the_first_answer_is_ever_dialled() {
    let names = json!({ "rebinding.test": { "first": [PUBLIC], "then": ["127.0.0.1"] } });
    let answers = ask(CATALOG, &names, &["rebinding.test:443"]);
    assert_eq!(said(&answers, "rebinding.test:443"), "200");
    assert_eq!(answers["dialled"], json!([PUBLIC]));
    assert_eq!(answers["asked"]["rebinding.test"], json!({ "1": 1, "28": 1 }));
}

/// (e) 98.
#[test]
fn an_exception_is_one_port_of_one_word() {
    let catalog = format!("{CATALOG}  internal: {{ allowlist: [\"internal.test:443\"] }}\n");
    let names = json!({ "internal.test": ["127.0.0.1"], "other.test": ["127.0.0.1"] });
    let targets = ["internal.test:443", "internal.test:8000", "other.test:443", "127.0.0.1:443"];
    let answers = ask(&catalog, &names, &targets);
    assert_eq!(said(&answers, targets[0]), "200");
    for target in &targets[1..3] {
        assert_eq!(said(&answers, target), "internal_destination", "{target}");
    }
    assert!(["internal_destination", "raw_address"].contains(&said(&answers, targets[3])));
}

/// (e) 99.
#[test]
fn a_name_server_that_fails_is_an_answer() {
    let names = json!({
        "servfail.test": "servfail", "chain.test": "chain", "empty.test": [],
        "silence.test": "silence", "silence.again.test": "silence", "silence.once-more.test": "silence",
    });
    let silent = ["silence.test:443", "silence.again.test:443", "silence.once-more.test:443"];
    let told = ["servfail.test:443", "chain.test:443", "empty.test:443", "none.test:443"];
    let answers = ask(CATALOG, &names, &[&silent[..], &told].concat());
    let seconds = |target: &str| answers["answers"][target]["seconds"].as_f64().unwrap();
    for target in told {
        assert_eq!(said(&answers, target), "name_not_found", "{target}");
        assert_eq!(answers["answers"][target]["status"], 502, "{target}");
        assert!(seconds(target) < 6.0, "{target}: {}", seconds(target));
    }
    for target in silent {
        assert_eq!(said(&answers, target), "name_timeout", "{target}");
        assert_eq!(answers["answers"][target]["status"], 504, "{target}");
    }
    // One of them without what a busy machine adds.
    let quickest = silent.map(seconds).into_iter().fold(f64::INFINITY, f64::min);
    assert!(quickest < 6.0, "{quickest}");
    assert_eq!(answers["dialled"], json!([]));
}
