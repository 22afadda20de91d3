//! HTTPS: a certificate of the operator's, and clients that have to show one.

use keyless_testkit::{Leaf, TestCa};

use super::*;

fn write(world: &World, name: &str, leaf: &Leaf) -> [String; 2] {
    let files = [format!("{name}.pem"), format!("{name}.key")];
    for (file, text) in files.iter().zip([&leaf.certificate_pem, &leaf.key_pem]) {
        world.home.write(&format!("operator/{file}"), text).unwrap();
    }
    files.map(|file| world.operator_file(&file).display().to_string())
}

#[test]
fn https_shows_a_certificate_and_may_ask_for_one() {
    let world = with_secrets();
    let [certificate, key] = write(&world, "server", &world.ca.issue(&["127.0.0.1"]).unwrap());
    let [client, client_key] = write(&world, "client", &world.ca.issue_client("bot").unwrap());
    let roots = world.operator_file("ca.pem").display().to_string();
    let serve = ["serve", "--http", "127.0.0.1:0", "--tls-cert", &certificate, "--tls-key", &key];
    let served = Served::serving(&world, &[&serve[..], &["--client-ca", &roots]].concat(), "");
    granted(&world, AGENT, &["db/*"]);
    assert!(served.base.starts_with("https://"), "{}", served.base);
    let agent = |key: &str| served.agents["agent"][key].as_str().unwrap().to_owned();
    let curl = |roots: &str, more: &[&str]| {
        let url = format!("{}{}", served.base, more[0]);
        let plain = ["curl", "-sS", "--max-time", "120", "--cacert", roots, &url];
        let command = [&plain[..], &more[1..]].concat();
        world.keyless(&[]).without_passphrase().instead(&command).run()
    };
    let known = ["--cert", client.as_str(), "--key", client_key.as_str()];
    assert_ne!(curl(&roots, &["/nl/v1/health"]).status.code(), Some(0));
    let found = [&["/.well-known/nl-protocol", "-i"], &known[..]].concat();
    let found = curl(&roots, &found).ok();
    assert!(found.contains("strict-transport-security: max-age=31536000"), "{found}");
    assert!(found.contains("cache-control: public, max-age=3600"), "{found}");
    assert!(found.contains(&format!("{}/nl/v1", served.base)), "{found}");
    let body = json!({
        "nl_version": "1.0", "request_id": "r1", "action": { "type": "exec", "template": "true {{nl:db/PASSWORD}}" },
        "agent": { "agent_uri": AGENT, "instance_id": agent("instance_id") },
    });
    let (body, bearer) =
        (body.to_string(), format!("Authorization: Bearer {}", agent("credential")));
    let act =
        ["/nl/v1/actions", "-d", &body, "-H", &bearer, "-H", "Content-Type: application/json"];
    let done: Value =
        serde_json::from_str(&curl(&roots, &[&act[..], &known].concat()).ok()).unwrap();
    assert_eq!(done["status"], "success", "{done}");
    // A certificate that is replaced is shown from the next connection on.
    let other = TestCa::new();
    write(&world, "server", &other.issue(&["127.0.0.1"]).unwrap());
    world.home.write("operator/other.pem", other.pem()).unwrap();
    let other = world.operator_file("other.pem").display().to_string();
    let health = [&["/nl/v1/health"], &known[..]].concat();
    assert!(curl(&other, &health).ok().contains("healthy"));
    assert_ne!(curl(&roots, &health).status.code(), Some(0));
}
