//! The operator's passkeys: which there are, a new one, and their end.

use std::sync::Arc;

use axum::extract::State;
use keyless_store::Passkey;
use maud::{Markup, html};

use super::{Page, empty, heading};
use crate::web::{
    Web,
    form::Proven,
    frame::{Room, page, word},
    passkeys::Passkeys,
    visitors::Visit,
    words::plain,
};

pub(in crate::web) async fn passkeys(State(web): State<Arc<Web>>, Proven(visit): Proven) -> Page {
    let all = Passkeys(&web.desk.vault).all().await?;
    let lead = "A security key, a fingerprint or a phone that says who is at this page, in place of the passphrase. \
                It opens nothing: a locked store takes the passphrase, or a code.";
    let body = html! {
        (heading("Passkeys", lead))
        @if all.is_empty() { (empty("No passkey is registered.")) }
        @else { (table(&visit, &all)) }
        (new_one(&visit))
    };
    Ok(page(&visit, Room::Passkeys, &body))
}

fn table(visit: &Visit, all: &[Passkey]) -> Markup {
    html! {
        table .rows {
            thead { tr {
                th scope="col" { "Name" } th scope="col" { "Since" } th scope="col" { "Last used" }
                th scope="col" { span .sr { "End it" } }
            } }
            tbody { @for passkey in all { (row(visit, passkey)) } }
        }
    }
}

fn row(visit: &Visit, passkey: &Passkey) -> Markup {
    let used = passkey.used_at.map(|time| time.strftime("%-d %b %Y %H:%M").to_string());
    html! {
        tr {
            th scope="row" { (plain(&passkey.name)) }
            td data-head="Since" { (passkey.created_at.strftime("%-d %b %Y").to_string()) }
            td data-head="Last used" { (used.unwrap_or_else(|| "never".to_owned())) }
            td .end {
                form method="post" action={ "/" (visit.place) "/passkeys/remove" } {
                    (word(visit))
                    input type="hidden" name="passkey" value=(passkey.id);
                    button aria-label={ "Remove " (passkey.name) } { "Remove" }
                }
            }
        }
    }
}

/// The form that the page's script fills in with what the browser says.
fn new_one(visit: &Visit) -> Markup {
    let place = format!("/{}/passkeys", visit.place);
    html! {
        h2 { "Add a passkey" }
        form .narrow method="post" action=(place) data-live=(place) data-new-passkey={ (place) "/challenge" } {
            (word(visit))
            input type="hidden" name="credential" value="";
            div .field {
                label for="name" { "Name" }
                input #name name="name" required maxlength="60" autocomplete="off" aria-describedby="name-help";
                p #name-help .help { "A word that tells it from others, as “laptop” or “blue key”." }
            }
            div .field {
                label for="passphrase" { "Passphrase" }
                input #passphrase type="password" name="passphrase" required autocomplete="current-password"
                    spellcheck="false" aria-describedby="passphrase-help";
                p #passphrase-help .help { "The store’s own: a code or another passkey is not enough here." }
            }
            div .fault role="alert" data-fault="" hidden {}
            div .buttons { button .main { "Add" } }
        }
    }
}
