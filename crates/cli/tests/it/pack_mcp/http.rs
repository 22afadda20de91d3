use std::fs;

use serde_json::{Value, json};

use super::{Agent, codex, with_repo};
use crate::mcp::HttpDoor;

/// `keyless mcp --toolset pack --http`: the same tools for an official client that has the credential, and no other.
#[test]
fn an_official_client_reviews_and_applies_over_http() {
    let world = with_repo(1);
    let door = HttpDoor::open(&world, &["--toolset", "pack"]);
    let (url, file) = (&door.url, &door.credential_file);
    let mut agent = Agent::connect_to(&world, &[url, file.to_str().unwrap()]);
    assert_eq!(agent.hello["serverInfo"]["name"], "agentpack");
    assert_eq!(agent.tools.len(), 11);
    let token = agent.token(&json!({}));
    let refused = agent.refused("deploy_apply", &json!({ "confirm_token": token }));
    assert_eq!(refused["code"], "E_CONFIRM_REQUIRED");
    let apply = json!({ "confirm_token": token, "yes": true });
    assert_eq!(agent.data("deploy_apply", &apply)["applied"], true);
    assert!(codex(&world).join("AGENTS.md").exists());
    assert_eq!(agent.refused("deploy_apply", &apply)["code"], "E_CONFIRM_TOKEN_MISMATCH");
    assert_eq!(agent.data("status", &json!({}))["drift"], Value::Array(Vec::new()));
    let other = world.home.write("wrong", "0123456789abcdef0123456789abcdef").unwrap();
    assert_ne!(fs::read(&other).unwrap(), fs::read(file).unwrap());
    let curl =
        ["curl", "-s", "-o", "/dev/null", "-w", "%{http_code}", "--noproxy", "*", "-d", "{}", url];
    assert_eq!(world.keyless(&[]).instead(&curl).run().text(), "401");
}
