// Passkeys: made at their own page, and asked wherever the factor is.
// @ts-check

import { answerInPlace } from "./dialog.js";
import { byScript } from "./live.js";

/** @typedef {{ challenge: string, party: string, ids: string[] }} Question */

/**
 * Fills the field for the factor with a passkey's answer.
 * @param {HTMLButtonElement} button
 */
export function offerPasskey(button) {
  const { form, dataset } = button;
  const input = form?.elements.namedItem("factor");
  if (!form || !(input instanceof HTMLInputElement) || !window.PublicKeyCredential) return;
  button.disabled = false;
  button.addEventListener("click", () =>
    attempt(form, async () => {
      const { challenge, party, ids } = await question(form, dataset.passkey ?? "");
      if (!ids.length) throw new Error("No passkey is registered yet: give the passphrase, then go to Passkeys.");
      const allowCredentials = ids.map((id) => ({ type: /** @type {const} */ ("public-key"), id: bytes(id) }));
      const asked = { challenge: bytes(challenge), rpId: party, allowCredentials };
      const publicKey = { ...asked, userVerification: /** @type {const} */ ("required") };
      const got = await navigator.credentials.get({ publicKey });
      if (!(got instanceof PublicKeyCredential) || !(got.response instanceof AuthenticatorAssertionResponse)) return;
      const { clientDataJSON, authenticatorData, signature } = got.response;
      const answer = { id: got.id, client: text(clientDataJSON), data: text(authenticatorData) };
      input.value = `passkey:${JSON.stringify({ ...answer, signature: text(signature) })}`;
      const [only, another] = form.querySelectorAll("button:not([type=button])");
      if (!another) form.requestSubmit(/** @type {HTMLButtonElement} */ (only));
      else button.textContent = "Your passkey has answered: choose below";
    }),
  );
}

/**
 * Makes a passkey before the form is sent, and sends it along.
 * @param {HTMLFormElement} form
 */
export function makePasskey(form) {
  const field = /** @type {HTMLInputElement} */ (form.elements.namedItem("credential"));
  const name = /** @type {HTMLInputElement} */ (form.elements.namedItem("name"));
  form.addEventListener("submit", (event) => {
    if (field.value) return;
    event.preventDefault();
    event.stopImmediatePropagation();
    attempt(form, async () => {
      const { challenge, party, ids } = await question(form, form.dataset.newPasskey ?? "");
      const got = await navigator.credentials.create({
        publicKey: {
          challenge: bytes(challenge),
          rp: { id: party, name: "Keyless" },
          user: { id: crypto.getRandomValues(new Uint8Array(16)), name: name.value, displayName: name.value },
          pubKeyCredParams: [-7, -8, -257].map((alg) => ({ type: /** @type {const} */ ("public-key"), alg })),
          excludeCredentials: ids.map((id) => ({ type: /** @type {const} */ ("public-key"), id: bytes(id) })),
          authenticatorSelection: { userVerification: "required" },
        },
      });
      if (!(got instanceof PublicKeyCredential) || !(got.response instanceof AuthenticatorAttestationResponse)) return;
      const { response } = got;
      const key = response.getPublicKey();
      if (!key) throw new Error("Your browser does not give out this passkey's public key. Take another one.");
      field.value = JSON.stringify({
        id: got.id,
        client: text(response.clientDataJSON),
        data: text(response.getAuthenticatorData()),
        key: text(key),
        algorithm: response.getPublicKeyAlgorithm(),
      });
      form.requestSubmit();
    });
  });
  // A refusal leaves what was typed; the passkey itself is made anew.
  answerInPlace(form, () => (field.value = ""));
}

/**
 * @param {HTMLFormElement} form
 * @param {string} where
 * @returns {Promise<Question>}
 */
async function question(form, where) {
  const word = /** @type {HTMLInputElement} */ (form.elements.namedItem("form")).value;
  const body = new URLSearchParams({ form: word });
  const answer = await fetch(where, { method: "POST", headers: byScript, body });
  if (!answer.ok) throw new Error("The broker gives no challenge now. Load the page again.");
  return answer.json();
}

/**
 * @param {HTMLFormElement} form
 * @param {() => Promise<void>} act
 */
async function attempt(form, act) {
  const place = form.querySelector("[data-fault]");
  place?.setAttribute("hidden", "");
  try {
    await act();
  } catch (error) {
    const cancelled = error instanceof DOMException;
    const words = cancelled ? "No passkey has answered." : /** @type {Error} */ (error).message;
    place?.replaceChildren(words);
    place?.removeAttribute("hidden");
  }
}

/** @param {string} word base64url */
function bytes(word) {
  const plain = atob(word.replace(/-/g, "+").replace(/_/g, "/"));
  return Uint8Array.from(plain, (letter) => letter.charCodeAt(0));
}

/** @param {ArrayBuffer} buffer */
function text(buffer) {
  const plain = btoa(String.fromCharCode(...new Uint8Array(buffer)));
  return plain.replace(/\+/g, "-").replace(/\//g, "_").replace(/=+$/, "");
}
