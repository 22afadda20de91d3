//! One session's placeholders as patterns, the rules behind them, and what follows from the rules
//! for one route. Built once per session and shared by all its requests.

use std::{collections::HashMap, sync::Arc};

use keyless_core::{
    Authority, By, Code, EgressUse, Host, Location, PlaceVerdict, RequestFacts, Scheme, Sealing,
    SecretPath, Signer, Verdict, decide_egress, judge_place,
};
use keyless_rewrite::{PatternId, PatternSet};
use parking_lot::RwLock;
use zeroize::Zeroizing;

use super::{
    Route,
    escape::{Escape, Spelling, is_unreserved},
    find::contains,
};
use crate::{ports::Broker, reading::Reading, scrub::ReleasedValues, session::SessionSecret};

/// Facts are kept for this many routes at most; one session rarely meets so many.
const MAX_REMEMBERED: usize = 4096;

/// Everything that swap and scrub share in one session.
pub(crate) struct SwapTable {
    /// Those in force, then those that were withdrawn: their placeholders stay known, so that who
    /// sends one is told why it does not work.
    secrets: Vec<SessionSecret>,
    /// The paths that those in force were given under: a younger token has another one of its own.
    given: Vec<SecretPath>,
    in_force: usize,
    patterns: PatternSet,
    spellings: Vec<PlaceholderSpelling>,
    folded: PatternSet,
    broker: Arc<dyn Broker>,
    reading: Reading,
    has_grants: bool,
    has_seals: bool,
    has_client_keys: bool,
    released: ReleasedValues,
    named: RwLock<HashMap<Host, bool>>,
    facts: RwLock<HashMap<(Scheme, Authority), Arc<Facts>>>,
}

/// One way in which a placeholder may stand in bytes.
#[derive(Debug)]
pub(super) struct PlaceholderSpelling {
    /// Index of the secret.
    pub(super) secret: usize,
    /// How the value is to be spelled there.
    pub(super) spelling: Spelling,
    /// The bytes as they stand there.
    pub(super) text: String,
}

/// What the rules of all secrets together mean for one route.
#[derive(Debug)]
pub(super) struct Facts {
    /// Some secret names the host.
    pub(super) named: bool,
    /// What can happen to placeholders in a body.
    pub(super) body: BodyInterest,
    /// The secrets whose values may be put into a body.
    pub(super) swappable: Arc<[usize]>,
    /// The secrets that the proxy sets itself.
    pub(super) injected: Arc<[usize]>,
    /// The secrets that the proxy signs with.
    pub(super) signers: Arc<[usize]>,
    /// The secrets that are keys of client certificates.
    pub(super) client_keys: Arc<[usize]>,
    /// The secrets with rules about requests.
    pub(super) ruled: Arc<[usize]>,
}

/// What can happen to placeholders in a body on one route.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum BodyInterest {
    /// Nothing: it need not be looked at.
    None,
    /// They can only be refused, so that the length stays.
    Refuse,
    /// They may be swapped.
    Swap,
}

impl SwapTable {
    /// The table of a session with these secrets.
    pub(crate) fn new(
        secrets: &[SessionSecret],
        broker: Arc<dyn Broker>,
        reading: Reading,
    ) -> Self {
        let given = secrets.iter().map(|secret| secret.path.clone()).collect();
        Self::build(secrets.to_vec(), given, broker, reading, ReleasedValues::default())
    }

    /// The table of the same session with other secrets, each with the path that it was given under. What was sent out
    /// so far is scrubbed on.
    pub(crate) fn renewed(&self, secrets: Vec<(SecretPath, SessionSecret)>) -> Self {
        let (given, mut all): (Vec<_>, Vec<_>) = secrets.into_iter().unzip();
        // A token whose room a younger one has is forgotten, or a long session would remember all.
        let made_room = |index: usize, old: &SessionSecret| {
            let given_as = self.given.get(index).unwrap_or(&old.path);
            let place = given.iter().position(|path| path == given_as);
            place.is_some_and(|place| all[place].path != *given_as)
        };
        let is_gone = |(index, old): &(usize, &SessionSecret)| {
            all.iter().all(|secret| secret.placeholder != old.placeholder)
                && !made_room(*index, old)
        };
        let gone: Vec<_> =
            self.secrets.iter().enumerate().filter(is_gone).map(|(_, old)| old.clone()).collect();
        all.extend(gone);
        let (broker, reading) = (Arc::clone(&self.broker), self.reading.clone());
        Self::build(all, given, broker, reading, self.released.clone())
    }

    fn build(
        secrets: Vec<SessionSecret>,
        given: Vec<SecretPath>,
        broker: Arc<dyn Broker>,
        reading: Reading,
        released: ReleasedValues,
    ) -> Self {
        let in_force = given.len();
        let spellings: Vec<_> = (secrets.iter().enumerate())
            .flat_map(|(index, secret)| spelled(index, secret.placeholder.as_str()))
            .collect();
        let folded = spellings.iter().map(|spelling| spelling.text.to_ascii_lowercase());
        Self {
            patterns: PatternSet::new(spellings.iter().map(|spelling| &spelling.text)),
            folded: PatternSet::new(folded),
            has_grants: secrets.iter().any(|secret| secret.rule.oauth.is_some()),
            has_client_keys: secrets
                .iter()
                .any(|secret| matches!(secret.rule.sign, Some(Signer::TlsClient { .. }))),
            has_seals: secrets.iter().any(|secret| !secret.rule.seal.is_empty()),
            secrets,
            given,
            in_force,
            spellings,
            broker,
            reading,
            released,
            named: RwLock::default(),
            facts: RwLock::default(),
        }
    }

    /// Whether some secret names this host, so that its TLS is intercepted.
    pub(crate) fn names(&self, host: &Host) -> bool {
        remembered(&self.named, host, |host| {
            self.secrets.iter().any(|secret| secret.rule.names(host))
        })
    }

    /// Whether some secret may be sent to exactly this host and port.
    pub(crate) fn is_destination(&self, authority: &Authority) -> bool {
        let mut destinations = self.in_force().iter().flat_map(|secret| &secret.rule.to);
        destinations.any(|to| to.names(&authority.host) && to.port() == authority.port)
    }

    /// Whether every secret that was in force toward `host` still is.
    pub(crate) fn keeps(&self, before: &Self, host: &Host) -> bool {
        let mut theirs = before.as_given().filter(|(_, old)| old.rule.names(host));
        theirs
            .all(|(path, _)| self.as_given().any(|(new, now)| new == path && now.rule.names(host)))
    }

    /// Whether every secret is still in force, toward every destination that it had.
    pub(crate) fn keeps_all(&self, before: &Self) -> bool {
        before.as_given().all(|(path, old)| {
            self.as_given().any(|(new, now)| {
                new == path && old.rule.to.iter().all(|to| now.rule.to.contains(to))
            })
        })
    }

    /// The secrets in force, each with the path that it was given under.
    fn as_given(&self) -> impl Iterator<Item = (&SecretPath, &SessionSecret)> {
        self.given.iter().zip(&self.secrets)
    }

    /// The secrets in force.
    pub(crate) fn in_force(&self) -> &[SessionSecret] {
        &self.secrets[..self.in_force]
    }

    /// Whether a placeholder is in `text`, in any case: a host's name has lost its own.
    pub(crate) fn is_in(&self, text: &[u8]) -> bool {
        contains(&self.folded, &text.to_ascii_lowercase())
    }

    /// The values that went out so far, by authority.
    pub(crate) fn released(&self) -> &ReleasedValues {
        &self.released
    }

    pub(super) fn facts(&self, route: &Route<'_>) -> Arc<Facts> {
        let key = (route.scheme, route.authority.clone());
        remembered(&self.facts, &key, |(scheme, authority)| {
            let interest = |secret: &usize| self.interest(*secret, *scheme, authority);
            let all = || 0..self.secrets.len();
            let covers = |secret: &usize| self.secrets[*secret].rule.covers(*scheme, authority);
            let injects = |secret: &usize| self.secrets[*secret].rule.inject.is_some();
            let signs = |secret: &usize| match &self.secrets[*secret].rule.sign {
                Some(Signer::Aws { .. }) => true,
                Some(Signer::Hmac(_)) => *secret < self.in_force,
                Some(Signer::TlsChain | Signer::TlsClient { .. }) | None => false,
            };
            let shakes = |secret: &usize| {
                matches!(self.secrets[*secret].rule.sign, Some(Signer::TlsClient { .. }))
            };
            let ruled = |secret: &usize| self.secrets[*secret].rule.has_request_rules();
            Arc::new(Facts {
                // One that was withdrawn is no more set; nobody asked for it by a placeholder.
                injected: (0..self.in_force).filter(covers).filter(injects).collect(),
                client_keys: (0..self.in_force).filter(covers).filter(shakes).collect(),
                signers: all().filter(covers).filter(signs).collect(),
                ruled: all().filter(covers).filter(ruled).collect(),
                named: self.names(&authority.host),
                body: all().map(|secret| interest(&secret)).max().unwrap_or(BodyInterest::None),
                swappable: all().filter(|one| interest(one) == BodyInterest::Swap).collect(),
            })
        })
    }

    pub(crate) fn secret(&self, index: usize) -> &SessionSecret {
        &self.secrets[index]
    }

    /// Whether some secret has the tokens of answers sealed.
    pub(crate) fn may_seal(&self) -> bool {
        self.has_seals
    }

    /// Whether some secret is the key of a client certificate.
    pub(crate) fn has_client_keys(&self) -> bool {
        self.has_client_keys
    }

    /// The secrets that have the tokens of answers to this request sealed: two clients of one provider may.
    pub(crate) fn sealing(&self, at: &Authority, request: &RequestFacts) -> Vec<usize> {
        self.sealing_where(|sealing| sealing.applies(at, request))
    }

    /// Those that would if it had another method.
    pub(crate) fn sealing_but_for_method(
        &self,
        at: &Authority,
        request: &RequestFacts,
    ) -> Vec<usize> {
        self.sealing_where(|sealing| sealing.applies_but_for_method(at, request))
    }

    fn sealing_where(&self, applies: impl Fn(&Sealing) -> bool) -> Vec<usize> {
        let seals = |secret: &usize| self.secrets[*secret].rule.seal.iter().any(&applies);
        (0..self.secrets.len()).filter(seals).collect()
    }

    /// The secrets whose access tokens may go there.
    pub(crate) fn granted(&self, scheme: Scheme, authority: &Authority) -> Vec<SecretPath> {
        let granted = |secret: &&SessionSecret| {
            secret.rule.oauth.is_some() && secret.rule.covers(scheme, authority)
        };
        self.secrets.iter().filter(granted).map(|secret| secret.path.clone()).collect()
    }

    /// Whether there are such.
    pub(crate) fn has_grant(&self, scheme: Scheme, authority: &Authority) -> bool {
        self.has_grants && !self.granted(scheme, authority).is_empty()
    }

    /// The secret of this path, if the session has it.
    pub(crate) fn secret_at(&self, path: &SecretPath) -> Option<&SessionSecret> {
        self.secrets.iter().find(|secret| secret.path == *path)
    }

    /// Its number, if it is in force.
    pub(super) fn number_of(&self, path: &SecretPath) -> Option<usize> {
        self.in_force().iter().position(|secret| secret.path == *path)
    }

    pub(crate) fn broker(&self) -> &Arc<dyn Broker> {
        &self.broker
    }

    /// Where the session's bodies are read that have to be whole.
    pub(crate) fn reading(&self) -> &Reading {
        &self.reading
    }

    pub(super) fn patterns(&self) -> &PatternSet {
        &self.patterns
    }

    /// Whether the value, spelled so, is as long as the placeholder, however that is spelled.
    pub(super) fn keeps_length(&self, secret: usize, value: &[u8], escape: Escape) -> bool {
        let spellings = self.spellings.iter().filter(|spelling| spelling.secret == secret);
        spellings.into_iter().all(|PlaceholderSpelling { spelling, text, .. }| {
            let mut spelled = Zeroizing::new(Vec::with_capacity(value.len() * 6));
            escape.for_spelling(*spelling).write(value, &mut spelled);
            spelled.len() == text.len()
        })
    }

    /// The same patterns in lower case, as `http` keeps header names.
    pub(super) fn folded(&self) -> &PatternSet {
        &self.folded
    }

    pub(super) fn spelling(&self, pattern: PatternId) -> &PlaceholderSpelling {
        &self.spellings[pattern.index()]
    }

    /// Whether `text` is one of the ways in which a placeholder may stand in bytes.
    pub(super) fn is_spelling(&self, text: &[u8]) -> bool {
        self.patterns.find(text, 0).is_some_and(|(range, _)| range == (0..text.len()))
    }

    /// Whether some secret's value may stand in this part of a message on `route`.
    pub(super) fn swaps(&self, location: Location, route: &Route<'_>) -> bool {
        let mut rules = self.in_force().iter().map(|secret| &secret.rule);
        rules.any(|rule| {
            rule.locations.contains(location) && rule.covers(route.scheme, route.authority)
        })
    }

    /// Decides one use.
    pub(super) fn decide(
        &self,
        secret: usize,
        (scheme, authority): (Scheme, &Authority),
        by: By,
        request: &RequestFacts,
    ) -> Verdict {
        let SessionSecret { path, rule, .. } = &self.secrets[secret];
        match decide_egress(&EgressUse { path, rule, scheme, authority, by, request }) {
            Verdict::Allow(_) | Verdict::Ask(_) if secret >= self.in_force => {
                Verdict::Deny(Code::SecretWithdrawn, "")
            }
            verdict => verdict,
        }
    }

    fn interest(&self, secret: usize, scheme: Scheme, authority: &Authority) -> BodyInterest {
        let by = By::Placeholder { location: Location::Body, occurrence: 1 };
        match judge_place(&self.secrets[secret].rule, scheme, authority, by) {
            PlaceVerdict::Fits => BodyInterest::Swap,
            PlaceVerdict::Deny(_) => BodyInterest::Refuse,
            PlaceVerdict::Pass => BodyInterest::None,
        }
    }
}

/// The placeholder as it is, and as form and URL encoders write it if that is something else
/// (`kloak%3A...`); no encoder touches letters, digits, `_` and `-`.
fn spelled(secret: usize, plain: &str) -> Vec<PlaceholderSpelling> {
    let percent = |hex: fn(u8) -> String| -> String {
        plain
            .bytes()
            .map(|byte| if is_unreserved(byte) { char::from(byte).to_string() } else { hex(byte) })
            .collect()
    };
    let plain = plain.to_owned();
    let mut all = vec![PlaceholderSpelling { secret, spelling: Spelling::AsTheBody, text: plain }];
    for text in [percent(|byte| format!("%{byte:02X}")), percent(|byte| format!("%{byte:02x}"))] {
        if all.iter().all(|other| other.text != text) {
            all.push(PlaceholderSpelling { secret, spelling: Spelling::Percent, text });
        }
    }
    all
}

/// Looks `key` up, or works it out and keeps it.
fn remembered<K: Clone + Eq + std::hash::Hash, V: Clone>(
    memory: &RwLock<HashMap<K, V>>,
    key: &K,
    work_out: impl FnOnce(&K) -> V,
) -> V {
    if let Some(known) = memory.read().get(key) {
        return known.clone();
    }
    let value = work_out(key);
    let mut memory = memory.write();
    if memory.len() >= MAX_REMEMBERED {
        memory.clear();
    }
    memory.insert(key.clone(), value.clone());
    value
}
