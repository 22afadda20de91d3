//! One session as egress sees it: who, which placeholders, by which rules, through which broker.

use std::{collections::HashMap, sync::Arc};

use arc_swap::ArcSwap;
use data_encoding::{BASE32_NOPAD, BASE64};
use keyless_core::{Authority, Code, EgressRule, Error, Host, Placeholder, SecretPath};
use parking_lot::Mutex;
use subtle::ConstantTimeEq as _;
use tokio::sync::watch;
use zeroize::Zeroizing;

use crate::{
    ports::{Broker, Event, Finished, Incident, Kept},
    quota::{Allowance, Quota},
    reading::Reading,
    swap::SwapTable,
    tls::{self, CaKeys, CertificateAuthority},
};

/// What the daemon says when it opens a session.
pub struct SessionSpec {
    /// The session's name: letters, digits, `-` and `_`.
    pub id: String,
    /// The secrets that it may use.
    pub secrets: Vec<SessionSecret>,
    /// Its way to values and to the log.
    pub broker: Arc<dyn Broker>,
    /// The authority that its programs trust already; a fresh one when absent.
    pub ca: Option<Arc<CaKeys>>,
    /// What its programs were admitted by before; a fresh one when absent.
    pub token: Option<Zeroizing<String>>,
}

/// One secret of a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionSecret {
    /// Whose value is meant.
    pub path: SecretPath,
    /// What the agent holds in its stead.
    pub placeholder: Placeholder,
    /// Where the value may go.
    pub rule: EgressRule,
}

/// An open session: its placeholders, its certificate authority, its proxy credential.
pub struct Session {
    id: Arc<str>,
    token: Zeroizing<String>,
    table: ArcSwap<SwapTable>,
    secrets: Mutex<Secrets>,
    authority: CertificateAuthority,
    broker: Arc<dyn Broker>,
    life: watch::Sender<Life>,
    quota: ArcSwap<Quota>,
}

/// What a table is made of.
struct Secrets {
    given: Vec<SessionSecret>,
    /// The younger tokens in the room of older ones, by the secret that was given for it.
    younger: HashMap<SecretPath, (SecretPath, Placeholder)>,
}

impl Secrets {
    /// Each with the path that it was given under.
    fn now(&self) -> Vec<(SecretPath, SessionSecret)> {
        let now = self.given.iter().map(|given| {
            let mut now = given.clone();
            if let Some((path, placeholder)) = self.younger.get(&given.path) {
                (now.path, now.placeholder) = (path.clone(), placeholder.clone());
            }
            (given.path.clone(), now)
        });
        now.collect()
    }
}

/// How far a session has come.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Life {
    /// Why everything is refused, once it has ended.
    ended: Option<Code>,
    /// Why everything is refused for the time being.
    held: Option<Code>,
    /// Counts what may end things that are open: its end, a hold, other secrets, another reach.
    pub(crate) version: u64,
}

impl Session {
    /// Opens a session, with a fresh token and a fresh authority unless it brings them.
    pub(crate) fn open(
        spec: SessionSpec,
        allowance: Allowance,
        leaves: usize,
        reading: Reading,
    ) -> Result<Self, Error> {
        let authority = match &spec.ca {
            Some(keys) => CertificateAuthority::load(keys, leaves)?,
            None => CertificateAuthority::mint(leaves)?,
        };
        let token = match spec.token {
            Some(token) => token,
            None => Zeroizing::new(BASE32_NOPAD.encode(&tls::random::<20>()?).to_ascii_lowercase()),
        };
        let table = Arc::new(SwapTable::new(&spec.secrets, Arc::clone(&spec.broker), reading));
        Ok(Self {
            id: spec.id.into(),
            token,
            table: ArcSwap::new(table),
            secrets: Mutex::new(Secrets { given: spec.secrets, younger: HashMap::new() }),
            authority,
            broker: spec.broker,
            life: watch::Sender::new(Life::default()),
            quota: ArcSwap::from_pointee(Quota::of(allowance)),
        })
    }

    /// The session's name.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// The name, for those who keep it.
    pub(crate) fn shared_id(&self) -> Arc<str> {
        Arc::clone(&self.id)
    }

    /// The certificate of the session's authority, PEM: what its programs have to trust. It changes every day, unless it is
    /// one that is kept; an older one goes on for a day.
    pub fn ca_pem(&self) -> String {
        self.authority.pem()
    }

    /// `SESSION:TOKEN`, the user information of the session's proxy URL. It opens the proxy for
    /// this session's placeholders and nothing else.
    pub fn proxy_credential(&self) -> String {
        format!("{}:{}", self.id, self.token.as_str())
    }

    pub(crate) fn authority(&self) -> &CertificateAuthority {
        &self.authority
    }

    /// The secrets as they are now.
    pub(crate) fn table(&self) -> Arc<SwapTable> {
        self.table.load_full()
    }

    /// Whether some secret names this host, so that its TLS is intercepted.
    pub(crate) fn intercepts(&self, host: &Host) -> bool {
        self.table.load().names(host)
    }

    /// Whether some secret may be sent to exactly this host and port.
    pub(crate) fn is_destination(&self, authority: &Authority) -> bool {
        self.table.load().is_destination(authority)
    }

    pub(crate) fn knows_token(&self, token: &[u8]) -> bool {
        self.token.as_bytes().ct_eq(token).into()
    }

    pub(crate) fn check_open(&self) -> Result<(), Error> {
        let life = *self.life.borrow();
        life.ended.or(life.held).map_or(Ok(()), |why| Err(why.into()))
    }

    /// Resolves when the session has ended.
    pub(crate) async fn ended(&self) {
        // The sender lives in `self`, so waiting can't fail.
        let _ = self.life.subscribe().wait_for(|life| life.ended.is_some()).await;
    }

    /// Ends it; `why` is what is told of it from here on.
    pub(crate) fn end(&self, why: Code) {
        self.life.send_modify(|life| {
            life.ended = Some(why);
            life.version += 1;
        });
    }

    /// Refuses everything for this reason until it is held no more; what is open is cut.
    pub(crate) fn hold(&self, why: Option<Code>) {
        self.life.send_if_modified(|life| {
            let changes = life.held != why;
            if changes {
                life.held = why;
                life.version += 1;
            }
            changes
        });
    }

    /// Something changed by which open connections have to be judged again.
    pub(crate) fn note_change(&self) {
        self.life.send_modify(|life| life.version += 1);
    }

    pub(crate) fn version(&self) -> u64 {
        self.life.borrow().version
    }

    pub(crate) fn changes(&self) -> watch::Receiver<Life> {
        self.life.subscribe()
    }

    /// Takes up these secrets; whether one is gone, or names a host less.
    pub(crate) fn replace_secrets(&self, secrets: &[SessionSecret]) -> bool {
        let mut all = self.secrets.lock();
        all.given = secrets.to_vec();
        let before = self.table();
        let table = before.renewed(all.now());
        let withdrawn = !table.keeps_all(&before);
        self.table.store(Arc::new(table));
        drop(all);
        self.note_change();
        withdrawn
    }

    /// Takes up a minted token; gives its placeholder. Nothing that is open ends by it: hosts and rules stay as they are.
    pub(crate) fn put_in(&self, kept: &Kept) -> Result<Placeholder, Error> {
        let placeholder = |table: &SwapTable| {
            table.secret_at(kept.path()).map(|secret| secret.placeholder.clone())
        };
        if let Some(known) = placeholder(&self.table()) {
            return Ok(known);
        }
        let mut all = self.secrets.lock();
        if let Some(younger) = &kept.younger {
            all.younger.insert(kept.slot.clone(), younger.clone());
            let table = self.table().renewed(all.now());
            self.table.store(Arc::new(table));
        }
        placeholder(&self.table()).ok_or_else(|| Code::Internal.into())
    }

    pub(crate) fn quota(&self) -> arc_swap::Guard<Arc<Quota>> {
        self.quota.load()
    }

    /// Begins anew with another allowance.
    pub(crate) fn set_allowance(&self, allowance: Allowance) {
        self.quota.store(Arc::new(Quota::of(allowance)));
    }

    pub(crate) fn incident(&self, incident: Incident) {
        self.broker.incident(incident);
    }

    pub(crate) fn finished(&self, finished: Finished) {
        self.broker.finished(finished);
    }

    pub(crate) fn check_log(&self) -> Result<(), Error> {
        self.broker.check()
    }

    pub(crate) fn record(&self, event: Event) -> Result<(), Error> {
        self.broker.record(event)
    }
}

/// Reads `Basic base64(SESSION:TOKEN)`.
pub(crate) fn parse_credential(value: &[u8]) -> Option<(String, Vec<u8>)> {
    let (scheme, encoded) = value.split_at_checked(6)?;
    if !scheme.eq_ignore_ascii_case(b"basic ") {
        return None;
    }
    let decoded = BASE64.decode(encoded.trim_ascii()).ok()?;
    let colon = decoded.iter().position(|byte| *byte == b':')?;
    let session = str::from_utf8(&decoded[..colon]).ok()?.to_owned();
    Some((session, decoded[colon + 1..].to_vec()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn credentials_are_read_strictly() {
        let read = |value: &str| parse_credential(value.as_bytes());
        assert_eq!(read("bAsIc czp0OjE="), Some(("s".to_owned(), b"t:1".to_vec())));
        for bad in ["", "Basic", "Bearer czp0", "Basic czp0!", "Basic cw=="] {
            assert_eq!(read(bad), None, "{bad}");
        }
    }
}
