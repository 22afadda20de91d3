//! What keeps a secret fresh, as options.

use std::{num::NonZeroU32, str::FromStr as _};

use clap::Args;
use jiff::civil::Date;
use keyless_core::{ApproveOnUse, approval::is_web_page};
use keyless_daemon::vault::RotationMethod;

use super::word::{Word, or_none};

const HEADING: &str = "Renewal and approval";

/// Renewal and approval.
#[derive(Debug, Default, Args)]
pub(crate) struct UpkeepArgs {
    /// When you are asked before it is used: never, session, per-call
    #[arg(long, help_heading = HEADING, value_name = "WHEN", value_parser = parse_policy)]
    pub(crate) approve_on_use: Option<ApproveOnUse>,
    /// The last day on which the value works, such as 2027-01-31; or none
    #[arg(long, help_heading = HEADING, value_name = "DATE", value_parser = parse_day)]
    pub(crate) expires: Option<Word<Date>>,
    /// How often it is to be renewed; or none
    #[arg(long, help_heading = HEADING, value_name = "DAYS", value_parser = or_none(parse_rhythm))]
    pub(crate) rotate_every: Option<Word<u32>>,
    /// Who renews it: manual, provider-ui, provider-api
    #[arg(long, help_heading = HEADING, value_name = "WHO", value_parser = parse_method)]
    pub(crate) rotation: Option<RotationMethod>,
    /// The page where the next value is got; or none
    #[arg(long, help_heading = HEADING, value_name = "URL", value_parser = or_none(parse_page))]
    pub(crate) retrieval_url: Option<Word<String>>,
    /// The catalog's pattern for it (keyless catalog list); or none
    #[arg(long, help_heading = HEADING, value_name = "ID", value_parser = or_none(String::from_str))]
    pub(crate) pattern: Option<Word<String>>,
    /// What it should be allowed to do at its service
    #[arg(long, help_heading = HEADING, value_name = "LIST", value_delimiter = ',')]
    pub(crate) scopes: Vec<String>,
    /// How many versions are kept, with the one in use; none for all of them
    #[arg(long, help_heading = HEADING, value_name = "N", value_parser = or_none(parse_count))]
    pub(crate) keep_versions: Option<Word<NonZeroU32>>,
    /// How many days an older version is kept; none for ever
    #[arg(long, help_heading = HEADING, value_name = "DAYS", value_parser = or_none(parse_count))]
    pub(crate) keep_days: Option<Word<NonZeroU32>>,
    /// The longest that a fetched value may stay in memory; or none
    #[arg(long, help_heading = HEADING, value_name = "SECONDS", value_parser = or_none(parse_seconds))]
    pub(crate) cache_at_most: Option<Word<u64>>,
}

impl UpkeepArgs {
    /// The pattern that it is to have.
    pub(crate) fn pattern_id(&self) -> Option<&str> {
        self.pattern.as_ref().and_then(Word::said).map(String::as_str)
    }
}

fn parse_day(word: &str) -> Result<Word<Date>, &'static str> {
    if word == "never" {
        return Ok(Word::None);
    }
    or_none(|day| day.parse().map_err(|_| "a day is 2027-01-31, or none"))(word)
}

fn parse_rhythm(days: &str) -> Result<u32, &'static str> {
    let days = days.parse().ok().filter(|days| (1..=3650).contains(days));
    days.ok_or("1 to 3650 days, or none")
}

fn parse_page(page: &str) -> Result<String, &'static str> {
    let words = "an https:// address of at most 2048 bytes, or none";
    is_web_page(page).then(|| page.to_owned()).ok_or(words)
}

fn parse_count(count: &str) -> Result<NonZeroU32, &'static str> {
    count.parse().map_err(|_| "a number from 1 on, or none")
}

fn parse_seconds(seconds: &str) -> Result<u64, &'static str> {
    seconds.parse().map_err(|_| "a number of seconds, or none")
}

fn parse_policy(word: &str) -> Result<ApproveOnUse, String> {
    ApproveOnUse::parse(word).ok_or_else(|| "one of never, session, per-call".to_owned())
}

fn parse_method(word: &str) -> Result<RotationMethod, String> {
    RotationMethod::parse(word).ok_or_else(|| "one of manual, provider-ui, provider-api".to_owned())
}
