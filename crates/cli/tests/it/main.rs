//! The built binary, driven as a user would: real clients, real servers on loopback, real jails.
//!
//! Every test lives in one [`world::World`]. When it ends, everything that came out (streams,
//! JSON, files of the agent, the store, the broker's `/proc` entries) is searched for the value.

#![expect(clippy::unwrap_used, reason = "what can't be set up is a failed test")]

/// The invocation of one command and what came out of it.
mod invocation;
/// A person at a pseudo-terminal.
mod terminal;
/// One home, one certificate authority, one value that nobody may see.
mod world;

/// The log of a session, and what tampering with it does.
mod audit;
/// What can't be used: a clear error, the documented exit status, nothing lost.
mod bad_input;
/// curl, git, Python, Node, npm and pip, with no setting of their own.
mod clients;
/// Things that must never happen, tried by an agent.
mod exfiltration;
/// Exit, signals, streams, terminal, hidden files.
mod process;
/// The fleet's sidecar.
mod proxy;
/// Secrets from birth to removal.
mod secrets;
/// The broker in the background.
mod unlock;
