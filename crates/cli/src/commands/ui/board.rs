//! What the screen shows: two lists, the one that is chosen, and a line about what was done last.

use keyless_core::approval::RequestId;
use keyless_daemon::Shown;

/// How many lines are read at once.
const STEP: u16 = 5;
/// A window of so many columns is narrow.
const NARROW: usize = 40;

/// Which list.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Room {
    /// What holds: approvals and denials.
    Holding,
    /// What waits for an answer.
    #[default]
    Waiting,
}

/// The state of the screen.
#[derive(Debug, Default)]
pub(super) struct Board {
    pub(super) room: Room,
    pub(super) waiting: Vec<Shown>,
    pub(super) holding: Vec<Shown>,
    /// What became of the last one.
    pub(super) notice: String,
    /// How far the chosen one was read, in lines.
    pub(super) read: u16,
    /// By name: the lists change while one looks at them.
    chosen: Option<RequestId>,
}

impl Board {
    /// Takes over what the broker says. The chosen request stays chosen as long as it is there.
    pub(super) fn take(&mut self, waiting: Vec<Shown>, holding: Vec<Shown>) {
        (self.waiting, self.holding) = (waiting, holding);
        if self.position().is_none() {
            self.choose(self.rows().first().map(|row| row.id.clone()));
        }
    }

    /// The list that is shown.
    pub(super) fn rows(&self) -> &[Shown] {
        match self.room {
            Room::Holding => &self.holding,
            Room::Waiting => &self.waiting,
        }
    }

    /// Where the chosen one stands.
    pub(super) fn position(&self) -> Option<usize> {
        let chosen = self.chosen.as_ref()?;
        self.rows().iter().position(|row| row.id == *chosen)
    }

    /// The chosen one.
    pub(super) fn chosen(&self) -> Option<&Shown> {
        self.rows().get(self.position()?)
    }

    /// Chooses the one so many places further.
    pub(super) fn step(&mut self, by: isize) {
        let Some(last) = self.rows().len().checked_sub(1) else { return };
        let next = self.position().unwrap_or(0).saturating_add_signed(by).min(last);
        self.choose(Some(self.rows()[next].id.clone()));
    }

    /// Shows the other list.
    pub(super) fn change_room(&mut self) {
        self.room = match self.room {
            Room::Holding => Room::Waiting,
            Room::Waiting => Room::Holding,
        };
        self.choose(self.rows().first().map(|row| row.id.clone()));
    }

    /// Shows more of what is asked, up to its end.
    pub(super) fn read_on(&mut self, describe: impl Fn(&Shown) -> String) {
        let text = self.chosen().map(describe).unwrap_or_default();
        // No window is so narrow that a line takes more.
        let rows: usize = text.lines().map(|line| 1 + line.chars().count() / NARROW).sum();
        let most = u16::try_from(rows).unwrap_or(u16::MAX).saturating_sub(STEP);
        self.read = self.read.saturating_add(STEP).min(most);
    }

    /// Shows what was before.
    pub(super) fn read_back(&mut self) {
        self.read = self.read.saturating_sub(STEP);
    }

    fn choose(&mut self, chosen: Option<RequestId>) {
        if chosen != self.chosen {
            self.read = 0;
        }
        self.chosen = chosen;
    }
}

#[cfg(test)]
mod tests {
    use keyless_core::{
        SecretPath,
        approval::{Asked, Status},
    };

    use super::*;

    fn shown(number: u8) -> Shown {
        Shown {
            id: RequestId::from_random([number; 6]),
            path: Some(SecretPath::parse("team/api/key").unwrap()),
            asked: Asked::Provision,
            session: "m-1".to_owned(),
            status: Status::Pending,
            age_seconds: 0,
            seconds_left: 300,
            known: None,
            others: Vec::new(),
        }
    }

    #[test]
    fn the_chosen_request_stays_chosen_while_others_come_and_go() {
        let mut board = Board::default();
        assert!(board.chosen().is_none());
        board.take(vec![shown(1), shown(2)], vec![shown(9)]);
        board.step(1);
        board.take(vec![shown(0), shown(1), shown(2), shown(3)], vec![]);
        assert_eq!(board.chosen().unwrap().id, shown(2).id);
        board.step(9);
        assert_eq!(board.position(), Some(3));
        board.take(vec![shown(1)], vec![]);
        assert_eq!(board.chosen().unwrap().id, shown(1).id);
        for _ in 0..9 {
            board.read_on(|_| "line\n".repeat(12));
        }
        assert_eq!(board.read, 7);
        board.read_back();
        assert_eq!(board.read, 2);
        board.change_room();
        assert_eq!(board.read, 0);
        board.step(-1);
        assert!(board.chosen().is_none());
    }
}
