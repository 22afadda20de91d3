//! Which secrets the handles of an action mean, among those that the agent may know of.
//!
//! A secret that the agent has no grant for and one that does not exist are answered alike, so that
//! references are no way to find out what there is (reference/nl.md, 13.5).

use keyless_core::{
    ActionType, Code, Error, Handle, HandleTarget, Reference, Resolution, SafeText, SecretPath,
    action::ActionContext, grant::Subject, nl_message::NlFault,
};
use keyless_vault::{Secret, Vault};

/// A handle and the secret that it means.
#[derive(Clone, Debug)]
pub(crate) struct Meant {
    pub(crate) handle: Handle,
    pub(crate) path: SecretPath,
}

/// The secrets by the names that they were written by, each once: one that was written in several ways by its path. A place
/// that no secret stands for has none but the log's own.
pub(crate) fn names<'a>(
    meant: impl IntoIterator<Item = (&'a Handle, &'a SecretPath)>,
) -> Vec<String> {
    let meant: Vec<_> = meant.into_iter().collect();
    let mut names: Vec<String> = Vec::with_capacity(meant.len());
    for (first, path) in &meant {
        let same = || meant.iter().filter(|(_, other)| other == path).map(|(handle, _)| *handle);
        let written = same().next().unwrap_or(first).as_written();
        let is_one = same().all(|other| other.as_written() == written);
        let is_path = same().any(|other| matches!(other.target(), HandleTarget::Local(_)));
        let name = if is_path && !is_one { path.as_str() } else { written };
        if !names.iter().any(|known| known == name) {
            names.push(name.to_owned());
        }
    }
    names
}

/// What references are looked up in.
pub(crate) struct View<'a> {
    /// Knows where they are kept.
    pub(crate) vault: &'a Vault,
    /// The secrets that the agent may know of.
    pub(crate) visible: Vec<&'a Secret>,
    /// Those of grants that permit nothing of them now: what no other is meant by, so that it is said why not.
    pub(crate) dormant: Vec<&'a Secret>,
    /// The places that it may name though no secret stands for them.
    pub(crate) places: Vec<&'a Secret>,
    pub(crate) context: Option<&'a ActionContext>,
    pub(crate) kind: ActionType,
}

impl View<'_> {
    /// The secrets of all handles, or why one means none.
    pub(crate) fn resolve(&self, handles: Vec<Handle>) -> Result<Vec<Meant>, NlFault> {
        let meant = |handle: Handle| Ok(Meant { path: self.path_of(&handle)?.clone(), handle });
        handles.into_iter().map(meant).collect()
    }

    /// Whether a handle means one of these, or could.
    pub(crate) fn finds(&self, handle: &Handle) -> bool {
        match self.path_of(handle) {
            Ok(_) => true,
            Err(fault) => fault.code() == Code::ReferenceAmbiguous,
        }
    }

    /// Whether a handle means one of these, or could, be it one of those that can't be used now: who names that names no bait.
    pub(crate) fn knows(&self, handle: &Handle) -> bool {
        let is_dormant = || match handle.target() {
            HandleTarget::Local(reference) => {
                self.meant(reference, &self.dormant) != Resolution::NotFound
            }
            _ => false,
        };
        self.finds(handle) || is_dormant()
    }

    pub(crate) fn path_of(&self, handle: &Handle) -> Result<&SecretPath, NlFault> {
        match handle.target() {
            HandleTarget::Federated { domain, .. } => {
                Err(NlFault::from(Code::TrustDomainUnknown).with("domain", domain.as_str()))
            }
            HandleTarget::Local(reference) => self.local(reference),
            HandleTarget::Provider { provider, path } => self.routed(handle, provider, path),
        }
    }

    fn local(&self, reference: &Reference) -> Result<&SecretPath, NlFault> {
        let written = reference.as_written();
        let in_full = self.dormant.iter().find(|secret| secret.path.as_str() == written);
        if let Some(secret) = in_full {
            return Ok(&secret.path);
        }
        match self.meant(reference, &self.visible) {
            Resolution::One(path) => Ok(path),
            Resolution::Ambiguous(fits) => {
                let fits: Vec<&str> = fits.iter().map(|path| path.as_str()).collect();
                Err(fault(Code::ReferenceAmbiguous, written).with("paths", fits))
            }
            Resolution::NotFound => match self.meant(reference, &self.dormant) {
                Resolution::One(path) => Ok(path),
                // Which ones they are is not told.
                Resolution::Ambiguous(_) => Err(no_grant(written, self.kind)),
                Resolution::NotFound if written.contains('/') => Err(no_grant(written, self.kind)),
                Resolution::NotFound => Err(missing(written)),
            },
        }
    }

    fn meant<'s>(&self, reference: &Reference, among: &'s [&Secret]) -> Resolution<'s> {
        let paths = among.iter().map(|secret| &secret.path);
        match self.context {
            Some(context) => reference.resolve_within(paths, context),
            None => reference.resolve(paths),
        }
    }

    /// `provider://path` means the secret whose value comes from there.
    fn routed(&self, handle: &Handle, provider: &str, path: &str) -> Result<&SecretPath, NlFault> {
        let all = self.visible.iter().chain(&self.dormant).chain(&self.places).copied();
        let found = kept_at(self.vault, all, (provider, path));
        found.map_err(|code| fault(code, handle.as_written()))
    }
}

/// The secret among these whose value is kept at `(provider, path)`, or which code says why there is none.
pub(crate) fn kept_at<'a>(
    vault: &Vault,
    mut secrets: impl Iterator<Item = &'a Secret>,
    (provider, path): (&str, &str),
) -> Result<&'a SecretPath, Code> {
    let place = format!("{provider}://{path}");
    let found = secrets.find(|secret| vault.places(secret).contains(&place));
    found.map(|secret| &secret.path).ok_or_else(|| {
        if vault.has_provider(provider) {
            Code::SecretNotFound
        } else {
            Code::ProviderNotConfigured
        }
    })
}

/// The places that handles name and no secret stands for, where their sources are open to that.
pub(crate) async fn places<'a>(
    vault: &Vault,
    handles: impl IntoIterator<Item = &'a Handle>,
) -> Result<Vec<Secret>, Error> {
    let mut places: Vec<Secret> = Vec::new();
    for handle in handles {
        let HandleTarget::Provider { provider, path } = handle.target() else { continue };
        let place = vault.place(provider, path).await?;
        // Two handles may write one place.
        places.extend(place.filter(|one| places.iter().all(|known| known.path != one.path)));
    }
    Ok(places)
}

/// A place that no secret stands for, as grants know it.
pub(crate) fn place_subject(vault: &Vault, place: &Secret) -> Subject {
    Subject::of_place(place.path.clone(), vault.places(place))
}

/// A secret as grants know it: by its path, and by where it is kept.
pub(crate) fn subject(vault: &Vault, secret: &Secret) -> Subject {
    Subject::new(secret.path.clone(), vault.places(secret))
}

/// Those that are meant, of `secrets`.
pub(crate) fn subjects(vault: &Vault, secrets: &[Secret], meant: &[Meant]) -> Vec<Subject> {
    let one = |meant: &Meant| {
        if let Some(known) = secrets.iter().find(|secret| secret.path == meant.path) {
            return subject(vault, known);
        }
        let place = vault.opened_place(&meant.path);
        place.map_or_else(|| meant.path.clone().into(), |place| place_subject(vault, &place))
    };
    meant.iter().map(one).collect()
}

/// No grant covers a reference.
pub(crate) fn no_grant(written: &str, kind: ActionType) -> NlFault {
    let words = SafeText::words("no active Scope Grant covers secret '")
        .as_they_wrote(written)
        .and("' for action type '")
        .and(kind.as_str())
        .and("'");
    let wider = written.rsplit_once('/').map_or("*", |(category, _)| category);
    let suggestion = SafeText::words("Request a Scope Grant for '").as_they_wrote(wider);
    let suggestion = suggestion.and("/*' from your administrator.");
    NlFault::new(Code::GrantMissing, words).with("secret_ref", written).suggesting(suggestion)
}

/// A reference means no secret.
pub(crate) fn missing(written: &str) -> NlFault {
    fault(Code::SecretNotFound, written)
}

fn fault(code: Code, written: &str) -> NlFault {
    let words = SafeText::words("secret '").as_they_wrote(written).and("'");
    NlFault::new(code, words).with("secret_ref", written)
}
