//! Every dialog, from the agent's question to what becomes of it.

use serde_json::json;

use super::{Browser, in_a_browser};
use crate::{
    mcp::{Agent, USE, about, gated, unlock, unlocked},
    world::{ALLOWED, TOKEN, VARIABLE, World},
};

/// The story of the spec at the page: a request appears while the page is open, the value is typed, the work goes on.
#[test]
fn a_missing_value_is_typed_at_the_page_and_the_work_goes_on() {
    let mut world = World::with_store();
    let origin = world.origin(ALLOWED);
    world.write_config();
    world.declares(format!("required = [\"{TOKEN}\"]\n"));
    unlock(&world);
    let mut agent = Agent::connect(&world);
    let value = world.canary.value();
    let script = format!(
        "await seen('Nothing waits'); tell('ready');
await page.locator('a.card', {{ hasText: '{TOKEN}' }}).click();
const asked = page.locator('dialog [data-age]'), first = await asked.innerText();
assert.match(first, /^[0-9]+ s ago$/);
await page.waitForFunction((then) => document.querySelector('dialog [data-age]').textContent !== then, first);
const value = page.getByLabel('Value', {{ exact: true }});
await seen('at any other into any part of a request'); await value.fill('short'); await seen('5 characters.');
await page.getByRole('button', {{ name: 'Show' }}).click();
assert.equal(await value.getAttribute('type'), 'text');
await page.getByRole('button', {{ name: 'Save' }}).click();
await seen('does not look like a secret'); assert.equal(await value.inputValue(), 'short');
await value.fill({value:?});
await page.getByLabel('Hosts that may receive it').fill('{ALLOWED}');
await page.getByLabel('Variable for its placeholder').fill('{VARIABLE}');
await page.keyboard.press('Enter');
await seen('{TOKEN}: done.'); await seen('Nothing waits');
await page.goto(path('secrets')); await seen('{ALLOWED}');
assert.ok(!(await page.content()).includes({value:?}));"
    );
    let mut browser = Browser::start(&world, &script);
    assert_eq!(browser.told(), "ready");
    let id = agent.ask("secrets_request_provision", &about(TOKEN));
    browser.done();
    assert_eq!(agent.status(&id), "ok");
    let run = world.keyless(&["run", "--", "sh", "-c", USE]).without_passphrase().run();
    assert_eq!(run.ok(), "200");
    world.assert_received(&origin);
}

/// What overwrites is asked about twice, with the catalog's steps beside it; a choice of token keeps what was typed.
#[test]
fn a_rotation_takes_a_tick_and_shows_the_catalogs_steps() {
    let world = unlocked();
    world.add("team/github/token", &["--to", "api.github.com", "--env", "GH"]).ok();
    let mut agent = Agent::connect(&world);
    let id = agent.ask("secrets_request_rotation", &about("team/github/token"));
    let value = world.another_value();
    let script = format!(
        "await page.goto(path('requests/{id}'));
await seen('Rotate secret'); await seen('Developer settings'); await seen('basic, header of a request');
assert.match(await page.getByRole('link', {{ name: /^Open GitHub/ }}).getAttribute('rel'), /noreferrer/);
const value = page.getByLabel('New value');
const pasted = await value.evaluate((input) => {{
  const clipboardData = new DataTransfer();
  clipboardData.setData('text/plain', 'one line\\nand another');
  return input.dispatchEvent(new ClipboardEvent('paste', {{ clipboardData, cancelable: true }}));
}});
assert.equal(pasted, false); await seen('keyless approve {id} --accept --overwrite --from-file FILE');
await value.fill({value:?}); await seen('This is not the format yet.');
const before = await page.locator('#guide').innerText();
await page.getByLabel('Kind of token').selectOption({{ index: 1 }});
await page.waitForFunction((before) => document.querySelector('#guide').innerText !== before, before);
assert.equal(await value.inputValue(), {value:?});
const save = page.getByRole('button', {{ name: 'Overwrite the value' }});
await save.click();
assert.equal(await page.evaluate(() => document.querySelector('[name=overwrite]').validity.valueMissing), true);
await page.getByLabel('I understand').check();
await save.click(); await seen('does not look like a secret');
await page.getByLabel('Save it although').check();
await save.click(); await seen('team/github/token: done.');"
    );
    in_a_browser(&world, &script);
    assert_eq!(agent.status(&id), "ok");
    let secrets = world.keyless(&["secret", "list", "--json"]).run().data();
    assert_eq!(secrets["secrets"][1]["version"], json!(2), "{secrets}");
}

/// Field by field, the path as the person wants it, and nothing at all when they decline.
#[test]
fn proposals_are_taken_over_as_the_person_says() {
    let world = unlocked();
    let mut agent = Agent::connect(&world);
    let fields = json!({ "description": "Main token", "rotate_every_days": 60 });
    let changed =
        agent.ask("secrets_propose_metadata", &json!({ "path": TOKEN, "fields": fields }));
    let proposed = json!({ "suggested_path": "team/new/key", "metadata": { "description": "Found", "pattern_id": "npm-tokn" } });
    let added = agent.ask("secrets_propose_new_path", &proposed);
    let declined = agent.ask("secrets_request_rotation", &about(TOKEN));
    let script = format!(
        "await page.goto(path('requests/{changed}'));
await page.getByLabel('Description').check();
await page.getByRole('button', {{ name: 'Take over what is ticked' }}).click();
await seen('{TOKEN}: done.');
await page.goto(path('requests/{added}'));
await seen('No pattern is called npm-tokn: nothing is checked or known by it. The nearest is npm-token.');
await page.getByLabel('Path').fill('personal/new/key');
await page.getByLabel('Description').check();
await page.getByRole('button', {{ name: 'Register' }}).click(); await seen('done.');
await page.goto(path('requests/{declined}'));
await page.getByRole('button', {{ name: 'Decline' }}).click(); await seen('nothing was changed');"
    );
    in_a_browser(&world, &script);
    assert_eq!(agent.poll(&changed)["outcome"], json!({ "applied_fields": ["description"] }));
    let outcome = json!({ "applied_fields": ["description"], "final_path": "personal/new/key" });
    assert_eq!(agent.poll(&added)["outcome"], outcome);
    assert_eq!(agent.status(&declined), "cancelled");
}

/// Once, for the session, or not; two tabs that answer at once; an approval that is revoked.
#[test]
fn a_use_is_allowed_once_for_the_session_or_not() {
    let world = unlocked();
    gated(&world, "session");
    let mut agent = Agent::connect(&world);
    let mut ask = |reason: &str| {
        agent.ask("secrets_request_use_approval", &json!({ "path": TOKEN, "reason": reason }))
    };
    let [once, session] = ["first", "second"].map(&mut ask);
    let script = format!(
        "const other = await page.context().newPage();
await other.route('**/events', (route) => route.abort());
for (const tab of [page, other]) await tab.goto(path('requests/{once}'));
await page.getByRole('button', {{ name: 'Allow once' }}).click(); await seen('may be used once');
await other.getByRole('button', {{ name: 'Deny' }}).click();
await other.getByText('does not wait any more').waitFor();
await other.goto(path('requests/{once}')); await other.getByText('may be used once').waitFor();
await other.locator('dt', {{ hasText: 'Allowed once' }}).waitFor();
await other.locator('dd', {{ hasText: / s ago, at .* UTC/ }}).waitFor();
assert.equal(await other.locator('main button').count() + await other.locator('dialog').count(), 0);
assert.equal(await other.getByText('That was not done').count(), 0);
await other.getByRole('link', {{ name: 'Approvals', exact: true }}).last().click();
await other.getByRole('heading', {{ name: 'Approvals' }}).waitFor();
await other.goto(path('requests/prov-000000000000')); await other.getByRole('link', {{ name: 'Back to Waiting' }}).click();
await other.getByRole('heading', {{ name: 'Waiting for you' }}).waitFor();
await other.goto(path('none')); await other.getByText('There is no such page').waitFor();
await other.unroute('**/events'); await other.goto(path('requests/{session}'));
await page.goto(path('requests/{session}'));
await page.getByRole('button', {{ name: 'Allow for this session' }}).click(); await seen('until the session ends');
await other.getByText('does not wait any more').waitFor();
assert.equal(await other.locator('.buttons button:not([disabled])').count(), 0);
await page.goto(path('approvals'));
await page.locator('tr', {{ hasText: 'for the session' }}).getByRole('button', {{ name: /Revoke/ }}).click();
await seen('taken back');"
    );
    in_a_browser(&world, &script);
    // While the word for the session held, nobody would have been asked.
    let denied = ask("third");
    let script = format!(
        "await page.goto(path('requests/{denied}')); await seen('third');
await page.getByRole('button', {{ name: 'Deny' }}).click(); await seen('may not be used');
await page.goto(path('requests/{denied}')); await page.locator('dt', {{ hasText: 'Denied' }}).waitFor();
await page.goto(path('requests/{session}')); await seen('until the session ends');"
    );
    in_a_browser(&world, &script);
    let ends = [&once, &session, &denied].map(|id| agent.status(id));
    assert_eq!(ends, ["once", "session", "denied"]);
    let log = world.log();
    let revoked = log.iter().filter(|entry| entry["detail"]["note"] == "taken back").count();
    assert_eq!(revoked, 1);
}
