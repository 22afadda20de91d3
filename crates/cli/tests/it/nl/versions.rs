//! Older values of a secret, while they are given.

use serde_json::json;

use super::{AGENT, BOXED, Served, granted, with_secrets};
use crate::world::{ALLOWED, TOKEN};

#[test]
fn a_replaced_value_is_given_for_a_while() {
    let mut world = with_secrets();
    let origin = world.origin(ALLOWED);
    let served = Served::start(&world);
    granted(&world, AGENT, &["api/*", "db/*"]);
    let hash = |reference: &str| {
        let done = served.act(&json!({
            "type": "inject_stdin", "command": "tr -d '\\n' | sha256sum", "secret_ref": format!("{{{{nl:{reference}}}}}"),
        }));
        done["body"]["result"]["stdout"].as_str().unwrap_or_else(|| panic!("{done}"))[..64]
            .to_owned()
    };
    let before = hash("db/PASSWORD");
    for path in [BOXED, TOKEN] {
        let value = world.another_value();
        let rotate = ["secret", "rotate", path, "--value-stdin"];
        world.keyless(&rotate).stdin(value).run().ok();
    }
    assert_eq!(hash("db/PASSWORD@previous"), before);
    assert_eq!(hash("db/PASSWORD@v1"), before);
    assert_eq!(hash("db/PASSWORD@v2"), hash("db/PASSWORD"));
    assert_ne!(hash("db/PASSWORD"), before);
    let unknown = served.act(&json!({ "type": "exec", "template": "true {{nl:db/PASSWORD@v3}}" }));
    assert_eq!(unknown["body"]["error"]["nl_code"], "NL-E302", "{unknown}");
    // One that is bound to a host goes out as it was before, too; and it is one value that goes.
    let call = |more: &str| {
        let template = format!(
            "curl -sS -o /dev/null -w '%{{http_code}}' -H 'X: {{{{nl:api/TOKEN@previous}}}}' {more}https://{ALLOWED}/"
        );
        served.act(&json!({ "type": "exec", "template": template }))
    };
    let done = call("");
    assert_eq!(done["body"]["result"]["stdout"], "200", "{done}");
    world.assert_received(&origin);
    let both = call("-H 'Y: {{nl:api/TOKEN}}' ");
    assert_eq!(both["body"]["error"]["nl_code"], "NL-E301", "{both}");
    let note = |entry: &serde_json::Value| entry["detail"]["note"].as_str().map(ToOwned::to_owned);
    let noted = world.log().iter().filter_map(note).any(|note| note.starts_with("version 1,"));
    assert!(noted, "{:?}", world.log());
}
