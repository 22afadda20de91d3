//! Seals values, opens them again, and knows where they come from. The only code that can.
//!
//! A locked vault is just its `Store`; [`Vault::unlock`] gives the open one, dropping that locks
//! it. Deliberately absent: who may use a value (`core::policy`), and the file's engine (`store`).
//! Source: design.md, section 5; reference/secrets.md, section 7.

// The vault
mod index;
mod key;
mod moment;
mod random;
mod seal;
mod vault;
mod voucher;

// Its factors
mod envelope;

// Files from which it learns
mod plain_file;

// A copy of it, for another place
mod backup;

// What is known of a secret, and where its value comes from
mod dotenv;
mod inventory;
mod metadata;
mod router;
mod source;
mod toml_fault;
mod upkeep;
mod weakness;

// The fleet's catalog
mod catalog;

// The token catalog
mod providers;

// For the fuzz targets
pub mod fuzzing;

pub use crate::{
    backup::{Backup, BackupIdentities, BackupRecipients, MAX_BACKUP_BYTES},
    catalog::{
        Catalog, CatalogEntry, CatalogError, CatalogFault, EgressPolicy, MAX_CATALOG_BYTES,
        MountedRef, Preset, PresetError, PresetInfo, parse_catalog,
    },
    dotenv::{Assignment, Dotenv, DotenvText, is_utf16, read as read_dotenv},
    envelope::{
        EnvelopeKind, Factor, KdfCost, Keyfile, MIN_PASSPHRASE_CHARS, MachineBinding, Passphrase,
        RecoveryPhrase, TotpGate, TotpSecret,
    },
    inventory::{
        Entry, Fault, IndexFile, Inventory, InventoryFile, Manifest, Origin, Override, Row,
    },
    metadata::{
        Compromise, EnvForm, EnvFormError, EnvName, EnvNameError, LookAlikeShape, Metadata,
        PlaceholderShape, Retention, SourceConfig, is_of_sessions,
    },
    moment::{LOOK, Moment},
    plain_file::{PlainFile, read_settings, read_settings_text},
    providers::{
        Egress, EnvMeaning, EnvPattern, FormatVerdict, KnownForms, KnownLocations, Liveness,
        LivenessAuth, LivenessKind, LivenessMethod, Provider, ProviderFault, Providers, Retrieval,
        Rotation, Says, Scope, Tier, Variant, provider_files, provider_in, provider_text,
        read_provider,
    },
    router::{
        KeptAt, LackingSource, Router, RouterConfig, SourceReport, SourceType, UnknownSourceType,
    },
    source::{
        Answer, Capabilities, Capability, Held, HttpAnswer, HttpFault, HttpRequest,
        KEYLESS_SECRETS_FILE, MAX_ANSWER_BYTES, MAX_VALUE_BYTES, MountedValues, Reading,
        SecretsFile, SourceHttp, SourceKind, State, Warning, drop_mark,
        run_programs_with_open_files, variables_with_value,
    },
    toml_fault::toml_fault,
    upkeep::{EXPIRING_DAYS, Freshness, RotationMethod, Upkeep},
    vault::{
        Conflicts, Entries, Envelope, Imported, Looked, NewSecret, NewVersion, Replacement, Secret,
        Succession, Vault, Version,
    },
    voucher::Voucher,
    weakness::Weakness,
};
