//! One running plugin: its program checked and started, its pipes, its end.

use std::{io, process::Stdio, time::Duration};

use rustix::process::Signal;
use serde::{Serialize, de::DeserializeOwned};
use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader},
    process::{Child, ChildStdin, ChildStdout, Command},
    task::spawn_blocking,
};
use zeroize::Zeroizing;

use super::{
    ClientError, Launch,
    group::ProcessGroup,
    program::{HeldProgram, open_checked},
};
use crate::{
    line,
    messages::{METHODS, Request, Response, Version},
};

/// A plugin's process; killed when this is dropped.
pub(super) struct Process {
    group: ProcessGroup,
    child: Child,
    stdin: ChildStdin,
    stdout: BufReader<ChildStdout>,
    _program: HeldProgram,
}

impl Process {
    pub(super) async fn spawn(launch: &Launch) -> Result<Self, ClientError> {
        let (program, checksum) = (launch.program.clone(), launch.checksum_sha256.clone());
        let checked = spawn_blocking(move || open_checked(&program, &checksum)).await;
        let mut program = checked.map_err(|_| ClientError::Unstartable(io::ErrorKind::Other))??;
        let unstartable = |error: io::Error| ClientError::Unstartable(error.kind());
        let mut child = Command::new(program.path().map_err(unstartable)?)
            .env_clear()
            .envs(launch.environment.iter().map(|(name, value)| (name, value.expose())))
            .current_dir("/")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0)
            .kill_on_drop(true)
            .spawn()
            .map_err(unstartable)?;
        program.started();
        let group = ProcessGroup::of(&child);
        let (stdin, stdout) = (child.stdin.take(), child.stdout.take());
        if let Some(mut stderr) = child.stderr.take() {
            tokio::spawn(async move {
                let mut dropped = Zeroizing::new([0; 4096]);
                while stderr.read(&mut *dropped).await.is_ok_and(|count| count > 0) {}
            });
        }
        let (Some(stdin), Some(stdout)) = (stdin, stdout) else { return Err(ClientError::Died) };
        Ok(Self { group, child, stdin, stdout: BufReader::new(stdout), _program: program })
    }

    pub(super) fn is_alive(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }

    /// Asks once. The caller keeps the time, and ends the process on any error but a fault.
    pub(super) async fn exchange<R: DeserializeOwned>(
        &mut self,
        id: u64,
        method: &str,
        params: &impl Serialize,
    ) -> Result<R, ClientError> {
        let request =
            Request { jsonrpc: Version::Two, id, method: format!("{METHODS}{method}"), params };
        let mut text = Zeroizing::new(Vec::with_capacity(128 * 1024));
        serde_json::to_writer(&mut *text, &request).map_err(|_| ClientError::Lied)?;
        text.push(b'\n');
        self.stdin.write_all(&text).await.map_err(|_| ClientError::Died)?;
        let answer = self.next_line().await?;
        let response: Response<'_> =
            serde_json::from_slice(&answer).map_err(|_| ClientError::Lied)?;
        match response {
            Response { id: other, .. } if other != id => Err(ClientError::Lied),
            Response { result: Some(result), error: None, .. } => {
                serde_json::from_str(result.get()).map_err(|_| ClientError::Lied)
            }
            Response { result: None, error: Some(fault), .. } => Err(fault.into()),
            Response { .. } => Err(ClientError::Lied),
        }
    }

    /// Asks the process to go, and makes it go when it has not after `grace`.
    pub(super) async fn end(mut self, grace: Duration) {
        if !grace.is_zero() {
            // Before stdin ends, so that a plugin that listens for it is asked and not surprised.
            self.group.signal(Signal::TERM);
            drop(self.stdin);
            if tokio::time::timeout(grace, self.child.wait()).await.is_ok() {
                // What it has started and not taken along goes with the group.
                return;
            }
        }
        // The whole group: what the plugin has started goes with it.
        drop(self.group);
        let _ = self.child.wait().await;
    }

    async fn next_line(&mut self) -> Result<Zeroizing<Vec<u8>>, ClientError> {
        let mut line = Zeroizing::new(Vec::with_capacity(4096));
        loop {
            let available = self.stdout.fill_buf().await.map_err(|_| ClientError::Died)?;
            if available.is_empty() {
                return Err(ClientError::Died);
            }
            let end = available.iter().position(|byte| *byte == b'\n');
            let taken = &available[..end.unwrap_or(available.len())];
            line::append(&mut line, taken).map_err(|_| ClientError::TooLong)?;
            let used = taken.len() + usize::from(end.is_some());
            self.stdout.consume(used);
            if end.is_some() {
                return Ok(line);
            }
        }
    }
}
