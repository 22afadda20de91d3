//! Reads a line from the terminal without showing it.
//!
//! The echo goes off before the question is asked, so that even who types at once is not seen, and
//! comes back however the line ends, Ctrl-C included, and while Ctrl-Z has us stopped. The line lives in one buffer that
//! is wiped.

use std::{
    fs::{File, OpenOptions},
    io::{self, Read, Write},
    thread,
    time::Duration,
};

use rustix::termios::{
    LocalModes, OptionalActions, QueueSelector, Termios, tcflush, tcgetattr, tcsetattr,
};
use zeroize::Zeroizing;

/// Longer than any passphrase or value that a person types or pastes, in bytes.
const MAX_LINE: usize = 64 * 1024;
// xterm's alternate screen, emptied before and after.
const OTHER_SCREEN: &[u8] = b"\x1b[?1049h\x1b[H\x1b[2J";
const OWN_SCREEN: &[u8] = b"\x1b[2J\x1b[?1049l";
/// By when a process that was told to stop has stopped, whichever of its threads was told.
const STOPPED: Duration = Duration::from_millis(50);

/// Asks on the controlling terminal, whatever stdin is. Fails when there is none.
pub(super) fn ask(question: &str) -> io::Result<Zeroizing<String>> {
    match read(b"", question, b"\n")? {
        Ended::Entered(line) => Ok(line),
        Ended::Interrupted => Err(leave()),
    }
}

/// Ends the process as if the terminal had sent an interrupt; nothing below runs unless somebody ignores it.
pub(super) fn leave() -> io::Error {
    let own = rustix::process::getpid();
    let _ = rustix::process::kill_process(own, rustix::process::Signal::INT);
    io::ErrorKind::Interrupted.into()
}

/// Throws away what was typed and nobody has read.
pub(super) fn discard() {
    if let Ok(terminal) = OpenOptions::new().read(true).write(true).open("/dev/tty") {
        let _ = tcflush(&terminal, QueueSelector::IFlush);
    }
}

/// Shows `text` on a screen of its own, which leaves no trace in what can be scrolled back to, until a line ends or is
/// interrupted.
pub(super) fn show(text: &str) -> io::Result<()> {
    read(OTHER_SCREEN, text, OWN_SCREEN).map(drop)
}

/// As [`show`], but gives the line that was entered; `None` where it was interrupted.
pub(super) fn answer(text: &str) -> io::Result<Option<Zeroizing<String>>> {
    Ok(match read(OTHER_SCREEN, text, OWN_SCREEN)? {
        Ended::Entered(line) => Some(line),
        Ended::Interrupted => None,
    })
}

/// One line after `question`, with what goes to the terminal before and behind both. What was typed before a stop is
/// lost, as in line mode.
fn read(before: &[u8], question: &str, behind: &[u8]) -> io::Result<Ended> {
    loop {
        let terminal = Quiet::open()?;
        let mut file = &terminal.file;
        let asked = file.write_all(before).and_then(|()| file.write_all(question.as_bytes()));
        let line = asked.and_then(|()| read_line(&mut file));
        let _ = file.write_all(behind);
        drop(terminal);
        match line? {
            Line::Ended(ended) => return Ok(ended),
            Line::Suspended => stop(),
        }
    }
}

/// Stops all that runs beside us as Ctrl-Z at the terminal does, until somebody lets us go on. Where nobody could, the
/// kernel does nothing.
fn stop() {
    let group = rustix::process::getpgrp();
    let _ = rustix::process::kill_process_group(group, rustix::process::Signal::TSTP);
    thread::sleep(STOPPED);
}

/// The terminal, silent until this is dropped.
struct Quiet {
    file: File,
    before: Termios,
}

impl Quiet {
    fn open() -> io::Result<Self> {
        let file = OpenOptions::new().read(true).write(true).open("/dev/tty")?;
        let before = tcgetattr(&file)?;
        let mut silent = before.clone();
        // Signals come as bytes, so that neither Ctrl-C nor Ctrl-Z takes effect before the echo is back.
        silent
            .local_modes
            .remove(LocalModes::ECHO | LocalModes::ECHONL | LocalModes::ICANON | LocalModes::ISIG);
        tcsetattr(&file, OptionalActions::Now, &silent)?;
        Ok(Self { file, before })
    }
}

impl Drop for Quiet {
    fn drop(&mut self) {
        // The terminal may be gone, and then there is no echo to give back.
        let _ = tcsetattr(&self.file, OptionalActions::Now, &self.before);
    }
}

enum Line {
    Ended(Ended),
    Suspended,
}

enum Ended {
    Entered(Zeroizing<String>),
    Interrupted,
}

/// One line, with the editing that a terminal in line mode has: erase, kill, end.
fn read_line(from: &mut impl Read) -> io::Result<Line> {
    let mut bytes = Zeroizing::new(Vec::with_capacity(MAX_LINE));
    let mut next = [0];
    loop {
        if from.read(&mut next)? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        match next[0] {
            0x03 => return Ok(Line::Ended(Ended::Interrupted)),
            0x1a => return Ok(Line::Suspended),
            // Who ends the input without a line goes as well; an error would say that there is no terminal.
            0x04 if bytes.is_empty() => return Ok(Line::Ended(Ended::Interrupted)),
            b'\r' | b'\n' | 0x04 => break,
            0x08 | 0x7f => erase(&mut bytes),
            0x15 => bytes.clear(),
            byte if bytes.len() < MAX_LINE => bytes.push(byte),
            _ => return Err(io::ErrorKind::InvalidInput.into()),
        }
    }
    let text = std::str::from_utf8(&bytes).map_err(|_| io::ErrorKind::InvalidData)?;
    Ok(Line::Ended(Ended::Entered(Zeroizing::new(text.to_owned()))))
}

/// Takes the last character away, all bytes of it.
fn erase(bytes: &mut Vec<u8>) {
    while bytes.pop().is_some_and(|byte| byte & 0xc0 == 0x80) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    fn typed(keys: &str) -> Option<String> {
        match read_line(&mut keys.as_bytes()).ok()? {
            Line::Ended(Ended::Entered(line)) => Some(line.to_string()),
            Line::Ended(Ended::Interrupted) | Line::Suspended => None,
        }
    }

    #[test]
    fn lines_are_edited_as_a_terminal_does() {
        for (keys, line) in [
            ("pass\n", Some("pass")),
            ("pass\r", Some("pass")),
            ("pasx\u{7f}s\n", Some("pass")),
            ("pas\u{e9}\u{8}s\n", Some("pass")),
            ("\u{7f}pass\n", Some("pass")),
            ("wrong\u{15}pass\n", Some("pass")),
            ("pass\u{4}", Some("pass")),
            ("\n", Some("")),
            ("\u{4}", None),
            ("pa\u{3}ss\n", None),
            ("pa\u{1a}ss\n", None),
            ("no end", None),
        ] {
            assert_eq!(typed(keys).as_deref(), line, "{keys:?}");
        }
    }
}
