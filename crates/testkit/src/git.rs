//! Git over HTTP: bare repositories served by `git http-backend`, the server that ships with git.
//!
//! The bridge is CGI (RFC 3875) in both directions as a stream, so that packs of any size pass. It
//! does not check credentials: put the handler behind a `Gate`.

use std::{
    fmt::Write as _,
    io::{self, Write as _},
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use bytes::Bytes;
use futures_util::stream;
use http::{HeaderName, HeaderValue, Request, Response, StatusCode};
use http_body_util::BodyExt as _;
use tokio::{
    io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader},
    process::{ChildStdin, ChildStdout},
};

use crate::origin::{Handler, Reply, RequestBody, reply, streamed};

/// A folder of bare repositories.
pub struct Repositories {
    root: PathBuf,
}

impl Repositories {
    /// Serves the repositories that stand, or will stand, under `root`.
    pub fn under(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into() }
    }

    /// Makes the bare repository `name` (such as `team/project.git`) with one commit of `files` on
    /// `main`; pushes are accepted. Returns its path.
    ///
    /// # Errors
    /// When git is missing or refuses.
    pub fn create(&self, name: &str, files: &[(&str, &str)]) -> io::Result<PathBuf> {
        let path = self.root.join(name);
        std::fs::create_dir_all(&path)?;
        run(git(&path).args(["init", "--quiet", "--bare", "--initial-branch=main", "."]), b"")?;
        run(git(&path).args(["config", "http.receivepack", "true"]), b"")?;
        run(git(&path).args(["fast-import", "--quiet"]), &commit(files))?;
        Ok(path)
    }

    /// Returns the handler that serves them at `/NAME`.
    pub fn handler(&self) -> Handler {
        let root = self.root.clone();
        Handler::new(move |request| {
            let root = root.clone();
            async move {
                serve(&root, request).await.unwrap_or_else(|error| {
                    reply(StatusCode::BAD_GATEWAY, format!("git http-backend: {error}\n"))
                })
            }
        })
    }
}

/// A git command that reads no configuration but the repository's own.
fn git(directory: &Path) -> Command {
    let mut command = Command::new("git");
    command.env_clear().env("PATH", std::env::var_os("PATH").unwrap_or_default());
    command.envs([("GIT_CONFIG_GLOBAL", "/dev/null"), ("GIT_CONFIG_NOSYSTEM", "1")]);
    command.env("HOME", directory).current_dir(directory);
    command
}

fn run(command: &mut Command, input: &[u8]) -> io::Result<()> {
    command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut child = command.spawn()?;
    child.stdin.take().expect("stdin is piped").write_all(input)?;
    let output = child.wait_with_output()?;
    if !output.status.success() {
        return Err(io::Error::other(String::from_utf8_lossy(&output.stderr).into_owned()));
    }
    Ok(())
}

/// One commit in the words of `git fast-import`.
fn commit(files: &[(&str, &str)]) -> Vec<u8> {
    let mut text = String::from("commit refs/heads/main\n");
    text.push_str("committer Keyless <keyless@origin.test> 1700000000 +0000\ndata 5\nfirst\n");
    for (path, content) in files {
        let _ = write!(text, "M 100644 inline {path}\ndata {}\n{content}\n", content.len());
    }
    text.into_bytes()
}

async fn serve(root: &Path, request: Request<RequestBody>) -> io::Result<Reply> {
    let mut command = tokio::process::Command::from(git(root));
    command.arg("http-backend").envs(meta_variables(root, &request));
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).kill_on_drop(true);
    let mut child = command.spawn()?;
    let stdin = child.stdin.take().expect("stdin is piped");
    let mut stdout = BufReader::new(child.stdout.take().expect("stdout is piped"));
    tokio::spawn(feed(request.into_body(), stdin));
    let mut response = read_head(&mut stdout).await?;
    // The child rides along with its output: it is killed when the client leaves.
    let body = stream::unfold((stdout, child), |(mut stdout, child)| async move {
        let mut chunk = vec![0; 16 << 10];
        let length = stdout.read(&mut chunk).await.ok().filter(|&length| length > 0)?;
        chunk.truncate(length);
        Some((Bytes::from(chunk), (stdout, child)))
    });
    *response.body_mut() = streamed(body);
    Ok(response)
}

/// The request in CGI's variables (RFC 3875, section 4.1).
fn meta_variables(root: &Path, request: &Request<RequestBody>) -> Vec<(&'static str, String)> {
    let header = |name: &str| {
        let value = request.headers().get(name).and_then(|value| value.to_str().ok());
        value.unwrap_or_default().to_owned()
    };
    vec![
        ("GIT_PROJECT_ROOT", root.display().to_string()),
        ("GIT_HTTP_EXPORT_ALL", "1".to_owned()),
        ("GIT_PROTOCOL", header("git-protocol")),
        ("REQUEST_METHOD", request.method().to_string()),
        ("PATH_INFO", request.uri().path().to_owned()),
        ("QUERY_STRING", request.uri().query().unwrap_or_default().to_owned()),
        ("CONTENT_TYPE", header("content-type")),
        ("CONTENT_LENGTH", header("content-length")),
        ("HTTP_CONTENT_ENCODING", header("content-encoding")),
        ("REMOTE_ADDR", "127.0.0.1".to_owned()),
        ("REMOTE_USER", "origin".to_owned()),
    ]
    .into_iter()
    .filter(|(name, value)| !value.is_empty() || *name == "QUERY_STRING")
    .collect()
}

/// Passes the request's body on; a backend that needs no more of it closes its end early.
async fn feed(mut body: RequestBody, mut stdin: ChildStdin) {
    while let Some(Ok(frame)) = body.frame().await {
        let Some(data) = frame.data_ref() else { continue };
        if stdin.write_all(data).await.is_err() {
            return;
        }
    }
}

/// Reads the head of CGI's answer (RFC 3875, section 6).
async fn read_head(stdout: &mut BufReader<ChildStdout>) -> io::Result<Reply> {
    let mut response = Response::new(streamed(stream::empty()));
    loop {
        let mut line = String::new();
        if stdout.read_line(&mut line).await? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let line = line.trim_end();
        if line.is_empty() {
            return Ok(response);
        }
        let (name, value) = line.split_once(':').ok_or(io::ErrorKind::InvalidData)?;
        let value = value.trim();
        if name.eq_ignore_ascii_case("status") {
            let code = value.split(' ').next().unwrap_or_default();
            *response.status_mut() = code.parse().map_err(io::Error::other)?;
        } else {
            let name: HeaderName = name.parse().map_err(io::Error::other)?;
            response
                .headers_mut()
                .insert(name, HeaderValue::from_str(value).map_err(io::Error::other)?);
        }
    }
}
