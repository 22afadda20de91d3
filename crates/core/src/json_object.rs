//! Objects of JSON that are objects: what serde derives takes an array as well, its items for members by their place, so
//! that a bound which nobody named would seem to be one, or not to be there.

use serde::{Deserialize, Deserializer, de::DeserializeOwned};
use serde_json::{Map, Value};

/// Reads what has to be an object; for serde's `deserialize_with` as well.
pub fn object<'de, D, T>(deserializer: D) -> Result<T, D::Error>
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

fn read<T: DeserializeOwned, E: serde::de::Error>(members: Map<String, Value>) -> Result<T, E> {
    T::deserialize(Value::Object(members)).map_err(E::custom)
}
