//! What the operator does by themselves, from the inventory: values, other metadata, a question to the service.

use serde_json::json;

use super::in_a_browser;
use crate::{
    liveness::github,
    mcp::{USE, unlock, unlocked},
    world::{ALLOWED, TOKEN, VARIABLE, World},
};

/// A secret is opened from the list, rotated with its tick, and used by nobody or by somebody; the new value is the one
/// that goes out from then on.
#[test]
fn a_value_is_rotated_from_the_inventory() {
    let mut world = World::with_token();
    let origin = world.origin(ALLOWED);
    world.write_config();
    unlock(&world);
    let value = world.another_value();
    let mut run = world
        .keyless(&["run", "--", "sh", "-c", &format!("{USE}; echo; read line; {USE}; echo")])
        .without_passphrase()
        .start();
    assert_eq!(run.line(), "200");
    world.assert_received(&origin);
    let script = format!(
        "await page.goto(path('secrets'));
const row = page.locator('tr', {{ hasText: '{TOKEN}' }});
assert.match(await row.locator('[data-head=Used]').innerText(), /ago$/);
await row.getByRole('link', {{ name: '{TOKEN}' }}).click();
await page.locator('dialog:modal').waitFor(); await seen('Used lately by');
await page.locator('.users', {{ hasText: 's-' }}).waitFor(); await seen('{ALLOWED}');
await page.keyboard.press('Escape'); await page.waitForURL(path('secrets'));
await row.getByRole('link', {{ name: '{TOKEN}' }}).click();
await page.getByRole('link', {{ name: 'Give another value' }}).click();
await seen('Rotate secret');
const value = page.getByLabel('New value');
assert.equal(await value.getAttribute('type'), 'password');
await value.fill('changeme-12'); await seen('11 characters.');
await page.locator('dialog').getByRole('button', {{ name: 'Show' }}).click();
assert.equal(await value.getAttribute('type'), 'text');
const save = page.getByRole('button', {{ name: 'Overwrite the value' }});
await save.click();
assert.equal(await page.evaluate(() => document.querySelector('[name=overwrite]').validity.valueMissing), true);
await page.getByLabel('I understand').check(); await save.click();
await seen('does not look like a secret'); await seen('or tick the box'); assert.equal(await value.inputValue(), 'changeme-12');
await value.fill({value:?}); await save.click();
await seen('{TOKEN} has its value.');
assert.ok(!(await page.content()).includes({value:?}));"
    );
    in_a_browser(&world, &script);
    run.say("go on");
    assert_eq!(run.line(), "200");
    let requests = origin.requests();
    let headers = &requests.last().unwrap().headers;
    assert!(headers.iter().any(|(_, text)| text == value.as_bytes()), "the new value went out");
    let secrets = world.keyless(&["secret", "list", "--json"]).run().data();
    assert_eq!(secrets["secrets"][0]["version"], json!(2), "{secrets}");
}

/// A path of their own with its first value; what is there can't be added once more.
#[test]
fn a_secret_is_added_at_the_page() {
    let world = unlocked();
    let value = world.another_value();
    let script = format!(
        "await page.goto(path('secrets')); await page.getByRole('link', {{ name: 'Add a secret' }}).click();
await seen('A path of your own');
const fill = async (secret, variable) => {{
  await page.getByLabel('Path', {{ exact: true }}).fill(secret);
  await page.getByLabel('Value', {{ exact: true }}).fill({value:?});
  await page.getByLabel('Hosts that may receive it').fill('{ALLOWED}');
  await page.getByLabel('Variable for its placeholder').fill(variable);
  await page.getByRole('button', {{ name: 'Save' }}).click();
}};
await fill('{TOKEN}', 'OTHER_{VARIABLE}'); await seen('with this path exists');
await fill('team/new/key', 'LD_PRELOAD'); await seen('LD_PRELOAD');
await fill('team/new/key', 'SSL_CERT_FILE'); await seen('every session sets this variable');
await fill('team/new/key', 'OTHER_{VARIABLE}'); await seen('team/new/key has its value.');
const row = page.locator('tr', {{ hasText: 'team/new/key' }});
await row.getByText('OTHER_{VARIABLE}').waitFor(); await row.getByText('not lately').waitFor();
await page.getByRole('link', {{ name: 'Add a secret' }}).click();
await fill('team/newer/key', '{VARIABLE}');
await seen('{TOKEN} has the variable {VARIABLE} too'); await seen('secret set team/newer/key --env ANOTHER');
await page.getByRole('link', {{ name: 'Add a secret' }}).click();
const without = async (variable) => {{
  await page.getByLabel('Path', {{ exact: true }}).fill('team/redis/cache');
  await page.getByLabel('Value', {{ exact: true }}).fill({value:?} + 'R');
  await page.getByLabel('Variable for its placeholder').fill(variable);
  await page.getByRole('button', {{ name: 'Save' }}).click();
}};
await without('1BAD NAME'); await seen('1BAD NAME: ');
await without('REDIS_CACHE'); await seen('team/redis/cache has its value.');"
    );
    in_a_browser(&world, &script);
    let later = world.keyless(&["secret", "show", "team/redis/cache", "--json"]).run().data();
    let env = (&later["env"], later["to"].as_array().map_or(0, Vec::len));
    assert_eq!(env, (&json!("REDIS_CACHE"), 0), "hosts can come later: {later}");
    let shown = world.keyless(&["secret", "show", "team/new/key", "--json"]).run().data();
    assert_eq!((&shown["version"], &shown["to"]), (&json!(1), &json!([ALLOWED])), "{shown}");
}

/// What is known is changed field by field; of two tabs the later one is told, and what can't be is refused in place.
#[test]
fn what_is_known_is_changed_from_the_inventory() {
    let world = unlocked();
    let script = format!(
        "const tabs = [page, await page.context().newPage()];
for (const tab of tabs) await tab.goto(path('secrets/{TOKEN}?act=edit'));
await page.getByLabel('What it is for').fill('Boards');
await page.getByLabel('Hosts that may receive it').fill('');
await page.getByRole('button', {{ name: 'Save' }}).click(); await seen('keeps at least one host');
await page.getByLabel('Hosts that may receive it').fill('{ALLOWED}, other.test');
await page.getByLabel('A person is asked').selectOption('session');
await page.getByLabel('Renewal, in days').fill('60');
await page.getByRole('button', {{ name: 'Save' }}).click(); await seen('{TOKEN}: changed.');
await seen('Boards'); await seen('other.test'); await seen('every 60 days');
await tabs[1].getByLabel('What it is for').fill('Mine');
await tabs[1].getByRole('button', {{ name: 'Save' }}).click();
await tabs[1].getByText('changed it meanwhile').waitFor();"
    );
    in_a_browser(&world, &script);
    let shown = world.keyless(&["secret", "show", TOKEN, "--json"]).run().data();
    assert_eq!(
        (&shown["to"], &shown["approve_on_use"], &shown["description"]),
        (&json!([ALLOWED, "other.test"]), &json!("session"), &json!("Boards")),
        "{shown}"
    );
}

/// The service is asked before a value is saved where the operator wants that, and at their word.
#[test]
fn the_service_is_asked_from_the_page() {
    let mut world = World::with_store();
    let (dead, live) = (world.github_token(), world.github_token());
    let _origin = github(&mut world, &live);
    let config = std::fs::read_to_string(world.home.keyless_home().join("config.toml")).unwrap();
    world
        .home
        .write("keyless/config.toml", format!("[liveness]\non_save = true\n{config}"))
        .unwrap();
    let add = ["secret", "add", "team/github/token", "--pattern", "github-pat", "--value-stdin"];
    world.keyless(&add).stdin(&live[..]).run().ok();
    unlock(&world);
    let script = format!(
        "await page.goto(path('secrets/team/github/token'));
await page.getByRole('button', {{ name: 'Ask its service' }}).click();
await seen('api.github.com takes its value.');
await page.getByRole('link', {{ name: 'Give another value' }}).click();
await seen('Developer settings');
await page.getByLabel('New value').fill({dead:?}); await seen('The format is right.');
await page.getByLabel('I understand').check();
const save = page.getByRole('button', {{ name: 'Overwrite the value' }});
await save.click(); await seen('its service refuses it');
await page.getByLabel('Save it although').check();
await save.click(); await seen('has its value.');
await page.goto(path('secrets/team/github/token'));
await page.getByRole('button', {{ name: 'Ask its service' }}).click();
await seen('api.github.com refuses its value.');"
    );
    in_a_browser(&world, &script);
}
