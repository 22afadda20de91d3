//! Signed ends of the log, kept beside it and wherever the operator puts a copy (NL-5.14, NL-5.15).
//!
//! The key is Ed25519, derived from the vault's, so that who can write the store can't sign; its public half
//! stands in every checkpoint. A log that was cut behind one, or replaced by an older one, does not fit it.

use std::{
    fs,
    io::{self, Write as _},
    os::unix::fs::OpenOptionsExt as _,
    path::{Path, PathBuf},
};

use aws_lc_rs::signature::{ED25519, Ed25519KeyPair, KeyPair as _, UnparsedPublicKey};
use data_encoding::BASE64URL_NOPAD;
use jiff::Timestamp;
use keyless_core::{
    Code, Error, SafeText,
    audit::{Action, Checkpoint, Draft, Entry, Outcome, Target},
};
use keyless_store::{AuditLog, Fit, LogError, MissedEnd, Store, VerifiedChain};
use keyless_vault::{Factor, Vault};
use uuid::Uuid;

use crate::{
    broker::{agent, plain_entry},
    opening::open_vault,
    places::{Places, unusable},
};

const PREFIX: &str = "EdDSA:";

/// How a log is to be verified.
#[derive(Debug, Default)]
pub struct LogCheck {
    /// Opens the vault, whose key then vouches for the end and the checkpoints.
    pub factor: Option<Factor>,
    /// Only what was written since the newest checkpoint.
    pub incremental: bool,
    /// Checkpoints that were kept elsewhere; those beside the store when absent.
    pub checkpoints: Option<PathBuf>,
    /// The key that must have signed them.
    pub key: Option<String>,
}

/// A log that is whole.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VerifiedLog {
    /// Each chain of it.
    pub chains: Vec<VerifiedChain>,
    /// How many checkpoints fit; those about entries that are not here are not among them.
    pub checkpoints: usize,
}

/// Signs where every chain of the log ends now; gives what was signed, which is also appended to the file
/// beside the store. Fails with [`Code::AuditTampered`], and signs none, where the vault's key does not vouch for an end
/// or one that it contains: a signature would make a cut good.
pub async fn sign_log(
    vault: &Vault,
    log: &AuditLog,
    places: &Places,
) -> Result<Vec<Checkpoint>, Error> {
    log.append(entry()).await?;
    let key = signing_key(vault)?;
    let public_key = BASE64URL_NOPAD.encode(key.public_key().as_ref());
    let mut signed = Vec::new();
    for (chain, last) in vault.store().audit_vouched_ends(&*vault.head_sealer()).await? {
        let (id, now) = (format!("chk_{}", Uuid::now_v7()), format!("{:.3}", Timestamp::now()));
        let mut checkpoint = Checkpoint::of(&chain, &last, id, public_key.clone(), now);
        let signature = key.sign(checkpoint.signed_text().as_bytes());
        checkpoint.signature = format!("{PREFIX}{}", BASE64URL_NOPAD.encode(signature.as_ref()));
        signed.push(checkpoint);
    }
    append(&places.checkpoints_file(), &signed)?;
    Ok(signed)
}

/// Whether something was written since the end was signed last.
pub(crate) async fn has_grown(vault: &Vault) -> bool {
    let grown =
        |ends: Vec<(String, Entry)>| ends.iter().any(|(_, last)| last.action != Action::Checkpoint);
    vault.store().audit_ends().await.is_ok_and(grown)
}

/// Verifies the log, and that every checkpoint fits it.
///
/// Fails with [`Code::AuditTampered`], and with [`Code::Usage`] when there is no checkpoint to begin at.
pub async fn verify_log(
    store: Store,
    places: &Places,
    check: LogCheck,
) -> Result<VerifiedLog, Error> {
    let vault = match check.factor {
        Some(factor) => Some(open_vault(store.clone(), factor).await?),
        None => None,
    };
    let key = match &vault {
        Some(vault) => Some(BASE64URL_NOPAD.encode(signing_key(vault)?.public_key().as_ref())),
        None => check.key.clone(),
    };
    if check.key.is_some_and(|given| Some(given) != key) {
        let words = "the --key that was given is not this vault's";
        return Err(Error::with(Code::Usage, SafeText::words(words)));
    }
    let checkpoints = match check.checkpoints {
        Some(file) => named(&file)?,
        None => read(&places.checkpoints_file())?,
    };
    let mut fit = 0;
    for checkpoint in &checkpoints {
        if !is_signed(checkpoint, key.as_deref()) {
            return Err(unfit(checkpoint, "has not the signature of that key"));
        }
        match store.audit_fits(checkpoint).await.map_err(told)? {
            Fit::Fits => fit += 1,
            Fit::NotHere => {}
            Fit::Unfit => {
                return Err(unfit(checkpoint, "does not fit: the log was cut or replaced"));
            }
        }
    }
    let starts = if check.incremental { newest(&checkpoints) } else { Vec::new() };
    if check.incremental && starts.is_empty() {
        let words = "there is no checkpoint to begin at: keyless audit checkpoint makes one";
        return Err(Error::with(Code::Usage, SafeText::words(words)));
    }
    let sealer = vault.as_ref().map(Vault::head_sealer);
    let chains = store.audit_verify_after(sealer.as_deref(), &starts).await;
    Ok(VerifiedLog { chains: chains.map_err(told)?, checkpoints: fit })
}

/// The ends of our own chain that this vault has signed and that the log has not.
pub(crate) async fn missed_ends(
    vault: &Vault,
    places: &Places,
    checkpoints: Option<&Path>,
) -> Result<Vec<MissedEnd>, Error> {
    let checkpoints = match checkpoints {
        Some(file) => named(file)?,
        None => read(&places.checkpoints_file())?,
    };
    let key = BASE64URL_NOPAD.encode(signing_key(vault)?.public_key().as_ref());
    let store = vault.store();
    let mut missed = Vec::new();
    for checkpoint in &checkpoints {
        if checkpoint.chain != store.audit_chain() || !is_signed(checkpoint, Some(&key)) {
            continue;
        }
        // What can't be read is found where the log itself is verified.
        if let Ok(Fit::Unfit) = store.audit_fits(checkpoint).await {
            let sequence = checkpoint.last_sequence;
            let found = format!("the checkpoint at entry {sequence} does not fit");
            missed.push(MissedEnd { sequence, found });
        }
    }
    Ok(missed)
}

/// As [`Code::AuditTampered`], if it is the log and not the store that is at fault.
pub(crate) fn told(error: LogError) -> Error {
    match error {
        LogError::Store(error) => error.into(),
        other => tampered(SafeText::default().as_they_wrote(&other.to_string())),
    }
}

/// The last one of each chain.
fn newest(checkpoints: &[Checkpoint]) -> Vec<Checkpoint> {
    let mut newest: Vec<Checkpoint> = Vec::new();
    for checkpoint in checkpoints {
        match newest.iter_mut().find(|one| one.chain == checkpoint.chain) {
            Some(one) if one.last_sequence < checkpoint.last_sequence => {
                one.clone_from(checkpoint);
            }
            Some(_) => {}
            None => newest.push(checkpoint.clone()),
        }
    }
    newest
}

fn is_signed(checkpoint: &Checkpoint, key: Option<&str>) -> bool {
    let public_key = BASE64URL_NOPAD.decode(checkpoint.public_key.as_bytes());
    let signature = checkpoint.signature.strip_prefix(PREFIX).map(str::as_bytes);
    let (Ok(public_key), Some(Ok(signature))) =
        (public_key, signature.map(|text| BASE64URL_NOPAD.decode(text)))
    else {
        return false;
    };
    let signed = UnparsedPublicKey::new(&ED25519, public_key)
        .verify(checkpoint.signed_text().as_bytes(), &signature);
    signed.is_ok() && key.is_none_or(|key| key == checkpoint.public_key)
}

fn signing_key(vault: &Vault) -> Result<Ed25519KeyPair, Error> {
    let seed = zeroize::Zeroizing::new(vault.checkpoint_voucher().seal(b"ed25519"));
    Ed25519KeyPair::from_seed_unchecked(&seed).map_err(|_| Code::Internal.into())
}

fn entry() -> Draft {
    plain_entry(agent("broker", "broker"), Action::Checkpoint, Outcome::Success, Target::Log)
}

fn append(file: &Path, signed: &[Checkpoint]) -> Result<(), Error> {
    let mut text = String::new();
    for checkpoint in signed {
        text += &serde_json::to_string(checkpoint).unwrap_or_default();
        text.push('\n');
    }
    let opened = fs::OpenOptions::new().create(true).append(true).mode(0o600).open(file);
    let written = opened.and_then(|mut file| {
        file.write_all(text.as_bytes())?;
        file.sync_data()
    });
    written.map_err(|error| unusable(file, &error))
}

/// Those of a file that somebody names: it is there, and holds at least one.
fn named(file: &Path) -> Result<Vec<Checkpoint>, Error> {
    let place = || SafeText::default().as_they_wrote(&file.to_string_lossy());
    if !file.exists() {
        return Err(Error::with(Code::PathUnusable, place().and(": it is not there")));
    }
    let checkpoints = read(file)?;
    if checkpoints.is_empty() {
        return Err(Error::with(Code::PathUnusable, place().and(" holds no checkpoint")));
    }
    Ok(checkpoints)
}

/// Those of a file, which need not be there.
fn read(file: &Path) -> Result<Vec<Checkpoint>, Error> {
    let text = match fs::read_to_string(file) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(unusable(file, &error)),
    };
    let lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
    let read = lines.map(|(at, line)| {
        serde_json::from_str(line).map_err(|_| {
            let place = SafeText::default().as_they_wrote(&file.to_string_lossy());
            let words = place.and(", line ").and(at + 1);
            let words = words.and(": it is no checkpoint as keyless audit checkpoint writes them");
            Error::with(Code::PathUnusable, words)
        })
    });
    read.collect()
}

fn unfit(checkpoint: &Checkpoint, why: &'static str) -> Error {
    let words = SafeText::words("the checkpoint at entry ").number(checkpoint.last_sequence);
    tampered(words.and(" ").and(why))
}

fn tampered(words: SafeText) -> Error {
    Error::with(Code::AuditTampered, words)
}
