// The field for a value: shown on demand, checked while it is typed, never sent before it is saved.
// @ts-check

import { byScript, draw } from "./live.js";

/**
 * Lets the person look at what they typed.
 * @param {HTMLButtonElement} button
 */
export function offerReveal(button) {
  const input = document.getElementById(button.dataset.reveal ?? "");
  if (!(input instanceof HTMLInputElement)) return;
  button.hidden = false;
  button.addEventListener("click", () => {
    const shown = input.type === "password";
    input.type = shown ? "text" : "password";
    button.setAttribute("aria-pressed", String(shown));
    button.textContent = shown ? "Hide" : "Show";
    input.focus();
  });
}

/**
 * Says how long the value is and whether it has the format, as far as one is known.
 * @param {HTMLInputElement} input
 */
export function checkFormat(input) {
  const help = document.getElementById(input.getAttribute("aria-describedby") ?? "");
  if (!help) return;
  const say = () => {
    const { length } = input.value;
    const chosen = document.getElementById("format")?.dataset.format;
    const rule = compile(input.dataset.format ?? chosen ?? "");
    const fits = !rule || rule.test(input.value);
    const verdict = !rule ? "" : fits ? " The format is right." : " This is not the format yet.";
    help.textContent = length ? `${length} characters.${verdict}` : (help.dataset.default ?? "");
    help.classList.toggle("is-fine", Boolean(length && rule && fits));
  };
  input.addEventListener("input", say);
  // What was typed before this script was there.
  if (input.value) say();
}

/**
 * Refuses several lines: the field would join them to one value that nobody has.
 * @param {HTMLInputElement} input
 */
export function refuseLines(input) {
  const help = document.getElementById(input.getAttribute("aria-describedby") ?? "");
  const judge = (/** @type {Event} */ event, /** @type {DataTransfer | null} */ data) => {
    if (!help || !/[\r\n]/.test(data?.getData("text/plain").trimEnd() ?? "")) return;
    event.preventDefault();
    help.textContent = `It has several lines, which this field can't hold. Put it into a file: ${input.dataset.lines}`;
    help.classList.remove("is-fine");
  };
  input.addEventListener("paste", (event) => judge(event, event.clipboardData));
  input.addEventListener("drop", (event) => judge(event, event.dataTransfer));
}

/**
 * The server's rule, if this browser reads it alike; else only the server judges.
 * @param {string} text
 */
function compile(text) {
  try {
    return text ? new RegExp(`^(?:${text})$`, "u") : null;
  } catch {
    return null;
  }
}

/**
 * Shows how another kind of token is got; what was typed stays.
 * @param {HTMLSelectElement} choice
 */
export function followChoice(choice) {
  choice.addEventListener("change", async () => {
    const answer = await fetch(choice.dataset.guide + choice.value, { headers: byScript });
    const guide = document.getElementById("guide");
    if (answer.ok && guide) draw(guide, await answer.text());
  });
}
