//! One token request: what it is made with, on record first, and what of its answer is kept.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use keyless_core::{
    Allowed, Binding, By, Code, EgressRule, EgressUse, Error, GrantKind, OauthGrant, RequestFacts,
    SafeText, Scheme, SecretPath, SecretValue, Verdict,
    audit::{Action, Agent, Detail, Draft, Outcome, Target},
    decide_egress, decide_grant,
};
use keyless_egress::{Engine, Released, TokenReply, TokenRequest};
use keyless_store::AuditLog;
use tokio::time::sleep;

use super::{Grant, Newer, Slot, State, Token};
use crate::{
    broker::plain_entry,
    permits::{PermitLife, permit, uptime},
    values::Values,
};

/// A token is renewed this long before its end, so that none ends on its way.
const MARGIN: Duration = Duration::from_secs(30);
/// How long a token is used whose end the endpoint does not tell; a 401 renews it before.
const UNTOLD: Duration = Duration::from_mins(30);
/// No token is kept for longer than this without asking, whatever its endpoint says: the clock ends somewhere.
const LONGEST: Duration = Duration::from_hours(24 * 365);
/// When it is looked whether a refresh token that was refused has been replaced by somebody else.
const LOOKS: [Duration; 3] =
    [Duration::from_millis(100), Duration::from_millis(400), Duration::from_secs(1)];

/// The part that asks token endpoints.
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
        self.hand_over(path, &mut state).await?;
        let serves =
            |token: &&Token| Instant::now() < token.until && Arc::ptr_eq(&token.grant, &slot.grant);
        if let Some(token) = state.token.as_ref().filter(serves) {
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
        let mut stored = self.inner.open(path).await?;
        let credential = match &state.newer {
            Some(newer) if newer.stored.is_same_as(&stored) => {
                value_of(path, newer.refresh.to_vec())?
            }
            _ => stored.copy_for_cache(),
        };
        let mut reply = self.ask(path, &slot.grant, credential).await;
        if matches!(&reply, Err(error) if error.code() == Code::TokenUnavailable)
            && let Some(other) = self.other_than(path, &stored, slot).await?
        {
            reply = self.ask(path, &slot.grant, other.copy_for_cache()).await;
            stored = other;
        }
        let value = take_up(path, &slot.grant, state, stored, reply?);
        // The old one may be void by now: nothing is used before the next one is safe, or has had its turn.
        self.hand_over(path, state).await?;
        value
    }

    /// What took the place of a refresh token that was refused: another process of this store may
    /// have been there first, and then puts the next one there within moments.
    async fn other_than(
        &self,
        path: &SecretPath,
        refused: &SecretValue,
        slot: &Slot,
    ) -> Result<Option<SecretValue>, Error> {
        if !rotates(&slot.grant) {
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

    /// Gives the source the refresh token that it has not got yet. What the operator has put there meanwhile
    /// stays, and is used from then on.
    pub(super) async fn hand_over(
        &self,
        path: &SecretPath,
        state: &mut State,
    ) -> Result<(), Error> {
        let Some(newer) = state.newer.as_mut().filter(|newer| newer.is_owed) else { return Ok(()) };
        self.inner.keep(path, &newer.stored, newer.refresh.clone()).await?;
        newer.is_owed = false;
        if !self.inner.open(path).await?.is_same_as(&newer.stored) {
            state.newer = None;
        }
        Ok(())
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
        let permit = permit(&self.log, draft, PermitLife::InRequest).await?;
        Ok(Released::new(value, permit, uptime))
    }
}

/// Takes an answer into memory, where nothing of it can be lost; gives the access token.
fn take_up(
    path: &SecretPath,
    grant: &Arc<Grant>,
    state: &mut State,
    stored: SecretValue,
    reply: TokenReply,
) -> Result<SecretValue, Error> {
    let TokenReply { access_token, refresh_token, expires_in } = reply;
    // The client's own secret is not what a refresh token takes the place of.
    if let Some(refresh) = refresh_token.filter(|_| rotates(grant)) {
        // One that is no value could neither be stored nor sent.
        value_of(path, refresh.to_vec())?;
        state.newer = Some(Newer { refresh, stored, is_owed: true });
    }
    let value = value_of(path, access_token.to_vec())?;
    let obtained = Instant::now();
    let until = good_until(obtained, expires_in);
    state.token = Some(Token { grant: Arc::clone(grant), value: access_token, obtained, until });
    Ok(value)
}

/// Whether the stored value is a refresh token, so that the next one takes its place.
fn rotates(grant: &Grant) -> bool {
    grant.rule.oauth.as_ref().is_some_and(|grant| grant.kind == GrantKind::RefreshToken)
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
    use std::sync::atomic::{AtomicBool, Ordering};

    use futures_util::future::BoxFuture;
    use keyless_core::Destination;
    use parking_lot::Mutex;
    use zeroize::Zeroizing;

    use super::*;
    use crate::{
        broker::agent, config::Config, egress_door::EgressDoor, scene::Scene, tokens::Tokens,
    };

    /// A source that fails when it is told to.
    #[derive(Default)]
    struct Source {
        value: Mutex<Vec<u8>>,
        is_full: AtomicBool,
    }

    impl Source {
        fn put(&self, value: &str) {
            *self.value.lock() = value.as_bytes().to_vec();
        }

        fn has(&self, value: &str) -> bool {
            *self.value.lock() == value.as_bytes()
        }
    }

    impl Values for Source {
        fn open<'a>(&'a self, path: &'a SecretPath) -> BoxFuture<'a, Result<SecretValue, Error>> {
            let value = value_of(path, self.value.lock().clone());
            Box::pin(async move { value })
        }

        fn keep<'a>(
            &'a self,
            path: &'a SecretPath,
            last: &'a SecretValue,
            value: Zeroizing<Vec<u8>>,
        ) -> BoxFuture<'a, Result<(), Error>> {
            Box::pin(async move {
                if self.is_full.load(Ordering::Relaxed) {
                    return Err(Code::SecretUnavailable.into());
                }
                let mut stored = self.value.lock();
                if value_of(path, stored.clone())?.is_same_as(last) {
                    *stored = value.to_vec();
                }
                Ok(())
            })
        }
    }

    fn reply(refresh: &str) -> TokenReply {
        TokenReply {
            access_token: Zeroizing::new(b"access-token-1".to_vec()),
            refresh_token: Some(Zeroizing::new(refresh.as_bytes().to_vec())),
            expires_in: None,
        }
    }

    /// The endpoint gives each one out once, so what can't be stored lives in memory until it can.
    #[tokio::test]
    async fn a_refresh_token_outlives_a_store_that_refuses_it() {
        let scene = Scene::new().await;
        let source = Arc::new(Source::default());
        let door = EgressDoor::new(&Config::default()).unwrap();
        let inner = Arc::clone(&source) as Arc<dyn Values>;
        let tokens = Tokens::over(inner, door.engine, scene.log.clone(), agent("broker", "none"));
        let path = SecretPath::parse("team/auth/refresh").unwrap();
        let grant = |scope: &str| {
            let words = format!("refresh-token https://auth.test/token app scope={scope}");
            let oauth = Some(OauthGrant::parse(&words).unwrap());
            let to = vec![Destination::parse("api.test").unwrap()];
            Grant { rule: EgressRule { oauth, ..EgressRule::to(to) }, client_secret: None }
        };
        tokens.learn(&path, grant("read"));
        source.put("refresh-token-1");
        source.is_full.store(true, Ordering::Relaxed);
        let slot = tokens.slots.lock()[&path].clone();
        {
            let mut state = slot.state.lock().await;
            let stored = source.open(&path).await.unwrap();
            take_up(&path, &slot.grant, &mut state, stored, reply("refresh-token-2")).unwrap();
        }
        let refused = Some(Code::SecretUnavailable);
        assert_eq!(tokens.open(&path).await.err().map(|error| error.code()), refused);
        // Another rule of the secret's has it too, and not the access token of the first.
        tokens.learn(&path, grant("write"));
        source.is_full.store(false, Ordering::Relaxed);
        tokens.settle().await;
        assert!(source.has("refresh-token-2"));
        let slot = tokens.slots.lock()[&path].clone();
        let state = slot.state.lock().await;
        assert!(state.newer.is_none());
        assert!(!Arc::ptr_eq(&state.token.as_ref().unwrap().grant, &slot.grant));
    }

    #[tokio::test]
    async fn what_the_operator_puts_meanwhile_is_not_written_over() {
        let scene = Scene::new().await;
        let source = Arc::new(Source::default());
        let door = EgressDoor::new(&Config::default()).unwrap();
        let inner = Arc::clone(&source) as Arc<dyn Values>;
        let agent = Arc::new(agent("broker", "none"));
        let fetcher = Fetcher { inner, engine: door.engine, log: scene.log.clone(), agent };
        let path = SecretPath::parse("team/auth/refresh").unwrap();
        let mut state = State::default();
        source.put("refresh-token-1");
        let stored = source.open(&path).await.unwrap();
        let refresh = Zeroizing::new(b"refresh-token-2".to_vec());
        state.newer = Some(Newer { refresh, stored, is_owed: true });
        source.put("the-operators-own");
        fetcher.hand_over(&path, &mut state).await.unwrap();
        assert!(source.has("the-operators-own") && state.newer.is_none());
    }

    #[test]
    fn a_token_is_used_until_shortly_before_its_end() {
        let now = Instant::now();
        let used_for = |expires_in| good_until(now, expires_in) - now;
        assert_eq!(used_for(Some(90)), Duration::from_mins(1));
        assert_eq!((used_for(Some(1)), used_for(None) + MARGIN), (Duration::ZERO, UNTOLD));
        assert_eq!(used_for(Some(u64::MAX)), LONGEST, "an endpoint says what it likes");
    }
}
