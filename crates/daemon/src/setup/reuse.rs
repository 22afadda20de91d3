//! What a project would use that was stored before it came: paths to which names alone lead, with no value of its own that
//! could be compared. It may be meant, and it may be another project's key.

use std::collections::{BTreeMap, BTreeSet};

use keyless_core::SecretPath;

use super::{
    propose::{Judged, Proposal, Proposer},
    scan::{Scan, Variable},
};

impl Scan {
    /// The paths in `stored` that no file of the project has a value for, each with its variables. `is_declared` says which
    /// the project has declared before; an alias is the project's own word too.
    pub fn reused(
        &self,
        stored: &BTreeSet<SecretPath>,
        is_declared: impl Fn(&SecretPath) -> bool,
    ) -> BTreeMap<SecretPath, Vec<String>> {
        let mut reused: BTreeMap<SecretPath, Vec<String>> = BTreeMap::new();
        let mut own = BTreeSet::new();
        for (name, variable) in &self.variables {
            let Some(Proposal { path, .. }) = variable.proposal() else { continue };
            if variable.aliased || self.valued.contains(name) {
                own.insert(path.clone());
            } else if stored.contains(path) && !is_declared(path) {
                reused.entry(path.clone()).or_default().push(name.clone());
            }
        }
        reused.retain(|path, _| !own.contains(path));
        reused
    }

    /// Proposes a path of the project's own in place of `path`, one at which nothing is `stored`; gives it.
    pub fn give_own_path(
        &mut self,
        path: &SecretPath,
        stored: &BTreeSet<SecretPath>,
        proposer: &Proposer<'_>,
    ) -> Option<SecretPath> {
        let own = proposer.own_path(path, stored)?;
        for variable in self.variables.values_mut() {
            if let Judged::Secret(proposal) = &mut variable.judged
                && proposal.path == *path
            {
                proposal.path = own.clone();
            }
        }
        Some(own)
    }
}

impl Proposer<'_> {
    /// A path of the project's own in place of `path`, at which nothing is `stored`.
    pub fn own_path(&self, path: &SecretPath, stored: &BTreeSet<SecretPath>) -> Option<SecretPath> {
        self.of_project(path).find(|path| !stored.contains(path))
    }
}

impl Variable {
    fn proposal(&self) -> Option<&Proposal> {
        match &self.judged {
            Judged::Secret(proposal) => Some(proposal),
            Judged::Skip(_) => None,
        }
    }
}
