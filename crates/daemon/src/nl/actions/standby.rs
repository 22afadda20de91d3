//! Jails that stand for the commands to come: made when nobody waits for an answer, and taken down when nobody comes.

use std::{sync::Arc, time::Duration};

use keyless_jail::{JailError, Jailed, Plan, Reserve, Streams};
use tokio::{
    sync::Notify,
    task::{AbortHandle, spawn_blocking},
    time::{sleep, timeout},
};

/// How long a jail stands that no command comes for.
const LONGEST_IDLE: Duration = Duration::from_mins(1);
/// From a command's end until its answer is given, with time to spare: a jail that is made meanwhile would delay it.
const UNTIL_ANSWERED: Duration = Duration::from_millis(5);

/// The jails of all actions of a broker, some of which stand already.
pub struct Standby {
    reserve: Arc<Reserve>,
    used: Arc<Notify>,
    upkeep: AbortHandle,
}

impl Standby {
    /// Keeps at most so many standing, in a task of its own; with 0, every command waits for a jail to be made.
    pub fn keeping(spare: usize) -> Self {
        let (reserve, used) = (Arc::new(Reserve::keeping(spare)), Arc::new(Notify::new()));
        let upkeep = tokio::spawn(keep_up(Arc::clone(&reserve), Arc::clone(&used)));
        Self { reserve, used, upkeep: upkeep.abort_handle() }
    }

    /// See [`Reserve::spawn_detached`].
    pub(super) fn spawn_detached(
        &self,
        plan: &Plan,
        streams: Streams,
    ) -> Result<Jailed, JailError> {
        let jailed = self.reserve.spawn_detached(plan, streams);
        // The next command may come before this one ends.
        if self.reserve.ready() == 0 {
            self.used.notify_one();
        }
        jailed
    }

    /// Told when a command has ended.
    pub(super) fn ended(&self) {
        self.used.notify_one();
    }
}

impl Drop for Standby {
    fn drop(&mut self) {
        self.upkeep.abort();
    }
}

async fn keep_up(reserve: Arc<Reserve>, used: Arc<Notify>) {
    loop {
        let is_used = timeout(LONGEST_IDLE, used.notified()).await.is_ok();
        if is_used {
            sleep(UNTIL_ANSWERED).await;
        }
        let reserve = Arc::clone(&reserve);
        let tended = spawn_blocking(move || {
            if is_used { reserve.refill() } else { reserve.drop_idle(LONGEST_IDLE) }
        });
        // A panic in one round is none in the next.
        let _ = tended.await;
    }
}
