//! What follows when a token that was got on the host turns out to be spent: the upstream said 401,
//! the token is given up, and a request that may be repeated is. Source: reference/egress.md (e) 90.

use std::time::Instant;

use bytes::Bytes;
use http::{Request, Response, StatusCode};
use http_body::Body as _;
use http_body_util::Empty;

use super::Task;
use crate::incoming::Incoming;

/// A request with such a token, until its answer says whether the token was good.
pub(super) struct Again {
    since: Instant,
    /// There if it may be sent again: safe or idempotent, and without a body.
    request: Option<Request<Empty<Bytes>>>,
}

impl Again {
    /// Keeps what a second try takes; nothing where requests have no such token.
    pub(super) fn keep(task: &Task<'_>, request: &Request<Incoming>) -> Option<Self> {
        if !task.table.has_grant(task.scheme, task.authority) {
            return None;
        }
        let repeatable = request.method().is_idempotent() && request.body().is_end_stream();
        let request = repeatable.then(|| {
            let mut copy = Request::new(Empty::new());
            request.method().clone_into(copy.method_mut());
            request.uri().clone_into(copy.uri_mut());
            *copy.version_mut() = request.version();
            request.headers().clone_into(copy.headers_mut());
            copy
        });
        Some(Self { since: Instant::now(), request })
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
        // Also where this request stays refused: the next one shall not meet the same.
        let renewed = table.broker().renew(secrets, task.authority, self.since).await;
        self.request.filter(|_| renewed)
    }
}
