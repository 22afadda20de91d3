//! Tools for agents, over the Model Context Protocol.
//!
//! What a tool of the toolset `secrets` may ask is a port ([`Secrets`]), answered by the broker; what it may answer is
//! made of a closed set of types, none of which can hold a value ([`Told`]). The toolset `pack` has a port of its own
//! ([`Packs`]) and knows no secrets. Deliberately absent: deciding, and everything about sockets of ours.
//! Source: spec/secrets-through-mcp.md, spec/agentpack-mcp.md.

// What a tool may ask, and what it is told
mod fault;
mod told;

// The tools
pub mod nl;
pub mod pack;
pub mod secrets;

// The protocol
mod http;
mod logging;
mod message;
mod server;
mod stdio;

pub use crate::{
    fault::Fault,
    http::{Credential, HTTP_PATH, refuse_others, serve_http},
    nl::Nl,
    pack::Packs,
    secrets::{Ask, Reply, Secrets},
    server::{Server, Toolset},
    stdio::{MAX_LINE, serve_stdio, serve_streams},
    told::{Told, Words},
};
