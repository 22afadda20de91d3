//! Metrics and health on a listener of their own: `/metrics`, `/healthz`, `/readyz`. Nothing that
//! an agent could use, and nothing about hosts, paths or values.

use std::{convert::Infallible, sync::Arc, time::Duration};

use bytes::Bytes;
use http::{Method, Request, Response, StatusCode, header};
use http_body_util::Full;
use hyper::{body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use keyless_egress::Engine;
use keyless_sockets::Accepting;
use parking_lot::Mutex;
use serde_json::json;
use tokio::{net::TcpListener, sync::Semaphore};

use crate::{
    fleet::ReloadState,
    metrics::{Levels, Metrics},
};

/// Collectors and probes come a few at a time.
const CONNECTIONS: usize = 32;
const PATIENCE: Duration = Duration::from_secs(10);
const OPENMETRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// What health is read from.
#[derive(Clone)]
pub(crate) struct Vitals {
    pub(crate) engine: Arc<Engine>,
    pub(crate) reload: Arc<Mutex<ReloadState>>,
}

/// Serves until the process ends.
pub(crate) async fn serve(listener: TcpListener, metrics: Arc<Metrics>, vitals: Vitals) {
    let room = Arc::new(Semaphore::new(CONNECTIONS));
    let mut accepting = Accepting::at(listener);
    loop {
        let (stream, _) = accepting.next().await;
        let Ok(place) = Arc::clone(&room).try_acquire_owned() else { continue };
        let (metrics, vitals) = (Arc::clone(&metrics), vitals.clone());
        let service = service_fn(move |request: Request<Incoming>| {
            let answer = answer(&request, &metrics, &vitals);
            async move { Ok::<_, Infallible>(answer) }
        });
        tokio::spawn(async move {
            let connection = http1::Builder::new()
                .timer(TokioTimer::new())
                .header_read_timeout(PATIENCE)
                .serve_connection(TokioIo::new(stream), service);
            // Its errors are about a client that is gone.
            let _ = connection.await;
            drop(place);
        });
    }
}

fn answer(
    request: &Request<Incoming>,
    metrics: &Metrics,
    vitals: &Vitals,
) -> Response<Full<Bytes>> {
    if request.method() != Method::GET {
        return page(StatusCode::METHOD_NOT_ALLOWED, "text/plain", "GET only\n".to_owned());
    }
    match request.uri().path() {
        "/metrics" => page(StatusCode::OK, OPENMETRICS, metrics.render(&vitals.levels())),
        "/readyz" if vitals.engine.is_draining() => {
            page(StatusCode::SERVICE_UNAVAILABLE, "application/json", vitals.health())
        }
        "/healthz" | "/readyz" => page(StatusCode::OK, "application/json", vitals.health()),
        _ => page(StatusCode::NOT_FOUND, "text/plain", "/metrics /healthz /readyz\n".to_owned()),
    }
}

fn page(status: StatusCode, kind: &'static str, text: String) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(Bytes::from(text)));
    *response.status_mut() = status;
    let kind = header::HeaderValue::from_static(kind);
    response.headers_mut().insert(header::CONTENT_TYPE, kind);
    response
}

impl Vitals {
    fn levels(&self) -> Levels {
        let state = self.reload.lock();
        Levels {
            connections: self.engine.connections(),
            in_flight: self.engine.in_flight(),
            reloads: (state.taken_up, state.refused),
            in_step: state.problem().is_none(),
            secrets: state.secrets,
        }
    }

    fn health(&self) -> String {
        let state = self.reload.lock().clone();
        let word = if self.engine.is_draining() { "draining" } else { "serving" };
        let health = json!({
            "status": word,
            "in_flight": self.engine.in_flight(),
            "secrets": state.secrets,
            "reload": {
                "taken_up": state.taken_up,
                "refused": state.refused,
                "last": state.last.map(|at| at.to_string()),
                "problem": state.problem().map(keyless_core::Error::message),
            },
        });
        format!("{health}\n")
    }
}
