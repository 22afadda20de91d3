use serde_json::json;

use super::*;
use crate::ports::Entrusted;

fn materials(value: &[u8]) -> Materials {
    let secret = Entrusted {
        handle: Handle::parse_alone("", "{{nl:db/PASSWORD}}").unwrap(),
        path: "team/db/password".parse().unwrap(),
        entry: Entry::Value,
        rule: None,
        is_exposed: false,
    };
    Materials::holding(vec![Material { secret, bytes: Zeroizing::new(value.to_vec()) }])
}

fn work(action: serde_json::Value) -> Work {
    Work {
        action_id: "act_1".to_owned(),
        action: serde_json::from_value(action).unwrap(),
        secrets: Vec::new(),
        allowed_hosts: Vec::new(),
        working_directory: None,
    }
}

#[test]
fn a_rendered_file_does_not_grow_without_bound() {
    let rendered = |times: usize| {
        let text = "{{nl:db/PASSWORD}}".repeat(times);
        let work = work(json!({"type": "template", "template_content": text}));
        render(&work, &materials(&vec![b'x'; 64 << 10]), std::time::Duration::ZERO)
    };
    assert!(rendered(256).is_ok());
    assert_eq!(rendered(257).err().unwrap().code(), Code::OutputTooLarge);
}
