//! `keyless agent`: who agents are, and their lives.

use std::{path::Path, process::ExitCode};

use jiff::SignedDuration;
use keyless_core::{
    ActionType, Code, Error, SafeText,
    agent::{AgentState, AgentType, Aid, AidScope, InstanceId, LifecycleAuthority, TrustLevel},
    grant::GrantState,
    threat::Band,
};
use keyless_daemon::{
    Activation, Agents, CREDENTIAL_NOTE, Config, OPERATOR, Places, Registrar, Registration,
    counted,
    nl::{
        attestation::{self, Attestation},
        delegations::Delegations,
        detection::Detection,
        grants::list_grants,
    },
    registered,
};
use serde_json::json;
use zeroize::Zeroizing;

use super::{check_private, unlock_vault, write_opener};
use crate::{
    args::{
        AgentAttestArgs, AgentChangeArgs, AgentCommand, AgentName, AgentRegisterArgs,
        AgentRotateArgs, AgentShowArgs, FactorArgs,
    },
    ui::{Ui, fields, table},
};

pub(super) async fn run(ui: &Ui, command: AgentCommand) -> Result<ExitCode, Error> {
    match command {
        AgentCommand::Activate(args) => {
            change(ui, "agent activate", args, AgentState::Active).await?;
        }
        AgentCommand::Attest(args) => attest(ui, args).await?,
        AgentCommand::List(args) => list(ui, &args.factor).await?,
        AgentCommand::Register(args) => register(ui, *args).await?,
        AgentCommand::Reset(args) => reset(ui, &args).await?,
        AgentCommand::Revoke(args) => change(ui, "agent revoke", args, AgentState::Revoked).await?,
        AgentCommand::Rotate(args) => rotate(ui, &args).await?,
        AgentCommand::Show(args) => show(ui, &args).await?,
        AgentCommand::Suspend(args) => {
            change(ui, "agent suspend", args, AgentState::Suspended).await?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

async fn register(ui: &Ui, args: AgentRegisterArgs) -> Result<(), Error> {
    if args.trust > TrustLevel::L1 {
        let words = SafeText::words("L2 and L3 come from an attestation, not from a word");
        return Err(Error::with(Code::Usage, words));
    }
    let fault = match (&args.kind, args.risk) {
        (AgentType::Custom(_), None) => {
            Some("a custom type has a --risk: low, medium, high or very_high")
        }
        (AgentType::Custom(_), Some(_)) | (_, None) => None,
        (_, Some(_)) => Some("--risk is for custom types: that of the others is the protocol's"),
    };
    if let Some(words) = fault {
        return Err(Error::with(Code::Usage, SafeText::words(words)));
    }
    let all = ActionType::ALL.iter().copied().filter(|kind| *kind != ActionType::Egress);
    let capabilities = if args.can.is_empty() { all.collect() } else { args.can.clone() };
    let life = SignedDuration::try_from(args.life).map_err(|_| Code::Usage)?;
    let registration = Registration {
        agent_uri: args.uri.clone(),
        organization_id: args.organization.clone(),
        agent_type: args.kind.clone(),
        trust_level: args.trust,
        capabilities,
        scope: scope(&args),
        session_context: args.context.iter().cloned().collect(),
        life,
        registered_by: OPERATOR.to_owned(),
        parent: args.parent.clone(),
        metadata: args
            .risk
            .map(|risk| ("risk_level".to_owned(), json!(risk)))
            .into_iter()
            .collect(),
        is_administrator: args.administrator,
    };
    check_private(args.credential_file.as_deref())?;
    let (places, vault) = unlock_vault(&args.factor).await?;
    let activation = Config::load(&places.config_file())?.nl.activation;
    let agents = Agents::new(&vault, keyless_daemon::audit_log(&vault))?;
    let (aid, credential) = agents.register(registration, Registrar::Operator).await?;
    let instance = &aid.instance_id;
    let (shown, kept) = handed_out(ui, &places, &credential, args.credential_file.as_deref())?;
    let grants = list_grants(vault.store()).await?;
    let is_granted = grants.iter().any(|shown| {
        shown.state == GrantState::Active
            && shown.grant.agent_uri == aid.agent_uri
            && shown.grant.organization_id == aid.organization_id
            && shown.grant.instance_id.is_none()
    });
    let next = if is_granted {
        "There are grants for it already: keyless grant list."
    } else {
        "It may use no secret until there is a grant: keyless grant create."
    };
    let first = match activation {
        Activation::Admin => {
            format!("It may not act until you say so: keyless agent activate {instance}.\n")
        }
        Activation::FirstAuth => String::new(),
    };
    let words = format!(
        "Registered {}.\nInstance:   {instance}\nCredential: {}\n{next}\n{first}",
        aid.agent_uri, *kept
    );
    ui.answer("agent register", &registered(&aid, &shown), &words);
    Ok(())
}

async fn rotate(ui: &Ui, args: &AgentRotateArgs) -> Result<(), Error> {
    check_private(args.credential_file.as_deref())?;
    let agents = agents(&args.factor).await?;
    let places = Places::from_environment()?;
    let instance = one(&agents, &args.agent).await?.instance_id;
    let (aid, credential) = agents.rotate(&instance, None, &args.reason).await?;
    let (shown, kept) = handed_out(ui, &places, &credential, args.credential_file.as_deref())?;
    let words = format!(
        "{} has a new credential; the old one is refused from now on.\n\
         Instance:   {instance}\nCredential: {}\n",
        aid.agent_uri, *kept
    );
    ui.answer("agent rotate", &registered(&aid, &shown), &words);
    Ok(())
}

/// A credential on its only way out: what is shown of it as data, and in words.
fn handed_out(
    ui: &Ui,
    places: &Places,
    credential: &Zeroizing<String>,
    file: Option<&Path>,
) -> Result<(Zeroizing<String>, Zeroizing<String>), Error> {
    let Some(file) = file else {
        let words = format!("{}\n{CREDENTIAL_NOTE}", **credential);
        return Ok((credential.clone(), Zeroizing::new(words)));
    };
    // An agent in a jail would act as this one.
    write_opener(ui, places, file, credential)?;
    Ok((Zeroizing::default(), Zeroizing::new(format!("in {}", file.display()))))
}

/// The agent that is meant. By its URI it is the one that has it and is not revoked; of several, none.
async fn one(agents: &Agents, name: &AgentName) -> Result<Aid, Error> {
    let uri = match name {
        AgentName::Instance(instance) => return agents.show(instance).await,
        AgentName::Uri(uri) => uri,
    };
    let all = agents.list().await?;
    let mut same: Vec<Aid> = all.into_iter().filter(|aid| aid.agent_uri.as_str() == uri).collect();
    if same.len() > 1 {
        same.retain(|aid| aid.lifecycle != AgentState::Revoked);
    }
    match (same.pop(), same.as_slice()) {
        (Some(aid), []) => Ok(aid),
        (None, _) => {
            Err(Error::with(Code::AgentUnregistered, SafeText::default().as_they_wrote(uri)))
        }
        (Some(first), more) => {
            let each: Vec<&InstanceId> =
                std::iter::once(&first).chain(more).map(|aid| &aid.instance_id).collect();
            let each: Vec<&str> = each.into_iter().map(InstanceId::as_str).collect();
            let words = SafeText::words("several agents have this name; say which instance: ");
            Err(Error::with(Code::Usage, words.as_they_wrote(&each.join(", "))))
        }
    }
}

/// What the words bound; nothing when there are none.
fn scope(args: &AgentRegisterArgs) -> Option<AidScope> {
    let any = |names: &[String]| {
        if names.is_empty() { vec!["*".to_owned()] } else { names.to_vec() }
    };
    let (categories, patterns) = (args.category.clone(), args.pattern.clone());
    let bounded = !args.project.is_empty()
        || !args.environment.is_empty()
        || !categories.is_empty()
        || !patterns.is_empty();
    bounded.then(|| AidScope {
        projects: any(&args.project),
        environments: any(&args.environment),
        categories: Some(categories).filter(|names| !names.is_empty()),
        secret_patterns: Some(patterns).filter(|patterns| !patterns.is_empty()),
    })
}

async fn attest(ui: &Ui, args: AgentAttestArgs) -> Result<(), Error> {
    let (_, vault) = unlock_vault(&args.factor).await?;
    let log = keyless_daemon::audit_log(&vault);
    let aid = one(&Agents::new(&vault, log.clone())?, &args.agent).await?;
    let life = SignedDuration::try_from(args.life).map_err(|_| Code::Usage)?;
    let Attestation { token, vendor_keys } =
        attestation::attest(&vault, &log, &aid, &args.key, life).await?;
    let words = if args.keys {
        format!("{}\n", serde_json::to_string_pretty(&vendor_keys).unwrap_or_default())
    } else {
        format!("{token}\n")
    };
    let all = json!({ "attestation": token, "attestation_keys": vendor_keys });
    ui.answer("agent attest", &all, &words);
    Ok(())
}

async fn list(ui: &Ui, factor: &FactorArgs) -> Result<(), Error> {
    let all = agents(factor).await?.list().await?;
    let rows: Vec<Vec<String>> = all.iter().map(row).collect();
    let words = if rows.is_empty() {
        "No agent is registered.\n".to_owned()
    } else {
        table(&["INSTANCE", "AGENT", "STATE", "TRUST", "EXPIRES"], &rows)
    };
    ui.answer("agent list", &json!({ "agents": all }), &words);
    Ok(())
}

fn row(aid: &Aid) -> Vec<String> {
    vec![
        aid.instance_id.to_string(),
        aid.agent_uri.to_string(),
        if aid.is_administrator() {
            format!("{}, administrator", aid.lifecycle)
        } else {
            aid.lifecycle.to_string()
        },
        aid.trust_level.as_str().to_owned(),
        aid.expires_at.strftime("%Y-%m-%d %H:%M").to_string(),
    ]
}

async fn show(ui: &Ui, args: &AgentShowArgs) -> Result<(), Error> {
    let (places, vault) = unlock_vault(&args.factor).await?;
    let log = keyless_daemon::audit_log(&vault);
    let aid = one(&Agents::new(&vault, log.clone())?, &args.agent).await?;
    let config = Config::load(&places.config_file())?;
    let detection = Detection::new(&vault, log, &config.nl)?;
    let (standing, incidents) = detection.standing(&aid.instance_id).await?;
    let words = format!(
        "{}{:<16} {} ({}), {} remembered\n",
        fields(&json!(aid.as_message())),
        "threat:",
        standing.score,
        standing.band.as_str(),
        counted(incidents, "incident"),
    );
    let threat = json!({
        "score": standing.score, "level": standing.band, "incidents": incidents,
    });
    ui.answer("agent show", &json!({ "aid": aid.as_message(), "threat": threat }), &words);
    Ok(())
}

async fn reset(ui: &Ui, args: &AgentChangeArgs) -> Result<(), Error> {
    let (places, vault) = unlock_vault(&args.factor).await?;
    let log = keyless_daemon::audit_log(&vault);
    let aid = one(&Agents::new(&vault, log.clone())?, &args.agent).await?;
    let config = Config::load(&places.config_file())?;
    let detection = Detection::new(&vault, log, &config.nl)?;
    let shift = detection.reset(&aid.instance_id, &args.reason).await?;
    let next = match aid.lifecycle {
        AgentState::Suspended => {
            " It is suspended still: keyless agent activate lets it act again."
        }
        _ => "",
    };
    let words = format!(
        "The threat score of {} was {} and is 0.{next}\n",
        aid.agent_uri, shift.before.score
    );
    let data = json!({ "aid": aid.as_message(), "score_before": shift.before.score, "score": 0 });
    ui.answer("agent reset", &data, &words);
    Ok(())
}

async fn change(ui: &Ui, name: &str, args: AgentChangeArgs, to: AgentState) -> Result<(), Error> {
    let (places, vault) = unlock_vault(&args.factor).await?;
    let log = keyless_daemon::audit_log(&vault);
    let agents = Agents::new(&vault, log.clone())?;
    // What can't be read is told before anything is changed.
    let config = (to == AgentState::Active).then(|| Config::load(&places.config_file()));
    let config = config.transpose()?;
    let by = (to, LifecycleAuthority::Operator);
    let instance = one(&agents, &args.agent).await?.instance_id;
    let aid = agents.change(&instance, by, &args.reason).await?;
    if to != AgentState::Active {
        Delegations::new(&vault, log.clone()).revoke_of_agent(&agents, &instance).await?;
    }
    let mut words = format!("{} is {}.\n", aid.agent_uri, aid.lifecycle);
    if let Some(config) = config {
        let detection = Detection::new(&vault, log, &config.nl)?;
        let kept = match detection.band(&instance).await? {
            Band::Red => Some("does nothing"),
            Band::Orange => Some("does nothing unasked"),
            Band::Green | Band::Yellow => None,
        };
        if let Some(kept) = kept {
            let (standing, _) = detection.standing(&instance).await?;
            let (score, band) = (standing.score, standing.band.as_str());
            words = format!(
                "{words}Its threat score is {score} ({band}), so that it {kept} until you say: keyless agent reset {instance}\n"
            );
        }
    }
    ui.answer(name, &json!({ "aid": aid.as_message() }), &words);
    Ok(())
}

async fn agents(factor: &FactorArgs) -> Result<Agents, Error> {
    let (_, vault) = unlock_vault(factor).await?;
    Agents::new(&vault, keyless_daemon::audit_log(&vault))
}
