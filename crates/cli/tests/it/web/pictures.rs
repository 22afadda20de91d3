//! Every view, light and dark, as docs/web.md shows it. `KEYLESS_BLESS=1` puts the pictures there.

use std::{env, fs, path::Path};

use serde_json::json;

use super::in_a_browser;
use crate::{
    mcp::{Agent, USE, about, gated},
    nl::{AGENT, Served, with_secrets},
    pack::{MANIFEST, write},
    pack_mcp,
    world::{ALLOWED, TOKEN},
};

#[test]
fn every_view_has_its_picture() {
    let mut world = with_secrets();
    let _origin = world.origin(ALLOWED);
    world.add("team/github/token", &["--to", "api.github.com", "--env", "GH"]).ok();
    gated(&world, "session");
    write(&world, "agentpack.yaml", MANIFEST);
    write(&world, "modules/base/AGENTS.md", "# House rules\n\nBe kind, and say what you did.\n");
    write(&world, "modules/many/SKILL.md", "---\nname: many\ndescription: Many files\n---\n");
    let served = Served::start(&world);
    let config = fs::read_to_string(world.home.keyless_home().join("config.toml")).unwrap();
    world
        .home
        .write("keyless/config.toml", format!("{config}[pack]\napprove_apply = \"tools\"\n"))
        .unwrap();
    let grant =
        ["grant", "create", "--agent", AGENT, "--secret", "db/*", "--for", "1h", "--approve"];
    world.keyless(&grant).run().ok();

    // Whoever has a word for the session is not asked again.
    let [mut agent, mut allowed] = [(); 2].map(|()| Agent::connect(&world));
    let ask_use = |agent: &mut Agent, reason: &str| {
        agent.ask("secrets_request_use_approval", &json!({ "path": TOKEN, "reason": reason }))
    };
    let standing = ask_use(&mut allowed, "to list the open boards");
    world.keyless(&["approve", &standing, "--session"]).run().ok();
    let denied = ask_use(&mut agent, "to delete what nobody uses");
    world.keyless(&["approve", &denied, "--deny"]).run().ok();
    world.keyless(&["approve", "--take-back", &denied]).run().ok();
    gated(&world, "never");
    for _ in 0..3 {
        world.keyless(&["run", "--", "sh", "-c", USE]).without_passphrase().run();
    }
    gated(&world, "session");
    let used = ask_use(&mut agent, "to look at the board\u{202e}\u{200b}, and nothing else");
    let manifest = format!("required = [{TOKEN:?}, \"team/github/token\", \"team/stripe/key\"]\n");
    world.declares(manifest);
    let value = agent.ask("secrets_request_provision", &about("team/stripe/key"));
    let rotate = agent.ask("secrets_request_rotation", &about("team/github/token"));
    let fields = json!({ "description": "Main token of the boards", "rotate_every_days": 60 });
    let metadata =
        agent.ask("secrets_propose_metadata", &json!({ "path": TOKEN, "fields": fields }));
    let suggested = json!({ "suggested_path": "team/linear/api-key", "metadata": { "description": "Found in the project" } });
    let new_path = agent.ask("secrets_propose_new_path", &suggested);
    let template =
        "pg_dump --dbname=\"postgres://app:{{nl:db/PASSWORD}}@db/app\" > dump.sql\nwc -c dump.sql";
    let action = served
        .act(&json!({ "type": "exec", "template": template, "purpose": "the nightly backup" }));
    let action = action["body"]["error"]["details"]["approval_id"].as_str().unwrap().to_owned();
    let mut pack = pack_mcp::Agent::connect(&world);
    let token = pack.token(&json!({}));
    let waits = pack.refused("deploy_apply", &json!({ "yes": true, "confirm_token": token }));
    let deploy = waits["details"]["approval_id"].as_str().unwrap().to_owned();

    let views = json!({
        "waiting": "", "value": format!("requests/{value}"), "rotate": format!("requests/{rotate}"),
        "metadata": format!("requests/{metadata}"), "new-path": format!("requests/{new_path}"),
        "use": format!("requests/{used}"), "action": format!("requests/{action}"),
        "deploy": format!("requests/{deploy}"), "secrets": "secrets",
        "secret": format!("secrets/{TOKEN}"), "edit": format!("secrets/{TOKEN}?act=edit"),
        "sessions": "sessions",
        "approvals": "approvals", "grants": "grants", "log": "log?verify=1", "egress": "egress",
        "sources": "sources", "passkeys": "passkeys", "lock": "lock",
    });
    let script = format!(
        "const views = {views}, folder = process.env.TMPDIR + '/pictures/';
const axe = readFileSync(require.resolve('axe-core/axe.min.js'), 'utf8');
for (const scheme of ['light', 'dark']) {{
  const door = await arrive({{ colorScheme: scheme }});
  const end = scheme === 'dark' ? '-dark.png' : '.png';
  await door.screenshot({{ path: folder + 'web-door' + end }});
  const tab = await enter({{ colorScheme: scheme }}), home = tab.url();
  for (const [name, room] of Object.entries(views)) {{
    await tab.goto(home + room);
    const found = await tab.evaluate(`${{axe}}; axe.run(document)`);
    const serious = found.violations.filter((v) => ['serious', 'critical'].includes(v.impact));
    assert.deepEqual(serious.map((v) => [name, v.id, v.nodes[0].html]), []);
    await tab.screenshot({{ path: folder + 'web-' + name + end }});
  }}
}}
const phone = await enter({{ viewport: {{ width: 360, height: 700 }} }});
await phone.goto(phone.url() + views.use);
await phone.screenshot({{ path: folder + 'web-phone.png' }});"
    );
    in_a_browser(&world, &script);
    let folder = world.operator_file("browser/pictures");
    let pictures: Vec<_> =
        fs::read_dir(&folder).unwrap().map(|file| file.unwrap().path()).collect();
    assert_eq!(pictures.len(), 2 * (1 + views.as_object().unwrap().len()) + 1);
    if env::var_os("KEYLESS_BLESS").is_some() {
        let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/images");
        for picture in &pictures {
            fs::copy(picture, docs.join(picture.file_name().unwrap())).unwrap();
        }
    }
}
