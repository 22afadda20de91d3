//! What one request has asked for so far: how often each secret, where, and with which verdict.
//! From here the uses go to the broker, and its values come back.

use std::sync::Arc;

use keyless_core::{
    Allowed, Authority, By, Code, Consent, Error, Held, Location, RequestFacts, SafeText, Scheme,
    Signer, Verdict,
};

use super::{member::Watch, said::Unseen, table::SwapTable};
use crate::{
    ports::{Released, RequestInfo},
    session::SessionSecret,
};

const NAMES_METHOD: &str = "a member `_method` of its body, which is JSON of more than 256 KiB or tells no length, may name another method; leave it away, or have a rule allow every method there (`*`)";

/// The verdicts of one request.
pub(super) struct Ledger {
    table: Arc<SwapTable>,
    scheme: Scheme,
    info: RequestInfo,
    /// What rules about requests look at.
    request: RequestFacts,
    /// How often each secret was asked for; as a rule there is one.
    counts: Vec<(usize, u32)>,
    /// The first allowed use of each secret; the others follow from it.
    uses: Vec<(usize, Allowed)>,
    /// Uses that wait for the operator's word.
    held: Vec<(usize, Held)>,
    /// What the operator has agreed to for this request.
    consents: Vec<(usize, Consent)>,
    /// The secrets that are used for it.
    used: Vec<usize>,
    /// Looks for another method in a body that was not looked into.
    watch: Option<Watch>,
    /// The body may name another method.
    names_method: bool,
}

/// What becomes of one placeholder that was not refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    /// It stays as it is.
    Left,
    /// The value takes its place.
    Swapped,
}

/// Values that were released for one request, which go where it goes.
pub(super) struct Values {
    authority: Authority,
    /// By index of the secret.
    released: Vec<(usize, Arc<Released>)>,
}

impl Ledger {
    pub(super) fn new(
        table: &Arc<SwapTable>,
        scheme: Scheme,
        info: RequestInfo,
        request: RequestFacts,
    ) -> Self {
        Self {
            table: Arc::clone(table),
            scheme,
            info,
            request,
            counts: Vec::new(),
            uses: Vec::new(),
            held: Vec::new(),
            consents: Vec::new(),
            used: Vec::new(),
            watch: None,
            names_method: false,
        }
    }

    /// Has the body watched for what was not seen of it.
    pub(super) fn watch_method(&mut self, unseen: Unseen) {
        self.watch = (unseen == Unseen::Method).then(Watch::default);
    }

    /// Looks through the next piece of the body, before anything of it leaves.
    pub(super) fn look(&mut self, chunk: &[u8]) -> Result<(), Error> {
        if self.watch.as_mut().is_some_and(|watch| watch.sees(chunk)) {
            self.names_method = true;
        }
        self.refuse_method()
    }

    /// Refuses a request whose body names another method that the rules of a secret that is used mind.
    fn refuse_method(&self) -> Result<(), Error> {
        let minds = |secret: &&usize| {
            let rule = &self.table.secret(**secret).rule;
            rule.minds_method(&self.info.authority, &self.request)
        };
        let minding = if self.names_method { self.used.iter().find(minds) } else { None };
        minding.map_or(Ok(()), |secret| {
            Err(self.refusal(Code::RuleDenied, *secret, None, NAMES_METHOD))
        })
    }

    pub(super) fn table(&self) -> &Arc<SwapTable> {
        &self.table
    }

    /// Takes one more occurrence of a secret's placeholder into account.
    pub(super) fn judge(&mut self, secret: usize, location: Location) -> Result<Fate, Error> {
        let by = By::Placeholder { location, occurrence: self.count(secret) };
        match self.verdict(secret, by) {
            Verdict::Deny(code, why) => Err(self.refusal(code, secret, Some(location), why)),
            Verdict::Pass => Ok(Fate::Left),
            verdict => {
                self.take(secret, Some(location), verdict);
                self.refuse_method()?;
                Ok(Fate::Swapped)
            }
        }
    }

    /// Counts one more occurrence of a secret's placeholder; how many there are now.
    fn count(&mut self, secret: usize) -> u32 {
        let counted = self.counts.iter_mut().find(|(counted, _)| *counted == secret);
        let Some((_, count)) = counted else {
            self.counts.push((secret, 1));
            return 1;
        };
        *count = count.saturating_add(1);
        *count
    }

    /// Refuses a placeholder that is written with escapes, unless it is foreign here.
    pub(super) fn refuse_hidden(&self, secret: usize, location: Location) -> Result<(), Error> {
        let by = By::Placeholder { location, occurrence: 1 };
        let (code, why) = match self.verdict(secret, by) {
            Verdict::Pass => return Ok(()),
            Verdict::Allow(_) | Verdict::Ask(_) => (Code::PlaceholderEscaped, ""),
            Verdict::Deny(code, why) => (code, why),
        };
        Err(self.refusal(code, secret, Some(location), why))
    }

    /// Judges the secrets that the proxy would set in the same place, and takes the first that may
    /// be used for this request, or else the first that may be asked for. What authenticates a
    /// connection has no place in the request.
    pub(super) fn choose(
        &mut self,
        secrets: &[usize],
        location: impl Into<Option<Location>>,
    ) -> Result<Option<usize>, Error> {
        let location = location.into();
        let mut held = None;
        let mut refusal = None;
        for secret in secrets {
            match self.verdict(*secret, By::Proxy) {
                verdict @ Verdict::Allow(_) => {
                    self.take(*secret, location, verdict);
                    return Ok(Some(*secret));
                }
                verdict @ Verdict::Ask(_) if held.is_none() => held = Some((*secret, verdict)),
                Verdict::Deny(code, why) if refusal.is_none() => {
                    refusal = Some(self.refusal(code, *secret, None, why));
                }
                _ => {}
            }
        }
        match (held, refusal) {
            (Some((secret, verdict)), _) => {
                self.take(secret, location, verdict);
                Ok(Some(secret))
            }
            (None, Some(refusal)) => Err(refusal),
            (None, None) => Ok(None),
        }
    }

    fn verdict(&self, secret: usize, by: By) -> Verdict {
        self.table.decide(secret, (self.scheme, &self.info.authority), by, &self.request)
    }

    /// Notes a use that was allowed, or waits for the operator's word.
    fn take(&mut self, secret: usize, location: Option<Location>, verdict: Verdict) {
        if !self.used.contains(&secret) {
            self.used.push(secret);
        }
        match verdict {
            Verdict::Allow(allowed) => note(&mut self.uses, secret, allowed),
            Verdict::Ask(held) => note(&mut self.held, secret, held),
            Verdict::Deny(..) | Verdict::Pass => {}
        }
        if let Some(location) = location
            && !self.info.locations.contains(&location)
        {
            self.info.locations.push(location);
        }
    }

    /// Holds the request until the operator has agreed to what waits for them.
    async fn ask(&mut self) -> Result<(), Error> {
        for (secret, held) in core::mem::take(&mut self.held) {
            if self.consents.iter().all(|(agreed, _)| *agreed != secret) {
                let consent = self.table.broker().ask(&self.info, &held).await?;
                self.consents.push((secret, consent));
            }
            let consent = self.consents.iter().find(|(agreed, _)| *agreed == secret);
            let (_, consent) = consent.ok_or(Code::Internal)?;
            note(&mut self.uses, secret, held.with_consent(consent)?);
        }
        Ok(())
    }

    /// What it has before anything was released.
    pub(super) fn no_values(&self) -> Values {
        Values { authority: self.info.authority.clone(), released: Vec::new() }
    }

    /// Asks the broker for everything that was allowed since the last time.
    pub(super) async fn release(&mut self) -> Result<Values, Error> {
        self.ask().await?;
        if self.uses.is_empty() {
            return Ok(self.no_values());
        }
        let (secrets, uses) =
            core::mem::take(&mut self.uses).into_iter().unzip::<_, _, Vec<_>, _>();
        let authority = &self.info.authority;
        let words = |secret: &usize| {
            let rule = &self.table.secret(*secret).rule;
            rule.deciding_words(self.scheme, authority, &self.request)
        };
        self.info.rules = secrets.iter().map(words).collect();
        let released = self.table.broker().release(&self.info, uses).await?;
        self.info.locations.clear();
        let paths = secrets.iter().map(|secret| &self.table.secret(*secret).path);
        if !paths.eq(released.iter().map(|released| released.path())) {
            return Err(Error::with(Code::Internal, "the broker released something else".into()));
        }
        let released = secrets.into_iter().zip(released).collect();
        let values = Values { released, ..self.no_values() };
        for (secret, _) in &values.released {
            let SessionSecret { path, placeholder, rule } = self.table.secret(*secret);
            // It takes part in a handshake, and no upstream could send it back.
            if rule.sign.as_ref().is_some_and(Signer::is_tls) {
                continue;
            }
            let value = values.open(*secret)?;
            self.table.released().remember(path, placeholder, value);
        }
        Ok(values)
    }

    /// Says which secret, where it would have stood and why not.
    fn refusal(
        &self,
        code: Code,
        secret: usize,
        location: Option<Location>,
        why: &'static str,
    ) -> Error {
        let SessionSecret { path, rule, .. } = self.table.secret(secret);
        let detail = match location {
            Some(place) => {
                SafeText::words("the placeholder of ").and(path).and(" in the ").and(place)
            }
            None => SafeText::default().and(path),
        };
        let detail = detail.and(" toward ").and(&self.info.authority);
        let why = match code {
            Code::LocationNotAllowed if rule.inject.is_some() => {
                "the proxy sets it itself, so leave it away"
            }
            Code::LocationNotAllowed if rule.sign.is_some() => {
                "it is a key to sign with, and stands in no request"
            }
            _ => why,
        };
        let detail = match (code, rule.max_occurrences) {
            (Code::TooManyOccurrences, Some(most)) => {
                detail.and(": at most ").and(most).and(" in one request")
            }
            _ if why.is_empty() => detail,
            _ => detail.and(": ").and(why),
        };
        Error::with(code, detail).about(path)
    }
}

/// Keeps the first verdict about a secret; the others follow from it.
fn note<T>(verdicts: &mut Vec<(usize, T)>, secret: usize, verdict: T) {
    if verdicts.iter().all(|(known, _)| *known != secret) {
        verdicts.push((secret, verdict));
    }
}

impl Values {
    /// Opens a value while its permit lasts.
    pub(super) fn open(&self, secret: usize) -> Result<&[u8], Error> {
        let of = self.released.iter().find(|(index, _)| *index == secret);
        let (_, released) = of.ok_or(Code::Internal)?;
        released.open_toward(&self.authority)
    }

    /// A value with its permit, to be opened later.
    pub(super) fn kept(&self, secret: usize) -> Result<Arc<Released>, Error> {
        let of = self.released.iter().find(|(index, _)| *index == secret);
        of.map(|(_, released)| Arc::clone(released)).ok_or_else(|| Code::Internal.into())
    }

    /// Whether the value was released and may still be opened.
    pub(super) fn has(&self, secret: usize) -> bool {
        self.open(secret).is_ok()
    }

    /// Takes over newer releases.
    pub(super) fn renew(&mut self, newer: Self) {
        let is_old = |index| newer.released.iter().all(|(other, _)| *other != index);
        self.released.retain(|(index, _)| is_old(*index));
        self.released.extend(newer.released);
    }
}
