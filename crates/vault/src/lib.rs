//! Seals values, opens them again, and knows where they come from. The only code that can.
//!
//! A locked vault is just its `Store`; [`Vault::unlock`] gives the open one, dropping that locks
//! it. Deliberately absent: who may use a value (`core::policy`), and the file's engine (`store`).
//! Source: design.md, section 5; reference/secrets.md, section 7.

// The vault
mod index;
mod key;
mod random;
mod seal;
mod vault;

// Its factors
mod envelope;

// What is known of a secret, and where its value comes from
mod metadata;
mod source;

// The fleet's catalog
mod catalog;

pub use crate::{
    catalog::{
        Catalog, CatalogEntry, CatalogError, CatalogFault, EgressPolicy, MAX_CATALOG_BYTES,
        MountedRef, parse_catalog,
    },
    envelope::{Factor, KdfCost, MIN_PASSPHRASE_CHARS, Passphrase, RecoveryPhrase},
    metadata::{EnvName, EnvNameError, LookAlikeShape, Metadata, PlaceholderShape, SourceConfig},
    source::{Capability, MAX_VALUE_BYTES, MountedValues, Reading, SourceKind, Warning},
    vault::{Secret, Vault},
};
