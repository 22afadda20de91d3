//! A database that says anything: from the login to a statement's rows nothing panics, and what is given
//! is within the bounds of the statement and of PostgreSQL. Source: PostgreSQL's "Message Formats".
#![no_main]

use std::time::Duration;

use keyless_core::{
    Authority,
    database::{DatabaseFault, DatabaseParameter, DatabaseQuery},
};
use keyless_egress::fuzzing::heard;
use libfuzzer_sys::fuzz_target;
use tokio::runtime::Builder;
use zeroize::Zeroizing;

const MOST_ROWS: u32 = 3;
const MOST_BYTES: usize = 4096;

fuzz_target!(|input: (bool, bool, &[u8])| {
    let (may_write, has_parameter, said) = input;
    let text = || DatabaseParameter::Text(Zeroizing::new("1".to_owned()));
    let query = DatabaseQuery {
        authority: Authority::parse("db.test:5432").expect("an authority"),
        user: "shop".to_owned(),
        database: "shop".to_owned(),
        password: Zeroizing::new(b"password".to_vec()),
        statement: "select $1".to_owned(),
        parameters: has_parameter.then(text).into_iter().collect(),
        may_write,
        max_rows: MOST_ROWS,
        max_bytes: MOST_BYTES,
        patience: Duration::from_secs(1),
    };
    let runtime = Builder::new_current_thread().enable_time().build().expect("a runtime");
    match runtime.block_on(heard(said, &query)) {
        Ok(rows) => {
            assert!(rows.rows.len() <= MOST_ROWS as usize, "{} rows", rows.rows.len());
            assert!(rows.columns.len() <= 1664, "{} columns", rows.columns.len());
            assert!(rows.columns.iter().all(|column| column.name.len() <= 256 * 3));
            assert!(may_write || !rows.columns.is_empty(), "something without rows was run");
            // What is no UTF-8 becomes three bytes a piece.
            let bytes = rows.rows.iter().flatten().flatten().map(String::len).sum::<usize>();
            assert!(bytes <= 3 * MOST_BYTES, "{bytes} bytes");
        }
        Err(DatabaseFault::Refused(refusal)) => assert!(matches!(refusal.sqlstate.len(), 0 | 5)),
        Err(DatabaseFault::Stopped(_)) => {}
    }
});
