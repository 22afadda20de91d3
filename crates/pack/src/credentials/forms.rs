//! What tokens look like: formats that are known here, and those that the caller's catalog knows.
//!
//! A catalog's format is taken only if it tells a token from any other word: `^[0-9a-f]{32}$` is a digest as well.

use std::{
    fmt,
    sync::{Arc, LazyLock},
};

use regex::{RegexSet, RegexSetBuilder};

use super::random::{is_random, is_woven};

/// A format of the caller's catalog.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TokenForm {
    /// The pattern's id there.
    pub pattern: String,
    /// For people.
    pub kind: String,
    /// A regular expression for the whole value.
    pub format: String,
    /// Variables that hold one, in the catalog's words; one with a `*` is not looked at.
    pub names: Vec<String>,
}

/// The formats of the caller's catalog; read when a module is first looked at.
#[derive(Clone)]
pub struct TokenForms(Arc<LazyLock<Forms, Box<dyn FnOnce() -> Forms + Send>>>);

/// Formats that tell tokens from other words, and all of them as one expression.
struct Forms {
    rows: Vec<TokenForm>,
    set: RegexSet,
    /// Those that tell nothing without the variable's name.
    named: Vec<NamedForm>,
}

struct NamedForm {
    form: TokenForm,
    /// Its variables' names, as `bare` has them.
    names: Vec<String>,
    format: RegexSet,
}

/// A token format: prefix, the number of chars after it, and whether these are hex or alphanumeric alone.
struct Form {
    kind: &'static str,
    prefix: &'static str,
    least: usize,
    extra: &'static str,
}

const FORMS: &[Form] = &[
    Form { kind: "age secret key", prefix: "AGE-SECRET-KEY-1", least: 58, extra: "" },
    Form { kind: "Anthropic API key", prefix: "sk-ant-", least: 32, extra: "-_" },
    Form { kind: "Atlassian API token", prefix: "ATATT3", least: 100, extra: "-_=." },
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
    Form { kind: "Stripe restricted test key", prefix: "rk_test_", least: 24, extra: "" },
    Form { kind: "Stripe test key", prefix: "sk_test_", least: 24, extra: "" },
    Form { kind: "Supabase token", prefix: "sbp_", least: 40, extra: "" },
    Form { kind: "Vault token", prefix: "hvs.", least: 24, extra: "-_" },
];

/// What stands within the tokens of one pattern, where those of others begin alike.
const MARKS: &[(&str, &str)] = &[("T3BlbkFJ", "openai-key")];

/// Words that no token format may fit: digests, names, and what else is long.
const WORDS: &[&str] = &[
    "d41d8cd98f00b204e9800998ecf8427e",
    "2fd4e1c67a2d28fced849ee1bb76e7391b93eb12",
    "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad",
    "AbstractSingletonProxyFactoryBean2",
    "getAccessTokenFromProvider1WithRetryAndBack0ff",
    "a-long-kebab-case-name-of-some-file-v2",
    "abcdefghijklmnopqrstuvwx",
    "postgres://localhost/app",
];
/// The end of a variable's name says as much as the whole from this length on.
const LEAST_NAME: usize = 12;
/// Room for the compiled expression, in bytes.
const MAX_SET: usize = 8 << 20;

impl TokenForms {
    /// Formats that are asked for when they are needed.
    pub fn new(read: impl FnOnce() -> Vec<TokenForm> + Send + 'static) -> Self {
        Self(Arc::new(LazyLock::new(Box::new(|| Forms::new(read())))))
    }

    /// The kind and pattern of a word or an address that is a token of the catalog.
    pub(super) fn of(&self, word: &str) -> Option<&TokenForm> {
        let forms: &Forms = &self.0;
        let fitting = forms.set.matches(word);
        let marked = MARKS.iter().find(|(mark, _)| word.contains(mark)).and_then(|(_, pattern)| {
            fitting.iter().find(|found| forms.rows[*found].pattern == *pattern)
        });
        let found = marked.or_else(|| fitting.iter().next())?;
        // An address says what it is by itself.
        let told = word.starts_with("https://") || (is_random(word, 3.0) && is_woven(word));
        told.then(|| &forms.rows[found])
    }

    /// Whether a format of the catalog belongs to a name.
    pub(super) fn knows_name(&self, name: &str) -> bool {
        let forms: &Forms = &self.0;
        let bare = bare(name);
        forms.named.iter().any(|one| one.is_of(&bare))
    }

    /// The format that the catalog has for a name, where the value has it.
    pub(super) fn of_name(&self, name: &str, value: &str) -> Option<&TokenForm> {
        let forms: &Forms = &self.0;
        let bare = bare(name);
        let fits = |one: &&NamedForm| one.is_of(&bare) && one.format.is_match(value);
        forms.named.iter().find(fits).map(|one| &one.form)
    }
}

impl NamedForm {
    fn new(form: TokenForm, format: RegexSet) -> Self {
        let names = form.names.iter().filter(|name| !name.contains('*'));
        Self { names: names.map(|name| bare(name)).collect(), form, format }
    }

    /// Whether one of its variables has this name, more before it (`PROD_…`), or less (`secretAccessKey`).
    fn is_of(&self, name: &str) -> bool {
        self.names
            .iter()
            .any(|own| name.ends_with(own) || (name.len() >= LEAST_NAME && own.ends_with(name)))
    }
}

/// A name in capitals, with nothing between its words.
fn bare(name: &str) -> String {
    name.chars().filter(char::is_ascii_alphanumeric).map(|c| c.to_ascii_uppercase()).collect()
}

impl Default for TokenForms {
    fn default() -> Self {
        Self::new(Vec::new)
    }
}

impl fmt::Debug for TokenForms {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TokenForms")
    }
}

impl Forms {
    fn new(given: Vec<TokenForm>) -> Self {
        let compile = |formats: &[&str]| {
            let whole = formats.iter().map(|format| format!("^(?:{format})$"));
            RegexSetBuilder::new(whole).size_limit(MAX_SET).build()
        };
        let (mut rows, mut named) = (Vec::new(), Vec::new());
        for form in given {
            let Ok(one) = compile(&[&form.format]) else { continue };
            if WORDS.iter().any(|word| one.is_match(word)) {
                named.push(NamedForm::new(form, one));
            } else {
                rows.push(form);
            }
        }
        // Where several fit, the one that says most: `sk-ant-` is told from `sk-`.
        rows.sort_by_key(|form| std::cmp::Reverse(literal(&form.format)));
        let formats: Vec<&str> = rows.iter().map(|form| form.format.as_str()).collect();
        match compile(&formats) {
            Ok(set) => Self { rows, set, named },
            Err(_) => Self { rows: Vec::new(), set: RegexSet::empty(), named },
        }
    }
}

/// The number of characters that a format begins with, whatever follows.
fn literal(format: &str) -> usize {
    let plain = |c: &char| c.is_ascii_alphanumeric() || "-_:/".contains(*c);
    format.trim_start_matches('^').chars().take_while(plain).count()
}

/// The kind of a word that begins with a token in a format that is known here, and the token's length.
pub(super) fn known(word: &str) -> Option<(&'static str, usize)> {
    if word.starts_with("eyJ") && is_jwt(word) {
        return Some(("JSON web token", word.len()));
    }
    let form = FORMS.iter().find(|form| word.starts_with(form.prefix))?;
    let rest = &word[form.prefix.len()..];
    let body: &str = &rest[..rest
        .find(|c: char| !(c.is_ascii_alphanumeric() || form.extra.contains(c)))
        .unwrap_or(rest.len())];
    let held = body.len() >= form.least && is_random(body, 2.8);
    held.then_some((form.kind, form.prefix.len() + body.len()))
}

fn is_jwt(word: &str) -> bool {
    let parts: Vec<&str> = word.split('.').collect();
    parts.len() == 3
        && parts[1].starts_with("eyJ")
        && parts[2].len() >= 40
        && is_random(parts[2], 4.0)
}
