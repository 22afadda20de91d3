//! Passkeys, with Chromium's own virtual authenticator.

use super::in_a_browser;
use crate::mcp::unlocked;

/// A passkey is made with the passphrase, signs in, needs a person who was verified, is worth nothing from another
/// page of this machine, and nothing once it is removed.
#[test]
fn a_passkey_signs_in_at_this_page_alone() {
    let world = unlocked();
    in_a_browser(
        &world,
        "const { createServer } = require('node:http');
const cdp = await page.context().newCDPSession(page);
await cdp.send('WebAuthn.enable');
const options = { protocol: 'ctap2', transport: 'internal', hasResidentKey: true, hasUserVerification: true,
  isUserVerified: true, automaticPresenceSimulation: true };
const { authenticatorId } = await cdp.send('WebAuthn.addVirtualAuthenticator', { options });
const verified = (isUserVerified) => cdp.send('WebAuthn.setUserVerified', { authenticatorId, isUserVerified });
const ask = (tab) => tab.getByRole('button', { name: 'Use a passkey' }).click();

await page.goto(path('passkeys')); await seen('No passkey is registered');
await page.getByLabel('Name').fill('laptop');
await page.getByLabel('Passphrase').fill('not the passphrase');
await page.getByRole('button', { name: 'Add' }).click(); await seen('does not open the store');
await page.getByLabel('Passphrase').fill(passphrase());
await page.getByRole('button', { name: 'Add' }).click(); await seen('laptop proves from now on');

await page.getByRole('button', { name: 'Sign out' }).click(); await seen('You are signed out');
await page.goto(link()); await verified(false);
await ask(page); await seen('No passkey has answered');
await verified(true); await ask(page);
await page.getByRole('heading', { name: 'Waiting for you' }).waitFor();
base = page.url();

// An agent has a link of its own, and a page that asks the person for the passkey in its stead.
const door = await arrive();
const question = await door.evaluate(async () => {
  const word = document.querySelector('input[name=form]').value;
  const where = document.querySelector('[data-passkey]').dataset.passkey;
  return (await fetch(where, { method: 'POST', body: new URLSearchParams({ form: word }) })).json();
});
assert.equal(question.ids.length, 1);
const evil = createServer((_, answer) => answer.setHeader('Content-Type', 'text/html').end('<p>evil</p>'));
await new Promise((ready) => evil.listen(0, 'localhost', ready));
await page.goto(`http://localhost:${evil.address().port}/`);
const caught = await page.evaluate(async ({ challenge, party, ids }) => {
  const bytes = (word) => Uint8Array.from(atob(word.replace(/-/g, '+').replace(/_/g, '/')), (c) => c.charCodeAt(0));
  const text = (buffer) => btoa(String.fromCharCode(...new Uint8Array(buffer)))
    .replace(/\\+/g, '-').replace(/\\//g, '_').replace(/=+$/, '');
  const allowCredentials = ids.map((id) => ({ type: 'public-key', id: bytes(id) }));
  const publicKey = { challenge: bytes(challenge), rpId: party, allowCredentials, userVerification: 'required' };
  const { id, response } = await navigator.credentials.get({ publicKey });
  return { id, client: text(response.clientDataJSON), data: text(response.authenticatorData), signature: text(response.signature) };
}, question);
await door.getByLabel('Passphrase or code').fill('passkey:' + JSON.stringify(caught));
await door.getByRole('button', { name: 'Go on' }).click();
await door.getByText('given to another page').waitFor();

await page.goto(path('passkeys')); await seen('laptop');
await page.getByRole('button', { name: 'Remove laptop' }).click(); await seen('proves nothing any more');
await page.getByRole('button', { name: 'Sign out' }).click();
await page.goto(link()); await ask(page); await seen('No passkey is registered yet');
evil.close(); evil.closeAllConnections();",
    );
    assert_eq!(world.log_of("passkey_refused").len(), 1);
    assert_eq!(world.log_of("wrong_passphrase").len(), 1);
}
