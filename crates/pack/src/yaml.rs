//! YAML as a tree that knows its lines, so that every complaint about a manifest names its place.
//!
//! Only what configuration needs: one document, string keys, aliases within a budget, no duplicate keys.

use std::collections::HashMap;

use granit_parser::{Event, Parser, ScalarStyle, Span};

/// More nodes than any honest manifest of 100,000 modules; an alias bomb has more.
const MAX_NODES: usize = 4_000_000;
const MAX_DEPTH: usize = 64;

/// A value and where it stands.
#[derive(Clone, Debug)]
pub(crate) struct Node {
    /// Counted from one.
    pub(crate) line: usize,
    /// Bytes of the text that it covers.
    pub(crate) span: std::ops::Range<usize>,
    pub(crate) kind: Kind,
}

/// What a value is.
#[derive(Clone, Debug)]
pub(crate) enum Kind {
    List(Vec<Node>),
    Map(Vec<(Key, Node)>),
    /// A scalar; `plain` when it stood without quotes.
    Scalar {
        text: String,
        plain: bool,
    },
}

/// A key and where it stands.
#[derive(Clone, Debug)]
pub(crate) struct Key {
    pub(crate) text: String,
    pub(crate) line: usize,
}

/// Why a text can't be read, and where.
#[derive(Clone, Debug)]
pub(crate) struct Fault {
    pub(crate) line: usize,
    pub(crate) message: String,
}

/// Reads one document. An empty one is null.
pub(crate) fn parse(text: &str) -> Result<Node, Fault> {
    let mut reader =
        Reader { parser: Parser::new_from_str(text), anchors: HashMap::new(), nodes: 0 };
    let mut root = None;
    loop {
        let (event, span) = reader.next()?;
        match event {
            Event::StreamEnd => break,
            Event::StreamStart | Event::DocumentEnd => {}
            Event::DocumentStart(..) if root.is_none() => {}
            Event::DocumentStart(..) => return Err(fault(&span, "there is a second document")),
            event => root = Some(reader.node(event, &span, 0)?),
        }
    }
    Ok(root.unwrap_or(Node {
        line: 1,
        span: 0..0,
        kind: Kind::Scalar { text: String::new(), plain: true },
    }))
}

impl Node {
    pub(crate) fn is_null(&self) -> bool {
        matches!(&self.kind, Kind::Scalar { text, plain: true } if matches!(text.as_str(), "" | "~" | "null" | "Null" | "NULL"))
    }

    /// A scalar's text, null excepted.
    pub(crate) fn text(&self) -> Option<&str> {
        match &self.kind {
            Kind::Scalar { text, .. } if !self.is_null() => Some(text),
            _ => None,
        }
    }

    /// A scalar that YAML takes for a string: quoted, or plain and neither number nor boolean.
    pub(crate) fn string(&self) -> Option<&str> {
        match &self.kind {
            Kind::Scalar { text, plain: false } => Some(text),
            Kind::Scalar { text, plain: true } => {
                let other =
                    matches!(text.as_str(), "true" | "false" | "True" | "False" | "TRUE" | "FALSE")
                        || text.parse::<f64>().is_ok();
                (!other && !self.is_null()).then_some(text.as_str())
            }
            _ => None,
        }
    }

    pub(crate) fn bool(&self) -> Option<bool> {
        match self.text()? {
            "true" | "True" | "TRUE" => Some(true),
            "false" | "False" | "FALSE" => Some(false),
            _ => None,
        }
    }

    pub(crate) fn list(&self) -> Option<&[Node]> {
        match &self.kind {
            Kind::List(items) => Some(items),
            _ => None,
        }
    }

    pub(crate) fn map(&self) -> Option<&[(Key, Node)]> {
        match &self.kind {
            Kind::Map(entries) => Some(entries),
            _ => None,
        }
    }

    /// The value under a key.
    pub(crate) fn get(&self, key: &str) -> Option<&Node> {
        self.map()?.iter().find(|(name, _)| name.text == key).map(|(_, value)| value)
    }

    /// What it is, for messages.
    pub(crate) fn kind_name(&self) -> &'static str {
        match &self.kind {
            Kind::List(_) => "a list",
            Kind::Map(_) => "a mapping",
            Kind::Scalar { .. } if self.is_null() => "nothing",
            Kind::Scalar { .. } => "a scalar",
        }
    }
}

struct Reader<'t> {
    parser: Parser<'t, granit_parser::StrInput<'t>>,
    anchors: HashMap<usize, Node>,
    nodes: usize,
}

impl<'t> Reader<'t> {
    /// The next event that is data.
    fn next(&mut self) -> Result<(Event<'t>, Span), Fault> {
        loop {
            match self.parser.next_event() {
                Some(Ok((Event::Comment(..) | Event::Anchor(..), _))) => {}
                Some(Ok(event)) => return Ok(event),
                Some(Err(error)) => {
                    return Err(Fault {
                        line: error.marker().line().max(1),
                        message: error.info(),
                    });
                }
                None => return Ok((Event::StreamEnd, Span::default())),
            }
        }
    }

    fn node(&mut self, event: Event<'t>, span: &Span, depth: usize) -> Result<Node, Fault> {
        self.count(1, span)?;
        if depth > MAX_DEPTH {
            return Err(fault(span, "values are nested too deeply"));
        }
        let start = span.start.byte_offset().unwrap_or(0);
        let line = span.start.line().max(1);
        let (kind, anchor, end) = match event {
            Event::Scalar(text, style, anchor, _) => {
                let plain = style == ScalarStyle::Plain;
                (Kind::Scalar { text: text.into_owned(), plain }, anchor, span.end)
            }
            Event::SequenceStart(_, anchor, _) => {
                let (items, end) = self.items(depth)?;
                (Kind::List(items), anchor, end)
            }
            Event::MappingStart(_, anchor, _) => {
                let (entries, end) = self.entries(depth)?;
                (Kind::Map(entries), anchor, end)
            }
            Event::Alias(id) => return self.alias(id, span),
            _ => return Err(fault(span, "a value is missing")),
        };
        let end = end.byte_offset().unwrap_or(start).max(start);
        let node = Node { line, span: start..end, kind };
        if anchor > 0 {
            self.anchors.insert(anchor, node.clone());
        }
        Ok(node)
    }

    fn items(&mut self, depth: usize) -> Result<(Vec<Node>, granit_parser::Marker), Fault> {
        let mut items = Vec::new();
        loop {
            match self.next()? {
                (Event::SequenceEnd, span) => return Ok((items, span.end)),
                (event, span) => items.push(self.node(event, &span, depth + 1)?),
            }
        }
    }

    fn entries(
        &mut self,
        depth: usize,
    ) -> Result<(Vec<(Key, Node)>, granit_parser::Marker), Fault> {
        let mut entries: Vec<(Key, Node)> = Vec::new();
        let mut seen = std::collections::HashSet::new();
        loop {
            let key = match self.next()? {
                (Event::MappingEnd, span) => return Ok((entries, span.end)),
                (Event::Scalar(text, ..), span) => {
                    Key { text: text.into_owned(), line: span.start.line() }
                }
                (_, span) => return Err(fault(&span, "a key must be a plain word")),
            };
            let (event, span) = self.next()?;
            if !seen.insert(key.text.clone()) {
                return Err(Fault {
                    line: key.line,
                    message: format!("`{}` stands here twice", key.text),
                });
            }
            entries.push((key, self.node(event, &span, depth + 1)?));
        }
    }

    fn alias(&mut self, id: usize, span: &Span) -> Result<Node, Fault> {
        let node = self.anchors.get(&id).cloned();
        let node = node.ok_or_else(|| fault(span, "an alias refers to itself"))?;
        self.count(size(&node), span)?;
        Ok(node)
    }

    fn count(&mut self, more: usize, span: &Span) -> Result<(), Fault> {
        self.nodes += more;
        if self.nodes > MAX_NODES {
            return Err(fault(span, "there are too many values; aliases multiply them"));
        }
        Ok(())
    }
}

fn size(node: &Node) -> usize {
    match &node.kind {
        Kind::Scalar { .. } => 1,
        Kind::List(items) => 1 + items.iter().map(size).sum::<usize>(),
        Kind::Map(entries) => 1 + entries.iter().map(|(_, value)| size(value)).sum::<usize>(),
    }
}

fn fault(span: &Span, message: &str) -> Fault {
    Fault { line: span.start.line().max(1), message: message.to_owned() }
}

#[cfg(test)]
mod tests {
    use std::fmt::Write as _;

    use super::*;

    #[test]
    fn values_know_their_lines() {
        let node = parse("# words\na: 1\nb:\n  - x\n  - 'true'\n").unwrap();
        let list = node.get("b").unwrap().list().unwrap();
        assert_eq!(list[1].line, 5);
        assert_eq!(list[1].string(), Some("true"));
        assert_eq!(node.get("a").unwrap().string(), None);
    }

    #[test]
    fn what_can_not_be_read_is_told_with_its_line() {
        for (text, line) in
            [("a: 1\na: 2\n", 2), ("a: [1\n", 1), ("a: 1\n---\nb: 2\n", 2), ("a: *x\n", 1)]
        {
            assert_eq!(parse(text).unwrap_err().line, line, "{text}");
        }
    }

    #[test]
    fn an_alias_bomb_is_refused() {
        let mut text = "a0: &a0 [x,x,x,x,x,x,x,x,x,x]\n".to_owned();
        for level in 1..9 {
            let before = format!("*a{},", level - 1).repeat(10);
            let list = before.trim_end_matches(',');
            writeln!(text, "a{level}: &a{level} [{list}]").unwrap();
        }
        assert!(parse(&text).unwrap_err().message.contains("too many"));
    }
}
