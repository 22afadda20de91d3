//! Which setting stands behind a refusal, for the log. The words are those of catalog and config.toml.

use keyless_core::Code;

/// The setting that decided; none where something failed, or nobody could have wished otherwise.
pub(super) fn deciding_setting(code: Code) -> Option<&'static str> {
    Some(match code {
        Code::ApprovalDenied | Code::ApprovalRequired => "ask",
        Code::Cleartext => "to https",
        Code::DestinationNotListed | Code::RawAddress => "policy allowlist",
        Code::ForeignDestination => "on_foreign block",
        Code::InternalDestination => "zone internal",
        Code::LocationNotAllowed => "locations",
        Code::PortRefused => "ports",
        Code::QuotaExceeded | Code::TooManyConnections => "limits",
        Code::RuleDenied => "otherwise deny",
        Code::SecretWithdrawn => "withdrawn",
        Code::TooManyOccurrences => "max_occurrences",
        _ => return None,
    })
}
