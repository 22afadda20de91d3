//! The page over TLS, with a certificate of the operator's.

use std::process::Command;

use super::in_a_browser;
use crate::{mcp::unlock, world::World};

/// A world whose page has a certificate for `localhost`, of the world's own authority, which browsers trust.
fn with_certificate() -> World {
    let world = World::with_token();
    let leaf = world.ca.issue(&["localhost"]).unwrap();
    world.home.write("operator/page.pem", &leaf.certificate_pem).unwrap();
    world.home.write("operator/page.key", &leaf.key_pem).unwrap();
    let folder = world.home.root().join("operator");
    let folder = folder.display();
    let config =
        format!("[web.tls]\ncertificate = \"{folder}/page.pem\"\nkey = \"{folder}/page.key\"\n");
    world.home.write("keyless/config.toml", config).unwrap();
    world.home.write("home/.pki/nssdb/.keep", "").unwrap();
    let database = format!("sql:{}", world.home.root().join("home/.pki/nssdb").display());
    let root = world.operator_file("ca.pem").display().to_string();
    for arguments in [
        &["-N", "-d", &database, "--empty-password"][..],
        &["-A", "-d", &database, "-n", "world", "-t", "C,,", "-i", &root],
    ] {
        assert!(Command::new("certutil").args(arguments).status().unwrap().success());
    }
    unlock(&world);
    world
}

/// Chromium takes the certificate, the cookie asks for TLS, what comes in the clear is another origin, and a passkey made
/// here signs in here.
#[test]
fn over_tls_cookies_origins_and_passkeys_are_those_of_https() {
    let world = with_certificate();
    in_a_browser(
        &world,
        "const { port } = new URL(base);
assert.ok(base.startsWith('https://localhost:'), base);
const [cookie] = await page.context().cookies();
assert.deepEqual([cookie.secure, cookie.httpOnly, cookie.sameSite], [true, true, 'Strict']);
assert.equal(await page.evaluate(() => isSecureContext), true);
const http = await fetch(`http://localhost:${port}/`).then((answer) => answer.status, () => 'refused');
assert.equal(http, 'refused');
const head = (await page.goto(base)).headers();
assert.equal(head['strict-transport-security'], undefined, 'it would hold for every port of localhost');

const cdp = await page.context().newCDPSession(page);
await cdp.send('WebAuthn.enable');
const options = { protocol: 'ctap2', transport: 'internal', hasResidentKey: true, hasUserVerification: true,
  isUserVerified: true, automaticPresenceSimulation: true };
await cdp.send('WebAuthn.addVirtualAuthenticator', { options });
await page.goto(path('passkeys'));
await page.getByLabel('Name').fill('laptop'); await page.getByLabel('Passphrase').fill(passphrase());
await page.getByRole('button', { name: 'Add' }).click(); await seen('laptop proves from now on');
await page.getByRole('button', { name: 'Sign out' }).click(); await seen('You are signed out');
await page.goto(link()); await page.getByRole('button', { name: 'Use a passkey' }).click();
await page.getByRole('heading', { name: 'Waiting for you' }).waitFor();",
    );
    let root = world.operator_file("ca.pem").display().to_string();
    let url = world.keyless(&["web", "--json"]).without_passphrase().run().data()["url"].clone();
    let curl = |more: &[&str]| {
        let words = ["curl", "-sS", "-i", "--noproxy", "*", "--max-time", "120"];
        let words = [&words[..], more, &[url.as_str().unwrap()]].concat();
        world.keyless(&[]).without_passphrase().instead(&words).run()
    };
    assert_ne!(curl(&[]).status.code(), Some(0), "nobody vouches for it elsewhere");
    let posted = |origin: &str| {
        let origin = format!("Origin: {origin}");
        curl(&["--cacert", &root, "-H", &origin, "-d", "form=x"]).ok()
    };
    let own = url.as_str().unwrap().split_once("/open/").unwrap().0;
    for foreign in [own.replace("https", "http"), "https://localhost".to_owned()] {
        assert!(posted(&foreign).contains("Another site asked for this"), "{foreign}");
    }
    assert!(posted(own).starts_with("HTTP/1.1 405"), "its own, where nothing is posted");
    let opened = curl(&["--cacert", &root]).ok();
    assert!(opened.contains("HttpOnly; SameSite=Strict; Secure"), "{opened}");
}

/// A certificate that can't be used is said when the page is asked for, and nothing is served without it.
#[test]
fn without_its_certificate_there_is_no_page() {
    let world = with_certificate();
    world.home.write("operator/page.pem", "none\n").unwrap();
    let refused = world.keyless(&["web"]).without_passphrase().run();
    assert!(refused.errors().contains("page.pem"), "{}", refused.errors());
    assert!(!refused.status.success());
}
