//! Keys, as all of the screen understands them.

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

/// A key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Press {
    Back,
    Char(char),
    Down,
    Enter,
    Erase,
    Forward,
    Kill,
    /// Away from what is open, or from the whole.
    Leave,
    Left,
    PageDown,
    PageUp,
    /// Shows what is typed hidden, and hides it again.
    Reveal,
    Right,
    Up,
    /// Out, from wherever one is.
    Quit,
}

/// What a key of the terminal is; nothing for one that has no meaning here.
pub(super) fn press(key: KeyEvent) -> Option<Press> {
    let control = key.modifiers.contains(KeyModifiers::CONTROL);
    match key.code {
        KeyCode::Char('c' | 'd') if control => Some(Press::Quit),
        KeyCode::Char('u') if control => Some(Press::Kill),
        KeyCode::Char('r') if control => Some(Press::Reveal),
        // Escape and a letter right after it come as one: the letter was not meant for what Escape leaves.
        KeyCode::Char(_) if key.modifiers.contains(KeyModifiers::ALT) => Some(Press::Leave),
        KeyCode::Char(character) if !control => Some(Press::Char(character)),
        KeyCode::BackTab => Some(Press::Back),
        KeyCode::Backspace => Some(Press::Erase),
        KeyCode::Down => Some(Press::Down),
        KeyCode::Enter => Some(Press::Enter),
        KeyCode::Esc => Some(Press::Leave),
        KeyCode::Left => Some(Press::Left),
        KeyCode::PageDown => Some(Press::PageDown),
        KeyCode::PageUp => Some(Press::PageUp),
        KeyCode::Right => Some(Press::Right),
        KeyCode::Tab => Some(Press::Forward),
        KeyCode::Up => Some(Press::Up),
        _ => None,
    }
}
