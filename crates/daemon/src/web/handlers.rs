//! What a person does at the page: follows the link, signs in, answers, ends, locks.

use std::sync::Arc;

use axum::{
    extract::{Path, State},
    http::{HeaderValue, header},
    response::{IntoResponse, Redirect, Response},
};
use keyless_core::{Code, Error, SafeText, approval::RequestId, grant::GrantId};

use super::{
    Web, dialog,
    form::{COOKIE, Sent, SentByGuest},
    frame::Failure,
    visitors::Visit,
    words::outcome,
};
use crate::nl::grants::Grants;

type Answered = Result<Response, Failure>;

/// The link: good once, it gives the visit its cookie.
pub(super) async fn open(State(web): State<Arc<Web>>, Path(link): Path<String>) -> Answered {
    let opened = web.visitors.open(&link)?.ok_or(Failure::NoVisit)?;
    let place = &opened.place;
    let cookie = format!("{COOKIE}={}; Path=/{place}/; HttpOnly; SameSite=Strict", opened.cookie);
    let mut response = Redirect::to(&format!("/{place}/")).into_response();
    let cookie = HeaderValue::try_from(cookie).map_err(|_| Code::Internal)?;
    response.headers_mut().insert(header::SET_COOKIE, cookie);
    Ok(response)
}

pub(super) async fn sign_in(State(web): State<Arc<Web>>, mut sent: SentByGuest) -> Answered {
    match web.factor.prove(&web.desk, sent.fields.take("factor")).await {
        Ok(()) => {
            sent.visit.prove();
            Ok(to(&sent.visit, ""))
        }
        Err(error) => Err(Failure::Unproven(sent.visit, Some(error), web.desk.vault.is_open())),
    }
}

pub(super) async fn sign_out(State(web): State<Arc<Web>>, sent: SentByGuest) -> Answered {
    sent.visit.forget_proof();
    web.visitors.close(&sent.visit);
    Err(Failure::NoVisit)
}

pub(super) async fn lock(State(web): State<Arc<Web>>, sent: Sent) -> Answered {
    web.visitors.close(&sent.visit);
    web.desk.lock_all();
    Ok("Locked. Every session has ended. keyless unlock opens the store again.\n".into_response())
}

/// An answer to a request.
pub(super) async fn answer(
    State(web): State<Arc<Web>>,
    Path((_, id)): Path<(String, String)>,
    mut sent: Sent,
) -> Answered {
    let id = request_id(&id)?;
    let waiting = web.desk.approver.pending().await?;
    let shown = waiting.into_iter().find(|shown| shown.id == id).ok_or_else(|| settled(&id))?;
    let (answer, value) = dialog::read(&shown, &mut sent.fields)?;
    if let Some(value) = &value {
        dialog::judge(&web.desk.providers().await, &sent.fields, value)?;
    }
    if dialog::asks_again(&shown, &answer) && !sent.visit.is_fresh() {
        web.factor.prove(&web.desk, sent.fields.take("factor")).await?;
        sent.visit.prove();
    }
    let settled = web.desk.approver.answer(&id, answer, value).await?;
    sent.visit.leave(outcome(settled.path.as_str(), settled.status));
    Ok(to(&sent.visit, ""))
}

pub(super) async fn end_session(
    State(web): State<Arc<Web>>,
    Path((_, id)): Path<(String, String)>,
    sent: Sent,
) -> Answered {
    web.desk.end_session(&id).await?;
    sent.visit.leave(format!("Session {id} has ended."));
    Ok(to(&sent.visit, "sessions"))
}

pub(super) async fn take_back(
    State(web): State<Arc<Web>>,
    Path((_, id)): Path<(String, String)>,
    sent: Sent,
) -> Answered {
    let over = web.desk.approver.take_back(&request_id(&id)?).await?;
    sent.visit.leave(format!("{}: taken back.", over.path));
    Ok(to(&sent.visit, "approvals"))
}

pub(super) async fn revoke_grant(State(web): State<Arc<Web>>, sent: Sent) -> Answered {
    let id = GrantId::parse(sent.fields.text("grant")).ok_or(Code::GrantMissing)?;
    let grants = Grants::new(&web.desk.vault, web.desk.log.clone());
    let revoked = grants.revoke(&id, None).await?;
    sent.visit.leave(format!("{} permits nothing any more.", revoked.grant_id));
    Ok(to(&sent.visit, "grants"))
}

/// Reads a request's name.
pub(super) fn request_id(text: &str) -> Result<RequestId, Error> {
    RequestId::parse(text).ok_or_else(|| Code::RequestNotFound.into())
}

/// It has its answer, or its time is over.
pub(super) fn settled(id: &RequestId) -> Error {
    let words = SafeText::default().and(id).and(" does not wait any more");
    Error::with(Code::RequestSettled, words)
}

fn to(visit: &Visit, room: &str) -> Response {
    Redirect::to(&format!("/{}/{room}", visit.place)).into_response()
}
