//! One more try when a token that was got on the host turns out to be spent: the upstream said 401,
//! the token is got anew, and a request that may be repeated is. Source: reference/egress.md (e) 90.

use std::time::Instant;

use bytes::Bytes;
use http::{HeaderMap, Method, Request, Response, StatusCode, Uri, Version};
use http_body::Body as _;
use http_body_util::Empty;
use hyper::body::Incoming;

use super::Task;

/// A request that may be sent again: safe or idempotent, and without a body.
pub(super) struct Again {
    method: Method,
    uri: Uri,
    version: Version,
    headers: HeaderMap,
    since: Instant,
}

impl Again {
    /// Keeps what a second try takes, if one could come of it.
    pub(super) fn keep(task: &Task<'_>, request: &Request<Incoming>) -> Option<Self> {
        let repeatable = request.method().is_idempotent() && request.body().is_end_stream();
        if !repeatable || !task.table.has_grant(task.scheme, task.authority) {
            return None;
        }
        Some(Self {
            method: request.method().clone(),
            uri: request.uri().clone(),
            version: request.version(),
            headers: request.headers().clone(),
            since: Instant::now(),
        })
    }

    /// The request once more, if the answer was for want of a good token and there is another now.
    pub(super) async fn after(
        self,
        task: &Task<'_>,
        response: &Response<Incoming>,
    ) -> Option<Request<Empty<Bytes>>> {
        if response.status() != StatusCode::UNAUTHORIZED {
            return None;
        }
        let table = &task.table;
        let secrets = table.granted(task.scheme, task.authority);
        if !table.broker().renew(secrets, task.authority, self.since).await {
            return None;
        }
        let mut request = Request::new(Empty::new());
        *request.method_mut() = self.method;
        *request.uri_mut() = self.uri;
        *request.version_mut() = self.version;
        *request.headers_mut() = self.headers;
        Some(request)
    }
}
