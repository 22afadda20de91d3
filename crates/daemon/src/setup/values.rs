//! What the values of variables say when their names say nothing.

use super::names;

/// No token that says nothing of itself is shorter.
const LEAST: usize = 20;
/// Hexadecimal digits alone have less in each.
const LEAST_HEX: usize = 32;

/// What begins with one of these says what it is: a digest, an image, a public key.
const NO_SECRETS: &[&str] = &["sha1-", "sha256-", "sha384-", "sha512-", "ssh-ed25519 ", "ssh-rsa "];

/// What connection strings of databases, queues and storage call a credential.
const CREDENTIAL_FIELDS: &[&str] =
    &["accountkey", "password", "pwd", "sharedaccesskey", "sharedaccesssignature"];

/// Words of which passwords in examples are made.
const SAMPLES: &[&str] = &[
    "change",
    "default",
    "dummy",
    "example",
    "insert",
    "kloak_",
    "letmein",
    "passw",
    "placeholder",
    "redacted",
    "replace",
    "sample",
    "secret:",
    "test",
    "xxxx",
    "your",
];

/// Words of which tokens and keys in examples are made, beside those.
const EXAMPLES: &[&str] = &[
    "1234", "abc123", "abcd", "apikey", "demo", "fake", "foobar", "local", "mock", "secret",
    "todo", "token", "-key", "_key",
];
/// Names and versions have fewer turns from letters to digits: `oauth2-github`, `HS256`.
const LEAST_TURNS: usize = 3;

/// Whether a machine made the value up, or a long part of it: letters and digits in no order that a person, or a name
/// with numbers in it, has.
pub(super) fn is_made_up(value: &str) -> bool {
    let value = value.trim();
    if value.contains("://") || value.contains("sha256:") {
        return false;
    }
    if NO_SECRETS.iter().any(|start| value.starts_with(start)) || is_uuid(value) {
        return false;
    }
    let is_own = |c: char| c.is_ascii_alphanumeric() || "-_+/=.~".contains(c);
    value.split(|c| !is_own(c)).any(is_woven)
}

/// `Server=db;User Id=sa;Password=…`, `host=db password=…`.
pub(super) fn holds_credential_field(value: &str) -> bool {
    let by = if value.contains(';') { ';' } else { ' ' };
    if !value.contains(by) {
        return false;
    }
    value.split(by).filter_map(|part| part.split_once('=')).any(|(field, said)| {
        let field = field.trim().to_ascii_lowercase();
        let said = said.trim();
        CREDENTIAL_FIELDS.contains(&field.as_str())
            && !said.is_empty()
            && !said.starts_with(['$', '<', '{'])
    })
}

/// Whether a value that a variable of this name holds in a `.env` file is a password that somebody chose: not one that
/// examples have, nor that of a database on this machine.
pub(super) fn is_chosen_password(name: &str, value: &str) -> bool {
    let last = name.rsplit(['_', '-', '.']).next().unwrap_or_default().to_ascii_uppercase();
    let is_named = ["PASSWORD", "PASSWD", "PASSPHRASE", "PASS", "PWD", "PW"];
    if is_named.iter().any(|end| last == *end) || last.ends_with("PASSWORD") {
        return is_chosen(value.trim());
    }
    let Some((_, rest)) = value.split_once("://") else { return false };
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let Some((login, host)) = authority.rsplit_once('@') else { return false };
    let host = host.rsplit_once(':').map_or(host, |(host, _)| host);
    // A host without a dot is one of the same compose file.
    let is_elsewhere = host.contains('.') && !host.starts_with("127.");
    login
        .split_once(':')
        .is_some_and(|(user, password)| is_elsewhere && user != password && is_chosen(password))
}

/// Whether a variable that is a secret's by its name holds one in a `.env` file, be it a short one: what people make up for
/// it, where the name says `…_SECRET` or `…_TOKEN`; under names that may be settings too (`CACHE_KEY`, `AUTH_PROVIDER`) what
/// a machine made up. The names are those that `setup` and `import` go by.
pub(super) fn is_of_secret(name: &str, value: &str) -> bool {
    let value = value.trim();
    let lower = value.to_ascii_lowercase();
    let stands_in =
        ["$", "{{", "<", "~/", "./", "../"].iter().any(|start| value.starts_with(start))
            || ["${", "$(", "{{", " "].iter().any(|part| value.contains(part));
    if !names::is_secret(name) || names::is_setting(name) || names::is_open(name) || stands_in {
        return false;
    }
    if !is_chosen(value) || EXAMPLES.iter().any(|word| lower.contains(word)) {
        return false;
    }
    names::ends_in_secret(name) || turns(value) >= LEAST_TURNS
}

/// How often letters give way to digits, or the other way round.
fn turns(word: &str) -> usize {
    let pairs = word.as_bytes().windows(2);
    let is_turn = |pair: &&[u8]| {
        pair.iter().all(u8::is_ascii_alphanumeric)
            && pair[0].is_ascii_digit() != pair[1].is_ascii_digit()
    };
    pairs.filter(is_turn).count()
}

/// Eight characters or more, letters and digits, and no word that people put where a password should be.
fn is_chosen(password: &str) -> bool {
    let has = |test: fn(&u8) -> bool| password.as_bytes().iter().any(test);
    let lower = password.to_ascii_lowercase();
    let refers = password.contains(['$', '<', '{', '%']) && !has(u8::is_ascii_digit)
        || password.starts_with(['$', '<', '{', '/', '@'])
        || password.contains("://");
    password.len() >= 8
        && !refers
        && has(u8::is_ascii_digit)
        && has(u8::is_ascii_alphabetic)
        && !SAMPLES.iter().any(|word| lower.contains(word))
}

/// Letters and digits take turns throughout, as they do in no name.
fn is_woven(word: &str) -> bool {
    let letters = word.bytes().filter(u8::is_ascii_alphanumeric).count();
    let is_hex = word.bytes().filter(u8::is_ascii_alphanumeric).all(|b| b.is_ascii_hexdigit());
    if letters < if is_hex { LEAST_HEX } else { LEAST } {
        return false;
    }
    let turns_of = |of: fn(u8) -> u8| {
        let pairs = word.as_bytes().windows(2);
        let turns = pairs.filter(|pair| {
            pair.iter().all(u8::is_ascii_alphanumeric) && of(pair[0]) != of(pair[1])
        });
        turns.count()
    };
    let digits = turns_of(|byte| u8::from(byte.is_ascii_digit()));
    let kinds =
        turns_of(|byte| u8::from(byte.is_ascii_digit()) + 2 * u8::from(byte.is_ascii_uppercase()));
    // Fewer digits will do where capitals are strewn in and no word stands out, as in `MyAppService2`.
    let has_word = word.split(|c: char| !c.is_ascii_lowercase()).any(|part| part.len() > 5);
    let is_strewn =
        digits * 8 > letters || (digits * 14 > letters && kinds * 5 > letters * 2 && !has_word);
    let mut seen = [false; 128];
    word.bytes().for_each(|byte| seen[usize::from(byte & 127)] = true);
    let distinct = seen.iter().filter(|seen| **seen).count();
    is_strewn && distinct >= 10 && !is_spelled_out(word)
}

/// `0123456789abcdef…`: every second step is to the next.
fn is_spelled_out(word: &str) -> bool {
    let steps = word
        .as_bytes()
        .windows(2)
        .filter(|pair| pair[1] == pair[0] || pair[1] == pair[0].wrapping_add(1));
    steps.count() * 2 > word.len()
}

/// An id, most of the time.
fn is_uuid(value: &str) -> bool {
    let parts: Vec<usize> = value.split('-').map(str::len).collect();
    parts == [8, 4, 4, 4, 12] && value.bytes().all(|b| b == b'-' || b.is_ascii_hexdigit())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each is random, of a machine: letters and digits, base64, hexadecimal, a bot's.
    const MADE_UP: &[&str] = &[
        "Zk3v9QwT1rXb7LmN5pYc2HsDf8GjKa4EuVoRx6Bi",
        "q7w2n9d4k1s8z5x3c6v0b2m7j4h9g1f5t8r3y6p2",
        "base64:3q2+7wF4nL0sV9kXy1ZbT6pRm8cJ5hGdQ2uWe7oAi4E=",
        "key-9f2c71b04ad8e6537bc1d20f98ea4b56",
        "9f2c71b04ad8e6537bc1d20f98ea4b56",
        "123456789:AAF3kd9sLq27XbvP0wZ8mNt5RyHcJ1uGeo4",
        "JB5WY3DP2EHPK3PXQ7N4ZT6A",
        "QwErTyZkXvNb7LmNpYcHsDfGjKa4EuVoRxBiZd3K",
    ];

    #[test]
    fn what_a_machine_made_up_is_told_from_what_people_write() {
        for value in MADE_UP {
            assert!(is_made_up(value), "{value}");
        }
        for value in [
            "my-app-service-v2-prod-eu-central-1",
            "MyApp2ServiceProdEuCentral1Cluster",
            "ec2-12-34-56-78.compute-1.amazonaws.com",
            "arn:aws:iam::123456789012:role/deploy-2024",
            "2026-11-26T18:38:41.123456Z",
            "9b1deb4d-3b7d-4bad-9bdd-2b0d7b3dcb6d",
            "registry.test/app@sha256:9f2c71b04ad8e6537bc1d20f98ea4b569f2c71b04ad8e6537bc1d20f98ea4b56",
            "https://cdn.test/9f2c71b04ad8e6537bc1d20f98ea4b56/x.js",
            "/var/lib/app/data-01/releases/20261126183841",
            "0123456789abcdef0123456789abcdef",
            "correct horse battery staple and a long tail",
            "tcp,http2,h3,quic1,ws2,grpc3,tls13,tls12",
        ] {
            assert!(!is_made_up(value), "{value}");
        }
    }

    #[test]
    fn passwords_that_people_chose_are_told_from_those_of_examples() {
        for (name, value) in [
            ("DB_PASSWORD", "Sommer2026!"),
            ("MYSQLPASSWORD", "hunter2hunter2"),
            ("DATABASE_URL", "postgres://app:hunter2secret@db.internal/app"),
            ("REDIS", "redis://:s3cret-of-ours@cache.internal:6379/0"),
        ] {
            assert!(is_chosen_password(name, value), "{name}={value}");
        }
        for (name, value) in [
            ("DB_PASSWORD", "changeme123"),
            ("DB_PASSWORD", "password123"),
            ("DB_PASSWORD", "postgres"),
            ("DB_PASSWORD", "${OTHER_PASSWORD_2}"),
            ("DB_PASSWORD", "@secret:team/db/password1"),
            ("PASSWORD_MIN_LENGTH", "12characters"),
            ("DB_PASSWORD_FILE", "/run/secrets/db1password"),
            ("DATABASE_URL", "postgres://app:hunter2secret@localhost:5432/app"),
            ("DATABASE_URL", "postgres://app:hunter2secret@db/app"),
            ("DATABASE_URL", "postgres://user:password1@db.internal/app"),
            ("DATABASE_URL", "postgres://app123456:app123456@db.internal/app"),
            ("DATABASE_URL", "postgres://db.internal/app"),
        ] {
            assert!(!is_chosen_password(name, value), "{name}={value}");
        }
    }

    #[test]
    fn short_secrets_are_found_under_the_names_of_secrets() {
        for (name, value) in [
            ("JWT_SECRET", "x8fj2kd9s0a7g3h5"),
            ("ACME_TOKEN", "7c1b9e0d5a3f4466"),
            ("FOO_TOKEN", "qT9vX2mK4pL7nR1s"),
            ("SESSION_SECRET", "Zx9!kq27Lm"),
            ("SECRET_KEY", "9d8a7f6b5c4e3d2a1f0b"),
            ("AUTHTOKEN", "Kq27LmZx9f"),
            ("API_KEY_2", "7c1b9e0d5a3f4466"),
            ("HEROKU_API_KEY", "9b1deb4d-3b7d-4bad-9bdd-2b0d7b3dcb6d"),
        ] {
            assert!(is_of_secret(name, value), "{name}={value}");
        }
        for (name, value) in [
            ("JWT_SECRET", "changeme"),
            ("JWT_SECRET", "changeme-2024"),
            ("JWT_SECRET", "test1234567"),
            ("JWT_SECRET", "supersecret1"),
            ("JWT_SECRET", "your-256-bit-secret"),
            ("ACME_TOKEN", "abc123def456"),
            ("ACME_TOKEN", "xxxxxxxx1"),
            ("ACME_TOKEN", "kloak_01hzy3v7q8r9s0t1u2v3w4x5y6"),
            ("ACME_TOKEN", "${OTHER_TOKEN_2}"),
            ("ACME_TOKEN", "ci-${RUN_7}-a1b2"),
            ("ACME_TOKEN", "@secret:team/acme/token7"),
            ("ACME_TOKEN", "<a1b2c3d4>"),
            ("ACME_TOKEN_FILE", "/run/secrets/a1b2c3d4"),
            ("PASSWORD_MIN_LENGTH", "12characters"),
            ("AUTH_PROVIDER", "oauth2-github"),
            ("JWT_ALGORITHM_KEY", "HS256-only"),
            ("CACHE_KEY", "users-v1"),
            ("SSH_KEY", "~/.ssh/id_ed25519_a1b2"),
            ("PUBLIC_KEY", "7c1b9e0d5a3f4466"),
            ("GIT_SHA", "7c1b9e0d5a3f4466"),
            ("APP_MODE", "7c1b9e0d5a3f4466"),
        ] {
            assert!(!is_of_secret(name, value), "{name}={value}");
        }
    }

    #[test]
    fn connection_strings_name_their_credential() {
        for value in [
            "Server=db.test;User Id=sa;Password=Xk29fjs0dkfj;",
            "DefaultEndpointsProtocol=https;AccountName=a;AccountKey=abc==;EndpointSuffix=core.test",
            "Endpoint=sb://a.test/;SharedAccessKeyName=Root;SharedAccessKey=abc=",
            "host=db user=app password=s3cr3t dbname=app",
        ] {
            assert!(holds_credential_field(value), "{value}");
        }
        for value in
            ["Server=db;Password=${PASSWORD};", "Server=db;Integrated Security=true;", "a;b;c"]
        {
            assert!(!holds_credential_field(value), "{value}");
        }
    }
}
