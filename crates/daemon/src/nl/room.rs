//! How much there is at the same time: actions, each of which may hold all of its output in memory, and sessions
//! that are agents.

use std::{
    collections::{HashMap, VecDeque},
    pin::pin,
    sync::Arc,
    time::{Duration, Instant},
};

use keyless_core::{Code, Error, SafeText, agent::InstanceId, nl_message::NlFault};
use parking_lot::Mutex;
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore, watch},
    time::timeout,
};

use super::rates::spent;

/// Actions of all agents.
const AT_ONCE: usize = 32;
/// Actions of one agent, so that none takes every place.
const AT_ONCE_OF_ONE: usize = 8;
/// Sessions outside any jail that are agents at the same time.
const SEATS: usize = 64;
/// As many of them begin within [`WINDOW`]: each leaves two entries in the log.
const NEW_ONES: usize = 30;
const WINDOW: Duration = Duration::from_mins(1);
/// What is suggested to who would only wait here: about as long as a command takes.
const WISE_DELAY: Duration = Duration::from_millis(250);

/// The places; who comes first gets the next.
pub(super) struct Room {
    all: Arc<Semaphore>,
    each: Mutex<HashMap<InstanceId, Arc<Semaphore>>>,
}

/// A place, until this is dropped.
pub(in crate::nl) struct Place {
    _own: OwnedSemaphorePermit,
    all: Arc<Semaphore>,
    /// Nothing while others have it.
    shared: Mutex<Option<OwnedSemaphorePermit>>,
}

impl Default for Room {
    fn default() -> Self {
        Self { all: Arc::new(Semaphore::new(AT_ONCE)), each: Mutex::default() }
    }
}

impl Room {
    /// Waits for a place; [`Code::SessionEnded`] when the agent is no more before there is one.
    pub(super) async fn enter(&self, agent: &InstanceId) -> Result<Place, NlFault> {
        let own = {
            let mut each = self.each.lock();
            let own = each.entry(agent.clone());
            Arc::clone(own.or_insert_with(|| Arc::new(Semaphore::new(AT_ONCE_OF_ONE))))
        };
        let own = own.acquire_owned().await.map_err(|_| Code::SessionEnded)?;
        let shared = Arc::clone(&self.all).acquire_owned().await.map_err(|_| Code::Internal)?;
        Ok(Place { _own: own, all: Arc::clone(&self.all), shared: Mutex::new(Some(shared)) })
    }

    /// How full the broker is, and how long it is wise to wait, when every place is taken (NL-8.26).
    pub(super) fn pressure(&self) -> Option<Duration> {
        (self.all.available_permits() == 0).then_some(WISE_DELAY)
    }

    /// Forgets an agent that is no more; who waits for one of its places is told so. Gives how many places it has taken.
    pub(super) fn leave(&self, agent: &InstanceId) -> usize {
        let mut each = self.each.lock();
        let own = each.remove(agent);
        let taken = own.as_ref().map_or(0, |own| AT_ONCE_OF_ONE - own.available_permits());
        if let Some(own) = own {
            own.close();
        }
        // Nobody has or waits for a place of these.
        each.retain(|_, own| Arc::strong_count(own) > 1);
        taken
    }
}

impl Place {
    /// Waits for a person, and lets others have the place for as long as that takes: it counts among those of its
    /// agent alone. Then it waits for one again.
    pub(in crate::nl) async fn lent<T>(
        &self,
        waiting: impl Future<Output = Result<T, Error>>,
    ) -> Result<T, Error> {
        let mut waiting = pin!(waiting);
        if let Ok(done) = timeout(WISE_DELAY, &mut waiting).await {
            return done;
        }
        drop(self.shared.lock().take());
        let done = waiting.await?;
        let shared = Arc::clone(&self.all).acquire_owned().await.map_err(|_| Code::Internal)?;
        *self.shared.lock() = Some(shared);
        Ok(done)
    }
}

/// The agents that are here: sessions until they end, others while something of theirs is under way.
pub(super) struct Present {
    seats: Arc<Semaphore>,
    begun: Mutex<VecDeque<Instant>>,
    here: Mutex<HashMap<InstanceId, Here>>,
}

/// A seat of a session outside any jail, until this is dropped.
pub(super) type Seat = OwnedSemaphorePermit;

/// Becomes the reason when the agent is no more.
pub(super) type Over = watch::Receiver<Option<Code>>;

#[derive(Default)]
struct Here {
    over: watch::Sender<Option<Code>>,
    /// The name of the session that it is, if it is one.
    session: Option<String>,
    seat: Option<Seat>,
}

impl Here {
    /// One that something is under way for is known, so that it is known to be over.
    fn is_known(&self) -> bool {
        self.over.receiver_count() > 0 || (self.session.is_some() && self.over.borrow().is_none())
    }
}

impl Default for Present {
    fn default() -> Self {
        let seats = Arc::new(Semaphore::new(SEATS));
        Self { seats, begun: Mutex::default(), here: Mutex::default() }
    }
}

impl Present {
    /// A seat for one more outside any jail.
    ///
    /// [`Code::TooManyConnections`] when all are taken, [`Code::RateLimited`] when too many began of late, with when one
    /// more may.
    pub(super) fn seat(&self, now: Instant) -> Result<Seat, NlFault> {
        let seat = Arc::clone(&self.seats).try_acquire_owned().map_err(|_| {
            let words = SafeText::default().and(SEATS);
            let words = words.and(" sessions without a credential are open");
            Error::with(Code::TooManyConnections, words)
        })?;
        let mut begun = self.begun.lock();
        while begun.front().is_some_and(|at| now.duration_since(*at) >= WINDOW) {
            begun.pop_front();
        }
        if begun.len() >= NEW_ONES {
            let words = SafeText::default().and(NEW_ONES);
            let words = words.and(" sessions without a credential began within a minute");
            let since = begun.front().map_or(WINDOW, |oldest| now.duration_since(*oldest));
            let reset = WINDOW.saturating_sub(since).as_secs() + 1;
            let fault = NlFault::from(Error::with(Code::RateLimited, words));
            let limit = u32::try_from(NEW_ONES).unwrap_or(u32::MAX);
            return Err(spent(fault, (limit, WINDOW), reset, "per_broker"));
        }
        begun.push_back(now);
        Ok(seat)
    }

    /// A session of that name is an agent from now on.
    pub(super) fn begin(&self, agent: &InstanceId, session: &str, seat: Option<Seat>) {
        let session = Some(session.to_owned());
        self.here.lock().insert(agent.clone(), Here { session, seat, ..Here::default() });
    }

    /// The name of the session that an agent is; nothing for an agent that is none.
    pub(super) fn session_of(&self, agent: &InstanceId) -> Option<String> {
        self.here.lock().get(agent)?.session.clone()
    }

    /// The sessions, each with the agent that it is.
    pub(super) fn sessions(&self) -> Vec<(InstanceId, String)> {
        let here = self.here.lock();
        let sessions = here.iter().filter_map(|(agent, one)| {
            one.session.as_ref().map(|session| (agent.clone(), session.clone()))
        });
        sessions.collect()
    }

    /// Ends all that is under way of an agent.
    pub(super) fn end(&self, agent: &InstanceId, why: Code) {
        let mut here = self.here.lock();
        if let Some(one) = here.get_mut(agent) {
            one.seat = None;
            one.over.send_replace(Some(why));
        }
        here.retain(|_, one| one.is_known());
    }

    /// Ends all that is under way of an agent; what it begins later is another matter.
    pub(super) fn interrupt(&self, agent: &InstanceId, why: Code) {
        let mut here = self.here.lock();
        if let Some(one) = here.get_mut(agent) {
            std::mem::take(&mut one.over).send_replace(Some(why));
        }
        here.retain(|_, one| one.is_known());
    }

    /// When an agent's session is over; nothing for an agent that is none.
    pub(super) fn over_of_session(&self, agent: &InstanceId) -> Option<Over> {
        let here = self.here.lock();
        here.get(agent).filter(|one| one.session.is_some()).map(|one| one.over.subscribe())
    }

    /// The agents that have something under way.
    pub(super) fn busy(&self) -> Vec<InstanceId> {
        let here = self.here.lock();
        let busy = here.iter().filter(|(_, one)| one.over.receiver_count() > 0);
        busy.map(|(agent, _)| agent.clone()).collect()
    }

    /// When an agent is no more.
    pub(super) fn over(&self, agent: &InstanceId) -> Over {
        let mut here = self.here.lock();
        here.retain(|_, one| one.is_known());
        here.entry(agent.clone()).or_default().over.subscribe()
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;
    use crate::nl::scene::aid;

    #[test]
    fn one_agent_does_not_take_every_place() {
        let (room, busy, other) =
            (Room::default(), aid("busy").instance_id, aid("other").instance_id);
        let enter = |agent: &InstanceId| room.enter(agent).now_or_never().map(Result::unwrap);
        let mut places: Vec<Place> = (0..AT_ONCE_OF_ONE).filter_map(|_| enter(&busy)).collect();
        assert_eq!(places.len(), AT_ONCE_OF_ONE);
        assert!(enter(&busy).is_none() && enter(&other).is_some());
        assert!(room.pressure().is_none());
        places.pop();
        assert!(enter(&busy).is_some());
    }

    #[test]
    fn a_full_room_suggests_to_wait() {
        let room = Room::default();
        let enter = || room.enter(&aid("one").instance_id).now_or_never().map(Result::unwrap);
        let mut places: Vec<Place> = (0..AT_ONCE).filter_map(|_| enter()).collect();
        assert_eq!((places.len(), room.pressure()), (AT_ONCE, Some(WISE_DELAY)));
        places.pop();
        assert!(room.pressure().is_none());
    }

    #[tokio::test]
    async fn who_waits_for_a_person_takes_no_place_of_others() {
        let (room, agents) = (Room::default(), [(); 4].map(|()| aid("busy").instance_id));
        let mut places = Vec::new();
        for agent in agents.iter().flat_map(|agent| [agent; AT_ONCE_OF_ONE]) {
            places.push(room.enter(agent).await.unwrap());
        }
        let other = aid("other").instance_id;
        assert!(room.enter(&other).now_or_never().is_none());
        let (answer, asked) = tokio::sync::oneshot::channel();
        let mut waiting = Box::pin(places[0].lent(async { Ok(asked.await.is_ok()) }));
        assert!(timeout(WISE_DELAY * 2, &mut waiting).await.is_err());
        let theirs = room.enter(&other).now_or_never().map(Result::unwrap);
        assert!(theirs.is_some());
        // Its agent has no more of them for that.
        assert!(room.enter(&agents[0]).now_or_never().is_none());
        // It goes on when there is a place for it.
        answer.send(()).unwrap();
        assert!(timeout(WISE_DELAY * 2, &mut waiting).await.is_err());
        drop(theirs);
        assert!(waiting.await.unwrap());
        assert!(room.pressure().is_some());
        // What is decided at once changes nothing.
        places[0].lent(async { Ok(()) }).await.unwrap();
        assert!(room.pressure().is_some());
    }

    #[test]
    fn an_agent_that_is_no_more_is_forgotten() {
        let (room, gone) = (Room::default(), aid("gone").instance_id);
        let enter = || room.enter(&gone).now_or_never().map(Result::unwrap);
        let places: Vec<Place> = (0..AT_ONCE_OF_ONE).filter_map(|_| enter()).collect();
        let mut waiting = Box::pin(room.enter(&gone));
        assert!((&mut waiting).now_or_never().is_none());
        room.leave(&gone);
        let refused = waiting.now_or_never().unwrap().err().unwrap();
        assert_eq!(refused.code(), Code::SessionEnded);
        drop(places);
        // A late one of its own stays until the next agent leaves.
        drop(enter());
        room.leave(&aid("other").instance_id);
        assert!(room.each.lock().is_empty());
    }

    #[test]
    fn sessions_are_bounded_in_number_and_rate() {
        let (sessions, start) = (Present::default(), Instant::now());
        let open: Vec<InstanceId> = (0..SEATS).map(|_| aid("s").instance_id).collect();
        for (number, agent) in (0_u32..).zip(&open) {
            let now = start + WINDOW * number / u32::try_from(NEW_ONES).unwrap();
            sessions.begin(agent, "m-1", Some(sessions.seat(now).unwrap()));
        }
        let late = start + WINDOW * 9;
        let full = sessions.seat(late).unwrap_err();
        assert_eq!(full.code(), Code::TooManyConnections);
        sessions.end(&open[0], Code::SessionEnded);
        for _ in 0..NEW_ONES {
            drop(sessions.seat(late).unwrap());
        }
        let refused = sessions.seat(late + Duration::from_secs(20)).unwrap_err();
        assert_eq!(refused.code(), Code::RateLimited);
        let told = refused.details();
        assert_eq!((&told["limit"], &told["window_seconds"]), (&30.into(), &60.into()), "{told:?}");
        assert_eq!(
            (&told["retry_after_seconds"], &told["scope"]),
            (&41.into(), &"per_broker".into())
        );
        assert!(told["reset_at"].is_string(), "{told:?}");
        assert!(sessions.seat(late + WINDOW).is_ok());
    }

    #[test]
    fn a_session_is_known_to_be_over_while_something_is_under_way() {
        let (present, agent, why) =
            (Present::default(), aid("s").instance_id, Some(Code::SessionEnded));
        present.begin(&agent, "s-1", None);
        let under_way = present.over(&agent);
        present.end(&agent, Code::SessionEnded);
        let again = present.over_of_session(&agent).unwrap();
        assert_eq!((*under_way.borrow(), *again.borrow()), (why, why));
        drop((under_way, again));
        present.end(&agent, Code::SessionEnded);
        assert!(present.over_of_session(&agent).is_none());
    }

    #[test]
    fn another_agent_is_known_while_something_is_under_way() {
        let (present, agent) = (Present::default(), aid("a").instance_id);
        assert!(present.over_of_session(&agent).is_none());
        let under_way = present.over(&agent);
        assert!(present.over_of_session(&agent).is_none());
        present.end(&agent, Code::AgentRevoked);
        assert_eq!(*under_way.borrow(), Some(Code::AgentRevoked));
        drop(under_way);
        drop(present.over(&aid("b").instance_id));
        assert_eq!(present.here.lock().len(), 1);
    }
}
