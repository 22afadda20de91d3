//! Keys that sign and are never sent, as services in the catalog have them: how the proxy is to sign with one.
//!
//! Source: docs/signing.md.

use keyless_core::{SecretPath, Signer};
use keyless_vault::{EnvName, Metadata, Secret};

/// The catalog's pattern of such a key.
const AWS: &str = "aws-secret-key";
/// How names of such variables end, and those of the ids that stand beside them.
const ENDS: (&str, &str) = ("SECRET_ACCESS_KEY", "ACCESS_KEY_ID");

/// How the proxy signs with the value at `path`, which has no signer yet: by the secret among `known` that holds its id.
/// Nothing where it is no such key; a path that is not there yet where no id is.
pub fn signer_of(path: &SecretPath, metadata: &Metadata, known: &[Secret]) -> Option<Signer> {
    if metadata.egress.as_ref().is_some_and(|rule| rule.sign.is_some()) {
        return None;
    }
    let variable = metadata.env.as_ref().map_or("", EnvName::as_str);
    let before = variable.strip_suffix(ENDS.0);
    if before.is_none() && metadata.upkeep.pattern_id.as_deref() != Some(AWS) {
        return None;
    }
    let named = format!("{}{}", before.unwrap_or("AWS_"), ENDS.1);
    let is_id =
        |secret: &&Secret| secret.metadata.env.as_ref().is_some_and(|env| env.as_str() == named);
    let folder =
        |path: &SecretPath| path.as_str().rsplit_once('/').map(|(folder, _)| folder.to_owned());
    let mut ids: Vec<&Secret> = known.iter().filter(is_id).collect();
    ids.sort_by_key(|secret| folder(&secret.path) != folder(path));
    let id = match ids.first() {
        Some(secret) => secret.path.clone(),
        None => SecretPath::parse(&format!("{}/access-key-id", folder(path)?)).ok()?,
    };
    Some(Signer::Aws { access_key_id: id })
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;

    use super::*;

    fn secret(path: &str, variable: &str) -> Secret {
        let (created_at, updated_at) = (Timestamp::UNIX_EPOCH, Timestamp::UNIX_EPOCH);
        let env = Some(EnvName::parse(variable).unwrap());
        Secret {
            path: SecretPath::parse(path).unwrap(),
            metadata: Metadata { env, ..Metadata::default() },
            created_at,
            updated_at,
            version: Some(1),
            rotated_at: None,
        }
    }

    #[test]
    fn a_key_of_aws_signs_with_the_id_beside_it() {
        let known = [
            secret("other/aws/access-key-id", "AWS_ACCESS_KEY_ID"),
            secret("team/aws/key-id", "AWS_ACCESS_KEY_ID"),
            secret("team/app/id", "APP_ACCESS_KEY_ID"),
        ];
        for (path, variable, signer) in [
            ("team/aws/secret-access-key", "AWS_SECRET_ACCESS_KEY", Some("aws:team/aws/key-id")),
            ("team/app/key", "APP_SECRET_ACCESS_KEY", Some("aws:team/app/id")),
            ("team/eu/key", "EU_SECRET_ACCESS_KEY", Some("aws:team/eu/access-key-id")),
            ("team/aws/key-id", "AWS_ACCESS_KEY_ID", None),
            ("team/github/token", "GITHUB_TOKEN", None),
        ] {
            let one = secret(path, variable);
            let found = signer_of(&one.path, &one.metadata, &known);
            assert_eq!(found.map(|signer| signer.to_string()).as_deref(), signer, "{path}");
        }
    }
}
