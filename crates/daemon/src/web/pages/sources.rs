//! Where values come from, and whether each place can be asked.

use std::sync::Arc;

use axum::extract::State;
use keyless_vault::{SourceConfig, SourceReport, State as Health};
use maud::{Markup, html};

use super::{Page, counted, heading};
use crate::web::{
    Web,
    form::Proven,
    frame::{Room, page},
};

pub(in crate::web) async fn sources(State(web): State<Arc<Web>>, Proven(visit): Proven) -> Page {
    let secrets = web.desk.vault.list().await?;
    let local =
        secrets.iter().filter(|secret| matches!(secret.metadata.source, SourceConfig::Local));
    let local = local.count();
    let reports = web.desk.vault.sources().await?;
    let body = html! {
        (heading("Sources", "Where values are kept, and how each place is at this moment."))
        ul .cards {
            li { article .card {
                span .kind { "sealed store" }
                span .path { "local" }
                span .meta { span { (counted(local, "secret")) } span .state .is-available { "available" } }
            } }
            @for report in &reports { li { (card(report)) } }
        }
    };
    Ok(page(&visit, Room::Sources, &body))
}

fn card(report: &SourceReport) -> Markup {
    let state = report.state.as_str();
    html! {
        article .card {
            span .kind { (report.kind) }
            span .path { (report.name) }
            p .help { "May " (report.effective.join(", ")) }
            @if let Some(hint) = hint(report.state) { p .help { "Next: " (hint) "." } }
            span .meta { span {} span .state .{ "is-" (state) } { (state.replace('-', " ")) } }
        }
    }
}

/// What mends a source.
fn hint(state: Health) -> Option<&'static str> {
    match state {
        Health::Available => None,
        Health::Locked => Some("unlock it or sign in, or renew its credential"),
        Health::NeedsCredential => Some("name its credential under [source_credentials]"),
        Health::NotInstalled => Some("install its program, or correct its place and checksum"),
        Health::Unavailable => Some("see whether it is up and reachable"),
    }
}
