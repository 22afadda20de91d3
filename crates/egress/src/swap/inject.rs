//! Credentials that the proxy sets itself: what the agent sent in their place is dropped, and the
//! value put there. Source: design.md, section 5, "second mode".

use std::sync::Arc;

use data_encoding::BASE64;
use http::{HeaderMap, HeaderName, HeaderValue, Uri, header, request::Parts, uri::PathAndQuery};
use keyless_core::{Code, Error, Location, Slot};
use zeroize::Zeroizing;

use super::{
    escape::Escape,
    ledger::{Ledger, Values},
    said::form_decoded,
    table::{Facts, SwapTable},
};

/// The secrets that one request gets of the proxy's own accord.
pub(super) struct Injections {
    table: Arc<SwapTable>,
    chosen: Vec<usize>,
}

impl Injections {
    /// Chooses a secret for each place, and drops what the agent sent there.
    pub(super) fn make_room(
        table: &Arc<SwapTable>,
        facts: &Facts,
        parts: &mut Parts,
        ledger: &mut Ledger,
    ) -> Result<Self, Error> {
        let mut chosen = Vec::new();
        for slot in slots(table, facts) {
            let same = |secret: &usize| slot_of(table, *secret) == Some(slot);
            let rivals: Vec<usize> = facts.injected.iter().copied().filter(same).collect();
            chosen.extend(ledger.choose(&rivals, location(slot))?);
            clear(slot, parts)?;
        }
        Ok(Self { table: Arc::clone(table), chosen })
    }

    /// Puts the values in.
    pub(super) fn set(&self, values: &Values, parts: &mut Parts) -> Result<(), Error> {
        for secret in &self.chosen {
            let Some(injection) = &self.table.secret(*secret).rule.inject else { continue };
            let (before, after) = injection.around();
            let value = values.open(*secret)?;
            let form = Zeroizing::new([before.as_bytes(), value, after.as_bytes()].concat());
            match injection.slot() {
                Slot::Basic => {
                    let coded = Zeroizing::new(format!("Basic {}", BASE64.encode(&form)));
                    set_header(parts, &header::AUTHORIZATION, coded.as_bytes())?;
                }
                Slot::Header(name) => set_header(parts, &name_of(name)?, &form)?,
                Slot::Query(name) => set_parameter(parts, name, &form)?,
            }
        }
        Ok(())
    }
}

/// Each place once, in the order of the secrets.
fn slots<'t>(table: &'t SwapTable, facts: &Facts) -> Vec<&'t Slot> {
    let mut slots = Vec::new();
    for slot in facts.injected.iter().filter_map(|secret| slot_of(table, *secret)) {
        if !slots.contains(&slot) {
            slots.push(slot);
        }
    }
    slots
}

fn slot_of(table: &SwapTable, secret: usize) -> Option<&Slot> {
    table.secret(secret).rule.inject.as_ref().map(keyless_core::Injection::slot)
}

fn location(slot: &Slot) -> Location {
    match slot {
        Slot::Basic => Location::Basic,
        Slot::Header(_) => Location::Header,
        Slot::Query(_) => Location::Query,
    }
}

/// A header stays as an empty one, so that it keeps its place among the others.
fn clear(slot: &Slot, parts: &mut Parts) -> Result<(), Error> {
    match slot {
        Slot::Basic => drop(parts.headers.insert(header::AUTHORIZATION, nothing())),
        Slot::Header(name) => {
            let name = name_of(name)?;
            for other in spellings(&parts.headers, &name) {
                parts.headers.remove(other);
            }
            parts.headers.insert(name, nothing());
        }
        Slot::Query(name) => {
            let query = parts.uri.query().unwrap_or_default();
            let is_ours = |pair: &&str| {
                let key = pair.split('=').next().unwrap_or_default();
                form_decoded(key.as_bytes()) == name.as_bytes()
            };
            if query.split('&').any(|pair| is_ours(&pair)) {
                let kept: Vec<&str> = query.split('&').filter(|pair| !is_ours(pair)).collect();
                let kept = kept.join("&");
                set_query(parts, kept.as_bytes())?;
            }
        }
    }
    Ok(())
}

/// Fields of other names that WSGI, Rack and CGI take for this one.
fn spellings(headers: &HeaderMap, name: &HeaderName) -> Vec<HeaderName> {
    let folded = |name: &HeaderName| name.as_str().replace('_', "-");
    let ours = folded(name);
    let is_other = |other: &&HeaderName| *other != name && folded(other) == ours;
    headers.keys().filter(is_other).cloned().collect()
}

fn nothing() -> HeaderValue {
    HeaderValue::from_static("")
}

fn name_of(name: &str) -> Result<HeaderName, Error> {
    HeaderName::try_from(name).map_err(|_| Code::Internal.into())
}

fn set_header(parts: &mut Parts, name: &HeaderName, value: &[u8]) -> Result<(), Error> {
    let mut value = HeaderValue::from_bytes(value).map_err(|_| unfit())?;
    // Sent as a never-indexed literal on HTTP/2, and left out of `Debug`.
    value.set_sensitive(true);
    parts.headers.insert(name, value);
    Ok(())
}

fn set_parameter(parts: &mut Parts, name: &str, value: &[u8]) -> Result<(), Error> {
    let mut query = Zeroizing::new(Vec::with_capacity(name.len() + value.len() * 3 + 64));
    if let Some(before) = parts.uri.query().filter(|query| !query.is_empty()) {
        query.extend_from_slice(before.as_bytes());
        query.push(b'&');
    }
    query.extend_from_slice(name.as_bytes());
    query.push(b'=');
    Escape::Percent.write(value, &mut query);
    set_query(parts, &query)
}

fn set_query(parts: &mut Parts, query: &[u8]) -> Result<(), Error> {
    let mut target = Zeroizing::new(parts.uri.path().as_bytes().to_vec());
    if !query.is_empty() {
        target.push(b'?');
        target.extend_from_slice(query);
    }
    let mut uri = parts.uri.clone().into_parts();
    uri.path_and_query = Some(PathAndQuery::try_from(target.as_slice()).map_err(|_| unfit())?);
    parts.uri = Uri::from_parts(uri).map_err(|_| unfit())?;
    Ok(())
}

fn unfit() -> Error {
    Error::with(Code::ValueRefused, "the value has characters that can't stand there".into())
}
