//! Where a secret may go and where it stands there.

use clap::{Args, ValueEnum};
use keyless_core::{Destination, Location, OnForeign};
use keyless_daemon::vault::EnvForm;

use super::{
    UseArgs,
    word::{Word, or_none},
};

/// `--unsafe-expose`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum SwitchWord {
    Off,
    On,
}

/// Where a secret may go and how it is offered.
#[derive(Debug, Args)]
pub(crate) struct RuleArgs {
    /// A host that may receive the value: api.github.com, *.example.com, host:8443, http://host:80; repeatable. What
    /// was named before gives way to all of these; none takes it back
    #[arg(long, value_name = "HOST", value_parser = or_none(Destination::parse))]
    pub(crate) to: Vec<Word<Destination>>,
    /// The variable that holds the placeholder; or none
    #[arg(long, value_name = "NAME")]
    pub(crate) env: Option<String>,
    /// What stands around the placeholder in the variable, such as postgres://app:{}@db.example.com/app; or none
    #[arg(long, value_name = "FORM", value_parser = or_none(EnvForm::parse))]
    pub(crate) env_form: Option<Word<EnvForm>>,
    /// Where it is swapped: header, basic, path, query, body, password of a database (these when absent), websocket
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = parse_location)]
    pub(crate) locations: Vec<Location>,
    /// How often it may stand in one request; none takes the limit back
    #[arg(long, value_name = "N", value_parser = or_none(parse_most))]
    pub(crate) max_occurrences: Option<Word<u32>>,
    /// What happens to the placeholder toward another host that is read
    #[arg(long, value_name = "WHAT")]
    pub(crate) on_foreign: Option<OnForeignWord>,
    /// The placeholder's form: default, colon, or PREFIX:LENGTH of the real format (ghp_:40)
    #[arg(long, value_name = "FORM")]
    pub(crate) placeholder: Option<String>,
    /// Whether actions get the value itself though it names hosts: `on` gives up what placeholders are for
    #[arg(long, value_name = "WORD")]
    pub(crate) unsafe_expose: Option<SwitchWord>,
    /// A line about what it is for
    #[arg(long, value_name = "TEXT")]
    pub(crate) description: Option<String>,
    #[command(flatten)]
    pub(crate) uses: UseArgs,
}

/// `--on-foreign`.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum OnForeignWord {
    /// The request is refused.
    Block,
    /// The placeholder leaves as it is, useless.
    Pass,
}

impl From<OnForeignWord> for OnForeign {
    fn from(word: OnForeignWord) -> Self {
        match word {
            OnForeignWord::Block => Self::Block,
            OnForeignWord::Pass => Self::Pass,
        }
    }
}

fn parse_most(most: &str) -> Result<u32, &'static str> {
    most.parse().ok().filter(|most| *most > 0).ok_or("a number from 1 on, or none")
}

fn parse_location(word: &str) -> Result<Location, String> {
    Location::parse(word)
        .ok_or_else(|| "one of header, basic, path, query, body, password, websocket".to_owned())
}
