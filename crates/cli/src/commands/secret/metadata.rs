//! From the command line's words to a secret's metadata.

use std::path::Path;

use keyless_core::{Code, EgressRule, Error, Locations, SafeText};
use keyless_daemon::vault::{EnvName, LookAlikeShape, Metadata, PlaceholderShape, SourceConfig};

use crate::args::RuleArgs;

/// The metadata of a new secret.
pub(super) fn new_metadata(rule: &RuleArgs, source: &str) -> Result<Metadata, Error> {
    let metadata = Metadata { source: parse_source(source)?, ..Metadata::default() };
    changed_metadata(metadata, rule)
}

/// What `set` changes; what was not said stays as it is.
pub(super) fn changed_metadata(mut metadata: Metadata, args: &RuleArgs) -> Result<Metadata, Error> {
    metadata.egress = changed_rule(metadata.egress, args)?;
    if let Some(name) = &args.env {
        let name =
            EnvName::parse(name).map_err(|error| usage("--env ", name, &error.to_string()))?;
        metadata.env = Some(name);
    }
    if let Some(form) = &args.placeholder {
        metadata.placeholder = parse_placeholder(form)?;
    }
    if args.description.is_some() {
        metadata.description.clone_from(&args.description);
    }
    Ok(metadata)
}

fn changed_rule(rule: Option<EgressRule>, args: &RuleArgs) -> Result<Option<EgressRule>, Error> {
    let mut rule = match (rule, args.to.is_empty()) {
        (None, true) if names_rule(args) => {
            let detail =
                SafeText::words("--locations, --max-occurrences and --on-foreign need --to HOST");
            return Err(Error::with(Code::Usage, detail));
        }
        (None, true) => return Ok(None),
        (Some(rule), true) => rule,
        (Some(rule), false) => EgressRule { to: args.to.clone(), ..rule },
        (None, false) => EgressRule::to(args.to.clone()),
    };
    if !args.locations.is_empty() {
        rule.locations = args.locations.iter().copied().collect::<Locations>();
    }
    if args.max_occurrences.is_some() {
        rule.max_occurrences = args.max_occurrences;
    }
    if let Some(word) = args.on_foreign {
        rule.on_foreign = word.into();
    }
    Ok(Some(rule))
}

fn names_rule(args: &RuleArgs) -> bool {
    !args.locations.is_empty() || args.max_occurrences.is_some() || args.on_foreign.is_some()
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
        _ => Err(usage("--source ", text, "one of local, env:NAME, file:PATH")),
    }
}

fn parse_placeholder(text: &str) -> Result<PlaceholderShape, Error> {
    match text {
        "default" => return Ok(PlaceholderShape::Default),
        "colon" => return Ok(PlaceholderShape::Colon),
        _ => {}
    }
    let shape = text
        .rsplit_once(':')
        .and_then(|(prefix, length)| Some(LookAlikeShape::new(prefix, length.parse().ok()?)));
    match shape {
        Some(Ok(shape)) => Ok(PlaceholderShape::LookAlike(shape)),
        Some(Err(error)) => Err(usage("--placeholder ", text, &error.to_string())),
        None => Err(usage("--placeholder ", text, "one of default, colon, PREFIX:LENGTH")),
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
