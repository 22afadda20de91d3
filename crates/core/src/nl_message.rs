//! The messages of the NL Protocol as they travel: envelopes, bare bodies, faults, discovery.
//!
//! Pure: bytes in, checked messages out, and back. What a message asks for is decided elsewhere.
//! Source: spec/nl-protocol-level2.md, sections 6, 7 and 11; reference/nl.md, sections 8, 9 and 10.

mod discovery;
mod envelope;
mod fault;
mod message_type;
mod profile;
mod schemas;

pub(crate) use self::envelope::is_id;
pub use self::{
    discovery::{AttestationIssuer, Discovery, health},
    envelope::{Clock, MAX_CLOCK_SKEW, MAX_MESSAGE_BYTES, Message, Named, Shape, to_millisecond},
    fault::{NlFault, nl_name, nl_status},
    message_type::MessageType,
    profile::Profile,
    schemas::{SCHEMAS, all_schemas, schema, schema_title},
};

/// The version that is spoken here.
pub const NL_VERSION: &str = crate::audit::NL_VERSION;
/// The type of every body.
pub const MEDIA_TYPE: &str = "application/nl-protocol+json";
