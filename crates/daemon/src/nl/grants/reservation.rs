//! What an action holds of its permissions: uses that are had, and places among those that are under way.

use std::{
    collections::{HashMap, VecDeque},
    sync::Arc,
    time::{Duration, Instant},
};

use keyless_core::{Code, Error, grant::PermissionRef};
use keyless_store::Store;
use parking_lot::Mutex;

/// The window of `max_per_minute`.
const WINDOW: Duration = Duration::from_mins(1);
/// Beginnings that are remembered of one permission; beyond any limit that a person would set.
const MAX_REMEMBERED: usize = 10_000;

/// What is under way, and what began a short while ago.
#[derive(Default)]
pub(super) struct Slots(Mutex<HashMap<PermissionRef, Slot>>);

#[derive(Default)]
struct Slot {
    running: u32,
    began: VecDeque<Instant>,
}

/// An action that may begin. Dropped before it has, its uses are given back.
pub struct Reservation {
    store: Store,
    had: Vec<PermissionRef>,
    running: Option<Running>,
}

/// An action that is under way, until this is dropped.
pub struct Running {
    slots: Arc<Slots>,
    permissions: Vec<PermissionRef>,
}

impl Slots {
    pub(super) fn running(&self, at: &PermissionRef) -> u32 {
        self.0.lock().get(at).map_or(0, |slot| slot.running)
    }

    pub(super) fn recent(&self, at: &PermissionRef) -> u32 {
        let slots = self.0.lock();
        let began = slots.get(at).map(|slot| &slot.began);
        let recent = began.into_iter().flatten().filter(|at| at.elapsed() < WINDOW).count();
        u32::try_from(recent).unwrap_or(u32::MAX)
    }

    /// Takes a place of each, or none of any.
    pub(super) fn enter(
        self: &Arc<Self>,
        places: Vec<(PermissionRef, Option<u32>)>,
    ) -> Result<Running, Error> {
        let mut slots = self.0.lock();
        let is_full = |(at, most): &(PermissionRef, Option<u32>)| {
            let running = slots.get(at).map_or(0, |slot| slot.running);
            most.is_some_and(|most| running >= most)
        };
        if places.iter().any(is_full) {
            return Err(Code::ConcurrencyExceeded.into());
        }
        let now = Instant::now();
        for (at, _) in &places {
            let slot = slots.entry(at.clone()).or_default();
            slot.running += 1;
            while slot.began.len() >= MAX_REMEMBERED
                || slot.began.front().is_some_and(|began| now.duration_since(*began) >= WINDOW)
            {
                slot.began.pop_front();
            }
            slot.began.push_back(now);
        }
        let permissions = places.into_iter().map(|(at, _)| at).collect();
        Ok(Running { slots: Arc::clone(self), permissions })
    }
}

impl Reservation {
    pub(super) fn new(store: Store, had: Vec<PermissionRef>, running: Running) -> Self {
        Self { store, had, running: Some(running) }
    }

    /// The action begins: its uses are had, however it ends.
    pub fn started(mut self) -> Running {
        self.had.clear();
        self.running.take().expect("it is taken here alone")
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        if self.had.is_empty() {
            return;
        }
        let (store, had) = (self.store.clone(), std::mem::take(&mut self.had));
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            // What fails here leaves a use had that was not: on the side of less.
            runtime.spawn(async move { store.give_uses_back(&had).await });
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let mut slots = self.slots.0.lock();
        for at in &self.permissions {
            if let Some(slot) = slots.get_mut(at) {
                slot.running = slot.running.saturating_sub(1);
            }
        }
    }
}
