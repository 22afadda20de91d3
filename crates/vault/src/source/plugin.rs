//! The source `plugin`: a program of somebody else, asked over the plugin protocol.
//!
//! What it may be and get stands in the operator's `sources.toml` alone: the program, its checksum,
//! the variables of its environment, its settings. What it says it can do is believed only as far
//! as `access` goes.

use keyless_core::{SafeText, SecretPath, SecretValue};
use keyless_plugin::{
    Availability, ClientError, Entry, Fault, Launch, Limits, PluginClient, Status, Text,
};
use serde_json::{Map, Value};
use std::sync::atomic::{AtomicU32, Ordering};
use std::{path::PathBuf, time::Duration};
use toml::Table;
use zeroize::Zeroizing;

use super::{
    backend::{Answer, Backend, Capabilities, Fetched, Held, SourceFault, State},
    granted,
};
use crate::router::required;

/// One plugin.
pub(crate) struct PluginSource {
    client: PluginClient,
    environment: Vec<(String, String)>,
    /// What it said last; nothing before it was ever asked.
    capabilities: AtomicU32,
}

impl PluginSource {
    /// `deadline` is what the operator gives it for an answer; the protocol's own is the most.
    pub(crate) fn new(name: &str, settings: &Table, deadline: Duration) -> Result<Self, String> {
        let program = PathBuf::from(required(settings, "program")?);
        if !program.is_absolute() {
            return Err("program is not an absolute path".to_owned());
        }
        let mut environment = Vec::new();
        for entry in
            settings.get("environment").and_then(toml::Value::as_table).into_iter().flatten()
        {
            let (name, value) = entry;
            let value = value.as_str().ok_or_else(|| format!("{name} is not text"))?;
            environment.push((name.clone(), value.to_owned()));
        }
        let config = match settings.get("config") {
            None => Value::Object(Map::new()),
            Some(config) => serde_json::to_value(config).map_err(|error| error.to_string())?,
        };
        let limits = Limits::default();
        let launch = Launch {
            name: name.to_owned(),
            program,
            checksum_sha256: required(settings, "checksum_sha256")?,
            environment: environment.clone(),
            config,
            limits: Limits { answer: deadline.min(limits.answer), ..limits },
        };
        Ok(Self {
            client: PluginClient::new(launch),
            environment,
            capabilities: AtomicU32::new(keyless_plugin::READ),
        })
    }
}

impl Backend for PluginSource {
    fn capabilities(&self) -> Capabilities {
        Capabilities::from_bits(self.capabilities.load(Ordering::Relaxed))
    }

    fn reference(&self, path: &SecretPath, _rest: &str, _route: Option<&Table>) -> String {
        path.to_string()
    }

    fn asked_capabilities(&self) -> Answer<'_, Capabilities> {
        Box::pin(async move {
            if let Ok(bits) = self.client.capabilities().await {
                self.capabilities.store(bits, Ordering::Relaxed);
            }
            self.capabilities()
        })
    }

    fn files(&self) -> Vec<PathBuf> {
        granted::places(&self.environment)
    }

    fn state<'a>(&'a self, _: Option<&'a SecretValue>) -> Answer<'a, State> {
        Box::pin(async move {
            self.asked_capabilities().await;
            match self.client.is_available().await {
                Ok(Availability { status, .. }) => state_of(status),
                Err(ClientError::Unstartable(_) | ClientError::Checksum | ClientError::Unsafe) => {
                    State::NotInstalled
                }
                Err(_) => State::Unavailable,
            }
        })
    }

    fn list<'a>(
        &'a self,
        _: Option<&'a SecretValue>,
    ) -> Answer<'a, Result<Vec<Held>, SourceFault>> {
        Box::pin(async move {
            let entries = self.client.list().await.map_err(|error| fault(&error))?;
            let held = |entry: Entry| Held { reference: entry.reference, name: entry.display };
            Ok(entries.into_iter().map(held).collect())
        })
    }

    fn get<'a>(
        &'a self,
        reference: &'a str,
        _: Option<&'a SecretValue>,
    ) -> Answer<'a, Result<Option<Fetched>, SourceFault>> {
        Box::pin(async move {
            let found = self.client.get(reference).await.map_err(|error| fault(&error))?;
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
        _: Option<&'a SecretValue>,
    ) -> Answer<'a, Result<(), SourceFault>> {
        Box::pin(async move {
            let text = std::str::from_utf8(value.expose_to_its_source())
                .map_err(|_| SourceFault::new(State::Unavailable, "it takes text alone"))?;
            let put = self.client.put(reference, Text::new(text.to_owned())).await;
            put.map(|_| ()).map_err(|error| fault(&error))
        })
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
