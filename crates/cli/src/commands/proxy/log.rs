//! What a running proxy says on stderr.

use jiff::Timestamp;
use keyless_daemon::{Note, Notes, RequestNote, counted};
use serde_json::{Value, json};

use crate::{args::LogFormat, ui, visible::visible_json};

/// Notes, written in this format.
pub(super) fn notes(format: LogFormat) -> Notes {
    match format {
        LogFormat::Json => Notes::new(|note| {
            let line = as_json(note, Timestamp::now()).to_string();
            // Where nothing hides any more, `log` changes nothing.
            ui::log(&visible_json(&line));
        }),
        LogFormat::Words => Notes::but_requests(|note| {
            if let Some(words) = as_words(note) {
                ui::log(&words);
            }
        }),
    }
}

/// Requests and refusals are many, and in the audit log.
fn as_words(note: Note<'_>) -> Option<String> {
    match note {
        Note::Draining { in_flight } => Some(format!("Draining: {in_flight} under way.")),
        Note::Drained { cut: 0 } => Some("Drained.".to_owned()),
        Note::Drained { cut } => Some(format!("Drained; {cut} cut.")),
        Note::Refused { .. } | Note::Request(_) => None,
        Note::Reloaded { secrets } => Some(format!("Reloaded: {}.", counted(secrets, "secret"))),
        Note::ReloadRefused { error } => {
            Some(format!("Not reloaded; what was in force still is: {}", error.message()))
        }
        Note::Warning { text } => Some(format!("Warning: {text}")),
    }
}

fn as_json(note: Note<'_>, now: Timestamp) -> Value {
    let (level, event) = match note {
        Note::Draining { .. } => ("info", "draining"),
        Note::Drained { .. } => ("info", "drained"),
        Note::Refused { .. } => ("warn", "refused"),
        Note::Reloaded { .. } => ("info", "reloaded"),
        Note::ReloadRefused { .. } => ("error", "reload_refused"),
        Note::Request(_) => ("info", "request"),
        Note::Warning { .. } => ("warn", "warning"),
    };
    let mut line = json!({ "time": format!("{now:.3}"), "level": level, "event": event });
    let more = match note {
        Note::Draining { in_flight } => json!({ "in_flight": in_flight }),
        Note::Drained { cut } => json!({ "cut": cut }),
        Note::Refused { request, error } => {
            let mut what = of_request(request);
            what["code"] = json!(error.code().as_str());
            what["message"] = json!(error.message());
            what
        }
        Note::Reloaded { secrets } => json!({ "secrets": secrets }),
        Note::ReloadRefused { error } => {
            json!({ "code": error.code().as_str(), "message": error.message() })
        }
        Note::Request(request) => of_request(request),
        Note::Warning { text } => json!({ "message": text }),
    };
    if let (Value::Object(line), Value::Object(more)) = (&mut line, more) {
        line.extend(more.into_iter().filter(|(_, value)| !value.is_null()));
    }
    line
}

fn of_request(request: &RequestNote) -> Value {
    json!({
        "correlation_id": request.correlation_id,
        "session": request.session,
        "authority": request.authority,
        "method": request.method,
        "path": request.path,
        "status": request.status,
        "bytes_sent": request.sent,
        "bytes_received": request.received,
        "duration_ms": request.milliseconds,
    })
}

#[cfg(test)]
mod tests {
    use keyless_core::{Code, Error};

    use super::*;

    #[test]
    fn a_line_says_when_what_and_no_more() {
        let now: Timestamp = "2026-07-01T10:00:00Z".parse().unwrap();
        let error = Error::new(Code::CatalogInvalid);
        let line = as_json(Note::ReloadRefused { error: &error }, now);
        assert_eq!(line["time"], "2026-07-01T10:00:00.000Z");
        assert_eq!((&line["level"], &line["code"]), (&json!("error"), &json!("catalog_invalid")));
        let request = RequestNote { status: Some(200), sent: Some(3), ..RequestNote::default() };
        let line = as_json(Note::Request(&request), now);
        assert_eq!((&line["status"], &line["bytes_sent"]), (&json!(200), &json!(3)));
        assert!(line.get("path").is_none() && line.get("duration_ms").is_none());
    }
}
