//! Reads one provider's file, strictly, and says what is wrong with it.

use std::collections::BTreeSet;

use keyless_core::{Destination, Scheme};
use serde::Deserialize;

use super::{
    liveness::OWN_HOST,
    provider::{EnvPattern, Provider, Variant, compile},
};
use crate::metadata::is_of_sessions;

pub(super) const SCHEMA_VERSION: u32 = 1;
/// More than any provider needs.
pub(super) const MAX_BYTES: usize = 256 * 1024;

/// Reads `text` as the file of the provider `name`. The errors are fragments of sentences.
pub(super) fn read(name: &str, text: &str) -> Result<Provider, String> {
    let provider = parse(text)?;
    check(name, &provider).map(|()| provider)
}

/// Reads `text` as the file of whichever provider it says that it is.
pub(super) fn read_any(text: &str) -> Result<Provider, String> {
    let provider = parse(text)?;
    check(&provider.provider_id, &provider).map(|()| provider)
}

fn parse(text: &str) -> Result<Provider, String> {
    /// What every version has: another one is told as that, whatever else it is made of.
    #[derive(Deserialize)]
    struct Versioned {
        schema_version: u32,
    }
    match serde_json::from_str(text) {
        Ok(Versioned { schema_version }) if schema_version != SCHEMA_VERSION => {
            Err(format!("schema_version is {schema_version}, known is 1"))
        }
        _ => serde_json::from_str(text).map_err(|error| error.to_string()),
    }
}

fn check(name: &str, provider: &Provider) -> Result<(), String> {
    if !is_kebab(&provider.provider_id) {
        return Err(format!("provider_id {:?} is not lower-kebab", provider.provider_id));
    }
    if provider.provider_id != name {
        let id = &provider.provider_id;
        return Err(format!("provider_id {id:?} and the file's name {name:?} differ"));
    }
    if provider.variants.is_empty() {
        return Err("variants is empty".to_owned());
    }
    let mut ids = BTreeSet::new();
    for variant in &provider.variants {
        let id = &variant.id;
        let checked = check_steps(variant).and_then(|()| check_variant(variant));
        checked.map_err(|why| format!("variant {id:?}: {why}"))?;
        if !ids.insert(id.as_str()) {
            return Err(format!("variant {id:?} stands there twice"));
        }
    }
    provider.env_var_patterns.iter().try_for_each(|pattern| check_pattern(pattern, &ids))
}

fn check_steps(variant: &Variant) -> Result<(), String> {
    if variant.retrieval.page().is_none() {
        return Err("retrieval.console_url is empty".to_owned());
    }
    if variant.retrieval.steps.is_empty() {
        return Err("retrieval.steps is empty".to_owned());
    }
    Ok(())
}

/// What holds for a pattern of the operator's too, which may name no page and no steps.
pub(super) fn check_variant(variant: &Variant) -> Result<(), String> {
    if !is_kebab(&variant.id) {
        return Err("the id is not lower-kebab".to_owned());
    }
    if let Some(rule) = &variant.format_regex {
        compile(rule).map_err(|error| format!("format_regex: {error}"))?;
        if !rule.starts_with('^') || !rule.ends_with('$') {
            return Err("format_regex begins with ^ and ends with $".to_owned());
        }
    }
    if let Some(name) = variant.env_var.as_ref().filter(|name| is_of_sessions(name.as_str())) {
        return Err(format!(
            "env_var {name} is how agents are led to Keyless or trust it, so it can't hold a placeholder"
        ));
    }
    let retrieval = &variant.retrieval;
    let guide = variant.rotation.as_ref().and_then(|rotation| rotation.guide_url.as_deref());
    for url in [retrieval.page(), retrieval.docs_url.as_deref(), guide] {
        url.map_or(Ok(""), https_host)?;
    }
    if variant.rotation.as_ref().is_some_and(|r| !(1..=3650).contains(&r.every_days)) {
        return Err("rotation.every_days is from 1 to 3650".to_owned());
    }
    check_liveness(variant)
}

/// A check carries the token: it goes over https, to a host that may have it anyway.
fn check_liveness(variant: &Variant) -> Result<(), String> {
    let Some(liveness) = &variant.liveness else { return Ok(()) };
    if variant.no_liveness.is_some() {
        return Err("liveness and no_liveness stand together".to_owned());
    }
    let host = https_host(&liveness.url)?;
    if let Some(fault) = liveness.fault() {
        return Err(fault.to_owned());
    }
    if host == OWN_HOST || !liveness.hosts.is_empty() {
        return check_own_hosts(host, &liveness.hosts);
    }
    let Some(egress) = &variant.egress else { return Ok(()) };
    // Where every customer has hosts of their own, their owner names this one as well.
    let named = egress.to.is_empty() || egress.to.iter().any(|to| to.to_string() == host);
    if named {
        Ok(())
    } else {
        Err(format!("liveness goes to {host}, which egress.to does not name"))
    }
}

/// Which of these hosts it is, the secret's owner says.
fn check_own_hosts(host: &str, hosts: &[Destination]) -> Result<(), String> {
    if host != OWN_HOST {
        Err(format!("liveness.hosts goes with a url at https://{OWN_HOST}/, not at {host}"))
    } else if hosts.is_empty() {
        Err(format!("liveness.hosts says among which hosts {OWN_HOST} is"))
    } else if hosts.iter().any(|host| host.scheme() != Scheme::Https) {
        Err("liveness.hosts are reached over https".to_owned())
    } else {
        Ok(())
    }
}

fn check_pattern(pattern: &EnvPattern, ids: &BTreeSet<&str>) -> Result<(), String> {
    if pattern.matches.is_empty() {
        return Err("an env_var_pattern has no matches".to_owned());
    }
    if ids.contains(pattern.variant.as_str()) {
        return Ok(());
    }
    Err(format!("env_var_patterns names the variant {:?}, which is not there", pattern.variant))
}

/// The host of an `https://` URL without user or port. A person follows it by what they see, so every character of it can
/// be seen and stands where it is.
fn https_host(url: &str) -> Result<&str, String> {
    let rest = url.strip_prefix("https://").ok_or_else(|| format!("{url:?} is not https"))?;
    let host = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let is_plain = url.bytes().all(|byte| byte.is_ascii_graphic());
    if host.is_empty() || host.contains(['@', ':', '\\']) || !is_plain {
        return Err(format!("{url:?} is not a plain https URL"));
    }
    Ok(host)
}

fn is_kebab(id: &str) -> bool {
    !id.is_empty()
        && id.split('-').all(|word| {
            !word.is_empty() && word.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit())
        })
}
