//! What the desktop tells when an agent asks: a real message bus, and a notification service on it that keeps what it
//! is told.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use serde_json::json;
use zbus::{blocking::connection, interface, zvariant::OwnedValue};

use crate::{
    keyrings::Bus,
    mcp::{Agent, about, approve, gated},
    world::{TOKEN, World, wait_until},
};

/// `org.freedesktop.Notifications`, as a desktop has it.
#[derive(Clone, Default)]
struct Desktop {
    shown: Arc<Mutex<Vec<(String, String)>>>,
}

#[interface(name = "org.freedesktop.Notifications")]
impl Desktop {
    #[expect(clippy::too_many_arguments, reason = "the desktop's own list of them")]
    fn notify(
        &self,
        app_name: &str,
        replaces_id: u32,
        app_icon: &str,
        summary: String,
        body: String,
        actions: Vec<String>,
        hints: HashMap<String, OwnedValue>,
        expire_timeout: i32,
    ) -> u32 {
        assert_eq!((app_name, app_icon, replaces_id), ("Keyless", "dialog-password", 0));
        assert_eq!((hints.into_keys().len(), expire_timeout), (2, -1));
        assert_eq!(actions.into_iter().next(), None, "nothing is answered by a click");
        let mut shown = self.shown.lock().unwrap();
        shown.push((summary, body));
        u32::try_from(shown.len()).unwrap()
    }
}

impl Desktop {
    /// On the bus for as long as the connection is kept.
    fn join(&self, bus: &Bus) -> zbus::blocking::Connection {
        connection::Builder::address(bus.address.as_str())
            .unwrap()
            .name("org.freedesktop.Notifications")
            .unwrap()
            .serve_at("/org/freedesktop/Notifications", self.clone())
            .unwrap()
            .build()
            .unwrap()
    }

    fn shown(&self) -> Vec<(String, String)> {
        self.shown.lock().unwrap().clone()
    }
}

fn unlock_on(world: &World, bus: &str) {
    let unlock = world.keyless(&["unlock", "--for", "10m"]);
    unlock.env("DBUS_SESSION_BUS_ADDRESS", bus).run().ok();
}

#[test]
fn the_desktop_tells_what_waits() {
    let world = World::with_token();
    gated(&world, "per-call");
    let bus = Bus::start(&world);
    let desktop = Desktop::default();
    let connection = desktop.join(&bus);
    unlock_on(&world, &bus.address);
    let mut agent = Agent::connect(&world);
    let reason = "<a href='https://evil.test'>click</a> \u{202e}gpj\u{7} &amp;";
    let id = agent.ask("secrets_request_use_approval", &json!({ "path": TOKEN, "reason": reason }));
    wait_until("it is shown", || !desktop.shown().is_empty());
    let expected = (
        "An agent wants to use a secret".to_owned(),
        format!("{TOKEN}\nAnswer with keyless approve {id}, keyless ui or keyless web."),
    );
    assert_eq!(desktop.shown(), [expected]);
    // The same question is shown once, an answered one not again, the next one by itself.
    agent.ask("secrets_request_use_approval", &json!({ "path": TOKEN, "reason": reason }));
    approve(&world, &[&id, "--deny"]).ok();
    agent.ask("secrets_request_rotation", &about(TOKEN));
    wait_until("the next one is shown", || desktop.shown().len() > 1);
    assert!(desktop.shown()[1].0.contains("rotation"), "{:?}", desktop.shown());
    assert_eq!(desktop.shown().len(), 2);
    for (summary, body) in desktop.shown() {
        world.saw("a notification", format!("{summary}\n{body}").as_bytes());
    }

    // Off by the operator's word, at once; and a desktop that is gone holds nothing up.
    let config = world.home.keyless_home().join("config.toml");
    let text = std::fs::read_to_string(&config).unwrap_or_default();
    std::fs::write(&config, format!("{text}\n[desktop]\nnotify = false\n")).unwrap();
    agent.ask("secrets_propose_new_path", &json!({ "suggested_path": "team/a/b", "metadata": {} }));
    std::thread::sleep(Duration::from_millis(500));
    assert_eq!(desktop.shown().len(), 2);
    std::fs::write(&config, text).unwrap();
    drop((connection, bus));
    agent.ask("secrets_propose_new_path", &json!({ "suggested_path": "team/a/c", "metadata": {} }));
}

/// A bus that takes connections and never says anything.
#[test]
fn a_desktop_that_does_not_answer_holds_nothing_up() {
    let world = World::with_token();
    let socket = world.operator_file("mute");
    let _mute = std::os::unix::net::UnixListener::bind(&socket).unwrap();
    unlock_on(&world, &format!("unix:path={}", socket.display()));
    let mut agent = Agent::connect(&world);
    // The bus is given five seconds; a machine with other work to do may take as long for one of them, and not for all.
    let quickest = (0..3).map(|number| {
        let path = format!("team/desktop/key-{number}");
        let began = Instant::now();
        let proposed = json!({ "suggested_path": path, "metadata": {} });
        let id = agent.ask("secrets_propose_new_path", &proposed);
        assert_eq!(agent.status(&id), "pending");
        began.elapsed()
    });
    let quickest = quickest.min().unwrap();
    assert!(quickest < Duration::from_secs(5), "{quickest:?}");
}
