use std::time::Duration;

use bytes::Bytes;
use futures_util::{StreamExt as _, stream};
use http::{HeaderMap, HeaderValue, Request, StatusCode, header};
use http_body::Frame;
use http_body_util::{BodyExt, Empty, StreamBody, combinators::BoxBody};
use hyper::client::conn::http2::{self, SendRequest};
use hyper_util::rt::{TokioExecutor, TokioIo};
use keyless_core::Code;
use keyless_testkit::{
    Alpn, Handler, OriginOptions, Reply, Script, Snapshot, Step, TestCa, reply, websocket,
};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};
use tokio_rustls::TlsConnector;

use crate::scene::{ALLOWED, PATIENCE, Scene, Setting};

pub(crate) type Body = BoxBody<Bytes, std::convert::Infallible>;

#[test]
fn a_refused_stream_leaves_the_others_alone() {
    let scene = Scene::new();
    scene.runtime.block_on(async {
        let mut client = client(&scene).await;
        let slow = client.send_request(get("/drip?n=40&chunk=1&ms=20"));
        let slow = tokio::spawn(async move { slow.await.unwrap().collect().await.unwrap() });
        let coalesced = Request::get("https://other.test/").body(empty()).unwrap();
        assert_eq!(client.send_request(coalesced).await.unwrap().status(), 421);
        let both = get_with("/", &[("host", "other.test")]);
        assert_eq!(client.send_request(both).await.unwrap().status(), 421);
        assert_eq!(client.send_request(get("/status/204")).await.unwrap().status(), 204);
        assert_eq!(slow.await.unwrap().to_bytes().len(), 40);
    });
    scene.assert_refused(&[Code::AuthorityMismatch; 2]);
}

/// Streams that last keep no other request from a destination that takes few at once (RFC 9113, section 5.1.2).
#[test]
fn a_destination_that_is_full_gets_another_connection() {
    let ca = TestCa::new();
    let allowed = OriginOptions::tls(&ca, &[ALLOWED]).alpn(Alpn::Http2).max_streams(2);
    let scene = Scene::of(Setting { allowed, ..Setting::with(ca) });
    scene.runtime.block_on(async {
        let mut client = client(&scene).await;
        let mut lasting = Vec::new();
        // One by one, and then all that come at once.
        for _ in 0..5 {
            let stream = client.send_request(get("/drip?n=100000&chunk=1&ms=20"));
            let answer = tokio::time::timeout(PATIENCE, stream).await.expect("it is answered");
            lasting.push(answer.unwrap());
        }
        let many = (0..12).map(|_| client.send_request(get("/drip?n=100000&chunk=1&ms=20")));
        let many: Vec<_> = many.map(tokio::spawn).collect();
        for answer in many {
            let answer = tokio::time::timeout(PATIENCE, answer).await.expect("it is answered");
            assert_eq!(answer.unwrap().unwrap().status(), 200);
        }
    });
    let opened = scene.allowed.connections().len();
    assert!((3..=12).contains(&opened), "{opened}");
}

/// Also those that come before it has said how few it takes: none waits for another's end on its connection.
#[test]
fn a_destination_that_takes_one_at_once_gets_a_connection_for_each() {
    let ca = TestCa::new();
    let allowed = OriginOptions::tls(&ca, &[ALLOWED]).alpn(Alpn::Http2).max_streams(1);
    let scene = Scene::of(Setting { allowed, ..Setting::with(ca) });
    scene.runtime.block_on(async {
        let mut client = client(&scene).await;
        let many = (0..20).map(|_| client.send_request(get("/drip?n=100000&chunk=1&ms=100")));
        let many: Vec<_> = many.map(tokio::spawn).collect();
        let mut lasting = Vec::new();
        for answer in many {
            let answer = tokio::time::timeout(PATIENCE, answer).await.expect("it is answered");
            lasting.push(answer.unwrap().unwrap());
        }
        assert!(lasting.iter().all(|answer| answer.status() == 200));
    });
    assert_eq!(scene.allowed.connections().len(), 20);
}

/// A request whose body and answer are both under way is one of those that the destination takes.
#[test]
fn an_upload_has_one_place() {
    let ca = TestCa::new();
    let allowed = OriginOptions::tls(&ca, &[ALLOWED]).alpn(Alpn::Http2).max_streams(2);
    let scene = Scene::of(Setting { allowed, ..Setting::with(ca) });
    scene.runtime.block_on(async {
        let mut client = client(&scene).await;
        let body = || BodyExt::boxed(StreamBody::new(stream::pending()));
        let url = "https://allowed.test/drip?n=100000&chunk=1&ms=100";
        let first = client.send_request(Request::post(url).body(body()).unwrap()).await.unwrap();
        let second = client.send_request(Request::post(url).body(body()).unwrap()).await.unwrap();
        assert_eq!((first.status(), second.status()), (StatusCode::OK, StatusCode::OK));
        assert_eq!(scene.allowed.connections().len(), 1);
    });
}

/// Whether its answer is still awaited or has begun.
#[test]
fn a_stream_that_is_reset_takes_its_request_with_it() {
    let ca = TestCa::new();
    let head = "HTTP/1.1 200 OK\r\ncontent-length: 1000\r\n\r\nbegun";
    for answer in ["", head] {
        let steps = [Step::ReadHead, Step::Send(answer.into()), Step::ReadToEnd];
        let allowed = OriginOptions::tls(&ca, &[ALLOWED]).alpn(Alpn::Http1);
        let allowed = allowed.script(Script::new(steps));
        let scene = Scene::of(Setting { allowed, ..Setting::with(ca.clone()) });
        scene.runtime.block_on(async {
            let mut client = client(&scene).await;
            let mut request = Box::pin(client.send_request(get("/")));
            if answer.is_empty() {
                while scene.allowed.recorded().is_empty() {
                    let moment = tokio::time::sleep(Duration::from_millis(10));
                    tokio::select! { _ = &mut request => panic!("nobody answers"), () = moment => {} }
                }
            } else {
                assert_eq!(request.as_mut().await.unwrap().status(), 200);
            }
            drop(request);
            // The connection goes on, without that stream.
            let closed = |record: &Snapshot| record.connections.iter().all(|one| one.closed);
            let is_gone = tokio::task::block_in_place(|| scene.allowed.wait_until(PATIENCE, closed));
            assert!(is_gone, "{answer:?}");
            drop(client);
        });
    }
}

/// Whose body waits for more, while nobody answers.
#[test]
fn an_upload_that_is_reset_is_reset_at_its_destination() {
    let ca = TestCa::new();
    let (say, said) = std::sync::mpsc::channel();
    let handler = Handler::new(move |request| {
        let say = say.clone();
        async move {
            say.send(request.into_body().collect().await.is_err()).unwrap();
            reply(StatusCode::OK, "")
        }
    });
    let allowed = OriginOptions::tls(&ca, &[ALLOWED]).handler(handler).alpn(Alpn::Http2);
    let scene = Scene::of(Setting { allowed, ..Setting::with(ca) });
    scene.runtime.block_on(async {
        let mut client = client(&scene).await;
        let begun = stream::iter([Ok(Frame::data(Bytes::from_static(b"begun")))]);
        let body = StreamBody::new(begun.chain(stream::pending()));
        let request = Request::post("https://allowed.test/").body(BodyExt::boxed(body)).unwrap();
        let mut request = Box::pin(client.send_request(request));
        while scene.allowed.requests().is_empty() {
            let moment = tokio::time::sleep(Duration::from_millis(10));
            tokio::select! { _ = &mut request => panic!("nobody answers"), () = moment => {} }
        }
        drop(request);
        let said = tokio::task::block_in_place(|| said.recv_timeout(PATIENCE));
        assert_eq!(said, Ok(true), "it was taken for whole, or is still awaited");
        drop(client);
    });
}

#[test]
fn a_panic_in_one_request_is_a_500_for_that_request() {
    let scene = Scene::new();
    *scene.broker.stumbles_over.lock() = Some("stumble");
    scene.runtime.block_on(async {
        let mut client = client(&scene).await;
        let slow = client.send_request(get("/drip?n=20&chunk=1&ms=20"));
        let slow = tokio::spawn(async move { slow.await.unwrap().collect().await.unwrap() });
        let stumbling = get_with("/stumble", &[("x", &scene.placeholder)]);
        let answer = client.send_request(stumbling).await.unwrap();
        assert_eq!(answer.status(), StatusCode::INTERNAL_SERVER_ERROR);
        assert_eq!(slow.await.unwrap().to_bytes().len(), 20);
        assert_eq!(client.send_request(get("/status/204")).await.unwrap().status(), 204);
    });
    scene.assert_refused(&[Code::Internal]);
}

#[test]
fn both_sides_may_speak_at_once_and_end_with_trailers() {
    let ca = TestCa::new();
    // As gRPC does: a message back for each message, and the status in a trailer.
    let handler = Handler::new(|request| async move {
        let echo =
            request.into_body().into_data_stream().map(|data| Ok(Frame::data(data.unwrap())));
        let trailers =
            HeaderMap::from_iter([("grpc-status".parse().unwrap(), "0".parse().unwrap())]);
        let end = stream::once(async { Ok(Frame::trailers(trailers)) });
        let mut reply = Reply::new(StreamBody::new(echo.chain(end)).boxed_unsync());
        let content_type = HeaderValue::from_static("application/grpc");
        reply.headers_mut().insert(header::CONTENT_TYPE, content_type);
        reply
    });
    let allowed = OriginOptions::tls(&ca, &[ALLOWED]).handler(handler).alpn(Alpn::Http2);
    let scene = Scene::of(Setting { allowed, ..Setting::with(ca) });
    let message =
        |number: u8| Bytes::from([&b"\0\0\0\0\x09message "[..], &[b'0' + number]].concat());
    scene.runtime.block_on(async {
        let mut client = client(&scene).await;
        let (say, said) = tokio::sync::mpsc::unbounded_channel::<Bytes>();
        let body = stream::unfold(said, |mut said| async {
            let data = said.recv().await?;
            Some((Ok(Frame::data(data)), said))
        });
        let request = Request::post("https://allowed.test/echo.Echo/Talk")
            .header("te", "trailers")
            .header("authorization", format!("Bearer {}", scene.placeholder))
            .body(BodyExt::boxed(StreamBody::new(body)))
            .unwrap();
        say.send(message(0)).unwrap();
        let mut answer = client.send_request(request).await.unwrap().into_body();
        for number in 0..5 {
            let frame = answer.frame().await.unwrap().unwrap();
            assert_eq!(frame.into_data().unwrap(), message(number));
            say.send(message(number + 1)).unwrap();
        }
        drop(say);
        let mut trailers = None;
        while let Some(frame) = answer.frame().await {
            trailers = frame.unwrap().into_trailers().ok();
        }
        assert_eq!(trailers.unwrap()["grpc-status"], "0");
    });
    let request = scene.allowed.requests().pop().unwrap();
    assert_eq!(request.header("te").unwrap(), "trailers");
    assert_eq!(
        request.header("authorization").unwrap(),
        format!("Bearer {}", scene.canary.value())
    );
}

#[test]
fn bounds_hold_for_streams_too() {
    let scene = Scene::new();
    scene.runtime.block_on(async {
        let mut client = client(&scene).await;
        let mut many = get("/");
        for number in 0..400 {
            let name: http::HeaderName = format!("x-{number}").parse().unwrap();
            many.headers_mut().insert(name, "y".parse().unwrap());
        }
        assert_eq!(client.send_request(many).await.unwrap().status(), 431);
        let large = get_with("/", &[("x", &"x".repeat(80 << 10))]);
        assert_eq!(client.send_request(large).await.unwrap().status(), 431);
        let tunnel = Request::connect("other.test:443").body(empty()).unwrap();
        assert_eq!(client.send_request(tunnel).await.unwrap().status(), 400);
        assert_eq!(client.send_request(get("/status/204")).await.unwrap().status(), 204);
    });
    assert_eq!(scene.allowed.requests().len(), 1);
}

/// RFC 8441 toward the client, HTTP/1.1 toward the origin.
#[test]
fn a_websocket_goes_over_a_stream() {
    let scene = Scene::new();
    scene.runtime.block_on(async {
        let mut client = client(&scene).await;
        // The server's SETTINGS, which allow this, have come by the time of an answer.
        assert_eq!(client.send_request(get("/status/204")).await.unwrap().status(), 204);
        let open = |path: &str, protocol| {
            Request::connect(format!("https://allowed.test{path}"))
                .extension(hyper::ext::Protocol::from_static(protocol))
                .header("sec-websocket-version", "13")
                .header("authorization", format!("Bearer {}", scene.placeholder))
                .body(empty())
                .unwrap()
        };
        let answer = client.send_request(open("/websocket", "websocket")).await.unwrap();
        assert_eq!(answer.status(), 200);
        assert!(!answer.headers().contains_key("sec-websocket-accept"));
        let mut stream = TokioIo::new(hyper::upgrade::on(answer).await.unwrap());
        let text = format!("Bearer {}", scene.canary.value());
        let mut frame = vec![0x81, 0x80 | u8::try_from(text.len()).unwrap(), 0, 0, 0, 0];
        frame.extend_from_slice(text.as_bytes());
        stream.write_all(&frame).await.unwrap();
        let mut head = [0; 2];
        stream.read_exact(&mut head).await.unwrap();
        let mut echo = vec![0; usize::from(head[1])];
        stream.read_exact(&mut echo).await.unwrap();
        assert_eq!(echo, format!("Bearer {}", scene.placeholder).into_bytes());
        let refused = client.send_request(open("/status/403", "websocket")).await.unwrap();
        assert_eq!(refused.status(), 403);
        let confused = client.send_request(open("/status/200", "websocket")).await.unwrap();
        assert_eq!(confused.headers()["x-keyless-refused"], "upstream_protocol");
        let other = client.send_request(open("/", "connect-udp")).await.unwrap();
        assert_eq!(other.headers()["x-keyless-refused"], "upgrade_refused");
    });
    let request = &scene.allowed.requests()[1];
    assert_eq!((request.method.as_str(), request.version), ("GET", http::Version::HTTP_11));
    assert_eq!(
        request.header("authorization").unwrap(),
        format!("Bearer {}", scene.canary.value())
    );
}

/// To the origin's HTTP/1.1 the frames would be that body.
#[test]
fn a_websocket_with_a_length_is_reset() {
    let scene = Scene::new();
    scene.runtime.block_on(async {
        let (requests, connection) = h2::client::handshake(tls(&scene).await).await.unwrap();
        tokio::spawn(connection);
        let get = Request::get("https://allowed.test/status/204").body(()).unwrap();
        let mut requests = requests.ready().await.unwrap();
        let (answer, _) = requests.send_request(get, true).unwrap();
        assert_eq!(answer.await.unwrap().status(), 204);
        let open = Request::connect("https://allowed.test/websocket")
            .extension(h2::ext::Protocol::from_static("websocket"))
            .header("sec-websocket-version", "13")
            .header("content-length", "5")
            .body(())
            .unwrap();
        let (answer, _frames) = requests.send_request(open, false).unwrap();
        assert_eq!(answer.await.unwrap_err().reason(), Some(h2::Reason::PROTOCOL_ERROR));
    });
    assert_eq!(scene.allowed.requests().len(), 1);
}

/// Browsers end the stream with their Close, which a server over HTTP/1.1 may take for the end of all.
#[test]
fn a_close_at_the_end_of_a_stream_is_answered() {
    let ca = TestCa::new();
    let handler = Handler::new(|request| async move { websocket::accept_whole(request) });
    let allowed = OriginOptions::tls(&ca, &[ALLOWED]).handler(handler);
    let scene = Scene::of(Setting { allowed, ..Setting::with(ca) });
    scene.runtime.block_on(async {
        let mut client = client(&scene).await;
        assert_eq!(client.send_request(get("/")).await.unwrap().status(), 400);
        let opening = Request::connect("https://allowed.test/")
            .extension(hyper::ext::Protocol::from_static("websocket"))
            .header("sec-websocket-version", "13")
            .body(empty())
            .unwrap();
        let answer = client.send_request(opening).await.unwrap();
        assert_eq!(answer.status(), 200);
        let mut stream = TokioIo::new(hyper::upgrade::on(answer).await.unwrap());
        stream.write_all(&[0x88, 0x82, 0, 0, 0, 0, 0x0f, 0xa0]).await.unwrap();
        stream.shutdown().await.unwrap();
        let mut close = Vec::new();
        stream.read_to_end(&mut close).await.unwrap();
        assert_eq!(close, [0x88, 2, 0x0f, 0xa0]);
    });
}

/// Whether its message is read whole or is sent as it comes; the entry says what was answered.
#[test]
fn a_refused_grpc_call_ends_with_a_status() {
    let scene = Scene::new();
    let message = [&[0, 0, 0, 0, 34, 10, 32][..], scene.placeholder.as_bytes()].concat();
    let message = Bytes::from(message);
    let whole = BodyExt::boxed(http_body_util::Full::new(message.clone()));
    let as_it_comes = StreamBody::new(stream::iter([Ok(Frame::data(message))]));
    scene.runtime.block_on(async {
        let mut client = client(&scene).await;
        for body in [whole, BodyExt::boxed(as_it_comes)] {
            let request = Request::post("https://allowed.test/a.B/C")
                .header("content-type", "application/grpc")
                .header("grpc-accept-encoding", "identity, gzip")
                .body(body)
                .unwrap();
            let answer = client.send_request(request).await.unwrap();
            assert_eq!(answer.status(), 200);
            assert_eq!(answer.headers()["grpc-status"], "3");
            assert_eq!(answer.headers()["x-keyless-refused"], "body_digest");
            let message = answer.headers()["grpc-message"].to_str().unwrap();
            assert!(message.contains("carry their lengths"), "{message}");
        }
    });
    scene.assert_refused(&[Code::BodyDigest; 2]);
    for event in &*scene.broker.events.lock() {
        assert_eq!(event.so_far.unwrap().status, Some(200));
    }
}

/// A value is no business of a header table that others may probe.
#[test]
fn values_are_never_indexed() {
    let ca = TestCa::new();
    let allowed = OriginOptions::tls(&ca, &[ALLOWED]).alpn(Alpn::Http2);
    let scene = Scene::of(Setting { allowed, ..Setting::with(ca) });
    let bearer = format!("authorization: Bearer {}", scene.placeholder);
    let own = format!("x-api-key: {}", scene.placeholder);
    for _ in 0..2 {
        let answer = scene.curl(&["-H", &bearer, "-H", &own, "https://allowed.test/"]);
        assert_eq!(answer.status, 200);
    }
    let sent = scene.allowed.recorded();
    // RFC 7541, section 6.2.3: 0001 and the name's index; `authorization` is 23 = 15 + 8. A name
    // that is in no table is 0001 0000, its length and itself. With `Bearer ` and with the whole name, since two
    // bytes alone may stand in a random value as well.
    let known = sent
        .windows(8)
        .filter(|bytes| bytes[..2] == [0x1f, 8] && bytes[3..] == [0xba, 0x51, 0xd8, 0x5b, 0x14]);
    assert_eq!(known.count(), 2, "{sent:02x?}");
    let own = [0x10, 0x87, 0xf2, 0xb0, 0xeb, 0x32, 0xdd, 0x4b, 0xeb];
    let literal = sent.windows(own.len()).filter(|bytes| *bytes == own);
    assert_eq!(literal.count(), 2, "{sent:02x?}");
}

pub(crate) async fn tls(scene: &Scene) -> tokio_rustls::client::TlsStream<TcpStream> {
    let (head, stream) = scene.connect("allowed.test:443");
    assert!(head.starts_with("HTTP/1.1 200"), "{head}");
    stream.set_nonblocking(true).unwrap();
    let stream = TcpStream::from_std(stream).unwrap();
    let connector = TlsConnector::from(std::sync::Arc::new(scene.tls_config(&[b"h2"])));
    connector.connect(ALLOWED.try_into().unwrap(), stream).await.unwrap()
}

pub(crate) async fn client(scene: &Scene) -> SendRequest<Body> {
    let io = TokioIo::new(tls(scene).await);
    let (sender, connection) = http2::handshake(TokioExecutor::new(), io).await.unwrap();
    tokio::spawn(connection);
    sender
}

pub(crate) fn get(path: &str) -> Request<Body> {
    get_with(path, &[])
}

pub(crate) fn get_with(path: &str, headers: &[(&str, &str)]) -> Request<Body> {
    let mut request = Request::get(format!("https://allowed.test{path}"));
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    request.body(empty()).unwrap()
}

fn empty() -> Body {
    BodyExt::boxed(Empty::new())
}

/// `h2` takes no such path. curl sends it once more over HTTP/1.1, where the server gets it as it is.
#[test]
fn a_target_that_http2_has_no_letters_for_comes_over_http1() {
    let scene = Scene::new();
    let header = format!("authorization: Bearer {}", scene.placeholder);
    for target in ["/api?query=up{job=\"x\"}", "/a<b>`c`"] {
        let url = format!("https://allowed.test{target}");
        let answer = scene.curl(&["--http2", "-g", "-H", &header, &url]);
        assert_eq!(answer.status, 200, "{}\n{}", answer.head, answer.body);
        scene.assert_sealed(&answer);
        assert!(scene.waits_for(Code::BadRequest));
        let events = std::mem::take(&mut *scene.broker.events.lock());
        let note = events.iter().map(|event| event.note.to_string()).collect::<String>();
        assert!(note.contains("is told to send it over HTTP/1.1"), "{note}");
    }
    scene.canary.find(&scene.allowed.everything_received()).unwrap();
}

/// It ends the connection, which is `h2`'s way; the log says why.
#[test]
fn what_ends_an_http2_connection_is_in_the_log() {
    let scene = Scene::new();
    let mut stream = scene.tls(ALLOWED, &[b"h2"]);
    let block = b"\x82\x87\x84\x41\x0callowed.test\x00\x01X\x01y";
    let length = u8::try_from(block.len()).unwrap();
    let head = [0, 0, length, 1, 5, 0, 0, 0, 1];
    let said =
        [&b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0"[..], &head, block].concat();
    std::io::Write::write_all(&mut stream, &said).unwrap();
    let _ = std::io::Read::read_to_end(&mut stream, &mut Vec::new());
    assert!(scene.waits_for(Code::BadRequest));
    let events = scene.broker.events.lock();
    assert!(events[0].note.to_string().contains("was ended"), "{}", events[0].note);
}
