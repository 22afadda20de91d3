//! Turns packets that went into a TUN device back to this machine, so that the kernel's own TCP
//! answers them: every connection, to whatever port, becomes one to the funnel's listener.
//!
//! ```text
//!  a program                       device                     the kernel's TCP
//!  own:40000 ──► 127.1.0.7:5432    peer:1024 ──► own:61443    accepted; 1024 stands for 127.1.0.7:5432
//!  own:40000 ◄── 127.1.0.7:5432    peer:1024 ◄── own:61443
//! ```
//!
//! No state of TCP is kept but which port stands for which connection, and no packet is made but the
//! refusal of what is not TCP (ICMP port unreachable, so that HTTP/3 falls back at once). Pure: packets
//! and time are arguments. For kernels without netfilter; where there is nf_tables, it does this.

mod flows;
mod packet;

use std::{
    net::{Ipv4Addr, SocketAddrV4},
    time::Instant,
};

use self::{
    flows::{Flows, Side},
    packet::{Ipv4, refusal_of},
};

/// Turns packets; knows where each connection was going.
#[derive(Debug)]
pub struct Reflector {
    own: Ipv4Addr,
    peer: Ipv4Addr,
    /// The listener's port on the own address.
    port: u16,
    flows: Flows,
}

/// What shall be written to the device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reflected {
    /// The packet, which was changed in place.
    Packet,
    /// Another packet, in answer to it.
    Answer(Vec<u8>),
    /// Nothing.
    Nothing,
}

impl Reflector {
    /// For a device with the address `own`, where `port` is listened on, and `peer` is nobody.
    pub fn new(own: Ipv4Addr, peer: Ipv4Addr, port: u16) -> Self {
        Self { own, peer, port, flows: Flows::default() }
    }

    /// Turns one packet. What is no whole IPv4 packet of this machine's own is dropped.
    pub fn reflect(&mut self, packet: &mut [u8], now: Instant) -> Reflected {
        let Some(mut ip) = Ipv4::read(packet) else { return Reflected::Nothing };
        if ip.source() != self.own {
            return Reflected::Nothing;
        }
        if !ip.is_tcp() {
            let refusal = refusal_of(&ip);
            return refusal.map_or(Reflected::Nothing, Reflected::Answer);
        }
        let Some(tcp) = ip.tcp() else { return Reflected::Nothing };
        let (from, to) = (
            SocketAddrV4::new(ip.source(), tcp.source),
            SocketAddrV4::new(ip.destination(), tcp.destination),
        );
        let turned = if *to.ip() == self.peer && from.port() == self.port {
            let flow = self.flows.seen(to.port(), Side::Funnel, tcp.flags, now);
            flow.map(|(program, destination)| (destination, program))
        } else {
            let port = self.flows.port_of((from, to), tcp.flags, now);
            port.map(|port| {
                (SocketAddrV4::new(self.peer, port), SocketAddrV4::new(self.own, self.port))
            })
        };
        match turned {
            Some((source, destination)) => {
                ip.turn(source, destination);
                Reflected::Packet
            }
            None => Reflected::Nothing,
        }
    }

    /// Where the connection was going that the funnel accepted from `port` of the peer.
    pub fn destination(&self, port: u16) -> Option<SocketAddrV4> {
        self.flows.destination(port)
    }
}

#[cfg(test)]
mod tests;
