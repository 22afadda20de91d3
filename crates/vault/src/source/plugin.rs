//! The source `plugin`: a program of somebody else, asked over the plugin protocol.
//!
//! What it may be and get stands in the operator's `sources.toml` alone: the program, its checksum,
//! the variables of its environment, its settings. What it says it can do is believed only as far
//! as `access` goes.

use std::{
    path::PathBuf,
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use keyless_core::{SafeText, SecretPath, SecretValue};
use keyless_plugin::{
    Availability, ClientError, Entry, Fault, Launch, Limits, PluginClient, Status, Text,
};
use serde::{Serialize, Serializer, ser::Error as _};
use toml::{Table, Value};
use zeroize::Zeroizing;

use super::{
    backend::{Answer, Backend, Capabilities, Fetched, Held, SourceFault, State, no_text},
    granted,
    supply::{Setting, Supply},
};
use crate::router::{named_in, required};

/// The settings that a plugin gets are shorter.
const CONFIG_BYTES: usize = 128 * 1024;

/// One plugin.
pub(crate) struct PluginSource {
    name: String,
    program: PathBuf,
    checksum_sha256: String,
    environment: Vec<(String, Setting)>,
    config: Value,
    /// The secrets that `config` names.
    named: Vec<SecretPath>,
    limits: Limits,
    started: Mutex<Option<Started>>,
    /// What it said last; nothing before it was ever asked.
    capabilities: AtomicU32,
}

/// The plugin, and the secrets of its settings that it was started with.
struct Started {
    client: PluginClient,
    named: Vec<SecretValue>,
}

/// Settings as JSON, with its value where a secret is named.
struct Filled<'a> {
    setting: &'a Value,
    with: &'a Supply,
}

impl PluginSource {
    /// `deadline` is what the operator gives it for an answer; the protocol's own is the most.
    pub(crate) fn new(name: &str, settings: &Table, deadline: Duration) -> Result<Self, String> {
        let program = PathBuf::from(required(settings, "program")?);
        if !program.is_absolute() {
            return Err("program is not an absolute path".to_owned());
        }
        let config = settings.get("config").cloned().unwrap_or_else(|| Table::new().into());
        let limits = Limits::default();
        Ok(Self {
            name: name.to_owned(),
            program,
            checksum_sha256: required(settings, "checksum_sha256")?,
            environment: granted::environment(settings)?,
            named: named_in(&config)?,
            config,
            limits: Limits { answer: deadline.min(limits.answer), ..limits },
            started: Mutex::default(),
            capabilities: AtomicU32::new(keyless_plugin::READ),
        })
    }

    /// The plugin, started anew once a secret of its settings has another value.
    fn client(&self, with: &Supply) -> Result<PluginClient, SourceFault> {
        let mut started = self.started();
        if let Some(Started { client, named }) = &*started
            && with.names_the_same_as(named)
        {
            return Ok(client.clone());
        }
        let client = PluginClient::new(self.launch(with)?);
        let now = Started { client: client.clone(), named: with.named_again() };
        if let Some(before) = started.replace(now) {
            before.end();
        }
        Ok(client)
    }

    fn launch(&self, with: &Supply) -> Result<Launch, SourceFault> {
        let owned = |text: &str| Text::new(text.to_owned());
        let environment = self.environment.iter();
        let environment =
            environment.map(|(name, value)| Ok((name.clone(), owned(value.resolve(with)?))));
        let environment = environment.collect::<Result<_, SourceFault>>()?;
        for path in &self.named {
            with.text_of(path)?;
        }
        let mut config = Zeroizing::new(Vec::with_capacity(CONFIG_BYTES));
        let filled = Filled { setting: &self.config, with };
        let unreadable = "its config can't be written as JSON";
        let unreadable = || SourceFault::new(State::Unavailable, unreadable);
        serde_json::to_writer(&mut *config, &filled).map_err(|_| unreadable())?;
        let config = std::str::from_utf8(&config).map_err(|_| unreadable())?;
        Ok(Launch {
            name: self.name.clone(),
            program: self.program.clone(),
            checksum_sha256: self.checksum_sha256.clone(),
            environment,
            config: owned(config),
            limits: self.limits,
        })
    }

    fn started(&self) -> MutexGuard<'_, Option<Started>> {
        self.started.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Started {
    /// Ends it in its own time. Where nothing runs that could wait for that, it ends with its last clone.
    fn end(self) {
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(async move { self.client.end().await });
        }
    }
}

impl Serialize for Filled<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let inner = |setting| Filled { setting, with: self.with };
        match self.setting {
            Value::String(text) => {
                let setting = Setting::parse(text).map_err(S::Error::custom)?;
                let text = setting.resolve(self.with);
                serializer.serialize_str(text.map_err(|_| S::Error::custom("no value"))?)
            }
            Value::Array(all) => serializer.collect_seq(all.iter().map(inner)),
            Value::Table(table) => {
                serializer.collect_map(table.iter().map(|(key, setting)| (key, inner(setting))))
            }
            plain => plain.serialize(serializer),
        }
    }
}

impl Backend for PluginSource {
    fn capabilities(&self) -> Capabilities {
        Capabilities::from_bits(self.capabilities.load(Ordering::Relaxed))
    }

    fn reference(&self, path: &SecretPath, _rest: &str, _route: Option<&Table>) -> String {
        path.to_string()
    }

    fn asked_capabilities<'a>(
        &'a self,
        with: &'a Supply,
    ) -> Answer<'a, Result<Capabilities, SourceFault>> {
        Box::pin(async move {
            let bits = self.client(with)?.capabilities().await.map_err(|error| fault(&error))?;
            self.capabilities.store(bits, Ordering::Relaxed);
            Ok(self.capabilities())
        })
    }

    fn files(&self) -> Vec<PathBuf> {
        granted::places(&self.environment)
    }

    fn check_here(&self) -> Result<(), SourceFault> {
        let checked = keyless_plugin::check_program(&self.program, &self.checksum_sha256);
        checked.map_err(|error| fault(&error))
    }

    fn state<'a>(&'a self, with: &'a Supply) -> Answer<'a, State> {
        Box::pin(async move {
            // What is amiss shows in the next question.
            let _ = self.asked_capabilities(with).await;
            let client = match self.client(with) {
                Ok(client) => client,
                Err(fault) => return fault.state,
            };
            match client.is_available().await {
                Ok(Availability { status, .. }) => state_of(status),
                Err(error) => fault(&error).state,
            }
        })
    }

    fn list<'a>(&'a self, with: &'a Supply) -> Answer<'a, Result<Vec<Held>, SourceFault>> {
        Box::pin(async move {
            let entries = self.client(with)?.list().await.map_err(|error| fault(&error))?;
            let held = |entry: Entry| Held { reference: entry.reference, name: entry.display };
            Ok(entries.into_iter().map(held).collect())
        })
    }

    fn get<'a>(
        &'a self,
        reference: &'a str,
        with: &'a Supply,
    ) -> Answer<'a, Result<Option<Fetched>, SourceFault>> {
        Box::pin(async move {
            let found = self.client(with)?.get(reference).await.map_err(|error| fault(&error))?;
            Ok(found.map(|found| Fetched {
                lease: found.lease_seconds.map(Duration::from_secs),
                bytes: Zeroizing::new(found.value.into_bytes()),
            }))
        })
    }

    fn put<'a>(
        &'a self,
        reference: &'a str,
        value: &'a SecretValue,
        with: &'a Supply,
    ) -> Answer<'a, Result<(), SourceFault>> {
        Box::pin(async move {
            let text = std::str::from_utf8(value.expose_to_its_source()).map_err(|_| no_text())?;
            let put = self.client(with)?.put(reference, Text::new(text.to_owned())).await;
            put.map(|_| ()).map_err(|error| fault(&error))
        })
    }

    fn forget(&self) {
        // What it was started with is no secret, or stays in its memory for as long as it runs.
        if let Some(started) = self.started().take_if(|started| !started.named.is_empty()) {
            started.end();
        }
    }
}

fn state_of(status: Status) -> State {
    match status {
        Status::Available => State::Available,
        Status::Locked => State::Locked,
        Status::NeedsCredential => State::NeedsCredential,
        Status::NotInstalled => State::NotInstalled,
        Status::Unavailable => State::Unavailable,
    }
}

/// Our words for what went wrong; those of the plugin could hold a value.
fn fault(error: &ClientError) -> SourceFault {
    let state = match error {
        ClientError::Fault(Fault::BadReference { .. } | Fault::UnsupportedCapability { .. }) => {
            State::Available
        }
        ClientError::Fault(Fault::NeedsCredential { .. }) => State::NeedsCredential,
        ClientError::Unstartable(_) => State::NotInstalled,
        _ => State::Unavailable,
    };
    let words = match error {
        ClientError::Fault(Fault::BadReference { .. }) => "the plugin does not take the reference",
        ClientError::Fault(Fault::NeedsCredential { .. }) => "the plugin needs a credential",
        ClientError::Fault(Fault::Unavailable { .. }) => "the plugin says it is not available",
        ClientError::Fault(Fault::UnsupportedCapability { .. }) => "the plugin can't do that",
        ClientError::Fault(Fault::Other { .. }) => "the plugin failed",
        other => {
            return SourceFault {
                state,
                words: SafeText::default().as_they_wrote(&other.to_string()),
            };
        }
    };
    SourceFault::new(state, words)
}
