//! A key pair, wherever it was written: JSON as AWS's own tools write it (`AccessKeyId`,
//! `SecretAccessKey`, `SessionToken`, `region`), an INI profile, or `ID:KEY`.

use std::collections::BTreeMap;

use keyless_core::{Code, Error, SafeText};
use serde_json::Value;
use zeroize::Zeroizing;

/// What requests are signed with.
pub(in crate::sdk) struct Credentials {
    pub(super) id: String,
    pub(super) key: Zeroizing<String>,
    pub(super) token: Option<Zeroizing<String>>,
    pub(super) region: Option<String>,
}

impl Credentials {
    /// Reads a credential that a call is to be signed with.
    pub(in crate::sdk) fn of(text: &str) -> Result<Self, Error> {
        Self::parse(text).ok_or_else(|| {
            let words = SafeText::words("an AWS credential has AccessKeyId and SecretAccessKey");
            Error::with(Code::BadRequest, words)
        })
    }

    pub(in crate::sdk) fn parse(text: &str) -> Option<Self> {
        if let Ok(Value::Object(members)) = serde_json::from_str(text) {
            let pick =
                |names: [&str; 3]| names.iter().find_map(|name| members.get(*name)?.as_str());
            return Self::new(
                pick(["AccessKeyId", "aws_access_key_id", "access_key_id"])?,
                pick(["SecretAccessKey", "aws_secret_access_key", "secret_access_key"])?,
                pick(["SessionToken", "aws_session_token", "session_token"]),
                pick(["region", "Region", "aws_region"]),
            );
        }
        let lines: BTreeMap<&str, &str> = text
            .lines()
            .filter_map(|line| line.split_once('='))
            .map(|(name, value)| (name.trim(), value.trim()))
            .collect();
        if let (Some(id), Some(key)) =
            (lines.get("aws_access_key_id"), lines.get("aws_secret_access_key"))
        {
            let (token, region) = (lines.get("aws_session_token"), lines.get("region"));
            return Self::new(id, key, token.copied(), region.copied());
        }
        let (id, key) = text.trim().split_once(':')?;
        let plain = |byte: u8| byte.is_ascii_alphanumeric();
        id.bytes().all(plain).then(|| Self::new(id, key, None, None))?
    }

    fn new(id: &str, key: &str, token: Option<&str>, region: Option<&str>) -> Option<Self> {
        (!id.is_empty() && !key.is_empty()).then(|| Self {
            id: id.to_owned(),
            key: Zeroizing::new(key.to_owned()),
            token: token.map(|token| Zeroizing::new(token.to_owned())),
            region: region.map(str::to_owned),
        })
    }

    /// The parts that must not come back.
    pub(in crate::sdk) fn secrets(&self) -> impl Iterator<Item = &str> {
        std::iter::once(self.key.as_str()).chain(self.token.as_ref().map(|token| token.as_str()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn credentials_are_read_in_every_spelling() {
        for text in [
            r#"{"AccessKeyId": "AKIA1", "SecretAccessKey": "k/1", "region": "eu-west-1"}"#,
            "[default]\naws_access_key_id = AKIA1\naws_secret_access_key = k/1\nregion = eu-west-1",
            "AKIA1:k/1",
        ] {
            let credentials = Credentials::parse(text).unwrap();
            assert_eq!((credentials.id.as_str(), credentials.key.as_str()), ("AKIA1", "k/1"));
        }
        assert!(Credentials::parse("just-a-token").is_none());
    }
}
