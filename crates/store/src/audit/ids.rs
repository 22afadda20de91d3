//! Entry ids: UUIDs of version 7 whose random part is drawn once and then counted up (RFC 9562,
//! section 6.2, method 2). Drawing each by itself would cost a system call per request.

use std::sync::{
    Arc, OnceLock,
    atomic::{AtomicU64, Ordering},
};

use jiff::Timestamp;
use keyless_core::audit::{Annotations, Draft, Outline};
use parking_lot::RwLock;
use uuid::{Builder, Uuid};

use crate::store::Store;

/// The ids of one log's entries. Every draft comes by here, and gets what the operator wants noted with it.
pub(super) struct Ids {
    base: [u8; 2],
    next: AtomicU64,
    annotations: Arc<RwLock<Annotations>>,
    /// The run of a broker that does the actions.
    broker: OnceLock<String>,
}

impl Ids {
    /// Begins at a random place.
    pub(super) fn of(store: &Store) -> Self {
        Self::new(Arc::clone(&store.annotations))
    }

    fn new(annotations: Arc<RwLock<Annotations>>) -> Self {
        let random = Uuid::new_v4().into_bytes();
        let (base, start) = ([random[0], random[1]], [random[2], random[3], random[4], random[5]]);
        // The upper half is random and the lower counts, so that it takes 2^32 entries to carry.
        let next = u64::from(u32::from_be_bytes(start)) << 32;
        Self { base, next: AtomicU64::new(next), annotations, broker: OnceLock::new() }
    }

    /// Says which run of a broker does the actions that entries are about from now on.
    pub(super) fn of_broker(&self, name: &str) {
        let _ = self.broker.set(name.to_owned());
    }

    /// Writes a draft down, with an id of its own and what is noted.
    pub(super) fn outline(&self, mut draft: Draft) -> Outline {
        draft.metadata = self.annotations.read().of(&draft);
        if draft.detail.action_id.is_some() && draft.detail.broker.is_none() {
            draft.detail.broker = self.broker.get().cloned();
        }
        let mut text = [0; 36];
        let id = self.next(draft.at, &mut text);
        Outline::new(draft, id)
    }

    /// A fresh id for an entry of this time, as text in `text`.
    fn next<'a>(&self, at: Timestamp, text: &'a mut [u8; 36]) -> &'a str {
        let count = self.next.fetch_add(1, Ordering::Relaxed).to_be_bytes();
        let mut random = [0; 10];
        random[..2].copy_from_slice(&self.base);
        random[2..].copy_from_slice(&count);
        // Before 1970 there were no entries.
        let millis = u64::try_from(at.as_millisecond()).unwrap_or(0);
        let id = Builder::from_unix_timestamp_millis(millis, &random).into_uuid();
        id.hyphenated().encode_lower(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_differ_and_sort() {
        let ids = Ids::new(Arc::default());
        let texts = [(); 300].map(|()| ids.next(Timestamp::UNIX_EPOCH, &mut [0; 36]).to_owned());
        assert!(texts.is_sorted_by(|a, b| a < b));
        assert_eq!(Uuid::parse_str(&texts[0]).unwrap().get_version_num(), 7);
    }
}
