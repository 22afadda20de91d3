//! The nf_tables rules that turn the jail's connections to the funnel, spoken over nfnetlink.
//!
//! The same as this, without the `nft` program and its library:
//!
//! ```text
//! table inet keyless { chain output {
//!     type nat hook output priority -100;
//!     udp dport 53 redirect to :61053
//!     tcp dport 53 redirect to :61053
//!     ip daddr 127.0.0.0/16 return          # the agent's own servers
//!     ip6 daddr ::1 return
//!     meta l4proto tcp redirect to :61443
//! } }
//! ```
//!
//! The funnel's synthetic addresses are 127.1.0.1 to 127.254.255.254, so they are turned; 127.0.x.x is not.

use std::io;

use rustix::net::netlink;

use super::funnel::{DNS_PORT, FUNNEL_PORT};
use super::netlink::{ACK, APPEND, CREATE, attribute, exchange, message, nested, text};

const TABLE: &str = "keyless";
const CHAIN: &str = "output";

/// Creates table, chain and rules in one transaction.
pub(crate) fn install() -> io::Result<()> {
    let rules = rules(DNS_PORT, DNS_PORT, FUNNEL_PORT);
    // Table, chain and each rule are acknowledged; the brackets of the batch are not.
    exchange(Some(netlink::NETFILTER), &batch(&rules, ACK), rules.len() + 2)
}

/// Deletes the table with all that is in it; fails where there is none.
pub(crate) fn remove() -> io::Result<()> {
    let bytes = [
        message(BATCH_BEGIN, 0, 0, &[header(0, 10)]),
        message(DELETE_TABLE, ACK, 1, &[header(INET, 0), text(1, TABLE)]),
        message(BATCH_END, 0, 2, &[header(0, 10)]),
    ];
    exchange(Some(netlink::NETFILTER), &bytes.concat(), 1)
}

/// One step of a rule; a comparison that fails ends the rule.
enum Expression {
    /// Loads the address family (`NFPROTO_*`).
    Family,
    /// Loads the transport protocol's number.
    Transport,
    /// Loads bytes of the packet.
    Payload { base: u32, offset: u32, length: u32 },
    /// Goes on only if what was loaded is this.
    Equals(Vec<u8>),
    /// Rewrites the destination to this machine and port.
    RedirectTo(u16),
    /// Leaves the packet as it is.
    Return,
}

const NETWORK_HEADER: u32 = 1;
const TRANSPORT_HEADER: u32 = 2;
const IPV4: u8 = 2;
const IPV6: u8 = 10;
const TCP: u8 = 6;
const UDP: u8 = 17;

fn rules(dns_udp: u16, dns_tcp: u16, funnel: u16) -> Vec<Vec<Expression>> {
    use Expression::{Equals, Family, Payload, RedirectTo, Return, Transport};
    let port = || Payload { base: TRANSPORT_HEADER, offset: 2, length: 2 };
    let dns = || Equals(53_u16.to_be_bytes().to_vec());
    let ipv6_loopback = std::net::Ipv6Addr::LOCALHOST.octets().to_vec();
    vec![
        vec![Transport, Equals(vec![UDP]), port(), dns(), RedirectTo(dns_udp)],
        vec![Transport, Equals(vec![TCP]), port(), dns(), RedirectTo(dns_tcp)],
        vec![
            Family,
            Equals(vec![IPV4]),
            Payload { base: NETWORK_HEADER, offset: 16, length: 2 },
            Equals(vec![127, 0]),
            Return,
        ],
        vec![
            Family,
            Equals(vec![IPV6]),
            Payload { base: NETWORK_HEADER, offset: 24, length: 16 },
            Equals(ipv6_loopback),
            Return,
        ],
        vec![Transport, Equals(vec![TCP]), RedirectTo(funnel)],
    ]
}

// Message kinds (NFNL_SUBSYS_NFTABLES << 8 | NFT_MSG_*) and the brackets of a transaction.
const BATCH_BEGIN: u16 = 0x10;
const BATCH_END: u16 = 0x11;
const NEW_TABLE: u16 = 0xa00;
const DELETE_TABLE: u16 = 0xa02;
const NEW_CHAIN: u16 = 0xa03;
const NEW_RULE: u16 = 0xa06;

fn batch(rules: &[Vec<Expression>], answer: u16) -> Vec<u8> {
    let mut sequence = 0;
    let mut next = |kind, flags, body: &[Vec<u8>]| {
        let bytes = message(kind, flags, sequence, body);
        sequence += 1;
        bytes
    };
    let mut bytes = next(BATCH_BEGIN, 0, &[header(0, 10)]);
    bytes.extend(next(NEW_TABLE, answer, &[header(INET, 0), text(1, TABLE), number(2, 0)]));
    bytes.extend(next(NEW_CHAIN, answer | CREATE, &chain()));
    for rule in rules {
        let expressions: Vec<_> = rule.iter().flat_map(encode).collect();
        let body = [header(INET, 0), text(1, TABLE), text(2, CHAIN), nested(4, &expressions)];
        bytes.extend(next(NEW_RULE, answer | CREATE | APPEND, &body));
    }
    bytes.extend(next(BATCH_END, 0, &[header(0, 10)]));
    bytes
}

/// `NFPROTO_INET`: both families in one table (nat chains of it: Linux 5.2).
const INET: u8 = 1;

/// `struct nfgenmsg`: family, version 0, resource in network order.
fn header(family: u8, resource: u16) -> Vec<u8> {
    [vec![family, 0], resource.to_be_bytes().to_vec()].concat()
}

fn chain() -> [Vec<u8>; 5] {
    // NF_INET_LOCAL_OUT, before the routing decision is final (NF_IP_PRI_NAT_DST).
    let hook = nested(4, &[number(1, 3), attribute(2, &(-100_i32).to_be_bytes())]);
    let accept = number(5, 1);
    [header(INET, 0), text(1, TABLE), text(3, CHAIN), [text(7, "nat"), accept].concat(), hook]
}

/// One step of ours is one or two of the kernel's (a port is loaded before it is redirected to).
fn encode(expression: &Expression) -> Vec<Vec<u8>> {
    /// `NFT_REG_1`, and `NFT_REG_VERDICT` as register 0.
    const REGISTER: u32 = 1;
    let load = |key| step("meta", &[number(2, key), number(1, REGISTER)]);
    match expression {
        Expression::Family => vec![load(15)],
        Expression::Transport => vec![load(16)],
        Expression::Payload { base, offset, length } => vec![step(
            "payload",
            &[number(1, REGISTER), number(2, *base), number(3, *offset), number(4, *length)],
        )],
        Expression::Equals(value) => {
            vec![step(
                "cmp",
                &[number(1, REGISTER), number(2, 0), nested(3, &[attribute(1, value)])],
            )]
        }
        Expression::RedirectTo(port) => vec![
            step(
                "immediate",
                &[number(1, REGISTER), nested(2, &[attribute(1, &port.to_be_bytes())])],
            ),
            // NF_NAT_RANGE_PROTO_SPECIFIED: the port is given.
            step("redir", &[number(1, REGISTER), number(3, 2)]),
        ],
        Expression::Return => {
            let verdict = nested(2, &[attribute(1, &(-5_i32).to_be_bytes())]);
            vec![step("immediate", &[number(1, 0), nested(2, &[verdict])])]
        }
    }
}

fn step(name: &str, data: &[Vec<u8>]) -> Vec<u8> {
    nested(1, &[text(1, name), nested(2, data)])
}

fn number(kind: u16, value: u32) -> Vec<u8> {
    attribute(kind, &value.to_be_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Captured from nft 1.0.6 loading the rules of this file's header with the ports 40001, 40002
    /// and 40003 (`strace -e write=3 nft -f`).
    const NFT: &[u8] = include_bytes!("../../../tests/vectors/nft-1.0.6-output-chain.bin");

    #[test]
    fn the_batch_is_what_the_nft_program_sends() {
        assert_eq!(batch(&rules(40_001, 40_002, 40_003), 0), NFT);
    }
}
