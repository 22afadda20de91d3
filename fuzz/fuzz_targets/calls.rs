//! GraphQL and JSON-RPC bodies: no bytes panic, and what a rule is asked about is what another reader
//! of the same body would call. Source: reference/egress.md, row 30.
#![no_main]

use keyless_egress::fuzzing::{body_calls, document_calls};
use libfuzzer_sys::fuzz_target;
use serde_json::Value;

fuzz_target!(|body: &[u8]| {
    let calls = body_calls("application/json", body);
    if let Some(methods) = &calls.json_rpc {
        let value: Value = serde_json::from_slice(body).expect("what is read so is JSON");
        let requests = value.as_array().cloned().unwrap_or_else(|| vec![value]);
        let named: Vec<_> = requests.iter().map(|one| one["method"].as_str()).collect();
        let methods: Vec<_> = methods.iter().map(|method| Some(method.as_str())).collect();
        assert_eq!(methods, named);
    }
    for calls in [calls, document_calls(body)] {
        for field in calls.graphql.iter().flatten() {
            let (kind, name) = field.split_once('.').expect("KIND.FIELD");
            // An id is what its sender says.
            if kind == "document" {
                continue;
            }
            assert!(matches!(kind, "query" | "mutation" | "subscription"), "{field}");
            assert!(
                !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
            );
        }
    }
    // What is no part of the document changes nothing.
    let commented = [body, b"\n# }\n"].concat();
    assert_eq!(document_calls(body), document_calls(&commented));
});
