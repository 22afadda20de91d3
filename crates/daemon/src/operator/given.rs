//! A value that a person gives: what goes with it, and how it is read from what they typed, at the page or the screen.

use keyless_core::{Code, Destination, Error, SafeText, SecretPath, approval::Asked};
use keyless_vault::{EnvName, FormatVerdict, Providers, Secret, Variant};
use serde::{Deserialize, Serialize};
use zeroize::Zeroizing;

use crate::environment::is_of_sessions;

/// What goes with a value.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Given {
    /// Where it may go, if that is not known yet.
    pub to: Vec<Destination>,
    /// The variable for its placeholder, if that is not known yet.
    pub env: Option<EnvName>,
    /// Whether it is taken also if it looks like none.
    #[serde(default)]
    pub allow_weak: bool,
}

/// What a value would replace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Occasion {
    /// It overwrites the present one.
    Another,
    /// The secret is known and has none yet.
    First,
    /// The secret is added with it.
    New,
}

/// A value and what stands beside it, as it was typed.
#[derive(Default)]
pub struct Typed<'t> {
    /// The value.
    pub value: &'t str,
    /// Hosts that may receive it, with commas or blanks between them.
    pub to: &'t str,
    /// The variable for its placeholder.
    pub env: &'t str,
    /// The box that says that the present value may go.
    pub overwrite: bool,
    /// The box that takes a value which looks like none.
    pub allow_weak: bool,
}

impl Occasion {
    /// Of a secret that gets a value; nothing for one that is to be.
    pub fn of(secret: Option<&Secret>) -> Self {
        match secret {
            None => Self::New,
            Some(secret) if secret.lacks_value() => Self::First,
            Some(_) => Self::Another,
        }
    }

    /// Of a value that an agent asks for; nothing where it asks for none.
    pub fn asked(asked: &Asked) -> Option<Self> {
        match asked {
            Asked::Provision { .. } => Some(Self::First),
            Asked::Rotation { .. } => Some(Self::Another),
            _ => None,
        }
    }
}

impl Typed<'_> {
    /// The value, and what goes with it. `chosen` is the kind of token that the person said it is. A variable is kept also
    /// where no host is known yet, as `keyless secret add` keeps it.
    ///
    /// [`Code::AnswerUnfit`] when something is missing or can't be read, [`Code::ValueWeak`] when the value has not the format
    /// of its kind.
    pub fn read(
        &self,
        occasion: Occasion,
        chosen: Option<&Variant>,
    ) -> Result<(Given, Zeroizing<Vec<u8>>), Error> {
        if occasion == Occasion::Another && !self.overwrite {
            return Err(unfit("tick the box that says that the present value may go"));
        }
        if self.value.is_empty() {
            return Err(unfit("no value was typed"));
        }
        let to = read_destinations(self.to)?;
        let env = match self.env.trim() {
            "" => None,
            name => Some(read_variable(name)?),
        };
        let value = Zeroizing::new(self.value.as_bytes().to_vec());
        let judged = chosen.map(|variant| variant.judge(&value));
        if judged == Some(FormatVerdict::Invalid) && !self.allow_weak {
            let words = "it has not the format of the kind of token that was chosen";
            return Err(Error::with(Code::ValueWeak, SafeText::words(words)));
        }
        Ok((Given { to, env, allow_weak: self.allow_weak }, value))
    }
}

/// Hosts as people write them, with commas or blanks between them; [`Code::AnswerUnfit`] when one is none.
pub fn read_destinations(text: &str) -> Result<Vec<Destination>, Error> {
    let names = text.split([',', ' ']).map(str::trim).filter(|name| !name.is_empty());
    let parsed = names.map(|name| {
        Destination::parse(name)
            .map_err(|error| Error::with(Code::AnswerUnfit, SafeText::default().and(error)))
    });
    parsed.collect()
}

/// Why what was typed as hosts is hardly meant as such, with nothing of it: a value that was pasted in its place stands there
/// to be read, and is to be said by nobody.
pub fn doubt_of_hosts(text: &str, known: &Providers) -> Option<&'static str> {
    let mut names = text.split([',', ' ']).map(str::trim);
    if names.clone().any(|name| known.has_form_of_token(name)) {
        return Some("what was typed looks like a token, and not like a host");
    }
    let is_one_word = |name: &str| {
        let host = Destination::parse(name).ok();
        host.is_some_and(|host| host.is_single_label() && host.to_string() != "localhost")
    };
    // Who says a port knows what they mean.
    names
        .any(|name| !name.contains(':') && is_one_word(name))
        .then_some("what was typed is one word, and hardly a host")
}

/// A variable's name; [`Code::AnswerUnfit`] when it is none, or one that no secret may have.
pub fn read_variable(name: &str) -> Result<EnvName, Error> {
    let refuse = |words: &str| {
        let place = SafeText::default().as_they_wrote(name).and(": ");
        Error::with(Code::AnswerUnfit, place.as_they_wrote(words))
    };
    if is_of_sessions(name) {
        let words = "every session sets this variable itself or keeps it away, so it can't hold a placeholder";
        return Err(refuse(words));
    }
    EnvName::parse(name).map_err(|error| refuse(&error.to_string()))
}

/// A secret's path; [`Code::PathInvalid`] says what it lacks.
pub fn read_path(text: &str) -> Result<SecretPath, Error> {
    SecretPath::parse(text.trim())
        .map_err(|error| Error::with(Code::PathInvalid, SafeText::default().and(error)))
}

/// `team/jira/api-key` is offered as `JIRA_API_KEY`.
pub fn suggested_variable(path: &SecretPath) -> String {
    format!("{}_{}", path.category(), path.name()).to_uppercase().replace(['-', '/'], "_")
}

pub(super) fn unfit(words: &'static str) -> Error {
    Error::with(Code::AnswerUnfit, SafeText::words(words))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_are_suggested_by_path() {
        let suggested = |path| suggested_variable(&SecretPath::parse(path).unwrap());
        assert_eq!(suggested("team/jira/api-key"), "JIRA_API_KEY");
        assert_eq!(suggested("team/prod/aws/deploy/key"), "AWS_DEPLOY_KEY");
    }

    #[test]
    fn hosts_are_read_as_people_write_them() {
        let hosts = read_destinations(" a.test, b.test  c.test:8443 ").unwrap();
        assert_eq!(hosts.len(), 3);
        assert!(read_destinations("").unwrap().is_empty() && read_destinations("*").is_err());
    }

    #[test]
    fn what_is_hardly_a_host_is_doubted() {
        let known = Providers::bundled();
        let sendgrid = format!("SG.{}.{}", "a1B2c3D4e5".repeat(3).split_at(22).0, "x".repeat(43));
        let doubt = |text: &str| doubt_of_hosts(text, &known).map(|why| why.contains("token"));
        for (text, expected) in [
            ("api.example.com, *.example.com 10.0.0.1", None),
            ("localhost", None),
            ("db:5432", None),
            ("", None),
            ("a..b", None),
            ("y", Some(false)),
            ("api.example.com, Qm7xT4w9ZrK2bVp", Some(false)),
            ("ghp_0123456789abcdefghijABCDEFGHIJ012345", Some(true)),
            (&sendgrid, Some(true)),
        ] {
            assert_eq!(doubt(text), expected, "{text}");
        }
    }

    #[test]
    fn what_is_typed_is_read_as_a_whole() {
        let typed = Typed { value: "Qm7-xT4w9ZrK2bVp", env: "KEY", ..Typed::default() };
        let read = |typed: &Typed<'_>, occasion| {
            typed.read(occasion, None).map(|(given, _)| given).map_err(|error| error.code())
        };
        assert!(read(&typed, Occasion::Another).is_err(), "the tick");
        assert!(read(&Typed { value: "", ..typed }, Occasion::First).is_err(), "the value");
        assert!(read(&typed, Occasion::New).unwrap().env.is_some(), "its hosts can come later");
        for env in ["9 BAD", "PATH"] {
            let refused = read(&Typed { env, ..typed }, Occasion::New);
            assert_eq!(refused, Err(Code::AnswerUnfit), "{env}");
        }
        let ticked = Typed { overwrite: true, to: "a.test", ..typed };
        let given = read(&ticked, Occasion::Another).unwrap();
        assert!(given.to.len() == 1 && given.env.is_some() && !given.allow_weak);
    }
}
