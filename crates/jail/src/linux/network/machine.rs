//! The jail's network for a whole machine that has no other: a microVM guest, which is its own jail.
//!
//! Two ways lead every connection to one listener. nf_tables, as in a jail; and a TUN device that every
//! address but this machine's own is routed to, for kernels without netfilter. Which one there is, is
//! seen by trying. Both need CAP_NET_ADMIN, which a guest's init has.

use std::fs::{self, OpenOptions};
use std::io;
use std::net::Ipv4Addr;
use std::os::fd::OwnedFd;
use std::os::unix::fs::OpenOptionsExt;

use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};

use super::{nft, routes};
use crate::linux::sys;
use crate::outcome::FunnelSockets;

/// In the abstract namespace, which each network has its own of.
const NAME: &[u8] = b"keyless-guest";
const DEVICE: &str = "keyless";
/// Large, since no packet leaves the machine: fewer of them.
const DEVICE_MTU: u32 = 65_520;

/// A TUN device that everything goes to, and the two addresses of its reflection.
///
/// From RFC 6333: set aside for the inner side of a tunnel, so no program wants to reach them.
#[derive(Debug)]
pub struct EverythingDevice {
    /// Packets are read from, and written to, this; non-blocking.
    pub device: OwnedFd,
    /// The machine's own address on it.
    pub own: Ipv4Addr,
    /// Stands for whoever a connection is to.
    pub peer: Ipv4Addr,
}

/// The network of a machine, for one process at a time: a name that is bound in it, and is free again however that ends.
#[derive(Debug)]
pub struct MachineNetwork {
    _name: OwnedFd,
}

impl MachineNetwork {
    /// Takes it, as it was before another one had it that was killed. Fails with [`io::ErrorKind::AddrInUse`] while another
    /// process has it.
    pub fn take() -> io::Result<Self> {
        let kind = (SocketType::DGRAM, SocketFlags::CLOEXEC);
        let name = rustix::net::socket_with(AddressFamily::UNIX, kind.0, kind.1, None)?;
        rustix::net::bind(&name, &SocketAddrUnix::new_abstract_name(NAME)?)?;
        let taken = Self { _name: name };
        taken.give_back();
        Ok(taken)
    }

    /// Takes back what any of the three ways has made of it.
    pub fn give_back(&self) {
        // A kernel without netfilter has nothing to take back.
        let _ = nft::remove();
        routes::unbuild();
    }
}

impl Drop for MachineNetwork {
    fn drop(&mut self) {
        self.give_back();
    }
}

/// Makes every address this machine: connections reach its listeners, datagrams to ports without one
/// are refused at once.
pub fn make_everything_local(_: &MachineNetwork) -> io::Result<()> {
    routes::build()
}

/// Turns every TCP connection and DNS query to three sockets, by nf_tables. Fails where the kernel has none of it.
pub fn redirect_everything(_: &MachineNetwork) -> io::Result<FunnelSockets> {
    nft::install()?;
    routes::build()?;
    FunnelSockets::bind()
}

/// Routes every address to a TUN device but 127.0.0.0/16. Fails where the kernel has none.
pub fn route_everything_to_device(_: &MachineNetwork) -> io::Result<EverythingDevice> {
    let device = OpenOptions::new()
        .read(true)
        .write(true)
        .custom_flags(libc::O_NONBLOCK | libc::O_CLOEXEC)
        .open("/dev/net/tun")?;
    let device = OwnedFd::from(device);
    sys::name_tun_device(&device, DEVICE)?;
    let any = rustix::net::socket(AddressFamily::INET, SocketType::DGRAM, None)?;
    let index = rustix::net::netdevice::name_to_index(&any, DEVICE)?;
    // Synthetic addresses are in 127/8, which the kernel keeps off other devices unless told.
    fs::write(format!("/proc/sys/net/ipv4/conf/{DEVICE}/route_localnet"), "1")?;
    let (own, peer) = (Ipv4Addr::new(192, 0, 0, 2), Ipv4Addr::new(192, 0, 0, 1));
    routes::build_to_device(index, DEVICE_MTU, own)?;
    Ok(EverythingDevice { device, own, peer })
}
