//! What would happen to a request, by the rules as they lie there: nothing is opened or connected to.

use std::{path::Path, sync::Arc};

use futures_util::future::BoxFuture;
use keyless_core::{
    Allowed, Code, Error, Placeholder, PlaceholderForm, SafeText, SecretPath, SessionKey,
    audit::Action,
};
use keyless_egress::{
    Broker, Engine, Event, Explanation, Finished, Question, Released, RequestInfo, SessionSecret,
    SessionSpec,
};
use keyless_store::{AuditQuery, Store};
use keyless_vault::{Catalog, Vault};

use crate::{
    config::Config,
    egress_door::{engine_config, explain as explain_engine},
};

/// Whose rules are asked.
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
    let (catalog, rules) = match subject {
        Subject::Catalog(file) => {
            let catalog = Catalog::load(file)?;
            let rules = catalog.entries.iter().map(|one| (one.path.clone(), one.rule.clone()));
            let rules = rules.collect();
            (Some(catalog), rules)
        }
        Subject::Store(store) => (None, stored_rules(store).await?),
        Subject::Session(store, id) => {
            let chosen = secrets_of(store, id).await?;
            let mut rules = stored_rules(store).await?;
            rules.retain(|(path, _)| chosen.contains(path));
            (None, rules)
        }
    };
    let key = SessionKey::from_random([0; 32]);
    let secret = |(path, rule)| SessionSecret {
        placeholder: Placeholder::derive(&key, &path, &PlaceholderForm::Default),
        path,
        rule,
    };
    let engine = Engine::new(engine_config(config, catalog.as_ref())?);
    let engine = engine.map_err(|error| explain_engine(&error, config))?;
    let session = engine.open(SessionSpec {
        id: "explain".to_owned(),
        secrets: rules.into_iter().map(secret).collect(),
        broker: Arc::new(Nobody),
        ca: None,
        token: None,
    })?;
    Ok(engine.explain(&session, asked).await)
}

type Rules = Vec<(SecretPath, keyless_core::EgressRule)>;

/// The rules as the store has them. Nothing vouches for them without its key: they are shown only.
async fn stored_rules(store: &Store) -> Result<Rules, Error> {
    let secrets = Vault::list_unverified(store).await?;
    Ok(secrets.into_iter().filter_map(|one| Some((one.path, one.metadata.egress?))).collect())
}

/// What the log says a session was opened with.
async fn secrets_of(store: &Store, id: &str) -> Result<Vec<SecretPath>, Error> {
    let wanted = AuditQuery {
        session: Some(id.to_owned()),
        action: Some(Action::SessionStart),
        ..AuditQuery::default()
    };
    let opened = store.audit_query(&wanted).await?.pop();
    let opened = opened.ok_or_else(|| {
        Error::with(Code::Usage, SafeText::words("the log has no session ").as_they_wrote(id))
    })?;
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

    fn finished(&self, _: Finished) {}
}
