//! The approvals page, in Debian's Chromium, with a real agent on the other side.

/// The factor, asked for once more.
mod again;
/// Many requests, several tabs, a proof that ends.
mod crowds;
/// Actions and deploys, which are allowed as a whole.
mod deeds;
/// Every dialog, from the agent's question to what becomes of it.
mod dialogs;
/// The way to the page through an agent's client.
mod elicitation;
/// Values and metadata from the inventory.
mod inventory;
/// Words that want to be more than words; people who can't see or have no mouse; sizes.
mod looks;
/// Passkeys.
mod passkeys;
/// Every view as the documentation shows it.
mod pictures;
/// Sessions, approvals, the log, the lock.
mod rooms;
/// The page over TLS.
mod secure;
/// Who has no link, no cookie, no factor, or another name for the page.
mod strangers;

use crate::{
    invocation::Background,
    world::{World, global_packages},
};

/// A browser that plays a script against the page of `world`'s broker.
pub(crate) struct Browser<'w> {
    world: &'w World,
    process: Background<'w>,
}

impl<'w> Browser<'w> {
    /// Starts one. `script` has `page`, signed in unless it calls `arrive` itself, `link()`, `tell(words)`,
    /// `told()` (a line from the test), `path(name)`, `seen(text)` and node's `assert`.
    pub(crate) fn start(world: &'w World, script: &str) -> Self {
        let text =
            format!("{}\nplay(async () => {{\n{script}\n}});\n", include_str!("web/browser.js"));
        world.home.write("operator/script.cjs", text).unwrap();
        world.home.write("operator/browser/.keep", "").unwrap();
        let file = world.operator_file("script.cjs");
        let passphrase = world.operator_file("passphrase");
        let play = [
            "node",
            file.to_str().unwrap(),
            crate::invocation::KEYLESS,
            passphrase.to_str().unwrap(),
        ];
        let process = world
            .keyless(&[])
            .instead(&play)
            .env("NODE_PATH", global_packages())
            // What a browser keeps is the operator's.
            .env("TMPDIR", world.operator_file("browser"))
            .start();
        Self { world, process }
    }

    /// The next words that the script tells.
    #[track_caller]
    pub(crate) fn told(&mut self) -> String {
        let line = self.process.line();
        let fault = self.world.operator_file("browser/fault");
        assert_ne!(line, "fault", "{}", std::fs::read_to_string(fault).unwrap_or_default());
        line
    }

    /// Goes on with the script.
    pub(crate) fn say(&mut self, words: &str) {
        self.process.say(words);
    }

    /// The script came to its end.
    #[track_caller]
    pub(crate) fn done(mut self) {
        assert_eq!(self.told(), "done");
        self.process.wait();
    }
}

/// Plays a script to its end.
#[track_caller]
pub(crate) fn in_a_browser(world: &World, script: &str) {
    Browser::start(world, script).done();
}
