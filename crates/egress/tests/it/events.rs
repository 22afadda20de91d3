use std::{
    io::{Read, Write as _},
    sync::Arc,
};

use bytes::Bytes;
use futures_util::{StreamExt as _, stream};
use http_body_util::BodyExt as _;
use keyless_testkit::{
    Alpn, Handler, OriginOptions, Reply, Script, Snapshot, Step, TestCa, streamed,
};
use tokio::sync::Semaphore;

use crate::scene::{ALLOWED, PATIENCE, Scene, Setting, comes_true, read_head};

/// The origin sends the next event only when the client has the one before.
#[test]
fn no_event_waits_for_the_next() {
    for alpn in [Alpn::Http1, Alpn::Http2] {
        let permitted = Arc::new(Semaphore::new(1));
        let (scene, mut stream) = open(alpn, &permitted);
        for number in 0..5 {
            // Scrubbed, and whole: nothing of it is held back for what may follow.
            let expected = format!("data: {number} Bearer {}\n\n", scene.placeholder);
            assert_eq!(next_chunk(&mut stream), expected, "{alpn:?}");
            permitted.add_permits(1);
        }
    }
}

/// Such a stream may last for hours.
#[test]
fn what_is_taken_out_of_a_stream_is_told_before_it_ends() {
    let permitted = Arc::new(Semaphore::new(3));
    let (scene, mut stream) = open(Alpn::Http2, &permitted);
    for _ in 0..3 {
        next_chunk(&mut stream);
    }
    let told: Vec<_> = scene.broker.incidents.lock().clone();
    // Once for each value and encoding: how often it came is said at the end.
    let [incident] = &told[..] else { panic!("{told:?}") };
    assert_eq!(incident.request, Some(("GET".to_owned(), "/".to_owned())));
    let [redacted] = &incident.redacted[..] else { panic!("{incident:?}") };
    assert_eq!((redacted.secret.as_str(), redacted.count), ("team/test/token", 1));
    assert!(scene.broker.finished.lock().is_empty(), "it has not ended");
    drop(stream);
    assert!(comes_true(|| !scene.broker.finished.lock().is_empty()));
    assert_eq!(scene.broker.finished.lock()[0].redacted[0].count, 3);
    assert_eq!(scene.broker.incidents.lock().len(), 1);
}

/// A model that nobody listens to any more costs money.
#[test]
fn a_client_that_leaves_an_idle_stream_takes_the_upstream_with_it() {
    let permitted = Arc::new(Semaphore::new(1));
    let (scene, mut stream) = open(Alpn::Http2, &permitted);
    next_chunk(&mut stream);
    drop(stream);
    // The stream that the handler answers with holds the semaphore as long as it lives.
    let gone = comes_true(|| Arc::strong_count(&permitted) == 2);
    assert!(gone, "the origin still waits to send");
    drop(scene);
}

#[test]
fn the_same_over_http1_where_only_the_connection_can_tell() {
    let ca = TestCa::new();
    let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\
                transfer-encoding: chunked\r\n\r\n9\r\ndata: 1\n\n\r\n";
    let script = Script::new([Step::ReadHead, Step::Send(head.into()), Step::ReadToEnd]);
    let allowed = OriginOptions::tls(&ca, &[ALLOWED]).script(script).alpn(Alpn::Http1);
    let scene = Scene::of(Setting { allowed, ..Setting::with(ca) });
    let mut stream = scene.tls(ALLOWED, &[b"http/1.1"]);
    stream.write_all(format!("GET / HTTP/1.1\r\nhost: {ALLOWED}\r\n\r\n").as_bytes()).unwrap();
    assert!(read_head(&mut stream).starts_with("HTTP/1.1 200"));
    assert_eq!(next_chunk(&mut stream), "data: 1\n\n");
    drop(stream);
    let closed = |record: &Snapshot| record.connections.iter().all(|one| one.closed);
    assert!(scene.allowed.wait_until(PATIENCE, closed), "it is still open");
}

/// A stream of events for who brings the value, and the client's side of it after the head.
fn open(alpn: Alpn, permitted: &Arc<Semaphore>) -> (Scene, impl Read + use<>) {
    let ca = TestCa::new();
    let permits = Arc::clone(permitted);
    let handler = Handler::new(move |request| {
        let permits = Arc::clone(&permits);
        async move {
            let value = request.headers()["authorization"].to_str().unwrap().to_owned();
            let _ = request.into_body().collect().await;
            let events = stream::iter(0..).then(move |number| {
                let (permits, value) = (Arc::clone(&permits), value.clone());
                async move {
                    permits.acquire().await.unwrap().forget();
                    Bytes::from(format!("data: {number} {value}\n\n"))
                }
            });
            let mut reply = Reply::new(streamed(events));
            let kind = "text/event-stream".parse().unwrap();
            reply.headers_mut().insert(http::header::CONTENT_TYPE, kind);
            reply
        }
    });
    let allowed = OriginOptions::tls(&ca, &[ALLOWED]).handler(handler).alpn(alpn);
    let scene = Scene::of(Setting { allowed, ..Setting::with(ca) });
    let mut stream = scene.tls(ALLOWED, &[b"http/1.1"]);
    let request = format!(
        "GET / HTTP/1.1\r\nhost: {ALLOWED}\r\nauthorization: Bearer {}\r\n\r\n",
        scene.placeholder
    );
    stream.write_all(request.as_bytes()).unwrap();
    let head = read_head(&mut stream);
    assert!(head.starts_with("HTTP/1.1 200"), "{head}");
    (scene, stream)
}

/// The next chunk of a chunked body.
fn next_chunk(stream: &mut impl Read) -> String {
    let mut line = Vec::new();
    let mut byte = [0];
    while !line.ends_with(b"\r\n") {
        stream.read_exact(&mut byte).unwrap();
        line.push(byte[0]);
    }
    let size = usize::from_str_radix(str::from_utf8(&line).unwrap().trim(), 16).unwrap();
    let mut chunk = vec![0; size + 2];
    stream.read_exact(&mut chunk).unwrap();
    chunk.truncate(size);
    String::from_utf8(chunk).unwrap()
}
