//! The service's side of `agent.sock`.

mod caller;
mod conversation;
mod lines;
mod own;
mod sessions;

use std::{
    fs,
    net::SocketAddr,
    path::PathBuf,
    sync::{Arc, atomic::AtomicU64},
};

use futures_util::future::{BoxFuture, LocalBoxFuture};
use keyless_core::{Code, Error};
use keyless_sockets::Accepting;
use parking_lot::Mutex;
use tokio::{
    net::{UnixListener, UnixStream},
    sync::{Semaphore, mpsc, oneshot, watch},
    task::JoinSet,
    time::timeout,
};

pub use self::own::{OwnTools, open_own_session};
use self::{caller::Bound, conversation::converse};
use super::{protocol::Answer, turn::serve_alone};
use crate::{
    agreed::check_agreed,
    broker::{Broker, agent},
    caution::LastManifest,
    config::{Config, NlConfig},
    desktop,
    hardening::raise_open_files,
    liveness::LivenessChecks,
    log_keeping::{SigningProblem, keep_log},
    nl::{Listeners, NlService, Telling, end_unfit, keep_phases, tell_all, tidy_agents},
    operator::{Approver, OperatorDoor, Overview},
    places::Places,
    reload::{self, Change, Watcher},
    run::loopback_listener,
    service_files::in_words,
    session_book::SessionBook,
    session_broker::{LAST_TRIES, at_last},
    sockets::{bind_private, next_own},
    stop::Stop,
    systemd,
    web::{Desk, Locking, Web},
    window::{Keeper, Window},
};

/// A broker that listens.
struct Service {
    broker: Broker,
    nl: Arc<NlService>,
    places: Places,
    keeper: Arc<Keeper>,
    checks: Arc<LivenessChecks>,
    sessions: Arc<AtomicU64>,
    book: Arc<SessionBook>,
    lock: Arc<watch::Sender<Locking>>,
    closing: watch::Sender<bool>,
    proxy: SocketAddr,
    web: Arc<Web>,
    /// Where who begins a session has config.toml looked at.
    config_looks: mpsc::Sender<Looked>,
    /// Why config.toml as it lies there is not in force.
    config_problem: Mutex<Option<Error>>,
    signing_problem: SigningProblem,
    last_manifest: Arc<LastManifest>,
}

impl Service {
    fn new(
        broker: Broker,
        nl: Arc<NlService>,
        desk: &Arc<Desk>,
        proxy: SocketAddr,
        config_looks: mpsc::Sender<Looked>,
    ) -> Self {
        Self {
            checks: Arc::new(LivenessChecks::new(&desk.places, desk.log.clone())),
            broker,
            nl,
            places: desk.places.clone(),
            keeper: Arc::clone(&desk.keeper),
            sessions: Arc::default(),
            book: Arc::clone(&desk.book),
            lock: Arc::clone(&desk.lock),
            closing: watch::Sender::new(false),
            proxy,
            web: Arc::new(Web::new(Arc::clone(desk))),
            config_looks,
            config_problem: Mutex::default(),
            signing_problem: SigningProblem::default(),
            last_manifest: Arc::default(),
        }
    }
}

/// What the operator has of a broker.
fn desk(broker: &Broker, places: &Places, window: Window) -> Arc<Desk> {
    let (vault, log) = (Arc::clone(broker.vault()), broker.log().clone());
    Arc::new(Desk {
        requests: Arc::clone(broker.requests()),
        approver: Arc::new(Approver::of(broker).checking(places).asking_at_least(window.floor)),
        overview: Overview::with_log(Arc::clone(&vault), log.clone()).asking_at_least(window.floor),
        keeper: Arc::new(Keeper::new(Arc::clone(&vault), log.clone(), window)),
        book: Arc::default(),
        lock: Arc::default(),
        places: places.clone(),
        log,
        vault,
    })
}

/// Serves until the window ends, somebody locks, or SIGTERM or SIGINT (at a terminal SIGHUP too); each way sessions end in order, on
/// record. `ready` is called once the sockets listen, with the address where NL is served over HTTP.
// Boxed, as what is awaited in another crate is compiled in that one, and the binary's own is not optimised.
pub fn serve<'a>(
    broker: Broker,
    places: Places,
    window: Window,
    config: &'a Config,
    ready: Box<dyn FnOnce(Option<SocketAddr>) + 'a>,
) -> LocalBoxFuture<'a, Result<(), Error>> {
    Box::pin(serve_to_the_end(broker, places, window, config, ready))
}

async fn serve_to_the_end(
    broker: Broker,
    places: Places,
    window: Window,
    config: &Config,
    ready: Box<dyn FnOnce(Option<SocketAddr>) + '_>,
) -> Result<(), Error> {
    raise_open_files();
    let mut stop = Stop::listen()?;
    // To a service SIGHUP says that its files have changed, to who has a terminal that this is gone.
    let has_terminal = fs::File::open("/dev/tty").is_ok();
    if has_terminal {
        stop = stop.and_hangups()?;
    }
    let nl = &config.nl;
    // What a key's file lacks is said now, and not when something has to be told.
    for hook in &nl.webhooks {
        hook.key.check()?;
    }
    // Whoever served when this process began may be gone by now.
    let places = places.served_here();
    places.prepare_runtime()?;
    // One broker serves a store: a second one is refused.
    let serving = serve_alone(&places).await?;
    let listener = bind_private(&places.agent_socket()).await?;
    let operator_listener = bind_private(&places.operator_socket()).await?;
    let speaking = Arc::new(NlService::new(&broker, &places, nl)?);
    let nl_doors = Listeners::open(Arc::clone(&speaking), &places, nl).await;
    // As of an address that somebody else has: nothing of this one stays.
    let nl_doors = nl_doors.inspect_err(|_| remove_sockets(&places))?;
    // What can't be written now is tried again by upkeep.
    let _ = speaking.end_orphans().await;
    let (proxy_listener, proxy) = loopback_listener().await?;
    broker.log_strangers();
    tokio::spawn(Arc::clone(broker.engine()).serve_proxy(proxy_listener));
    // What goes on beside the conversations, and ends with them.
    let mut beside = JoinSet::new();
    let desk = desk(&broker, &places, window);
    let keeper = Arc::clone(&desk.keeper);
    let (looks, looks_wanted) = mpsc::channel(1);
    let service = Service::new(broker, speaking, &desk, proxy, looks);
    begin_upkeep(&mut beside, &service, nl);
    let door = OperatorDoor::new(&service.broker, desk, Arc::clone(&service.web));
    beside.spawn(Arc::new(door).serve(operator_listener));
    let service = Arc::new(service);
    let mut locked = service.lock.subscribe();
    let watcher = Watcher::new(vec![service.places.config_file()]).await;
    let watcher = if has_terminal { watcher } else { watcher.and_hangups()? };
    beside.spawn(follow_config(Arc::clone(&service), watcher, looks_wanted));
    keeper.opened("from cold").await;
    ready(nl_doors.http);
    systemd::tell("READY=1");
    tokio::select! {
        () = keeper.run() => {}
        _ = locked.wait_for(|locking| *locking == Locking::Now) => {}
        () = stop.asked() => {}
        () = accept(Arc::clone(&service), listener, None) => {}
    }
    systemd::tell("STOPPING=1");
    drop(nl_doors);
    // The sockets go first: who comes now finds the store locked.
    remove_sockets(&service.places);
    drop((serving, beside));
    service.nl.end_actions(LAST_TRIES).await;
    service.end_sessions().await;
    if service.broker.vault().is_open() {
        service.broker.session_values().settle().await;
    }
    // What another process holds up is left to the last tries.
    let _ =
        timeout(LAST_TRIES, keeper.closed("operator", "for good, until it is unlocked anew")).await;
    // Sessions have ended theirs; what a killed client left goes too.
    let (requests, log) = (service.broker.requests(), service.broker.log());
    let (over, told) =
        tokio::join!(at_last(|| requests.take_all_back()), log.flush_within(LAST_TRIES));
    if told.is_err() {
        service.nl.owe_ends();
    }
    over.and(told)
}

fn remove_sockets(places: &Places) {
    let _ = fs::remove_file(places.agent_socket());
    let _ = fs::remove_file(places.operator_socket());
}

/// What happens by itself as time goes by, to agents, rotations, requests and the log.
fn begin_upkeep(
    beside: &mut JoinSet<()>,
    Service { broker, nl: speaking, places, signing_problem, .. }: &Service,
    nl: &NlConfig,
) {
    let (vault, log) = (broker.vault(), broker.log());
    let telling = Telling {
        vault: Arc::clone(vault),
        log: log.clone(),
        engine: Arc::clone(broker.engine()),
        places: places.clone(),
        grace: nl.grace(),
    };
    beside.spawn(tidy_agents(Arc::clone(speaking)));
    beside.spawn(end_unfit(Arc::clone(speaking)));
    beside.spawn(tell_all(telling, nl.webhooks.clone()));
    beside.spawn(keep_phases(Arc::clone(vault), log.clone(), nl.grace()));
    beside.spawn(desktop::watch(Arc::clone(broker.requests()), places.clone()));
    let problem = Arc::clone(signing_problem);
    beside.spawn(keep_log(Arc::clone(vault), log.clone(), places.clone(), nl.profile, problem));
}

impl Service {
    /// The faults of the operator's services that can't be used, in words.
    async fn provider_problems(&self) -> Vec<String> {
        let files = Arc::clone(&self.nl.service_files);
        let faults = tokio::task::spawn_blocking(move || files.faults()).await.unwrap_or_default();
        faults.iter().map(in_words).collect()
    }
}

/// Told once what config.toml says is in force, or known not to be.
type Looked = oneshot::Sender<()>;

/// Keeps the policy in step with config.toml; one that can't be used leaves what is in force, and
/// `keyless status` says why.
async fn follow_config(
    service: Arc<Service>,
    mut watcher: Watcher,
    mut wanted: mpsc::Receiver<Looked>,
) {
    loop {
        let file = service.places.config_file();
        let loaded = Config::load(&file);
        let mut files = vec![file];
        files.push(service.places.agreed_file());
        files.extend(loaded.iter().flat_map(|config| config.egress.files()));
        watcher.watch(files.clone()).await;
        let (change, looked) = tokio::select! {
            change = watcher.changed() => (Some(change), None),
            Some(looked) = wanted.recv() => (watcher.changed_by_now().await, Some(looked)),
        };
        if let Some(change) = change {
            take_up(&service, &change, &files).await;
        }
        // Who no longer waits has gone on without.
        let _ = looked.map(|looked| looked.send(()));
    }
}

async fn take_up(service: &Service, change: &Change, files: &[PathBuf]) {
    let reloaded = taken_up(service).await;
    let who = agent("broker", "broker");
    // What can't be written stops what agents do, not what the operator has said.
    let entry = reload::entry(who, change, files, reloaded.as_ref().err());
    let _ = service.broker.log().append(entry).await;
    *service.config_problem.lock() = reloaded.err();
}

async fn taken_up(service: &Service) -> Result<(), Error> {
    let config = Config::load(&service.places.config_file())?;
    let config = check_agreed(&service.places, service.broker.vault(), config).await?;
    service.broker.reload(&config)
}

/// Conversations of the tools in one jail, which must not take the descriptors of everybody else. A
/// process outside of jails could end the broker by other means.
const CONVERSATIONS_OF_A_JAIL: usize = 64;

/// Serves a socket: `agent.sock`, or the one of the session `bound`, for the tools inside its jail.
async fn accept(service: Arc<Service>, listener: UnixListener, bound: Option<Arc<Bound>>) {
    let most = bound.as_ref().map_or(Semaphore::MAX_PERMITS, |_| CONVERSATIONS_OF_A_JAIL);
    let room = Arc::new(Semaphore::new(most));
    let mut accepting = Accepting::at(listener);
    loop {
        let stream = next_own(&mut accepting).await;
        let Ok(place) = Arc::clone(&room).try_acquire_owned() else {
            turn_away(&stream);
            continue;
        };
        let conversation = converse(Arc::clone(&service), stream, bound.clone());
        tokio::spawn(async move {
            conversation.await;
            drop(place);
        });
    }
}

/// Says that there are too many. Who does not read it at once is not waited for.
fn turn_away(stream: &UnixStream) {
    let answer = Answer::error(&Code::TooManyConnections.into());
    if let Ok(text) = serde_json::to_vec(&answer) {
        let _ = stream.try_write(&[&text, &b"\n"[..]].concat());
    }
}

/// [`accept`] without its type, which would contain itself: a session is opened inside a conversation.
fn serve_tools(
    service: Arc<Service>,
    listener: UnixListener,
    bound: Option<Arc<Bound>>,
) -> BoxFuture<'static, ()> {
    Box::pin(accept(service, listener, bound))
}

#[cfg(test)]
mod tests;
