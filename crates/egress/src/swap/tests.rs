//! The swap against small models of what each part of a request becomes.

/// Any body, rule, coding and chunking.
mod body;
/// Headers, Basic, path and query.
mod head;

use std::sync::{Arc, Mutex};

use futures_util::future::BoxFuture;
use http::{Request, header::CONTENT_LENGTH};
use keyless_core::{Allowed, Code, Destination, EgressRule, Error, PlaceholderForm};

use super::{
    swap_request,
    table::SwapTable,
    testing::{Bench, Chunks, MemoryBroker, authority, drained, reading, route, run},
};
use crate::{
    passage::PassageError,
    ports::{Broker, Event, Finished, Incident, Released, RequestInfo},
};

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

/// Gives what it gave first, wherever it is to go now.
struct Confused(Arc<MemoryBroker>, Mutex<Option<Vec<Arc<Released>>>>);

impl Broker for Confused {
    fn release<'a>(
        &'a self,
        request: &'a RequestInfo,
        uses: Vec<Allowed>,
    ) -> BoxFuture<'a, Result<Vec<Arc<Released>>, Error>> {
        Box::pin(async move {
            let released = self.0.release(request, uses).await?;
            Ok(self.1.lock().unwrap().get_or_insert(released).clone())
        })
    }

    fn record(&self, _: Event) -> Result<(), Error> {
        Ok(())
    }

    fn incident(&self, _: Incident) {}

    fn finished(&self, _: Finished) {}
}

#[test]
fn a_value_goes_only_where_its_permit_says() {
    let hosts = ["api.test", "files.test"].map(|host| Destination::parse(host).unwrap());
    let rule = EgressRule::to(hosts.to_vec());
    let bench = Bench::new(vec![("a", "0123456789", rule, PlaceholderForm::Default)]);
    let confused = Arc::new(Confused(Arc::clone(&bench.broker), Mutex::default()));
    let bench =
        Bench { table: Arc::new(SwapTable::new(&bench.secrets, confused, reading())), ..bench };
    let ask = |host| swapped(&bench, host, bare("/", &[("x", bench.placeholder(0))]));
    assert_eq!(ask("api.test").unwrap().headers()["x"], "0123456789");
    assert_eq!(code(ask("files.test")), Code::Internal);
}
