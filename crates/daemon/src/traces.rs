//! Traces for the operator's collector: one span for each request, tunnel and refusal, sent as OTLP over
//! HTTP in batches. A span has what the audit log has, and less: no value, no query, no header.
//!
//! The trace's id is the request's correlation id, so that trace, log and audit find each other. The
//! log is the one to rely on: spans that can't be sent are dropped, and that is said once.

mod otlp;

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use keyless_core::{Authority, Code, Error, Scheme};
use keyless_egress::{Client, ClientRequest, Event, Finished, SoFar, Whose};
use prost::Message as _;
use tokio::{
    sync::{mpsc, oneshot},
    time::{Instant, timeout, timeout_at},
};
use uuid::Uuid;

use self::otlp::{ExportRequest, Span, attribute, number};
use crate::{
    config::Config,
    egress_door::{engine_config, explain},
    notes::{Note, Notes},
};

/// Spans that wait; when there are more, the newest are dropped.
const MOST_WAITING: usize = 8192;
/// Spans in one message.
const BATCH: usize = 512;
/// How long a span waits for others.
const PAUSE: Duration = Duration::from_secs(1);
/// How long the last spans of a process may take.
const FAREWELL: Duration = Duration::from_secs(3);
/// More than a collector says.
const MAX_ANSWER: usize = 64 << 10;

/// Where traces go: the collector's base URL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CollectorUrl {
    scheme: Scheme,
    authority: Authority,
    /// The path below which `/v1/traces` is.
    base: String,
}

/// The way to the collector. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Traces {
    queue: mpsc::Sender<Queued>,
}

enum Queued {
    Span(Box<Span>),
    /// Everything before it is to be sent now.
    Flush(oneshot::Sender<()>),
}

impl CollectorUrl {
    /// Reads `http://HOST[:PORT][/BASE]` or `https://...`.
    pub fn parse(text: &str) -> Result<Self, String> {
        let (scheme, rest) = match text.split_once("://") {
            Some(("http", rest)) => (Scheme::Http, rest),
            Some(("https", rest)) => (Scheme::Https, rest),
            _ => return Err("a collector's URL begins with http:// or https://".to_owned()),
        };
        let (host, base) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
        let authority =
            Authority::parse_for(host, scheme).map_err(|error| format!("{host:?}: {error}"))?;
        let base = base.trim_end_matches('/');
        if base.bytes().all(|byte| byte.is_ascii_graphic() && !b"?#".contains(&byte)) {
            Ok(Self { scheme, authority, base: base.to_owned() })
        } else {
            Err("the path is plain, without query".to_owned())
        }
    }
}

impl Traces {
    /// Begins to send to `url`, by the routes and roots of `config`.
    pub(crate) fn start(url: CollectorUrl, config: &Config, notes: &Notes) -> Result<Self, Error> {
        let client = Client::new(engine_config(config, None)?);
        let client = client.map_err(|error| explain(&error.into(), config))?;
        let (queue, waiting) = mpsc::channel(MOST_WAITING);
        let exporter =
            Exporter { client, url, notes: notes.clone(), complained: AtomicBool::new(false) };
        tokio::spawn(Arc::new(exporter).run(waiting));
        Ok(Self { queue })
    }

    /// A request or tunnel is over.
    pub(crate) fn finished(&self, session: &str, finished: &Finished) {
        let Finished { correlation_id, authority, request, status, .. } = finished;
        let Some(mut span) = span(correlation_id, 0, finished.took) else { return };
        describe(&mut span, session, authority.as_ref(), request.as_ref());
        if let Some(status) = status {
            span.attributes.push(number("http.response.status_code", u64::from(*status)));
        }
        span.attributes.push(number("http.request.body.size", finished.sent));
        span.attributes.push(number("http.response.body.size", finished.received));
        self.queue(span);
    }

    /// Something was refused, or failed.
    pub(crate) fn refused(&self, session: &str, event: &Event, code: Code) {
        // Beside the span of a request that had begun.
        let took = event.so_far.map_or(Duration::ZERO, |so_far| so_far.took);
        let Some(mut span) = span(&event.correlation_id, 1, took) else { return };
        describe(&mut span, session, event.authority.as_ref(), event.request.as_ref());
        if let Some(SoFar { status, sent, received, .. }) = event.so_far {
            let status = status.map(|status| number("http.response.status_code", status.into()));
            span.attributes.extend(status);
            span.attributes.push(number("http.request.body.size", sent));
            span.attributes.push(number("http.response.body.size", received));
        }
        span.attributes.push(attribute("error.type", code.as_str()));
        span.fail();
        self.queue(span);
    }

    /// Waits until what was noted so far is sent, for a moment.
    pub(crate) async fn flush(&self) {
        let (done, sent) = oneshot::channel();
        if self.queue.send(Queued::Flush(done)).await.is_ok() {
            let _ = timeout(FAREWELL, sent).await;
        }
    }

    fn queue(&self, span: Span) {
        // A collector that is too slow does not hold requests up.
        let _ = self.queue.try_send(Queued::Span(Box::new(span)));
    }
}

/// A span that ends now. The id of a request is a UUID, whose bytes are the trace's.
fn span(correlation_id: &str, variant: u8, took: Duration) -> Option<Span> {
    let id = Uuid::parse_str(correlation_id.strip_prefix("req-")?).ok()?.into_bytes();
    let own: Vec<u8> = id[8..].iter().map(|byte| byte ^ variant).collect();
    let end = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let nanoseconds = |at: Duration| u64::try_from(at.as_nanos()).unwrap_or(u64::MAX);
    let start = nanoseconds(end.saturating_sub(took));
    Some(Span::new(id.to_vec(), own, (start, nanoseconds(end))))
}

/// The words of OpenTelemetry's conventions for HTTP.
fn describe(
    span: &mut Span,
    session: &str,
    authority: Option<&Authority>,
    request: Option<&(String, String)>,
) {
    span.attributes.push(attribute("keyless.session", session));
    if let Some(Authority { host, port, .. }) = authority {
        span.attributes.push(attribute("server.address", &host.to_string()));
        span.attributes.push(number("server.port", u64::from(*port)));
    }
    match request {
        Some((method, path)) => {
            span.name.clone_from(method);
            span.attributes.push(attribute("http.request.method", method));
            span.attributes.push(attribute("url.path", path));
        }
        None => span.name.push_str("tunnel"),
    }
}

/// What sends.
struct Exporter {
    client: Client,
    url: CollectorUrl,
    notes: Notes,
    complained: AtomicBool,
}

impl Exporter {
    async fn run(self: Arc<Self>, mut waiting: mpsc::Receiver<Queued>) {
        loop {
            let (spans, end) = gather(&mut waiting).await;
            self.send(spans).await;
            match end {
                End::Batch => {}
                End::Flush(done) => drop(done.send(())),
                End::Over => return,
            }
        }
    }

    async fn send(&self, spans: Vec<Span>) {
        if spans.is_empty() {
            return;
        }
        let body = ExportRequest::of(spans).encode_to_vec();
        let target = format!("{}/v1/traces", self.url.base);
        let request = ClientRequest {
            method: "POST",
            target: &target,
            headers: vec![("content-type", "application/x-protobuf")],
            body: &body,
        };
        let CollectorUrl { scheme, authority, .. } = &self.url;
        let sent =
            self.client.send(*scheme, authority, Whose::Collectors, &request, MAX_ANSWER).await;
        let fault = match sent {
            Ok(answer) if (200..300).contains(&answer.status) => {
                self.complained.store(false, Ordering::Relaxed);
                return;
            }
            Ok(answer) => format!("it answered {}", answer.status),
            Err(error) => error.message(),
        };
        if !self.complained.swap(true, Ordering::Relaxed) {
            let text = format!("traces don't reach {}: {}", self.url.authority, fault);
            self.notes.write(Note::Warning { text: &text });
        }
    }
}

/// Why a message is sent now.
enum End {
    /// Enough spans have come, or enough time has gone.
    Batch,
    /// Somebody waits until it is sent.
    Flush(oneshot::Sender<()>),
    /// None will come any more.
    Over,
}

/// The spans of one message: the first waits for no other, and what comes soon after it goes along.
async fn gather(waiting: &mut mpsc::Receiver<Queued>) -> (Vec<Span>, End) {
    let (mut spans, mut deadline) = (Vec::new(), None);
    while spans.len() < BATCH {
        let next = match deadline {
            None => waiting.recv().await,
            Some(at) => match timeout_at(at, waiting.recv()).await {
                Ok(next) => next,
                Err(_) => return (spans, End::Batch),
            },
        };
        match next {
            Some(Queued::Span(span)) => {
                spans.push(*span);
                // From the first one on: those that keep coming are no reason to wait longer.
                deadline.get_or_insert_with(|| Instant::now() + PAUSE);
            }
            Some(Queued::Flush(done)) => return (spans, End::Flush(done)),
            None => return (spans, End::Over),
        }
    }
    (spans, End::Batch)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn spans_that_keep_coming_are_sent_all_the_same() {
        let (queue, mut waiting) = mpsc::channel(MOST_WAITING);
        tokio::spawn(async move {
            loop {
                let span = span("req-01932d4f-0000-7000-8000-0123456789ab", 0, PAUSE).unwrap();
                if queue.send(Queued::Span(Box::new(span))).await.is_err() {
                    return;
                }
                tokio::time::sleep(PAUSE / 10).await;
            }
        });
        let gathered = timeout(PAUSE * 3, gather(&mut waiting)).await;
        let (spans, end) = gathered.expect("it waits for more");
        assert!(matches!(end, End::Batch) && (2..=12).contains(&spans.len()), "{}", spans.len());
    }

    #[test]
    fn urls_read() {
        let url = CollectorUrl::parse("http://collector.test:4318/").unwrap();
        assert_eq!(
            (url.authority.to_string(), url.base),
            ("collector.test:4318".into(), String::new())
        );
        let url = CollectorUrl::parse("https://collector.test/otlp").unwrap();
        assert_eq!((url.authority.port, url.base), (443, "/otlp".into()));
        for bad in ["collector:4318", "grpc://collector:4317", "http://", "http://a.test/?x"] {
            assert!(CollectorUrl::parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_trace_has_the_correlation_ids_bytes() {
        let id = "01932d4f-0000-7000-8000-0123456789ab";
        let made = span(&format!("req-{id}"), 0, Duration::from_secs(1)).unwrap();
        assert_eq!(made.trace_id, Uuid::parse_str(id).unwrap().as_bytes());
        assert_eq!(made.span_id, made.trace_id[8..]);
        assert_eq!(made.end_time_unix_nano - made.start_time_unix_nano, 1_000_000_000);
        assert!(span("no id", 0, Duration::ZERO).is_none());
    }
}
