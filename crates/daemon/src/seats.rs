//! Who is connected to the page, and to the NL Protocol's door: as many as there is room for, and who only sits there
//! gives way.
//!
//! Any process of this machine may connect. Whoever opens all that there are, and says nothing on them, says it slowly
//! or does not read what it is answered, would else keep out the operator or every agent.

use std::{
    collections::VecDeque,
    sync::{
        Arc,
        atomic::{AtomicU8, Ordering},
    },
};

use parking_lot::Mutex;
use tokio::sync::Notify;

/// A door's connections, oldest first.
pub(crate) struct Seats {
    most: usize,
    taken: Mutex<VecDeque<Arc<Seat>>>,
}

/// One connection.
#[derive(Default)]
pub(crate) struct Seat {
    claim: AtomicU8,
    wanted: Notify,
}

/// What a connection has shown of itself; the greater one stays.
#[derive(Clone, Copy)]
enum Claim {
    /// Nothing, or nothing yet.
    None,
    /// A whole form of some visit, or a whole message, which is judged and done just now.
    Judged,
    /// A proven visit.
    Operators,
}

/// A seat that is taken; left when this is dropped.
pub(crate) struct Taken {
    seats: Arc<Seats>,
    seat: Arc<Seat>,
}

impl Seats {
    /// As many seats as `most`.
    pub(crate) fn of(most: usize) -> Arc<Self> {
        Arc::new(Self { most, taken: Mutex::default() })
    }

    /// A seat for a new connection, for which the oldest of those that showed nothing leaves where it has to. None while
    /// all are the operator's, or judged.
    pub(crate) fn take(self: &Arc<Self>) -> Option<Taken> {
        let mut seats = self.taken.lock();
        if seats.len() >= self.most {
            let idle = seats.iter().position(|seat| seat.claims(Claim::None))?;
            if let Some(seat) = seats.remove(idle) {
                seat.wanted.notify_one();
            }
        }
        let seat = Arc::<Seat>::default();
        seats.push_back(Arc::clone(&seat));
        Some(Taken { seats: Arc::clone(self), seat })
    }
}

impl Taken {
    /// For the requests that come here.
    pub(crate) fn seat(&self) -> Arc<Seat> {
        Arc::clone(&self.seat)
    }

    /// Waits until another connection needs it.
    pub(crate) async fn wanted(&self) {
        self.seat.wanted.notified().await;
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        self.seats.taken.lock().retain(|seat| !Arc::ptr_eq(seat, &self.seat));
    }
}

impl Seat {
    /// A whole form or message has come, and is judged until its answer is there.
    pub(crate) fn is_judged(&self) {
        self.claim.fetch_max(Claim::Judged as u8, Ordering::Relaxed);
    }

    /// The operator is here.
    pub(crate) fn is_operators(&self) {
        self.claim.fetch_max(Claim::Operators as u8, Ordering::Relaxed);
    }

    /// An answer is there.
    pub(crate) fn is_answered(&self) {
        let (judged, none) = (Claim::Judged as u8, Claim::None as u8);
        // Nothing to do where it was not judged.
        let _ = self.claim.compare_exchange(judged, none, Ordering::Relaxed, Ordering::Relaxed);
    }

    fn claims(&self, claim: Claim) -> bool {
        self.claim.load(Ordering::Relaxed) == claim as u8
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;

    use super::*;

    const MOST: usize = 8;

    #[test]
    fn who_only_sits_there_gives_way_oldest_first() {
        let seats = Seats::of(MOST);
        let mut taken: Vec<_> = (0..MOST).map(|_| seats.take().unwrap()).collect();
        taken[0].seat().is_operators();
        taken[1].seat().is_judged();
        let new = seats.take().unwrap();
        let left = |taken: &Taken| taken.wanted().now_or_never().is_some();
        assert!(!left(&taken[0]) && !left(&taken[1]) && left(&taken[2]) && !left(&taken[3]));
        // Its answer is there: it sits there like the others, and the operator's stays what it is.
        taken[0].seat().is_answered();
        taken[1].seat().is_answered();
        let newer = seats.take().unwrap();
        assert!(!left(&taken[0]) && left(&taken[1]) && !left(&new));
        drop((taken.split_off(1), new, newer));
        assert_eq!(seats.taken.lock().len(), 1);
    }

    #[test]
    fn the_operators_connections_are_bounded_too() {
        let seats = Seats::of(MOST);
        let taken: Vec<_> = (0..MOST).map(|_| seats.take().unwrap()).collect();
        for taken in &taken {
            taken.seat().is_operators();
        }
        assert!(seats.take().is_none());
    }
}
