//! HTTP/1 request heads: no bytes panic, and a head that is let through says the same to the simplest
//! reader there could be, one that splits lines and compares names. That is what smuggling needs not
//! to hold. Source: reference/egress.md (e) 57.
#![no_main]

use keyless_egress::{Door, Framing, parse_head};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    // Bare line feeds never get this far: the guard refuses them as it looks for the head's end.
    let bare = |at: usize| bytes[at] == b'\n' && (at == 0 || bytes[at - 1] != b'\r');
    if (0..bytes.len()).any(bare) {
        return;
    }
    for door in [Door::Inside, Door::Proxy] {
        if let Ok(framing) = parse_head(bytes, door, 100) {
            check(bytes, door, framing);
        }
    }
});

fn check(head: &[u8], door: Door, framing: Framing) {
    let text: String = head.iter().map(|&byte| char::from(byte)).collect();
    let text = text.trim_start_matches("\r\n");
    let head = text.strip_suffix("\r\n\r\n").expect("a head ends with an empty line");
    let mut lines = head.split("\r\n");
    let request_line = lines.next().unwrap_or_default();
    let fields: Vec<(&str, &str)> =
        lines.map(|line| line.split_once(':').expect("a field has a colon")).collect();

    for (name, value) in &fields {
        assert!(!name.is_empty() && name.bytes().all(|byte| byte.is_ascii_graphic()), "{name:?}");
        assert!(!value.contains(['\0', '\r']), "{value:?}");
    }
    let values = |wanted: &str| -> Vec<&str> {
        let named = fields.iter().filter(|(name, _)| name.eq_ignore_ascii_case(wanted));
        named.map(|(_, value)| value.trim_matches([' ', '\t'])).collect()
    };
    assert!(values("host").len() <= 1, "two hosts");
    match framing {
        Framing::Tunnel => {
            assert_eq!(door, Door::Proxy);
            assert!(request_line.starts_with("CONNECT "), "{request_line:?}");
        }
        Framing::Length(length) => {
            assert_eq!(values("content-length")[..].len(), 1);
            assert_eq!(values("content-length")[0].parse(), Ok(length));
            assert!(values("transfer-encoding").is_empty());
        }
        Framing::Chunked => {
            assert!(values("content-length").is_empty());
            assert_eq!(values("transfer-encoding").len(), 1);
            assert!(values("transfer-encoding")[0].eq_ignore_ascii_case("chunked"));
        }
        Framing::Empty | Framing::Upgrade => {
            assert!(values("content-length").is_empty());
            assert!(values("transfer-encoding").is_empty());
        }
    }
}
