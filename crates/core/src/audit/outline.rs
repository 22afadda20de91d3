//! Writes a draft down in its canonical form (RFC 8785), once, with gaps for what only its place
//! in the chain decides.
//!
//! This runs for every request, so it writes straight into one text: the keys stand here in their
//! order, and a test holds the result against the form that sorts by itself.

use jiff::{Timestamp, tz::Offset};

use super::{Draft, NL_VERSION, Target};
use crate::{Authority, Host, Location, SecretPath, policy::Allowed};

/// The room that an entry's own hash and the HMAC of that need.
const OWN: usize = 192;
/// The room that most entries need.
const USUAL: usize = 1152;

/// A draft in its canonical form, without its number and its links.
#[derive(Debug)]
pub struct Outline {
    /// The entry, and behind it the words that NL's hash is about.
    text: String,
    /// Where the members of `chain` belong.
    chain_at: usize,
    /// Where the digits of `sequence` belong.
    sequence_at: usize,
    /// Where the entry ends.
    end: usize,
    pub(super) allowed: Option<Allowed>,
}

impl Outline {
    /// Writes `draft` down as the entry `entry_id`, a UUIDv7.
    pub fn new(mut draft: Draft, entry_id: &str) -> Self {
        let noted = std::mem::take(&mut draft.metadata);
        let mut text = String::with_capacity(USUAL);
        let Draft { at, agent, action, target, outcome, .. } = &draft;
        text.push_str("{\"action\":\"");
        text.push_str(action.as_str());
        text.push_str("\",\"agent\":{\"organization_id\":");
        push_json(&mut text, &agent.organization_id);
        member(&mut text, "session_id", &agent.session_id);
        member(&mut text, "uri", &agent.uri);
        text.push_str("},\"chain\":{");
        let chain_at = text.len();
        text.push('}');
        member(&mut text, "correlation_id", &draft.correlation_id);
        member(&mut text, "delegated_by", &agent.delegated_by);
        text.push_str(",\"detail\":");
        push_detail(&mut text, &draft);
        member(&mut text, "entry_id", entry_id);
        if let Some(code) = draft.error_code {
            member(&mut text, "error_code", code.as_str());
        }
        noted.push(&mut text);
        member(&mut text, "nl_version", NL_VERSION);
        member(&mut text, "platform", "keyless");
        member(&mut text, "result", outcome.as_str());
        text.push_str(",\"secrets_used\":[");
        push_list(&mut text, draft.secrets_used.iter().map(SecretPath::as_str));
        text.push_str("],\"sequence\":");
        let sequence_at = text.len();
        let target = target.to_text();
        member(&mut text, "target", &target);
        let timestamp = format_timestamp(*at);
        member(&mut text, "timestamp", &timestamp);
        text.push('}');
        let end = text.len();
        for word in [&timestamp, &agent.uri, action.as_str(), &target, outcome.as_str()] {
            text.push('\n');
            text.push_str(word);
        }
        text.push('\n');
        Self { text, chain_at, sequence_at, end, allowed: draft.allowed }
    }

    /// What NL's hash covers between the number and the hash before, line feeds included.
    pub(super) fn words(&self) -> &str {
        &self.text[self.end..]
    }

    /// The entry with its number and the members of its chain, and where those stand.
    pub(super) fn placed(&self, sequence: u64, links: &str) -> (String, usize) {
        let mut digits = [0; 20];
        let digits = decimal(sequence, &mut digits);
        let mut text = String::with_capacity(self.end + links.len() + OWN);
        text.push_str(&self.text[..self.chain_at]);
        text.push_str(links);
        text.push_str(&self.text[self.chain_at..self.sequence_at]);
        text.push_str(digits);
        text.push_str(&self.text[self.sequence_at..self.end]);
        (text, self.chain_at)
    }
}

impl Target {
    fn to_text(&self) -> String {
        match self {
            // As `Display` has it, in one piece: every request's entry has one.
            Self::Authority(Authority { host: Host::Name(name), port }) => {
                [name.as_str(), ":", decimal(u64::from(*port), &mut [0; 20])].concat()
            }
            Self::Authority(authority) => authority.to_string(),
            Self::Connection => "connection".to_owned(),
            Self::Log => "audit".to_owned(),
            Self::Named(name) => name.as_str().to_owned(),
            Self::Secrets(paths) => {
                let paths: Vec<&str> = paths.iter().map(SecretPath::as_str).collect();
                paths.join(",")
            }
            Self::Session => "session".to_owned(),
        }
    }
}

fn push_detail(text: &mut String, draft: &Draft) {
    let detail = &draft.detail;
    let open = text.len();
    optional(text, "action_id", detail.action_id.as_deref());
    optional(text, "attempted_action", detail.attempted_action.as_deref());
    optional(text, "authority", detail.authority.as_deref());
    optional(text, "broker", detail.broker.as_deref());
    number(text, "bytes_received", detail.bytes_received);
    number(text, "bytes_sent", detail.bytes_sent);
    names(text, "delegation", &detail.delegation);
    number(text, "duration_ms", detail.duration_ms);
    if let Some(exit_code) = detail.exit_code {
        push_key(text, "exit_code");
        text.push_str(&exit_code.to_string());
    }
    names(text, "grants", &detail.grants);
    optional(text, "kind", detail.kind.as_deref());
    if !detail.locations.is_empty() {
        text.push_str(",\"locations\":[");
        push_list(text, detail.locations.iter().copied().map(Location::as_str));
        text.push(']');
    }
    for (key, value) in [
        ("method", &detail.method),
        ("note", &detail.note),
        ("path", &detail.path),
        ("purpose", &detail.purpose),
    ] {
        optional(text, key, value.as_deref());
    }
    number(text, "redacted_count", detail.redacted_count);
    optional(text, "request_id", detail.request_id.as_deref());
    if let Some(revocation) = &detail.revocation {
        push_key(text, "revocation");
        text.push_str(&serde_json::to_string(revocation).expect("it is made of words and numbers"));
    }
    optional(text, "rule", detail.rule.as_deref());
    optional(text, "rule_id", detail.rule_id.as_deref());
    if !detail.secrets_named.is_empty() {
        text.push_str(",\"secrets_named\":[");
        push_list(text, detail.secrets_named.iter().map(SecretPath::as_str));
        text.push(']');
    }
    optional(text, "source_ip", detail.source_ip.as_deref());
    number(text, "status", detail.status.map(u64::from));
    if let Some(stopped) = &detail.stopped {
        push_key(text, "stopped");
        text.push_str(&serde_json::to_string(stopped).expect("it is made of words and numbers"));
    }
    number(text, "swaps", detail.swaps);
    number(text, "threat_score", detail.threat_score);
    // The first member brought a comma, which is where the brace goes.
    if text.len() == open {
        text.push('{');
    } else {
        text.replace_range(open..=open, "{");
    }
    text.push('}');
}

fn member(text: &mut String, key: &str, value: &str) {
    push_key(text, key);
    push_json(text, value);
}

fn optional(text: &mut String, key: &str, value: Option<&str>) {
    if let Some(value) = value {
        member(text, key, value);
    }
}

fn number(text: &mut String, key: &str, value: Option<u64>) {
    if let Some(value) = value {
        push_key(text, key);
        text.push_str(decimal(value, &mut [0; 20]));
    }
}

/// A list of names that others chose; nothing when it is empty.
fn names(text: &mut String, key: &str, names: &[String]) {
    if names.is_empty() {
        return;
    }
    push_key(text, key);
    for (index, name) in names.iter().enumerate() {
        text.push(if index == 0 { '[' } else { ',' });
        push_json(text, name);
    }
    text.push(']');
}

fn push_key(text: &mut String, key: &str) {
    text.push_str(",\"");
    text.push_str(key);
    text.push_str("\":");
}

/// Words of ours, which need no escapes.
fn push_list<'a>(text: &mut String, words: impl Iterator<Item = &'a str>) {
    for (index, word) in words.enumerate() {
        text.push_str(if index == 0 { "\"" } else { ",\"" });
        text.push_str(word);
        text.push('"');
    }
}

/// A string as JSON writes it. Most need no escapes; the others are left to `serde_json`.
fn push_json(text: &mut String, value: &str) {
    // Without an early end, so that it is done for many bytes at once.
    let escaped = |byte| byte < 0x20 || byte == b'"' || byte == b'\\';
    if value.bytes().fold(false, |found, byte| found | escaped(byte)) {
        text.push_str(&serde_json::to_string(value).expect("a string is plain data"));
    } else {
        text.push('"');
        text.push_str(value);
        text.push('"');
    }
}

pub(super) fn decimal(mut number: u64, digits: &mut [u8; 20]) -> &str {
    let mut at = digits.len();
    loop {
        at -= 1;
        digits[at] = b'0' + u8::try_from(number % 10).expect("a digit");
        number /= 10;
        if number == 0 {
            return str::from_utf8(&digits[at..]).expect("digits are ASCII");
        }
    }
}

/// `2026-02-08T10:30:00.000Z` (NL-5.8), as jiff would write it with three decimals, but without its
/// machinery for every other form.
fn format_timestamp(at: Timestamp) -> String {
    let time = Offset::UTC.to_datetime(at);
    let Ok(year @ 0..=9999) = u64::try_from(time.year()) else { return format!("{at:.3}") };
    let part = |part: i8| u64::try_from(part).expect("parts of a day and year are not negative");
    let millisecond = u64::try_from(time.subsec_nanosecond() / 1_000_000).expect("nor of a second");
    let mut text = *b"0000-00-00T00:00:00.000Z";
    put_digits(&mut text[..4], year);
    put_digits(&mut text[5..7], part(time.month()));
    put_digits(&mut text[8..10], part(time.day()));
    put_digits(&mut text[11..13], part(time.hour()));
    put_digits(&mut text[14..16], part(time.minute()));
    put_digits(&mut text[17..19], part(time.second()));
    put_digits(&mut text[20..23], millisecond);
    str::from_utf8(&text).expect("digits are ASCII").to_owned()
}

/// The last digits of `number`, as many as there is room for.
fn put_digits(room: &mut [u8], mut number: u64) {
    for digit in room.iter_mut().rev() {
        *digit = b'0' + u8::try_from(number % 10).expect("a digit");
        number /= 10;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_written_as_jiff_writes_them() {
        for millisecond in
            [-62_167_219_200_001, -1, 0, 7, 951_782_400_999, 1_770_546_600_010, 253_370_764_800_000]
        {
            let at = Timestamp::from_millisecond(millisecond).unwrap();
            assert_eq!(format_timestamp(at), format!("{at:.3}"));
        }
        let at: Timestamp = "2026-02-08T10:30:00.0019Z".parse().unwrap();
        assert_eq!(format_timestamp(at), format!("{at:.3}"));
        assert_eq!(format_timestamp(at), "2026-02-08T10:30:00.001Z");
    }
}
