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
const RTM_NEWROUTE: u16 = 24;
const RTA_OIF: u16 = 4;
const RTA_PREFSRC: u16 = 7;
const RT_TABLE_LOCAL: u8 = 255;
const RTPROT_BOOT: u8 = 3;
const RT_SCOPE_HOST: u8 = 254;
const RTN_LOCAL: u8 = 2;
const IFF_UP: u32 = 1;
/// The loopback interface is the first of every network namespace.
const LOOPBACK: u32 = 1;

/// Makes every address of both families local; of IPv4 alone where the host has IPv6 switched off.
pub(crate) fn build() -> io::Result<()> {
    send(RTM_NEWLINK, 0, &[loopback_up()])?;
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

fn send(kind: u16, flags: u16, body: &[Vec<u8>]) -> io::Result<()> {
    exchange(None, &message(kind, flags | ACK, 1, body), 1)
}

/// `struct ifinfomsg`
fn loopback_up() -> Vec<u8> {
    let mut bytes = vec![0; 4];
    bytes.extend(LOOPBACK.to_ne_bytes());
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
