//! Where a session's values come from: the vault, or the files that a fleet mounts.

use futures_util::future::BoxFuture;
use keyless_core::{Error, SecretPath, SecretValue};

/// A source of values, whichever it is. Only [`SessionBroker`](crate::session_broker) asks it, and
/// only under a verdict that is on record.
pub(crate) trait Values: Send + Sync + 'static {
    /// Fetches the value as it is now.
    fn open<'a>(&'a self, path: &'a SecretPath) -> BoxFuture<'a, Result<SecretValue, Error>>;
}
