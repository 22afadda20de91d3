//! What was most likely meant, where a name on the command line is none: a verb, a secret by its variable, a path with a slip
//! in it; and a value where none may stand.

use std::env;

use clap::{
    builder::StyledStr,
    error::{ContextKind, ContextValue, ErrorKind},
};
use keyless_core::{Error, SecretPath};
use keyless_daemon::{Places, vault::Manifest};

/// Words of other tools, and ours for the same; of the verbs `secret`, and of `keyless` itself.
const OF_SECRET: &[(&str, &str)] = &[
    ("cat", "secret reveal"),
    ("create", "secret add"),
    ("delete", "secret remove"),
    ("edit", "secret set"),
    ("export", "vault export"),
    ("get", "secret reveal"),
    ("history", "secret versions"),
    ("ls", "secret list"),
    ("new", "secret add"),
    ("print", "secret reveal"),
    ("put", "secret add"),
    ("read", "secret reveal"),
    ("rm", "secret remove"),
    ("update", "secret rotate"),
    ("view", "secret show"),
];
const OF_KEYLESS: &[(&str, &str)] = &[
    ("add", "secret add"),
    ("backup", "vault export"),
    ("explain", "egress explain"),
    ("export", "vault export"),
    ("get", "secret reveal"),
    ("history", "audit tail"),
    ("import", "secret import"),
    ("list", "secret list"),
    ("log", "audit tail"),
    ("login", "unlock"),
    ("logout", "lock"),
    ("logs", "audit tail"),
    ("ls", "secret list"),
    ("reveal", "secret reveal"),
    ("rotate", "secret rotate"),
    ("sessions", "session list"),
    ("set", "secret add"),
    ("shell", "run"),
    ("start", "unlock"),
    ("stop", "lock"),
    ("validate", "secret validate"),
];
/// Verbs after whose path people put the value.
const TAKES_VALUE: [&str; 3] = ["secret add", "secret rotate", "secret set"];

/// With what the words of `verb` most likely meant. Clap names all commands that are somewhat alike, the likeliest last.
pub(super) fn with_likeliest(mut error: clap::Error, verb: &str) -> clap::Error {
    if let Some(ContextValue::String(word)) = error.get(ContextKind::InvalidSubcommand) {
        let known = match verb {
            "secret" => OF_SECRET,
            "keyless" => OF_KEYLESS,
            _ => &[],
        };
        let meant = known.iter().find(|(other, _)| other == word).map(|(_, ours)| *ours);
        let tip = match (verb, word.as_str()) {
            ("keyless", "version") => Some("keyless --version says it".to_owned()),
            ("keyless", "uninstall" | "remove" | "purge") => Some(
                "keyless hooks uninstall takes the hooks out of a repository; docs/setup.md says which folders are left to remove"
                    .to_owned(),
            ),
            _ => None,
        };
        if let Some(meant) = meant {
            let meant = ContextValue::Strings(vec![meant.to_owned()]);
            error.insert(ContextKind::SuggestedSubcommand, meant);
        } else if let Some(tip) = tip {
            error.remove(ContextKind::SuggestedSubcommand);
            error.insert(ContextKind::Suggested, styled(&tip));
        }
    }
    if let Some(ContextValue::Strings(names)) = error.get(ContextKind::SuggestedSubcommand)
        && let Some(likeliest) = names.last().cloned()
    {
        error.insert(ContextKind::SuggestedSubcommand, ContextValue::Strings(vec![likeliest]));
    }
    if let Some(tip) = path_meant(&error) {
        error.insert(ContextKind::Suggested, styled(&tip));
    }
    error
}

fn styled(tip: &str) -> ContextValue {
    ContextValue::StyledStrs(vec![StyledStr::from(tip.to_owned())])
}

/// A value that somebody put on the command line.
pub(super) struct ValueAsArgument {
    /// What is said of it: not the value itself, which would go on into the logs of a job.
    pub(super) fault: String,
    /// What asks for it, or reads it.
    pub(super) next: String,
}

/// The value that an argument of `verb` is, if it is one.
pub(super) fn value_as_argument(error: &clap::Error, verb: &str) -> Option<ValueAsArgument> {
    let is_unknown = error.kind() == ErrorKind::UnknownArgument;
    let Some(ContextValue::String(word)) = error.get(ContextKind::InvalidArg) else { return None };
    let is_value = !word.starts_with('-') || word == "--value";
    (is_unknown && is_value && TAKES_VALUE.contains(&verb)).then(|| {
        let option = if word == "--value" { "there is no --value: " } else { "" };
        // What is set about a secret is no value; of a secret that is not there none is rotated.
        let next = match verb {
            "secret set" => {
                "keyless secret rotate PATH asks for the value, keyless secret add PATH for that of a new secret; --value-stdin and \
                 --from-file FILE read it"
                    .to_owned()
            }
            _ => format!("keyless {verb} PATH asks for the value; --value-stdin and --from-file FILE read it"),
        };
        let fault = format!(
            "{option}a value is never an argument: it would stand in the shell's history and in the list of processes. If that was a \
             secret, it stands in this shell's history now: take it out there, and have its service issue another."
        );
        ValueAsArgument { fault, next }
    })
}

/// The path that a word which is none was for: the word is a variable's name.
fn path_meant(error: &clap::Error) -> Option<String> {
    let Some(ContextValue::String(word)) = error.get(ContextKind::InvalidValue) else {
        return None;
    };
    // The word is no path, and a path was wanted.
    let wrong = SecretPath::parse(word).err()?.to_string();
    if error.kind() != ErrorKind::ValueValidation || !error.to_string().contains(&wrong) {
        return None;
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().ok()?;
    let paths = runtime.block_on(paths_of(word));
    match paths.as_slice() {
        [] => None,
        [one] => Some(format!("{word} is the variable of {one}: name that path")),
        all => {
            let all: Vec<&str> = all.iter().map(SecretPath::as_str).collect();
            Some(format!("{word} is the variable of {}: name one of them", all.join(" and ")))
        }
    }
}

/// The secrets with this variable: the one that the project here declares for it, else all.
async fn paths_of(variable: &str) -> Vec<SecretPath> {
    let Ok(places) = Places::from_environment() else { return Vec::new() };
    let Ok(store) = keyless_daemon::open_store(&places).await else { return Vec::new() };
    if let Some(project) = env::current_dir().ok().and_then(|here| Manifest::project_of(&here))
        && let Ok(declared) = keyless_daemon::declared_variables(&places, &store, &project).await
        && let Some(path) = declared.get(variable)
    {
        return vec![path.clone()];
    }
    let secrets = keyless_daemon::list_secrets(&store).await.unwrap_or_default();
    let is_its = |name: &keyless_daemon::vault::EnvName| name.to_string() == variable;
    secrets
        .into_iter()
        .filter(|secret| secret.metadata.env.as_ref().is_some_and(is_its))
        .map(|secret| secret.path)
        .collect()
}

/// With the path of the store that is most like the one that is not there.
pub(super) async fn with_nearest(error: Error) -> Error {
    let words = error.detail().as_str();
    let Some(missing) =
        words.split([' ', ',', ':', ';']).find_map(|word| SecretPath::parse(word).ok())
    else {
        return error;
    };
    let Ok(places) = Places::from_environment() else { return error };
    let Ok(store) = keyless_daemon::open_store(&places).await else { return error };
    let secrets = keyless_daemon::list_secrets(&store).await.unwrap_or_default();
    let paths = secrets.iter().map(|secret| &secret.path).filter(|path| **path != missing);
    match nearest(missing.as_str(), paths, SecretPath::as_str) {
        Some(path) => {
            let detail = error.detail().clone().and("; did you mean ").and(path).and("?");
            Error::with(error.code(), detail)
        }
        None => error,
    }
}

/// The path, or name, with the fewest letters that are other ones, if these are few.
pub(super) fn nearest<'n, Name: Ord>(
    missing: &str,
    names: impl Iterator<Item = &'n Name>,
    text: fn(&Name) -> &str,
) -> Option<&'n Name> {
    let most = 2 + missing.len() / 12;
    let distance = |name| strsim::osa_distance(missing, text(name));
    let near = names.map(|name| (distance(name), name)).filter(|(far, _)| *far <= most);
    near.min().map(|(_, name)| name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_path_is_one_with_a_slip_in_it() {
        let paths = ["team/github/token", "team/gitlab/token", "personal/acme/key"];
        let paths = paths.map(|path| SecretPath::parse(path).unwrap());
        let near =
            |text: &str| nearest(text, paths.iter(), SecretPath::as_str).map(SecretPath::as_str);
        assert_eq!(near("team/githb/token"), Some("team/github/token"));
        assert_eq!(near("team/gitlba/token"), Some("team/gitlab/token"));
        assert_eq!(near("personal/acme/keys"), Some("personal/acme/key"));
        assert_eq!(near("other/stripe/secret"), None);
    }
}
