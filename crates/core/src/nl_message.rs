//! The messages of the NL Protocol as they travel: envelopes, bare bodies, faults, discovery, health.
//!
//! Pure: bytes in, checked messages out, and back. What a message asks for is decided elsewhere.
//! Source: spec/nl-protocol-level2.md, sections 6, 7 and 11; reference/nl.md, sections 8, 9 and 10.

mod fault;

pub use self::fault::{NlFault, Shape, nl_name};
