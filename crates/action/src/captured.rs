//! Runs a command to its end, within its time and with bounded output.

use std::time::Duration;

use jiff::Timestamp;
use keyless_core::{Code, Error};
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWriteExt},
    sync::mpsc,
    task::JoinSet,
    time::{Instant, sleep_until, timeout},
};
use zeroize::Zeroizing;

use crate::ports::{Exit, Process, Running, WentOut};

/// How much is read at a time. All of it is wiped in the end, however short the output was.
const CHUNK: usize = 16 << 10;
/// How long what is left of the output is read once everything in the jail has ended.
const LEFT: Duration = Duration::from_secs(2);

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
    /// The stream that each stretch of the bytes comes from, and its length.
    pub(crate) stretches: Vec<(Stream, usize)>,
    /// Something did not fit, and nothing is taken behind it: a hole would part what is looked for.
    is_full: bool,
}

/// How a run ended.
pub(crate) struct Ended {
    pub(crate) captured: Captured,
    pub(crate) exit: Exit,
    pub(crate) end: End,
    pub(crate) at: Timestamp,
    /// What may be in what it has said, beside what has entered it.
    pub(crate) went_out: Vec<WentOut>,
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
    /// Takes what was read, if it fits into so many bytes with all that came before.
    fn take(&mut self, stream: Stream, bytes: &[u8], most: usize) -> bool {
        self.is_full |= self.joint.len() + bytes.len() > most;
        if !self.is_full {
            self.push(stream, bytes);
        }
        !self.is_full
    }

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
    // Of this run: one that is dropped before its end takes them along.
    let mut tasks = JoinSet::new();
    let feeding = tasks.spawn(async move {
        if let Some(input) = input {
            // A command that does not read is none of our business.
            let _ = stdin.write_all(&input).await;
            let _ = stdin.shutdown().await;
        }
    });
    let (sender, mut receiver) = mpsc::channel(4);
    tasks.spawn(read(output, Stream::Output, sender.clone()));
    tasks.spawn(read(errors, Stream::Errors, sender));
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
                    if !captured.take(stream, &bytes, bounds.output) {
                        end = End::Overflow;
                        process.kill();
                        break waiting.await;
                    }
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
    // Everything in the jail has ended, and what is left in the pipes is soon read. Whoever outside has got hold of one
    // and keeps it open, or writes on, is not waited for.
    let left = async {
        while let Some((stream, bytes)) = receiver.recv().await {
            if !captured.take(stream, &bytes, bounds.output) && end == End::Itself {
                end = End::Overflow;
            }
        }
    };
    let _ = timeout(LEFT, left).await;
    tasks.abort_all();
    while let Some(ended) = tasks.join_next().await {
        if ended.is_err_and(|error| error.is_panic()) {
            return Err(Error::new(Code::Internal));
        }
    }
    let went_out = process.went_out();
    Ok(Ended { captured, exit, end, at: Timestamp::now(), went_out })
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
                    captured.take(stream, &bytes, bounds.output);
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

#[cfg(test)]
mod tests {
    use futures_util::{FutureExt, future::BoxFuture};
    use tokio::io::{DuplexStream, duplex, sink};

    use super::*;

    /// Has ended.
    struct Gone;

    impl Process for Gone {
        fn terminate(&self) {}

        fn kill(&self) {}

        fn wait(&self) -> BoxFuture<'_, Exit> {
            async { Exit::Code(0) }.boxed()
        }

        fn went_out(&self) -> Vec<WentOut> {
            Vec::new()
        }
    }

    #[tokio::test]
    async fn who_holds_an_output_open_holds_no_action() {
        let (mut held, output): (DuplexStream, _) = duplex(64);
        held.write_all(b"all is well").await.unwrap();
        let (_also_held, errors) = duplex(64);
        let running = Running {
            input: Box::new(sink()),
            output: Box::new(output),
            errors: Box::new(errors),
            process: Box::new(Gone),
        };
        // It writes on and on.
        let writing = tokio::spawn(async move { while held.write_all(b".").await.is_ok() {} });
        let bounds =
            Bounds { time: Duration::from_hours(1), grace: Duration::ZERO, output: 1 << 20 };
        let ended = timeout(LEFT * 10, run_to_end(running, None, &bounds)).await.unwrap().unwrap();
        assert!(ended.captured.joint.starts_with(b"all is well"));
        writing.await.unwrap();
    }

    #[test]
    fn nothing_is_taken_behind_what_did_not_fit() {
        let mut captured = Captured::default();
        assert!(captured.take(Stream::Output, b"four", 8));
        assert!(!captured.take(Stream::Output, b"five!", 8));
        assert!(!captured.take(Stream::Errors, b"2", 8));
        assert_eq!(&captured.joint[..], b"four");
    }

    /// Runs on.
    struct Stays;

    impl Process for Stays {
        fn terminate(&self) {}

        fn kill(&self) {}

        fn wait(&self) -> BoxFuture<'_, Exit> {
            std::future::pending().boxed()
        }

        fn went_out(&self) -> Vec<WentOut> {
            Vec::new()
        }
    }

    #[tokio::test]
    async fn a_run_that_is_dropped_lets_go_of_every_stream() {
        let [(to_input, input), (to_output, output), (to_errors, errors)] =
            [duplex(4), duplex(64), duplex(64)];
        let running = Running {
            input: Box::new(input),
            output: Box::new(output),
            errors: Box::new(errors),
            process: Box::new(Stays),
        };
        let bounds =
            Bounds { time: Duration::from_hours(1), grace: Duration::ZERO, output: 1 << 20 };
        // More than its pipe takes, so that the feeding is still under way.
        let given = Some(Zeroizing::new(b"more than four bytes".to_vec()));
        let run = run_to_end(running, given, &bounds);
        assert!(timeout(Duration::from_millis(50), run).await.is_err());
        for mut held in [to_output, to_errors] {
            assert_eq!(timeout(LEFT, held.read(&mut [0])).await.unwrap().unwrap(), 0);
        }
        let mut fed = Vec::new();
        let mut to_input = to_input;
        timeout(LEFT, to_input.read_to_end(&mut fed)).await.unwrap().unwrap();
        assert_eq!(fed, b"more");
    }
}
