//! Arguments of `keyless secret revoke`.

use clap::Args;
use keyless_core::SecretPath;

use super::FactorArgs;

#[derive(Debug, Args)]
#[command(group = clap::ArgGroup::new("what").required(true).args(["compromised", "renewed"]))]
pub(crate) struct RevokeArgs {
    /// The secret, as project/category/name
    #[arg(value_name = "PATH")]
    pub(crate) path: SecretPath,
    /// Others may know the value: refuse every use until there is a new one
    #[arg(long)]
    pub(crate) compromised: bool,
    /// The source that keeps the value has a new one: give it out again
    #[arg(long)]
    pub(crate) renewed: bool,
    /// How it came about, for the log
    #[arg(long, value_name = "TEXT", default_value = "by the operator")]
    pub(crate) reason: String,
    /// Don't ask
    #[arg(long)]
    pub(crate) yes: bool,
    #[command(flatten)]
    pub(crate) factor: FactorArgs,
}
