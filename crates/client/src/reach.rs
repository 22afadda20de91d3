//! Reaching a broker: as soon as there is room in its queue, and no longer than it shows life.

use std::{
    io,
    path::Path,
    time::{Duration, Instant},
};

use keyless_core::{Code, Error, SafeText};
use keyless_sockets::connect_unix;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::UnixStream,
    time::{sleep, timeout},
};

/// How long a broker that is well takes at most to say how it is; to lock, it waits two seconds for what is under way.
pub const PATIENCE: Duration = Duration::from_secs(5);

/// How long an answer may stay away before the broker is asked beside it how it is.
const SOON: Duration = Duration::from_millis(500);

/// How soon a broker is tried again whose queue is full.
const AGAIN: Duration = Duration::from_millis(10);

/// What is no message and no call at any door, so that whoever is there says so and does nothing.
const SOUND: &[u8] = b"{}\n";

/// Connects, to speak the NL Protocol; waits for a place in the queue as long as a broker that is well may take.
/// [`Code::BrokerNotRunning`] when there is nobody.
pub async fn reach(socket: &Path) -> Result<UnixStream, Error> {
    connect_in_time(socket).await.map_err(|error| match error.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused => Code::BrokerNotRunning.into(),
        // Those that wait for who takes no connection any more have filled its queue.
        io::ErrorKind::WouldBlock => hangs_for(PATIENCE, None),
        kind => {
            let place = SafeText::default().as_they_wrote(&socket.to_string_lossy());
            Error::with(Code::PathUnusable, place.and(": ").and(kind))
        }
    })
}

/// Connects as soon as the queue at the socket has room, which whoever connects in a loop fills for moments; `WouldBlock`
/// where it has none for as long as one that is well may take.
pub async fn connect_in_time(socket: &Path) -> io::Result<UnixStream> {
    let begun = Instant::now();
    loop {
        match connect_unix(socket).await {
            Err(error)
                if error.kind() == io::ErrorKind::WouldBlock && begun.elapsed() < PATIENCE =>
            {
                sleep(AGAIN).await;
            }
            connected => return connected,
        }
    }
}

/// What comes of asking a broker, however long it takes for good reasons: a person or a source is waited for, say.
/// [`Code::BrokerHangs`] as soon as `is_alive`, which asks it beside that, says so.
pub async fn while_alive<T, E: From<Error>, L: Future<Output = Result<(), Error>>>(
    is_alive: impl Fn() -> L,
    asking: impl Future<Output = Result<T, E>>,
) -> Result<T, E> {
    let hung = async {
        let mut pause = SOON;
        loop {
            sleep(pause).await;
            pause = PATIENCE;
            if let Err(error) = is_alive().await
                && error.code() == Code::BrokerHangs
            {
                return error;
            }
        }
    };
    tokio::select! {
        biased;
        answered = asking => answered,
        error = hung => Err(error.into()),
    }
}

/// Has whoever listens at a socket for agents say anything at all. [`Code::BrokerHangs`] with the process where nothing comes.
pub(crate) async fn shows_life(socket: &Path) -> Result<(), Error> {
    let mut stream = reach(socket).await?;
    let process = process_at(&stream);
    let heard = async {
        // Who hangs up is there as well.
        let _ = stream.write_all(SOUND).await;
        let _ = stream.read(&mut [0]).await;
    };
    timeout(PATIENCE, heard).await.map_err(|_| hangs_for(PATIENCE, process))
}

/// The process at the other end, where the system tells it.
pub fn process_at(connection: &UnixStream) -> Option<u64> {
    let process = connection.peer_cred().ok()?.pid()?;
    u64::try_from(process).ok().filter(|process| *process > 0)
}

/// The error about a broker that has not answered for so long.
pub fn hangs_for(patience: Duration, process: Option<u64>) -> Error {
    let words = SafeText::words("no answer within ").and(patience.as_secs()).and(" s");
    let words = match process {
        Some(process) => words.and(" from process ").and(process),
        None => words,
    };
    Error::with(Code::BrokerHangs, words)
}

#[cfg(test)]
mod tests {
    use tokio::net::UnixSocket;

    use super::*;

    /// Whoever connects in a loop fills it for moments: that is no broker that is not running.
    #[tokio::test]
    async fn who_comes_waits_for_a_place_in_the_queue() {
        let folder = tempfile::tempdir().unwrap();
        let socket = folder.path().join("nl.sock");
        let listener = UnixSocket::new_stream().unwrap();
        listener.bind(&socket).unwrap();
        let listener = listener.listen(1).unwrap();
        let mut waiting = Vec::new();
        while let Ok(stream) = connect_unix(&socket).await {
            waiting.push(stream);
        }
        let serving = async {
            sleep(Duration::from_millis(50)).await;
            for _ in &waiting {
                listener.accept().await.unwrap();
            }
            listener.accept().await.unwrap();
        };
        let (reached, ()) = tokio::join!(reach(&socket), serving);
        reached.unwrap();
    }

    #[tokio::test]
    async fn a_socket_that_nobody_listens_at_is_no_broker() {
        let folder = tempfile::tempdir().unwrap();
        let code =
            reach(&folder.path().join("nl.sock")).await.map(drop).map_err(|error| error.code());
        assert_eq!(code, Err(Code::BrokerNotRunning));
        let file = folder.path().join("file");
        std::fs::write(&file, "").unwrap();
        let code = reach(&file.join("nl.sock")).await.map(drop).map_err(|error| error.code());
        assert_eq!(code, Err(Code::PathUnusable));
    }
}
