//! What is known of a secret beside its value: where it may go, what it is called, where it is kept.
//!
//! Stored in the clear, so that listing needs no key, and covered by the index commitment, so that
//! it can't be changed. The stored form has a version ([`Metadata::FORMAT`]); a reader refuses
//! keys that it does not know. Source: design.md, section 2; reference/secrets.md, section 2.

use std::{fmt, num::NonZeroU32, path::PathBuf};

use jiff::Timestamp;
use keyless_core::{
    ApproveOnUse, Binding, Code, EgressRule, Error, LookAlike, LookAlikeError, PlaceholderForm,
    SafeText,
};
use serde::{Deserialize, Serialize};

use crate::{
    providers::{FormatVerdict, judge_format},
    upkeep::Upkeep,
};

/// The longest description, in bytes.
const MAX_DESCRIPTION_BYTES: usize = 1024;

/// Everything about a secret that is not its value.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Metadata {
    /// Where the value may go on the wire. A secret with a rule never enters a child process.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub egress: Option<EgressRule>,
    /// The environment variable in which a session finds the placeholder.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub env: Option<EnvName>,
    /// What stands around the placeholder in there; the placeholder alone, where nothing is said.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub env_form: Option<EnvForm>,
    /// Where the value is kept.
    pub source: SourceConfig,
    /// What the placeholder looks like.
    pub placeholder: PlaceholderShape,
    /// What it is for, in the operator's words.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// When a human is asked before it is used.
    #[serde(skip_serializing_if = "is_default")]
    pub approve_on_use: ApproveOnUse,
    /// Whether actions get the value though it names destinations: the audited way round rule 1.
    #[serde(skip_serializing_if = "is_default")]
    pub unsafe_expose: bool,
    /// Whether it is bait: nobody has a reason to use it, and who names it is stopped.
    #[serde(skip_serializing_if = "is_default")]
    pub honeypot: bool,
    /// That others may know its value.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub compromised: Option<Compromise>,
    /// What keeps it fresh.
    #[serde(skip_serializing_if = "Upkeep::is_empty")]
    pub upkeep: Upkeep,
    /// How long versions that are no longer in use are kept.
    #[serde(skip_serializing_if = "is_default")]
    pub retention: Retention,
    /// The newest version, where that was purged: its number is never another's.
    #[serde(skip_serializing_if = "is_default")]
    pub purged_through: u32,
}

/// A value is known to others: no version up to this one is given out any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Compromise {
    /// When the operator said so.
    pub at: Timestamp,
    /// The newest version then; 0 where another source keeps the value.
    pub through: u32,
}

/// Which older versions are kept when a new one is put; all of them unless it says less. The one in
/// use always is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Retention {
    /// At most so many, with the one in use.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub keep_versions: Option<NonZeroU32>,
    /// Those set within so many days.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub keep_days: Option<NonZeroU32>,
}

/// Where a value is kept, and what its source needs to find it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase", deny_unknown_fields)]
pub enum SourceConfig {
    /// A variable of the broker's own environment.
    Env {
        /// The variable's name.
        variable: EnvName,
    },
    /// A file that the broker can read.
    File {
        /// Where it lies; absolute, as the broker may run anywhere.
        path: PathBuf,
    },
    /// Sealed in the store.
    #[default]
    Local,
    /// At a source of `sources.toml`.
    Routed {
        /// Which; as the file's routes say when none is named.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        source: Option<String>,
        /// What the source calls it; made of the path when none is named.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reference: Option<String>,
    },
}

/// The shape of a secret's placeholders, as it is stored.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum PlaceholderShape {
    /// `kloak:` and 26 characters.
    Colon,
    /// `kloak_` and 26 characters.
    #[default]
    Default,
    /// A real token's prefix and length.
    LookAlike(LookAlikeShape),
}

/// A look-alike's form, or its prefix and length, checked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "RawLookAlike", into = "RawLookAlike")]
pub struct LookAlikeShape {
    raw: RawLookAlike,
    form: LookAlike,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct RawLookAlike {
    #[serde(default, skip_serializing_if = "is_default")]
    prefix: String,
    #[serde(default, skip_serializing_if = "is_default")]
    length: usize,
    /// Such as `SG.[22].[43]`, instead of the two.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    form: Option<String>,
}

/// The name of an environment variable: letters, digits and `_`, not beginning with a digit.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct EnvName(String);

/// Why a text is not an [`EnvName`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EnvNameError {
    /// A character that shells do not take, or nothing at all.
    #[error("a variable's name has letters, digits and `_`, and does not begin with a digit")]
    BadCharacter,
    /// A variable that a placeholder would break, or that changes how programs load.
    #[error("the variable steers the shell or the loader, so it can't hold a placeholder")]
    Reserved,
    /// Longer than any name we know.
    #[error("a variable's name has at most 255 characters")]
    TooLong,
}

/// What stands around a placeholder in its variable, which `{}` marks: `postgres://app:{}@db.example.com/app`, for a program
/// that reads the whole address. Nothing of it is secret.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct EnvForm(String);

/// Why a text is not an [`EnvForm`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EnvFormError {
    /// Line ends and the like.
    #[error("a variable's form has no control characters")]
    BadCharacter,
    /// None, or more than one.
    #[error("a variable's form has the mark {{}} once, where the placeholder stands")]
    NoMark,
    /// Longer than any address we know.
    #[error("a variable's form has at most 2048 bytes")]
    TooLong,
}

impl Metadata {
    /// The version of the stored form.
    pub const FORMAT: u32 = 1;

    /// What the value is used for, which decides what it may contain.
    pub fn binding(&self) -> Binding {
        self.egress.as_ref().map_or(Binding::None, EgressRule::binding)
    }

    /// Whether this version is one that others may know; `None` stands for a value that is kept elsewhere.
    pub fn compromises(&self, version: Option<u32>) -> bool {
        self.compromised.is_some_and(|known| version.is_none_or(|one| one <= known.through))
    }

    /// Whether `value` looks like a token of this secret's kind.
    pub fn judge_format(&self, value: &[u8]) -> FormatVerdict {
        judge_format(self.upkeep.format_regex.as_deref(), value)
    }

    /// Fails with [`Code::ValueRefused`] on what no type forbids.
    pub(crate) fn check(&self) -> Result<(), Error> {
        let refuse = |words| Err(Error::with(Code::ValueRefused, SafeText::words(words)));
        if self.egress.as_ref().is_some_and(|rule| rule.to.is_empty()) {
            return refuse("a rule names at least one destination");
        }
        if self.egress.as_ref().is_some_and(|rule| rule.inject.is_some() && rule.sign.is_some()) {
            return refuse("a value is set by the proxy or signs, not both");
        }
        match (&self.source, &self.description) {
            (SourceConfig::File { path }, _) if !path.is_absolute() => {
                refuse("the file of a source is given by its absolute path")
            }
            (_, Some(text)) if text.len() > MAX_DESCRIPTION_BYTES => {
                refuse("a description has at most 1024 bytes")
            }
            (_, Some(text)) if text.chars().any(char::is_control) => {
                refuse("a description has no control characters")
            }
            _ => Ok(()),
        }
    }

    pub(crate) fn to_stored(&self) -> String {
        serde_json::to_string(self).expect("metadata is plain data")
    }

    /// Reads the stored form, which the commitment has already vouched for.
    pub(crate) fn from_stored(format: u32, text: &str) -> Result<Self, Error> {
        if format > Self::FORMAT {
            let words = SafeText::words("what is said of a secret");
            return Err(Error::with(Code::KeylessOutdated, words));
        }
        serde_json::from_str(text).map_err(|_| {
            Error::with(Code::StoreUnusable, SafeText::words("a secret's metadata can't be read"))
        })
    }
}

impl PlaceholderShape {
    /// The form that placeholders are derived with.
    pub fn form(&self) -> PlaceholderForm {
        match self {
            Self::Colon => PlaceholderForm::Colon,
            Self::Default => PlaceholderForm::Default,
            Self::LookAlike(shape) => PlaceholderForm::LookAlike(shape.form.clone()),
        }
    }
}

impl fmt::Display for PlaceholderShape {
    /// As it is written on the command line: `default`, `colon`, `ghp_:40`, `SG.[22].[43]`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Colon => f.write_str("colon"),
            Self::Default => f.write_str("default"),
            Self::LookAlike(LookAlikeShape { raw, .. }) => match &raw.form {
                Some(form) => f.write_str(form),
                None => write!(f, "{}:{}", raw.prefix, raw.length),
            },
        }
    }
}

impl LookAlikeShape {
    /// A shape with the `prefix` and whole `length` (characters) of a real token format.
    pub fn new(prefix: &str, length: usize) -> Result<Self, LookAlikeError> {
        let form = LookAlike::new(prefix, length)?;
        Ok(Self { raw: RawLookAlike { prefix: prefix.to_owned(), length, form: None }, form })
    }

    /// A shape of fixed and differing parts, such as `SG.[22].[43]`.
    pub fn parse(text: &str) -> Result<Self, LookAlikeError> {
        let form = LookAlike::parse(text)?;
        let raw = RawLookAlike { form: Some(text.to_owned()), ..RawLookAlike::default() };
        Ok(Self { raw, form })
    }
}

impl TryFrom<RawLookAlike> for LookAlikeShape {
    type Error = LookAlikeError;

    fn try_from(raw: RawLookAlike) -> Result<Self, LookAlikeError> {
        match (raw.form, raw.prefix.as_str(), raw.length) {
            (Some(form), "", 0) => Self::parse(&form),
            (Some(_), ..) => Err(LookAlikeError::BadPart),
            (None, prefix, length) => Self::new(prefix, length),
        }
    }
}

impl From<LookAlikeShape> for RawLookAlike {
    fn from(shape: LookAlikeShape) -> Self {
        shape.raw
    }
}

impl EnvForm {
    /// What marks the placeholder's place.
    pub const MARK: &str = "{}";

    /// Parses a form.
    pub fn parse(text: &str) -> Result<Self, EnvFormError> {
        if text.len() > 2048 {
            return Err(EnvFormError::TooLong);
        }
        if text.chars().any(char::is_control) {
            return Err(EnvFormError::BadCharacter);
        }
        if text.matches(Self::MARK).count() != 1 {
            return Err(EnvFormError::NoMark);
        }
        Ok(Self(text.to_owned()))
    }

    /// As it was parsed.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// What stands before the mark, and behind it.
    pub fn sides(&self) -> (&str, &str) {
        self.0.split_once(Self::MARK).unwrap_or((&self.0, ""))
    }

    /// The variable's text, with the placeholder in its place.
    pub fn around(&self, placeholder: &str) -> String {
        self.0.replacen(Self::MARK, placeholder, 1)
    }
}

impl TryFrom<String> for EnvForm {
    type Error = EnvFormError;

    fn try_from(text: String) -> Result<Self, EnvFormError> {
        Self::parse(&text)
    }
}

impl From<EnvForm> for String {
    fn from(form: EnvForm) -> Self {
        form.0
    }
}

impl EnvName {
    /// Parses a variable's name.
    pub fn parse(text: &str) -> Result<Self, EnvNameError> {
        let allowed = |b: u8| b.is_ascii_alphanumeric() || b == b'_';
        if text.len() > 255 {
            return Err(EnvNameError::TooLong);
        }
        if text.is_empty() || text.as_bytes()[0].is_ascii_digit() || !text.bytes().all(allowed) {
            return Err(EnvNameError::BadCharacter);
        }
        if is_reserved(text) { Err(EnvNameError::Reserved) } else { Ok(Self(text.to_owned())) }
    }

    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for EnvName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl TryFrom<String> for EnvName {
    type Error = EnvNameError;

    fn try_from(text: String) -> Result<Self, EnvNameError> {
        Self::parse(&text)
    }
}

impl From<EnvName> for String {
    fn from(name: EnvName) -> Self {
        name.0
    }
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// Whether a session's command is given, or loses, this variable for the session's own sake: trust, proxies, and
/// Keyless's own. With a placeholder in it the command would reach nothing.
pub fn is_of_sessions(name: &str) -> bool {
    const PROXIES: [&str; 5] = ["http_proxy", "https_proxy", "all_proxy", "no_proxy", "ftp_proxy"];
    const OTHERS: [&str; 27] = [
        "AWS_CA_BUNDLE",
        "BUNDLE_SSL_CA_CERT",
        "CARGO_HTTP_CAINFO",
        "CLOUDSDK_CORE_CUSTOM_CA_CERTS_FILE",
        "CODEX_CA_CERTIFICATE",
        "COMPOSER_CAFILE",
        "CURL_CA_BUNDLE",
        "DENO_CERT",
        "DENO_TLS_CA_STORE",
        "GIT_SSL_CAINFO",
        "GRPC_DEFAULT_SSL_ROOTS_FILE_PATH",
        "HEX_CACERTS_PATH",
        "HTTPLIB2_CA_CERTS",
        "NIX_SSL_CERT_FILE",
        "NODE_EXTRA_CA_CERTS",
        "NODE_USE_ENV_PROXY",
        "NODE_USE_SYSTEM_CA",
        "PERL_LWP_SSL_CA_FILE",
        "PIP_CERT",
        "REQUESTS_CA_BUNDLE",
        "SSL_CERT_FILE",
        "UV_NATIVE_TLS",
        "UV_SYSTEM_CERTS",
        "YARN_HTTPS_CA_FILE_PATH",
        "npm_config_cafile",
        "npm_config_https_proxy",
        "npm_config_proxy",
    ];
    name.starts_with("KEYLESS_")
        || OTHERS.contains(&name)
        || PROXIES.contains(&name.to_ascii_lowercase().as_str())
}

fn is_reserved(name: &str) -> bool {
    const NAMES: [&str; 10] = [
        "BASH_ENV",
        "ENV",
        "HOME",
        "IFS",
        "KEYLESS_HOME",
        "PATH",
        "PWD",
        "SHELL",
        "TERM",
        "TMPDIR",
    ];
    NAMES.contains(&name) || name.starts_with("LD_")
}

#[cfg(test)]
mod tests {
    use keyless_core::Destination;

    use super::*;

    #[test]
    fn the_stored_form_is_this() {
        let metadata = Metadata {
            egress: Some(EgressRule::to(vec![Destination::parse("api.github.com").unwrap()])),
            env: Some(EnvName::parse("GITHUB_TOKEN").unwrap()),
            env_form: Some(EnvForm::parse("https://ci:{}@api.github.com").unwrap()),
            source: SourceConfig::Env { variable: EnvName::parse("GH").unwrap() },
            placeholder: PlaceholderShape::LookAlike(LookAlikeShape::new("ghp_", 40).unwrap()),
            description: Some("CI".to_owned()),
            approve_on_use: ApproveOnUse::PerCall,
            unsafe_expose: false,
            honeypot: false,
            compromised: None,
            upkeep: Upkeep { rotate_every_days: Some(90), ..Upkeep::default() },
            retention: Retention { keep_versions: NonZeroU32::new(3), keep_days: None },
            purged_through: 0,
        };
        let stored = concat!(
            r#"{"egress":{"to":["api.github.com"],"locations":["basic","body","header","#,
            r#""password","path","query"],"on_foreign":"pass"},"env":"GITHUB_TOKEN","env_form":"https://ci:{}@api.github.com","source":{"env":{"variable":"#,
            r#""GH"}},"placeholder":{"look-alike":{"prefix":"ghp_","length":40}},"#,
            r#""description":"CI","approve_on_use":"per-call","upkeep":{"rotate_every_days":90},"#,
            r#""retention":{"keep_versions":3}}"#
        );
        assert_eq!(metadata.to_stored(), stored);
        assert_eq!(Metadata::from_stored(1, stored).unwrap(), metadata);
        assert_eq!(
            Metadata::default().to_stored(),
            r#"{"source":"local","placeholder":"default"}"#
        );
    }

    #[test]
    fn unknown_keys_and_later_formats_are_refused() {
        let read = |text| Metadata::from_stored(1, text).map_err(|error| error.code());
        for text in [
            r#"{"extra":1}"#,
            r#"{"source":{"env":{"variable":"A","extra":1}}}"#,
            r#"{"source":"nowhere"}"#,
            r#"{"placeholder":{"look-alike":{"prefix":"a","length":5}}}"#,
            r#"{"env":"1A"}"#,
        ] {
            assert_eq!(read(text), Err(Code::StoreUnusable), "{text}");
        }
        let later = Metadata::from_stored(2, "{}").unwrap_err();
        assert_eq!(later.code(), Code::KeylessOutdated);
    }

    #[test]
    fn a_form_has_one_place_for_the_placeholder() {
        let form = EnvForm::parse("postgres://app:{}@db.test/app").unwrap();
        assert_eq!(form.around("kloak_X"), "postgres://app:kloak_X@db.test/app");
        for bad in ["", "postgres://db.test", "{}{}", "a{}\nb"] {
            assert!(EnvForm::parse(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn names_are_names() {
        for good in ["A", "_x", "GITHUB_TOKEN", "a1"] {
            assert!(EnvName::parse(good).is_ok(), "{good}");
        }
        for bad in ["", "1A", "A-B", "A=B", "A B", "Ä", "PATH", "LD_PRELOAD", "KEYLESS_HOME"] {
            assert!(EnvName::parse(bad).is_err(), "{bad}");
        }
    }
}
