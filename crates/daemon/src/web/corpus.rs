//! Words that want to be more than words, in every field that an agent may fill, in every dialog and list, in Chromium.

use std::sync::Arc;

use keyless_core::{
    ActionType, SafeText, SecretPath,
    agent::AgentUri,
    approval::{Asked, Fields, FileOp, PackVerb, WantedAction, WantedDeploy, WantedFile},
    audit::{Action, Detail, Draft, Outcome, Target},
};
use keyless_vault::{Entries, Metadata};
use serde_json::json;

use super::{in_chromium::InChromium, scene::Scene};
use crate::{
    broker::{agent, plain_entry},
    operator::Answer,
    session_book::SessionKind,
};

/// What pages have fallen for; each with a word that must be readable.
const CORPUS: &str = concat!(
    "<script>alert(1)</script>KEEP1 <img src=x onerror=alert(1)>KEEP2 \"><svg onload=alert(1)>KEEP3 ",
    "</p></bdi></td></dialog></form><form action=https://evil.test>KEEP4 ' onfocus=alert(1) autofocus KEEP5 ",
    "javascript:alert(1) https://evil.test/ {{7*7}}${7*7}<%= 7*7 %>KEEP6 &lt;b&gt;KEEP7&#x202e; ",
    "KEEP8\u{202e}txet neddih\u{202c}\u{2066}\u{2069}\u{200b}\u{200e}\u{feff}\u{ad} KEEP9\u{e0041}\u{e0042}\u{2800}\u{3164}\u{fe00}\u{34f}",
    "<style>*{display:none}</style><base href=//evil.test><meta http-equiv=refresh content=0;url=//evil.test>KEEP10",
);
/// What may not stand where texts are stored, and comes in by other ways.
const CONTROL: &str = " \u{1b}[2J\u{7}\u{9b}31m";

/// Looks at each page: nothing became an element or an attribute, nothing ran, nothing is hidden, every word is there.
const SCRIPT: &str = r#"
const unseen = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u200b-\u200f\u202a-\u202e\u2066-\u2069\ufeff\u2800\u3164\ufe00\u034f]|\udb40/;
const foreign = 'script:not([src^="/assets/"]), style, base, meta[http-equiv], img, iframe, object, embed, ' +
  '[onerror], [onload], [onfocus]';
async function look(name, words) {
  const found = await page.evaluate((foreign) => {
    const attributes = [...document.querySelectorAll('body *')].flatMap((element) =>
      [...element.attributes].filter((one) => !(element.matches('input') && one.name === 'value'))
        .filter((one) => one.name !== 'href' && one.name !== 'action').map((one) => one.value));
    const leads = [...document.querySelectorAll('[href], [src], form')]
      .filter((one) => new URL(one.href || one.src || one.action, location).origin !== location.origin);
    const elements = [...document.querySelectorAll(foreign), ...leads].map((one) => one.outerHTML);
    return { elements, text: document.body.textContent, attributes };
  }, foreign);
  assert.deepEqual(found.elements, [], name);
  for (const text of [found.text, ...found.attributes]) assert.ok(!unseen.test(text), `${name}: ${text}`);
  for (let word = 1; word <= words; word++) assert.ok(found.text.includes('KEEP' + word), `${name}: KEEP${word}`);
}
for (const [name, words] of pages) { await page.goto(base + name); await look(name, words); }
await page.goto(base + deploy); await page.getByRole('button', { name: 'Deny' }).click();
await seen('may not be done'); await look('the notice', 10);
await page.goto(base + 'approvals');
await page.getByRole('button', { name: /^Lift for deploy/ }).first().click(); await seen('taken back');
await look('the other notice', 10);
"#;

#[tokio::test(flavor = "multi_thread")]
async fn an_agents_words_stay_words_wherever_they_stand() {
    let scene = Scene::new().await;
    let path = SecretPath::parse("team/api/token").unwrap();
    // What a person once took over from an agent.
    let upkeep = keyless_vault::Upkeep {
        pattern_id: Some(CORPUS.to_owned()),
        retrieval_url: Some(format!("javascript:{CORPUS}")),
        ..keyless_vault::Upkeep::default()
    };
    let metadata = Metadata { description: Some(CORPUS.to_owned()), upkeep, ..Metadata::default() };
    let value = zeroize::Zeroizing::new(b"Qm7-xT4w9ZrK2bVp".to_vec());
    scene.web.desk.vault.add(path.clone(), metadata, Some(value), Entries::untold()).await.unwrap();

    let everything = format!("{CORPUS}{CONTROL}");
    // Two that are answered stand among what holds; before the others, as a denial answers what waits and asks the same.
    for (number, asked) in (100..).zip(every_kind(&everything, &path)) {
        let answer = match asked {
            Asked::UseApproval { .. } => Answer::AllowOnce,
            Asked::DeployApply { .. } => Answer::Deny,
            _ => continue,
        };
        let about = matches!(asked, Asked::UseApproval { .. }).then(|| path.clone());
        let id = scene.web.desk.requests.put_as(number, &everything, about, asked).await;
        scene.web.desk.approver.answer(&id, answer, None).await.unwrap();
    }
    let mut ids = Vec::new();
    for (number, asked) in (0..).zip(every_kind(&everything, &path)) {
        let about = (!matches!(asked, Asked::DeployApply { .. })).then(|| path.clone());
        let requests = &scene.web.desk.requests;
        ids.push(requests.put_as(number, &everything, about, asked).await);
    }
    let book = Arc::clone(&scene.web.desk.book);
    let _entered = book.enter(&everything, SessionKind::Run, vec![path.clone()]);
    write_down(&scene, &everything, &path).await;

    let mut pages: Vec<(String, u8)> =
        ids.iter().map(|id| (format!("requests/{id}"), 10)).collect();
    let deploy = pages.last().unwrap().0.clone();
    for (room, words) in [
        ("", 10),
        ("secrets", 10),
        ("secrets/team/api/token", 10),
        ("secrets/team/api/token?act=value", 10),
        ("secrets/team/api/token?act=edit", 0),
        ("sessions", 10),
        ("approvals", 10),
        ("log", 10),
        ("egress", 1),
        ("sources", 0),
        ("grants", 0),
    ] {
        pages.push((room.to_owned(), words));
    }
    let (pages, deploy) = (json!(pages), json!(deploy));
    let script = format!("const pages = {pages}, deploy = {deploy};\n{SCRIPT}");
    InChromium::play(&scene, &script).await.done().await;
}

/// One request of each kind, the deploy last, with these words wherever there is room for words.
fn every_kind(words: &str, path: &SecretPath) -> [Asked; 7] {
    let text = || words.to_owned();
    let fields = || Fields {
        description: Some(text()),
        retrieval_url: Some(text()),
        pattern_id: Some(text()),
        ..Fields::default()
    };
    let wanted = WantedAction {
        agent: AgentUri::parse("nl://acme.corp/bot/1.0.0").unwrap(),
        acting_for: None,
        action: ActionType::Exec,
        secrets: vec![path.clone()],
        hosts: Vec::new(),
        text: format!("{words}\n{words}"),
        purpose: Some(text()),
        purpose_sha256: None,
        sha256: "0".repeat(64),
    };
    let file = |op, diff| WantedFile { op, path: text(), adopted: true, edited: true, diff };
    let deploy = WantedDeploy {
        plan_hash: text(),
        verb: PackVerb::Deploy,
        project: text(),
        repo: text(),
        profile: text(),
        machine: text(),
        files: vec![
            file(FileOp::Create, None),
            file(FileOp::Update, Some(format!("+{words}\n-{words}"))),
        ],
        more_files: 1,
    };
    [
        Asked::provision(),
        Asked::rotation(),
        Asked::metadata(fields()),
        Asked::new_path(fields()),
        Asked::UseApproval { reason: text(), deed: Some(text()), per_call: false, occasion: None },
        Asked::ActionApproval { wanted: Box::new(wanted) },
        Asked::DeployApply { wanted: Box::new(deploy) },
    ]
}

/// What the log says of the agent: its session, a request that was refused, a use.
async fn write_down(scene: &Scene, words: &str, path: &SecretPath) {
    let named =
        || Target::Named(SafeText::default().as_they_wrote_in_full(&format!("{words}:443")));
    let detail = || Detail {
        method: Some(words.to_owned()),
        path: Some(words.to_owned()),
        note: Some(words.to_owned()),
        purpose: Some(words.to_owned()),
        ..Detail::default()
    };
    for (action, outcome, secrets_used) in [
        (Action::Egress, Outcome::Blocked, Vec::new()),
        (Action::Egress, Outcome::Success, vec![path.clone()]),
    ] {
        let entry = plain_entry(agent("mcp", words), action, outcome, named());
        scene.web.desk.log.append(Draft { detail: detail(), secrets_used, ..entry }).await.unwrap();
    }
}
