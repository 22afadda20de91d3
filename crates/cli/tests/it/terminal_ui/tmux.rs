//! A tmux of its own with a program in it: keys go in, and what the screen shows comes out.

use std::{
    path::PathBuf,
    process::Command,
    sync::atomic::{AtomicU32, Ordering},
};

use crate::{invocation::Invocation, world::World};

static WINDOWS: AtomicU32 = AtomicU32::new(0);

/// A window; gone with its server when this is dropped.
pub(crate) struct Window<'w> {
    world: &'w World,
    socket: PathBuf,
}

impl<'w> Window<'w> {
    /// Starts `invocation` in a window of `columns` by `rows`.
    pub(crate) fn open(
        world: &'w World,
        invocation: Invocation<'_>,
        (columns, rows): (u16, u16),
    ) -> Self {
        // A server that was told to end may still be at its socket.
        let number = WINDOWS.fetch_add(1, Ordering::Relaxed);
        let socket = world.operator_file(&format!("tmux-{number}"));
        let window = Self { world, socket };
        let inner = invocation.into_command();
        let mut start = window.tmux(&["new-session", "-d"]);
        start.args(["-x", &columns.to_string(), "-y", &rows.to_string(), "env", "-i"]);
        start.args(["TERM=screen-256color".to_owned()]);
        for (name, value) in inner.get_envs() {
            let Some(value) = value else { continue };
            start.arg(format!("{}={}", name.to_str().unwrap(), value.to_str().unwrap()));
        }
        start.arg(inner.get_program()).args(inner.get_args());
        assert!(start.status().unwrap().success());
        window
    }

    /// Types a text as it is.
    pub(crate) fn say(&self, text: &str) {
        self.run(&["send-keys", "-l", "--", text]);
    }

    /// Presses a key that has a name.
    pub(crate) fn press(&self, key: &str) {
        self.run(&["send-keys", key]);
    }

    pub(crate) fn resize(&self, columns: u16, rows: u16) {
        self.run(&["resize-window", "-x", &columns.to_string(), "-y", &rows.to_string()]);
    }

    /// What the screen shows; with its colours as `ansi` wants.
    pub(crate) fn screen(&self, ansi: bool) -> String {
        let mut capture = self.tmux(&["capture-pane", "-p"]);
        if ansi {
            capture.arg("-e");
        }
        let screen = capture.output().unwrap().stdout;
        self.world.saw("the terminal", &screen);
        String::from_utf8(screen).unwrap()
    }

    /// Waits until the screen shows all of `texts`, in a dialog that takes keys if in any.
    #[track_caller]
    pub(crate) fn seen(&self, texts: &[&str]) {
        for _ in 0..600 {
            let screen = self.screen(false);
            let takes_keys = !screen.contains("└ … ─");
            if takes_keys && texts.iter().all(|text| screen.contains(text)) {
                return;
            }
            std::thread::sleep(std::time::Duration::from_millis(50));
        }
        panic!("waited in vain for {texts:?}:\n{}", self.screen(false));
    }

    /// Waits until nothing on the screen is one of `texts` any more.
    #[track_caller]
    pub(crate) fn gone(&self, texts: &[&str]) {
        crate::world::wait_until("it is off the screen", || {
            let screen = self.screen(false);
            !texts.iter().any(|text| screen.contains(text))
        });
    }

    /// Does something until the screen shows all of `texts`; again only when it was seen what the last time came to.
    #[track_caller]
    pub(crate) fn until(&self, texts: &[&str], act: impl Fn(&Self)) {
        let shows = |screen: &str| texts.iter().all(|text| screen.contains(text));
        let looked = |times: usize, goes_on: &dyn Fn(&str) -> bool| {
            (0..times).any(|_| {
                let screen = self.screen(false);
                std::thread::sleep(std::time::Duration::from_millis(50));
                shows(&screen) || !goes_on(&screen)
            })
        };
        for _ in 0..60 {
            looked(6, &|_| true);
            let before = self.screen(false);
            if shows(&before) {
                return;
            }
            act(self);
            // At a list's end nothing changes.
            looked(60, &|screen| lasting(screen) == lasting(&before));
        }
        panic!("in vain for {texts:?}:\n{}", self.screen(false));
    }

    /// Waits until what is drawn has this size: its frames reach the last column, and its keys the last row.
    #[track_caller]
    pub(crate) fn fills(&self, columns: u16, rows: u16) {
        crate::world::wait_until("the screen has its new size", || {
            let screen = self.screen(false);
            let all: Vec<&str> = screen.lines().collect();
            all.len() == usize::from(rows)
                && all[usize::from(rows) - 1].contains("q leave")
                && all
                    .iter()
                    .any(|row| row.chars().count() == usize::from(columns) && row.ends_with('┐'))
        });
    }

    /// Waits until the program has ended, and its window with it.
    pub(crate) fn closed(&self) {
        crate::world::wait_until("the window is closed", || {
            !self.tmux(&["has-session"]).output().unwrap().status.success()
        });
    }

    fn run(&self, words: &[&str]) {
        assert!(self.tmux(words).status().unwrap().success(), "tmux {words:?}");
    }

    fn tmux(&self, words: &[&str]) -> Command {
        let mut tmux = Command::new("tmux");
        tmux.env_clear().env("PATH", "/usr/bin:/bin").env("LANG", "C.UTF-8");
        tmux.current_dir(self.world.home.work());
        tmux.args(["-f", "/dev/null", "-u", "-S"]).arg(&self.socket).args(words);
        tmux
    }
}

/// A screen without what time alone changes.
fn lasting(screen: &str) -> String {
    screen.chars().filter(|one| !one.is_ascii_digit() && !one.is_whitespace()).collect()
}

impl Drop for Window<'_> {
    fn drop(&mut self) {
        // Its server may have ended with the last window.
        let _ = self.tmux(&["kill-server"]).output();
    }
}
