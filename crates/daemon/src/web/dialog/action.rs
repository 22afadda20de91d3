//! An action that a grant leaves to a person: who, with which secrets, where these go, and all that would be done.

use keyless_core::approval::WantedAction;
use maud::{Markup, html};

use super::{Scene, destinations};
use crate::web::words::{lines, plain, said};

pub(super) fn render(scene: &Scene<'_>, wanted: &WantedAction) -> Markup {
    html! {
        dl .facts {
            div { dt { "Agent" } dd { code { (plain(wanted.agent.as_str())) } } }
            @if let Some(issuer) = &wanted.acting_for {
                div { dt { "For" } dd { code { (plain(issuer.as_str())) } } }
            }
            div { dt { "Wants to" } dd { code { (wanted.action) } } }
            div { dt { "Reaches" } dd {
                @if wanted.hosts.is_empty() { span .none { "no host by itself" } }
                @for (index, host) in wanted.hosts.iter().enumerate() {
                    @if index > 0 { ", " }
                    code { (host) }
                }
            } }
        }
        (secrets(scene))
        section .quoted aria-label="All that it would do" {
            p .said-by { "All that it would do, as the agent wrote it" }
            (lines(&wanted.text))
        }
        @if let Some(purpose) = &wanted.purpose { (said(purpose)) }
        p .help {
            "Allowed once, for exactly this action: " code { (wanted.sha256.get(..16).unwrap_or_default()) "…" }
            ". A denial is remembered for ten minutes."
        }
    }
}

/// Each secret, and where its value may go.
fn secrets(scene: &Scene<'_>) -> Markup {
    html! {
        table .diff .short {
            caption .sr { "The secrets that it uses" }
            thead { tr { th scope="col" { "Secret" } th scope="col" { "Its value goes to" } } }
            tbody {
                @for (path, known) in scene.shown.secrets() {
                    tr {
                        th scope="row" .path { (path) }
                        td data-head="Goes to" {
                            @match known {
                                Some(known) if known.to.is_empty() => { "into this action’s own jail" },
                                Some(known) => { (destinations(&known.to)) },
                                None => { span .none { "not in the store" } },
                            }
                        }
                    }
                }
            }
        }
    }
}
