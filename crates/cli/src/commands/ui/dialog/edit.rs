//! What the operator changes of what is known of a secret.

use jiff::civil::Date;
use keyless_core::{ApproveOnUse, EgressRule, Error};
use keyless_daemon::vault::Metadata;

use super::{Form, usage};
use crate::commands::{
    approve::{destinations, env_name},
    ui::{
        form::{Field, Kind, Word},
        rooms::{asks, listed},
    },
};

const ASKS: &str = "asks";
const DESCRIPTION: &str = "description";
const ENV: &str = "env";
const EXPIRES: &str = "expires";
const PAGE: &str = "page";
const PATTERN: &str = "pattern";
const RENEWAL: &str = "renewal";
const TO: &str = "to";

pub(super) fn form(metadata: &Metadata) -> Form {
    let upkeep = &metadata.upkeep;
    let or_empty = |text: &Option<String>| text.clone().unwrap_or_default();
    let to = metadata.egress.as_ref().map(|rule| listed(&rule.to, "")).unwrap_or_default();
    let env = metadata.env.as_ref().map(ToString::to_string).unwrap_or_default();
    let day = upkeep.expires_at.map(|day| day.to_string()).unwrap_or_default();
    let days = upkeep.rotate_every_days.map(|days| days.to_string()).unwrap_or_default();
    let policies = ApproveOnUse::ALL.map(|policy| asks(policy).to_owned()).to_vec();
    let at = ApproveOnUse::ALL.iter().position(|one| *one == metadata.approve_on_use).unwrap_or(0);
    let fields = vec![
        Field::line(DESCRIPTION, "Description", &or_empty(&metadata.description)),
        Field::line(TO, "Goes to", &to).with_help("Hosts that may receive it, with commas."),
        Field::line(ENV, "Variable", &env)
            .with_help("The variable in which a session finds the placeholder."),
        Field::choice(ASKS, "Asks", policies, at),
        Field::line(EXPIRES, "Last day", &day).with_help("As 2027-03-31; empty: no end is known."),
        Field::line(RENEWAL, "Renewal, in days", &days),
        Field::line(PAGE, "Where to get it", &or_empty(&upkeep.retrieval_url)),
        Field::line(PATTERN, "Pattern", &or_empty(&upkeep.pattern_id))
            .with_help("As keyless catalog list shows them."),
    ];
    Form::new(fields, &[(Word::Accept, "Save")])
}

/// The metadata as the form has it.
pub(super) fn read(form: &Form, mut metadata: Metadata) -> Result<Metadata, Error> {
    let text = |name| Some(form.text(name).trim().to_owned()).filter(|text| !text.is_empty());
    metadata.description = text(DESCRIPTION);
    let to = destinations(form.text(TO))?;
    metadata.egress = match (metadata.egress.take(), to.is_empty()) {
        (_, true) => None,
        (Some(rule), false) => Some(EgressRule { to, ..rule }),
        (None, false) => Some(EgressRule::to(to)),
    };
    metadata.env = text(ENV).as_deref().map(env_name).transpose()?;
    if let Some(Kind::Choice { at, .. }) = form.field(ASKS).map(|field| &field.kind) {
        metadata.approve_on_use = ApproveOnUse::ALL[*at];
    }
    let upkeep = &mut metadata.upkeep;
    let day = text(EXPIRES).map(|day| day.parse::<Date>());
    upkeep.expires_at = day.transpose().map_err(|_| usage("a day is written as 2027-03-31"))?;
    let days = text(RENEWAL).map(|days| days.parse::<u32>());
    upkeep.rotate_every_days =
        days.transpose().map_err(|_| usage("the renewal is a number of days"))?;
    upkeep.retrieval_url = text(PAGE);
    upkeep.pattern_id = text(PATTERN);
    Ok(metadata)
}

#[cfg(test)]
mod tests {
    use keyless_core::Destination;

    use super::*;

    #[test]
    fn what_is_not_touched_stays_as_it_is() {
        let rule = EgressRule {
            max_occurrences: Some(3),
            ..EgressRule::to(vec![Destination::parse("a.test").unwrap()])
        };
        let metadata = Metadata { egress: Some(rule), ..Metadata::default() };
        assert_eq!(read(&form(&metadata), metadata.clone()).unwrap(), metadata);
        let mut form = form(&metadata);
        form.fields[1].kind = Kind::Line("b.test, c.test".to_owned());
        form.fields[4].kind = Kind::Line("2027-02-30".to_owned());
        assert!(read(&form, metadata.clone()).is_err());
        form.fields[4].kind = Kind::Line("2027-02-28".to_owned());
        let changed = read(&form, metadata).unwrap();
        let rule = changed.egress.unwrap();
        assert_eq!((rule.to.len(), rule.max_occurrences), (2, Some(3)));
    }
}
