//! A proxy that leads out, as config.toml names it.

use std::{
    fs,
    io::{BufRead as _, BufReader, Write as _},
    net::{SocketAddr, TcpListener},
    os::unix::fs::PermissionsExt as _,
    sync::{Arc, Mutex},
    thread,
};

use data_encoding::BASE64;

use crate::world::{World, wait_until};

/// A proxy that notes who asked for what, and lets nobody through.
struct Corporate {
    address: SocketAddr,
    heads: Arc<Mutex<Vec<String>>>,
}

impl Corporate {
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let (address, heads) = (listener.local_addr().unwrap(), Arc::default());
        let noted: Arc<Mutex<Vec<String>>> = Arc::clone(&heads);
        thread::spawn(move || {
            for mut client in listener.incoming().map_while(Result::ok) {
                let lines = BufReader::new(client.try_clone().unwrap()).lines();
                let head = lines.map_while(Result::ok).take_while(|line| !line.is_empty());
                noted.lock().unwrap().push(head.collect::<Vec<_>>().join("\n"));
                let _ = client.write_all(b"HTTP/1.1 407 Who?\r\ncontent-length: 0\r\n\r\n");
            }
        });
        Self { address, heads }
    }

    fn was_asked_by(&self, pair: &str) -> bool {
        let basic = BASE64.encode(pair.as_bytes());
        self.heads.lock().unwrap().iter().any(|head| head.contains(&basic))
    }
}

#[test]
fn a_new_credential_for_the_proxy_is_taken_up() {
    let world = World::with_store();
    let corporate = Corporate::start();
    let file = world.operator_file("proxy-credential");
    let write = |pair: &str| {
        fs::write(&file, pair).unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
    };
    write("staff:first-password");
    let config = format!(
        "[egress.upstream_proxy]\naddress = \"{}\"\ncredential_file = {file:?}\n",
        corporate.address
    );
    world.home.write("keyless/config.toml", config).unwrap();
    world.keyless(&["unlock"]).run().ok();
    let ask = || {
        let words = ["run", "--", "curl", "-sS", "http://nowhere.test/"];
        world.keyless(&words).without_passphrase().run().ok()
    };
    let told = ask();
    assert!(told.contains("does not take our credential (407)"), "{told}");
    assert!(told.contains("upstream_proxy_failed") && told.contains("credential_file"), "{told}");
    assert!(corporate.was_asked_by("staff:first-password"));
    write("staff:second-password");
    wait_until("the new one is used", || {
        ask();
        corporate.was_asked_by("staff:second-password")
    });
    let words = world.keyless(&["egress", "explain", "https://nowhere.test/"]).run().ok();
    let way = format!("through the upstream proxy at {}", corporate.address);
    assert!(words.contains(&way), "{words}");
}

/// The destination may be well.
#[test]
fn a_proxy_that_is_down_is_told_as_the_proxy() {
    let world = World::with_store();
    let config = "[egress.upstream_proxy]\naddress = \"127.0.0.1:1\"\n";
    world.home.write("keyless/config.toml", config).unwrap();
    let told = world.keyless(&["run", "--", "curl", "-sS", "http://nowhere.test/"]).run().ok();
    for words in ["upstream_proxy_failed", "connection refused", "[egress.upstream_proxy]"] {
        assert!(told.contains(words), "{told}");
    }
}

#[test]
fn explain_knows_what_is_left_alone() {
    let world = World::with_token();
    let route = "api.allowed.test:443=127.0.0.1:1";
    let words = ["egress", "explain", "https://api.allowed.test/", "--connect-to", route];
    assert!(world.keyless(&words).run().ok().contains("requests are read"));
    let config = "[egress]\npass_through = [\"*.allowed.test\"]\n";
    world.home.write("keyless/config.toml", config).unwrap();
    let told = world.keyless(&words).run().ok();
    assert!(told.contains("pass_through names the host") && !told.contains("swapped"), "{told}");
}
