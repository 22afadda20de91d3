//! The same message twice is done once (C-05).
//!
//! What was answered is kept for some minutes and given again to the same agent with the same
//! message; the same id with anything else is refused. A copy that comes while the first is being
//! done waits for its answer, and is done in its place if the first comes to none. That a message was begun is in the
//! store before it is done: after a restart, and at another broker of the store, the same one is refused, since what it
//! came to is not known there.

use std::{
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use data_encoding::HEXLOWER;
use jiff::{SignedDuration, Timestamp};
use keyless_core::{Code, Error, SafeText, nl_message::NlFault};
use keyless_store::{Beginning, BegunMessage, Store};
use parking_lot::Mutex;
use sha2::{Digest as _, Sha256};
use tokio::{sync::watch, task::JoinHandle};
use uuid::Uuid;

use super::{answer::Outcome, rates::spent};

/// How long an answer is kept; the protocol asks for 5 minutes.
const KEPT: Duration = Duration::from_mins(10);
/// How long it is on disk that a message was begun: what is sent ten minutes after the end of the longest action is the
/// same still.
const ON_DISK: SignedDuration = SignedDuration::from_mins(20);
/// Ids that are remembered.
const MOST: u32 = 20_000;
const MAX_SEEN: usize = MOST as usize;
/// Bytes of answers that are kept; beyond it the oldest are forgotten, their ids are not.
const MAX_BYTES: usize = 64 * 1024 * 1024;

/// What was sent of late.
pub(crate) struct Replays {
    seen: Arc<Mutex<HashMap<String, Seen>>>,
    store: Store,
    /// This run of the broker: of what it has begun itself it knows by `seen`.
    broker: String,
    /// Whether the store did not take the last note.
    is_failing: Arc<AtomicBool>,
}

/// What a message is compared by.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Fingerprint {
    /// Whose it is.
    pub(crate) instance: String,
    /// SHA-256 of what it says.
    pub(crate) digest: [u8; 32],
}

struct Seen {
    print: Fingerprint,
    /// When it came; once it is answered, when that was.
    at: Instant,
    bytes: usize,
    progress: watch::Sender<Progress>,
}

impl Seen {
    /// Several long actions may take longer than answers are kept.
    fn counts(&self, now: Instant) -> bool {
        let is_under_way = matches!(*self.progress.borrow(), Progress::UnderWay);
        is_under_way || now.duration_since(self.at) < KEPT
    }
}

#[derive(Clone)]
enum Progress {
    Done(Arc<Outcome>),
    Forgotten,
    UnderWay,
}

/// What becomes of a message.
pub(crate) enum Turn<'a> {
    /// It was answered before, so.
    Again(Arc<Outcome>),
    /// It is new; the turn is to be finished.
    First(First<'a>),
}

/// The right to do a message; dropped unfinished, it may be sent again.
pub(crate) struct First<'a> {
    replays: &'a Replays,
    id: String,
    /// This try, in the store.
    turn: String,
    /// Held for as long as its note is being written, so that it is not forgotten before it is there.
    noting: Arc<tokio::sync::Mutex<()>>,
    finished: bool,
}

/// A note in the store that a message is about to be done, while it is being written.
#[derive(Default)]
#[must_use = "what a message changes waits for its note"]
pub(crate) struct Noting {
    writing: Vec<JoinHandle<Result<(), NlFault>>>,
    refused: Option<NlFault>,
}

impl Noting {
    fn of(writing: JoinHandle<Result<(), NlFault>>) -> Self {
        Self { writing: vec![writing], refused: None }
    }

    pub(crate) fn and(mut self, other: Self) -> Self {
        self.writing.extend(other.writing);
        self
    }

    /// Waits until it is durable; a fault, each time that it is asked, if another run of a broker has begun a message of
    /// that id.
    pub(crate) async fn written(&mut self) -> Result<(), NlFault> {
        for writing in self.writing.drain(..) {
            let written = writing.await.unwrap_or_else(|_| Err(Code::Internal.into()));
            self.refused = self.refused.take().or(written.err());
        }
        self.refused.clone().map_or(Ok(()), Err)
    }
}

impl Replays {
    pub(crate) fn of(store: Store) -> Self {
        Self {
            seen: Arc::default(),
            store,
            broker: Uuid::new_v4().to_string(),
            is_failing: Arc::default(),
        }
    }

    /// Lets the message `id` in, or waits for what the first of its kind came to. That it is let in is on disk.
    pub(crate) async fn enter(&self, id: &str, print: Fingerprint) -> Result<Turn<'_>, NlFault> {
        let (turn, mut noting) = self.enter_ahead(id, print).await?;
        noting.written().await?;
        Ok(turn)
    }

    /// As [`Self::enter`], without waiting for the disk: the message may be judged meanwhile, and changes nothing before its
    /// note is written.
    pub(crate) async fn enter_ahead(
        &self,
        id: &str,
        print: Fingerprint,
    ) -> Result<(Turn<'_>, Noting), NlFault> {
        loop {
            let mut progress = match self.look(id, print.clone(), Instant::now())? {
                Ok(first) => {
                    let noting = self.note(&first, &print);
                    return Ok((Turn::First(first), noting));
                }
                Err(progress) => progress,
            };
            let done = progress.wait_for(|progress| !matches!(progress, Progress::UnderWay)).await;
            match done.as_deref() {
                Ok(Progress::Done(outcome)) => {
                    return Ok((Turn::Again(Arc::clone(outcome)), Noting::default()));
                }
                Ok(_) => {
                    let words = SafeText::words("it was done, and its answer is no longer kept");
                    return Err(NlFault::new(Code::MessageReplayed, words));
                }
                // Nothing was done, a person is asked first, say: this one is the next to try.
                Err(_) => {}
            }
        }
    }

    /// Begins to write down that a message is about to be done.
    fn note(&self, first: &First<'_>, print: &Fingerprint) -> Noting {
        let message = BegunMessage {
            name: name_of(&first.id),
            instance: print.instance.clone(),
            digest: HEXLOWER.encode(&print.digest),
            broker: self.broker.clone(),
            turn: first.turn.clone(),
        };
        let (store, is_failing) = (self.store.clone(), Arc::clone(&self.is_failing));
        // Nobody else has it yet.
        let turn = Arc::clone(&first.noting).try_lock_owned();
        Noting::of(tokio::spawn(async move {
            let _turn = turn;
            begin(&store, &message, &is_failing).await
        }))
    }

    /// Forgets what was begun so long ago that it counts no longer.
    pub(crate) async fn forget(&self, now: Timestamp) -> Result<(), Error> {
        Ok(self.store.forget_old_messages(now).await?)
    }

    fn look(
        &self,
        id: &str,
        print: Fingerprint,
        now: Instant,
    ) -> Result<Result<First<'_>, watch::Receiver<Progress>>, NlFault> {
        let mut seen = self.seen.lock();
        if let Some(earlier) = seen.get(id).filter(|seen| seen.counts(now)) {
            if earlier.print != print {
                return Err(Code::MessageReplayed.into());
            }
            return Ok(Err(earlier.progress.subscribe()));
        }
        if seen.len() >= MAX_SEEN {
            seen.retain(|_, seen| seen.counts(now));
        }
        if seen.len() >= MAX_SEEN {
            let words = SafeText::words("too many messages within ten minutes");
            let fault = NlFault::new(Code::RateLimited, words);
            // One that is still under way stays for longer.
            let oldest = seen.values().map(|seen| now.duration_since(seen.at)).max();
            let reset = KEPT.saturating_sub(oldest.unwrap_or_default()).as_secs() + 1;
            return Err(spent(fault, (MOST, KEPT), reset, "all_agents"));
        }
        let progress = watch::Sender::new(Progress::UnderWay);
        seen.insert(id.to_owned(), Seen { print, at: now, bytes: 0, progress });
        let (id, turn) = (id.to_owned(), Uuid::new_v4().to_string());
        Ok(Ok(First { replays: self, id, turn, noting: Arc::default(), finished: false }))
    }

    /// Keeps an answer, and forgets the oldest ones where they get too many. One that is larger than all may be
    /// is not kept.
    fn keep(&self, id: &str, bytes: usize, outcome: &Arc<Outcome>) {
        let mut seen = self.seen.lock();
        if bytes > MAX_BYTES {
            if let Some(seen) = seen.get_mut(id) {
                seen.progress.send_replace(Progress::Forgotten);
            }
            return;
        }
        let mut kept: usize = bytes + seen.values().map(|seen| seen.bytes).sum::<usize>();
        while kept > MAX_BYTES {
            let oldest = seen.values_mut().filter(|seen| seen.bytes > 0).min_by_key(|seen| seen.at);
            let Some(oldest) = oldest else { break };
            kept -= oldest.bytes;
            oldest.bytes = 0;
            oldest.progress.send_replace(Progress::Forgotten);
        }
        if let Some(seen) = seen.get_mut(id) {
            (seen.bytes, seen.at) = (bytes, Instant::now());
            seen.progress.send_replace(Progress::Done(Arc::clone(outcome)));
        }
    }

    /// Whether the last note could not be written: the message that it was of has not begun.
    pub(crate) fn is_failing(&self) -> bool {
        self.is_failing.load(Ordering::Relaxed)
    }

    /// Tries a note of nothing, for whoever asks next.
    pub(crate) fn try_again(&self) {
        let (store, is_failing) = (self.store.clone(), Arc::clone(&self.is_failing));
        let note = own_note(&Uuid::new_v4().to_string(), &self.broker);
        tokio::spawn(async move {
            let now = Timestamp::now();
            let noted = store.begin_message(&note, now, now).await;
            is_failing.store(noted.is_err(), Ordering::Relaxed);
        });
    }
}

/// Writes down that an action of the operator's is about to be done, which no other run knows.
pub(crate) async fn note_own(store: &Store, action_id: &str, run: &str) -> Result<(), Error> {
    let now = Timestamp::now();
    let until = now.saturating_add(ON_DISK).unwrap_or(Timestamp::MAX);
    let noted = store.begin_message(&own_note(action_id, run), until, now).await;
    noted.map(drop).map_err(Error::from)
}

fn own_note(name: &str, run: &str) -> BegunMessage {
    BegunMessage {
        name: name_of(name),
        instance: run.to_owned(),
        digest: String::new(),
        broker: run.to_owned(),
        turn: name.to_owned(),
    }
}

/// Writes down that a message is about to be done, unless another run of a broker has begun one of that id.
async fn begin(
    store: &Store,
    message: &BegunMessage,
    is_failing: &AtomicBool,
) -> Result<(), NlFault> {
    let now = Timestamp::now();
    let until = now.saturating_add(ON_DISK).unwrap_or(Timestamp::MAX);
    let begun = store.begin_message(message, until, now).await;
    is_failing.store(begun.is_err(), Ordering::Relaxed);
    match begun.map_err(Error::from)? {
        Beginning::First => Ok(()),
        Beginning::Other => Err(Code::MessageReplayed.into()),
        Beginning::Same => {
            let words = "it was done, or begun, at another broker of this store or before this one was started anew, and \
                         its answer is not here: the log has it under this id, if it was an action";
            Err(NlFault::new(Code::MessageReplayed, SafeText::words(words)))
        }
    }
}

/// What a message is called in the store.
fn name_of(id: &str) -> String {
    HEXLOWER.encode(&Sha256::digest(id))
}

impl First<'_> {
    /// The message was done; `bytes` is about what its answer takes.
    pub(crate) fn finish(mut self, outcome: &Arc<Outcome>, bytes: usize) {
        self.finished = true;
        self.replays.keep(&self.id, bytes, outcome);
    }
}

impl Drop for First<'_> {
    fn drop(&mut self) {
        if self.finished {
            return;
        }
        let (seen, store) = (Arc::clone(&self.replays.seen), self.replays.store.clone());
        let (id, turn) = (std::mem::take(&mut self.id), std::mem::take(&mut self.turn));
        // While its note is being written it keeps its id, or a later try's note could come before it, and go with it.
        let is_noted = self.noting.try_lock().is_ok();
        if is_noted {
            seen.lock().remove(&id);
        }
        let Ok(runtime) = tokio::runtime::Handle::try_current() else {
            seen.lock().remove(&id);
            return;
        };
        let noting = Arc::clone(&self.noting);
        runtime.spawn(async move {
            let _noted = noting.lock().await;
            if !is_noted {
                seen.lock().remove(&id);
            }
            // What fails here keeps an id taken after a restart: on the side of less.
            store.forget_message(&name_of(&id), &turn).await
        });
    }
}

#[cfg(test)]
mod tests {
    use keyless_core::nl_message::MessageType;

    use super::*;
    use crate::scene::Scene;

    async fn replays() -> (Replays, tempfile::TempDir) {
        let Scene { vault, folder, .. } = Scene::new().await;
        (Replays::of(vault.store().clone()), folder)
    }

    async fn done(replays: &Replays, id: &str, bytes: usize) {
        let Ok(Turn::First(first)) = replays.enter(id, print()).await else { panic!("seen") };
        let body = serde_json::json!({});
        first.finish(&Arc::new(Outcome::done(MessageType::ActionResponse, 200, body)), bytes);
    }

    fn print() -> Fingerprint {
        Fingerprint { instance: "a".to_owned(), digest: [0; 32] }
    }

    #[tokio::test]
    async fn a_copy_of_what_came_to_nothing_is_the_next_to_try() {
        let (replays, _folder) = replays().await;
        let Ok(Turn::First(first)) = replays.enter("one", print()).await else { panic!("seen") };
        let (turn, ()) = tokio::join!(replays.enter("one", print()), async { drop(first) });
        assert!(matches!(turn, Ok(Turn::First(_))));
    }

    #[tokio::test]
    async fn what_is_still_being_done_is_not_done_twice() {
        let ((replays, _folder), start) = (replays().await, Instant::now());
        let Ok(Ok(first)) = replays.look("one", print(), start) else { panic!("seen") };
        assert!(matches!(replays.look("one", print(), start + KEPT * 2), Ok(Err(_))));
        let body = serde_json::json!({});
        first.finish(&Arc::new(Outcome::done(MessageType::ActionResponse, 200, body)), 10);
        // From its answer on it is kept for as long as any.
        assert!(matches!(replays.look("one", print(), start + KEPT / 2), Ok(Err(_))));
        assert!(matches!(replays.look("one", print(), start + KEPT * 2), Ok(Ok(_))));
    }

    #[tokio::test]
    async fn who_comes_when_all_places_are_taken_is_told_when_one_is_free() {
        let ((replays, _folder), start) = (replays().await, Instant::now());
        let mut taken = Vec::new();
        for number in 0..MAX_SEEN {
            let Ok(Ok(first)) = replays.look(&number.to_string(), print(), start) else {
                panic!("seen")
            };
            taken.push(first);
        }
        let late = replays.look("late", print(), start + KEPT / 2).map(drop).unwrap_err();
        let told = late.details();
        assert_eq!((late.code(), &told["limit"]), (Code::RateLimited, &MOST.into()));
        assert_eq!((&told["window_seconds"], &told["scope"]), (&600.into(), &"all_agents".into()));
        assert_eq!(told["retry_after_seconds"], 301);
        assert!(told["reset_at"].is_string());
    }

    #[tokio::test]
    async fn what_was_begun_before_a_restart_is_not_begun_again() {
        let (replays, _folder) = replays().await;
        done(&replays, "done", 10).await;
        let Ok(Turn::First(begun)) = replays.enter("begun", print()).await else { panic!("seen") };
        let Ok(Turn::First(none)) = replays.enter("none", print()).await else { panic!("seen") };
        let turn = none.turn.clone();
        drop(none);
        replays.store.forget_message(&name_of("none"), &turn).await.unwrap();
        let again = Replays::of(replays.store.clone());
        let code = async |id: &str, print| {
            let turn = again.enter(id, print).await;
            turn.map(drop).map_err(|fault| (fault.code(), fault.error().message()))
        };
        for id in ["done", "begun"] {
            let (code, told) = code(id, print()).await.unwrap_err();
            assert_eq!(code, Code::MessageReplayed);
            assert!(told.contains("its answer is not here"), "{told}");
            assert!(told.contains("another broker"), "{told}");
        }
        // Once they count no longer the id is free, whether or not they were looked for meanwhile.
        let later = Timestamp::now() + ON_DISK + SignedDuration::from_secs(2);
        let begun_by = |turn: &str| BegunMessage {
            name: name_of("done"),
            instance: "b".to_owned(),
            digest: "d".to_owned(),
            broker: "another".to_owned(),
            turn: turn.to_owned(),
        };
        let (early, late) = (begun_by("early"), begun_by("late"));
        let beginning = async |message, now| {
            replays.store.begin_message(message, later + ON_DISK, now).await.unwrap()
        };
        assert_eq!(beginning(&early, Timestamp::now()).await, Beginning::Other);
        assert_eq!(beginning(&late, later).await, Beginning::First);
        let other = Fingerprint { digest: [1; 32], ..print() };
        assert_eq!(code("done", other).await.unwrap_err().0, Code::MessageReplayed);
        assert_eq!(code("none", print()).await, Ok(()));
        drop(begun);
    }

    #[tokio::test]
    async fn what_is_larger_than_all_may_be_is_not_kept() {
        let (replays, _folder) = replays().await;
        done(&replays, "small", 10).await;
        done(&replays, "large", MAX_BYTES + 1).await;
        assert!(matches!(replays.enter("small", print()).await, Ok(Turn::Again(_))));
        let refused = replays.enter("large", print()).await.map(drop);
        assert_eq!(refused.unwrap_err().code(), Code::MessageReplayed);
    }
}
