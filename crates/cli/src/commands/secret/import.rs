//! `keyless secret import`: values out of a file or the environment, into the vault.

use std::{
    borrow::Cow,
    collections::{BTreeMap, BTreeSet},
    env,
    ffi::OsString,
    fmt::Write as _,
    path::{Path, PathBuf},
    process::ExitCode,
};

use keyless_core::{Code, Error, Exit, SafeText, SecretPath};
use keyless_daemon::{
    AgreedBy, Operator, Places, counted,
    setup::{
        Composed, Going, Import, ImportRow, Leave, Leaving, Outcome, Overruled, Proposer, Wish,
    },
    vault::{Manifest, Providers},
};
use serde_json::{Value, json};

use super::super::{
    catalog::{here, warn_of_faults},
    pack::looks_secret,
    unlock_vault,
};
use crate::{
    args::{ImportArgs, LeaveWord},
    prompt,
    ui::{Ui, table},
};

pub(super) async fn run(ui: &Ui, args: ImportArgs) -> Result<ExitCode, Error> {
    let places = Places::from_environment()?;
    let providers = keyless_daemon::project_providers(&places, &here(), AgreedBy::File)?;
    warn_of_faults(ui, &providers);
    let looks = looks_secret();
    let unknown = BTreeMap::new();
    let import = read(&args, &unknown, &proposer(&providers, args.file.as_deref(), &looks)?)?;
    for line in &import.unread {
        ui.warn(format!("line {line} can't be read; it stays as it is"));
    }
    for one in import.composed() {
        ui.warn(composed_in_words(&one, None));
    }
    if import.in_lists > 0 {
        ui.warn(in_lists(import.in_lists));
    }
    refuse_unheard_of(&args, &import)?;
    let leave = leave(&import, args.leave, args.also_uncarried)?;
    if leave.is_some() {
        warn_of_overruled(ui, &import, args.file.as_deref().unwrap_or(Path::new("")));
    }
    let (_, vault) = unlock_vault(&args.factor).await?;
    // Read anew: where tokens go is by the vault's word on what was agreed to, and that may have been just now.
    let voucher = vault.agreement_voucher();
    let providers = keyless_daemon::project_providers(&places, &here(), AgreedBy::Vault(&voucher))?;
    let proposer = proposer(&providers, args.file.as_deref(), &looks)?;
    let project = Manifest::project_of(&folder(args.file.as_deref())?);
    let declared = match &project {
        Some(project) => {
            let store = keyless_daemon::open_store(&places).await?;
            keyless_daemon::declared_variables(&places, &store, project).await?
        }
        None => BTreeMap::new(),
    };
    let mut import = read(&args, &declared, &proposer)?;
    let mut operator = Operator::new(vault);
    if args.allow_weak {
        operator = operator.allowing_weak_values();
    }
    import.compare(&operator, &proposer).await?;
    warn_of_uncarried(ui, &import, leave);
    if args.dry_run || !is_anything_to_do(&import, leave) || !agreed(ui, &args, &import, leave)? {
        return Ok(answer(ui, &import, None, Ok(())));
    }
    import.keep(&operator, &proposer).await;
    if let Some(project) = &project {
        declare_instead(ui, project, &args, &declared, &import)?;
    }
    let left = leave.map(|leave| import.leave(leave)).transpose()?;
    let is_refused = |row: &ImportRow| matches!(row.outcome, Outcome::Refused(_));
    let outcome = if import.rows().any(is_refused) { Err(Exit::Failure) } else { Ok(()) };
    Ok(answer(ui, &import, left.map(|left| left.replaced), outcome))
}

/// What to do about a line that a later one overrules.
pub(in crate::commands) const BY_HAND: &str =
    "take the line out by hand, and revoke its value at its service if it is still good there";

fn in_lists(count: usize) -> String {
    let (texts, were, each) =
        if count == 1 { ("text", "was", "it") } else { ("texts", "were", "each") };
    format!(
        "{count} {texts} in lists {were} not looked at, as nothing there says what {each} holds: keyless secret add PATH takes a secret"
    )
}

/// Why a line stays of which its readers make something else, and what to do; `file` where several are gone through.
pub(in crate::commands) fn composed_in_words(one: &Composed, file: Option<&Path>) -> String {
    let Composed { variable, line } = one;
    let file = file.map(|file| format!(" of {}", file.display())).unwrap_or_default();
    format!(
        "{variable} (line {line}{file}) is put together by whoever reads it, or ends for a shell at a blank, & or ; outside of quotes, so what \
         stands there may not be its value; it stays as it is. Add the whole value with keyless secret add, or write it in single quotes if it is meant literally"
    )
}

/// Says which lines keep their values though others' are taken out: the vault gets what counts, and what nothing else has
/// is not thrown away.
pub(in crate::commands) fn warn_of_overruled(ui: &Ui, import: &Import, file: &Path) {
    for Overruled { variable, line } in import.overruled() {
        ui.warn(format!(
            "line {line} of {} sets {variable} to another value, which a later line overrules: it goes into no vault, and stays. \
             Next: {BY_HAND}",
            file.display()
        ));
    }
}

/// Says which values help no command that keyless run starts, and what their programs find then.
pub(in crate::commands) fn warn_of_uncarried(ui: &Ui, import: &Import, leave: Option<Leaving>) {
    let is_stored = |row: &&ImportRow| matches!(row.outcome, Outcome::New | Outcome::Present);
    let rows: Vec<&ImportRow> =
        import.rows().filter(is_stored).filter(|row| row.uncarried.is_some()).collect();
    if rows.is_empty() {
        return;
    }
    for row in &rows {
        let why = row.uncarried.as_deref().unwrap_or_default();
        ui.warn(format!("no request can carry {}: {why}", row.variable));
    }
    let then = match leave {
        Some(Leaving { of: Going::All, .. }) => {
            "without the value in the file a program in keyless run does not find it; without --also-uncarried it stays there"
        }
        Some(Leaving { of: Going::Carried, .. }) => {
            "it stays in the file, where a program in keyless run finds it, and an agent reads it; --also-uncarried takes it out, too"
        }
        None => "a program in keyless run has such a value as long as it stands in the file",
    };
    ui.warn(format!("{then}; keyless exec gives it to one command (docs/setup.md)"));
}

/// `--only` is about variables that are there.
fn refuse_unheard_of(args: &ImportArgs, import: &Import) -> Result<(), Error> {
    let is_there = |name: &&String| import.rows().any(|row| row.variable == **name);
    let Some(name) = args.only.iter().find(|name| !is_there(name)) else { return Ok(()) };
    let words =
        SafeText::words("--only ").as_they_wrote(name).and(": there is no such variable in ");
    let place = args.file.as_ref().map_or("the environment".into(), |file| file.to_string_lossy());
    Err(Error::with(Code::Usage, words.as_they_wrote(&place)))
}

/// What a person says of a variable's path with `--as` is what its project declares from then on: its sessions would
/// get the value of the old path.
fn declare_instead(
    ui: &Ui,
    project: &Path,
    args: &ImportArgs,
    declared: &BTreeMap<String, SecretPath>,
    import: &Import,
) -> Result<(), Error> {
    for row in import.rows() {
        let is_kept = matches!(row.outcome, Outcome::Imported | Outcome::Present);
        let is_told = args.paths.iter().any(|(name, _)| *name == row.variable);
        let (Some(old), Some(proposal)) = (declared.get(&row.variable), &row.proposal) else {
            continue;
        };
        let (name, new) = (&row.variable, &proposal.path);
        if is_kept && is_told && old != new && keyless_daemon::declare_instead(project, old, new)? {
            ui.warn(format!(
                ".keyless/secrets.toml declares {new} for {name} from now on, in the place of {old}"
            ));
        }
    }
    Ok(())
}

/// Names that say nothing of a service are under the name of the folder that the file lies in.
fn proposer<'a>(
    providers: &'a Providers,
    file: Option<&Path>,
    looks: &'a dyn Fn(&str) -> bool,
) -> Result<Proposer<'a>, Error> {
    let folder = folder(file)?;
    let name = folder.file_name().unwrap_or_default().to_string_lossy();
    Ok(Proposer::new(providers, &name, looks))
}

/// The folder in which the file lies; else the current one.
fn folder(file: Option<&Path>) -> Result<PathBuf, Error> {
    let here = env::current_dir().map_err(|error| {
        Error::with(Code::PathUnusable, SafeText::words("the current folder: ").and(error.kind()))
    })?;
    let file = file.map(|file| here.join(file));
    Ok(file.as_deref().and_then(Path::parent).map_or(here, Path::to_owned))
}

fn read(
    args: &ImportArgs,
    declared: &BTreeMap<String, SecretPath>,
    proposer: &Proposer<'_>,
) -> Result<Import, Error> {
    let set = |names: &[String]| names.iter().cloned().collect::<BTreeSet<_>>();
    let mut wish = Wish {
        include: set(&args.also),
        exclude: set(&args.skip),
        paths: args.paths.iter().cloned().collect(),
        declared: declared.clone(),
        only: None,
        allow_weak: args.allow_weak,
    };
    if !args.only.is_empty() {
        wish.include.extend(args.only.iter().cloned());
        wish.only = Some(wish.include.clone());
    }
    if let Some(file) = &args.file {
        return Import::of_file(file, &wish, proposer);
    }
    // `env::vars` panics over what is not text, with the value in its words.
    let text = |(name, value): (OsString, OsString)| {
        Some((name.into_string().ok()?, value.into_string().ok()?))
    };
    Ok(Import::of_variables(env::vars_os().filter_map(text), &wish, proposer))
}

/// What becomes of the values in their file. What no request carries goes where programs still find it, unless it is
/// `also_uncarried` that shall go.
pub(in crate::commands) fn leave(
    import: &Import,
    word: LeaveWord,
    also_uncarried: bool,
) -> Result<Option<Leaving>, Error> {
    let of = if also_uncarried { Going::All } else { Going::Carried };
    let what = match word {
        LeaveWord::Values => return Ok(None),
        LeaveWord::Aliases => Leave::Aliases,
        LeaveWord::Comments => Leave::Comments,
        LeaveWord::Empty => Leave::Empty,
    };
    if import.is_replaceable() {
        return Ok(Some(Leaving { what, of }));
    }
    let words = "--leave is for files in the form of .env; take the values out of others by hand";
    Err(Error::with(Code::Usage, SafeText::words(words)))
}

pub(in crate::commands) fn is_anything_to_do(import: &Import, leave: Option<Leaving>) -> bool {
    import.count(&Outcome::New) > 0 || leave.is_some_and(|leave| import.going(leave.of) > 0)
}

/// Shows what would be done, and asks.
fn agreed(
    ui: &Ui,
    args: &ImportArgs,
    import: &Import,
    leave: Option<Leaving>,
) -> Result<bool, Error> {
    if args.yes {
        return Ok(true);
    }
    ui.line(words(import).trim_end());
    let file = args.file.as_deref().unwrap_or(Path::new(""));
    prompt::confirm(&question(import, file, leave))
}

/// What is asked before anything is done.
pub(in crate::commands) fn question(
    import: &Import,
    file: &Path,
    leave: Option<Leaving>,
) -> String {
    let new = import.count(&Outcome::New);
    let gone = leave.map_or(0, |leave| import.going(leave.of));
    let place = match leave.filter(|_| gone > 0).map(|leave| leave.what) {
        None => return format!("Put {} into the vault?", counted(new, "value")),
        Some(Leave::Aliases) => "aliases",
        Some(Leave::Comments) => "comments",
        Some(Leave::Empty) => "nothing",
    };
    let file = file.display();
    let (new, gone) = (counted(new, "value"), counted(gone, "value"));
    format!("Put {new} into the vault, and {place} in place of {gone} in {file}?")
}

fn answer(
    ui: &Ui,
    import: &Import,
    replaced: Option<usize>,
    outcome: Result<(), Exit>,
) -> ExitCode {
    let rows: Vec<Value> = import.rows().map(data).collect();
    let mut words = words(import);
    if let Some(replaced) = replaced {
        let gone = if replaced == 1 { "value is" } else { "values are" };
        let _ = writeln!(words, "{replaced} {gone} gone from the file.");
        ui.warn("whoever has an older copy of the file (git's history, a backup, an editor) has the values: rotate them");
    }
    let data = json!({
        "variables": rows,
        "imported": import.count(&Outcome::Imported),
        "present": import.count(&Outcome::Present),
        "replaced": replaced,
        "unread_lines": import.unread,
        "in_lists": import.in_lists,
        "overruled_lines": import.overruled().map(|one| one.line).collect::<Vec<_>>(),
    });
    ui.conclude("secret import", outcome, &data, &words)
}

pub(in crate::commands) fn words(import: &Import) -> String {
    let rows: Vec<Vec<String>> = import.rows().map(cells).collect();
    if rows.is_empty() {
        return "There are no variables.\n".to_owned();
    }
    table(&["VARIABLE", "PATH", "FOR", "GOES TO", "STATE"], &rows)
}

fn cells(row: &ImportRow) -> Vec<String> {
    let proposal = row.proposal.as_ref();
    let hosts = |to: &[keyless_core::Destination]| {
        to.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
    };
    vec![
        row.variable.clone(),
        proposal.map(|proposal| proposal.path.to_string()).unwrap_or_default(),
        proposal.and_then(|proposal| proposal.service.clone()).unwrap_or_default(),
        proposal.map(|proposal| hosts(&proposal.to)).unwrap_or_default(),
        match why(row) {
            None => state(&row.outcome).to_owned(),
            Some(why) => format!("{}: {why}", state(&row.outcome)),
        },
    ]
}

fn data(row: &ImportRow) -> Value {
    let proposal = row.proposal.as_ref();
    json!({
        "variable": row.variable,
        "line": row.line,
        "path": proposal.map(|proposal| &proposal.path),
        "pattern": proposal.and_then(|proposal| proposal.pattern.as_ref()),
        "to": proposal.map(|proposal| &proposal.to),
        "state": state(&row.outcome),
        "uncarried": row.uncarried,
        "why": why(row),
    })
}

fn state(outcome: &Outcome) -> &'static str {
    match outcome {
        Outcome::Imported => "imported",
        Outcome::New => "new",
        Outcome::Present => "present",
        Outcome::Refused(_) => "refused",
        Outcome::Skipped(_) => "skipped",
        Outcome::Taken => "taken",
    }
}

fn why(row: &ImportRow) -> Option<Cow<'_, str>> {
    match &row.outcome {
        Outcome::Refused(why) | Outcome::Skipped(why) => Some(why.into()),
        Outcome::Taken => {
            let path = row.instead.as_ref().map_or("PATH", SecretPath::as_str);
            let name = &row.variable;
            Some(
                format!("the path holds another value; --as {name}={path} gives it one of its own")
                    .into(),
            )
        }
        Outcome::Imported | Outcome::New | Outcome::Present => None,
    }
}
