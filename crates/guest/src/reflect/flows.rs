//! Which port of the peer stands for which connection. Bounded; a port is not given out again while
//! its connection may live.

use std::{
    collections::HashMap,
    net::SocketAddrV4,
    time::{Duration, Instant},
};

/// A program's end and where it was going.
type Ends = (SocketAddrV4, SocketAddrV4);

/// Ports that are given out: all but the well-known.
const FIRST: u16 = 1024;
/// After the end of both directions, late packets still come.
const LINGER: Duration = Duration::from_mins(1);
/// A connection may be silent for as long as the kernel's keep-alive waits by default.
const SILENT: Duration = Duration::from_hours(2);

const FIN: u8 = 1;
const SYN: u8 = 2;
const RST: u8 = 4;
const ACK: u8 = 16;

/// The side that sent a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    Funnel,
    Program,
}

#[derive(Debug, Default)]
pub(super) struct Flows {
    by_port: HashMap<u16, Flow>,
    by_ends: HashMap<Ends, u16>,
    next: u16,
}

#[derive(Debug)]
struct Flow {
    ends: Ends,
    last: Instant,
    /// Which sides have said that they end.
    finished: [bool; 2],
}

impl Flows {
    /// The port that stands for a program's connection; a new one for a first packet. `None` for any
    /// other packet of a connection that is not known, and when all ports stand for something.
    pub(super) fn port_of(&mut self, ends: Ends, flags: u8, now: Instant) -> Option<u16> {
        let begins = flags & (SYN | ACK) == SYN;
        if let Some(&port) = self.by_ends.get(&ends) {
            if begins {
                // The same ends again, after an earlier connection between them.
                self.by_port.get_mut(&port)?.finished = [false; 2];
            }
            self.seen(port, Side::Program, flags, now)?;
            return Some(port);
        }
        if !begins {
            return None;
        }
        let port = self.free_port(now)?;
        self.by_ends.insert(ends, port);
        self.by_port.insert(port, Flow { ends, last: now, finished: [false; 2] });
        Some(port)
    }

    /// Notes a packet of a known connection, and gives its ends.
    pub(super) fn seen(&mut self, port: u16, side: Side, flags: u8, now: Instant) -> Option<Ends> {
        let flow = self.by_port.get_mut(&port)?;
        flow.last = flow.last.max(now);
        if flags & FIN != 0 {
            flow.finished[side as usize] = true;
        }
        if flags & RST != 0 {
            flow.finished = [true; 2];
        }
        Some(flow.ends)
    }

    pub(super) fn destination(&self, port: u16) -> Option<SocketAddrV4> {
        self.by_port.get(&port).map(|flow| flow.ends.1)
    }

    /// The next port that stands for nothing, or for something that has ended.
    fn free_port(&mut self, now: Instant) -> Option<u16> {
        for _ in FIRST..=u16::MAX {
            let port = self.next.max(FIRST);
            self.next = port.wrapping_add(1);
            match self.by_port.get(&port) {
                None => return Some(port),
                Some(flow) if flow.is_over(now) => {
                    self.by_ends.remove(&flow.ends);
                    self.by_port.remove(&port);
                    return Some(port);
                }
                Some(_) => {}
            }
        }
        None
    }
}

impl Flow {
    fn is_over(&self, now: Instant) -> bool {
        let patience = if self.finished == [true; 2] { LINGER } else { SILENT };
        now.saturating_duration_since(self.last) > patience
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ends(program: u16, destination: u16) -> Ends {
        let end = |port| SocketAddrV4::new([127, 1, 0, 1].into(), port);
        (end(program), end(destination))
    }

    #[test]
    fn each_connection_has_its_port_until_it_is_over() {
        let (mut flows, now) = (Flows::default(), Instant::now());
        let first = flows.port_of(ends(1, 443), SYN, now).unwrap();
        assert_eq!(flows.port_of(ends(1, 443), ACK, now), Some(first));
        assert_ne!(flows.port_of(ends(1, 80), SYN, now), Some(first));
        assert_eq!(flows.port_of(ends(2, 443), ACK, now), None, "it has no beginning");
        assert_eq!(flows.destination(first), Some(ends(1, 443).1));
        assert_eq!(flows.destination(9), None);
    }

    #[test]
    fn a_port_is_given_out_again_only_when_all_were_and_it_is_over() {
        let (mut flows, now) = (Flows::default(), Instant::now());
        for program in FIRST..=u16::MAX {
            assert!(flows.port_of(ends(program, 443), SYN, now).is_some(), "{program}");
        }
        assert_eq!(flows.port_of(ends(1, 443), SYN, now), None, "all stand for something");
        let port = flows.port_of(ends(5000, 443), FIN | ACK, now).unwrap();
        flows.seen(port, Side::Funnel, FIN | ACK, now);
        assert_eq!(flows.port_of(ends(1, 443), SYN, now + LINGER), None, "late packets come");
        let later = now + LINGER * 2;
        assert_eq!(flows.port_of(ends(1, 443), SYN, later), Some(port));
        assert_eq!(flows.port_of(ends(5000, 443), ACK, later), None, "it is over");
        assert!(flows.port_of(ends(1, 444), SYN, now + SILENT * 2).is_some());
    }
}
