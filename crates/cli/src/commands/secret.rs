//! `keyless secret`: add, import, set, list, show, rotate, remove. One verb shows a value, to a person alone (`reveal`).

mod check;
pub(super) mod import;
mod metadata;
mod remarks;
mod reveal;
mod revoke;
mod set;
mod validate;
mod versions;

use std::{collections::BTreeMap, env, process::ExitCode, slice, sync::Arc};

use keyless_core::{ApproveOnUse, Code, Error, Location, SafeText, SecretPath};
use keyless_daemon::{
    AgreedBy, CheckWhen, Checked, LivenessVerdict, Operator, Places, Rotated, SecretRow, misfit,
    vault::{KeptAt, Metadata, Providers, Secret, SourceConfig, Vault},
};
use serde_json::{Value, json};
use zeroize::Zeroizing;

pub(super) use self::remarks::warn_of_hosts;
use self::{metadata::new_metadata, remarks::remark};
use super::{
    approve::visible,
    catalog::{here, warn_of_faults},
    open_store, unlock_opened, unlock_vault,
};
use crate::{
    args::{AddArgs, FactorArgs, RemoveArgs, RotateArgs, SaveArgs, SecretCommand},
    prompt,
    ui::{Ui, fields, plain, table},
};

pub(super) async fn run(ui: &Ui, command: SecretCommand) -> Result<ExitCode, Error> {
    match command {
        SecretCommand::Add(args) => add(ui, args).await?,
        SecretCommand::Check(args) => return check::run(ui, args).await,
        SecretCommand::Import(args) => return Box::pin(import::run(ui, args)).await,
        SecretCommand::List => list(ui).await?,
        SecretCommand::Purge(args) => versions::purge(ui, args).await?,
        SecretCommand::Remove(args) => remove(ui, args).await?,
        SecretCommand::Restore(args) => versions::restore(ui, args).await?,
        SecretCommand::Reveal(args) => reveal::run(ui, args).await?,
        SecretCommand::Revoke(args) => revoke::run(ui, args).await?,
        SecretCommand::Rotate(args) => rotate(ui, args).await?,
        SecretCommand::Set(args) => set::run(ui, args).await?,
        SecretCommand::Show(args) => show(ui, &args.path).await?,
        SecretCommand::Validate(args) => return validate::run(ui, args).await,
        SecretCommand::Versions(args) => versions::list(ui, args).await?,
    }
    Ok(ExitCode::SUCCESS)
}

async fn add(ui: &Ui, args: AddArgs) -> Result<(), Error> {
    let said = new_metadata(&args.rule, &args.upkeep, &args.source)?;
    let pattern = args.upkeep.pattern_id();
    // That nobody knows the pattern is said before anybody is asked for a factor.
    completed(ui, said.clone(), &args.rule.locations, pattern, None)?;
    let (places, vault) = unlock_without(&args.path, &args.factor).await?;
    let mut metadata = completed(ui, said, &args.rule.locations, pattern, Some(&vault))?;
    metadata.honeypot = args.honeypot;
    let local = metadata.source == SourceConfig::Local;
    let is_by_catalog = args.rule.to.is_empty() && args.rule.uses.preset.is_none();
    if let Some(rule) = metadata.egress.as_ref().filter(|_| is_by_catalog) {
        // Before the value is typed.
        let hosts: Vec<String> = rule.to.iter().map(ToString::to_string).collect();
        ui.line(&format!("It may go to {}, as the catalog says of its pattern.", hosts.join(", ")));
    }
    if metadata.egress.is_none() && !args.honeypot {
        ui.warn("no --to HOST: no request can carry this secret; `keyless exec` and NL actions can use it");
    }
    let vault = Arc::new(vault);
    let operator = operator(Arc::clone(&vault), args.value.allow_weak);
    let operator = operator.checking(&places, when(args.save));
    let is_decoy = args.honeypot && args.value.is_typed();
    let mut tries = prompt::Tries::of(local && !is_decoy && args.value.is_typed());
    let (said, known) = (metadata, forms(&places, &vault));
    let (metadata, narrowed, is_short, unlike) = loop {
        let mut metadata = said.clone();
        let value = match (local, is_decoy) {
            (false, _) => None,
            (true, true) => Some(keyless_daemon::decoy(&args.path, &metadata)?),
            (true, false) => Some(prompt::value(ui, &args.value)?),
        };
        // Another address than the one around it is refused below.
        let sent = value.clone().and_then(|value| {
            keyless_daemon::password_alone(metadata.env_form.as_ref(), value).ok()
        });
        let is_short = sent.as_deref().is_some_and(|value| !keyless_daemon::is_looked_for(value));
        let unlike = sent.as_deref().filter(|_| !args.value.allow_weak && !is_decoy);
        let unlike = unlike.and_then(|value| misfit(&known, &args.path, &metadata, value));
        let narrowed = if args.rule.locations.is_empty() {
            narrow(&places, &vault, &args.path, &mut metadata, sent.as_deref().map(Vec::as_slice))?
        } else {
            None
        };
        let adding = Box::pin(operator.add(&args.path, metadata.clone(), value));
        match ui.wait("Saving", adding).await.map_err(|error| with_form(error, unlike.as_ref())) {
            Err(error) if tries.again(&error, is_wrong_value) => {}
            added => break added.map(|()| (metadata, narrowed, is_short, unlike))?,
        }
    };
    warn_of_short(ui, is_short);
    warn_of_misfit(ui, unlike);
    let checked = operator.take_check();
    warn_of_check(ui, &args.path, checked.as_ref(), args.save);
    remark(ui, &places, &args.path, &metadata, &vault.list().await?);
    let words = format!("Added {}.\n{}", args.path, narrowed.unwrap_or_default());
    let locations = metadata.egress.as_ref().map(|rule| rule.locations);
    let data = with_check(json!({ "path": args.path, "locations": locations }), checked);
    ui.answer("secret add", &data, &words);
    Ok(())
}

/// Takes the places in requests from the catalog, where it knows without doubt whose token this is and nothing else says
/// where the value goes; what is told of that.
fn narrow(
    places: &Places,
    vault: &Vault,
    path: &SecretPath,
    metadata: &mut Metadata,
    value: Option<&[u8]>,
) -> Result<Option<String>, Error> {
    // What says a place needs no catalog read.
    let Some(rule) = metadata.egress.as_mut().filter(|rule| rule.says_no_place()) else {
        return Ok(None);
    };
    let voucher = vault.agreement_voucher();
    let providers = keyless_daemon::project_providers(places, &here(), AgreedBy::Vault(&voucher))?;
    let Some(services) = keyless_daemon::narrow(&providers, path, rule, value) else {
        return Ok(None);
    };
    let found = plain(&json!(rule.locations));
    Ok(Some(format!(
        "Its value goes into {found} of a request alone, as a token for {} does; keyless secret set {path} --locations says \
         otherwise.\n",
        services.join(" or ")
    )))
}

/// Takes in a value that stood in a file. What is known of it is as the catalog has it.
pub(super) async fn adopt(
    ui: &Ui,
    factor: &FactorArgs,
    path: &SecretPath,
    pattern: Option<&str>,
    value: Zeroizing<Vec<u8>>,
) -> Result<(), Error> {
    let metadata = Metadata { source: SourceConfig::Local, ..Metadata::default() };
    completed(ui, metadata.clone(), &[], pattern, None)?;
    let (_, vault) = unlock_vault(factor).await?;
    let metadata = completed(ui, metadata, &[], pattern, Some(&vault))?;
    let operator = operator(vault, false);
    match operator.holds(path, &value).await? {
        Some(true) => {
            ui.warn(format!("{path} holds this value already; nothing is taken in"));
            return Ok(());
        }
        Some(false) => return Err(Code::SecretExists.into()),
        None => {}
    }
    if metadata.egress.is_none() {
        ui.warn(format!(
            "the secret names no destination yet: keyless secret set {path} --to HOST"
        ));
    }
    operator.provide(path, metadata, value).await
}

/// What was not said is as the catalog has it, where a pattern was named. `locations` were said. Without a vault, which has
/// the word on what of the catalog was agreed to, it says no more than whether the pattern is known, or may be yet.
fn completed(
    ui: &Ui,
    metadata: Metadata,
    locations: &[Location],
    pattern: Option<&str>,
    vault: Option<&Vault>,
) -> Result<Metadata, Error> {
    let Some(pattern) = pattern else { return Ok(metadata) };
    let (places, voucher) = (Places::from_environment()?, vault.map(Vault::agreement_voucher));
    let providers = keyless_daemon::project_providers(
        &places,
        &here(),
        voucher.as_ref().map_or(AgreedBy::File, AgreedBy::Vault),
    )?;
    if vault.is_some() {
        warn_of_faults(ui, &providers);
    } else if !providers.unagreed.is_empty() {
        return Ok(metadata);
    }
    if let Some((_, variant)) = providers.variant(pattern) {
        let mut metadata = variant.complete(metadata);
        if let Some(rule) = metadata.egress.as_mut().filter(|_| !locations.is_empty()) {
            rule.locations = locations.iter().copied().collect();
        }
        return Ok(metadata);
    }
    let words = SafeText::words("the catalog has no pattern ").as_they_wrote(pattern);
    Err(Error::with(Code::Usage, words.and("; see keyless catalog list")))
}

/// The vault, unlocked, with this secret in it. That it has none is said before anybody is asked for a factor or a value.
async fn unlock_with(path: &SecretPath, factor: &FactorArgs) -> Result<(Places, Vault), Error> {
    let (places, store) = open_store().await?;
    keyless_daemon::show_secret(&store, path).await?;
    unlock_opened(places, store, factor).await
}

/// The vault, unlocked, without such a secret; that there is one is said as early.
async fn unlock_without(path: &SecretPath, factor: &FactorArgs) -> Result<(Places, Vault), Error> {
    let (places, store) = open_store().await?;
    match keyless_daemon::show_secret(&store, path).await {
        Ok(_) => Err(Error::with(Code::SecretExists, SafeText::default().and(path))),
        Err(error) if error.code() == Code::SecretNotFound => {
            unlock_opened(places, store, factor).await
        }
        Err(error) => Err(error),
    }
}

fn operator(vault: impl Into<Arc<Vault>>, allow_weak: bool) -> Operator {
    let operator = Operator::new(vault);
    if allow_weak { operator.allowing_weak_values() } else { operator }
}

fn when(save: SaveArgs) -> CheckWhen {
    if save.check { CheckWhen::Always } else { CheckWhen::AsConfigured }
}

/// Whether another value may be taken.
fn is_wrong_value(code: Code) -> bool {
    matches!(code, Code::ValueRefused | Code::ValueWeak)
}

/// What values look like, for the person who gives one.
fn forms(places: &Places, vault: &Vault) -> Providers {
    let voucher = vault.agreement_voucher();
    let known = keyless_daemon::project_providers(places, &here(), AgreedBy::Vault(&voucher));
    // A catalog that can't be used is a matter of `keyless catalog`; the value can be given all the same.
    known.unwrap_or_else(|_| Providers::bundled())
}

/// The error about a value's looks, with what it should look like where that is known.
fn with_form(error: Error, unlike: Option<&SafeText>) -> Error {
    match unlike {
        Some(words) if error.code() == Code::ValueWeak => Error::with(error.code(), words.clone()),
        _ => error,
    }
}

/// Its path names a service, and not what of that it is: the operator knows.
fn warn_of_misfit(ui: &Ui, unlike: Option<SafeText>) {
    if let Some(words) = unlike {
        ui.warn(format!("the value was saved, though {}", words.as_str()));
    }
}

/// An answer with what came of the check, where there was one.
fn with_check(mut data: Value, checked: Option<Checked>) -> Value {
    if let Some(checked) = checked {
        data["check"] = json!(checked);
    }
    data
}

/// A value whose service said neither yes nor no was saved all the same. That nobody can be asked is told to who wanted it.
fn warn_of_check(ui: &Ui, path: &SecretPath, checked: Option<&Checked>, save: SaveArgs) {
    let Some(checked) = checked else { return };
    let is_told = match checked.verdict {
        LivenessVerdict::Unclear | LivenessVerdict::Unreachable => true,
        LivenessVerdict::Unsupported => save.check,
        LivenessVerdict::Rejected | LivenessVerdict::Valid => false,
    };
    if is_told {
        ui.warn(format!(
            "the value was saved and not checked ({}): {} keyless secret check {path} asks again",
            checked.verdict.as_str(),
            checked.sentence(path)
        ));
    }
}

fn warn_of_short(ui: &Ui, is_short: bool) {
    if is_short {
        ui.warn("a value of under 4 bytes is not looked for in what actions give back: it would be found in every text");
    }
}

async fn rotate(ui: &Ui, args: RotateArgs) -> Result<(), Error> {
    let (places, vault) = unlock_with(&args.path, &args.factor).await?;
    let vault = Arc::new(vault);
    let known = vault.show(&args.path).await?;
    let kept_at = vault.kept_at(&known);
    let operator = operator(Arc::clone(&vault), args.value.allow_weak);
    let operator = operator.checking(&places, when(args.save));
    let (mut tries, forms) = (prompt::Tries::of(args.value.is_typed()), forms(&places, &vault));
    let (Rotated { version, is_looked_for }, unlike) = loop {
        let value = prompt::value(ui, &args.value)?;
        let unlike = misfit(&forms, &args.path, &known.metadata, &value);
        let unlike = unlike.filter(|_| !args.value.allow_weak);
        let rotating = Box::pin(operator.rotate(&args.path, value));
        match ui.wait("Saving", rotating).await.map_err(|error| with_form(error, unlike.as_ref())) {
            Err(error) if tries.again(&error, is_wrong_value) => {}
            rotated => break rotated.map(|rotated| (rotated, unlike))?,
        }
    };
    let has_date = |secret: &Secret| secret.metadata.upkeep.expires_at.is_some();
    if has_date(&known) && !has_date(&vault.show(&args.path).await?) {
        ui.warn("the old value's date is forgotten; keyless secret set --expires DATE gives the new one's");
    }
    warn_of_short(ui, !is_looked_for);
    warn_of_misfit(ui, unlike);
    // What a source keeps has its versions there, if any.
    let version = Some(version).filter(|version| *version > 0);
    let what = match (version, &kept_at) {
        (Some(new), _) => format!("is at version {new}"),
        (None, None) => "has a new value at its source".to_owned(),
        (None, Some(at)) => format!("has a new value at its source, {}", place(at)),
    };
    let checked = operator.take_check();
    warn_of_check(ui, &args.path, checked.as_ref(), args.save);
    let data = json!({ "path": args.path, "version": version, "kept_at": kept_at });
    let data = with_check(data, checked);
    let words = format!("{} {what}; running sessions take it up within seconds.\n", args.path);
    ui.answer("secret rotate", &data, &words);
    Ok(())
}

async fn remove(ui: &Ui, args: RemoveArgs) -> Result<(), Error> {
    let (_, vault) = unlock_with(&args.path, &args.factor).await?;
    if !args.yes
        && !prompt::confirm(&format!(
            "Remove {}? It can be restored until it is purged.",
            args.path
        ))?
    {
        ui.line("Nothing was removed.");
        return Ok(());
    }
    Operator::new(vault).remove(&args.path).await?;
    ui.answer("secret remove", &json!({ "path": args.path }), &format!("Removed {}.\n", args.path));
    Ok(())
}

async fn list(ui: &Ui) -> Result<(), Error> {
    let (places, store) = open_store().await?;
    let secrets = keyless_daemon::list_secrets(&store).await?;
    let asked = Asked::here(ui, &places, &secrets).await?;
    let secrets = secrets.into_iter().map(|secret| asked.row(secret));
    let secrets: Vec<SecretRow> = secrets.collect();
    let data: Vec<Value> = secrets.iter().map(describe).collect();
    let rows: Vec<Vec<String>> = secrets.iter().map(row).collect();
    let words = if rows.is_empty() {
        "No secrets yet. Next: keyless secret add PATH --to HOST --env NAME\n".to_owned()
    } else {
        table(&["PATH", "VARIABLE", "GOES TO", "SOURCE", "VERSION", "STATE"], &rows)
    };
    ui.answer("secret list", &json!({ "secrets": data }), &words);
    Ok(())
}

async fn show(ui: &Ui, path: &SecretPath) -> Result<(), Error> {
    let (places, store) = open_store().await?;
    let secret = keyless_daemon::show_secret(&store, path).await?;
    let asked = Asked::here(ui, &places, slice::from_ref(&secret)).await?;
    // What is known of the secret is shown though a file is wrong that says where it is kept.
    let kept_at = keyless_daemon::kept_at(&places, &secret).unwrap_or_else(|error| {
        ui.warn(format!("where it is kept is not shown: {}", error.message()));
        None
    });
    let mut data = describe(&asked.row(secret));
    data["kept_at"] = json!(kept_at);
    ui.answer("secret show", &data, &fields(&data));
    Ok(())
}

/// How often a person is asked about secrets in this folder: by the profile, and by the project around it.
struct Asked {
    floor: ApproveOnUse,
    in_project: BTreeMap<SecretPath, ApproveOnUse>,
}

impl Asked {
    async fn here(ui: &Ui, places: &Places, secrets: &[Secret]) -> Result<Self, Error> {
        let floor = keyless_daemon::asked_at_least(places)?;
        let folder = env::current_dir().unwrap_or_default();
        let in_project = keyless_daemon::asked_in_project(places, secrets, &folder).await;
        let in_project = in_project.unwrap_or_else(|error| {
            ui.warn(format!("what this project asks for is not shown: {}", error.message()));
            BTreeMap::new()
        });
        Ok(Self { floor, in_project })
    }

    fn row(&self, secret: Secret) -> SecretRow {
        let projects = self.in_project.get(&secret.path).copied().unwrap_or_default();
        SecretRow::today(secret, self.floor.tightened_by(projects))
    }
}

fn describe(SecretRow { secret, state, asks, .. }: &SecretRow) -> Value {
    // Each by its name, so that nothing new can be set and not be seen.
    let Metadata {
        egress,
        env,
        env_form,
        source,
        placeholder,
        description,
        approve_on_use: _,
        unsafe_expose,
        honeypot,
        compromised,
        upkeep,
        retention,
        // It is told by the number of the next version.
        purged_through: _,
    } = &secret.metadata;
    let rule = egress.as_ref();
    json!({
        "path": secret.path,
        "env": env,
        "env_form": env_form,
        "to": rule.map(|rule| &rule.to),
        "locations": rule.map(|rule| rule.locations),
        "max_occurrences": rule.and_then(|rule| rule.max_occurrences),
        "on_foreign": rule.map(|rule| rule.on_foreign),
        "allow": rule.map(|rule| &rule.allow).filter(|rules| !rules.is_empty()),
        "ask": rule.map(|rule| &rule.ask).filter(|rules| !rules.is_empty()),
        "otherwise": rule.filter(|rule| rule.has_request_rules()).map(|rule| rule.otherwise),
        "inject": rule.and_then(|rule| rule.inject.as_ref()),
        "sign": rule.and_then(|rule| rule.sign.as_ref()),
        "oauth": rule.and_then(|rule| rule.oauth.as_ref()),
        "seal": rule.map(|rule| &rule.seal).filter(|lines| !lines.is_empty()),
        "placeholder": placeholder.to_string(),
        "unsafe_expose": unsafe_expose.then_some(true),
        "source": source_word(source),
        "version": secret.version,
        "retention": retention,
        "state": state.as_str(),
        "description": description,
        "approve_on_use": asks,
        "upkeep": upkeep,
        "honeypot": honeypot.then_some(true),
        "compromised": secret.is_compromised().then_some(compromised),
    })
}

fn row(SecretRow { secret, state, .. }: &SecretRow) -> Vec<String> {
    let to = secret.metadata.egress.as_ref().map_or_else(String::new, |rule| {
        rule.to.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
    });
    vec![
        secret.path.to_string(),
        secret.metadata.env.as_ref().map(ToString::to_string).unwrap_or_default(),
        to,
        source_word(&secret.metadata.source),
        secret.version.map(|version| version.to_string()).unwrap_or_default(),
        stand(secret, state.as_str()),
    ]
}

/// Its state, and what sets it apart from others.
fn stand(secret: &Secret, state: &str) -> String {
    let honeypot = secret.metadata.honeypot.then_some("honeypot");
    let exposed = secret.metadata.unsafe_expose.then_some("exposed");
    [Some(state), honeypot, exposed].into_iter().flatten().collect::<Vec<_>>().join(", ")
}

/// A place at a source, for people.
pub(super) fn place(at: &KeptAt) -> String {
    visible(&at.in_words())
}

/// A source as it is written on the command line.
pub(super) fn source_word(source: &SourceConfig) -> String {
    match source {
        SourceConfig::Env { variable } => format!("env:{variable}"),
        SourceConfig::File { path } => format!("file:{}", path.display()),
        SourceConfig::Local => "local".to_owned(),
        SourceConfig::Routed { source: None, .. } => "routed".to_owned(),
        SourceConfig::Routed { source: Some(source), reference } => match reference {
            None => format!("source:{source}"),
            Some(reference) => format!("source:{source}:{reference}"),
        },
    }
}
