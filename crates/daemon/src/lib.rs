//! The broker: the only room that sees both sides of every port.
//!
//! It gives egress its values and its log, the jail its funnel, and the command line its answers.
//! Deliberately absent: words for people (`cli`), deciding (`core`), sealing (`vault`).
//! Source: design.md, sections 3 and 4.

// Where things are, and what the operator set
mod config;
mod passphrase;
mod places;
mod sockets;

// The broker and its sessions
mod broker;
mod session_broker;
mod values;

// What it does for whom
mod egress_door;
mod environment;
mod fleet;
mod operator;
mod run;
mod service;

// This process
mod hardening;

/// A jail's init is the same executable, and whether one can be made here.
pub use keyless_jail::{check as check_jail, init_if_asked};
/// The store below a vault.
pub use keyless_store::Store;
/// The vault's words, for the command line.
pub use keyless_vault as vault;

pub use crate::{
    broker::{Broker, Inherited, OpenSession, Variable, Wanted, open_bare_session},
    config::{Config, EgressConfig, PolicyWord, parse_route},
    egress_door::EgressDoor,
    environment::inherited,
    fleet::{Fleet, FleetListen, FleetSpec, fleet_placeholders, start_fleet},
    hardening::{die_by_signal, harden},
    operator::{
        Operator, audit_log, audit_tail, audit_verify, create_store, list_secrets, open_store,
        refuse_existing_store, show_secret,
    },
    passphrase::read_passphrase_file,
    places::{KEYLESS_HOME, KEYLESS_PASSPHRASE_FILE, Places},
    run::{Ended, Isolation, RunSpec, SessionHandle, absolute_paths, run},
    service::{
        RemoteSession, SessionOffer, Status, lock as lock_service,
        open_session as open_remote_session, serve, status as service_status,
    },
};
