//! Docker's own daemon, in namespaces of its own: nothing of it meets a daemon that the machine has, and it runs for root and
//! for any other user. It starts no containers; pulling, pushing and building without `RUN` need none.

use std::{
    env,
    ffi::OsString,
    fs,
    io::{self, PipeWriter, Read as _, Write as _},
    os::unix::{fs::FileExt as _, net::UnixStream},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    thread::sleep,
    time::{Duration, Instant},
};

const PATIENCE: Duration = Duration::from_mins(2);
const PAGE: usize = 4096;

/// The first process of its namespace: with it all others end, whoever started them. It ends with the daemon, or when
/// the other end of its stdin is closed, by us or by our end.
const INIT: &str = r#"
mount -t tmpfs tmpfs /run && mount --bind etc /etc/docker || exit
exec 3<&0
dockerd --iptables=false --ip6tables=false --bridge=none --storage-driver=vfs --group=0 \
    --data-root="$PWD/data" --exec-root="$PWD/exec" --pidfile="$PWD/pid" --host="unix://$PWD/sock" >log 2>&1 &
{ read -r end; kill -KILL $!; } <&3 &
wait $!
"#;

/// A running daemon without images; dropping it ends it and all that it started.
pub struct Docker {
    folder: PathBuf,
    process: Child,
    stdin: Option<PipeWriter>,
}

impl Docker {
    /// Starts a daemon that has everything in this folder, and this `HTTPS_PROXY`; it answers when this returns.
    ///
    /// # Errors
    /// When it is not there, or does not start: its log is in the text.
    pub fn start(folder: &Path, proxy: &str) -> io::Result<Self> {
        fs::create_dir_all(folder.join("etc"))?;
        let (reader, writer) = io::pipe()?;
        let mut unshare = Command::new("unshare");
        unshare.args(["--map-root-user", "--mount", "--pid", "--fork", "--kill-child"]);
        unshare.args(["--mount-proc", "--", "sh", "-c", INIT]).current_dir(folder);
        unshare.env_clear().env("PATH", path()).env("HOME", folder).env("HTTPS_PROXY", proxy);
        let said = fs::File::create(folder.join("init.log"))?;
        unshare.stdin(reader).stdout(Stdio::null()).stderr(said);
        let process = unshare.spawn()?;
        let mut docker = Self { folder: folder.to_owned(), process, stdin: Some(writer) };
        let deadline = Instant::now() + PATIENCE;
        while !docker.answers() {
            if docker.process.try_wait()?.is_some() || Instant::now() > deadline {
                let logs = ["init.log", "log"].map(|name| fs::read_to_string(folder.join(name)));
                let text = logs.into_iter().flatten().collect::<String>();
                return Err(io::Error::other(format!(
                    "Docker's daemon did not start (it comes with cargo xtask setup): {text}"
                )));
            }
            sleep(Duration::from_millis(20));
        }
        Ok(docker)
    }

    /// Has it trust these certificates toward one registry, as an administrator does.
    ///
    /// # Errors
    /// As writing a file.
    pub fn trust(&self, registry: &str, pem: &[u8]) -> io::Result<()> {
        let folder = self.folder.join("etc/certs.d").join(registry);
        fs::create_dir_all(&folder)?;
        fs::write(folder.join("ca.crt"), pem)
    }

    /// Docker's client for this daemon, with this home.
    pub fn client(&self, home: &Path) -> Command {
        let mut client = Command::new("docker");
        client.env_clear().env("PATH", path()).env("HOME", home);
        client.env("DOCKER_HOST", format!("unix://{}", self.socket().display()));
        // The builder of the daemon itself; the other one is a client's plugin, which may not be there.
        client.env("DOCKER_BUILDKIT", "0");
        client
    }

    /// All of its processes that are there now.
    ///
    /// # Errors
    /// As reading `/proc`.
    pub fn processes(&self) -> io::Result<Vec<u32>> {
        let mut found = vec![self.process.id()];
        let mut next = 0;
        while let Some(pid) = found.get(next).copied() {
            next += 1;
            // Each thread has children of its own. One that has ended since has none.
            let Ok(threads) = fs::read_dir(format!("/proc/{pid}/task")) else { continue };
            for thread in threads.flatten() {
                let children = fs::read_to_string(thread.path().join("children"));
                let children = children.unwrap_or_default();
                found.extend(children.split_whitespace().filter_map(|it| it.parse::<u32>().ok()));
            }
        }
        Ok(found)
    }

    /// What all of its processes hold in memory that can be written to, without what lies idle there.
    ///
    /// # Errors
    /// As reading `/proc`, where this user may not.
    pub fn memory(&self) -> io::Result<Vec<u8>> {
        let mut held = Vec::new();
        for pid in self.processes()? {
            let memory = fs::File::open(format!("/proc/{pid}/mem"))?;
            for line in fs::read_to_string(format!("/proc/{pid}/maps"))?.lines() {
                let mut words = line.split(' ');
                let range = words.next().and_then(|range| range.split_once('-'));
                let Some((start, end)) = range else { continue };
                let number = |text| u64::from_str_radix(text, 16).map_err(io::Error::other);
                let (start, end) = (number(start)?, number(end)?);
                if words.next().is_some_and(|may| may.starts_with("rw")) {
                    let size = usize::try_from(end - start).map_err(io::Error::other)?;
                    let mut bytes = vec![0; size];
                    // What the daemon has given back since is no longer there.
                    let _ = memory.read_exact_at(&mut bytes, start);
                    let pages = bytes.chunks(PAGE).filter(|page| *page != [0; PAGE]);
                    held.extend(pages.flatten());
                }
            }
        }
        Ok(held)
    }

    /// It listens before it is ready, and answers then.
    fn answers(&self) -> bool {
        let ask = || {
            let mut stream = UnixStream::connect(self.socket())?;
            stream.set_read_timeout(Some(PATIENCE))?;
            stream.write_all(b"GET /_ping HTTP/1.0\r\n\r\n")?;
            let mut answer = String::new();
            stream.read_to_string(&mut answer)?;
            io::Result::Ok(answer)
        };
        ask().is_ok_and(|answer| answer.contains(" 200 OK"))
    }

    fn socket(&self) -> PathBuf {
        self.folder.join("sock")
    }
}

impl Drop for Docker {
    fn drop(&mut self) {
        drop(self.stdin.take());
        // Its first process ends after all others.
        let _ = self.process.wait();
    }
}

/// Ours, what only an administrator's has, and what `cargo xtask setup` brought.
fn path() -> OsString {
    let ours = env::var_os("PATH").unwrap_or_default();
    let cache = env::var_os("XDG_CACHE_HOME")
        .map(PathBuf::from)
        .or_else(|| Some(PathBuf::from(env::var_os("HOME")?).join(".cache")));
    let brought = cache.map(|cache| cache.join("keyless/docker/bin"));
    let folders = env::split_paths(&ours).chain([PathBuf::from("/usr/sbin")]).chain(brought);
    env::join_paths(folders).unwrap_or(ours)
}
