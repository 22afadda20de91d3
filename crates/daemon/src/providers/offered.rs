//! What the operator's folder and addresses say of tokens, each with the line that somebody who has the factor agrees to.
//!
//! A process of the account that is in no jail can write both. A line has the digest of what was read, so that what
//! was shown is what counts.

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
};

use keyless_core::Error;
use keyless_vault::{Provider, Providers, Tier, provider_files, provider_in, provider_text};

use crate::{
    agreed::Agreement,
    catalog_urls::{Fetched, UrlCatalogs, sha256},
    places::Places,
};

/// One file or address, as it was read.
pub(super) struct Offered {
    tier: Tier,
    place: PathBuf,
    provider: Result<Provider, String>,
    /// What has to be agreed to before it leads anything anywhere.
    line: Option<String>,
}

impl Offered {
    /// Everything, addresses first. `Code::CatalogInvalid` when the list of addresses can't be used. Blocks.
    pub(super) fn all(places: &Places) -> Result<Vec<Self>, Error> {
        let fetched = UrlCatalogs::load(places)?.fetched().into_iter().map(Self::fetched);
        let files = provider_files(&places.catalog_folder());
        Ok(fetched.chain(files.iter().map(|file| Self::own(file))).collect())
    }

    /// `known`, and over it what this says, if it is agreed to; else beside it.
    pub(super) fn over(self, known: Providers, agreement: &Agreement) -> Providers {
        let is_agreed = self.line.is_none_or(|line| agreement.has(&line));
        let tier = if is_agreed { self.tier } else { Tier::Unagreed };
        known.with_file(tier, &self.place, self.provider)
    }

    fn own(file: &Path) -> Self {
        let text = provider_text(file);
        let provider = text.as_ref().map_err(Clone::clone).and_then(|text| provider_in(file, text));
        let line = provider.as_ref().ok().zip(text.as_ref().ok()).map(|(provider, text)| {
            let sha256 = sha256(text.as_bytes());
            line(&format!("catalog/{}.json", provider.provider_id), provider, &sha256)
        });
        Self { tier: Tier::User, place: file.to_owned(), provider, line }
    }

    /// An address speaks beside everybody else, but for a provider of ours that it takes the place of.
    fn fetched(Fetched { url, sha256, provider }: Fetched) -> Self {
        let line = Providers::is_bundled(&provider.provider_id)
            .then(|| line(&format!("the catalog {url}"), &provider, &sha256));
        Self { tier: Tier::Url, place: PathBuf::from(url), provider: Ok(provider), line }
    }
}

fn line(what: &str, provider: &Provider, sha256: &str) -> String {
    let id = &provider.provider_id;
    let in_place = if Providers::is_bundled(id) {
        format!(", in place of what Keyless knows of {id}")
    } else {
        String::new()
    };
    format!("{what}{in_place}: {}; SHA-256 {sha256}", provider.leads())
}

/// The lines of all of it; a list of addresses that can't be used has none, and is told where it is used. Blocks.
pub(crate) fn offered_lines(places: &Places) -> BTreeSet<String> {
    let all = Offered::all(places).unwrap_or_default();
    all.into_iter().filter_map(|offered| offered.line).collect()
}
