//! How many of something are open, and how many may be; the bound changes with a reload.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

/// How many may be open at the same time.
pub(crate) struct Room {
    open: AtomicUsize,
    most: AtomicUsize,
}

/// The place of one, free again when it is dropped.
pub(crate) struct Place(Arc<Room>);

impl Room {
    /// Room for `most`.
    pub(crate) fn of(most: usize) -> Arc<Self> {
        Arc::new(Self { open: AtomicUsize::new(0), most: AtomicUsize::new(most) })
    }

    /// A place, unless all are taken.
    pub(crate) fn enter(self: &Arc<Self>) -> Option<Place> {
        let most = self.most.load(Ordering::Relaxed);
        let more = |open: usize| (open < most).then_some(open + 1);
        let entered = self.open.fetch_update(Ordering::AcqRel, Ordering::Relaxed, more);
        entered.ok().map(|_| Place(Arc::clone(self)))
    }

    /// From here on, `most` may be open. Those that are, stay.
    pub(crate) fn resize(&self, most: usize) {
        self.most.store(most, Ordering::Relaxed);
    }

    /// How many are open.
    pub(crate) fn open(&self) -> usize {
        self.open.load(Ordering::Acquire)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.0.open.fetch_sub(1, Ordering::AcqRel);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_smaller_room_empties_first() {
        let room = Room::of(2);
        let (first, second) = (room.enter().unwrap(), room.enter().unwrap());
        assert!(room.enter().is_none());
        room.resize(1);
        drop(first);
        assert!(room.enter().is_none());
        drop(second);
        let _place = room.enter().unwrap();
        assert!(room.enter().is_none());
        room.resize(3);
        assert!(room.enter().is_some());
        assert_eq!(room.open(), 1);
    }
}
