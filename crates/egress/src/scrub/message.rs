//! The scrub of a WebSocket's or a database's messages on their way to the client.

use std::sync::Arc;

use super::{
    body::Scrubbing,
    values::{Lengths, Slot},
};
use crate::swap::SwapTable;

/// What the messages of one connection are scrubbed of: whatever the session has sent out by then.
pub(crate) struct MessageScrub(Arc<Slot>);

impl MessageScrub {
    pub(crate) fn new(table: &SwapTable) -> Self {
        Self(table.released().slot())
    }

    /// The scrub of a message, of what is sent out while it comes as well. Binary formats carry
    /// lengths inside, so there a placeholder is as long as the value.
    pub(crate) fn begin(&self, is_text: bool) -> Scrubbing {
        let lengths = if is_text { Lengths::Free } else { Lengths::Kept };
        Scrubbing::new(Arc::clone(&self.0), None, lengths)
    }

    /// Scrubs the payload of a Close, Ping or Pong, which has no room to grow.
    pub(crate) fn control(&self, payload: &mut [u8]) {
        let known = self.0.known();
        if let std::borrow::Cow::Owned(scrubbed) = known.rewriter(Lengths::Kept).rewrite(payload) {
            payload.copy_from_slice(&scrubbed);
        }
    }
}
