//! The outermost members of a message that can't be read as a whole, so that it is answered under its id. Pure.
//!
//! JavaScript writes half a surrogate pair as any other letter, and a client whose call is answered without its id waits
//! for ever. Nothing here says that the text is JSON: only that its quotes and brackets close.

use serde_json::Value;

/// The id of a message, unless it has two: an answer to one of them might be taken for the other's. None where the
/// text does not end where its first bracket closes.
pub(super) fn only_id(text: &[u8]) -> Option<Value> {
    serde_json::from_slice(id_as_written(text)?).ok()
}

/// As [`only_id`], but gives the id's bytes as they stand in the text.
pub(super) fn id_as_written(text: &[u8]) -> Option<&[u8]> {
    let mut rest = text.trim_ascii().strip_prefix(b"{")?.trim_ascii_start();
    let mut only = None;
    while !rest.starts_with(b"}") {
        let name;
        (name, rest) = rest.split_at_checked(item(rest)?)?;
        let value;
        rest = rest.trim_ascii_start().strip_prefix(b":")?.trim_ascii_start();
        (value, rest) = rest.split_at_checked(item(rest)?)?;
        if serde_json::from_slice::<String>(name).is_ok_and(|name| name == "id")
            && only.replace(value.trim_ascii()).is_some()
        {
            return None;
        }
        rest = rest.trim_ascii_start();
        rest = match rest.strip_prefix(b",") {
            Some(more) if more.trim_ascii_start().starts_with(b"\"") => more.trim_ascii_start(),
            Some(_) => return None,
            None => rest,
        };
        if !rest.starts_with(b"}") && !rest.starts_with(b"\"") {
            return None;
        }
    }
    (rest == b"}").then_some(only).flatten()
}

/// How long the name or value is that stands here: to the comma, colon or bracket that is not in it.
fn item(text: &[u8]) -> Option<usize> {
    let (mut depth, mut quoted, mut escaped) = (0_usize, false, false);
    for (at, byte) in text.iter().enumerate() {
        match (quoted, byte) {
            (true, _) if escaped => escaped = false,
            (true, b'\\') => escaped = true,
            (_, b'"') => quoted = !quoted,
            (false, b'{' | b'[') => depth += 1,
            (false, b',' | b':' | b'}' | b']') if depth == 0 => return (at > 0).then_some(at),
            (false, b'}' | b']') => depth -= 1,
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_id_is_found_where_nothing_else_can_be_read() {
        let deep = format!(r#"{{"id":7,"x":{}{}}}"#, "[".repeat(5000), "]".repeat(5000));
        for (text, id) in [
            (r#"{"id":7,"x":"\ud800"}"#, json!(7)),
            (r#" { "x" : "\ud800\"}" , "id" : "a,b" } "#, json!("a,b")),
            (r#"{"\u0069d":7,"x":"\udc00"}"#, json!(7)),
            (r#"{"\ud800":{"id":1},"id":2}"#, json!(2)),
            (&deep, json!(7)),
        ] {
            assert_eq!(only_id(text.as_bytes()), Some(id), "{text}");
        }
    }

    #[test]
    fn what_is_cut_short_or_has_two_ids_has_none() {
        for text in [
            "",
            "{",
            "{}",
            "[7]",
            r#"{"id":7"#,
            r#"{"id":7,"x":"#,
            r#"{"id":7,"x":"}"#,
            r#"{"id":7,}"#,
            r#"{"id":7,"x":[}"#,
            r#"{"id":7} {"id":8}"#,
            r#"{"id":7,"id":7,"x":"\ud800"}"#,
            r#"{"id":"\ud800"}"#,
            r#"{"params":{"id":7},"x":"\ud800"}"#,
            "\u{fffd}",
        ] {
            assert_eq!(only_id(text.as_bytes()), None, "{text}");
        }
    }
}
