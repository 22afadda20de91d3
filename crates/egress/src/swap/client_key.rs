//! The client certificate that a connection is authenticated with, and the key for it.
//!
//! Every request is judged by the key's rule, as if the key stood in it: the connection may be kept
//! from a request before. Rules see method and path; what a body calls is not looked at, so a rule
//! about that names no request here. Source: issue "Egress, complete", point 10.

use std::sync::Arc;

use http::request::Parts;
use keyless_core::{Code, Error, RequestFacts, SafeText, Signer};

use super::{Route, ledger::Ledger, request_info, said, table::SwapTable};
use crate::tls::ClientIdentity;

/// The identity for one request, if some secret has one for its destination.
pub(crate) async fn client_identity(
    table: &Arc<SwapTable>,
    route: &Route<'_>,
    parts: &Parts,
) -> Result<Option<ClientIdentity>, Error> {
    let facts = table.facts(route);
    if facts.client_keys.is_empty() {
        return Ok(None);
    }
    let ruled = !facts.ruled.is_empty();
    let said = if ruled {
        said::of_head(&parts.method, &parts.uri, &parts.headers)
    } else {
        RequestFacts::default()
    };
    let mut ledger = Ledger::new(table, route.scheme, request_info(route, parts), said);
    let Some(key) = ledger.choose(&facts.client_keys, None)? else { return Ok(None) };
    let chain = match &table.secret(key).rule.sign {
        Some(Signer::TlsClient { chain: Some(path) }) => {
            let missing = || {
                let words = SafeText::words("the session lacks the certificates ").and(path);
                Error::with(Code::SecretNotFound, words)
            };
            let chain = table.number_of(path).ok_or_else(missing)?;
            ledger.choose(&[chain], None)?
        }
        _ => None,
    };
    let values = ledger.release().await?;
    let chain = chain.map(|chain| values.kept(chain)).transpose()?;
    ClientIdentity::new(route.authority, &*values.kept(key)?, chain.as_deref()).map(Some)
}
