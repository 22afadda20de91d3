//! Entries for another program: as they are stored, or in ArcSight's Common Event Format, version 0.

use keyless_core::{
    SecretPath,
    audit::{Entry, Outcome},
};

use crate::args::ExportFormat;

/// One entry on one line.
pub(super) fn line(entry: &Entry, format: ExportFormat) -> String {
    match format {
        ExportFormat::Cef => cef(entry),
        ExportFormat::Jsonl => serde_json::to_string(entry).expect("an entry is plain data"),
    }
}

fn cef(entry: &Entry) -> String {
    let action = entry.action.as_str();
    let head = ["CEF:0", "keyless.dev", "Keyless", env!("CARGO_PKG_VERSION"), action, action];
    let head: Vec<String> = head.iter().map(|word| escaped(word, &['\\', '|'])).collect();
    let secrets: Vec<&str> = entry.secrets_used.iter().map(SecretPath::as_str).collect();
    let secrets = secrets.join(",");
    let sequence = entry.sequence.to_string();
    let pairs = [
        ("rt", entry.timestamp.as_str()),
        ("externalId", &sequence),
        ("suser", &entry.agent.uri),
        ("act", action),
        ("outcome", entry.result.as_str()),
        ("duser", &entry.target),
        ("reason", entry.error_code.as_deref().unwrap_or_default()),
        ("src", entry.detail.source_ip.as_deref().unwrap_or_default()),
        ("cs1Label", "secretsUsed"),
        ("cs1", &secrets),
        ("cs2Label", "correlationId"),
        ("cs2", &entry.correlation_id),
        ("cs3Label", "sessionId"),
        ("cs3", &entry.agent.session_id),
        ("cs4Label", "entryHash"),
        ("cs4", &entry.chain.entry_hash),
        ("cs5Label", "ruleId"),
        ("cs5", entry.detail.rule_id.as_deref().unwrap_or_default()),
    ];
    let said = pairs.iter().filter(|(_, value)| !value.is_empty());
    let said: Vec<String> =
        said.map(|(key, value)| format!("{key}={}", escaped(value, &['\\', '=']))).collect();
    format!("{}|{}|{}", head.join("|"), severity(entry.result), said.join(" "))
}

fn severity(outcome: Outcome) -> u8 {
    match outcome {
        Outcome::Blocked => 8,
        Outcome::Denied => 6,
        Outcome::Error | Outcome::Timeout => 4,
        Outcome::Success => 1,
    }
}

fn escaped(text: &str, marks: &[char]) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '\n' => escaped.push_str("\\n"),
            '\r' => escaped.push_str("\\r"),
            mark if marks.contains(&mark) => escaped.extend(['\\', mark]),
            other => escaped.push(other),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_are_escaped_where_they_count() {
        assert_eq!(escaped("a|b\\c\nd", &['\\', '|']), "a\\|b\\\\c\\nd");
        assert_eq!(escaped("k=v", &['\\', '=']), "k\\=v");
    }
}
