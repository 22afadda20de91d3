//! `keyless vault export | import`: a copy of the secrets, for another place or a bad day.

use std::{fs::File, io::Read, path::Path};

use keyless_core::{Code, Error, SafeText, SecretPath};
use keyless_daemon::{
    Operator, counted,
    vault::{
        Backup, BackupIdentities, BackupRecipients, Conflicts, Imported, MAX_BACKUP_BYTES,
        Metadata, Replacement,
    },
};
use serde_json::json;

use super::super::{check_private, secret::source_word, unlock_vault, write_private};
use crate::{
    args::{ExportVaultArgs, ImportVaultArgs},
    prompt,
    ui::Ui,
};

pub(super) async fn export(ui: &Ui, args: ExportVaultArgs) -> Result<(), Error> {
    if args.file == Path::new("-") {
        let words = "a copy goes into a file, not to standard output: name one (./- for a file of that name)";
        return Err(Error::with(Code::Usage, SafeText::words(words)));
    }
    let recipients = BackupRecipients::parse(args.to.iter().map(String::as_str))?;
    check_private(Some(&args.file))?;
    let (_, vault) = unlock_vault(&args.factor).await?;
    // A copy has those that were removed and not purged, too.
    let secrets = vault.list().await?.len() + vault.removed().await?.len();
    let copy = Operator::new(vault).export(&recipients).await?;
    write_private(&args.file, &copy)?;
    let data = json!({ "file": args.file.to_string_lossy(), "secrets": secrets });
    let words = format!(
        "{} holds {} with all versions. Only --to's keys open it; this store is not needed.\n",
        args.file.display(),
        counted(secrets, "secret")
    );
    ui.answer("vault export", &data, &words);
    Ok(())
}

pub(super) async fn import(ui: &Ui, args: ImportVaultArgs) -> Result<(), Error> {
    let identities = BackupIdentities::parse(&prompt::passphrase_from(&args.identity)?)?;
    let copy = Backup::decrypt(&read(&args.file)?, &identities)?;
    let (_, vault) = unlock_vault(&args.factor).await?;
    let conflicts = match (args.keep, args.replace) {
        (true, _) => Conflicts::Keep,
        (_, true) => Conflicts::Replace,
        (false, false) => Conflicts::Refuse,
    };
    let operator = Operator::new(vault);
    let borrowing = operator.borrowing(&copy, conflicts).await?;
    let replacements = match conflicts {
        Conflicts::Replace => operator.replacements(&copy).await?,
        Conflicts::Keep | Conflicts::Refuse => Vec::new(),
    };
    if !lent(ui, &borrowing, args.yes)? || !agreed(ui, &replacements, args.yes)? {
        ui.line("Nothing was taken in.");
        return Ok(());
    }
    let imported = operator.import(copy, conflicts).await?;
    let Imported { added, kept, replaced, same, .. } = &imported;
    let mut words = format!("{} added, {} the same as here", added.len(), same.len());
    for (paths, what) in [(replaced, "replaced"), (kept, "left as they are here")] {
        if !paths.is_empty() {
            let paths: Vec<&str> = paths.iter().map(SecretPath::as_str).collect();
            words = format!("{words}, {} {what} ({})", paths.len(), paths.join(", "));
        }
    }
    ui.answer("vault import", &json!(imported), &format!("{words}.\n"));
    Ok(())
}

/// Shows what would be read on this machine, and where it may go, and asks. Who wrote the copy chose both.
fn lent(ui: &Ui, borrowing: &[(SecretPath, Metadata)], yes: bool) -> Result<bool, Error> {
    if borrowing.is_empty() {
        return Ok(true);
    }
    ui.line("A copy does not prove who made it. These bring no value; it would be read here:");
    for (path, metadata) in borrowing {
        let from = source_word(&metadata.source);
        ui.line(&format!("  {path}\n    from   {from}\n    goes   {}", reach(metadata)));
    }
    Ok(yes || prompt::confirm(&format!("Take in {}?", borrowing.len()))?)
}

/// Shows where each secret may go before and after, and asks. A copy proves no author.
fn agreed(ui: &Ui, replacements: &[Replacement], yes: bool) -> Result<bool, Error> {
    if replacements.is_empty() {
        return Ok(true);
    }
    ui.line("A copy does not prove who made it. These become as it says, and their values here are purged:");
    for Replacement { path, before, after } in replacements {
        ui.line(&format!("  {path}\n    now    {}\n    after  {}", reach(before), reach(after)));
    }
    Ok(yes || prompt::confirm(&format!("Replace {}?", replacements.len()))?)
}

/// Where a value may go, and on whose word.
fn reach(metadata: &Metadata) -> String {
    let mut to: Vec<String> = Vec::new();
    if let Some(rule) = &metadata.egress {
        to.extend(rule.to.iter().map(ToString::to_string));
        to.extend(rule.oauth.iter().map(|grant| format!("{} (tokens)", grant.authority)));
    }
    let to = if to.is_empty() { "no host".to_owned() } else { to.join(", ") };
    let exposed = if metadata.unsafe_expose { "on" } else { "off" };
    format!("to {to}; approve_on_use {}; unsafe_expose {exposed}", metadata.approve_on_use)
}

fn read(file: &Path) -> Result<Vec<u8>, Error> {
    let mut bytes = Vec::new();
    let limit = MAX_BACKUP_BYTES as u64 + 1;
    let read = File::open(file).and_then(|file| file.take(limit).read_to_end(&mut bytes));
    read.map(|_| bytes).map_err(|error| {
        let place = SafeText::default().as_they_wrote(&file.to_string_lossy());
        Error::with(Code::PathUnusable, place.and(": ").and(error.kind()))
    })
}
