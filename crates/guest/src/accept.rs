//! One accept loop for every listener: bounded, and steady under errors.
//!
//! It owns the tasks of its connections: dropping the loop ends them. Several listeners may share one
//! limit.

use std::{convert::Infallible, future::Future, io, sync::Arc, time::Duration};

use tokio::{
    net::{TcpListener, TcpStream},
    sync::Semaphore,
    task::JoinSet,
    time::sleep,
};

const FIRST_PAUSE: Duration = Duration::from_millis(5);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// Serves each accepted connection in a task of its own, as many at once as `limit` has permits;
/// over that, accepting waits and clients queue in the backlog. A panic ends its own connection only.
pub(crate) async fn accept_each<F, Served>(
    listener: TcpListener,
    limit: Arc<Semaphore>,
    serve: F,
) -> Infallible
where
    F: Fn(TcpStream) -> Served,
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
async fn next_connection(listener: &TcpListener, tasks: &mut JoinSet<()>) -> io::Result<TcpStream> {
    loop {
        tokio::select! {
            accepted = listener.accept() => return accepted.map(|(stream, _)| stream),
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
