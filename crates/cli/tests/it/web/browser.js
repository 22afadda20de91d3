// What every script has: one browser, one page, and the words between it and the test.
const assert = require("node:assert/strict");
const { execFileSync } = require("node:child_process");
const { readFileSync, writeFileSync } = require("node:fs");
const { createInterface } = require("node:readline");
const { chromium } = require("playwright-core");

const [keyless, passphraseFile] = process.argv.slice(2);
const lines = createInterface({ input: process.stdin })[Symbol.asyncIterator]();
const faults = [];
let browser, page, base;

const tell = (words) => console.log(words);
const told = async () => (await lines.next()).value;
const link = () => JSON.parse(execFileSync(keyless, ["web", "--json"])).data.url;
const passphrase = () => readFileSync(passphraseFile, "utf8").trim();
const path = (name) => base + name;
const seen = (text) => page.getByText(text).first().waitFor();

/** A page in a browser profile of its own, at the question for the factor. */
async function arrive(options = {}, address = link()) {
  const context = await browser.newContext({ viewport: { width: 1200, height: 800 }, ...options });
  const fresh = await context.newPage();
  fresh.setDefaultTimeout(60000);
  fresh.on("pageerror", (error) => faults.push(error.message));
  fresh.on("dialog", (dialog) => { faults.push(`dialog: ${dialog.message()}`); dialog.dismiss(); });
  fresh.on("console", (line) => {
    // What a script of an agent's would cause; statuses are looked at by the tests themselves.
    if (/Content Security|Refused to|violat/.test(line.text())) faults.push(line.text());
  });
  fresh.on("request", (request) => {
    if (new URL(request.url()).hostname !== "localhost") faults.push(`went to ${request.url()}`);
  });
  await fresh.goto(address);
  return fresh;
}

/** The same, signed in. */
async function enter(options) {
  const fresh = await arrive(options);
  await fresh.getByLabel("Passphrase or code").fill(passphrase());
  await fresh.getByRole("button", { name: "Go on" }).click();
  await fresh.getByRole("heading", { name: "Waiting for you" }).waitFor();
  return fresh;
}

/** Runs a script to its end, or leaves the fault where the test finds it. */
async function play(script) {
  const options = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync"];
  browser = await chromium.launch({ executablePath: "/usr/bin/chromium", args: options, timeout: 120000 });
  try {
    page = await enter();
    base = page.url();
    await script();
    assert.deepEqual(faults, []);
    tell("done");
  } catch (error) {
    const text = page ? await page.locator("body").innerText().catch(() => "") : "";
    writeFileSync(`${process.env.TMPDIR}/fault`, `${error.stack}\n--- page ---\n${text}`);
    tell("fault");
  }
  await browser.close();
  process.exit(0);
}
