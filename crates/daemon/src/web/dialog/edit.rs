//! What is known of a secret, as a form for its owner: what it is for, where it may go, when a person is asked.

use jiff::civil::Date;
use keyless_core::{
    ApproveOnUse, EgressRule, Error,
    approval::{Asked, Fields as Known},
};
use keyless_vault::{Metadata, Secret, Upkeep};
use maud::{Markup, html};

use super::{
    FORM, Once, once, once_more,
    own::Own,
    usage,
    value::{read_destinations, read_variable},
};
use crate::web::{form::Fields, frame::word};

/// The field with the time of the change that the form was drawn after.
const SEEN: &str = "seen";

/// The form.
pub(super) fn render(own: &Own<'_>, secret: &Secret, address: &str) -> Markup {
    let Metadata { description, env, egress, upkeep, approve_on_use, .. } = &secret.metadata;
    let to = egress.iter().flat_map(|rule| &rule.to).map(ToString::to_string);
    let to = to.collect::<Vec<_>>().join(", ");
    let env = env.as_ref().map(ToString::to_string).unwrap_or_default();
    let day = upkeep.expires_at.map(|day| day.to_string()).unwrap_or_default();
    let days = upkeep.rotate_every_days.map(|days| days.to_string()).unwrap_or_default();
    let text = |text: &Option<String>| text.clone().unwrap_or_default();
    // What lets a value go further takes the factor; whether this does, only the answer says.
    let again = match once(own.prove_again, true, true) {
        Once::Stale => Once::Maybe,
        other => other,
    };
    html! {
        form #(FORM) method="post" action=(address) data-live=(address) {
            (word(own.visit))
            input type="hidden" name=(SEEN) value=(secret.updated_at);
            (line("description", "What it is for", &text(description), "text", None))
            (line("to", "Hosts that may receive it", &to, "text",
                Some("Anywhere else only a placeholder arrives. With commas between them.")))
            (line("env", "Variable for its placeholder", &env, "text", None))
            div .field {
                label for="asks" { "A person is asked before it is used" }
                select #asks name="asks" {
                    @for policy in ApproveOnUse::ALL {
                        option value=(policy.as_str()) selected[policy == *approve_on_use] { (asks(policy)) }
                    }
                }
            }
            (line("expires_at", "Last day on which the value works", &day, "date", None))
            (line("rotate_every_days", "Renewal, in days", &days, "number", None))
            (line("retrieval_url", "Where to get the next one", &text(&upkeep.retrieval_url), "url", None))
            (line("pattern_id", "Pattern of the catalog", &text(&upkeep.pattern_id), "text", None))
            (once_more(own.visit, again, "where it lets the value go further"))
            div .fault role="alert" data-fault="" hidden {}
            div .buttons { button .main name="act" value="edit" { "Save" } }
        }
    }
}

fn line(name: &str, label: &str, value: &str, kind: &str, help: Option<&str>) -> Markup {
    let about = help.map(|_| format!("{name}-help"));
    html! {
        div .field {
            label for=(name) { (label) }
            input #(name) name=(name) type=(kind) value=(value) spellcheck="false" autocapitalize="off"
                autocomplete="off" min=[(kind == "number").then_some("1")] aria-describedby=[about.as_deref()];
            @if let Some(help) = help { p #(about.as_deref().unwrap_or_default()) .help { (help) } }
        }
    }
}

/// When a person is asked, in words.
pub(in crate::web) fn asks(policy: ApproveOnUse) -> &'static str {
    match policy {
        ApproveOnUse::Never => "never",
        ApproveOnUse::PerCall => "at every use",
        ApproveOnUse::Session => "once a session",
    }
}

/// The metadata that the form says. [`Code::Usage`] when it says nothing that can be done, or was drawn before
/// somebody else's change.
pub(in crate::web) fn read_metadata(secret: &Secret, fields: &Fields) -> Result<Metadata, Error> {
    if fields.text(SEEN) != secret.updated_at.to_string() {
        return Err(usage("it was changed meanwhile; load the page again"));
    }
    let text = |name: &str| Some(fields.text(name).trim().to_owned()).filter(|it| !it.is_empty());
    let mut metadata = secret.metadata.clone();
    let to = read_destinations(fields.text("to"))?;
    metadata.egress = match (metadata.egress, to.is_empty()) {
        (None, true) => None,
        (None, false) => Some(EgressRule::to(to)),
        (Some(_), true) => {
            return Err(usage(
                "it keeps at least one host: one without any could enter an action’s jail",
            ));
        }
        (Some(rule), false) => Some(EgressRule { to, ..rule }),
    };
    metadata.env = text("env").map(|name| read_variable(&name)).transpose()?;
    let asks = ApproveOnUse::parse(fields.text("asks"));
    metadata.approve_on_use = asks.ok_or_else(|| usage("it says when a person is asked"))?;
    let known = Known {
        description: text("description"),
        retrieval_url: text("retrieval_url"),
        rotate_every_days: text("rotate_every_days").map(|days| read_days(&days)).transpose()?,
        expires_at: text("expires_at").map(|day| read_day(&day)).transpose()?,
        pattern_id: text("pattern_id"),
    };
    // An owner is held to what an agent's proposals are: what stands there is read by others, and links are followed.
    Asked::NewPathProposal { fields: known.clone() }.check()?;
    metadata.description = known.description;
    metadata.upkeep = Upkeep {
        retrieval_url: known.retrieval_url,
        rotate_every_days: known.rotate_every_days,
        expires_at: known.expires_at,
        pattern_id: known.pattern_id,
        ..metadata.upkeep
    };
    Ok(metadata)
}

/// Whether the value may then go where it could not, or be used unasked where a person was.
pub(in crate::web) fn goes_further(before: &Metadata, after: &Metadata) -> bool {
    let to = |metadata: &Metadata| metadata.egress.clone().map(|rule| rule.to).unwrap_or_default();
    let known = to(before);
    after.approve_on_use < before.approve_on_use || to(after).iter().any(|one| !known.contains(one))
}

fn read_day(text: &str) -> Result<Date, Error> {
    text.parse().map_err(|_| usage("the last day is written as 2027-01-31"))
}

fn read_days(text: &str) -> Result<u32, Error> {
    text.parse().map_err(|_| usage("the renewal is a number of days"))
}

#[cfg(test)]
mod tests {
    use keyless_core::{Code, Destination, SecretPath};

    use super::*;
    use crate::web::form::query;

    fn secret() -> Secret {
        let to = vec![Destination::parse("api.test").unwrap()];
        let metadata = Metadata {
            egress: Some(EgressRule { max_occurrences: Some(1), ..EgressRule::to(to) }),
            approve_on_use: ApproveOnUse::Session,
            ..Metadata::default()
        };
        let (path, at) =
            (SecretPath::parse("a/b/c").unwrap(), "2026-01-02T03:04:05Z".parse().unwrap());
        let (created_at, updated_at) = (at, at);
        Secret { path, metadata, created_at, updated_at, version: None, rotated_at: None }
    }

    fn read(form: &str) -> Result<Metadata, Error> {
        let form = format!("seen=2026-01-02T03%3A04%3A05Z&{form}");
        read_metadata(&secret(), &query(Some(&form)))
    }

    #[test]
    fn a_form_says_the_metadata_and_leaves_the_rest() {
        let form = "to=api.test, b.test&env=KEY&asks=per-call&description=For+CI&expires_at=2027-01-31\
            &rotate_every_days=30&retrieval_url=https://a.test/tokens";
        let told = read(form).unwrap();
        let rule = told.egress.as_ref().unwrap();
        assert_eq!((rule.to.len(), rule.max_occurrences), (2, Some(1)));
        assert_eq!(
            (told.description.as_deref(), told.approve_on_use),
            (Some("For CI"), ApproveOnUse::PerCall)
        );
        assert_eq!(told.upkeep.rotate_every_days, Some(30));
        assert!(goes_further(&secret().metadata, &told), "another host");
        for (form, further) in
            [("to=api.test&asks=session", false), ("to=api.test&asks=never", true)]
        {
            assert_eq!(goes_further(&secret().metadata, &read(form).unwrap()), further, "{form}");
        }
    }

    #[test]
    fn what_can_not_be_is_refused() {
        for form in [
            "asks=session",
            "to=api.test",
            "to=*&asks=session",
            "to=api.test&asks=session&env=9",
            "to=api.test&asks=session&expires_at=soon",
            "to=api.test&asks=session&rotate_every_days=0",
            "to=api.test&asks=session&retrieval_url=javascript:alert(1)",
        ] {
            assert_eq!(read(form).unwrap_err().code(), Code::Usage, "{form}");
        }
        let late = query(Some("seen=2026-01-02T03%3A04%3A06Z&to=api.test&asks=session"));
        assert!(read_metadata(&secret(), &late).is_err(), "somebody changed it meanwhile");
    }
}
