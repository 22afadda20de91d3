//! How words look: sixteen colours at most, and none where none are wanted; then what they mean is said by words,
//! signs and weight alone.

use std::env;

use ratatui::style::{Color, Modifier, Style};

/// What a line or a cell says about itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Mood {
    Bad,
    Good,
    /// Somebody else's words.
    Theirs,
    #[default]
    Plain,
    Warn,
}

/// The colours.
#[derive(Clone, Copy, Debug)]
pub(super) struct Theme {
    is_plain: bool,
}

impl Theme {
    /// As the environment says.
    pub(super) fn from_environment() -> Self {
        Self { is_plain: env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty()) }
    }

    #[cfg(test)]
    pub(super) fn plain() -> Self {
        Self { is_plain: true }
    }

    /// What is ours and stands out: titles, the chosen row.
    pub(super) fn accent(self) -> Style {
        self.coloured(Color::Cyan)
    }

    /// Bold text, with and without colours.
    pub(super) fn bold() -> Style {
        Style::new().add_modifier(Modifier::BOLD)
    }

    /// Dim text, with and without colours.
    pub(super) fn dim() -> Style {
        Style::new().add_modifier(Modifier::DIM)
    }

    /// What a key would act on.
    pub(super) fn chosen(self) -> Style {
        self.accent().add_modifier(Modifier::REVERSED)
    }

    pub(super) fn of(self, mood: Mood) -> Style {
        match mood {
            Mood::Bad => self.coloured(Color::Red).add_modifier(Modifier::BOLD),
            Mood::Good => self.coloured(Color::Green),
            Mood::Plain => Style::new(),
            Mood::Theirs => self.coloured(Color::Magenta),
            Mood::Warn => self.coloured(Color::Yellow),
        }
    }

    fn coloured(self, colour: Color) -> Style {
        if self.is_plain { Style::new() } else { Style::new().fg(colour) }
    }
}
