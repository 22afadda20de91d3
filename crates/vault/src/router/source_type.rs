//! The types of source that there are, and what differs between them. Pure.
//!
//! Source: reference/secrets.md, section 4.

use std::{fmt, str::FromStr};

use serde::{Serialize, Serializer};

/// The type of a source, as `sources.toml` names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SourceType {
    /// AWS Secrets Manager.
    AwsSecretsManager,
    /// Parameters of AWS Systems Manager.
    AwsSsm,
    /// Bitwarden, by its program `bw`.
    Bitwarden,
    /// Variables of the environment, or a file of them.
    Env,
    /// Files in a folder, as Kubernetes mounts them.
    Files,
    /// A KeePass database.
    KeePass,
    /// The keyring of the desktop.
    Keyring,
    /// The store itself.
    Local,
    /// 1Password, by its program `op`.
    OnePassword,
    /// `OpenBao`.
    OpenBao,
    /// The standard Unix password manager.
    Pass,
    /// A program that speaks the plugins' protocol.
    Plugin,
    /// `HashiCorp` Vault.
    Vault,
}

/// A text that names no type of source.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the type {name:?} is unknown; there are {}", SourceType::ALL.map(SourceType::as_str).join(", "))]
pub struct UnknownSourceType {
    name: String,
}

const OF_AWS: &[&str] = &["region", "access_key_id", "endpoint", "browse_below"];
const OF_VAULT: &[&str] = &["addr", "mount", "namespace", "role_id", "browse_below"];

impl SourceType {
    /// Every type.
    pub const ALL: [Self; 13] = [
        Self::OnePassword,
        Self::AwsSecretsManager,
        Self::AwsSsm,
        Self::Bitwarden,
        Self::Env,
        Self::Files,
        Self::KeePass,
        Self::Keyring,
        Self::Local,
        Self::OpenBao,
        Self::Pass,
        Self::Plugin,
        Self::Vault,
    ];

    /// Its name in `sources.toml`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::AwsSecretsManager => "aws-secrets-manager",
            Self::AwsSsm => "aws-ssm",
            Self::Bitwarden => "bitwarden",
            Self::Env => "env",
            Self::Files => "files",
            Self::KeePass => "keepass",
            Self::Keyring => "keyring",
            Self::Local => "local",
            Self::OnePassword => "1password",
            Self::OpenBao => "openbao",
            Self::Pass => "pass",
            Self::Plugin => "plugin",
            Self::Vault => "vault",
        }
    }

    /// What it reads of its table, besides what is read of every source.
    pub(super) fn settings(self) -> &'static [&'static str] {
        match self {
            Self::AwsSecretsManager | Self::AwsSsm => OF_AWS,
            Self::Bitwarden => &["program", "checksum_sha256", "environment"],
            Self::Env | Self::Local => &[],
            Self::Files => &["folder", "links_out"],
            Self::KeePass => &["file", "keyfile"],
            Self::Keyring => &["service"],
            Self::OnePassword => &["vault", "account", "program", "checksum_sha256", "environment"],
            Self::OpenBao | Self::Vault => OF_VAULT,
            Self::Pass => &["folder", "program", "checksum_sha256", "environment"],
            Self::Plugin => &["program", "checksum_sha256", "environment", "config"],
        }
    }

    /// The program that it is asked through, and where that is when `program` does not say; nothing of a type that has none
    /// of its own.
    pub fn program(self) -> Option<(&'static str, &'static str)> {
        match self {
            Self::Bitwarden => Some(("bw", "/usr/local/bin/bw")),
            Self::OnePassword => Some(("op", "/usr/bin/op")),
            Self::Pass => Some(("pass", "/usr/bin/pass")),
            _ => None,
        }
    }

    /// Whether there is a way to put a value there; a plugin says for itself.
    pub fn takes_values(self) -> bool {
        match self {
            Self::Bitwarden | Self::Env | Self::Files | Self::KeePass | Self::OnePassword => false,
            Self::AwsSecretsManager
            | Self::AwsSsm
            | Self::Keyring
            | Self::Local
            | Self::OpenBao
            | Self::Pass
            | Self::Plugin
            | Self::Vault => true,
        }
    }

    /// Whether a secret of the store opens it.
    pub(super) fn takes_credential(self) -> bool {
        match self {
            Self::AwsSecretsManager
            | Self::AwsSsm
            | Self::Bitwarden
            | Self::KeePass
            | Self::OnePassword
            | Self::OpenBao
            | Self::Vault => true,
            Self::Env | Self::Files | Self::Keyring | Self::Local | Self::Pass | Self::Plugin => {
                false
            }
        }
    }

    /// Whether a handle has letters for its references; the store's secrets have paths.
    pub(super) fn fits_handles(self) -> bool {
        !matches!(self, Self::Keyring | Self::Local)
    }

    /// What NL's references usually call it; nothing where they know no such source.
    pub(super) fn usual_name(self) -> Option<&'static str> {
        match self {
            Self::AwsSecretsManager => Some("aws-sm"),
            Self::AwsSsm => Some("aws-ssm"),
            Self::Bitwarden => Some("bw"),
            Self::Env => Some("env"),
            Self::Files => Some("k8s"),
            Self::OnePassword => Some("op"),
            Self::OpenBao | Self::Vault => Some("vault"),
            Self::Pass => Some("pass"),
            Self::KeePass | Self::Keyring | Self::Local | Self::Plugin => None,
        }
    }
}

impl FromStr for SourceType {
    type Err = UnknownSourceType;

    /// Reads a name, devboy's own too: its files work here as they are.
    fn from_str(name: &str) -> Result<Self, Self::Err> {
        match name {
            "env-store" => Ok(Self::Env),
            "keychain" => Ok(Self::Keyring),
            "local-vault" => Ok(Self::Local),
            _ => Self::ALL
                .into_iter()
                .find(|kind| kind.as_str() == name)
                .ok_or_else(|| UnknownSourceType { name: name.to_owned() }),
        }
    }
}

impl fmt::Display for SourceType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl Serialize for SourceType {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_type_is_read_as_it_is_written() {
        for kind in SourceType::ALL {
            assert_eq!(kind.as_str().parse(), Ok(kind));
        }
        assert_eq!("local-vault".parse(), Ok(SourceType::Local));
        let unknown = "Vault".parse::<SourceType>().unwrap_err().to_string();
        assert!(
            unknown.starts_with("the type \"Vault\" is unknown; there are 1password, "),
            "{unknown}"
        );
    }
}
