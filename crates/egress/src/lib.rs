//! The egress door: traffic with placeholders comes in, traffic with values goes out, and what
//! comes back is scrubbed.
//!
//! ```text
//! door (CONNECT, absolute-form, preamble, funnel)
//!   -> zone and policy -> not named by a secret: tunnel
//!                      -> named: TLS with a leaf of the session -> guard -> pipeline
//! pipeline: agree on one authority -> connection from the pool -> swap -> send -> scrub -> answer
//! ```
//!
//! Deliberately absent: values and where they are kept (the broker, behind [`Broker`]), the
//! decision whether one may be used (`keyless_core`), synthetic DNS (`guest`).
//! Source: spec/egress-secret-proxy.md; reference/egress.md; design.md, section 5.

// What the daemon brings and gets
mod account;
mod client;
mod database;
mod engine;
mod limits;
mod media_type;
mod oauth;
mod ports;
mod quota;
mod raw_target;
mod session;

// From an accepted connection to a request
mod dial;
mod door;
mod explain;
mod guard;
mod reach;
mod reading;
mod room;
mod strangers;
mod tls;
mod tunnel;
mod uncarried;
mod upstream_proxy;
mod withdrawal;
mod write_through;

// From a request to its answer
mod http2;
mod incoming;
mod pipeline;
mod pool;
mod refusal;

// The bytes in between
mod coding;
mod frames;
pub mod fuzzing;
mod passage;
mod scrub;
mod swap;

/// Requests of the broker's own.
pub use crate::client::{Client, ClientAnswer, ClientRequest, Whose};
/// The proxy itself, and how it is set up.
pub use crate::engine::{EgressPolicy, Engine, EngineConfig, EngineError, Target};
/// What would happen to a request, and why.
pub use crate::explain::{Asks, Explanation, Question, SecretFate, Step};
/// The strict reading of an HTTP/1 head, for the fuzz target `http_head`.
pub use crate::guard::{Door, Framing, parse_head};
/// Every bound of the proxy, with its source.
pub use crate::limits::Limits;
/// Access tokens, asked for on the host.
pub use crate::oauth::{TokenReply, TokenRequest};
/// What the broker implements.
pub use crate::ports::{
    Broker, Event, Finished, Incident, Kept, Minted, Recording, Redacted, Released, RequestInfo,
    SoFar,
};
/// How much one session may ask for.
pub use crate::quota::Allowance;
/// One agent's run, as egress sees it.
pub use crate::session::{Session, SessionSecret, SessionSpec};
/// How long what a session's authority is trusted by is good.
pub use crate::tls::AUTHORITY_LIFE;
/// A certificate authority that is kept, for a fleet.
pub use crate::tls::CaKeys;
pub use crate::tls::{RootFault, RootsError};
pub use crate::tls::{ServerFiles, ServerTls};
/// What carries no value: by ports, addresses and variables.
pub use crate::uncarried::{Uncarried, never_carried};
/// A company's own proxy on the way out.
pub use crate::upstream_proxy::{ProxyCredential, UpstreamProxy};
