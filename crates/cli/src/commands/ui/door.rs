//! The way in: the store's passphrase, or a new store with the places beside it, step by step.
//!
//! No terminal here: keys come in, acts go out, and `modal.rs` draws what stands in between. A fault leaves the step
//! where it is, with what is wrong said in it.

use keyless_core::Error;
use keyless_daemon::vault::{MIN_PASSPHRASE_CHARS, SourceType};
use zeroize::Zeroizing;

use super::keys::Press;
use crate::ui::in_sentences;

/// Places of values beside the store that need no further word: their type, and what they are.
pub(super) const PLACES: [(SourceType, &str); 3] = [
    (SourceType::Pass, "pass, the standard Unix password manager"),
    (SourceType::OnePassword, "1Password, by its program op"),
    (SourceType::Bitwarden, "Bitwarden, by its program bw"),
];
/// More than anybody types; the buffer never grows, so that no copy is left behind.
const MOST_BYTES: usize = 1024;

/// Where the person stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// Which places there are beside the store.
    Places,
    /// A new passphrase.
    New,
    /// The new passphrase once more.
    Again,
    /// The recovery phrase, until it is written down.
    Phrase,
    /// The passphrase of the store that is there.
    Unlock,
}

/// What is to be done.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Act {
    /// Make a store, and declare these places.
    Create { passphrase: Zeroizing<String>, places: Vec<SourceType> },
    /// Go on with the store that was made.
    Enter,
    /// Go away; nothing was written unless a store was made.
    Leave,
    /// Open the store.
    Unlock(Zeroizing<String>),
}

/// The state of the way in.
pub(super) struct Door {
    pub(super) step: Step,
    pub(super) ticked: [bool; PLACES.len()],
    pub(super) at: usize,
    pub(super) fault: String,
    pub(super) phrase: Zeroizing<String>,
    typed: Zeroizing<String>,
    first: Zeroizing<String>,
}

impl Door {
    /// There is a store.
    pub(super) fn unlock() -> Self {
        Self::at(Step::Unlock)
    }

    /// There is none yet.
    pub(super) fn first_run() -> Self {
        Self::at(Step::Places)
    }

    fn at(step: Step) -> Self {
        Self {
            step,
            ticked: [false; PLACES.len()],
            at: 0,
            fault: String::new(),
            phrase: Zeroizing::default(),
            typed: empty(),
            first: empty(),
        }
    }

    /// How many characters were typed.
    pub(super) fn typed(&self) -> usize {
        self.typed.chars().count()
    }

    /// What a key leads to.
    pub(super) fn press(&mut self, press: Press) -> Option<Act> {
        match (self.step, press) {
            // The phrase is shown this once: a stray key must not take it away.
            (Step::Phrase, Press::Char('y')) => Some(Act::Enter),
            (Step::Phrase, _) => None,
            (_, Press::Leave | Press::Quit) => Some(Act::Leave),
            (Step::Places, press) => self.choose(press),
            (_, Press::Enter) => self.enter(),
            (_, press) => {
                self.edit(press);
                None
            }
        }
    }

    /// Says what is wrong. What was typed has to be typed again.
    pub(super) fn refuse(&mut self, error: &Error) {
        if self.step == Step::Again {
            self.step = Step::New;
        }
        self.fault = in_sentences(error);
    }

    /// The store is made.
    pub(super) fn show_phrase(&mut self, phrase: Zeroizing<String>) {
        (self.step, self.phrase) = (Step::Phrase, phrase);
    }

    fn choose(&mut self, press: Press) -> Option<Act> {
        match press {
            Press::Down => self.at = (self.at + 1).min(PLACES.len() - 1),
            Press::Up => self.at = self.at.saturating_sub(1),
            Press::Char(' ') => self.ticked[self.at] ^= true,
            Press::Enter => self.step = Step::New,
            _ => {}
        }
        None
    }

    fn edit(&mut self, press: Press) {
        match press {
            Press::Char(character) if self.typed.len() + character.len_utf8() <= MOST_BYTES => {
                self.fault.clear();
                self.typed.push(character);
            }
            Press::Erase => drop(self.typed.pop()),
            Press::Kill => self.typed = empty(),
            _ => {}
        }
    }

    fn enter(&mut self) -> Option<Act> {
        let typed = std::mem::replace(&mut self.typed, empty());
        self.fault.clear();
        match self.step {
            Step::New if typed.chars().count() < MIN_PASSPHRASE_CHARS => {
                self.fault = format!("It needs {MIN_PASSPHRASE_CHARS} characters or more.");
                None
            }
            Step::New => {
                (self.step, self.first) = (Step::Again, typed);
                None
            }
            Step::Again if typed != self.first => {
                self.step = Step::New;
                "The two differ. Type it anew.".clone_into(&mut self.fault);
                None
            }
            Step::Again => Some(Act::Create { passphrase: typed, places: self.places() }),
            Step::Unlock => Some(Act::Unlock(typed)),
            Step::Phrase | Step::Places => None,
        }
    }

    fn places(&self) -> Vec<SourceType> {
        let ticked = PLACES.iter().zip(self.ticked).filter(|(_, ticked)| *ticked);
        ticked.map(|((kind, _), _)| *kind).collect()
    }
}

fn empty() -> Zeroizing<String> {
    Zeroizing::new(String::with_capacity(MOST_BYTES))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(door: &mut Door, text: &str) -> Option<Act> {
        let mut last = None;
        for character in text.chars() {
            last = door.press(match character {
                '\n' => Press::Enter,
                '↓' => Press::Down,
                '←' => Press::Erase,
                other => Press::Char(other),
            });
        }
        last
    }

    #[test]
    fn a_first_run_goes_step_by_step() {
        let mut door = Door::first_run();
        assert_eq!(keys(&mut door, "↓ \n"), None);
        assert_eq!(keys(&mut door, "too short\n"), None);
        assert!(door.step == Step::New && door.fault.contains("12 characters"));
        keys(&mut door, "correct horse battery\ncorrect horse batter\n");
        assert!(door.step == Step::New && door.fault.contains("differ"));
        let made = keys(&mut door, "correct horse battery\ncorrect horse batterx←y\n");
        let passphrase = Zeroizing::new("correct horse battery".to_owned());
        assert_eq!(made, Some(Act::Create { passphrase, places: vec![SourceType::OnePassword] }));
        door.show_phrase(Zeroizing::new("abandon ability".to_owned()));
        assert_eq!(door.press(Press::Leave), None);
        assert_eq!(keys(&mut door, "\nqy"), Some(Act::Enter));
    }

    #[test]
    fn a_wrong_passphrase_stays_where_it_is() {
        let mut door = Door::unlock();
        let typed = Zeroizing::new("qjk wrong".to_owned());
        assert_eq!(keys(&mut door, "qjk wrong\n"), Some(Act::Unlock(typed)));
        door.refuse(&keyless_core::Code::WrongPassphrase.into());
        assert!(door.step == Step::Unlock && door.typed() == 0 && !door.fault.is_empty());
        assert_eq!(door.press(Press::Leave), Some(Act::Leave));
    }
}
