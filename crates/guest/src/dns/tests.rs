//! Every kind of question, and what is no question at all.

use hickory_proto::op::EdnsFlags;
use proptest::prelude::*;

use super::*;

fn ask_in(pool: &mut Pool, query: &Message) -> Message {
    let reply = answer_query(&query.to_vec().unwrap(), pool, Instant::now()).unwrap();
    assert!(reply.len() <= 512);
    Message::from_bytes(&reply).unwrap()
}

fn ask(name: &str, kind: RecordType) -> Message {
    ask_in(&mut Pool::new(), &question(name, kind))
}

fn question(name: &str, kind: RecordType) -> Message {
    let mut message = Message::new(7, MessageType::Query, OpCode::Query);
    message.metadata.recursion_desired = true;
    message.add_query(Query::query(Name::from_ascii(name).unwrap(), kind));
    message
}

fn first_address(reply: &Message) -> Option<Ipv4Addr> {
    reply.answers.iter().find_map(|record| match record.data {
        RData::A(A(address)) => Some(address),
        _ => None,
    })
}

#[test]
fn an_address_is_synthetic_and_the_question_comes_back_as_asked() {
    let reply = ask("aPi.ExAmple.TEST.", RecordType::A);
    assert_eq!(reply.metadata.id, 7);
    assert_eq!(reply.metadata.response_code, ResponseCode::NoError);
    assert!(reply.metadata.recursion_available && reply.metadata.recursion_desired);
    assert_eq!(first_address(&reply), Some(Ipv4Addr::new(127, 1, 0, 1)));
    assert_eq!(reply.answers[0].ttl, 60);
    assert_eq!(reply.queries[0].name().to_ascii(), "aPi.ExAmple.TEST.");
    assert_eq!(reply.answers[0].name.to_ascii(), "aPi.ExAmple.TEST.");
}

#[test]
fn spellings_of_one_name_share_an_address() {
    let mut pool = Pool::new();
    let first = ask_in(&mut pool, &question("a.test.", RecordType::A));
    let again = ask_in(&mut pool, &question("A.TEST.", RecordType::A));
    let other = ask_in(&mut pool, &question("b.test.", RecordType::A));
    assert_eq!(first_address(&first), first_address(&again));
    assert_ne!(first_address(&first), first_address(&other));
}

#[test]
fn other_types_have_no_data() {
    let types = [28, 65, 64, 16, 15, 5, 33, 6, 2, 255, 257, 999];
    for kind in types.map(RecordType::from) {
        let reply = ask("a.test.", kind);
        assert_eq!(reply.metadata.response_code, ResponseCode::NoError, "{kind}");
        assert!(reply.answers.is_empty(), "{kind}");
        assert_eq!(reply.authorities[0].record_type(), RecordType::SOA);
    }
}

#[test]
fn localhost_is_the_machine_itself() {
    for name in ["localhost.", "LOCALHOST.", "app.localhost."] {
        assert_eq!(first_address(&ask(name, RecordType::A)), Some(Ipv4Addr::LOCALHOST));
        assert!(ask(name, RecordType::AAAA).answers.is_empty());
    }
    assert_ne!(first_address(&ask("notlocalhost.", RecordType::A)), Some(Ipv4Addr::LOCALHOST));
}

#[test]
fn what_is_no_host_name_does_not_exist() {
    let names: [&[&[u8]]; 8] = [
        &[b"a b", b"test"],
        &[b"\xc3\xbc", b"test"],
        &[b"a.b", b"test"],
        &[b"a\0", b"test"],
        &[b"127", b"1"],
        &[b"1", b"2", b"3", b"4"],
        &[b"-a", b"test"],
        &[b"x", b"invalid"],
    ];
    for labels in names {
        for kind in [RecordType::A, RecordType::AAAA] {
            let mut query = question("a.test.", kind);
            query.queries[0].name = Name::from_labels(labels.iter().copied()).unwrap();
            let reply = ask_in(&mut Pool::new(), &query);
            assert_eq!(reply.metadata.response_code, ResponseCode::NXDomain, "{labels:?} {kind}");
            assert!(reply.answers.is_empty());
        }
    }
    let root = ask(".", RecordType::A);
    assert_eq!((root.metadata.response_code, root.answers.len()), (ResponseCode::NoError, 0));
}

#[test]
fn a_pointer_leads_back_to_the_name() {
    let mut pool = Pool::new();
    ask_in(&mut pool, &question("Api.Test.", RecordType::A));
    let reply = ask_in(&mut pool, &question("1.0.1.127.in-addr.arpa.", RecordType::PTR));
    assert_eq!(reply.answers[0].data, RData::PTR(PTR(Name::from_ascii("api.test.").unwrap())));
    let reply = ask("1.0.0.127.in-addr.arpa.", RecordType::PTR);
    assert_eq!(reply.answers[0].data, RData::PTR(PTR(Name::from_ascii("localhost.").unwrap())));
    for name in ["8.8.8.8.in-addr.arpa.", "1.127.in-addr.arpa.", "8.b.d.0.ip6.arpa.", "a.test."] {
        let reply = ask(name, RecordType::PTR);
        assert_eq!(reply.metadata.response_code, ResponseCode::NXDomain, "{name}");
    }
}

#[test]
fn extensions_are_answered_in_kind() {
    let mut query = question("a.test.", RecordType::A);
    let mut edns = Edns::new();
    edns.set_max_payload(4096).set_dnssec_ok(true);
    query.set_edns(edns.clone());
    let reply = ask_in(&mut Pool::new(), &query);
    let ours = reply.edns.as_ref().unwrap();
    assert_eq!((ours.max_payload(), ours.version()), (1232, 0));
    assert_eq!(*ours.flags(), EdnsFlags { dnssec_ok: false, z: 0 });
    assert_eq!(reply.answers.len(), 1);

    edns.set_version(1);
    query.set_edns(edns);
    let reply = ask_in(&mut Pool::new(), &query);
    assert_eq!((u16::from(reply.metadata.response_code), reply.answers.len()), (16, 0), "BADVERS");
    assert!(ask("a.test.", RecordType::A).edns.is_none());
}

#[test]
fn what_is_no_query_is_told_so_or_dropped() {
    let code = |bytes: &[u8]| {
        let reply = answer_query(bytes, &mut Pool::new(), Instant::now())?;
        assert_eq!(reply[..2], bytes[..2], "the id comes back");
        assert_eq!(reply[2] & 0x80, 0x80, "it is a response");
        Some(reply[3] & 0x0f)
    };
    let query = question("a.test.", RecordType::A).to_vec().unwrap();
    let with = |at: usize, byte: u8| {
        let mut changed = query.clone();
        changed[at] = byte;
        changed
    };
    assert_eq!(code(&query), Some(0));
    assert_eq!(code(&query[..11]), None, "no whole header");
    assert_eq!(code(&[]), None);
    assert_eq!(code(&with(2, 0x80)), None, "a response");
    assert_eq!(code(&with(2, 0x20)), Some(4), "STATUS");
    assert_eq!(code(&with(2, 0x28)), Some(4), "UPDATE");
    assert_eq!(code(&with(5, 0)), Some(1), "no question");
    assert_eq!(code(&with(5, 2)), Some(1), "two questions");
    assert_eq!(code(&with(4, 0xff)), Some(1), "65,281 questions");
    assert_eq!(code(&with(8, 0xff)), Some(1), "65,280 authorities");
    assert_eq!(code(&query[..query.len() - 1]), Some(1), "cut short");
    assert_eq!(code(&with(12, 0xc0)), Some(1), "a pointer into the header or beyond");
    assert_eq!(code(&with(query.len() - 1, 3)), Some(5), "class CHAOS");
}

#[test]
fn an_exhausted_pool_fails_the_lookup() {
    let (mut pool, now) = (Pool::new(), Instant::now());
    for n in 0..1 << 16 {
        pool.lookup(&HostName::parse(&format!("h{n}.test")).unwrap(), now).unwrap();
    }
    let reply = ask_in(&mut pool, &question("one-more.test.", RecordType::A));
    assert_eq!((reply.metadata.response_code, reply.answers.len()), (ResponseCode::ServFail, 0));
}

proptest! {
    #[test]
    fn no_bytes_upset_it(mut bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        let _ = answer_query(&bytes, &mut Pool::new(), Instant::now());
        // Most random headers are refused early; this one asks one question.
        if bytes.len() > 12 {
            bytes[2..12].copy_from_slice(&[1, 0, 0, 1, 0, 0, 0, 0, 0, 1]);
            let reply = answer_query(&bytes, &mut Pool::new(), Instant::now());
            prop_assert!(reply.is_some_and(|reply| reply.len() <= 512));
        }
    }
}
