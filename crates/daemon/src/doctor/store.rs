//! The store: whether it is there, what is due in it, whether its values' places are in order.

use std::{fs, os::unix::fs::MetadataExt as _, path::Path};

use jiff::{SignedDuration, Timestamp, Zoned};
use keyless_core::{Code, Error, SecretPath, audit::Action};
use keyless_store::{AuditQuery, Store, StorePlace};
use keyless_vault::{EnvName, Freshness, Secret, SourceConfig};

use super::{Check, files};
use crate::{
    broker::{missing_companions, shared_variables},
    checkpoints::{Unverified, verify_newest},
    config::Config,
    nl::{HookKey, Webhook},
    operator::{self, counted},
    places::Places,
    store_place::store_place,
};

/// A clock may be set back by so many seconds without anybody noticing.
const SLACK: i64 = 60;

/// For how long a jump of the clock is told.
const LATELY: SignedDuration = SignedDuration::from_hours(24);

/// How many entries of each chain are verified: a moment's work.
const LOOKED_AT: usize = 20_000;

/// What was found, and whose metadata is known.
pub(super) struct Looked {
    pub(super) checks: Vec<Check>,
    pub(super) secrets: Vec<Secret>,
}

pub(super) async fn look(places: &Places) -> Looked {
    let none = |check| Looked { checks: vec![check], secrets: Vec::new() };
    let place = match store_place(places) {
        Ok(place) => place,
        // Of a config.toml that can't be read another check tells; here the home's own file is looked at then.
        Err(_) if Config::load(&places.config_file()).is_err() => {
            StorePlace::from(&places.store_file())
        }
        Err(error) => return none(unplaced(places, &error)),
    };
    let store = match Store::open(&place).await.map_err(Error::from) {
        Ok(store) => store,
        Err(error) if error.code() == Code::NotInitialised => {
            let found = format!("none at {place}");
            return none(Check::note("store.there", found, "keyless init makes one"));
        }
        Err(error) => {
            let otherwise = "keyless audit verify; restore a backup";
            return none(unopened(&error, otherwise));
        }
    };
    let secrets = match operator::list_secrets(&store).await {
        Ok(secrets) => secrets,
        // Commands without secrets keep their log in the file all the same, and need no vault.
        Err(error) if error.code() == Code::NotInitialised => {
            let found =
                format!("no vault in {place}, which has the log of commands without secrets");
            let checks = vec![
                Check::note("store.there", found, "keyless init makes one"),
                log(&store, places).await,
            ];
            return Looked { checks, secrets: Vec::new() };
        }
        Err(error) => return none(unopened(&error, "restore a backup of the store")),
    };
    let mut checks =
        vec![Check::ok("store.there", format!("{} in {place}", counted(secrets.len(), "secret")))];
    if let StorePlace::File(file) = &place {
        checks.extend(private("store.permissions", file));
    }
    checks.push(log(&store, places).await);
    checks.extend(clock(&store).await);
    checks.extend(clock_jump(&store).await);
    checks.extend(due(&secrets));
    checks.extend(variables(&secrets));
    checks.extend(missing(&secrets));
    checks.extend(exposed(&secrets));
    checks.extend(sources(&secrets));
    checks.extend(formats(&secrets));
    checks.extend(receivers(places, &secrets));
    checks.extend(files::credentials(places, &secrets));
    Looked { checks, secrets }
}

/// A store that can't be read. `otherwise` helps where the error itself does not say what does.
fn unopened(error: &Error, otherwise: &'static str) -> Check {
    let remedy = match error.code() {
        code @ (Code::DiskFull
        | Code::KeylessOutdated
        | Code::StoreRefused
        | Code::StoreUnreachable
        | Code::StoreUnusable) => code.remediation().action,
        _ => otherwise,
    };
    Check::fault("store.there", error.message(), remedy)
}

/// What `[store]` says can't be followed: then no command looks anywhere else.
fn unplaced(places: &Places, error: &Error) -> Check {
    let file = places.config_file();
    let remedy =
        format!("correct [store] in {}, or what it names: no command works before", file.display());
    Check::fault("store.there", error.message(), remedy)
}

fn private(id: &'static str, file: &Path) -> Option<Check> {
    let mode = fs::metadata(file).ok()?.mode();
    (mode & 0o077 != 0).then(|| {
        let found = format!("others may open {}", file.display());
        Check::warning(id, found, format!("chmod 600 {}", file.display()))
    })
}

/// Whether the log is what was written, as far as that shows without the vault's key: its newest entries.
async fn log(store: &Store, places: &Places) -> Check {
    match verify_newest(store, places, LOOKED_AT).await {
        Ok((read, all)) if read < all => {
            let found =
                format!("the newest {read} entries of the log are what was written, of {all}");
            Check::ok("store.log", found)
        }
        Ok(_) => Check::ok("store.log", "every entry of the log is what was written"),
        Err(Unverified { error, .. }) => {
            Check::fault("store.log", error.message(), "keyless audit verify says where")
        }
    }
}

/// An entry of the log lies in the future: the clock was set back. Where more was written since, it may have been ahead
/// before and be right now, which the log does not tell.
async fn clock(store: &Store) -> Option<Check> {
    let now = Timestamp::now();
    let future = AuditQuery {
        since: Some(now + SignedDuration::from_secs(SLACK)),
        newest: true,
        limit: Some(1),
        ..AuditQuery::default()
    };
    let latest = store.audit_query(&future).await.ok()?.pop()?;
    let ahead = latest.timestamp.parse::<Timestamp>().ok()?.as_second() - now.as_second();
    let newest = store.audit_tail(1).await.ok()?.pop()?;
    if newest.sequence == latest.sequence {
        let found = format!("the log's newest entry is {ahead} s in the future");
        let remedy = "set the clock; windows and expiries go by it";
        return Some(Check::fault("store.clock", found, remedy));
    }
    let found = format!("an entry of the log is {ahead} s in the future, and newer ones are not");
    let remedy =
        "set the clock, by which windows and expiries go; if it is right, it was ahead then";
    Some(Check::warning("store.clock", found, remedy))
}

/// A broker has noticed that the clock was put forward or back.
async fn clock_jump(store: &Store) -> Option<Check> {
    let wanted = AuditQuery {
        action: Some(Action::ClockAdjustment),
        since: Some(Timestamp::now() - LATELY),
        newest: true,
        limit: Some(1),
        ..AuditQuery::default()
    };
    let entry = store.audit_query(&wanted).await.ok()?.pop()?;
    let found = format!("the clock was put {} by {}", entry.detail.note?, entry.timestamp);
    let remedy = "see that something keeps the clock in step: timedatectl shows what";
    Some(Check::warning("store.clock_jump", found, remedy))
}

fn due(secrets: &[Secret]) -> Vec<Check> {
    let today = Zoned::now().date();
    let word = |secret: &Secret| {
        let state = match secret.metadata.upkeep.freshness(today) {
            Freshness::Expired => "has expired",
            Freshness::Expiring => "expires within two weeks",
            Freshness::Registered => return None,
        };
        let remedy = format!("keyless secret rotate {}", secret.path);
        Some(Check::warning("store.expiry", format!("{} {state}", secret.path), remedy))
    };
    secrets.iter().filter_map(word).collect()
}

/// Variables that several secrets want.
fn variables(secrets: &[Secret]) -> Vec<Check> {
    let word = |(name, paths): (&EnvName, Vec<&SecretPath>)| {
        let paths: Vec<&str> = paths.into_iter().map(SecretPath::as_str).collect();
        let found = format!(
            "{} want the variable {name}: a keyless run that names none is refused, but in a project that declares secrets, and not both",
            paths.join(" and ")
        );
        let remedy = format!("keyless secret set {} --env ANOTHER, or --env none", paths[0]);
        Check::warning("store.variables", found, remedy)
    };
    shared_variables(secrets).into_iter().map(word).collect()
}

/// Secrets that others need to sign or to log in, and that nobody has.
fn missing(secrets: &[Secret]) -> Vec<Check> {
    let word = |secret: &Secret| {
        let missing = missing_companions(&secret.metadata, secrets);
        missing.into_iter().map(|path| {
            let by = &secret.path;
            let found = format!("{by} needs {path}, and there is no such secret");
            let remedy =
                format!("keyless secret add {path}, or keyless secret set {by} with another --sign or --oauth");
            Check::warning("store.companions", found, remedy)
        }).collect::<Vec<_>>()
    };
    secrets.iter().flat_map(word).collect()
}

/// Values that actions get though a placeholder would do.
fn exposed(secrets: &[Secret]) -> Vec<Check> {
    let is_exposed = |secret: &&Secret| {
        secret.metadata.unsafe_expose
            && secret.metadata.egress.is_some()
            && !secret.metadata.honeypot
    };
    let word = |Secret { path, .. }: &Secret| {
        let found = format!("{path} names hosts, yet actions get its value itself (unsafe_expose)");
        let remedy = format!(
            "keyless secret set {path} --unsafe-expose off, unless a program can't do with a placeholder"
        );
        Check::note("store.exposed", found, remedy)
    };
    secrets.iter().filter(is_exposed).map(word).collect()
}

/// Values that are kept in files: there, and nobody else's to read.
fn sources(secrets: &[Secret]) -> Vec<Check> {
    let word = |secret: &Secret| {
        let SourceConfig::File { path } = &secret.metadata.source else { return None };
        if let Err(error) = fs::metadata(path) {
            return Some(unfetchable(
                &secret.path,
                &format!("{}: {}", path.display(), error.kind()),
            ));
        }
        private("sources.file", path)
    };
    secrets.iter().filter_map(word).collect()
}

/// Rules about what a value looks like that are none: every value passes.
fn formats(secrets: &[Secret]) -> Vec<Check> {
    let word = |secret: &Secret| {
        let fault = secret.metadata.upkeep.format_fault()?;
        let found = format!("{}: {fault}; no value is judged by it", secret.path);
        let remedy =
            format!("keyless secret set {} --pattern PATTERN takes that pattern's", secret.path);
        Some(Check::warning("store.format", found, remedy))
    };
    secrets.iter().filter_map(word).collect()
}

/// Keys of receivers that config.toml takes from secrets: there, and to be had.
fn receivers(places: &Places, secrets: &[Secret]) -> Vec<Check> {
    // Of a file that can't be read another check tells.
    let Ok(config) = Config::load(&places.config_file()) else { return Vec::new() };
    let word = |hook: &Webhook| {
        let HookKey::Secret(path) = &hook.key else { return None };
        let (why, remedy) = match secrets.iter().find(|secret| secret.path == *path) {
            None => ("there is no such secret", format!("keyless secret add {path}")),
            Some(secret) if secret.metadata.honeypot => {
                ("it is a honeypot", "name another one in config.toml".to_owned())
            }
            Some(secret) if secret.is_compromised() => {
                ("it is compromised", format!("keyless secret rotate {path}"))
            }
            Some(_) => return None,
        };
        let found = format!("{} is told nothing: {path} is its key, and {why}", hook.url);
        Some(Check::fault("store.receivers", found, remedy))
    };
    config.nl.webhooks.iter().filter_map(word).collect()
}

fn unfetchable(path: &SecretPath, why: &str) -> Check {
    let found = format!("the value of {path} can't be had: {why}");
    Check::fault("sources.file", found, format!("keyless source check {path}"))
}
