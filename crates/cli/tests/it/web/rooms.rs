//! Sessions, approvals, the log, the lock.

use serde_json::json;

use super::Browser;
use crate::{
    mcp::{Agent, USE, unlock},
    world::{ALLOWED, TOKEN, World, wait_until},
};

/// The operator sees who is at work and what they did, ends one, and closes everything.
#[test]
fn sessions_are_seen_ended_and_everything_is_locked() {
    let mut world = World::with_token();
    let origin = world.origin(ALLOWED);
    world.write_config();
    unlock(&world);
    let grant = [
        "grant",
        "create",
        "--agent",
        "nl://acme.corp/bot/1.0.0",
        "--secret",
        "api/*",
        "--id",
        "g1",
    ];
    world.keyless(&grant).run().ok();
    let mut agent = Agent::connect(&world);
    agent.tool("secrets_status", &json!({})).unwrap();
    let loop_ = format!("echo up; while read line; do {USE}; echo; done");
    let mut run = world.keyless(&["run", "--", "sh", "-c", &loop_]).without_passphrase().start();
    assert_eq!(run.line(), "up");
    run.say("go");
    assert_eq!(run.line(), "200");
    world.assert_received(&origin);
    let script = format!(
        "await page.goto(path('sessions')); await seen('Tools of an agent');
const card = page.locator('article', {{ hasText: 'keyless run' }});
await card.getByText('{TOKEN}').waitFor();
const name = await card.getByRole('link').innerText();
await card.getByRole('link').click(); await seen('with {TOKEN}');
await page.goto(path('egress')); await page.locator('tr', {{ hasText: '{ALLOWED}:443' }}).waitFor();
assert.match(await page.locator('svg.chart').getAttribute('aria-label'), /^1 requests/);
await page.goto(path('grants')); await seen('api/*');
await page.getByRole('button', {{ name: 'Revoke g1' }}).click(); await seen('permits nothing any more');
await page.locator('tr', {{ hasText: 'bot' }}).getByText('revoked').waitFor();
await page.goto(path('sources')); await seen('available');
await page.goto(path('sessions')); await card.getByRole('button').click(); await seen('has ended');
assert.equal(await card.count(), 0); tell(name); await told();
await page.goto(path('log?verify=1&q=' + name)); await seen('The chain holds');
await page.locator('td', {{ hasText: 'session end' }}).waitFor();
const saving = page.waitForEvent('download');
await page.getByRole('button', {{ name: 'Export what fits' }}).click();
const saved = readFileSync(await (await saving).path(), 'utf8').trim().split('\\n').map(JSON.parse);
assert.ok(saved.length >= 3 && saved.every((entry) => entry.agent.session_id === name), JSON.stringify(saved));
assert.equal(saved.at(-1).action, 'session_end');
const left = await page.context().newPage(); await left.goto(base); await left.getByText('Nothing waits').waitFor();
await page.getByRole('link', {{ name: 'Lock all' }}).click();
await page.getByRole('button', {{ name: 'Lock everything' }}).click(); await seen('Everything is locked');
assert.equal(await page.evaluate(() => getComputedStyle(document.querySelector('main')).maxWidth), '432px');
await left.getByText('The broker does not answer any more').waitFor();
await left.getByText('keyless unlock, then keyless web').waitFor();"
    );
    let mut browser = Browser::start(&world, &script);
    assert!(browser.told().starts_with("s-"));
    run.say("go");
    assert_ne!(run.line(), "200");
    browser.say("go on");
    browser.done();
    drop(agent);
    let socket = world.home.keyless_home().join("run/agent.sock");
    wait_until("the broker is gone", || !socket.exists());
}
