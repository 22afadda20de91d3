//! Words that want to be more than words; people who can't see or have no mouse; sizes.

use serde_json::json;

use super::{Browser, in_a_browser};
use crate::{
    mcp::{Agent, about, gated, unlocked},
    world::TOKEN,
};

/// What pages have fallen for; each with a word that must be readable.
const CORPUS: &[&str] = &[
    "<script>alert(1)</script>KEEP1",
    "<img src=x onerror=alert(1)>KEEP2",
    "\"><svg onload=alert(1)>KEEP3",
    "</p></blockquote></form><form action=https://evil.test>KEEP4",
    "javascript:alert(1) https://evil.test/ KEEP5",
    "{{7*7}}${7*7}<%= 7*7 %>KEEP6",
    "&lt;b&gt;KEEP7&#x202e;",
    "KEEP8\u{202e}txet neddih\u{202c}\u{2066}\u{2069}\u{200b}\u{feff}\u{ad}",
    "KEEP9\u{e0041}\u{e0042} \u{1b}[2J\u{7}",
];

/// An agent's words are text and nothing else, wherever they stand, and nothing in them is hidden.
#[test]
fn an_agents_words_stay_words() {
    let world = unlocked();
    gated(&world, "session");
    let mut agent = Agent::connect(&world);
    let mut ids = Vec::new();
    for text in CORPUS {
        ids.push(
            agent.ask("secrets_request_use_approval", &json!({ "path": TOKEN, "reason": text })),
        );
    }
    let described = json!({ "path": TOKEN, "fields": { "description": CORPUS[..8].join(" ") } });
    ids.push(agent.ask("secrets_propose_metadata", &described));
    let (ids, corpus) = (json!(ids), json!(CORPUS));
    let script = format!(
        "const ids = {ids}, corpus = {corpus};
const unseen = /[\\u0000-\\u001f\\u007f\\u00ad\\u200b-\\u200f\\u202a-\\u202e\\u2066-\\u2069\\ufeff]|\\udb40/;
for (const [index, id] of ids.entries()) {{
  await page.goto(path('requests/' + id));
  const theirs = page.locator('dialog .said .theirs, dialog .proposed .theirs').first();
  const text = await theirs.textContent();
  assert.ok(!unseen.test(text), text);
  const plain = corpus[index] ?? corpus.slice(0, 8).join(' ');
  assert.equal(text.replace(/hidden character U\\+[0-9A-F]+/g, ''), [...plain].filter((c) => !unseen.test(c)).join(''));
  const elements = await theirs.evaluate((box) => [...box.querySelectorAll('*')].map((e) => e.className));
  assert.deepEqual([...new Set(elements)].sort(), plain.split('').some((c) => unseen.test(c)) ? ['sr', 'unseen'] : []);
  assert.equal(await page.locator('a[href*=evil], form[action*=evil], iframe, object').count(), 0);
}}
const policy = (await page.goto(base)).headers()['content-security-policy'];
assert.ok(!/unsafe|\\*|https?:/.test(policy) && /frame-ancestors 'none'/.test(policy), policy);
const injected = await page.evaluate(() => {{
  try {{ document.body.innerHTML = '<b>x</b>'; return 'taken'; }} catch {{ return 'refused'; }}
}});
assert.equal(injected, 'refused'); faults.length = 0;"
    );
    in_a_browser(&world, &script);
}

/// axe finds nothing serious on any page, light, dark or narrow; everything goes by keyboard; pages are small.
#[test]
fn pages_are_for_everybody() {
    let world = unlocked();
    gated(&world, "session");
    let manifest = format!("required = [\"{TOKEN}\", \"team/github/token\"]\n");
    world.declares(manifest);
    let mut agent = Agent::connect(&world);
    let value = agent.ask("secrets_request_provision", &about("team/github/token"));
    let fields = json!({ "description": "Main token", "rotate_every_days": 60 });
    let diff = agent.ask("secrets_propose_metadata", &json!({ "path": TOKEN, "fields": fields }));
    let rotated = agent.ask("secrets_request_rotation", &about(TOKEN));
    let suggested =
        json!({ "suggested_path": "team/new/key", "metadata": { "description": "Found" } });
    let added = agent.ask("secrets_propose_new_path", &suggested);
    let reason = json!({ "path": TOKEN, "reason": "to look at the board" });
    let used = agent.ask("secrets_request_use_approval", &reason);
    let grant = [
        "grant",
        "create",
        "--agent",
        "nl://acme.corp/bot/1.0.0",
        "--secret",
        "api/*",
        "--approve",
    ];
    world.keyless(&grant).run().ok();
    let script = format!(
        "const rooms = ['', 'requests/{value}', 'requests/{diff}', 'requests/{used}', 'secrets', 'sessions',
  'secrets/{TOKEN}', 'secrets/{TOKEN}?act=value', 'secrets/{TOKEN}?act=edit', 'secrets/new', 'requests/{rotated}', 'requests/{added}',
  'approvals', 'grants', 'log?verify=1', 'egress', 'sources', 'passkeys', 'lock'];
const axe = readFileSync(require.resolve('axe-core/axe.min.js'), 'utf8');
const narrow = {{ viewport: {{ width: 360, height: 700 }}, colorScheme: 'dark' }};
const door = await arrive(narrow), phone = await enter(narrow), half = await enter({{ viewport: {{ width: 900, height: 700 }} }});
async function look(tab, name) {{
  const found = await tab.evaluate(`${{axe}}; axe.run(document)`);
  const serious = found.violations.filter((v) => ['serious', 'critical'].includes(v.impact));
  assert.deepEqual(serious.map((v) => [name, v.id, v.nodes[0].html]), []);
  assert.ok(await tab.evaluate(() => document.documentElement.scrollWidth <= innerWidth), name + ' is too wide');
  const hidden = await tab.evaluate(() => [...document.querySelectorAll('.top a, .top button')].filter((one) => {{
    const {{ left, right }} = one.getBoundingClientRect();
    return left < 0 || right > innerWidth || one.scrollWidth > one.clientWidth + 1;
  }}).map((one) => one.textContent));
  assert.deepEqual(hidden, [], name);
  const gap = await tab.evaluate(() => innerWidth > 700 ? 0 : innerWidth - (document.querySelector('dialog')?.clientWidth ?? innerWidth));
  assert.equal(gap, 0, name + ' leaves a strip beside its dialog');
}}
await look(door, 'door');
assert.equal(await door.evaluate(() => document.activeElement.id), 'factor', 'keys go to the only field');
for (const tab of [page, half, phone]) {{
  const home = tab.url();
  for (const room of rooms) {{
    const answer = await tab.goto(home + room);
    assert.ok((await answer.body()).length < 60_000, room);
    await look(tab, room);
  }}
}}
await page.goto(base); await page.keyboard.press('Tab'); await page.keyboard.press('Enter');
await page.waitForFunction(() => document.activeElement.id === 'main');
await page.keyboard.press('Tab'); await page.keyboard.press('Enter');
await seen('Provision secret'); await page.locator('dialog:modal').waitFor();
await page.keyboard.press('Escape'); await page.waitForURL(base);
await page.goto(path('requests/{used}'));
for (let i = 0; i < 9; i++) {{
  if (await page.evaluate(() => document.activeElement.textContent) === 'Allow once') break;
  await page.keyboard.press('Tab');
}}
await page.keyboard.press('Enter'); await seen('may be used once');"
    );
    in_a_browser(&world, &script);
}

/// Where the list of secrets has little room, a path goes on in the next line behind a slash.
#[test]
fn paths_are_broken_at_their_slashes() {
    let world = unlocked();
    let paths = ["team/production/warehouse/analytics", "platform/subscriptions/invoicing"];
    for (path, name) in paths.iter().zip(["WAREHOUSE_ANALYTICS_KEY", "SUBSCRIPTIONS_INVOICING"]) {
        let to = "api.analytics.production.example.com";
        world.add(path, &["--to", to, "--env", name]).ok();
    }
    let script = format!(
        "const tab = await enter({{ viewport: {{ width: 780, height: 700 }} }});
await tab.goto(tab.url() + 'secrets');
for (const path of {paths:?}) {{
  const link = tab.getByRole('link', {{ name: path }});
  const rows = await link.evaluate((one) => [...one.childNodes].filter((node) => node.data).map((node) => {{
    const range = document.createRange(); range.selectNodeContents(node);
    return range.getClientRects().length;
  }}));
  assert.ok(rows.every((count) => count === 1), path + ' in ' + rows);
  assert.ok(await link.evaluate((one) => one.getClientRects().length) > 1, path + ' has room');
}}
assert.ok(await tab.evaluate(() => document.documentElement.scrollWidth <= innerWidth), 'too wide');"
    );
    in_a_browser(&world, &script);
}

/// Each view with all that it loads is small, and nothing in it moves once it is drawn, on a screen and on a phone. How fast it is
/// painted is told and not judged: `--no-capture` shows it.
#[test]
fn views_are_light_and_still() {
    let world = unlocked();
    gated(&world, "session");
    let mut agent = Agent::connect(&world);
    let reason = json!({ "path": TOKEN, "reason": "to look at the board" });
    let used = agent.ask("secrets_request_use_approval", &reason);
    let rotated = agent.ask("secrets_request_rotation", &about(TOKEN));
    let script = format!(
        "const rooms = ['', 'requests/{used}', 'requests/{rotated}', 'secrets', 'secrets/{TOKEN}', 'sessions', 'approvals',
  'grants', 'log?verify=1', 'egress', 'sources', 'passkeys', 'lock'];
const phone = await enter({{ viewport: {{ width: 360, height: 700 }} }});
const paints = [];
for (const tab of [page, phone]) {{
  const home = tab.url();
  // A slow machine paints what it has of a page, and then the rest.
  const tools = await tab.context().newCDPSession(tab);
  await tools.send('Emulation.setCPUThrottlingRate', {{ rate: 10 }});
  let came = [];
  // Events go on for as long as the page is open.
  const ends = (answer) => !(answer.headers()['content-type'] ?? '').startsWith('text/event-stream');
  tab.on('response', (answer) => {{ if (ends(answer)) came.push(answer.body().catch(() => '')); }});
  await tab.addInitScript(() => {{
    window.moved = [];
    new PerformanceObserver((list) => {{
      for (const {{ value, sources }} of list.getEntries()) {{
        const moves = sources.map(({{ node, previousRect: from, currentRect: to }}) =>
          `${{node?.outerHTML ?? node?.textContent}}: ${{JSON.stringify([from, to])}}`.slice(-400));
        window.moved.push([value, ...moves].join('\\n'));
      }}
    }}).observe({{ type: 'layout-shift', buffered: true }});
  }});
  for (const room of rooms) {{
    came = [];
    await tab.goto(home + room); await tab.waitForTimeout(250);
    const bytes = (await Promise.all(came)).reduce((sum, body) => sum + body.length, 0);
    const {{ moved, paint }} = await tab.evaluate(() => ({{ moved: window.moved,
      paint: performance.getEntriesByName('first-contentful-paint')[0]?.startTime }}));
    assert.deepEqual(moved, [], `${{room}} moves`);
    assert.ok(bytes > 0 && bytes < 100 * 1024, `${{room}}: ${{bytes}} bytes`);
    paints.push([paint, bytes]);
  }}
}}
const sorted = paints.map(([paint]) => paint).sort((a, b) => a - b);
const most = Math.max(...paints.map(([, bytes]) => bytes));
tell(`first paint: ${{Math.round(sorted[sorted.length >> 1])}} ms half of the time, ${{Math.round(sorted.at(-1))}} ms at most; ` +
  `${{(most / 1024).toFixed(1)}} KiB at most`);"
    );
    let mut browser = Browser::start(&world, &script);
    println!("{}", browser.told());
    browser.done();
}
