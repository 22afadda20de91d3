//! Makes a catalog of what was written, or says what is wrong with it and where.

use std::collections::HashMap;

use keyless_core::{Authority, LookAlikeError, Signer};
use serde_saphyr::Spanned;

use super::{
    Catalog, CatalogEntry, CatalogError, CatalogFault, EgressPolicy, MountedRef,
    rules::rule,
    yaml::{RawCatalog, RawEntry, RawPlaceholder, RawSecretRef, place},
};
use crate::metadata::{EnvName, LookAlikeShape, PlaceholderShape, is_of_sessions};

/// Ours, and the source document's own name for the same.
const API_VERSIONS: [&str; 2] = ["keyless.dev/v1alpha1", "agents.jomcgi.dev/v1alpha1"];
const KIND: &str = "SecretProxy";

pub(super) fn check(raw: RawCatalog) -> Result<Catalog, CatalogError> {
    expect_word(&raw.api_version, &API_VERSIONS)?;
    expect_word(&raw.kind, &[KIND])?;
    let mut seen = Seen::default();
    let mut entries = Vec::with_capacity(raw.spec.secrets.len());
    for raw in &raw.spec.secrets {
        let entry = entry(raw)?;
        seen.refuse_second(raw, &entry)?;
        entries.push(entry);
    }
    refuse_lonely_signers(&raw.spec.secrets, &entries)?;
    Ok(Catalog {
        name: raw.metadata.name,
        entries,
        internal: raw.spec.internal.allowlist.iter().map(allowed).collect::<Result<_, _>>()?,
        policy: raw.spec.egress.policy.as_ref().map_or(Ok(EgressPolicy::Allow), policy)?,
    })
}

/// The lines in which names were first used.
#[derive(Default)]
struct Seen {
    envs: HashMap<String, u64>,
    paths: HashMap<String, u64>,
}

impl Seen {
    fn refuse_second(&mut self, raw: &RawEntry, entry: &CatalogEntry) -> Result<(), CatalogError> {
        let line = |place: Option<(u64, u64)>| place.map_or(0, |(line, _)| line);
        let (env, path) = (entry.env.as_str().to_owned(), entry.path.as_str().to_owned());
        let env_place = place(&raw.env);
        if let Some(line) = self.envs.insert(env.clone(), line(env_place)) {
            return Err(CatalogError::at(env_place, CatalogFault::DuplicateEnv { env, line }));
        }
        let ref_place = place(&raw.secret_ref);
        match self.paths.insert(path.clone(), line(ref_place)) {
            None => Ok(()),
            Some(line) => {
                Err(CatalogError::at(ref_place, CatalogFault::DuplicateSecret { path, line }))
            }
        }
    }
}

/// An AWS key is recognised by its id's placeholder, and a client's key goes with certificates, so
/// these are in the catalog too.
fn refuse_lonely_signers(raw: &[RawEntry], entries: &[CatalogEntry]) -> Result<(), CatalogError> {
    for (raw, entry) in raw.iter().zip(entries) {
        let companion = entry.rule.sign.as_ref().and_then(Signer::companion);
        if let (Some(sign), Some(path)) = (&raw.sign, companion)
            && entries.iter().all(|other| other.path != *path)
        {
            let path = path.to_string();
            return Err(CatalogError::at(place(sign), CatalogFault::SignerId { path }));
        }
    }
    Ok(())
}

fn entry(raw: &RawEntry) -> Result<CatalogEntry, CatalogError> {
    let env = variable(&raw.env)?;
    let secret = secret_ref(&raw.secret_ref)?;
    let path = secret.to_path().map_err(|why| {
        let text = secret.to_string();
        CatalogError::at(place(&raw.secret_ref), CatalogFault::SecretPath { text, why })
    })?;
    let placeholder = raw.placeholder.as_ref().map_or(Ok(PlaceholderShape::Default), shape)?;
    Ok(CatalogEntry { path, env, secret, rule: rule(raw)?, placeholder })
}

fn variable(raw: &Spanned<String>) -> Result<EnvName, CatalogError> {
    let text = raw.value.clone();
    let fault = match EnvName::parse(&text) {
        Ok(_) if is_of_sessions(&text) => CatalogFault::EnvOfSessions { text },
        Ok(name) => return Ok(name),
        Err(why) => CatalogFault::Env { text, why },
    };
    Err(CatalogError::at(place(raw), fault))
}

fn secret_ref(raw: &Spanned<RawSecretRef>) -> Result<MountedRef, CatalogError> {
    MountedRef::new(&raw.value.name, &raw.value.key).map_err(|text| {
        let text = text.to_owned();
        CatalogError::at(place(raw), CatalogFault::SecretRef { text })
    })
}

fn allowed(raw: &Spanned<String>) -> Result<Authority, CatalogError> {
    Authority::parse(&raw.value).map_err(|why| {
        let text = raw.value.clone();
        CatalogError::at(place(raw), CatalogFault::Allowlist { text, why })
    })
}

fn policy(raw: &Spanned<String>) -> Result<EgressPolicy, CatalogError> {
    match raw.value.as_str() {
        "allow" => Ok(EgressPolicy::Allow),
        "allowlist" => Ok(EgressPolicy::Allowlist),
        _ => Err(unknown_word(raw, "allow and allowlist")),
    }
}

fn shape(raw: &Spanned<RawPlaceholder>) -> Result<PlaceholderShape, CatalogError> {
    match &raw.value {
        RawPlaceholder::Word(word) if word == "default" => Ok(PlaceholderShape::Default),
        RawPlaceholder::Word(word) if word == "colon" => Ok(PlaceholderShape::Colon),
        RawPlaceholder::Word(word) if word.contains('[') => {
            look_alike(raw, LookAlikeShape::parse(word))
        }
        RawPlaceholder::Word(word) => {
            let known = "default, colon, {prefix, length} and forms such as SG.[22].[43]";
            let found = word.clone();
            Err(CatalogError::at(place(raw), CatalogFault::Word { found, known }))
        }
        RawPlaceholder::LookAlike(shape) => {
            look_alike(raw, LookAlikeShape::new(&shape.prefix, shape.length))
        }
    }
}

fn look_alike(
    raw: &Spanned<RawPlaceholder>,
    read: Result<LookAlikeShape, LookAlikeError>,
) -> Result<PlaceholderShape, CatalogError> {
    read.map(PlaceholderShape::LookAlike)
        .map_err(|why| CatalogError::at(place(raw), CatalogFault::Placeholder(why)))
}

/// One of `words`, the first of which is the one to write.
fn expect_word(raw: &Spanned<String>, words: &[&'static str]) -> Result<(), CatalogError> {
    if words.contains(&raw.value.as_str()) {
        Ok(())
    } else {
        let (found, expected) = (raw.value.clone(), words[0]);
        Err(CatalogError::at(place(raw), CatalogFault::ApiVersion { found, expected }))
    }
}

pub(super) fn unknown_word(raw: &Spanned<String>, known: &'static str) -> CatalogError {
    CatalogError::at(place(raw), CatalogFault::Word { found: raw.value.clone(), known })
}
