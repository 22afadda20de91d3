//! A form of fields and buttons, moved by keys alone. Nothing is chosen beforehand that could do harm: without a field
//! to type in, the first button is the one that does nothing.

mod field;

pub(super) use self::field::{Field, Kind};
use super::keys::Press;

/// What a button says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Word {
    Accept,
    /// Nothing is said; what waits still waits.
    Close,
    Deny,
    Once,
    Session,
}

/// A form.
#[derive(Debug, Default)]
pub(super) struct Form {
    pub(super) fields: Vec<Field>,
    pub(super) buttons: Vec<(Word, String)>,
    /// Which of the fields and buttons, in this order, a key goes to.
    pub(super) at: usize,
    /// How far the text above was read, in rows.
    pub(super) read: u16,
    /// What is wrong with what was said.
    pub(super) fault: String,
}

impl Form {
    /// A form whose first button does nothing and whose last one is what it is there for.
    pub(super) fn new(fields: Vec<Field>, words: &[(Word, &str)]) -> Self {
        let mut buttons = vec![(Word::Close, "Not now".to_owned())];
        buttons.extend(words.iter().map(|(word, label)| (*word, (*label).to_owned())));
        Self { fields, buttons, ..Self::default() }
    }

    /// What a key leads to: the word of a button, or nothing yet.
    pub(super) fn press(&mut self, press: Press) -> Option<Word> {
        let last = self.fields.len() + self.buttons.len() - 1;
        match press {
            Press::Leave => return Some(Word::Close),
            Press::Forward => self.at = if self.at == last { 0 } else { self.at + 1 },
            Press::Back => self.at = self.at.checked_sub(1).unwrap_or(last),
            Press::PageDown => self.read = self.read.saturating_add(PAGE),
            Press::PageUp => self.read = self.read.saturating_sub(PAGE),
            Press::Enter => return self.enter(),
            Press::Down if self.fields.is_empty() => self.read = self.read.saturating_add(1),
            Press::Up if self.fields.is_empty() => self.read = self.read.saturating_sub(1),
            Press::Down => self.at = (self.at + 1).min(last),
            Press::Up => self.at = self.at.saturating_sub(1),
            press => {
                if let Some(field) = self.fields.get_mut(self.at) {
                    field.press(press);
                    self.fault.clear();
                } else {
                    self.move_among_buttons(press);
                }
            }
        }
        None
    }

    /// The field of that name.
    pub(super) fn field(&self, name: &str) -> Option<&Field> {
        self.fields.iter().find(|field| field.name == name)
    }

    /// What was typed into a field; empty when there is none of that name.
    pub(super) fn text(&self, name: &str) -> &str {
        self.field(name).map_or("", Field::text)
    }

    /// Whether a box is ticked.
    pub(super) fn is_ticked(&self, name: &str) -> bool {
        self.field(name).is_some_and(Field::is_ticked)
    }

    /// Enter in a field goes on; after the last one to what the form is there for. On a button it is the word.
    fn enter(&mut self) -> Option<Word> {
        if let Some(button) = self.at.checked_sub(self.fields.len()) {
            return Some(self.buttons[button].0);
        }
        self.at += 1;
        if self.at == self.fields.len() {
            self.at += self.buttons.len() - 1;
        }
        None
    }

    fn move_among_buttons(&mut self, press: Press) {
        let (first, last) = (self.fields.len(), self.fields.len() + self.buttons.len() - 1);
        match press {
            Press::Right => self.at = (self.at + 1).min(last),
            Press::Left => self.at = self.at.saturating_sub(1).max(first),
            _ => {}
        }
    }
}

/// How many rows are read at once.
const PAGE: u16 = 5;

#[cfg(test)]
mod tests {
    use super::*;

    const WORDS: [(Word, &str); 2] = [(Word::Deny, "Deny"), (Word::Once, "Allow once")];

    #[test]
    fn who_only_presses_enter_has_said_nothing() {
        let mut form = Form::new(Vec::new(), &WORDS);
        assert_eq!(form.press(Press::Enter), Some(Word::Close));
        form.press(Press::Left);
        assert_eq!(form.press(Press::Enter), Some(Word::Close));
        form.press(Press::Right);
        form.press(Press::Right);
        form.press(Press::Right);
        assert_eq!(form.press(Press::Enter), Some(Word::Once));
        assert_eq!(form.press(Press::Leave), Some(Word::Close));
    }

    #[test]
    fn what_is_typed_goes_on_to_what_the_form_is_there_for() {
        let fields = vec![Field::line("path", "Path", "a/b/c"), Field::tick("sure", "Sure")];
        let mut form = Form::new(fields, &[(Word::Accept, "Save")]);
        form.press(Press::Erase);
        form.press(Press::Char('d'));
        form.press(Press::Enter);
        form.press(Press::Char(' '));
        assert_eq!(form.press(Press::Enter), None);
        assert_eq!((form.text("path"), form.is_ticked("sure")), ("a/b/d", true));
        assert_eq!(form.press(Press::Enter), Some(Word::Accept));
        form.press(Press::Forward);
        assert_eq!(form.at, 0, "round the form");
    }
}
