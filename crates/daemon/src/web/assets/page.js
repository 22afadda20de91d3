// The page's scripts. Every page works without them; with them it is live, and quicker to answer.
// @ts-check

import { lookAgain, openSheet } from "./dialog.js";
import { follow, tick } from "./live.js";
import { makePasskey, offerPasskey } from "./passkey.js";
import { checkFormat, followChoice, offerReveal, refuseLines } from "./value.js";

for (const sheet of document.querySelectorAll("dialog")) openSheet(sheet);
for (const input of document.querySelectorAll("input[data-value]")) {
  checkFormat(/** @type {HTMLInputElement} */ (input));
  refuseLines(/** @type {HTMLInputElement} */ (input));
}
for (const button of document.querySelectorAll("button[data-reveal]")) {
  offerReveal(/** @type {HTMLButtonElement} */ (button));
}
for (const button of document.querySelectorAll("button[data-passkey]")) {
  offerPasskey(/** @type {HTMLButtonElement} */ (button));
}
const made = document.querySelector("form[data-new-passkey]");
if (made instanceof HTMLFormElement) makePasskey(made);
const choice = document.querySelector("select[data-guide]");
if (choice instanceof HTMLSelectElement) followChoice(choice);
const list = document.querySelector("[data-events]");
if (list instanceof HTMLElement) follow(list, () => lookAgain(list));
tick();
