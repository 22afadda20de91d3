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

#[cfg(test)]
mod tests {
    use keyless_core::PlaceholderForm;

    use super::*;
    use crate::swap::testing::{Bench, authority, route, rule, run};

    /// What outgrows its room leaves its beginning behind where nobody wipes it.
    #[test]
    fn a_value_is_put_where_all_of_it_has_room() {
        let value = "0123456789abcdef".repeat(75);
        let rule = rule("api.test", &Location::ALL);
        let bench = Bench::new(vec![("a", &value, rule, PlaceholderForm::Default)]);
        let password = format!("{0}-{0}", bench.placeholder(0));
        let swapped = run(async {
            let authority = authority("api.test:443");
            swap_password(&bench.table, &route(&authority), "db", password.as_bytes()).await
        })
        .unwrap();
        assert_eq!(swapped.as_slice(), format!("{value}-{value}").as_bytes());
        assert_eq!(swapped.capacity(), swapped.len());
    }
}
