//! From the command line's words to a secret's metadata.

use std::path::Path;

use keyless_core::{Code, Destination, EgressRule, Error, Locations, Otherwise, SafeText};
use keyless_daemon::vault::{EnvName, LookAlikeShape, Metadata, PlaceholderShape, SourceConfig};

use crate::args::{RuleArgs, SwitchWord, UpkeepArgs, UseArgs, Word};
use crate::commands::variable_named;

/// The metadata of a new secret.
pub(super) fn new_metadata(
    rule: &RuleArgs,
    upkeep: &UpkeepArgs,
    source: &str,
) -> Result<Metadata, Error> {
    let metadata = Metadata { source: parse_source(source)?, ..Metadata::default() };
    changed_metadata(metadata, rule, upkeep)
}

/// What `set` changes; what was not said stays as it is.
pub(super) fn changed_metadata(
    mut metadata: Metadata,
    args: &RuleArgs,
    upkeep: &UpkeepArgs,
) -> Result<Metadata, Error> {
    change_upkeep(&mut metadata, upkeep);
    metadata.egress = changed_rule(metadata.egress, args)?;
    if let Some(name) = &args.env {
        metadata.env = if name == "none" { None } else { Some(variable_named(name)?) };
    }
    Word::put(args.env_form.as_ref(), &mut metadata.env_form);
    if let Some(form) = &args.placeholder {
        metadata.placeholder = parse_placeholder(form)?;
    }
    if let Some(word) = args.unsafe_expose {
        metadata.unsafe_expose = word == SwitchWord::On;
    }
    if let Some(words) = &args.description {
        metadata.description = Some(words.clone()).filter(|words| !words.is_empty());
    }
    Ok(metadata)
}

fn change_upkeep(metadata: &mut Metadata, args: &UpkeepArgs) {
    let upkeep = &mut metadata.upkeep;
    Word::put(args.expires.as_ref(), &mut upkeep.expires_at);
    Word::put(args.rotate_every.as_ref(), &mut upkeep.rotate_every_days);
    if let Some(method) = args.rotation {
        upkeep.rotation_method = Some(method);
    }
    Word::put(args.retrieval_url.as_ref(), &mut upkeep.retrieval_url);
    if args.pattern.is_some() {
        // It is the earlier pattern's, since nothing else sets it; the new one brings its own.
        upkeep.format_regex = None;
    }
    Word::put(args.pattern.as_ref(), &mut upkeep.pattern_id);
    Word::put(args.cache_at_most.as_ref(), &mut upkeep.cache_ttl_seconds_max);
    if !args.scopes.is_empty() {
        upkeep.required_scopes.clone_from(&args.scopes);
    }
    Word::put(args.keep_versions.as_ref(), &mut metadata.retention.keep_versions);
    Word::put(args.keep_days.as_ref(), &mut metadata.retention.keep_days);
    if let Some(policy) = args.approve_on_use {
        metadata.approve_on_use = policy;
    }
}

fn changed_rule(rule: Option<EgressRule>, args: &RuleArgs) -> Result<Option<EgressRule>, Error> {
    if args.to.contains(&Word::None) {
        if args.to.len() > 1 || names_rule(args) {
            let words = "--to none takes every host back, and nothing else can be said of it then";
            return Err(Error::with(Code::Usage, SafeText::words(words)));
        }
        return Ok(None);
    }
    let hosts: Vec<Destination> = args.to.iter().filter_map(Word::said).cloned().collect();
    let preset_to = args.uses.preset.as_ref().map(|preset| preset.to().to_vec());
    let to = match preset_to {
        Some(to) if hosts.is_empty() && rule.is_none() => to,
        _ => hosts,
    };
    let mut rule = match (rule, to.is_empty()) {
        (None, true) if names_rule(args) => {
            let detail = SafeText::words("a rule needs --to HOST, or a --preset with hosts");
            return Err(Error::with(Code::Usage, detail));
        }
        (None, true) => return Ok(None),
        (Some(rule), true) => rule,
        (Some(rule), false) => EgressRule { to, ..rule },
        (None, false) => EgressRule::to(to),
    };
    if !args.locations.is_empty() {
        rule.locations = args.locations.iter().copied().collect::<Locations>();
    }
    Word::put(args.max_occurrences.as_ref(), &mut rule.max_occurrences);
    if let Some(word) = args.on_foreign {
        rule.on_foreign = word.into();
    }
    change_uses(&mut rule, &args.uses);
    refuse_beyond(&rule, &args.uses)?;
    Ok(Some(rule))
}

/// Refuses rules about hosts where the value never goes. Those of a preset may be: they are for whoever names less.
fn refuse_beyond(rule: &EgressRule, args: &UseArgs) -> Result<(), Error> {
    let mut said = args.allow.iter().chain(&args.ask);
    let Some(beyond) = said.find(|said| !said.is_within_reach(&rule.to)) else { return Ok(()) };
    let hosts: Vec<String> = rule.to.iter().map(ToString::to_string).collect();
    let words = SafeText::words("the rule ").as_they_wrote(&beyond.to_string());
    let words = words.and(" is about a host, or port, where the secret does not go: it goes to ");
    let words = words.as_they_wrote(&hosts.join(", "));
    Err(Error::with(Code::Usage, words.and("; name the host with --to, or correct the rule")))
}

/// Lists that are given take the place of those that were there.
fn change_uses(rule: &mut EgressRule, args: &UseArgs) {
    if args.any_request {
        (rule.allow, rule.ask) = (Vec::new(), Vec::new());
        rule.otherwise = Otherwise::default();
    }
    if !args.allow.is_empty() {
        rule.allow.clone_from(&args.allow);
    }
    if !args.ask.is_empty() {
        rule.ask.clone_from(&args.ask);
    }
    if let Some(word) = args.otherwise {
        rule.otherwise = word.into();
    }
    Word::put(args.inject.as_ref(), &mut rule.inject);
    Word::put(args.sign.as_ref(), &mut rule.sign);
    Word::put(args.oauth.as_ref(), &mut rule.oauth);
    if !args.seal.is_empty() {
        rule.seal = args.seal.iter().filter_map(Word::said).cloned().collect();
    }
    if let Some(preset) = &args.preset {
        preset.apply(rule);
    }
}

fn names_rule(args: &RuleArgs) -> bool {
    let UseArgs { allow, ask, otherwise, any_request: _, preset, inject, sign, oauth, seal } =
        &args.uses;
    !args.locations.is_empty()
        || args.max_occurrences.is_some()
        || args.on_foreign.is_some()
        || !(allow.is_empty() && ask.is_empty())
        || otherwise.is_some()
        || preset.is_some()
        || inject.is_some()
        || sign.is_some()
        || oauth.is_some()
        || !seal.is_empty()
}

fn parse_source(text: &str) -> Result<SourceConfig, Error> {
    if text == "local" {
        return Ok(SourceConfig::Local);
    }
    match text.split_once(':') {
        Some(("env", name)) => match EnvName::parse(name) {
            Ok(variable) => Ok(SourceConfig::Env { variable }),
            Err(error) => Err(usage("--source ", text, &error.to_string())),
        },
        Some(("file", path)) if !path.is_empty() => match std::path::absolute(Path::new(path)) {
            Ok(path) => Ok(SourceConfig::File { path }),
            Err(error) => Err(usage("--source ", text, &error.to_string())),
        },
        None if text == "routed" => Ok(SourceConfig::Routed { source: None, reference: None }),
        Some(("source", rest)) if !rest.is_empty() => {
            let (name, reference) = match rest.split_once(':') {
                None => (rest, None),
                Some((name, reference)) => (name, Some(reference.to_owned())),
            };
            Ok(SourceConfig::Routed { source: Some(name.to_owned()), reference })
        }
        _ => {
            let known = "one of local, env:NAME, file:PATH, routed, source:NAME[:REFERENCE]";
            Err(usage("--source ", text, known))
        }
    }
}

fn parse_placeholder(text: &str) -> Result<PlaceholderShape, Error> {
    match text {
        "default" => return Ok(PlaceholderShape::Default),
        "colon" => return Ok(PlaceholderShape::Colon),
        _ => {}
    }
    let shape = match text.rsplit_once(':') {
        Some((prefix, length)) => {
            length.parse().ok().map(|length| LookAlikeShape::new(prefix, length))
        }
        None => text.contains('[').then(|| LookAlikeShape::parse(text)),
    };
    match shape {
        Some(Ok(shape)) => Ok(PlaceholderShape::LookAlike(shape)),
        Some(Err(error)) => Err(usage("--placeholder ", text, &error.to_string())),
        None => Err(usage(
            "--placeholder ",
            text,
            "one of default, colon, PREFIX:LENGTH, or a form such as SG.[22].[43]",
        )),
    }
}

fn usage(option: &'static str, given: &str, why: &str) -> Error {
    let detail = SafeText::words(option).as_they_wrote(given).and(": ").as_they_wrote(why);
    Error::with(Code::Usage, detail)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sources_and_placeholders_read() {
        assert_eq!(parse_source("local").unwrap(), SourceConfig::Local);
        assert!(matches!(parse_source("env:A").unwrap(), SourceConfig::Env { .. }));
        assert!(matches!(parse_source("file:x").unwrap(), SourceConfig::File { .. }));
        for bad in ["", "env:", "env:A-B", "file:", "vault:x"] {
            assert_eq!(parse_source(bad).unwrap_err().code(), Code::Usage, "{bad}");
        }
        assert!(matches!(parse_placeholder("ghp_:40").unwrap(), PlaceholderShape::LookAlike(_)));
        for bad in ["", "ghp_", "ghp_:x", "ghp_:8"] {
            assert_eq!(parse_placeholder(bad).unwrap_err().code(), Code::Usage, "{bad}");
        }
    }
}
