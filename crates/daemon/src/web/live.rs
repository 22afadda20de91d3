//! Tells an open page that something changed: server-sent events, at most a few a second.

use std::{convert::Infallible, sync::Arc, time::Duration};

use axum::{
    extract::State,
    response::{
        Sse,
        sse::{Event, KeepAlive},
    },
};
use futures_util::{Stream, stream::unfold};
use keyless_core::{
    Error,
    approval::{RequestId, Status},
};
use tokio::time::sleep;

use super::{Web, form::Proven, visitors::Visit};

/// Requests also end by their time, and the proof by its own.
const LOOK: Duration = Duration::from_secs(1);
/// However fast agents ask, a page is drawn anew this often at most.
const PAUSE: Duration = Duration::from_millis(300);

/// What is told last is remembered, so that only news are told.
struct Following {
    web: Arc<Web>,
    visit: Arc<Visit>,
    last: Option<Vec<RequestId>>,
    over: bool,
}

pub(super) async fn events(
    State(web): State<Arc<Web>>,
    Proven(visit): Proven,
) -> Sse<impl Stream<Item = Result<Event, Infallible>>> {
    let following = Following { web, visit, last: None, over: false };
    let events = unfold(following, |mut following| async {
        let event = following.next().await?;
        Some((Ok(event), following))
    });
    Sse::new(events).keep_alive(KeepAlive::new())
}

impl Following {
    async fn next(&mut self) -> Option<Event> {
        if self.over {
            return None;
        }
        loop {
            if !self.visit.is_proven() || !self.web.desk.vault.is_open() {
                self.over = true;
                return Some(Event::default().event("over").data("sign in again"));
            }
            let Ok(waiting) = waiting(&self.web).await else { return None };
            if self.last.as_ref() != Some(&waiting) {
                let event = Event::default().event("waiting").data(waiting.len().to_string());
                self.last = Some(waiting);
                return Some(event);
            }
            tokio::select! {
                () = self.web.desk.requests.changed() => sleep(PAUSE).await,
                () = sleep(LOOK) => {}
            }
        }
    }
}

async fn waiting(web: &Web) -> Result<Vec<RequestId>, Error> {
    let now = jiff::Timestamp::now();
    let all = web.desk.requests.all().await?;
    let waiting = all.into_iter().filter(|request| request.status(now) == Status::Pending);
    Ok(waiting.map(|request| request.id).collect())
}
