//! How a template names a secret: looser than a path, folded before it is compared.
//!
//! `A-Z` folds to `a-z`; `_`, `.` and a `/` inside a name fold to `-`, so `github/API_TOKEN` finds
//! `team/github/api-token`. Placeholder syntax (`{{nl:…}}`) is not read here. Source: design.md, section 2.

use std::{collections::HashMap, fmt};

use serde::Serialize;

use crate::{SecretPath, action::ActionContext};

/// A secret's name as an agent or a person wrote it; keeps their spelling for answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reference {
    written: String,
    folded: Vec<String>,
}

/// Why a text is not a [`Reference`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ReferenceError {
    /// Something other than letters, digits, `-`, `_`, `.` and `/`, or an empty segment.
    #[error("a reference has letters, digits, `-`, `_`, `.` and single `/` only")]
    BadCharacter,
    /// A segment of nothing but dots, which is no name of anything.
    #[error("a segment of dots alone names nothing")]
    Dots,
    /// Nothing at all.
    #[error("the reference is empty")]
    Empty,
}

/// Where a reference says that its secret is: as much of the path as is written, folded.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Reading {
    /// The project, if it is written.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub project: Option<String>,
    /// The environment, if it is written.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub environment: Option<String>,
    /// The category, if it is written.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub category: Option<String>,
    #[serde(skip)]
    pub(crate) name: String,
}

/// What a reference means among the secrets that may be seen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Resolution<'a> {
    /// Several paths fit; the caller lists them.
    Ambiguous(Vec<&'a SecretPath>),
    /// Nothing fits.
    NotFound,
    /// Exactly one fits.
    One(&'a SecretPath),
}

impl Reference {
    /// Parses `name`, `category/name`, `project/category/name`, `project/environment/name`,
    /// `project/environment/category/name` or a whole path.
    pub fn parse(text: &str) -> Result<Self, ReferenceError> {
        if text.is_empty() {
            return Err(ReferenceError::Empty);
        }
        let allowed = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.');
        let folded = text
            .split('/')
            .map(|segment| {
                if segment.is_empty() || !segment.bytes().all(allowed) {
                    Err(ReferenceError::BadCharacter)
                } else if segment.bytes().all(|b| b == b'.') {
                    Err(ReferenceError::Dots)
                } else {
                    Ok(fold(segment))
                }
            })
            .collect::<Result<_, _>>()?;
        Ok(Self { written: text.to_owned(), folded })
    }

    /// The reference as it was written.
    pub fn as_written(&self) -> &str {
        &self.written
    }

    /// What its words alone say, whether or not there is such a secret: of three segments the second is a category or an
    /// environment. Source: chapter 02, 4.2.
    pub fn readings(&self) -> Vec<Reading> {
        let read = |project: Option<&String>, environment, category, name: &[String]| Reading {
            project: project.cloned(),
            environment: Option::<&String>::cloned(environment),
            category: Option::<&String>::cloned(category),
            name: name.join("-"),
        };
        match self.folded.as_slice() {
            [category, name @ ..] if name.len() == 1 => {
                vec![read(None, None, Some(category), name)]
            }
            [project, scope, name @ ..] if name.len() == 1 => vec![
                read(Some(project), None, Some(scope), name),
                read(Some(project), Some(scope), None, name),
            ],
            [project, environment, category, name @ ..] => {
                vec![read(Some(project), Some(environment), Some(category), name)]
            }
            name => vec![read(None, None, None, name)],
        }
    }

    /// Picks the one path that this reference means. An exact path wins over folded readings.
    pub fn resolve<'a>(&self, visible: impl IntoIterator<Item = &'a SecretPath>) -> Resolution<'a> {
        let mut fits: Vec<&SecretPath> = Vec::new();
        for path in visible {
            if path.as_str() == self.written {
                return Resolution::One(path);
            }
            if self.fits(path) {
                fits.push(path);
            }
        }
        match fits.as_slice() {
            [] => Resolution::NotFound,
            [one] => Resolution::One(one),
            _ => Resolution::Ambiguous(fits),
        }
    }

    /// As [`Reference::resolve`], but what fits in the context's project and environment comes before
    /// what fits in its project, and that before the rest: several are ambiguous only among equals.
    pub fn resolve_within<'a>(
        &self,
        visible: impl IntoIterator<Item = &'a SecretPath>,
        context: &ActionContext,
    ) -> Resolution<'a> {
        let all: Vec<&SecretPath> = visible.into_iter().collect();
        // What is written in full means that, wherever it is written.
        if let Some(path) = all.iter().find(|path| path.as_str() == self.as_written()) {
            return Resolution::One(path);
        }
        let is = |wanted: &Option<String>, has: &str| {
            wanted.as_deref().is_some_and(|wanted| fold(wanted) == fold(has))
        };
        let here = |path: &&SecretPath| is(&context.project, path.project());
        let exactly =
            |path: &&SecretPath| here(path) && is(&context.environment, path.environment());
        let alike = |path: &&SecretPath| is(&context.environment, path.environment());
        let levels: [Vec<&SecretPath>; 3] = [
            all.iter().copied().filter(exactly).collect(),
            all.iter().copied().filter(here).collect(),
            all.iter().copied().filter(alike).collect(),
        ];
        for level in levels {
            match self.resolve(level) {
                Resolution::NotFound => {}
                found => return found,
            }
        }
        self.resolve(all)
    }

    /// The name, behind as much of its scope as was written. Source: chapter 02, 4.2.
    fn fits(&self, path: &SecretPath) -> bool {
        let [project, environment, category, name] =
            [path.project(), path.environment(), path.category(), path.name()].map(fold);
        let scopes: [&[&String]; 5] = [
            &[],
            &[&category],
            &[&project, &category],
            &[&project, &environment],
            &[&project, &environment, &category],
        ];
        scopes.iter().any(|scope| {
            let split = self.folded.split_at_checked(scope.len());
            split.is_some_and(|(first, rest)| {
                first.iter().eq(scope.iter().copied()) && rest.join("-") == name
            })
        })
    }
}

/// References that are as short as they can be, each of which means one of some paths and no other of them.
#[derive(Clone, Debug)]
pub struct ShortReferences {
    /// How many of the paths each text, folded, may mean.
    meant: HashMap<String, usize>,
}

impl ShortReferences {
    /// Counts once what each path may be called, so that none has to be compared with all others.
    pub fn among<'a>(paths: impl IntoIterator<Item = &'a SecretPath>) -> Self {
        let mut meant = HashMap::new();
        for path in paths {
            let [project, environment, category, name] =
                [path.project(), path.environment(), path.category(), path.name()].map(fold);
            let mut called = [
                format!("{project}-{environment}-{category}-{name}"),
                format!("{project}-{environment}-{name}"),
                format!("{project}-{category}-{name}"),
                format!("{category}-{name}"),
                name,
            ];
            called.sort_unstable();
            for (at, one) in called.iter().enumerate() {
                if at == 0 || called[at - 1] != *one {
                    *meant.entry(one.clone()).or_default() += 1;
                }
            }
        }
        Self { meant }
    }

    /// The shortest reference to one of the paths: the whole path where nothing shorter will do.
    pub fn to(&self, path: &SecretPath) -> String {
        let (project, category, name) = (path.project(), path.category(), path.name());
        let means_it = |text: &String| {
            Reference::parse(text).is_ok_and(|reference| {
                let is_one = self.meant.get(&reference.folded.join("-")) == Some(&1);
                is_one && reference.fits(path)
            })
        };
        let short = [format!("{category}/{name}"), format!("{project}/{category}/{name}")];
        short.into_iter().find(means_it).unwrap_or_else(|| path.to_string())
    }
}

impl fmt::Display for Reference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.written)
    }
}

fn fold(segment: &str) -> String {
    segment
        .chars()
        .map(|c| match c {
            '_' | '.' | '/' => '-',
            other => other.to_ascii_lowercase(),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn paths() -> Vec<SecretPath> {
        ["team/github/api-token", "other/github/api-token", "team/prod/aws/deploy/key"]
            .iter()
            .map(|text| SecretPath::parse(text).unwrap())
            .collect()
    }

    #[test]
    fn spelling_is_folded() {
        let paths = paths();
        for text in ["team/github/API_TOKEN", "team/github/api.token", "Team/GitHub/api-token"] {
            let reference = Reference::parse(text).unwrap();
            assert_eq!(reference.resolve(&paths), Resolution::One(&paths[0]), "{text}");
            assert_eq!(reference.as_written(), text);
        }
    }

    #[test]
    fn short_references_mean_their_paths_alone() {
        let paths = [
            "t/api/token",
            "u/api/token",
            "t/prod/api/token",
            "t/x/api-token",
            "t/x/token",
            "t/api/x-y",
            "t/api/x/y",
            "api/t/token",
            "t/db/key",
            "t/prod/db/key",
        ];
        let paths = paths.map(|text| SecretPath::parse(text).unwrap());
        let short = ShortReferences::among(&paths);
        for path in &paths {
            let text = short.to(path);
            let found = Reference::parse(&text).unwrap();
            assert_eq!(found.resolve(&paths), Resolution::One(path), "{text}");
        }
        assert_eq!(short.to(&paths[4]), "x/token");
    }

    /// Each compared with all others would take longer than a test may.
    #[test]
    fn thousands_of_short_references_are_found_soon() {
        let path = |index: usize| SecretPath::parse(&format!("t/api/token-{index}")).unwrap();
        let paths: Vec<SecretPath> = (0..20_000).map(path).collect();
        let short = ShortReferences::among(&paths);
        assert!(paths.iter().all(|path| short.to(path) == format!("api/{}", path.name())));
    }

    #[test]
    fn a_name_with_slashes_is_found() {
        let paths = paths();
        for text in ["aws/deploy/key", "aws/DEPLOY_KEY", "deploy-key", "team/prod/aws/deploy/key"] {
            let reference = Reference::parse(text).unwrap();
            assert_eq!(reference.resolve(&paths), Resolution::One(&paths[2]), "{text}");
        }
    }

    #[test]
    fn the_default_environment_can_be_written_out() {
        let paths: Vec<SecretPath> =
            ["team/smb/pass", "team/prod/smb/pass", "team/prod/aws/deploy/key"]
                .iter()
                .map(|text| SecretPath::parse(text).unwrap())
                .collect();
        for (text, path) in [
            ("team/default/smb/pass", 0),
            ("Team/Default/SMB/PASS", 0),
            ("team/prod/smb/PASS", 1),
            ("team/prod/aws/DEPLOY_KEY", 2),
            ("team/prod/aws/deploy/key", 2),
        ] {
            let reference = Reference::parse(text).unwrap();
            assert_eq!(reference.resolve(&paths), Resolution::One(&paths[path]), "{text}");
        }
        for text in
            ["team/dev/smb/pass", "team/default/aws/pass", "team/default/smb", "default/smb/pass"]
        {
            assert_eq!(
                Reference::parse(text).unwrap().resolve(&paths),
                Resolution::NotFound,
                "{text}"
            );
        }
        // A path is itself before it is another's longer name.
        let exact = SecretPath::parse("team/default/smb/pass").unwrap();
        let both = [paths[0].clone(), exact];
        let resolve = |text| Reference::parse(text).unwrap().resolve(&both);
        assert_eq!(resolve("team/default/smb/pass"), Resolution::One(&both[1]));
        assert_eq!(resolve("team/default/smb/PASS"), Resolution::Ambiguous(both.iter().collect()));
    }

    #[test]
    fn two_projects_are_ambiguous() {
        let paths = paths();
        let reference = Reference::parse("github/API_TOKEN").unwrap();
        assert_eq!(reference.resolve(&paths), Resolution::Ambiguous(vec![&paths[0], &paths[1]]));
        assert_eq!(Reference::parse("nothing").unwrap().resolve(&paths), Resolution::NotFound);
    }

    #[test]
    fn the_context_comes_first() {
        let paths: Vec<SecretPath> =
            ["team/prod/db/password", "team/dev/db/password", "other/prod/db/password"]
                .iter()
                .map(|text| SecretPath::parse(text).unwrap())
                .collect();
        let context = |project: &str, environment: Option<&str>| ActionContext {
            project: Some(project.to_owned()),
            environment: environment.map(str::to_owned),
        };
        let reference = Reference::parse("db/PASSWORD").unwrap();
        let within = |context| reference.resolve_within(&paths, &context);
        assert_eq!(within(context("team", Some("dev"))), Resolution::One(&paths[1]));
        assert_eq!(within(context("other", Some("dev"))), Resolution::One(&paths[2]));
        assert!(
            matches!(within(context("team", None)), Resolution::Ambiguous(fits) if fits.len() == 2)
        );
        assert!(
            matches!(within(context("third", None)), Resolution::Ambiguous(fits) if fits.len() == 3)
        );
        // An environment alone narrows it too.
        let environment =
            |name: &str| ActionContext { project: None, environment: Some(name.to_owned()) };
        assert_eq!(within(environment("dev")), Resolution::One(&paths[1]));
        assert!(
            matches!(within(environment("prod")), Resolution::Ambiguous(fits) if fits.len() == 2)
        );
        // A whole path is itself, whatever is called so here.
        let odd =
            ["team/x/y", "here/prod/cat/team/x/y"].map(|text| SecretPath::parse(text).unwrap());
        let whole = Reference::parse("team/x/y").unwrap();
        assert_eq!(whole.resolve_within(&odd, &context("here", None)), Resolution::One(&odd[0]));
        // NL's scoped reference: project/environment/name.
        let scoped = Reference::parse("team/prod/PASSWORD").unwrap();
        assert_eq!(scoped.resolve(&paths), Resolution::One(&paths[0]));
    }

    #[test]
    fn odd_text_is_refused() {
        for text in ["a b", "a//b", "/a", "a/", "a\n", "{{nl:x}}"] {
            assert_eq!(Reference::parse(text), Err(ReferenceError::BadCharacter), "{text:?}");
        }
        assert_eq!(Reference::parse(""), Err(ReferenceError::Empty));
    }
}
