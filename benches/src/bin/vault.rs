//! The vault and its log: unlocking, opening a value, writing one durably, and the audit log.
//!
//! Budgets: Argon2 takes >= 80 % of an unlock; a value opens in <= 200 us warm; a write is durable in <= 20 ms (issue 4); the
//! log takes >= 5,000 entries/s from many writers and verifies >= 300,000/s (design.md, section 7).

use std::{
    fs::File,
    hint::black_box,
    io::Write as _,
    path::Path,
    sync::Arc,
    time::{Duration, Instant},
};

use argon2::{Algorithm, Argon2, Params, Version};
use jiff::Timestamp;
use keyless_benches::{Failure, Result, Table, decimals, median};
use keyless_core::{
    SecretPath,
    audit::{Action, Agent, Detail, Draft, Noted, Outcome, Target},
};
use keyless_store::{AuditLog, Store};
use keyless_vault::{Entries, Factor, Metadata, Passphrase, Vault};
use sha2::{Digest as _, Sha256};
use zeroize::Zeroizing;

const PASSPHRASE: &str = "correct horse battery staple";
const SECRETS: usize = 1_000;
const ROUNDS: usize = 7;
const OPENINGS: u32 = 500;
const WRITES: usize = 40;
const ENTRIES: usize = 20_000;
const WRITERS: usize = 64;

#[tokio::main]
async fn main() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let file = folder.path().join("store.db");
    let store = Store::create_or_open(&file).await?;
    let (vault, _) = Vault::create(store, passphrase()).await.map_err(told)?;
    for n in 0..SECRETS {
        let value = Some(Zeroizing::new(format!("value-of-secret-{n}").into_bytes()));
        vault.add(path(n)?, Metadata::default(), value, Entries::untold()).await.map_err(told)?;
    }
    let mut table = Table::new(&["1,000 secrets", "Keyless", "baseline", "of the baseline"]);
    row(&mut table, "unlock, ms, over Argon2 alone", unlock(&file).await?);
    row(&mut table, "open a value, us, over reading its row", open(&vault).await?);
    row(&mut table, "put a value, ms, over one fsync", put(&vault, folder.path()).await?);
    let log = AuditLog::start(vault.store(), Some(vault.head_sealer()));
    row(&mut table, "append, us an entry, over one fsync", append(&log, folder.path()).await?);
    row(&mut table, "verify, us an entry, over its SHA-256 twice", verify(&vault).await?);
    println!("{table}");
    println!(
        "Budget: Argon2 is >= 80 % of an unlock (<= 1.25 of it); open <= 200 us; put <= 20 ms; \
         append <= 200 us an entry, verify <= 3.3 us."
    );
    Ok(())
}

/// What it took, and what the baseline took, in the unit of its row.
type Pair = (f64, f64);

async fn unlock(file: &Path) -> Result<Pair> {
    let (mut unlocked, mut bare) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        let start = Instant::now();
        let opened = Vault::unlock(Store::open(file).await?, Factor::Passphrase(passphrase()));
        black_box(opened.await.map_err(told)?);
        unlocked.push(milliseconds(start.elapsed()));
        let start = Instant::now();
        argon2()?;
        bare.push(milliseconds(start.elapsed()));
    }
    Ok((median(&unlocked), median(&bare)))
}

/// The passphrase's hash and nothing else, at the vault's cost.
fn argon2() -> Result<()> {
    let params = Params::new(64 * 1024, 3, 1, Some(32)).map_err(|error| error.to_string())?;
    let mut key = [0; 32];
    Argon2::new(Algorithm::Argon2id, Version::V0x13, params)
        .hash_password_into(PASSPHRASE.as_bytes(), &[7; 32], &mut key)
        .map_err(|error| error.to_string())?;
    black_box(key);
    Ok(())
}

async fn open(vault: &Vault) -> Result<Pair> {
    let (mut opened, mut read) = (Vec::new(), Vec::new());
    let path = path(SECRETS / 2)?;
    for _ in 0..ROUNDS {
        let start = Instant::now();
        for _ in 0..OPENINGS {
            black_box(vault.open(&path).await.map_err(told)?);
        }
        opened.push(microseconds(start.elapsed() / OPENINGS));
        let start = Instant::now();
        for _ in 0..OPENINGS {
            black_box(vault.store().version(&path, 1).await?);
        }
        read.push(microseconds(start.elapsed() / OPENINGS));
    }
    Ok((median(&opened), median(&read)))
}

async fn put(vault: &Vault, folder: &Path) -> Result<Pair> {
    let (mut written, mut bare) = (Vec::new(), Vec::new());
    let mut file = File::create(folder.join("baseline"))?;
    let path = path(0)?;
    for n in 0..WRITES {
        let value = Zeroizing::new(format!("another-value-{n}").into_bytes());
        let start = Instant::now();
        vault.put(&path, value, Entries::untold()).await.map_err(told)?;
        written.push(milliseconds(start.elapsed()));
        bare.push(milliseconds(fsync(&mut file)?));
    }
    Ok((median(&written), median(&bare)))
}

async fn append(log: &AuditLog, folder: &Path) -> Result<Pair> {
    let start = Instant::now();
    let mut writers = Vec::new();
    for _ in 0..WRITERS {
        let log = log.clone();
        writers.push(tokio::spawn(async move {
            for _ in 0..ENTRIES / WRITERS {
                log.append(draft()).await?;
            }
            Ok::<(), keyless_core::Error>(())
        }));
    }
    for writer in writers {
        writer.await?.map_err(told)?;
    }
    let each = start.elapsed() / u32::try_from(ENTRIES)?;
    let mut file = File::create(folder.join("baseline"))?;
    let mut bare = Vec::new();
    for _ in 0..WRITES {
        bare.push(microseconds(fsync(&mut file)?));
    }
    Ok((microseconds(each), median(&bare)))
}

async fn verify(vault: &Vault) -> Result<Pair> {
    let texts: Vec<String> = vault
        .store()
        .audit_tail(1_000)
        .await?
        .iter()
        .map(serde_json::to_string)
        .collect::<Result<_, _>>()?;
    let (mut verified, mut bare) = (Vec::new(), Vec::new());
    let entries = u32::try_from(ENTRIES)?;
    for _ in 0..ROUNDS {
        let start = Instant::now();
        black_box(vault.store().audit_verify(Some(&*vault.head_sealer())).await?);
        verified.push(microseconds(start.elapsed() / entries));
        let start = Instant::now();
        for text in texts.iter().cycle().take(ENTRIES) {
            black_box((Sha256::digest(text), Sha256::digest(text)));
        }
        bare.push(microseconds(start.elapsed() / entries));
    }
    Ok((median(&verified), median(&bare)))
}

/// How long it takes until a page is on the disk.
fn fsync(file: &mut File) -> Result<Duration> {
    let start = Instant::now();
    file.write_all(&[1; 4096])?;
    file.sync_data()?;
    Ok(start.elapsed())
}

fn draft() -> Draft {
    let agent = Agent {
        uri: "nl://keyless.dev/bench/0.1.0".to_owned(),
        organization_id: "local".to_owned(),
        session_id: "bench".to_owned(),
        delegated_by: "human:operator".to_owned(),
    };
    Draft {
        at: Timestamp::now(),
        agent: Arc::new(agent),
        action: Action::Egress,
        target: Target::Session,
        outcome: Outcome::Success,
        secrets_used: Vec::new(),
        correlation_id: "req-0190b5b0-0000-7000-8000-000000000000".to_owned(),
        error_code: None,
        detail: Detail { kind: Some("released".to_owned()), ..Detail::default() },
        metadata: Noted::default(),
        allowed: None,
    }
}

fn row(table: &mut Table, name: &str, (ours, baseline): Pair) {
    let ratio = decimals(ours / baseline, 2);
    table.row([name.to_owned(), decimals(ours, 2), decimals(baseline, 2), ratio]);
}

fn path(n: usize) -> Result<SecretPath> {
    Ok(SecretPath::parse(&format!("bench/api/secret-{n}"))?)
}

fn passphrase() -> Passphrase {
    Passphrase::new(Zeroizing::new(PASSPHRASE.to_owned()))
}

fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

fn microseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1e6
}

#[expect(clippy::needless_pass_by_value, reason = "it stands in map_err")]
fn told(error: keyless_core::Error) -> Failure {
    error.message().into()
}
