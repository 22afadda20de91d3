//! Many requests, several tabs, a proof that ends.

use std::{process::Stdio, thread, time::Duration};

use serde_json::json;

use super::{Browser, in_a_browser};
use crate::{
    mcp::{Agent, about, gated, unlocked},
    world::TOKEN,
};

/// Thirty requests from three agents at once: all are there, the list is drawn a few times and not thirty, nothing
/// that was there moves, and the page and its parts stay small.
#[test]
fn a_crowd_of_requests_is_drawn_a_few_times_and_moves_nothing() {
    let world = unlocked();
    let script = "await seen('Nothing waits');
let bytes = 0;
page.on('response', async (answer) => { bytes += (await answer.body().catch(() => '')).length; });
await page.reload(); const first = bytes;
await page.evaluate(() => {
  window.drawn = 0; window.moved = 0;
  new MutationObserver(() => { window.drawn += 1; }).observe(document.querySelector('#waiting'), { childList: true });
  new PerformanceObserver((list) => {
    for (const one of list.getEntries()) window.moved += one.value;
  }).observe({ type: 'layout-shift', buffered: true });
});
tell('ready'); const begun = Date.now(); await told();
await page.waitForFunction(() => document.querySelectorAll('a.card').length === 30);
const { drawn, moved } = await page.evaluate(() => ({ drawn: window.drawn, moved: window.moved }));
const most = (Date.now() - begun) / 300 + 2;
assert.ok(drawn <= most, `${drawn} drawings, ${most} at most`);
assert.equal(moved, 0); await page.waitForFunction(() => document.title.startsWith('(30)'));
assert.ok(first < 100 * 1024, `${first} bytes`);
const whole = (await (await page.goto(base)).body()).length;
assert.ok(whole < 100 * 1024, `${whole} bytes`);";
    let mut browser = Browser::start(&world, script);
    assert_eq!(browser.told(), "ready");
    let mut agents = [Agent::connect(&world), Agent::connect(&world), Agent::connect(&world)];
    for number in 0..30 {
        let suggested = json!({ "suggested_path": format!("team/new/key-{number}") });
        agents[number % 3].ask("secrets_propose_new_path", &suggested);
    }
    browser.say("asked");
    browser.done();
}

/// A visit that has ended answers nothing: an open dialog asks for the factor again, and the request still waits.
#[test]
fn a_visit_that_has_ended_answers_nothing() {
    let world = unlocked();
    gated(&world, "session");
    let mut agent = Agent::connect(&world);
    let asked = json!({ "path": TOKEN, "reason": "to look" });
    let used = agent.ask("secrets_request_use_approval", &asked);
    let script = format!(
        "await page.goto(path('requests/{used}'));
const other = await page.context().newPage(); await other.goto(base);
await page.route('**/events', (route) => route.abort());
await page.goto(path('requests/{used}'));
await other.getByRole('button', {{ name: 'Sign out' }}).click(); await other.getByText('keyless web').first().waitFor();
await page.getByRole('button', {{ name: 'Allow once' }}).click();
await page.getByText('keyless web').first().waitFor();
assert.equal(await page.locator('dialog').count(), 0);"
    );
    in_a_browser(&world, &script);
    assert_eq!(agent.status(&used), "pending");
}

/// Two tabs answer at once, whatever is asked: one is taken, the other is told that it was too late.
#[test]
fn of_two_tabs_that_answer_at_once_one_is_taken() {
    let world = unlocked();
    gated(&world, "session");
    let mut agent = Agent::connect(&world);
    let rotated = agent.ask("secrets_request_rotation", &about(TOKEN));
    let fields = json!({ "description": "Main token" });
    let fields = json!({ "path": TOKEN, "fields": fields });
    let changed = agent.ask("secrets_propose_metadata", &fields);
    let suggested = json!({ "suggested_path": "team/new/key" });
    let added = agent.ask("secrets_propose_new_path", &suggested);
    let asked = json!({ "path": TOKEN, "reason": "to look" });
    let used = agent.ask("secrets_request_use_approval", &asked);
    let values = [world.another_value(), world.another_value()];
    let script = format!(
        "const values = {}, tabs = [page, await page.context().newPage()];
// Else the slower one would be told before it answers.
await page.context().route('**/events', (route) => route.abort());
const type = async (tab, index) => {{
  await tab.getByLabel('New value').fill(values[index]); await tab.getByLabel('I understand').check();
}};
for (const [id, fill, button] of [
  ['{rotated}', type, 'Overwrite the value'],
  ['{changed}', (tab) => tab.getByLabel('Description').check(), 'Take over what is ticked'],
  ['{added}', () => null, 'Register'],
  ['{used}', () => null, 'Allow once'],
]) {{
  for (const [index, tab] of tabs.entries()) {{ await tab.goto(path('requests/' + id)); await fill(tab, index); }}
  await Promise.all(tabs.map((tab) => tab.getByRole('button', {{ name: button }}).click()));
  const ends = await Promise.all(tabs.map((tab) => Promise.race([
    tab.locator('#notice', {{ hasText: /: done|once/ }}).waitFor().then(() => 'done'),
    tab.locator('.fault', {{ hasText: /does not wait any more| is ok| is once/ }}).waitFor().then(() => 'late'),
  ])));
  assert.deepEqual(ends.sort(), ['done', 'late'], button);
}}",
        json!(values)
    );
    in_a_browser(&world, &script);
    let ends = [&rotated, &changed, &added, &used].map(|id| agent.status(id));
    assert_eq!(ends, ["ok", "ok", "ok", "once"]);
    let secrets = world.keyless(&["secret", "list", "--json"]).run().data();
    assert_eq!(secrets["secrets"][0]["version"], json!(2), "{secrets}");
}

/// One operator answers at the page and another one in a terminal, at the same moment: one of them is taken, and the other is
/// told what it came to.
#[test]
fn of_a_page_and_a_terminal_that_answer_at_once_one_is_taken() {
    const ROUNDS: usize = 4;
    let world = unlocked();
    let mut agent = Agent::connect(&world);
    let ids: Vec<String> = (0..ROUNDS)
        .map(|round| {
            let fields = json!({ "description": format!("Token number {round}") });
            agent.ask("secrets_propose_metadata", &json!({ "path": TOKEN, "fields": fields }))
        })
        .collect();
    let script = format!(
        "await page.route('**/events', (route) => route.abort());
for (const id of {}) {{
  await page.goto(path('requests/' + id)); await page.getByLabel('Description').check();
  tell('ready'); await told();
  await page.getByRole('button', {{ name: 'Take over what is ticked' }}).click();
  tell(await Promise.race([
    page.locator('#notice', {{ hasText: ': done' }}).waitFor().then(() => 'done'),
    page.locator('.fault', {{ hasText: 'is denied' }}).waitFor().then(() => 'late'),
  ]));
}}",
        json!(ids)
    );
    let mut browser = Browser::start(&world, &script);
    for (round, id) in ids.iter().enumerate() {
        assert_eq!(browser.told(), "ready");
        let mut terminal = world.keyless(&["approve", id, "--deny"]).into_command();
        terminal.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let begun = terminal.spawn().unwrap();
        // Its proof takes a while; a click takes none.
        thread::sleep(Duration::from_millis(150 * u64::try_from(round).unwrap()));
        browser.say("go");
        let (page, terminal) = (browser.told(), begun.wait_with_output().unwrap());
        let errors = String::from_utf8_lossy(&terminal.stderr);
        match agent.status(id).as_str() {
            "ok" => {
                assert_eq!((&*page, terminal.status.code()), ("done", Some(4)), "{errors}");
                assert!(errors.contains(&format!("{id} is ok: it was settled ")), "{errors}");
            }
            "cancelled" => {
                assert_eq!((&*page, terminal.status.code()), ("late", Some(0)), "{errors}");
            }
            status => panic!("{status}: {errors}"),
        }
    }
    browser.done();
}
