//! What a command line says its variables are, as far as it says so plainly.

use std::collections::BTreeMap;

use super::{feed::substitution, views::ENTRY};

/// The longest value that is followed.
const MAX_VALUE: usize = 1024;
/// The longest word of `${…}` that is followed: each dollar sign looks for its brace.
const MAX_OTHERWISE: usize = 128;
/// The most values of one variable.
pub(super) const MAX_VALUES: usize = 64;

/// The most words of a list that are kept in their places.
const MAX_WORDS: usize = 512;

/// Names and what they may stand for.
#[derive(Clone, Debug)]
pub(super) struct Variables {
    known: BTreeMap<String, Vec<String>>,
    /// The words of lists, each in its place.
    lists: BTreeMap<String, Vec<String>>,
    /// Names that stand for other names: `declare -n`.
    references: BTreeMap<String, String>,
    /// Of each open part of the text, what its variables were before it.
    before: Vec<BTreeMap<String, Before>>,
    /// How much memory what they were has taken so far, about.
    kept: usize,
}

/// What a variable was.
#[derive(Clone, Debug, Default)]
struct Before {
    values: Option<Vec<String>>,
    list: Option<Vec<String>>,
    reference: Option<String>,
}

impl Variables {
    pub(super) fn new() -> Self {
        // Which shell it is does not matter here.
        let known = [("IFS", " "), ("SHELL", "bash"), ("BASH", "bash")];
        let known = known.map(|(name, value)| (name.to_owned(), vec![value.to_owned()])).into();
        Self {
            known,
            lists: BTreeMap::new(),
            references: BTreeMap::new(),
            before: Vec::new(),
            kept: 0,
        }
    }

    /// Begins a part of the text whose variables are not those of what follows, or not surely.
    pub(super) fn open(&mut self) {
        self.before.push(BTreeMap::new());
    }

    /// Ends it; its variables are what they were before.
    pub(super) fn forget(&mut self) {
        for (name, before) in self.before.pop().unwrap_or_default() {
            put_back(&mut self.known, &name, before.values);
            put_back(&mut self.lists, &name, before.list);
            put_back(&mut self.references, &name, before.reference);
        }
    }

    /// Ends it; its variables may be what they are now and what they were before.
    pub(super) fn doubt(&mut self) {
        for (name, before) in self.before.pop().unwrap_or_default() {
            if let Some(values) = self.known.get_mut(&name) {
                let others = before.values.iter().flatten();
                let others: Vec<_> = others.filter(|other| !values.contains(other)).collect();
                let others: Vec<String> = others.into_iter().cloned().collect();
                values.extend(others);
                values.truncate(MAX_VALUES);
            }
            if let Some(around) = self.before.last_mut() {
                self.kept += ENTRY;
                around.entry(name).or_insert(before);
            }
        }
    }

    /// How much memory what they were has taken since the last call, about.
    pub(super) fn taken(&mut self) -> usize {
        std::mem::take(&mut self.kept)
    }

    /// Keeps what a variable is before it is changed.
    fn keep(&mut self, name: &str) {
        let Some(open) = self.before.last_mut().filter(|open| !open.contains_key(name)) else {
            return;
        };
        let before = Before {
            values: self.known.get(name).cloned(),
            list: self.lists.get(name).cloned(),
            reference: self.references.get(name).cloned(),
        };
        let values = before.values.iter().chain(&before.list).flatten();
        self.kept += values.map(|value| value.len() + ENTRY).sum::<usize>() + name.len() + ENTRY;
        open.insert(name.to_owned(), before);
    }

    /// Takes in `NAME=VALUE` or `NAME+=VALUE`, whose value has no quotes any more.
    pub(super) fn assign(&mut self, name: &str, value: &str) {
        let (name, is_more) = match name.strip_suffix('+') {
            Some(name) => (name, true),
            None => (name, false),
        };
        let Some(mut value) = self.expanded(value, 0, MAX_VALUE * 4) else { return };
        if is_more && let Some(before) = self.known.get(name).and_then(|values| values.first()) {
            value.insert_str(0, before);
        }
        self.set(name, vec![value]);
    }

    /// Takes in that a name stands for another one from now on.
    pub(super) fn refer(&mut self, name: &str, to: &str) {
        if let Some(to) = self.expanded(to, 0, MAX_VALUE) {
            self.keep(name);
            self.references.insert(name.to_owned(), to);
        }
    }

    /// The name that one stands for.
    fn meant<'a>(&'a self, name: &'a str) -> &'a str {
        self.references.get(name).map_or(name, String::as_str)
    }

    /// Takes in what a loop, a list or a call gives a name.
    pub(super) fn set(&mut self, name: &str, mut values: Vec<String>) {
        values.retain(|value| value.len() <= MAX_VALUE);
        values.truncate(MAX_VALUES);
        let is_name = name.chars().all(|c| c.is_ascii_alphanumeric() || "_@*".contains(c));
        if is_name && !values.is_empty() {
            self.keep(name);
            self.lists.remove(name);
            self.known.insert(name.to_owned(), values);
        }
    }

    /// Takes in the words of a list, `NAME=(…)` or `NAME+=(…)`: all of them, and each.
    pub(super) fn set_list(&mut self, name: &str, words: &str) {
        // With values that are too long, as it is written.
        let words = self.expanded(words, 0, MAX_VALUE * 4).unwrap_or_else(|| words.to_owned());
        let (name, mut list) = match name.strip_suffix('+') {
            Some(name) => (name, self.take_list(name)),
            None => (name, Vec::new()),
        };
        for word in words.split_whitespace() {
            // `NAME=([1]=… [0]=…)`.
            match word.strip_prefix('[').and_then(|word| word.split_once("]=")) {
                Some((index, word)) => put(&mut list, index, word),
                None => list.push(word.to_owned()),
            }
        }
        self.keep_list(name, list, Vec::new());
    }

    /// Takes in one more word of a list: `NAME[INDEX]=VALUE`.
    pub(super) fn add(&mut self, name: &str, index: &str, word: &str) {
        let word = self.expanded(word, 0, MAX_VALUE * 4).unwrap_or_else(|| word.to_owned());
        let mut list = self.take_list(name);
        // With quotes a word of it may be several here, and its place another one.
        let behind = joined(list.iter().map(String::as_str).chain([word.as_str()]));
        put(&mut list, index, &word);
        self.keep_list(name, list, vec![behind]);
    }

    /// The words of a list; of what was no list, its value.
    fn take_list(&mut self, name: &str) -> Vec<String> {
        self.keep(name);
        let value = || self.known.get(name).and_then(|each| each.first()).cloned().into_iter();
        self.lists.remove(name).unwrap_or_else(|| value().collect())
    }

    fn keep_list(&mut self, name: &str, mut list: Vec<String>, others: Vec<String>) {
        list.truncate(MAX_WORDS);
        // Each stays in its place.
        let mut left = MAX_VALUE * MAX_VALUES;
        for word in &mut list {
            if word.len() > MAX_VALUE.min(left) {
                word.clear();
            }
            left -= word.len();
        }
        let mut left = MAX_VALUE;
        let all = joined(list.iter().map(String::as_str).take_while(|word| {
            let is_room = word.len() < left;
            left -= if is_room { word.len() + 1 } else { 0 };
            is_room
        }));
        let each = list.iter().filter(|word| !word.is_empty()).take(MAX_VALUES).cloned();
        let others = others.into_iter().filter(|other| *other != all);
        let values = std::iter::once(all.clone()).chain(others).chain(each).collect();
        self.keep(name);
        self.set(name, values);
        self.lists.insert(name.to_owned(), list);
    }

    /// The words of a script, function or `set --`: `$0` to `$9`, `$@` and `$*`.
    pub(super) fn set_words(&mut self, zero: Option<&str>, words: &[String]) {
        for all in ["@", "*"] {
            self.set(all, vec![words.join(" ")]);
        }
        for (index, word) in words.iter().enumerate().take(9) {
            self.set(&(index + 1).to_string(), vec![word.clone()]);
        }
        if let Some(zero) = zero {
            self.set("0", vec![zero.to_owned()]);
        }
    }

    /// How many looks a text needs in which each value of its variables stands once.
    pub(super) fn choices(&self, text: &str) -> usize {
        let names = text.split('$').skip(1).map(|after| Expansion::read(after).name);
        names.filter_map(|name| self.known.get(self.meant(name))).map(Vec::len).max().unwrap_or(1)
    }

    /// The text with what is known, of several values the one that `choice` says; nothing when it becomes too long.
    pub(super) fn expanded(&self, text: &str, choice: usize, most: usize) -> Option<String> {
        let mut out = String::with_capacity(text.len());
        let mut rest = text;
        while let Some(at) = rest.find('$') {
            out.push_str(&rest[..at]);
            let after = &rest[at + 1..];
            let found = Expansion::read(after);
            let name = self.meant(found.name);
            match (self.known.get(name), found.otherwise) {
                // The value of the variable that this one names.
                (Some(names), _) if found.is_indirect => {
                    let name = &names[choice.min(names.len() - 1)];
                    match self.known.get(name.as_str()) {
                        Some(values) => out.push_str(&values[0]),
                        None => out.extend(["$", name.as_str()]),
                    }
                }
                (Some(_), Some(word)) if found.is_instead => out.push_str(word),
                (Some(values), _) => out.push_str(&values[choice.min(values.len() - 1)]),
                (None, Some(otherwise)) => out.push_str(otherwise),
                (None, None) if name != found.name => out.extend(["$", name]),
                (None, None) => out.push_str(&rest[at..=at + found.length]),
            }
            if out.len() > most {
                return None;
            }
            rest = &after[found.length..];
        }
        out.push_str(rest);
        (out.len() <= most).then_some(out)
    }
}

fn put_back<T>(known: &mut BTreeMap<String, T>, name: &str, before: Option<T>) {
    match before {
        Some(before) => _ = known.insert(name.to_owned(), before),
        None => _ = known.remove(name),
    }
}

/// A word without the expansions in it that come to nothing: those that say so themselves (`$()`, `$@`), and those between
/// two letters of which nothing is known. A word that is nothing else stays.
pub(super) fn emptied(word: &str) -> String {
    without_expansions(word, |is_empty, is_within| is_empty || is_within)
}

/// A word as it is where all its expansions come to nothing. A word that is nothing else stays.
pub(super) fn bare(word: &str) -> String {
    without_expansions(word, |_, _| true)
}

/// A word without those expansions that `comes_to_nothing`; it is told whether one is nothing as it is written, and
/// whether it stands between two letters.
fn without_expansions(word: &str, comes_to_nothing: fn(bool, bool) -> bool) -> String {
    let mut out = String::with_capacity(word.len());
    let mut rest = word;
    while let Some(at) = rest.find(['$', '`']) {
        out.push_str(&rest[..at]);
        rest = &rest[at..];
        // One without its end: the others have none either.
        let Some((length, is_empty)) = expansion(rest) else { break };
        let (found, after) = rest.split_at(length);
        let is_letter = |c: Option<char>| c.is_some_and(char::is_alphanumeric);
        let is_within = is_letter(out.chars().next_back()) && is_letter(after.chars().next());
        if length < 2 || !comes_to_nothing(is_empty, is_within) {
            out.push_str(found);
        }
        rest = after;
    }
    out.push_str(rest);
    if out.is_empty() { word.to_owned() } else { out }
}

/// The bytes of the expansion that begins here, one for a dollar sign alone, and whether it is nothing as it is written;
/// none of one that has no end.
fn expansion(text: &str) -> Option<(usize, bool)> {
    if text.starts_with('`') || text.starts_with("$(") {
        let (inner, length) = substitution(text)?;
        return Some((length, matches!(inner.trim(), "" | ":" | "true")));
    }
    let after = &text[1..];
    if let Some(inner) = after.strip_prefix('{') {
        let end = inner.find('}')?;
        return Some((end + 3, matches!(&inner[..end], "@" | "*")));
    }
    Some((name_length(after) + 1, after.starts_with(['@', '*'])))
}

fn joined<'w>(words: impl Iterator<Item = &'w str>) -> String {
    words.flat_map(str::split_whitespace).collect::<Vec<_>>().join(" ")
}

/// Puts a word into its place of a list, behind all others where that is not plain.
fn put(list: &mut Vec<String>, index: &str, word: &str) {
    match index.parse::<usize>() {
        Ok(index) if index < MAX_VALUES => {
            list.resize(list.len().max(index + 1), String::new());
            word.clone_into(&mut list[index]);
        }
        _ => list.push(word.to_owned()),
    }
}

/// What stands after a dollar sign.
struct Expansion<'t> {
    /// Empty when it is none that is followed.
    name: &'t str,
    /// The bytes that it takes with its braces.
    length: usize,
    /// The word of `:-` and its kin.
    otherwise: Option<&'t str>,
    /// Whether that stands in the place of a value: `:+` and `+`.
    is_instead: bool,
    /// `${!NAME}`.
    is_indirect: bool,
}

impl<'t> Expansion<'t> {
    fn read(after: &'t str) -> Self {
        let plain = |name, length| Self {
            name,
            length,
            otherwise: None,
            is_instead: false,
            is_indirect: false,
        };
        let none = plain("", 0);
        let Some(inner) = after.strip_prefix('{') else {
            let name = &after[..name_length(after)];
            return plain(name, name.len());
        };
        if let Some(inner) = inner.strip_prefix('!') {
            let length = name_length(inner);
            let is_whole = inner[length..].starts_with('}');
            let found = Self { is_indirect: true, ..plain(&inner[..length], length + 3) };
            return if is_whole { found } else { none };
        }
        let name = &inner[..name_length(inner)];
        let Some(close) = inner.bytes().take(MAX_OTHERWISE).position(|byte| byte == b'}') else {
            return none;
        };
        let length = close + 2;
        let Some(operator) = inner.get(name.len()..close) else { return none };
        // An index may have one of its own: `${a[b[0]]}`.
        let behind_index = operator.strip_prefix('[').and_then(|index| index.rsplit_once(']'));
        // As many of its words as one likes: `${NAME[@]:0:2}`.
        let is_part = |part: &str| {
            part.is_empty()
                || (part.starts_with(':')
                    && part.bytes().all(|byte| byte.is_ascii_digit() || b": -".contains(&byte)))
        };
        let is_whole = operator.is_empty() || behind_index.is_some_and(|(_, part)| is_part(part));
        let otherwise =
            [":-", ":=", ":+", "-", "=", "+"].iter().find_map(|o| operator.strip_prefix(o));
        match (is_whole, otherwise) {
            (true, _) => plain(name, length),
            (false, Some(_)) => {
                let is_instead = operator.trim_start_matches(':').starts_with('+');
                Self { otherwise, is_instead, ..plain(name, length) }
            }
            (false, None) => none,
        }
    }
}

/// A name, or one of the special ones.
fn name_length(text: &str) -> usize {
    match text.bytes().next() {
        Some(b'@' | b'*') => 1,
        Some(digit) if digit.is_ascii_digit() => 1,
        _ => text.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(text.len()),
    }
}
