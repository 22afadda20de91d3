//! No credential in a deployed file: what looks like one stops the plan.
//!
//! A module ends up in plain files of an agent, in git, and in snapshots; a credential has no business
//! there. Known token formats are recognised by their prefix, alphabet and length, anything else only where
//! a name such as `api_key` says what it is and its value is as random as a real one. Examples in
//! documentation (`ghp_xxxx…`, `AKIA…EXAMPLE`, `${TOKEN}`) are not random, and pass.
//! The value itself goes into no message.

use serde::Serialize;
use serde_json::json;

use crate::{
    error::{Code, PackError, Result},
    manifest::Module,
    tree::Tree,
};

/// A line with this mark is not looked at: its author says that it is no credential.
pub const NOT_A_SECRET: &str = "keyless:not-a-secret";

/// Files larger than this are data, not configuration.
const MAX_SCANNED: usize = 4 * 1024 * 1024;

/// Something that looks like a credential.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// The file, relative to its module or directory.
    pub file: String,
    /// Counted from one.
    pub line: usize,
    /// What it looks like.
    pub kind: &'static str,
}

/// A token format: prefix, the number of chars after it, and whether these are hex or alphanumeric alone.
struct Form {
    kind: &'static str,
    prefix: &'static str,
    least: usize,
    extra: &'static str,
}

const FORMS: &[Form] = &[
    Form { kind: "Anthropic API key", prefix: "sk-ant-", least: 32, extra: "-_" },
    Form { kind: "AWS access key id", prefix: "AKIA", least: 16, extra: "" },
    Form { kind: "AWS temporary key id", prefix: "ASIA", least: 16, extra: "" },
    Form { kind: "DigitalOcean token", prefix: "dop_v1_", least: 64, extra: "" },
    Form { kind: "Docker Hub token", prefix: "dckr_pat_", least: 27, extra: "-_" },
    Form { kind: "GitHub fine-grained token", prefix: "github_pat_", least: 60, extra: "_" },
    Form { kind: "GitHub OAuth token", prefix: "gho_", least: 36, extra: "" },
    Form { kind: "GitHub personal token", prefix: "ghp_", least: 36, extra: "" },
    Form { kind: "GitHub refresh token", prefix: "ghr_", least: 36, extra: "" },
    Form { kind: "GitHub server token", prefix: "ghs_", least: 36, extra: "" },
    Form { kind: "GitHub user token", prefix: "ghu_", least: 36, extra: "" },
    Form { kind: "GitLab token", prefix: "glpat-", least: 20, extra: "-_" },
    Form { kind: "Google API key", prefix: "AIza", least: 35, extra: "-_" },
    Form { kind: "Google OAuth secret", prefix: "GOCSPX-", least: 28, extra: "-_" },
    Form { kind: "Groq API key", prefix: "gsk_", least: 48, extra: "" },
    Form { kind: "Hugging Face token", prefix: "hf_", least: 34, extra: "" },
    Form { kind: "Linear API key", prefix: "lin_api_", least: 40, extra: "" },
    Form { kind: "Notion token", prefix: "ntn_", least: 43, extra: "" },
    Form { kind: "npm token", prefix: "npm_", least: 36, extra: "" },
    Form { kind: "OpenAI project key", prefix: "sk-proj-", least: 40, extra: "-_" },
    Form { kind: "OpenAI service key", prefix: "sk-svcacct-", least: 40, extra: "-_" },
    Form { kind: "OpenAI API key", prefix: "sk-", least: 48, extra: "" },
    Form { kind: "PyPI token", prefix: "pypi-", least: 80, extra: "-_" },
    Form { kind: "SendGrid API key", prefix: "SG.", least: 60, extra: "-_." },
    Form { kind: "Sentry token", prefix: "sntrys_", least: 60, extra: "-_+/=" },
    Form { kind: "Shopify token", prefix: "shpat_", least: 32, extra: "" },
    Form { kind: "Slack bot token", prefix: "xoxb-", least: 40, extra: "-" },
    Form { kind: "Slack app token", prefix: "xapp-", least: 40, extra: "-" },
    Form { kind: "Slack user token", prefix: "xoxp-", least: 40, extra: "-" },
    Form { kind: "Stripe live key", prefix: "sk_live_", least: 24, extra: "" },
    Form { kind: "Stripe restricted key", prefix: "rk_live_", least: 24, extra: "" },
    Form { kind: "Supabase token", prefix: "sbp_", least: 40, extra: "" },
    Form { kind: "Vault token", prefix: "hvs.", least: 24, extra: "-_" },
];

/// Names whose value is a credential when it is random enough.
const NAMES: &[&str] = &[
    "api_key",
    "apikey",
    "api-key",
    "access_key",
    "access-key",
    "accesskey",
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
    "password",
    "passwd",
    "secret",
    "token",
    "bearer",
];

/// Refuses a module with a credential in it; names file, line and kind of each.
pub(crate) fn check(module: &Module, tree: &Tree) -> Result<()> {
    let mut findings = Vec::new();
    for (path, file) in &tree.0 {
        findings.extend(scan(path.as_str(), file.content.bytes()));
    }
    let Some(first) = findings.first() else { return Ok(()) };
    let message = format!(
        "module `{}`: {}:{} holds what looks like a credential ({})",
        module.id, first.file, first.line, first.kind
    );
    Err(PackError::new(Code::SecretInModule, message)
        .with("module_id", module.id.clone())
        .with("findings", json!(findings))
        .hint(
            "store it with `keyless secret add` and write its alias `@secret:PATH` or `{{nl:NAME}}` here; a line \
             that only looks like one may carry the words keyless:not-a-secret",
        ))
}

/// Everything in a file that looks like a credential.
pub fn scan(file: &str, bytes: &[u8]) -> Vec<Finding> {
    let bytes = &bytes[..bytes.len().min(MAX_SCANNED)];
    if bytes[..bytes.len().min(8192)].contains(&0) {
        return Vec::new();
    }
    let text = String::from_utf8_lossy(bytes);
    let mut findings = Vec::new();
    for (number, line) in text.lines().enumerate() {
        if let Some(kind) = kind_of(line)
            && !line.contains(NOT_A_SECRET)
        {
            findings.push(Finding { file: file.to_owned(), line: number + 1, kind });
        }
    }
    findings
}

/// What the line holds, if it holds something.
fn kind_of(line: &str) -> Option<&'static str> {
    if line.starts_with("-----BEGIN ") && line.contains("PRIVATE KEY-----") {
        return Some("private key");
    }
    let mut words = line.split(|c: char| !(c.is_ascii_alphanumeric() || "-_.+/=".contains(c)));
    if let Some(kind) = words.find_map(token) {
        return Some(kind);
    }
    named_value(line)
}

fn token(word: &str) -> Option<&'static str> {
    if word.len() < 20 {
        return None;
    }
    if word.starts_with("eyJ") && is_jwt(word) {
        return Some("JSON web token");
    }
    // `TOKEN=ghp_…` is one word here.
    let word = word.rsplit('=').find(|part| part.len() >= 20).unwrap_or(word);
    let form = FORMS.iter().find(|form| word.starts_with(form.prefix))?;
    let rest = &word[form.prefix.len()..];
    let body: &str = &rest[..rest
        .find(|c: char| !(c.is_ascii_alphanumeric() || form.extra.contains(c)))
        .unwrap_or(rest.len())];
    (body.len() >= form.least && is_random(body, 2.8)).then_some(form.kind)
}

fn is_jwt(word: &str) -> bool {
    let parts: Vec<&str> = word.split('.').collect();
    parts.len() == 3
        && parts[1].starts_with("eyJ")
        && parts[2].len() >= 40
        && is_random(parts[2], 4.0)
}

/// `password: "…"`, `API_KEY=…`, where the value has no words in it.
fn named_value(line: &str) -> Option<&'static str> {
    let lower = line.to_ascii_lowercase();
    for name in NAMES {
        let Some(at) = lower.find(name) else { continue };
        let rest = line.get(at + name.len()..)?;
        let rest = rest.trim_start_matches(['"', '\'', '`', ' ']);
        let Some(value) = rest.strip_prefix([':', '=']) else { continue };
        let value = value.trim_start_matches(['"', '\'', '`', ' ', '=']);
        let value = value.strip_prefix("Bearer ").unwrap_or(value);
        let end = value
            .find(|c: char| !(c.is_ascii_alphanumeric() || "-_+/=.".contains(c)))
            .unwrap_or(value.len());
        let value = &value[..end];
        let has = |test: fn(&char) -> bool| value.chars().any(|c| test(&c));
        let mixed = has(char::is_ascii_digit)
            && has(char::is_ascii_lowercase)
            && has(char::is_ascii_uppercase);
        let hex = value.len() >= 32
            && value.bytes().all(|b| b.is_ascii_hexdigit())
            && has(char::is_ascii_digit);
        // What stands for a value on the agent's side is what belongs here.
        let placeholder = ["kloak_", "kloak:", "nl:"].iter().any(|form| value.starts_with(form));
        let separated = value.chars().filter(|c| matches!(c, '.' | '/')).count() > 1;
        if !placeholder
            && value.len() >= 20
            && !separated
            && (mixed || hex)
            && is_random(value, if hex { 3.0 } else { 3.8 })
        {
            return Some("value of a variable that is named like a credential");
        }
    }
    None
}

/// Whether nobody would type this: enough entropy, no runs, no alphabet, no word that says "example".
fn is_random(text: &str, least_bits: f64) -> bool {
    let lower = text.to_ascii_lowercase();
    let sample = [
        "example",
        "xxxx",
        "your",
        "placeholder",
        "redacted",
        "dummy",
        "test",
        "changeme",
        "0000000",
    ];
    if sample.iter().any(|word| lower.contains(word)) {
        return false;
    }
    let bytes = lower.as_bytes();
    let steps = bytes
        .windows(2)
        .filter(|pair| pair[1] == pair[0] || pair[1] == pair[0].wrapping_add(1))
        .count();
    steps * 3 < bytes.len() && entropy(text.as_bytes()) >= least_bits
}

/// Bits per byte.
fn entropy(bytes: &[u8]) -> f64 {
    let mut counts = [0_u32; 256];
    for byte in bytes {
        counts[usize::from(*byte)] += 1;
    }
    #[expect(clippy::cast_precision_loss, reason = "a line is short")]
    let length = bytes.len() as f64;
    let share = |count: &u32| f64::from(*count) / length;
    counts.iter().filter(|count| **count > 0).map(share).map(|share| -share * share.log2()).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kinds(line: &str) -> Vec<&'static str> {
        scan("f", line.as_bytes()).into_iter().map(|finding| finding.kind).collect()
    }

    #[test]
    fn real_looking_credentials_are_found() {
        let random = "Zk3v9QwT1rXb7LmN5pYc2HsDf8GjKa4EuVoR";
        for (line, kind) in [
            (format!("export GITHUB_TOKEN=ghp_{random}"), "GitHub personal token"),
            (format!("Authorization: Bearer sk-ant-api03-{random}{random}"), "Anthropic API key"),
            ("aws: AKIAQ3EGRLZ7VNWTK5YB".to_owned(), "AWS access key id"),
            ("-----BEGIN OPENSSH PRIVATE KEY-----".to_owned(), "private key"),
            (
                format!("\"api_key\": \"{}\"", &random[..32]),
                "value of a variable that is named like a credential",
            ),
        ] {
            assert_eq!(kinds(&line), [kind], "{line}");
        }
    }

    #[test]
    fn documentation_passes() {
        for line in [
            "export GITHUB_TOKEN=ghp_xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx",
            "GITHUB_TOKEN=ghp_1234567890abcdefghijklmnopqrstuvwxyz12",
            "aws_access_key_id = AKIAIOSFODNN7EXAMPLE",
            "token: ${GITHUB_TOKEN}",
            "password: {{nl:db/PASSWORD}}",
            "api_key: @secret:team/openai/key",
            "TOKEN=kloak_01ARZ3NDEKTSV4RRFFQ69G5FAV",
            "the token: use scripts/deploy/get-access-token.sh",
            "sha256: ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad",
            "secret = os.environ[\"CLIENT_SECRET\"]",
            "const accessToken = await getAccessTokenFromProvider1(options)",
            "-----BEGIN PUBLIC KEY-----",
            "api_key = 9f8e7d6c5b4a39281706f5e4d3c2b1a0 # keyless:not-a-secret",
        ] {
            assert_eq!(kinds(line), Vec::<&str>::new(), "{line}");
        }
    }
}
