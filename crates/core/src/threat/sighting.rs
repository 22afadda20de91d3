//! What of an action's end counts as an incident.

use jiff::Timestamp;

use super::{AttackType, DetectionMethod, Incident};
use crate::{Code, deny::Category};

/// The incidents that a refusal is; `category` is that of the guard's rule, if one stopped it.
pub fn of_fault(code: Code, category: Option<Category>, now: Timestamp) -> Vec<Incident> {
    let pattern = |attack| Incident::new(attack, DetectionMethod::PatternMatching, now);
    let behaviour = |attack| Incident::new(attack, DetectionMethod::BehavioralAnalysis, now);
    match code {
        Code::ActionBlocked => category.and_then(attack_of).map(pattern).into_iter().collect(),
        Code::EvasionBlocked => vec![pattern(AttackType::EncodingBypass)],
        Code::ReferenceInResult => vec![pattern(AttackType::SecretInOutput)],
        Code::HoneypotTouched => vec![Incident::honeypot(now)],
        // What an agent meets that tries references, scopes, attestations and tokens which are not its own.
        Code::AttestationInvalid
        | Code::AttestationReplayed
        | Code::CapabilityMissing
        | Code::DelegationExhausted
        | Code::DelegationExpired
        | Code::DelegationInvalid
        | Code::DelegationRevoked
        | Code::DelegationSubset
        | Code::DelegationTooDeep
        | Code::GrantMissing
        | Code::ScopeViolation
        | Code::SecretNotFound => vec![behaviour(AttackType::Denial)],
        Code::QuotaExceeded | Code::RateLimited => vec![behaviour(AttackType::Flood)],
        _ => Vec::new(),
    }
}

/// The incidents that values in one output are; `is_encoded` for each that was found, whether it stood there encoded.
pub fn of_redactions(is_encoded: impl Iterator<Item = bool>, now: Timestamp) -> Vec<Incident> {
    let seen = |attack| Incident::new(attack, DetectionMethod::HashBased, now);
    let encoded = is_encoded.fold(None, |any, one| Some(any.unwrap_or(false) | one));
    let output = encoded.map(|_| seen(AttackType::SecretInOutput));
    let disguise = encoded.filter(|any| *any).map(|_| seen(AttackType::EncodingBypass));
    output.into_iter().chain(disguise).collect()
}

fn attack_of(category: Category) -> Option<AttackType> {
    Some(match category {
        Category::BulkExport | Category::EnvironmentDump => AttackType::BulkExport,
        Category::DirectSecretAccess => AttackType::DirectRequest,
        Category::EncodingEvasion => AttackType::EncodingBypass,
        Category::IndirectExecution => AttackType::IndirectExecution,
        Category::InternalFileAccess => AttackType::FileAccess,
        Category::ShellExpansion => AttackType::ShellExpansion,
        // An organization's own rules and lists say what is not done here, not what is an attack.
        Category::Allowlist | Category::Custom => return None,
    })
}
