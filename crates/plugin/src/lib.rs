//! Secret sources as programs of their own: the protocol, the author's end, the broker's end.
//!
//! A plugin is a program that reads one JSON object a line on stdin and answers each with one on
//! stdout. Authors implement [`SecretSource`] and call [`serve`]; `client` is what the broker asks
//! with, and trusts nothing about a plugin: neither its speed, its length, its ids nor its end.
//! Source: reference/secrets.md, section 6, with the faults named there mended.
//!
//! ```no_run
//! use keyless_plugin::{Availability, Fault, Found, SecretSource, Text};
//!
//! struct Fixed;
//!
//! impl SecretSource for Fixed {
//!     fn capabilities(&self) -> u32 {
//!         keyless_plugin::READ
//!     }
//!
//!     fn is_available(&mut self) -> Availability {
//!         Availability::available()
//!     }
//!
//!     fn get(&mut self, reference: &str) -> Result<Option<Found>, Fault> {
//!         Ok((reference == "answer").then(|| Found::forever(Text::new("forty-two".to_owned()))))
//!     }
//! }
//!
//! keyless_plugin::serve("fixed", Fixed).expect("stdin and stdout work");
//! ```

// The protocol
mod line;
mod messages;

// Its two ends
#[cfg(feature = "client")]
mod client;
mod serve;

#[cfg(feature = "client")]
pub use crate::client::{
    ClientError, HeldProgram, Launch, Limits, PluginClient, ProcessGroup, check_program,
    open_checked,
};
pub use crate::{
    line::MAX_LINE_BYTES,
    messages::{
        AUDIT_LOGGED, Availability, BIOMETRIC_PROMPT, Entry, Fault, Found, LIST, PROTOCOL_VERSION,
        READ, ROTATE, Status, Text, VALIDATE, WRITE,
    },
    serve::{SecretSource, serve, serve_on},
};
