//! Packets of a TUN device: none panics, a turned one keeps its length and goes to the listener or to
//! the program, and a broken checksum is never mended.
#![no_main]

use std::{net::Ipv4Addr, time::Instant};

use keyless_guest::{Reflected, Reflector};
use libfuzzer_sys::fuzz_target;

const OWN: Ipv4Addr = Ipv4Addr::new(192, 0, 0, 2);
const PEER: Ipv4Addr = Ipv4Addr::new(192, 0, 0, 1);

fuzz_target!(|bytes: &[u8]| {
    let mut reflector = Reflector::new(OWN, PEER, 61_443);
    let now = Instant::now();
    // The second time its connection is known.
    for mut packet in [bytes.to_vec(), bytes.to_vec()] {
        let (length, before) = (packet.len(), sum(&packet));
        match reflector.reflect(&mut packet, now) {
            Reflected::Packet => {
                assert_eq!((packet.len(), &packet[16..20]), (length, &OWN.octets()[..]));
                assert_eq!(before, sum(&packet), "the header's sum is as right as it was");
            }
            Reflected::Answer(answer) => assert_eq!(sum(&answer), Some(0xffff)),
            Reflected::Nothing => {}
        }
    }
});

/// The sum over an IPv4 header, 0xffff when it is right.
fn sum(packet: &[u8]) -> Option<u32> {
    let header = packet.get(..usize::from(packet.first()? & 0xf) * 4)?;
    let words = header.chunks(2).map(|pair| u32::from(u16::from_be_bytes([pair[0], pair[1]])));
    let mut sum: u32 = words.sum();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    Some(sum)
}
