//! The egress proxy against real clients and origins: curl, rustls and raw sockets on one side,
//! the recording origins of `keyless-testkit` on the other. Loopback only.

#![expect(clippy::unwrap_used, reason = "what can't be set up is a failed test")]

mod scene;

/// The doors: CONNECT, absolute-form, preamble, hand-over; credentials; the connection limit.
mod doors;
/// What a client sends that no careful reader takes.
mod framing;
/// HTTP/1 and HTTP/2 in every combination; trailers, Expect, bodies, the pool.
mod http;
/// A client that holds several HTTP/2 streams: what happens to one leaves the others alone.
mod streams;
/// Leaves and the authority, as OpenSSL sees them; ClientHellos in pieces; upstream certificates.
mod tls;
/// WebSockets and other upgrades.
mod websocket;
/// Where connections may go: zones, ports, authority.
mod where_to;
