//! The egress proxy against real clients and origins: curl, rustls and raw sockets on one side,
//! the recording origins of `keyless-testkit` on the other. Loopback only.

#![expect(clippy::unwrap_used, reason = "what can't be set up is a failed test")]

mod scene;

/// Floods and bombs over HTTP/2.
mod abuse;
/// Destinations whose HTTP/2 is written by hand: what they did not process, and what they cut.
mod by_hand;
/// How destinations are dialled when many ask at once.
mod dialling;
/// The doors: CONNECT, absolute-form, preamble, hand-over; credentials; the connection limit.
mod doors;
/// Server-sent events: none waits, and who leaves is noticed.
mod events;
/// Databases, shells and mail: refused in their own words where a secret would be needed.
mod foreign;
/// What a client sends that no careful reader takes.
mod framing;
/// HTTP/1 and HTTP/2 in every combination; trailers, Expect, bodies, the pool.
mod http;
/// Interim answers over HTTP/1 and HTTP/2 in every combination.
mod interim;
/// What is left of a request or comes beyond an answer, and is no message.
mod leftovers;
/// Tokens that answers mint: kept from the agent, whoever is in a hurry.
mod minted;
/// Random requests, against a model and against no proxy.
mod model;
/// Token endpoints that are asked on the host.
mod oauth;
/// What a secret may be used for inside its host, and credentials that the proxy sets itself.
mod rules;
/// A client that holds several HTTP/2 streams: what happens to one leaves the others alone.
mod streams;
/// Leaves and the authority, as OpenSSL sees them; ClientHellos in pieces; upstream certificates.
mod tls;
/// A company's own proxy on the way out, and hosts that are left alone.
mod upstream;
/// WebSockets and other upgrades.
mod websocket;
/// Where connections may go: zones, ports, authority.
mod where_to;
/// What is open when a session ends, a secret goes, the rules change, the proxy stops.
mod withdrawal;
