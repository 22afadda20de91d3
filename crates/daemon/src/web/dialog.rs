//! One request as a dialog, and the answer that its form brings.
//!
//! What is true of a secret comes from the vault, what an agent says stands in its own box, and no proposed
//! address is ever a link. Nothing is chosen beforehand but what the operator's own catalog says.

mod action;
mod deploy;
mod guide;
mod proposal;
mod use_approval;
mod value;

use keyless_core::{
    Code, Error, SafeText,
    approval::{Asked, RequestKind},
};
use keyless_vault::{Providers, Secret};
use maud::{Markup, html};
use zeroize::Zeroizing;

pub(super) use self::{guide::guide, value::judge};
use super::{
    form::Fields,
    frame::{factor_field, word},
    visitors::Visit,
    words::{clock, plain, time},
};
use crate::operator::{Answer, Known, Shown};

/// The id of a dialog's form.
const FORM: &str = "answer";

/// An answer, and the value that travels beside it.
pub(super) type Said = (Answer, Option<Zeroizing<Vec<u8>>>);

/// Everything that a dialog shows.
pub(super) struct Scene<'a> {
    pub(super) visit: &'a Visit,
    pub(super) shown: &'a Shown,
    /// The secret, as the vault has it.
    pub(super) secret: Option<&'a Secret>,
    pub(super) providers: &'a Providers,
    /// A value was refused for its looks: offer to take it all the same.
    pub(super) weak: bool,
}

/// What the form says; `Code::Usage` when it says nothing that can be done.
pub(super) fn read(shown: &Shown, fields: &mut Fields) -> Result<Said, Error> {
    let word = fields.text("word").to_owned();
    match (word.as_str(), &shown.asked) {
        ("deny", asked) if asked.is_permission() => Ok((Answer::Deny, None)),
        ("deny", _) => Ok((Answer::Cancel, None)),
        ("once", asked) if asked.is_permission() => Ok((Answer::AllowOnce, None)),
        ("session", Asked::UseApproval { .. }) => Ok((Answer::AllowSession, None)),
        ("accept", Asked::MetadataProposal { .. }) => Ok((proposal::read_fields(fields), None)),
        ("accept", Asked::NewPathProposal { .. }) => Ok((proposal::read_path(fields)?, None)),
        ("accept", Asked::Provision | Asked::Rotation) => value::read(shown, fields),
        _ => Err(usage("the answer does not fit what is asked")),
    }
}

/// The dialog.
pub(super) fn render(scene: &Scene<'_>) -> Markup {
    let (shown, place) = (scene.shown, &scene.visit.place);
    let home = format!("/{place}/");
    let action = format!("/{place}/requests/{}", shown.id);
    html! {
        dialog #sheet .sheet .is-wide[is_wide(&shown.asked)] open aria-labelledby="sheet-title" data-back=(home) {
            header {
                div {
                    p .kind { (shown.heading()) }
                    h2 #sheet-title .path tabindex="-1" autofocus { (plain(&shown.title())) }
                }
                a .close href=(home) aria-label="Close without an answer" { "×" }
            }
            (facts(scene))
            @if let Asked::Provision | Asked::Rotation = shown.asked { (value::around(scene)) }
            form #(FORM) method="post" action=(action) data-live=(home) {
                (word(scene.visit))
                @match &shown.asked {
                    Asked::ActionApproval { wanted } => { (action::render(scene, wanted)) },
                    Asked::DeployApply { wanted } => { (deploy::render(wanted)) },
                    Asked::MetadataProposal { fields } => { (proposal::fields(scene, fields)) },
                    Asked::NewPathProposal { fields } => { (proposal::new_path(scene, fields)) },
                    Asked::Provision | Asked::Rotation => { (value::inputs(scene)) },
                    Asked::UseApproval { reason, deed, .. } => {
                        (use_approval::render(scene, reason, deed.as_deref()))
                    },
                }
                div .fault role="alert" data-fault="" hidden {}
                (buttons(shown))
            }
        }
    }
}

/// Whether there are lines to be read in it.
fn is_wide(asked: &Asked) -> bool {
    matches!(asked, Asked::ActionApproval { .. } | Asked::DeployApply { .. })
}

fn facts(scene: &Scene<'_>) -> Markup {
    let shown = scene.shown;
    html! {
        dl .facts {
            div { dt { "Asked by" } dd { (plain(&shown.session)) ", " (time(shown.age_seconds)) " ago" } }
            div { dt { "Time left" } dd { (left(shown)) } }
            @match (&shown.asked, &shown.known) {
                (Asked::ActionApproval { .. } | Asked::DeployApply { .. }, _) => {},
                (_, Some(known)) => {
                    div { dt { "Goes to" } dd { (destinations(known)) } }
                },
                (_, None) => {
                    div { dt { "In the store" } dd { "not yet" } }
                },
            }
        }
    }
}

/// Where a secret's value may go.
fn destinations(known: &Known) -> Markup {
    html! {
        @if known.to.is_empty() { span .none { "no destination yet" } }
        @for (index, to) in known.to.iter().enumerate() {
            @if index > 0 { ", " }
            code { (to) }
        }
    }
}

/// How long there is to answer; the page's script counts it down.
pub(super) fn left(shown: &Shown) -> Markup {
    html! {
        span .left data-left=(shown.seconds_left) {
            meter min="0" max="300" value=(shown.seconds_left) aria-hidden="true" {}
            span data-words="" { (clock(shown.seconds_left)) }
        }
    }
}

/// The question for the factor, unseen where it was proven just now: that may be over before the answer.
fn once_more(scene: &Scene<'_>, why: &str) -> Markup {
    html! {
        div data-factor="" hidden[scene.visit.is_fresh()] {
            (factor_field(scene.visit, &format!("Passphrase or code, {why}"), !scene.visit.is_fresh()))
        }
    }
}

fn buttons(shown: &Shown) -> Markup {
    html! {
        div .buttons {
            @match &shown.asked {
                asked if asked.is_permission() => {
                    button name="word" value="deny" formnovalidate { "Deny" }
                    @if !shown.is_one_deed() {
                        button name="word" value="session" { "Allow for this session" }
                    }
                    button .main name="word" value="once" { "Allow once" }
                },
                asked => {
                    button name="word" value="deny" formnovalidate { "Decline" }
                    button .main name="word" value="accept" {
                        @match asked.kind() {
                            RequestKind::MetadataProposal => { "Take over what is ticked" },
                            RequestKind::NewPathProposal => { "Register" },
                            RequestKind::Rotation => { "Overwrite the value" },
                            _ => { "Save" },
                        }
                    }
                },
            }
        }
    }
}

fn usage(words: &'static str) -> Error {
    Error::with(Code::Usage, SafeText::words(words))
}
