//! The way to services that are called with a credential: the broker's own requests.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use keyless_action::{Answer, Call, Databases, Http, Providers, Services};
use keyless_core::{
    Code, Error,
    database::{DatabaseFault, DatabaseQuery, DatabaseRows},
};
use keyless_egress::{Client, ClientRequest, Engine, Whose};
use zeroize::Zeroizing;

use crate::places::Places;

/// The providers, those of the operator's among them, and the way to them.
pub(super) fn services(engine: &Arc<Engine>, places: &Places) -> Services {
    let providers = Providers::bundled().with_folder(&places.services_folder());
    let way = Arc::new(ThroughEngine(Arc::clone(engine)));
    Services { providers, http: Arc::clone(&way) as _, databases: way }
}

/// Names, zones, roots and routes are those of the agents' traffic.
struct ThroughEngine(Arc<Engine>);

impl ThroughEngine {
    fn client(&self) -> Result<Client, Error> {
        self.0.client().map_err(|_| Error::new(Code::ConfigInvalid))
    }
}

impl Databases for ThroughEngine {
    fn query(&self, query: DatabaseQuery) -> BoxFuture<'_, Result<DatabaseRows, DatabaseFault>> {
        Box::pin(async move { self.client()?.query(&query).await })
    }
}

impl Http for ThroughEngine {
    fn send(&self, call: Call) -> BoxFuture<'_, Result<Answer, Error>> {
        Box::pin(async move {
            let client = self.client()?;
            let request = ClientRequest {
                method: &call.method,
                target: &call.target,
                headers: call
                    .headers
                    .iter()
                    .map(|(name, value)| (name.as_str(), value.as_str()))
                    .collect(),
                body: &call.body,
            };
            let sending = client.send(
                call.scheme,
                &call.authority,
                Whose::Catalogs,
                &request,
                call.max_answer,
            );
            let answer = tokio::time::timeout(call.patience, sending)
                .await
                .map_err(|_| Error::new(Code::ActionTimeout))??;
            Ok(Answer {
                status: answer.status,
                headers: answer
                    .headers
                    .into_iter()
                    .map(|(name, value)| (name, Zeroizing::new(value)))
                    .collect(),
                body: Zeroizing::new(answer.body),
            })
        })
    }
}
