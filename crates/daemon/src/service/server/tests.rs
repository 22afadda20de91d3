//! Conversations over a pair of sockets.

use std::{collections::BTreeMap, sync::atomic::Ordering, time::Duration};

use keyless_core::{agent::InstanceId, audit::Action};
use keyless_store::AuditQuery;
use serde_json::{Value, json};
use tokio::{
    io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader},
    net::UnixStream,
};

use super::{caller::Caller, *};
use crate::{broker::Wanted, egress_door::EgressDoor, scene::Scene, window::UnlockConfig};

/// A service that does not listen.
struct Served {
    service: Arc<Service>,
    folder: tempfile::TempDir,
}

/// The client's end of a conversation.
struct Client(BufReader<UnixStream>);

impl Served {
    async fn new() -> Self {
        let Scene { vault, log, folder } = Scene::new().await;
        let places = Places::below(folder.path());
        let door = EgressDoor::new(&Config::default()).unwrap();
        let broker = Broker::new(door, vault, log);
        let window = UnlockConfig::default().window(None).unwrap();
        let nl = Arc::new(NlService::new(&broker, &places, &Config::default().nl).unwrap());
        let desk = desk(&broker, &places, window);
        let (looks, _) = mpsc::channel(1);
        let service = Service::new(broker, nl, &desk, ([127, 0, 0, 1], 1).into(), looks);
        Self { service: Arc::new(service), folder }
    }

    fn connect(&self, bound: Option<&Arc<Bound>>) -> Client {
        let (ours, theirs) = UnixStream::pair().unwrap();
        tokio::spawn(converse(Arc::clone(&self.service), theirs, bound.cloned()));
        Client(BufReader::new(ours))
    }

    async fn jailed(&self) -> Arc<Bound> {
        let agent = self.service.nl.open_session("s-1").await.unwrap();
        let (session, over) = ("s-1".to_owned(), watch::Sender::new(false));
        Arc::new(Bound {
            session,
            agent,
            secrets: Vec::new(),
            placeholders: BTreeMap::new(),
            declared: Vec::new(),
            over,
        })
    }

    async fn lives(&self, instance: &InstanceId) -> bool {
        self.service.broker.vault().store().agent(instance).await.unwrap().is_some()
    }
}

impl Client {
    async fn say(&mut self, message: &Value) -> Value {
        let line = format!("{message}\n");
        // Who hears no more does not read either.
        let _ = self.0.get_mut().write_all(line.as_bytes()).await;
        self.hear().await
    }

    /// What comes next; null at the end.
    async fn hear(&mut self) -> Value {
        let mut line = String::new();
        let _ = self.0.read_line(&mut line).await;
        serde_json::from_str(&line).unwrap_or_default()
    }
}

fn greeting() -> Value {
    json!({
        "nl_version": "1.0", "message_type": "handshake", "message_id": "m1",
        "timestamp": jiff::Timestamp::now().to_string(), "payload": {},
    })
}

fn hello() -> Value {
    json!({ "call": "hello", "ticket": null })
}

#[tokio::test]
async fn a_run_that_is_over_is_over_for_who_is_connected() {
    let served = Served::new().await;
    let bound = served.jailed().await;
    let (mut tools, mut speaking) = (served.connect(Some(&bound)), served.connect(Some(&bound)));
    assert_eq!(tools.say(&hello()).await["ticket"]["session"], "s-1");
    assert_eq!(speaking.say(&greeting()).await["payload"]["status"], "authenticated");
    bound.over.send_replace(true);
    assert_eq!(tools.say(&hello()).await, Value::Null);
    assert_eq!(speaking.say(&greeting()).await, Value::Null);
    let mut late = served.connect(Some(&bound));
    assert_eq!(late.say(&hello()).await, Value::Null);
}

#[tokio::test]
async fn a_jail_takes_no_more_than_its_share_of_conversations() {
    let served = Served::new().await;
    let bound = served.jailed().await;
    let place = served.folder.path().join("tools.sock");
    let listener = UnixListener::bind(&place).unwrap();
    let serving = tokio::spawn(accept(Arc::clone(&served.service), listener, Some(bound)));
    let connect = async || Client(BufReader::new(UnixStream::connect(&place).await.unwrap()));
    let mut open = Vec::new();
    for _ in 0..CONVERSATIONS_OF_A_JAIL {
        let mut client = connect().await;
        assert_eq!(client.say(&hello()).await["ticket"]["session"], "s-1");
        open.push(client);
    }
    let mut refused = connect().await;
    assert_eq!(refused.hear().await["code"], "too_many_connections");
    assert_eq!(refused.hear().await, Value::Null);
    open.clear();
    while connect().await.say(&hello()).await["ticket"]["session"] != "s-1" {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    serving.abort();
}

#[tokio::test]
async fn a_question_ends_with_its_session() {
    let served = Served::new().await;
    let bound = served.jailed().await;
    let (session, agent, entered, peer) = (None, None, None, None);
    let mut caller = Caller { session, agent, entered, bound: Some(Arc::clone(&bound)), peer };
    let asking = caller.while_it_lasts(std::future::pending::<Result<(), Error>>());
    let (asked, _) = tokio::join!(asking, async { bound.over.send_replace(true) });
    assert_eq!(asked.unwrap_err().code(), Code::SessionEnded);
}

#[tokio::test]
async fn who_speaks_without_a_credential_is_seen_and_can_be_ended() {
    let served = Served::new().await;
    let mut client = served.connect(None);
    let acknowledged = client.say(&greeting()).await;
    let instance = acknowledged["payload"]["session_id"].as_str().unwrap();
    let rows = served.service.book.rows();
    assert_eq!(rows.len(), 1);
    assert!(rows[0].id.starts_with("m-"), "{rows:?}");
    let instance = InstanceId::parse(instance).unwrap();
    assert!(served.lives(&instance).await && served.service.book.end(&rows[0].id));
    assert_eq!(client.hear().await, Value::Null);
    while served.lives(&instance).await {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test]
async fn new_agents_without_a_credential_are_so_many_a_minute() {
    let served = Served::new().await;
    for _ in 0..30 {
        let acknowledged = served.connect(None).say(&greeting()).await;
        assert_eq!(acknowledged["payload"]["status"], "authenticated");
    }
    let mut refused = served.connect(None);
    let told = refused.say(&greeting()).await;
    let error = &told["payload"]["error"];
    assert_eq!(error["keyless_code"], "rate_limited", "{told}");
    assert_eq!(
        (&error["details"]["limit"], &error["details"]["window_seconds"]),
        (&30.into(), &60.into())
    );
    assert!(
        error["details"]["retry_after_seconds"].as_u64().is_some_and(|wait| wait <= 60),
        "{told}"
    );
    assert_eq!(refused.hear().await, Value::Null);
    // Who has a jail is not kept out by those.
    let bound = served.jailed().await;
    let told = served.connect(Some(&bound)).say(&greeting()).await;
    assert_eq!(told["payload"]["status"], "authenticated");
}

#[tokio::test]
async fn a_session_that_lasted_until_its_end_is_told_so_and_no_other() {
    let served = Served::new().await;
    fs::create_dir(served.service.places.runtime()).unwrap();
    let wanted = serde_json::to_value(Wanted::Nothing).unwrap();
    let open = json!({ "call": "open_session", "wanted": wanted, "inherited": [] });
    let opened = async || {
        let mut run = served.connect(None);
        let offer = run.say(&open).await;
        assert_eq!(offer["answer"], "session", "{offer}");
        (run, offer["id"].as_str().unwrap().to_owned())
    };
    let hang_up = async |mut run: Client| {
        run.0.get_mut().shutdown().await.unwrap();
        run.hear().await["answer"].clone()
    };
    let (lasted, _) = opened().await;
    assert_eq!(hang_up(lasted).await, "lasted");
    let (ended, id) = opened().await;
    assert!(served.service.book.end(&id));
    assert_eq!(hang_up(ended).await, Value::Null);
    let (locked, _) = opened().await;
    // Who locked may know it, and end its command, before sessions have ended.
    assert_eq!(served.connect(None).say(&json!({ "call": "lock" })).await["answer"], "locked");
    assert_eq!(hang_up(locked).await, Value::Null);
}

/// Another process has the store locked for longer than a broker that is well takes to say how it is.
#[tokio::test]
async fn a_locked_store_is_no_broker_that_hangs() {
    let served = Served::new().await;
    let (path, life) = ("team/a/key".parse().unwrap(), jiff::SignedDuration::from_millis(1));
    let requests = served.service.broker.requests();
    let asked = keyless_core::approval::Asked::provision();
    requests.ask("s-1", Some(&path), asked, Some(life)).await.unwrap();
    let _holder = crate::scene::held(served.folder.path()).await;
    let mut client = served.connect(None);
    let mut within = async |patience, call: &str| {
        let asked = json!({ "call": call });
        let answer = tokio::time::timeout(patience, client.say(&asked)).await.unwrap();
        assert_eq!(answer["answer"], call);
        answer
    };
    within(Duration::from_millis(500), "alive").await;
    let status = within(keyless_client::PATIENCE, "status").await;
    assert!(status["waiting"].is_null(), "what could not be told is not none: {status}");
}

/// What can't be opened to its end leaves no socket, nobody who serves one, and no session that never ends.
#[tokio::test]
async fn a_session_that_fails_to_open_leaves_nothing_behind() {
    let served = Served::new().await;
    served.service.places.prepare_runtime().unwrap();
    let sockets = || {
        let all = std::fs::read_dir(served.service.places.runtime()).unwrap();
        all.filter(|file| file.as_ref().unwrap().path().extension().is_some_and(|e| e == "sock"))
            .count()
    };
    let trigger =
        "CREATE TRIGGER full BEFORE INSERT ON agents BEGIN SELECT raise(ABORT, 'no'); END";
    crate::scene::behind_the_back(served.folder.path(), trigger);
    let hidden = Vec::new().into();
    let opened = served.service.open(&Wanted::All, &[], None, hidden).await;
    assert!(opened.is_err());
    assert_eq!((sockets(), served.service.sessions.load(Ordering::Acquire)), (0, 0));
    let log = served.service.broker.log();
    log.flush().await.unwrap();
    let all = served.service.broker.vault().store();
    let lives = async |action| {
        let wanted = AuditQuery { action: Some(action), ..AuditQuery::default() };
        all.audit_query(&wanted).await.unwrap().len()
    };
    assert_eq!((lives(Action::SessionStart).await, lives(Action::SessionEnd).await), (1, 1));
}

/// Whoever ends the service would wait for it in vain, and its agent would live on.
#[tokio::test]
async fn a_session_whose_owner_panics_is_over() {
    let served = Served::new().await;
    served.service.places.prepare_runtime().unwrap();
    let (held, _) =
        served.service.open(&Wanted::Nothing, &[], None, Vec::new().into()).await.unwrap();
    let agents = async || served.service.broker.vault().store().agents().await.unwrap().len();
    assert_eq!((served.service.sessions.load(Ordering::Acquire), agents().await), (1, 1));
    let owner = tokio::spawn(async move {
        let _held = held;
        panic!("as a fault of ours would");
    });
    assert!(owner.await.unwrap_err().is_panic());
    assert_eq!(served.service.sessions.load(Ordering::Acquire), 0);
    let over = async {
        while agents().await > 0 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(5), over).await.expect("its agent is over");
    served.service.broker.log().flush().await.unwrap();
    let wanted = AuditQuery { action: Some(Action::SessionEnd), ..AuditQuery::default() };
    let store = served.service.broker.vault().store();
    assert_eq!(store.audit_query(&wanted).await.unwrap().len(), 1);
}
