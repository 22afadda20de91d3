//! What the page's script asks about passkeys, and what the operator does with them.

use std::sync::Arc;

use axum::{
    extract::State,
    http::header,
    response::{IntoResponse, Redirect, Response},
};
use data_encoding::BASE64URL_NOPAD;
use keyless_core::{
    Code, Error, SafeText,
    audit::{Action, Outcome},
};
use serde_json::json;

use super::{
    Expected, Passkeys, Web,
    ceremony::{RELYING_PARTY, Registration},
};
use crate::web::{
    form::{Sent, SentByGuest},
    frame::Failure,
};

const MOST_NAME_CHARS: usize = 60;

/// Something to sign, and the passkeys that may.
pub(in crate::web) async fn challenge(
    State(web): State<Arc<Web>>,
    sent: SentByGuest,
) -> Result<Response, Failure> {
    if !web.desk.vault.is_open() {
        return Err(Code::Locked.into());
    }
    let challenge = sent.visit.new_challenge()?;
    let known = Passkeys(&web.desk.vault).all().await?;
    let ids: Vec<&str> = known.iter().map(|passkey| passkey.id.as_str()).collect();
    let challenge = BASE64URL_NOPAD.encode(&challenge);
    let answer = json!({ "challenge": challenge, "party": RELYING_PARTY, "ids": ids });
    Ok(([(header::CONTENT_TYPE, "application/json")], answer.to_string()).into_response())
}

/// A new one: only who knows the passphrase itself may say so.
pub(in crate::web) async fn register(
    State(web): State<Arc<Web>>,
    mut sent: Sent,
) -> Result<Response, Failure> {
    let name = sent.fields.text("name").trim().to_owned();
    if name.is_empty() || name.chars().count() > MOST_NAME_CHARS {
        return Err(unfit("a name has 1 to 60 characters").into());
    }
    let told: Registration = serde_json::from_str(sent.fields.text("credential"))
        .map_err(|_| unfit("the browser's answer can't be read"))?;
    web.factor.prove_passphrase(&web.desk, sent.fields.take("passphrase")).await?;
    let challenge =
        sent.visit.take_challenge().ok_or_else(|| unfit("it came too late; add it once more"))?;
    let origin = web.origin();
    let registered = told.judge(&Expected { challenge, origin: &origin })?;
    Passkeys(&web.desk.vault).add(&name, registered).await?;
    web.desk.record(Action::Update, Outcome::Success, None, "a passkey was registered").await?;
    sent.visit.leave(format!("{name} proves from now on that it is you."));
    Ok(back(&sent))
}

pub(in crate::web) async fn remove(
    State(web): State<Arc<Web>>,
    sent: Sent,
) -> Result<Response, Failure> {
    Passkeys(&web.desk.vault).remove(sent.fields.text("passkey")).await?;
    web.desk.record(Action::Update, Outcome::Success, None, "a passkey was removed").await?;
    sent.visit.leave("The passkey proves nothing any more.".to_owned());
    Ok(back(&sent))
}

fn back(sent: &Sent) -> Response {
    Redirect::to(&format!("/{}/passkeys", sent.visit.place)).into_response()
}

fn unfit(words: &'static str) -> Error {
    Error::with(Code::AnswerUnfit, SafeText::words(words))
}
