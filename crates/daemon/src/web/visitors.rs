//! Who is at the page: links that are good once, visits, and how long a proof holds.
//!
//! A visit has two halves. Its cookie goes with requests below its own path and nowhere else, and nobody but the
//! browser that opened the link knows that path: cookies don't tell ports apart, so a server on another
//! port of this machine, an agent's perhaps, would be sent a cookie for `/`. Such a server can also plant one: whoever
//! opened a link for themselves can have the operator's browser go on with that visit. A first proof makes another
//! visit of it, at a path of its own, so that a cookie that is worth something is sent to no path that others know.

use std::{collections::HashMap, sync::Arc, time::Duration};

use data_encoding::HEXLOWER;
use keyless_core::Error;
use keyless_vault::Moment;
use parking_lot::Mutex;
use subtle::ConstantTimeEq as _;

use super::passkeys::CHALLENGE_BYTES;
use crate::{broker::fill_random, operator::Proof};

/// How long a link is good for.
pub(super) const LINK_LIFE: Duration = Duration::from_mins(2);
/// How long a proof of the factor holds at most.
const PROOF_LIFE: Duration = Duration::from_hours(1);
/// How long it holds while nothing is done at the page.
const IDLE_LIFE: Duration = Duration::from_mins(15);
/// How long a passkey has for its answer, and the person to choose what it is for.
const CHALLENGE_LIFE: Duration = Duration::from_mins(5);
/// How long a visit lasts, proven or not.
const VISIT_LIFE: Duration = Duration::from_hours(12);
/// Links and visits at once; the oldest ones give way.
const MOST: usize = 8;

/// Links and visits.
#[derive(Default)]
pub(super) struct Visitors {
    links: Mutex<Vec<Link>>,
    visits: Mutex<HashMap<String, Arc<Visit>>>,
}

/// The party that was given a link. Either link opens the same: a visit that has proven nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Whose {
    /// An agent's client, to show it to a person.
    Agents,
    /// The operator, at a terminal.
    Operators,
}

struct Link {
    word: String,
    born: Moment,
    whose: Whose,
}

/// A browser that came by a link.
pub(super) struct Visit {
    /// The first segment of all its paths.
    pub(super) place: String,
    cookie: String,
    form: String,
    born: Moment,
    whose: Whose,
    /// Whether its place was told to nobody before the factor was proven.
    is_behind_a_proof: bool,
    state: Mutex<State>,
}

struct State {
    proven: Option<Moment>,
    last_act: Moment,
    notice: Option<String>,
    challenge: Option<([u8; CHALLENGE_BYTES], Moment)>,
}

/// A visit just opened, with the cookie that only its browser is told.
pub(super) struct Opened {
    pub(super) place: String,
    pub(super) cookie: String,
}

impl Visitors {
    /// A link that opens one visit.
    pub(super) fn new_link(&self, whose: Whose) -> Result<String, Error> {
        let (word, now) = (random_word()?, Moment::now());
        let mut links = self.links.lock();
        links.retain(|link| now.since(link.born) < LINK_LIFE);
        let same = |link: &Link| link.whose == whose;
        if links.iter().filter(|link| same(link)).count() >= MOST
            && let Some(oldest) = links.iter().position(same)
        {
            links.remove(oldest);
        }
        links.push(Link { word: word.clone(), born: now, whose });
        Ok(word)
    }

    /// Uses a link up; nothing when it is none, or none any more.
    pub(super) fn open(&self, word: &str) -> Result<Option<Opened>, Error> {
        let Some(whose) = self.take_link(word, Moment::now()) else { return Ok(None) };
        let visit = Visit::new(Moment::now(), whose)?;
        let opened = Opened { place: visit.place.clone(), cookie: visit.cookie.clone() };
        let mut visits = self.visits.lock();
        visits.retain(|_, visit| visit.born.elapsed() < VISIT_LIFE);
        // A visit that proved its factor is the operator's, by whatever link it came.
        let side = |visit: &Visit| if visit.is_proven() { Whose::Operators } else { visit.whose };
        while visits.values().filter(|visit| side(visit) == whose).count() >= MOST {
            // Those who never proved anything go first.
            let ours = visits.values().filter(|visit| side(visit) == whose);
            let oldest = ours.min_by_key(|visit| (visit.is_proven(), visit.born));
            let Some(place) = oldest.map(|visit| visit.place.clone()) else { break };
            visits.remove(&place);
        }
        visits.insert(visit.place.clone(), Arc::new(visit));
        Ok(Some(opened))
    }

    /// The visit at `place`, if `cookie` is its.
    pub(super) fn visit(&self, place: &str, cookie: &str) -> Option<Arc<Visit>> {
        let visit = self.visits.lock().get(place).cloned()?;
        let fits = same(&visit.cookie, cookie) && visit.born.elapsed() < VISIT_LIFE;
        fits.then_some(visit)
    }

    /// A proven visit in place of one whose factor was proven just now: its cookie and its form's word are new, and so
    /// is its place at the first proof, so that who knew the old ones has nothing. Nothing when that visit is over.
    pub(super) fn renew(&self, old: &Visit) -> Result<Option<Opened>, Error> {
        let fresh = Visit::new(Moment::now(), Whose::Operators)?;
        // A later proof leaves the operator's other tabs where they are.
        let place = if old.is_behind_a_proof { &old.place } else { &fresh.place }.clone();
        let visit = Visit { place, born: old.born, is_behind_a_proof: true, ..fresh };
        visit.prove();
        let opened = Opened { place: visit.place.clone(), cookie: visit.cookie.clone() };
        let mut visits = self.visits.lock();
        let is_there = visits.get(&old.place).is_some_and(|there| same(&there.cookie, &old.cookie));
        if !is_there {
            return Ok(None);
        }
        old.forget_proof();
        visits.remove(&old.place);
        visits.insert(visit.place.clone(), Arc::new(visit));
        Ok(Some(opened))
    }

    /// Ends a visit.
    pub(super) fn close(&self, visit: &Visit) {
        self.visits.lock().remove(&visit.place);
    }

    fn take_link(&self, word: &str, now: Moment) -> Option<Whose> {
        let mut links = self.links.lock();
        let found = links.iter().position(|link| same(&link.word, word))?;
        let link = links.remove(found);
        (now.since(link.born) < LINK_LIFE).then_some(link.whose)
    }
}

impl Visit {
    fn new(now: Moment, whose: Whose) -> Result<Self, Error> {
        let state = State { proven: None, last_act: now, notice: None, challenge: None };
        Ok(Self {
            place: random_word()?,
            cookie: random_word()?,
            form: random_word()?,
            born: now,
            whose,
            is_behind_a_proof: false,
            state: Mutex::new(state),
        })
    }

    /// What every form of this visit carries.
    pub(super) fn form_word(&self) -> &str {
        &self.form
    }

    /// Whether a form is from a page of this visit.
    pub(super) fn is_own_form(&self, word: &str) -> bool {
        same(&self.form, word)
    }

    /// The factor was proven.
    pub(super) fn prove(&self) {
        let now = Moment::now();
        let mut state = self.state.lock();
        (state.proven, state.last_act) = (Some(now), now);
    }

    /// Gives the proof up.
    pub(super) fn forget_proof(&self) {
        self.state.lock().proven = None;
    }

    /// A person did something.
    pub(super) fn act(&self) {
        self.state.lock().last_act = Moment::now();
    }

    /// Whether the factor was proven and that still holds.
    pub(super) fn is_proven(&self) -> bool {
        self.state.lock().holds(Moment::now())
    }

    /// Whether the factor has to be proven now for what takes this proof.
    pub(super) fn owes(&self, proof: Proof) -> bool {
        let state = self.state.lock();
        let now = Moment::now();
        let Some(then) = state.proven.filter(|_| state.holds(now)) else { return true };
        proof.is_due(now.since(then))
    }

    /// Something for a passkey to sign; the one before is void.
    pub(super) fn new_challenge(&self) -> Result<[u8; CHALLENGE_BYTES], Error> {
        let mut challenge = [0; CHALLENGE_BYTES];
        fill_random(&mut challenge)?;
        self.state.lock().challenge = Some((challenge, Moment::now()));
        Ok(challenge)
    }

    /// What a passkey was given to sign; each is good for one try.
    pub(super) fn take_challenge(&self) -> Option<[u8; CHALLENGE_BYTES]> {
        let (challenge, born) = self.state.lock().challenge.take()?;
        (born.elapsed() < CHALLENGE_LIFE).then_some(challenge)
    }

    /// Leaves a line for the next page.
    pub(super) fn leave(&self, notice: String) {
        self.state.lock().notice = Some(notice);
    }

    /// Takes the line that was left.
    pub(super) fn take_notice(&self) -> Option<String> {
        self.state.lock().notice.take()
    }
}

impl State {
    fn holds(&self, now: Moment) -> bool {
        self.proven.is_some_and(|then| now.since(then) < PROOF_LIFE)
            && now.since(self.last_act) < IDLE_LIFE
    }
}

/// 128 bits, in hexadecimal.
fn random_word() -> Result<String, Error> {
    let mut bytes = [0; 16];
    fill_random(&mut bytes)?;
    Ok(HEXLOWER.encode(&bytes))
}

fn same(ours: &str, theirs: &str) -> bool {
    ours.as_bytes().ct_eq(theirs.as_bytes()).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_opens_one_visit() {
        let visitors = Visitors::default();
        let link = visitors.new_link(Whose::Operators).unwrap();
        let opened = visitors.open(&link).unwrap().unwrap();
        assert!(visitors.open(&link).unwrap().is_none() && visitors.open("x").unwrap().is_none());
        assert!(visitors.visit(&opened.place, &opened.cookie).is_some());
        assert!(visitors.visit(&opened.place, &opened.place).is_none());
        assert!(visitors.visit(&opened.cookie, &opened.cookie).is_none());
    }

    #[test]
    fn a_link_is_good_for_a_while() {
        let visitors = Visitors::default();
        let link = visitors.new_link(Whose::Operators).unwrap();
        let late = Moment::now() + LINK_LIFE;
        assert!(visitors.take_link(&link, late).is_none());
        let links: Vec<_> =
            (0..=MOST).map(|_| visitors.new_link(Whose::Operators).unwrap()).collect();
        assert!(visitors.take_link(&links[0], Moment::now()).is_none());
        assert!(visitors.take_link(&links[MOST], Moment::now()).is_some());
    }

    #[test]
    fn a_proof_ends_by_age_and_by_idleness() {
        let now = Moment::now();
        let state = |last_act| State { proven: Some(now), last_act, notice: None, challenge: None };
        assert!(state(now + Duration::from_secs(1)).holds(now + IDLE_LIFE));
        assert!(!state(now).holds(now + IDLE_LIFE));
        assert!(!state(now + PROOF_LIFE).holds(now + PROOF_LIFE));
    }

    #[test]
    fn who_proved_nothing_gives_way() {
        let visitors = Visitors::default();
        let open =
            || visitors.open(&visitors.new_link(Whose::Operators).unwrap()).unwrap().unwrap();
        let first = open();
        visitors.visit(&first.place, &first.cookie).unwrap().prove();
        (0..MOST * 2).for_each(|_| drop(open()));
        assert!(visitors.visit(&first.place, &first.cookie).is_some());
    }

    /// An agent that asks for links without end, and opens them, keeps the operator out of nothing.
    #[test]
    fn agents_links_crowd_out_none_of_the_operators() {
        let visitors = Visitors::default();
        let waiting = visitors.new_link(Whose::Operators).unwrap();
        let open = |whose| visitors.open(&visitors.new_link(whose).unwrap()).unwrap().unwrap();
        let own = open(Whose::Operators);
        let agents: Vec<_> = (0..MOST * 2).map(|_| open(Whose::Agents)).collect();
        (0..MOST * 2).for_each(|_| drop(visitors.new_link(Whose::Agents).unwrap()));
        assert!(visitors.visit(&own.place, &own.cookie).is_some());
        let opened = visitors.open(&waiting).unwrap().unwrap();
        assert!(visitors.visit(&opened.place, &opened.cookie).is_some());
        assert!(visitors.visit(&agents[0].place, &agents[0].cookie).is_none(), "the oldest went");
    }
}
