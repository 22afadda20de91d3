//! The scrub of a WebSocket's or a database's messages on their way to the client.

use std::{borrow::Cow, sync::Arc};

use super::{Taken, body::Scrubbing, clean, taken::Watch, values::Lengths};
use crate::swap::SwapTable;

/// What the messages of one connection are scrubbed of: whatever the session has sent out by then.
pub(crate) struct MessageScrub(Watch);

impl MessageScrub {
    /// Tells `taken` of what it takes out.
    pub(crate) fn new(table: &SwapTable, taken: Arc<Taken>) -> Self {
        Self(Watch { slot: table.released().slot(), taken })
    }

    /// The scrub of a message, of what is sent out while it comes as well. Binary formats carry
    /// lengths inside, so there a placeholder is as long as the value.
    pub(crate) fn begin(&self, is_text: bool) -> Scrubbing {
        let lengths = if is_text { Lengths::Free } else { Lengths::Kept };
        Scrubbing::new(self.0.clone(), None, lengths)
    }

    /// Scrubs the payload of a Close, Ping or Pong, which has no room to grow.
    pub(crate) fn control(&self, payload: &mut [u8]) {
        match clean(&self.0, payload, Lengths::Kept) {
            Ok(Cow::Borrowed(_)) => {}
            Ok(Cow::Owned(scrubbed)) => payload.copy_from_slice(&scrubbed),
            Err(_) => payload.fill(b'*'),
        }
    }
}
