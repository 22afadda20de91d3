//! The fields at the root of a GraphQL document's operations, as `query.viewer`.
//!
//! Only as much of the grammar is read as that takes (GraphQL, October 2021, section 2); what is
//! inside arguments, directives and inner selections is skipped by its brackets. A document that
//! does not read to its end gives nothing.

use std::collections::HashMap;

/// Deeper than any document that people write; bounds the recursion.
const MAX_DEPTH: usize = 32;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Token<'t> {
    Name(&'t str),
    /// A number or a string.
    Value,
    /// `...`
    Spread,
    Sign(u8),
}

/// A member of a selection at the root.
enum Member<'t> {
    Field(&'t str),
    Spread(&'t str),
}

struct Parser<'t> {
    tokens: Vec<Token<'t>>,
    at: usize,
}

/// The root fields of every operation in the document, or nothing if it can't be read.
pub(super) fn root_fields(document: &str) -> Option<Vec<String>> {
    let mut parser = Parser { tokens: tokens(document)?, at: 0 };
    let mut operations = Vec::new();
    let mut fragments = HashMap::new();
    while let Some(token) = parser.next() {
        match token {
            Token::Sign(b'{') => operations.push(("query", parser.selection(0)?)),
            Token::Name(kind @ ("query" | "mutation" | "subscription")) => {
                parser.skip_to_selection()?;
                operations.push((kind, parser.selection(0)?));
            }
            Token::Name("fragment") => {
                let Token::Name(name) = parser.next()? else { return None };
                parser.skip_to_selection()?;
                if fragments.insert(name, parser.selection(0)?).is_some() {
                    return None;
                }
            }
            _ => return None,
        }
    }
    let mut fields = Vec::new();
    for (kind, members) in &operations {
        for field in flat(members, &fragments)? {
            fields.push(format!("{kind}.{field}"));
        }
    }
    Some(fields)
}

/// The fields of a selection, with its fragments in place; each fragment counts once.
fn flat<'t>(
    members: &[Member<'t>],
    fragments: &HashMap<&'t str, Vec<Member<'t>>>,
) -> Option<Vec<&'t str>> {
    let mut fields = Vec::new();
    let mut seen = Vec::new();
    let mut waiting: Vec<&Member<'t>> = members.iter().collect();
    while let Some(member) = waiting.pop() {
        match member {
            Member::Field(name) => fields.push(*name),
            Member::Spread(name) if seen.contains(name) => {}
            Member::Spread(name) => {
                seen.push(*name);
                waiting.extend(fragments.get(name)?);
            }
        }
    }
    Some(fields)
}

impl<'t> Parser<'t> {
    fn next(&mut self) -> Option<Token<'t>> {
        let token = self.peek()?;
        self.at += 1;
        Some(token)
    }

    fn peek(&self) -> Option<Token<'t>> {
        self.tokens.get(self.at).copied()
    }

    fn skips(&mut self, token: Token<'_>) -> bool {
        let is_next = self.peek() == Some(token);
        self.at += usize::from(is_next);
        is_next
    }

    /// Skips names, variables and directives, up to and with the `{` of a selection.
    fn skip_to_selection(&mut self) -> Option<()> {
        loop {
            match self.next()? {
                Token::Sign(b'{') => return Some(()),
                Token::Sign(b'(') => self.skip_group()?,
                Token::Name(_) | Token::Sign(b'@') => {}
                _ => return None,
            }
        }
    }

    /// Skips to the bracket that closes the one before.
    fn skip_group(&mut self) -> Option<()> {
        let mut open = 1_usize;
        while open > 0 {
            match self.next()? {
                Token::Sign(b'(' | b'[' | b'{') => open += 1,
                Token::Sign(b')' | b']' | b'}') => open -= 1,
                _ => {}
            }
        }
        Some(())
    }

    /// Reads a selection whose `{` is behind.
    fn selection(&mut self, depth: usize) -> Option<Vec<Member<'t>>> {
        if depth > MAX_DEPTH {
            return None;
        }
        let mut members = Vec::new();
        loop {
            match self.next()? {
                Token::Sign(b'}') => return Some(members),
                Token::Spread => match self.peek()? {
                    Token::Name(name) if name != "on" => {
                        self.at += 1;
                        self.skip_directives()?;
                        members.push(Member::Spread(name));
                    }
                    _ => {
                        self.skip_to_selection()?;
                        members.extend(self.selection(depth + 1)?);
                    }
                },
                Token::Name(name) => {
                    let aliased = self.skips(Token::Sign(b':'));
                    let name = match aliased.then(|| self.next()) {
                        None => name,
                        Some(Some(Token::Name(name))) => name,
                        Some(_) => return None,
                    };
                    if self.skips(Token::Sign(b'(')) {
                        self.skip_group()?;
                    }
                    self.skip_directives()?;
                    if self.skips(Token::Sign(b'{')) {
                        self.skip_group()?;
                    }
                    members.push(Member::Field(name));
                }
                _ => return None,
            }
        }
    }

    fn skip_directives(&mut self) -> Option<()> {
        while self.skips(Token::Sign(b'@')) {
            let Token::Name(_) = self.next()? else { return None };
            if self.skips(Token::Sign(b'(')) {
                self.skip_group()?;
            }
        }
        Some(())
    }
}

fn tokens(text: &str) -> Option<Vec<Token<'_>>> {
    let mut tokens = Vec::new();
    let mut rest = text.strip_prefix('\u{feff}').unwrap_or(text);
    while let Some(byte) = rest.bytes().next() {
        let (token, length) = match byte {
            b' ' | b'\t' | b'\n' | b'\r' | b',' => (None, 1),
            b'#' => (None, rest.find(['\n', '\r']).unwrap_or(rest.len())),
            b'.' if rest.starts_with("...") => (Some(Token::Spread), 3),
            b'"' => (Some(Token::Value), string_length(rest)?),
            b'_' | b'a'..=b'z' | b'A'..=b'Z' => {
                let length = length_of(rest, |b| b == b'_' || b.is_ascii_alphanumeric());
                (Some(Token::Name(&rest[..length])), length)
            }
            b'-' | b'0'..=b'9' => {
                let number = |b: u8| b.is_ascii_alphanumeric() || b"+-.".contains(&b);
                (Some(Token::Value), length_of(rest, number))
            }
            b'!' | b'$' | b'&' | b'(' | b')' | b':' | b'=' | b'@' | b'[' | b']' | b'{' | b'|'
            | b'}' => (Some(Token::Sign(byte)), 1),
            _ => return None,
        };
        tokens.extend(token);
        rest = &rest[length..];
    }
    Some(tokens)
}

fn length_of(text: &str, fits: impl Fn(u8) -> bool) -> usize {
    text.bytes().take_while(|byte| fits(*byte)).count()
}

/// The length of the string that `text` begins with, quotes included.
fn string_length(text: &str) -> Option<usize> {
    if let Some(block) = text.strip_prefix("\"\"\"") {
        let mut from = 0;
        loop {
            let end = from + block[from..].find("\"\"\"")?;
            if !block[..end].ends_with('\\') {
                return Some(end + 6);
            }
            from = end + 3;
        }
    }
    let mut bytes = text.bytes().enumerate().skip(1);
    while let Some((at, byte)) = bytes.next() {
        match byte {
            b'"' => return Some(at + 1),
            b'\\' => drop(bytes.next()),
            b'\n' | b'\r' => return None,
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fields(document: &str) -> Option<Vec<String>> {
        let mut fields = root_fields(document)?;
        fields.sort();
        Some(fields)
    }

    #[test]
    fn root_fields_of_every_operation() {
        for (document, expected) in [
            ("{ viewer { login } }", &["query.viewer"][..]),
            ("query Q($a: Int = 1, $b: [String!]!) @x(y: {z: 1}) { a b }", &["query.a", "query.b"]),
            (
                "mutation { harmless: deleteRef(input: {id: \"}\"}) { id } }",
                &["mutation.deleteRef"],
            ),
            ("query A { a } mutation B { b }", &["mutation.b", "query.a"]),
            ("subscription { s }", &["subscription.s"]),
            ("{ a @skip(if: true) { inner } , b }", &["query.a", "query.b"]),
            (
                "{ ...F } fragment F on Query { a ...G } fragment G on Query { b ...F }",
                &["query.a", "query.b"],
            ),
            (
                "{ ... on Query { a } ... @include(if: true) { b } ... { c } }",
                &["query.a", "query.b", "query.c"],
            ),
            ("# { no }\n{ a(s: \"\"\"x \\\"\"\" } y\"\"\", n: -1.5e3) }", &["query.a"]),
            ("\u{feff}{ a }", &["query.a"]),
            ("{}", &[]),
            ("fragment F on Query { a }", &[]),
        ] {
            assert_eq!(
                fields(document).as_deref(),
                Some(&expected.iter().map(ToString::to_string).collect::<Vec<_>>()[..]),
                "{document}"
            );
        }
    }

    #[test]
    fn what_does_not_read_to_its_end_gives_nothing() {
        for document in [
            "{ a",
            "{ a } }",
            "{ a } junk",
            "{ ...Missing }",
            "{ a(s: \"\n\") }",
            "{ a(s: \"\"\" ) }",
            "{ a: }",
            "{ a: 1 }",
            "{ \u{e9} }",
            "query",
            "type T { a: Int }",
            "{ a } fragment F on Q { b } fragment F on Q { c }",
        ] {
            assert_eq!(root_fields(document), None, "{document}");
        }
        assert_eq!(root_fields(&"{...".repeat(10_000)), None);
    }
}
