//! The official conformance suite against the HTTP door: its server scenarios that need no example tools.

use std::{
    fs,
    io::{BufRead as _, BufReader},
    process::{Child, Command, Stdio},
};

use super::{HttpDoor, unlocked};

/// Of the suite's scenarios; the others call tools, resources and prompts of an example server.
const SCENARIOS: &[&str] = &[
    "completion-complete",
    "dns-rebinding-protection",
    "logging-set-level",
    "ping",
    "prompts-list",
    "resources-list",
    "server-initialize",
    "server-sse-multiple-streams",
    "server-sse-polling",
    "tools-list",
];

/// A process that ends with the test.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The suite shows no credential: a small proxy of ours does, and passes everything else on as it came.
#[test]
fn the_official_suite_passes() {
    let world = unlocked();
    let door = HttpDoor::open(&world, &[]);
    fs::write(world.operator_file("bearer.js"), include_str!("bearer.js")).unwrap();
    let mut node = Command::new("node");
    node.arg(world.operator_file("bearer.js")).args([&door.url, &door.credential(&world)]);
    let mut node = Running(node.stdout(Stdio::piped()).spawn().unwrap());
    let mut port = String::new();
    BufReader::new(node.0.stdout.take().unwrap()).read_line(&mut port).unwrap();
    let url = format!("http://127.0.0.1:{}/mcp", port.trim_end());
    for scenario in SCENARIOS {
        let mut suite = Command::new("conformance");
        suite.args(["server", "--url", &url, "--scenario", scenario]);
        let output = suite.current_dir(world.home.root()).output().unwrap();
        let said = String::from_utf8_lossy(&output.stdout);
        world.saw("the suite", &output.stdout);
        assert!(output.status.success() && said.contains(" 0 failed"), "{scenario}: {said}");
        if scenario == &"server-sse-polling" {
            // Streams begin with an id and `retry`; the warning is about a tool of its example server (docs/mcp.md).
            assert!(said.contains("Passed: 2/2, 0 failed, 1 warnings"), "{said}");
        }
    }
}
