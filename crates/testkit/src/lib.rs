//! The scenery of Keyless's tests and of `keyless demo`: servers that record what reached them, the
//! certificate authority they are trusted by, canary values and scratch homes.
//!
//! Everything here is a real part (hyper, rustls, nginx, `git http-backend`) and listens on loopback
//! only. Nothing here stands in for a room of Keyless: there are no mocks of our own. `keyless demo`
//! depends on this crate for its origins; no other product code does.
//! Follows `reference/egress.md`, section (e), "Set-up for all".

// --- Certificates -------------------------------------------------------------------------------
mod ca;

/// The authority that test clients and the proxy under test are told to trust, and its leaves.
pub use ca::{Leaf, TestCa};

// --- Origins ------------------------------------------------------------------------------------
mod containers;
mod engine;
mod git;
mod grpc;
mod nginx;
mod origin;
mod port;
mod postgres;
mod registry;

/// Debian's `docker-registry`.
pub use containers::ContainerRegistry;
/// The databases that a store can be in; [`on_both`] makes a test of each.
pub use engine::Engine;
/// Bare repositories, served by `git http-backend` through a [`Handler`].
pub use git::Repositories;
/// Python's `grpcio`, as an origin that none of us wrote.
pub use grpc::GrpcServer;
/// Debian's nginx, as an origin that none of us wrote.
pub use nginx::{Nginx, NginxOptions};
/// A recording server on 127.0.0.1, and the words to configure it.
pub use origin::{Alpn, Origin, OriginOptions};
/// What an origin answers: handlers, their ready-made kinds, and who may see them.
pub use origin::{Coding, Gate, Handler, Reply, ReplyBody, RequestBody, reply, streamed};
/// What an origin recorded.
pub use origin::{ConnectionRecord, RecordedRequest, Snapshot};
/// Verbatim bytes on the wire, for what a well-behaved server would never send.
pub use origin::{Script, Step};
/// The replies of [`Handler::standard`] one by one.
pub use origin::{echo, stream, websocket};
/// Debian's PostgreSQL, likewise.
pub use postgres::{Postgres, PostgresOptions};
/// Package indexes with one tiny package each.
pub use registry::{image, npm, pypi};

// --- What tests look with -----------------------------------------------------------------------
mod canary;
mod home;

/// A value that must never be seen, and the search for it in every encoding.
pub use canary::{Canary, Sighting};
/// A private home directory with a cleared environment.
pub use home::ScratchHome;
