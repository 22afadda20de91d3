//! Members of an answer that are credentials by what they are called and how they look: a service that was called gave
//! out another one than it was called with.
//!
//! Deliberately not here: values that are known, which are cleaned out of whatever comes back, and what models of AWS
//! call sensitive (`aws`).

use keyless_core::SafeText;
use serde_json::Value;

/// What stands in their place.
const WITHHELD: &str = "[withheld]";

/// What names of credentials end with, without what parts words.
const NAMES: [&str; 14] = [
    "accesskey",
    "apikey",
    "authkey",
    "clientkey",
    "credential",
    "encryptionkey",
    "jwt",
    "passphrase",
    "passwd",
    "password",
    "privatekey",
    "secret",
    "secretkey",
    "signingkey",
];
/// What a person may have chosen, so that it need not look made up.
const CHOSEN: [&str; 3] = ["passphrase", "passwd", "password"];
/// What stands before `token` where it says how far a list was read.
const PLACES: [&str; 14] = [
    "continuation",
    "cursor",
    "delta",
    "marker",
    "next",
    "page",
    "pagination",
    "prev",
    "previous",
    "resume",
    "scroll",
    "skip",
    "start",
    "sync",
];
/// A value that nobody chose is not shorter.
const LEAST: usize = 16;
/// One of letters alone, or of digits, neither.
const LEAST_OF_ONE_KIND: usize = 32;
/// A password that is shorter is a word about one.
const LEAST_CHOSEN: usize = 6;

/// An answer without such members, and where they stood.
pub(crate) fn withhold(mut data: Value) -> (Value, Vec<String>) {
    let mut places = Vec::new();
    look(&mut data, None, &SafeText::default(), &mut places);
    (data, places)
}

/// `name` is what the value is called, if that is what a credential is called.
fn look(value: &mut Value, name: Option<&str>, place: &SafeText, places: &mut Vec<String>) {
    match value {
        Value::String(text)
            if is_key(text) || name.is_some_and(|name| is_credential(name, text)) =>
        {
            WITHHELD.clone_into(text);
            places.push(place.as_str().to_owned());
        }
        Value::Array(items) => {
            for (index, item) in items.iter_mut().enumerate() {
                let place = place.clone().and("[").and(index as u64).and("]");
                look(item, name, &place, places);
            }
        }
        Value::Object(members) => {
            for (own, member) in members {
                let dot = if place.as_str().is_empty() { "" } else { "." };
                let place = place.clone().and(dot).as_they_wrote(own);
                // `{"secret": {"value": …}}`
                let folded = folded(own);
                let inherited = name.filter(|_| folded == "value");
                let named = is_name(&folded).then_some(folded.as_str());
                look(member, named.or(inherited), &place, places);
            }
        }
        _ => {}
    }
}

/// A name in lower case, one of several as one, without what parts its words.
fn folded(name: &str) -> String {
    let letters = name.chars().filter(char::is_ascii_alphanumeric);
    let folded: String = letters.map(|letter| letter.to_ascii_lowercase()).collect();
    folded.strip_suffix('s').map_or_else(|| folded.clone(), str::to_owned)
}

/// Whether a credential is called so.
fn is_name(folded: &str) -> bool {
    match folded.strip_suffix("token") {
        Some(before) => !PLACES.iter().any(|place| before.ends_with(place)),
        None => NAMES.iter().any(|end| folded.ends_with(end)),
    }
}

fn is_credential(folded: &str, text: &str) -> bool {
    let text = text.trim();
    let is_masked = text.chars().all(|letter| "*x•.-".contains(letter));
    // What was taken out of an answer before is a word in brackets.
    if is_masked || text.contains(char::is_whitespace) || text.starts_with('[') {
        return false;
    }
    if CHOSEN.iter().any(|end| folded.ends_with(end)) {
        return text.chars().count() >= LEAST_CHOSEN;
    }
    is_made_up(text)
}

/// Whether nobody would have typed this: long, of many letters, and of letters and digits.
fn is_made_up(text: &str) -> bool {
    let is_own = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~+/=:|".contains(&byte);
    if text.len() < LEAST || !text.bytes().all(is_own) || text.contains("://") {
        return false;
    }
    let mut seen = [false; 128];
    text.bytes().for_each(|byte| seen[usize::from(byte & 127)] = true);
    let has_both = text.bytes().any(|byte| byte.is_ascii_digit())
        && text.bytes().any(|byte| byte.is_ascii_alphabetic());
    seen.iter().filter(|seen| **seen).count() >= 8 && (has_both || text.len() >= LEAST_OF_ONE_KIND)
}

/// A private key says what it is, whatever it is called.
fn is_key(text: &str) -> bool {
    let begun = text.split_once("-----BEGIN ").map(|(_, rest)| rest);
    begun
        .and_then(|rest| rest.split_once("-----"))
        .is_some_and(|(kind, _)| kind.contains("PRIVATE KEY"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Twenty characters that nobody typed.
    const MADE_UP: &str = "q7ZtPm42LxVa93KdRs8w";

    #[test]
    fn a_credential_is_withheld_by_its_name_and_its_look() {
        for name in [
            "token",
            "access_token",
            "refreshToken",
            "client_secret",
            "clientSecret",
            "api-key",
            "APIKey",
            "secret",
            "private_key",
            "SecretAccessKey",
            "registration_token",
            "signing_key",
            "tokens",
            "jwt",
        ] {
            let (data, places) = withhold(json!({"a": [{name: MADE_UP, "id": MADE_UP}]}));
            assert_eq!(data, json!({"a": [{name: WITHHELD, "id": MADE_UP}]}));
            assert_eq!(places, [format!("a[0].{name}")]);
        }
        let (data, places) = withhold(json!({
            "secret": {"value": MADE_UP}, "tokens": [MADE_UP], "password": "hunter2!",
            "pem": "-----BEGIN RSA PRIVATE KEY-----\nMIIE\n", "token": "0f8fad5b-d9cb-469f-a165-70867728950e"
        }));
        assert_eq!(places.len(), 5, "{data}");
        let withheld = json!({
            "secret": {"value": WITHHELD}, "tokens": [WITHHELD], "password": WITHHELD, "pem": WITHHELD, "token": WITHHELD
        });
        assert_eq!(data, withheld);
    }

    #[test]
    fn what_only_sounds_like_one_is_told() {
        let told = json!({
            "next_page_token": MADE_UP, "nextToken": MADE_UP, "continuation_token": MADE_UP, "syncToken": MADE_UP,
            "token_type": "bearer", "token": "Hello", "tokens": 512, "secret": true, "password": "no", "passwords": [],
            "token_url": "https://a.test/oauth2/token1", "secret_name": MADE_UP, "key": MADE_UP, "sha": MADE_UP,
            "password_hint": "the usual one", "api_key": "****************", "client_secret": "[REDACTED:api/KEY]",
            "public": "-----BEGIN PUBLIC KEY-----\nMIIE\n", "access_token": "see the documentation",
            "secretKey": "settings-of-the-page"
        });
        assert_eq!(withhold(told.clone()), (told, Vec::new()));
    }
}
