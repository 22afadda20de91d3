//! Bringing an existing project to Keyless: what its variables hold, under which paths they go into the
//! vault, and what is left in their place.
//!
//! Values pass from a file or the environment into the vault and nowhere else; no type here that is shown holds one.
//! Words for people are the command line's. Source: reference/secrets.md, 16 and 20 (44-47, 63-70).

mod aliases;
mod carrying;
mod document;
mod elsewhere;
mod import;
mod manifest;
mod mentions;
mod names;
mod propose;
mod reuse;
mod rewrite;
mod scan;
mod signing;
mod state;
mod values;

pub use self::{
    aliases::{AliasUse, KnownPaths, aliases_in, carries_variables},
    carrying::{Login, uncarried},
    elsewhere::values_elsewhere,
    import::{
        Composed, Going, Import, ImportRow, Leave, Leaving, Outcome, Overruled, Wish, is_document,
    },
    manifest::{Existing, write as write_manifest},
    propose::{Judged, Proposal, Proposer},
    rewrite::LeftBehind,
    scan::{
        Scan, ValuesHeld, Variable, is_taken_from, made_up_in, scan, values_at_hand, values_beside,
        values_held,
    },
    signing::signer_of,
    state::{SetupState, Step, StepStatus},
};
