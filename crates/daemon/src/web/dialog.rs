//! One request as a dialog, and the answer that its form brings.
//!
//! What is true of a secret comes from the vault, what an agent says stands in its own box, and no proposed
//! address is ever a link. Nothing is chosen beforehand but what the operator's own catalog says.

mod action;
mod deploy;
mod edit;
mod guide;
mod own;
mod proposal;
mod use_approval;
mod value;

use keyless_core::{
    Code, Destination, Error, SafeText,
    approval::{Asked, RequestKind},
};
use keyless_vault::{Providers, Secret};
use maud::{Markup, html};
use zeroize::Zeroizing;

pub(super) use self::{
    edit::read_metadata,
    guide::guide,
    own::{Act, Own, render as own},
    value::read_given,
};
use super::{
    form::Fields,
    frame::{factor_field, word},
    visitors::Visit,
    words::plain,
};
use crate::operator::{Answer, Given, Occasion, Proof, ProveAgain, Shown, Weight, lasting};

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
    pub(super) prove_again: ProveAgain,
}

/// What the form says; `Code::AnswerUnfit` when it says nothing that can be done.
pub(super) fn read(
    shown: &Shown,
    providers: &Providers,
    fields: &mut Fields,
) -> Result<Said, Error> {
    let word = fields.text("word").to_owned();
    match (word.as_str(), &shown.asked) {
        ("deny", _) => Ok((Answer::Deny, None)),
        ("once", asked) if asked.is_permission() => Ok((Answer::AllowOnce, None)),
        ("session", Asked::UseApproval { .. }) => Ok((Answer::AllowSession, None)),
        ("accept", Asked::MetadataProposal { .. }) => Ok((proposal::read_fields(fields), None)),
        ("accept", Asked::NewPathProposal { .. }) => Ok((proposal::read_path(fields)?, None)),
        ("accept", asked) => {
            let occasion = Occasion::asked(asked).ok_or_else(misfit)?;
            value::read(occasion, providers, fields)
        }
        _ => Err(misfit()),
    }
}

/// The dialog.
pub(super) fn render(scene: &Scene<'_>) -> Markup {
    let (shown, place) = (scene.shown, &scene.visit.place);
    let home = format!("/{place}/");
    let action = format!("/{place}/requests/{}", shown.id);
    let value = value::of_request(scene);
    let inside = html! {
        (facts(scene))
        @if let Some(value) = &value { (value::around(value)) }
        form #(FORM) method="post" action=(action) data-live=(home) {
            (word(scene.visit))
            (by_enter(shown))
            @match &shown.asked {
                Asked::ActionApproval { wanted } => { (action::render(scene, wanted)) },
                Asked::DeployApply { wanted } => { (deploy::render(wanted)) },
                Asked::MetadataProposal { fields, .. } => { (proposal::fields(scene, fields)) },
                Asked::NewPathProposal { fields, .. } => { (proposal::new_path(scene, fields)) },
                Asked::Provision { .. } | Asked::Rotation { .. } => {},
                Asked::UseApproval { reason, deed, .. } => {
                    (use_approval::render(scene, reason, deed.as_deref()))
                },
            }
            @if let Some(value) = &value { (value::inputs(value)) }
            (once_more(scene.visit, proof_of_yes(scene), why(shown)))
            div .fault role="alert" data-fault="" hidden {}
            (buttons(shown))
        }
    };
    let sheet = Sheet {
        kind: shown.heading(),
        title: &shown.title(),
        back: &home,
        is_wide: is_wide(&shown.asked),
    };
    sheet.around(&inside)
}

/// What stands over a page until it is answered or closed.
struct Sheet<'a> {
    kind: &'static str,
    title: &'a str,
    /// Where closing it leads.
    back: &'a str,
    is_wide: bool,
}

impl Sheet<'_> {
    fn around(&self, inside: &Markup) -> Markup {
        html! {
            dialog #sheet .sheet .is-wide[self.is_wide] open aria-labelledby="sheet-title" data-back=(self.back) {
                header {
                    div {
                        p .kind { (self.kind) }
                        h2 #sheet-title .path tabindex="-1" autofocus { (plain(self.title)) }
                    }
                    a .close href=(self.back) aria-label="Close without an answer" { "×" }
                }
                (inside)
            }
        }
    }
}

/// The answer of the dialog's main button.
fn yes(shown: &Shown) -> Answer {
    match shown.asked {
        Asked::Provision { .. } | Asked::Rotation { .. } => Answer::Value(Given::default()),
        Asked::MetadataProposal { .. } | Asked::NewPathProposal { .. } => {
            Answer::Apply { fields: Vec::new() }
        }
        _ => Answer::AllowOnce,
    }
}

fn why(shown: &Shown) -> &'static str {
    match shown.asked {
        Asked::Rotation { .. } => "since this overwrites a value",
        Asked::MetadataProposal { .. }
        | Asked::NewPathProposal { .. }
        | Asked::Provision { .. } => "to save it",
        _ => "to allow it",
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
            div { dt { "Asked by" } dd { (plain(&shown.session)) ", " (age(shown)) } }
            div { dt { "Time left" } dd { (left(shown)) } }
            @match (&shown.asked, &shown.known) {
                (Asked::ActionApproval { .. } | Asked::DeployApply { .. }, _) => {},
                (_, Some(known)) => {
                    div { dt { "Goes to" } dd { (destinations(&known.to)) } }
                    @if let (Some(at), None) = (&known.kept_at, Occasion::asked(&shown.asked)) {
                        div { dt { "Kept at" } dd { (plain(&at.in_words())) } }
                    }
                },
                (_, None) => {
                    div { dt { "In the store" } dd { "not yet" } }
                },
            }
            @if let Asked::Provision { .. } = shown.asked { (proposal::declared(shown)) }
            (proposal::kept(shown))
        }
    }
}

/// Where a secret's value may go.
fn destinations(all: &[Destination]) -> Markup {
    html! {
        @if all.is_empty() { span .none { "no destination yet" } }
        @for (index, to) in all.iter().enumerate() {
            @if index > 0 { ", " }
            code { (to) }
        }
    }
}

/// How long ago it was asked; the page's script counts it up.
pub(super) fn age(shown: &Shown) -> Markup {
    html! { span data-age=(shown.age_seconds) { (lasting(shown.age_seconds)) " ago" } }
}

/// How long there is to answer; the page's script counts it down.
pub(super) fn left(shown: &Shown) -> Markup {
    html! {
        span .left data-left=(shown.seconds_left) {
            meter min="0" max="300" value=(shown.seconds_left) aria-hidden="true" {}
            span data-words="" { (shown.clock()) }
        }
    }
}

/// What the dialog's main button takes.
fn proof_of_yes(scene: &Scene<'_>) -> Proof {
    scene.prove_again.takes(Weight::of_answer(scene.shown, &yes(scene.shown)))
}

/// The question for the factor, unseen where it was proven just now: that may be over before the answer.
fn once_more(visit: &Visit, proof: Proof, why: &str) -> Markup {
    question(visit, proof, why, visit.owes(proof))
}

/// The question for the factor in a form whose fields decide whether it is asked.
fn maybe_once_more(visit: &Visit, proof: Proof, why: &str) -> Markup {
    question(visit, proof, why, proof == Proof::Another)
}

fn question(visit: &Visit, proof: Proof, why: &str, is_required: bool) -> Markup {
    html! {
        @if proof != Proof::Present {
            div data-factor="" hidden[!visit.owes(proof)] {
                (factor_field(visit, &format!("Passphrase or code, {why}"), is_required))
            }
        }
    }
}

/// What Enter in a field does. A form takes its first button for that, and the first one that is seen declines.
fn by_enter(shown: &Shown) -> Markup {
    let word = if shown.asked.is_permission() { "once" } else { "accept" };
    html! { button .sr name="word" value=(word) tabindex="-1" aria-hidden="true" { "Enter" } }
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

fn misfit() -> Error {
    unfit("the answer does not fit what is asked")
}

fn unfit(words: &'static str) -> Error {
    Error::with(Code::AnswerUnfit, SafeText::words(words))
}
