//! Where a secret may go and where it stands there.

use clap::{Args, ValueEnum};
use keyless_core::{Destination, DestinationError, Location, OnForeign};
use keyless_daemon::vault::{EnvForm, EnvFormError};

use super::UseArgs;

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
    #[arg(long, value_name = "HOST", value_parser = parse_host)]
    pub(crate) to: Vec<HostWord>,
    /// The variable that holds the placeholder; or none
    #[arg(long, value_name = "NAME")]
    pub(crate) env: Option<String>,
    /// What stands around the placeholder in the variable, such as postgres://app:{}@db.example.com/app; or none
    #[arg(long, value_name = "FORM", value_parser = parse_form)]
    pub(crate) env_form: Option<FormWord>,
    /// Where it is swapped: header, basic, path, query, body, password of a database (these when absent), websocket
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = parse_location)]
    pub(crate) locations: Vec<Location>,
    /// How often it may stand in one request; none takes the limit back
    #[arg(long, value_name = "N", value_parser = parse_most)]
    pub(crate) max_occurrences: Option<MostWord>,
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

/// `--to`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum HostWord {
    Host(Destination),
    /// It goes nowhere any more.
    None,
}

/// `--env-form`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum FormWord {
    Form(EnvForm),
    /// The placeholder alone.
    None,
}

/// `--max-occurrences`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MostWord {
    /// There is no limit.
    None,
    Most(u32),
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

fn parse_host(word: &str) -> Result<HostWord, DestinationError> {
    match word {
        "none" => Ok(HostWord::None),
        host => Destination::parse(host).map(HostWord::Host),
    }
}

fn parse_form(word: &str) -> Result<FormWord, EnvFormError> {
    match word {
        "none" => Ok(FormWord::None),
        form => EnvForm::parse(form).map(FormWord::Form),
    }
}

fn parse_most(word: &str) -> Result<MostWord, &'static str> {
    match word.parse() {
        _ if word == "none" => Ok(MostWord::None),
        Ok(most) if most > 0 => Ok(MostWord::Most(most)),
        _ => Err("a number from 1 on, or none"),
    }
}

fn parse_location(word: &str) -> Result<Location, String> {
    Location::parse(word)
        .ok_or_else(|| "one of header, basic, path, query, body, password, websocket".to_owned())
}
