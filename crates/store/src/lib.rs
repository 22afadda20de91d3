//! The database of Keyless: sealed versions, their metadata, and the audit log.
//!
//! SQLite for one machine and PostgreSQL for a team, through sqlx, which no other crate names. Deliberately absent: keys and plaintext. What
//! is stored here is sealed, wrapped or meant to be read; `vault` makes and checks it. Every
//! mutation is one transaction that is on disk when its call returns. Source: design.md, sections
//! 3 and 5; reference/secrets.md, section 7.

// The database, and the one face of both kinds
mod engine;
mod store;

// The vault's rows
mod sealed;

// What agents ask of a person
mod requests;
mod turn;

// When sources were in touch
mod contacts;

// Who is the operator
mod codes;
mod passkeys;

// Who agents are, and what they may do
mod nl;

// The log
mod audit;

pub use crate::{
    audit::{
        AcceptedBreak, AuditLog, AuditQuery, Fit, HeadSealer, LatestUse, LogError, MissedEnd,
        TamperedAt, Told, VerifiedChain,
    },
    contacts::SourceContact,
    nl::{
        AgentRow, Beginning, BegunMessage, DelegationRow, GrantRow, ShownAttestation, ThreatRow,
        Untaken, UseOf, Uses,
    },
    passkeys::{Passkey, PasskeyRow},
    requests::RequestRow,
    sealed::{CommitmentRow, EnvelopeRow, HeaderRow, Rows, SecretRow, VersionRow, Writing},
    store::{ChangeMark, Server, ServerFault, Store, StoreError, StoreOptions, StorePlace},
    turn::Turn,
};
