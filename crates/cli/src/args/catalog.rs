//! `keyless catalog`: what is known of the tokens of well-known services.

use std::path::PathBuf;

use clap::{Args, Subcommand};

#[derive(Debug, Subcommand)]
pub(crate) enum CatalogCommand {
    /// List the providers and their kinds of tokens
    #[command(after_help = "Examples:\n  keyless catalog list\n  keyless catalog list git")]
    List(CatalogListArgs),
    /// Show a provider, or one of its tokens: where to get it, where it may go, how to renew it
    #[command(
        after_help = "Examples:\n  keyless catalog show github\n  keyless catalog show github-pat"
    )]
    Show(CatalogShowArgs),
    /// Check catalog files, or all that are in force
    #[command(
        after_help = "Examples:\n  keyless catalog validate\n  keyless catalog validate acme.json"
    )]
    Validate(CatalogValidateArgs),
    /// Name an address to fetch a provider from, and fetch it
    #[command(after_help = "\
Examples:
  keyless catalog add-url https://acme.example/keyless/acme.json --enable
  keyless catalog add-url https://acme.example/keyless/acme.json --pin 9f86d081… --enable")]
    AddUrl(CatalogAddUrlArgs),
    /// Let files of this project count, as they are; a person reads them and says so at a terminal
    #[command(after_help = "\
Examples:
  keyless catalog trust                            every file of .keyless/catalog that does not count yet
  keyless catalog trust .keyless/catalog/acme.json")]
    Trust(CatalogTrustArgs),
    /// Say how the addresses and this project's files stand, without fetching
    #[command(after_help = "Examples:\n  keyless catalog status")]
    Status,
    /// Fetch what is older than its time; an address that is named is fetched in any case
    #[command(after_help = "\
Examples:
  keyless catalog refresh
  keyless catalog refresh https://acme.example/keyless/acme.json
  keyless catalog refresh --all")]
    Refresh(CatalogRefreshArgs),
    /// Pin an address to what it brought, or to a SHA-256
    #[command(after_help = "\
Examples:
  keyless catalog pin https://acme.example/keyless/acme.json")]
    Pin(CatalogPinArgs),
    /// Forget what an address brought first, or that a file was trusted; the next time counts as the first
    #[command(after_help = "\
Examples:
  keyless catalog forget https://acme.example/keyless/acme.json
  keyless catalog forget .keyless/catalog/acme.json")]
    Forget(CatalogForgetArgs),
    /// Take an address away
    #[command(after_help = "\
Examples:
  keyless catalog remove https://acme.example/keyless/acme.json")]
    Remove(CatalogUrlArgs),
}

#[derive(Debug, Args)]
pub(crate) struct CatalogAddUrlArgs {
    /// The address, https
    #[arg(value_name = "URL")]
    pub(crate) url: String,
    /// SHA-256 of the file, 64 hex digits; without it the first fetch says what it has to be
    #[arg(long, value_name = "SHA256")]
    pub(crate) pin: Option<String>,
    /// After how many seconds it is fetched again
    #[arg(long, value_name = "N")]
    pub(crate) refresh_seconds: Option<u64>,
    /// Let catalogs from addresses count
    #[arg(long)]
    pub(crate) enable: bool,
    /// Don't ask
    #[arg(long)]
    pub(crate) yes: bool,
}

#[derive(Debug, Args)]
pub(crate) struct CatalogRefreshArgs {
    /// This address alone, also where it is fresh still
    #[arg(value_name = "URL")]
    pub(crate) url: Option<String>,
    /// Also what is fresh still
    #[arg(long, conflicts_with = "url")]
    pub(crate) all: bool,
}

#[derive(Debug, Args)]
pub(crate) struct CatalogPinArgs {
    /// The address
    #[arg(value_name = "URL")]
    pub(crate) url: String,
    /// What to pin it to; what was fetched from it when absent
    #[arg(value_name = "SHA256")]
    pub(crate) sha256: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct CatalogTrustArgs {
    /// Files of a project; those of .keyless/catalog, here or above, when absent
    #[arg(value_name = "FILE")]
    pub(crate) files: Vec<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct CatalogForgetArgs {
    /// The address, or the file of a project
    #[arg(value_name = "URL|FILE")]
    pub(crate) what: String,
}

#[derive(Debug, Args)]
pub(crate) struct CatalogUrlArgs {
    /// The address
    #[arg(value_name = "URL")]
    pub(crate) url: String,
}

#[derive(Debug, Args)]
pub(crate) struct CatalogListArgs {
    /// Only what contains this
    #[arg(value_name = "TEXT")]
    pub(crate) containing: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct CatalogShowArgs {
    /// A provider or a kind of token
    #[arg(value_name = "ID")]
    pub(crate) id: String,
}

#[derive(Debug, Args)]
pub(crate) struct CatalogValidateArgs {
    /// Files of providers, whose names without .json are theirs, or of patterns (.toml)
    #[arg(value_name = "FILE")]
    pub(crate) files: Vec<PathBuf>,
}
