//! One token request: what it is made with, on record first, and what of its answer is kept.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use jiff::Timestamp;
use keyless_core::{
    Allowed, Binding, By, Code, EgressRule, EgressUse, Error, GrantKind, OauthGrant, Permit,
    RequestFacts, SafeText, Scheme, SecretPath, SecretValue, Verdict,
    audit::{Action, Agent, Detail, Draft, Outcome, Target},
    decide_egress, decide_grant,
};
use keyless_egress::{Engine, Released, TokenReply, TokenRequest};
use keyless_store::AuditLog;
use tokio::time::sleep;

use super::{Grant, Newer, Slot, State, Token};
use crate::{broker::plain_entry, values::Values};

/// A token is renewed this long before its end, so that none ends on its way.
const MARGIN: Duration = Duration::from_secs(30);
/// How long a token is used whose end the endpoint does not tell; a 401 renews it before.
const UNTOLD: Duration = Duration::from_mins(30);
/// No token is kept for longer than this without asking, whatever its endpoint says: the clock ends somewhere.
const LONGEST: Duration = Duration::from_hours(24 * 365);
const PERMIT_LIFE: Duration = Duration::from_secs(30);
/// When it is looked whether a refresh token that was refused has been replaced by somebody else.
const LOOKS: [Duration; 3] =
    [Duration::from_millis(100), Duration::from_millis(400), Duration::from_secs(1)];

/// Who asks token endpoints.
pub(super) struct Fetcher {
    pub(super) inner: Arc<dyn Values>,
    pub(super) engine: Arc<Engine>,
    pub(super) log: AuditLog,
    pub(super) agent: Arc<Agent>,
}

impl Fetcher {
    /// The token that is in use, or the next one.
    pub(super) async fn token(&self, path: &SecretPath, slot: &Slot) -> Result<SecretValue, Error> {
        let asked = Instant::now();
        let mut state = slot.state.lock().await;
        if let Some(token) = state.token.as_ref().filter(|token| Instant::now() < token.until) {
            return value_of(path, token.value.to_vec());
        }
        if let Some((_, error)) = state.failed.as_ref().filter(|(when, _)| *when >= asked) {
            return Err(error.clone());
        }
        match self.fetch(path, slot, &mut state).await {
            Ok(value) => Ok(value),
            Err(error) => {
                state.failed = Some((Instant::now(), error.clone()));
                Err(error)
            }
        }
    }

    async fn fetch(
        &self,
        path: &SecretPath,
        slot: &Slot,
        state: &mut State,
    ) -> Result<SecretValue, Error> {
        let stored = self.inner.open(path).await?;
        let credential = match &state.newer {
            Some(newer) if newer.stored.is_same_as(&stored) => newer.refresh.copy_for_cache(),
            _ => stored.copy_for_cache(),
        };
        let mut reply = self.ask(path, &slot.grant, credential).await;
        if matches!(&reply, Err(error) if error.code() == Code::TokenUnavailable)
            && let Some(other) = self.other_than(path, &stored, slot).await?
        {
            reply = self.ask(path, &slot.grant, other).await;
        }
        self.keep(path, state, reply?).await
    }

    /// What took the place of a refresh token that was refused: another process of this store may
    /// have been there first, and then puts the next one there within moments.
    async fn other_than(
        &self,
        path: &SecretPath,
        refused: &SecretValue,
        slot: &Slot,
    ) -> Result<Option<SecretValue>, Error> {
        let rotates = slot.grant.rule.oauth.as_ref().map(|grant| grant.kind);
        if rotates != Some(GrantKind::RefreshToken) {
            return Ok(None);
        }
        for wait in LOOKS {
            sleep(wait).await;
            let stored = self.inner.open(path).await?;
            if !stored.is_same_as(refused) {
                return Ok(Some(stored));
            }
        }
        Ok(None)
    }

    /// Asks the endpoint, with what its credential is now.
    async fn ask(
        &self,
        path: &SecretPath,
        grant: &Grant,
        credential: SecretValue,
    ) -> Result<TokenReply, Error> {
        let Grant { rule, client_secret } = grant;
        let (allowed, grant) = decide_grant(path, rule).ok_or(Code::Internal)?;
        let credential = self.released(allowed, credential, grant).await?;
        let client_secret = match client_secret {
            Some((path, rule)) => {
                let allowed = allowed_at(path, rule, grant)?;
                let value = self.inner.open(path).await?;
                Some(self.released(allowed, value, grant).await?)
            }
            None => None,
        };
        let request =
            TokenRequest { grant, credential: &credential, client_secret: client_secret.as_ref() };
        self.engine.fetch_token(&request).await
    }

    async fn keep(
        &self,
        path: &SecretPath,
        state: &mut State,
        reply: TokenReply,
    ) -> Result<SecretValue, Error> {
        let TokenReply { access_token, refresh_token, expires_in } = reply;
        let value = value_of(path, access_token.to_vec())?;
        if let Some(refresh) = refresh_token {
            // The old one may be void by now: what can't be stored is at least used on.
            self.inner.keep(path, refresh.clone()).await?;
            let stored = self.inner.open(path).await?;
            let refresh = value_of(path, refresh.to_vec())?;
            let is_stored = stored.is_same_as(&refresh);
            state.newer = (!is_stored).then_some(Newer { refresh, stored });
        }
        let obtained = Instant::now();
        let until = good_until(obtained, expires_in);
        state.token = Some(Token { value: access_token, obtained, until });
        Ok(value)
    }

    /// A value for the token URL, with the entry about it durable.
    async fn released(
        &self,
        allowed: Allowed,
        value: SecretValue,
        grant: &OauthGrant,
    ) -> Result<Released, Error> {
        let draft = Draft {
            secrets_used: vec![allowed.path().clone()],
            detail: Detail {
                method: Some("POST".to_owned()),
                path: Some(path_of(grant)),
                kind: Some("token".to_owned()),
                ..Detail::default()
            },
            allowed: Some(allowed),
            ..plain_entry(
                Arc::clone(&self.agent),
                Action::Egress,
                Outcome::Success,
                Target::Authority(grant.authority.clone()),
            )
        };
        let recorded = self.log.append(draft).await?;
        let until = Timestamp::now() + PERMIT_LIFE;
        let permit = Permit::from_recorded(recorded, until).ok_or(Code::Internal)?;
        Ok(Released::new(value, permit))
    }
}

fn path_of(grant: &OauthGrant) -> String {
    grant.target.split('?').next().unwrap_or_default().to_owned()
}

/// The verdict about a client's secret at the token URL, by its own rule.
fn allowed_at(path: &SecretPath, rule: &EgressRule, grant: &OauthGrant) -> Result<Allowed, Error> {
    let request = RequestFacts {
        methods: vec!["POST".to_owned()],
        path: path_of(grant),
        ..RequestFacts::default()
    };
    let (scheme, authority) = (Scheme::Https, &grant.authority);
    let use_ = EgressUse { path, rule, scheme, authority, by: By::Proxy, request: &request };
    if let Verdict::Allow(allowed) = decide_egress(&use_) {
        Ok(allowed)
    } else {
        let words = SafeText::default().and(path).and(" may not go to the token URL at ");
        Err(Error::with(Code::TokenUnavailable, words.and(authority)))
    }
}

fn value_of(path: &SecretPath, bytes: Vec<u8>) -> Result<SecretValue, Error> {
    SecretValue::new(path.clone(), bytes, Binding::Destinations).map_err(|error| {
        let words = SafeText::words("the token of ").and(path).and(" can't be used: ");
        Error::with(Code::TokenUnavailable, words.and(error))
    })
}

/// Until when a token is used that its endpoint says to be good for so many seconds.
fn good_until(obtained: Instant, expires_in: Option<u64>) -> Instant {
    let life = expires_in.map_or(UNTOLD, Duration::from_secs);
    obtained + life.saturating_sub(MARGIN).min(LONGEST)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_used_until_shortly_before_its_end() {
        let now = Instant::now();
        let used_for = |expires_in| good_until(now, expires_in) - now;
        assert_eq!(used_for(Some(90)), Duration::from_mins(1));
        assert_eq!((used_for(Some(1)), used_for(None) + MARGIN), (Duration::ZERO, UNTOLD));
        assert_eq!(used_for(Some(u64::MAX)), LONGEST, "an endpoint says what it likes");
    }
}
