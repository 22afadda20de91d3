//! What a proxy counts, for Prometheus. No host, path or secret is a label: these are without
//! bound, and who reads metrics need not know them.

use std::time::Duration;

use keyless_core::Code;
use keyless_egress::Finished;
use prometheus_client::{
    encoding::text::encode,
    metrics::{
        counter::Counter,
        family::Family,
        gauge::Gauge,
        histogram::{Histogram, exponential_buckets},
    },
    registry::{Registry, Unit},
};

/// What requests are counted by: the first digit of the status.
const CLASSES: [&str; 7] = ["none", "1xx", "2xx", "3xx", "4xx", "5xx", "other"];

type Labelled<M> = Family<[(&'static str, &'static str); 1], M>;

/// The counters of one process.
pub(crate) struct Metrics {
    registry: Registry,
    requests: Labelled<Counter>,
    /// The counters of `requests`, one for each of [`CLASSES`].
    classes: [Counter; CLASSES.len()],
    refusals: Labelled<Counter>,
    uses: Counter,
    bytes: Labelled<Counter>,
    sent: Counter,
    received: Counter,
    seconds: Histogram,
    connections: Gauge,
    in_flight: Gauge,
    reloads: Labelled<Counter>,
    in_step: Gauge,
    secrets: Gauge,
}

/// What is looked up when somebody asks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Levels {
    pub(crate) connections: usize,
    pub(crate) in_flight: usize,
    pub(crate) reloads: (u64, u64),
    pub(crate) in_step: bool,
    pub(crate) secrets: usize,
}

impl Metrics {
    pub(crate) fn new() -> Self {
        let (requests, bytes) = (Labelled::<Counter>::default(), Labelled::<Counter>::default());
        let way = |way| bytes.get_or_create(&[("direction", way)]).clone();
        let metrics = Self {
            registry: Registry::with_prefix("keyless"),
            classes: CLASSES.map(|class| requests.get_or_create(&[("status", class)]).clone()),
            requests,
            refusals: Labelled::default(),
            uses: Counter::default(),
            sent: way("sent"),
            received: way("received"),
            bytes,
            // From 1 ms to about 16 minutes: token streams take their time.
            seconds: Histogram::new(exponential_buckets(0.001, 4.0, 11)),
            connections: Gauge::default(),
            in_flight: Gauge::default(),
            reloads: Labelled::default(),
            in_step: Gauge::default(),
            secrets: Gauge::default(),
        };
        metrics.registered()
    }

    fn registered(mut self) -> Self {
        let to = &mut self.registry;
        to.register("requests", "Requests and tunnels that came to an end", self.requests.clone());
        to.register("refusals", "Refusals and failures, by code", self.refusals.clone());
        to.register("uses", "Values released into requests", self.uses.clone());
        to.register("traffic_bytes", "Bytes of bodies and tunnels", self.bytes.clone());
        to.register_with_unit(
            "request_duration",
            "From a head to its answer's last byte",
            Unit::Seconds,
            self.seconds.clone(),
        );
        to.register("connections", "Open connections of clients", self.connections.clone());
        to.register("in_flight", "Requests and tunnels under way", self.in_flight.clone());
        to.register("reloads", "Changed files that were taken up or refused", self.reloads.clone());
        to.register("in_step", "1 while the files as they lie are in force", self.in_step.clone());
        to.register("secrets", "Secrets in force", self.secrets.clone());
        self
    }

    pub(crate) fn finished(&self, finished: &Finished) {
        self.classes[class(finished.status)].inc();
        self.sent.inc_by(finished.sent);
        self.received.inc_by(finished.received);
        self.seconds.observe(Duration::as_secs_f64(&finished.took));
    }

    pub(crate) fn refused(&self, code: Code) {
        self.refusals.get_or_create(&[("code", code.as_str())]).inc();
    }

    pub(crate) fn used(&self, values: usize) {
        self.uses.inc_by(values as u64);
    }

    /// Everything, in the text format.
    pub(crate) fn render(&self, levels: &Levels) -> String {
        let as_level = |number: usize| i64::try_from(number).unwrap_or(i64::MAX);
        self.connections.set(as_level(levels.connections));
        self.in_flight.set(as_level(levels.in_flight));
        self.in_step.set(i64::from(levels.in_step));
        self.secrets.set(as_level(levels.secrets));
        for (result, count) in [("taken_up", levels.reloads.0), ("refused", levels.reloads.1)] {
            let counter = self.reloads.get_or_create(&[("result", result)]);
            counter.inner().store(count, std::sync::atomic::Ordering::Relaxed);
        }
        let mut text = String::new();
        encode(&mut text, &self.registry).expect("a String takes anything");
        text
    }
}

/// The number of a status in [`CLASSES`]; a tunnel has none.
fn class(status: Option<u16>) -> usize {
    match status {
        None => 0,
        Some(status @ 100..=599) => usize::from(status / 100),
        Some(_) => CLASSES.len() - 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_has_what_dashboards_ask_for() {
        let metrics = Metrics::new();
        metrics.refused(Code::Draining);
        metrics.finished(&Finished {
            status: Some(204),
            sent: 10,
            took: Duration::from_millis(3),
            ..Finished::default()
        });
        let levels =
            Levels { connections: 2, in_flight: 1, reloads: (3, 1), in_step: false, secrets: 7 };
        let text = metrics.render(&levels);
        for line in [
            "keyless_requests_total{status=\"2xx\"} 1",
            "keyless_refusals_total{code=\"draining\"} 1",
            "keyless_traffic_bytes_total{direction=\"sent\"} 10",
            "keyless_request_duration_seconds_count 1",
            "keyless_reloads_total{result=\"refused\"} 1",
            "keyless_in_step 0",
            "keyless_secrets 7",
            "# EOF",
        ] {
            assert!(text.contains(line), "{line}\n{text}");
        }
    }
}
