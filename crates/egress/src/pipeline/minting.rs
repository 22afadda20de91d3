//! A request whose answer may mint tokens goes on without its client.
//!
//! Once it is sent, its server may have minted them, and may show them in another answer: only who has read them knows what
//! to look for. So neither a client that leaves nor a withdrawal ends such a request before its answer is read, for as
//! long as a token endpoint may take. Everything else ends where its client does.

use std::{
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll},
    time::Duration,
};

use futures_util::{FutureExt as _, future::BoxFuture};
use tokio::{runtime::Handle, time::timeout};

use crate::swap::SwapTable;

/// How long an answer is waited for that nobody is there for.
const PATIENCE: Duration = Duration::from_secs(20);

/// Whether a request's answer may be minting tokens that nobody has read yet. Where no secret of its session has tokens
/// sealed there is nothing to tell: that costs a request nothing.
#[derive(Clone)]
pub(super) struct Minting(Option<Arc<AtomicBool>>);

/// For as long as there is one, the request goes on.
pub(super) struct Unread(Minting);

/// A request on its way, that lasts longer than who waits for it while it is [`Minting`].
struct Lasting<T: Send + 'static> {
    work: Option<BoxFuture<'static, T>>,
    minting: Minting,
}

/// Has `work` last as long as it is minting.
pub(super) fn lasting<T: Send + 'static>(
    work: BoxFuture<'static, T>,
    minting: Minting,
) -> BoxFuture<'static, T> {
    if minting.0.is_some() { Lasting { work: Some(work), minting }.boxed() } else { work }
}

impl Minting {
    /// Of a request of a session with these secrets. One that comes while the request is on its way seals its answer, but does
    /// not make it last.
    pub(super) fn of(table: &SwapTable) -> Self {
        Self(table.may_seal().then(Arc::default))
    }

    /// From here on tokens may be minted.
    pub(super) fn begin(&self) -> Unread {
        self.set(true);
        Unread(self.clone())
    }

    /// Has `work` go on while tokens may be minted, though its end is of no use to anybody.
    pub(super) async fn read_out(&self, work: impl Future) {
        if self.is_on() {
            let _ = timeout(PATIENCE, work).await;
        }
    }

    fn is_on(&self) -> bool {
        self.0.as_ref().is_some_and(|minting| minting.load(Ordering::Relaxed))
    }

    fn set(&self, is_on: bool) {
        if let Some(minting) = &self.0 {
            minting.store(is_on, Ordering::Relaxed);
        }
    }
}

impl Drop for Unread {
    fn drop(&mut self) {
        self.0.set(false);
    }
}

impl<T: Send + 'static> Future for Lasting<T> {
    type Output = T;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<T> {
        let work = self.work.as_mut().expect("nobody polls it once it is done");
        let done = work.as_mut().poll(cx);
        if done.is_ready() {
            self.work = None;
        }
        done
    }
}

impl<T: Send + 'static> Drop for Lasting<T> {
    fn drop(&mut self) {
        // Outside a runtime everything is being torn down anyway.
        if let Some(work) = self.work.take().filter(|_| self.minting.is_on())
            && let Ok(runtime) = Handle::try_current()
        {
            runtime.spawn(timeout(PATIENCE, work));
        }
    }
}
