//! `keyless approve`: what agents ask, shown in full, and the person's answers.
//!
//! An agent's words are shown as its words: on a line of their own, every character that can't be seen
//! made visible, and in rows that don't begin as ours do. What is true of a secret comes from the vault. Nothing is chosen beforehand: who just presses
//! Enter has refused.

mod deed;
mod dialog;
mod words;

use std::{process::ExitCode, sync::Arc};

use keyless_core::{Code, Error, SafeText, approval::RequestId};
use keyless_daemon::{
    AgreedBy, Answer, ApproverHandle, Places, Shown,
    vault::{Providers, Secret, Vault},
};
use serde_json::{Value, json};

pub(super) use self::words::{about, told, visible, visible_line};
use self::{
    dialog::{About, Dialog},
    words::{describe, standing_rows},
};
use super::{ui::ValueScene, unlock_beside_broker};
use crate::{
    args::{AnswerWord, ApproveArgs},
    prompt,
    rows::fitted,
    ui::{Ui, table},
};

pub(super) async fn run(ui: &Ui, args: ApproveArgs) -> Result<ExitCode, Error> {
    // The person at the terminal would be asked for the value all the same, and the one on stdin be lost.
    if let (None, Some(option)) = (args.word(), args.options_of_value()) {
        let words =
            SafeText::words(option).and(" goes with an answer: keyless approve ID --accept");
        return Err(Error::with(Code::Usage, words));
    }
    let (places, vault) = unlock_beside_broker(ui, &args.factor).await?;
    let vault = Arc::new(vault);
    let mut approver = ApproverHandle::open(&places, Arc::clone(&vault)).await?;
    let guide = Guide { places, vault };
    match (&args.take_back, &args.id) {
        (Some(id), _) => take_back(ui, &mut approver, id).await,
        (None, _) if args.list => list(ui, &mut approver).await,
        (None, Some(id)) => {
            let request = approver.waiting(id).await?;
            Box::pin(answer(ui, &args, (&mut approver, &guide), &request)).await
        }
        (None, None) if args.word().is_some() => {
            let words = "name the request that the answer is for: keyless approve ID";
            Err(Error::with(Code::Usage, SafeText::words(words)))
        }
        (None, None) => Box::pin(all(ui, &args, (&mut approver, &guide))).await,
    }
}

/// What the catalog says of getting a value.
struct Guide {
    places: Places,
    vault: Arc<Vault>,
}

impl Guide {
    /// The secret that it is about, if the store has it.
    async fn secret(&self, request: &Shown) -> Option<Secret> {
        self.vault.show(request.path.as_ref()?).await.ok()
    }

    /// The token catalog that is in force.
    fn providers(&self) -> Arc<Providers> {
        // A catalog that can't be used is a matter of `keyless catalog`; the value can be typed all the same.
        let providers = keyless_daemon::providers(
            &self.places,
            AgreedBy::Vault(&self.vault.agreement_voucher()),
        )
        .unwrap_or_else(|_| Providers::bundled());
        Arc::new(providers)
    }
}

/// Everything that waits, one after the other.
async fn all(
    ui: &Ui,
    args: &ApproveArgs,
    (approver, guide): (&mut ApproverHandle, &Guide),
) -> Result<ExitCode, Error> {
    let pending = approver.pending().await?;
    if ui.is_json() || pending.is_empty() {
        return list(ui, approver).await;
    }
    let mut failed = ExitCode::SUCCESS;
    for request in pending {
        // As it is by now: the answers before may have changed what it is about, and time has passed.
        let answered = match approver.waiting(&request.id).await {
            Ok(request) => answer(ui, args, (approver, guide), &request).await,
            Err(error) => Err(error),
        };
        match answered {
            Ok(_) => {}
            // Somebody else was faster, or the time was over: the others still wait.
            Err(error) if error.code() == Code::RequestSettled => {
                failed = ui.fail("approve", &error);
            }
            Err(error) => return Err(error),
        }
    }
    Ok(failed)
}

async fn answer(
    ui: &Ui,
    args: &ApproveArgs,
    (approver, guide): (&mut ApproverHandle, &Guide),
    request: &Shown,
) -> Result<ExitCode, Error> {
    ui.line(&fitted(&describe(request)));
    let is_typed = !args.value.value_stdin && args.value.from_file.is_none();
    let (known, secret) = (guide.providers(), guide.secret(request).await);
    if is_typed
        && matches!(args.word(), None | Some(AnswerWord::Accept))
        // Where to get it, step by step, and where it goes; nothing for a request that asks for no value.
        && let Some(scene) = ValueScene::of_request(request, secret.clone(), &known)
    {
        ui.line(&fitted(&scene.words()));
    }
    let metadata = secret.map(|secret| secret.metadata).unwrap_or_default();
    let about = About { request, metadata: &metadata, known: &known };
    if let Some(word) = args.word() {
        let said = dialog::by_option(ui, args, word, about)?;
        return settle(ui, approver, request, said).await;
    }
    loop {
        let said = Dialog { ui, approver, about }.ask().await?;
        match settle(ui, approver, request, said).await {
            // Another path or value may do, and the request still waits.
            Err(error) if is_of_what_was_typed(error.code()) => {
                Ui::fault(&error.message(), Some(error.code().remediation().action));
            }
            settled => return settled,
        }
    }
}

async fn settle(
    ui: &Ui,
    approver: &mut ApproverHandle,
    request: &Shown,
    (answer, value): dialog::Said,
) -> Result<ExitCode, Error> {
    let cancelled = matches!(answer, Answer::Cancel | Answer::Deny);
    let settled = approver.answer(&request.id, answer, value).await?;
    let data = json!({ "request": shown(&settled), "accepted": !cancelled });
    ui.answer("approve", &data, &fitted(&told(&settled)));
    Ok(ExitCode::SUCCESS)
}

fn is_of_what_was_typed(code: Code) -> bool {
    matches!(code, Code::SecretExists | Code::ValueRefused | Code::ValueUnchanged | Code::ValueWeak)
}

async fn list(ui: &Ui, approver: &mut ApproverHandle) -> Result<ExitCode, Error> {
    let (pending, standing) = (approver.pending().await?, approver.standing().await?);
    let mut words = if pending.is_empty() {
        "Nothing waits for an answer.\n".to_owned()
    } else {
        fitted(&pending.iter().map(describe).collect::<Vec<_>>().join("\n"))
    };
    if !standing.is_empty() {
        let head = ["ID", "STATUS", "ABOUT", "SESSION", "LEFT"];
        words = format!("{words}\n{}", table(&head, &standing_rows(&standing)));
        words.push_str("keyless approve --take-back ID ends one.\n");
    }
    let all = |requests: &[Shown]| requests.iter().map(shown).collect::<Vec<_>>();
    let data = json!({ "pending": all(&pending), "standing": all(&standing) });
    ui.answer("approve", &data, &words);
    Ok(ExitCode::SUCCESS)
}

async fn take_back(
    ui: &Ui,
    approver: &mut ApproverHandle,
    id: &RequestId,
) -> Result<ExitCode, Error> {
    let over = approver.take_back(id).await?;
    let words = format!("{id} has no effect any more.\n");
    ui.answer("approve", &json!({ "request": shown(&over), "taken_back": true }), &words);
    Ok(ExitCode::SUCCESS)
}

fn shown(request: &Shown) -> Value {
    serde_json::to_value(request).unwrap_or_default()
}

/// A line that the person types, at the terminal itself.
fn typed(question: &str) -> Result<String, Error> {
    prompt::line(question)
}
