//! The built binary, as a user would start it: in a scratch home, with an empty environment.

use std::{
    fmt::Write,
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use data_encoding::BASE64;
use serde_json::Value;

use crate::{
    ORIGIN, Result, Route, Stage, Subject, name,
    process::Child,
    roles::{NAMES, trusting},
    text::Random,
};

const SESSION: &str = "bench";

/// `target/release/keyless`, with a home of its own.
pub struct Binary {
    program: PathBuf,
    home: PathBuf,
}

/// How many secrets a fleet's proxy is to hold, all of them for the one origin.
#[derive(Clone, Copy, Debug)]
pub struct Fleet(pub usize);

/// A running `keyless proxy`.
pub struct Keyless {
    /// Its process.
    pub process: Child,
    /// The way through it, with the first secret's placeholder as the credential.
    pub route: Route,
}

impl Binary {
    /// The binary beside this program, or the one that `KEYLESS_BENCH_BINARY` names.
    pub fn find(home: &Path) -> Result<Self> {
        let beside = std::env::current_exe()?.with_file_name("keyless");
        let program = std::env::var_os("KEYLESS_BENCH_BINARY").map_or(beside, PathBuf::from);
        if !program.exists() {
            let shown = program.display();
            return Err(format!("{shown} is not built: cargo build --release -p keyless").into());
        }
        fs::create_dir_all(home)?;
        Ok(Self { program, home: home.to_owned() })
    }

    /// The command, ready for its arguments.
    pub fn command(&self) -> Command {
        let mut command = Command::new(&self.program);
        command.env_clear().env("HOME", &self.home).env("KEYLESS_HOME", self.home.join("keyless"));
        command.env("PATH", "/usr/local/bin:/usr/bin:/bin");
        command
    }

    /// Starts `keyless proxy` over a catalog of `fleet`'s secrets, in a home of its own: one store
    /// has one writer.
    pub fn proxy(&self, stage: &Stage, fleet: Fleet) -> Result<Keyless> {
        self.start(stage, fleet, 0)
    }

    /// The same with one secret for so many names of the origin, the first of [`name`]'s.
    pub fn proxy_of_names(&self, stage: &Stage, names: usize) -> Result<Keyless> {
        self.start(stage, Fleet(1), names)
    }

    fn start(&self, stage: &Stage, Fleet(secrets): Fleet, names: usize) -> Result<Keyless> {
        let directory = stage.directory.path().join(format!("fleet-{secrets}-{names}"));
        let hosts = if names == 0 { ORIGIN } else { NAMES };
        let catalog = write_catalog(&directory, secrets, hosts)?;
        let key = directory.join("proxy.key");
        let binary = Self { program: self.program.clone(), home: directory.join("home") };
        let mut command = binary.command();
        command.args(["--json", "proxy", "--listen", "127.0.0.1:0", "--session", SESSION]);
        command.arg("--catalog").arg(&catalog).arg("--key-file").arg(&key);
        command.arg("--secrets-dir").arg(directory.join("values"));
        command.arg("--extra-root").arg(stage.origin_root());
        command.arg("--connect-to").arg(format!("{ORIGIN}:443={}", stage.origin));
        for n in 0..names {
            command.arg("--connect-to").arg(format!("{}:443={}", name(n), stage.origin));
        }
        let process = Child::start_counted(&mut command, stage.counts(), "keyless")?;
        let Ok(ready) = serde_json::from_str::<Value>(process.first_line()) else {
            return Err(format!("keyless proxy: {}", process.last_words()).into());
        };
        let (address, proxy_authorization) = read_proxy_url(text(&ready, "proxy_url")?)?;
        let route = Route {
            name: "Keyless",
            address: address.parse()?,
            proxy_authorization: Some(proxy_authorization),
            tls: trusting(&text(&ready, "ca")?.into())?,
            credential: binary.placeholder(&catalog, &key)?,
            swaps: true,
        };
        Ok(Keyless { process, route })
    }

    /// The first secret's placeholder, from the key that the proxy derives it from as well.
    fn placeholder(&self, catalog: &Path, key: &Path) -> Result<String> {
        let mut command = self.command();
        command.args(["placeholders", "--session", SESSION, "--format", "json"]);
        command.arg("--catalog").arg(catalog).arg("--key-file").arg(key);
        let output = command.stderr(Stdio::inherit()).output()?;
        let all: Value = serde_json::from_slice(&output.stdout)?;
        text(&all, &variable(0)).map(str::to_owned)
    }
}

impl Keyless {
    /// As a subject of measurement.
    pub fn subject(&self) -> Subject<'_> {
        Subject { route: self.route.clone(), process: &self.process }
    }
}

/// The value of secret `n`, the same on every run.
pub(crate) fn value(n: usize) -> String {
    Random::new(1000 + n as u64).token(40)
}

/// What a client sends where nothing is swapped: as long as a placeholder.
pub(crate) fn stand_in() -> String {
    format!("token_{}", Random::new(0).token(26))
}

fn variable(n: usize) -> String {
    format!("SECRET_{n}")
}

fn write_catalog(directory: &Path, secrets: usize, hosts: &str) -> Result<PathBuf> {
    let values = directory.join("values/bench");
    fs::create_dir_all(&values)?;
    let mut catalog =
        String::from("apiVersion: keyless.dev/v1alpha1\nkind: SecretProxy\nspec:\n  secrets:\n");
    for n in 0..secrets {
        let variable = variable(n);
        let file = values.join(&variable);
        fs::write(&file, value(n))?;
        fs::set_permissions(&file, fs::Permissions::from_mode(0o600))?;
        writeln!(
            catalog,
            "    - {{env: {variable}, secretRef: {{name: bench, key: {variable}}}, egressTo: [\"{hosts}\"]}}"
        )?;
    }
    let path = directory.join("catalog.yaml");
    fs::write(&path, catalog)?;
    Ok(path)
}

/// `http://USER:TOKEN@HOST:PORT` as address and header.
fn read_proxy_url(url: &str) -> Result<(&str, String)> {
    let parts =
        url.strip_prefix("http://").and_then(|rest| rest.trim_end_matches('/').rsplit_once('@'));
    let (user, address) = parts.ok_or("proxy_url is http://SESSION:TOKEN@HOST:PORT")?;
    Ok((address, format!("Basic {}", BASE64.encode(user.as_bytes()))))
}

fn text<'a>(object: &'a Value, field: &str) -> Result<&'a str> {
    object[field].as_str().ok_or_else(|| format!("no `{field}` in {object}").into())
}
