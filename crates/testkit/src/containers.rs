//! Debian's `docker-registry` on 127.0.0.1, in the clear and open to all: put nginx in front of it.

use std::{
    fs, io,
    net::{SocketAddr, TcpStream},
    process::{Child, Command, Stdio},
    thread::sleep,
    time::{Duration, Instant},
};

use tempfile::TempDir;

use crate::port::at_a_free_port;

const PATIENCE: Duration = Duration::from_mins(2);

/// A running registry; dropping it ends it.
pub struct ContainerRegistry {
    address: SocketAddr,
    process: Child,
    _folder: TempDir,
}

impl ContainerRegistry {
    /// Starts an empty registry; it answers when this returns.
    ///
    /// # Errors
    /// When it is not installed or does not start.
    pub fn start() -> io::Result<Self> {
        at_a_free_port(Self::start_at)
    }

    fn start_at(address: SocketAddr) -> io::Result<Self> {
        let folder = tempfile::Builder::new().prefix("kl-registry-").tempdir()?;
        let config = folder.path().join("config.yml");
        let storage = folder.path().join("storage");
        let text = format!(
            "version: 0.1\nlog: {{level: error}}\nstorage: {{filesystem: {{rootdirectory: {}}}}}\n\
             http: {{addr: {address}, relativeurls: true}}\n",
            storage.display()
        );
        fs::write(&config, text)?;
        let process = Command::new("docker-registry")
            .arg("serve")
            .arg(&config)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()?;
        let mut registry = Self { address, process, _folder: folder };
        let deadline = Instant::now() + PATIENCE;
        while TcpStream::connect(address).is_err() {
            if registry.process.try_wait()?.is_some() {
                return Err(io::ErrorKind::AddrInUse.into());
            }
            if Instant::now() > deadline {
                return Err(io::Error::other("docker-registry did not start"));
            }
            sleep(Duration::from_millis(10));
        }
        Ok(registry)
    }

    /// Returns the address it listens on.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for ContainerRegistry {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
