//! `keyless grant explain`: which grant allows an action, or what the nearest lacks.

use std::{
    collections::{BTreeMap, BTreeSet},
    process::ExitCode,
};

use jiff::Timestamp;
use keyless_core::{
    Code, Error, Exit, SafeText, SecretPath,
    action::Action,
    agent::{AgentState, AgentUri, Aid, InstanceId, TrustLevel},
    grant::{Explained, Lack, Request, Subject},
};
use keyless_daemon::{
    Activation, Agents, Config, audit_log,
    nl::{actions::resolve_handles, grants::Grants},
    vault::{Secret, Vault},
};
use serde_json::{Value, json};

use super::lacks;
use crate::{args::GrantExplainArgs, commands::unlock_vault, ui::Ui};

/// How many of those that do not allow are told.
const TOLD: usize = 3;

pub(super) async fn run(ui: &Ui, args: GrantExplainArgs) -> Result<ExitCode, Error> {
    let (places, vault) = unlock_vault(&args.factor).await?;
    let activation = Config::load(&places.config_file())?.nl.activation;
    let (uri, aid) = who(&vault, &args.agent).await?;
    let nobody = InstanceId::parse("00000000-0000-4000-8000-000000000000").ok_or(Code::Internal)?;
    let secrets = vault.list().await?;
    let known = |path: &SecretPath| secrets.iter().find(|secret| secret.path == *path);
    let subject = |path: &SecretPath| {
        let places = known(path).map(|secret| vault.places(secret)).unwrap_or_default();
        Subject::new(path.clone(), places)
    };
    let contexts = aid.as_ref().and_then(|aid| aid.session_context.clone());
    let (grants, categories) = (Grants::new(&vault, audit_log(&vault)), vault.categories().await?);
    let contexts = contexts.unwrap_or_else(BTreeMap::new);
    let every: Vec<Subject> = secrets.iter().map(|secret| subject(&secret.path)).collect();
    let asked = Request {
        agent_uri: &uri,
        instance_id: aid.as_ref().map_or(&nobody, |aid| &aid.instance_id),
        organization_id: aid.as_ref().map_or("local", |aid| &aid.organization_id),
        trust: aid.as_ref().map_or(TrustLevel::L0, |aid| aid.trust_level),
        action: args.action,
        writes: args.writes,
        subjects: &every,
        categories: &categories,
        contexts: &contexts,
        source_ip: args.ip,
        approved: false,
    };
    // Every grant against every secret: only where a reference is to be resolved.
    let granted: Vec<Secret> = if args.secrets.iter().all(|text| path_of(text, &secrets).is_some())
    {
        Vec::new()
    } else {
        let named = named_by_its_grants(&grants.explain(&asked).await?);
        secrets.iter().filter(|secret| named.contains(&secret.path)).cloned().collect()
    };
    let meant = |text: &String| meant(text, &vault, &granted, &secrets);
    let paths = args.secrets.iter().map(meant).collect::<Result<Vec<_>, _>>()?;
    let subjects: Vec<Subject> = paths.iter().map(subject).collect();
    let request = Request { subjects: &subjects, ..asked };
    let log = audit_log(&vault);
    let said = grants.explain(&request).await?;
    if aid.is_none() {
        ui.warn("no agent of that name is registered; taken as one of trust level L0");
    }
    for path in paths.iter().filter(|path| known(path).is_none()) {
        ui.warn(format!("there is no secret {path} in the store"));
    }
    let (mut words, mut all_allowed, mut refusals) = (String::new(), true, Vec::new());
    if let Some(aid) = &aid {
        // The first credential that it shows makes a provisioned one active, unless that is the operator's to do.
        let lifecycle = match (aid.lifecycle, activation) {
            (AgentState::Provisioned, Activation::FirstAuth) => AgentState::Active,
            (other, _) => other,
        };
        let acting = Aid { lifecycle, ..aid.clone() };
        if let Err(error) = Agents::new(&vault, log)?.in_force(&acting, Timestamp::now()).await {
            words.push_str(&idle(error.code()));
            refusals.push(error.code().as_str());
        }
        if let Err(code) = aid.covers(args.action, &subjects, request.categories) {
            words.push_str(&bounded(code));
            refusals.push(code.as_str());
        }
        all_allowed = refusals.is_empty();
    }
    for subject in &subjects {
        let about: Vec<&Explained> = said.iter().filter(|one| one.subject == *subject).collect();
        all_allowed &= about.first().is_some_and(|one| one.lacks.is_empty());
        words.push_str(&told(subject, &about));
    }
    let data: Vec<Value> = said.iter().map(shown).collect();
    let answer = json!({ "allowed": all_allowed, "agent": refusals, "permissions": data });
    let outcome = if all_allowed { Ok(()) } else { Err(Exit::Refused) };
    Ok(ui.conclude("grant explain", outcome, &answer, &words))
}

/// The secrets that the agent's own grants name, for whatever.
fn named_by_its_grants(said: &[Explained]) -> BTreeSet<SecretPath> {
    let is_named =
        |one: &&Explained| !one.lacks.contains(&Lack::Agent) && !one.lacks.contains(&Lack::Secret);
    said.iter().filter(is_named).map(|one| one.subject.path().clone()).collect()
}

/// The secret whose path this is.
fn path_of(text: &str, all: &[Secret]) -> Option<SecretPath> {
    SecretPath::parse(text).ok().filter(|path| all.iter().any(|one| one.path == *path))
}

/// The secret that is meant: as the agent's own actions would mean it, and where that is nothing, among all.
fn meant(
    text: &str,
    vault: &Vault,
    granted: &[Secret],
    all: &[Secret],
) -> Result<SecretPath, Error> {
    if let Some(path) = path_of(text, all) {
        return Ok(path);
    }
    let in_full = SecretPath::parse(text).ok();
    let template = if text.starts_with("{{") { text.into() } else { format!("{{{{nl:{text}}}}}") };
    let action = Action::from_json(json!({ "type": "exec", "template": template }));
    let action = action.map_err(|error| {
        let words = SafeText::default().as_they_wrote(&error.to_string());
        Error::with(Code::PlaceholderInvalid, words)
    })?;
    let among = |visible| Ok(resolve_handles(&action, vault, visible)?.into_iter().next());
    let found = among(granted).or_else(|error: Error| match error.code() {
        Code::SecretNotFound => among(all),
        _ => Err(error),
    });
    match (found, in_full) {
        (Ok(Some((_, path))), _) => Ok(path),
        (Ok(None), _) => {
            let words = SafeText::default().as_they_wrote(text).and(" is no reference");
            Err(Error::with(Code::PlaceholderInvalid, words))
        }
        // One that is not there yet is told as that.
        (Err(error), Some(path)) if error.code() == Code::SecretNotFound => Ok(path),
        (Err(error), _) => Err(error),
    }
}

/// What is said of an agent that may not act at all, whatever its grants say.
fn idle(code: Code) -> String {
    format!("The agent may not act ({}): keyless agent list.\n", code.as_str())
}

/// What an agent's own identity leaves out.
fn bounded(code: Code) -> String {
    format!("The agent's own identity excludes it ({}).\n", code.as_str())
}

async fn who(vault: &Vault, name: &str) -> Result<(AgentUri, Option<Aid>), Error> {
    let agents = vault.store().agents().await?;
    let named = |aid: &Aid| aid.instance_id.as_str() == name || aid.agent_uri.as_str() == name;
    let mut found: Vec<Aid> = agents.into_iter().map(|row| row.aid).filter(named).collect();
    let organizations: BTreeSet<&str> =
        found.iter().map(|aid| aid.organization_id.as_str()).collect();
    if organizations.len() > 1 {
        let words = SafeText::words(
            "agents of several organizations have that name; give one's instance id",
        );
        return Err(Error::with(Code::Usage, words));
    }
    let found = found.pop();
    match (found, AgentUri::parse(name)) {
        (Some(aid), _) => Ok((aid.agent_uri.clone(), Some(aid))),
        (None, Ok(uri)) => Ok((uri, None)),
        (None, Err(_)) => {
            Err(Error::with(Code::AgentUnregistered, SafeText::default().as_they_wrote(name)))
        }
    }
}

fn told(subject: &Subject, about: &[&Explained]) -> String {
    let name =
        |one: &Explained| format!("{} (permission {})", one.permission.grant, one.permission.index);
    match about.first() {
        None => format!("{subject}: there are no grants of its organization.\n"),
        Some(best) if best.lacks.is_empty() => format!("{subject}: allowed by {}.\n", name(best)),
        Some(_) => {
            let lines = about.iter().take(TOLD);
            let lines = lines.map(|one| format!("  {}: {}\n", name(one), lacks(&one.lacks)));
            format!("{subject}: not allowed. Nearest:\n{}", lines.collect::<String>())
        }
    }
}

fn shown(one: &Explained) -> Value {
    json!({
        "secret": one.subject.to_string(),
        "grant_id": one.permission.grant,
        "permission": one.permission.index,
        "lacks": one.lacks.iter().map(|lack| lack.words()).collect::<Vec<_>>(),
    })
}
