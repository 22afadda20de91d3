//! Entries for another program: as they are stored, or in ArcSight's Common Event Format, version 0 ("Implementing
//! ArcSight Common Event Format", version 26: its extension dictionary has the keys and their types).

use std::net::IpAddr;

use jiff::Timestamp;
use keyless_core::{
    SecretPath,
    audit::{Entry, Outcome},
};

use crate::args::ExportFormat;

/// One entry on one line.
pub(super) fn line(entry: &Entry, format: ExportFormat) -> String {
    match format {
        ExportFormat::Cef => cef(entry),
        ExportFormat::Jsonl => entry.as_stored(),
    }
}

fn cef(entry: &Entry) -> String {
    let action = entry.action.as_str();
    let head = ["CEF:0", "keyless.dev", "Keyless", env!("CARGO_PKG_VERSION"), action, action];
    let head: Vec<String> = head.iter().map(|word| escaped(word, &['\\', '|'])).collect();
    let secrets: Vec<&str> = entry.secrets_used.iter().map(SecretPath::as_str).collect();
    let mut said = Vec::new();
    let mut say = |key: &str, value: &str| {
        if !value.is_empty() {
            said.push(format!("{key}={}", escaped(value, &['\\', '='])));
        }
    };
    say("rt", &milliseconds(&entry.timestamp));
    say("externalId", &entry.sequence.to_string());
    say("suser", &entry.agent.uri);
    say("act", action);
    say("outcome", entry.result.as_str());
    say("reason", entry.error_code.as_deref().unwrap_or_default());
    // `src` takes IPv4 alone.
    let mut labelled = |key: &str, label: &str, value: &str| {
        if !value.is_empty() {
            say(&format!("{key}Label"), label);
            say(key, value);
        }
    };
    labelled("cs1", "secretsUsed", &secrets.join(","));
    labelled("cs2", "correlationId", &entry.correlation_id);
    labelled("cs3", "sessionId", &entry.agent.session_id);
    labelled("cs4", "entryHash", &entry.chain.entry_hash);
    labelled("cs5", "ruleId", entry.detail.rule_id.as_deref().unwrap_or_default());
    labelled("cs6", "target", &entry.target);
    match entry.detail.source_ip.as_deref().map(str::parse) {
        Some(Ok(IpAddr::V4(address))) => say("src", &address.to_string()),
        Some(Ok(IpAddr::V6(address))) => {
            labelled("c6a2", "Source IPv6 Address", &address.to_string());
        }
        _ => {}
    }
    format!("{}|{}|{}", head.join("|"), severity(entry.result), said.join(" "))
}

/// Since 1970, as `rt` has it. Nothing for what is no time, as in an entry that somebody has written.
fn milliseconds(timestamp: &str) -> String {
    timestamp
        .parse()
        .map_or_else(|_| String::new(), |at: Timestamp| at.as_millisecond().to_string())
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

    #[test]
    fn addresses_stand_where_their_family_belongs() {
        let line = |address: &str| {
            let entry = serde_json::json!({
                "entry_id": "", "sequence": 1, "timestamp": "2026-02-08T10:30:00.000Z", "nl_version": "1.0",
                "agent": { "uri": "nl://a", "organization_id": "local", "session_id": "" }, "action": "exec", "target": "a=b",
                "result": "blocked", "secrets_used": [], "correlation_id": "", "platform": "keyless",
                "detail": { "source_ip": address }, "chain": { "hash_algorithm": "sha256", "prev_hash": "", "hash": "", "prev_entry_hash": "", "entry_hash": "" },
            });
            cef(&serde_json::from_value(entry).unwrap())
        };
        let head = format!("CEF:0|keyless.dev|Keyless|{}|exec|exec|8|", env!("CARGO_PKG_VERSION"));
        let said = "rt=1770546600000 externalId=1 suser=nl://a act=exec outcome=blocked cs6Label=target cs6=a\\=b";
        assert_eq!(line("192.0.2.7"), format!("{head}{said} src=192.0.2.7"));
        let six = "c6a2Label=Source IPv6 Address c6a2=2001:db8::7";
        assert_eq!(line("2001:db8::7"), format!("{head}{said} {six}"));
    }
}
