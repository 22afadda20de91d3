//! What moves an HTTP/1.1 connection's bytes, for as long as it has no task of its own.
//!
//! Whoever has a request on the connection polls its driver along with their own work: a small request then needs no
//! second task, which would have to be woken for it. The two tell each other by channels that there is something to do.
//! To a runtime that is a task's wish to be polled once more, after all others and by whoever has time, for which it
//! wakes another core. So they ring a bell instead: it is heard where both are polled, and is a wake-up only for a task
//! that is not there.

use std::{
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll, Wake, Waker},
};

use futures_util::task::AtomicWaker;

/// How often both are polled in turn before others have theirs. Who has used up a task's share of a runtime's patience
/// rings as well, and no polling helps them.
const ROUNDS: usize = 16;

type Moving = Pin<Box<dyn Future<Output = hyper::Result<()>> + Send>>;

/// Moves one connection.
pub(super) struct Driver {
    moving: Moving,
    bell: Arc<Bell>,
    /// The bell's.
    waker: Waker,
}

#[derive(Default)]
struct Bell {
    rung: AtomicBool,
    /// Somebody will look whether it was rung, before they wait.
    attended: AtomicBool,
    task: AtomicWaker,
}

impl Driver {
    pub(super) fn new(moving: impl Future<Output = hyper::Result<()>> + Send + 'static) -> Self {
        let bell = Arc::<Bell>::default();
        Self { moving: Box::pin(moving), waker: Arc::clone(&bell).into(), bell }
    }

    /// What is rung from here on is heard by [`Driver::poll_beside`], which has to follow in the same poll.
    pub(super) fn attend(driver: Option<&Self>) {
        if let Some(Self { bell, .. }) = driver {
            bell.attended.store(true, Ordering::SeqCst);
        }
    }

    /// Moves the connection on and polls `work`, which waits for it among others, until neither has more to do. A driver
    /// that is done goes; how it ended reaches whoever has a request on it.
    pub(super) fn poll_beside<T>(
        driver: &mut Option<Self>,
        cx: &mut Context<'_>,
        mut work: impl FnMut(&mut Context<'_>) -> Poll<T>,
    ) -> Poll<T> {
        let Some(Self { moving, bell, waker }) = driver else { return work(cx) };
        bell.task.register(cx.waker());
        for _ in 0..ROUNDS {
            bell.attended.store(true, Ordering::SeqCst);
            let ours = &mut Context::from_waker(waker);
            if moving.as_mut().poll(ours).is_ready() {
                *driver = None;
                return work(cx);
            }
            let worked = work(ours);
            let is_rung = bell.leave();
            if worked.is_ready() {
                // Nobody waits any more.
                bell.task.take();
                return worked;
            }
            if !is_rung {
                return Poll::Pending;
            }
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }

    /// Moves the connection on for nobody, and looks whether it is over.
    pub(super) fn is_over(&mut self) -> bool {
        self.moving.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_ready()
    }

    /// To be a task of its own.
    pub(super) fn into_future(self) -> Moving {
        self.moving
    }
}

impl Bell {
    /// From here on whoever rings wakes the task. Whether somebody has rung until now.
    fn leave(&self) -> bool {
        self.attended.store(false, Ordering::SeqCst);
        self.rung.swap(false, Ordering::SeqCst)
    }
}

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.rung.store(true, Ordering::SeqCst);
        if !self.attended.load(Ordering::SeqCst) {
            self.task.wake();
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use std::sync::atomic::AtomicUsize;

    use futures_util::FutureExt as _;

    use super::*;

    /// Counts how often it was woken.
    #[derive(Default)]
    pub(in crate::pool) struct Task(AtomicUsize);

    impl Task {
        pub(in crate::pool) fn woken(&self) -> usize {
            self.0.load(Ordering::SeqCst)
        }
    }

    impl Wake for Task {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }

    /// One that never ends, and rings so often as long as it is polled.
    fn ringing(times: usize) -> Driver {
        let mut left = times;
        Driver::new(core::future::poll_fn(move |cx| {
            if left > 0 {
                left -= 1;
                cx.waker().wake_by_ref();
            }
            Poll::Pending
        }))
    }

    fn poll(driver: Driver, until: usize) -> (usize, usize, bool) {
        let task = Arc::<Task>::default();
        let waker = Waker::from(Arc::clone(&task));
        let mut polled = 0;
        let done = Driver::poll_beside(&mut Some(driver), &mut Context::from_waker(&waker), |_| {
            polled += 1;
            if polled == until { Poll::Ready(()) } else { Poll::Pending }
        });
        (polled, task.woken(), done.is_ready())
    }

    #[test]
    fn what_is_rung_where_both_are_polled_is_polled_for_and_wakes_nobody() {
        assert_eq!(poll(ringing(0), 9), (1, 0, false));
        assert_eq!(poll(ringing(3), 9), (4, 0, false));
        assert_eq!(poll(ringing(3), 2), (2, 0, true));
    }

    #[test]
    fn who_rings_without_end_lets_others_have_their_turn() {
        assert_eq!(poll(ringing(usize::MAX), usize::MAX), (ROUNDS, 1, false));
    }

    #[test]
    fn who_waits_is_woken_once_they_are_not_there() {
        let task = Arc::<Task>::default();
        let waker = Waker::from(Arc::clone(&task));
        let mut driver = Some(ringing(0));
        let bell = driver.as_ref().unwrap().waker.clone();
        let wait = |driver: &mut Option<Driver>, done: bool| {
            Driver::poll_beside(driver, &mut Context::from_waker(&waker), |_| {
                if done { Poll::Ready(()) } else { Poll::Pending }
            })
        };
        assert!(wait(&mut driver, false).is_pending());
        bell.wake_by_ref();
        assert_eq!(task.woken(), 1);
        // It is rung before the poll that follows, and heard there.
        Driver::attend(driver.as_ref());
        bell.wake_by_ref();
        assert!(wait(&mut driver, true).is_ready());
        bell.wake_by_ref();
        assert_eq!(task.woken(), 1, "nobody waits");
    }

    #[test]
    fn one_that_is_over_goes() {
        let mut driver = Some(Driver::new(core::future::ready(Ok(()))));
        let cx = &mut Context::from_waker(Waker::noop());
        assert!(Driver::poll_beside(&mut driver, cx, |_| Poll::<()>::Pending).is_pending());
        assert!(driver.is_none());
        let mut moving = ringing(1);
        assert!(!moving.is_over());
        assert!(moving.into_future().poll_unpin(cx).is_pending());
    }
}
