//! What a secret may be used for within its hosts, and how its value gets there.

use clap::{Args, ValueEnum};
use keyless_core::{Injection, OauthGrant, Otherwise, RequestRule, Sealing, Signer};
use keyless_daemon::vault::Preset;

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
    #[arg(long, value_name = "PLACE", value_parser = parse_injection)]
    pub(crate) inject: Option<InjectionWord>,
    /// Have the proxy sign with the value: aws:PATH-OF-KEY-ID, tls-client, github-webhook, slack-webhook, 'hmac-sha256 …'; or none
    #[arg(long, value_name = "HOW", value_parser = parse_signer)]
    pub(crate) sign: Option<SignerWord>,
    /// Get access tokens with the value: 'client-credentials https://HOST/token CLIENT-ID scope=…', 'refresh-token …'; or none
    #[arg(long, value_name = "GRANT", value_parser = parse_grant)]
    pub(crate) oauth: Option<GrantWord>,
    /// Answers whose tokens become placeholders: 'POST auth.example.com/token to=api.example.com'; repeatable; or none
    #[arg(long, value_name = "ANSWERS", value_parser = parse_sealing)]
    pub(crate) seal: Vec<SealingWord>,
}

/// `--otherwise`.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum OtherwiseWord {
    /// They wait for your approval.
    Ask,
    /// They are refused.
    Deny,
}

/// `--inject`.
#[derive(Clone, Debug)]
pub(crate) enum InjectionWord {
    /// Placeholders are swapped again.
    None,
    Place(Injection),
}

/// `--sign`.
#[derive(Clone, Debug)]
pub(crate) enum SignerWord {
    How(Signer),
    /// It is no key any more.
    None,
}

/// `--oauth`.
#[derive(Clone, Debug)]
pub(crate) enum GrantWord {
    Grant(OauthGrant),
    /// The value itself goes into requests again.
    None,
}

/// `--seal`.
#[derive(Clone, Debug)]
pub(crate) enum SealingWord {
    Answers(Sealing),
    /// No answers any more.
    None,
}

impl From<OtherwiseWord> for Otherwise {
    fn from(word: OtherwiseWord) -> Self {
        match word {
            OtherwiseWord::Ask => Self::Ask,
            OtherwiseWord::Deny => Self::Deny,
        }
    }
}

fn parse_injection(text: &str) -> Result<InjectionWord, keyless_core::InjectionError> {
    match text {
        "none" => Ok(InjectionWord::None),
        place => Injection::parse(place).map(InjectionWord::Place),
    }
}

fn parse_signer(text: &str) -> Result<SignerWord, keyless_core::SignerError> {
    match text {
        "none" => Ok(SignerWord::None),
        how => Signer::parse(how).map(SignerWord::How),
    }
}

fn parse_grant(text: &str) -> Result<GrantWord, keyless_core::OauthGrantError> {
    match text {
        "none" => Ok(GrantWord::None),
        grant => OauthGrant::parse(grant).map(GrantWord::Grant),
    }
}

fn parse_sealing(text: &str) -> Result<SealingWord, keyless_core::SealingError> {
    match text {
        "none" => Ok(SealingWord::None),
        answers => Sealing::parse(answers).map(SealingWord::Answers),
    }
}
