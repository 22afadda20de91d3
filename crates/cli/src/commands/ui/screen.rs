//! The terminal as a screen: full, without a mouse. It is put back as it was, also when something fails.

use std::{env, io, time::Duration};

use keyless_core::{Code, Error, SafeText};
use ratatui::{
    DefaultTerminal,
    crossterm::event::{self, Event, KeyEventKind},
};

use super::{
    app::App,
    door::Door,
    draw::draw,
    keys::{self, Press},
    modal,
    theme::Theme,
};

/// The terminal, full screen until this is dropped.
pub(super) struct Screen {
    terminal: DefaultTerminal,
    theme: Theme,
}

impl Screen {
    /// [`Code::TerminalRequired`] where the terminal can't be drawn on.
    pub(super) fn enter() -> Result<Self, Error> {
        if env::var("TERM").is_ok_and(|term| term == "dumb" || term.is_empty()) {
            let words =
                "this terminal (TERM=dumb) can't be drawn on; keyless approve asks line by line";
            return Err(Error::with(Code::TerminalRequired, SafeText::words(words)));
        }
        let terminal = ratatui::try_init().map_err(|error| unusable(&error))?;
        Ok(Self { terminal, theme: Theme::from_environment() })
    }

    pub(super) fn draw(&mut self, app: &mut App) -> Result<(), Error> {
        let theme = self.theme;
        let drawn = self.terminal.draw(|frame| draw(frame, app, theme));
        drawn.map(drop).map_err(|error| unusable(&error))
    }

    pub(super) fn draw_door(&mut self, door: &Door) -> Result<(), Error> {
        let theme = self.theme;
        let drawn = self.terminal.draw(|frame| modal::draw(frame, door, theme));
        drawn.map(drop).map_err(|error| unusable(&error))
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        ratatui::restore();
    }
}

/// The next key; nothing when none came in time, or the window's size has changed.
pub(super) fn next_press(patience: Duration) -> Result<Option<Press>, Error> {
    if !event::poll(patience).map_err(|error| unusable(&error))? {
        return Ok(None);
    }
    match event::read().map_err(|error| unusable(&error))? {
        Event::Key(key) if key.kind != KeyEventKind::Release => Ok(keys::press(key)),
        _ => Ok(None),
    }
}

/// Forgets the keys that were pressed before what is on the screen now could be seen.
pub(super) fn forget_keys() -> Result<(), Error> {
    while event::poll(Duration::ZERO).map_err(|error| unusable(&error))? {
        event::read().map_err(|error| unusable(&error))?;
    }
    Ok(())
}

fn unusable(error: &io::Error) -> Error {
    let words = SafeText::words("the terminal: ").and(error.kind());
    Error::with(Code::TerminalRequired, words)
}
