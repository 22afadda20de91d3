//! `keyless vault envelope`: list, add, change, remove.

use std::sync::Arc;

use keyless_core::{Code, Error, SafeText};
use keyless_daemon::{
    Operator, Places,
    vault::{Entries, EnvelopeKind, Factor, MachineBinding, Passphrase, RecoveryPhrase, Vault},
};
use serde_json::json;
use zeroize::Zeroizing;

use super::super::{open_store, open_sure_store, unlock_vault, write_opener};
use crate::{
    args::{EnvelopeAddArgs, EnvelopeCommand, EnvelopeRemoveArgs, EnvelopeWord, OpenerArgs},
    prompt,
    ui::{Ui, in_rows, table},
};

pub(super) async fn run(ui: &Ui, command: EnvelopeCommand) -> Result<(), Error> {
    match command {
        EnvelopeCommand::Add(args) => put(ui, "vault envelope add", args, Put::New).await,
        EnvelopeCommand::Change(args) => put(ui, "vault envelope change", args, Put::Again).await,
        EnvelopeCommand::List => list(ui).await,
        EnvelopeCommand::Remove(args) => remove(ui, args).await,
    }
}

/// Whether there must be one of the kind already.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Put {
    Again,
    New,
}

/// Needs no factor: who has lost theirs looks here for another.
async fn list(ui: &Ui) -> Result<(), Error> {
    let (_, store) = open_sure_store(ui).await?;
    let envelopes = Vault::envelopes_unverified(&store).await?;
    let rows: Vec<Vec<String>> = envelopes
        .iter()
        .map(|envelope| {
            let opens = match (envelope.kind.as_str(), envelope.binding) {
                ("totp", _) => "what has locked itself",
                (_, Some(MachineBinding::MachineV1)) => "from cold, on this machine",
                _ => "from cold",
            };
            let since = envelope.created_at.strftime("%Y-%m-%d").to_string();
            vec![envelope.kind.clone(), opens.to_owned(), since]
        })
        .collect();
    let words = table(&["ENVELOPE", "OPENS", "SINCE"], &rows);
    ui.answer("vault envelope list", &json!({ "envelopes": envelopes }), &words);
    Ok(())
}

async fn put(ui: &Ui, verb: &str, args: EnvelopeAddArgs, put: Put) -> Result<(), Error> {
    let vault = Arc::new(open(&args.opener).await?);
    let kind = EnvelopeKind::from(args.kind);
    let there = vault.envelopes().await?.iter().any(|known| known.kind == kind.as_str());
    match (put, there) {
        (Put::New, true) => {
            let words = SafeText::words("there is one already; use keyless vault envelope change ");
            return Err(Error::with(Code::StateUnfit, words.and(kind.as_str())));
        }
        (Put::Again, false) => {
            let words = SafeText::words("there is none yet; use keyless vault envelope add ");
            return Err(Error::with(Code::StateUnfit, words.and(kind.as_str())));
        }
        _ => {}
    }
    let operator = Operator::new(Arc::clone(&vault));
    let entry = operator.envelope_entry(kind);
    let mut data = json!({ "envelope": kind.as_str() });
    let words = match kind {
        EnvelopeKind::Keyfile => keyfile(&vault, &args, entry).await?,
        EnvelopeKind::Passphrase => {
            let passphrase = match &args.new_passphrase_file {
                Some(file) => prompt::passphrase_from(file)?,
                None => prompt::typed_passphrase("--new-passphrase-file FILE")?,
            };
            vault.change_passphrase(Passphrase::new(passphrase), entry).await?;
            match put {
                Put::Again => "The passphrase is changed; the old one opens nothing.\n",
                Put::New => "The passphrase opens the store.\n",
            }
            .to_owned()
        }
        EnvelopeKind::Recovery => {
            vault
                .change_recovery(|phrase| {
                    let show = Shown {
                        what: "Recovery phrase, shown this once; the old one opens nothing then",
                        text: &phrase.expose_to_operator(),
                        field: "recovery_phrase",
                    };
                    show.to_operator(ui, &args, &mut data)
                }, entry)
                .await?;
            match put {
                Put::Again => "The recovery phrase is changed; the old one opens nothing.\n",
                Put::New => "The recovery phrase opens the store.\n",
            }
            .to_owned()
                + &moved_away(&args)
        }
        EnvelopeKind::Totp => {
            vault
                .put_totp(
                    |secret| {
                        let show = Shown {
                            what: "For your authenticator app, shown this once",
                            text: &secret.expose_to_operator(),
                            field: "otpauth_uri",
                        };
                        show.to_operator(ui, &args, &mut data)
                    },
                    entry,
                )
                .await?;
            "Codes of the app reopen the store after it has locked itself.\n".to_owned()
                + &moved_away(&args)
        }
    };
    ui.answer(verb, &data, &words);
    Ok(())
}

/// What to do with the file that it was written to.
fn moved_away(args: &EnvelopeAddArgs) -> String {
    args.output.as_ref().map_or(String::new(), |file| {
        format!(
            "Move {} off this machine at once; runs that begin now don't show it.\n",
            file.display()
        )
    })
}

async fn keyfile(
    vault: &Vault,
    args: &EnvelopeAddArgs,
    entry: Entries<'_, ()>,
) -> Result<String, Error> {
    let Some(path) = &args.file else {
        return Err(Error::with(Code::Usage, SafeText::words("keyfile needs --file FILE")));
    };
    let binding =
        if args.this_machine_only { MachineBinding::MachineV1 } else { MachineBinding::Unbound };
    let file = prompt::new_keyfile(path)?;
    if let Err(error) = vault.put_keyfile(&file, binding, entry).await {
        // It opens nothing.
        let _ = std::fs::remove_file(path);
        return Err(error);
    }
    Ok(format!("{} opens the store. Keep it from others and from backups.\n", path.display()))
}

async fn remove(ui: &Ui, args: EnvelopeRemoveArgs) -> Result<(), Error> {
    let vault = Arc::new(open(&args.opener).await?);
    let kind = EnvelopeKind::from(args.kind);
    let question = format!("Remove the {}? It will open nothing.", kind.as_str());
    if !args.yes && !prompt::confirm(&question)? {
        ui.line("Nothing was removed.");
        return Ok(());
    }
    let operator = Operator::new(Arc::clone(&vault));
    vault.remove_envelope(kind, operator.envelope_entry(kind)).await?;
    let words = format!("Removed: {}.\n", kind.as_str());
    ui.answer("vault envelope remove", &json!({ "envelope": kind.as_str() }), &words);
    Ok(())
}

async fn open(opener: &OpenerArgs) -> Result<Vault, Error> {
    if !opener.recovery {
        return Ok(unlock_vault(&opener.factor).await?.1);
    }
    let (_, store) = open_store().await?;
    let phrase = RecoveryPhrase::parse(&prompt::recovery_phrase()?)?;
    keyless_daemon::open_vault(store, Factor::Recovery(phrase)).await
}

/// Something that is told once.
struct Shown<'a> {
    what: &'a str,
    text: &'a str,
    field: &'static str,
}

impl Shown<'_> {
    /// Into a file, into the answer, or onto the terminal, where the operator has to say that it
    /// is written down. Only then is it put in place.
    fn to_operator(
        &self,
        ui: &Ui,
        args: &EnvelopeAddArgs,
        data: &mut serde_json::Value,
    ) -> Result<(), Error> {
        if let Some(path) = &args.output {
            data["file"] = json!(path.to_string_lossy());
            return write_opener(ui, &Places::from_environment()?, path, self.text);
        }
        if ui.is_json() {
            data[self.field] = json!(self.text);
            return Ok(());
        }
        // Words that will not be put in place are not shown either.
        prompt::need_terminal("--output FILE")?;
        let shown = Zeroizing::new(format!("{}:\n\n{}", self.what, in_rows(self.text)));
        if prompt::written_down(&shown)? {
            return Ok(());
        }
        let words = "it was not written down, so nothing was changed";
        Err(Error::with(Code::Usage, SafeText::words(words)))
    }
}

impl From<EnvelopeWord> for EnvelopeKind {
    fn from(word: EnvelopeWord) -> Self {
        match word {
            EnvelopeWord::Keyfile => Self::Keyfile,
            EnvelopeWord::Passphrase => Self::Passphrase,
            EnvelopeWord::Recovery => Self::Recovery,
            EnvelopeWord::Totp => Self::Totp,
        }
    }
}
