//! PostgreSQL: one parameterised statement of the service `database`; `query` reads, `execute` may write.
//!
//! The credential is a URL, which says where it goes, or a password alone; then the parameters say
//! where, and its own destinations or the grant's hosts have to agree. A value of a secret is a
//! parameter of the statement and never its text, which databases write into logs and errors.

use std::{
    collections::{HashMap, HashSet},
    time::Duration,
};

use futures_util::future::BoxFuture;
use keyless_core::{
    Authority, Code, Error, SafeText, TemplatePart,
    database::{
        DATABASE_READ, DATABASE_SERVICE, DATABASE_WRITE, DatabaseFault, DatabaseParameter,
        DatabaseQuery, DatabaseRefusal, DatabaseRows,
    },
    parse_template,
};
use percent_encoding::percent_decode_str;
use serde_json::{Map, Number, Value, json};
use zeroize::Zeroizing;

use super::{call::Wanted, provider::plain};

const PORT: u16 = 5432;
/// Rows that are given when nobody says how many, and at most.
const ROWS: u32 = 1_000;
const MAX_ROWS: u32 = 10_000;
/// Whole numbers beyond this are not what they are in every reader of JSON (RFC 8259, section 6).
const EXACT: i64 = (1 << 53) - 1;

/// Runs statements. Object-safe.
pub trait Databases: Send + Sync + 'static {
    /// Runs one in a transaction of its own, over verified TLS.
    fn query(&self, query: DatabaseQuery) -> BoxFuture<'_, Result<DatabaseRows, DatabaseFault>>;
}

/// A statement with its parameters as the agent wrote them.
#[derive(Clone, Debug)]
pub(super) struct Statement {
    text: String,
    values: Vec<Value>,
    may_write: bool,
    max_rows: u32,
    /// Where it goes, as far as parameters say it.
    place: Map<String, Value>,
}

/// A statement, and where it goes.
pub(super) struct Draft {
    pub(super) to: Place,
    statement: Statement,
}

/// Where a statement goes, and as whom.
pub(super) struct Place {
    pub(super) authority: Authority,
    user: String,
    database: String,
    pub(super) password: Zeroizing<String>,
    /// Whether the credential itself says so.
    pub(super) is_credentials: bool,
}

impl Statement {
    /// Reads what an agent wants, as far as it shows without the credential; takes its parameters.
    pub(super) fn new(wanted: Wanted<'_>) -> Result<Self, Error> {
        let Wanted { service, operation, mut parameters, .. } = wanted;
        let may_write = may_write(service, operation)?;
        refuse_handles(&parameters)?;
        let text = match parameters.remove("sql") {
            Some(Value::String(text)) if !text.trim().is_empty() => text,
            _ => return Err(bad("the operation needs a parameter: sql")),
        };
        let values = match parameters.remove("values") {
            None | Some(Value::Null) => Vec::new(),
            Some(Value::Array(values)) => values,
            Some(_) => return Err(bad("`values` is a list")),
        };
        let max_rows = match parameters.remove("max_rows") {
            None => ROWS,
            Some(most) => (most.as_u64().and_then(|most| u32::try_from(most).ok()))
                .filter(|most| (1..=MAX_ROWS).contains(most))
                .ok_or_else(|| bad("`max_rows` is 1 to 10000"))?,
        };
        Ok(Self { text, values, may_write, max_rows, place: parameters })
    }

    /// The statement toward the place that its credential or its parameters say.
    pub(super) fn with(mut self, credential: &str) -> Result<Draft, Error> {
        let mut place = std::mem::take(&mut self.place);
        let to = Place::new(&mut place, credential)?;
        if let Some(unknown) = place.keys().next() {
            let words = SafeText::words("no parameter ").as_they_wrote(unknown);
            return Err(Error::with(Code::BadRequest, words));
        }
        Ok(Draft { to, statement: self })
    }
}

impl Draft {
    pub(super) fn values(&self) -> &[Value] {
        &self.statement.values
    }

    /// The statement with `values` for its parameters, within a time and a number of bytes.
    pub(super) fn with(
        self,
        values: &[Value],
        patience: Duration,
        max_bytes: usize,
    ) -> DatabaseQuery {
        let Self { to, statement } = self;
        DatabaseQuery {
            authority: to.authority,
            user: to.user,
            database: to.database,
            password: Zeroizing::new(to.password.as_bytes().to_vec()),
            statement: statement.text,
            parameters: values.iter().map(parameter).collect(),
            may_write: statement.may_write,
            max_rows: statement.max_rows,
            max_bytes,
            patience,
        }
    }
}

/// A value of a secret is a parameter of the statement: anywhere else the placeholder would go to the database as it is
/// written.
fn refuse_handles(parameters: &Map<String, Value>) -> Result<(), Error> {
    let has = |value: &Value| value.as_str().is_some_and(has_handle);
    let misplaced = parameters.iter().find(|(name, value)| *name != "values" && has(value));
    let Some((name, _)) = misplaced else { return Ok(()) };
    let words =
        SafeText::words("a secret's value is one of `values`, and `$1` in the statement; not in `");
    let words = words.as_they_wrote(name).and("`");
    Err(Error::with(Code::PlaceholderInvalid, words))
}

/// Whether an operation may write, if there is such a one.
pub(super) fn may_write(service: &str, operation: &str) -> Result<bool, Error> {
    match (service, operation) {
        (DATABASE_SERVICE, DATABASE_READ) => Ok(false),
        (DATABASE_SERVICE, DATABASE_WRITE) => Ok(true),
        _ => Err(bad("postgres has the service database with query and execute")),
    }
}

impl Place {
    fn new(parameters: &mut Map<String, Value>, credential: &str) -> Result<Self, Error> {
        if let Some(rest) = scheme_of_url(credential) {
            let named = ["host", "port", "user", "database"];
            if named.iter().any(|name| parameters.contains_key(*name)) {
                return Err(bad("the credential is a URL: it says host, user and database"));
            }
            return Self::of_url(rest).ok_or_else(|| {
                bad("the credential is not postgres://user:password@host/database")
            });
        }
        let mut word = |name: &'static str| match parameters.remove(name) {
            Some(Value::String(word)) if !word.is_empty() => Ok(word),
            _ => {
                let words = SafeText::words("the operation needs a parameter: ").and(name);
                Err(Error::with(Code::BadRequest, words))
            }
        };
        let (host, user, database) = (word("host")?, word("user")?, word("database")?);
        let port = match parameters.remove("port") {
            None => PORT,
            Some(port) => (port.as_u64().and_then(|port| u16::try_from(port).ok()))
                .filter(|port| *port > 0)
                .ok_or_else(|| bad("`port` is a number"))?,
        };
        let authority = Authority::parse(&format!("{host}:{port}"));
        let authority = authority.map_err(|_| bad("`host` is not a host"))?;
        Self::checked(authority, user, database, Zeroizing::new(credential.to_owned()), false)
            .ok_or_else(|| bad("user, database and password have no NUL"))
    }

    /// What follows `postgres://`. Its parameters say nothing here: TLS is verified always.
    fn of_url(rest: &str) -> Option<Self> {
        let rest = rest.split(['?', '#']).next()?;
        let (login, place) = rest.rsplit_once('@')?;
        let (user, password) = login.split_once(':')?;
        let (host, database) = place.split_once('/').unwrap_or((place, ""));
        let decoded = |text: &str| percent_decode_str(text).decode_utf8().ok().map(String::from);
        let (user, password) = (decoded(user)?, Zeroizing::new(decoded(password)?));
        let database = decoded(database)?;
        let has_port = host.rsplit_once(':').is_some_and(|(_, port)| !port.ends_with(']'));
        let authority = if has_port { host.to_owned() } else { format!("{host}:{PORT}") };
        let authority = Authority::parse(&authority).ok()?;
        let database = if database.is_empty() { user.clone() } else { database };
        Self::checked(authority, user, database, password, true)
    }

    fn checked(
        authority: Authority,
        user: String,
        database: String,
        password: Zeroizing<String>,
        is_credentials: bool,
    ) -> Option<Self> {
        let usable = |text: &str| !text.is_empty() && !text.contains('\0');
        (usable(&user) && usable(&database) && usable(&password)).then_some(Self {
            authority,
            user,
            database,
            password,
            is_credentials,
        })
    }
}

fn scheme_of_url(credential: &str) -> Option<&str> {
    credential.strip_prefix("postgres://").or_else(|| credential.strip_prefix("postgresql://"))
}

fn has_handle(statement: &str) -> bool {
    parse_template(statement)
        .map_or(true, |parts| parts.iter().any(|part| matches!(part, TemplatePart::Handle(_))))
}

/// A value of JSON as PostgreSQL reads it.
fn parameter(value: &Value) -> DatabaseParameter {
    match value {
        Value::Null => DatabaseParameter::Null,
        Value::Array(items) => DatabaseParameter::List {
            array: Zeroizing::new(array(items)),
            json: Zeroizing::new(value.to_string()),
        },
        other => DatabaseParameter::Text(Zeroizing::new(plain(other))),
    }
}

/// `{1,"a b",NULL,{2}}`: every text is quoted, so that none is read as anything else.
fn array(items: &[Value]) -> String {
    let mut out = String::from("{");
    for (number, item) in items.iter().enumerate() {
        if number > 0 {
            out.push(',');
        }
        match item {
            Value::Null => out.push_str("NULL"),
            Value::Array(items) => out.push_str(&array(items)),
            other => {
                out.push('"');
                for letter in plain(other).chars() {
                    if matches!(letter, '"' | '\\') {
                        out.push('\\');
                    }
                    out.push(letter);
                }
                out.push('"');
            }
        }
    }
    out.push('}');
    out
}

/// Rows as JSON: each an object; of columns with one name the later ones get a number.
pub(super) fn data(rows: &DatabaseRows) -> Value {
    let names = names(rows);
    let given = rows.rows.iter().map(|row| {
        let cells = names.iter().zip(&rows.columns).zip(row);
        let cells =
            cells.map(|((name, of), text)| (name.clone(), cell(of.type_oid, text.as_deref())));
        Value::Object(cells.collect())
    });
    let given: Vec<Value> = given.collect();
    // `UPDATE 3`, `INSERT 0 3`; of a cut answer the database has not said it.
    let count = rows.command.rsplit(' ').next().and_then(|count| count.parse::<u64>().ok());
    let count = count.unwrap_or(given.len() as u64);
    json!({ "columns": names, "rows": given, "row_count": count, "truncated": rows.is_cut })
}

/// A database's no as data; its words may quote values, and are cleaned like rows.
pub(super) fn refused(refusal: DatabaseRefusal) -> Value {
    let DatabaseRefusal { sqlstate, message, position } = refusal;
    json!({ "sqlstate": sqlstate, "message": message, "position": position })
}

fn names(rows: &DatabaseRows) -> Vec<String> {
    let mut taken: HashSet<String> = HashSet::with_capacity(rows.columns.len());
    // The number that the next column of a name tries first: lower ones are taken.
    let mut numbers: HashMap<&str, usize> = HashMap::new();
    let mut names = Vec::with_capacity(rows.columns.len());
    for column in &rows.columns {
        let mut name = column.name.clone();
        if taken.contains(&name) {
            let number = numbers.entry(&column.name).or_insert(2);
            while taken.contains(&name) {
                name = format!("{}_{number}", column.name);
                *number += 1;
            }
        }
        taken.insert(name.clone());
        names.push(name);
    }
    names
}

/// By `pg_type`'s numbers: what JSON has as well is that, everything else is PostgreSQL's text.
fn cell(type_oid: u32, text: Option<&str>) -> Value {
    let Some(text) = text else { return Value::Null };
    let as_text = || Value::String(text.to_owned());
    match type_oid {
        // bool
        16 => Value::Bool(text == "t"),
        // int8, int2, int4, oid
        20 | 21 | 23 | 26 => match text.parse::<i64>() {
            Ok(number) if (-EXACT..=EXACT).contains(&number) => number.into(),
            _ => as_text(),
        },
        // float4, float8; not `NaN` and the infinities, which JSON does not have
        700 | 701 => {
            (text.parse().ok().and_then(Number::from_f64)).map_or_else(as_text, Value::Number)
        }
        // json, jsonb
        114 | 3802 => serde_json::from_str(text).unwrap_or_else(|_| as_text()),
        _ => as_text(),
    }
}

fn bad(words: &'static str) -> Error {
    Error::with(Code::BadRequest, SafeText::words(words))
}

#[cfg(test)]
mod tests;
