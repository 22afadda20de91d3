//! A gRPC server that none of us wrote: Python's `grpcio`, over TLS, on 127.0.0.1.
//!
//! It repeats messages in the four kinds of call, to who brings its bearer token; see `grpc/server.py`.

use std::{
    fs,
    io::{self, BufRead as _, BufReader},
    net::{Ipv4Addr, SocketAddr},
    process::{Child, Command, Stdio},
};

use tempfile::TempDir;

use crate::TestCa;

const SCRIPT: &str = include_str!("grpc/server.py");

/// A running server; dropping it ends it.
pub struct GrpcServer {
    address: SocketAddr,
    process: Child,
    _folder: TempDir,
}

impl GrpcServer {
    /// Starts a server with a certificate of `ca` for `name`; it answers when this returns.
    ///
    /// # Errors
    /// When python3 or its module `grpc` is not there.
    pub fn start(ca: &TestCa, name: &str, token: &str) -> io::Result<Self> {
        let folder = tempfile::Builder::new().prefix("kl-grpc-").tempdir()?;
        let leaf = ca.issue(&[name])?;
        let (key, chain) = (folder.path().join("key.pem"), folder.path().join("chain.pem"));
        let bearer = folder.path().join("token");
        fs::write(&key, &leaf.key_pem)?;
        fs::write(&chain, &leaf.certificate_pem)?;
        fs::write(&bearer, token)?;
        let mut process = Command::new("python3")
            .args(["-c", SCRIPT])
            .args([&key, &chain, &bearer])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()?;
        let mut port = String::new();
        if let Some(output) = process.stdout.take() {
            BufReader::new(output).read_line(&mut port)?;
        }
        let port = port.trim().parse().map_err(|_| {
            io::Error::other("python3 could not start a gRPC server; is grpcio installed?")
        })?;
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        Ok(Self { address, process, _folder: folder })
    }

    /// Returns the address it listens on.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for GrpcServer {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
