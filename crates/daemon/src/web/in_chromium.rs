//! The page in Chromium, over the scene of a test: for what no agent could bring about through its own doors.

use std::{fs, os::unix::fs::PermissionsExt as _, path::Path, process::Stdio, time::Duration};

use tempfile::TempDir;
use tokio::{
    io::{AsyncBufReadExt as _, BufReader, Lines},
    process::{ChildStdout, Command},
    time::timeout,
};

use super::scene::Scene;

/// What every script of the page's tests begins with.
const BROWSER: &str = include_str!("../../../cli/tests/it/web/browser.js");
const PATIENCE: Duration = Duration::from_mins(3);

/// A browser that plays a script against the page of a scene; signed in, as the tests of `cli` are.
pub(super) struct InChromium {
    lines: Lines<BufReader<ChildStdout>>,
    folder: TempDir,
}

impl InChromium {
    pub(super) async fn play(scene: &Scene, script: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let link = scene.web.link().await.unwrap().url;
        let script = format!("{BROWSER}\nplay(async () => {{\n{script}\n}});\n");
        // The script asks a program for its link, as it asks `keyless web` elsewhere.
        let asked = format!("#!/bin/sh\necho '{{\"data\":{{\"url\":\"{link}\"}}}}'\n");
        for (name, text) in [
            ("script.cjs", script.as_str()),
            ("link", &asked),
            ("passphrase", "correct horse battery staple\n"),
        ] {
            fs::write(folder.path().join(name), text).unwrap();
        }
        let mode = fs::Permissions::from_mode(0o700);
        fs::set_permissions(folder.path().join("link"), mode).unwrap();
        Self { lines: node(folder.path()).await, folder }
    }

    /// The next words that the script tells.
    pub(super) async fn told(&mut self) -> String {
        let line = timeout(PATIENCE, self.lines.next_line()).await.expect("the script says more");
        let line = line.unwrap().unwrap_or_default();
        let fault = fs::read_to_string(self.folder.path().join("fault"));
        assert_ne!(line, "fault", "{}", fault.unwrap_or_default());
        line
    }

    /// The script came to its end.
    pub(super) async fn done(mut self) {
        assert_eq!(self.told().await, "done");
    }
}

async fn node(folder: &Path) -> Lines<BufReader<ChildStdout>> {
    let packages = Command::new("npm").args(["root", "-g"]).output().await.unwrap().stdout;
    let mut node = Command::new("node");
    node.args(["script.cjs", "./link", "passphrase"]).current_dir(folder);
    node.env("NODE_PATH", String::from_utf8(packages).unwrap().trim()).env("TMPDIR", folder);
    let mut child = node.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    // Its stdin stays open as long as it runs: the script may wait for a word.
    tokio::spawn(async move {
        let stdin = child.stdin.take();
        let _ = child.wait().await;
        drop(stdin);
    });
    lines
}
