//! The token catalog that is in force here.

use keyless_core::Error;
use keyless_vault::{Providers, Tier};

use crate::{catalog_urls::UrlCatalogs, places::Places};

/// The bundled providers, over them what was fetched from the operator's addresses, and the
/// operator's own files over all. `Code::CatalogInvalid` when the list of addresses can't be used.
/// Blocks.
pub fn providers(places: &Places) -> Result<Providers, Error> {
    let fetched = UrlCatalogs::load(places)?.providers();
    let providers = fetched
        .into_iter()
        .fold(Providers::bundled(), |providers, provider| providers.with(Tier::Url, provider));
    Ok(providers.over(Tier::User, &places.catalog_folder()))
}
