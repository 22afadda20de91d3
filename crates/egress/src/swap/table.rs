//! One session's placeholders as patterns, the rules behind them, and what follows from the rules
//! for one route. Built once per session and shared by all its requests.

use std::{
    collections::HashMap,
    sync::{Arc, PoisonError, RwLock},
};

use keyless_core::{Authority, EgressUse, Host, Location, Scheme, Verdict, decide_egress};
use keyless_rewrite::{PatternId, PatternSet};
use zeroize::Zeroizing;

use super::{
    Route,
    escape::{Escape, Spelling, is_unreserved},
};
use crate::{ports::Broker, scrub::ReleasedValues, session::SessionSecret};

/// Facts are kept for this many routes at most; one session rarely meets so many.
const MAX_REMEMBERED: usize = 4096;

/// Everything that swap and scrub share in one session.
pub(crate) struct SwapTable {
    secrets: Vec<SessionSecret>,
    patterns: PatternSet,
    spellings: Vec<PlaceholderSpelling>,
    folded: PatternSet,
    broker: Arc<dyn Broker>,
    released: ReleasedValues,
    named: RwLock<HashMap<Host, bool>>,
    facts: RwLock<HashMap<(Scheme, Authority), Facts>>,
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
#[derive(Clone, Debug)]
pub(super) struct Facts {
    /// Some secret names the host.
    pub(super) named: bool,
    /// What can happen to placeholders in a body.
    pub(super) body: BodyInterest,
    /// The secrets whose values may be put into a body.
    pub(super) swappable: Arc<[usize]>,
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
    pub(crate) fn new(secrets: &[SessionSecret], broker: Arc<dyn Broker>) -> Self {
        let spellings: Vec<_> = (secrets.iter().enumerate())
            .flat_map(|(index, secret)| spelled(index, secret.placeholder.as_str()))
            .collect();
        let folded = spellings.iter().map(|spelling| spelling.text.to_ascii_lowercase());
        Self {
            patterns: PatternSet::new(spellings.iter().map(|spelling| &spelling.text)),
            folded: PatternSet::new(folded),
            secrets: secrets.to_vec(),
            spellings,
            broker,
            released: ReleasedValues::default(),
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

    /// The values that went out so far, by authority.
    pub(crate) fn released(&self) -> &ReleasedValues {
        &self.released
    }

    pub(super) fn facts(&self, route: &Route<'_>) -> Facts {
        let key = (route.scheme, route.authority.clone());
        remembered(&self.facts, &key, |(scheme, authority)| {
            let interest = |secret: &usize| self.interest(*secret, *scheme, authority);
            let all = || 0..self.secrets.len();
            Facts {
                named: self.names(&authority.host),
                body: all().map(|secret| interest(&secret)).max().unwrap_or(BodyInterest::None),
                swappable: all().filter(|one| interest(one) == BodyInterest::Swap).collect(),
            }
        })
    }

    pub(super) fn secret(&self, index: usize) -> &SessionSecret {
        &self.secrets[index]
    }

    pub(super) fn broker(&self) -> &Arc<dyn Broker> {
        &self.broker
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

    /// Decides one use.
    pub(super) fn decide(
        &self,
        secret: usize,
        (scheme, authority): (Scheme, &Authority),
        location: Location,
        occurrence: u32,
    ) -> Verdict {
        let SessionSecret { path, rule, .. } = &self.secrets[secret];
        decide_egress(&EgressUse { path, rule, scheme, authority, location, occurrence })
    }

    fn interest(&self, secret: usize, scheme: Scheme, authority: &Authority) -> BodyInterest {
        match self.decide(secret, (scheme, authority), Location::Body, 1) {
            Verdict::Allow(_) => BodyInterest::Swap,
            Verdict::Deny(_) => BodyInterest::Refuse,
            Verdict::Pass => BodyInterest::None,
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
    if let Some(known) = memory.read().unwrap_or_else(PoisonError::into_inner).get(key) {
        return known.clone();
    }
    let value = work_out(key);
    let mut memory = memory.write().unwrap_or_else(PoisonError::into_inner);
    if memory.len() >= MAX_REMEMBERED {
        memory.clear();
    }
    memory.insert(key.clone(), value.clone());
    value
}
