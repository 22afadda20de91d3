//! Deeds that are allowed as a whole, at the page: an agent's action, a deploy of agent configuration.

use serde_json::json;

use super::Browser;
use crate::{
    mcp::unlock,
    nl::{AGENT, BOXED, Served, with_secrets},
    pack::{codex, with_repo, write},
    pack_mcp,
};

/// The plan is there with its diff, nothing in it hidden; what is allowed is applied by the tool's next call.
#[test]
fn a_deploy_is_allowed_with_its_diff_in_sight() {
    let world = with_repo(3);
    world.make_store();
    world.home.write("keyless/config.toml", "[pack]\napprove_apply = \"tools\"\n").unwrap();
    write(&world, "modules/base/AGENTS.md", "Be kind\u{202e}.\n<script>alert(1)</script>\n");
    world.home.write("home/.codex/AGENTS.md", "Mine.\n").unwrap();
    unlock(&world);
    let mut agent = pack_mcp::Agent::connect(&world);
    let token = agent.token(&json!({}));
    let apply = json!({ "yes": true, "confirm_token": token, "adopt": true });
    let waits = agent.refused("deploy_apply", &apply);
    let id = waits["details"]["approval_id"].as_str().unwrap();
    let hash = waits["details"]["confirm_plan_hash"].as_str().unwrap();
    let script = format!(
        "await page.locator('a.card', {{ hasText: 'Deploy' }}).click();
await seen('Allow a deploy'); await seen('{hash}'); await seen('Yours: it would be overwritten');
const mine = page.locator('.file', {{ hasText: 'codex/AGENTS.md' }});
await mine.locator('.is-removed', {{ hasText: '-Mine.' }}).waitFor();
await mine.locator('.is-added', {{ hasText: '+<script>alert(1)</script>' }}).waitFor();
assert.match(await mine.locator('.is-added').nth(0).innerText(), /^\\+Be kind.*U\\+202E/s);
assert.equal(await page.getByRole('button', {{ name: 'session' }}).count(), 0);
await page.getByRole('button', {{ name: 'Allow once' }}).click(); await seen('may be done once');
await page.goto(path('approvals')); await page.locator('tr', {{ hasText: 'deploy in' }}).getByText('Allowed once').waitFor();"
    );
    Browser::start(&world, &script).done();
    assert_eq!(agent.data("deploy_apply", &apply)["applied"], true);
    assert!(codex(&world).join("AGENTS.md").exists(), "{id}");
}

/// The action is there with its agent, every secret, where these go, and every line; a word is for it alone, once.
#[test]
fn an_action_is_allowed_with_every_line_in_sight() {
    let world = with_secrets();
    let served = Served::start(&world);
    let grant =
        ["grant", "create", "--agent", AGENT, "--secret", "db/*", "--for", "1h", "--approve"];
    world.keyless(&grant).run().ok();
    let act = |last: &str| {
        let template = format!("true {{{{nl:db/PASSWORD}}}} # tidy up\u{200b}\n{last}");
        let answer =
            served.act(&json!({ "type": "exec", "template": template, "purpose": "nightly" }));
        answer["body"].clone()
    };
    let id = act("echo first")["error"]["details"]["approval_id"].as_str().unwrap().to_owned();
    let other = act("echo second")["error"]["details"]["approval_id"].as_str().unwrap().to_owned();
    let script = format!(
        "await page.goto(path('requests/{id}'));
await seen('Allow an action'); await page.locator('dialog dd', {{ hasText: '{AGENT}' }}).waitFor();
await page.locator('dialog th', {{ hasText: '{BOXED}' }}).waitFor();
await seen('own jail'); await seen('no host by itself'); await seen('nightly');
const lines = page.locator('dialog .line-of');
assert.equal(await lines.count(), 2);
assert.match(await lines.nth(0).innerText(), /# tidy up.*U\\+200B/s);
assert.equal(await lines.nth(1).innerText(), 'echo first');
await page.getByRole('button', {{ name: 'Allow once' }}).click(); await seen('may be done once');
await page.goto(path('requests/{other}'));
await page.getByRole('button', {{ name: 'Deny' }}).click(); await seen('may not be done');"
    );
    Browser::start(&world, &script).done();
    assert_eq!(act("echo first")["status"], "success");
    let denied = act("echo second");
    assert!(
        denied["status"] != "success" && denied["error"]["details"]["approval_id"].is_null(),
        "{denied}"
    );
    assert_eq!(act("echo first")["error"]["nl_code"], "NL-E204", "it was good once");
}
