//! The client: tunnels that are kept alive, and two kinds of load on them.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use http_body_util::BodyExt;
use hyper::{
    Method, Request,
    body::Incoming,
    client::conn::http1::{SendRequest, handshake},
    header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HOST, USER_AGENT},
};
use hyper_util::rt::TokioIo;
use rustls::pki_types::ServerName;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    sync::Barrier,
    task::JoinSet,
};
use tokio_rustls::TlsConnector;

use crate::{
    Failure, ORIGIN, Result, Route,
    figures::percentile,
    origin::{CREDENTIAL, VALUE},
    payload::{Payload, now},
};

/// Requests on each connection before the clock starts.
const WARM_UP: usize = 30;

/// One kept-alive connection to the origin, over one of the routes.
pub struct Tunnel {
    sender: SendRequest<Payload>,
    host: String,
    authorization: String,
    arrives: bool,
}

/// Small requests, one after the other, on each of some connections.
#[derive(Clone, Copy, Debug)]
pub struct Load {
    /// Connections at once.
    pub connections: usize,
    /// How long.
    pub time: Duration,
}

/// What a [`Load`] came to.
#[derive(Clone, Copy, Debug)]
pub struct Loaded {
    /// Requests per second, over all connections.
    pub rate: f64,
    /// Median of the time of one request, milliseconds.
    pub p50: f64,
    /// 99th percentile of the time of one request, milliseconds.
    pub p99: f64,
    /// All requests, warm-up included.
    pub requests: u32,
}

/// Which way a big body goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transfer {
    /// From the origin.
    Download,
    /// To the origin.
    Upload,
}

impl Tunnel {
    /// Connects, and sees with one request that the origin gets what it should over this route: the
    /// value through Keyless, else what the client sent.
    pub async fn open(route: &Route) -> Result<Self> {
        Self::open_to(ORIGIN, route).await
    }

    /// The same to the origin by another of its names.
    pub async fn open_to(host: &str, route: &Route) -> Result<Self> {
        let mut stream = TcpStream::connect(route.address).await?;
        stream.set_nodelay(true)?;
        if let Some(authorization) = &route.proxy_authorization {
            connect_through(&mut stream, host, authorization).await?;
        }
        let connector = TlsConnector::from(Arc::clone(&route.tls));
        let stream = connector.connect(ServerName::try_from(host.to_owned())?, stream).await?;
        let (sender, connection) = handshake(TokioIo::new(stream)).await?;
        tokio::spawn(connection);
        let authorization = format!("Bearer {}", route.credential);
        let mut tunnel =
            Self { sender, host: host.to_owned(), authorization, arrives: route.swaps };
        tunnel.small().await?;
        Ok(tunnel)
    }

    /// One small request.
    pub async fn small(&mut self) -> Result<()> {
        self.send(Method::GET, "/small", Payload::empty()).await.map(drop)
    }

    /// Sends a request and reads its whole answer; how many bytes it had.
    async fn send(&mut self, method: Method, path: &str, payload: Payload) -> Result<u64> {
        let mut body = self.ask(method, path, payload).await?;
        let mut length = 0;
        while let Some(frame) = body.frame().await {
            length += frame?.data_ref().map_or(0, |data| data.len() as u64);
        }
        Ok(length)
    }

    /// Asks for so many events; how late each of them came, in milliseconds.
    pub async fn events(&mut self, count: usize) -> Result<Vec<f64>> {
        let path = format!("/events/{count}");
        let mut body = self.ask(Method::GET, &path, Payload::empty()).await?;
        let (mut text, mut late) = (String::new(), Vec::new());
        while let Some(frame) = body.frame().await {
            let Ok(data) = frame?.into_data() else { continue };
            let came = now();
            text.push_str(str::from_utf8(&data)?);
            while let Some((event, rest)) = text.split_once("\n\n") {
                let sent: u128 = event.trim_start_matches("data: ").parse()?;
                let nanoseconds = u64::try_from(came.saturating_sub(sent))?;
                late.push(Duration::from_nanos(nanoseconds).as_secs_f64() * 1e3);
                text = rest.to_owned();
            }
        }
        if late.len() == count { Ok(late) } else { Err("some events did not come".into()) }
    }

    /// Sends a request; the body of its answer.
    async fn ask(&mut self, method: Method, path: &str, payload: Payload) -> Result<Incoming> {
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header(HOST, self.host.as_str())
            .header(USER_AGENT, "keyless-bench/1.0 (like an agent's own client)")
            .header(ACCEPT, "application/vnd.github+json")
            .header(AUTHORIZATION, self.authorization.as_str())
            .header(CONTENT_TYPE, "application/json")
            .header("x-api-version", "2022-11-28")
            .body(payload)?;
        self.sender.ready().await?;
        let response = self.sender.send_request(request).await?;
        let status = response.status();
        let value = response.headers().get(CREDENTIAL).is_some_and(|seen| seen == VALUE);
        if !status.is_success() || value != self.arrives {
            let body = response.into_body().collect().await?.to_bytes();
            let body = String::from_utf8_lossy(&body).into_owned();
            return Err(format!("{status}, value arrived: {value}, {body}").into());
        }
        Ok(response.into_body())
    }
}

/// New connections per second, each with a whole handshake and one small request, on some lanes.
pub(crate) async fn fresh(route: &Route, load: Load) -> Result<f64> {
    let mut tls = rustls::ClientConfig::clone(&route.tls);
    tls.resumption = rustls::client::Resumption::disabled();
    let route = Route { tls: Arc::new(tls), ..route.clone() };
    let mut lanes = JoinSet::new();
    for _ in 0..load.connections {
        let route = route.clone();
        lanes.spawn(async move {
            let (start, mut opened) = (Instant::now(), 0);
            while start.elapsed() < load.time {
                Tunnel::open(&route).await?;
                opened += 1;
            }
            Ok::<_, Failure>(count(opened) / start.elapsed().as_secs_f64())
        });
    }
    let mut rate = 0.0;
    while let Some(lane) = lanes.join_next().await {
        rate += lane??;
    }
    Ok(rate)
}

/// Puts `load` on `route`.
pub(crate) async fn load(route: &Route, load: Load) -> Result<Loaded> {
    let barrier = Arc::new(Barrier::new(load.connections));
    let mut clients = JoinSet::new();
    for _ in 0..load.connections {
        let tunnel = Tunnel::open(route).await?;
        clients.spawn(one_client(tunnel, load.time, Arc::clone(&barrier)));
    }
    let (mut rate, mut times) = (0.0, Vec::new());
    while let Some(client) = clients.join_next().await {
        let (took, mut its_times) = client??;
        rate += count(its_times.len()) / took.as_secs_f64();
        times.append(&mut its_times);
    }
    let requests = u32::try_from(times.len() + load.connections * (WARM_UP + 1))?;
    Ok(Loaded { rate, p50: percentile(&times, 50.0), p99: percentile(&times, 99.0), requests })
}

/// How long it ran, and each request's time in milliseconds.
async fn one_client(
    mut tunnel: Tunnel,
    time: Duration,
    barrier: Arc<Barrier>,
) -> Result<(Duration, Vec<f64>)> {
    for _ in 0..WARM_UP {
        tunnel.small().await?;
    }
    barrier.wait().await;
    let (start, mut times) = (Instant::now(), Vec::new());
    while start.elapsed() < time {
        let sent = Instant::now();
        tunnel.small().await?;
        times.push(sent.elapsed().as_secs_f64() * 1e3);
    }
    Ok((start.elapsed(), times))
}

/// Sends or gets one body of `bytes` bytes over `route`; how long it took, connecting not included.
pub(crate) async fn transfer(route: &Route, way: Transfer, bytes: u64) -> Result<Duration> {
    let mut tunnel = Tunnel::open(route).await?;
    let start = Instant::now();
    match way {
        Transfer::Download => {
            let path = format!("/bytes/{bytes}");
            let came = tunnel.send(Method::GET, &path, Payload::empty()).await?;
            if came != bytes {
                return Err(format!("{came} of {bytes} bytes came").into());
            }
        }
        Transfer::Upload => {
            tunnel.send(Method::POST, "/sink", Payload::of_length(bytes)).await?;
        }
    }
    Ok(start.elapsed())
}

async fn connect_through(stream: &mut TcpStream, host: &str, authorization: &str) -> Result<()> {
    let head = format!(
        "CONNECT {host}:443 HTTP/1.1\r\nHost: {host}:443\r\nProxy-Authorization: {authorization}\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).await?;
    let mut answer = Vec::new();
    while !answer.ends_with(b"\r\n\r\n") {
        answer.push(stream.read_u8().await?);
    }
    if answer.starts_with(b"HTTP/1.1 200") {
        return Ok(());
    }
    Err(format!("CONNECT was refused: {}", String::from_utf8_lossy(&answer)).into())
}

fn count(n: usize) -> f64 {
    #[expect(clippy::cast_precision_loss, reason = "far fewer than 2^52")]
    let n = n as f64;
    n
}
