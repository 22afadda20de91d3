//! What the names of variables say when no catalog knows them: tables of words.

/// Whole names that hold settings: of systems, shells, languages and their images (`GPG_KEY` is a fingerprint), and of
/// continuous integration.
const SETTINGS: &[&str] = &[
    "ALLUSERSPROFILE",
    "APPDATA",
    "CI",
    "COLORTERM",
    "COMPOSE_PROJECT_NAME",
    "COMPUTERNAME",
    "COMSPEC",
    "DEBUG",
    "DISPLAY",
    "EDITOR",
    "FORCE_COLOR",
    "GPG_KEY",
    "HOME",
    "HOMEDRIVE",
    "HOMEPATH",
    "HOST",
    "HOSTNAME",
    "IFS",
    "LANG",
    "LANGUAGE",
    "LOCALAPPDATA",
    "LOGNAME",
    "MAIL",
    "NODE_ENV",
    "NODE_OPTIONS",
    "NO_COLOR",
    "NUMBER_OF_PROCESSORS",
    "OLDPWD",
    "OS",
    "PAGER",
    "PATH",
    "PATHEXT",
    "PORT",
    "PROGRAMDATA",
    "PS1",
    "PWD",
    "PYTHONPATH",
    "RAILS_ENV",
    "RUST_BACKTRACE",
    "RUST_LOG",
    "SHELL",
    "SHLVL",
    "SSH_AUTH_SOCK",
    "SYSTEMROOT",
    "TEMP",
    "TERM",
    "TMP",
    "TMPDIR",
    "TZ",
    "USER",
    "USERDOMAIN",
    "USERNAME",
    "USERPROFILE",
    "VIRTUAL_ENV",
    "VISUAL",
    "WINDIR",
];

/// How names of settings begin: what runs a job, what describes a machine, what is sent to browsers.
const SETTING_PREFIXES: &[&str] = &[
    "BUILDKITE_",
    "CARGO_",
    "CI_",
    "CIRCLE_",
    "CLAUDE_CODE_",
    "DBUS_",
    "GITHUB_EVENT_",
    "GITHUB_RUN_",
    "JENKINS_",
    "LC_",
    "NEXT_PUBLIC_",
    "PROCESSOR_",
    "PROGRAMFILES",
    "RUNNER_",
    "SYSTEMD_",
    "TRAVIS_",
    "XDG_",
];

/// How names of settings end.
const SETTING_SUFFIXES: &[&str] = &[
    "_ADDR",
    "_ADDRESS",
    "_BRANCH",
    "_BUCKET",
    "_COUNT",
    "_DATABASE",
    "_DB",
    "_DEBUG",
    "_DIR",
    "_DISABLED",
    "_DOMAIN",
    "_EMAIL",
    "_ENABLED",
    "_ENDPOINT",
    "_ENV",
    "_FILE",
    "_FORMAT",
    "_HOST",
    "_HOSTNAME",
    "_ID",
    "_INTERVAL",
    "_LEVEL",
    "_LIMIT",
    "_LOCALE",
    "_MAX",
    "_MIN",
    "_MODE",
    "_MODEL",
    "_NAME",
    "_NAMESPACE",
    "_ORG",
    "_PATH",
    "_PORT",
    "_PREFIX",
    "_PROFILE",
    "_PROJECT",
    "_PUBLIC_KEY",
    "_PUBLISHABLE_KEY",
    "_REGION",
    "_RETRIES",
    "_SIZE",
    "_STAGE",
    "_TIMEOUT",
    "_TIMEZONE",
    "_TTL",
    "_TYPE",
    "_URI",
    "_URL",
    "_USER",
    "_USERNAME",
    "_VERSION",
    "_WORKERS",
    "_ZONE",
];

/// Parts of names that say: a secret.
const SECRET_PARTS: &[&str] = &[
    "APIKEY",
    "APITOKEN",
    "AUTH",
    "CREDENTIAL",
    "CREDENTIALS",
    "CREDS",
    "DSN",
    "KEY",
    "PASS",
    "PASSPHRASE",
    "PASSWD",
    "PASSWORD",
    "PAT",
    "PRIVATE",
    "PSK",
    "PWD",
    "SALT",
    "SECRET",
    "SECRETS",
    "TOKEN",
    "WEBHOOK",
];

/// Last parts of names that say so: `SLACK_HOOK` holds one, `HOOK_RETRIES` does not.
const SECRET_ENDINGS: &[&str] =
    &["CRED", "FERNET", "HMAC", "HOOK", "JWT", "MNEMONIC", "PEPPER", "PGPASS", "PW"];

/// How words end that were written as one: `MYSQLPASSWORD`, `AUTHTOKEN`.
const SECRET_WORD_ENDINGS: &[&str] = &["APIKEY", "PASSWORD", "SECRET", "TOKEN"];

/// Parts that say: random, and no secret.
const OPEN_PARTS: &[&str] = &[
    "ACCOUNT",
    "ADDRESS",
    "ARN",
    "BUILD",
    "CERT",
    "CERTIFICATE",
    "CHECKSUM",
    "COMMIT",
    "CONTRACT",
    "DIGEST",
    "ETAG",
    "FINGERPRINT",
    "GUID",
    "HASH",
    "ID",
    "IDS",
    "IMAGE",
    "INTEGRITY",
    "MD5",
    "NONCE",
    "PUBLIC",
    "PUBLISHABLE",
    "REF",
    "RELEASE",
    "REV",
    "REVISION",
    "SHA",
    "SHA1",
    "SHA256",
    "SHA512",
    "SITEKEY",
    "TAG",
    "UUID",
    "VERSION",
];

/// Parts that say nothing of whose secret it is.
const GENERIC_PARTS: &[&str] = &[
    "ACCESS",
    "ADMIN",
    "API",
    "APP",
    "AUTH",
    "BEARER",
    "CLIENT",
    "ENCRYPTION",
    "JWT",
    "KEY",
    "MASTER",
    "MY",
    "REFRESH",
    "ROOT",
    "SERVICE",
    "SESSION",
    "SIGNING",
    "THE",
    "URL",
    "USER",
];

/// Whether a name is that of a setting.
pub(super) fn is_setting(name: &str) -> bool {
    let name = name.to_ascii_uppercase();
    // `SENTRY_AUTH_TOKEN_FILE` names a file, `LOGIN_SECRET_ID` holds half of a credential.
    let ends = SETTING_SUFFIXES.iter().any(|suffix| name.ends_with(suffix));
    SETTINGS.contains(&name.as_str())
        || SETTING_PREFIXES.iter().any(|prefix| name.starts_with(prefix))
        || (ends && !name.ends_with("SECRET_ID") && !name.ends_with("WEBHOOK_URL"))
}

/// Whether a name says that it holds a secret.
pub(super) fn is_secret(name: &str) -> bool {
    let says = |part: String| {
        SECRET_PARTS.contains(&part.as_str())
            || SECRET_WORD_ENDINGS.iter().any(|end| part.ends_with(end))
    };
    let last = parts(name).last().unwrap_or_default();
    parts(name).any(says)
        || SECRET_ENDINGS.contains(&last.as_str())
        || name.to_ascii_uppercase().ends_with("SERVICE_ROLE")
}

/// Whether a name says nothing else: `JWT_SECRET`, `AUTHTOKEN`, and no `KEY`, which sorts and caches have too.
pub(super) fn ends_in_secret(name: &str) -> bool {
    let last = parts(name).last().unwrap_or_default();
    let words = SECRET_WORD_ENDINGS.iter().chain(&["PASSPHRASE", "PASSWD", "PEPPER", "PSK"]);
    words.into_iter().any(|end| last.ends_with(end))
}

/// Whether a name says that what it holds is random and open to everybody: a commit, a digest, an id.
pub(super) fn is_open(name: &str) -> bool {
    parts(name).any(|part| OPEN_PARTS.contains(&part.as_str()))
}

/// Whether a name says nothing of whose secret it holds, as `API_KEY` does not.
pub(super) fn is_ambiguous(name: &str) -> bool {
    let generic = |part: &String| {
        GENERIC_PARTS.contains(&part.as_str()) || SECRET_PARTS.contains(&part.as_str())
    };
    parts(name).all(|part| generic(&part))
}

/// A name's parts in capitals: `githubToken` is one, as nobody writes variables so.
fn parts(name: &str) -> impl Iterator<Item = String> {
    name.split(['_', '-', '.']).filter(|part| !part.is_empty()).map(str::to_ascii_uppercase)
}

/// A text as a segment of a path; `None` when nothing is left of it.
pub(super) fn kebab(text: &str) -> Option<String> {
    let lower = text.to_ascii_lowercase();
    let words = lower.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| !word.is_empty());
    let segment = words.collect::<Vec<_>>().join("-");
    (!segment.is_empty()).then_some(segment)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_told_apart() {
        for name in [
            "PORT",
            "DB_HOST",
            "LC_ALL",
            "XDG_RUNTIME_DIR",
            "GITHUB_RUN_ID",
            "node_env",
            "APP_URL",
            "APPDATA",
        ] {
            assert!(is_setting(name), "{name}");
        }
        for name in [
            "ACME_API_KEY",
            "SMTP_PASSWORD",
            "VAULT_SECRET_ID",
            "TEAMS_WEBHOOK_URL",
            "stripe-secret",
        ] {
            assert!(is_secret(name) && !is_setting(name) && !is_ambiguous(name), "{name}");
        }
        for name in ["TOKEN", "API_KEY", "SECRET_KEY", "CLIENT_SECRET", "PASSWORD"] {
            assert!(is_secret(name) && is_ambiguous(name), "{name}");
        }
        for name in ["JWT", "REDIS_PW", "SLACK_HOOK", "MYSQLPASSWORD", "SUPABASE_SERVICE_ROLE"] {
            assert!(is_secret(name) && !is_setting(name), "{name}");
        }
        for name in ["KEYBOARD_LAYOUT", "MONKEY", "JWT_ALGORITHM", "HOOK_RETRIES", "RANDOM_SEED"] {
            assert!(!is_secret(name), "{name}");
        }
        assert!(is_open("GIT_SHA") && is_open("client.id") && !is_open("SIDE_DOOR"));
    }

    #[test]
    fn segments_are_kebab() {
        assert_eq!(kebab("My_App.2").as_deref(), Some("my-app-2"));
        assert_eq!(kebab("__"), None);
    }
}
