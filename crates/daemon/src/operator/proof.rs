//! What takes the operator's factor once more, though they have proven it: one rule for the page and the screen.

use std::time::Duration;

use keyless_core::approval::Asked;
use keyless_vault::Metadata;
use serde::Deserialize;

use super::{
    given::Occasion,
    shown::{Answer, Shown},
};

/// How long after a proof nobody is asked again for what is grave.
const FRESH: Duration = Duration::from_mins(5);

/// Answers that take the factor, though the operator has signed in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ProveAgain {
    /// Each that gives an agent something or changes a secret, however lately it was proven.
    Always,
    /// What overwrites a value, what lets one go further, and uses that are asked about each time; not within five
    /// minutes of the last proof.
    #[default]
    Grave,
}

/// What an answer or a deed of the operator's comes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Weight {
    /// It gives an agent something, or changes a secret.
    Gives,
    /// It overwrites a value, lets one go further, or allows what is asked about each time.
    Grave,
    /// It gives nothing.
    Nothing,
}

/// Which proof it takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Proof {
    /// One at the deed itself.
    Another,
    /// One of the last five minutes.
    Fresh,
    /// The proof of signing in.
    Present,
}

impl ProveAgain {
    /// The proof that a deed of this weight takes.
    pub fn takes(self, weight: Weight) -> Proof {
        match (self, weight) {
            (_, Weight::Nothing) | (Self::Grave, Weight::Gives) => Proof::Present,
            (Self::Always, Weight::Gives | Weight::Grave) => Proof::Another,
            (Self::Grave, Weight::Grave) => Proof::Fresh,
        }
    }
}

impl Proof {
    /// Whether the factor has to be proven now, when it was last proven so long ago.
    pub fn is_due(self, since: Duration) -> bool {
        match self {
            Self::Another => true,
            Self::Fresh => since >= FRESH,
            Self::Present => false,
        }
    }
}

impl Weight {
    /// Of an answer to a request.
    pub fn of_answer(shown: &Shown, answer: &Answer) -> Self {
        match answer {
            Answer::AllowOnce if shown.is_per_call() => Self::Grave,
            Answer::Cancel | Answer::Deny => Self::Nothing,
            Answer::Value(_) if matches!(shown.asked, Asked::Rotation { .. }) => Self::Grave,
            Answer::AllowOnce
            | Answer::AllowSession
            | Answer::Apply { .. }
            | Answer::Register { .. }
            | Answer::Value(_) => Self::Gives,
        }
    }

    /// Of a value that the operator gives by themselves.
    pub fn of_value(occasion: Occasion) -> Self {
        match occasion {
            Occasion::Another => Self::Grave,
            Occasion::First | Occasion::New => Self::Gives,
        }
    }

    /// Of other metadata: the value may then go where it could not, or be used unasked where a person was.
    pub fn of_change(before: &Metadata, after: &Metadata) -> Self {
        let to =
            |metadata: &Metadata| metadata.egress.clone().map(|rule| rule.to).unwrap_or_default();
        let known = to(before);
        let further = to(after).iter().any(|one| !known.contains(one));
        if further || after.approve_on_use < before.approve_on_use {
            Self::Grave
        } else {
            Self::Gives
        }
    }
}

#[cfg(test)]
mod tests {
    use keyless_core::{ApproveOnUse, Destination, EgressRule};

    use super::*;

    #[test]
    fn what_lets_a_value_go_further_is_grave() {
        let metadata = |to: &[&str], approve_on_use| Metadata {
            egress: Some(EgressRule::to(
                to.iter().map(|to| Destination::parse(to).unwrap()).collect(),
            )),
            approve_on_use,
            ..Metadata::default()
        };
        let before = metadata(&["a.test", "b.test"], ApproveOnUse::Session);
        for (to, asks, weight) in [
            (&["a.test"][..], ApproveOnUse::PerCall, Weight::Gives),
            (&["a.test", "c.test"], ApproveOnUse::Session, Weight::Grave),
            (&["a.test", "b.test"], ApproveOnUse::Never, Weight::Grave),
        ] {
            assert_eq!(Weight::of_change(&before, &metadata(to, asks)), weight, "{to:?}");
        }
    }

    #[test]
    fn the_setting_and_the_weight_say_which_proof_it_takes() {
        let (fresh, old) = (Duration::from_secs(1), FRESH);
        for (setting, weight, due) in [
            (ProveAgain::Grave, Weight::Nothing, [false, false]),
            (ProveAgain::Grave, Weight::Gives, [false, false]),
            (ProveAgain::Grave, Weight::Grave, [false, true]),
            (ProveAgain::Always, Weight::Nothing, [false, false]),
            (ProveAgain::Always, Weight::Gives, [true, true]),
            (ProveAgain::Always, Weight::Grave, [true, true]),
        ] {
            let proof = setting.takes(weight);
            assert_eq!(
                [fresh, old].map(|since| proof.is_due(since)),
                due,
                "{setting:?} {weight:?}"
            );
        }
    }
}
