//! The funnel: what stands between a confined command and the egress socket.
//!
//! Every name that the confined side looks up gets a synthetic address of its own out of 127/8; every
//! TCP connection, to whatever port, arrives here, is mapped back to the name that its address stands
//! for, and is carried on together with that name. Nothing here resolves a real name, dials a real
//! address, or sees a secret; whether a connection may go anywhere is for `egress` to say. The
//! listening sockets are made elsewhere (`jail`, inside its network namespace) and handed in.
//!
//! Source: spec/egress-secret-proxy.md, reference/egress.md (c) 9 and 40, (d).
//!
//! ```text
//!  confined side                      funnel                                 egress
//!  getaddrinfo("api.test") ─ dns ──► pool: api.test = 127.1.0.7
//!  connect(127.1.0.7:443)  ─ tcp ──► pool: 127.1.0.7 = api.test ─ carrier ─► "api.test:443\n" + bytes
//!  connect(192.0.2.1:22)   ─ tcp ──► not a synthetic address    ─ carrier ─► "192.0.2.1:22\n" (refused there)
//! ```

// Names and their addresses: pure, time is an argument
mod dns;
mod names;

// Connections
mod carrier;
mod funnel;

// Every port, where the kernel can't turn connections itself
mod reflect;
mod tun;

// The hop to egress
mod link;
mod sys;
mod vsock;

/// Takes accepted connections on; the one that ships writes the preamble to the way out.
pub use carrier::{Carrier, PreambleCarrier, Target};
/// Answers one DNS message; pure, and the fuzz target of this crate.
pub use dns::answer_query;
/// Sockets in, served until dropped.
pub use funnel::{DEFAULT_CONNECTION_LIMIT, Funnel, Sockets};
/// Where streams go on to and come from, and joining two of them.
pub use link::{Duplex, Link, Listener, splice};
/// Which name a synthetic address stands for.
pub use names::{Exhausted, LIFE, Pool, TTL};
/// Turns packets of a TUN device to one listener; pure, and a fuzz target.
pub use reflect::{Reflected, Reflector};
/// The loop that does so.
pub use tun::reflect_forever;
/// Between a guest and its host.
pub use vsock::{VsockAddr, VsockListener};
