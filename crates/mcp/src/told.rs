//! The types of which replies are made. None can hold a value.
//!
//! A reply is declared with [`reply!`], and each of its fields must be [`Told`]: a `String`, whatever
//! it was filled from, does not compile into one.

use jiff::civil::Date;
use keyless_core::{
    ApproveOnUse, SafeText, SecretPath,
    approval::{Field, RequestId, RequestKind},
};
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Deserializer, Serialize};

/// May stand in a reply. Closed: the list is here.
///
/// ```
/// fn told<T: keyless_mcp::Told>() {}
/// told::<Option<keyless_mcp::Words>>();
/// ```
///
/// Text that may hold anything is none of it, a value is not, and nobody adds to the list:
///
/// ```compile_fail
/// fn told<T: keyless_mcp::Told>() {}
/// told::<String>();
/// ```
///
/// ```compile_fail
/// fn told<T: keyless_mcp::Told>() {}
/// told::<keyless_core::SecretValue>();
/// ```
///
/// ```compile_fail
/// #[derive(serde::Serialize)]
/// struct Mine(String);
/// impl keyless_mcp::Told for Mine {}
/// ```
pub trait Told: Serialize + sealed::Sealed {}

pub(crate) mod sealed {
    pub trait Sealed {}
}

macro_rules! told {
    ($($kind:ty),* $(,)?) => {$(
        impl $crate::told::sealed::Sealed for $kind {}
        impl $crate::told::Told for $kind {}
    )*};
}
pub(crate) use told;

told!(bool, u32, u64, Date, SecretPath, ApproveOnUse, Field, RequestId, RequestKind, Words);

impl<T: Told> sealed::Sealed for Option<T> {}
impl<T: Told> Told for Option<T> {}
impl<T: Told> sealed::Sealed for Vec<T> {}
impl<T: Told> Told for Vec<T> {}

/// Declares a reply, and holds each of its fields to be [`Told`].
macro_rules! reply {
    ($(#[$meta:meta])* pub struct $name:ident {
        $($(#[$field_meta:meta])* pub $field:ident: $kind:ty,)*
    }) => {
        #[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
        $(#[$meta])*
        pub struct $name { $($(#[$field_meta])* pub $field: $kind,)* }

        $crate::told::told!($name);

        const _: () = {
            const fn held_to_be_told<T: $crate::told::Told>() {}
            $(held_to_be_told::<$kind>();)*
        };
    };
}
pub(crate) use reply;

/// [`SafeText`] as it crosses `agent.sock`: what is read from there was told to the agent already.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct Words(SafeText);

impl Words {
    /// The words.
    pub fn as_str(&self) -> &str {
        self.0.as_str()
    }
}

impl From<SafeText> for Words {
    fn from(text: SafeText) -> Self {
        Self(text)
    }
}

impl From<&'static str> for Words {
    fn from(words: &'static str) -> Self {
        Self(SafeText::words(words))
    }
}

impl<'de> Deserialize<'de> for Words {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let text = String::deserialize(from)?;
        Ok(Self(SafeText::default().as_they_wrote_in_full(&text)))
    }
}

impl JsonSchema for Words {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Words".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        String::json_schema(generator)
    }
}
