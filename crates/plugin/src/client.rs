//! The broker's end: starts a plugin when it is needed, asks it one thing at a time, ends it.
//!
//! ```text
//! Idle ──ask──► Running ──60 s without a question──► Idle
//!                  │ hangs, floods, lies or dies
//!                  ▼
//!               Recovering ──third time within a minute──► Disabled, until less than three lie within one
//! ```
//!
//! What was begun is done to its end, whether or not whoever asked still waits: an answer that nobody took would be
//! taken for that to the next question. Every question has a deadline, every line a length. The program is read, compared with its
//! checksum and started from there, so it can't be swapped in between; it gets no
//! environment but what the operator grants it. Stderr is drained and dropped: it may hold values.

mod group;
mod process;
mod program;

use std::{
    collections::VecDeque,
    io,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use serde::{Serialize, de::DeserializeOwned};
use serde_json::value::RawValue;
use tokio::{sync::Mutex, time::Instant};

use self::process::Process;
pub use self::{
    group::ProcessGroup,
    program::{HeldProgram, open_checked},
};
use crate::messages::{
    Availability, DeleteReply, Entry, Fault, Found, Got, Init, InitReply, ListReply, Nothing,
    PROTOCOL_VERSION, PutParams, PutReply, Reference, Text, ValidateReply,
};

const CRASHES: usize = 3;
const CRASH_WINDOW: Duration = Duration::from_mins(1);

/// How a plugin is started.
#[derive(Debug)]
pub struct Launch {
    /// The name that it has to answer with.
    pub name: String,
    /// The program; absolute.
    pub program: PathBuf,
    /// SHA-256 of the program, 64 hex digits of either case.
    pub checksum_sha256: String,
    /// The whole environment that it gets.
    pub environment: Vec<(String, Text)>,
    /// The source's settings, delivered with `init`: JSON.
    pub config: Text,
    /// How long it may take.
    pub limits: Limits,
}

/// How long a plugin may take.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// For any answer.
    pub answer: Duration,
    /// Without a question, before it is ended.
    pub idle: Duration,
    /// Between SIGTERM and SIGKILL.
    pub grace: Duration,
}

/// Why a plugin gave no answer. Never holds what it wrote, except its own faults.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// The program is not the one that was allowed.
    #[error("the program's checksum is not the one that was allowed")]
    Checksum,
    /// It died without an answer.
    #[error("the plugin ended without an answer")]
    Died,
    /// It failed too often.
    #[error(
        "the plugin failed {CRASHES} times within a minute; it is started again at the next question after that minute"
    )]
    Disabled,
    /// It said so itself.
    #[error(transparent)]
    Fault(#[from] Fault),
    /// It answered something else than what was asked.
    #[error("the plugin answered something else than what was asked")]
    Lied,
    /// A line was too long.
    #[error("the plugin wrote a line of over 1 MiB")]
    TooLong,
    /// It took too long.
    #[error("the plugin did not answer in time")]
    TimedOut,
    /// It can't be started.
    #[error("the plugin can't be started: {0}")]
    Unstartable(io::ErrorKind),
    /// Others can change the program.
    #[error("the program can be changed by others, or is no regular file")]
    Unsafe,
}

/// One plugin. Clones ask the same one.
#[derive(Clone)]
pub struct PluginClient {
    launch: Arc<Launch>,
    inner: Arc<Mutex<Inner>>,
}

#[derive(Default)]
struct Inner {
    running: Option<Running>,
    failures: VecDeque<Instant>,
    next_id: u64,
    /// Counts questions, so that the idle timer knows whether another one came.
    asked: u64,
}

struct Running {
    process: Process,
    capabilities: u32,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            answer: Duration::from_secs(30),
            idle: Duration::from_mins(1),
            grace: Duration::from_secs(10),
        }
    }
}

/// Whether `program` could be started as a plugin: it is there, nobody else can change it, and it has the checksum that
/// was allowed. Starts nothing. Blocks.
pub fn check_program(program: &Path, checksum_sha256: &str) -> Result<(), ClientError> {
    program::open_checked(program, checksum_sha256).map(drop)
}

impl PluginClient {
    /// A plugin that is not started yet.
    pub fn new(launch: Launch) -> Self {
        Self { launch: Arc::new(launch), inner: Arc::default() }
    }

    /// What it can do, as bits; starts it.
    pub async fn capabilities(&self) -> Result<u32, ClientError> {
        let mut inner = Arc::clone(&self.inner).lock_owned().await;
        let client = self.clone();
        to_its_end(async move {
            client.start(&mut inner).await?;
            client.end_when_idle(&mut inner);
            Ok(inner.running.as_ref().map_or(0, |running| running.capabilities))
        })
        .await
    }

    /// How it is.
    pub async fn is_available(&self) -> Result<Availability, ClientError> {
        self.ask("is_available", Nothing {}).await
    }

    /// The value of `reference`; `None` when there is none.
    pub async fn get(&self, reference: &str) -> Result<Option<Found>, ClientError> {
        let asked = Reference { reference: reference.to_owned() };
        let reply: Result<Got, _> = self.ask("get", asked).await;
        match reply {
            Ok(Got(found)) => Ok(found),
            // How protocol 1.0 spells it.
            Err(ClientError::Fault(Fault::BadReference { reason, .. }))
                if reason == "not found" =>
            {
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    /// Everything that it keeps.
    pub async fn list(&self) -> Result<Vec<Entry>, ClientError> {
        let reply: ListReply = self.ask("list", Nothing {}).await?;
        Ok(reply.entries)
    }

    /// Whether `reference` is written well.
    pub async fn validate(&self, reference: &str) -> Result<bool, ClientError> {
        let asked = Reference { reference: reference.to_owned() };
        let reply: ValidateReply = self.ask("validate", asked).await?;
        Ok(reply.ok)
    }

    /// Puts a value; says whether it took the place of another.
    pub async fn put(&self, reference: &str, value: Text) -> Result<bool, ClientError> {
        let asked = PutParams { reference: reference.to_owned(), value };
        let reply: PutReply = self.ask("put", asked).await?;
        Ok(reply.replaced)
    }

    /// Deletes a value; says whether there was one.
    pub async fn delete(&self, reference: &str) -> Result<bool, ClientError> {
        let asked = Reference { reference: reference.to_owned() };
        let reply: DeleteReply = self.ask("delete", asked).await?;
        Ok(reply.existed)
    }

    /// Ends it, once it has answered what it was asked; the next question starts it again.
    pub async fn end(&self) {
        let mut inner = self.inner.lock().await;
        if let Some(running) = inner.running.take() {
            running.process.end(self.launch.limits.grace).await;
        }
    }

    async fn ask<R: DeserializeOwned + Send + 'static>(
        &self,
        method: &'static str,
        params: impl Serialize + Send + Sync + 'static,
    ) -> Result<R, ClientError> {
        let mut inner = Arc::clone(&self.inner).lock_owned().await;
        let client = self.clone();
        to_its_end(async move {
            client.start(&mut inner).await?;
            let answer = client.exchange(&mut inner, method, &params).await;
            let answer = client.judge(&mut inner, answer).await;
            client.end_when_idle(&mut inner);
            answer
        })
        .await
    }

    /// Sees to it that the plugin runs and has answered `init`.
    async fn start(&self, inner: &mut Inner) -> Result<(), ClientError> {
        if inner.running.as_mut().is_some_and(|running| running.process.is_alive()) {
            return Ok(());
        }
        inner.running = None;
        inner.forget_old_failures();
        if inner.failures.len() >= CRASHES {
            return Err(ClientError::Disabled);
        }
        let config: &RawValue = serde_json::from_str(self.launch.config.expose())
            .map_err(|_| ClientError::Unstartable(io::ErrorKind::InvalidInput))?;
        let process = Process::spawn(&self.launch).await?;
        inner.running = Some(Running { process, capabilities: 0 });
        let init = Init {
            source_name: self.launch.name.clone(),
            config,
            protocol_version: PROTOCOL_VERSION.to_owned(),
        };
        let reply = self.exchange::<InitReply>(inner, "init", &init).await;
        let reply = reply.and_then(|reply| {
            if reply.source_name == self.launch.name { Ok(reply) } else { Err(ClientError::Lied) }
        });
        let reply = self.judge(inner, reply).await;
        match reply {
            Ok(reply) => {
                if let Some(running) = &mut inner.running {
                    running.capabilities = reply.capabilities_bits;
                }
                Ok(())
            }
            Err(error) => {
                // A plugin that did not take `init` is not asked anything else.
                if let Some(running) = inner.running.take() {
                    running.process.end(Duration::ZERO).await;
                }
                Err(error)
            }
        }
    }

    async fn exchange<R: DeserializeOwned>(
        &self,
        inner: &mut Inner,
        method: &str,
        params: &impl Serialize,
    ) -> Result<R, ClientError> {
        inner.next_id += 1;
        let id = inner.next_id;
        let running = inner.running.as_mut().ok_or(ClientError::Died)?;
        let asking = running.process.exchange(id, method, params);
        match tokio::time::timeout(self.launch.limits.answer, asking).await {
            Ok(answer) => answer,
            Err(_) => Err(ClientError::TimedOut),
        }
    }

    /// What it said of itself is its good right; anything else ends it and counts.
    async fn judge<R>(
        &self,
        inner: &mut Inner,
        answer: Result<R, ClientError>,
    ) -> Result<R, ClientError> {
        if let Err(error) = &answer
            && !matches!(error, ClientError::Fault(_))
        {
            inner.failures.push_back(Instant::now());
            if let Some(running) = inner.running.take() {
                running.process.end(Duration::ZERO).await;
            }
        }
        answer
    }

    /// Ends the plugin once no question has come for a while, whether or not another one ever does.
    fn end_when_idle(&self, inner: &mut Inner) {
        inner.asked += 1;
        let (asked, limits) = (inner.asked, self.launch.limits);
        let shared = Arc::downgrade(&self.inner);
        tokio::spawn(async move {
            tokio::time::sleep(limits.idle).await;
            let Some(shared) = shared.upgrade() else { return };
            let mut inner = shared.lock().await;
            if inner.asked == asked
                && let Some(running) = inner.running.take()
            {
                running.process.end(limits.grace).await;
            }
        });
    }
}

/// Runs `work` to its end, though whoever waits for it may give up.
async fn to_its_end<R: Send + 'static>(
    work: impl Future<Output = Result<R, ClientError>> + Send + 'static,
) -> Result<R, ClientError> {
    tokio::spawn(work).await.unwrap_or(Err(ClientError::Died))
}

impl Inner {
    fn forget_old_failures(&mut self) {
        self.failures.retain(|at| at.elapsed() < CRASH_WINDOW);
    }
}
