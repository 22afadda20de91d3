//! Where the store is: on the server that `config.toml` names, else in a file of this home.

use std::path::PathBuf;

use keyless_core::{Code, Error, SafeText};
use keyless_store::{Server, StorePlace};
use keyless_vault::read_settings;
use serde::Deserialize;

use crate::{
    config::Config,
    passphrase::{read_passphrase_file, remember_passphrase_file},
    places::{Places, unusable},
};

/// `[store]`. Taken up at the start of the process.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct StoreConfig {
    /// `postgres://USER@HOST:PORT/DATABASE`; the home's own file when absent.
    pub url: Option<String>,
    /// A file with the user's password, the caller's own and 0600.
    pub password_file: Option<PathBuf>,
    /// A PEM file of private roots that the server's certificate may chain to.
    pub roots: Option<PathBuf>,
}

/// Where this home's store is. Sessions without secrets and a fleet's proxies keep their log in the home's file all the
/// same, since they have no vault.
pub fn store_place(places: &Places) -> Result<StorePlace, Error> {
    place_in(places, &Config::load(&places.config_file())?.store)
}

/// As [`store_place`], also by a `config.toml` that can't be used, as long as it is sure where it says that the store is.
pub fn sure_store_place(places: &Places) -> Result<StorePlace, Error> {
    place_in(places, &Config::of_store(&places.config_file())?.0.store)
}

/// As [`store_place`], by a `config.toml` that was read already.
pub(crate) fn place_in(places: &Places, config: &StoreConfig) -> Result<StorePlace, Error> {
    let Some(url) = &config.url else { return Ok(StorePlace::from(&places.store_file())) };
    let mut server = Server::new(url, places.data()).map_err(|fault| {
        let words = SafeText::words("[store] url: ").as_they_wrote(&fault.to_string());
        Error::with(Code::ConfigInvalid, words)
    })?;
    if let Some(file) = &config.password_file {
        server = server.with_password(&read_passphrase_file(file)?);
        remember_passphrase_file(places, file);
    }
    if let Some(file) = &config.roots {
        server = server.with_roots(read_settings(file).map_err(|error| unusable(file, &error))?);
    }
    Ok(server.into())
}
