//! Whether everything is in order on this machine: each check with what was found, and what helps.
//!
//! Looks and changes nothing, asks nobody, opens no value; works without a store, a broker or a terminal. Words for
//! people are here since each belongs to its check; tables and colours are the command line's.

mod broker;
mod files;
mod home;
mod machine;
mod project;
mod proxies;
mod store;

use std::path::Path;

use serde::Serialize;

use self::broker::Openable;
use crate::{
    ci,
    operator::{refuse_inside_session, sees_no_store},
    places::Places,
};

/// One thing that was looked at.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Check {
    /// A stable name, such as `home.permissions`.
    pub id: &'static str,
    /// How it is.
    pub state: CheckState,
    /// What was found.
    pub found: String,
    /// What to do about it; absent when there is nothing to do.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub remedy: Option<String>,
}

/// How a thing is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum CheckState {
    /// In order.
    Ok,
    /// In order, and worth knowing.
    Note,
    /// It works, and something should be done.
    Warning,
    /// Something does not work, or protects nothing.
    Fault,
}

impl Check {
    /// In order.
    pub fn ok(id: &'static str, found: impl Into<String>) -> Self {
        Self { id, state: CheckState::Ok, found: found.into(), remedy: None }
    }

    /// Not as it should be, to this degree.
    pub fn other(
        id: &'static str,
        state: CheckState,
        found: impl Into<String>,
        remedy: impl Into<String>,
    ) -> Self {
        Self { id, state, found: found.into(), remedy: Some(remedy.into()) }
    }

    fn note(id: &'static str, found: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self::other(id, CheckState::Note, found, remedy)
    }

    fn warning(id: &'static str, found: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self::other(id, CheckState::Warning, found, remedy)
    }

    fn fault(id: &'static str, found: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self::other(id, CheckState::Fault, found, remedy)
    }
}

/// Looks at this machine, the operator's files, the store, the broker, and the project that `folder` lies in.
pub async fn examine(places: &Places, folder: &Path) -> Vec<Check> {
    if refuse_inside_session().is_err() {
        let found = "this is an agent's session: nothing of Keyless's own is seen here, and no jail can be made";
        return vec![Check::note("session.inside", found, "run keyless doctor outside of it")];
    }
    let mut checks = machine::look();
    checks.extend(home::look(places));
    checks.extend(files::look(places, folder));
    let openable = if ci::is_on() {
        Openable::No("values come from the environment here")
    } else if sees_no_store(places).await {
        Openable::No("there is no store yet that it could open")
    } else {
        Openable::Yes
    };
    checks.extend(broker::look(places, openable).await);
    checks.extend(proxies::look(places));
    let store = store::look(places).await;
    let known = store.secrets;
    checks.extend(store.checks);
    checks.extend(files::unknown_patterns(places, folder, &known));
    checks.extend(project::look(places, folder, &known));
    checks
}
