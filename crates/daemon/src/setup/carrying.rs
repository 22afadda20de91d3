//! What of a project's values a request can carry: the password in an address whose login Keyless swaps is a secret of its own,
//! with the rest of the address around it; and what no request carries is told, with the reason.

use keyless_core::{Authority, Destination, EgressRule, Host, Location, Scheme};
use keyless_egress::Uncarried;
use keyless_vault::{EnvForm, Weakness};
use percent_encoding::percent_decode_str;
use zeroize::Zeroizing;

use super::{propose::Proposal, values};

/// The parameters of a database's address that may be credentials, or files with one.
const TELLING: [&str; 5] = ["key", "pass", "pwd", "secret", "token"];

/// Whole names of such keys: a part of them is of services' too (`FACEBOOK_APP_SECRET`).
const OWN_KEY_NAMES: [&str; 5] =
    ["APP_KEY", "APP_SECRET", "PRIVATE_KEY", "SSH_KEY", "SSH_PRIVATE_KEY"];
const LOGINS: [&str; 7] = ["PASSWORD", "PASS", "PASSWD", "PWD", "URL", "URI", "DSN"];
/// Parts of names of keys that a program signs or encrypts with by itself.
const OWN_KEYS: &[&str] = &[
    "AUTH_SECRET",
    "COOKIE_SECRET",
    "CSRF",
    "DJANGO_SECRET",
    "ENCRYPTION",
    "FERNET",
    "FLASK_SECRET",
    "HMAC",
    "JWT_KEY",
    "JWT_PRIVATE_KEY",
    "JWT_SECRET",
    "JWT_SIGNING",
    "MASTER_KEY",
    "NEXTAUTH",
    "PEPPER",
    "SECRET_KEY_BASE",
    "SESSION_KEY",
    "SESSION_SECRET",
    "SIGNING",
];

/// The password of an address, and where the rest of it leads.
pub struct Login {
    /// The address with the place of the password marked.
    pub form: EnvForm,
    /// The password as it is sent.
    pub password: Zeroizing<String>,
    /// Where it goes, and into what.
    pub rule: EgressRule,
}

impl Login {
    /// Reads `postgres://user:password@host/…` or `https://user:password@host/…`. Nothing where it is another address, where
    /// more of it may be secret than the password, or where no jail reaches its host.
    pub fn read(value: &str) -> Option<Self> {
        // Several addresses in one text have several passwords.
        if value.contains(char::is_whitespace) {
            return None;
        }
        let (scheme, rest) = value.split_once("://")?;
        let (port, location) = match scheme.to_ascii_lowercase().as_str() {
            scheme if is_postgres(scheme) => (5432, Location::Password),
            "https" => (443, Location::Basic),
            _ => return None,
        };
        let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
        let (login, place) = rest[..end].rsplit_once('@')?;
        let (user, written) = login.split_once(':')?;
        let password = percent_decode_str(written).decode_utf8().ok()?;
        let password = Zeroizing::new(password.into_owned());
        let beyond = &rest[end..];
        let is_open = !values::is_made_up(user)
            && !is_telling(beyond)
            && !beyond.contains(['@', ',', ':', '|']);
        if !is_open || Weakness::of(password.as_bytes()).is_some() || is_here(place) {
            return None;
        }
        let authority = if has_port(place) { place.to_owned() } else { format!("{place}:{port}") };
        let to = Destination::parse(&authority).ok()?;
        let form = EnvForm::parse(&format!(
            "{scheme}://{user}:{}@{}",
            EnvForm::MARK,
            &rest[end - place.len()..]
        ))
        .ok()?;
        let rule =
            EgressRule { locations: [location].into_iter().collect(), ..EgressRule::to(vec![to]) };
        Some(Self { form, password, rule })
    }
}

fn is_postgres(scheme: &str) -> bool {
    let scheme = scheme.split('+').next().unwrap_or_default();
    matches!(scheme, "postgres" | "postgresql")
}

fn has_port(place: &str) -> bool {
    let after = place.rsplit_once(']').map_or(place, |(_, after)| after);
    after.contains(':')
}

/// Whether a host is this machine, which a jail does not reach by that name.
fn is_here(place: &str) -> bool {
    let Ok(Authority { host, .. }) = Authority::parse_for(place, Scheme::Https) else {
        return false;
    };
    match host {
        Host::Ip(address) => address.is_loopback() || address.is_unspecified(),
        Host::Name(name) => name.as_str() == "localhost" || name.as_str().ends_with(".localhost"),
    }
}

/// Whether a path or query may hold more that is secret.
fn is_telling(rest: &str) -> bool {
    let parts = rest.split(['/', '?', '&', '#', ';']);
    parts.into_iter().any(|part| {
        let (name, value) = part.split_once('=').unwrap_or(("", part));
        let name = name.to_ascii_lowercase();
        TELLING.iter().any(|word| name.contains(word)) || values::is_made_up(value)
    })
}

/// Why no request carries what a variable holds: a fragment of a sentence. `value` may be unknown.
pub fn uncarried(name: &str, value: Option<&str>) -> Option<String> {
    if let Some(value) = value {
        if is_private_key(value) {
            return Some("it is a private key, with which the program itself signs".to_owned());
        }
        if value.contains(['\r', '\n']) {
            return Some(
                "it has several lines, and no request carries one with line ends".to_owned(),
            );
        }
        if Login::read(value).is_some() {
            return None;
        }
        if let Some((scheme, rest)) = value.split_once("://") {
            if let Some(Uncarried { name, .. }) = Uncarried::of_scheme(scheme) {
                return Some(format!("it is an address for {name}, which carries no placeholder"));
            }
            let place = rest.split(['/', '?', '#']).next().unwrap_or_default();
            let login = place.rsplit_once('@');
            return login.map(|(_, place)| {
                let why = if is_here(place) {
                    "its host is this machine, which a jail does not reach"
                } else {
                    "a program gets a placeholder in its place, which is none"
                };
                format!("it is an address with a password in it, and {why}")
            });
        }
        if values::holds_credential_field(value) {
            return Some(
                "it is a connection string, and a placeholder in its place is none".to_owned(),
            );
        }
    }
    let name = name.to_ascii_uppercase();
    let words = format!("_{name}_");
    let is_own = |part: &&str| words.contains(&format!("_{part}_"));
    if OWN_KEY_NAMES.contains(&name.as_str()) || OWN_KEYS.iter().any(is_own) {
        return Some(
            "its name is of a key that the program itself signs or encrypts with".to_owned(),
        );
    }
    let is_login = LOGINS.iter().any(|word| name.ends_with(word));
    let protocol = Uncarried::of_variable(&name).filter(|_| is_login)?;
    Some(format!("its name is of {}, which carries no placeholder", protocol.name))
}

/// A key in PEM, be its line ends written as `\n`.
fn is_private_key(value: &str) -> bool {
    let label = value.trim_start().strip_prefix("-----BEGIN ");
    label
        .and_then(|rest| rest.split_once("-----"))
        .is_some_and(|(label, _)| label.ends_with("PRIVATE KEY"))
}

/// As [`uncarried`], of a variable that is proposed so: a service in the catalog has its requests.
pub(super) fn uncarried_as(proposal: &Proposal, value: &str) -> Option<String> {
    if proposal.to.is_empty() { uncarried(&proposal.variable, Some(value)) } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_addresss_password_is_the_secret_and_the_rest_is_kept() {
        let login = |value: &str| {
            let Login { form, password, rule } = Login::read(value)?;
            Some((form.as_str().to_owned(), password.to_string(), rule.to[0].to_string()))
        };
        let found = |form: &str, password: &str, to: &str| {
            Some((form.to_owned(), password.to_owned(), to.to_owned()))
        };
        assert_eq!(
            login("postgres://app:wQ7%2Fz9Lk2Xp4vB@db.example.com/shop?sslmode=require"),
            found(
                "postgres://app:{}@db.example.com/shop?sslmode=require",
                "wQ7/z9Lk2Xp4vB",
                "db.example.com:5432"
            )
        );
        assert_eq!(
            login("postgresql+asyncpg://app:wQ7z9Lk2Xp4vBn@db.example.com:6543/shop"),
            found(
                "postgresql+asyncpg://app:{}@db.example.com:6543/shop",
                "wQ7z9Lk2Xp4vBn",
                "db.example.com:6543"
            )
        );
        assert_eq!(
            login("https://ci:wQ7z9Lk2Xp4vBn@pypi.example.com/simple"),
            found("https://ci:{}@pypi.example.com/simple", "wQ7z9Lk2Xp4vBn", "pypi.example.com")
        );
        for other in [
            "redis://app:wQ7z9Lk2Xp4vBn@cache.example.com",
            "postgres://app:wQ7z9Lk2Xp4vBn@localhost/shop",
            "postgres://app:wQ7z9Lk2Xp4vBn@127.0.0.1:5432/shop",
            "postgres://app:wQ7z9Lk2Xp4vBn@db.example.com/shop?sslkey=/etc/key",
            "postgres://app:wQ7z9Lk2Xp4vBn@one.test:1,two.test:2/shop",
            "postgres://app:app@db.example.com/shop",
            "https://a:Sommer-2024x@one.test/simple https://b:Winter-2024x@two.test/simple",
            "https://a:Sommer-2024x@one.test/simple,https://b:Winter-2024x@two.test/simple",
            "postgres://db.example.com/shop",
            "https://q7w2n9d4k1s8z5x3c6v0b2m7j4h9g1f5t8r3y6p2:x-oauth-basic-more@github.com/a",
        ] {
            assert_eq!(login(other), None, "{other}");
        }
    }

    #[test]
    fn what_no_request_carries_is_known_by_value_or_name() {
        for (name, value, part) in [
            (
                "REDIS_URL",
                Some("redis://app:wQ7z9Lk2Xp4vBn@cache:6379"),
                Some("an address for Redis"),
            ),
            ("DATABASE_URL", Some("postgres://a:wQ7z9Lk2Xp4vBn@localhost/d"), Some("this machine")),
            ("DATABASE_URL", Some("postgres://a:wQ7z9Lk2Xp4vBn@db.test/d"), None),
            (
                "MSSQL",
                Some("Server=db;User Id=sa;Password=Xk29fjs0dkfj;"),
                Some("connection string"),
            ),
            ("BUS", Some("kafka://app:wQ7z9Lk2Xp4vBn@bus.test"), Some("an address for Kafka")),
            ("DB", Some("jdbc:mysql://app:wQ7z9Lk2Xp4vBn@db.test/d"), Some("an address for JDBC")),
            ("CASSANDRA_PASSWORD", None, Some("of Cassandra")),
            ("KAFKA_API_KEY", None, None),
            ("JWT_SECRET", None, Some("signs or encrypts")),
            ("MYSQL_PASSWORD", None, Some("of MySQL")),
            ("SMTP_PASSWORD", Some("wQ7z9Lk2Xp4vBn"), Some("of SMTP")),
            ("GITHUB_TOKEN", Some("wQ7z9Lk2Xp4vBn"), None),
            ("SMTP_API_KEY", None, None),
            ("PINATA_JWT", None, None),
            ("WHATSAPP_KEY", None, None),
            ("FACEBOOK_APP_SECRET", None, None),
            ("APP_KEY", None, Some("signs or encrypts")),
            ("REDIS_URL", None, Some("of Redis")),
            ("PRIVATE_KEY", None, Some("signs or encrypts")),
            ("IMAGEKIT_PRIVATE_KEY", None, None),
            ("SHOP_KEY", Some("-----BEGIN EC PRIVATE KEY-----\nMHcC\n"), Some("a private key")),
            ("SHOP_KEY", Some("-----BEGIN PRIVATE KEY-----\\nMHcC\\n"), Some("a private key")),
            ("SHOP_CERT", Some("-----BEGIN CERTIFICATE-----\nMHcC\n"), Some("several lines")),
        ] {
            let why = uncarried(name, value);
            let fits = match part {
                Some(part) => why.as_ref().is_some_and(|why| why.contains(part)),
                None => why.is_none(),
            };
            assert!(fits, "{name}: {why:?}");
        }
    }
}
