//! What a person does at the page: follows the link, signs in, answers, ends, locks.

use std::sync::Arc;

use axum::{
    extract::{Path, State},
    http::{HeaderMap, HeaderValue, header},
    response::{IntoResponse, Redirect, Response},
};
use keyless_core::{Code, Error, SafeText, approval::RequestId, grant::GrantId};
use zeroize::Zeroizing;

use super::{
    Web, dialog,
    form::{COOKIE, Sent, SentByGuest},
    frame::{Failure, locked, signed_out, step},
    visitors::{Opened, Visit},
    words::outcome,
};
use crate::{broker::agent, operator::Weight};

pub(super) type Answered = Result<Response, Failure>;

/// The link: good once, it gives the visit its cookie.
pub(super) async fn open(
    State(web): State<Arc<Web>>,
    Path(link): Path<String>,
    headers: HeaderMap,
) -> Answered {
    let opened = web.visitors.open(&link)?.ok_or(Failure::NoVisit)?;
    let caused_by = headers.get("sec-fetch-site").map(HeaderValue::as_bytes);
    if matches!(caused_by, None | Some(b"none" | b"same-origin")) {
        return with_cookie(&web, &opened, Redirect::to(&format!("/{}/", opened.place)));
    }
    with_cookie(&web, &opened, step(&opened.place))
}

pub(super) async fn sign_in(State(web): State<Arc<Web>>, mut sent: SentByGuest) -> Answered {
    match web.factor.prove(&web, &sent.visit, sent.fields.take("factor")).await {
        Ok(()) => {
            // A path, a cookie or a form's word from before the proof is worth nothing after it.
            let renewed = web.visitors.renew(&sent.visit)?.ok_or(Failure::NoVisit)?;
            with_cookie(&web, &renewed, Redirect::to(&format!("/{}/", renewed.place)))
        }
        Err(error) => Err(Failure::Unproven(sent.visit, Some(error), web.desk.vault.is_open())),
    }
}

pub(super) async fn sign_out(State(web): State<Arc<Web>>, sent: SentByGuest) -> Answered {
    sent.visit.forget_proof();
    web.visitors.close(&sent.visit);
    Ok(signed_out().into_response())
}

pub(super) async fn lock(State(web): State<Arc<Web>>, sent: Sent) -> Answered {
    web.visitors.close(&sent.visit);
    web.desk.lock_all();
    Ok(locked().into_response())
}

/// An answer to a request.
pub(super) async fn answer(
    State(web): State<Arc<Web>>,
    Path((_, id)): Path<(String, String)>,
    mut sent: Sent,
) -> Answered {
    let id = request_id(&id)?;
    let waiting = web.desk.approver.pending().await?;
    let Some(shown) = waiting.into_iter().find(|shown| shown.id == id) else {
        return Err(settled(&web, &id).await.into());
    };
    let (answer, value) = dialog::read(&shown, &web.desk.providers().await, &mut sent.fields)?;
    prove_once(&web, &mut sent, Weight::of_answer(&shown, &answer)).await?;
    let settled = web.desk.approver.answer(&id, answer, value).await?;
    sent.visit.leave(outcome(&settled));
    Ok(to(&sent.visit, ""))
}

/// Takes the factor from a form whose deed asks for it.
pub(super) async fn prove_once(web: &Web, sent: &mut Sent, weight: Weight) -> Result<(), Error> {
    let proof = web.desk.prove_again().await.takes(weight);
    if !sent.visit.owes(proof) {
        return Ok(());
    }
    prove_again(web, &sent.visit, sent.fields.take("factor")).await
}

/// The factor once more. Nothing at all is no wrong one: the form was drawn while the proof was fresh.
async fn prove_again(web: &Web, visit: &Visit, factor: Zeroizing<String>) -> Result<(), Error> {
    if factor.is_empty() {
        let words = SafeText::words("this takes your passphrase or a code once more");
        return Err(Error::with(Code::OperatorRequired, words));
    }
    web.factor.prove(web, visit, factor).await?;
    visit.prove();
    Ok(())
}

pub(super) async fn end_session(
    State(web): State<Arc<Web>>,
    Path((_, id)): Path<(String, String)>,
    sent: Sent,
) -> Answered {
    web.desk.end_session(&id, agent("web", "operator")).await?;
    sent.visit.leave(format!("Session {id} has ended."));
    Ok(to(&sent.visit, "sessions"))
}

pub(super) async fn take_back(
    State(web): State<Arc<Web>>,
    Path((_, id)): Path<(String, String)>,
    sent: Sent,
) -> Answered {
    let over = web.desk.approver.take_back(&request_id(&id)?).await?;
    sent.visit.leave(format!("{}: taken back.", over.title()));
    Ok(to(&sent.visit, "approvals"))
}

pub(super) async fn revoke_grant(State(web): State<Arc<Web>>, sent: Sent) -> Answered {
    let id = GrantId::parse(sent.fields.text("grant")).ok_or(Code::GrantMissing)?;
    let revoked = web.desk.overview.grant_book().revoke(&id, None).await?;
    sent.visit.leave(format!("{} permits nothing any more.", revoked.grant_id));
    Ok(to(&sent.visit, "grants"))
}

/// Reads a request's name.
pub(super) fn request_id(text: &str) -> Result<RequestId, Error> {
    RequestId::parse(text).ok_or_else(|| Code::RequestNotFound.into())
}

/// It has its answer, or its time is over: which, is told.
async fn settled(web: &Web, id: &RequestId) -> Error {
    match web.desk.approver.look(id).await {
        Ok((shown, _)) => {
            let words = SafeText::default().and(id).and(" does not wait any more: it is ");
            Error::with(Code::RequestSettled, words.and(shown.status.as_str()))
        }
        Err(error) => error,
    }
}

fn with_cookie(web: &Web, opened: &Opened, response: impl IntoResponse) -> Answered {
    let Opened { place, cookie } = opened;
    let secure = if web.is_secure() { "; Secure" } else { "" };
    let cookie = format!("{COOKIE}={cookie}; Path=/{place}/; HttpOnly; SameSite=Strict{secure}");
    let mut response = response.into_response();
    let cookie = HeaderValue::try_from(cookie).map_err(|_| Code::Internal)?;
    response.headers_mut().insert(header::SET_COOKIE, cookie);
    Ok(response)
}

pub(super) fn to(visit: &Visit, room: &str) -> Response {
    Redirect::to(&format!("/{}/{room}", visit.place)).into_response()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        operator::Proof,
        web::{form::query, scene::Scene},
    };

    /// A visit whose cookie somebody else may know, and what its browser sends to sign in.
    fn guest(scene: &Scene) -> (Opened, SentByGuest) {
        let visitors = &scene.web.visitors;
        let opened = visitors
            .open(&visitors.new_link(crate::web::visitors::Whose::Operators).unwrap())
            .unwrap()
            .unwrap();
        let visit = visitors.visit(&opened.place, &opened.cookie).unwrap();
        let fields = query(Some("factor=correct+horse+battery+staple"));
        (opened, SentByGuest { visit, fields, under_way: None })
    }

    fn cookie(response: &Response) -> &str {
        let line = response.headers()[header::SET_COOKIE].to_str().unwrap();
        line.strip_prefix("keyless=").unwrap().split(';').next().unwrap()
    }

    /// Where an answer leads, which is where its cookie is for.
    fn place(response: &Response) -> String {
        let place = response.headers()[header::LOCATION].to_str().unwrap();
        let line = response.headers()[header::SET_COOKIE].to_str().unwrap();
        assert!(line.contains(&format!("; Path={place};")), "{line}");
        place.trim_matches('/').to_owned()
    }

    #[tokio::test]
    async fn a_visit_is_another_one_once_it_is_proven() {
        let scene = Scene::new().await;
        let (opened, sent) = guest(&scene);
        let (web, before) = (&scene.web, Arc::clone(&sent.visit));
        let answer = sign_in(State(Arc::clone(web)), sent).await.ok().unwrap();
        assert!(!before.is_proven() && web.visitors.visit(&opened.place, &opened.cookie).is_none());
        let proven = place(&answer);
        assert_ne!(proven, opened.place, "browsers send its cookie to that path of every port");
        assert!(web.visitors.visit(&opened.place, cookie(&answer)).is_none());
        let after = web.visitors.visit(&proven, cookie(&answer)).unwrap();
        assert!(after.is_proven() && !after.is_own_form(before.form_word()));
        assert!(web.visitors.renew(&before).unwrap().is_none(), "a second one in flight");

        // Nobody else learned that path, and the operator has other tabs there.
        after.forget_proof();
        let again = web.visitors.renew(&after).unwrap().unwrap();
        assert!(again.place == proven && again.cookie != cookie(&answer));
        assert!(web.visitors.visit(&proven, cookie(&answer)).is_none());
    }

    #[tokio::test]
    async fn an_empty_factor_is_asked_for_and_not_counted() {
        let scene = Scene::new().await;
        let (_, sent) = guest(&scene);
        for _ in 0..9 {
            let asked = prove_again(&scene.web, &sent.visit, Zeroizing::default()).await;
            assert_eq!(asked.unwrap_err().code(), Code::OperatorRequired);
        }
        let factor = Zeroizing::new("correct horse battery staple".to_owned());
        prove_again(&scene.web, &sent.visit, factor).await.unwrap();
        assert!(!sent.visit.owes(Proof::Fresh));
    }

    /// A config.toml that is being edited.
    #[tokio::test]
    async fn a_file_that_cant_be_read_takes_a_proof_and_stops_no_denial() {
        let home = tempfile::tempdir().unwrap();
        let scene = Scene::below(home.path()).await;
        let web = &scene.web;
        let file = web.desk.places.config_file();
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        for (text, gives) in [("", true), ("[web]\nprove_again = ", false)] {
            std::fs::write(&file, text).unwrap();
            let sent = || {
                let (visit, fields) = (scene.proven_visit(), query(None));
                Sent { visit, fields, _under_way: None }
            };
            assert_eq!(prove_once(web, &mut sent(), Weight::Nothing).await, Ok(()), "{text}");
            let proven = prove_once(web, &mut sent(), Weight::Gives).await;
            assert_eq!(proven.is_ok(), gives, "{text}");
        }
    }

    #[tokio::test]
    async fn a_link_on_another_site_is_followed_by_a_step_of_its_own() {
        let scene = Scene::new().await;
        for (site, status) in [("none", 303), ("cross-site", 200)] {
            let link = scene.web.visitors.new_link(crate::web::visitors::Whose::Operators).unwrap();
            let headers = [("sec-fetch-site", site)].map(|(name, value)| {
                (header::HeaderName::from_static(name), HeaderValue::from_static(value))
            });
            let web = State(Arc::clone(&scene.web));
            let answer = open(web, Path(link), HeaderMap::from_iter(headers)).await.ok().unwrap();
            assert!(answer.status() == status && !cookie(&answer).is_empty(), "{site}");
        }
    }
}
