// First paint of each view, and of a plain page of as many bytes; a line of JSON a view.
const { createServer } = require("node:http");
const { chromium } = require("playwright-core");

const [link, passphrase, rounds] = process.argv.slice(2);
const views = { waiting: "", secrets: "secrets", "a secret": "secrets/new", sessions: "sessions",
  approvals: "approvals", grants: "grants", log: "log", egress: "egress", sources: "sources" };

const paint = (page) => page.evaluate(() => new Promise((resolve) => {
  new PerformanceObserver((list) => {
    const first = list.getEntriesByName("first-contentful-paint")[0];
    if (first) resolve(first.startTime);
  }).observe({ type: "paint", buffered: true });
}));

(async () => {
  let plain = "";
  const server = createServer((_, answer) => answer.setHeader("content-type", "text/html").end(plain));
  await new Promise((ready) => server.listen(0, "127.0.0.1", ready));
  const other = `http://127.0.0.1:${server.address().port}/`;
  const browser = await chromium.launch({ executablePath: "/usr/bin/chromium", args: ["--no-sandbox", "--disable-gpu"] });
  const page = await browser.newPage();
  await page.goto(link);
  await page.getByLabel("Passphrase or code").fill(passphrase);
  await page.getByRole("button", { name: "Go on" }).click();
  await page.getByRole("heading", { name: "Waiting for you" }).waitFor();
  const home = page.url();
  for (const [view, room] of Object.entries(views)) {
    const bytes = (await (await page.goto(home + room)).body()).length;
    plain = `<!doctype html><title>plain</title><p>${"word ".repeat(bytes / 5)}`;
    const told = { view, bytes, ours: [], plain: [] };
    for (let round = 0; round < Number(rounds); round++) {
      await page.goto(home + room);
      told.ours.push(await paint(page));
      await page.goto(other);
      told.plain.push(await paint(page));
    }
    console.log(JSON.stringify(told));
  }
  await browser.close();
  process.exit(0);
})().catch((error) => { console.error(error); process.exit(1); });
