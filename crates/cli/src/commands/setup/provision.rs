//! The values: out of the project's `.env` files, then from the person, one by one. Never asked without a terminal.

use std::{
    collections::{BTreeMap, BTreeSet},
    io::{self, IsTerminal as _},
    path::{Path, PathBuf},
};

use keyless_core::{Code, Destination, EgressRule, Error, SecretPath};
use keyless_daemon::{
    AgreedBy, Operator, ci, counted, doubt_of_hosts, manifest_of, places_at, places_in_words,
    read_destinations,
    setup::{
        Import, ImportRow, Judged, Login, Outcome, Proposal, Proposer, Scan, Wish, signer_of,
        uncarried, values_elsewhere,
    },
    vault::{Inventory, Manifest, Metadata, Providers, Row},
};
use serde_json::json;
use zeroize::Zeroizing;

use super::{
    super::{
        pack::looks_secret,
        secret::{import, warn_of_hosts},
        unlock_vault,
    },
    Came, Setup, Written, few,
};
use crate::{prompt, ui::Ui};

/// A value that is not there.
struct Missing {
    path: SecretPath,
    /// The variable in which it is looked for.
    variable: Option<String>,
    /// Of `keyless secret`.
    verb: &'static str,
    /// The project says that it can do without.
    is_optional: bool,
}

/// What became of the files' values so far.
#[derive(Default)]
struct Taking {
    imported: usize,
    /// The project's.
    root: PathBuf,
    /// How many stay in their files since the person wants it so.
    declined: usize,
    /// Which path each variable has, by the project's word.
    declared: BTreeMap<String, SecretPath>,
    /// The paths that hold a value of this project's files.
    kept: BTreeSet<SecretPath>,
    /// What stays in its file although nobody wanted that, in words.
    left: Vec<String>,
    /// Whether the project's sessions get another value than a file of it has.
    is_another_value_used: bool,
}

pub(super) async fn run(setup: &Setup<'_>, found: &Scan, manifest: Written) -> Result<Came, Error> {
    if ci::is_on() {
        return Ok(Came::skipped("values come from the environment"));
    }
    let opened = keyless_daemon::open_store(&setup.places).await;
    if opened.is_err_and(|error| error.code() == Code::NotInitialised) {
        if found.held_in.is_empty() && manifest_of(&setup.root)?.is_none() {
            return Ok(Came::skipped("there is nothing to take in"));
        }
        let summary = "no value is taken in, as there is no store";
        return Ok(Came::failed(summary.to_owned(), json!({})));
    }
    let missing = missing(setup).await?;
    let elsewhere = is_any_elsewhere_stored(setup, found).await?;
    if missing.is_empty() && found.held_in.is_empty() && !elsewhere {
        if is_undeclared(setup, found)? {
            return Ok(Came::declined(UNDECLARED.to_owned(), json!({})));
        }
        return Ok(Came::done(
            "every value is there".to_owned(),
            json!({ "imported": 0, "missing": [] }),
        ));
    }
    if prompt::factor_file(&setup.args.factor).is_none() {
        let files = found.held_in.iter().chain(found.elsewhere.keys());
        let files = files.map(|file| shown(setup, file)).collect();
        let why = if found.held_in.is_empty() && !elsewhere {
            "to keep the values that are missing".to_owned()
        } else {
            format!("to compare it with the values in {}", few(&files))
        };
        let asks = if setup.args.yes { "" } else { "; nothing is put into it unasked" };
        setup.ui.aside(&format!("The store is opened {why}{asks}."));
    }
    let (_, vault) = unlock_vault(&setup.args.factor).await?;
    // Read anew: where tokens go is by the vault's word on what was agreed to, and that may have been just now.
    let voucher = vault.agreement_voucher();
    let known =
        keyless_daemon::project_providers(&setup.places, &setup.root, AgreedBy::Vault(&voucher))?;
    let looks = looks_secret();
    let proposer = &setup.proposer(&known, &looks);
    let operator = Operator::new(vault);
    let store = keyless_daemon::open_store(&setup.places).await?;
    let declared = keyless_daemon::declared_variables(&setup.places, &store, &setup.root).await?;
    let root = setup.root.clone();
    let mut taking = Taking { root, declared, ..Taking::default() };
    for file in &found.held_in {
        from_file(setup, file, &operator, proposer, manifest, &mut taking).await?;
    }
    for file in found.elsewhere.keys() {
        compare_elsewhere(setup, file, &operator, proposer, manifest, &mut taking).await?;
    }
    let mut missing = self::missing(setup).await?;
    if !setup.args.yes && io::stdin().is_terminal() {
        hosts_from_person(setup, found, &operator, &known).await?;
        missing = from_person(setup, missing, &operator, proposer, &known).await?;
    }
    for left in &taking.left {
        setup.ui.warn(left);
    }
    Ok(taking.came(&missing, found, is_undeclared(setup, found)?))
}

/// What is said where somebody wanted no manifest.
const UNDECLARED: &str = "without a manifest nothing says which values are missing";

/// Whether the project has secrets and declares nothing.
fn is_undeclared(setup: &Setup<'_>, found: &Scan) -> Result<bool, Error> {
    Ok(found.secrets() > 0 && manifest_of(&setup.root)?.is_none())
}

/// The files from which nothing is taken that have a variable's value.
fn where_it_stands(variable: Option<&str>, found: &Scan, root: &Path) -> String {
    let holds = |names: &BTreeSet<String>| variable.is_some_and(|name| names.contains(name));
    let files = found.elsewhere.iter().filter(|(_, names)| holds(names));
    let files: BTreeSet<String> = files
        .map(|(file, _)| file.strip_prefix(root).unwrap_or(file).display().to_string())
        .collect();
    if files.is_empty() {
        return String::new();
    }
    format!("; a value for it stands in {}, from which none is taken", few(&files))
}

impl Taking {
    /// What it comes to, with what is `missing` still.
    fn came(self, missing: &[Missing], found: &Scan, is_undeclared: bool) -> Came {
        let imported = self.imported;
        let data = json!({ "imported": imported, "left": self.left, "missing": missing.iter().map(|one| &one.path).collect::<Vec<_>>() });
        let told = |one: &Missing, kind: &str, count: usize| {
            let values = counted(count, &format!("{kind}value"));
            let are = if count == 1 { "is" } else { "are" };
            let place = where_it_stands(one.variable.as_deref(), found, &self.root);
            format!("{values} {are} missing: keyless secret {} {}{place}", one.verb, one.path)
        };
        let (optional, needed): (Vec<_>, Vec<_>) = missing.iter().partition(|one| one.is_optional);
        match (needed.first(), optional.first()) {
            (Some(first), _) => Came::failed(told(first, "", needed.len()), data),
            (None, _) if !self.left.is_empty() => {
                let values = counted(self.left.len(), "value");
                let stay =
                    if self.left.len() == 1 { "stays in its file" } else { "stay in their files" };
                let words = format!("{} taken in; {values} {stay}", counted(imported, "value"));
                if self.is_another_value_used {
                    Came::failed(words, data)
                } else {
                    Came::done(words, data)
                }
            }
            (None, None) if self.declined > 0 => {
                let stay =
                    if self.declined == 1 { "stays in its file" } else { "stay in their files" };
                let values = counted(self.declined, "value");
                let words = format!(
                    "{} taken in; {values} {stay}, as you said",
                    counted(imported, "value")
                );
                if imported == 0 { Came::declined(words, data) } else { Came::done(words, data) }
            }
            (None, None) if is_undeclared => {
                let words = format!("{} taken in; {UNDECLARED}", counted(imported, "value"));
                Came::declined(words, data)
            }
            (None, Some(first)) => {
                let missing = told(first, "optional ", optional.len());
                Came::done(format!("{} taken in; {missing}", counted(imported, "value")), data)
            }
            (None, None) => Came::done(
                format!("{} taken in; every value is there", counted(imported, "value")),
                data,
            ),
        }
    }
}

/// What the project declares and nobody has the value of.
async fn missing(setup: &Setup<'_>) -> Result<Vec<Missing>, Error> {
    let store = keyless_daemon::open_store(&setup.places).await?;
    let inventory: Inventory =
        keyless_daemon::project_inventory(&setup.places, &store, &setup.root).await?;
    let rows = inventory.rows.into_iter().filter(|(_, row)| !row.has_value());
    let project = Manifest::project_of(&setup.root);
    let manifest = project.map(|project| Manifest::load(&project)).transpose()?;
    let optional = manifest.map(|manifest| manifest.optional).unwrap_or_default();
    let missing = |(path, row): (SecretPath, Row)| Missing {
        variable: row.env.map(|name| name.to_string()),
        verb: row.stored.verb(),
        is_optional: optional.contains(&path),
        path,
    };
    Ok(rows.map(missing).collect())
}

/// Takes a file's values in as `secret import` does. Where another project's value has the path, one of this project's
/// own is taken, and declared.
async fn from_file(
    setup: &Setup<'_>,
    file: &Path,
    operator: &Operator,
    proposer: &Proposer<'_>,
    manifest: Written,
    taking: &mut Taking,
) -> Result<(), Error> {
    let wish = Wish { declared: taking.declared.clone(), ..Wish::default() };
    let mut read = Import::of_file(file, &wish, proposer)?;
    read.compare(operator, proposer).await?;
    let may_move = |path: &SecretPath| manifest == Written::BySetup && !taking.kept.contains(path);
    let moved = read.move_aside(may_move);
    read.compare(operator, proposer).await?;
    for (variable, before, path) in &moved {
        setup.ui.warn(format!("{variable} goes to {path}: {before} holds another value"));
    }
    taking.left.extend(read.composed().map(|one| import::composed_in_words(&one, Some(file))));
    for row in read.rows().filter(|row| row.outcome == Outcome::Taken) {
        let Some(proposal) = &row.proposal else { continue };
        let is_ours = taking.kept.contains(&proposal.path);
        taking.is_another_value_used |= !is_ours;
        taking.left.push(stays(row, proposal, file, is_ours));
    }
    let leave = import::leave(&read, setup.args.leave, setup.args.also_uncarried)?;
    if leave.is_some() {
        import::warn_of_overruled(setup.ui, &read, file);
    }
    import::warn_of_uncarried(setup.ui, &read, leave);
    if !import::is_anything_to_do(&read, leave) {
        return taking.note_kept(setup, &read, &moved);
    }
    if !setup.args.yes {
        setup.ui.line(&format!("{}:", file.display()));
        setup.ui.line(import::words(&read).trim_end());
        if !prompt::confirm(&import::question(&read, file, leave))? {
            taking.declined += read.count(&Outcome::New) + read.count(&Outcome::Present);
            // The path that was proposed is another's all the same.
            return taking.note_moved(setup, &moved);
        }
    }
    read.keep(operator, proposer).await;
    taking.note_kept(setup, &read, &moved)?;
    if let Some(leave) = leave {
        read.leave(leave)?;
    }
    for row in read.rows() {
        if let Outcome::Refused(why) = &row.outcome {
            taking.left.push(format!("{} stays in {}: {why}", row.variable, file.display()));
        }
    }
    taking.imported += read.count(&Outcome::Imported);
    Ok(())
}

fn shown(setup: &Setup<'_>, file: &Path) -> String {
    file.strip_prefix(&setup.root).unwrap_or(file).display().to_string()
}

/// Whether the store has a value of what the project declares for a variable that also has one in a file of it from which
/// nothing is taken.
async fn is_any_elsewhere_stored(setup: &Setup<'_>, found: &Scan) -> Result<bool, Error> {
    if found.elsewhere.is_empty() {
        return Ok(false);
    }
    let store = keyless_daemon::open_store(&setup.places).await?;
    let inventory = keyless_daemon::project_inventory(&setup.places, &store, &setup.root).await?;
    let is_there = |row: &Row| {
        let name = row.env.as_ref().map_or("", |name| name.as_str());
        row.has_value() && found.elsewhere.values().any(|names| names.contains(name))
    };
    Ok(inventory.rows.values().any(is_there))
}

/// Compares a file's values with what the project's sessions would get, as [`from_file`] does, and takes none of them in.
async fn compare_elsewhere(
    setup: &Setup<'_>,
    file: &Path,
    operator: &Operator,
    proposer: &Proposer<'_>,
    manifest: Written,
    taking: &mut Taking,
) -> Result<(), Error> {
    let wish = Wish { declared: taking.declared.clone(), ..Wish::default() };
    let values = values_elsewhere(file, proposer).into_iter();
    let values = values.filter(|(name, _)| taking.declared.contains_key(name));
    let values = values.map(|(name, mut value)| (name, std::mem::take(&mut *value)));
    let mut read = Import::of_variables(values, &wish, proposer);
    read.compare(operator, proposer).await?;
    let file = shown(setup, file);
    let may_move = |path: &SecretPath| manifest == Written::BySetup && !taking.kept.contains(path);
    let moved = read.move_aside(may_move);
    for (variable, before, path) in &moved {
        setup.ui.warn(format!(
            "{variable} goes to {path}: {before} holds another value than {file}, from which nothing is taken"
        ));
    }
    taking.note_moved(setup, &moved)?;
    for row in read.rows() {
        let Some(Proposal { path, .. }) = &row.proposal else { continue };
        match row.outcome {
            Outcome::Present => {
                taking.kept.insert(path.clone());
            }
            Outcome::Taken => {
                taking.is_another_value_used = true;
                let own = row.instead.as_ref().map_or("PATH", SecretPath::as_str);
                taking.left.push(format!(
                    "{} stays in {file}: {path} holds another value, which keyless run uses. Next: declare {own} in \
                     .keyless/secrets.toml in its place and keyless secret add {own}, or keyless secret rotate {path} \
                     where this is its new one",
                    row.variable
                ));
            }
            _ => {}
        }
    }
    Ok(())
}

impl Taking {
    /// Declares the paths that were `moved` though nothing was put there.
    fn note_moved(
        &mut self,
        setup: &Setup<'_>,
        moved: &[(String, SecretPath, SecretPath)],
    ) -> Result<(), Error> {
        for (variable, before, path) in moved {
            keyless_daemon::declare_instead(&setup.root, before, path)?;
            self.declared.insert(variable.clone(), path.clone());
        }
        Ok(())
    }

    /// Notes where the values of a file are now, and declares the paths that were `moved`: before the file changes.
    fn note_kept(
        &mut self,
        setup: &Setup<'_>,
        read: &Import,
        moved: &[(String, SecretPath, SecretPath)],
    ) -> Result<(), Error> {
        let is_kept =
            |row: &&ImportRow| matches!(row.outcome, Outcome::Imported | Outcome::Present);
        for row in read.rows().filter(is_kept) {
            let Some(proposal) = &row.proposal else { continue };
            self.kept.insert(proposal.path.clone());
            if let Some((_, before, path)) = moved.iter().find(|(name, ..)| *name == row.variable) {
                keyless_daemon::declare_instead(&setup.root, before, path)?;
                self.declared.insert(row.variable.clone(), path.clone());
            }
        }
        Ok(())
    }
}

/// Why a value is not taken in though its file has it, and what to do.
fn stays(row: &ImportRow, proposal: &Proposal, file: &Path, is_ours: bool) -> String {
    let (variable, path, file) = (&row.variable, &proposal.path, file.display());
    if is_ours {
        return format!(
            "{variable} stays in {file}: {path} has the value of another file of this project"
        );
    }
    let instead = row.instead.as_ref().map_or("PATH", SecretPath::as_str);
    format!(
        "{variable} stays in {file}: {path} holds another value. Next: keyless secret import {file} --as \
         {variable}={instead}, or keyless secret rotate {path} where this is its new one"
    )
}

/// Asks for each value that is missing; gives those that stay so.
async fn from_person(
    setup: &Setup<'_>,
    missing: Vec<Missing>,
    operator: &Operator,
    proposer: &Proposer<'_>,
    known: &Providers,
) -> Result<Vec<Missing>, Error> {
    let store = keyless_daemon::open_store(&setup.places).await?;
    let stored = keyless_daemon::list_secrets(&store).await?;
    let mut still = Vec::new();
    for one in missing {
        let own = stored.iter().find(|secret| secret.path == one.path);
        let aim = Aim::of(setup.ui, &one, own.map(|secret| &secret.metadata), proposer, known)?;
        if !given_by_person(&one, &aim, operator, proposer, known).await? {
            still.push(one);
        }
    }
    Ok(still)
}

/// Where a value may go that is about to be typed.
struct Aim {
    /// Told before it is.
    words: String,
    /// Hosts that the person has named for it, where nobody else does.
    named: Vec<Destination>,
}

impl Aim {
    /// By the secret's own rule, which counts where it has one, or the catalog's word on the variable; else the person is asked.
    fn of(
        ui: &Ui,
        one: &Missing,
        own: Option<&Metadata>,
        proposer: &Proposer<'_>,
        known: &Providers,
    ) -> Result<Self, Error> {
        let path = &one.path;
        let by_secret = own.and_then(|own| own.egress.clone()).map(|rule| (rule, "the secret"));
        let by_catalog = || Some((one.by_catalog(proposer, &[]).egress?, "the catalog"));
        if let Some((rule, whose)) = by_secret.or_else(by_catalog) {
            let hosts = listed(&rule.to);
            let places = places_in_words(&rule);
            let words = format!("{path} may go to {hosts}, into {places}, as {whose} says.");
            return Ok(Self { words, named: Vec::new() });
        }
        if let Some(why) = one.variable.as_deref().and_then(|name| uncarried(name, None)) {
            let words =
                format!("{path} may go to no host: {why}. keyless exec gives it to one command.");
            return Ok(Self { words, named: Vec::new() });
        }
        let named = hosts_of(ui, &one.question(), known)?;
        let words = if named.is_empty() {
            format!("{path} may go to no host yet: keyless secret set {path} --to HOST.")
        } else {
            let places = places_at(known, path, &named);
            format!("{path} may go to {}, into {places}.", listed(&named))
        };
        Ok(Self { words, named })
    }

    /// What is known of the secret with that value.
    fn metadata(
        &self,
        one: &Missing,
        value: &[u8],
        proposer: &Proposer<'_>,
        known: &Providers,
    ) -> Metadata {
        let mut metadata = one.by_catalog(proposer, value);
        if !self.named.is_empty() {
            let mut rule = EgressRule::to(self.named.clone());
            keyless_daemon::narrow(known, &one.path, &mut rule, Some(value));
            metadata.egress = Some(rule);
        }
        metadata
    }
}

impl Missing {
    /// What the catalog says of its variable and of a value.
    fn by_catalog(&self, proposer: &Proposer<'_>, value: &[u8]) -> Metadata {
        match proposer.judge_name(self.variable.as_deref().unwrap_or_default()) {
            Judged::Secret(proposal) => proposer.metadata(&proposal, value),
            Judged::Skip(_) => Metadata::default(),
        }
    }

    fn question(&self) -> String {
        hosts_question(&self.path, self.variable.as_deref().unwrap_or_default())
    }
}

fn hosts_question(path: &SecretPath, variable: &str) -> String {
    format!("{path} {variable}: hosts that may receive it (empty: none yet): ")
}

fn listed(hosts: &[Destination]) -> String {
    hosts.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

/// Asks where the project's secrets may go that name no host: no session of `keyless run` has one of those.
async fn hosts_from_person(
    setup: &Setup<'_>,
    found: &Scan,
    operator: &Operator,
    known: &Providers,
) -> Result<(), Error> {
    let store = keyless_daemon::open_store(&setup.places).await?;
    let declared = keyless_daemon::project_inventory(&setup.places, &store, &setup.root).await?;
    let all = keyless_daemon::list_secrets(&store).await?;
    for secret in &all {
        let is_declared = declared.rows.get(&secret.path).is_some_and(Row::has_value);
        if !is_declared || secret.metadata.egress.is_some() {
            continue;
        }
        let name = secret.metadata.env.as_ref().map(ToString::to_string).unwrap_or_default();
        let is_found_so = found.uncarried.values().any(|names| names.contains(&name));
        if is_found_so || uncarried(&name, None).is_some() {
            continue;
        }
        let to = hosts_of(setup.ui, &hosts_question(&secret.path, &name), known)?;
        if !to.is_empty() {
            let mut rule = EgressRule::to(to);
            keyless_daemon::narrow(known, &secret.path, &mut rule, None);
            rule.sign = signer_of(&secret.path, &secret.metadata, &all).filter(|signer| {
                all.iter().any(|one| signer.companion().is_some_and(|path| *path == one.path))
            });
            if let Some(signer) = &rule.sign {
                setup.ui.line(&format!("{} is never sent, it signs: --sign {signer}", secret.path));
            }
            let metadata = Metadata { egress: Some(rule), ..secret.metadata.clone() };
            operator.set(&secret.path, &secret.metadata, metadata).await?;
        }
    }
    Ok(())
}

/// Hosts as the person types them, asked for again where one is none.
fn hosts_of(ui: &Ui, question: &str, known: &Providers) -> Result<Vec<Destination>, Error> {
    loop {
        let typed = prompt::line(question)?;
        match read_destinations(typed.trim()) {
            Ok(hosts) => {
                // A `y` or a slip, rather than a machine of the own network.
                let Some(doubt) = doubt_of_hosts(&typed, known) else {
                    warn_of_hosts(ui, &hosts);
                    return Ok(hosts);
                };
                let next = "give a whole name such as api.example.com, or nothing; NAME:443 means a machine of your own \
                            network";
                Ui::fault(&format!("{doubt}."), Some(next));
            }
            Err(error) => {
                Ui::fault(&error.message(), Some("give names such as api.example.com, or nothing"));
            }
        }
    }
}

/// Whether one of the hosts of `rule` is one of the other's, at whatever port.
fn shares_host(rule: &EgressRule, other: &EgressRule) -> bool {
    let hosts = |rule: &EgressRule| -> Vec<_> {
        rule.to.iter().filter_map(|to| to.authority().map(|one| one.host.clone())).collect()
    };
    let theirs = hosts(other);
    hosts(rule).iter().any(|host| theirs.contains(host))
}

/// Asks for one value, again where what was typed is refused; `false` when the person skips it.
async fn given_by_person(
    one: &Missing,
    aim: &Aim,
    operator: &Operator,
    proposer: &Proposer<'_>,
    known: &Providers,
) -> Result<bool, Error> {
    let Missing { path, variable, verb, .. } = one;
    let name = variable.as_deref().unwrap_or_default();
    loop {
        let Some(value) = prompt::value_of(path, name, &aim.words)? else { return Ok(false) };
        let mut metadata = aim.metadata(one, &value, proposer, known);
        let login = str::from_utf8(&value).ok().and_then(Login::read);
        let value = match login {
            Some(login) => {
                // At the address's own port, where its host is the one that was named.
                let is_its_host = |rule: &EgressRule| shares_host(rule, &login.rule);
                if metadata.egress.as_ref().is_none_or(is_its_host) {
                    metadata.egress = Some(login.rule);
                }
                metadata.env_form = Some(login.form);
                Zeroizing::new(login.password.as_bytes().to_vec())
            }
            None => value,
        };
        let next = match operator.provide(path, metadata, value).await {
            Err(error) if error.code() == Code::ValueRefused => {
                (error, "give another one, or skip it".to_owned())
            }
            Err(error) if error.code() == Code::ValueWeak => {
                let skip =
                    format!("skip it: keyless secret {verb} {path} --allow-weak takes it as it is");
                (error, format!("give another one, or {skip}"))
            }
            added => return added.map(|()| true),
        };
        Ui::fault(&next.0.message(), Some(&next.1));
    }
}
