//! The bound that an identity sets to every grant.

use serde::{Deserialize, Serialize};

use crate::{
    Reading, Reference,
    grant::{Categories, SecretPattern, Subject},
};

/// The most that an agent may ever be granted.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AidScope {
    /// Projects, or `*`.
    pub projects: Vec<String>,
    /// Environments, or `*`.
    pub environments: Vec<String>,
    /// Categories; any when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub categories: Option<Vec<String>>,
    /// Patterns of which one has to fit; any secret when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret_patterns: Option<Vec<SecretPattern>>,
}

impl AidScope {
    /// Whether a secret lies within.
    pub fn covers(&self, subject: &Subject, categories: &Categories) -> bool {
        let path = subject.path();
        let names = |list: &[String], name: &str| {
            list.iter().any(|listed| {
                listed == "*" || (!subject.is_place() && listed.eq_ignore_ascii_case(name))
            })
        };
        let forms = subject.forms(categories);
        names(&self.projects, path.project())
            && names(&self.environments, path.environment())
            && self.categories.as_ref().is_none_or(|listed| names(listed, path.category()))
            && self
                .secret_patterns
                .as_ref()
                .is_none_or(|patterns| patterns.iter().any(|pattern| pattern.matches(&forms)))
    }

    /// Whether what a reference names may lie within, as far as its words tell: the same whether or not there is such a
    /// secret.
    pub fn leaves_room_for(&self, reference: &Reference) -> bool {
        let may_be = |list: &[String], name: Option<&String>| {
            name.is_none_or(|name| {
                list.iter().any(|listed| listed == "*" || listed.eq_ignore_ascii_case(name))
            })
        };
        let fits = |reading: &Reading| {
            let categories = self.categories.as_ref();
            may_be(&self.projects, reading.project.as_ref())
                && may_be(&self.environments, reading.environment.as_ref())
                && categories.is_none_or(|listed| may_be(listed, reading.category.as_ref()))
                && self
                    .secret_patterns
                    .as_ref()
                    .is_none_or(|patterns| patterns.iter().any(|one| one.may_name(reading)))
        };
        reference.readings().iter().any(fits)
    }

    /// Whether everything within `self` is within `outer` too, as far as words tell.
    pub fn is_within(&self, outer: &Self) -> bool {
        let each = |inner: &[String], outer: &[String]| {
            outer.iter().any(|listed| listed == "*")
                || inner.iter().all(|name| outer.contains(name))
        };
        let optional =
            |inner: &Option<Vec<String>>, outer: &Option<Vec<String>>| match (inner, outer) {
                (_, None) => true,
                (None, Some(_)) => false,
                (Some(inner), Some(outer)) => each(inner, outer),
            };
        let patterns = match (&self.secret_patterns, &outer.secret_patterns) {
            (_, None) => true,
            (None, Some(_)) => false,
            (Some(inner), Some(outer)) => {
                inner.iter().all(|pattern| outer.iter().any(|wide| pattern.is_within(wide)))
            }
        };
        patterns
            && each(&self.projects, &outer.projects)
            && each(&self.environments, &outer.environments)
            && optional(&self.categories, &outer.categories)
    }
}
