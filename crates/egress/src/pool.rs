//! Connections to destinations, kept for the next request.
//!
//! Keyed by owner, scheme, authority, pinned addresses, the generation of the roots and the
//! identity that was shown: nothing
//! is shared between sessions, since a connection may be authenticated as a whole, and nothing
//! outlives the judgement of its address or the roots that verified it.
//! Source: reference/egress.md (c) 27; (f) on what a small idle limit costs.

mod connection;
mod driver;
mod ragged;

use std::{
    collections::HashMap,
    hash::{Hash, Hasher},
    mem,
    sync::{Arc, Weak},
    time::{Duration, Instant},
};

use keyless_core::{Authority, Error, Scheme};
use parking_lot::Mutex;
use tokio::sync::Mutex as AsyncMutex;

pub(crate) use self::connection::{Connection, OutgoingBody, UNHEARD};
use self::connection::{Http1, Sender, open};
use crate::{
    Limits,
    dial::{Dialer, Pinned},
    http2,
    tls::{Alpn, ClientIdentity, Roots},
};

/// A connection that was used so lately is hardly closed by now.
const JUST_NOW: Duration = Duration::from_secs(1);

/// As many connections go to one destination for requests that it takes over HTTP/2, if it takes few over each.
const MOST_SHARED: usize = 32;

/// Whose a connection is. Two kinds of their own, so that no name of a session makes it the broker's.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Owner {
    /// The broker's, for its own requests.
    Broker,
    /// A session's, by its name.
    Session(Arc<str>),
}

/// What a kept connection is good for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Key {
    pub(crate) owner: Owner,
    pub(crate) scheme: Scheme,
    pub(crate) authority: Authority,
    pub(crate) pinned: Pinned,
    pub(crate) generation: u64,
    /// [`ClientIdentity::fingerprint`] of who we are there.
    pub(crate) identity: Option<[u8; 32]>,
}

/// By what tells most keys apart; the rest is for `Eq`.
impl Hash for Key {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.owner.hash(state);
        self.authority.hash(state);
    }
}

/// The kept connections of the broker and of all sessions.
pub(crate) struct Pool {
    slots: Mutex<HashMap<Key, Arc<Slot>>>,
    idle_time: Duration,
    idle_most: usize,
    idle_in_all: usize,
    handshake_time: Duration,
}

#[derive(Default)]
struct Slot {
    kept: Mutex<Kept>,
    /// Held while dialling a destination that may speak HTTP/2, where one connection serves all.
    dialling: AsyncMutex<()>,
}

/// Where a connection goes when its answer has been read to its end.
struct Home {
    slot: Weak<Slot>,
    /// As many are kept.
    most: usize,
}

#[derive(Default)]
struct Kept {
    http1: Vec<(Http1, Instant)>,
    /// Each with when it was opened: one, unless the destination takes no more requests over it.
    http2: Vec<(http2::Client, Instant)>,
    speaks_http1: bool,
    used: Option<Instant>,
    /// When and why dialling failed last: an answer for those who were waiting then.
    failed: Option<(Instant, Error)>,
}

/// What to open a connection with.
pub(crate) struct Means<'a> {
    pub(crate) dialer: &'a Dialer,
    pub(crate) roots: &'a Roots,
    pub(crate) identity: Option<&'a ClientIdentity>,
}

/// Which connection a request wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wanted {
    /// A kept one if there is one.
    Any,
    /// One that was opened since then, or is opened now: the kept one that was taken then turned out to be dead.
    Fresh(Instant),
    /// A new one that speaks HTTP/1.1 and is not shared, for an upgrade.
    Upgrade,
}

impl Pool {
    pub(crate) fn new(limits: &Limits) -> Self {
        Self {
            slots: Mutex::default(),
            idle_time: limits.pool_idle_time,
            idle_most: limits.pool_idle_per_destination,
            idle_in_all: limits.pool_idle,
            handshake_time: limits.handshake_time,
        }
    }

    /// A connection to the destination of `key`, ready for a request.
    pub(crate) async fn get(
        &self,
        key: &Key,
        wanted: Wanted,
        means: &Means<'_>,
    ) -> Result<Connection, Error> {
        if wanted == Wanted::Upgrade {
            let sender = Box::pin(open(key, Alpn::Http1, means, self.handshake_time)).await?;
            return Ok(Connection::unpooled(sender));
        }
        let slot = self.slot(key);
        if wanted == Wanted::Any
            && let Some(sender) = slot.take(self.idle_time)
        {
            return Ok(Connection::kept(sender, self.home(&slot)));
        }
        self.sweep();
        let asked = Instant::now();
        let alone = if slot.speaks_http1() { None } else { Some(slot.dialling.lock().await) };
        // Whoever dialled before us may have left something for us, or found that each needs one of their own.
        let _alone = alone.filter(|_| !slot.speaks_http1());
        let left = match wanted {
            Wanted::Fresh(then) => slot.take_since(then),
            Wanted::Any | Wanted::Upgrade => slot.take(self.idle_time),
        };
        if let Some(sender) = left {
            return Ok(Connection::kept(sender, self.home(&slot)));
        }
        if let Some(error) = slot.failed_since(asked) {
            return Err(error);
        }
        // Boxed: a kept connection is the common case, and need not carry room for a handshake.
        let opened = Box::pin(open(key, Alpn::Any, means, self.handshake_time)).await;
        slot.remember(&opened);
        Ok(Connection::new(opened?, self.home(&slot)))
    }

    fn home(&self, slot: &Arc<Slot>) -> Home {
        Home { slot: Arc::downgrade(slot), most: self.idle_most }
    }

    /// Closes what was kept for a session. Connections in use end with their requests.
    pub(crate) fn forget(&self, session: &str) {
        let is_its = |owner: &Owner| matches!(owner, Owner::Session(id) if **id == *session);
        self.slots.lock().retain(|key, _| !is_its(&key.owner));
    }

    /// Closes what has been idle for too long, and of more than may be kept the oldest. Called from time to time, and before
    /// another connection is opened.
    pub(crate) fn sweep(&self) {
        let idle_time = self.idle_time;
        let mut slots = self.slots.lock();
        slots.retain(|_, slot| {
            let mut kept = slot.kept.lock();
            kept.http1.retain_mut(|(http1, since)| http1.is_open() && since.elapsed() < idle_time);
            kept.close_spare();
            let fresh = kept.used.is_some_and(|used| used.elapsed() < idle_time);
            // Whoever holds the slot is about to use it.
            fresh || !kept.http1.is_empty() || Arc::strong_count(slot) > 1
        });
        let closed = close_oldest(&mut slots, self.idle_in_all);
        drop(slots);
        drop(closed);
    }

    /// Closes all that is idle, for want of descriptors.
    pub(crate) fn make_room(&self) {
        let closed = close_oldest(&mut self.slots.lock(), 0);
        drop(closed);
    }

    fn slot(&self, key: &Key) -> Arc<Slot> {
        let mut slots = self.slots.lock();
        match slots.get(key) {
            Some(slot) => Arc::clone(slot),
            None => Arc::clone(slots.entry(key.clone()).or_default()),
        }
    }
}

/// Takes the oldest idle connections away, to be closed, until `most` are left: those of owners that have more than
/// their share, or of all where there are more owners than that.
fn close_oldest(slots: &mut HashMap<Key, Arc<Slot>>, most: usize) -> Vec<Sender> {
    if slots.values().map(|slot| slot.kept.lock().count()).sum::<usize>() <= most {
        return Vec::new();
    }
    let mut idle: HashMap<Owner, Vec<Instant>> = HashMap::new();
    for (key, slot) in &*slots {
        let times = slot.kept.lock().times();
        if !times.is_empty() {
            idle.entry(key.owner.clone()).or_default().extend(times);
        }
    }
    let mut closed = Vec::new();
    let share = share(idle.values().map(Vec::len).collect(), most);
    if share == 0 {
        let last = last_beyond(idle.into_values().flatten().collect(), most);
        for slot in slots.values() {
            slot.kept.lock().take_until(last, &mut closed);
        }
    } else {
        idle.retain(|_, times| times.len() > share);
        let last: HashMap<_, _> =
            idle.into_iter().map(|(owner, times)| (owner, last_beyond(times, share))).collect();
        for (key, slot) in &*slots {
            if let Some(last) = last.get(&key.owner) {
                slot.kept.lock().take_until(*last, &mut closed);
            }
        }
    }
    // Of many names the slots alone would be much. Who has one, or will give a connection back to it, needs it yet.
    slots.retain(|_, slot| {
        let is_empty = slot.kept.lock().count() == 0;
        !is_empty || Arc::strong_count(slot) > 1 || Arc::weak_count(slot) > 0
    });
    closed
}

/// As many of each as come to no more than `most` together, where who has fewer keeps all.
fn share(mut counts: Vec<usize>, most: usize) -> usize {
    counts.sort_unstable();
    let (mut left, mut sharing) = (most, counts.len());
    for count in counts {
        if count > left / sharing {
            break;
        }
        left -= count;
        sharing -= 1;
    }
    left.checked_div(sharing).unwrap_or(most)
}

/// The latest of these times, of more than `kept`, that has to go.
fn last_beyond(mut times: Vec<Instant>, kept: usize) -> Instant {
    times.sort_unstable();
    times[times.len() - kept - 1]
}

impl Kept {
    /// How many connections it has.
    fn count(&self) -> usize {
        self.http1.len() + self.http2.len()
    }

    /// Since when each of its connections has been idle. One that requests share counts as used last.
    fn times(&self) -> Vec<Instant> {
        let shared = self.http2.iter().map(|(_, opened)| self.used.unwrap_or(*opened));
        self.http1.iter().map(|(_, since)| *since).chain(shared).collect()
    }

    /// Takes those away that were last used then or before.
    fn take_until(&mut self, last: Instant, taken: &mut Vec<Sender>) {
        let old = self.http1.extract_if(.., |(_, since)| *since <= last);
        taken.extend(old.map(|(http1, _)| Sender::Http1(http1)));
        let used = self.used;
        let old = self.http2.extract_if(.., |(_, opened)| used.unwrap_or(*opened) <= last);
        taken.extend(old.map(|(shared, _)| Sender::Http2(shared)));
    }

    /// Closes what is shared by nobody at present, but for one.
    fn close_spare(&mut self) {
        let mut is_spare = false;
        let mut is_kept = |open| open > 0 || !mem::replace(&mut is_spare, true);
        self.http2.retain(|(shared, _)| is_kept(shared.open_requests()));
    }

    /// One over which a request is taken, of those that were opened at `since` or later. Where there are as many as may
    /// be, any: where the fewest are, one waits.
    fn shared(&mut self, since: Option<Instant>) -> Option<Sender> {
        self.http2.retain(|(shared, _)| !shared.is_closed());
        // A destination that has not said it yet over one has over another.
        let said = self.http2.iter().rev().find_map(|(shared, _)| shared.most());
        let is_good = |opened: &Instant| since.is_none_or(|since| *opened >= since);
        let mut good = self.http2.iter().filter(|(_, opened)| is_good(opened));
        let found = good.find_map(|(shared, _)| shared.share(said.unwrap_or(usize::MAX)));
        let found = found.or_else(|| {
            let all = self.http2.iter().map(|(shared, _)| shared);
            let any = all.min_by_key(|shared| shared.open_requests());
            any.filter(|_| self.http2.len() >= MOST_SHARED).map(http2::Client::to_keep)
        });
        found.map(Sender::Http2)
    }
}

impl Home {
    /// Takes an HTTP/1.1 connection back whose answer has been read to its end.
    fn take_back(&self, http1: Http1) {
        // A session that has ended has no slots any more; then the connection closes here.
        if let Some(slot) = self.slot.upgrade().filter(|_| !http1.sender.is_closed()) {
            let mut kept = slot.kept.lock();
            let now = Instant::now();
            kept.used = Some(now);
            if kept.http1.len() < self.most {
                kept.http1.push((http1, now));
            }
        }
    }
}

impl Slot {
    /// The most recently used connection that is still alive.
    fn take(&self, idle_time: Duration) -> Option<Sender> {
        let (mut kept, now) = (self.kept.lock(), Instant::now());
        kept.used = Some(now);
        if let Some(shared) = kept.shared(None) {
            return Some(shared);
        }
        while let Some((mut http1, since)) = kept.http1.pop() {
            let idle = now.saturating_duration_since(since);
            // Whoever sends over one whose end has come notices, and takes another; this spares them most of such tries.
            let is_open = idle < JUST_NOW || http1.is_open();
            if is_open && http1.sender.is_ready() && idle < idle_time {
                return Some(Sender::Http1(http1));
            }
        }
        None
    }

    /// A shared connection that is no older than this.
    fn take_since(&self, then: Instant) -> Option<Sender> {
        self.kept.lock().shared(Some(then))
    }

    fn speaks_http1(&self) -> bool {
        self.kept.lock().speaks_http1
    }

    fn failed_since(&self, asked: Instant) -> Option<Error> {
        let kept = self.kept.lock();
        let (when, error) = kept.failed.as_ref()?;
        (*when >= asked).then(|| error.clone())
    }

    fn remember(&self, opened: &Result<Sender, Error>) {
        let mut kept = self.kept.lock();
        let now = Instant::now();
        kept.used = Some(now);
        match opened {
            Ok(Sender::Http1(_)) => kept.speaks_http1 = true,
            Ok(Sender::Http2(shared)) => {
                kept.speaks_http1 = false;
                kept.http2.push((shared.to_keep(), now));
            }
            Err(error) => kept.failed = Some((now, error.clone())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A fleet names its sessions itself.
    #[tokio::test]
    async fn no_name_of_a_session_makes_it_the_brokers() {
        let limits = Limits::default();
        let authority = Authority::parse("login.test:443").unwrap();
        let found = Authority::parse("127.0.0.1:443").unwrap();
        let dialer = Dialer::new([(authority.clone(), found)].into(), [], None, &limits);
        let pinned = dialer.pin(&authority).await.unwrap();
        let key = |owner| Key {
            owner,
            scheme: Scheme::Https,
            authority: authority.clone(),
            pinned: pinned.clone(),
            generation: 0,
            identity: None,
        };
        let pool = Pool::new(&limits);
        let (broker, oauth) = (Owner::Broker, Owner::Session("oauth".into()));
        let of_broker = pool.slot(&key(broker.clone()));
        assert!(!Arc::ptr_eq(&of_broker, &pool.slot(&key(oauth))));
        pool.forget("oauth");
        let left: Vec<_> = pool.slots.lock().keys().map(|key| key.owner.clone()).collect();
        assert_eq!(left, [broker]);
    }

    #[test]
    fn who_has_few_keeps_them() {
        for (counts, most, expected) in [
            (&[600][..], 512, 512),
            (&[600, 600], 512, 256),
            (&[600, 12], 512, 500),
            (&[1, 600, 1, 1], 512, 509),
            (&[300, 300, 12], 512, 250),
            (&[5, 5], 12, 12),
            (&[1, 1, 1], 2, 0),
            (&[7], 0, 0),
        ] {
            assert_eq!(share(counts.to_vec(), most), expected, "{counts:?}");
        }
    }
}
