//! What is known of a secret, as a form for its owner: what it is for, where it may go, when a person is asked.

use keyless_core::{ApproveOnUse, Code, Error, SafeText};
use keyless_vault::{Metadata, Secret};
use maud::{Markup, html};

use super::{FORM, maybe_once_more, own::Own, unfit};
use crate::{
    operator::{Edited, Weight},
    web::{form::Fields, frame::word},
};

/// The field with the time of the change that the form was drawn after.
const SEEN: &str = "seen";

/// The form.
pub(super) fn render(own: &Own<'_>, secret: &Secret, address: &str) -> Markup {
    let edited = Edited::of(&secret.metadata);
    // What lets a value go further takes the factor; whether this does, only the answer says.
    let proof = own.prove_again.takes(Weight::Grave);
    html! {
        form #(FORM) method="post" action=(address) data-live=(address) {
            (word(own.visit))
            input type="hidden" name=(SEEN) value=(secret.updated_at);
            (line("description", "What it is for", &edited.description, "text", None))
            (line("to", "Hosts that may receive it", &edited.to, "text",
                Some("Anywhere else only a placeholder arrives. With commas between them.")))
            (line("env", "Variable for its placeholder", &edited.env, "text", None))
            div .field {
                label for="asks" { "A person is asked before it is used" }
                select #asks name="asks" {
                    @for policy in ApproveOnUse::ALL {
                        option value=(policy.as_str()) selected[policy == edited.asks] { (policy.in_words()) }
                    }
                }
            }
            (line("expires_at", "Last day on which the value works", &edited.expires_at, "date", None))
            (line("rotate_every_days", "Renewal, in days", &edited.rotate_every_days, "number", None))
            (line("retrieval_url", "Where to get the next one", &edited.retrieval_url, "url", None))
            (line("pattern_id", "Pattern of the catalog", &edited.pattern_id, "text", None))
            (maybe_once_more(own.visit, proof, "where it lets the value go further"))
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

/// The metadata that the form says. [`Code::AnswerUnfit`] when it says nothing that can be done,
/// [`Code::ChangedMeanwhile`] when it was drawn before somebody else's change.
pub(in crate::web) fn read_metadata(secret: &Secret, fields: &Fields) -> Result<Metadata, Error> {
    if fields.text(SEEN) != secret.updated_at.to_string() {
        let words = SafeText::words("load the page again");
        return Err(Error::with(Code::ChangedMeanwhile, words));
    }
    let text = |name: &str| fields.text(name).to_owned();
    let asks = ApproveOnUse::parse(fields.text("asks"));
    let edited = Edited {
        description: text("description"),
        to: text("to"),
        env: text("env"),
        asks: asks.ok_or_else(|| unfit("it says when a person is asked"))?,
        expires_at: text("expires_at"),
        rotate_every_days: text("rotate_every_days"),
        retrieval_url: text("retrieval_url"),
        pattern_id: text("pattern_id"),
    };
    edited.read(&secret.metadata)
}

#[cfg(test)]
mod tests {
    use keyless_core::SecretPath;

    use super::*;
    use crate::web::form::query;

    #[test]
    fn a_form_is_read_as_it_was_drawn_or_not_at_all() {
        let at = "2026-01-02T03:04:05Z".parse().unwrap();
        let (path, metadata) = (SecretPath::parse("a/b/c").unwrap(), Metadata::default());
        let (created_at, updated_at) = (at, at);
        let secret =
            Secret { path, metadata, created_at, updated_at, version: None, rotated_at: None };
        let read = |form: &str| read_metadata(&secret, &query(Some(form)));
        let fields = "description=For+CI&to=api.test,+b.test&env=KEY&asks=per-call&pattern_id=a-b\
            &expires_at=2027-01-31&rotate_every_days=30&retrieval_url=https://a.test/tokens";
        let told = read(&format!("seen=2026-01-02T03%3A04%3A05Z&{fields}")).unwrap();
        let edited = Edited::of(&told);
        assert_eq!((&*edited.to, &*edited.env), ("api.test, b.test", "KEY"));
        assert_eq!((&*edited.description, edited.asks), ("For CI", ApproveOnUse::PerCall));
        assert_eq!((&*edited.expires_at, &*edited.rotate_every_days), ("2027-01-31", "30"));
        assert_eq!((&*edited.retrieval_url, &*edited.pattern_id), ("https://a.test/tokens", "a-b"));
        let code = |form: &str| read(form).unwrap_err().code();
        let late = code(&format!("seen=2026-01-02T03%3A04%3A06Z&{fields}"));
        assert_eq!(late, Code::ChangedMeanwhile);
        assert_eq!(code("seen=2026-01-02T03%3A04%3A05Z&to=a.test"), Code::AnswerUnfit);
    }
}
