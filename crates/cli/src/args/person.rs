//! What the operator says: in the terminal, on the screen, on the page.

use clap::Args;
use keyless_core::{Destination, SecretPath, approval::RequestId};

use super::{FactorArgs, ValueArgs};

pub(super) const APPROVE_EXAMPLES: &str = "\
Examples:
  keyless approve                                     everything that waits, one after the other
  keyless approve prov-1f9b3a2c5e7d                   one request
  keyless approve prov-1f9b3a2c5e7d --once            without a question
  gen-token | keyless approve prov-1f9b3a2c5e7d --accept --value-stdin --to api.example.com
  keyless approve --list                              what waits, what holds, what was denied
  keyless approve --take-back prov-1f9b3a2c5e7d       revoke an approval, or lift a denial";

#[derive(Debug, Args)]
#[expect(clippy::struct_excessive_bools, reason = "each is a switch of the command line")]
pub(crate) struct ApproveArgs {
    /// The request, as prov-1f9b3a2c5e7d; all that wait when absent
    #[arg(value_name = "ID", value_parser = parse_request)]
    pub(crate) id: Option<RequestId>,
    /// Show what waits, what still holds and what was denied
    #[arg(long, conflicts_with_all = ["id", "take_back"])]
    pub(crate) list: bool,
    /// Revoke an approval, or lift a denial
    #[arg(long, value_name = "ID", value_parser = parse_request, conflicts_with = "id")]
    pub(crate) take_back: Option<RequestId>,
    /// Allow one use
    #[arg(long, group = "word")]
    pub(crate) once: bool,
    /// Allow every use until the session ends
    #[arg(long, group = "word")]
    pub(crate) session: bool,
    /// Refuse
    #[arg(long, group = "word")]
    pub(crate) deny: bool,
    /// Accept: all proposed fields, the path, or a value that is read as the other options say
    #[arg(long, group = "word")]
    pub(crate) accept: bool,
    /// With --accept, another name for a new path
    #[arg(long, value_name = "PATH", requires = "accept")]
    pub(crate) path: Option<SecretPath>,
    /// With --accept, a host that may receive the value; repeatable
    #[arg(long, value_name = "HOST", requires = "accept")]
    pub(crate) to: Vec<Destination>,
    /// With --accept, the variable that holds the placeholder
    #[arg(long, value_name = "NAME", requires = "accept")]
    pub(crate) env: Option<String>,
    /// With --accept, let a rotation overwrite the present value
    #[arg(long, requires = "accept")]
    pub(crate) overwrite: bool,
    #[command(flatten)]
    pub(crate) value: ValueArgs,
    #[command(flatten)]
    pub(crate) factor: FactorArgs,
}

#[derive(Debug, Args)]
pub(crate) struct UiArgs {
    #[command(flatten)]
    pub(crate) factor: FactorArgs,
}

#[derive(Debug, Args)]
pub(crate) struct WebArgs {
    /// Open the link in your browser
    #[arg(long)]
    pub(crate) open: bool,
}

/// An answer that is given by option.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AnswerWord {
    /// `--accept`.
    Accept,
    /// `--deny`.
    Deny,
    /// `--once`.
    Once,
    /// `--session`.
    Session,
}

impl ApproveArgs {
    /// The first of the options, if any is given, that say what a value is and where it may go.
    pub(crate) fn options_of_value(&self) -> Option<&'static str> {
        let options = [
            (self.value.value_stdin, "--value-stdin"),
            (self.value.from_file.is_some(), "--from-file"),
            (self.value.allow_weak, "--allow-weak"),
            (!self.to.is_empty(), "--to"),
            (self.env.is_some(), "--env"),
            (self.overwrite, "--overwrite"),
        ];
        options.into_iter().find_map(|(given, name)| given.then_some(name))
    }

    /// The answer that the options give, if they give one.
    pub(crate) fn word(&self) -> Option<AnswerWord> {
        let words = [
            (self.accept, AnswerWord::Accept),
            (self.deny, AnswerWord::Deny),
            (self.once, AnswerWord::Once),
            (self.session, AnswerWord::Session),
        ];
        words.into_iter().find_map(|(given, word)| given.then_some(word))
    }
}

fn parse_request(text: &str) -> Result<RequestId, String> {
    RequestId::parse(text).ok_or_else(|| "prov- and 12 hexadecimal digits".to_owned())
}
