//! How long a kept connection may wait for its next request.
//!
//! hyper asks for a timer before every head and throws it away when the head is there. One timer of
//! tokio's per connection serves them all: it is moved on only when it is due, as seldom as that is.

use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
    time::{Duration, Instant},
};

use hyper::rt;
use parking_lot::Mutex;
use tokio::time::{self, sleep_until};

/// One connection's timer, set when it is first waited for.
#[derive(Clone, Default)]
pub(super) struct IdleTimer(Arc<Mutex<Option<Pin<Box<time::Sleep>>>>>);

/// One wait by it.
struct Wait {
    timer: IdleTimer,
    until: time::Instant,
}

impl rt::Timer for IdleTimer {
    fn sleep(&self, duration: Duration) -> Pin<Box<dyn rt::Sleep>> {
        self.sleep_until(self.now() + duration)
    }

    fn sleep_until(&self, deadline: Instant) -> Pin<Box<dyn rt::Sleep>> {
        Box::pin(Wait { timer: self.clone(), until: deadline.into() })
    }

    fn now(&self) -> Instant {
        time::Instant::now().into_std()
    }
}

impl Future for Wait {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let mut timer = self.timer.0.lock();
        let sleep = timer.get_or_insert_with(|| Box::pin(sleep_until(self.until)));
        if sleep.deadline() > self.until {
            sleep.as_mut().reset(self.until);
        }
        loop {
            ready!(sleep.as_mut().poll(cx));
            if sleep.deadline() >= self.until {
                return Poll::Ready(());
            }
            sleep.as_mut().reset(self.until);
        }
    }
}

impl rt::Sleep for Wait {}

#[cfg(test)]
mod tests {
    use hyper::rt::Timer as _;

    use super::*;

    #[tokio::test]
    async fn each_wait_lasts_as_long_as_it_says() {
        let (timer, moment) = (IdleTimer::default(), Duration::from_millis(40));
        let start = Instant::now();
        timer.sleep(moment).await;
        assert!(start.elapsed() >= moment);
        // Begun while the timer stands at the end of a shorter one, which was looked at once and left.
        let _ = time::timeout(Duration::ZERO, timer.sleep(moment / 2)).await;
        let start = Instant::now();
        timer.sleep(moment).await;
        assert!(start.elapsed() >= moment);
        // One that is over sooner than the timer stands.
        let (long, short) = (timer.sleep(moment * 1000), timer.sleep(moment));
        assert!(time::timeout(Duration::ZERO, long).await.is_err());
        time::timeout(moment * 500, short).await.expect("it ends by its own time");
    }
}
