//! The few things that the two databases call by different names.

use super::Pool;

/// More bytes than are ever written into one column. A database hands a column over whole, however large somebody has
/// made it.
pub(crate) const LARGEST: u32 = 16 << 20;

/// A column of texts, with an empty one in the place of what is larger than any of ours. Its size stands before it, so
/// that what is too large is not looked at.
pub(crate) fn of_a_size(column: &str) -> String {
    format!("CASE WHEN octet_length({column}) > {LARGEST} THEN '' ELSE {column} END")
}

impl Pool {
    /// The text at `place`, names with dots between them, within the JSON of a column.
    pub(crate) fn json_text(&self, column: &str, place: &str) -> String {
        match self {
            Self::Postgres(_) => {
                format!("({column}::jsonb #>> '{{{}}}') COLLATE \"C\"", place.replace('.', ","))
            }
            Self::Sqlite(_) => format!("json_extract({column}, '$.{place}')"),
        }
    }

    /// That the JSON of a column has `text` in the list at `field`, such as `detail.secrets_named`.
    pub(crate) fn json_lists(&self, column: &str, field: &str, text: &str) -> String {
        match self {
            Self::Postgres(_) => {
                let field = field.replace('.', ",");
                format!("coalesce(jsonb_exists({column}::jsonb #> '{{{field}}}', {text}), false)")
            }
            Self::Sqlite(_) => format!(
                "EXISTS (SELECT 1 FROM json_each({column}, '$.{field}') WHERE value = {text})"
            ),
        }
    }

    /// The texts in the list `field` of a column's JSON, as a table for FROM, and the name of its column.
    pub(crate) fn json_items(&self, column: &str, field: &str) -> (String, &'static str) {
        match self {
            Self::Postgres(_) => {
                let items = format!("jsonb_array_elements_text({column}::jsonb -> '{field}')");
                (format!("{items} AS items(item)"), "items.item")
            }
            Self::Sqlite(_) => {
                (format!("json_each({column}, '$.{field}') AS items"), "items.value")
            }
        }
    }

    /// That `text` has `part` in it.
    pub(crate) fn has_text(&self, text: &str, part: &str) -> String {
        match self {
            Self::Postgres(_) => format!("strpos({text}, {part}) > 0"),
            Self::Sqlite(_) => format!("instr({text}, {part}) > 0"),
        }
    }
}
