//! Presets: what a credential is mostly given for, by name. They are data (`catalog/presets.yaml`);
//! a secret gets the rules that they stand for, and keeps them when a preset changes later.

use std::{collections::BTreeMap, fmt, sync::OnceLock};

use keyless_core::{Destination, EgressRule, Location, Locations, RequestRule};
use serde::Deserialize;

const TEXT: &str = include_str!("../../catalog/presets.yaml");
/// Stands for the argument in a rule.
const ARGUMENT: &str = "{}";
/// Stands for the argument with its slashes encoded.
const ENCODED: &str = "{%2F}";

/// A preset with its argument: rules for requests, and hosts to go with them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Preset {
    to: Vec<Destination>,
    locations: Option<Locations>,
    allow: Vec<RequestRule>,
    ask: Vec<RequestRule>,
}

/// A preset as it is listed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PresetInfo {
    /// `github-read`, and `=OWNER/REPO` where it takes an argument.
    pub usage: String,
    /// What it is for.
    pub about: &'static str,
}

/// Why a text names no preset.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PresetError {
    /// The argument is of another shape than the one that is wanted.
    #[error("an argument of the shape {wanted} is needed, of letters, digits, `-`, `_` and `.`")]
    Argument {
        /// Such as `OWNER/REPO`.
        wanted: &'static str,
    },
    /// It takes none.
    #[error("this preset takes no argument")]
    NoArgument,
    /// No such preset.
    #[error("there is no such preset; there are {known}")]
    Unknown {
        /// All of them.
        known: String,
    },
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Form {
    about: String,
    #[serde(default)]
    argument: Option<String>,
    #[serde(default)]
    to: Vec<String>,
    #[serde(default)]
    locations: Vec<Location>,
    #[serde(default)]
    allow: Vec<String>,
    #[serde(default)]
    ask: Vec<String>,
}

impl Preset {
    /// Parses `NAME` or `NAME=ARGUMENT`.
    pub fn parse(text: &str) -> Result<Self, PresetError> {
        let (name, argument) = match text.split_once('=') {
            Some((name, argument)) => (name, Some(argument)),
            None => (text, None),
        };
        let form = forms().get(name).ok_or_else(|| {
            let known = forms().keys().cloned().collect::<Vec<_>>().join(", ");
            PresetError::Unknown { known }
        })?;
        match (&form.argument, argument) {
            (None, Some(_)) => Err(PresetError::NoArgument),
            (Some(wanted), given) if !given.is_some_and(|given| has_shape(given, wanted)) => {
                Err(PresetError::Argument { wanted })
            }
            (_, argument) => Ok(form.filled(argument.unwrap_or_default())),
        }
    }

    /// All presets, by name.
    pub fn list() -> Vec<PresetInfo> {
        let info = |(name, form): (&String, &'static Form)| {
            let argument = form.argument.iter().map(|shape| format!("={shape}"));
            PresetInfo { usage: name.clone() + &argument.collect::<String>(), about: &form.about }
        };
        forms().iter().map(info).collect()
    }

    /// The hosts that it is made for; none when it fits any.
    pub fn to(&self) -> &[Destination] {
        &self.to
    }

    /// Adds its rules to a secret's. Locations that the secret names itself stay.
    pub fn apply(&self, rule: &mut EgressRule) {
        rule.allow.extend(self.allow.iter().cloned());
        rule.ask.extend(self.ask.iter().cloned());
        if let Some(locations) = self.locations.filter(|_| rule.locations == Locations::ALL) {
            rule.locations = locations;
        }
    }
}

impl Form {
    fn filled(&self, argument: &str) -> Preset {
        let encoded = argument.replace('/', "%2F");
        let fill = |line: &String| line.replace(ARGUMENT, argument).replace(ENCODED, &encoded);
        let rule = |line| RequestRule::parse(&fill(line)).expect("presets are parsed in a test");
        let host = |text: &String| Destination::parse(text).expect("presets are parsed in a test");
        let locations = (!self.locations.is_empty()).then(|| self.locations.iter().copied());
        Preset {
            to: self.to.iter().map(host).collect(),
            locations: locations.map(FromIterator::from_iter),
            allow: self.allow.iter().map(rule).collect(),
            ask: self.ask.iter().map(rule).collect(),
        }
    }
}

impl fmt::Display for PresetInfo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.usage, self.about)
    }
}

fn forms() -> &'static BTreeMap<String, Form> {
    static FORMS: OnceLock<BTreeMap<String, Form>> = OnceLock::new();
    FORMS.get_or_init(|| serde_saphyr::from_str(TEXT).expect("presets are parsed in a test"))
}

/// Whether the argument has as many segments as the shape, each of them a plain name.
fn has_shape(argument: &str, shape: &str) -> bool {
    let fine = |b: u8| b.is_ascii_alphanumeric() || b"-_.".contains(&b);
    let name = |part: &str| {
        !matches!(part, "" | "." | "..") && part.len() <= 128 && part.bytes().all(fine)
    };
    argument.split('/').all(name) && argument.split('/').count() == shape.split('/').count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_presets_parse_and_name_their_own_hosts() {
        for (name, form) in forms() {
            let argument = form.argument.as_ref().map(|shape| format!("={shape}"));
            let text = name.clone() + &argument.unwrap_or_default();
            let preset = Preset::parse(&text).unwrap();
            assert!(!preset.allow.is_empty(), "{name}");
            for rule in preset.allow.iter().chain(&preset.ask) {
                let line = rule.to_string();
                let target = line.split(' ').nth(1).unwrap();
                let host = target.split('/').next().unwrap();
                let own = preset.to.iter().any(|to| to.to_string() == host);
                assert!(own || (preset.to.is_empty() && host.is_empty()), "{name}: {line}");
            }
        }
        assert_eq!(Preset::list().len(), forms().len());
    }

    #[test]
    fn arguments_go_where_they_belong() {
        let preset = Preset::parse("gitlab-read=acme/site").unwrap();
        let lines: Vec<_> = preset.allow.iter().map(ToString::to_string).collect();
        assert_eq!(lines[0], "GET,HEAD gitlab.com/api/v4/projects/acme%2Fsite/**");
        assert_eq!(lines[1], "GET,HEAD gitlab.com/acme/site.git/**");
    }

    #[test]
    fn arguments_can_not_widen_a_rule() {
        for bad in ["**", "a/..", "../b", "a/b/c", "a", "a/*", "a/b c", "a/", "a%2fb/c", ""] {
            let preset = Preset::parse(&format!("github-read={bad}"));
            assert!(matches!(preset, Err(PresetError::Argument { .. })), "{bad}");
        }
        assert!(matches!(Preset::parse("github-read"), Err(PresetError::Argument { .. })));
        assert_eq!(Preset::parse("npm-read=x"), Err(PresetError::NoArgument));
        assert!(matches!(Preset::parse("none"), Err(PresetError::Unknown { .. })));
    }

    #[test]
    fn a_secret_takes_the_rules_over() {
        let mut rule = EgressRule::to(vec![Destination::parse("github.com").unwrap()]);
        Preset::parse("github-write=acme/site").unwrap().apply(&mut rule);
        assert_eq!((rule.allow.len(), rule.ask.len()), (5, 9));
        assert!(!rule.locations.contains(Location::Body));
    }
}
