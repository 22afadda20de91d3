//! The frame around every page, the question for the factor, and errors as pages.

use std::sync::Arc;

use axum::{
    Extension,
    body::Body,
    http::{HeaderName, HeaderValue, StatusCode, header},
    response::{Html, IntoResponse, Response},
};
use keyless_core::{Code, Error};
use maud::{DOCTYPE, Markup, PreEscaped, html};

use super::{assets, form::FORM_WORD, visitors::Visit, words::plain};
use crate::operator::next_at_hand;

/// Tells the page's own scripts which error it is.
pub(super) const CODE: HeaderName = HeaderName::from_static("x-keyless-code");

/// A part of the page that the navigation names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Room {
    Waiting,
    Secrets,
    Sessions,
    Approvals,
    Grants,
    Log,
    Egress,
    Sources,
    Passkeys,
    /// Stands beside the others.
    Lock,
}

/// Why a page can't be given.
pub(super) enum Failure {
    /// There is no such page.
    Missing,
    /// What was asked can't be done.
    Told(Error),
    /// No link was followed, or its visit is over.
    NoVisit,
    /// The factor is to be proven first, because of this error, at a store that is open or not.
    Unproven(Arc<Visit>, Option<Error>, bool),
}

impl Room {
    const ALL: [(Self, &'static str, &'static str); 9] = [
        (Self::Waiting, "", "Waiting"),
        (Self::Secrets, "secrets", "Secrets"),
        (Self::Sessions, "sessions", "Sessions"),
        (Self::Approvals, "approvals", "Approvals"),
        (Self::Grants, "grants", "Grants"),
        (Self::Log, "log", "Log"),
        (Self::Egress, "egress", "Egress"),
        (Self::Sources, "sources", "Sources"),
        (Self::Passkeys, "passkeys", "Passkeys"),
    ];

    fn name(self) -> &'static str {
        Self::ALL.iter().find(|(room, ..)| *room == self).map_or("Lock all", |(_, _, name)| name)
    }
}

/// What went wrong at an address, as long as nobody knows which: its page leads back from there.
#[derive(Clone)]
struct Lost(Arc<Markup>);

/// Draws the page of what went wrong at `path`, if something did, with the way back from there.
pub(super) fn lead_back(path: &str, response: &mut Response) {
    let Some(Lost(inside)) = response.extensions_mut().remove() else { return };
    let Html(text) = whole("Not done", &door(&html! { (inside) (way_back(path)) }));
    *response.body_mut() = Body::from(text);
    let html = HeaderValue::from_static("text/html; charset=utf-8");
    response.headers_mut().insert(header::CONTENT_TYPE, html);
}

/// From anywhere in a visit to the room that it was in.
fn way_back(path: &str) -> Markup {
    let mut steps = path.split('/').skip(1);
    let (place, room, rest) = (steps.next(), steps.next(), steps.next());
    let Some(place) = place.filter(|place| room.is_some() && !["open", "assets"].contains(place))
    else {
        return html! {};
    };
    let known = Room::ALL.iter().find(|(_, path, _)| rest.is_some() && room == Some(path));
    let (_, path, name) = known.unwrap_or(&Room::ALL[0]);
    html! { p { a .button href={ "/" (place) "/" (path) } { "Back to " (name) } } }
}

/// A page of the operator's.
pub(super) fn page(visit: &Visit, room: Room, body: &Markup) -> Html<String> {
    let place = &visit.place;
    let notice = visit.take_notice();
    let inside = html! {
        a .skip href="#main" { "Skip to the content" }
        header .top {
            a .mark href={ "/" (place) "/" } { (logo()) span { "Keyless" } }
            nav aria-label="Parts of this page" {
                @for (other, path, name) in Room::ALL {
                    a href={ "/" (place) "/" (path) } aria-current=[(other == room).then_some("page")] {
                        (name)
                        @if other == Room::Waiting { span .count data-count="" {} }
                    }
                }
            }
            div .acts {
                a .quiet href={ "/" (place) "/lock" } aria-current=[(room == Room::Lock).then_some("page")] { "Lock all" }
                form method="post" action={ "/" (place) "/sign-out" } {
                    (word(visit))
                    button .quiet { "Sign out" }
                }
            }
        }
        main #main tabindex="-1" data-place={ "/" (place) } {
            p #notice .notice role="status" { @if let Some(notice) = notice { (plain(&notice)) } }
            (body)
        }
    };
    whole(room.name(), &inside)
}

/// The field that tells a visit's own forms from others.
pub(super) fn word(visit: &Visit) -> Markup {
    html! { input type="hidden" name=(FORM_WORD) value=(visit.form_word()); }
}

/// The field for the operator's factor; a passkey may fill it.
pub(super) fn factor_field(visit: &Visit, label: &str, required: bool) -> Markup {
    html! {
        (factor_input(label, required, false))
        (passkey(visit))
    }
}

fn passkey(visit: &Visit) -> Markup {
    html! {
        button .quiet type="button" disabled data-passkey={ "/" (visit.place) "/passkeys/challenge" } {
            "Use a passkey"
        }
    }
}

/// `first`: the page has nothing else to type into, so keys go there at once.
fn factor_input(label: &str, required: bool, first: bool) -> Markup {
    html! {
        div .field {
            label for="factor" { (label) }
            input #factor type="password" name="factor" required[required] autofocus[first]
                autocomplete="current-password" spellcheck="false" aria-describedby="factor-help";
            p #factor-help .help { "The store’s passphrase, or the six digits of your authenticator app." }
        }
    }
}

/// What went wrong, and what to do about it.
pub(super) fn fault(error: &Error) -> Markup {
    html! {
        div .fault role="alert" {
            p { (error.message()) }
            p .next { "Next: " (next_at_hand(error.code())) "." }
        }
    }
}

fn sign_in(visit: &Visit, error: Option<&Error>, open: bool) -> Html<String> {
    let inside = html! {
        h1 { @if open { "Are you the operator?" } @else { "The store has locked itself" } }
        @if !open {
            p { "Give a code of your authenticator app, which opens it again. With the passphrase: "
                code { "keyless unlock" } "." }
        }
        @if let Some(error) = error { (fault(error)) }
        form method="post" action={ "/" (visit.place) "/sign-in" } {
            (word(visit))
            @if open { (factor_input("Passphrase or code", true, true)) (passkey(visit)) }
            @else { (factor_input("Code", true, true)) }
            div .fault role="alert" data-fault="" hidden {}
            button .main { "Go on" }
        }
        p .small { "An agent can’t answer this: it has neither. What you allow here, it may use; "
            "what you type here, it never sees." }
    };
    whole("Sign in", &door(&inside))
}

/// Goes on to a visit by a step of its own: the browser sends no cookie along another site's.
pub(super) fn step(place: &str) -> Html<String> {
    let home = format!("/{place}/");
    let inside = html! {
        meta http-equiv="refresh" content={ "0; url=" (home) };
        (door(&html! { h1 { "Your link is good" } p { a href=(home) { "Go on" } } }))
    };
    whole("Go on", &inside)
}

fn no_visit() -> Html<String> {
    let words = "Each link opens one visit, within two minutes. In a terminal:";
    to_terminal("Link used up", "This link is used up", words, "keyless web")
}

/// The end of a visit by the operator's own wish.
pub(super) fn signed_out() -> Html<String> {
    let words = "Agents go on as before; what they ask waits for you. To come back, in a terminal:";
    to_terminal("Signed out", "You are signed out", words, "keyless web")
}

/// The end of everything by the operator's own wish.
pub(super) fn locked() -> Html<String> {
    let words = "The store is closed and every session has ended. To open it again, in a terminal, and then for a new link:";
    to_terminal("Locked", "Everything is locked", words, "keyless unlock; keyless web")
}

/// The end of a way at the page: it goes on with a command.
fn to_terminal(title: &str, heading: &str, words: &str, command: &str) -> Html<String> {
    let inside = html! { h1 { (heading) } p { (words) } p { code .line { (command) } } };
    whole(title, &door(&inside))
}

/// A page outside of all rooms.
fn door(inside: &Markup) -> Markup {
    html! { main .door #main { (logo()) (inside) } }
}

fn told(error: &Error) -> Markup {
    html! { h1 { "That was not done" } (fault(error)) }
}

fn whole(title: &str, inside: &Markup) -> Html<String> {
    let document = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                title { (title) " · Keyless" }
                link rel="icon" type="image/svg+xml" href=(assets::address("icon.svg"));
                link rel="stylesheet" href=(assets::address("style.css"));
                // Nothing is painted before the page is whole and its dialog stands where it will: else it would move.
                script type="module" blocking="render" src=(assets::address("page.js")) {}
            }
            body { (inside) }
        }
    };
    Html(document.into_string())
}

/// A keyhole without a key.
fn logo() -> Markup {
    let shape = "<svg class=\"logo\" viewBox=\"0 0 24 24\" width=\"24\" height=\"24\" aria-hidden=\"true\">\
        <rect x=\"2\" y=\"2\" width=\"20\" height=\"20\" rx=\"6\" fill=\"currentColor\"/>\
        <path class=\"hole\" d=\"M12 6.5a3 3 0 0 0-1.5 5.6L9.6 17.5h4.8l-.9-5.4A3 3 0 0 0 12 6.5z\"/></svg>";
    html! { (PreEscaped(shape)) }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::Told(error)
    }
}

impl From<Code> for Failure {
    fn from(code: Code) -> Self {
        Self::Told(code.into())
    }
}

impl IntoResponse for Failure {
    fn into_response(self) -> Response {
        match self {
            Self::Missing => {
                let inside = html! { h1 { "There is no such page" } };
                (StatusCode::NOT_FOUND, Extension(Lost(Arc::new(inside)))).into_response()
            }
            Self::NoVisit => {
                (StatusCode::FORBIDDEN, [(CODE, "no_visit")], no_visit()).into_response()
            }
            Self::Told(error) => {
                let code = [(CODE, error.code().as_str())];
                let lost = Extension(Lost(Arc::new(told(&error))));
                (status(&error), code, lost).into_response()
            }
            Self::Unproven(visit, error, open) => {
                let status = error.as_ref().map_or(StatusCode::UNAUTHORIZED, status);
                let code = error.as_ref().map_or("unproven", |error| error.code().as_str());
                (status, [(CODE, code)], sign_in(&visit, error.as_ref(), open)).into_response()
            }
        }
    }
}

fn status(error: &Error) -> StatusCode {
    StatusCode::from_u16(error.code().http_status()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every error that a person can meet.
    #[test]
    fn every_error_is_a_page_that_says_what_next() {
        for code in Code::ALL {
            let error = Error::new(*code);
            let text = told(&error).into_string();
            let next = html! { "Next: " (next_at_hand(*code)) "." }.into_string();
            let what = html! { (error.message()) }.into_string();
            assert!(text.contains(&what) && text.contains(&next), "{text}");
            assert_eq!(status(&error).as_u16(), code.http_status());
        }
    }

    /// Wherever something went wrong, the room that one was in is a click away.
    #[test]
    fn every_error_leads_back() {
        for (path, back) in [
            ("/place/requests/prov-1", Some("\"/place/\"")),
            ("/place/secrets/a/b/c", Some("\"/place/secrets\"")),
            ("/place/secrets", Some("\"/place/\"")),
            ("/place/none", Some("\"/place/\"")),
            ("/open/link", None),
            ("/favicon.ico", None),
        ] {
            let text = way_back(path).into_string();
            assert!(back.map_or(text.is_empty(), |back| text.contains(back)), "{path}: {text}");
        }
    }
}
