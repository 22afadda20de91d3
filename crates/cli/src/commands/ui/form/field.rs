//! One field of a form. What is hidden is wiped when the field goes, and its buffer never grows, so that no copy of
//! it is left behind.

use keyless_daemon::vault::MAX_VALUE_BYTES;
use zeroize::Zeroizing;

use super::super::keys::Press;

/// More than anybody types into a field that is not hidden.
const MOST: usize = 2048;

/// A field.
pub(in crate::commands::ui) struct Field {
    pub(in crate::commands::ui) name: &'static str,
    pub(in crate::commands::ui) label: String,
    pub(in crate::commands::ui) kind: Kind,
    /// What is said of it while keys go to it.
    pub(in crate::commands::ui) help: String,
}

/// What a field holds.
pub(in crate::commands::ui) enum Kind {
    Choice { options: Vec<String>, at: usize },
    Hidden { text: Zeroizing<String>, is_shown: bool },
    Line(String),
    Tick(bool),
}

impl Field {
    pub(in crate::commands::ui) fn choice(
        name: &'static str,
        label: &str,
        options: Vec<String>,
        at: usize,
    ) -> Self {
        Self::new(name, label, Kind::Choice { options, at }).with_help("←→ change")
    }

    pub(in crate::commands::ui) fn hidden(name: &'static str, label: &str) -> Self {
        let text = Zeroizing::new(String::with_capacity(MAX_VALUE_BYTES));
        Self::new(name, label, Kind::Hidden { text, is_shown: false })
    }

    pub(in crate::commands::ui) fn line(name: &'static str, label: &str, text: &str) -> Self {
        Self::new(name, label, Kind::Line(text.to_owned()))
    }

    pub(in crate::commands::ui) fn tick(name: &'static str, label: &str) -> Self {
        Self::new(name, label, Kind::Tick(false)).with_help("Space ticks")
    }

    pub(in crate::commands::ui) fn with_help(self, help: &str) -> Self {
        Self { help: help.to_owned(), ..self }
    }

    fn new(name: &'static str, label: &str, kind: Kind) -> Self {
        Self { name, label: label.to_owned(), kind, help: String::new() }
    }

    pub(super) fn press(&mut self, press: Press) {
        match (&mut self.kind, press) {
            (Kind::Choice { at, .. }, Press::Left) => *at = at.saturating_sub(1),
            (Kind::Choice { options, at }, Press::Right | Press::Char(' ')) => {
                *at = (*at + 1).min(options.len() - 1);
            }
            (Kind::Hidden { text, .. }, Press::Char(character))
                if text.len() + character.len_utf8() <= MAX_VALUE_BYTES =>
            {
                text.push(character);
            }
            (Kind::Hidden { text, .. }, Press::Erase) => drop(text.pop()),
            (Kind::Hidden { text, .. }, Press::Kill) => {
                *text = Zeroizing::new(String::with_capacity(MAX_VALUE_BYTES));
            }
            (Kind::Hidden { is_shown, .. }, Press::Reveal) => *is_shown ^= true,
            (Kind::Line(text), Press::Char(character)) if text.len() < MOST => text.push(character),
            (Kind::Line(text), Press::Erase) => drop(text.pop()),
            (Kind::Line(text), Press::Kill) => text.clear(),
            (Kind::Tick(is_on), Press::Char(' ')) => *is_on ^= true,
            _ => {}
        }
    }

    /// What was typed, hidden or not.
    pub(super) fn text(&self) -> &str {
        match &self.kind {
            Kind::Hidden { text, .. } => text,
            Kind::Line(text) => text,
            Kind::Choice { options, at } => &options[*at],
            Kind::Tick(_) => "",
        }
    }

    pub(super) fn is_ticked(&self) -> bool {
        matches!(self.kind, Kind::Tick(true))
    }
}

/// Never what was typed.
impl std::fmt::Debug for Field {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Field").field("name", &self.name).finish_non_exhaustive()
    }
}
