//! Sets the egress engine up from what the operator wrote: config.toml, and a catalog where there is one.

use std::sync::Arc;

use keyless_core::{Code, Destination, Error, SafeText};
use keyless_egress::{Engine, EngineConfig, EngineError, Session};
use keyless_vault::{Catalog, EgressPolicy as CatalogPolicy};
use parking_lot::Mutex;

use crate::config::{Config, PolicyWord};

/// The engine, and the private roots that the agent's side has to trust as well: a host that no
/// secret names is tunnelled, so its own certificate is what a tool inside sees.
#[derive(Clone)]
pub struct EgressDoor {
    /// The engine.
    pub engine: Arc<Engine>,
    /// The operator's extra roots, PEM, one after the other, as the last configuration has them.
    extra_roots: Arc<Mutex<String>>,
}

impl EgressDoor {
    /// As config.toml says.
    pub fn new(config: &Config) -> Result<Self, Error> {
        Self::build(config, None)
    }

    /// As config.toml and a catalog say; the stricter of two policies holds.
    pub(crate) fn for_catalog(config: &Config, catalog: &Catalog) -> Result<Self, Error> {
        Self::build(config, Some(catalog))
    }

    /// Takes up another configuration. On an error nothing changes.
    pub(crate) fn reload(&self, config: &Config) -> Result<(), Error> {
        let engine_config = engine_config(config, None)?;
        let extra_roots = one_after_the_other(&engine_config);
        self.engine.reload(engine_config).map_err(|error| explain(&error, config))?;
        *self.extra_roots.lock() = extra_roots;
        Ok(())
    }

    /// What a session that is opened now has to trust, PEM: its own CA, then the operator's extra roots.
    pub(crate) fn trust_pem(&self, session: &Session) -> String {
        session.ca_pem() + &self.extra_roots.lock()
    }

    fn build(config: &Config, catalog: Option<&Catalog>) -> Result<Self, Error> {
        let engine_config = engine_config(config, catalog)?;
        let extra_roots = Arc::new(Mutex::new(one_after_the_other(&engine_config)));
        let engine = Engine::new(engine_config).map_err(|error| explain(&error, config))?;
        Ok(Self { engine, extra_roots })
    }
}

/// What the operator wrote, as the engine takes it; the stricter of two policies holds.
pub(crate) fn engine_config(
    config: &Config,
    catalog: Option<&Catalog>,
) -> Result<EngineConfig, Error> {
    let egress = &config.egress;
    let extra_roots_pem = egress.extra_roots.iter().map(|file| file.pem().map(<[u8]>::to_vec));
    let mut internal_allowlist = egress.internal()?;
    let mut confined = egress.policy == PolicyWord::Allowlist;
    if let Some(catalog) = catalog {
        internal_allowlist.extend(catalog.internal.iter().cloned());
        confined |= catalog.policy == CatalogPolicy::Allowlist;
    }
    let policy = if confined {
        keyless_egress::EgressPolicy::Allowlist(listed(egress.allowlist.clone(), catalog))
    } else {
        keyless_egress::EgressPolicy::Allow
    };
    Ok(EngineConfig {
        connect_to: egress.routes()?.into_iter().collect(),
        extra_roots_pem: extra_roots_pem.collect::<Result<_, _>>()?,
        internal_allowlist,
        pass_through: egress.pass_through.clone(),
        policy,
        upstream_proxy: egress.proxy()?,
        limits: egress.limits(),
        allowance: egress.allowance(),
    })
}

fn one_after_the_other(config: &EngineConfig) -> String {
    config.extra_roots_pem.iter().map(|pem| String::from_utf8_lossy(pem) + "\n").collect()
}

fn listed(mut hosts: Vec<Destination>, catalog: Option<&Catalog>) -> Vec<Destination> {
    let entries = catalog.iter().flat_map(|catalog| &catalog.entries);
    hosts.extend(entries.flat_map(|entry| entry.rule.to.iter().cloned()));
    hosts
}

/// Names the file that holds no usable root.
pub(crate) fn explain(EngineError(error): &EngineError, config: &Config) -> Error {
    let file = config.egress.extra_roots.get(error.which).map(|file| file.path().to_string_lossy());
    let place = SafeText::words("the extra root ").as_they_wrote(&file.unwrap_or_default());
    Error::with(Code::ConfigInvalid, place.and(": ").as_they_wrote(&error.fault.to_string()))
}
