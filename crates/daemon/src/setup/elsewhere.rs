//! Secrets' values in files from which none is taken: compose files, code, settings of MCP clients. They say whether what the
//! vault has under a variable's path is this project's own.

use std::path::Path;

use keyless_vault::Weakness;
use serde_json::Value;
use zeroize::Zeroizing;

use super::{
    mentions,
    propose::{Judged, Proposer},
    scan::text_of,
};

/// What stands around a value in code and scripts.
const AROUND: &[char] =
    &['"', '\'', '`', ' ', '\t', ',', ';', '(', ')', '[', ']', '{', '}', '<', '>'];

/// The values that `file` gives to variables, with these; none where it can't be read. Blocks.
pub fn values_elsewhere(file: &Path, proposer: &Proposer<'_>) -> Vec<(String, Zeroizing<String>)> {
    text_of(file).map_or_else(|_| Vec::new(), |text| values(file, &text, proposer))
}

/// As [`values_elsewhere`], of a file with this text.
pub(super) fn values(
    file: &Path,
    text: &str,
    proposer: &Proposer<'_>,
) -> Vec<(String, Zeroizing<String>)> {
    let name = file.file_name().unwrap_or_default().to_string_lossy();
    let is_secret = |(name, value): &(String, Zeroizing<String>)| {
        // Of what is no UTF-8 there is a substitute here, which is nobody's value.
        !value.contains(char::REPLACEMENT_CHARACTER)
            && Weakness::of(value.as_bytes()).is_none()
            && matches!(proposer.judge(name, value), Judged::Secret(_))
    };
    let mut all = match of_client(text) {
        Some(variables) if name.ends_with(".json") => variables,
        _ => mentions::literals(&name, text),
    };
    all.retain(is_secret);
    for (name, value) in text.lines().filter_map(|line| in_line(line, proposer)) {
        if all.iter().all(|(known, _)| *known != name) {
            all.push((name, value));
        }
    }
    all.retain(is_secret);
    all
}

/// `{"mcpServers": {"x": {"env": {"NAME": "value"}}}}`, under whatever key the servers stand; nothing where it is no JSON.
pub(super) fn of_client(text: &str) -> Option<Vec<(String, Zeroizing<String>)>> {
    let settings = serde_json::from_str::<Value>(text).ok()?;
    let servers =
        settings.as_object().into_iter().flatten().filter_map(|(_, value)| value.as_object());
    let envs = servers.flatten().filter_map(|(_, server)| server.get("env")?.as_object());
    let variable = |(name, value): (&String, &Value)| {
        (name.clone(), Zeroizing::new(value.as_str().unwrap_or_default().to_owned()))
    };
    Some(envs.flatten().map(variable).collect())
}

/// `NAME = "value"`, `NAME: value`, `ENV NAME=value`, where the line holds what looks like a credential.
fn in_line(line: &str, proposer: &Proposer<'_>) -> Option<(String, Zeroizing<String>)> {
    if !proposer.finds_in(line) {
        return None;
    }
    let name = mentions::first_name(line)?;
    let value = line.split(AROUND).find_map(|word| {
        let word = word.strip_prefix(name.as_str()).unwrap_or(word).trim_start_matches(['=', ':']);
        let is_value = !word.is_empty() && proposer.finds_in(&format!("{name}={word}"));
        is_value.then(|| Zeroizing::new(word.to_owned()))
    })?;
    Some((name, value))
}

#[cfg(test)]
mod tests {
    use keyless_vault::Providers;

    use super::*;

    #[test]
    fn a_value_is_seen_in_every_kind_of_file() {
        let providers = Providers::bundled();
        let key = format!("sk_live_{}", "Zk3v9QwT1rXb7LmN5pYc2HsD");
        let looks = |line: &str| line.contains(&key);
        let proposer = Proposer::new(&providers, "app", &looks);
        let name = "STRIPE_SECRET_KEY";
        for (file, text) in [
            ("compose.yaml", format!("services:\n  a:\n    environment:\n      {name}: {key}\n")),
            ("compose.yml", format!("services:\n  a:\n    environment:\n      - {name}={key}\n")),
            ("app.py", format!("x = 1\n{name} = '{key}'\n")),
            ("app.ts", format!("export const {name} = \"{key}\";\n")),
            ("Dockerfile", format!("ENV {name}={key}\n")),
            ("run.sh", format!("export {name}={key}; ./run\n")),
            (".mcp.json", format!(r#"{{"servers": {{"x": {{"env": {{"{name}": "{key}"}}}}}}}}"#)),
        ] {
            let found = values(Path::new(file), &text, &proposer);
            let is_it = |(found, value): &(String, Zeroizing<String>)| {
                found == name && value.as_str() == key
            };
            assert!(!found.is_empty() && found.iter().all(is_it), "{file}");
        }
        for text in [format!("{name}=changeme"), format!("{name} = os.environ['{name}']")] {
            assert!(values(Path::new("app.py"), &text, &proposer).is_empty(), "{text}");
        }
    }
}
