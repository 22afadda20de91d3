//! For the tests: three doors on this machine's own vsock, as `keyless proxy` and `keyless forward` have
//! them on a host's, and a visitor of each. Needs `vsock_loopback`, where a machine is its own host.

use std::{io, sync::Arc};

use keyless_guest::{Link, Listener, VsockAddr, VsockListener};
use keyless_sockets::accept_each;
use tokio::{
    io::{AsyncBufReadExt, AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, BufReader},
    sync::Semaphore,
};

/// `VMADDR_CID_LOCAL`
const SELF: u32 = 1;

#[tokio::main(flavor = "current_thread")]
async fn main() -> io::Result<()> {
    let limit = Arc::new(Semaphore::new(8));
    let everybody = VsockListener::bind(2001)?;
    tokio::spawn(accept_each(everybody, Arc::clone(&limit), |(stream, peer)| async move {
        let _ = answer(stream, &format!("you are {}", peer.cid)).await;
    }));
    for (port, only) in [(2002, SELF), (2003, 99)] {
        let listener = Listener::Vsock(VsockListener::bind(port)?, Some(only));
        tokio::spawn(accept_each(listener, Arc::clone(&limit), |stream| async move {
            let _ = answer(stream, "come in").await;
        }));
    }
    for port in 2001..=2003 {
        println!("door {port}: {}", visit(port).await.unwrap_or_else(|error| error.to_string()));
    }
    Ok(())
}

/// Repeats the visitor's line after some words, and ends.
async fn answer(stream: impl AsyncRead + AsyncWrite + Unpin, words: &str) -> io::Result<()> {
    let mut stream = BufReader::new(stream);
    let mut line = String::new();
    stream.read_line(&mut line).await?;
    stream.write_all(format!("{words}, {}.", line.trim_end()).as_bytes()).await?;
    stream.shutdown().await
}

async fn visit(port: u32) -> io::Result<String> {
    let mut stream = Link::Vsock(VsockAddr { cid: SELF, port }).dial().await?;
    stream.write_all(b"any.test:80\n").await?;
    stream.shutdown().await?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await?;
    Ok(answer)
}
