//! The password of a database's login, which is no request but goes by the same rules.

use std::sync::Arc;

use keyless_core::{Code, Error, Location, RequestFacts};
use zeroize::Zeroizing;

use super::{
    Route,
    escape::Escape,
    find::{find, has_stranger, splice},
    head::judge,
    ledger::Ledger,
    table::SwapTable,
};
use crate::ports::RequestInfo;

/// `password` with the values of the placeholders in it. `database` stands for the path in the log;
/// a rule about requests allows no login, since a login is none.
pub(crate) async fn swap_password(
    table: &Arc<SwapTable>,
    route: &Route<'_>,
    database: &str,
    password: &[u8],
) -> Result<Zeroizing<Vec<u8>>, Error> {
    let info = RequestInfo {
        correlation_id: route.correlation_id.to_owned(),
        authority: route.authority.clone(),
        method: "LOGIN".to_owned(),
        path: database.to_owned(),
        locations: Vec::new(),
        rules: Vec::new(),
    };
    let mut finds = find(table, password, Escape::Raw);
    if has_stranger(password, &finds) {
        return Err(Error::with(Code::UnknownPlaceholder, "in the password".into()));
    }
    let mut ledger = Ledger::new(table, route.scheme, info, RequestFacts::default());
    judge(&mut finds, Location::Password, &mut ledger)?;
    let values = ledger.release().await?;
    splice(password, &finds, &values)
}
