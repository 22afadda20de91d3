//! Every bound of the proxy in one place. There is deliberately no bound on the size or time of a body that streams:
//! git packs and token streams take as long as they take.
//! Source: reference/egress.md (c) 29 and 30, (d), (e) 63, 99 and 116.

use std::time::Duration;

/// How long a database is asked to cancel a statement.
pub(crate) const CANCEL_TIME: Duration = Duration::from_secs(5);

/// Connections over the bound that are told so at the same time; of more, nothing but the log hears.
pub(crate) const FAREWELLS: usize = 64;

/// How much of a body, or of a message, is looked at in every form that a value can be given: 4 MiB. What answers with a value
/// that it was given does so in a text, and texts are shorter. That look goes at some 450 MB a second and would halve the
/// speed of long downloads; what comes behind is scrubbed of the forms in which servers echo.
pub(crate) const MAX_DISGUISED: usize = 4 << 20;

/// Values are looked for in every form up to so many bytes, a session's own before the tokens that answers have minted, and the
/// youngest first: 16 KiB, some ten JWTs or 400 opaque tokens. What finds them is made anew for each new one, in up to 20 ms
/// for a KiB.
pub(crate) const MAX_DISGUISED_VALUES: usize = 16 << 10;

/// What looking for a token costs beside its own length.
pub(crate) const TOKEN_OVERHEAD: usize = 256;

/// The bounds of an [`Engine`](crate::Engine).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Connections accepted at the same time, over all doors. Default: 2,000.
    pub connections: usize,
    /// A request head's bytes, and one trailer block's, which over HTTP/2 may have twice as many. Default: 64 KiB.
    pub head_bytes: usize,
    /// A request head's fields. Default, and the most over HTTP/1: 100, as Apache and gunicorn have it.
    pub head_fields: usize,
    /// From a head's first byte to its last, a trailer block's too over HTTP/2; also TLS handshakes with clients, and the time until
    /// a connection to an intercepted host says what it speaks. Default: 30 s.
    pub head_time: Duration,
    /// How long a kept connection may wait for its next request, over HTTP/2 one without any stream. Default: 5 min.
    pub idle_time: Duration,
    /// The whole preamble. Default: 10 s.
    pub preamble_time: Duration,
    /// One name look-up. Default: 5 s.
    pub lookup_time: Duration,
    /// Connecting to one destination, all its addresses together. Default: 10 s.
    pub connect_time: Duration,
    /// The TLS handshake with the destination. Default: 10 s.
    pub handshake_time: Duration,
    /// How long an idle connection to a destination is kept for the next request. Default: 90 s.
    pub pool_idle_time: Duration,
    /// Idle HTTP/1.1 connections kept per destination. Default: 64, since an agent's own pattern
    /// is many requests to one host.
    pub pool_idle_per_destination: usize,
    /// Idle connections to destinations kept in all, shared out evenly among sessions that have many: the oldest are closed
    /// first. Default: 512, half of the descriptors that processes usually have.
    pub pool_idle: usize,
    /// Leaf certificates kept per session. Default: 256.
    pub leaves: usize,
    /// Requests that one HTTP/2 connection of a client may have in flight. Default: 128.
    pub streams: u32,
    /// Requests in flight at the same time, of all connections: each may hold back a few hundred
    /// KiB for a client that does not read. Default: 4,096.
    pub requests: usize,
    /// What a session may know of tokens that answers minted for it, in bytes and 256 for each. Each is looked
    /// for in all answers until the session ends: its server may show it for as long, and none may be let through for being
    /// old. Default: 1 MiB, some 700 of the usual JWTs or 3,500 opaque ones, with which a new one takes seconds to take up.
    pub minted_bytes: usize,
    /// What is held of bodies that are read whole, of all sessions, in bytes. Default: 256 MiB, what a small machine can
    /// spare: by requests and the longest body that is signed it would be 64 GiB.
    pub whole_bytes: usize,
    /// The same of one session. Default: 64 MiB, four of the longest bodies that are signed, so that no one session takes
    /// the room of all.
    pub whole_bytes_per_session: usize,
    /// How long a client may send nothing of a body that is read whole: it holds its room meanwhile. Default: 30 s, as for a
    /// head.
    pub body_pause: Duration,
    /// The bytes a second that such a body has to come with on the whole, after two pauses: one that drips would hold its
    /// room for good. Default: 16 KiB, so that 16 MiB have 18 minutes.
    pub body_rate: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: 2_000,
            head_bytes: 64 << 10,
            head_fields: 100,
            head_time: Duration::from_secs(30),
            idle_time: Duration::from_mins(5),
            preamble_time: Duration::from_secs(10),
            lookup_time: Duration::from_secs(5),
            connect_time: Duration::from_secs(10),
            handshake_time: Duration::from_secs(10),
            pool_idle_time: Duration::from_secs(90),
            pool_idle_per_destination: 64,
            pool_idle: 512,
            leaves: 256,
            streams: 128,
            requests: 4_096,
            minted_bytes: 1 << 20,
            whole_bytes: 256 << 20,
            whole_bytes_per_session: 64 << 20,
            body_pause: Duration::from_secs(30),
            body_rate: 16 << 10,
        }
    }
}
