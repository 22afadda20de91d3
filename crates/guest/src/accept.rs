//! One accept loop for every listener: bounded, and steady under errors.
//!
//! It owns the tasks of its connections: dropping the loop ends them. Several listeners may share one
//! limit.

use std::{convert::Infallible, future::Future, io, sync::Arc, time::Duration};

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::{
    net::{TcpListener, TcpStream, UnixListener, UnixStream},
    sync::Semaphore,
    task::JoinSet,
    time::sleep,
};

use crate::{
    link::{Duplex, Listener},
    vsock::{VsockAddr, VsockListener},
};

const FIRST_PAUSE: Duration = Duration::from_millis(5);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// Lets this process have as many open files as it may at all: a connection takes two, and the usual bound of 1,024 is
/// there for programs that use `select`. Not before a command is started, which would inherit it.
pub fn raise_open_files() {
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    let _ = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum });
}

/// What an accept loop listens on.
pub trait Arrivals: Send + Sync {
    /// What arrives.
    type Stream: Send + 'static;

    /// The next one. Dropping the future loses none.
    fn next(&self) -> impl Future<Output = io::Result<Self::Stream>> + Send;
}

impl Arrivals for Listener {
    type Stream = Box<dyn Duplex>;

    fn next(&self) -> impl Future<Output = io::Result<Self::Stream>> + Send {
        self.accept()
    }
}

impl Arrivals for TcpListener {
    type Stream = TcpStream;

    async fn next(&self) -> io::Result<TcpStream> {
        self.accept().await.map(|(stream, _)| stream)
    }
}

impl Arrivals for UnixListener {
    type Stream = UnixStream;

    async fn next(&self) -> io::Result<UnixStream> {
        self.accept().await.map(|(stream, _)| stream)
    }
}

impl Arrivals for VsockListener {
    type Stream = (UnixStream, VsockAddr);

    async fn next(&self) -> io::Result<Self::Stream> {
        self.accept().await
    }
}

/// Serves each accepted connection in a task of its own, as many at once as `limit` has permits;
/// over that, accepting waits and clients queue in the backlog. A panic ends its own connection only.
pub async fn accept_each<L, F, Served>(listener: L, limit: Arc<Semaphore>, serve: F) -> Infallible
where
    L: Arrivals,
    F: Fn(L::Stream) -> Served,
    Served: Future<Output = ()> + Send + 'static,
{
    let mut tasks = JoinSet::new();
    let mut pause = FIRST_PAUSE;
    loop {
        let permit =
            Arc::clone(&limit).acquire_owned().await.expect("nobody closes this semaphore");
        match next_connection(&listener, &mut tasks).await {
            Ok(stream) => {
                pause = FIRST_PAUSE;
                let served = serve(stream);
                tasks.spawn(async move {
                    served.await;
                    drop(permit);
                });
            }
            Err(error) if is_of_one_client(&error) => {}
            // Out of descriptors or memory: what would free them needs the time that a busy
            // loop would take.
            Err(_) => {
                sleep(pause).await;
                pause = (pause * 2).min(LONGEST_PAUSE);
            }
        }
    }
}

/// Waits for a client; finished tasks are let go of meanwhile.
async fn next_connection<L: Arrivals>(
    listener: &L,
    tasks: &mut JoinSet<()>,
) -> io::Result<L::Stream> {
    loop {
        tokio::select! {
            accepted = listener.next() => return accepted,
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
