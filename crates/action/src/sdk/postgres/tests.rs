use keyless_core::database::DatabaseColumn;
use proptest::prelude::*;

use super::*;

fn draft(parameters: Value, credential: &str) -> Result<Draft, Error> {
    let Value::Object(parameters) = parameters else { panic!("an object") };
    let wanted =
        Wanted { provider: "postgres", service: "database", operation: "query", parameters };
    Statement::new(wanted)?.with(credential)
}

#[test]
fn rows_are_json_of_their_types() {
    let columns = [("n", 23), ("big", 20), ("ok", 16), ("f", 701), ("nan", 701), ("j", 3802)];
    let texts = ["7", "9007199254740993", "t", "1.5", "NaN", r#"{"a":[1]}"#];
    let columns: Vec<_> = columns
        .into_iter()
        .chain([("n", 25), ("n", 1700), ("none", 23)])
        .map(|(name, type_oid)| DatabaseColumn { name: name.to_owned(), type_oid })
        .collect();
    let row = texts.map(str::to_owned).map(Some).into_iter();
    let row = row.chain([Some("x".to_owned()), Some("1.10".to_owned()), None]).collect();
    let rows =
        DatabaseRows { columns, rows: vec![row], is_cut: true, command: "SELECT 1".to_owned() };
    let data = data(&rows);
    assert_eq!(
        data["rows"][0],
        json!({
            "n": 7, "big": "9007199254740993", "ok": true, "f": 1.5, "nan": "NaN",
            "j": {"a": [1]}, "n_2": "x", "n_3": "1.10", "none": null
        })
    );
    assert_eq!((&data["row_count"], &data["truncated"]), (&json!(1), &json!(true)));
}

#[test]
fn columns_of_one_name_are_told_apart() {
    let named = |given: &[&str]| {
        let column = |name: &&str| DatabaseColumn { name: (*name).to_owned(), type_oid: 25 };
        let columns = given.iter().map(column).collect();
        names(&DatabaseRows { columns, ..DatabaseRows::default() })
    };
    assert_eq!(named(&["n", "n_2", "n", "n", "n_2"]), ["n", "n_2", "n_3", "n_4", "n_2_2"]);
    assert_eq!(named(&["n", "n", "n_2", "n_2"]), ["n", "n_2", "n_2_2", "n_2_3"]);
    let many = named(&["?column?"; 1_000]);
    assert_eq!(many.last().map(String::as_str), Some("?column?_1000"));
    let distinct: HashSet<_> = many.iter().collect();
    assert_eq!(distinct.len(), many.len());
}

#[test]
fn what_is_out_of_order_is_refused() {
    let whole = || json!({"sql": "SELECT 1", "host": "db.test", "user": "u", "database": "d"});
    assert!(draft(whole(), "password").is_ok());
    for (name, value) in [
        ("sql", json!("")),
        ("sql", json!(["SELECT 1"])),
        ("sql", json!("SELECT '{{nl:db/PASSWORD}}'")),
        ("sql", json!("SELECT '{{nl:'")),
        ("values", json!("x")),
        ("max_rows", json!(0)),
        ("max_rows", json!(10_001)),
        ("host", json!("a b")),
        ("host", json!("{{nl:db/HOST}}")),
        ("host", json!("evil.test/x")),
        ("port", json!(65_536)),
        ("user", json!("")),
        ("user", json!("{{nl:db/USER}}")),
        ("user", json!("a {{nl:")),
        ("database", json!("{{nl:db/NAME}}")),
        ("user", json!("u\0password\0x")),
        ("sslmode", json!("disable")),
    ] {
        let mut parameters = whole();
        parameters[name] = value.clone();
        assert!(draft(parameters, "password").is_err(), "{name}: {value}");
    }
    for url in [
        "postgres://",
        "postgres://host/db",
        "postgres://user@host/db",
        "postgres://user:@host/db",
        "postgres://user:pass@/db",
        "postgres://u:p%00x@host/db",
        "postgres://u:p%ff@host/db",
    ] {
        assert!(draft(json!({"sql": "SELECT 1"}), url).is_err(), "{url}");
    }
    for (url, authority) in [
        ("postgresql://u:p@h.test:6543", "h.test:6543"),
        ("postgres://u:p@[::1]/d", "[::1]:5432"),
        ("postgres://u:p:q@h.test/", "h.test:5432"),
    ] {
        let to = draft(json!({"sql": "SELECT 1"}), url).ok().unwrap().to;
        assert_eq!(to.authority.to_string(), authority);
    }
}

/// Reads an array of texts as PostgreSQL does.
fn read_array(text: &str) -> Option<Vec<String>> {
    let mut letters = text.strip_prefix('{')?.strip_suffix('}')?.chars().peekable();
    let mut items = Vec::new();
    while letters.peek().is_some() {
        let mut item = String::new();
        (letters.next()? == '"').then_some(())?;
        loop {
            match letters.next()? {
                '"' => break,
                '\\' => item.push(letters.next()?),
                letter => item.push(letter),
            }
        }
        items.push(item);
        if letters.next().is_some_and(|letter| letter != ',') {
            return None;
        }
    }
    Some(items)
}

proptest! {
    #[test]
    fn no_text_leaves_its_place_in_an_array(texts in prop::collection::vec(any::<String>(), 0..5)) {
        let items: Vec<Value> = texts.iter().map(|text| json!(text)).collect();
        prop_assert_eq!(read_array(&array(&items)), Some(texts));
    }

    #[test]
    fn any_credential_and_host_is_read_or_refused(credential in any::<String>(), host in any::<String>()) {
        let parameters = json!({"sql": "SELECT 1", "host": host, "user": "u", "database": "d"});
        if let Ok(draft) = draft(parameters, &credential) {
            prop_assert!(!draft.to.password.is_empty());
        }
        let _ = draft(json!({"sql": "SELECT 1"}), &format!("postgres://{credential}"));
    }
}
