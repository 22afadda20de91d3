//! A store on a PostgreSQL server: who it is, whether to believe it, and the connections to it.
//!
//! Toward another machine TLS is verified in full, and no word in the address can say less. A connection that is lost
//! fails what was under way, and the next statement connects anew.

mod schema;

use std::{
    fmt,
    net::IpAddr,
    path::{Path, PathBuf},
    str::FromStr,
    time::Duration,
};

use sqlx::{
    ConnectOptions, PgPool,
    postgres::{PgConnectOptions, PgPoolOptions, PgSslMode},
};

use super::StoreError;
use crate::engine::unreachable;

/// How long a connection may take. A request waits for it, so it is short.
const PATIENCE: Duration = Duration::from_secs(3);
/// Statements at once of one process; a server has 100 connections, unless told otherwise.
const CONNECTIONS: u32 = 5;
/// What the server is to do by itself: a broker that has vanished does not keep the others waiting, and an entry of the
/// log is on disk before a permit rests on it.
const SETTINGS: [(&str, &str); 3] = [
    ("lock_timeout", "15s"),
    ("idle_in_transaction_session_timeout", "20s"),
    ("synchronous_commit", "on"),
];

/// A database of a PostgreSQL server, and how to get there.
#[derive(Clone)]
pub struct Server {
    options: PgConnectOptions,
    home: PathBuf,
    has_root: bool,
}

/// Why an address is none of a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ServerFault {
    /// It does not read as one.
    #[error("it is not an address of the form postgres://USER@HOST:PORT/DATABASE")]
    Form,
    /// It has a password in it.
    #[error("a password does not stand in the address; name a file of it with password_file")]
    Password,
    /// It asks for less than verified TLS.
    #[error("sslmode=verify-full is the only one toward another machine")]
    Tls,
}

/// What is done about a database without our tables.
#[derive(Clone, Copy)]
pub(super) enum Absent {
    Make,
    Refuse,
}

impl Server {
    /// The server at `url`, for the home in this folder, where the name of its chain of the audit log is kept.
    pub fn new(url: &str, home: &Path) -> Result<Self, ServerFault> {
        let (scheme, rest) = url.split_once("://").ok_or(ServerFault::Form)?;
        if !matches!(scheme, "postgres" | "postgresql") {
            return Err(ServerFault::Form);
        }
        if has_password(rest) {
            return Err(ServerFault::Password);
        }
        let options = PgConnectOptions::from_str(url).map_err(|_| ServerFault::Form)?;
        let here = Self { options, home: home.to_owned(), has_root: false };
        let word = here.options.get_ssl_mode();
        let says_full = match word {
            PgSslMode::VerifyFull => true,
            // What sqlx has where nothing is said.
            PgSslMode::Prefer => !says_tls(rest),
            _ => false,
        };
        if !here.is_local() && !says_full {
            return Err(ServerFault::Tls);
        }
        Ok(here)
    }

    /// With the user's password.
    #[must_use]
    pub fn with_password(self, password: &str) -> Self {
        Self { options: self.options.password(password), ..self }
    }

    /// With private roots, in PEM, that the server's certificate may chain to; TLS is then verified on this machine, too.
    #[must_use]
    pub fn with_roots(self, pem: Vec<u8>) -> Self {
        Self { options: self.options.ssl_root_cert_from_pem(pem), has_root: true, ..self }
    }

    /// The folder of the home.
    pub(super) fn home(&self) -> &Path {
        &self.home
    }

    /// Connects and brings the database to our schema; gives its id as well.
    pub(super) async fn connect(&self, absent: Absent) -> Result<(PgPool, String), StoreError> {
        let pool = pool(self.connect_options(), CONNECTIONS);
        let mut connection = pool.acquire().await.map_err(unreachable)?;
        let database = schema::migrate(&mut connection, absent).await?;
        drop(connection);
        Ok((pool, database))
    }

    fn connect_options(&self) -> PgConnectOptions {
        let options = self.options.clone().application_name("keyless").options(SETTINGS);
        let options = options.disable_statement_logging();
        if self.is_local() && !self.has_root {
            return options;
        }
        options.ssl_mode(PgSslMode::VerifyFull)
    }

    /// On this machine: what is said there stays there.
    fn is_local(&self) -> bool {
        let host = self.options.get_host();
        let loops = || host.parse().is_ok_and(|address: IpAddr| address.is_loopback());
        self.options.get_socket().is_some()
            || host.starts_with('/')
            || host == "localhost"
            || loops()
    }
}

/// Further connections to the database of `pool`, for a thread with a runtime of its own: a socket belongs to the runtime
/// that made it.
pub(crate) fn apart(pool: &PgPool) -> PgPool {
    self::pool(PgConnectOptions::clone(&pool.connect_options()), 1)
}

fn pool(options: PgConnectOptions, connections: u32) -> PgPool {
    // Each is asked for a sign of life before it is used, so that a server that was started anew is not noticed.
    PgPoolOptions::new()
        .max_connections(connections)
        .acquire_timeout(PATIENCE)
        .idle_timeout(None)
        .max_lifetime(None)
        .connect_lazy_with(options)
}

/// Whether the address has a word on TLS.
fn says_tls(rest: &str) -> bool {
    let query = rest.split_once('?').map_or("", |(_, query)| query);
    let name = |pair: &str| pair.split('=').next().unwrap_or_default().to_owned();
    query.split('&').any(|pair| matches!(name(pair).as_str(), "sslmode" | "ssl-mode"))
}

fn has_password(rest: &str) -> bool {
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let user = authority.rsplit_once('@').map_or("", |(user, _)| user);
    let query = rest.split_once('?').map_or("", |(_, query)| query);
    user.contains(':') || query.split('&').any(|pair| pair.starts_with("password="))
}

impl fmt::Display for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let options = &self.options;
        let (host, port) = (options.get_host(), options.get_port());
        let host = options.get_socket().map_or(host.into(), |socket| socket.to_string_lossy());
        let (user, database) = (options.get_username(), options.get_database());
        write!(f, "PostgreSQL {user}@{host}:{port}/{}", database.unwrap_or(user))
    }
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Server").field(&self.to_string()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judged(url: &str) -> Result<PgSslMode, ServerFault> {
        let server = Server::new(url, Path::new("/h"))?;
        Ok(server.connect_options().get_ssl_mode())
    }

    #[test]
    fn another_machine_is_verified_in_full_whatever_the_address_says() {
        let full = |url| assert!(matches!(judged(url), Ok(PgSslMode::VerifyFull)), "{url}");
        full("postgres://kl@db.corp.test/keyless");
        full("postgresql://kl@10.0.0.7/keyless?sslmode=verify-full");
        full("postgres://kl@localhost.corp.test/keyless");
        for word in ["disable", "allow", "prefer", "require", "verify-ca"] {
            let url = format!("postgres://kl@db.corp.test/keyless?sslmode={word}");
            assert_eq!(judged(&url).unwrap_err(), ServerFault::Tls, "{url}");
        }
        for url in ["postgres://kl@127.0.0.1/keyless", "postgres:///keyless?host=/run/postgresql"] {
            assert!(matches!(judged(url), Ok(PgSslMode::Prefer)), "{url}");
        }
        let local = Server::new("postgres://kl@localhost/keyless", Path::new("/h")).unwrap();
        let rooted = local.with_roots(Vec::new()).connect_options().get_ssl_mode();
        assert!(matches!(rooted, PgSslMode::VerifyFull));
    }

    #[test]
    fn a_password_stands_in_no_address() {
        for url in ["postgres://kl:pw@db.test/k", "postgres://kl@db.test/k?a=b&password=pw"] {
            assert_eq!(judged(url).unwrap_err(), ServerFault::Password);
        }
        assert_eq!(judged("sqlite:///x").unwrap_err(), ServerFault::Form);
        assert_eq!(judged("/var/lib/store.db").unwrap_err(), ServerFault::Form);
        let server = Server::new("postgres://kl@db.test:6432/k", Path::new("/h")).unwrap();
        assert_eq!(server.with_password("pw").to_string(), "PostgreSQL kl@db.test:6432/k");
    }
}
