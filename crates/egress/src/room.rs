//! How many of something are open (connections, requests, bytes that are held), and how many may be; the bound changes with
//! a reload.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

/// How many may be open at the same time.
pub(crate) struct Room {
    open: AtomicUsize,
    most: AtomicUsize,
}

/// The place of one or of many, free again when it is dropped.
pub(crate) struct Place {
    room: Arc<Room>,
    count: usize,
}

impl Room {
    /// Room for `most`.
    pub(crate) fn of(most: usize) -> Arc<Self> {
        Arc::new(Self { open: AtomicUsize::new(0), most: AtomicUsize::new(most) })
    }

    /// A place, unless all are taken.
    pub(crate) fn enter(self: &Arc<Self>) -> Option<Place> {
        let mut place = self.reserve();
        place.grow(1).then_some(place)
    }

    /// A place of none yet.
    pub(crate) fn reserve(self: &Arc<Self>) -> Place {
        Place { room: Arc::clone(self), count: 0 }
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

impl Place {
    /// Takes so many more, or none if there is no room for all of them.
    pub(crate) fn grow(&mut self, count: usize) -> bool {
        self.grow_within(count, self.room.most.load(Ordering::Relaxed))
    }

    /// The same, as long as half of the room stays free.
    pub(crate) fn grow_by_half(&mut self, count: usize) -> bool {
        self.grow_within(count, self.room.most.load(Ordering::Relaxed) / 2)
    }

    fn grow_within(&mut self, count: usize, most: usize) -> bool {
        let more = |open: usize| open.checked_add(count).filter(|open| *open <= most);
        let grown = self.room.open.fetch_update(Ordering::AcqRel, Ordering::Relaxed, more).is_ok();
        if grown {
            self.count += count;
        }
        grown
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.room.open.fetch_sub(self.count, Ordering::AcqRel);
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

    #[test]
    fn a_place_grows_as_far_as_there_is_room_for_all_of_it() {
        let room = Room::of(5);
        let (mut one, mut other) = (room.reserve(), room.reserve());
        assert!(one.grow(3) && !other.grow(3) && other.grow(2) && !one.grow(1));
        drop(one);
        assert_eq!(room.open(), 2);
        assert!(other.grow(3));
        drop(other);
        let mut spare = room.reserve();
        assert!(!spare.grow_by_half(3) && spare.grow_by_half(2) && !spare.grow_by_half(1));
    }
}
