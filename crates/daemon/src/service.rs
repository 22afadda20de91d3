//! The broker as a service of one user: `agent.sock`, JSON lines, no call that returns a value.
//!
//! `keyless unlock` starts it; it relocks by timer. A session lives as long as the connection that
//! opened it, so that a killed `keyless run` leaves nothing behind. A run that opens the store itself has the same
//! for its own tools alone (`server/own.rs`). `keyless mcp` asks here too, in a session
//! of its own. Changing secrets is not to be had here: that takes the operator's factor, at
//! `operator.sock`. Source: design.md, section 4.

pub(crate) mod agent_call;
mod client;
mod older;
mod protocol;
mod server;
mod turn;

pub(crate) use client::while_it_answers;
pub use client::{RemoteSession, leave_lock, lock, open_session, reopen, status};
pub use older::{OlderBroker, older_brokers};
pub use protocol::{SessionOffer, Status};
pub(crate) use protocol::{Ticket, UNREADABLE_CALL};
pub use server::{OwnTools, open_own_session, serve};
pub(crate) use turn::served_in;
pub use turn::{UnlockingTurn, unlocking_turn};
