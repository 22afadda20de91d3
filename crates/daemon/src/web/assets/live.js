// The list of requests as it changes, and the time that is left.
// @ts-check

/** @typedef {{ createHTML(text: string): string }} Policy */
/** @typedef {{ createPolicy(name: string, rules: Policy): Policy }} TrustedTypes */

const { trustedTypes } = /** @type {Window & { trustedTypes?: TrustedTypes }} */ (window);
/** The one place where text becomes elements: what our own server drew, everything in it escaped. */
const ours = trustedTypes?.createPolicy("keyless", { createHTML: (text) => text });

/** Marks a request as the script's: it is no act of the person. */
export const byScript = { "X-Keyless-Script": "1" };

/**
 * Puts what our server drew into an element.
 * @param {Element} element
 * @param {string} text
 */
export function draw(element, text) {
  element.innerHTML = ours ? ours.createHTML(text) : text;
}

/**
 * What a list asks for: its requests, and how many more there are.
 * @param {ParentNode} list
 */
function shown(list) {
  const parts = [...list.querySelectorAll("a[href], .more")];
  return parts.map((part) => part.getAttribute("href") ?? part.textContent).join("\n");
}

/**
 * Keeps the list as it is at the broker, and says how many wait.
 * @param {HTMLElement} list
 * @param {() => void} changed
 */
export function follow(list, changed) {
  const { list: where = "", events = "" } = list.dataset;
  const source = new EventSource(events);
  source.addEventListener("waiting", async (event) => {
    say(Number(event.data));
    const answer = await fetch(where, { headers: byScript });
    if (!answer.ok) return;
    const text = await answer.text();
    const fresh = document.createElement("template");
    draw(fresh, text);
    // What stands there already stays: somebody may be about to click it.
    if (shown(fresh.content) !== shown(list)) {
      const focused = document.activeElement?.getAttribute("href");
      draw(list, text);
      const link = focused && list.querySelector(`a[href="${CSS.escape(focused)}"]`);
      if (link instanceof HTMLElement) link.focus();
    }
    changed();
  });
  const lost = document.getElementById("lost");
  let misses = 0;
  source.addEventListener("open", () => {
    misses = 0;
    lost?.setAttribute("hidden", "");
  });
  source.addEventListener("error", () => {
    // It was answered, and not with events: the page says why.
    if (source.readyState === EventSource.CLOSED) return void anew();
    misses += 1;
    // The first one is a connection that ended; the browser makes another.
    if (misses > 1) lost?.removeAttribute("hidden");
  });
  // The proof is over, or the store is locked: the server asks for the factor.
  source.addEventListener("over", () => {
    source.close();
    void anew();
  });
  /** Loads the page again, if there is somebody to load it from. */
  async function anew() {
    try {
      await fetch(where, { headers: byScript });
      location.reload();
    } catch {
      lost?.removeAttribute("hidden");
    }
  }
}

/** @param {number} count */
function say(count) {
  const badge = document.querySelector("[data-count]");
  if (badge) badge.textContent = count > 0 ? String(count) : "";
  document.title = document.title.replace(/^(\(\d+\) )?/, count > 0 ? `(${count}) ` : "");
}

/**
 * How long, as the server's own words have it.
 * @param {number} seconds
 */
function lasting(seconds) {
  if (seconds < 120) return `${seconds} s`;
  if (seconds < 7200) return `${Math.floor(seconds / 60)} min`;
  return seconds < 172800 ? `${Math.floor(seconds / 3600)} h` : `${Math.floor(seconds / 86400)} days`;
}

/** Counts every shown time down, and how long ago something was up. */
export function tick() {
  setInterval(() => {
    for (const element of document.querySelectorAll("[data-age]")) {
      const age = Number(element.getAttribute("data-age")) + 1;
      element.setAttribute("data-age", String(age));
      element.textContent = `${lasting(age)} ago`;
    }
    for (const element of document.querySelectorAll("[data-left]")) {
      const left = Math.max(0, Number(element.getAttribute("data-left")) - 1);
      element.setAttribute("data-left", String(left));
      element.querySelector("meter")?.setAttribute("value", String(left));
      const words = element.querySelector("[data-words]");
      if (words) words.textContent = `${Math.floor(left / 60)}:${String(left % 60).padStart(2, "0")}`;
    }
  }, 1000);
}
