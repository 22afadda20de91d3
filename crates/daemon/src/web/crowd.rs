//! Two hundred requests wait and fifty come in a second, in Chromium. No agent may ask as fast as that (`requests/pace.rs`), so
//! they are put where agents' requests stand.

use std::{sync::Arc, time::Duration};

use keyless_core::SecretPath;
use tokio::time::sleep;

use super::{in_chromium::InChromium, scene::Scene};

/// Opens the dialog of the oldest request, gives an answer, and does it again while others come in.
const SCRIPT: &str = "
const cards = page.locator('a.card');
await page.waitForFunction(() => document.querySelectorAll('a.card').length === 100);
await seen('And 100 more');
await page.evaluate(() => {
  window.tasks = [];
  new PerformanceObserver((list) => window.tasks.push(...list.getEntries())).observe({ type: 'longtask', buffered: true });
});
tell('ready');
const clicks = [];
for (let round = 0; round < 5; round++) {
  const begun = performance.now();
  await cards.first().click(); await page.locator('dialog:modal').waitFor();
  clicks.push(Math.round(performance.now() - begun));
  await page.getByRole('button', { name: 'Decline' }).click();
  await seen('nothing was changed');
}
tell(`from a click to its dialog: ${clicks.join(', ')} ms`);
await page.waitForFunction(() => document.title.startsWith('(295)'));
assert.equal(await cards.count(), 100); await seen('And 195 more');
";

const WAITING: u64 = 200;
const ARRIVING: u64 = 100;
const EVERY: Duration = Duration::from_millis(20);

#[tokio::test(flavor = "multi_thread")]
async fn a_page_answers_its_person_while_requests_pour_in() {
    let scene = Scene::new().await;
    let requests = Arc::clone(&scene.web.desk.requests);
    // Each about a secret of its own: a denial answers all that ask the same.
    let path = |number: u64| {
        SecretPath::parse(&format!("team/some-service-with-a-name/some-token-{number}")).unwrap()
    };
    for number in 0..WAITING {
        requests.put(number, &path(number)).await;
    }
    let mut browser = InChromium::play(&scene, SCRIPT).await;
    assert_eq!(browser.told().await, "ready");
    let arrive = async {
        for number in WAITING..WAITING + ARRIVING {
            requests.put(number, &path(number)).await;
            sleep(EVERY).await;
        }
    };
    let (measured, ()) = tokio::join!(browser.told(), arrive);
    println!("{measured}");
    browser.done().await;
    let pending = scene.web.desk.approver.pending().await.unwrap();
    assert_eq!(pending.len() as u64, WAITING + ARRIVING - 5);
}
