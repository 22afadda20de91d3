//! From a name to a connection: resolved once, judged by zone, dialled as resolved.
//!
//! All answers are judged, not only the first, and only judged addresses are ever dialled, so a
//! second answer (rebinding) has nothing to offer. An operator's exact route skips the judgement:
//! it is a word for one host and port. Source: reference/egress.md (c) 7, 8 and 41; (e) 93 to 99.

use std::{
    collections::{HashMap, HashSet},
    io,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket},
    sync::{Arc, LazyLock},
    time::Duration,
};

use futures_util::{StreamExt as _, stream::FuturesUnordered};
use keyless_core::{Authority, Code, Error, Host, SafeText, Zone, zone_of};
use tokio::{
    net::{TcpStream, lookup_host},
    time::{Instant, sleep, timeout, timeout_at},
};

use crate::{Limits, UpstreamProxy};

/// How long one address may be tried alone before the next one joins (RFC 8305 says 250 ms).
const HEAD_START: Duration = Duration::from_millis(250);
/// More answers than any server needs; bounds the attempts.
const MAX_ADDRESSES: usize = 16;

const DOES_NOT_ANSWER: &str = "it does not answer";
const NOT_LED_OUT: &str =
    "the upstream proxy took the connection, and has not connected it in time";

/// Finds and opens connections to destinations.
pub(crate) struct Dialer {
    routes: HashMap<Authority, Authority>,
    internal_allowlist: HashSet<Authority>,
    proxy: Option<UpstreamProxy>,
    lookup_time: Duration,
    connect_time: Duration,
    /// Closes what is kept for nobody, where no descriptor is free.
    make_room: Option<MakeRoom>,
}

type MakeRoom = Arc<dyn Fn() + Send + Sync>;

/// The judged addresses of one destination, in the order in which they are tried.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Pinned {
    addresses: Arc<[SocketAddr]>,
    /// The destination, where the addresses are those of the upstream proxy.
    through: Option<Authority>,
}

impl Dialer {
    pub(crate) fn new(
        routes: HashMap<Authority, Authority>,
        internal_allowlist: impl IntoIterator<Item = Authority>,
        proxy: Option<UpstreamProxy>,
        limits: &Limits,
    ) -> Self {
        Self {
            routes,
            internal_allowlist: internal_allowlist.into_iter().collect(),
            proxy,
            lookup_time: limits.lookup_time,
            connect_time: limits.connect_time,
            make_room: None,
        }
    }

    /// The same that has room made where no descriptor is free, and tries once more.
    pub(crate) fn with_room(self, make_room: MakeRoom) -> Self {
        Self { make_room: Some(make_room), ..self }
    }

    /// Whether the operator has named exactly this host and port.
    pub(crate) fn is_named(&self, authority: &Authority) -> bool {
        self.routes.contains_key(authority) || self.internal_allowlist.contains(authority)
    }

    /// Whether the operator has said where this host and port really are.
    pub(crate) fn is_routed(&self, authority: &Authority) -> bool {
        self.routes.contains_key(authority)
    }

    /// Resolves and judges `authority`, once.
    pub(crate) async fn pin(&self, authority: &Authority) -> Result<Pinned, Error> {
        if let Some(route) = self.routes.get(authority) {
            return self.resolve(route).await.map(Pinned::new);
        }
        if let Some(proxy) = self.proxy_for(authority) {
            return self.pin_through(proxy, authority).await;
        }
        let addresses = self.resolve(authority).await?;
        if !self.internal_allowlist.contains(authority) {
            self.judge(&addresses)?;
        }
        Ok(Pinned::new(addresses))
    }

    /// Resolves `authority`, once, by the operator's own word: wherever it is. What is outside is
    /// reached through the proxy that leads out.
    pub(crate) async fn pin_unjudged(&self, authority: &Authority) -> Result<Pinned, Error> {
        let routed = self.routes.get(authority);
        if let (None, Some(proxy)) = (routed, self.proxy_for(authority))
            && let Ok(pinned) = self.pin_through(proxy, authority).await
        {
            return Ok(pinned);
        }
        let route = routed.unwrap_or(authority);
        self.resolve(route).await.map(Pinned::new)
    }

    /// Judges addresses that were looked up earlier.
    pub(crate) fn judge_again(&self, authority: &Authority, pinned: &Pinned) -> Result<(), Error> {
        let is_judged = self.is_named(authority) || pinned.through.is_some();
        if is_judged { Ok(()) } else { self.judge(&pinned.addresses) }
    }

    fn judge(&self, addresses: &[SocketAddr]) -> Result<(), Error> {
        let judged = judge(addresses);
        if judged.is_err() && self.has_made_room() { judge(addresses) } else { judged }
    }

    /// Whether no descriptor was free, and some may be now.
    fn has_made_room(&self) -> bool {
        let Some(make_room) = &self.make_room else { return false };
        let tried = can_be_bound(Ipv4Addr::LOCALHOST.into());
        let is_full = tried.is_err_and(|error| no_descriptor_is_free(&error));
        if is_full {
            make_room();
        }
        is_full
    }

    /// The proxy that leads to this destination.
    fn proxy_for(&self, authority: &Authority) -> Option<&UpstreamProxy> {
        let proxy = self.proxy.as_ref()?;
        (!self.internal_allowlist.contains(authority) && !proxy.leaves_out(authority))
            .then_some(proxy)
    }

    async fn pin_through(
        &self,
        proxy: &UpstreamProxy,
        authority: &Authority,
    ) -> Result<Pinned, Error> {
        match self.resolve(authority).await {
            Ok(addresses) => self.judge(&addresses)?,
            // Behind such a proxy outside names are often not to be had.
            Err(error) if matches!(error.code(), Code::NameNotFound | Code::NameTimeout) => {}
            Err(error) => return Err(error),
        }
        let addresses = self.resolve(&proxy.address).await.map_err(|error| {
            let words = SafeText::words("its name does not resolve: ").and(error.code().as_str());
            Error::with(Code::UpstreamProxyFailed, words)
        })?;
        Ok(Pinned { through: Some(authority.clone()), ..Pinned::new(addresses) })
    }

    async fn resolve(&self, authority: &Authority) -> Result<Vec<SocketAddr>, Error> {
        let name = match &authority.host {
            Host::Ip(address) => return Ok(vec![SocketAddr::new(*address, authority.port)]),
            Host::Name(name) => name.as_str(),
        };
        let look_up = || timeout(self.lookup_time, lookup_host((name, authority.port)));
        let mut answer = look_up().await;
        if matches!(answer, Ok(Err(_))) && self.has_made_room() {
            answer = look_up().await;
        }
        let addresses: Vec<_> = match answer {
            Err(_) => return Err(Code::NameTimeout.into()),
            Ok(Err(_)) => return Err(Error::with(Code::NameNotFound, said(&authority.host))),
            Ok(Ok(addresses)) => addresses.take(MAX_ADDRESSES).collect(),
        };
        if addresses.is_empty() {
            Err(Error::with(Code::NameNotFound, said(&authority.host)))
        } else {
            Ok(addresses)
        }
    }

    /// Connects to the first of the pinned addresses that answers, and through the proxy if they are its own.
    pub(crate) async fn dial(&self, pinned: &Pinned) -> Result<TcpStream, Error> {
        let deadline = Instant::now() + self.connect_time;
        let stream = timeout_at(deadline, self.connect(pinned)).await.unwrap_or_else(|_| {
            Err(match &pinned.through {
                Some(_) => Error::with(Code::UpstreamProxyFailed, DOES_NOT_ANSWER.into()),
                None => Code::ConnectTimeout.into(),
            })
        })?;
        match (&pinned.through, &self.proxy) {
            (None, _) => Ok(stream),
            (Some(target), Some(proxy)) => {
                let led_out = timeout_at(deadline, proxy.connect(stream, target)).await;
                // It may be the destination that does not answer the proxy.
                let late = Error::with(Code::ConnectTimeout, NOT_LED_OUT.into());
                led_out.unwrap_or(Err(late))
            }
            // It was taken away in the meantime.
            (Some(_), None) => Err(Code::ConnectFailed.into()),
        }
    }

    async fn connect(&self, pinned: &Pinned) -> Result<TcpStream, Error> {
        let raced = match (race(&pinned.addresses).await, &self.make_room) {
            (Err(error), Some(make_room)) if no_descriptor_is_free(&error) => {
                make_room();
                race(&pinned.addresses).await
            }
            (raced, _) => raced,
        };
        let stream = raced.map_err(|error| {
            let leads_out = pinned.through.is_some();
            let code = if leads_out { Code::UpstreamProxyFailed } else { Code::ConnectFailed };
            Error::with(code, SafeText::default().and(error.kind()))
        })?;
        // Without it small writes wait for acknowledgements: 40 ms stalls.
        stream.set_nodelay(true).map_err(|_| Error::new(Code::ConnectFailed))?;
        Ok(stream)
    }
}

impl Pinned {
    /// The addresses, in the order in which they are tried.
    pub(crate) fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }

    /// Whether the addresses are those of the proxy that leads out.
    pub(crate) fn is_through_proxy(&self) -> bool {
        self.through.is_some()
    }

    /// Alternates between the families, so that a dead one costs one head start only.
    fn new(addresses: Vec<SocketAddr>) -> Self {
        let (mut v6, mut v4): (Vec<_>, Vec<_>) =
            addresses.into_iter().partition(SocketAddr::is_ipv6);
        v6.reverse();
        v4.reverse();
        let mut order = Vec::with_capacity(v6.len() + v4.len());
        while !(v6.is_empty() && v4.is_empty()) {
            order.extend(v6.pop());
            order.extend(v4.pop());
        }
        Self { addresses: order.into(), through: None }
    }
}

/// Any internal address among the answers refuses them all.
fn judge(addresses: &[SocketAddr]) -> Result<(), Error> {
    match addresses.iter().find_map(|address| objection(address.ip())) {
        Some(objection) => Err(Error::with(Code::InternalDestination, objection)),
        None => Ok(()),
    }
}

/// Whether an address is of a kind that is internal, or this machine's own.
pub(crate) fn is_internal(address: IpAddr) -> bool {
    objection(address).is_some()
}

/// Why an address counts as internal, if it does. What could not be tried may not be taken for somebody else's.
fn objection(address: IpAddr) -> Option<SafeText> {
    if zone_of(address) == Zone::Internal {
        return Some(lies_inside(address));
    }
    match is_ours(address) {
        Ok(is_ours) => is_ours.then(|| lies_inside(address)),
        Err(error) => {
            let words = SafeText::words("whether ").and(address).and(" is this machine's own ");
            Some(words.and("could not be tried by binding a UDP socket to it: ").and(error.kind()))
        }
    }
}

/// Whether an interface of this machine has the address, as nothing else lets it be bound: a public one leads to what
/// listens here, behind whatever guards it from outside.
fn is_ours(address: IpAddr) -> io::Result<bool> {
    /// Where the kernel lets anything be bound (`ip_nonlocal_bind`), which says nothing then: addresses for documentation
    /// are nobody's.
    static ANY_CAN_BE: LazyLock<[bool; 2]> = LazyLock::new(|| {
        let nobodys: [IpAddr; 2] = [
            Ipv4Addr::new(192, 0, 2, 1).into(),
            Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1).into(),
        ];
        nobodys.map(|address| can_be_bound(address).unwrap_or(false))
    });
    Ok(can_be_bound(address)? && !ANY_CAN_BE[usize::from(address.is_ipv6())])
}

/// Fails where that could not be tried: no descriptor or port is free, or a policy of the system forbids it.
fn can_be_bound(address: IpAddr) -> io::Result<bool> {
    tells(UdpSocket::bind((address, 0)).map(drop))
}

/// What an attempt to bind an address says of it. Only that no interface has it, or that the machine knows no such
/// family, says that it is not ours.
fn tells(bound: io::Result<()>) -> io::Result<bool> {
    use rustix::io::Errno;

    let Err(error) = bound else { return Ok(true) };
    match Errno::from_io_error(&error) {
        Some(Errno::ADDRNOTAVAIL | Errno::AFNOSUPPORT | Errno::PFNOSUPPORT) => Ok(false),
        _ => Err(error),
    }
}

fn lies_inside(address: IpAddr) -> SafeText {
    SafeText::default().and(address).and(" is internal")
}

fn said(host: &Host) -> SafeText {
    SafeText::default().and(host)
}

fn no_descriptor_is_free(error: &io::Error) -> bool {
    let errno = rustix::io::Errno::from_io_error(error);
    matches!(errno, Some(rustix::io::Errno::MFILE | rustix::io::Errno::NFILE))
}

async fn race(addresses: &[SocketAddr]) -> io::Result<TcpStream> {
    let mut waiting = addresses.iter().copied();
    let mut attempts = FuturesUnordered::new();
    attempts.extend(waiting.next().map(TcpStream::connect));
    let mut last = io::Error::from(io::ErrorKind::AddrNotAvailable);
    loop {
        tokio::select! {
            biased;
            attempt = attempts.next() => match attempt {
                Some(Ok(stream)) => return Ok(stream),
                Some(Err(error)) => {
                    last = error;
                    attempts.extend(waiting.next().map(TcpStream::connect));
                }
                None => return Err(last),
            },
            () = sleep(HEAD_START), if waiting.len() > 0 => {
                attempts.extend(waiting.next().map(TcpStream::connect));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn authority(text: &str) -> Authority {
        Authority::parse(text).unwrap()
    }

    fn dialer(routes: &[(&str, &str)], allowed: &[&str]) -> Dialer {
        let routes = routes.iter().map(|(from, to)| (authority(from), authority(to))).collect();
        Dialer::new(routes, allowed.iter().map(|text| authority(text)), None, &Limits::default())
    }

    #[tokio::test]
    async fn an_internal_answer_is_refused_unless_the_exact_word_is_listed() {
        let dialer = dialer(&[], &["localhost:8000", "127.0.0.1:9000"]);
        let code = async |text: &str| dialer.pin(&authority(text)).await.map_err(|e| e.code());
        assert!(code("localhost:8000").await.is_ok());
        assert_eq!(code("localhost:8001").await, Err(Code::InternalDestination));
        assert!(code("127.0.0.1:9000").await.is_ok());
        // By address does not open the name, and the other way round.
        assert_eq!(code("localhost:9000").await, Err(Code::InternalDestination));
        assert_eq!(code("127.0.0.1:8000").await, Err(Code::InternalDestination));
    }

    #[test]
    fn one_bad_answer_spoils_them_all() {
        let at = |ip: &str| SocketAddr::new(ip.parse().unwrap(), 443);
        assert!(judge(&[at("8.8.8.8"), at("2606:4700::1")]).is_ok());
        assert!(judge(&[at("64:ff9b::808:808")]).is_ok());
        for bad in ["10.0.0.1", "::1", "::ffff:169.254.169.254", "64:ff9b::a9fe:a9fe"] {
            assert!(judge(&[at("8.8.8.8"), at(bad)]).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_machines_own_addresses_are_told_from_others() {
        assert!(is_ours("127.0.0.1".parse().unwrap()).unwrap());
        for others in ["8.8.8.8", "192.0.2.1", "2606:4700::1"] {
            assert!(!is_ours(others.parse().unwrap()).unwrap(), "{others}");
        }
    }

    /// In a process of its own, as nextest runs every test.
    #[test]
    fn without_a_free_descriptor_no_address_is_told_to_be_anothers() {
        let other = "8.8.8.8".parse().unwrap();
        assert!(!is_internal(other));
        let limit = rustix::process::Rlimit { current: Some(0), maximum: Some(0) };
        rustix::process::setrlimit(rustix::process::Resource::Nofile, limit).unwrap();
        assert!(is_internal(other));
        let told = objection(other).unwrap().to_string();
        assert!(
            told.starts_with("whether 8.8.8.8 is this machine's own could not be tried"),
            "{told}"
        );
    }

    #[test]
    fn only_what_no_interface_has_is_told_to_be_anothers() {
        use rustix::io::Errno;

        let told = |errno: Errno| tells(Err(errno.into())).ok();
        assert_eq!(tells(Ok(())).ok(), Some(true));
        for no in [Errno::ADDRNOTAVAIL, Errno::AFNOSUPPORT] {
            assert_eq!(told(no), Some(false), "{no}");
        }
        // A policy of the system, no port left, no descriptor, no memory: it was not tried.
        for untried in [Errno::ACCESS, Errno::PERM, Errno::ADDRINUSE, Errno::MFILE, Errno::NOBUFS] {
            assert_eq!(told(untried), None, "{untried}");
        }
    }

    #[tokio::test]
    async fn a_route_is_the_operators_word() {
        let dialer = dialer(&[("api.test:443", "127.0.0.1:8443")], &[]);
        let pinned = dialer.pin(&authority("api.test:443")).await.unwrap();
        assert_eq!(pinned.addresses[..], ["127.0.0.1:8443".parse().unwrap()]);
    }

    #[test]
    fn families_alternate() {
        let at = |text: &str| text.parse::<SocketAddr>().unwrap();
        let given = vec![at("1.0.0.1:1"), at("1.0.0.2:1"), at("[2::1]:1")];
        let order = [at("[2::1]:1"), at("1.0.0.1:1"), at("1.0.0.2:1")];
        assert_eq!(Pinned::new(given).addresses[..], order);
    }

    #[tokio::test]
    async fn a_dead_address_does_not_keep_from_a_live_one() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let live = listener.local_addr().unwrap();
        let dead = SocketAddr::new(live.ip(), 1);
        assert_eq!(race(&[dead, live]).await.unwrap().peer_addr().unwrap(), live);
        assert!(race(&[dead]).await.is_err());
        assert!(race(&[]).await.is_err());
    }
}
