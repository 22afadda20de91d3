//! Which secret each handle of an action means, among those that may be seen.

use keyless_core::{
    Code, Error, Handle, HandleTarget, Resolution, SafeText, SecretPath,
    action::{Action, ActionContext},
};
use keyless_vault::{Secret, Vault};

use crate::nl::resolve::kept_at;

/// A handle and its secret.
pub type Resolved = (Handle, SecretPath);

/// Finds the secret of each handle. What is not `visible` does not exist (13.5).
pub fn resolve_handles(
    action: &Action,
    vault: &Vault,
    visible: &[Secret],
) -> Result<Vec<Resolved>, Error> {
    let handles = action.handles().map_err(|error| {
        let words = SafeText::default().as_they_wrote(&error.to_string());
        Error::with(Code::PlaceholderInvalid, words)
    })?;
    let context = action.context.clone().unwrap_or_default();
    handles
        .into_iter()
        .map(|handle| {
            let path = resolve(&handle, &context, vault, visible)?;
            Ok((handle, path))
        })
        .collect()
}

fn resolve(
    handle: &Handle,
    context: &ActionContext,
    vault: &Vault,
    visible: &[Secret],
) -> Result<SecretPath, Error> {
    let written = || SafeText::default().as_they_wrote(handle.as_written());
    let reference = match handle.target() {
        HandleTarget::Local(reference) => reference,
        HandleTarget::Provider { provider, path } => {
            let there = kept_at(vault, visible.iter(), (provider, path)).cloned();
            return there.map_err(|code| Error::with(code, written()));
        }
        HandleTarget::Federated { .. } => {
            return Err(Error::with(Code::TrustDomainUnknown, written()));
        }
    };
    let paths = visible.iter().map(|secret| &secret.path);
    match reference.resolve_within(paths, context) {
        Resolution::One(path) => Ok(path.clone()),
        Resolution::NotFound => Err(Error::with(Code::SecretNotFound, written())),
        Resolution::Ambiguous(paths) => {
            let mut words = written().and(" may be ");
            for (number, path) in paths.iter().enumerate() {
                words = words.and(if number == 0 { "" } else { ", " }).and(*path);
            }
            Err(Error::with(Code::ReferenceAmbiguous, words))
        }
    }
}
