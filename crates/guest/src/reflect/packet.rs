//! IPv4 and TCP headers, as far as turning a packet needs them. Checksums are adjusted by what
//! changes (RFC 1624), never made anew: a packet that was broken stays so.

use std::net::{Ipv4Addr, SocketAddrV4};

const TCP: u8 = 6;
const ICMP: u8 = 1;
const IP_HEADER: usize = 20;
const TCP_HEADER: usize = 20;

/// A whole, unfragmented IPv4 packet.
pub(super) struct Ipv4<'p> {
    bytes: &'p mut [u8],
    header: usize,
}

/// What is read of a TCP header.
#[derive(Clone, Copy, Debug)]
pub(super) struct Tcp {
    pub(super) source: u16,
    pub(super) destination: u16,
    pub(super) flags: u8,
}

impl<'p> Ipv4<'p> {
    pub(super) fn read(bytes: &'p mut [u8]) -> Option<Self> {
        let first = *bytes.first()?;
        let header = usize::from(first & 0xf) * 4;
        if first >> 4 != 4 || header < IP_HEADER || bytes.len() < header {
            return None;
        }
        let total = usize::from(u16::from_be_bytes([bytes[2], bytes[3]]));
        let fragment = u16::from_be_bytes([bytes[6], bytes[7]]) & 0x3fff != 0;
        if fragment || total < header || total > bytes.len() {
            return None;
        }
        Some(Self { bytes: &mut bytes[..total], header })
    }

    pub(super) fn source(&self) -> Ipv4Addr {
        self.address(12)
    }

    pub(super) fn destination(&self) -> Ipv4Addr {
        self.address(16)
    }

    pub(super) fn is_tcp(&self) -> bool {
        self.bytes[9] == TCP
    }

    pub(super) fn tcp(&self) -> Option<Tcp> {
        let tcp = &self.bytes[self.header..];
        (tcp.len() >= TCP_HEADER).then(|| Tcp {
            source: u16::from_be_bytes([tcp[0], tcp[1]]),
            destination: u16::from_be_bytes([tcp[2], tcp[3]]),
            flags: tcp[13],
        })
    }

    /// Gives a packet with a TCP header other ends.
    pub(super) fn turn(&mut self, source: SocketAddrV4, destination: SocketAddrV4) {
        let addresses = [source.ip().octets(), destination.ip().octets()].concat();
        let ports = [source.port().to_be_bytes(), destination.port().to_be_bytes()].concat();
        let (header, tcp) = self.bytes.split_at_mut(self.header);
        let (old_addresses, old_ports) = (header[12..20].to_vec(), tcp[..4].to_vec());
        header[12..20].copy_from_slice(&addresses);
        tcp[..4].copy_from_slice(&ports);
        adjust(&mut header[10..12], &old_addresses, &addresses);
        // TCP's sum is over the addresses as well.
        adjust(
            &mut tcp[16..18],
            &[old_addresses, old_ports].concat(),
            &[addresses, ports].concat(),
        );
    }

    fn address(&self, at: usize) -> Ipv4Addr {
        let octets: [u8; 4] = self.bytes[at..at + 4].try_into().expect("four bytes");
        octets.into()
    }
}

/// ICMP port unreachable (RFC 792), from the destination that was wanted. None for ICMP itself, which
/// is never answered so, nor for what goes to many.
pub(super) fn refusal_of(packet: &Ipv4<'_>) -> Option<Vec<u8>> {
    let to = packet.destination();
    if packet.bytes[9] == ICMP || to.is_multicast() || to.is_broadcast() || to.is_unspecified() {
        return None;
    }
    let quoted = &packet.bytes[..packet.bytes.len().min(packet.header + 8)];
    let mut icmp = vec![3, 3, 0, 0, 0, 0, 0, 0];
    icmp.extend_from_slice(quoted);
    let sum = checksum(&icmp);
    icmp[2..4].copy_from_slice(&sum);
    let length = u16::try_from(IP_HEADER + icmp.len()).ok()?;
    let mut answer = vec![0x45, 0];
    answer.extend(length.to_be_bytes());
    answer.extend([0, 0, 0, 0, 64, ICMP, 0, 0]);
    answer.extend(to.octets());
    answer.extend(packet.source().octets());
    let sum = checksum(&answer);
    answer[10..12].copy_from_slice(&sum);
    answer.extend(icmp);
    Some(answer)
}

/// The Internet checksum of bytes in which its place is zero.
pub(super) fn checksum(bytes: &[u8]) -> [u8; 2] {
    (!fold(words(bytes).sum())).to_be_bytes()
}

/// RFC 1624, equation 3: ~(~sum + ~old + new).
fn adjust(sum: &mut [u8], old: &[u8], new: &[u8]) {
    let before = u32::from(!u16::from_be_bytes([sum[0], sum[1]]));
    let gone: u32 = words(old).map(|word| 0xffff - word).sum();
    let come: u32 = words(new).sum();
    sum.copy_from_slice(&(!fold(before + gone + come)).to_be_bytes());
}

fn words(bytes: &[u8]) -> impl Iterator<Item = u32> {
    bytes
        .chunks(2)
        .map(|pair| u32::from(u16::from_be_bytes([pair[0], pair.get(1).copied().unwrap_or(0)])))
}

fn fold(mut sum: u32) -> u16 {
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    u16::try_from(sum).expect("folded to 16 bits")
}
