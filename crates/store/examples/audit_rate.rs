//! Measures the audit log: durable appends with many callers, fire-and-forget appends, and verify, without
//! and with the keys that vouch for each entry.
//!
//! `cargo run --release -p keyless-store --example audit_rate -- FOLDER [ENTRIES]`

use std::{env, error::Error, path::PathBuf, sync::Arc, time::Instant};

use jiff::Timestamp;
use keyless_core::audit::{Action, Agent, Detail, Draft, LogKeyId, Noted, Outcome, Target};
use keyless_store::{AuditLog, HeadSealer, Store};
use zeroize::Zeroizing;

/// Callers that each wait for their entry before they send the next.
const CALLERS: u64 = 512;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = env::args_os().skip(1);
    let folder = PathBuf::from(arguments.next().ok_or("a folder is missing")?);
    let entries = match arguments.next() {
        None => 100_000,
        Some(text) => text.to_string_lossy().parse()?,
    };
    let store = Store::create_or_open(&folder.join("audit-rate.db")).await?;
    let key: Arc<dyn HeadSealer> = Arc::new(Fixed);
    let mut writing = store.write().await?;
    writing.seal_audit_head(&*key).await?;
    writing.commit().await?;
    let log = AuditLog::start(&store, Some(Arc::clone(&key)));
    report("durable appends", entries, appends(&log, entries)).await?;
    report("appends without waiting", entries, soon(&log, entries)).await?;
    report("verified", entries * 2, verify(&store, None)).await?;
    report("verified with the keys", entries * 2, verify(&store, Some(&*key))).await
}

/// Keys as they cost, of which nobody asks that they are secret.
struct Fixed;

impl HeadSealer for Fixed {
    fn seal(&self, chain: &str, sequence: u64, entry_hash: &str) -> Vec<u8> {
        format!("{chain} {sequence} {entry_hash}").into_bytes()
    }

    fn seal_segment(&self, text: &str) -> Vec<u8> {
        text.as_bytes().to_vec()
    }

    fn seal_key(&self, text: &str) -> Vec<u8> {
        text.as_bytes().to_vec()
    }

    fn entry_key(&self, _: LogKeyId) -> Zeroizing<[u8; 32]> {
        [7; 32].into()
    }
}

async fn report(
    what: &str,
    count: u64,
    work: impl Future<Output = Result<(), Box<dyn Error>>>,
) -> Result<(), Box<dyn Error>> {
    let start = Instant::now();
    work.await?;
    let rate = u128::from(count) * 1_000_000 / start.elapsed().as_micros().max(1);
    println!("{what}: {rate} entries/s");
    Ok(())
}

async fn appends(log: &AuditLog, entries: u64) -> Result<(), Box<dyn Error>> {
    let callers: Vec<_> = (0..CALLERS)
        .map(|_| {
            let log = log.clone();
            tokio::spawn(async move {
                for _ in 0..entries / CALLERS {
                    log.append(draft()).await?;
                }
                Ok::<_, keyless_core::Error>(())
            })
        })
        .collect();
    for caller in callers {
        caller.await??;
    }
    Ok(())
}

async fn soon(log: &AuditLog, entries: u64) -> Result<(), Box<dyn Error>> {
    for _ in 0..entries {
        while log.append_soon(draft()).is_err() {
            log.flush().await?;
        }
    }
    Ok(log.flush().await?)
}

async fn verify(store: &Store, key: Option<&dyn HeadSealer>) -> Result<(), Box<dyn Error>> {
    store.audit_verify(key).await?;
    Ok(())
}

fn draft() -> Draft {
    Draft {
        at: Timestamp::now(),
        agent: Agent {
            uri: "nl://keyless.dev/run/0.1.0".to_owned(),
            organization_id: "local".to_owned(),
            session_id: "0192f0c1-0000-7000-8000-000000000001".to_owned(),
            delegated_by: "human:operator".to_owned(),
        }
        .into(),
        action: Action::Egress,
        target: Target::Session,
        outcome: Outcome::Success,
        secrets_used: Vec::new(),
        correlation_id: "req-0192f0c1-0000-7000-8000-000000000002".to_owned(),
        error_code: None,
        detail: Detail {
            method: Some("GET".to_owned()),
            path: Some("/repos/keyless/keyless/issues".to_owned()),
            status: Some(200),
            swaps: Some(1),
            ..Detail::default()
        },
        metadata: Noted::default(),
        allowed: None,
    }
}
