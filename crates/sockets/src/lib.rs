//! Sockets as every door needs them: Unix sockets at paths of any length, whoever comes accepted steadily, and a
//! client's own socket handed on with the connection that is carried for it.
//!
//! A crate of its own since the funnel (`guest`), `egress` and `mcp` don't know each other. What is said on a
//! connection, who may open one, and how many at once, is for whoever listens.

mod arrivals;
mod handed;
mod seats;
mod unix;

/// Accepting: the next one whatever fails, or each in a task of its own.
pub use arrivals::{Accepting, Arrivals, accept_each, raise_open_files};
/// A connection over a Unix socket, with the socket of the client that it is carried for.
pub use handed::{End, Handed, send_with};
/// As many connections as there is room for: one that only sits there gives way.
pub use seats::{Process, Seat, Seats, Taken, UnderWay};
/// Unix sockets at paths of any length.
pub use unix::{bind_unix, connect_unix};
