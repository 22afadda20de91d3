//! Where Keyless keeps its files: `KEYLESS_HOME` over everything, else the XDG directories.
//!
//! The one place that reads these variables, each declared here with its meaning.
//! Source: design.md, section 6.

use std::{
    collections::BTreeSet,
    env, fs, io,
    os::unix::fs::{DirBuilderExt, MetadataExt},
    path::{Path, PathBuf},
};

use keyless_core::{Code, Error, SafeText};
use keyless_jail::TOOLS_SOCKET;
use keyless_vault::PlainFile;
use rustix::fs::{Access, access};

use crate::{homes::account_homes, service};

/// Overrides every directory below.
pub const KEYLESS_HOME: &str = "KEYLESS_HOME";
/// Where the tools of a session ask; set inside a jail, which shows no other socket of Keyless.
pub(crate) const KEYLESS_AGENT_SOCKET: &str = "KEYLESS_AGENT_SOCKET";
/// A private file with the passphrase, for unattended use.
pub const KEYLESS_PASSPHRASE_FILE: &str = "KEYLESS_PASSPHRASE_FILE";

/// The list of files that opened a store, in the folder of its home's state.
pub(crate) const PASSPHRASE_FILES: &str = "passphrase-files";

/// The folders that XDG's variables move, each with where it is below a home directory without.
const XDG: [(&str, &str); 3] = [
    ("XDG_CONFIG_HOME", ".config"),
    ("XDG_DATA_HOME", ".local/share"),
    ("XDG_STATE_HOME", ".local/state"),
];

/// Keyless's directories. Nothing is created until it is needed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Places {
    config: PathBuf,
    data: PathBuf,
    state: PathBuf,
    runtime: PathBuf,
    /// Where the broker of this store listens: it may have been started where `XDG_RUNTIME_DIR` says another place.
    served_in: PathBuf,
}

impl Places {
    /// Everything below one directory, as `KEYLESS_HOME` says.
    pub fn below(home: &Path) -> Self {
        Self {
            config: home.to_owned(),
            data: home.to_owned(),
            state: home.join("state"),
            runtime: home.join("run"),
            served_in: home.join("run"),
        }
    }

    /// What the environment says: `KEYLESS_HOME`, else XDG, else the XDG defaults below `HOME`.
    pub fn from_environment() -> Result<Self, Error> {
        if let Some(home) = keyless_home()? {
            return Ok(Self::below(&home).where_served());
        }
        let home = directory("HOME").ok_or_else(|| {
            Error::with(Code::HomeUnset, SafeText::words("neither HOME nor KEYLESS_HOME is set"))
        })?;
        if home.is_relative() {
            // It would be another home in each folder.
            let told = SafeText::words("HOME has to be an absolute path, and is ");
            return Err(Error::with(Code::HomeUnset, told.as_they_wrote(&home.to_string_lossy())));
        }
        let below = |(variable, default): (&str, &str)| {
            directory(variable).unwrap_or_else(|| home.join(default)).join("keyless")
        };
        let [config, data, state] = XDG.map(below);
        let runtime = directory("XDG_RUNTIME_DIR")
            .map_or_else(|| state.join("run"), |runtime| runtime.join("keyless"));
        let places = Self { config, data, state, served_in: runtime.clone(), runtime };
        Ok(places.where_served())
    }

    /// With the sockets of the broker that serves this store now, if one does.
    #[must_use]
    pub fn where_served(self) -> Self {
        match service::served_in(&self) {
            Some(served_in) => Self { served_in, ..self },
            None => self.served_here(),
        }
    }

    /// With the sockets in this environment's own folder.
    pub(crate) fn served_here(self) -> Self {
        Self { served_in: self.runtime.clone(), ..self }
    }

    /// Where a broker of this store may listen, by the environments that an account usually has.
    pub(crate) fn runtimes(&self) -> Vec<PathBuf> {
        let mut all = vec![self.runtime.clone(), self.state.join("run")];
        // What the account's session has is for its own home's store.
        let own = keyless_jail::account_home().map(|home| home.join(XDG[1].1).join("keyless"));
        if own.is_some_and(|own| own == self.data) {
            all.push(account_runtime());
        }
        let mut seen = BTreeSet::new();
        all.retain(|folder| seen.insert(folder.clone()));
        all
    }

    /// Where a home is without `KEYLESS_HOME` and without XDG's variables.
    pub(crate) fn without_variables() -> Vec<PathBuf> {
        let below = |home: &PathBuf| XDG.map(|(_, folder)| home.join(folder).join("keyless"));
        account_homes().iter().flat_map(below).collect()
    }

    /// Where a home is without `KEYLESS_HOME`: as XDG's variables say, and as it is without them.
    pub(crate) fn usual() -> Vec<PathBuf> {
        let moved = XDG.iter().filter_map(|(variable, _)| directory(variable));
        let all = moved.chain(directory("XDG_RUNTIME_DIR")).filter(|folder| folder.is_absolute());
        let all = all.map(|folder| folder.join("keyless")).chain([account_runtime()]);
        Self::without_variables().into_iter().chain(all).collect()
    }

    /// `config.toml`.
    pub fn config_file(&self) -> PathBuf {
        self.config.join("config.toml")
    }

    /// `agreed.json`: what of config.toml and sources.toml the operator has agreed to.
    pub fn agreed_file(&self) -> PathBuf {
        self.config.join("agreed.json")
    }

    /// `index.toml`: what the operator knows of secrets that the store does not have.
    pub fn index_file(&self) -> PathBuf {
        self.config.join("index.toml")
    }

    /// `attestation-keys.json`: the keys of vendors who vouch for agents.
    pub fn attestation_keys_file(&self) -> PathBuf {
        self.config.join("attestation-keys.json")
    }

    /// `guard.toml`: the organization's own rules about what agents may run.
    pub fn guard_file(&self) -> PathBuf {
        self.config.join("guard.toml")
    }

    /// `sources.toml`: where secrets are kept beside the store.
    pub fn sources_file(&self) -> PathBuf {
        self.config.join("sources.toml")
    }

    /// `providers/`: services that actions may call, beside those that come with Keyless.
    pub fn services_folder(&self) -> PathBuf {
        self.config.join("providers")
    }

    /// `catalog-sources.toml`: addresses of further providers.
    pub fn catalog_sources_file(&self) -> PathBuf {
        self.config.join("catalog-sources.toml")
    }

    /// What was fetched from these addresses, and the record of it.
    pub fn catalog_state(&self) -> PathBuf {
        self.state.join("catalog")
    }

    /// `catalog/`: the operator's own providers of tokens, one JSON file each.
    pub fn catalog_folder(&self) -> PathBuf {
        self.config.join("catalog")
    }

    /// `patterns.d/`: the operator's own kinds of tokens, any number in a TOML file.
    pub fn patterns_folder(&self) -> PathBuf {
        self.config.join("patterns.d")
    }

    /// The folder of what has to last.
    pub(crate) fn data(&self) -> &Path {
        &self.data
    }

    /// The sealed values, the audit log; where they are not on a server ([`store_place`](crate::store_place)).
    pub fn store_file(&self) -> PathBuf {
        self.data.join("store.db")
    }

    /// `audit-checkpoints.jsonl`: where the log ended, signed.
    pub fn checkpoints_file(&self) -> PathBuf {
        self.data.join("audit-checkpoints.jsonl")
    }

    /// What the brokers of this home hold as long as they live.
    pub(crate) fn brokers(&self) -> PathBuf {
        self.data.join("brokers")
    }

    /// `broker.lock`: held by the broker that serves, and says where. Beside the store, which is one whatever environment
    /// a broker was started in.
    pub(crate) fn broker_lock(&self) -> PathBuf {
        self.data.join("broker.lock")
    }

    /// `alone/`: the runs that opened the store by themselves.
    pub(crate) fn runs_alone(&self) -> PathBuf {
        self.data.join("alone")
    }

    /// `webhooks.json`: how far each receiver of notifications was told.
    pub(crate) fn webhooks_state(&self) -> PathBuf {
        self.data.join("webhooks.json")
    }

    /// The socket of the unlocked broker.
    pub fn agent_socket(&self) -> PathBuf {
        self.served_in.join("agent.sock")
    }

    /// Where tools for agents ask: their session's socket, else the broker.
    pub fn tools_socket(&self) -> PathBuf {
        session_socket().unwrap_or_else(|| self.agent_socket())
    }

    /// The broker's socket for the operator, who proves the factor.
    pub fn operator_socket(&self) -> PathBuf {
        self.served_in.join("operator.sock")
    }

    /// The broker's socket for agents that speak the NL Protocol.
    pub fn nl_socket(&self) -> PathBuf {
        self.served_in.join("nl.sock")
    }

    /// Sockets of running sessions and CA files of a proxy; private to the user.
    pub fn runtime(&self) -> &Path {
        &self.runtime
    }

    /// How far the setting up of each project has come.
    pub(crate) fn setup_state(&self) -> PathBuf {
        self.state.join("setup")
    }

    /// Where the bearer credential of `keyless mcp --http` is when nobody names another file; its folder is there then.
    pub fn prepare_http_credential(&self) -> Result<PathBuf, Error> {
        private_directory(&self.state)?;
        Ok(self.state.join("mcp-credential"))
    }

    /// Which files passphrases were read from.
    pub(crate) fn passphrase_files(&self) -> PathBuf {
        self.state.join(PASSPHRASE_FILES)
    }

    /// Everything that an agent must not see.
    pub fn all(&self) -> Vec<PathBuf> {
        let mut all = vec![self.config.clone(), self.data.clone(), self.state.clone()];
        all.extend([self.runtime.clone(), self.served_in.clone()]);
        all.dedup();
        all
    }

    /// Makes sure that the store's directory is there.
    pub(crate) fn prepare_data(&self) -> Result<(), Error> {
        create_private(&self.data).map_err(|error| unusable(&self.data, &error))
    }

    /// Makes sure that a store can be made in its directory, or says which one it is and what is in the way.
    pub(crate) fn check_data(&self) -> Result<(), Error> {
        self.prepare_data()?;
        let wanted = Access::READ_OK | Access::WRITE_OK | Access::EXEC_OK;
        access(&self.data, wanted).map_err(|error| unusable(&self.data, &error.into()))
    }

    /// Makes sure that the runtime directory is there, is ours and is 0700.
    pub fn prepare_runtime(&self) -> Result<(), Error> {
        private_directory(&self.runtime)
    }
}

/// What `XDG_RUNTIME_DIR` says in a session of the account that systemd has made.
fn account_runtime() -> PathBuf {
    PathBuf::from(format!("/run/user/{}/keyless", rustix::process::getuid().as_raw()))
}

/// Whether this process is in a session with somebody to ask, so that Keyless's own files are none of its business.
pub(crate) fn is_in_asking_session() -> bool {
    session_socket().is_some()
}

/// The operating system refused this file, directory or socket, or has no room for it.
pub fn unusable(path: &Path, error: &io::Error) -> Error {
    let place = SafeText::default().as_they_wrote(&path.to_string_lossy());
    match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            Error::with(Code::DiskFull, place)
        }
        // What the system says of an argument has no words with it.
        PlainFile::NO_FILE if error.get_ref().is_some() => {
            Error::with(Code::PathUnusable, place.and(": it is no regular file"))
        }
        kind => Error::with(Code::PathUnusable, place.and(": ").and(kind)),
    }
}

/// Creates `path` with mode 0700 unless it is there.
pub(crate) fn create_private(path: &Path) -> io::Result<()> {
    fs::DirBuilder::new().recursive(true).mode(0o700).create(path)
}

/// Creates `path` with mode 0700, or checks that what is there is a directory of ours.
pub(crate) fn private_directory(path: &Path) -> Result<(), Error> {
    create_private(path).map_err(|error| unusable(path, &error))?;
    let metadata = fs::metadata(path).map_err(|error| unusable(path, &error))?;
    let ours = metadata.uid() == rustix::process::geteuid().as_raw();
    if ours && metadata.mode() & 0o022 == 0 {
        return Ok(());
    }
    let detail = SafeText::default().as_they_wrote(&path.to_string_lossy());
    Err(Error::with(Code::KeyFileUnsafe, detail))
}

/// `KEYLESS_HOME`, as a process in another folder has to be told it; `None` when it is not set.
pub fn keyless_home() -> Result<Option<PathBuf>, Error> {
    directory(KEYLESS_HOME).map(|home| absolute(&home)).transpose()
}

fn directory(variable: &str) -> Option<PathBuf> {
    env::var_os(variable).filter(|value| !value.is_empty()).map(PathBuf::from)
}

fn absolute(path: &Path) -> Result<PathBuf, Error> {
    std::path::absolute(path).map_err(|_| {
        Error::with(Code::PathUnusable, SafeText::words("KEYLESS_HOME can't be made absolute"))
    })
}

/// The socket of the session that this process is in: what the environment says, or the jail, where a client handed its
/// server few variables.
pub(crate) fn session_socket() -> Option<PathBuf> {
    let of_jail = || {
        let socket = Path::new(TOOLS_SOCKET);
        (keyless_jail::is_inside() && socket.exists()).then(|| socket.to_owned())
    };
    directory(KEYLESS_AGENT_SOCKET).or_else(of_jail)
}

/// Whether this process is an agent's: a session of `keyless run` says so, or its jail.
pub fn is_inside_session() -> bool {
    env::var_os(KEYLESS_AGENT_SOCKET).is_some() || keyless_jail::is_inside()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_home_holds_everything() {
        let places = Places::below(Path::new("/h"));
        assert_eq!(places.store_file(), Path::new("/h/store.db"));
        assert_eq!(places.agent_socket(), Path::new("/h/run/agent.sock"));
    }
}
