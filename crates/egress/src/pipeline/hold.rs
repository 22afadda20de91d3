//! What holds one request while it is under way: measured, and let go when it may not go on.

use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use futures_util::future::BoxFuture;
use keyless_core::{Code, Error};

use super::{Refused, Task, minting::Minting};
use crate::{account::Account, room::Place};

/// One request under way, from its head to its answer's last byte.
pub(super) struct Hold {
    withdrawn: BoxFuture<'static, Error>,
    account: Arc<Account>,
    minting: Minting,
    _place: Place,
}

impl Hold {
    pub(super) fn on(task: &Task<'_>) -> Result<Self, Error> {
        let crowded = || Error::with(Code::TooManyConnections, "too many requests at once".into());
        let place = task.lane.engine.requests.enter().ok_or_else(crowded)?;
        let account = Arc::clone(&task.account);
        let (withdrawn, minting) = (Box::pin(task.ground().withdrawn()), task.minting.clone());
        Ok(Self { withdrawn, account, minting, _place: place })
    }

    /// Does `work` unless it may not go on; then it is dropped where it stands, but for tokens that have to be read.
    pub(super) async fn during<T>(
        &mut self,
        mut work: Pin<&mut impl Future<Output = Result<T, Refused>>>,
    ) -> Result<T, Refused> {
        tokio::select! {
            biased;
            done = &mut work => done,
            error = &mut self.withdrawn => {
                if !matches!(error.code(), Code::Draining | Code::SessionEnded) {
                    self.minting.read_out(work).await;
                }
                Err(error.into())
            }
        }
    }

    /// Whether the answer's body may not go on, and why.
    pub(super) fn poll_withdrawn(&mut self, cx: &mut Context<'_>) -> Poll<Error> {
        Pin::new(&mut self.withdrawn).poll(cx)
    }

    pub(super) fn account(&self) -> &Arc<Account> {
        &self.account
    }
}
