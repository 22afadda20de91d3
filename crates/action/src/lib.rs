//! Does what agents ask to be done, with values that they never see: NL's action types.
//!
//! A command runs in a jail that the caller makes; a value enters it as a variable of the shell, as its
//! standard input or as a file in its memory, and never as an argument. A secret that names its
//! destinations enters as a placeholder. What comes back is looked through for every value that the
//! agent's actions have had. Deliberately not here: who may do what (`core`, the broker), where values
//! come from (`vault`), how a jail is made (`jail`); ports say what is needed of them.
//! Source: spec/nl-protocol-level2.md, sections 5 and 9; reference/nl.md, sections 3 and 13.

// What it needs of others
mod ports;

// A command with placeholders becomes a script with variables
mod material;
mod script;

// Running it
mod captured;
mod commands;
mod executor;
mod kept;

// Calling a service
mod sdk;

// What the agent gets to see
mod cleaning;

/// Whether a value is taken out of what comes back.
pub use cleaning::is_looked_for;
/// The whole of one action, and what came of it.
pub use executor::{
    Checked, Executor, ExitReport, Limits, Outcome, Redaction, Services, Work, withheld_in_words,
};
/// Where the files of an action are, in its jail.
pub use kept::{Kept, SECURE_DIRECTORY};
/// What the broker implements.
pub use ports::{
    Berth, Command, Edition, Entrusted, Entry, Exchanged, Exit, File, Known, Process, Reach,
    Release, Released, Running, Standing, WentOut,
};
/// Services that are called with a credential.
pub use sdk::{Answer, BoundTo, Call, Databases, Http, ProviderFault, Providers};
