//! A text in a message that is wiped once it was read; for serde's `with`.

use serde::{Deserialize as _, Deserializer, Serializer};
use zeroize::Zeroizing;

pub(crate) fn serialize<S: Serializer>(text: &Zeroizing<String>, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_str(text)
}

pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
    from: D,
) -> Result<Zeroizing<String>, D::Error> {
    String::deserialize(from).map(Zeroizing::new)
}
