//! Runs a command to its end, within its time and with bounded output.

use std::time::Duration;

use jiff::Timestamp;
use keyless_core::{Code, Error};
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWriteExt},
    sync::mpsc,
    time::{Instant, sleep_until, timeout},
};
use zeroize::Zeroizing;

use crate::ports::{Exit, Process, Running};

/// How much is read at a time. All of it is wiped in the end, however short the output was.
const CHUNK: usize = 16 << 10;

/// Which of a command's two streams.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stream {
    Output,
    Errors,
}

/// What a command has written, as it came. May hold values: zeroized.
#[derive(Default)]
pub(crate) struct Captured {
    /// Both streams, in the order in which they were read.
    pub(crate) joint: Zeroizing<Vec<u8>>,
    /// Whose bytes they are.
    pub(crate) stretches: Vec<(Stream, usize)>,
}

/// How a run ended.
pub(crate) struct Ended {
    pub(crate) captured: Captured,
    pub(crate) exit: Exit,
    pub(crate) end: End,
    pub(crate) at: Timestamp,
}

/// What ended it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// It was done.
    Itself,
    /// It wrote too much.
    Overflow,
    /// Its time was over; it took so long to end, and whether it did so when asked.
    Timeout { waited: Duration, graceful: bool },
}

/// The bounds of one run.
pub(crate) struct Bounds {
    pub(crate) time: Duration,
    pub(crate) grace: Duration,
    pub(crate) output: usize,
}

impl Captured {
    fn push(&mut self, stream: Stream, bytes: &[u8]) {
        if self.joint.capacity() - self.joint.len() < bytes.len() {
            // By hand, so that an outgrown buffer is wiped.
            let room = (self.joint.len() + bytes.len()).next_power_of_two();
            let mut larger = Zeroizing::new(Vec::with_capacity(room));
            larger.extend_from_slice(&self.joint);
            self.joint = larger;
        }
        self.joint.extend_from_slice(bytes);
        match self.stretches.last_mut() {
            Some((last, length)) if *last == stream => *length += bytes.len(),
            _ => self.stretches.push((stream, bytes.len())),
        }
    }
}

/// Feeds and drains a command until it ends, is too slow, or says too much.
pub(crate) async fn run_to_end(
    running: Running,
    input: Option<Zeroizing<Vec<u8>>>,
    bounds: &Bounds,
) -> Result<Ended, Error> {
    let Running { input: mut stdin, output, errors, process } = running;
    let feeding = tokio::spawn(async move {
        if let Some(input) = input {
            // A command that does not read is none of our business.
            let _ = stdin.write_all(&input).await;
            let _ = stdin.shutdown().await;
        }
    });
    let (sender, mut receiver) = mpsc::channel(4);
    let readers = [
        tokio::spawn(read(output, Stream::Output, sender.clone())),
        tokio::spawn(read(errors, Stream::Errors, sender)),
    ];
    let mut captured = Captured::default();
    let mut end = End::Itself;
    let deadline = Instant::now() + bounds.time;
    let exit = {
        let waiting = process.wait();
        tokio::pin!(waiting);
        loop {
            tokio::select! {
                exit = &mut waiting => break exit,
                Some((stream, bytes)) = receiver.recv() => {
                    if captured.joint.len() + bytes.len() > bounds.output {
                        end = End::Overflow;
                        process.kill();
                        break waiting.await;
                    }
                    captured.push(stream, &bytes);
                }
                () = sleep_until(deadline) => {
                    let (exit, how) = stop(&*process, &mut waiting, &mut receiver, &mut captured, bounds).await;
                    end = how;
                    break exit;
                }
            }
        }
    };
    feeding.abort();
    // Everything that could write has ended; what is left in the pipes is soon read.
    while let Some((stream, bytes)) = receiver.recv().await {
        if end == End::Overflow || captured.joint.len() + bytes.len() > bounds.output {
            end = if end == End::Itself { End::Overflow } else { end };
        } else {
            captured.push(stream, &bytes);
        }
    }
    for reader in readers {
        reader.await.map_err(|_| Error::new(Code::Internal))?;
    }
    Ok(Ended { captured, exit, end, at: Timestamp::now() })
}

/// Asks everything in the jail to end, and ends it when it does not.
async fn stop(
    process: &dyn Process,
    waiting: &mut (impl Future<Output = Exit> + Unpin),
    receiver: &mut mpsc::Receiver<(Stream, Zeroizing<Vec<u8>>)>,
    captured: &mut Captured,
    bounds: &Bounds,
) -> (Exit, End) {
    let begun = Instant::now();
    process.terminate();
    let ended = timeout(bounds.grace, async {
        loop {
            tokio::select! {
                exit = &mut *waiting => break exit,
                Some((stream, bytes)) = receiver.recv() => {
                    if captured.joint.len() + bytes.len() <= bounds.output {
                        captured.push(stream, &bytes);
                    }
                }
            }
        }
    });
    if let Ok(exit) = ended.await {
        return (exit, End::Timeout { waited: begun.elapsed(), graceful: true });
    }
    process.kill();
    let exit = waiting.await;
    (exit, End::Timeout { waited: begun.elapsed(), graceful: false })
}

async fn read(
    mut from: Box<dyn AsyncRead + Send + Unpin>,
    stream: Stream,
    to: mpsc::Sender<(Stream, Zeroizing<Vec<u8>>)>,
) {
    let mut chunk = Zeroizing::new(vec![0; CHUNK]);
    loop {
        match from.read(&mut chunk).await {
            Ok(0) | Err(_) => break,
            Ok(length) => {
                let bytes = Zeroizing::new(chunk[..length].to_vec());
                if to.send((stream, bytes)).await.is_err() {
                    break;
                }
            }
        }
    }
}
