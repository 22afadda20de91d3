//! One way to accept for every listener: steady under errors, and bounded where whoever comes may wait.

use std::{convert::Infallible, future::Future, io, net::SocketAddr, sync::Arc, time::Duration};

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::{
    net::{TcpListener, TcpStream, UnixListener, UnixStream},
    sync::Semaphore,
    task::JoinSet,
    time::sleep,
};

const FIRST_PAUSE: Duration = Duration::from_millis(5);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// Lets this process have as many open files as it may at all: a connection takes two, and the usual bound of 1,024 is
/// there for programs that use `select`. Not before a command is started, which would inherit it.
pub fn raise_open_files() {
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    let _ = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum });
}

/// What is listened on.
pub trait Arrivals: Send + Sync {
    /// The connection that arrives.
    type Stream: Send + 'static;

    /// The next connection. Dropping the future loses none.
    fn next(&self) -> impl Future<Output = io::Result<Self::Stream>> + Send;
}

impl Arrivals for TcpListener {
    /// A connection, and the address that it comes from.
    type Stream = (TcpStream, SocketAddr);

    fn next(&self) -> impl Future<Output = io::Result<Self::Stream>> + Send {
        self.accept()
    }
}

impl Arrivals for UnixListener {
    type Stream = UnixStream;

    async fn next(&self) -> io::Result<UnixStream> {
        self.accept().await.map(|(stream, _)| stream)
    }
}

/// A listener from which the next one comes, whatever fails before.
#[derive(Debug)]
pub struct Accepting<L> {
    listener: L,
    pause: Duration,
}

impl<L: Arrivals> Accepting<L> {
    /// Begins to accept.
    pub fn at(listener: L) -> Self {
        Self { listener, pause: FIRST_PAUSE }
    }

    /// The next connection. Dropping the future loses none.
    pub async fn next(&mut self) -> L::Stream {
        loop {
            match self.listener.next().await {
                Ok(stream) => {
                    self.pause = FIRST_PAUSE;
                    return stream;
                }
                Err(error) if is_of_one_client(&error) => {}
                // Out of descriptors or memory: what would free them needs the time that a busy
                // loop would take.
                Err(_) => {
                    let pause = self.pause;
                    self.pause = (pause * 2).min(LONGEST_PAUSE);
                    sleep(pause).await;
                }
            }
        }
    }
}

/// Serves each accepted connection in a task of its own, as many at once as `limit` has permits, which several listeners
/// may share; over that, accepting waits and clients queue in the backlog. A panic ends its own connection only. Dropping
/// the loop ends them all.
pub async fn accept_each<L, F, Served>(listener: L, limit: Arc<Semaphore>, serve: F) -> Infallible
where
    L: Arrivals,
    F: Fn(L::Stream) -> Served,
    Served: Future<Output = ()> + Send + 'static,
{
    let mut tasks = JoinSet::new();
    let mut accepting = Accepting::at(listener);
    loop {
        let permit =
            Arc::clone(&limit).acquire_owned().await.expect("nobody closes this semaphore");
        let served = serve(next_connection(&mut accepting, &mut tasks).await);
        tasks.spawn(async move {
            served.await;
            drop(permit);
        });
    }
}

/// Waits for a client; finished tasks are let go of meanwhile.
async fn next_connection<L: Arrivals>(
    accepting: &mut Accepting<L>,
    tasks: &mut JoinSet<()>,
) -> L::Stream {
    loop {
        tokio::select! {
            stream = accepting.next() => return stream,
            Some(_) = tasks.join_next() => {}
        }
    }
}

/// Whether only the client at the head of the queue has gone.
fn is_of_one_client(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::ConnectionAborted
            | io::ErrorKind::ConnectionRefused
            | io::ErrorKind::ConnectionReset
            | io::ErrorKind::Interrupted
    )
}

#[cfg(test)]
mod tests {
    use std::{sync::Mutex, time::Instant};

    use super::*;

    /// Fails as told, then gives numbers.
    struct Failing(Mutex<Vec<io::ErrorKind>>);

    impl Arrivals for Failing {
        type Stream = ();

        async fn next(&self) -> io::Result<()> {
            let fault = self.0.lock().unwrap().pop();
            fault.map_or(Ok(()), |kind| Err(kind.into()))
        }
    }

    #[tokio::test]
    async fn what_lasts_is_waited_for_longer_each_time_and_a_client_that_went_is_not() {
        let lasting = io::ErrorKind::OutOfMemory;
        for (faults, at_least) in [
            (vec![], Duration::ZERO),
            (vec![io::ErrorKind::ConnectionAborted; 100_000], Duration::ZERO),
            (vec![lasting; 3], FIRST_PAUSE * (1 + 2 + 4)),
        ] {
            let mut accepting = Accepting::at(Failing(Mutex::new(faults)));
            let begun = Instant::now();
            accepting.next().await;
            assert!(begun.elapsed() >= at_least);
            assert_eq!(accepting.pause, FIRST_PAUSE);
        }
    }
}
