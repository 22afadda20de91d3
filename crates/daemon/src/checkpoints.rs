//! Signed ends of the log, kept beside it and wherever the operator puts a copy (NL-5.14, NL-5.15).
//!
//! The key is Ed25519, derived from the vault's, so that who can write the store can't sign; its public half
//! stands in every checkpoint. A log that was cut behind one, or replaced by an older one, does not fit it.

use std::{
    fs,
    io::{self, Read as _, Write as _},
    os::unix::fs::OpenOptionsExt as _,
    path::{Path, PathBuf},
    thread,
    time::{Duration, Instant},
};

use aws_lc_rs::signature::{ED25519, Ed25519KeyPair, KeyPair as _, UnparsedPublicKey};
use data_encoding::BASE64URL_NOPAD;
use jiff::Timestamp;
use keyless_core::{
    Code, Error, SafeText,
    audit::{Action, Checkpoint, Draft, Outcome, Target},
};
use keyless_store::{AuditLog, Fit, LogError, MissedEnd, Store, TamperedAt, VerifiedChain};
use keyless_vault::{Factor, Vault};
use tokio::task::spawn_blocking;
use uuid::Uuid;

use crate::{
    broker::{agent, plain_entry},
    opening::open_vault,
    places::{Places, unusable},
};

const PREFIX: &str = "EdDSA:";
/// For how long it is waited while another process signs.
const LOCKED_FOR: Duration = Duration::from_secs(10);
/// How often it is looked whether that one is done.
const LOOK: Duration = Duration::from_millis(20);

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
    /// How many checkpoints fit.
    pub checkpoints: usize,
    /// How many more are about entries that are not here, of which they say nothing.
    pub elsewhere: usize,
}

/// Why a log was not verified.
#[derive(Debug)]
pub struct Unverified {
    /// What a person is told.
    pub error: Error,
    /// Where the log is not what was written, if that is why.
    pub place: Option<TamperedAt>,
}

impl From<Error> for Unverified {
    fn from(error: Error) -> Self {
        Self { error, place: None }
    }
}

impl From<LogError> for Unverified {
    fn from(error: LogError) -> Self {
        let place = error.place();
        Self { error: told(error), place }
    }
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
    let file = places.checkpoints_file();
    // It grows without end, and is read and synced: work for a thread of its own.
    let appended = spawn_blocking(move || append(&file, &signed).map(|()| signed));
    appended.await.map_err(|_| Error::from(Code::Internal))?
}

/// Whether something was written since the end was signed last.
pub(crate) async fn has_grown(vault: &Vault) -> Result<bool, Error> {
    let ends = vault.store().audit_ends().await?;
    Ok(ends.iter().any(|(_, last)| last.action != Action::Checkpoint))
}

/// Verifies the log, and that every checkpoint fits it.
///
/// Fails with [`Code::AuditTampered`], and with [`Code::StateUnfit`] when there is no checkpoint to begin at.
pub async fn verify_log(
    store: Store,
    places: &Places,
    check: LogCheck,
) -> Result<VerifiedLog, Unverified> {
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
        return Err(Error::with(Code::Usage, SafeText::words(words)).into());
    }
    let checkpoints = match check.checkpoints {
        Some(file) => named(&file)?,
        None => own(places)?,
    };
    let sealer = vault.as_ref().map(Vault::head_sealer);
    let (mut fit, mut elsewhere) = (0, 0);
    for checkpoint in &checkpoints {
        if !is_signed(checkpoint, key.as_deref()) {
            return Err(unfit(checkpoint, "has not the signature of that key"));
        }
        match store.audit_fits(checkpoint, sealer.as_deref()).await? {
            Fit::Fits => fit += 1,
            Fit::NotHere => elsewhere += 1,
            Fit::Unfit => {
                return Err(unfit(checkpoint, "does not fit: the log was cut or replaced"));
            }
        }
    }
    let starts = if check.incremental { newest(&checkpoints) } else { Vec::new() };
    if check.incremental && starts.is_empty() {
        let words = "there is no checkpoint to begin at: keyless audit checkpoint makes one";
        return Err(Error::with(Code::StateUnfit, SafeText::words(words)).into());
    }
    let chains = store.audit_verify_after(sealer.as_deref(), &starts).await?;
    Ok(VerifiedLog { chains, checkpoints: fit, elsewhere })
}

/// As many checkpoints are a moment's work: about a day's of a broker.
const NEWEST_CHECKPOINTS: usize = 24;

/// Verifies the newest `count` entries of each chain, and that the newest checkpoints fit; needs no key. Gives how
/// many entries were read, and how many there are. Fails as [`verify_log`] does.
pub(crate) async fn verify_newest(
    store: &Store,
    places: &Places,
    count: usize,
) -> Result<(u64, u64), Unverified> {
    let checkpoints = own(places)?;
    for checkpoint in checkpoints.iter().rev().take(NEWEST_CHECKPOINTS) {
        if !is_signed(checkpoint, None) {
            return Err(unfit(checkpoint, "has not the signature of that key"));
        }
        if store.audit_fits(checkpoint, None).await? == Fit::Unfit {
            return Err(unfit(checkpoint, "does not fit: the log was cut or replaced"));
        }
    }
    let chains = store.audit_verify_newest(u64::try_from(count).unwrap_or(u64::MAX)).await?;
    Ok(chains.iter().fold((0, 0), |(read, all), one| (read + one.read, all + one.entries)))
}

/// The ends of our own chain that this vault has signed and that the log has not.
pub(crate) async fn missed_ends(
    vault: &Vault,
    places: &Places,
    checkpoints: Option<&Path>,
) -> Result<Vec<MissedEnd>, Error> {
    let checkpoints = match checkpoints {
        Some(file) => named(file)?,
        None => own(places)?,
    };
    let key = BASE64URL_NOPAD.encode(signing_key(vault)?.public_key().as_ref());
    let store = vault.store();
    let mut missed = Vec::new();
    for checkpoint in &checkpoints {
        if checkpoint.chain != store.audit_chain() || !is_signed(checkpoint, Some(&key)) {
            continue;
        }
        // What can't be read is found where the log itself is verified.
        if let Ok(Fit::Unfit) = store.audit_fits(checkpoint, None).await {
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

/// Appends to the file. Blocks; fails with [`Code::PathUnusable`] where another process has it for longer than it takes to sign.
fn append(file: &Path, signed: &[Checkpoint]) -> Result<(), Error> {
    let mut text = String::new();
    for checkpoint in signed {
        text += &serde_json::to_string(checkpoint).unwrap_or_default();
        text.push('\n');
    }
    let opened = fs::OpenOptions::new().create(true).read(true).append(true).mode(0o600).open(file);
    let written = opened.and_then(|mut file| {
        // Until it is closed: who signs at the same time would be taken for what was torn.
        lock(&file)?;
        let mut before = Vec::new();
        file.read_to_end(&mut before)?;
        let whole = whole_length(&before);
        if whole < before.len() {
            file.set_len(whole as u64)?;
        } else if !before.is_empty() && !before.ends_with(b"\n") {
            text.insert(0, '\n');
        }
        let added = file.write_all(text.as_bytes()).and_then(|()| file.sync_data());
        // The next one is not to stand behind half a line.
        added.inspect_err(|_| drop(file.set_len(whole as u64)))
    });
    written.map_err(|error| match error.kind() {
        io::ErrorKind::WouldBlock => {
            let place = SafeText::default().as_they_wrote(&file.to_string_lossy());
            let words = place.and(": another process keeps it locked; retry");
            Error::with(Code::PathUnusable, words)
        }
        _ => unusable(file, &error),
    })
}

/// Locks the file until it is closed. A process that was stopped while it had it keeps nobody waiting for ever.
fn lock(file: &fs::File) -> io::Result<()> {
    let until = Instant::now() + LOCKED_FOR;
    loop {
        match file.try_lock() {
            Err(fs::TryLockError::WouldBlock) if Instant::now() < until => thread::sleep(LOOK),
            Err(fs::TryLockError::WouldBlock) => return Err(io::ErrorKind::WouldBlock.into()),
            Err(fs::TryLockError::Error(error)) => return Err(error),
            Ok(()) => return Ok(()),
        }
    }
}

/// How many bytes are left without a last line that a crash or a full disk has torn: that one was acknowledged to nobody.
fn whole_length(bytes: &[u8]) -> usize {
    let last = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
    let is_whole = serde_json::from_slice::<Checkpoint>(&bytes[last..]).is_ok();
    if is_whole { bytes.len() } else { last }
}

/// The checkpoints of a file that somebody names: it is there, and holds at least one.
fn named(file: &Path) -> Result<Vec<Checkpoint>, Error> {
    let place = || SafeText::default().as_they_wrote(&file.to_string_lossy());
    if !file.exists() {
        return Err(Error::with(Code::PathUnusable, place().and(": it is not there")));
    }
    let text = fs::read_to_string(file).map_err(|error| unusable(file, &error))?;
    let checkpoints = read(&text, file, Code::PathUnusable)?;
    if checkpoints.is_empty() {
        return Err(Error::with(Code::PathUnusable, place().and(" holds no checkpoint")));
    }
    Ok(checkpoints)
}

/// The checkpoints beside the store, where there need not be any.
fn own(places: &Places) -> Result<Vec<Checkpoint>, Error> {
    let file = places.checkpoints_file();
    let mut bytes = match fs::read(&file) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(unusable(&file, &error)),
    };
    bytes.truncate(whole_length(&bytes));
    read(&String::from_utf8_lossy(&bytes), &file, Code::StoreUnusable)
}

/// The checkpoints of a file's text; fails with `fault` when a line is none.
fn read(text: &str, file: &Path, fault: Code) -> Result<Vec<Checkpoint>, Error> {
    let lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
    let read = lines.map(|(at, line)| {
        serde_json::from_str(line).map_err(|_| {
            let place = SafeText::default().as_they_wrote(&file.to_string_lossy());
            let words = place.and(", line ").and(at + 1);
            let words = words.and(": it is no checkpoint as keyless audit checkpoint writes them");
            Error::with(fault, words)
        })
    });
    read.collect()
}

fn unfit(checkpoint: &Checkpoint, why: &'static str) -> Unverified {
    let words = SafeText::words("the checkpoint at entry ").number(checkpoint.last_sequence);
    let (chain, sequence) = (checkpoint.chain.clone(), Some(checkpoint.last_sequence));
    let place = TamperedAt { chain, sequence, kind: "checkpoint_mismatch", hashes: None };
    Unverified { error: tampered(words.and(" ").and(why)), place: Some(place) }
}

fn tampered(words: SafeText) -> Error {
    Error::with(Code::AuditTampered, words)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scene::Scene;

    #[tokio::test]
    async fn a_line_that_was_torn_costs_no_other() {
        let (scene, home) = (Scene::new().await, tempfile::tempdir().unwrap());
        let places = Places::below(home.path());
        let file = places.checkpoints_file();
        let sign = || sign_log(&scene.vault, &scene.log, &places);
        let first = sign().await.unwrap();
        let whole = fs::read(&file).unwrap();
        for torn in [&whole[..], &whole[..whole.len() / 2], &whole[..1]].map(<[u8]>::trim_ascii_end)
        {
            let fits = if torn.len() + 1 == whole.len() { 2 } else { 1 };
            fs::write(&file, [&whole, torn].concat()).unwrap();
            assert_eq!(own(&places).unwrap().len(), fits);
            let second = sign().await.unwrap();
            let all = own(&places).unwrap();
            assert_eq!((all.len(), &all[0], all.last()), (fits + 1, &first[0], second.last()));
            assert!(fs::read(&file).unwrap().ends_with(b"\n"));
        }
        fs::write(&file, [b"{}\n", &whole[..]].concat()).unwrap();
        let fault = own(&places).unwrap_err();
        assert_eq!(fault.code(), Code::StoreUnusable);
        assert!(fault.message().contains("line 1"), "{}", fault.message());
    }

    /// A process that was stopped there would stop every broker of the home, one worker each time that it signs.
    #[tokio::test]
    async fn who_keeps_the_file_locked_keeps_nobody_for_ever_and_nothing_else_meanwhile() {
        let (scene, home) = (Scene::new().await, tempfile::tempdir().unwrap());
        let places = Places::below(home.path());
        let file = places.checkpoints_file();
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        let holder = fs::File::create(&file).unwrap();
        holder.lock().unwrap();
        // There is one worker here, which has this as well.
        let letting_go = async {
            tokio::time::sleep(Duration::from_millis(100)).await;
            drop(holder);
        };
        let (signed, ()) = tokio::join!(sign_log(&scene.vault, &scene.log, &places), letting_go);
        assert_eq!(signed.unwrap().len(), 1);
        let holder = fs::File::open(&file).unwrap();
        holder.lock().unwrap();
        let refused = sign_log(&scene.vault, &scene.log, &places).await.unwrap_err();
        assert!(refused.message().contains("another process"), "{}", refused.message());
    }
}
