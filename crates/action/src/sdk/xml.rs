//! XML of which no model says what it is, such as AWS's errors, as JSON of objects and text.

use serde_json::{Map, Value};

/// How deep elements may stand in each other.
const MAX_DEPTH: usize = 128;

/// The content of the root; `None` when it is no XML, or too deep.
pub(super) fn to_json(text: &str) -> Option<Value> {
    let document = roxmltree::Document::parse(text).ok()?;
    value(document.root_element(), MAX_DEPTH)
}

fn value(node: roxmltree::Node<'_, '_>, depth: usize) -> Option<Value> {
    let below = depth.checked_sub(1)?;
    let mut members = Map::new();
    for child in node.children().filter(roxmltree::Node::is_element) {
        let name = child.tag_name().name();
        let inner = value(child, below)?;
        match members.get_mut(name) {
            Some(Value::Array(items)) => items.push(inner),
            Some(first) => *first = Value::Array(vec![first.take(), inner]),
            None => drop(members.insert(name.to_owned(), inner)),
        }
    }
    if members.is_empty() {
        return Some(node.text().unwrap_or_default().into());
    }
    Some(Value::Object(members))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_error_is_told() {
        let error = "<Response xmlns='x'><Errors><Error><Code>C</Code><Message>m</Message></Error></Errors></Response>";
        let wanted = json!({"Errors": {"Error": {"Code": "C", "Message": "m"}}});
        assert_eq!(to_json(error).unwrap(), wanted);
        assert_eq!(to_json("<a><b>1</b><b/></a>").unwrap(), json!({"b": ["1", ""]}));
        assert!(to_json("not xml").is_none());
    }

    #[test]
    fn what_is_nested_without_end_is_no_data() {
        let nested = |depth: usize| "<a>".repeat(depth) + "x" + &"</a>".repeat(depth);
        assert!(to_json(&nested(MAX_DEPTH)).is_some());
        assert!(to_json(&nested(100_000)).is_none());
    }
}
