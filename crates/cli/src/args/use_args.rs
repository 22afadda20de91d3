//! What a secret may be used for within its hosts, and how its value gets there.

use clap::{Args, ValueEnum};
use keyless_core::{Injection, OauthGrant, Otherwise, RequestRule, Sealing, Signer};
use keyless_daemon::vault::Preset;

use super::word::{Word, or_none};

/// Rules about requests, and the second mode.
#[derive(Debug, Args)]
pub(crate) struct UseArgs {
    /// A request that may have the value: 'GET,HEAD /repos/acme/**', 'POST /rpc json-rpc:ping'; repeatable
    #[arg(long, value_name = "RULE")]
    pub(crate) allow: Vec<RequestRule>,
    /// A request that waits for your approval: 'DELETE /**'; repeatable
    #[arg(long, value_name = "RULE")]
    pub(crate) ask: Vec<RequestRule>,
    /// What happens to requests that no --allow names
    #[arg(long, value_name = "WHAT")]
    pub(crate) otherwise: Option<OtherwiseWord>,
    /// Forget all rules about requests, before others are added
    #[arg(long)]
    pub(crate) any_request: bool,
    /// Hosts, places and rules by name: read-only, github-read=OWNER/REPO
    #[arg(long, value_name = "NAME", value_parser = Preset::parse)]
    pub(crate) preset: Option<Preset>,
    /// Have the proxy set the value itself: bearer, header:NAME=FORM, basic:USER:{}, query:NAME; or none
    #[arg(long, value_name = "PLACE", value_parser = or_none(Injection::parse))]
    pub(crate) inject: Option<Word<Injection>>,
    /// Have the proxy sign with the value: aws:PATH-OF-KEY-ID, tls-client, github-webhook, slack-webhook, 'hmac-sha256 …'; or none
    #[arg(long, value_name = "HOW", value_parser = or_none(Signer::parse))]
    pub(crate) sign: Option<Word<Signer>>,
    /// Get access tokens with the value: 'client-credentials https://HOST/token CLIENT-ID scope=…', 'refresh-token …'; or none
    #[arg(long, value_name = "GRANT", value_parser = or_none(OauthGrant::parse))]
    pub(crate) oauth: Option<Word<OauthGrant>>,
    /// Answers whose tokens become placeholders: 'POST auth.example.com/token to=api.example.com'; repeatable; or none
    #[arg(long, value_name = "ANSWERS", value_parser = or_none(Sealing::parse))]
    pub(crate) seal: Vec<Word<Sealing>>,
}

/// `--otherwise`.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum OtherwiseWord {
    /// They wait for your approval.
    Ask,
    /// They are refused.
    Deny,
}

impl From<OtherwiseWord> for Otherwise {
    fn from(word: OtherwiseWord) -> Self {
        match word {
            OtherwiseWord::Ask => Self::Ask,
            OtherwiseWord::Deny => Self::Deny,
        }
    }
}
