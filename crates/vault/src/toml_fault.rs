//! What is wrong in a file of TOML, on one line: the parser's own words are several, with a drawing of the place.

use toml::de::Error;

/// The line, counted from one, its key if it has one, and what is wrong there; nothing of a value that the parser does not
/// repeat itself.
pub fn toml_fault(text: &str, error: &Error) -> String {
    let lines: Vec<&str> = error.message().lines().map(str::trim).collect();
    let words = lines.join(", ");
    let Some(before) = error.span().and_then(|span| text.get(..span.start)) else { return words };
    let number = before.matches('\n').count();
    match text.lines().nth(number).and_then(key_of) {
        Some(key) => format!("line {}, {key}: {words}", number + 1),
        None => format!("line {}: {words}", number + 1),
    }
}

/// What stands before the `=` of a line, where that could be a key.
fn key_of(line: &str) -> Option<&str> {
    let key = line.split_once('=')?.0.trim();
    let is_bare = |c: char| c.is_ascii_alphanumeric() || "_-.".contains(c);
    (!key.is_empty() && key.chars().all(is_bare)).then_some(key)
}

#[cfg(test)]
mod tests {
    use toml::Table;

    use super::*;

    #[test]
    fn a_fault_is_told_on_one_line_without_the_files_own_text() {
        for (text, place) in [
            ("a = 1\nx=\n", "line 2, x: "),
            ("[[x]\n", "line 1: "),
            ("a = 1\na = 2\n", "line 2, a: "),
            ("k = [1", "line 1, k: "),
        ] {
            let told = toml_fault(text, &text.parse::<Table>().unwrap_err());
            assert!(told.starts_with(place), "{told}");
            assert!(!told.contains(['|', '^', '\n']), "{told}");
        }
    }
}
