//! The NL Protocol's service: who may do what, what was said, and what is done.
//!
//! ```text
//! http ─────┐
//! ndjson ───┼─► NlService::answer: count, authenticate, guard, grants, approval, permit, execute,
//! mcp ──────┘   sanitize, write down, respond
//! ```
//!
//! All doors lead to the one path, and none of its answers holds a value.
//! Source: spec/nl-protocol-level2.md; reference/nl.md, sections 8 and 10.

// The doors
mod bridge;
mod caller;
mod http;
mod listen;
mod ndjson;

// Who, and how they may act
mod administer;
mod agents;
pub mod attestation;
mod binding;
pub mod delegations;
pub mod detection;
pub mod grants;
pub mod guard;
mod orphans;
mod sub_agents;
mod upkeep;

// The path
mod acting;
pub mod actions;
mod answer;
mod apart;
mod approve;
mod ask;
mod delegate;
mod rates;
mod record;
mod refuse;
mod replays;
mod resolve;
mod room;
mod service;
mod submit;
mod watch;

// Word to the operator's receivers
pub(crate) mod rotation;
mod webhooks;

pub(crate) use self::{
    acting::end_unfit,
    listen::Listeners,
    ndjson::serve as serve_session,
    rotation::keep_phases,
    service::NlService,
    upkeep::keep as tidy_agents,
    webhooks::{HookKey, Telling, tell_all},
};
pub use self::{
    agents::{Agents, CREDENTIAL_NOTE, OPERATOR, Registrar, Registration, registered},
    bridge::{NlClient, serve_stdio as serve_nl_stdio},
    webhooks::{HookUrl, Webhook},
};

#[cfg(test)]
mod scene;
