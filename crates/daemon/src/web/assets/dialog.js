// A request's dialog: modal, closed by Escape or a click beside it, and answered without losing what was typed.
// @ts-check

import { byScript, draw } from "./live.js";

/**
 * Makes a dialog that the server drew a modal one.
 * @param {HTMLDialogElement} sheet
 */
export function openSheet(sheet) {
  const back = sheet.dataset.back ?? "";
  sheet.close();
  sheet.showModal();
  sheet.querySelector(".said, .facts")?.scrollIntoView({ block: "nearest" });
  sheet.addEventListener("cancel", (event) => {
    event.preventDefault();
    location.assign(back);
  });
  sheet.addEventListener("click", (event) => {
    if (event.target === sheet) location.assign(back);
  });
  const form = sheet.querySelector("form[data-live]");
  if (form instanceof HTMLFormElement) answerInPlace(form);
}

/**
 * Sends the form without leaving the page, so that a refusal keeps what was typed.
 * @param {HTMLFormElement} form
 * @param {() => void} [refused]
 */
export function answerInPlace(form, refused) {
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    const button = event.submitter;
    const fields = new URLSearchParams();
    new FormData(form, button).forEach((value, name) => fields.append(name, String(value)));
    const buttons = form.querySelectorAll("button[name], .buttons button");
    buttons.forEach((other) => other.setAttribute("disabled", ""));
    const sent = fetch(form.action, { method: "POST", body: fields, redirect: "manual" });
    const answer = await sent.catch(() => null);
    if (answer?.type === "opaqueredirect") return location.assign(form.dataset.live ?? "/");
    buttons.forEach((other) => other.removeAttribute("disabled"));
    const code = answer?.headers.get("X-Keyless-Code") ?? "";
    if (["no_visit", "unproven"].includes(code)) return location.reload();
    refused?.();
    await tell(form, answer);
  });
}

/**
 * Says that a request got its answer elsewhere, or that its time is over, while its dialog stands open.
 * @param {HTMLElement} list
 */
export async function lookAgain(list) {
  const form = document.querySelector("dialog form[data-live]");
  if (!(form instanceof HTMLFormElement) || !form.action.includes("/requests/")) return;
  const address = new URL(form.action).pathname;
  const buttons = form.querySelectorAll("button[name]:not([disabled])");
  if (!buttons.length || list.querySelector(`a[href="${CSS.escape(address)}"]`)) return;
  const answer = await fetch(address, { headers: byScript });
  if (answer.headers.get("X-Keyless-Code") !== "request_settled") return;
  buttons.forEach((button) => button.setAttribute("disabled", ""));
  await tell(form, answer);
}

/**
 * Says why it was not done, and what can be done about it.
 * @param {HTMLFormElement} form
 * @param {Response | null} answer
 */
async function tell(form, answer) {
  const place = form.querySelector("[data-fault]");
  if (!place) return;
  const page = document.createElement("template");
  draw(page, answer ? await answer.text() : "");
  const end = page.content.querySelector("[data-end]");
  const told = end ? [end] : page.content.querySelector(".fault")?.children;
  place.replaceChildren(...(told ?? ["The broker does not answer any more. Next: keyless unlock, then keyless web."]));
  place.removeAttribute("hidden");
  const code = answer?.headers.get("X-Keyless-Code");
  if (code === "value_weak") form.querySelector("[data-weak]")?.removeAttribute("hidden");
  place.scrollIntoView({ block: "nearest" });
  if (code === "operator_required") askForFactor(form);
}

/**
 * Shows the field for the factor: the proof has grown too old since the dialog was drawn.
 * @param {HTMLFormElement} form
 */
function askForFactor(form) {
  const place = form.querySelector("[data-factor]");
  const input = place?.querySelector("input");
  place?.removeAttribute("hidden");
  input?.setAttribute("required", "");
  input?.focus();
}
