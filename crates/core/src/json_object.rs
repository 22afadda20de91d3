//! Objects of JSON that are objects: what serde derives takes an array as well, its items for members by their place, so
//! that a bound which nobody named would seem to be one, or not to be there. And whole numbers, however they are written.

use jiff::Timestamp;
use serde::{
    Deserialize, Deserializer,
    de::{DeserializeOwned, Error, Unexpected},
};
use serde_json::{Map, Value};

/// What has to be an object, for serde's `deserialize_with`.
pub(crate) fn object<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: DeserializeOwned,
{
    read(Map::deserialize(deserializer)?)
}

/// As [`object`], but of what may be absent or null.
pub(crate) fn maybe_object<'de, D, T>(deserializer: D) -> Result<Option<T>, D::Error>
where
    D: Deserializer<'de>,
    T: DeserializeOwned,
{
    Option::deserialize(deserializer)?.map(read).transpose()
}

/// As [`object`], but of each member of a list.
pub(crate) fn objects<'de, D, T>(deserializer: D) -> Result<Vec<T>, D::Error>
where
    D: Deserializer<'de>,
    T: DeserializeOwned,
{
    let each = Vec::deserialize(deserializer)?.into_iter().enumerate();
    each.map(|(index, members)| {
        read_members(members)
            .map_err(|fault| D::Error::custom(placed(&format!("[{index}]"), &fault)))
    })
    .collect()
}

/// An object with the times at these places in milliseconds, as messages have them.
pub(crate) fn in_milliseconds(mut object: Value, places: &[&str]) -> Value {
    for place in places {
        if let Some(time) = object.pointer_mut(place)
            && let Some(at) = time.as_str().and_then(|text| text.parse::<Timestamp>().ok())
        {
            *time = format!("{at:.3}").into();
        }
    }
    object
}

/// A whole number from 0 on, as JSON Schema has it: `10.0` and `1e1` are some as well. Beyond 2^53 only what is written as
/// one.
pub fn whole_number(json: &Value) -> Option<u64> {
    const EXACT: f64 = 9_007_199_254_740_992.0;
    let of_fraction = |number: f64| {
        let is_whole = number.fract() == 0.0 && (0.0..=EXACT).contains(&number);
        is_whole.then(|| format!("{number:.0}").parse().ok()).flatten()
    };
    json.as_u64().or_else(|| of_fraction(json.as_f64()?))
}

/// Such a number that need not be there, or is null, for serde's `deserialize_with`.
pub fn maybe_whole<'de, D, T>(deserializer: D) -> Result<Option<T>, D::Error>
where
    D: Deserializer<'de>,
    T: TryFrom<u64>,
{
    let Some(json) = Option::<Value>::deserialize(deserializer)? else { return Ok(None) };
    let number = whole_number(&json).and_then(|number| T::try_from(number).ok());
    let fault = || Error::invalid_value(unexpected(&json), &"a whole number from 0 on");
    number.map(Some).ok_or_else(fault)
}

fn unexpected(json: &Value) -> Unexpected<'_> {
    match json {
        Value::Array(_) => Unexpected::Seq,
        Value::Bool(truth) => Unexpected::Bool(*truth),
        Value::Null => Unexpected::Unit,
        Value::Number(number) => number.as_i64().map_or_else(
            || Unexpected::Float(number.as_f64().unwrap_or_default()),
            Unexpected::Signed,
        ),
        Value::Object(_) => Unexpected::Map,
        Value::String(text) => Unexpected::Str(text),
    }
}

/// Reads what has to be an object; what is wrong comes with the name of the member that it is in.
pub fn read_object<T: DeserializeOwned>(json: Value) -> Result<T, String> {
    let Value::Object(members) = json else { return Err("it is no object".to_owned()) };
    read_members(members)
}

fn read<T: DeserializeOwned, E: Error>(members: Map<String, Value>) -> Result<T, E> {
    read_members(members).map_err(E::custom)
}

fn read_members<T: DeserializeOwned>(members: Map<String, Value>) -> Result<T, String> {
    serde_path_to_error::deserialize(Value::Object(members)).map_err(|error| {
        let path = error.path().to_string();
        let fault = error.into_inner().to_string();
        if path == "." { fault } else { placed(&path, &fault) }
    })
}

/// A fault with its place, which is continued where an object inside has named its own: `` `a.b`: … ``, not
/// `` `a`: `b`: … ``.
fn placed(path: &str, fault: &str) -> String {
    let inner = fault.strip_prefix('`').and_then(|rest| rest.split_once("`: "));
    match inner {
        Some((inside, fault)) => {
            let dot = if inside.starts_with('[') { "" } else { "." };
            format!("`{path}{dot}{inside}`: {fault}")
        }
        None => format!("`{path}`: {fault}"),
    }
}
