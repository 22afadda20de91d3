//! The log for another program: the entries that fit, one JSON object a line, from the first to the last.

use std::sync::Arc;

use axum::{
    body::Body,
    extract::{RawQuery, State},
    http::header,
    response::{IntoResponse, Response},
};
use futures_util::stream::try_unfold;
use keyless_core::audit::{Action, Outcome};
use keyless_store::{AuditQuery, LogError};

use super::log_wanted;
use crate::{
    operator::LogWanted,
    web::{
        Web,
        form::{Proven, query},
        frame::Failure,
    },
};

/// Entries that are read at once.
const AT_ONCE: u32 = 1000;

/// Where the reading is.
struct Reading {
    web: Arc<Web>,
    wanted: LogWanted,
    after: Option<u64>,
}

/// That it was asked for is an entry itself (NL-5.9).
pub(in crate::web) async fn export(
    State(web): State<Arc<Web>>,
    RawQuery(wanted): RawQuery,
    Proven(_): Proven,
) -> Result<Response, Failure> {
    web.desk.record(Action::Query, Outcome::Success, None, "exported").await?;
    let reading = Reading { web, wanted: log_wanted(&query(wanted.as_deref())), after: None };
    // What breaks off in the middle is a download that failed, not a short log.
    let lines = try_unfold(reading, |mut reading| async {
        let lines = reading.next().await?;
        Ok::<_, LogError>(lines.map(|lines| (lines, reading)))
    });
    let headers = [
        (header::CONTENT_TYPE, "application/jsonl"),
        (header::CONTENT_DISPOSITION, "attachment; filename=\"keyless-log.jsonl\""),
    ];
    Ok((headers, Body::from_stream(lines)).into_response())
}

impl Reading {
    async fn next(&mut self) -> Result<Option<String>, LogError> {
        let wanted =
            AuditQuery { after: self.after, limit: Some(AT_ONCE), ..AuditQuery::default() };
        let entries = self.web.desk.vault.store().audit_query(&wanted).await?;
        let Some(last) = entries.last() else { return Ok(None) };
        self.after = Some(last.sequence);
        let mut lines = String::new();
        for entry in entries.iter().filter(|entry| self.wanted.fits(entry)) {
            lines.push_str(&entry.as_stored());
            lines.push('\n');
        }
        Ok(Some(lines))
    }
}
