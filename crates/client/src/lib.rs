//! For agents written in Rust: a framework's model acts with secrets, and neither of them ever holds one.
//!
//! A [`Client`] is one connection to the broker that `keyless serve` or `keyless unlock` started, as one agent. The model
//! writes `{{nl:category/NAME}}`; what comes back was looked through for the value. Many calls wait for their answers at
//! the same time over one connection, from as many clones of the client as there are tasks.
//!
//! ```no_run
//! use keyless_client::Client;
//! use keyless_core::action::{Action, Deed};
//!
//! # async fn acts() -> Result<(), keyless_client::Error> {
//! let client = Client::from_environment().await?;
//! let template = "curl -s -H 'Authorization: Bearer {{nl:api/TOKEN}}' https://api.example.com/me";
//! let request = client.request(Action::new(Deed::Exec { template: template.to_owned() }));
//! let response = client.execute(&request).await?;
//! match response.error {
//!     None => println!("{:?}", response.result),
//!     // For the model, which may do better.
//!     Some(fault) => println!("{} {}", fault.message, fault.suggestion.unwrap_or_default()),
//! }
//! # Ok(())
//! # }
//! ```
//!
//! - A denial is an answer: [`Client::execute`] gives it in the [`ActionResponse`](keyless_core::action::ActionResponse).
//!   An [`Error`] is a broker that can't be asked, or a message that it did not take.
//! - One `request_id` is done once, however often the request is sent, so that a call that broke off can be sent again.
//! - A client does not connect anew by itself: [`Client::connect`] does, with the same [`Identity`].
//! - A broker that does not even say that it is there is told as such
//!   ([`Code::BrokerHangs`](keyless_core::Code::BrokerHangs)). One that answers is waited for, since a person may have to be
//!   asked; [`Client::within`] sets a bound.
//!
//! A tool as a framework would hand it to its model is in `crates/cli/examples/agent_framework.rs`. `keyless mcp` and
//! `keyless serve --stdio` speak through this crate as well. Source: spec/nl-protocol-level2.md; docs/nl.md.

// What a framework calls
mod calls;
mod client;
mod error;
mod identity;

// How it is carried
mod greeting;
mod line;
mod proof;
mod reach;

/// One agent's connection, and what its calls give.
pub use calls::{Access, Delegation, UsableSecret};
pub use client::Client;
/// Why there is no answer.
pub use error::Error;
/// An agent's identity, and where it connects.
pub use identity::{Identity, socket_from_environment};

/// For programs that carry lines themselves, as `keyless serve --stdio` does.
pub use greeting::{Greeted, greet, greet_for_good};
/// What tells the broker that a connection keeps its agent.
pub use identity::SETTLES;
/// The proof that a delegation is its presenter's, as both ends reckon it.
pub use proof::{proof, proven_at};
/// Reaching a broker, and knowing one that hangs.
pub use reach::{PATIENCE, connect_in_time, hangs_for, process_at, reach, while_alive};
