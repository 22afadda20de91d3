//! A word on the desktop when an agent asks for something, where there is a desktop.
//!
//! It says what kind of question waits, about which secret, and how to answer it: nothing that the agent wrote beside a
//! path's letters, no value, no button that answers. A bus that is not there or does not answer holds nothing up.
//! Source: <https://specifications.freedesktop.org/notification-spec/latest/>

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
    time::Duration,
};

use jiff::Timestamp;
use keyless_core::approval::{Request, RequestId, RequestKind, Status};
use serde::Deserialize;
use tokio::{task::spawn_blocking, time::timeout};
use zbus::{Connection, zvariant::Value};

use crate::{config::Config, places::Places, requests::Requests};

/// For everything from the bus to the notification's number.
const PATIENCE: Duration = Duration::from_secs(5);
/// More than that at once are told as a number.
const SINGLE: usize = 3;

/// `[desktop]` of config.toml. Read whenever something is asked.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct DesktopConfig {
    /// Whether the desktop shows what waits for a person.
    pub notify: bool,
}

impl Default for DesktopConfig {
    fn default() -> Self {
        Self { notify: true }
    }
}

/// What stands in a notification.
#[derive(Debug, PartialEq, Eq)]
struct Words {
    summary: String,
    body: String,
}

/// Tells the desktop of each request that comes to wait, for as long as it is polled.
pub(crate) async fn watch(requests: Arc<Requests>, places: Places) {
    let mut told = HashSet::new();
    loop {
        let changed = requests.changed();
        // What can't be read now is read at the next change.
        if let Ok(all) = requests.all().await {
            let news = news(&mut told, all, Timestamp::now());
            if !news.is_empty() && is_wanted(&places).await {
                tell(&news).await;
            }
        }
        changed.await;
    }
}

/// The requests that wait and were not told of yet.
fn news(told: &mut HashSet<RequestId>, all: Vec<Request>, now: Timestamp) -> Vec<Request> {
    let waiting: Vec<_> =
        all.into_iter().filter(|request| request.status(now) == Status::Pending).collect();
    let before = std::mem::take(told);
    told.extend(waiting.iter().map(|request| request.id.clone()));
    waiting.into_iter().filter(|request| !before.contains(&request.id)).collect()
}

async fn is_wanted(places: &Places) -> bool {
    let file = places.config_file();
    let read = spawn_blocking(move || Config::load(&file)).await;
    // A file that can't be used is told elsewhere, and its word may be "no".
    matches!(read, Ok(Ok(config)) if config.desktop.notify)
}

async fn tell(news: &[Request]) {
    let words: Vec<Words> = match news {
        few if few.len() <= SINGLE => few.iter().map(one).collect(),
        many => vec![several(many.len())],
    };
    let _ = timeout(PATIENCE, async {
        let bus = Connection::session().await?;
        for words in &words {
            notify(&bus, words).await?;
        }
        zbus::Result::Ok(())
    })
    .await;
}

async fn notify(bus: &Connection, words: &Words) -> zbus::Result<()> {
    let name = "org.freedesktop.Notifications";
    let hints = HashMap::from([
        // Normal: it may go away by itself, as the request does.
        ("urgency", Value::U8(1)),
        ("category", Value::from("im.received")),
    ]);
    let (replaces, icon, actions, until_its_own_time) = (0_u32, "dialog-password", [""; 0], -1_i32);
    let Words { summary, body } = words;
    let fields =
        ("Keyless", replaces, icon, summary, body, actions.as_slice(), hints, until_its_own_time);
    let path = "/org/freedesktop/Notifications";
    bus.call_method(Some(name), path, Some(name), "Notify", &fields).await.map(drop)
}

/// A path has letters, digits, `-` and `/` alone, so nothing here is markup.
fn one(request: &Request) -> Words {
    let what = match request.asked.kind() {
        RequestKind::ActionApproval => "wants to act with your secrets",
        RequestKind::DeployApply => "wants to deploy agent configuration",
        RequestKind::MetadataProposal => "proposes to describe a secret anew",
        RequestKind::NewPathProposal => "proposes a new secret",
        RequestKind::Provision => "needs a secret's value",
        RequestKind::Rotation => "asks for a secret's rotation",
        RequestKind::UseApproval => "wants to use a secret",
    };
    let id = &request.id;
    let about = request.path.as_ref().map(|path| format!("{path}\n")).unwrap_or_default();
    Words {
        summary: format!("An agent {what}"),
        body: format!("{about}Answer with keyless approve {id}, keyless ui or keyless web."),
    }
}

fn several(count: usize) -> Words {
    Words {
        summary: format!("{count} requests of agents wait for you"),
        body: "Answer with keyless approve, keyless ui or keyless web.".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use jiff::SignedDuration;
    use keyless_core::{
        SecretPath,
        approval::{Asked, FullRequestId},
    };

    use super::*;

    fn request(number: u8, asked: Asked, now: Timestamp) -> Request {
        let path = SecretPath::parse("team/github/token").unwrap();
        let id = FullRequestId::from_random([number; 16]);
        Request::new(id, Some(path), asked, "m-1", None, now)
    }

    #[test]
    fn each_request_is_told_once_and_while_it_waits() {
        let now = Timestamp::UNIX_EPOCH;
        let (first, second) =
            (request(1, Asked::provision(), now), request(2, Asked::rotation(), now));
        let mut told = HashSet::new();
        let ids = |news: Vec<Request>| {
            news.into_iter().map(|news| news.id.to_string()).collect::<Vec<_>>()
        };
        let all = || vec![first.clone(), second.clone()];
        assert_eq!(ids(news(&mut told, vec![first.clone()], now)), [first.id.to_string()]);
        assert_eq!(ids(news(&mut told, all(), now)), [second.id.to_string()]);
        assert!(news(&mut told, all(), now).is_empty());
        let later = now + SignedDuration::from_hours(1);
        assert!(news(&mut HashSet::new(), all(), later).is_empty(), "its time is over");
    }

    #[test]
    fn nothing_that_the_agent_wrote_is_shown() {
        let reason = "<b>click</b> \u{202e} kpop".to_owned();
        let asked = Asked::use_approval(reason);
        let words = one(&request(1, asked, Timestamp::UNIX_EPOCH));
        assert_eq!(words.summary, "An agent wants to use a secret");
        assert!(words.body.starts_with("team/github/token\nAnswer with keyless approve prov-"));
        assert!(!format!("{words:?}").contains("click"), "{words:?}");
    }
}
