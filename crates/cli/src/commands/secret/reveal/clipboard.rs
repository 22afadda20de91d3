//! The clipboard: the desktop's own program where there is one, else the terminal's (OSC 52, also over ssh).
//!
//! A value goes through a pipe, never through an argument. No library: those that talk to X11 and Wayland themselves
//! keep a process with the value alive, and bring some thirty packages.

use std::{
    env,
    fs::OpenOptions,
    io::{self, Write},
    process::{Command, Stdio},
};

use data_encoding::BASE64;
use keyless_core::{Code, Error, SafeText};
use zeroize::Zeroizing;

/// A program for a desktop that is there when this variable is set: how it takes, gives and drops a text.
struct Tool {
    variable: &'static str,
    copy: &'static [&'static str],
    paste: &'static [&'static str],
    clear: &'static [&'static str],
}

const TOOLS: &[Tool] = &[
    Tool {
        variable: "WAYLAND_DISPLAY",
        copy: &["wl-copy"],
        paste: &["wl-paste", "--no-newline"],
        clear: &["wl-copy", "--clear"],
    },
    Tool {
        variable: "DISPLAY",
        copy: &["xclip", "-selection", "clipboard", "-in"],
        paste: &["xclip", "-selection", "clipboard", "-out"],
        clear: &["xclip", "-selection", "clipboard", "-in", "/dev/null"],
    },
    Tool {
        variable: "DISPLAY",
        copy: &["xsel", "--clipboard", "--input"],
        paste: &["xsel", "--clipboard", "--output"],
        clear: &["xsel", "--clipboard", "--clear"],
    },
];

/// Where a text can be put for one paste.
pub(super) struct Clipboard(Option<&'static Tool>);

/// What was put there, to see whether it still is.
pub(super) struct Held(Zeroizing<Vec<u8>>);

impl Clipboard {
    /// The one of this desktop, or of this terminal.
    pub(super) fn here() -> Self {
        Self(TOOLS.iter().find(|tool| {
            env::var_os(tool.variable).is_some_and(|value| !value.is_empty()) && is_there(tool.copy)
        }))
    }

    pub(super) fn put(&self, value: &[u8]) -> Result<Held, Error> {
        let put = match self.0 {
            Some(tool) => feed(tool.copy, value),
            None => tell_terminal(&Zeroizing::new(BASE64.encode(value))),
        };
        put.map_err(|error| unusable(&error))?;
        Ok(Held(Zeroizing::new(value.to_vec())))
    }

    /// Takes the text out again; `false` when it is another one by now. A terminal can't be asked, and is emptied.
    pub(super) fn clear(&self, held: &Held) -> Result<bool, Error> {
        let Some(tool) = self.0 else {
            // What is no base64 empties it.
            return tell_terminal("!").map(|()| true).map_err(|error| unusable(&error));
        };
        let there = call(tool.paste).stdin(Stdio::null()).output();
        let there = Zeroizing::new(there.map_err(|error| unusable(&error))?.stdout);
        if *there != *held.0 {
            return Ok(false);
        }
        feed(tool.clear, b"").map(|()| true).map_err(|error| unusable(&error))
    }
}

fn call(words: &[&str]) -> Command {
    let mut command = Command::new(words[0]);
    command.args(&words[1..]).stderr(Stdio::null());
    command
}

/// Runs a tool with `input` on its stdin. It may leave a process behind that serves the clipboard.
fn feed(words: &[&str], input: &[u8]) -> io::Result<()> {
    let mut child = call(words).stdin(Stdio::piped()).stdout(Stdio::null()).spawn()?;
    if let Some(mut stdin) = child.stdin.take() {
        stdin.write_all(input)?;
    }
    if child.wait()?.success() { Ok(()) } else { Err(io::ErrorKind::Other.into()) }
}

fn is_there(words: &[&str]) -> bool {
    let folders = env::var_os("PATH").unwrap_or_default();
    env::split_paths(&folders).any(|folder| folder.join(words[0]).is_file())
}

/// xterm's "manipulate selection data", which most terminals obey, tmux with `set-clipboard on`.
fn tell_terminal(data: &str) -> io::Result<()> {
    let mut terminal = OpenOptions::new().write(true).open("/dev/tty")?;
    let sequence = Zeroizing::new(format!("\x1b]52;c;{data}\x07"));
    terminal.write_all(sequence.as_bytes())
}

fn unusable(error: &io::Error) -> Error {
    let words = SafeText::words("the clipboard: ").and(error.kind());
    Error::with(Code::PathUnusable, words)
}
