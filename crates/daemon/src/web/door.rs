//! The page's way in: who may speak to it at all, and what every answer carries.
//!
//! The browser is told to run and show nothing that is not ours, and to tell nobody where it was. Requests under
//! another name than the address itself are refused, which is what a rebound DNS name is; those that another
//! site caused are refused by what browsers say of them, and again by the form's own word (`form.rs`).

use std::{convert::Infallible, sync::Arc, time::Duration};

use axum::{
    Router,
    extract::{Request, State},
    http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header},
    middleware::{Next, from_fn_with_state},
    response::{IntoResponse, Response},
    routing::{get, post},
};
use hyper::{
    body::Incoming,
    server::conn::http1,
    service::{Service as _, service_fn},
};
use hyper_util::{
    rt::{TokioIo, TokioTimer},
    service::TowerToHyperService,
};
use keyless_egress::ServerTls;
use keyless_sockets::{Accepting, Seat, Seats};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::TcpListener,
    time::timeout,
};

use super::{
    Address, Web, assets,
    frame::{Failure, lead_back},
    handlers, keeping, live, pages, passkeys,
};

/// Browsers keep 180 cookies of 4 KiB for a name, and send what any port of `localhost` has them keep.
const MAX_HEAD: usize = 1 << 20;
/// For a head, and for a handshake.
const PATIENCE: Duration = Duration::from_secs(10);

/// What every answer carries. Trusted types: the one policy that turns text into elements is in live.js. With
/// `no-referrer` browsers would also hide where a form comes from, which is what it is judged by.
const HEADERS: [(&str, &str); 7] = [
    (
        "content-security-policy",
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; \
         form-action 'self'; base-uri 'none'; frame-ancestors 'none'; \
         require-trusted-types-for 'script'; trusted-types keyless",
    ),
    ("cross-origin-opener-policy", "same-origin"),
    ("cross-origin-resource-policy", "same-origin"),
    ("permissions-policy", "camera=(), microphone=(), geolocation=()"),
    ("referrer-policy", "same-origin"),
    ("x-content-type-options", "nosniff"),
    ("x-frame-options", "DENY"),
];

/// Every page and every answer to a form.
pub(super) fn routes(web: Arc<Web>, address: Address) -> Router {
    let own = Own(Arc::new(address));
    Router::new()
        // What only looks (HEAD) does not use a link up.
        .route(
            "/open/{link}",
            get(handlers::open).head(|| async { StatusCode::METHOD_NOT_ALLOWED }),
        )
        .route("/assets/{name}", get(assets::serve))
        .route("/{place}/", get(pages::waiting))
        .route("/{place}/sign-in", post(handlers::sign_in))
        .route("/{place}/sign-out", post(handlers::sign_out))
        .route("/{place}/lock", get(pages::lock).post(handlers::lock))
        .route("/{place}/events", get(live::events))
        .route("/{place}/list", get(pages::list))
        .route("/{place}/requests/{id}", get(pages::request).post(handlers::answer))
        .route("/{place}/guide/{occasion}/{variant}", get(pages::guide))
        .route("/{place}/secrets", get(pages::secrets))
        .route("/{place}/secrets/{*path}", get(pages::secret).post(keeping::save))
        .route("/{place}/sessions", get(pages::sessions))
        .route("/{place}/sessions/{id}", get(pages::session))
        .route("/{place}/sessions/{id}/end", post(handlers::end_session))
        .route("/{place}/approvals", get(pages::approvals))
        .route("/{place}/approvals/{id}/take-back", post(handlers::take_back))
        .route("/{place}/grants", get(pages::grants))
        .route("/{place}/grants/revoke", post(handlers::revoke_grant))
        .route("/{place}/log", get(pages::log))
        .route("/{place}/log/export", get(pages::export))
        .route("/{place}/passkeys", get(pages::passkeys).post(passkeys::register))
        .route("/{place}/passkeys/challenge", post(passkeys::challenge))
        .route("/{place}/passkeys/remove", post(passkeys::remove))
        .route("/{place}/egress", get(pages::egress))
        .route("/{place}/sources", get(pages::sources))
        .fallback(|| async { Failure::Missing })
        .layer(from_fn_with_state(own, guard))
        .with_state(web)
}

/// Serves until the process ends.
pub(super) async fn serve(
    listener: TcpListener,
    tls: Option<Arc<ServerTls>>,
    routes: Router,
    seats: Arc<Seats>,
) {
    let mut accepting = Accepting::at(listener);
    loop {
        let (stream, _) = accepting.next().await;
        let Some(taken) = seats.take(None) else { continue };
        let (tls, routes) = (tls.clone(), routes.clone());
        tokio::spawn(async move {
            let serving = async {
                match tls {
                    None => serve_connection(stream, routes, taken.seat()).await,
                    Some(tls) => {
                        if let Ok(Ok(stream)) = timeout(PATIENCE, tls.accept(stream)).await {
                            serve_connection(stream, routes, taken.seat()).await;
                        }
                    }
                }
            };
            tokio::select! {
                () = serving => {}
                () = taken.wanted() => {}
            }
        });
    }
}

async fn serve_connection(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    routes: Router,
    seat: Arc<Seat>,
) {
    let routes = TowerToHyperService::new(routes);
    let service = service_fn(|mut request: hyper::Request<Incoming>| {
        request.extensions_mut().insert(Arc::clone(&seat));
        routes.call(request)
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(PATIENCE)
        .max_buf_size(MAX_HEAD)
        .serve_connection(TokioIo::new(stream), service);
    // Its errors are about a browser that is gone.
    let _ = connection.await;
}

/// The one name that the page answers to. HTTPS is not made the rule for it (HSTS): that would be for every port of
/// `localhost`.
#[derive(Clone)]
struct Own(Arc<Address>);

async fn guard(
    State(own): State<Own>,
    request: Request,
    next: Next,
) -> Result<Response, Infallible> {
    let path = request.uri().path().to_owned();
    let mut response = match refusal(&own, request.method(), &path, request.headers()) {
        Some((status, words)) => (status, words).into_response(),
        None => next.run(request).await,
    };
    lead_back(&path, &mut response);
    let headers = response.headers_mut();
    for (name, value) in HEADERS {
        headers.insert(HeaderName::from_static(name), HeaderValue::from_static(value));
    }
    headers.entry(header::CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
    Ok(response)
}

/// Why a request is not even looked at.
fn refusal(
    own: &Own,
    method: &Method,
    path: &str,
    headers: &HeaderMap,
) -> Option<(StatusCode, &'static str)> {
    let text = |name| headers.get(name).map(|value: &HeaderValue| value.as_bytes());
    let mut hosts = headers.get_all(header::HOST).iter();
    if hosts.next().map(HeaderValue::as_bytes) != Some(own.0.host.as_bytes())
        || hosts.next().is_some()
    {
        let words = "This page answers to its own address and to no other name.\n";
        return Some((StatusCode::MISDIRECTED_REQUEST, words));
    }
    let foreign = (StatusCode::FORBIDDEN, "Another site asked for this, so it was refused.\n");
    let is_safe = matches!(*method, Method::GET | Method::HEAD);
    let own_origin = own.0.origin();
    let is_own = |origin: &[u8]| origin == own_origin.as_bytes();
    match text(header::ORIGIN) {
        Some(origin) if !is_own(origin) => return Some(foreign),
        None if !is_safe => return Some(foreign),
        _ => {}
    }
    let caused_by = text(HeaderName::from_static("sec-fetch-site"));
    let is_link = is_safe && path.starts_with("/open/");
    match caused_by {
        None | Some(b"same-origin") => None,
        Some(b"none") if is_safe => None,
        // A link may be followed from wherever it was printed.
        Some(_) if is_link => None,
        Some(_) => Some(foreign),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(method: &Method, path: &str, fields: &[(&str, &str)]) -> Option<u16> {
        status_at(false, method, path, fields)
    }

    fn status_at(
        secure: bool,
        method: &Method,
        path: &str,
        fields: &[(&str, &str)],
    ) -> Option<u16> {
        let headers = fields.iter().map(|(name, value)| {
            (HeaderName::try_from(*name).unwrap(), HeaderValue::try_from(*value).unwrap())
        });
        let headers: HeaderMap = headers.collect();
        let own = Own(Arc::new(Address { host: "localhost:7000".to_owned(), secure }));
        refusal(&own, method, path, &headers).map(|(status, _)| status.as_u16())
    }

    #[test]
    fn only_its_own_pages_may_ask() {
        let (host, own) = (("host", "localhost:7000"), ("origin", "http://localhost:7000"));
        let get = |fields: &[_]| status(&Method::GET, "/x/", fields);
        let post = |fields: &[_]| status(&Method::POST, "/x/lock", fields);
        assert_eq!((get(&[host]), get(&[])), (None, Some(421)));
        for name in ["127.0.0.1:7000", "evil.test:7000", "localhost", "localhost:7001"] {
            assert_eq!(get(&[("host", name)]), Some(421), "{name}");
        }
        assert_eq!((post(&[host]), post(&[host, own])), (Some(403), None));
        for origin in
            ["http://127.0.0.1:7000", "null", "https://localhost:7000", "http://evil.test"]
        {
            assert_eq!(post(&[host, ("origin", origin)]), Some(403), "{origin}");
            assert_eq!(get(&[host, ("origin", origin)]), Some(403), "{origin}");
        }
        let caused = |by| ("sec-fetch-site", by);
        assert_eq!(get(&[host, caused("none")]), None);
        assert_eq!(get(&[host, caused("same-site")]), Some(403));
        assert_eq!(post(&[host, own, caused("none")]), Some(403));
        assert_eq!(post(&[host, own, caused("same-origin")]), None);
        assert_eq!(status(&Method::GET, "/open/x", &[host, caused("cross-site")]), None);
        let secure =
            |origin| status_at(true, &Method::POST, "/x/lock", &[host, ("origin", origin)]);
        assert_eq!(secure("https://localhost:7000"), None);
        assert_eq!(secure("http://localhost:7000"), Some(403), "what is not encrypted is another");
    }
}
