//! Log messages, for a client that has asked for them: which tool was called and how that ended, at the level that the
//! client wants or above. Never what was sent with a call or came back.

#![expect(
    deprecated,
    reason = "SEP-2577 gives logging up; the revisions that clients speak have it"
)]

use std::sync::atomic::{AtomicU8, Ordering};

use rmcp::{
    Peer, RoleServer,
    model::{CallToolResult, LoggingLevel, LoggingMessageNotificationParam},
    service::RequestContext,
};
use serde_json::json;

/// What one client wants to hear; nothing until it says so.
#[derive(Debug)]
pub(crate) struct Logging(AtomicU8);

/// Above every level.
const NOTHING: u8 = u8::MAX;

impl Default for Logging {
    fn default() -> Self {
        Self(AtomicU8::new(NOTHING))
    }
}

impl Logging {
    /// From now on this level and those above it.
    pub(crate) fn set(&self, level: LoggingLevel) {
        self.0.store(level as u8, Ordering::Relaxed);
    }

    /// The teller of one call of `tool`, which is one of ours.
    pub(crate) fn of_call(&self, tool: &str, context: &RequestContext<RoleServer>) -> Teller {
        // The newest revision has the level in each request.
        let inline = context.meta.log_level().map(|level| level as u8);
        let least = inline.unwrap_or_else(|| self.0.load(Ordering::Relaxed));
        Teller { least, tool: tool.to_owned(), peer: context.peer.clone() }
    }
}

/// Tells of one call.
pub(crate) struct Teller {
    least: u8,
    tool: String,
    peer: Peer<RoleServer>,
}

impl Teller {
    /// Tells that the call begins.
    pub(crate) async fn called(&self) {
        self.tell(LoggingLevel::Debug, "called").await;
    }

    /// Tells how the call ended.
    pub(crate) async fn ended(&self, result: &CallToolResult) {
        match result.is_error {
            Some(true) => self.tell(LoggingLevel::Warning, "refused").await,
            _ => self.tell(LoggingLevel::Info, "answered").await,
        }
    }

    async fn tell(&self, level: LoggingLevel, outcome: &'static str) {
        if (level as u8) < self.least {
            return;
        }
        let data = json!({ "tool": self.tool, "outcome": outcome });
        let message = LoggingMessageNotificationParam::new(level, data).with_logger("keyless");
        // Who has gone misses nothing.
        let _ = self.peer.notify_logging_message(message).await;
    }
}
