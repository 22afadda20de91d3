//! How every connection comes to the funnel, by what the kernel has.
//!
//! With nf_tables, REDIRECT turns every connection to whatever port to one listener, as in a jail.
//! Where the kernel has none (Firecracker's own configurations), a TUN device does the same. Without
//! either there is one listener for each port of a list. Each way knows where a connection was going.

use std::{
    io,
    net::{Ipv4Addr, SocketAddr, TcpListener, UdpSocket},
    os::fd::AsFd,
    sync::Arc,
};

use keyless_guest::{Reflector, Sockets, reflect_forever};
use keyless_jail::{EverythingDevice, FunnelSockets, MachineNetwork};
use parking_lot::Mutex;
use tokio::net::TcpStream;

use crate::{
    Fault, log,
    settings::{Capture, Settings},
};

/// What the funnel serves.
pub(crate) struct Captured {
    pub(crate) sockets: Sockets,
    pub(crate) destination: Destination,
    /// What the log says.
    pub(crate) words: String,
    /// The machine's connections, until this is dropped: another init may go on, and start this again.
    pub(crate) network: MachineNetwork,
}

/// What a way has: sockets, where a connection was going, and what the log says.
type Way = (Sockets, Destination, String);

/// Where an accepted connection was going.
pub(crate) type Destination = Box<dyn Fn(&TcpStream) -> io::Result<SocketAddr> + Send + Sync>;

/// Sets up what the settings ask for, or the first that this kernel has. Inside a tokio runtime.
pub(crate) fn set_up(settings: &Settings) -> Result<Captured, Fault> {
    let network = MachineNetwork::take().map_err(|error| match error.kind() {
        io::ErrorKind::AddrInUse => Fault::Taken,
        _ => Fault::step("this machine's network")(error),
    })?;
    let way = match settings.capture {
        Capture::Ports => ports(&network, &settings.ports),
        Capture::Redirect => redirect(&network).map_err(Fault::step("capture by nf_tables")),
        Capture::Tun => tun(&network).map_err(Fault::step("capture by a TUN device")),
        Capture::Auto => {
            let without = |what, error: io::Error| {
                log(format_args!("no {what} here ({error})"));
                network.give_back();
            };
            redirect(&network)
                .map_err(|error| without("nf_tables", error))
                .or_else(|()| tun(&network).map_err(|error| without("TUN device", error)))
                .or_else(|()| ports(&network, &settings.ports))
        }
    };
    let (sockets, destination, words) = way?;
    Ok(Captured { sockets, destination, words, network })
}

fn redirect(network: &MachineNetwork) -> io::Result<Way> {
    let FunnelSockets { tcp, dns_udp, dns_tcp } = keyless_jail::redirect_everything(network)?;
    Ok((
        Sockets { tcp: vec![tcp], dns_udp, dns_tcp },
        Box::new(|stream| keyless_jail::original_destination(&stream.as_fd())),
        "capture: nf_tables, every port of every name".to_owned(),
    ))
}

fn tun(network: &MachineNetwork) -> io::Result<Way> {
    let everything = keyless_jail::route_everything_to_device(network)?;
    let EverythingDevice { device, own, peer } = everything;
    let tcp = TcpListener::bind((own, 0))?;
    let (dns_udp, dns_tcp) = dns()?;
    let reflector = Reflector::new(own, peer, tcp.local_addr()?.port());
    let reflector = Arc::new(Mutex::new(reflector));
    tokio::spawn(reflect_forever(device, Arc::clone(&reflector)));
    Ok((
        Sockets { tcp: vec![tcp], dns_udp, dns_tcp },
        Box::new(move |stream| {
            let destination = reflector.lock().destination(stream.peer_addr()?.port());
            destination.map(Into::into).ok_or_else(|| io::ErrorKind::NotFound.into())
        }),
        "capture: a TUN device, every port of every name".to_owned(),
    ))
}

fn ports(network: &MachineNetwork, ports: &[u16]) -> Result<Way, Fault> {
    keyless_jail::make_everything_local(network).map_err(Fault::step("the loopback interface"))?;
    let listen = |port: &u16| {
        let listener = TcpListener::bind((Ipv4Addr::UNSPECIFIED, *port));
        listener.map_err(Fault::step(format!("port {port}")))
    };
    let numbers: Vec<_> = ports.iter().map(ToString::to_string).collect();
    let (dns_udp, dns_tcp) = dns().map_err(Fault::step("DNS on 127.0.0.1:53"))?;
    let tcp = ports.iter().map(listen).collect::<Result<_, _>>()?;
    Ok((
        Sockets { tcp, dns_udp, dns_tcp },
        Box::new(TcpStream::local_addr),
        format!("capture: the ports {} of every name", numbers.join(" ")),
    ))
}

fn dns() -> io::Result<(UdpSocket, TcpListener)> {
    let place = (Ipv4Addr::LOCALHOST, 53);
    Ok((UdpSocket::bind(place)?, TcpListener::bind(place)?))
}
