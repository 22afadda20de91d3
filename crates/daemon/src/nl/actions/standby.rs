//! Jails that stand for the commands to come: made when nobody waits for an answer, and taken down when nobody comes.

use std::{mem, sync::Arc, time::Duration};

use keyless_jail::{JailError, JailProcess, Jailed, Outlook, Plan, Reserve, Streams};
use parking_lot::Mutex;
use tokio::{
    sync::Notify,
    task::{AbortHandle, spawn_blocking},
    time::{sleep, timeout},
};

/// How long a jail stands that no command comes for.
const LONGEST_IDLE: Duration = Duration::from_mins(1);
/// From a command's end until its answer is given, with time to spare: a jail that is made or taken down meanwhile would
/// delay it.
const UNTIL_ANSWERED: Duration = Duration::from_millis(5);

/// The jails of all actions of a broker, some of which stand already.
pub struct Standby {
    reserve: Arc<Reserve>,
    left: Arc<Left>,
    used: Arc<Notify>,
    upkeep: AbortHandle,
}

/// Jails whose commands have ended, in which nothing runs any more.
type Left = Mutex<Vec<Arc<JailProcess>>>;

impl Standby {
    /// Keeps at most so many standing, in a task of its own; with 0, every command waits for a jail to be made.
    pub fn keeping(spare: usize) -> Self {
        let (reserve, used) = (Arc::new(Reserve::keeping(spare)), Arc::new(Notify::new()));
        let left = Arc::<Left>::default();
        let upkeep = keep_up(Arc::clone(&reserve), Arc::clone(&left), Arc::clone(&used));
        let upkeep = tokio::spawn(upkeep).abort_handle();
        Self { reserve, left, used, upkeep }
    }

    /// See [`Reserve::FRESH`].
    pub(super) const FRESH: Duration = Reserve::FRESH;

    /// See [`Reserve::look`].
    pub(super) fn look(&self, plan: &Plan) -> Option<Outlook> {
        self.reserve.look(plan)
    }

    /// See [`Reserve::spawn_detached`].
    pub(super) fn spawn_detached(
        &self,
        plan: &Plan,
        streams: Streams,
        outlook: Option<Outlook>,
    ) -> Result<Jailed, JailError> {
        let jailed = self.reserve.spawn_detached(plan, streams, outlook);
        // The next command may come before this one ends.
        if self.reserve.ready() == 0 {
            self.used.notify_one();
        }
        jailed
    }

    /// Takes a jail down: what still runs in it ends now, the rest goes when its answer is likely to be given.
    pub(super) fn leave(&self, process: Arc<JailProcess>) {
        if !process.has_ended() {
            process.kill();
        }
        self.left.lock().push(process);
        self.used.notify_one();
    }
}

impl Drop for Standby {
    fn drop(&mut self) {
        self.upkeep.abort();
    }
}

async fn keep_up(reserve: Arc<Reserve>, left: Arc<Left>, used: Arc<Notify>) {
    loop {
        let is_used = timeout(LONGEST_IDLE, used.notified()).await.is_ok();
        if is_used {
            sleep(UNTIL_ANSWERED).await;
        }
        let (reserve, left) = (Arc::clone(&reserve), mem::take(&mut *left.lock()));
        let tended = spawn_blocking(move || {
            drop(left);
            if is_used { reserve.refill() } else { reserve.drop_idle(LONGEST_IDLE) }
        });
        // A panic in one round is none in the next.
        let _ = tended.await;
    }
}
