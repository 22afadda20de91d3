//! `keyless vault`: what opens the store.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};

use super::FactorArgs;

#[derive(Debug, Subcommand)]
pub(crate) enum VaultCommand {
    /// Look at what opens the store, and change it
    #[command(subcommand)]
    Envelope(EnvelopeCommand),
    /// Copy every secret, with its versions, into a file that is encrypted to age keys
    #[command(after_help = "\
Examples:
  age-keygen -o backup.key                          once; keep it elsewhere
  keyless vault export vault.age --to age1...       any age program can open it with that key")]
    Export(ExportVaultArgs),
    /// Take in the secrets of such a file; stops where one here is not the same
    #[command(after_help = "\
Examples:
  keyless vault import vault.age --identity backup.key
  keyless vault import vault.age --identity backup.key --replace    the copy's values in place of ours")]
    Import(ImportVaultArgs),
}

#[derive(Debug, Args)]
pub(crate) struct ExportVaultArgs {
    /// The new file, which must not be there yet
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
    /// A key that opens it, age1...; several may be named
    #[arg(long, value_name = "RECIPIENT", required = true)]
    pub(crate) to: Vec<String>,
    #[command(flatten)]
    pub(crate) factor: FactorArgs,
}

#[derive(Debug, Args)]
pub(crate) struct ImportVaultArgs {
    /// The file
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
    /// The file with the key that opens it, as age-keygen writes it; yours and 0600
    #[arg(long, value_name = "FILE")]
    pub(crate) identity: PathBuf,
    /// Take in what is new, and leave alone what is here and not the same
    #[arg(long)]
    pub(crate) keep: bool,
    /// What is here and not the same becomes as in the copy, with its values alone; ours are purged
    #[arg(long, conflicts_with = "keep")]
    pub(crate) replace: bool,
    /// Don't ask before anything is replaced, or is to be read from a file, a variable or a source of this machine
    #[arg(long)]
    pub(crate) yes: bool,
    #[command(flatten)]
    pub(crate) factor: FactorArgs,
}

#[derive(Debug, Subcommand)]
pub(crate) enum EnvelopeCommand {
    /// List what opens the store; takes no factor
    #[command(after_help = "Examples:\n  keyless vault envelope list")]
    List,
    /// Add a key file, an authenticator app, or a recovery phrase that was removed
    #[command(after_help = "\
Examples:
  keyless vault envelope add keyfile --file ~/.local/state/keyless/vault.key --this-machine-only
  keyless vault envelope add totp")]
    Add(EnvelopeAddArgs),
    /// Remove one; never the last that opens the store from cold
    #[command(after_help = "\
Examples:
  keyless vault envelope remove totp
  keyless vault envelope remove keyfile --yes")]
    Remove(EnvelopeRemoveArgs),
    /// Put a new passphrase, recovery phrase, key file or authenticator in place of the old one
    #[command(after_help = "\
Examples:
  keyless vault envelope change passphrase
  keyless vault envelope change passphrase --recovery      the old one is lost; the 24 words are not
  keyless vault envelope change recovery --output phrase")]
    Change(EnvelopeAddArgs),
}

/// How the store is opened where its factors are changed: also by the words, for who has lost all others.
#[derive(Debug, Args)]
pub(crate) struct OpenerArgs {
    #[command(flatten)]
    pub(crate) factor: FactorArgs,
    /// Open it with the 24 words of the recovery phrase, typed at the terminal
    #[arg(long, conflicts_with_all = ["passphrase_file", "keyfile"])]
    pub(crate) recovery: bool,
}

#[derive(Debug, Args)]
pub(crate) struct EnvelopeAddArgs {
    /// Which
    #[arg(value_name = "KIND")]
    pub(crate) kind: EnvelopeWord,
    /// For keyfile: the new file, which must not be there yet
    #[arg(long, value_name = "FILE")]
    pub(crate) file: Option<PathBuf>,
    /// For keyfile: it opens the store on this machine alone
    #[arg(long)]
    pub(crate) this_machine_only: bool,
    /// For recovery and totp: write the words, or the otpauth:// URI, to a new 0600 file
    #[arg(long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
    /// For passphrase: read the new one from a file that is yours and 0600
    #[arg(long, value_name = "FILE")]
    pub(crate) new_passphrase_file: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) opener: OpenerArgs,
}

#[derive(Debug, Args)]
pub(crate) struct EnvelopeRemoveArgs {
    /// Which
    #[arg(value_name = "KIND")]
    pub(crate) kind: EnvelopeWord,
    /// Don't ask
    #[arg(long)]
    pub(crate) yes: bool,
    #[command(flatten)]
    pub(crate) opener: OpenerArgs,
}

/// What can open a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum EnvelopeWord {
    /// A file of 32 random bytes.
    Keyfile,
    /// What you type.
    Passphrase,
    /// 24 words on paper.
    Recovery,
    /// An authenticator app, to reopen what has locked itself.
    Totp,
}
