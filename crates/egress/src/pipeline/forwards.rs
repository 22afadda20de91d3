//! `Max-Forwards`: how many may still pass an OPTIONS or a TRACE on (RFC 9110, section 7.6.2). What comes with none left ends
//! here.

use http::{HeaderValue, Method, Request, Response, StatusCode, header};
use http_body_util::{BodyExt as _, Empty};

use super::AnswerBody;

/// Takes one off, or answers in the destination's place. What is no number says nothing.
pub(super) fn spend<B>(request: &mut Request<B>) -> Option<Response<AnswerBody>> {
    if !matches!(*request.method(), Method::OPTIONS | Method::TRACE) {
        return None;
    }
    let is_options = request.method() == Method::OPTIONS;
    let field = request.headers_mut().get_mut(header::MAX_FORWARDS)?;
    let left = field.to_str().ok()?.parse::<u64>().ok()?;
    if let Some(fewer) = left.checked_sub(1) {
        *field = HeaderValue::from(fewer);
        return None;
    }
    let mut answer = Response::new(Empty::new().map_err(|never| match never {}).boxed_unsync());
    // A request's own head is told back to nobody.
    *answer.status_mut() = if is_options { StatusCode::OK } else { StatusCode::NOT_IMPLEMENTED };
    Some(answer)
}
