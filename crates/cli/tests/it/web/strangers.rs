//! Who has no link, no cookie, no factor, or another name for the page.

use std::{
    fs,
    io::{Read as _, Write as _},
    net::TcpStream,
    process::Command,
};

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
    // Who only looks, as a program that previews links does, leaves it good as well.
    assert_eq!(curl(&["--head", &url]).status(), "405");
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
    let send_as = |home: &str, cookie: &str, room: &str, from: &str, own: &str| {
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
    let send = |room: &str, from: &str, own: &str| send_as(&home, cookie, room, from, own);
    assert_eq!(send("sign-in", "https://evil.test", form).status(), "403");
    assert_eq!(send("sign-in", "null", form).status(), "403");
    assert_eq!(send("sign-in", origin, "0123").status(), "400", "a form of another page");
    assert_eq!(send("lock", origin, form).status(), "401", "before the factor");
    let proven = send("sign-in", origin, form);
    assert_eq!(proven.status(), "303");
    assert_eq!(curl(&["-b", cookie, &home]).status(), "403", "the cookie from before the proof");
    let cookie = proven.head("set-cookie").unwrap().split(';').next().unwrap();
    assert_eq!(curl(&["-b", cookie, &home]).status(), "403", "the path from before the proof");
    let home = format!("{origin}{}", proven.head("location").unwrap());
    let inside = curl(&["-b", cookie, &home]);
    assert!(inside.0.contains(TOKEN));
    let send = |room: &str, from: &str, own: &str| send_as(&home, cookie, room, from, own);
    assert_eq!(send("lock", origin, form).status(), "400", "the word from before the proof");
    let form = inside.0.split("name=\"form\" value=\"").nth(1).unwrap();
    let form = form.split('"').next().unwrap();
    assert_eq!(send("lock", origin, "").status(), "400", "without the form's word");
    assert_eq!(send("lock", "https://evil.test", form).status(), "403");
    assert_eq!(send("sign-out", origin, form).status(), "200");
    assert_eq!(curl(&["-b", cookie, &home]).status(), "403", "a visit that is over");
}

/// Browsers send a cookie for a path to that path of every port, and take one from any port: a server of an agent's can
/// have the operator prove their factor in a visit that the agent opened. What it knows of that visit is worth nothing then.
#[test]
fn a_visit_that_an_agent_planted_is_not_the_agents_once_it_is_proven() {
    let world = unlocked();
    super::in_a_browser(
        &world,
        "const { createServer, get } = require('node:http');
const ask = (url, headers = {}) => new Promise((done) => get(url, { headers }, (answer) => {
  let body = ''; answer.on('data', (part) => { body += part; }); answer.on('end', () => done({ answer, body }));
}));
const address = link(), opened = (await ask(address)).answer.headers;
const place = opened.location, home = new URL(address).origin + place, cookie = opened['set-cookie'][0].split(';')[0];
const heard = new Map();
const evil = createServer((request, answer) => {
  heard.set(request.url, request.headers.cookie);
  if (request.url !== '/plant') return answer.setHeader('Content-Type', 'text/html').end('<p>evil</p>');
  answer.writeHead(302, { 'Set-Cookie': `${cookie}; Path=${place}`, Location: home }).end();
});
await new Promise((ready) => evil.listen(0, 'localhost', ready));
const port = evil.address().port;
const victim = await arrive({}, `http://localhost:${port}/plant`);
assert.equal(victim.url(), home);
await victim.getByLabel('Passphrase or code').fill(passphrase());
await victim.getByRole('button', { name: 'Go on' }).click();
await victim.getByRole('heading', { name: 'Waiting for you' }).waitFor();
// Any picture on a page of the agent's has the browser send it what is for that path.
const other = await victim.context().newPage(); await other.goto(`http://localhost:${port}/`);
await other.evaluate((url) => new Promise((done) => {
  const picture = new Image(); picture.onerror = picture.onload = done; picture.src = url;
}), `${place}picture`);
// By its path: a browser asks for icons too, whenever it likes.
const known = heard.get(`${place}picture`);
assert.ok(known.startsWith('keyless='), 'the cookie that was planted, at least');
for (const room of ['', 'secrets']) {
  const { answer, body } = await ask(home + room, { cookie: known });
  assert.equal(answer.statusCode, 403, body);
}
evil.close(); evil.closeAllConnections();",
    );
}

/// A page on another port can have the browser keep cookies for all of `localhost`, as many as it keeps for one name.
#[test]
fn the_cookies_of_other_ports_keep_nobody_out() {
    let world = unlocked();
    let url = link(&world);
    let port = url.split_once("/open/").unwrap().0.rsplit_once(':').unwrap().1;
    let cookies: Vec<String> =
        (0..180).map(|number| format!("{number:03}={}", "x".repeat(4092))).collect();
    let mut stream = TcpStream::connect(format!("127.0.0.1:{port}")).unwrap();
    let (path, cookies) = (url.rsplit_once(port).unwrap().1, cookies.join("; "));
    let head = format!("Host: localhost:{port}\r\nCookie: {cookies}\r\nConnection: close");
    stream.write_all(format!("GET {path} HTTP/1.1\r\n{head}\r\n\r\n").as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 303"), "{answer}");
}

/// Any process of the machine may connect. Who takes every connection there is, and says nothing there or says it slowly,
/// gives way to who comes later.
#[test]
fn connections_that_only_sit_there_keep_nobody_out() {
    let world = unlocked();
    let url = link(&world);
    let origin = url.split_once("/open/").unwrap().0;
    let opened = curl(&[&url]);
    let cookie = opened.head("set-cookie").unwrap().split(';').next().unwrap();
    let (place, port) = (opened.head("location").unwrap(), origin.rsplit_once(':').unwrap().1);
    let head = format!("Host: localhost:{port}\r\nOrigin: {origin}\r\nCookie: {cookie}\r\n");
    let said = [
        String::new(),
        "GET / HTTP/1.1\r\n".to_owned(),
        format!("GET {place} HTTP/1.1\r\n{head}\r\n"),
        format!("POST {place}sign-in HTTP/1.1\r\n{head}Content-Length: 1000\r\n\r\nform="),
    ];
    let sitting = said.iter().flat_map(|said| {
        (0..70).map(move |_| {
            let mut stream = TcpStream::connect(format!("127.0.0.1:{port}")).unwrap();
            // It may have been sent away already.
            let _ = stream.write_all(said.as_bytes());
            stream
        })
    });
    let sitting: Vec<TcpStream> = sitting.collect();
    let asked = curl(&["--max-time", "5", &origin.replace("localhost", "127.0.0.1")]);
    assert_eq!(asked.status(), "421", "it is answered at once: {}", asked.0);
    assert_eq!(curl(&["--max-time", "5", &link(&world)]).status(), "303");
    drop(sitting);
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
  await door.getByText(/does not open the store|too many wrong tries/i).first().waitFor();
  return await door.getByText('too many wrong tries').count() === 0;
};
// Five within a minute, which a busy machine may not come to at once.
let judged = 0;
while (judged < 30 && await guess('not the passphrase ' + judged)) judged += 1;
assert.ok(judged >= 5, `${judged} guesses`);
assert.equal(await guess(passphrase()), false);
await door.getByText('then try again').waitFor();
assert.equal(await door.getByText(/fresh code|wrong codes/).count(), 0);
tell(String(judged));
faults.length = 0; evil.close(); evil.closeAllConnections();",
    );
    let judged: usize = browser.told().parse().unwrap();
    browser.done();
    assert_eq!(world.log_of("wrong_passphrase").len(), judged);
}
