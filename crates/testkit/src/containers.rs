//! Debian's `docker-registry` on 127.0.0.1, in the clear and open to all: put nginx in front of it.

use std::{
    fs, io,
    net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream},
    process::{Child, Command, Stdio},
    thread::sleep,
    time::{Duration, Instant},
};

use tempfile::TempDir;

const PATIENCE: Duration = Duration::from_mins(2);
const ATTEMPTS: usize = 5;

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
        let mut last = io::Error::other("docker-registry was not started");
        // The port is free when we look; another process may take it before the registry does.
        for _ in 0..ATTEMPTS {
            match Self::try_start() {
                Err(error) if error.kind() == io::ErrorKind::AddrInUse => last = error,
                settled => return settled,
            }
        }
        Err(last)
    }

    fn try_start() -> io::Result<Self> {
        let folder = tempfile::Builder::new().prefix("kl-registry-").tempdir()?;
        let port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port();
        let config = folder.path().join("config.yml");
        let storage = folder.path().join("storage");
        let text = format!(
            "version: 0.1\nlog: {{level: error}}\nstorage: {{filesystem: {{rootdirectory: {}}}}}\n\
             http: {{addr: 127.0.0.1:{port}, relativeurls: true}}\n",
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
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
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
