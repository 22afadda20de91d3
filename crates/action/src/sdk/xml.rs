//! AWS's XML answers as JSON. What only a model knows (lists, numbers) comes from the data file.

use serde_json::{Map, Value};

/// How deep elements may stand in each other.
const MAX_DEPTH: usize = 128;

/// What the elements of answers are, beside text.
pub(super) struct Shapes<'a> {
    pub(super) lists: &'a [String],
    pub(super) numbers: &'a [String],
}

/// The content of the root, or of the `…Result` in it; `None` when it is no XML, or too deep.
pub(super) fn to_json(text: &str, shapes: &Shapes<'_>) -> Option<Value> {
    let document = roxmltree::Document::parse(text).ok()?;
    let root = document.root_element();
    let result = root
        .children()
        .find(|child| child.is_element() && child.tag_name().name().ends_with("Result"));
    value(result.unwrap_or(root), shapes, MAX_DEPTH)
}

fn value(node: roxmltree::Node<'_, '_>, shapes: &Shapes<'_>, depth: usize) -> Option<Value> {
    let below = depth.checked_sub(1)?;
    let mut members = Map::new();
    for child in node.children().filter(roxmltree::Node::is_element) {
        let name = child.tag_name().name();
        let inner = value(child, shapes, below)?;
        let is_list = shapes.lists.iter().any(|list| list == name);
        match members.get_mut(name) {
            Some(Value::Array(items)) => items.push(inner),
            Some(first) => *first = Value::Array(vec![first.take(), inner]),
            None if is_list => drop(members.insert(name.to_owned(), Value::Array(vec![inner]))),
            None => drop(members.insert(name.to_owned(), inner)),
        }
    }
    if !members.is_empty() {
        return Some(unwrapped(members));
    }
    let text = node.text().unwrap_or_default();
    let is_number = shapes.numbers.iter().any(|name| name == node.tag_name().name());
    Some(match text {
        "true" => Value::Bool(true),
        "false" => Value::Bool(false),
        number if is_number => number.parse::<i64>().map_or_else(|_| number.into(), Value::from),
        other => other.into(),
    })
}

/// `<member>` and `<item>` are how lists are written, not members of anything.
fn unwrapped(members: Map<String, Value>) -> Value {
    let mut names = members.keys();
    match (names.next().map(String::as_str), names.next()) {
        (Some("member" | "item"), None) => {
            members.into_iter().next().map_or(Value::Null, |(_, list)| list)
        }
        _ => Value::Object(members),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn lists_numbers_and_results_are_told() {
        let (lists, numbers) = (["Contents".to_owned(), "member".to_owned()], ["Size".to_owned()]);
        let shapes = Shapes { lists: &lists, numbers: &numbers };
        let bucket = "<ListBucketResult xmlns='x'><Name>b</Name><Contents><Key>k</Key><Size>3</Size></Contents>\
                      <IsTruncated>false</IsTruncated></ListBucketResult>";
        assert_eq!(
            to_json(bucket, &shapes).unwrap(),
            json!({"Name": "b", "Contents": [{"Key": "k", "Size": 3}], "IsTruncated": false})
        );
        let query =
            "<XResponse><XResult><Items><member>a</member></Items></XResult><M/></XResponse>";
        assert_eq!(to_json(query, &shapes).unwrap(), json!({"Items": ["a"]}));
        assert!(to_json("not xml", &shapes).is_none());
    }

    #[test]
    fn what_is_nested_without_end_is_no_data() {
        let shapes = Shapes { lists: &[], numbers: &[] };
        let nested = |depth: usize| "<a>".repeat(depth) + "x" + &"</a>".repeat(depth);
        assert!(to_json(&nested(MAX_DEPTH), &shapes).is_some());
        assert!(to_json(&nested(100_000), &shapes).is_none());
    }
}
