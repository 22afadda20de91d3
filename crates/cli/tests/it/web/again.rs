//! The factor, asked for once more.

use serde_json::json;

use super::Browser;
use crate::{
    mcp::{Agent, about, gated, unlocked},
    world::{ALLOWED, TOKEN},
};

/// With `prove_again = "always"` each answer that gives something takes the factor, however lately it was proven; a
/// wrong one gives nothing, a denial takes none, and a passkey does as well.
#[test]
fn every_answer_takes_the_factor_where_the_operator_wants_that() {
    let world = unlocked();
    gated(&world, "session");
    world.home.write("keyless/config.toml", "[web]\nprove_again = \"always\"\n").unwrap();
    // Of another secret: a denial answers all that ask the same.
    let other = "team/other/key";
    world.add(other, &["--to", ALLOWED, "--env", "OTHER", "--approve-on-use", "session"]).ok();
    let mut agent = Agent::connect(&world);
    let mut ask = |path: &str| {
        agent.ask("secrets_request_use_approval", &json!({ "path": path, "reason": "to look" }))
    };
    let [first, second] = [TOKEN, other].map(&mut ask);
    let fields = json!({ "path": TOKEN, "fields": { "description": "Main token" } });
    let proposed = agent.ask("secrets_propose_metadata", &fields);
    let script = format!(
        "const factor = page.getByLabel('Passphrase or code, to allow it');
await page.goto(path('requests/{second}'));
await factor.waitFor(); await page.getByRole('button', {{ name: 'Deny' }}).click(); await seen('may not be used');
await page.goto(path('requests/{first}'));
const allow = page.getByRole('button', {{ name: 'Allow for this session' }});
await allow.click();
assert.equal(await factor.evaluate((input) => input.validity.valueMissing), true);
await factor.fill('not the passphrase'); await allow.click(); await seen('does not open the store');
tell('wrong'); await told();
await factor.fill(passphrase()); await allow.click(); await seen('until the session ends');
await page.goto(path('requests/{proposed}')); await page.getByLabel('Description').check();
await page.getByLabel('Passphrase or code, to save it').fill(passphrase());
await page.getByRole('button', {{ name: 'Take over what is ticked' }}).click(); await seen('{TOKEN}: done.');
await page.goto(path('secrets/{TOKEN}?act=edit'));
await page.getByLabel('What it is for').fill('Boards');
const save = page.getByRole('button', {{ name: 'Save' }});
await save.click(); assert.equal(await page.locator('#factor').evaluate((input) => input.validity.valueMissing), true);
await page.locator('#factor').fill(passphrase()); await save.click(); await seen('changed.');"
    );
    let mut browser = Browser::start(&world, &script);
    assert_eq!(browser.told(), "wrong");
    assert_eq!(agent.status(&first), "pending");
    browser.say("go on");
    browser.done();
    let ends = [&first, &second, &proposed].map(|id| agent.status(id));
    assert_eq!(ends, ["session", "denied", "ok"]);
}

/// As it is by default: signing in is enough for a use, and what overwrites is asked about once the proof is not fresh.
#[test]
fn a_fresh_proof_is_enough_by_default() {
    let world = unlocked();
    gated(&world, "per-call");
    let mut agent = Agent::connect(&world);
    let used =
        agent.ask("secrets_request_use_approval", &json!({ "path": TOKEN, "reason": "to look" }));
    let rotated = agent.ask("secrets_request_rotation", &about(TOKEN));
    let script = format!(
        "for (const id of ['{used}', '{rotated}']) {{
  await page.goto(path('requests/' + id)); await page.locator('#factor').waitFor({{ state: 'attached' }});
  assert.equal(await page.locator('#factor').isVisible(), false);
}}
await page.goto(path('requests/{used}'));
await page.getByRole('button', {{ name: 'Allow once' }}).click(); await seen('may be used once');"
    );
    Browser::start(&world, &script).done();
    assert_eq!(agent.status(&used), "once");
}
