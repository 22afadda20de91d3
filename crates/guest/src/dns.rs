//! Answers DNS queries out of the pool; nothing is ever resolved here.
//!
//! `A` gives a name its synthetic address, `PTR` of such an address its name; every other type of a
//! good name exists without data, above all `AAAA` (there is no IPv6 inside) and `HTTPS`/`SVCB`
//! (their hints and ECH keys would lead around the funnel, reference/egress.md (c) 9). An answer is
//! never longer than 512 bytes (header, one question, one record, OPT), so none is truncated.

mod server;

use std::{
    net::{IpAddr, Ipv4Addr},
    time::Instant,
};

use hickory_proto::{
    op::{Edns, Header, Message, MessageType, Metadata, OpCode, Query, ResponseCode},
    rr::{
        DNSClass, Name, RData, Record, RecordType,
        rdata::{A, PTR, SOA},
    },
    serialize::binary::{BinDecodable, BinDecoder},
};
use keyless_core::HostName;

use crate::names::{Pool, TTL};

pub(crate) use server::{serve_tcp, serve_udp};

/// The UDP payload that we say we take, the DNS flag day's 1232 bytes.
const MAX_PAYLOAD: u16 = 1232;

/// The shortest record: root name, type, class, TTL and an empty value.
const MIN_RECORD_BYTES: usize = 11;

#[expect(clippy::cast_possible_truncation, reason = "a minute")]
const TTL_SECONDS: u32 = TTL.as_secs() as u32;

/// Answers one message, at the time `now`. `None`: nothing to say, since it is a response itself or
/// shorter than a header. Never panics, whatever the bytes.
pub fn answer_query(query: &[u8], pool: &mut Pool, now: Instant) -> Option<Vec<u8>> {
    let header = Header::read(&mut BinDecoder::new(query)).ok()?;
    if header.metadata.message_type == MessageType::Response {
        return None;
    }
    let reply = match read_query(query, &header) {
        Ok(query) => answer(&query, pool, now),
        Err(code) => reply_to(&header.metadata, code),
    };
    reply.to_vec().ok()
}

/// The message, when it is a query with one question. The counts are judged before anything is
/// read by them.
fn read_query(bytes: &[u8], header: &Header) -> Result<Message, ResponseCode> {
    if header.metadata.op_code != OpCode::Query {
        return Err(ResponseCode::NotImp);
    }
    let counts = &header.counts;
    let records = [counts.answers, counts.authorities, counts.additionals];
    let claimed: usize = records.into_iter().map(usize::from).sum();
    if counts.queries != 1 || claimed * MIN_RECORD_BYTES > bytes.len() {
        return Err(ResponseCode::FormErr);
    }
    Message::from_bytes(bytes).map_err(|_| ResponseCode::FormErr)
}

fn answer(query: &Message, pool: &mut Pool, now: Instant) -> Message {
    let question = &query.queries[0];
    let mut reply = reply_to(&query.metadata, ResponseCode::NoError);
    reply.add_query(question.clone());
    if let Some(edns) = &query.edns {
        reply.set_edns(our_edns());
        if edns.version() != 0 {
            reply.metadata.response_code = ResponseCode::BADVERS;
            return reply;
        }
    }
    match look_up(question, pool, now) {
        Ok(Some(data)) => {
            reply.add_answer(Record::from_rdata(question.name().clone(), TTL_SECONDS, data));
        }
        Ok(None) => {
            reply.add_authority(start_of_authority());
        }
        Err(code) => reply.metadata.response_code = code,
    }
    reply
}

/// The record that is asked for; `None` when the name exists without one.
fn look_up(question: &Query, pool: &mut Pool, now: Instant) -> Result<Option<RData>, ResponseCode> {
    if question.query_class() != DNSClass::IN {
        return Err(ResponseCode::Refused);
    }
    if question.name().is_root() {
        return Ok(None);
    }
    let name = HostName::parse(&question.name().to_ascii()).map_err(|_| ResponseCode::NXDomain)?;
    match question.query_type() {
        RecordType::A => address_of(&name, pool, now).map(Some),
        RecordType::PTR => pointer(question.name(), pool).map(Some),
        _ if is_invalid(&name) => Err(ResponseCode::NXDomain),
        _ => Ok(None),
    }
}

fn address_of(name: &HostName, pool: &mut Pool, now: Instant) -> Result<RData, ResponseCode> {
    if is_invalid(name) {
        return Err(ResponseCode::NXDomain);
    }
    let address = if is_localhost(name) {
        Ipv4Addr::LOCALHOST
    } else {
        pool.lookup(name, now).map_err(|_| ResponseCode::ServFail)?
    };
    Ok(RData::A(A(address)))
}

fn pointer(name: &Name, pool: &Pool) -> Result<RData, ResponseCode> {
    let network = name.parse_arpa_name().map_err(|_| ResponseCode::NXDomain)?;
    let target = match network.addr() {
        _ if network.prefix_len() != network.max_prefix_len() => None,
        IpAddr::V4(Ipv4Addr::LOCALHOST) => Some("localhost"),
        IpAddr::V4(address) => pool.name_of(address).map(HostName::as_str),
        IpAddr::V6(_) => None,
    };
    let target = target.and_then(|target| Name::from_ascii(format!("{target}.")).ok());
    target.map(|target| RData::PTR(PTR(target))).ok_or(ResponseCode::NXDomain)
}

/// RFC 6761, 6.3: these names are the machine's own and never leave it.
fn is_localhost(name: &HostName) -> bool {
    name.as_str() == "localhost" || name.as_str().ends_with(".localhost")
}

/// RFC 6761, 6.4: these names don't exist, and programs ask for them to see that.
fn is_invalid(name: &HostName) -> bool {
    name.as_str() == "invalid" || name.as_str().ends_with(".invalid")
}

fn reply_to(query: &Metadata, code: ResponseCode) -> Message {
    let mut reply = Message::response(query.id, query.op_code);
    reply.metadata = Metadata::response_from_request(query);
    reply.metadata.recursion_available = true;
    reply.metadata.response_code = code;
    reply
}

fn our_edns() -> Edns {
    let mut edns = Edns::new();
    edns.set_max_payload(MAX_PAYLOAD).set_version(0);
    edns
}

/// Lets a resolver keep "no such data" as long as an address (RFC 2308).
fn start_of_authority() -> Record {
    let [refresh, retry, expire] = [3600, 600, 86_400];
    let soa = SOA::new(Name::root(), Name::root(), 1, refresh, retry, expire, TTL_SECONDS);
    Record::from_rdata(Name::root(), TTL_SECONDS, RData::SOA(soa))
}

#[cfg(test)]
mod tests;
