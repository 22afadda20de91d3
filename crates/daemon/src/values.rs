//! Where a session's values come from: the vault, or the files that a fleet mounts.

use std::time::Instant;

use futures_util::future::BoxFuture;
use keyless_core::{ApproveOnUse, Error, SecretPath, SecretValue};
use zeroize::Zeroizing;

/// A source of values, whichever it is. Only [`SessionBroker`](crate::session_broker) asks it, and
/// only under a verdict that is on record.
pub(crate) trait Values: Send + Sync + 'static {
    /// Fetches the value as it is now.
    fn open<'a>(&'a self, path: &'a SecretPath) -> BoxFuture<'a, Result<SecretValue, Error>>;

    /// When a person is asked before it is used, as its owner says now. Mounted values have no owner
    /// who could be asked.
    fn policy<'a>(&'a self, path: &'a SecretPath) -> BoxFuture<'a, Result<ApproveOnUse, Error>> {
        let _ = path;
        Box::pin(async { Ok(ApproveOnUse::Never) })
    }

    /// Changes whenever values have to be opened anew, whatever was released before: the store was locked, or mounted
    /// values were taken up.
    fn closings(&self) -> u64 {
        0
    }

    /// Puts a value in the place of the one that is stored, `last`: a refresh token that came with an access token.
    /// A source that can't be written keeps what it has, and so does one that has another by now.
    fn keep<'a>(
        &'a self,
        _path: &'a SecretPath,
        _last: &'a SecretValue,
        _value: Zeroizing<Vec<u8>>,
    ) -> BoxFuture<'a, Result<(), Error>> {
        Box::pin(async { Ok(()) })
    }

    /// Resolves once nothing is being fetched whose loss would cost more than another try.
    fn settle(&self) -> BoxFuture<'_, ()> {
        Box::pin(async {})
    }

    /// What was fetched until `since` was refused by the upstream; whether there may be a better one.
    fn expire<'a>(&'a self, _path: &'a SecretPath, _since: Instant) -> BoxFuture<'a, bool> {
        Box::pin(async { false })
    }
}
