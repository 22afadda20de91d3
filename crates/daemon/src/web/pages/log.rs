//! The audit log: its newest entries, filtered, and whether the chain holds.

mod export;

use std::sync::Arc;

use axum::extract::{RawQuery, State};
use keyless_core::audit::Entry;
use maud::{Markup, html};

pub(in crate::web) use self::export::export;
use super::{Page, empty};
use crate::{
    operator::{ChainState, LOG_ACTIONS, LOG_OUTCOMES, LogWanted},
    web::{
        Web,
        form::{Fields, Proven, query},
        frame::{Room, page},
        visitors::Visit,
        words::plain,
    },
};

pub(in crate::web) async fn log(
    State(web): State<Arc<Web>>,
    RawQuery(wanted): RawQuery,
    Proven(visit): Proven,
) -> Page {
    let fields = query(wanted.as_deref());
    let wanted = log_wanted(&fields);
    let found = web.desk.overview.log(&wanted).await?;
    let chain =
        if fields.is_ticked("verify") { Some(web.desk.overview.chain().await) } else { None };
    let all = &found.entries;
    let body = html! {
        h1 { "Log" }
        (chain_state(chain.as_ref()))
        (filter(&visit, &wanted))
        @if all.is_empty() { (empty("No entry fits.")) } @else { (entries(&visit, all)) }
        @if found.more { p .help { "Older ones: " code { "keyless audit tail" } "." } }
    };
    Ok(page(&visit, Room::Log, &body))
}

/// What the filter's form says.
fn log_wanted(fields: &Fields) -> LogWanted {
    let text = |name| fields.text(name).to_owned();
    LogWanted { text: text("q"), action: text("action"), outcome: text("outcome") }
}

/// Entries as rows.
pub(super) fn entries(visit: &Visit, all: &[Entry]) -> Markup {
    html! {
        table .rows .log {
            thead { tr {
                th scope="col" { "When" } th scope="col" { "What" } th scope="col" { "About" }
                th scope="col" { "Outcome" } th scope="col" { "Session" }
            } }
            tbody { @for entry in all { (row(visit, entry)) } }
        }
    }
}

fn row(visit: &Visit, entry: &Entry) -> Markup {
    let detail = &entry.detail;
    let session = &entry.agent.session_id;
    let (day, time) = entry.timestamp.split_once('T').unwrap_or((&entry.timestamp, ""));
    html! {
        tr {
            th scope="row" { span .when { (time.get(..8).unwrap_or_default()) } span .under .whole { (day) } }
            td data-head="What" {
                (entry.action.as_str().replace('_', " "))
                @if let Some(kind) = &detail.kind { span .under { (plain(kind)) } }
            }
            td data-head="About" {
                @if let (Some(method), Some(path)) = (&detail.method, &detail.path) {
                    code { (plain(method)) " " (plain(&entry.target)) (plain(path)) }
                } @else {
                    code { (plain(&entry.target)) }
                }
                @for path in &entry.secrets_used { span .under { "with " (path) } }
                @if let Some(note) = &detail.note { span .under { (plain(note)) } }
            }
            td data-head="Outcome" {
                span .state .{ "is-" (entry.result.as_str()) } { (entry.result.as_str()) }
                @if let Some(code) = &entry.error_code { span .under .word { (plain(code)) } }
                @if let Some(status) = detail.status { span .under .whole { "status " (status) } }
            }
            td data-head="Session" {
                (session_name(visit, session))
            }
        }
    }
}

/// A session of the broker's, whose page is a click away; others have none.
pub(in crate::web) fn session_name(visit: &Visit, session: &str) -> Markup {
    html! {
        @if session.starts_with("s-") || session.starts_with("m-") {
            a .path href={ "/" (visit.place) "/sessions/" (session) } { (session) }
        } @else { (plain(session)) }
    }
}

fn filter(visit: &Visit, wanted: &LogWanted) -> Markup {
    html! {
        form .filter role="search" {
            label { span .sr { "Find a path, host or session" }
                input type="search" name="q" value=(wanted.text) placeholder="Path, host or session"; }
            label { span .sr { "What" }
                select name="action" {
                    option value="" { "Everything" }
                    @for action in LOG_ACTIONS {
                        option value=(action.as_str()) selected[wanted.action == action.as_str()] {
                            (action.as_str().replace('_', " "))
                        }
                    }
                }
            }
            label { span .sr { "Outcome" }
                select name="outcome" {
                    option value="" { "Every outcome" }
                    @for outcome in LOG_OUTCOMES {
                        option value=(outcome.as_str()) selected[wanted.outcome == outcome.as_str()] {
                            (outcome.as_str())
                        }
                    }
                }
            }
            button { "Find" }
            button .quiet name="verify" value="1" { "Verify the chain" }
            button .quiet formaction={ "/" (visit.place) "/log/export" } { "Export what fits" }
        }
    }
}

fn chain_state(chain: Option<&ChainState>) -> Markup {
    html! {
        @match chain {
            None => { p .lead { "Every use, refusal and answer, chained so that a change shows." } },
            Some(ChainState::Holds { entries, breaks: 0 }) => {
                p .notice .good role="status" { "The chain holds: " (entries) " entries, none changed." }
            },
            Some(ChainState::Holds { entries, breaks }) => {
                p .notice role="status" { "The chain holds but for breaks that were accepted: " (entries) " entries, " (breaks)
                    " breaks. Their entries log_break_accepted tell what was found." }
            },
            Some(ChainState::Unread) => {
                div .fault role="alert" { p { "The store could not be read, so nothing is known of the chain." }
                    p .next { "Next: verify it once more, and look at the disk if that fails too." } }
            },
            Some(ChainState::Changed(why)) => {
                div .fault role="alert" { p { "The log is not what was written: " (plain(why)) "." }
                    p .next { "Next: compare it with a backup, and find out who could write the store." } }
            },
        }
    }
}
