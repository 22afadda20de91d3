//! What would happen to a request, by the rules as they lie there: nothing is opened or connected to.

use std::{path::Path, sync::Arc};

use futures_util::future::BoxFuture;
use keyless_core::{
    Allowed, ApproveOnUse, Code, EgressRule, Error, Placeholder, PlaceholderForm, SafeText,
    SecretPath, SessionKey, audit::Action,
};
use keyless_egress::{
    Broker, Engine, Event, Explanation, Finished, Incident, Question, Released, RequestInfo,
    SecretFate, SessionSecret, SessionSpec,
};
use keyless_store::{AuditQuery, Store};
use keyless_vault::{Catalog, Vault};

use crate::{
    config::Config,
    egress_door::{engine_config, explain as explain_engine},
};

/// The subject whose rules are asked.
#[derive(Clone, Copy)]
pub enum Subject<'a> {
    /// A fleet's catalog.
    Catalog(&'a Path),
    /// Every secret of the store.
    Store(&'a Store),
    /// The secrets with which a session of the store was opened.
    Session(&'a Store, &'a str),
}

/// Asks every rule about a request.
pub async fn explain(
    config: &Config,
    subject: Subject<'_>,
    asked: &Question,
) -> Result<Explanation, Error> {
    let (catalog, secrets) = match subject {
        Subject::Catalog(file) => {
            let catalog = Catalog::load(file)?;
            let known = catalog.entries.iter().map(|one| Known {
                path: one.path.clone(),
                rule: one.rule.clone(),
                asks: false,
                is_compromised: false,
            });
            let known = known.collect();
            (Some(catalog), known)
        }
        Subject::Store(store) => (None, stored(store).await?),
        Subject::Session(store, id) => {
            let chosen = secrets_of(store, id).await?;
            let mut secrets = stored(store).await?;
            secrets.retain(|one| chosen.contains(&one.path));
            (None, secrets)
        }
    };
    let key = SessionKey::from_random([0; 32]);
    let secret = |one: &Known| SessionSecret {
        placeholder: Placeholder::derive(&key, &one.path, &PlaceholderForm::Default),
        path: one.path.clone(),
        rule: one.rule.clone(),
    };
    let engine = Engine::new(engine_config(config, catalog.as_ref())?);
    let engine = engine.map_err(|error| explain_engine(&error, config))?;
    let session = engine.open(SessionSpec {
        id: "explain".to_owned(),
        secrets: secrets.iter().map(secret).collect(),
        broker: Arc::new(Nobody),
        ca: None,
        token: None,
    })?;
    let mut explanation = engine.explain(&session, asked).await;
    let fates = std::mem::take(&mut explanation.secrets).into_iter();
    explanation.secrets = fates.map(|fate| beside_the_rules(fate, &secrets)).collect();
    Ok(explanation)
}

/// What is known of a secret without its value.
struct Known {
    path: SecretPath,
    rule: EgressRule,
    /// Each use of it takes somebody's word.
    asks: bool,
    is_compromised: bool,
}

/// What the broker says to a use that the rules allow.
fn beside_the_rules(fate: SecretFate, secrets: &[Known]) -> SecretFate {
    match secrets.iter().find(|one| one.path == fate.path) {
        Some(one) if one.is_compromised => fate.without_value(Code::SecretCompromised),
        Some(one) if one.asks => fate.asking(),
        _ => fate,
    }
}

/// The rules as the store has them. Nothing vouches for them without its key: they are shown only.
async fn stored(store: &Store) -> Result<Vec<Known>, Error> {
    let secrets = Vault::list_unverified(store).await?;
    let known = secrets.iter().filter_map(|one| {
        Some(Known {
            is_compromised: one.is_compromised(),
            asks: one.metadata.approve_on_use != ApproveOnUse::Never,
            rule: one.metadata.egress.clone()?,
            path: one.path.clone(),
        })
    });
    Ok(known.collect())
}

/// What the log says a session was opened with.
async fn secrets_of(store: &Store, id: &str) -> Result<Vec<SecretPath>, Error> {
    let wanted = AuditQuery {
        session: Some(id.to_owned()),
        action: Some(Action::SessionStart),
        ..AuditQuery::default()
    };
    let opened = store.audit_query(&wanted).await?.pop();
    let opened = opened
        .ok_or_else(|| Error::with(Code::SessionUnknown, SafeText::default().as_they_wrote(id)))?;
    Ok(opened.target.split(',').filter_map(|path| SecretPath::parse(path).ok()).collect())
}

/// The broker of a session that sends nothing.
struct Nobody;

impl Broker for Nobody {
    fn release<'a>(
        &'a self,
        _: &'a RequestInfo,
        _: Vec<Allowed>,
    ) -> BoxFuture<'a, Result<Vec<Arc<Released>>, Error>> {
        Box::pin(async { Err(Code::SecretUnavailable.into()) })
    }

    fn record(&self, _: Event) -> Result<(), Error> {
        Ok(())
    }

    fn incident(&self, _: Incident) {}

    fn finished(&self, _: Finished) {}
}
