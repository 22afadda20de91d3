//! Confirm tokens: the apply carries out the plan that was reviewed, once, soon, or not at all.
//!
//! A token is bound to the caller's arguments, defaults written out, and to the digest of the plan that the
//! caller saw, adopted files and warnings included. Only its digest is stored (`state/confirm.json`), so a
//! server may restart in between. It is taken out under the home's lock before anything is written.
//! Source: shared/spec/agentpack-mcp.md.

use std::{
    fs::{self, OpenOptions},
    path::PathBuf,
};

use jiff::Timestamp;
use rustix::fs::{FlockOperation, flock};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::{
    apply::{After, Step, write_durably},
    clock,
    deploy::DeployData,
    error::{Code, PackError, Result},
    gate::Pending,
    paths::shown,
    plain_file,
    plan::Plan,
    sha::Sha,
    site::{Request, Site},
};

/// How long a token lives, in seconds.
const LIFE: i64 = 600;
/// How long an expired one is remembered, so that its owner hears that it expired.
const REMEMBERED: i64 = 24 * 3600;
/// How many are kept; the oldest go first.
const MOST: usize = 1000;

/// A new token, as the `deploy` tool shows it.
#[derive(Clone, Debug)]
pub(crate) struct Issued {
    pub(crate) token: String,
    pub(crate) plan_hash: String,
    pub(crate) expires_at: String,
}

#[derive(Debug, Default, Serialize, Deserialize)]
struct File {
    version: u32,
    tokens: Vec<Row>,
}

#[derive(Debug, Serialize, Deserialize)]
struct Row {
    token_sha256: Sha,
    binding: Sha,
    plan_hash: String,
    expires_at: String,
}

/// The digest of a plan under these arguments.
pub(crate) fn plan_hash(site: &Site, request: &Request, plan: &Plan) -> String {
    // A value's keys are sorted, so equal plans have equal texts.
    let reviewed = json!({
        "binding": bound(site, request),
        "data": DeployData::of(site, plan),
        "modes": modes(&plan.steps),
        "warnings": plan.warnings,
    });
    Sha::of(reviewed.to_string().as_bytes()).to_string()
}

/// The digest of what a command without a token is about to write.
pub(crate) fn pending_hash(site: &Site, request: &Request, pending: &Pending<'_>) -> String {
    let reviewed = json!({
        "binding": bound(site, request),
        "command": pending.command,
        "subject": pending.subject,
        "source": shown(&pending.source),
        "changes": pending.changes,
        "modes": modes(pending.steps),
    });
    Sha::of(reviewed.to_string().as_bytes()).to_string()
}

/// What the steps leave behind beside bytes.
fn modes(steps: &[Step]) -> Vec<Value> {
    let mode = |step: &Step| match &step.after {
        After::Absent => Value::Null,
        After::File { executable, .. } => json!({ "executable": executable }),
        After::Link(target) => json!({ "link": target }),
        After::Restored { mode, .. } => json!({ "mode": mode }),
    };
    steps.iter().map(mode).collect()
}

/// Makes a token for a plan and remembers it.
pub(crate) fn issue(site: &Site, request: &Request, plan_hash: String) -> Result<Issued> {
    let token = random_token()?;
    let expires_at = clock::after(LIFE);
    let row = Row {
        token_sha256: Sha::of(token.as_bytes()),
        binding: binding(site, request),
        plan_hash: plan_hash.clone(),
        expires_at: expires_at.clone(),
    };
    with_file(site, |file| {
        let now = Timestamp::now();
        file.tokens.retain(|row| age(row, now).is_some_and(|age| age < REMEMBERED));
        let surplus = (file.tokens.len() + 1).saturating_sub(MOST);
        file.tokens.drain(..surplus);
        file.tokens.push(row);
        Ok(())
    })?;
    Ok(Issued { token, plan_hash, expires_at })
}

/// Checks a token against the plan as it is now; does not use it up.
pub(crate) fn check(
    site: &Site,
    token: Option<&str>,
    request: &Request,
    plan_hash: &str,
) -> Result<()> {
    let token = given(token)?;
    with_file(site, |file| {
        let wanted = Sha::of(token.as_bytes());
        let row = file.tokens.iter().find(|row| row.token_sha256 == wanted).ok_or_else(|| {
            mismatch("the confirm token is not known: it was never issued, or it has been used")
        })?;
        if age(row, Timestamp::now()).is_none_or(|age| age >= 0) {
            return Err(PackError::new(Code::ConfirmTokenExpired, "the confirm token has expired")
                .with("expired_at", row.expires_at.clone())
                .hint("call deploy again, review the plan, and apply within ten minutes"));
        }
        if row.binding != binding(site, request) {
            return Err(mismatch("the confirm token was issued for other arguments"));
        }
        if row.plan_hash != plan_hash {
            return Err(mismatch("the plan is not the one that was reviewed any more")
                .with("confirm_plan_hash", plan_hash)
                .with("expected_confirm_plan_hash", row.plan_hash.clone()));
        }
        Ok(())
    })
}

/// Uses a token up. The caller holds the home's lock and has checked it.
pub(crate) fn take(site: &Site, token: Option<&str>) -> Result<()> {
    let wanted = Sha::of(given(token)?.as_bytes());
    with_file(site, |file| {
        let before = file.tokens.len();
        file.tokens.retain(|row| row.token_sha256 != wanted);
        if file.tokens.len() == before {
            Err(mismatch("the confirm token has just been used"))
        } else {
            Ok(())
        }
    })
}

fn given(token: Option<&str>) -> Result<&str> {
    token.filter(|token| !token.is_empty()).ok_or_else(|| {
        PackError::new(
            Code::ConfirmTokenRequired,
            "deploy_apply needs the confirm token of a reviewed plan",
        )
        .hint("call deploy, review the plan, then call deploy_apply with its confirm_token")
    })
}

fn mismatch(message: &str) -> PackError {
    PackError::new(Code::ConfirmTokenMismatch, message)
        .hint("call deploy again with the same arguments, review the plan, then apply it")
}

/// Seconds since it expired; negative while it lives, `None` when its time can't be read.
fn age(row: &Row, now: Timestamp) -> Option<i64> {
    let expires = clock::parse(&row.expires_at)?;
    let left = expires.as_second() - now.as_second();
    // A clock that was set back does not lengthen a life.
    (left <= LIFE).then_some(-left)
}

/// What a token is bound to: the arguments, and the project that the caller meant. Whether files are adopted is no
/// argument of the review; which ones would be is in the plan.
fn bound(site: &Site, request: &Request) -> Value {
    json!({
        "project": shown(&site.project_root),
        "machine": request.machine,
        "profile": request.profile,
        "repo": request.repo,
        "target": request.target,
    })
}

fn binding(site: &Site, request: &Request) -> Sha {
    Sha::of(bound(site, request).to_string().as_bytes())
}

fn random_token() -> Result<String> {
    let mut bytes = [0_u8; 32];
    match getrandom::fill(&mut bytes) {
        Ok(()) => Ok(Sha::of(&bytes).to_string()),
        Err(_) => Err(PackError::new(Code::Unexpected, "the system gives no random numbers")),
    }
}

/// Reads, changes and writes the file as its only user. A file that can't be read holds no tokens.
fn with_file<T>(site: &Site, change: impl FnOnce(&mut File) -> Result<T>) -> Result<T> {
    let folder = site.state();
    fs::create_dir_all(&folder).map_err(|error| PackError::io("create", &folder, &error))?;
    let guard: PathBuf = folder.join("confirm.lock");
    let fault = |error: std::io::Error| PackError::io("lock", &guard, &error);
    let lock = OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .open(&guard)
        .map_err(fault)?;
    flock(&lock, FlockOperation::LockExclusive).map_err(|error| fault(error.into()))?;
    let path = folder.join("confirm.json");
    let text = plain_file::read_to_string(&path).unwrap_or_default();
    let mut file: File = serde_json::from_str(&text).unwrap_or_default();
    file.version = 1;
    let given = change(&mut file)?;
    let after = serde_json::to_string(&file).expect("strings and numbers");
    if after != text {
        write_durably(&path, after.as_bytes())?;
    }
    Ok(given)
}
