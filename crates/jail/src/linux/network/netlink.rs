//! Netlink messages, written by hand: headers, attributes, and one exchange with the kernel.
//!
//! Only what `routes` and `nft` need. Numbers in headers are in host order, as netlink has them.

use std::io;

use rustix::io::Errno;
use rustix::net::netlink::SocketAddrNetlink;
use rustix::net::{
    AddressFamily, Protocol, RecvFlags, SendFlags, SocketFlags, SocketType, recv, sendto,
    socket_with,
};

/// `NLMSG_ERROR`: also the acknowledgement, with error number 0.
const ERROR: u16 = 2;
/// `NLM_F_REQUEST`
pub(crate) const REQUEST: u16 = 0x1;
/// `NLM_F_ACK`
pub(crate) const ACK: u16 = 0x4;
/// `NLM_F_CREATE`
pub(crate) const CREATE: u16 = 0x400;
/// `NLM_F_APPEND`
pub(crate) const APPEND: u16 = 0x800;
/// `NLA_F_NESTED`
const NESTED: u16 = 0x8000;
const HEADER: usize = 16;

/// One attribute: its kind and bytes, padded to four.
pub(crate) fn attribute(kind: u16, value: &[u8]) -> Vec<u8> {
    let length = u16::try_from(value.len() + 4).expect("attributes here are far below 64 KiB");
    let mut bytes = Vec::with_capacity(value.len() + 7);
    bytes.extend(length.to_ne_bytes());
    bytes.extend(kind.to_ne_bytes());
    bytes.extend(value);
    bytes.resize(bytes.len().next_multiple_of(4), 0);
    bytes
}

/// An attribute made of attributes.
pub(crate) fn nested(kind: u16, parts: &[Vec<u8>]) -> Vec<u8> {
    attribute(kind | NESTED, &parts.concat())
}

/// A text attribute, with its closing NUL.
pub(crate) fn text(kind: u16, value: &str) -> Vec<u8> {
    attribute(kind, &[value.as_bytes(), &[0]].concat())
}

/// One message: header (with sequence number), the family's own header, attributes.
pub(crate) fn message(kind: u16, flags: u16, sequence: u32, body: &[Vec<u8>]) -> Vec<u8> {
    let body = body.concat();
    let length = u32::try_from(HEADER + body.len()).expect("messages here are far below 4 GiB");
    let mut bytes = Vec::with_capacity(HEADER + body.len());
    bytes.extend(length.to_ne_bytes());
    bytes.extend(kind.to_ne_bytes());
    bytes.extend((flags | REQUEST).to_ne_bytes());
    bytes.extend(sequence.to_ne_bytes());
    bytes.extend(0_u32.to_ne_bytes());
    bytes.extend(body);
    bytes
}

/// Sends messages in one datagram and reads `acknowledgements` answers; the first error wins.
///
/// The kernel handles netlink requests within the send call, so the answers are there afterwards and
/// nothing is waited for.
/// No protocol is number 0, routing.
pub(crate) fn exchange(
    protocol: Option<Protocol>,
    bytes: &[u8],
    acknowledgements: usize,
) -> io::Result<()> {
    let flags = SocketFlags::CLOEXEC;
    let socket = socket_with(AddressFamily::NETLINK, SocketType::RAW, flags, protocol)?;
    sendto(&socket, bytes, SendFlags::empty(), &SocketAddrNetlink::new(0, 0))?;
    let mut seen = 0;
    let mut answer = vec![0_u8; 16 * 1024];
    while seen < acknowledgements {
        let (received, _) = recv(&socket, &mut answer[..], RecvFlags::DONTWAIT)?;
        let mut rest = &answer[..received];
        while let Some((error, next)) = next_answer(rest) {
            match error {
                0 => seen += 1,
                error => return Err(Errno::from_raw_os_error(-error).into()),
            }
            rest = next;
        }
    }
    Ok(())
}

/// The error number (0 or negative) of the first answer, and what follows it.
fn next_answer(bytes: &[u8]) -> Option<(i32, &[u8])> {
    let length = usize::try_from(u32::from_ne_bytes(bytes.get(..4)?.try_into().ok()?)).ok()?;
    let kind = u16::from_ne_bytes(bytes.get(4..6)?.try_into().ok()?);
    let error = i32::from_ne_bytes(bytes.get(HEADER..HEADER + 4)?.try_into().ok()?);
    let next = bytes.get(length.next_multiple_of(4).max(HEADER)..).unwrap_or_default();
    (kind == ERROR).then_some((error, next))
}
