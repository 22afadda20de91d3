//! What the operator does to a secret by themselves: a value, other metadata, a question to its service.

use std::sync::Arc;

use axum::extract::{Path, State};
use keyless_core::{Code, Error, SafeText, SecretPath};
use keyless_vault::Secret;

use super::{
    Web,
    dialog::{read_given, read_metadata},
    form::Sent,
    handlers::{Answered, prove_once, to},
    pages::{NEW, known_path},
};
use crate::{
    broker::word_of_shared_variable,
    operator::{Occasion, Weight, read_path},
};

/// A form of a secret's dialog.
pub(super) async fn save(
    State(web): State<Arc<Web>>,
    Path((_, path)): Path<(String, String)>,
    mut sent: Sent,
) -> Answered {
    let secret = match &*path {
        NEW => None,
        path => Some(web.desk.vault.show(&known_path(path)?).await?),
    };
    let act = sent.fields.text("act").to_owned();
    let (notice, room) = match (&*act, secret) {
        ("value", secret) => (give(&web, &mut sent, secret.as_ref()).await?, "secrets".to_owned()),
        ("edit", Some(secret)) => {
            (change(&web, &mut sent, &secret).await?, format!("secrets/{path}"))
        }
        ("check", Some(secret)) => (check(&web, &secret.path).await?, format!("secrets/{path}")),
        _ => return Err(unfit("the form does not fit the page").into()),
    };
    sent.visit.leave(notice);
    Ok(to(&sent.visit, &room))
}

async fn give(web: &Web, sent: &mut Sent, secret: Option<&Secret>) -> Result<String, Error> {
    let path = match secret {
        Some(secret) => secret.path.clone(),
        None => read_path(sent.fields.text("path"))?,
    };
    let occasion = Occasion::of(secret);
    let providers = web.desk.providers().await;
    let (given, value) = read_given(occasion, &providers, &mut sent.fields)?;
    prove_once(web, sent, Weight::of_value(occasion)).await?;
    web.desk.approver.give(&path, occasion, given, value).await?;
    Ok(with_shared_variable(web, &path, format!("{path} has its value.")).await)
}

async fn change(web: &Web, sent: &mut Sent, secret: &Secret) -> Result<String, Error> {
    let metadata = read_metadata(secret, &sent.fields)?;
    prove_once(web, sent, Weight::of_change(&secret.metadata, &metadata)).await?;
    let variable = metadata.env.clone();
    web.desk.approver.change(&secret.path, &secret.metadata, metadata).await?;
    let done = format!("{}: changed.", secret.path);
    Ok(if secret.metadata.env == variable {
        done
    } else {
        with_shared_variable(web, &secret.path, done).await
    })
}

/// What was done, with what else a command would say of the secret's variable.
async fn with_shared_variable(web: &Web, path: &SecretPath, done: String) -> String {
    // It is done, whether or not the list can be had once more.
    let all = web.desk.vault.list().await.unwrap_or_default();
    match word_of_shared_variable(path, &all) {
        Some(words) => format!("{done} {words}."),
        None => done,
    }
}

async fn check(web: &Web, path: &SecretPath) -> Result<String, Error> {
    let checked = web.desk.approver.check(&web.desk.places, path).await?;
    Ok(checked.sentence(path))
}

fn unfit(words: &'static str) -> Error {
    Error::with(Code::AnswerUnfit, SafeText::words(words))
}
