//! What the operator does to a secret by themselves: a value, other metadata, a question to its service.

use std::sync::Arc;

use axum::extract::{Path, State};
use keyless_core::{Code, Error, SafeText, SecretPath};
use keyless_vault::Secret;

use super::{
    Web,
    dialog::{self, goes_further, once, read_given, read_metadata},
    form::Sent,
    handlers::{Answered, prove_once, to},
    pages::{NEW, known_path},
};
use crate::{
    liveness::{Checked, LivenessVerdict},
    operator::Occasion,
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
        _ => return Err(usage("the form does not fit the page").into()),
    };
    sent.visit.leave(notice);
    Ok(to(&sent.visit, &room))
}

async fn give(web: &Web, sent: &mut Sent, secret: Option<&Secret>) -> Result<String, Error> {
    let path = match secret {
        Some(secret) => secret.path.clone(),
        None => new_path(web, sent.fields.text("path").trim()).await?,
    };
    let occasion = dialog::occasion(secret);
    let bound = secret.is_some_and(|secret| secret.metadata.egress.is_some());
    let (given, value) = read_given(occasion, bound, &mut sent.fields)?;
    dialog::judge(&web.desk.providers().await, &sent.fields, &value)?;
    let setting = web.desk.settings().await?.prove_again;
    prove_once(web, sent, once(setting, true, occasion == Occasion::Another)).await?;
    web.desk.approver.give(&path, occasion, given, value).await?;
    Ok(format!("{path} has its value."))
}

/// The name of a secret that is not there yet.
async fn new_path(web: &Web, text: &str) -> Result<SecretPath, Error> {
    let path = SecretPath::parse(text)
        .map_err(|error| Error::with(Code::PathInvalid, SafeText::default().and(error)))?;
    match web.desk.vault.show(&path).await {
        Ok(_) => Err(Error::with(Code::SecretExists, SafeText::default().and(&path))),
        Err(error) if error.code() == Code::SecretNotFound => Ok(path),
        Err(error) => Err(error),
    }
}

async fn change(web: &Web, sent: &mut Sent, secret: &Secret) -> Result<String, Error> {
    let metadata = read_metadata(secret, &sent.fields)?;
    let setting = web.desk.settings().await?.prove_again;
    let further = goes_further(&secret.metadata, &metadata);
    prove_once(web, sent, once(setting, true, further)).await?;
    web.desk.approver.change(secret, metadata).await?;
    Ok(format!("{}: changed.", secret.path))
}

async fn check(web: &Web, path: &SecretPath) -> Result<String, Error> {
    let Checked { verdict, host, why, .. } =
        web.desk.approver.check(&web.desk.places, path).await?;
    let host = host.unwrap_or_else(|| "its service".to_owned());
    let why = why.map(|why| format!(": {why}")).unwrap_or_default();
    Ok(match verdict {
        LivenessVerdict::Rejected => format!("{path}: {host} refuses its value{why}."),
        LivenessVerdict::Unclear => format!("{path}: {host} answers neither yes nor no{why}."),
        LivenessVerdict::Unreachable => format!("{path}: {host} could not be asked{why}."),
        LivenessVerdict::Unsupported => format!("{path}: nobody can be asked{why}."),
        LivenessVerdict::Valid => format!("{path}: {host} takes its value."),
    })
}

fn usage(words: &'static str) -> Error {
    Error::with(Code::Usage, SafeText::words(words))
}
