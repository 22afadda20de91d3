//! The audit log: its newest entries, filtered, and whether the chain holds.

mod export;

use std::sync::Arc;

use axum::extract::{RawQuery, State};
use keyless_core::{
    Error,
    audit::{Action, Entry, Outcome},
};
use keyless_store::LogError;
use maud::{Markup, html};
use tokio::{runtime::Handle, task::spawn_blocking};

pub(in crate::web) use self::export::export;
use super::{Page, empty};
use crate::web::{
    Desk, Web,
    form::{Fields, Proven, query},
    frame::{Room, page},
    visitors::Visit,
    words::plain,
};

/// How far back is looked, and how much is shown of what fits.
const LOOKED: u32 = 5000;
const SHOWN: usize = 150;

const OUTCOMES: [Outcome; 5] =
    [Outcome::Success, Outcome::Denied, Outcome::Blocked, Outcome::Error, Outcome::Timeout];
const ACTIONS: [Action; 23] = [
    Action::Egress,
    Action::Exec,
    Action::Template,
    Action::InjectStdin,
    Action::InjectTempfile,
    Action::SdkProxy,
    Action::Blocked,
    Action::Denied,
    Action::Incident,
    Action::Ask,
    Action::Answer,
    Action::SessionStart,
    Action::SessionEnd,
    Action::Create,
    Action::Update,
    Action::Rotate,
    Action::Reveal,
    Action::Delete,
    Action::Export,
    Action::Import,
    Action::GrantCreate,
    Action::GrantRevoke,
    Action::Verify,
];

pub(in crate::web) async fn log(
    State(web): State<Arc<Web>>,
    RawQuery(wanted): RawQuery,
    Proven(visit): Proven,
) -> Page {
    let wanted = query(wanted.as_deref());
    web.desk.log.flush().await?;
    let mut all = web.desk.vault.store().audit_tail(LOOKED).await.map_err(Error::from)?;
    all.retain(|entry| fits(entry, &wanted));
    all.reverse();
    let more = all.len() > SHOWN;
    all.truncate(SHOWN);
    let chain = if wanted.is_ticked("verify") { Some(verify(&web.desk).await) } else { None };
    let body = html! {
        h1 { "Log" }
        (chain_state(chain.as_ref()))
        (filter(&visit, &wanted))
        @if all.is_empty() { (empty("No entry fits.")) } @else { (entries(&visit, &all)) }
        @if more { p .help { "Older ones: " code { "keyless audit tail" } "." } }
    };
    Ok(page(&visit, Room::Log, &body))
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
            th scope="row" { span .when { (time.get(..8).unwrap_or_default()) } span .under { (day) } }
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
                @if let Some(code) = &entry.error_code { span .under { (plain(code)) } }
                @if let Some(status) = detail.status { span .under { "status " (status) } }
            }
            td data-head="Session" {
                @if session.starts_with("s-") || session.starts_with("m-") {
                    a .path href={ "/" (visit.place) "/sessions/" (session) } { (session) }
                } @else { (plain(session)) }
            }
        }
    }
}

fn filter(visit: &Visit, wanted: &Fields) -> Markup {
    html! {
        form .filter role="search" {
            label { span .sr { "Find a path, host or session" }
                input type="search" name="q" value=(wanted.text("q")) placeholder="Path, host or session"; }
            label { span .sr { "What" }
                select name="action" {
                    option value="" { "Everything" }
                    @for action in ACTIONS {
                        option value=(action.as_str()) selected[wanted.text("action") == action.as_str()] {
                            (action.as_str().replace('_', " "))
                        }
                    }
                }
            }
            label { span .sr { "Outcome" }
                select name="outcome" {
                    option value="" { "Every outcome" }
                    @for outcome in OUTCOMES {
                        option value=(outcome.as_str()) selected[wanted.text("outcome") == outcome.as_str()] {
                            (outcome.as_str())
                        }
                    }
                }
            }
            button { "Show" }
            button .quiet name="verify" value="1" { "Verify the chain" }
            button .quiet formaction={ "/" (visit.place) "/log/export" } { "Export what fits" }
        }
    }
}

fn fits(entry: &Entry, wanted: &Fields) -> bool {
    let is = |name: &str, word: &str| wanted.text(name).is_empty() || wanted.text(name) == word;
    let text = wanted.text("q");
    let named = entry.target.contains(text)
        || entry.agent.session_id.contains(text)
        || entry.secrets_used.iter().any(|path| path.as_str().contains(text));
    named && is("action", entry.action.as_str()) && is("outcome", entry.result.as_str())
}

/// Why the chain is not known to hold.
enum Unsure {
    Changed(String),
    /// Which says nothing about the log.
    Unread,
}

async fn verify(desk: &Desk) -> Result<u64, Unsure> {
    let (store, sealer) = (desk.vault.store().clone(), desk.vault.head_sealer());
    let here = Handle::current();
    // It hashes for a while, and what it borrows keeps it from moving between threads.
    let verified = spawn_blocking(move || here.block_on(store.audit_verify(Some(&*sealer))));
    let verified = verified.await.map_err(|_| Unsure::Unread)?;
    verified.map(|chains| chains.iter().map(|chain| chain.entries).sum()).map_err(unsure)
}

fn unsure(error: LogError) -> Unsure {
    match error {
        LogError::Store(_) => Unsure::Unread,
        other => Unsure::Changed(other.to_string()),
    }
}

fn chain_state(chain: Option<&Result<u64, Unsure>>) -> Markup {
    html! {
        @match chain {
            None => { p .lead { "Every use, refusal and answer, chained so that a change shows." } },
            Some(Ok(entries)) => {
                p .notice .good role="status" { "The chain holds: " (entries) " entries, none changed." }
            },
            Some(Err(Unsure::Unread)) => {
                div .fault role="alert" { p { "The store could not be read, so nothing is known of the chain." }
                    p .next { "Next: verify it once more, and look at the disk if that fails too." } }
            },
            Some(Err(Unsure::Changed(why))) => {
                div .fault role="alert" { p { "The log is not what was written: " (plain(why)) "." }
                    p .next { "Next: compare it with a backup, and find out who could write the store." } }
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use keyless_store::StoreError;

    use super::*;

    #[test]
    fn a_store_that_is_not_read_is_no_changed_log() {
        let said = |error| chain_state(Some(&Err(unsure(error)))).into_string();
        let unread = said(LogError::Store(StoreError::DamagedRow { table: "audit" }));
        assert!(unread.contains("could not be read") && !unread.contains("is not what"));
        assert!(said(LogError::Head).contains("is not what was written"));
    }
}
