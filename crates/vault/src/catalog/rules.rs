//! What an entry says about the use of its secret: hosts, places, requests.

use keyless_core::{
    Destination, EgressRule, Injection, Location, Locations, OauthGrant, OnForeign, Otherwise,
    RequestRule, Sealing, Signer,
};
use serde_saphyr::Spanned;

use super::{
    CatalogError, CatalogFault,
    check::unknown_word,
    preset::Preset,
    yaml::{RawEntry, place},
};

/// Reads everything about one entry's use.
pub(super) fn rule(raw: &RawEntry) -> Result<EgressRule, CatalogError> {
    let preset = raw.preset.as_ref().map(preset).transpose()?;
    let mut rule = EgressRule::to(destinations(raw, preset.as_ref())?);
    rule.max_occurrences = raw.max_occurrences.as_ref().map(most(raw)).transpose()?;
    if let Some(raw) = &raw.locations {
        rule.locations = locations(raw)?;
    }
    if let Some(raw) = &raw.on_foreign {
        rule.on_foreign = on_foreign(raw)?;
    }
    if let Some(raw) = &raw.otherwise {
        rule.otherwise = otherwise(raw)?;
    }
    let own = |line: &Spanned<String>| request_rule(raw, &rule.to, line);
    let allow = raw.allow.iter().map(own).collect::<Result<_, _>>()?;
    let ask = raw.ask.iter().map(own).collect::<Result<_, _>>()?;
    (rule.allow, rule.ask) = (allow, ask);
    refuse_questions(raw, &rule)?;
    rule.inject = raw.inject.as_ref().map(injection).transpose()?;
    rule.sign = raw.sign.as_ref().map(signer).transpose()?;
    rule.oauth = raw.oauth.as_ref().map(grant).transpose()?;
    rule.seal = raw.seal.iter().map(sealing).collect::<Result<_, _>>()?;
    if let (Some(_), Some(sign)) = (&rule.inject, &raw.sign) {
        return Err(CatalogError::at(place(sign), CatalogFault::TwoModes));
    }
    if let Some(preset) = &preset {
        preset.apply(&mut rule);
    }
    Ok(rule)
}

/// Nobody can be asked at a fleet's proxy. What a preset would ask about is refused when it comes.
fn refuse_questions(raw: &RawEntry, rule: &EgressRule) -> Result<(), CatalogError> {
    let line = raw.ask.first().map(place);
    let otherwise = raw.otherwise.as_ref().filter(|_| rule.otherwise == Otherwise::Ask);
    match line.or_else(|| otherwise.map(place)) {
        Some(place) => Err(CatalogError::at(place, CatalogFault::NobodyToAsk)),
        None => Ok(()),
    }
}

/// The entry's own hosts, or else those that its preset is made for.
fn destinations(raw: &RawEntry, preset: Option<&Preset>) -> Result<Vec<Destination>, CatalogError> {
    let to: Vec<_> = match (&raw.egress_to, preset) {
        (Some(raw), _) => raw.value.iter().map(destination).collect::<Result<_, _>>()?,
        (None, Some(preset)) => preset.to().to_vec(),
        (None, None) => Vec::new(),
    };
    let where_ = raw.egress_to.as_ref().map_or_else(|| place(&raw.env), place);
    if to.is_empty() { Err(CatalogError::at(where_, CatalogFault::NoDestination)) } else { Ok(to) }
}

fn destination(raw: &Spanned<String>) -> Result<Destination, CatalogError> {
    Destination::parse(&raw.value).map_err(|why| {
        let text = raw.value.clone();
        CatalogError::at(place(raw), CatalogFault::Destination { text, why })
    })
}

fn locations(raw: &Spanned<Vec<Spanned<String>>>) -> Result<Locations, CatalogError> {
    if raw.value.is_empty() {
        return Err(CatalogError::at(place(raw), CatalogFault::NoLocation));
    }
    raw.value.iter().map(location).collect()
}

fn location(raw: &Spanned<String>) -> Result<Location, CatalogError> {
    let known = "basic, body, header, password, path, query and websocket";
    Location::parse(&raw.value).ok_or_else(|| unknown_word(raw, known))
}

fn on_foreign(raw: &Spanned<String>) -> Result<OnForeign, CatalogError> {
    match raw.value.as_str() {
        "pass" => Ok(OnForeign::Pass),
        "block" => Ok(OnForeign::Block),
        _ => Err(unknown_word(raw, "pass and block")),
    }
}

fn otherwise(raw: &Spanned<String>) -> Result<Otherwise, CatalogError> {
    match raw.value.as_str() {
        "ask" => Ok(Otherwise::Ask),
        "deny" => Ok(Otherwise::Deny),
        _ => Err(unknown_word(raw, "deny and ask")),
    }
}

fn most(entry: &RawEntry) -> impl Fn(&Spanned<u32>) -> Result<u32, CatalogError> + use<'_> {
    |raw| match raw.value {
        0 => {
            let env = entry.env.value.clone();
            Err(CatalogError::at(place(raw), CatalogFault::NoOccurrence { env }))
        }
        most => Ok(most),
    }
}

/// A line of an entry's own: a preset's may be about hosts that the entry leaves out.
fn request_rule(
    entry: &RawEntry,
    to: &[Destination],
    raw: &Spanned<String>,
) -> Result<RequestRule, CatalogError> {
    let text = raw.value.clone();
    match RequestRule::parse(&text) {
        Ok(rule) if rule.is_within_reach(to) => Ok(rule),
        Ok(_) => {
            let env = entry.env.value.clone();
            Err(CatalogError::at(place(raw), CatalogFault::RuleBeyond { env, text }))
        }
        Err(why) => Err(CatalogError::at(place(raw), CatalogFault::RequestRule { text, why })),
    }
}

fn injection(raw: &Spanned<String>) -> Result<Injection, CatalogError> {
    Injection::parse(&raw.value).map_err(|why| {
        let text = raw.value.clone();
        CatalogError::at(place(raw), CatalogFault::Injection { text, why })
    })
}

fn signer(raw: &Spanned<String>) -> Result<Signer, CatalogError> {
    Signer::parse(&raw.value).map_err(|why| {
        let text = raw.value.clone();
        CatalogError::at(place(raw), CatalogFault::Signer { text, why })
    })
}

fn grant(raw: &Spanned<String>) -> Result<OauthGrant, CatalogError> {
    OauthGrant::parse(&raw.value).map_err(|why| {
        let text = raw.value.clone();
        CatalogError::at(place(raw), CatalogFault::Grant { text, why })
    })
}

fn sealing(raw: &Spanned<String>) -> Result<Sealing, CatalogError> {
    Sealing::parse(&raw.value).map_err(|why| {
        let text = raw.value.clone();
        CatalogError::at(place(raw), CatalogFault::Sealing { text, why })
    })
}

fn preset(raw: &Spanned<String>) -> Result<Preset, CatalogError> {
    Preset::parse(&raw.value).map_err(|why| {
        let text = raw.value.clone();
        CatalogError::at(place(raw), CatalogFault::Preset { text, why })
    })
}
