//! What an agent proposes to be known: beside what is known now, field by field.

use keyless_core::{
    Error,
    approval::{Field, Fields as Proposed},
};
use maud::{Markup, html};

use super::Scene;
use crate::{
    operator::{self, Answer, By, Present, Shown},
    web::{form::Fields, words::plain},
};

/// The field of the boxes.
const TAKE: &str = "take";

/// Present and proposed values; each proposal has its box.
pub(super) fn fields(scene: &Scene<'_>, proposed: &Proposed) -> Markup {
    html! {
        table .diff {
            caption .sr { "What is known now, and what the agent proposes" }
            thead { tr {
                th scope="col" { "Take over" }
                th scope="col" { "Known now" }
                th scope="col" .theirs-head { "The agent’s words" }
            } }
            tbody {
                @for field in proposed.present() {
                    @let now = scene.shown.present(field);
                    @let id = format!("take-{}", field.as_str());
                    tr {
                        th scope="row" {
                            label for=(id) {
                                input #(id) type="checkbox" name=(TAKE) value=(field.as_str());
                                (field.title())
                            }
                        }
                        td data-head="Known now" {
                            @match &now {
                                Some(now) => { (plain(&now.text)) (by(now.by)) },
                                None => { span .none { "nothing" } },
                            }
                        }
                        td .proposed data-head="Agent says" {
                            (plain(&proposed.text(field).unwrap_or_default()))
                            @if field == Field::PatternId { (unknown_pattern(scene.shown)) }
                        }
                    }
                }
            }
        }
    }
}

/// That nobody knows the pattern that is proposed or declared.
fn unknown_pattern(shown: &Shown) -> Markup {
    html! {
        @if let Some(unknown) = &shown.unknown_pattern { span .warn { (plain(&unknown.in_words())) } }
    }
}

/// What is declared of a secret that a value is asked for.
pub(super) fn declared(shown: &Shown) -> Markup {
    html! {
        @for field in [Field::Description, Field::RetrievalUrl] {
            @if let Some(Present { text, by: By::Declaration }) = shown.present(field) {
                div { dt { (field.title()) } dd { (plain(&text)) span .help { " (declared)" } } }
            }
        }
        @if let (Some(_), Some(declared)) = (&shown.unknown_pattern, shown.declared_pattern()) {
            div { dt { (Field::PatternId.title()) } dd { (plain(declared)) (unknown_pattern(shown)) } }
        }
    }
}

/// What is declared and stays with the secret, once it is in the store.
pub(super) fn kept(shown: &Shown) -> Markup {
    let stays = html! { span .help { " (declared; stays with the secret)" } };
    html! {
        @if let Some(policy) = shown.kept_policy() {
            div { dt { "Asks" } dd { (policy.in_words()) (stays) } }
        }
        @for (field, now) in shown.kept_fields() {
            div { dt { (field.title()) } dd { (plain(&now)) (stays) } }
        }
    }
}

/// Whose word it is, where it is not the vault's.
fn by(by: By) -> Markup {
    html! { @if by == By::Declaration { span .help { " (declared)" } } }
}

/// The path, to be edited, and what is proposed to be known of it.
pub(super) fn new_path(scene: &Scene<'_>, proposed: &Proposed) -> Markup {
    html! {
        div .field {
            label for="path" { "Path" }
            input #path name="path" value=(scene.shown.title()) required spellcheck="false"
                autocapitalize="off" autocomplete="off" maxlength="255"
                pattern="[a-z0-9]+(-[a-z0-9]+)*(/[a-z0-9]+(-[a-z0-9]+)*){2,}" aria-describedby="path-help";
            p #path-help .help {
                "The agent suggests it; the name is yours. project/category/name, lower case, digits, hyphens."
            }
        }
        @if proposed.present().is_empty() {
            p .help { "The agent says nothing more about it." }
        } @else {
            (fields(scene, proposed))
        }
    }
}

/// The boxes that are ticked.
pub(super) fn read_fields(fields: &Fields) -> Answer {
    let fields = ticked(fields);
    if fields.is_empty() { Answer::Cancel } else { Answer::Apply { fields } }
}

pub(super) fn read_path(fields: &Fields) -> Result<Answer, Error> {
    Ok(Answer::Register { path: operator::read_path(fields.text("path"))?, fields: ticked(fields) })
}

fn ticked(fields: &Fields) -> Vec<Field> {
    fields.all(TAKE).filter_map(Field::parse).collect()
}
