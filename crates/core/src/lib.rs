//! The words and the decisions of Keyless.
//!
//! Pure: no tokio, files, network, clock, environment or randomness; all of them are arguments
//! (clippy.toml bans the rest). Deliberately absent: how a value is stored (`vault`), how a request
//! is parsed (`egress`), how a person is asked (`cli`). Source: design.md, sections 1, 2 and 5.

// Names
mod authority;
mod destination;
mod host;
mod path;
mod placeholder;
mod reference;

// Values, and who may open them
mod permit;
mod secret;

// Decisions
mod policy;
mod rule;
mod zone;

// What is told and what is written down
pub mod audit;
mod error;
mod reply;

pub use crate::{
    authority::{Authority, AuthorityError, MAX_PREAMBLE_BYTES, Scheme},
    destination::{Destination, DestinationError},
    error::{Actor, Code, Error, Exit, Remediation},
    host::{Host, HostError, HostName},
    path::{PathError, SecretPath},
    permit::{Permit, Usage},
    placeholder::{
        LookAlike, LookAlikeError, PREFIX as PLACEHOLDER_PREFIX, Placeholder, PlaceholderForm,
        SessionKey,
    },
    policy::{Allowed, EgressUse, Verdict, decide_egress},
    reference::{Reference, ReferenceError, Resolution},
    reply::{AgentSafe, SafeText},
    rule::{EgressRule, Location, Locations, OnForeign},
    secret::{Binding, MIN_BOUND_BYTES, SecretValue, ValueError},
    zone::{Zone, zone_of},
};
