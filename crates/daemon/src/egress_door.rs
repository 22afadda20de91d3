//! Sets the egress engine up from what the operator wrote: config.toml, and a catalog where there is one.

use std::{fs, path::Path, sync::Arc};

use keyless_core::{Code, Destination, Error, SafeText};
use keyless_egress::{Engine, EngineConfig, EngineError};
use keyless_vault::{Catalog, EgressPolicy as CatalogPolicy};

use crate::config::{Config, PolicyWord};

/// The engine, and the private roots that the agent's side has to trust as well: a host that no
/// secret names is tunnelled, so its own certificate is what a tool inside sees.
#[derive(Clone)]
pub struct EgressDoor {
    /// The engine.
    pub engine: Arc<Engine>,
    /// The operator's extra roots, PEM, one after the other.
    pub extra_roots: String,
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

    fn build(config: &Config, catalog: Option<&Catalog>) -> Result<Self, Error> {
        let roots = config.egress.extra_roots.iter().map(|path| read(path));
        let roots = roots.collect::<Result<Vec<_>, _>>()?;
        let extra_roots = roots.iter().map(|pem| String::from_utf8_lossy(pem) + "\n").collect();
        let engine = Engine::new(engine_config(config, catalog, roots)?);
        let engine = engine.map_err(|error| explain(&error))?;
        Ok(Self { engine, extra_roots })
    }
}

fn engine_config(
    config: &Config,
    catalog: Option<&Catalog>,
    extra_roots_pem: Vec<Vec<u8>>,
) -> Result<EngineConfig, Error> {
    let egress = &config.egress;
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
        extra_roots_pem,
        internal_allowlist,
        policy,
        limits: keyless_egress::Limits::default(),
    })
}

fn listed(mut hosts: Vec<Destination>, catalog: Option<&Catalog>) -> Vec<Destination> {
    let entries = catalog.iter().flat_map(|catalog| &catalog.entries);
    hosts.extend(entries.flat_map(|entry| entry.rule.to.iter().cloned()));
    hosts
}

fn read(path: &Path) -> Result<Vec<u8>, Error> {
    fs::read(path).map_err(|error| {
        let place = SafeText::default().as_they_wrote(&path.to_string_lossy());
        Error::with(Code::PathUnusable, place.and(": ").and(error.kind()))
    })
}

fn explain(error: &EngineError) -> Error {
    Error::with(Code::ConfigInvalid, SafeText::default().as_they_wrote(&error.to_string()))
}
