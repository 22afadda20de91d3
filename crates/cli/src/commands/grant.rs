//! `keyless grant`: what agents may do with which secrets.

use std::{path::Path, process::ExitCode, time::Duration};

use jiff::{SignedDuration, Timestamp};
use keyless_core::{
    Code, Error, SafeText,
    action::ActionType,
    agent::Aid,
    grant::{
        Conditions, Forms, Grant, GrantedAction, GrantedBy, Lack, Permission, SecretPattern,
        Subject,
    },
    nl_message::to_millisecond,
    read_object,
};
use keyless_daemon::{
    Agents, Config, Places, audit_log,
    nl::grants::{Grants, ShownGrant, check_grant, list_grants, new_grant_id},
    vault::{Secret, Vault},
};
use serde_json::{Value, json};

use super::{open_store, read_text, unlock_vault};
use crate::{
    args::{GrantCommand, GrantCreateArgs, GrantRevokeArgs, GrantShowArgs},
    ui::{Ui, table},
};

mod explain;

/// Agents that are registered with their sessions, and are gone with them.
const OF_SESSIONS: &str = "nl://keyless.dev/";
/// What a grant permits when it does not say.
const USUAL: [ActionType; 4] =
    [ActionType::Exec, ActionType::Template, ActionType::InjectStdin, ActionType::InjectTempfile];
/// How long it does so when it does not say.
const USUAL_LIFE: Duration = Duration::from_hours(8);

pub(super) async fn run(ui: &Ui, command: GrantCommand) -> Result<ExitCode, Error> {
    match command {
        GrantCommand::Create(args) => create(ui, *args).await?,
        GrantCommand::Explain(args) => return explain::run(ui, args).await,
        GrantCommand::List => list(ui).await?,
        GrantCommand::Revoke(args) => revoke(ui, args).await?,
        GrantCommand::Show(args) => show(ui, &args).await?,
    }
    Ok(ExitCode::SUCCESS)
}

async fn create(ui: &Ui, args: GrantCreateArgs) -> Result<(), Error> {
    let said = match &args.file {
        Some(file) => read(file)?,
        None => of_args(&args)?,
    };
    let config = Config::load(&Places::from_environment()?.config_file())?;
    let (grant, unlimited) = said.under(config.nl.profile);
    // Before anybody types a passphrase for it, or reads notes about it.
    check_grant(&grant)?;
    let (_, vault) = unlock_vault(&args.factor).await?;
    let log = audit_log(&vault);
    let grants = Grants::new(&vault, log.clone());
    grants.create(grant.clone()).await?;
    if unlimited {
        ui.warn("`max_uses` 0 is taken as no limit; leave it away to say so");
    }
    let boxed = grant.permissions.iter().all(|one| one.conditions.allowed_hosts.is_empty());
    if boxed {
        let option = if args.file.is_some() { "`allowed_hosts`" } else { "--host" };
        ui.line(&format!(
            "Without {option}, an action that has a value inside reaches no network."
        ));
    }
    let agents = Agents::new(&vault, log)?.list().await?;
    if let Some(words) = idle(&grant, &agents) {
        ui.warn(words);
    }
    for pattern in idle_patterns(&grant, &vault).await? {
        let words = if pattern.is_of_provider() && pattern.is_exact() {
            "; without one its source has to be open to it: references in sources.toml"
        } else {
            ""
        };
        ui.warn(format!("{pattern} names no secret so far{words}"));
    }
    let by_default = if args.file.is_none() && args.life.is_none() {
        " (8 h after its begin, since no --for says how long)"
    } else {
        ""
    };
    let until = until(&grant).map(|until| format!(" until {until} UTC{by_default}"));
    let Grant { grant_id, agent_uri, .. } = &grant;
    let words = format!("Granted {grant_id} to {agent_uri}{}.\n", until.unwrap_or_default());
    ui.answer("grant create", &json!({ "grant": grant.as_message() }), &words);
    Ok(())
}

/// Why a grant permits nobody anything so far.
fn idle(grant: &Grant, agents: &[Aid]) -> Option<String> {
    let Grant { agent_uri, organization_id, .. } = grant;
    if agent_uri.as_str().starts_with(OF_SESSIONS) {
        return None;
    }
    let mut theirs = agents.iter().filter(|aid| aid.agent_uri == *agent_uri).peekable();
    if theirs.peek().is_none() {
        return Some(format!(
            "no agent is registered as {agent_uri}, so far: keyless agent register, keyless agent list"
        ));
    }
    if let Some(instance) = &grant.instance_id
        && !theirs.clone().any(|aid| aid.instance_id == *instance)
    {
        return Some(format!(
            "no agent {agent_uri} has the instance {instance}, so far: keyless agent list shows which there are"
        ));
    }
    theirs.all(|aid| aid.organization_id != *organization_id).then(|| {
        format!(
            "no agent {agent_uri} is of the organization {organization_id}, so far, and a grant is for those of its \
             own: --organization, keyless agent list"
        )
    })
}

/// The patterns of a grant that name no secret of the store, and no place that stands for itself.
async fn idle_patterns(grant: &Grant, vault: &Vault) -> Result<Vec<SecretPattern>, Error> {
    let secrets = vault.list().await?;
    let categories = vault.categories().await?;
    let subject = |secret: &Secret| Subject::new(secret.path.clone(), vault.places(secret));
    let subjects: Vec<Subject> = secrets.iter().map(subject).collect();
    let forms: Vec<Forms<'_>> = subjects.iter().map(|subject| subject.forms(&categories)).collect();
    let patterns = grant.permissions.iter().flat_map(|one| &one.secrets);
    let idle = patterns.filter(|pattern| !forms.iter().any(|forms| pattern.matches(forms)));
    let mut all = Vec::new();
    for pattern in idle {
        let place = pattern.as_str().split_once("://").filter(|_| pattern.is_exact());
        let is_open = match place {
            Some((provider, place)) => vault.place(provider, place).await?.is_some(),
            None => false,
        };
        if !is_open {
            all.push(pattern.clone());
        }
    }
    Ok(all)
}

fn of_args(args: &GrantCreateArgs) -> Result<Grant, Error> {
    let missing = || Error::with(Code::Usage, SafeText::words("name the agent: --agent URI"));
    let now = to_millisecond(Timestamp::now());
    let life =
        SignedDuration::try_from(args.life.unwrap_or(USUAL_LIFE)).map_err(|_| Code::Usage)?;
    let from = args.from.unwrap_or(now);
    let list = |names: &[String]| Some(names.to_vec()).filter(|names| !names.is_empty());
    let conditions = Conditions {
        max_uses: args.max_uses,
        require_human_approval: args.approve,
        min_trust_level: args.trust,
        allowed_environments: list(&args.environments),
        allowed_contexts: args.contexts.iter().cloned().collect(),
        allowed_ip_ranges: Some(args.addresses.clone()).filter(|ranges| !ranges.is_empty()),
        max_concurrent: args.max_concurrent,
        max_per_minute: args.max_per_minute,
        allowed_hosts: args.hosts.clone(),
        allow_writes: args.writes,
        ..Conditions::between(from, from + life)
    };
    let actions = if args.actions.is_empty() {
        USUAL.map(GrantedAction::Type).to_vec()
    } else {
        args.actions.clone()
    };
    Ok(Grant {
        schema: None,
        grant_id: args.id.clone().unwrap_or_else(new_grant_id),
        nl_version: "1.0".to_owned(),
        agent_uri: args.agent.clone().ok_or_else(missing)?,
        instance_id: args.instance.clone(),
        organization_id: args.organization.clone(),
        granted_by: GrantedBy {
            kind: "human".to_owned(),
            identifier: "operator".to_owned(),
            granted_at: now,
        },
        permissions: vec![Permission {
            action_types: actions,
            secrets: args.secrets.clone(),
            conditions,
        }],
        revocable: true,
        revoked: false,
    })
}

fn read(file: &Path) -> Result<Grant, Error> {
    let place = || SafeText::default().as_they_wrote(&file.to_string_lossy()).and(": ");
    let text = read_text(file)?;
    serde_json::from_str::<Value>(&text)
        .map_err(|error| error.to_string())
        .and_then(read_object)
        .map_err(|fault| Error::with(Code::Usage, place().as_they_wrote(&fault)))
}

async fn list(ui: &Ui) -> Result<(), Error> {
    let (_, store) = open_store().await?;
    let grants = list_grants(&store).await?;
    let rows: Vec<Vec<String>> = grants.iter().map(row).collect();
    let data: Vec<Value> = grants.iter().map(data).collect();
    let words = if rows.is_empty() {
        "No grants. Make one: keyless grant create --agent URI --secret PATTERN\n".to_owned()
    } else {
        table(&["ID", "STATE", "AGENT", "SECRETS", "ACTIONS", "UNTIL", "USES"], &rows)
    };
    ui.answer("grant list", &json!({ "grants": data }), &words);
    Ok(())
}

async fn show(ui: &Ui, args: &GrantShowArgs) -> Result<(), Error> {
    let (_, store) = open_store().await?;
    let found = list_grants(&store).await?.into_iter().find(|one| one.grant.grant_id == args.id);
    let found = found.ok_or_else(|| {
        Error::with(Code::GrantUnknown, SafeText::default().as_they_wrote(args.id.as_str()))
    })?;
    let text = serde_json::to_string_pretty(&found.grant.as_message()).unwrap_or_default();
    let words = format!("{text}\nstate: {}, uses: {}\n", found.state.as_str(), uses(&found));
    ui.answer("grant show", &data(&found), &words);
    Ok(())
}

async fn revoke(ui: &Ui, args: GrantRevokeArgs) -> Result<(), Error> {
    let (_, vault) = unlock_vault(&args.factor).await?;
    let grants = Grants::new(&vault, audit_log(&vault));
    let grant = grants.revoke(&args.id, args.reason.as_deref()).await?;
    let words = format!("{} permits nothing any more.\n", grant.grant_id);
    ui.answer("grant revoke", &json!({ "grant_id": grant.grant_id, "revoked": true }), &words);
    Ok(())
}

fn data(shown: &ShownGrant) -> Value {
    json!({ "grant": shown.grant.as_message(), "state": shown.state, "used": shown.used })
}

fn row(shown: &ShownGrant) -> Vec<String> {
    let grant = &shown.grant;
    let each = |of: fn(&Permission) -> Vec<String>| {
        grant.permissions.iter().map(|one| of(one).join(",")).collect::<Vec<_>>().join("; ")
    };
    vec![
        grant.grant_id.to_string(),
        shown.state.as_str().to_owned(),
        grant.agent_uri.to_string(),
        each(|one| one.secrets.iter().map(ToString::to_string).collect()),
        each(|one| one.action_types.iter().map(|action| String::from(*action)).collect()),
        until(grant).unwrap_or_default(),
        uses(shown),
    ]
}

/// When the last of what it permits ends.
fn until(grant: &Grant) -> Option<String> {
    let ends = grant.permissions.iter().map(|one| one.conditions.valid_until);
    ends.max().map(|until| until.strftime("%Y-%m-%d %H:%M").to_string())
}

/// `3/100`, and `-` where nobody counts.
fn uses(shown: &ShownGrant) -> String {
    let each = shown.grant.permissions.iter().zip(&shown.used).map(|(permission, used)| {
        permission
            .conditions
            .max_uses
            .map_or_else(|| "-".to_owned(), |most| format!("{used}/{most}"))
    });
    each.collect::<Vec<_>>().join(" ")
}

/// What a permission lacks, in words.
fn lacks(lacks: &[Lack]) -> String {
    lacks.iter().map(|lack| lack.words()).collect::<Vec<_>>().join("; ")
}
