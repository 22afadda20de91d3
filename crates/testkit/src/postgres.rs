//! Debian's PostgreSQL as a database that none of us wrote: TLS by our test CA, SCRAM, and a Unix
//! socket, with everything in a scratch folder.
//!
//! It does not run as root. Where the tests do, it runs as the user that Debian made for it. Making a database takes a
//! second, so that it is made once on a machine, and copied.

use std::{
    env, fs,
    io::{self, Write as _},
    net::SocketAddr,
    os::unix::{
        fs::{MetadataExt as _, PermissionsExt as _, chown},
        process::CommandExt as _,
    },
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    thread::sleep,
    time::{Duration, Instant},
};

use tempfile::TempDir;

use crate::{
    TestCa,
    port::{at_a_free_port, is_taken},
};

const PATIENCE: Duration = Duration::from_mins(1);
const VERSIONS: &str = "/usr/lib/postgresql";
/// Owned by the user that Debian's package makes.
const HOME_OF_USER: &str = "/var/lib/postgresql";

/// What the database is to be.
pub struct PostgresOptions<'a> {
    /// The CA that signs its certificate.
    pub ca: &'a TestCa,
    /// The names of its certificate.
    pub names: &'a [&'a str],
    /// The password of [`Postgres::USER`], over TCP and over the socket alike.
    pub password: &'a str,
}

/// A running PostgreSQL with an empty database `postgres`. Stopped when dropped.
pub struct Postgres {
    address: SocketAddr,
    process: Option<Child>,
    owner: Option<(u32, u32)>,
    folder: TempDir,
}

impl Postgres {
    /// The user, who may do everything.
    pub const USER: &'static str = "keyless";
    /// The database that is there from the start.
    pub const DATABASE: &'static str = "postgres";

    /// Makes a database and starts it; it answers when this returns.
    ///
    /// # Errors
    /// When PostgreSQL is not installed, or does not start: its log is in the text.
    pub fn start(options: &PostgresOptions<'_>) -> io::Result<Self> {
        at_a_free_port(|address| Self::start_at(address, options))
    }

    fn start_at(address: SocketAddr, options: &PostgresOptions<'_>) -> io::Result<Self> {
        let folder = tempfile::Builder::new().prefix("kl-postgres-").tempdir()?;
        let leaf = options.ca.issue(options.names)?;
        let owner = owner()?;
        let mut database = Self { address, process: None, owner, folder };
        for (name, content) in [
            ("certificate.pem", &*leaf.certificate_pem),
            ("key.pem", &*leaf.key_pem),
            ("password", options.password),
        ] {
            let path = database.path(name);
            fs::write(&path, content)?;
            fs::set_permissions(&path, fs::Permissions::from_mode(0o600))?;
            database.give(&path)?;
        }
        database.give(database.folder.path())?;
        database.initialize(options.password)?;
        database.run()?;
        Ok(database)
    }

    fn initialize(&self, password: &str) -> io::Result<()> {
        run(Command::new("cp").arg("-a").arg(self.made()?).arg(self.path("data")))?;
        let mut single = self.command("postgres")?;
        single.args(["--single", Self::DATABASE, "-D"]).arg(self.path("data"));
        let single = single.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        let mut single = single.spawn()?;
        let password = password.replace('\'', "''");
        if let Some(mut words) = single.stdin.take() {
            writeln!(words, "ALTER ROLE {} PASSWORD '{password}'", Self::USER)?;
        }
        match single.wait()? {
            ended if ended.success() => Ok(()),
            ended => Err(io::Error::other(format!("PostgreSQL could not be prepared: {ended}"))),
        }
    }

    /// An empty database of this machine's tests, to be copied.
    fn made(&self) -> io::Result<PathBuf> {
        let initdb = program("initdb")?;
        let name = format!("kl-postgres-made{}", initdb.to_string_lossy().replace('/', "-"));
        let folder = env::temp_dir().join(name);
        let made = folder.join("data");
        fs::create_dir_all(&folder)?;
        let lock = fs::File::create(folder.join("lock"))?;
        lock.lock()?;
        if made.exists() {
            return Ok(made);
        }
        self.give(&folder)?;
        let making = folder.join("making");
        // Left by one that was killed.
        let _ = fs::remove_dir_all(&making);
        let mut initdb = self.command("initdb")?;
        initdb.args(["--auth=scram-sha-256", "--no-sync", "--encoding=UTF8", "--locale=C"]);
        initdb.args(["--wal-segsize=1", "--pgdata"]).arg(&making).arg("--username").arg(Self::USER);
        run(initdb.arg("--pwfile").arg(self.path("password")))?;
        fs::rename(&making, &made)?;
        Ok(made)
    }

    /// Starts it again, with what it had, at the same address.
    ///
    /// # Errors
    /// When it does not start: its log is in the text.
    pub fn restart(&mut self) -> io::Result<()> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            self.kill();
            match self.run() {
                // Another process's connection may begin at its port meanwhile, and ends.
                Err(error) if is_taken(&error) && Instant::now() < deadline => {
                    sleep(Duration::from_millis(200));
                }
                settled => return settled,
            }
        }
    }

    fn run(&mut self) -> io::Result<()> {
        let log = fs::File::create(self.path("log"))?;
        let mut postgres = self.command("postgres")?;
        postgres.arg("-D").arg(self.path("data")).args(["-p", &self.address.port().to_string()]);
        postgres.arg("-k").arg(self.socket_folder());
        for setting in [
            "listen_addresses=127.0.0.1",
            // In its folder, and not in /dev/shm, where it would outlive a kill.
            "dynamic_shared_memory_type=mmap",
            "fsync=off",
            "ssl=on",
            "ssl_cert_file=../certificate.pem",
            "ssl_key_file=../key.pem",
        ] {
            postgres.args(["-c", setting]);
        }
        self.process = Some(postgres.stdout(Stdio::null()).stderr(log).spawn()?);
        self.wait_until_ready()
    }

    fn wait_until_ready(&mut self) -> io::Result<()> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let log = fs::read_to_string(self.path("log"))?;
            if log.contains("database system is ready to accept connections") {
                return Ok(());
            }
            let ended = self.process.as_mut().is_none_or(|it| !matches!(it.try_wait(), Ok(None)));
            if ended || Instant::now() > deadline {
                return Err(io::Error::other(format!("PostgreSQL did not start: {log}")));
            }
            sleep(Duration::from_millis(20));
        }
    }

    /// Ends it at once, without the courtesies: what was committed stays.
    pub fn kill(&mut self) {
        if let Some(mut process) = self.process.take() {
            // SIGKILL would leave its shared memory behind.
            let _ = Command::new("kill").args(["-QUIT", &process.id().to_string()]).status();
            let _ = process.wait();
        }
    }

    /// Where it listens, with and without TLS.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The folder with its Unix socket.
    pub fn socket_folder(&self) -> PathBuf {
        self.folder.path().to_owned()
    }

    /// Where a store finds it over that socket; its user's password is not in it.
    pub fn socket_url(&self) -> String {
        let (user, database, port) = (Self::USER, Self::DATABASE, self.address.port());
        let folder = self.socket_folder();
        format!("postgres:///{database}?user={user}&host={}&port={port}", folder.display())
    }

    /// Runs SQL through `psql` over the socket, and returns what it prints: rows without decoration.
    ///
    /// # Errors
    /// When `psql` says no: its words are in the text.
    pub fn sql(&self, statements: &str) -> io::Result<String> {
        let mut psql = self.client("psql")?;
        psql.args(["-X", "-A", "-t", "-q", "-v", "ON_ERROR_STOP=1", "-c", statements]);
        let printed = run(psql.args(["-d", Self::DATABASE]))?;
        Ok(String::from_utf8_lossy(&printed).trim_end().to_owned())
    }

    /// Everything that it has, as `pg_dumpall` writes it.
    ///
    /// # Errors
    /// When `pg_dumpall` says no: its words are in the text.
    pub fn dump(&self) -> io::Result<Vec<u8>> {
        run(&mut self.client("pg_dumpall")?)
    }

    /// A client over the socket.
    fn client(&self, name: &str) -> io::Result<Command> {
        let mut client = Command::new(program(name)?);
        client.args(["-U", Self::USER, "-p", &self.address.port().to_string()]).arg("-h");
        client.arg(self.socket_folder());
        client.env("PGPASSWORD", fs::read_to_string(self.path("password"))?).stdin(Stdio::null());
        Ok(client)
    }

    fn command(&self, name: &str) -> io::Result<Command> {
        let mut command = Command::new(program(name)?);
        command.env_clear().env("PATH", "/usr/bin:/bin").env("LC_ALL", "C").stdin(Stdio::null());
        command.current_dir(self.folder.path());
        if let Some((user, group)) = self.owner {
            command.uid(user).gid(group);
        }
        Ok(command)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn give(&self, path: &Path) -> io::Result<()> {
        match self.owner {
            Some((user, group)) => chown(path, Some(user), Some(group)),
            None => Ok(()),
        }
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        self.kill();
    }
}

/// What it prints, or as an error what it complains of.
fn run(command: &mut Command) -> io::Result<Vec<u8>> {
    let output = command.output()?;
    if output.status.success() {
        return Ok(output.stdout);
    }
    Err(io::Error::other(String::from_utf8_lossy(&output.stderr).into_owned()))
}

/// The user and group that the database runs as, where they are not this process's own.
fn owner() -> io::Result<Option<(u32, u32)>> {
    if fs::metadata("/proc/self")?.uid() != 0 {
        return Ok(None);
    }
    let home = fs::metadata(HOME_OF_USER)
        .map_err(|_| io::Error::other("PostgreSQL is not installed: run cargo xtask setup"))?;
    Ok(Some((home.uid(), home.gid())))
}

/// The program of the newest version that is installed.
fn program(name: &str) -> io::Result<PathBuf> {
    let missing = || io::Error::other("PostgreSQL is not installed: run cargo xtask setup");
    let versions = fs::read_dir(VERSIONS).map_err(|_| missing())?;
    let paths = versions.flatten().map(|version| version.path().join("bin").join(name));
    let mut found: Vec<PathBuf> = paths.filter(|path| path.exists()).collect();
    found.sort();
    found.pop().ok_or_else(missing)
}
