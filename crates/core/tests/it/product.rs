//! What of a source file is product code, for what reads the sources.

/// The text without what is for tests alone: each item under `#[cfg(test)]`, and nothing beside it. The workspace is
/// formatted, so that an item ends at its own depth.
pub(crate) fn product_of(text: &str) -> String {
    let depth = |line: &str| line.len() - line.trim_start().len();
    let (mut product, mut lines) = (String::new(), text.lines());
    while let Some(line) = lines.next() {
        if line.trim() != "#[cfg(test)]" {
            product.push_str(line);
            product.push('\n');
            continue;
        }
        let own = depth(line);
        let is_attribute = |line: &str| line.trim_start().starts_with("#[");
        let ends = |line: &str| {
            let begins = line.trim_start().starts_with('}');
            depth(line) == own && (begins || line.ends_with([';', ',', '}'])) && !is_attribute(line)
        };
        // Lazily: what follows the item is looked at in turn.
        lines.by_ref().find(|line| ends(line));
    }
    product
}

#[test]
fn only_the_item_for_tests_is_left_out() {
    let text = "use a;\n#[cfg(test)]\nmod scene;\n#[cfg(test)]\nuse {\n    b,\n};\nstruct A {\n    token: String,\n}\n\
                impl A {\n    #[cfg(test)]\n    fn f(\n        &self,\n    ) -> B {\n        g();\n    }\n\n    fn h() {}\n}\n\
                #[cfg(test)]\nmod tests {\n    fn t() {}\n}\nstruct Last;\n";
    let product = product_of(text);
    assert_eq!(
        product,
        "use a;\nstruct A {\n    token: String,\n}\nimpl A {\n\n    fn h() {}\n}\nstruct Last;\n"
    );
}
