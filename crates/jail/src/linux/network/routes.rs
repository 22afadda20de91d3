//! Loopback up, and a default route of type `local` in both families: every address is this machine.
//!
//! What `ip link set lo up; ip route add local default dev lo src 127.0.0.1 table local` does. The
//! preferred source matters: without it a client of 192.0.2.1 would also have 192.0.2.1 as its own address,
//! and the answer to a turned DNS query would take another way back.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use rustix::io::Errno;

use super::netlink::{ACK, CREATE, attribute, exchange, message};

const RTM_NEWLINK: u16 = 16;
const RTM_NEWADDR: u16 = 20;
const RTM_NEWROUTE: u16 = 24;
const RTM_DELROUTE: u16 = 25;
const IFA_ADDRESS: u16 = 1;
const IFA_LOCAL: u16 = 2;
const IFLA_MTU: u16 = 4;
const RTA_DST: u16 = 1;
const RTA_OIF: u16 = 4;
const RTA_PREFSRC: u16 = 7;
const RT_TABLE_MAIN: u8 = 254;
const RT_TABLE_LOCAL: u8 = 255;
const RTPROT_KERNEL: u8 = 2;
const RTPROT_BOOT: u8 = 3;
const RT_SCOPE_LINK: u8 = 253;
const RT_SCOPE_HOST: u8 = 254;
const RTN_UNICAST: u8 = 1;
const RTN_LOCAL: u8 = 2;
const IFF_UP: u32 = 1;
/// The loopback interface is the first of every network namespace.
const LOOPBACK: u32 = 1;

/// Makes every address of both families local; of IPv4 alone where the host has IPv6 switched off.
pub(crate) fn build() -> io::Result<()> {
    send(RTM_NEWLINK, 0, &[link_up(LOOPBACK)])?;
    send(RTM_NEWROUTE, CREATE, &everything_local(Ipv4Addr::LOCALHOST.into()))?;
    let v6 = send(RTM_NEWROUTE, CREATE, &everything_local(Ipv6Addr::LOCALHOST.into()));
    match v6.as_ref().map_err(Errno::from_io_error) {
        // No IPv6 address can be reached then, so none needs to be turned.
        Err(Some(
            Errno::OPNOTSUPP | Errno::AFNOSUPPORT | Errno::ACCESS | Errno::NODEV | Errno::INVAL,
        )) => Ok(()),
        _ => v6,
    }
}

/// Takes back what either way of building has left. What is not there is no fault, and neither is what can't be taken back:
/// building says so.
pub(crate) fn unbuild() {
    let all = [IpAddr::from(Ipv4Addr::LOCALHOST), Ipv6Addr::LOCALHOST.into()];
    for source in all {
        let _ = send(RTM_DELROUTE, 0, &everything_local(source));
    }
    // First the one that the kernel made when loopback came up.
    let _ = send(RTM_NEWROUTE, CREATE, &own_loopback(8, RTPROT_KERNEL));
    let _ = send(RTM_DELROUTE, 0, &own_loopback(16, RTPROT_BOOT));
}

/// Brings the device up with `address`, and routes all of IPv4 to it but 127.0.0.0/16, which stays
/// this machine's own. What `ip addr add ADDRESS/32 dev DEVICE; ip route add default dev DEVICE; ip
/// route del local 127.0.0.0/8 table local; ip route add local 127.0.0.0/16 dev lo table local` does.
pub(crate) fn build_to_device(device: u32, mtu: u32, address: Ipv4Addr) -> io::Result<()> {
    send(RTM_NEWLINK, 0, &[link_up(LOOPBACK)])?;
    send(RTM_NEWLINK, 0, &[link_up(device), attribute(IFLA_MTU, &mtu.to_ne_bytes())])?;
    let octets = address.octets();
    let mut header = vec![AF_INET, 32, 0, RT_SCOPE_HOST];
    header.extend(device.to_ne_bytes());
    let addresses = [attribute(IFA_LOCAL, &octets), attribute(IFA_ADDRESS, &octets)];
    send(RTM_NEWADDR, CREATE, &[vec![header], addresses.to_vec()].concat())?;
    let source = attribute(RTA_PREFSRC, &octets);
    let default = route(0, [RT_TABLE_MAIN, RTPROT_BOOT, RT_SCOPE_LINK, RTN_UNICAST]);
    send(RTM_NEWROUTE, CREATE, &[default, through(device), source])?;
    send(RTM_NEWROUTE, CREATE, &own_loopback(16, RTPROT_BOOT))?;
    // Of protocol 0: whoever made it.
    send(RTM_DELROUTE, 0, &own_loopback(8, 0))
}

/// The route to so many bits of 127.0.0.0, as this machine's own.
fn own_loopback(bits: u8, protocol: u8) -> [Vec<u8>; 4] {
    [
        route(bits, [RT_TABLE_LOCAL, protocol, RT_SCOPE_HOST, RTN_LOCAL]),
        attribute(RTA_DST, &[127, 0, 0, 0]),
        through(LOOPBACK),
        attribute(RTA_PREFSRC, &Ipv4Addr::LOCALHOST.octets()),
    ]
}

const AF_INET: u8 = 2;

/// `struct rtmsg` for IPv4: a destination of so many bits; table, protocol, scope and type.
fn route(bits: u8, kind: [u8; 4]) -> Vec<u8> {
    [&[AF_INET, bits, 0, 0][..], &kind, &[0; 4]].concat()
}

fn through(device: u32) -> Vec<u8> {
    attribute(RTA_OIF, &device.to_ne_bytes())
}

fn send(kind: u16, flags: u16, body: &[Vec<u8>]) -> io::Result<()> {
    exchange(None, &message(kind, flags | ACK, 1, body), 1)
}

/// `struct ifinfomsg`
fn link_up(device: u32) -> Vec<u8> {
    let mut bytes = vec![0; 4];
    bytes.extend(device.to_ne_bytes());
    bytes.extend(IFF_UP.to_ne_bytes());
    bytes.extend(IFF_UP.to_ne_bytes());
    bytes
}

/// `struct rtmsg` with a destination of no bits, and its attributes.
fn everything_local(source: IpAddr) -> Vec<Vec<u8>> {
    let (family, source) = match source {
        IpAddr::V4(address) => (libc::AF_INET, address.octets().to_vec()),
        IpAddr::V6(address) => (libc::AF_INET6, address.octets().to_vec()),
    };
    let family = u8::try_from(family).expect("address families fit a byte");
    let mut header = vec![family, 0, 0, 0, RT_TABLE_LOCAL, RTPROT_BOOT, RT_SCOPE_HOST, RTN_LOCAL];
    header.extend([0; 4]);
    vec![header, attribute(RTA_OIF, &LOOPBACK.to_ne_bytes()), attribute(RTA_PREFSRC, &source)]
}
