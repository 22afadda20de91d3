//! The desktop's keyring: GNOME's on a message bus of its own, with libsecret's tool for the other end.

use std::{
    io::{BufRead, BufReader, Write},
    process::{Child, Command, Stdio},
};

use serde_json::json;
use zbus::blocking::{connection, fdo::DBusProxy};

use crate::{
    sources::{sources, state},
    world::{ALLOWED, TOKEN, VARIABLE, World, wait_until},
};

const USE: &str = r#"curl -sS -o /dev/null -H "X: $TOKEN" https://api.allowed.test/"#;

/// What every source does: it is shown with what it can do, its value reaches the origin and nobody else, and what it
/// does not have is told.
fn obeys(world: &mut World, bus: &str, [present, absent]: [&str; 2], can: &[&str]) {
    let origin = world.origin(ALLOWED);
    let world = &*world;
    let keyless = |words: &[&str]| world.keyless(words).env("DBUS_SESSION_BUS_ADDRESS", bus);
    let add = |path: &str, reference: &str| {
        let source = format!("source:other:{reference}");
        let words = ["secret", "add", path, "--to", ALLOWED, "--env", VARIABLE, "--source"];
        keyless(&[&words[..], &[&source]].concat()).run().ok();
    };
    add(TOKEN, present);
    keyless(&["source", "check", TOKEN]).run().ok();
    let routes = world.route_options();
    let routes: Vec<&str> = routes.iter().map(String::as_str).collect();
    keyless(&[&["run"], &routes[..], &["--", "sh", "-c", USE]].concat()).run().ok();
    world.assert_received(&origin);
    add("team/api/absent", absent);
    let seen = keyless(&["source", "check", "team/api/absent"]).run();
    assert!(seen.exits(1).text().contains("has no value"), "{}", seen.text());
    let listed = keyless(&["source", "list", "--json"]).run().data();
    let declared = listed["declared"].as_array().unwrap().iter();
    let other = declared.clone().find(|source| source["name"] == "other").unwrap();
    assert_eq!((&other["declared"], &other["state"]), (&json!(can), &json!("available")));
}

/// A message bus, for whoever is told its address.
pub(crate) struct Bus {
    pub(crate) address: String,
    processes: Vec<Child>,
}

impl Bus {
    pub(crate) fn start(world: &World) -> Self {
        let mut daemon = Command::new("dbus-daemon")
            .args(["--session", "--nofork", "--print-address"])
            .arg(format!("--address=unix:path={}", world.operator_file("bus").display()))
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut address = String::new();
        BufReader::new(daemon.stdout.as_mut().unwrap()).read_line(&mut address).unwrap();
        Self { address: address.trim().to_owned(), processes: vec![daemon] }
    }

    /// With GNOME's keyring on it, unlocked by a password that nobody else has.
    fn with_keyring(world: &World) -> Self {
        let mut bus = Self::start(world);
        let home = world.operator_file("keyring");
        std::fs::create_dir_all(&home).unwrap();
        let mut keyring = bus
            .command("gnome-keyring-daemon", &["--foreground", "--unlock", "--components=secrets"])
            .env("HOME", &home)
            .env("XDG_DATA_HOME", &home)
            .env("XDG_RUNTIME_DIR", &home)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        // Unlocked once its input has ended, and it says so.
        keyring.stdin.take().unwrap().write_all(b"keyring-password").unwrap();
        let mut line = String::new();
        BufReader::new(keyring.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
        bus.processes.push(keyring);
        // Who asks before it has its name would have the bus start another one, which is locked.
        let connection =
            connection::Builder::address(bus.address.as_str()).unwrap().build().unwrap();
        let names = DBusProxy::new(&connection).unwrap();
        let has_name = || names.name_has_owner("org.freedesktop.secrets".try_into().unwrap());
        wait_until("the keyring is on the bus", || has_name().unwrap());
        bus
    }

    fn command(&self, program: &str, arguments: &[&str]) -> Command {
        let mut command = Command::new(program);
        command.args(arguments).env("DBUS_SESSION_BUS_ADDRESS", &self.address);
        command.stderr(Stdio::null());
        command
    }

    fn store(&self, attributes: &[&str], value: &str) {
        let mut words = vec!["store", "--label=a test"];
        words.extend(attributes);
        let mut tool = self.command("secret-tool", &words).stdin(Stdio::piped()).spawn().unwrap();
        tool.stdin.take().unwrap().write_all(value.as_bytes()).unwrap();
        assert!(tool.wait().unwrap().success(), "secret-tool store");
    }

    fn look_up(&self, attributes: &[&str]) -> Vec<u8> {
        let words = [&["lookup"], attributes].concat();
        self.command("secret-tool", &words).output().unwrap().stdout
    }
}

impl Drop for Bus {
    fn drop(&mut self) {
        for process in self.processes.iter_mut().rev() {
            let _ = process.kill();
            let _ = process.wait();
        }
    }
}

#[test]
fn the_desktops_keyring() {
    let mut world = World::with_store();
    let bus = Bus::with_keyring(&world);
    let address = bus.address.clone();
    bus.store(&["service", "github", "username", "ada"], world.canary.value());
    let text = "schema_version = 1\n[[source]]\nname = \"other\"\ntype = \"keyring\"\ncache_ttl_seconds = 0\n";
    sources(&world, &format!("{text}access = \"readwrite\"\n[default]\nsource = \"other\"\n"));
    let references = ["service=github,username=ada", "service=github,username=eve"];
    obeys(&mut world, &address, references, &["read", "list", "write"]);
    let keyless = |words: &[&str]| world.keyless(words).env("DBUS_SESSION_BUS_ADDRESS", &address);
    // A path has attributes of its own; what is written, other programs find.
    let path = "team/api/routed";
    keyless(&["secret", "add", path, "--to", ALLOWED, "--source", "routed"]).run().ok();
    for _ in 0..2 {
        let value = world.another_value();
        let rotate = ["secret", "rotate", path, "--value-stdin"];
        keyless(&rotate).stdin(&value[..]).run().ok();
        let found = bus.look_up(&["service", "keyless", "username", path]);
        assert_eq!(String::from_utf8_lossy(&found), value);
    }
    // What it holds is told by attributes and labels; what was written under a path is known as that.
    let browse = keyless(&["source", "browse", "other", "--json"]).run().data();
    let one = |reference: &str, name: &str, path: &str| json!({ "reference": reference, "name": name, "path": path });
    let expected = json!([
        one("service=github,username=ada", "a test", TOKEN),
        one(&format!("service=keyless,username={path}"), &format!("Keyless: {path}"), path),
    ]);
    assert_eq!(browse["held"], expected);
    // Two items under one name are none, and without a bus there is no keyring.
    bus.store(&["service", "github", "username", "ada", "kind", "other"], "x");
    let seen = keyless(&["source", "check", TOKEN]).run();
    assert!(seen.exits(1).text().contains("several items"), "{}", seen.text());
    assert_eq!(state(&world, "other")["state"], json!("unavailable"));
}
