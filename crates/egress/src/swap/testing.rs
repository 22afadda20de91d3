//! What the tests of swap and scrub stand on: a broker in memory, made of core's real types, and
//! bodies that arrive in chosen chunks.

use std::{
    collections::VecDeque,
    convert::Infallible,
    pin::Pin,
    sync::{Arc, Mutex},
    task::{Context, Poll},
    time::Duration,
};

use bytes::Bytes;
use futures_util::future::BoxFuture;
use http::{HeaderMap, Version};
use http_body::{Body, Frame, SizeHint};
use jiff::Timestamp;
use keyless_core::{
    Allowed, Authority, Binding, Destination, EgressRule, Error, Location, LookAlike, Permit,
    Placeholder, PlaceholderForm, Scheme, SecretPath, SecretValue, SessionKey, Uptime,
    audit::{
        Action, Agent, Chain, Detail, Draft, Durable, Noted, Outcome, Outline, Target,
        portable_sha256,
    },
};

use super::{Route, SwapTable};
use crate::{
    Limits,
    ports::{Broker, Event, Released, RequestInfo},
    reading::Reading,
    room::Room,
    session::SessionSecret,
};

/// A value that needs escaping in every spelling.
pub(crate) const VALUE: &str = "s3cr\"et\\v&l+u=e/%41 end";
/// Another, plain.
pub(crate) const OTHER: &str = "other-plain-value";

/// A broker that keeps its log in memory, and waits once before it answers.
pub(crate) struct MemoryBroker {
    values: Vec<(SecretPath, String)>,
    chain: Mutex<Chain>,
    pub(crate) calls: Mutex<Vec<(Vec<SecretPath>, Vec<Location>)>>,
    /// What permits are measured by, which last for the first minute. It stands still.
    pub(crate) clock: Mutex<fn() -> Uptime>,
}

impl Broker for MemoryBroker {
    fn release<'a>(
        &'a self,
        request: &'a RequestInfo,
        uses: Vec<Allowed>,
    ) -> BoxFuture<'a, Result<Vec<Arc<Released>>, Error>> {
        Box::pin(async move {
            yield_once().await;
            let released: Vec<_> = uses.into_iter().map(|allowed| self.open(allowed)).collect();
            let paths = released.iter().map(|released| released.path().clone()).collect();
            self.calls.lock().unwrap().push((paths, request.locations.clone()));
            Ok(released)
        })
    }

    fn incident(&self, _: crate::ports::Incident) {}

    fn finished(&self, _: crate::ports::Finished) {}

    fn record(&self, _event: Event) -> Result<(), Error> {
        Ok(())
    }
}

impl MemoryBroker {
    fn open(&self, allowed: Allowed) -> Arc<Released> {
        let draft = Draft {
            at: Timestamp::now(),
            agent: Agent {
                uri: "nl://keyless.dev/run/0.1.0".to_owned(),
                organization_id: "local".to_owned(),
                session_id: "s".to_owned(),
                delegated_by: "human:operator".to_owned(),
            }
            .into(),
            action: Action::Egress,
            target: Target::Session,
            outcome: Outcome::Success,
            secrets_used: Vec::new(),
            correlation_id: "req-0".to_owned(),
            error_code: None,
            detail: Detail::default(),
            metadata: Noted::default(),
            allowed: Some(allowed),
        };
        let recorded = self
            .chain
            .lock()
            .unwrap()
            .append(Outline::new(draft, "entry"), portable_sha256, None)
            .recorded(&Durable::after_commit());
        let until = Uptime::since_start(Duration::from_mins(1));
        let permit = Permit::from_recorded(recorded, until).unwrap();
        let (path, value) =
            self.values.iter().find(|(path, _)| path == permit.path()).cloned().unwrap();
        let value = SecretValue::new(path, value.into_bytes(), Binding::Destinations).unwrap();
        Arc::new(Released::new(value, permit, *self.clock.lock().unwrap()))
    }
}

/// A session's table over a broker in memory.
pub(crate) struct Bench {
    pub(crate) table: Arc<SwapTable>,
    pub(crate) broker: Arc<MemoryBroker>,
    pub(crate) secrets: Vec<SessionSecret>,
}

impl Bench {
    /// A session with these secrets: name, value, rule, form.
    pub(crate) fn new(secrets: Vec<(&str, &str, EgressRule, PlaceholderForm)>) -> Self {
        let key = SessionKey::from_random([7; 32]);
        let path = |name: &str| SecretPath::parse(&format!("team/test/{name}")).unwrap();
        let values = secrets.iter().map(|(name, value, ..)| (path(name), (*value).to_owned()));
        let (chain, calls) = (Mutex::new(Chain::genesis()), Mutex::default());
        let clock: fn() -> Uptime = || Uptime::since_start(Duration::ZERO);
        let clock = Mutex::new(clock);
        let broker = Arc::new(MemoryBroker { values: values.collect(), chain, calls, clock });
        let secrets: Vec<SessionSecret> = (secrets.into_iter())
            .map(|(name, _, rule, form)| {
                let path = path(name);
                SessionSecret { placeholder: Placeholder::derive(&key, &path, &form), path, rule }
            })
            .collect();
        let table = Arc::new(SwapTable::new(&secrets, broker.clone(), reading()));
        Self { table, broker, secrets }
    }

    /// One secret for `api.test`, swapped anywhere.
    pub(crate) fn one() -> Self {
        Self::new(vec![("a", VALUE, rule("api.test", &Location::ALL), PlaceholderForm::Default)])
    }

    /// The placeholder of the secret with this index.
    pub(crate) fn placeholder(&self, index: usize) -> &str {
        self.secrets[index].placeholder.as_str()
    }
}

/// Room as a session has it by default.
pub(crate) fn reading() -> Reading {
    let limits = Limits::default();
    Reading::new(&Room::of(limits.whole_bytes), &limits)
}

/// A rule for one destination.
pub(crate) fn rule(to: &str, locations: &[Location]) -> EgressRule {
    let locations = locations.iter().copied().collect();
    EgressRule { locations, ..EgressRule::to(vec![Destination::parse(to).unwrap()]) }
}

/// A look-alike form of this length.
pub(crate) fn look_alike(length: usize) -> PlaceholderForm {
    PlaceholderForm::LookAlike(LookAlike::new("ghp_", length).unwrap())
}

/// Runs `with` for a route to `authority` over TLS.
pub(crate) fn route(authority: &Authority) -> Route<'_> {
    Route {
        scheme: Scheme::Https,
        authority,
        correlation_id: "req-0",
        upstream_version: Version::HTTP_11,
    }
}

/// `host:443`.
pub(crate) fn authority(host: &str) -> Authority {
    Authority::parse_for(host, Scheme::Https).unwrap()
}

/// A body that arrives in these chunks.
#[derive(Debug)]
pub(crate) struct Chunks {
    frames: VecDeque<Bytes>,
    trailers: Option<HeaderMap>,
    exact: bool,
}

impl Chunks {
    /// Cuts `text` into chunks of these sizes and a rest; its length is known if `exact`.
    pub(crate) fn cut(text: &[u8], sizes: &[usize], exact: bool) -> Self {
        let mut chunks = VecDeque::new();
        let mut rest = text;
        for size in sizes.iter().copied().chain([usize::MAX]) {
            let (chunk, after) = rest.split_at(size.min(rest.len()));
            if !chunk.is_empty() {
                chunks.push_back(Bytes::copy_from_slice(chunk));
            }
            rest = after;
        }
        Self { frames: chunks, trailers: None, exact }
    }

    pub(crate) fn with_trailers(mut self, trailers: HeaderMap) -> Self {
        self.trailers = Some(trailers);
        self
    }
}

impl Body for Chunks {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        Poll::Ready(match self.frames.pop_front() {
            Some(chunk) => Some(Ok(Frame::data(chunk))),
            None => self.trailers.take().map(|trailers| Ok(Frame::trailers(trailers))),
        })
    }

    fn is_end_stream(&self) -> bool {
        self.frames.is_empty() && self.trailers.is_none()
    }

    fn size_hint(&self) -> SizeHint {
        let length = self.frames.iter().map(Bytes::len).sum::<usize>() as u64;
        if self.exact { SizeHint::with_exact(length) } else { SizeHint::default() }
    }
}

/// Everything that a body gives, frame by frame, and its trailers.
pub(crate) async fn drained<B>(mut body: B) -> Result<(Vec<Bytes>, Option<HeaderMap>), B::Error>
where
    B: Body<Data = Bytes> + Unpin,
{
    let (mut frames, mut trailers) = (Vec::new(), None);
    while let Some(frame) = std::future::poll_fn(|cx| Pin::new(&mut body).poll_frame(cx)).await {
        match frame?.into_data() {
            Ok(data) => frames.push(data),
            Err(other) => trailers = other.into_trailers().ok(),
        }
    }
    Ok((frames, trailers))
}

/// Runs a future on this thread.
pub(crate) fn run<F: Future>(future: F) -> F::Output {
    tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap().block_on(future)
}

async fn yield_once() {
    let mut yielded = false;
    std::future::poll_fn(|cx| {
        if std::mem::replace(&mut yielded, true) {
            return Poll::Ready(());
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}
