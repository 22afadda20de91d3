//! A file made of several modules, taken apart at its markers.

use std::collections::BTreeMap;

/// The text of each module; `None` unless the whole file is sections with the usual separators.
pub(super) fn parse(text: &str) -> Option<BTreeMap<String, String>> {
    let mut sections = BTreeMap::new();
    let mut rest = text
        .strip_suffix('\n')
        .filter(|text| text.ends_with("<!-- /agentpack -->"))
        .unwrap_or(text);
    loop {
        let body = rest.strip_prefix("<!-- agentpack:module=")?;
        let (id, body) = body.split_once(" -->\n")?;
        let (text, tail) = body.split_once("<!-- /agentpack -->")?;
        if id.contains('\n') || sections.insert(id.to_owned(), text.to_owned()).is_some() {
            return None;
        }
        if tail.trim().is_empty() {
            return Some(sections);
        }
        rest = tail.trim_start_matches('\n').strip_prefix("---")?.trim_start_matches('\n');
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_combined_file_comes_apart() {
        let text = "<!-- agentpack:module=a -->\none\n<!-- /agentpack -->\n\n---\n\n\
                    <!-- agentpack:module=b -->\ntwo\n---\nthree\n<!-- /agentpack -->";
        let sections = parse(text).unwrap();
        assert_eq!(sections["a"], "one\n");
        assert_eq!(sections["b"], "two\n---\nthree\n");
        assert_eq!(parse(&format!("{text}\n")).unwrap(), sections);
        for bad in ["", "words", "<!-- agentpack:module=a -->\none\n", &format!("{text}\nmore")] {
            assert_eq!(parse(bad), None, "{bad}");
        }
    }
}
