//! Tells an open page that something changed: server-sent events, at most a few a second.

use std::{
    convert::Infallible,
    sync::Arc,
    time::{Duration, Instant},
};

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
/// A store that closes mostly takes its broker along, and then nobody is left to sign in at.
const ENDING: Duration = Duration::from_secs(2);
/// However fast agents ask, a page is drawn anew this often at most.
const PAUSE: Duration = Duration::from_millis(300);

/// What is told last is remembered, so that only news are told.
struct Following {
    web: Arc<Web>,
    visit: Arc<Visit>,
    last: Option<Vec<RequestId>>,
    told: Option<Instant>,
    over: bool,
}

pub(super) async fn events(
    State(web): State<Arc<Web>>,
    Proven(visit): Proven,
) -> Sse<impl Stream<Item = Result<Event, Infallible>>> {
    let following = Following { web, visit, last: None, told: None, over: false };
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
            if let Some(told) = self.told {
                sleep(PAUSE.saturating_sub(told.elapsed())).await;
            }
            let is_open = self.web.desk.vault.is_open();
            if !is_open {
                sleep(ENDING).await;
            }
            if !is_open || !self.visit.is_proven() {
                self.over = true;
                return Some(Event::default().event("over").data("sign in again"));
            }
            let Ok(waiting) = waiting(&self.web).await else { return None };
            if self.last.as_ref() != Some(&waiting) {
                let event = Event::default().event("waiting").data(waiting.len().to_string());
                (self.last, self.told) = (Some(waiting), Some(Instant::now()));
                return Some(event);
            }
            tokio::select! {
                () = self.web.desk.requests.changed() => {}
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

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicU64;

    use keyless_core::SecretPath;
    use tokio::time::timeout;

    use super::*;
    use crate::web::{pages, scene::Scene};

    /// A page that loads itself anew while its broker ends would show the browser's own words.
    #[tokio::test]
    async fn a_page_is_not_sent_to_a_broker_that_ends_with_its_store() {
        let scene = Scene::new().await;
        let (web, visit) = (Arc::clone(&scene.web), scene.proven_visit());
        let mut following = Following { web, visit, last: None, told: None, over: false };
        assert!(following.next().await.is_some());
        scene.web.desk.vault.lock();
        assert!(timeout(ENDING / 4, following.next()).await.is_err());
        assert!(following.next().await.is_some() && following.over);
    }

    /// Two hundred wait and fifty come in a second: a page is told as often as people look, and stays small.
    #[tokio::test]
    async fn however_fast_agents_ask_a_page_is_drawn_a_few_times_a_second() {
        let scene = Scene::new().await;
        let visit = scene.proven_visit();
        let requests = Arc::clone(&scene.web.desk.requests);
        let path = SecretPath::parse("team/some-service-with-a-name/some-token").unwrap();
        for number in 0..200 {
            requests.put(number, &path).await;
        }
        let seen = AtomicU64::new(0);
        let follow = async {
            let (web, visit) = (Arc::clone(&scene.web), Arc::clone(&visit));
            let mut following = Following { web, visit, last: None, told: None, over: false };
            loop {
                assert!(following.next().await.is_some(), "the page stays open");
                seen.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                if following.last.as_ref().is_some_and(|last| last.len() == 300) {
                    return;
                }
            }
        };
        let arrive = async {
            for number in 200..300 {
                requests.put(number, &path).await;
                sleep(Duration::from_millis(20)).await;
            }
        };
        let begun = Instant::now();
        tokio::join!(follow, arrive);
        let most = begun.elapsed().as_millis() / PAUSE.as_millis() + 2;
        let seen = u128::from(seen.into_inner());
        assert!(seen >= 2 && seen <= most, "{seen} updates, {most} at most");

        let web = axum::extract::State(Arc::clone(&scene.web));
        let axum::response::Html(list) = pages::list(web, Proven(visit)).await.ok().unwrap();
        assert_eq!(list.matches("class=\"card\"").count(), 100);
        assert!(list.contains("And 200 more"), "{list}");
        assert!(list.len() < 60 * 1024, "{} bytes", list.len());
    }
}
