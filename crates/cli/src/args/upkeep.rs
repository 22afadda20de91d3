//! What keeps a secret fresh, as options.

use std::num::NonZeroU32;

use clap::Args;
use jiff::civil::Date;
use keyless_core::{ApproveOnUse, approval::is_web_page};
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
    pub(crate) expires: Option<Word<Date>>,
    /// How often it is to be renewed; or none
    #[arg(long, help_heading = HEADING, value_name = "DAYS", value_parser = parse_rhythm)]
    pub(crate) rotate_every: Option<Word<u32>>,
    /// Who renews it: manual, provider-ui, provider-api
    #[arg(long, help_heading = HEADING, value_name = "WHO", value_parser = parse_method)]
    pub(crate) rotation: Option<RotationMethod>,
    /// The page where the next value is got; or none
    #[arg(long, help_heading = HEADING, value_name = "URL", value_parser = parse_page)]
    pub(crate) retrieval_url: Option<Word<String>>,
    /// The catalog's pattern for it (keyless catalog list); or none
    #[arg(long, help_heading = HEADING, value_name = "ID", value_parser = parse_pattern)]
    pub(crate) pattern: Option<Word<String>>,
    /// What it should be allowed to do at its service
    #[arg(long, help_heading = HEADING, value_name = "LIST", value_delimiter = ',')]
    pub(crate) scopes: Vec<String>,
    /// How many versions are kept, with the one in use; none for all of them
    #[arg(long, help_heading = HEADING, value_name = "N", value_parser = parse_count)]
    pub(crate) keep_versions: Option<Word<NonZeroU32>>,
    /// How many days an older version is kept; none for ever
    #[arg(long, help_heading = HEADING, value_name = "DAYS", value_parser = parse_count)]
    pub(crate) keep_days: Option<Word<NonZeroU32>>,
    /// The longest that a fetched value may stay in memory; or none
    #[arg(long, help_heading = HEADING, value_name = "SECONDS", value_parser = parse_seconds)]
    pub(crate) cache_at_most: Option<Word<u64>>,
}

/// What an option says of a setting: a value for it, or that it is to have none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Word<T> {
    Said(T),
    None,
}

impl UpkeepArgs {
    /// The pattern that it is to have.
    pub(crate) fn pattern_id(&self) -> Option<&str> {
        self.pattern.as_ref().and_then(Word::said).map(String::as_str)
    }
}

impl<T> Word<T> {
    /// The value, if it says one.
    pub(crate) fn said(&self) -> Option<&T> {
        match self {
            Self::Said(value) => Some(value),
            Self::None => None,
        }
    }

    fn parse(word: &str, read: impl FnOnce(&str) -> Option<T>, form: &str) -> Result<Self, String> {
        if word == "none" {
            return Ok(Self::None);
        }
        read(word).map(Self::Said).ok_or_else(|| format!("{form}, or none"))
    }
}

fn parse_day(word: &str) -> Result<Word<Date>, String> {
    let word = if word == "never" { "none" } else { word };
    Word::parse(word, |day| day.parse().ok(), "a day is 2027-01-31")
}

fn parse_rhythm(word: &str) -> Result<Word<u32>, String> {
    let read = |days: &str| days.parse().ok().filter(|days| (1..=3650).contains(days));
    Word::parse(word, read, "1 to 3650 days")
}

fn parse_page(word: &str) -> Result<Word<String>, String> {
    let read = |page: &str| is_web_page(page).then(|| page.to_owned());
    Word::parse(word, read, "an https:// address of at most 2048 bytes")
}

fn parse_pattern(word: &str) -> Result<Word<String>, String> {
    Word::parse(word, |id| Some(id.to_owned()), "a pattern's id")
}

fn parse_count(word: &str) -> Result<Word<NonZeroU32>, String> {
    Word::parse(word, |count| count.parse().ok(), "a number from 1 on")
}

fn parse_seconds(word: &str) -> Result<Word<u64>, String> {
    Word::parse(word, |seconds| seconds.parse().ok(), "a number of seconds")
}

fn parse_policy(word: &str) -> Result<ApproveOnUse, String> {
    ApproveOnUse::parse(word).ok_or_else(|| "one of never, session, per-call".to_owned())
}

fn parse_method(word: &str) -> Result<RotationMethod, String> {
    RotationMethod::parse(word).ok_or_else(|| "one of manual, provider-ui, provider-api".to_owned())
}
