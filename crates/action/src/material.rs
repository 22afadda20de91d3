//! What enters the process for each secret of an action: a placeholder or a value.

use keyless_core::{Code, Error, Handle, SafeText};
use zeroize::Zeroizing;

use crate::ports::{Entrusted, Entry, Known, Release};

/// What stands for one secret in one action.
pub(crate) struct Material {
    pub(crate) secret: Entrusted,
    pub(crate) bytes: Zeroizing<Vec<u8>>,
}

/// Everything that enters, in the order in which the action names it.
pub(crate) struct Materials(Vec<Material>);

impl Materials {
    /// Fetches what each secret enters as.
    pub(crate) async fn fetch(secrets: &[Entrusted], release: &dyn Release) -> Result<Self, Error> {
        let mut all = Vec::with_capacity(secrets.len());
        for secret in secrets {
            let bytes = match secret.entry {
                Entry::Placeholder => {
                    Zeroizing::new(release.placeholder(&secret.path)?.into_bytes())
                }
                Entry::Value => {
                    let released = release.release(secret).await?;
                    Zeroizing::new(released.open()?.to_vec())
                }
            };
            all.push(Material { secret: secret.clone(), bytes });
        }
        Ok(Self(all))
    }

    #[cfg(test)]
    pub(crate) fn holding(all: Vec<Material>) -> Self {
        Self(all)
    }

    pub(crate) fn all(&self) -> &[Material] {
        &self.0
    }

    /// The material of a handle, and its number: that of the first handle of the same secret.
    pub(crate) fn of(&self, handle: &Handle) -> Result<(usize, &Material), Error> {
        let material = self.0.iter().find(|material| material.secret.handle == *handle);
        let material = material.ok_or_else(|| missing(handle))?;
        let same = |other: &Material| {
            other.secret.path == material.secret.path
                && other.secret.handle.version() == material.secret.handle.version()
        };
        let number = self.0.iter().position(same).ok_or_else(|| missing(handle))?;
        Ok((number, material))
    }

    pub(crate) fn holds_value(&self) -> bool {
        self.0.iter().any(|material| material.secret.entry == Entry::Value)
    }

    /// The values among them, to be looked for in what comes back. A shell's variable has one without its NUL bytes,
    /// whether it comes as a variable, from a file or on standard input: what a program encodes is then other bytes.
    pub(crate) fn known(&self) -> Vec<Known> {
        let values = self.0.iter().filter(|material| material.secret.entry == Entry::Value);
        values.flat_map(Material::known).collect()
    }
}

impl Material {
    /// Without NUL bytes, which no variable can hold, and what the agent is told where some were left out.
    pub(crate) fn without_nul(&self) -> (Zeroizing<Vec<u8>>, Option<String>) {
        let kept: Vec<u8> = self.bytes.iter().copied().filter(|byte| *byte != 0).collect();
        let lost = self.bytes.len() - kept.len();
        let name = self.secret.handle.as_written();
        let warning = (lost > 0).then(|| format!("{name}: {lost} NUL bytes were left out"));
        (Zeroizing::new(kept), warning)
    }

    fn known(&self) -> impl Iterator<Item = Known> {
        let (bare, warning) = self.without_nul();
        let bare = warning.map(|_| bare).filter(|bare| !bare.is_empty());
        let name = self.secret.handle.as_written();
        let known = |value| Known { name: name.to_owned(), value };
        std::iter::once(self.bytes.clone()).chain(bare).map(known)
    }
}

fn missing(handle: &Handle) -> Error {
    let words = SafeText::default().as_they_wrote(handle.as_written());
    Error::with(Code::SecretNotFound, words)
}
