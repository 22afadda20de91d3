//! What the operator changes of what is known of a secret.

use keyless_core::{ApproveOnUse, Error};
use keyless_daemon::{Edited, vault::Metadata};

use super::Form;
use crate::commands::ui::form::{Field, Kind, Word};

const ASKS: &str = "asks";
const DESCRIPTION: &str = "description";
const ENV: &str = "env";
const EXPIRES: &str = "expires";
const PAGE: &str = "page";
const PATTERN: &str = "pattern";
const RENEWAL: &str = "renewal";
const TO: &str = "to";

pub(super) fn form(metadata: &Metadata) -> Form {
    let edited = Edited::of(metadata);
    let policies = ApproveOnUse::ALL.map(|policy| policy.in_words().to_owned()).to_vec();
    let at = ApproveOnUse::ALL.iter().position(|one| *one == edited.asks).unwrap_or(0);
    let fields = vec![
        Field::line(DESCRIPTION, "Description", &edited.description),
        Field::line(TO, "Goes to", &edited.to).with_help("Hosts that may receive it, with commas."),
        Field::line(ENV, "Variable", &edited.env)
            .with_help("The variable in which a session finds the placeholder."),
        Field::choice(ASKS, "Asks", policies, at),
        Field::line(EXPIRES, "Last day", &edited.expires_at)
            .with_help("As 2027-03-31; empty: no end is known."),
        Field::line(RENEWAL, "Renewal, in days", &edited.rotate_every_days),
        Field::line(PAGE, "Where to get it", &edited.retrieval_url),
        Field::line(PATTERN, "Pattern", &edited.pattern_id)
            .with_help("As keyless catalog list shows them."),
    ];
    Form::new(fields, &[(Word::Accept, "Save")])
}

/// The metadata as the form has it.
pub(super) fn read(form: &Form, before: &Metadata) -> Result<Metadata, Error> {
    let text = |name| form.text(name).to_owned();
    let asks = match form.field(ASKS).map(|field| &field.kind) {
        Some(Kind::Choice { at, .. }) => ApproveOnUse::ALL[*at],
        _ => before.approve_on_use,
    };
    let edited = Edited {
        description: text(DESCRIPTION),
        to: text(TO),
        env: text(ENV),
        asks,
        expires_at: text(EXPIRES),
        rotate_every_days: text(RENEWAL),
        retrieval_url: text(PAGE),
        pattern_id: text(PATTERN),
    };
    edited.read(before)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_field_is_read_from_its_own_place() {
        let mut form = form(&Metadata::default());
        let fill = ["For CI", "a.test", "KEY", "", "2027-02-28", "30", "https://a.test/", "a-b"];
        for (field, text) in form.fields.iter_mut().zip(fill) {
            match &mut field.kind {
                Kind::Choice { at, .. } => *at = 2,
                kind => *kind = Kind::Line(text.to_owned()),
            }
        }
        let told = Edited::of(&read(&form, &Metadata::default()).unwrap());
        let texts = [told.description, told.to, told.env, String::new(), told.expires_at];
        assert_eq!(texts, fill[..5]);
        assert_eq!([told.rotate_every_days, told.retrieval_url, told.pattern_id], fill[5..]);
        assert_eq!(told.asks, ApproveOnUse::PerCall);
    }
}
