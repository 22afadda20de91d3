//! What the log has of values that were read to be judged, and given to nobody.

use keyless_core::{
    SecretPath,
    audit::{Action, Agent, Detail, Draft, Outcome, Target},
};

use crate::broker::plain_entry;

/// The one entry about a call: by whom, of which secrets' values, and which call, as people know it. A value that could not
/// be had was not read.
pub(crate) fn looked_over(who: Agent, paths: Vec<SecretPath>, call: &str) -> Draft {
    let draft = plain_entry(who, Action::Validate, Outcome::Success, Target::Secrets(paths));
    Draft { detail: Detail { note: Some(call.to_owned()), ..Detail::default() }, ..draft }
}
