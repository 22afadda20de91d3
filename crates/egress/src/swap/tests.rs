//! The swap against small models of what each part of a request becomes.

/// Any body, rule, coding and chunking.
mod body;
/// Headers, Basic, path and query.
mod head;

use http::{Request, header::CONTENT_LENGTH};
use keyless_core::{Code, Error};

use super::{
    swap_request,
    testing::{Bench, Chunks, authority, drained, route, run},
};
use crate::passage::PassageError;

/// What leaves for a request to `host`: its head and whole body.
fn swapped(bench: &Bench, host: &str, request: Request<Chunks>) -> Result<Request<Vec<u8>>, Error> {
    run(async {
        let authority = authority(host);
        let request = swap_request(&bench.table, &route(&authority), request).await?;
        let (parts, body) = request.into_parts();
        let declared = parts.headers.get(CONTENT_LENGTH).cloned();
        match drained(body).await {
            Ok((frames, _)) => {
                let body = frames.concat();
                if let Some(declared) = declared {
                    assert_eq!(declared.to_str().unwrap(), body.len().to_string());
                }
                Ok(Request::from_parts(parts, body))
            }
            Err(
                PassageError::Refused(error) | PassageError::Inner(PassageError::Refused(error)),
            ) => Err(error),
            Err(PassageError::Inner(PassageError::Inner(never))) => match never {},
        }
    })
}

/// A request without a body.
fn bare(uri: &str, headers: &[(&str, &str)]) -> Request<Chunks> {
    let mut builder = Request::builder().uri(uri);
    for (name, value) in headers {
        builder = builder.header(*name, *value);
    }
    builder.body(Chunks::cut(b"", &[], true)).unwrap()
}

/// The code of a refusal.
fn code<T: std::fmt::Debug>(result: Result<T, Error>) -> Code {
    result.unwrap_err().code()
}
