//! What an action holds of its permissions: uses that are had, and places among those that are under way.

use std::{
    collections::{HashMap, VecDeque},
    sync::Arc,
    time::{Duration, Instant},
};

use keyless_core::{Code, grant::PermissionRef, nl_message::NlFault};
use keyless_store::Store;
use parking_lot::Mutex;

use crate::nl::rates::spent;

/// The window of `max_per_minute`.
const WINDOW: Duration = Duration::from_mins(1);
/// Beginnings that are remembered of one permission, and so the highest `max_per_minute` there is.
const MAX_REMEMBERED: u32 = 10_000;

/// What an action needs a place of, and how many there are.
#[derive(Clone, Debug)]
pub(super) struct Wanted {
    pub(super) at: PermissionRef,
    /// Under way at the same time.
    pub(super) max_concurrent: Option<u32>,
    /// Begun within a minute.
    pub(super) max_per_minute: Option<u32>,
}

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
    /// The uses that go back; nothing once it has begun.
    had: Mutex<Option<Vec<PermissionRef>>>,
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
        let now = Instant::now();
        self.0.lock().get(at).map_or(0, |slot| slot.recent(now))
    }

    /// What is wrong with a permission of which as many began within a minute as may, with when another one may.
    pub(super) fn spent(&self, fault: NlFault, at: &PermissionRef, most: u32) -> NlFault {
        match self.0.lock().get(at) {
            Some(slot) => slot.spent(fault, most, Instant::now()),
            // All of them are longer ago by now.
            None => fault,
        }
    }

    /// Takes a place of each, or none of any: counted and taken under one lock.
    pub(super) fn enter(self: &Arc<Self>, wanted: Vec<Wanted>) -> Result<Running, NlFault> {
        let mut slots = self.0.lock();
        let now = Instant::now();
        slots.retain(|_, slot| !slot.is_empty(now));
        for one in &wanted {
            let slot = slots.get(&one.at);
            let running = slot.map_or(0, |slot| slot.running);
            if one.max_concurrent.is_some_and(|most| running >= most) {
                return Err(Code::ConcurrencyExceeded.into());
            }
            if let (Some(slot), Some(most)) = (slot, one.max_per_minute)
                && slot.recent(now) >= most.min(MAX_REMEMBERED)
            {
                let fault = NlFault::from(Code::RateLimited);
                return Err(slot.spent(fault.with("grant_id", one.at.grant.as_str()), most, now));
            }
        }
        for one in &wanted {
            slots.entry(one.at.clone()).or_default().begin(now);
        }
        let permissions = wanted.into_iter().map(|one| one.at).collect();
        Ok(Running { slots: Arc::clone(self), permissions })
    }
}

impl Slot {
    /// Whether it says no more than none would.
    fn is_empty(&self, now: Instant) -> bool {
        self.running == 0 && self.recent(now) == 0
    }

    fn recent(&self, now: Instant) -> u32 {
        let over = self.began.partition_point(|began| now.duration_since(*began) >= WINDOW);
        u32::try_from(self.began.len() - over).unwrap_or(u32::MAX)
    }

    fn spent(&self, fault: NlFault, most: u32, now: Instant) -> NlFault {
        // One more may begin once fewer than `most` are left.
        let leaves =
            self.began.iter().rev().nth(most.min(MAX_REMEMBERED).saturating_sub(1) as usize);
        let since = leaves.map_or(WINDOW, |began| now.duration_since(*began));
        let reset = WINDOW.saturating_sub(since).as_secs() + 1;
        spent(fault, (most, WINDOW), reset, "per_grant")
    }

    fn begin(&mut self, now: Instant) {
        self.running += 1;
        let is_over = |began: &Instant| now.duration_since(*began) >= WINDOW;
        while self.began.len() >= MAX_REMEMBERED as usize || self.began.front().is_some_and(is_over)
        {
            self.began.pop_front();
        }
        self.began.push_back(now);
    }
}

impl Reservation {
    pub(super) fn new(store: Store, had: Vec<PermissionRef>, running: Running) -> Self {
        Self { store, had: Mutex::new(Some(had)), running: Some(running) }
    }

    /// The action begins: its uses are had, however it ends.
    pub fn started(mut self) -> Running {
        self.begin();
        self.running.take().expect("it is taken here alone")
    }

    /// What it was made for begins, while this is kept: the uses are had.
    pub fn begin(&self) {
        *self.had.lock() = None;
    }

    /// Whether what it was made for has begun.
    pub fn has_begun(&self) -> bool {
        self.had.lock().is_none()
    }

    /// Whether this permission is among those that it is of.
    pub(super) fn is_of(&self, at: &PermissionRef) -> bool {
        self.running.as_ref().is_some_and(|running| running.permissions.contains(at))
    }

    /// Gives the uses back if it has not begun, so that they are there when this returns.
    pub async fn give_back(self) {
        let had = self.had.lock().as_mut().map(std::mem::take).unwrap_or_default();
        if !had.is_empty() {
            // What fails here leaves a use had that was not: on the side of less.
            let _ = self.store.give_uses_back(&had).await;
        }
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        let had = self.had.get_mut().take().unwrap_or_default();
        if had.is_empty() {
            return;
        }
        let store = self.store.clone();
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

#[cfg(test)]
mod tests {
    use keyless_core::grant::GrantId;

    use super::*;

    /// A broker that lives for months would have one of each permission that ever was.
    #[test]
    fn a_permission_that_nobody_uses_any_more_is_forgotten() {
        let slots = Arc::new(Slots::default());
        let wanted = |grant: &str| {
            let at = PermissionRef { grant: GrantId::parse(grant).unwrap(), index: 0 };
            vec![Wanted { at, max_concurrent: None, max_per_minute: Some(1) }]
        };
        let known = || slots.0.lock().len();
        let running = slots.enter(wanted("g1")).unwrap();
        drop(slots.enter(wanted("g2")).unwrap());
        assert!(slots.enter(wanted("g2")).is_err(), "it began within the minute");
        let long_ago = Instant::now().checked_sub(WINDOW).unwrap();
        for slot in slots.0.lock().values_mut() {
            slot.began = VecDeque::from([long_ago]);
        }
        let _other = slots.enter(wanted("g3")).unwrap();
        assert_eq!(known(), 2, "the one that runs, and the new one");
        drop(running);
    }
}
