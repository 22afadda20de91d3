//! What keeps a secret fresh, as options.

use std::num::NonZeroU32;

use clap::Args;
use jiff::civil::Date;
use keyless_core::ApproveOnUse;
use keyless_daemon::vault::RotationMethod;

const HEADING: &str = "Renewal and approval";

/// Renewal and approval.
#[derive(Debug, Default, Args)]
pub(crate) struct UpkeepArgs {
    /// When you are asked before it is used: never, session, per-call
    #[arg(long, help_heading = HEADING, value_name = "WHEN", value_parser = parse_policy)]
    pub(crate) approve_on_use: Option<ApproveOnUse>,
    /// The last day on which the value works, such as 2027-01-31; or none
    #[arg(long, help_heading = HEADING, value_name = "DATE", value_parser = parse_day)]
    pub(crate) expires: Option<DayWord>,
    /// How often it is to be renewed
    #[arg(long, help_heading = HEADING, value_name = "DAYS", value_parser = clap::value_parser!(u32).range(1..=3650))]
    pub(crate) rotate_every: Option<u32>,
    /// Who renews it: manual, provider-ui, provider-api
    #[arg(long, help_heading = HEADING, value_name = "WHO", value_parser = parse_method)]
    pub(crate) rotation: Option<RotationMethod>,
    /// The page where the next value is got
    #[arg(long, help_heading = HEADING, value_name = "URL")]
    pub(crate) retrieval_url: Option<String>,
    /// The catalog's pattern for it (keyless catalog list)
    #[arg(long, help_heading = HEADING, value_name = "ID")]
    pub(crate) pattern: Option<String>,
    /// What it should be allowed to do at its service
    #[arg(long, help_heading = HEADING, value_name = "LIST", value_delimiter = ',')]
    pub(crate) scopes: Vec<String>,
    /// How many versions are kept, with the one in use; all when never said
    #[arg(long, help_heading = HEADING, value_name = "N")]
    pub(crate) keep_versions: Option<NonZeroU32>,
    /// How many days an older version is kept; for ever when never said
    #[arg(long, help_heading = HEADING, value_name = "DAYS")]
    pub(crate) keep_days: Option<NonZeroU32>,
    /// The longest that a fetched value may stay in memory
    #[arg(long, help_heading = HEADING, value_name = "SECONDS")]
    pub(crate) cache_at_most: Option<u64>,
}

/// `--expires`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DayWord {
    Day(Date),
    /// No day is known.
    None,
}

fn parse_day(word: &str) -> Result<DayWord, String> {
    match word {
        "none" | "never" => Ok(DayWord::None),
        day => day.parse().map(DayWord::Day).map_err(|_| "a day is 2027-01-31, or none".to_owned()),
    }
}

fn parse_policy(word: &str) -> Result<ApproveOnUse, String> {
    ApproveOnUse::parse(word).ok_or_else(|| "one of never, session, per-call".to_owned())
}

fn parse_method(word: &str) -> Result<RotationMethod, String> {
    RotationMethod::parse(word).ok_or_else(|| "one of manual, provider-ui, provider-api".to_owned())
}
