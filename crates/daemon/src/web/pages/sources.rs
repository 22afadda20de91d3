//! Where values come from, and whether each place can be asked.

use std::sync::Arc;

use axum::extract::State;
use keyless_vault::SourceReport;
use maud::{Markup, html};

use super::{Page, heading};
use crate::{
    operator::counted,
    web::{
        Web,
        form::Proven,
        frame::{Room, page},
    },
};

pub(in crate::web) async fn sources(State(web): State<Arc<Web>>, Proven(visit): Proven) -> Page {
    let view = web.desk.overview.sources().await?;
    let body = html! {
        (heading("Sources", "Where values are kept, and how each place is at this moment."))
        ul .cards {
            li { article .card {
                span .kind { "sealed store" }
                span .path { "local" }
                span .meta { span { (counted(view.local, "secret")) } span .state .is-available { "available" } }
            } }
            @for report in &view.reports { li { (card(report)) } }
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
            @if let Some(last) = &report.last_contact {
                p .help { "Last contact " (last.at.strftime("%-d %b %Y %H:%M").to_string()) ", " (last.outcome.replace('-', " ")) }
            }
            @if let Some(hint) = report.hint { p .help { "Next: " (hint) "." } }
            span .meta { span {} span .state .{ "is-" (state) } { (state.replace('-', " ")) } }
        }
    }
}
