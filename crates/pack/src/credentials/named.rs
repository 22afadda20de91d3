//! Values under names that say what they are: `password: "…"`, `API_KEY=…`, and the other forms that languages and
//! files have for the two.
//!
//! Under the name of a catalog's token its format decides, elsewhere how random the value is.

use super::{Seen, forms::TokenForms, random};

/// Names whose value is a credential when it is random enough.
const NAMES: &[&str] = &[
    "api_key",
    "apikey",
    "api-key",
    "access_key",
    "access-key",
    "accesskey",
    "account_key",
    "account-key",
    "accountkey",
    "app_key",
    "app-key",
    "secret_key",
    "secret-key",
    "secretkey",
    "auth_token",
    "auth-token",
    "access_token",
    "access-token",
    "client_secret",
    "client-secret",
    "private_key",
    "_pat",
    "password",
    "passwd",
    "secret",
    "token",
    "bearer",
];
const KIND: &str = "value of a variable that is named like a credential";
/// What may stand around a name or a value.
const AROUND: &[char] = &['"', '\'', '`', '\\', ' ', '\t'];
/// A type between a name and its value is no longer.
const MAX_TYPE: usize = 60;
/// What stands before a name that a blank parts from its value is no longer.
const MAX_BEFORE: usize = 400;
/// A password of a file that holds nothing else is worth a word from this length on.
const LEAST_PASSWORD: usize = 8;

/// A name and its value in one line.
pub(super) fn named_value<'l>(line: &'l str, forms: &TokenForms) -> Option<Seen<'l>> {
    names(line).find_map(|(at, name)| {
        let said = said_of(&line[..at], name, &line[at + name.len()..])?;
        let wanted = is_named(name) || is_login(name) || forms.knows_name(name);
        wanted.then(|| held(name, said, forms))?
    })
}

/// The two in neighbouring lines, `name: NAME` and `value: …`, as Kubernetes and others write variables.
pub(super) fn in_two_lines<'l>(
    first: &'l str,
    second: &'l str,
    forms: &TokenForms,
) -> Option<Seen<'l>> {
    let pair = |one: &'l str, other: &'l str| {
        let name = field(one, &["name", "key"])?;
        let value = field(other, &["value"])?;
        let end = name.find(|c| !is_of_names(c)).unwrap_or(name.len());
        let name = &name[..end];
        (is_named(name) || forms.knows_name(name)).then(|| held(name, value, forms))?
    };
    pair(first, second).or_else(|| pair(second, first))
}

/// The password of a line of `.pgpass` or `.netrc`: such a file holds nothing else.
pub(super) fn in_login_file<'l>(file: &str, line: &'l str) -> Option<Seen<'l>> {
    let name = file.rsplit(['/', '\\']).next().unwrap_or_default();
    let password = match name {
        ".pgpass" | "pgpass.conf" if !line.trim_start().starts_with('#') => {
            let mut fields = line.trim_end_matches(['\r', '\n']).splitn(5, ':');
            fields.nth(4)
        }
        ".netrc" | "_netrc" => {
            let mut words = line.split_whitespace();
            words.find(|word| *word == "password").and(words.next())
        }
        _ => None,
    }?;
    let stands_in = password.starts_with(['$', '<', '{', '@', '*']) || is_placeholder(password);
    (password.len() >= LEAST_PASSWORD && !stands_in && !random::is_sample(password))
        .then(|| Seen::new("password of a login", Some(password)))
}

/// Everything in a line that could be a name, and where it begins.
fn names(line: &str) -> impl Iterator<Item = (usize, &str)> {
    let words = line.split(|c| !is_of_names(c)).filter(|word| !word.is_empty());
    words.map(move |word| (super::offset(line, word), word))
}

fn is_of_names(c: char) -> bool {
    c.is_ascii_alphanumeric() || "_-.".contains(c)
}

fn is_named(name: &str) -> bool {
    let bytes = name.as_bytes();
    NAMES.iter().any(|end| {
        bytes.len() >= end.len()
            && bytes[bytes.len() - end.len()..].eq_ignore_ascii_case(end.as_bytes())
    })
}

/// Where Docker and npm keep `user:password` in base64.
fn is_login(name: &str) -> bool {
    matches!(name, "auth" | "_auth")
}

/// What is said to be the value of a name, up to the end of the line.
fn said_of<'l>(before: &str, name: &str, rest: &'l str) -> Option<&'l str> {
    let is_quoted = rest.starts_with(['"', '\'', '`', '\\']);
    let after = rest.trim_start_matches(AROUND);
    let after = after.strip_prefix(']').unwrap_or(after).trim_start();
    if let Some(value) = after.strip_prefix(':') {
        return Some(after_type(value).unwrap_or(value));
    }
    if let Some(value) = after.strip_prefix('=') {
        return Some(value.strip_prefix('>').unwrap_or(value));
    }
    // `{name: NAME, value: …}`, `put("NAME", "…")`.
    if let Some(next) = after.strip_prefix(',') {
        let next = next.trim_start();
        let is_argument = is_quoted && next.starts_with(['"', '\'', '`', '\\']);
        return field(next, &["value"]).or(is_argument.then_some(next));
    }
    // `<add key="NAME" value="…"/>`, `<password>…</password>`.
    if is_quoted && let Some(value) = field(after, &["value"]) {
        return Some(value);
    }
    if (is_quoted || before.ends_with('<'))
        && let Some(value) = after.strip_prefix('>')
    {
        return Some(value);
    }
    let is_apart = rest.starts_with([' ', '\t']);
    (is_apart && is_set_by_a_space(before, name)).then_some(after)
}

/// `ENV NAME value`, `--NAME value`, `machine M login L password value`, `Authorization: Bearer value`.
fn is_set_by_a_space(before: &str, name: &str) -> bool {
    if name.starts_with("--") {
        return true;
    }
    // Nor is a line of such a file longer; one of megabytes would be gone through at each of its words.
    if before.len() > MAX_BEFORE {
        return false;
    }
    if name.eq_ignore_ascii_case("bearer") {
        return before.to_ascii_lowercase().contains("authorization");
    }
    let before = before.trim();
    let in_netrc = name == "password" && (before.is_empty() || before.contains("login "));
    before.eq_ignore_ascii_case("env") || in_netrc
}

/// What follows `: TYPE =` and begins a text.
fn after_type(rest: &str) -> Option<&str> {
    let is_of_types = |c: char| c.is_ascii_alphanumeric() || "_&'<>[].|?: ".contains(c);
    let mut near = rest.char_indices().take(MAX_TYPE);
    let (end, _) = near.find(|(_, c)| !is_of_types(*c))?;
    let value = rest[end..].strip_prefix('=')?.trim_start();
    value.starts_with(['"', '\'', '`']).then_some(value)
}

/// What follows one of these names and a sign, if a line begins so.
fn field<'l>(line: &'l str, fields: &[&str]) -> Option<&'l str> {
    let line = line.trim_start_matches([' ', '\t', '-', '{', '"', '\'', '\\']);
    fields.iter().find_map(|name| {
        let begin = line.get(..name.len()).filter(|begin| begin.eq_ignore_ascii_case(name))?;
        let rest = line[begin.len()..].trim_start_matches(AROUND).strip_prefix([':', '='])?;
        Some(rest.trim_start_matches(AROUND))
    })
}

/// The value at the beginning of a text, if it is one that belongs into no file.
fn held<'l>(name: &str, said: &'l str, forms: &TokenForms) -> Option<Seen<'l>> {
    let value = said.trim_start_matches(AROUND).trim_start_matches('=').trim_start_matches(AROUND);
    let value = value.strip_prefix("Bearer ").unwrap_or(value);
    let is_of_values = |c: char| c.is_ascii_alphanumeric() || "-_+/=.~".contains(c);
    let value = &value[..value.find(|c| !is_of_values(c)).unwrap_or(value.len())];
    if is_placeholder(value) {
        return None;
    }
    if is_login(name) {
        return holds_a_login(value).then(|| Seen::new("login in base64", Some(value)));
    }
    for value in [value, value.trim_end_matches('.')] {
        if is_strewn(value)
            && random::is_random(value, 3.0)
            && let Some(form) = forms.of_name(name, value)
        {
            let (kind, pattern) = (form.kind.clone().into(), Some(form.pattern.clone()));
            return Some(Seen { kind, pattern, value: Some(value) });
        }
    }
    (is_named(name) && is_made_up(value)).then(|| Seen::new(KIND, Some(value)))
}

/// What stands for a value on the agent's side is what belongs here.
fn is_placeholder(value: &str) -> bool {
    ["kloak_", "kloak:", "nl:"].iter().any(|form| value.starts_with(form))
}

fn is_made_up(value: &str) -> bool {
    let has = |test: fn(&u8) -> bool| value.as_bytes().iter().any(test);
    let is_hex = value.bytes().all(|byte| byte.is_ascii_hexdigit());
    if is_hex {
        return value.len() >= 32 && has(u8::is_ascii_digit) && random::is_random(value, 3.0);
    }
    // Base64 has slashes of its own, and a path or a name with dots has words between its own.
    let is_padded = value.ends_with('=') && value.len().is_multiple_of(4) && !value.contains('.');
    let marks = value.bytes().filter(|byte| matches!(byte, b'.' | b'/')).count();
    if value.len() < 20 || (marks > 1 && !is_padded && turns(value) * 2 < value.len()) {
        return false;
    }
    let is_mixed =
        has(u8::is_ascii_digit) && has(u8::is_ascii_lowercase) && has(u8::is_ascii_uppercase);
    let mixed =
        random::is_random(value, 3.8) || (random::is_woven(value) && random::is_random(value, 3.5));
    let letters = value.bytes().filter(u8::is_ascii_alphanumeric).count();
    // Of one case: nothing but digits strewn in tells it from a name. A UUID is an id, most of the time.
    let strewn = marks == 0
        && turns(value) * 5 >= letters
        && is_strewn(value)
        && random::is_random(value, 3.5)
        && !is_uuid(value);
    (is_mixed && mixed) || strewn
}

/// Digits among letters, again and again.
fn is_strewn(value: &str) -> bool {
    value.bytes().any(|byte| byte.is_ascii_digit()) && turns(value) >= 5
}

/// How often letters of one kind follow letters of another.
fn turns(value: &str) -> usize {
    let kind = |byte: u8| match byte {
        b'0'..=b'9' => Some(0),
        b'a'..=b'z' => Some(1),
        b'A'..=b'Z' => Some(2),
        _ => None,
    };
    let pairs = value.as_bytes().windows(2);
    let turn = |pair: &&[u8]| match (kind(pair[0]), kind(pair[1])) {
        (Some(one), Some(other)) => one != other,
        _ => false,
    };
    pairs.filter(turn).count()
}

fn is_uuid(value: &str) -> bool {
    let lengths: Vec<usize> = value.split('-').map(str::len).collect();
    lengths == [8, 4, 4, 4, 12]
        && value.bytes().all(|byte| byte == b'-' || byte.is_ascii_hexdigit())
}

/// Whether base64 is that of `user:password`.
fn holds_a_login(text: &str) -> bool {
    let Some(bytes) = from_base64(text) else { return false };
    let Ok(login) = std::str::from_utf8(&bytes) else { return false };
    login.split_once(':').is_some_and(|(user, password)| {
        let is_typed = |part: &str| part.chars().all(|c| !c.is_control());
        !user.is_empty()
            && password.len() >= LEAST_PASSWORD
            && is_typed(user)
            && is_typed(password)
            && !password.starts_with(['$', '<', '{'])
            && !random::is_sample(password)
    })
}

fn from_base64(text: &str) -> Option<Vec<u8>> {
    let text = text.trim_end_matches('=');
    let (mut bytes, mut bits, mut count) = (Vec::new(), 0_u32, 0);
    for byte in text.bytes() {
        let six = match byte {
            b'A'..=b'Z' => byte - b'A',
            b'a'..=b'z' => byte - b'a' + 26,
            b'0'..=b'9' => byte - b'0' + 52,
            b'+' => 62,
            b'/' => 63,
            _ => return None,
        };
        bits = bits << 6 | u32::from(six);
        count += 6;
        if count >= 8 {
            count -= 8;
            bytes.push(u8::try_from(bits >> count & 0xff).expect("it is one byte"));
        }
        bits &= (1 << count) - 1;
    }
    Some(bytes)
}
