//! One session as egress sees it: who, which placeholders, by which rules, through which broker.

use std::sync::Arc;

use data_encoding::{BASE32_NOPAD, BASE64};
use keyless_core::{Authority, Code, EgressRule, Error, Host, Placeholder, SecretPath};
use subtle::ConstantTimeEq as _;
use tokio::sync::watch;

use crate::{
    ports::{Broker, Event},
    swap::SwapTable,
    tls::{self, CertificateAuthority},
};

/// What the daemon says when it opens a session.
pub struct SessionSpec {
    /// The session's name: letters, digits, `-` and `_`.
    pub id: String,
    /// The secrets that it may use.
    pub secrets: Vec<SessionSecret>,
    /// Its way to values and to the log.
    pub broker: Arc<dyn Broker>,
}

/// One secret of a session.
#[derive(Clone, Debug)]
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
    token: String,
    rules: Vec<EgressRule>,
    table: Arc<SwapTable>,
    authority: CertificateAuthority,
    broker: Arc<dyn Broker>,
    ended: watch::Sender<bool>,
}

impl Session {
    /// Opens a session with a fresh authority and a fresh token.
    pub(crate) fn open(spec: SessionSpec, leaves: usize) -> Result<Self, Error> {
        let authority = CertificateAuthority::mint(leaves)?;
        let table = Arc::new(SwapTable::new(&spec.secrets, Arc::clone(&spec.broker)));
        Ok(Self {
            id: spec.id.into(),
            token: BASE32_NOPAD.encode(&tls::random::<20>()?).to_ascii_lowercase(),
            rules: spec.secrets.into_iter().map(|secret| secret.rule).collect(),
            table,
            authority,
            broker: spec.broker,
            ended: watch::Sender::new(false),
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

    /// The certificate of the session's authority: what its programs have to trust.
    pub fn ca_pem(&self) -> &str {
        self.authority.pem()
    }

    /// `SESSION:TOKEN`, the user information of the session's proxy URL. It opens the proxy for
    /// this session's placeholders and nothing else.
    pub fn proxy_credential(&self) -> String {
        format!("{}:{}", self.id, self.token)
    }

    pub(crate) fn authority(&self) -> &CertificateAuthority {
        &self.authority
    }

    pub(crate) fn table(&self) -> &Arc<SwapTable> {
        &self.table
    }

    /// Whether some secret names this host, so that its TLS is intercepted.
    pub(crate) fn intercepts(&self, host: &Host) -> bool {
        self.table.names(host)
    }

    /// Whether some secret may be sent to exactly this host and port.
    pub(crate) fn is_destination(&self, authority: &Authority) -> bool {
        let mut destinations = self.rules.iter().flat_map(|rule| &rule.to);
        destinations.any(|to| to.names(&authority.host) && to.port() == authority.port)
    }

    pub(crate) fn knows_token(&self, token: &[u8]) -> bool {
        self.token.as_bytes().ct_eq(token).into()
    }

    pub(crate) fn check_open(&self) -> Result<(), Error> {
        if *self.ended.borrow() { Err(Code::SessionEnded.into()) } else { Ok(()) }
    }

    /// Resolves when the session has ended.
    pub(crate) async fn ended(&self) {
        // The sender lives in `self`, so waiting can't fail.
        let _ = self.ended.subscribe().wait_for(|ended| *ended).await;
    }

    pub(crate) fn end(&self) {
        self.ended.send_replace(true);
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
