//! `catalog-sources.toml` as the operator wrote it: an address is put in, pinned or taken out, everything else stays.

use toml_edit::{ArrayOfTables, DocumentMut, Item, Table, TableLike, Value, value};

use super::Source;
use crate::declare::append;

/// Whether anything here counts.
pub(super) fn enable(document: &mut DocumentMut) {
    set(document.as_table_mut(), "enable_url_catalogs", true.into());
}

/// Puts an address behind the others.
pub(super) fn add(document: &mut DocumentMut, source: &Source) {
    let mut table = Table::new();
    table["url"] = value(&source.url);
    if let Some(sha256) = &source.sha256 {
        table["sha256"] = value(sha256);
    }
    if let Some(seconds) = source.refresh_seconds {
        table["refresh_seconds"] = value(i64::try_from(seconds).unwrap_or(i64::MAX));
    }
    match document.entry("source").or_insert(Item::ArrayOfTables(ArrayOfTables::new())) {
        Item::ArrayOfTables(tables) => tables.push(table),
        Item::Value(Value::Array(list)) => append(list, table.into_inline_table().into()),
        _ => {}
    }
}

/// Takes an address out.
pub(super) fn remove(document: &mut DocumentMut, url: &str) {
    match document.get_mut("source") {
        Some(Item::ArrayOfTables(tables)) => tables.retain(|table| !is(table, url)),
        Some(Item::Value(Value::Array(list))) => {
            list.retain(|value| !value.as_inline_table().is_some_and(|table| is(table, url)));
        }
        _ => {}
    }
}

/// Pins an address.
pub(super) fn pin(document: &mut DocumentMut, url: &str, sha256: &str) {
    match document.get_mut("source") {
        Some(Item::ArrayOfTables(tables)) => {
            for table in tables.iter_mut().filter(|table| is(*table, url)) {
                set(table, "sha256", sha256.into());
            }
        }
        Some(Item::Value(Value::Array(list))) => {
            for table in list.iter_mut().filter_map(Value::as_inline_table_mut) {
                if is(table, url) {
                    set(table, "sha256", sha256.into());
                    // The blank before the brace stood behind the value that was the last one.
                    table.fmt();
                }
            }
        }
        _ => {}
    }
}

fn is(table: &dyn TableLike, url: &str) -> bool {
    table.get("url").and_then(Item::as_str) == Some(url)
}

/// Sets a key; a remark behind its value stays.
fn set(table: &mut dyn TableLike, key: &str, mut new: Value) {
    match table.get_mut(key).and_then(Item::as_value_mut) {
        Some(old) => {
            *new.decor_mut() = old.decor().clone();
            *old = new;
        }
        None => drop(table.insert(key, Item::Value(new))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const URL: &str = "https://a.test/x.json";

    #[track_caller]
    fn check(before: &str, edit: impl FnOnce(&mut DocumentMut), after: &str) {
        let mut document: DocumentMut = before.parse().unwrap();
        edit(&mut document);
        assert_eq!(document.to_string(), after);
    }

    fn source(pin: Option<&str>) -> Source {
        Source { url: URL.to_owned(), sha256: pin.map(str::to_owned), refresh_seconds: Some(60) }
    }

    #[test]
    fn an_empty_file_becomes_a_plain_one() {
        let edit = |document: &mut DocumentMut| {
            add(document, &source(Some("ab")));
            enable(document);
        };
        let after = "enable_url_catalogs = true\n\n[[source]]\nurl = \"https://a.test/x.json\"\nsha256 = \"ab\"\nrefresh_seconds = 60\n";
        check("", edit, after);
    }

    #[test]
    fn remarks_and_layout_stay() {
        let ours = "# ours\nenable_url_catalogs = false # for now\n\n[[source]] # the company's\nurl   = 'https://b.test/y.json'\nsha256 = \"cd\" # checked\n";
        check(ours, enable, &ours.replace("false", "true"));
        check(
            ours,
            |document| pin(document, "https://b.test/y.json", "ef"),
            &ours.replace("cd", "ef"),
        );
        let more = format!("{ours}\n[[source]]\nurl = \"{URL}\"\nrefresh_seconds = 60\n");
        check(ours, |document| add(document, &source(None)), &more);
        check(&more, |document| remove(document, URL), ours);
    }

    #[test]
    fn a_list_in_rows_stays_one() {
        let ours = "source = [\n    { url = \"https://b.test/y.json\" }, # the company's\n]\n";
        let more = "source = [\n    { url = \"https://b.test/y.json\" }, # the company's\n    { url = \"https://a.test/x.json\", refresh_seconds = 60 },\n]\n";
        check(ours, |document| add(document, &source(None)), more);
        check(
            more,
            |document| pin(document, URL, "ab"),
            &more.replace("60 }", "60, sha256 = \"ab\" }"),
        );
        check("source = []\n", |document| remove(document, URL), "source = []\n");
    }
}
