//! Objects of JSON that are objects: what serde derives takes an array as well, its items for members by their place, so
//! that a bound which nobody named would seem to be one, or not to be there.

use serde::{Deserialize, Deserializer, de::DeserializeOwned};
use serde_json::{Map, Value};

/// What has to be an object, for serde's `deserialize_with`.
pub(crate) fn object<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: DeserializeOwned,
{
    read(Map::deserialize(deserializer)?)
}

/// The same of what need not be there, or is null.
pub(crate) fn maybe_object<'de, D, T>(deserializer: D) -> Result<Option<T>, D::Error>
where
    D: Deserializer<'de>,
    T: DeserializeOwned,
{
    Option::deserialize(deserializer)?.map(read).transpose()
}

/// The same of each of a list.
pub(crate) fn objects<'de, D, T>(deserializer: D) -> Result<Vec<T>, D::Error>
where
    D: Deserializer<'de>,
    T: DeserializeOwned,
{
    Vec::deserialize(deserializer)?.into_iter().map(read).collect()
}

/// Reads what has to be an object; what is wrong comes with the name of the member that it is in.
pub fn read_object<T: DeserializeOwned>(json: Value) -> Result<T, String> {
    let Value::Object(members) = json else { return Err("it is no object".to_owned()) };
    serde_path_to_error::deserialize(Value::Object(members)).map_err(|error| {
        let path = error.path().to_string();
        let fault = error.into_inner();
        if path == "." { fault.to_string() } else { format!("`{path}`: {fault}") }
    })
}

fn read<T: DeserializeOwned, E: serde::de::Error>(members: Map<String, Value>) -> Result<T, E> {
    T::deserialize(Value::Object(members)).map_err(E::custom)
}
