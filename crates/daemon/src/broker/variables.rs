//! In which variables a session's command finds its placeholders. Pure.

use std::collections::{BTreeMap, HashMap, HashSet};

use keyless_core::{Code, Error, Placeholder, SafeText, SecretPath, SessionKey, Signer};
use keyless_vault::{EnvName, Secret};

use super::{Inherited, Variable, companion};
use crate::{aliases::Aliased, caution::Caution, environment::is_of_sessions};

/// Whether an agent that asks for no secret by name gets this one.
pub(super) fn is_offered(secret: &Secret) -> bool {
    !secret.metadata.honeypot && has_use(secret)
}

/// Whether a command has something of it: a placeholder in a variable, or what the proxy does by itself.
fn has_use(secret: &Secret) -> bool {
    secret.metadata.egress.as_ref().is_some_and(|rule| {
        let signs = matches!(rule.sign, Some(Signer::Hmac(_) | Signer::TlsClient { .. }));
        secret.metadata.env.is_some() || rule.inject.is_some() || signs
    })
}

/// Secrets that somebody asked for and the command has nothing of: the secret is in no variable and has no other use, or
/// it is the id of a key for AWS, without which the command can't sign.
pub(super) fn unnamed(
    chosen: &[Secret],
    asked_for: impl Fn(&SecretPath) -> bool,
    variables: &[Variable],
    key: &SessionKey,
) -> Vec<SecretPath> {
    let nowhere = |secret: &&Secret| {
        let own = placeholder(secret, key);
        let mut signs_for = chosen.iter().filter(|key| companion(key) == Some(&secret.path));
        let is_meant = match signs_for.clone().next() {
            None => asked_for(&secret.path),
            Some(_) => signs_for.any(|key| key_id_of(key).is_some() && asked_for(&key.path)),
        };
        is_meant
            && !has_use(secret)
            && variables.iter().all(|variable| !variable.placeholder.contains(own.as_str()))
    };
    chosen.iter().filter(nowhere).map(|secret| secret.path.clone()).collect()
}

/// Those that the project declares, that name hosts, and of which a command that asks for none by name has nothing.
pub(super) fn declared_in_vain<'a>(
    all: &'a [Secret],
    chosen: &'a [Secret],
    caution: &'a Caution,
) -> impl Iterator<Item = SecretPath> + 'a {
    let in_vain = |secret: &&Secret| {
        let Secret { path, metadata, .. } = secret;
        caution.declares(path)
            && metadata.egress.is_some()
            && !metadata.honeypot
            && !has_use(secret)
            && chosen.iter().all(|one| one.path != *path)
    };
    all.iter().filter(in_vain).map(|secret| secret.path.clone())
}

/// Adds the placeholder of an AWS key's id, where programs look for it beside the key, unless something is there.
/// `inherited` is what the command is left of its environment.
pub(super) fn add_key_ids(
    variables: &mut Vec<Variable>,
    chosen: &[Secret],
    aliased: &[Aliased],
    inherited: &[&Inherited],
    key: &SessionKey,
) {
    for signer in chosen {
        let Some(path) = key_id_of(signer) else { continue };
        let Some(id) = chosen.iter().find(|secret| secret.path == *path) else { continue };
        let placeholder = placeholder(id, key).to_string();
        let own = signer.metadata.env.iter().map(EnvName::as_str);
        let others = aliased.iter().filter(|alias| alias.path == signer.path);
        for name in own.chain(others.map(|alias| alias.variable.as_str())) {
            let Some(name) = beside(name) else { continue };
            let is_taken = inherited.iter().any(|one| one.name == name && !one.value.is_empty())
                || variables.iter().any(|variable| variable.name == name);
            if !is_taken {
                variables.push(Variable { name, placeholder: placeholder.clone() });
            }
        }
    }
}

/// The id of this key for AWS.
fn key_id_of(secret: &Secret) -> Option<&SecretPath> {
    match secret.metadata.egress.as_ref()?.sign.as_ref()? {
        Signer::Aws { access_key_id } => Some(access_key_id),
        _ => None,
    }
}

/// Where a program that finds a key in the variable `name` looks for its id: `AWS_ACCESS_KEY_ID` beside
/// `AWS_SECRET_ACCESS_KEY`, and so with other beginnings.
fn beside(name: &str) -> Option<String> {
    let with = |key: &str, id: &str| name.strip_suffix(key).map(|begin| begin.to_owned() + id);
    with("SECRET_ACCESS_KEY", "ACCESS_KEY_ID")
        .or_else(|| with("secret_access_key", "access_key_id"))
}

/// The variables of the secrets. One whose value others know has its placeholder too, which stands for nothing until
/// there is a new value.
pub(super) fn variables(chosen: &[Secret], key: &SessionKey) -> Vec<Variable> {
    let variable = |secret: &Secret| {
        let name = secret.metadata.env.as_ref()?.to_string();
        Some(Variable { name, placeholder: in_its_form(secret, key) })
    };
    chosen.iter().filter_map(variable).collect()
}

/// The placeholder in place of the alias.
pub(super) fn resolved(aliased: &Aliased, chosen: &[Secret], key: &SessionKey) -> Option<Variable> {
    let secret = chosen.iter().find(|secret| secret.path == aliased.path)?;
    // What stands around it is for the secret's own variable: another may want the value alone.
    let is_own = secret.metadata.env.as_ref().is_some_and(|env| env.as_str() == aliased.variable);
    let placeholder =
        if is_own { in_its_form(secret, key) } else { placeholder(secret, key).to_string() };
    Some(Variable { name: aliased.variable.clone(), placeholder })
}

/// The placeholder, with what stands around it in a variable.
fn in_its_form(secret: &Secret, key: &SessionKey) -> String {
    let placeholder = placeholder(secret, key).to_string();
    let form = secret.metadata.env_form.as_ref();
    form.map_or(placeholder.clone(), |form| form.around(&placeholder))
}

/// What stands for a secret's value in the session of `key`.
pub(super) fn placeholder(secret: &Secret, key: &SessionKey) -> Placeholder {
    Placeholder::derive(key, &secret.path, &secret.metadata.placeholder.form())
}

/// The variables that several of `secrets` want, where each is given to a session that asks for none by name.
pub(crate) fn shared_variables(secrets: &[Secret]) -> BTreeMap<&EnvName, Vec<&SecretPath>> {
    let mut wanted: BTreeMap<&EnvName, Vec<&SecretPath>> = BTreeMap::new();
    for secret in secrets.iter().filter(|secret| is_offered(secret)) {
        if let Some(name) = &secret.metadata.env {
            wanted.entry(name).or_default().push(&secret.path);
        }
    }
    wanted.retain(|_, paths| paths.len() > 1);
    wanted
}

/// What it comes to that a secret wants the variable of others, for whoever gave it that: a sentence without its end.
/// `all` are the store's secrets, that one among them.
pub fn word_of_shared_variable(path: &SecretPath, all: &[Secret]) -> Option<String> {
    let shared = shared_variables(all);
    let (name, paths) = shared.into_iter().find(|(_, paths)| paths.contains(&path))?;
    let others = paths.into_iter().filter(|other| *other != path);
    let others: Vec<&str> = others.map(SecretPath::as_str).collect();
    Some(format!(
        "{} has the variable {name} too: a keyless run that names neither is refused, but in a project whose \
         .keyless/secrets.toml declares secrets, and not both. keyless secret set {path} --env ANOTHER gives it one of its own",
        others.join(", ")
    ))
}

/// Takes away what the project does not declare, where it declares any secret, and says how many those are. What it takes
/// to sign with one that stays, stays.
pub(super) fn leave_undeclared(chosen: &mut Vec<Secret>, caution: &Caution) -> usize {
    if !caution.is_of_project() {
        return 0;
    }
    let declared = chosen.iter().filter(|secret| caution.declares(&secret.path));
    let mut staying: HashSet<SecretPath> =
        declared.clone().filter_map(companion).cloned().collect();
    staying.extend(declared.map(|secret| secret.path.clone()));
    let goes = |secret: &&Secret| !staying.contains(&secret.path);
    let left = chosen.iter().filter(|secret| is_offered(secret)).filter(goes).count();
    chosen.retain(|secret| !goes(&secret));
    left
}

/// Two secrets in one variable: the agent would get one of them, and nobody would know which.
pub(super) fn refuse_shared_variables(chosen: &[Secret]) -> Result<(), Error> {
    let mut seen: HashMap<&str, &SecretPath> = HashMap::new();
    for secret in chosen {
        let Some(name) = &secret.metadata.env else { continue };
        if let Some(other) = seen.insert(name.as_str(), &secret.path) {
            let words = SafeText::default().and(other).and(" and ").and(&secret.path);
            let words = words.and(" both want the variable ").as_they_wrote(name.as_str());
            let words = words.and("; name what this run needs: keyless run --secret ").and(other);
            let words = words.and(" -- COMMAND, or --secret ").and(&secret.path);
            let words = words
                .and(" in its place, and --secret once more for each other one; a project declares one of them in .keyless/secrets.toml");
            return Err(Error::with(Code::SessionUnfit, words));
        }
    }
    Ok(())
}

/// A placeholder in a variable that the session sets itself: trust or the way out would be gone.
pub(super) fn refuse_variables_of_sessions(
    chosen: &[Secret],
    aliased: &[Aliased],
) -> Result<(), Error> {
    let refuse = |path: &SecretPath, name: &str, next: &'static str| {
        let words = SafeText::default().and(path).and(" wants the variable ").as_they_wrote(name);
        let words = words.and(", which every session sets itself or keeps away; ").and(next);
        Err(Error::with(Code::SessionUnfit, words))
    };
    for secret in chosen {
        let Some(name) = secret.metadata.env.as_ref().map(EnvName::as_str) else { continue };
        if is_of_sessions(name) {
            return refuse(
                &secret.path,
                name,
                "give it another with keyless secret set --env NAME",
            );
        }
    }
    match aliased.iter().find(|aliased| is_of_sessions(&aliased.variable)) {
        Some(Aliased { variable, path }) => refuse(path, variable, "take the alias out of it"),
        None => Ok(()),
    }
}
