//! The token catalog that is in force here.

mod offered;

use std::path::Path;

use keyless_core::{Destination, EgressRule, Error, Location, Locations, SafeText, SecretPath};
use keyless_vault::{FormatVerdict, Metadata, ProviderFault, Providers};

use self::offered::Offered;
pub(crate) use self::offered::offered_lines;
use crate::{
    agreed::{AgreedBy, Agreement},
    catalog_urls::{ProjectCatalogs, ProjectFile, Trust},
    places::Places,
};

/// What is known of stored secrets, whichever project they are for: the bundled providers, over them what was fetched
/// from the operator's addresses, and the operator's own files and patterns over all; beside them the files of projects that the
/// operator trusts, where those agree. `Code::CatalogInvalid` when the list of addresses can't be used. Blocks.
pub fn providers(places: &Places, by: AgreedBy<'_>) -> Result<Providers, Error> {
    let remembered = ProjectCatalogs::new(places).remembered().into_iter();
    let trusted: Vec<_> = remembered.filter(|file| file.trust == Trust::Trusted).collect();
    // Which project a stored secret is for, nobody knows here.
    let is_disputed = |file: &ProjectFile| trusted.iter().any(|other| file.contradicts(other));
    let disputed: Vec<_> = trusted.iter().map(is_disputed).collect();
    let (disputed, agreed): (Vec<_>, Vec<_>) =
        trusted.into_iter().zip(disputed).partition(|(_, disputed)| *disputed);
    let mut providers =
        agreed.into_iter().map(|(file, _)| file).fold(operators(places, by)?, beside);
    providers.left_out.extend(disputed.into_iter().map(|(file, _)| ProviderFault {
        file: file.file,
        why: "another trusted file says something else of the same provider".to_owned(),
    }));
    Ok(providers)
}

/// Takes the places in requests from the catalog, where it knows without doubt whose token this is and nothing else says
/// where the value goes; whose it may be, where it does.
pub fn narrow(
    known: &Providers,
    path: &SecretPath,
    rule: &mut EgressRule,
    value: Option<&[u8]>,
) -> Option<Vec<String>> {
    if !rule.says_no_place() {
        return None;
    }
    let found = known.locations_of(path, &rule.to, value)?;
    rule.locations = found.locations;
    Some(found.services.iter().map(|service| (*service).to_owned()).collect())
}

/// What a value of this secret looks like by all that is known of it, where `value` does not: a sentence's fragment, with
/// nothing of the value.
pub fn misfit(
    known: &Providers,
    path: &SecretPath,
    metadata: &Metadata,
    value: &[u8],
) -> Option<SafeText> {
    let own = metadata.judge_format(value);
    // What the owner says goes before the catalog, which speaks of a whole address where the value is the password in one.
    if own == FormatVerdict::Ok || metadata.env_form.is_some() {
        return None;
    }
    let Some(expected) = known.unlike(path, metadata.upkeep.pattern_id.as_deref(), value) else {
        let words = "it has not the format of its pattern";
        return (own == FormatVerdict::Invalid).then(|| SafeText::words(words));
    };
    let words = SafeText::words("it has not the form of what ").as_they_wrote(expected.service);
    let words = words.and(" issues");
    Some(if expected.forms.is_empty() {
        words
    } else {
        words.and(" (").as_they_wrote_in_full(&expected.forms.join("; ")).and(")")
    })
}

/// Where in requests a value goes by its rule, for the person who is about to type it.
pub fn places_in_words(rule: &EgressRule) -> String {
    if rule.inject.is_some() {
        return "where Keyless puts it into a request itself".to_owned();
    }
    if rule.locations == Locations::ALL {
        return "any part of a request".to_owned();
    }
    let places: Vec<&str> = rule.locations.iter().map(Location::as_str).collect();
    format!("{} of a request", places.join(", "))
}

/// As [`places_in_words`], of a value to which the hosts `to` are given now: [`narrow`] takes it to no other place, and a
/// value of a known form perhaps to fewer.
pub fn places_at(known: &Providers, path: &SecretPath, to: &[Destination]) -> String {
    let mut rule = EgressRule::to(to.to_vec());
    let services = narrow(known, path, &mut rule, None);
    let places = places_in_words(&rule);
    match services {
        None => places,
        Some(services) => format!("{places}, as a token for {} does", services.join(" or ")),
    }
}

/// What is known in the project that `folder` lies in: the same, of projects' files its own alone. Those that don't
/// count are told. Fails as [`providers`] does. Blocks.
pub fn project_providers(
    places: &Places,
    folder: &Path,
    by: AgreedBy<'_>,
) -> Result<Providers, Error> {
    let files = ProjectCatalogs::new(places).around(folder).into_iter();
    Ok(files.fold(operators(places, by)?, beside))
}

fn operators(places: &Places, by: AgreedBy<'_>) -> Result<Providers, Error> {
    let agreement = Agreement::of(places, by);
    let offered = Offered::all(places)?.into_iter();
    let providers = offered.fold(Providers::bundled(), |known, one| one.over(known, &agreement));
    Ok(providers.with_patterns(&places.patterns_folder()))
}

fn beside(known: Providers, file: ProjectFile) -> Providers {
    file.beside(known)
}
