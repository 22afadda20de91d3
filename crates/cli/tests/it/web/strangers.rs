//! Who has no link, no cookie, no factor, or another name for the page.

use std::{fs, process::Command};

use super::Browser;
use crate::{
    mcp::{Agent, unlocked},
    world::{TOKEN, World},
};

/// An answer as curl shows it, head first.
struct Answer(String);

impl Answer {
    fn status(&self) -> &str {
        self.0.split(' ').nth(1).unwrap_or_default()
    }

    fn head(&self, name: &str) -> Option<&str> {
        let lines = self.0.lines().take_while(|line| !line.trim().is_empty());
        lines
            .filter_map(|line| line.trim_end().split_once(": "))
            .find_map(|(key, value)| (key.eq_ignore_ascii_case(name)).then_some(value))
    }
}

fn curl(arguments: &[&str]) -> Answer {
    let mut curl = Command::new("curl");
    curl.args(["-sS", "-i", "--noproxy", "*", "--max-time", "120"]).args(arguments);
    Answer(String::from_utf8(curl.output().unwrap().stdout).unwrap())
}

fn link(world: &World) -> String {
    let data = world.keyless(&["web", "--json"]).without_passphrase().run().data();
    data["url"].as_str().unwrap().to_owned()
}

/// Same machine, same account, even the same link: nothing without the cookie, the form's word and the factor.
#[test]
fn nobody_gets_further_than_what_they_have() {
    let world = unlocked();
    let mut agent = Agent::connect(&world);
    agent.ask("secrets_request_rotation", &serde_json::json!({ "path": TOKEN }));
    let url = link(&world);
    let origin = url.split_once("/open/").unwrap().0;
    // Another name for the address, as a rebound name would be; then the link is still good.
    let port = origin.rsplit_once(':').unwrap().1;
    for name in ["evil.test", "127.0.0.1"] {
        assert_eq!(curl(&["-H", &format!("Host: {name}:{port}"), &url]).status(), "421");
    }
    let opened = curl(&[&url]);
    let place = opened.head("location").unwrap().to_owned();
    let cookie = opened.head("set-cookie").unwrap().to_owned();
    for word in ["HttpOnly", "SameSite=Strict", &format!("Path={place};")] {
        assert!(cookie.contains(word), "{cookie}");
    }
    assert_eq!(curl(&[&url]).status(), "403", "a link is good once");
    let cookie = cookie.split(';').next().unwrap();
    let home = format!("{origin}{place}");
    assert_eq!(curl(&[&home]).status(), "403", "the path alone opens nothing");
    let other = curl(&[&link(&world)]).head("location").unwrap().to_owned();
    assert_eq!(curl(&["-b", cookie, &format!("{origin}{other}")]).status(), "403");
    let asked = curl(&["-b", cookie, &home]);
    assert!(asked.status() == "401" && !asked.0.contains(TOKEN), "{}", asked.0);
    for room in ["secrets", "passkeys", "log", "events", "list", "sessions", "approvals", "egress"]
    {
        let room = curl(&["-b", cookie, &format!("{home}{room}")]);
        assert!(room.status() == "401" && !room.0.contains(TOKEN), "{}", room.0);
    }
    let form = asked.0.split("name=\"form\" value=\"").nth(1).unwrap();
    let form = form.split('"').next().unwrap();
    let passphrase = fs::read_to_string(world.operator_file("passphrase")).unwrap();
    let send_as = |cookie: &str, room: &str, from: &str, own: &str| {
        let (origin, field) = (format!("Origin: {from}"), format!("form={own}"));
        let factor = format!("factor={}", passphrase.trim());
        curl(&[
            "-b",
            cookie,
            "-H",
            &origin,
            "-d",
            &field,
            "--data-urlencode",
            &factor,
            &format!("{home}{room}"),
        ])
    };
    let send = |room: &str, from: &str, own: &str| send_as(cookie, room, from, own);
    assert_eq!(send("sign-in", "https://evil.test", form).status(), "403");
    assert_eq!(send("sign-in", "null", form).status(), "403");
    assert_eq!(send("sign-in", origin, "0123").status(), "400", "a form of another page");
    assert_eq!(send("lock", origin, form).status(), "401", "before the factor");
    let proven = send("sign-in", origin, form);
    assert_eq!(proven.status(), "303");
    assert_eq!(curl(&["-b", cookie, &home]).status(), "403", "the cookie from before the proof");
    let cookie = proven.head("set-cookie").unwrap().split(';').next().unwrap();
    let inside = curl(&["-b", cookie, &home]);
    assert!(inside.0.contains(TOKEN));
    let send = |room: &str, from: &str, own: &str| send_as(cookie, room, from, own);
    assert_eq!(send("lock", origin, form).status(), "400", "the word from before the proof");
    let form = inside.0.split("name=\"form\" value=\"").nth(1).unwrap();
    let form = form.split('"').next().unwrap();
    assert_eq!(send("lock", origin, "").status(), "400", "without the form's word");
    assert_eq!(send("lock", "https://evil.test", form).status(), "403");
    assert_eq!(send("sign-out", origin, form).status(), "200");
    assert_eq!(curl(&["-b", cookie, &home]).status(), "403", "a visit that is over");
}

/// Guessing is cut short, on record, and another site's page can neither read nor frame nor post.
#[test]
fn guesses_and_other_sites_are_refused() {
    let world = unlocked();
    let mut browser = Browser::start(
        &world,
        "const { createServer } = require('node:http');
const evil = createServer((_, answer) => answer.setHeader('Content-Type', 'text/html').end('<p>evil</p>'));
await new Promise((ready) => evil.listen(0, 'localhost', ready));
const foreign = await page.context().newPage();
const sent = [];
foreign.on('request', (request) => sent.push(request.headers()));
await foreign.goto(`http://localhost:${evil.address().port}/`);
const cookies = await page.context().cookies(`http://localhost:${evil.address().port}/`);
assert.deepEqual(cookies, [], 'another port is sent no cookie');
const read = await foreign.evaluate((url) => fetch(url, { credentials: 'include' }).then(() => 'read', () => 'refused'), base);
assert.equal(read, 'refused');
const framed = await foreign.evaluate((url) => new Promise((done) => {
  const frame = document.createElement('iframe');
  frame.onload = () => { try { done(String(frame.contentDocument?.body?.innerText)); } catch { done('closed'); } };
  frame.src = url; document.body.append(frame);
}), base);
assert.ok(['closed', 'null', 'undefined'].includes(framed), framed);
const posted = await foreign.evaluate((url) => fetch(url, { method: 'POST', mode: 'no-cors', credentials: 'include', body: 'form=x' })
  .then((answer) => answer.type, () => 'refused'), base + 'lock');
assert.ok(['opaque', 'refused'].includes(posted), posted);
await page.reload(); await seen('Waiting for you');
await foreign.goto(`http://localhost:${evil.address().port}/`);
await foreign.evaluate((url) => { location.assign(url); }, link());
await foreign.getByText('Are you the operator?').waitFor();
const door = await arrive();
const guess = async (words) => {
  await door.getByLabel('Passphrase or code').fill(words);
  // The page before may say the same: this one's own answer is waited for.
  const answered = door.waitForResponse((answer) => answer.request().method() === 'POST');
  await door.getByRole('button', { name: 'Go on' }).click();
  await (await answered).finished(); await door.waitForLoadState();
  await door.getByText(/does not open the store|too many wrong tries/).first().waitFor();
  return await door.getByText('too many wrong tries').count() === 0;
};
// Five within a minute, which a busy machine may not come to at once.
let judged = 0;
while (judged < 30 && await guess('not the passphrase ' + judged)) judged += 1;
assert.ok(judged >= 5, `${judged} guesses`);
assert.equal(await guess(passphrase()), false);
tell(String(judged));
faults.length = 0; evil.close(); evil.closeAllConnections();",
    );
    let judged: usize = browser.told().parse().unwrap();
    browser.done();
    assert_eq!(world.log_of("wrong_passphrase").len(), judged);
}
