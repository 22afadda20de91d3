//! Debian's nginx as an HTTPS origin: a server that none of us wrote, with its own idea of HTTP.
//!
//! It runs in the foreground as one process with everything in a scratch folder, and is killed when
//! dropped. Its access log plays the part of the transcript.

use std::{
    fs, io,
    net::{SocketAddr, TcpStream},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    thread::sleep,
    time::{Duration, Instant},
};

use tempfile::TempDir;

use crate::{TestCa, port::at_a_free_port};

/// What the server is to be.
pub struct NginxOptions<'a> {
    /// The CA that signs its certificate.
    pub ca: &'a TestCa,
    /// The names of its certificate.
    pub names: &'a [&'a str],
    /// The `location` blocks, in nginx's words. [`NginxOptions::ECHO`] is a ready one.
    pub locations: &'a str,
}

/// A running nginx.
pub struct Nginx {
    address: SocketAddr,
    process: Child,
    folder: TempDir,
}

const PROGRAM: &str = "/usr/sbin/nginx";
const PATIENCE: Duration = Duration::from_mins(2);

impl NginxOptions<'_> {
    /// Answers everything with the Authorization header and the target that it got.
    pub const ECHO: &'static str = r#"
        location / {
            default_type text/plain;
            return 200 "authorization: $http_authorization\ntarget: $request_uri\n";
        }"#;
}

impl Nginx {
    /// Starts nginx on a free port of 127.0.0.1, HTTP/1.1 and HTTP/2; it answers when this returns.
    ///
    /// # Errors
    /// When nginx is not installed, or refuses its configuration: its error log is in the text.
    pub fn start(options: &NginxOptions<'_>) -> io::Result<Self> {
        at_a_free_port(|address| Self::start_at(address, options))
    }

    fn start_at(address: SocketAddr, options: &NginxOptions<'_>) -> io::Result<Self> {
        let folder = tempfile::Builder::new().prefix("kl-nginx-").tempdir()?;
        let leaf = options.ca.issue(options.names)?;
        fs::write(folder.path().join("certificate.pem"), &leaf.certificate_pem)?;
        fs::write(folder.path().join("key.pem"), &leaf.key_pem)?;
        let config = folder.path().join("nginx.conf");
        fs::write(&config, configuration(folder.path(), address.port(), options.locations))?;
        let process = Command::new(PROGRAM)
            .arg("-p")
            .arg(folder.path())
            .arg("-c")
            .arg(&config)
            .arg("-e")
            .arg(folder.path().join("error.log"))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()?;
        let mut nginx = Self { address, process, folder };
        nginx.wait_until_ready()?;
        Ok(nginx)
    }

    fn wait_until_ready(&mut self) -> io::Result<()> {
        let deadline = Instant::now() + PATIENCE;
        while Instant::now() < deadline {
            if self.process.try_wait()?.is_some() {
                break;
            }
            if TcpStream::connect(self.address).is_ok() {
                return Ok(());
            }
            sleep(Duration::from_millis(10));
        }
        let log = fs::read_to_string(self.folder.path().join("error.log")).unwrap_or_default();
        Err(io::Error::other(format!("nginx did not start: {log}")))
    }

    /// Returns the address it listens on.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns the access log once it has `requests` lines `METHOD TARGET STATUS [AUTHORIZATION]`, or
    /// as it is when patience is over: nginx writes a line after the client has its answer.
    ///
    /// # Errors
    /// As reading a file.
    pub fn access_log(&self, requests: usize) -> io::Result<String> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let log = fs::read_to_string(self.access_log_path())?;
            if log.lines().count() >= requests || Instant::now() >= deadline {
                return Ok(log);
            }
            sleep(Duration::from_millis(10));
        }
    }

    /// Returns the folder from which `root html;` in a location serves files, made on the first call.
    ///
    /// # Errors
    /// As creating a folder.
    pub fn html(&self) -> io::Result<PathBuf> {
        let path = self.folder.path().join("html");
        fs::create_dir_all(&path)?;
        Ok(path)
    }

    fn access_log_path(&self) -> PathBuf {
        self.folder.path().join("access.log")
    }
}

impl Drop for Nginx {
    fn drop(&mut self) {
        // Both fail only when it is gone already.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn configuration(folder: &Path, port: u16, locations: &str) -> String {
    let folder = folder.display();
    format!(
        r"daemon off;
master_process off;
pid {folder}/nginx.pid;
error_log {folder}/error.log warn;
events {{ worker_connections 256; }}
http {{
    log_format seen '$request_method $request_uri $status [$http_authorization]';
    access_log {folder}/access.log seen;
    client_body_temp_path {folder}/body;
    proxy_temp_path {folder}/proxy;
    fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi;
    scgi_temp_path {folder}/scgi;
    server {{
        listen 127.0.0.1:{port} ssl http2;
        ssl_certificate {folder}/certificate.pem;
        ssl_certificate_key {folder}/key.pem;
        {locations}
    }}
}}
"
    )
}
