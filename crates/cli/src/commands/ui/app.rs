//! The state of the screen: which room, what the broker said last, what is chosen in it, and the dialog over it.
//!
//! Keys come in, acts go out; nothing here asks anybody, and `draw` shows it as it is.

use keyless_core::{SecretPath, approval::RequestId, audit::Entry, grant::GrantId};
use keyless_daemon::{
    Answer, ChainState, EgressView, Given, LatestUse, LogView, LogWanted, Occasion, SecretsView,
    SecretsWanted, SessionRow, Shown, SourcesView, Weight, nl::grants::ShownGrant, vault::Metadata,
};
use zeroize::Zeroizing;

use super::{
    dialog::{Deed, Dialog, Outcome},
    keys::Press,
    rooms::{self, Room},
    theme::Mood,
};

/// How many rows are read at once.
const STEP: u16 = 5;

/// What is to be done.
pub(super) enum Act {
    Answer {
        id: RequestId,
        answer: Answer,
        value: Option<Zeroizing<Vec<u8>>>,
        weight: Weight,
    },
    /// Asks a secret's service whether it takes its value.
    Check(SecretPath),
    Edit {
        path: SecretPath,
        before: Box<Metadata>,
        after: Box<Metadata>,
    },
    EndSession(String),
    Leave,
    Lock,
    /// The dialog of a request.
    OpenRequest(RequestId),
    /// The dialog in which a secret gets a value; nothing for one that is to be.
    OpenValue(Option<SecretPath>),
    Remove(SecretPath),
    RevokeGrant(GrantId),
    TakeBack(RequestId),
    /// Another room, or another filter: what it shows is asked for at once.
    Turn,
    Value {
        path: SecretPath,
        occasion: Occasion,
        given: Given,
        value: Zeroizing<Vec<u8>>,
    },
    VerifyChain,
}

impl Act {
    /// What it comes to, as far as the factor is concerned: all that takes anything back comes to nothing.
    pub(super) fn weight(&self) -> Weight {
        match self {
            Self::Answer { weight, .. } => *weight,
            Self::Edit { before, after, .. } => Weight::of_change(before, after),
            Self::Value { occasion, .. } => Weight::of_value(*occasion),
            _ => Weight::Nothing,
        }
    }
}

/// What the broker and the store said last.
#[derive(Default)]
pub(super) struct Seen {
    pub(super) waiting: Vec<Shown>,
    pub(super) standing: Vec<Shown>,
    pub(super) secrets: Option<SecretsView>,
    /// The latest uses of secrets, the last one first.
    pub(super) uses: Vec<LatestUse>,
    pub(super) sessions: Vec<SessionRow>,
    /// What the chosen session did.
    pub(super) deeds: Vec<Entry>,
    pub(super) grants: Vec<ShownGrant>,
    pub(super) log: Option<LogView>,
    pub(super) chain: Option<ChainState>,
    pub(super) egress: Option<EgressView>,
    pub(super) sources: Option<SourcesView>,
}

/// The state of the screen.
#[derive(Default)]
pub(super) struct App {
    pub(super) room: Room,
    pub(super) seen: Seen,
    pub(super) secrets_wanted: SecretsWanted,
    pub(super) log_wanted: LogWanted,
    /// Whether keys go into the room's search.
    pub(super) is_finding: bool,
    pub(super) dialog: Option<Dialog>,
    /// What became of the last act.
    pub(super) notice: (String, Mood),
    /// How far the chosen one was read, in rows.
    pub(super) read: u16,
    /// In each room, by name: the lists change while one looks at them.
    pub(super) picks: [Option<String>; Room::ALL.len()],
}

impl App {
    /// The name of what is chosen in this room.
    pub(super) fn chosen(&self) -> Option<&str> {
        self.picks[self.room as usize].as_deref()
    }

    /// Where the chosen one stands among `keys`.
    pub(super) fn position(&self, keys: &[String]) -> Option<usize> {
        let chosen = self.chosen()?;
        keys.iter().position(|key| key == chosen)
    }

    /// Takes over what is new. The chosen one stays chosen as long as it is there.
    pub(super) fn settle(&mut self) {
        let keys = rooms::keys(self);
        if self.position(&keys).is_none() {
            self.choose(keys.into_iter().next());
        }
        if let Some(dialog) = &mut self.dialog {
            dialog.look(&self.seen.waiting);
        }
    }

    /// Says what became of an act.
    pub(super) fn say(&mut self, words: impl Into<String>, mood: Mood) {
        self.notice = (words.into(), mood);
    }

    /// What a key leads to.
    pub(super) fn press(&mut self, press: Press) -> Option<Act> {
        if press == Press::Quit {
            return Some(Act::Leave);
        }
        if let Some(dialog) = &mut self.dialog {
            return match dialog.press(press)? {
                Outcome::Act(act) => Some(act),
                Outcome::Close => {
                    self.dialog = None;
                    None
                }
            };
        }
        if self.is_finding {
            return self.find(press);
        }
        match press {
            Press::Char('q') => return Some(Act::Leave),
            Press::Char('L') => self.open(Deed::Lock { sessions: self.seen.sessions.len() }),
            Press::Char('/') if rooms::text_of(self).is_some() => self.is_finding = true,
            Press::Char(digit @ '1'..='8') => {
                return Some(self.turn(Room::ALL[digit as usize - '1' as usize]));
            }
            Press::Forward | Press::Right => return Some(self.turn(self.room.next())),
            Press::Back | Press::Left => return Some(self.turn(self.room.before())),
            Press::Down | Press::Char('j') => return self.step(1),
            Press::Up | Press::Char('k') => return self.step(-1),
            Press::PageDown | Press::Char(' ') => self.read = self.read.saturating_add(STEP),
            Press::PageUp => self.read = self.read.saturating_sub(STEP),
            press => return rooms::press(self, press),
        }
        None
    }

    /// Asks whether a deed shall be done.
    pub(super) fn open(&mut self, deed: Deed) {
        self.dialog = Some(Dialog::of_deed(deed));
    }

    fn find(&mut self, press: Press) -> Option<Act> {
        let text = rooms::text_of(self)?;
        match press {
            Press::Char(character) => text.push(character),
            Press::Erase => drop(text.pop()),
            Press::Kill => text.clear(),
            Press::Leave => {
                text.clear();
                self.is_finding = false;
            }
            Press::Enter => self.is_finding = false,
            _ => return None,
        }
        Some(Act::Turn)
    }

    fn turn(&mut self, room: Room) -> Act {
        (self.room, self.read) = (room, 0);
        self.notice = (String::new(), Mood::default());
        self.settle();
        Act::Turn
    }

    /// Chooses the one so many places further.
    fn step(&mut self, by: isize) -> Option<Act> {
        let keys = rooms::keys(self);
        let last = keys.len().checked_sub(1)?;
        let next = self.position(&keys).unwrap_or(0).saturating_add_signed(by).min(last);
        self.choose(keys.into_iter().nth(next));
        // What a session did is asked for one at a time.
        (self.room == Room::Sessions).then_some(Act::Turn)
    }

    /// Chooses the one of that name.
    pub(super) fn choose(&mut self, chosen: Option<String>) {
        let place = &mut self.picks[self.room as usize];
        if chosen != *place {
            self.read = 0;
            *place = chosen;
        }
    }
}
