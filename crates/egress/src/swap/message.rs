//! The swap in a WebSocket's text messages, for secrets that ask for it.
//!
//! Each message is judged by itself, as a request is. Where no secret asks for it, messages are not
//! looked at: a placeholder in one arrives as it is, useless.

use std::sync::Arc;

use keyless_core::{Location, RequestFacts, Scheme};

use super::{Route, body::Swapping, escape::Escape, ledger::Ledger, table::SwapTable};
use crate::ports::RequestInfo;

/// What the messages of one WebSocket are swapped by.
pub(crate) struct MessageSwap {
    table: Arc<SwapTable>,
    scheme: Scheme,
    handshake: RequestInfo,
    wanted: bool,
}

impl MessageSwap {
    /// For the WebSocket that a request for `path` opened.
    pub(crate) fn new(table: &Arc<SwapTable>, route: &Route<'_>, path: &str) -> Self {
        let handshake = RequestInfo {
            correlation_id: route.correlation_id.to_owned(),
            authority: route.authority.clone(),
            method: "GET".to_owned(),
            path: path.to_owned(),
            locations: Vec::new(),
            rules: Vec::new(),
        };
        let wanted = table.swaps(Location::Websocket, route);
        Self { table: Arc::clone(table), scheme: route.scheme, handshake, wanted }
    }

    /// The swap of a message that begins so; none where it passes as it is.
    pub(crate) fn begin(&self, is_text: bool, beginning: &[u8]) -> Option<Swapping> {
        if !self.wanted || !is_text {
            return None;
        }
        let info = self.handshake.clone();
        // Rules about requests look at the handshake; what a message calls they can't see.
        let facts = RequestFacts {
            methods: vec![info.method.clone()],
            path: info.path.clone(),
            ..RequestFacts::default()
        };
        let ledger = Ledger::new(&self.table, self.scheme, info, facts);
        Some(Swapping::of_message(ledger, escape_of(beginning)))
    }
}

/// Most protocols over WebSockets are JSON, and say so by their first character alone.
fn escape_of(beginning: &[u8]) -> Escape {
    match beginning.trim_ascii_start().first() {
        Some(b'{' | b'[' | b'"') => Escape::Json,
        _ => Escape::Raw,
    }
}
