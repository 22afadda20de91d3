//! Names of mounted secrets, as Kubernetes allows them, and the path that they are known by.

use std::fmt;

use keyless_core::{PathError, SecretPath};

/// The longest name or key that Kubernetes allows, in bytes.
const MAX_NAME_BYTES: usize = 253;

/// A mounted secret and one of its keys. Neither can lead out of the directory.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct MountedRef {
    name: String,
    key: String,
}

impl MountedRef {
    /// Checks a name and a key; gives back the one that is refused.
    pub fn new<'a>(name: &'a str, key: &'a str) -> Result<Self, &'a str> {
        for text in [name, key] {
            if !is_file_name(text) {
                return Err(text);
            }
        }
        Ok(Self { name: name.to_owned(), key: key.to_owned() })
    }

    /// The secret's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The key in it.
    pub fn key(&self) -> &str {
        &self.key
    }

    /// `fleet/NAME/KEY`, each folded to lower-kebab: `API_TOKEN` becomes `api-token`.
    pub fn to_path(&self) -> Result<SecretPath, PathError> {
        SecretPath::parse(&format!("fleet/{}/{}", fold(&self.name), fold(&self.key)))
    }
}

impl fmt::Display for MountedRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.name, self.key)
    }
}

/// Kubernetes' own rule for keys, which covers names: `[-._a-zA-Z0-9]+`, never starting with `..`
/// (its own links do) and never `.`.
fn is_file_name(text: &str) -> bool {
    let allowed = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.');
    (1..=MAX_NAME_BYTES).contains(&text.len())
        && text.bytes().all(allowed)
        && text != "."
        && !text.starts_with("..")
}

fn fold(text: &str) -> String {
    let words = text.split(['-', '_', '.']).filter(|word| !word.is_empty());
    words.map(str::to_ascii_lowercase).collect::<Vec<_>>().join("-")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_leads_out() {
        for bad in ["", ".", "..", "../x", "a/b", "/etc", "..data", "a\0", "a b", "ä"] {
            assert_eq!(MountedRef::new(bad, "key"), Err(bad), "{bad:?}");
            assert_eq!(MountedRef::new("name", bad), Err(bad), "{bad:?}");
        }
    }

    #[test]
    fn names_are_folded_to_paths() {
        let path = |name, key| MountedRef::new(name, key).unwrap().to_path();
        assert_eq!(path("GitHub.io", "API_TOKEN").unwrap().as_str(), "fleet/github-io/api-token");
        assert_eq!(path("a", ".dockerconfigjson").unwrap().as_str(), "fleet/a/dockerconfigjson");
        assert!(path("---", "key").is_err());
    }
}
