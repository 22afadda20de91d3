//! Tells the operator's receivers which secrets were rotated or must not be used any more (NL-2.20, NL-8.24).
//!
//! The audit log is the queue: what happened is durable there before anybody is told, and what is kept beside
//! it is only how far each receiver has been told. So nothing is lost with the process, and what was being
//! sent when it ended is sent again, under the same `rotation_id`. A message has names and times, never a
//! value. In order for each receiver; one that does not answer holds up itself alone.

mod key;
mod message;
mod progress;
mod receiver;

use std::{sync::Arc, time::Duration};

use jiff::{SignedDuration, Timestamp};
use keyless_core::{
    Authority, Error, Grace, Scheme,
    audit::{Action, Detail, Draft, Entry, Outcome, Target},
};
use keyless_egress::{ClientRequest, Engine, Whose};
use keyless_store::{AuditLog, AuditQuery};
use keyless_vault::Vault;

pub(crate) use self::key::HookKey;
pub use self::receiver::{HookUrl, Webhook};
use self::{message::message, progress::Progress};
use super::rotation::{entries, log_end, told};
use crate::{
    broker::{agent, plain_entry},
    places::Places,
};

/// How often the log is looked at.
const PAUSE: Duration = Duration::from_secs(2);
/// Before the second try; each pause is twice the one before.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_mins(5);
/// What nobody took for so long is given up, and that is in the log.
const GIVEN_UP: SignedDuration = SignedDuration::from_hours(24);
/// Entries that are looked at together.
const AT_ONCE: u32 = 100;
/// More than a receiver says.
const MAX_ANSWER: usize = 64 << 10;

/// What telling needs.
#[derive(Clone)]
pub(crate) struct Telling {
    pub(crate) vault: Arc<Vault>,
    pub(crate) log: AuditLog,
    pub(crate) engine: Arc<Engine>,
    pub(crate) places: Places,
    pub(crate) grace: Grace,
}

/// Tells every receiver, until it is dropped.
pub(crate) async fn tell_all(telling: Telling, hooks: Vec<Webhook>) {
    let progress = Arc::new(Progress::of(&telling.places));
    let each = hooks.into_iter().map(|hook| tell(telling.clone(), hook, Arc::clone(&progress)));
    futures_util::future::join_all(each).await;
}

async fn tell(telling: Telling, hook: Webhook, progress: Arc<Progress>) {
    let mut told = progress.of_receiver(&hook.url);
    loop {
        // Without the log there is nothing to tell; it may be there again the next time.
        if let Ok(end) = log_end(&telling.vault).await {
            match told {
                // A new one is told what happens from now on.
                None => {
                    progress.save(&hook.url, end);
                    told = Some(end);
                }
                Some(from) => told = Some(tell_after(&telling, &hook, &progress, from, end).await),
            }
        }
        tokio::time::sleep(PAUSE).await;
    }
}

/// Tells what stands in the log behind `from`; gives how far that is. `end` was its end before it was read.
async fn tell_after(
    telling: &Telling,
    hook: &Webhook,
    progress: &Progress,
    from: u64,
    end: u64,
) -> u64 {
    let Ok(entries) = telling.after(from).await else { return from };
    let mut told = from;
    for entry in &entries {
        telling.deliver(hook, entry).await;
        told = entry.sequence;
        progress.save(&hook.url, told);
    }
    // Where there was nothing, it need not be looked at again.
    if entries.is_empty() { end } else { told }
}

impl Telling {
    /// What there is to tell behind an entry, oldest first.
    async fn after(&self, sequence: u64) -> Result<Vec<Entry>, Error> {
        let (after, limit) = (Some(sequence), Some(AT_ONCE));
        entries(&self.vault, &AuditQuery { after, limit, ..AuditQuery::default() }).await
    }

    /// Sends one entry until it is taken, or too old; then that is in the log.
    async fn deliver(&self, hook: &Webhook, entry: &Entry) {
        let mut pause = FIRST_PAUSE;
        loop {
            let sent = self.send(hook, entry).await;
            let at = entry.timestamp.parse::<Timestamp>().unwrap_or(Timestamp::UNIX_EPOCH);
            let is_old = Timestamp::now().duration_since(at) > GIVEN_UP;
            match sent {
                Ok(status) if (200..300).contains(&status) => {
                    return self.note(hook, entry, Outcome::Success, Some(status)).await;
                }
                other if is_old => {
                    return self.note(hook, entry, Outcome::Error, other.ok()).await;
                }
                _ => {}
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }

    async fn send(&self, hook: &Webhook, entry: &Entry) -> Result<u16, Error> {
        let payload = told(&self.vault, entry, self.grace.full).await;
        let body = message(entry, &payload, Timestamp::now()).to_string();
        let client = self.engine.client().map_err(|_| keyless_core::Code::ConfigInvalid)?;
        let HookUrl { scheme, authority, target } = &hook.url;
        let signing = hook.key.sign(&self.vault, &self.log, authority, body.as_bytes());
        let signature = signing.await?;
        let request = ClientRequest {
            method: "POST",
            target,
            headers: vec![
                ("content-type", keyless_core::nl_message::MEDIA_TYPE),
                ("user-agent", "keyless"),
                ("x-nl-signature", &signature),
            ],
            body: body.as_bytes(),
        };
        let (scheme, authority): (Scheme, &Authority) = (*scheme, authority);
        // Redirects are not followed, so that what is signed for one goes to no other.
        let sending = client.send(scheme, authority, Whose::Operators, &request, MAX_ANSWER);
        Ok(sending.await?.status)
    }

    async fn note(&self, hook: &Webhook, entry: &Entry, outcome: Outcome, status: Option<u16>) {
        let about =
            entry.target.parse().map_or(Target::Session, |path| Target::Secrets(vec![path]));
        let who = agent("broker", "broker");
        let draft = plain_entry(who, Action::RotationNotification, outcome, about);
        let detail =
            Detail { authority: Some(hook.url.authority.to_string()), status, ..Detail::default() };
        // A log that can't be written stops actions, and says so there.
        let _ = self.log.append(Draft { detail, ..draft }).await;
    }
}
