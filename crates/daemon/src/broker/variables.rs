//! In which variables a session's command finds its placeholders. Pure.

use std::collections::HashMap;

use keyless_core::{Code, Error, Placeholder, SafeText, SecretPath, SessionKey, Signer};
use keyless_vault::{EnvName, Secret};

use super::{Variable, companion};
use crate::{aliases::Aliased, environment::is_of_sessions};

/// Whether an agent that asks for no secret by name gets this one.
pub(super) fn is_offered(secret: &Secret) -> bool {
    !secret.metadata.honeypot && has_use(secret)
}

/// Whether a command has something of it: a placeholder in a variable, or what the proxy does by itself.
fn has_use(secret: &Secret) -> bool {
    secret.metadata.egress.as_ref().is_some_and(|rule| {
        let signs = matches!(rule.sign, Some(Signer::Hmac(_) | Signer::TlsClient { .. }));
        secret.metadata.env.is_some() || rule.inject.is_some() || signs
    })
}

/// Those of which the command has nothing: neither a variable, nor an alias, nor a key that they come along with.
pub(super) fn unnamed(chosen: &[Secret], aliased: &[Aliased]) -> Vec<SecretPath> {
    let nowhere = |secret: &&Secret| {
        !has_use(secret)
            && aliased.iter().all(|aliased| aliased.path != secret.path)
            && chosen.iter().all(|key| companion(key) != Some(&secret.path))
    };
    chosen.iter().filter(nowhere).map(|secret| secret.path.clone()).collect()
}

/// The variables of the secrets. One whose value others know has its placeholder too, which stands for nothing until
/// there is a new value.
pub(super) fn variables(chosen: &[Secret], key: &SessionKey) -> Vec<Variable> {
    let variable = |secret: &Secret| {
        let name = secret.metadata.env.as_ref()?.to_string();
        Some(Variable { name, placeholder: placeholder(secret, key).to_string() })
    };
    chosen.iter().filter_map(variable).collect()
}

/// The placeholder in place of the alias.
pub(super) fn resolved(aliased: &Aliased, chosen: &[Secret], key: &SessionKey) -> Option<Variable> {
    let secret = chosen.iter().find(|secret| secret.path == aliased.path)?;
    let placeholder = placeholder(secret, key).to_string();
    Some(Variable { name: aliased.variable.clone(), placeholder })
}

/// What stands for a secret's value in the session of `key`.
pub(super) fn placeholder(secret: &Secret, key: &SessionKey) -> Placeholder {
    Placeholder::derive(key, &secret.path, &secret.metadata.placeholder.form())
}

/// Two secrets in one variable: the agent would get one of them, and nobody would know which.
pub(super) fn refuse_shared_variables(chosen: &[Secret]) -> Result<(), Error> {
    let mut seen: HashMap<&str, &SecretPath> = HashMap::new();
    for secret in chosen {
        let Some(name) = &secret.metadata.env else { continue };
        if let Some(other) = seen.insert(name.as_str(), &secret.path) {
            let words = SafeText::default().and(other).and(" and ").and(&secret.path);
            let words = words.and(" both want the variable ").as_they_wrote(name.as_str());
            return Err(Error::with(Code::Usage, words.and("; name one with --secret")));
        }
    }
    Ok(())
}

/// A placeholder in a variable that the session sets itself: trust or the way out would be gone.
pub(super) fn refuse_variables_of_sessions(
    chosen: &[Secret],
    aliased: &[Aliased],
) -> Result<(), Error> {
    let refuse = |path: &SecretPath, name: &str, next: &'static str| {
        let words = SafeText::default().and(path).and(" wants the variable ").as_they_wrote(name);
        let words = words.and(", which every session sets itself or keeps away; ").and(next);
        Err(Error::with(Code::Usage, words))
    };
    for secret in chosen {
        let Some(name) = secret.metadata.env.as_ref().map(EnvName::as_str) else { continue };
        if is_of_sessions(name) {
            return refuse(
                &secret.path,
                name,
                "give it another with keyless secret set --env NAME",
            );
        }
    }
    match aliased.iter().find(|aliased| is_of_sessions(&aliased.variable)) {
        Some(Aliased { variable, path }) => refuse(path, variable, "take the alias out of it"),
        None => Ok(()),
    }
}
