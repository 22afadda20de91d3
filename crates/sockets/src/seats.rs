//! The connections to the page, to the operator's socket, to the NL Protocol's doors and to agents' tools over HTTP: as
//! many as there is room for, and one that only sits there gives way.
//!
//! Any process of this machine may connect. Whoever opens all that there are, and says nothing on them, says it slowly
//! or does not read what it is answered, would else keep out the operator or every agent. So would a process that
//! connects faster than others say who they are: where processes are told apart, the one with the most seats gives
//! way first.

use std::{
    collections::{HashMap, VecDeque},
    sync::{
        Arc,
        atomic::{AtomicU8, AtomicUsize, Ordering},
    },
    time::Duration,
};

use parking_lot::Mutex;
use tokio::sync::Notify;

/// How soon it is looked again whether there is room.
const AGAIN: Duration = Duration::from_millis(50);

/// A door's connections, oldest first.
pub struct Seats {
    most: usize,
    taken: Mutex<VecDeque<Arc<Seat>>>,
}

/// The process at the other end, by its number; `None` where the system does not tell it, as over TCP.
pub type Process = i32;

/// One connection.
#[derive(Default)]
pub struct Seat {
    process: Option<Process>,
    standing: AtomicU8,
    /// Messages that are judged and done just now.
    under_way: AtomicUsize,
    wanted: Notify,
    left: Notify,
}

/// What a connection has shown of itself; the greater one stays.
#[derive(Clone, Copy)]
enum Standing {
    /// Nothing yet.
    Nobody,
    /// A credential, which others may have too.
    Known,
    /// The operator's factor.
    Operator,
}

/// A message that is under way until this is dropped.
pub struct UnderWay(Arc<Seat>);

/// A seat that is taken; left when this is dropped.
pub struct Taken {
    seats: Arc<Seats>,
    seat: Arc<Seat>,
}

impl Seats {
    /// As many seats as `most`.
    pub fn of(most: usize) -> Arc<Self> {
        Arc::new(Self { most, taken: Mutex::default() })
    }

    /// A seat for a new connection of this process, for which one that has nothing under way leaves where it has to: of
    /// those that are nobody, then of those that are known, the oldest of the process that has the most of them. None
    /// while all are the operator's, or at work.
    pub fn take(self: &Arc<Self>, process: Option<Process>) -> Option<Taken> {
        let mut seats = self.taken.lock();
        if seats.len() >= self.most {
            let oldest =
                idle(&seats, Standing::Nobody).or_else(|| idle(&seats, Standing::Known))?;
            if let Some(seat) = seats.remove(oldest) {
                seat.wanted.notify_one();
            }
        }
        let seat = Arc::new(Seat { process, ..Seat::default() });
        seats.push_back(Arc::clone(&seat));
        Some(Taken { seats: Arc::clone(self), seat })
    }

    /// A seat as soon as there is one: the first that is done at work makes room.
    pub async fn wait(self: &Arc<Self>, process: Option<Process>) -> Taken {
        loop {
            match self.take(process) {
                Some(taken) => return taken,
                None => tokio::time::sleep(AGAIN).await,
            }
        }
    }
}

/// Where the connection is that gives way first among those of this standing.
fn idle(seats: &VecDeque<Arc<Seat>>, standing: Standing) -> Option<usize> {
    let here = || seats.iter().enumerate().filter(|(_, seat)| seat.only_sits_there(standing));
    let mut count: HashMap<_, usize> = HashMap::new();
    for (_, seat) in here() {
        *count.entry(seat.process).or_default() += 1;
    }
    let most = count.values().max()?;
    here().find(|(_, seat)| count.get(&seat.process) == Some(most)).map(|(at, _)| at)
}

impl Taken {
    /// The seat, for the requests that come on this connection.
    pub fn seat(&self) -> Arc<Seat> {
        Arc::clone(&self.seat)
    }

    /// Waits until another connection needs the seat.
    pub async fn wanted(&self) {
        self.seat.wanted.notified().await;
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        self.seats.taken.lock().retain(|seat| !Arc::ptr_eq(seat, &self.seat));
        self.seat.left.notify_one();
    }
}

impl Seat {
    /// Notes that a whole message or form has come, which is judged until what this gives is dropped.
    pub fn begin(self: &Arc<Self>) -> UnderWay {
        self.under_way.fetch_add(1, Ordering::Relaxed);
        UnderWay(Arc::clone(self))
    }

    /// Notes that a credential was shown.
    pub fn note_known(&self) {
        self.standing.fetch_max(Standing::Known as u8, Ordering::Relaxed);
    }

    /// Notes that the operator is at this connection.
    pub fn note_operator(&self) {
        self.standing.fetch_max(Standing::Operator as u8, Ordering::Relaxed);
    }

    /// Waits until the connection is over, for one task that goes on beside it.
    pub async fn left(&self) {
        self.left.notified().await;
    }

    fn only_sits_there(&self, standing: Standing) -> bool {
        self.standing.load(Ordering::Relaxed) == standing as u8
            && self.under_way.load(Ordering::Relaxed) == 0
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        self.0.under_way.fetch_sub(1, Ordering::Relaxed);
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
        let mut taken: Vec<_> = (0..MOST).map(|_| seats.take(None).unwrap()).collect();
        taken[0].seat().note_operator();
        let judged = taken[1].seat().begin();
        let new = seats.take(None).unwrap();
        let left = |taken: &Taken| taken.wanted().now_or_never().is_some();
        assert!(!left(&taken[0]) && !left(&taken[1]) && left(&taken[2]) && !left(&taken[3]));
        // Its answer is there: it sits there like the others, and the operator's stays what it is.
        drop(judged);
        let newer = seats.take(None).unwrap();
        assert!(!left(&taken[0]) && left(&taken[1]) && !left(&new));
        drop((taken.split_off(1), new, newer));
        assert_eq!(seats.taken.lock().len(), 1);
    }

    #[test]
    fn who_is_known_gives_way_after_those_who_are_nobody_and_never_at_work() {
        let seats = Seats::of(MOST);
        let taken: Vec<_> = (0..MOST).map(|_| seats.take(None).unwrap()).collect();
        taken[..MOST - 1].iter().for_each(|taken| taken.seat().note_known());
        let (first, second) = (taken[0].seat().begin(), taken[0].seat().begin());
        let left = |at: usize| taken[at].wanted().now_or_never().is_some();
        let nobody = seats.take(None).unwrap();
        assert!(left(MOST - 1), "the youngest, who showed nothing");
        nobody.seat().note_known();
        drop(first);
        let _one = seats.take(None).unwrap();
        assert!(!left(0) && left(1), "the oldest has a message under way still");
        drop(second);
        let _work = taken[2].seat().begin();
        nobody.seat().note_operator();
        assert!(!left(0));
        drop(taken);
        assert!(nobody.seat().left().now_or_never().is_none());
        let seat = nobody.seat();
        drop(nobody);
        assert!(seat.left().now_or_never().is_some());
    }

    #[test]
    fn the_process_with_the_most_gives_way_first() {
        let seats = Seats::of(MOST);
        let operator = seats.take(Some(1)).unwrap();
        let other = seats.take(Some(2)).unwrap();
        let mut many: VecDeque<_> = (2..MOST).map(|_| seats.take(Some(3)).unwrap()).collect();
        let left = |taken: &Taken| taken.wanted().now_or_never().is_some();
        for _ in 0..3 * MOST {
            many.push_back(seats.take(Some(3)).unwrap());
            assert!(left(&many.pop_front().unwrap()), "its own oldest");
        }
        assert!(!left(&operator) && !left(&other));
        // As many processes, with one each: the oldest again.
        drop(many);
        let _many: Vec<_> = (2..MOST).map(|one| seats.take(i32::try_from(one + 8).ok())).collect();
        let _one = seats.take(Some(4)).unwrap();
        assert!(left(&operator) && !left(&other));
    }

    #[test]
    fn the_operators_connections_are_bounded_too() {
        let seats = Seats::of(MOST);
        let taken: Vec<_> = (0..MOST).map(|_| seats.take(None).unwrap()).collect();
        for taken in &taken {
            taken.seat().note_operator();
        }
        assert!(seats.take(None).is_none());
    }
}
