//! What is said on a connection of `agent.sock`, call by call.

use std::{
    collections::HashMap,
    path::PathBuf,
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use keyless_core::{Code, Error, SafeText, agent::Aid, nl_message::NlFault};
use keyless_mcp::Secrets as _;
use serde::de::IgnoredAny;
use serde_json::{Map, Value};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::UnixStream,
};

use super::{
    super::protocol::{Answer, Call, OURS, Status, UNREADABLE_CALL},
    Service,
    caller::{Bound, Caller},
    lines::Lines,
    sessions::DRAIN,
};
use crate::{
    agent_secrets::AgentSecrets,
    broker::session_id,
    deploys::{self, PACK_SESSION},
    nl::{NlService, serve_session},
    provenance::trust_level,
    session_book::{Entered, SessionKind},
    web::Locking,
};

/// How long what a status tells of the store and of files is waited for: less than the caller waits for the status.
const SOON: Duration = Duration::from_secs(2);

/// Said of the operator's services where their files could not be read that soon.
const UNREAD: &str = "the files could not be read in time, and what is wrong with them is unknown";

/// Answers until the other end hangs up, or what it stands for is over.
pub(super) async fn converse(service: Arc<Service>, stream: UnixStream, bound: Option<Arc<Bound>>) {
    let peer = stream.peer_cred().ok().and_then(|peer| peer.pid());
    let (reader, mut writer) = stream.into_split();
    let mut lines = Lines::of(reader);
    let mut caller = Caller { session: None, agent: None, entered: None, bound, peer };
    let mut closing = service.closing.subscribe();
    // Where it is said that a session lasted until its end was wanted.
    let mut last_word = None;
    loop {
        let line = tokio::select! {
            // What was sent before a session's end and is read after it counts for nothing.
            biased;
            () = caller.ended() => break,
            _ = closing.wait_for(|closing| *closing) => break,
            line = lines.next() => line,
        };
        let Some(line) = line else {
            last_word = (*service.lock.borrow() == Locking::No).then_some(writer);
            break;
        };
        if let Some(message) = nl_message(&line) {
            let agent = match service.speaks_as(&mut caller, &message).await {
                Ok(agent) => agent,
                Err(fault) => {
                    let _ = writer.write_all(&NlService::refusal(fault, &message)).await;
                    break;
                }
            };
            // It is read once more, as the first of many, and need not be there as long as they come.
            drop(message);
            let from = std::io::Cursor::new(line).chain(lines.rest());
            tokio::select! {
                biased;
                () = caller.ended() => {}
                _ = closing.wait_for(|closing| *closing) => {}
                () = serve_session(Arc::clone(&service.nl), from, writer, agent.as_ref(), Arc::default()) => {}
            }
            if let (Some(agent), None) = (agent, &caller.bound) {
                // Not to be written: it ends by its time, and nobody can speak as it any more.
                let _ = service.nl.close_session(&agent.instance_id).await;
            }
            break;
        }
        let answer = if let Ok(call) = serde_json::from_slice(&line) {
            service.answer(call, &mut caller).await
        } else {
            let detail = SafeText::words(UNREADABLE_CALL);
            Answer::error(&Error::with(Code::BadRequest, detail))
        };
        let Ok(mut text) = serde_json::to_vec(&answer) else { break };
        text.push(b'\n');
        let written = writer.write_all(&text).await;
        if matches!(answer, Answer::Locked) {
            // Only now, since the process ends with it; and also when nobody waits for the answer.
            service.lock.send_replace(Locking::Now);
        }
        if written.is_err() {
            break;
        }
    }
    if let Some(session) = caller.session {
        service.close(session).await;
        if let (Some(mut writer), Ok(text)) = (last_word, serde_json::to_vec(&Answer::Lasted)) {
            let _ = writer.write_all(&[&text, &b"\n"[..]].concat()).await;
        }
    }
    // A session of tools may have several connections, and what was approved is good for all of them.
    let was_last = caller.entered.is_some_and(Entered::leave);
    if let (Some(agent), None, true) = (caller.agent, caller.bound, was_last) {
        // Not to be written: then what was approved ends by its time, and nobody has the session's name.
        let _ = service.broker.requests().end_session(&agent).await;
    }
}

/// A line that is one of the NL Protocol's messages.
fn nl_message(line: &[u8]) -> Option<Map<String, Value>> {
    // Looked for first: what is none may hold an environment, which is not to be copied where nobody wipes it.
    #[expect(clippy::zero_sized_map_values, reason = "there is no set that passes values over")]
    let names: HashMap<String, IgnoredAny> = serde_json::from_slice(line).ok()?;
    if names.contains_key("nl_version") { serde_json::from_slice(line).ok() } else { None }
}

impl Service {
    async fn answer(self: &Arc<Self>, call: Call, caller: &mut Caller) -> Answer {
        match call {
            Call::Lock | Call::OpenSession { .. } if caller.bound.is_some() => {
                let detail = SafeText::words("this socket serves the tools of one session");
                Answer::error(&Error::with(Code::OperatorRequired, detail))
            }
            // Nothing is awaited: a store that another process keeps locked says nothing of this one.
            Call::Alive => Answer::Alive,
            Call::Hello { ticket } => {
                let ticket = match &caller.bound {
                    Some(bound) => self.ticket_for(bound.session.clone()),
                    None => self.ticket(ticket),
                };
                if caller.bound.is_none() && caller.entered.is_none() {
                    let kind = SessionKind::Tools;
                    caller.entered = Some(self.book.enter(&ticket.session, kind, Vec::new()));
                }
                caller.agent = Some(ticket.session.clone());
                Answer::Hello { ticket }
            }
            Call::Deploy { by, wanted } => {
                let bound = caller.bound.clone();
                let session = bound.as_ref().map_or(PACK_SESSION, |bound| bound.session.as_str());
                let requests = self.broker.requests();
                let asked = deploys::stand(requests, &self.places, session, by, wanted);
                match caller.while_it_lasts(Box::pin(asked)).await {
                    Ok(word) => Answer::Deploy { word },
                    Err(error) => Answer::error(&error),
                }
            }
            Call::Secrets { manifest, ask } => {
                let asked = match self.view(caller, manifest) {
                    Ok(secrets) => caller.while_it_lasts(Box::pin(secrets.ask(ask))).await,
                    Err(error) => Err(error),
                };
                match asked {
                    Ok(reply) => Answer::Secrets { reply: Box::new(reply) },
                    // A broker that is there with its store closed waits for a code; without codes it ends.
                    Err(error) if error.code() == Code::Locked => {
                        Answer::error(&Code::LockedForCode.into())
                    }
                    Err(error) => Answer::error(&error),
                }
            }
            Call::Placeholders { of } => match caller.placeholders(&of) {
                Ok(placeholders) => Answer::Placeholders { placeholders },
                Err(error) => Answer::error(&error),
            },
            Call::Lock => {
                // What a token endpoint is about to answer could not be stored any more.
                let values = self.broker.session_values();
                let _ = tokio::time::timeout(DRAIN, values.settle()).await;
                self.broker.vault().lock();
                self.lock.send_replace(Locking::Asked);
                Answer::Locked
            }
            Call::Reopen { code, seconds } => {
                let asked = seconds.map(Duration::from_secs);
                // Who has greeted as a session is one, whatever it sends.
                match self.keeper.reopen(&code, asked, caller.session_id()).await {
                    Ok(granted) => Answer::Reopened { seconds: granted.as_secs() },
                    Err(error) => Answer::error(&error),
                }
            }
            Call::Status => Answer::Status(self.status().await),
            Call::OpenSession { wanted, inherited, manifest, hide } if caller.session.is_none() => {
                let hide = hide.into_iter().map(PathBuf::from).collect();
                let hidden = self.broker.hidden().hide(hide);
                match self.open(&wanted, &inherited, manifest.as_deref(), hidden).await {
                    Ok((held, offer)) => {
                        let (id, paths) = (held.open.session.id(), held.open.paths.clone());
                        caller.entered = Some(self.book.enter(id, SessionKind::Run, paths));
                        caller.session = Some(held);
                        Answer::Session(offer)
                    }
                    Err(error) => Answer::error(&error),
                }
            }
            Call::OpenSession { .. } => {
                let detail = SafeText::words("this connection has a session already");
                Answer::error(&Error::with(Code::BadRequest, detail))
            }
        }
    }

    async fn status(&self) -> Status {
        // What can't be told soon is not waited for.
        let (provider_problems, waiting) = tokio::join!(
            tokio::time::timeout(SOON, self.provider_problems()),
            tokio::time::timeout(SOON, self.broker.requests().waiting()),
        );
        let config_problem = self.config_problem.lock().clone();
        let is_unagreed = |error: &Error| error.code() == Code::ConfigUnagreed;
        Status {
            pid: std::process::id(),
            locks_in_seconds: self.locks_in_seconds(),
            locked: !self.broker.vault().is_open(),
            takes_codes: self.keeper.takes_codes(),
            sessions: self.sessions.load(Ordering::Relaxed),
            waiting: waiting.ok().and_then(Result::ok),
            config_unagreed: config_problem.as_ref().is_some_and(is_unagreed),
            config_problem: config_problem.map(|error| error.message()),
            signing_problem: self.signing_problem.lock().clone(),
            provider_problems: provider_problems.unwrap_or_else(|_| vec![UNREAD.to_owned()]),
            version: Some(OURS.to_owned()),
            serves: Some(self.places.data().to_string_lossy().into_owned()),
        }
    }

    /// The agent that a connection is whose sender shows no credential: the session of its jail, or one of its own,
    /// which the operator can see and end.
    async fn speaks_as(
        &self,
        caller: &mut Caller,
        first: &Map<String, Value>,
    ) -> Result<Option<Aid>, NlFault> {
        if let Some(bound) = &caller.bound {
            return Ok(Some(bound.agent.clone()));
        }
        if first.get("payload").and_then(|payload| payload.get("credential")).is_some() {
            return Ok(None);
        }
        // Who has greeted as a session goes on as that one, so that what a person allowed it counts here.
        let session = caller.agent.get_or_insert_with(|| session_id("m"));
        let agent = self.nl.open_outside(session).await?;
        if caller.entered.is_none() {
            let entered = self.book.enter(session, SessionKind::Tools, Vec::new());
            caller.entered = Some(entered);
        }
        Ok(Some(agent))
    }

    fn locks_in_seconds(&self) -> u64 {
        self.keeper.locks_in().map_or(0, |rest| rest.as_secs())
    }

    fn view(&self, caller: &Caller, manifest: Option<String>) -> Result<AgentSecrets, Error> {
        let session = caller.agent.clone().ok_or_else(|| {
            Error::with(Code::BadRequest, SafeText::words("a greeting comes first"))
        })?;
        Ok(AgentSecrets {
            vault: Arc::clone(self.broker.vault()),
            requests: Arc::clone(self.broker.requests()),
            log: self.broker.log().clone(),
            session,
            given: caller.bound.as_ref().map(|bound| bound.secrets.clone()),
            declared: caller.bound.as_ref().map(|bound| bound.declared.clone()).unwrap_or_default(),
            manifest,
            last_manifest: Arc::clone(&self.last_manifest),
            index_file: self.places.index_file(),
            keeper: Arc::clone(&self.keeper),
            checks: Arc::clone(&self.checks),
            trust_level: trust_level(caller.peer),
            web: Arc::clone(&self.web),
        })
    }
}
