//! JSON, cleaned as one text: a value may be cut over the items of a list, or over the rows or the columns of a table.

use std::{collections::BTreeMap, mem, ops::Range};

use serde_json::{Map, Value};
use zeroize::Zeroizing;

/// Items of lists within lists that are put together in their own right; what is deeper stands in the document's order alone.
const MAX_LISTS: usize = 3;
/// Leaves of a document whose columns are put together.
const MAX_LEAVES: usize = 200_000;

/// The texts of a document: strings, numbers, and the names of members, in its order.
#[derive(Default)]
pub(super) struct Leaves {
    texts: Vec<Zeroizing<String>>,
    /// Those that are no names.
    values: Vec<usize>,
    /// Those that stand at the same place of a list's items, by that place.
    columns: BTreeMap<String, Vec<usize>>,
}

/// A way to read a document.
pub(super) struct Reading {
    pub(super) text: Zeroizing<Vec<u8>>,
    /// Which leaf begins where.
    starts: Vec<(usize, usize)>,
}

impl Leaves {
    pub(super) fn of(document: &Value) -> Self {
        let mut leaves = Self::default();
        leaves.collect(document, &mut Vec::new());
        leaves
    }

    pub(super) fn texts(&self) -> impl Iterator<Item = &str> {
        self.texts.iter().map(|text| text.as_str())
    }

    /// The document read through with its names, without them, and along each column of its lists.
    pub(super) fn readings(&self) -> impl Iterator<Item = Reading> {
        let all: Vec<usize> = (0..self.texts.len()).collect();
        let columns = self.columns.values().filter(|leaves| leaves.len() > 1);
        let orders = [all, self.values.clone()].into_iter().chain(columns.cloned());
        orders.map(|order| self.reading(&order))
    }

    fn reading(&self, order: &[usize]) -> Reading {
        let length = order.iter().map(|leaf| self.texts[*leaf].len()).sum();
        let mut text = Zeroizing::new(Vec::with_capacity(length));
        let mut starts = Vec::with_capacity(order.len());
        for leaf in order {
            starts.push((text.len(), *leaf));
            text.extend_from_slice(self.texts[*leaf].as_bytes());
        }
        Reading { text, starts }
    }

    fn collect(&mut self, value: &Value, place: &mut Vec<Step>) {
        match value {
            Value::String(text) => self.add(text.clone(), place),
            Value::Number(number) => self.add(number.to_string(), place),
            Value::Array(items) => {
                for (number, item) in items.iter().enumerate() {
                    place.push(Step::Item(number));
                    self.collect(item, place);
                    place.pop();
                }
            }
            Value::Object(members) => {
                for (name, value) in members {
                    self.texts.push(Zeroizing::new(name.clone()));
                    place.push(Step::Member(name.clone()));
                    self.collect(value, place);
                    place.pop();
                }
            }
            Value::Null | Value::Bool(_) => {}
        }
    }

    fn add(&mut self, text: String, place: &[Step]) {
        let leaf = self.texts.len();
        self.texts.push(Zeroizing::new(text));
        self.values.push(leaf);
        let lists: Vec<usize> =
            (0..place.len()).filter(|at| matches!(place[*at], Step::Item(_))).collect();
        if leaf >= MAX_LEAVES || lists.len() > MAX_LISTS {
            return;
        }
        for list in &lists {
            self.columns.entry(column(place, *list)).or_default().push(leaf);
        }
    }
}

/// A step into a document.
enum Step {
    Item(usize),
    Member(String),
}

/// A place, whichever item of that list it is in.
fn column(place: &[Step], list: usize) -> String {
    let steps = place.iter().enumerate().map(|(at, step)| match step {
        Step::Item(_) if at == list => "[*]".to_owned(),
        Step::Item(number) => format!("[{number}]"),
        Step::Member(name) => format!(".{}", Value::from(name.as_str())),
    });
    steps.collect()
}

impl Reading {
    /// The parts of a stretch of it, by leaf, where it is in more than one; nothing of one within a leaf, which is found there.
    pub(super) fn parts(&self, range: &Range<usize>) -> Vec<(usize, Range<usize>)> {
        let after = self.starts.partition_point(|(start, _)| *start <= range.start);
        let mut parts = Vec::new();
        for at in after.saturating_sub(1)..self.starts.len() {
            let (start, leaf) = self.starts[at];
            if start >= range.end {
                break;
            }
            let end = self.starts.get(at + 1).map_or(self.text.len(), |(next, _)| *next);
            let part = range.start.max(start)..range.end.min(end);
            if !part.is_empty() {
                parts.push((leaf, part.start - start..part.end - start));
            }
        }
        if parts.len() > 1 { parts } else { Vec::new() }
    }
}

/// This document with `texts` in place of its own; they come in its order.
pub(super) fn with_texts(document: Value, texts: &mut impl Iterator<Item = String>) -> Value {
    let mut next = || texts.next().unwrap_or_default();
    match document {
        Value::String(_) => Value::String(next()),
        Value::Number(number) => {
            let text = next();
            if text == number.to_string() { Value::Number(number) } else { Value::String(text) }
        }
        Value::Array(mut items) => {
            for item in &mut items {
                *item = with_texts(mem::take(item), texts);
            }
            Value::Array(items)
        }
        Value::Object(members) => {
            let mut clean = Map::with_capacity(members.len());
            for (_, value) in members {
                let name = texts.next().unwrap_or_default();
                clean.insert(name, with_texts(value, texts));
            }
            Value::Object(clean)
        }
        other => other,
    }
}
