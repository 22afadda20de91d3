//! Work on large messages, off the threads that serve everybody: reading and judging a text of a megabyte takes long.

use std::panic::{AssertUnwindSafe, catch_unwind};

use keyless_core::{
    Code,
    action::{Action, Deed, TemplateSource},
    json_size,
    nl_message::NlFault,
};
use tokio::sync::Semaphore;

/// What is read and judged where it came in, in bytes.
pub(super) const SMALL: usize = 64 * 1024;

/// How much heavy work is done at the same time, for whomever: what is read takes many times its length in memory.
const HEAVY_AT_ONCE: usize = 4;
static ROOM: Semaphore = Semaphore::const_new(HEAVY_AT_ONCE);

/// How much work something is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Weight {
    Heavy,
    Light,
}

impl Weight {
    /// By its length in bytes.
    pub(super) fn of_bytes(bytes: usize) -> Self {
        if bytes > SMALL { Self::Heavy } else { Self::Light }
    }

    /// By what the action says; one whose text is in a file is heavy.
    pub(super) fn of_action(action: &Action) -> Self {
        let deed = match &action.deed {
            Deed::Delegate { delegated_action, .. } => &delegated_action.deed,
            deed => deed,
        };
        match deed {
            Deed::Template { source: TemplateSource::Path(_), .. } => Self::Heavy,
            _ => Self::of_bytes(json_size(action)),
        }
    }
}

/// Does `work`, among the threads that may be blocked if it is heavy. Should it panic, it is refused: the message that
/// it is for still gets its answer and its entry.
pub(super) async fn apart<T: Send + 'static>(
    weight: Weight,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, NlFault> {
    match weight {
        Weight::Heavy => {
            let place = ROOM.acquire().await.map_err(|_| Code::Internal)?;
            // The place goes with what came of it, until that is taken over: what was read and waits for that takes room too. Who
            // asked for it may be gone before it is done.
            let work = tokio::task::spawn_blocking(move || (work(), place));
            Ok(work.await.map_err(|_| Code::Internal)?.0)
        }
        Weight::Light => Ok(catch_unwind(AssertUnwindSafe(work)).map_err(|_| Code::Internal)?),
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    #[tokio::test]
    async fn only_what_is_large_is_done_elsewhere() {
        let exec = |length: usize| Action::new(Deed::Exec { template: "x".repeat(length) });
        let here = thread::current().id();
        for (action, stays) in [(exec(100), true), (exec(SMALL), false)] {
            let at = apart(Weight::of_action(&action), || thread::current().id()).await.unwrap();
            assert_eq!(at == here, stays);
        }
        let source = TemplateSource::Path("/etc/hosts".to_owned());
        let file = Action::new(Deed::Template { source, output_path: None });
        assert_eq!(Weight::of_action(&file), Weight::Heavy);
    }

    #[tokio::test]
    async fn what_fails_in_itself_is_refused() {
        for weight in [Weight::Light, Weight::Heavy] {
            let work = || -> u8 { panic!("a fault of ours") };
            assert_eq!(apart(weight, work).await.unwrap_err().code(), Code::Internal);
        }
    }
}
