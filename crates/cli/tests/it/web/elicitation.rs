//! The way to the page through an agent's client (MCP elicitation, URL mode): a person gets there, the agent no further.

use std::{fs, process::Command};

use serde_json::Value;

use super::Browser;
use crate::{
    mcp::{pending, unlocked},
    world::{TOKEN, wait_until},
};

/// The official Python SDK is the client. It offers to show links, and gets one only while the operator has a page open.
#[test]
fn a_client_shows_the_way_to_the_page() {
    let world = unlocked();
    world.home.write("work/elicits.py", include_str!("elicits.py")).unwrap();
    let command = ["python3", "elicits.py", crate::invocation::KEYLESS, TOKEN];
    let mut agent = world.keyless(&[]).without_passphrase().instead(&command).start();
    assert_eq!(agent.line(), "shown: 0", "no page is open, so there is nothing to show");
    let page = world.keyless(&["web", "--json"]).without_passphrase().run().data();
    let origin = page["url"].as_str().unwrap().split_once("/open/").unwrap().0.to_owned();

    // What the agent has of the link: a visit that has proven nothing, and no say.
    agent.say("ask");
    let (id, url) = (agent.line(), agent.line());
    assert!(id.starts_with("prov-") && url.starts_with(&format!("{origin}/open/")), "{id} {url}");
    let opened = curl(&[&url]);
    let head = |name: &str| {
        let line = opened.lines().find(|line| line.to_lowercase().starts_with(name)).unwrap();
        line.split_once(": ").unwrap().1.trim().to_owned()
    };
    let (place, cookie) = (head("location"), head("set-cookie"));
    let cookie = cookie.split(';').next().unwrap();
    let home = format!("{origin}{place}");
    let asked = curl(&["-b", cookie, &home]);
    assert!(asked.starts_with("HTTP/1.1 401") && !asked.contains(TOKEN), "{asked}");
    let form = asked.split("name=\"form\" value=\"").nth(1).unwrap().split('"').next().unwrap();
    let fields = format!("form={form}&answer=accept&tick=yes&value=whatever-the-agent-likes");
    let from = format!("Origin: {origin}");
    let forged = curl(&["-b", cookie, "-H", &from, "-d", &fields, &format!("{home}requests/{id}")]);
    assert!(forged.starts_with("HTTP/1.1 401"), "{forged}");
    assert_eq!(pending(&world).len(), 1, "it still waits");

    // A person who follows one and proves to be the operator answers there; polling tells.
    agent.say("ask");
    let (same, url) = (agent.line(), agent.line());
    assert_eq!(same, id, "the same question is one request");
    let value = world.another_value();
    let script = format!(
        "tell('ready'); const person = await arrive({{}}, await told());
await person.getByLabel('Passphrase or code').fill(passphrase());
await person.getByRole('button', {{ name: 'Go on' }}).click();
await person.locator('a.card', {{ hasText: '{TOKEN}' }}).click();
await person.getByLabel('New value').fill({value:?});
await person.getByLabel('I understand').check();
await person.getByRole('button', {{ name: 'Overwrite the value' }}).click();
await person.getByText('{TOKEN}: done.').first().waitFor();"
    );
    let mut browser = Browser::start(&world, &script);
    assert_eq!(browser.told(), "ready");
    browser.say(&url);
    browser.done();
    agent.say("poll");
    assert_eq!(agent.line(), "ok");
    wait_until("it is answered", || pending(&world).is_empty());
    assert!(agent.wait().success());
    let log = fs::read_to_string(world.home.work().join("elicited.json")).unwrap();
    let said: Value = serde_json::from_str(&log).unwrap();
    assert!(said[0]["message"].as_str().unwrap().contains("only you"), "{said}");
    assert_eq!(said[0]["elicitation_id"], Value::from(id));
}

fn curl(arguments: &[&str]) -> String {
    let mut curl = Command::new("curl");
    curl.args(["-sS", "-i", "--noproxy", "*", "--max-time", "120"]).args(arguments);
    String::from_utf8(curl.output().unwrap().stdout).unwrap()
}
