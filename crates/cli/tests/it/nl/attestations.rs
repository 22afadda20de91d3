//! An organization's word for its agents, and a broker that wants one.

use std::process::Command;

use serde_json::{Value, json};

use super::{AGENT, Served, granted, with_secrets};
use crate::schemas;

#[test]
fn who_has_to_be_attested_shows_an_attestation() {
    let world = with_secrets();
    let key = Command::new("openssl").args(["genpkey", "-algorithm", "ed25519"]).output().unwrap();
    let add = ["secret", "add", "acme/attestor/key", "--value-stdin"];
    world.keyless(&add).stdin(key.stdout).run().ok();
    let served = Served::with(&world, "require_attestation = true");
    granted(&world, AGENT, &["db/*"]);
    let instance = served.agents["agent"]["instance_id"].as_str().unwrap();
    let attest = ["agent", "attest", instance, "--key", "acme/attestor/key", "--json"];
    let attested = world.keyless(&attest).run().data();
    let keys = attested["attestation_keys"].to_string();
    world.home.write("keyless/attestation-keys.json", keys).unwrap();
    let action = json!({ "type": "exec", "template": "printf %s {{nl:db/PASSWORD}} | wc -c" });
    let with = |token: &Value| json!({ "over": "http", "action": action, "headers": { "X-NL-Attestation": token } });
    let token = attested["attestation"].clone();
    let claims = token.as_str().and_then(|token| token.split('.').nth(1)).unwrap();
    let claims = data_encoding::BASE64URL_NOPAD.decode(claims.as_bytes()).unwrap();
    schemas::note(&world, "attestation-claims", &serde_json::from_slice(&claims).unwrap());
    let forged = json!(format!("{}x", token.as_str().unwrap()));
    let answers = served.client(&json!([
        { "over": "http", "action": action }, with(&token), with(&forged),
    ]));
    let told = |at: usize| (&answers[at]["status"], &answers[at]["body"]["error"]["keyless_code"]);
    assert_eq!(told(0), (&json!(401), &json!("attestation_required")), "{}", answers[0]);
    assert_eq!(answers[1]["body"]["status"], "success", "{}", answers[1]);
    assert_eq!(told(2), (&json!(401), &json!("attestation_invalid")), "{}", answers[2]);
}
