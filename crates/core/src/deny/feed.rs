//! What a command gets to read or to run that stands elsewhere in the text: here-documents, what is piped into it, what
//! was written into a file before.

mod programs;

use std::{
    cell::Cell,
    collections::{BTreeMap, BTreeSet},
};

pub(super) use self::programs::{FILTERS, INTERPRETERS};
use self::programs::{run_by, script_at};
use super::{
    Given,
    here::Here,
    output::ENCODERS,
    source::{SECRET, Source, is_given},
    unwrap::{after_xargs, all_of_keeper, is_c, is_shell, is_short},
    variables::Variables,
    views::Looks,
};
use crate::shell::{self, SimpleCommand};

/// How far back what is said is looked for along pipes, and how deep in substitutions.
const MAX_STEPS: usize = 8;
/// The longest word whose substitutions are followed.
const MAX_WORD: usize = 64 * 1024;
/// As many bytes as may be said in all.
const MAX_SAID: usize = 4 * 1024 * 1024;
/// What looking into one substitution counts at least.
const LOOK: usize = 256;
/// What one command of a group counts at least.
const STEP: usize = 16;
/// Programs that undo an encoding as well.
pub(super) const DECODERS: &[&str] = &["base64", "base32", "basenc", "xxd", "openssl", "uudecode"];

/// Files that the text has written, by their names without folders, with what is in them.
#[derive(Debug, Default)]
pub(super) struct Files {
    known: BTreeMap<String, String>,
    /// The known files with secrets in them.
    pub(super) sources: BTreeMap<String, Source>,
    /// Placeholders that are the names of files with secrets in them.
    pub(super) given: BTreeSet<String>,
    /// Whether a secret stands at the standard input of the script that is looked at.
    pub(super) has_input: bool,
    /// How many bytes were said so far.
    said: Cell<usize>,
}

impl Files {
    /// What a command gets beside its text.
    pub(super) fn of(given: Given<'_>) -> Self {
        let mut files = Self { has_input: given.input.is_some(), ..Self::default() };
        files.given = given.files.iter().map(|name| (*name).to_owned()).collect();
        for path in given.rendered {
            files.write(path, SECRET, false);
        }
        files
    }

    /// Nothing when too much was said.
    pub(super) fn is_short(&self) -> Option<()> {
        (self.said.get() <= MAX_SAID).then_some(())
    }

    fn count(&self, bytes: usize) -> Option<()> {
        self.said.set(self.said.get().saturating_add(bytes));
        self.is_short()
    }

    /// What a command says on its output, if its words say it.
    pub(super) fn said_by(&self, here: &Here<'_>, variables: &Variables) -> Option<String> {
        self.said(here, variables, MAX_STEPS)
    }

    /// What a command reads on its standard input, if the text says it.
    pub(super) fn input_of(&self, here: &Here<'_>, variables: &Variables) -> Option<String> {
        self.input(here, variables, MAX_STEPS)
    }

    fn said(&self, here: &Here<'_>, variables: &Variables, steps: usize) -> Option<String> {
        let said = self.says(here, variables, steps)?;
        self.count(said.len()).map(|()| said)
    }

    fn says(&self, here: &Here<'_>, variables: &Variables, steps: usize) -> Option<String> {
        let steps = steps.checked_sub(1)?;
        self.is_short()?;
        let words: Vec<&str> = here.command().words.iter().map(|word| word.text.as_str()).collect();
        let Some((program, rest)) = words.split_first() else {
            return self.said_before(here, variables, steps);
        };
        match program.rsplit('/').next()? {
            "echo" | "print" => {
                let flags =
                    rest.iter().take_while(|word| matches!(**word, "-n" | "-e" | "-E" | "-ne"));
                let said = rest[flags.count()..].join(" ");
                Some(said.replace("\\n", "\n"))
            }
            "printf" => {
                let rest = if rest.first() == Some(&"-v") { rest.get(2..)? } else { rest };
                Some(printed(rest))
            }
            "cat" => {
                let mut files = rest.iter().filter(|word| !word.starts_with('-')).peekable();
                match files.peek() {
                    Some(_) => files.find_map(|file| self.read(file)).map(str::to_owned),
                    None => self.input(here, variables, steps),
                }
            }
            "tee" => self.input(here, variables, steps),
            "ls" => Some(
                rest.iter()
                    .filter(|word| !word.starts_with('-'))
                    .copied()
                    .collect::<Vec<_>>()
                    .join(" "),
            ),
            // They leave lines away, or say them in another order.
            filter if FILTERS.contains(&filter) => {
                match rest.iter().find_map(|word| self.read(word)) {
                    Some(content) => Some(content.to_owned()),
                    None => self.input(here, variables, steps),
                }
            }
            "find" | "fd" => {
                let named = rest.iter().position(|word| matches!(*word, "-name" | "-iname"));
                let named = named.and_then(|at| rest.get(at + 1)).map(|name| (*name).to_owned());
                let rest: Vec<String> = rest.iter().map(|word| (*word).to_owned()).collect();
                named.or_else(|| all_of_keeper(&rest))
            }
            // Where a program is: it stands for the program.
            "which" => {
                rest.iter().find(|word| !word.starts_with('-')).map(|word| (*word).to_owned())
            }
            "command" if rest.first() == Some(&"-v") => rest.get(1).map(|word| (*word).to_owned()),
            encoder if ENCODERS.contains(&encoder) || encoder == "uudecode" => {
                let read = self.input(here, variables, steps);
                let is_decoder = DECODERS.contains(&encoder);
                let its_words = || is_decoder.then(|| format!("$({})", words.join(" ")));
                match self.encoded(rest, read.as_deref()) {
                    // What it makes of a text with a secret in it may be run all the same.
                    Some(_) if is_decoder => Some(format!("$({} {SECRET})", words.join(" "))),
                    made => made.or_else(its_words),
                }
            }
            _ => None,
        }
    }

    fn input(&self, here: &Here<'_>, variables: &Variables, steps: usize) -> Option<String> {
        let Some(from) = here.reads_from() else {
            return self.said_before(here, variables, steps);
        };
        let read = match (&from.body, from.operator) {
            (Some(body), _) => here.text.get(body.clone())?,
            (None, "<" | "<>") => match self.read(&from.target.text) {
                Some(content) => content,
                None => return self.process(&from.target.text, variables, steps),
            },
            (None, _) => &from.target.text,
        };
        self.count(read.len()).map(|()| read.to_owned())
    }

    /// What is piped into a command.
    fn said_before(&self, here: &Here<'_>, variables: &Variables, steps: usize) -> Option<String> {
        let (mut whole, mut is_piped): (Option<String>, _) = (None, false);
        for each in here.before() {
            self.count(STEP)?;
            is_piped = true;
            match (&mut whole, self.said(&each, variables, steps)) {
                (Some(whole), Some(said)) => whole.extend(["\n", &said]),
                (whole, Some(said)) => *whole = Some(said),
                (_, None) => {}
            }
        }
        if is_piped { whole } else { self.given_input() }
    }

    pub(super) fn read(&self, file: &str) -> Option<&str> {
        let known = || self.known.get(file.rsplit('/').next()?).map(String::as_str);
        self.given_file(file).or_else(known)
    }

    pub(super) fn write(&mut self, file: &str, said: &str, is_more: bool) {
        let name = file.rsplit('/').next().unwrap_or(file);
        let before = self.sources.remove(name).filter(|_| is_more);
        if let Some(source) = before.max(Source::of(said)) {
            self.sources.insert(name.to_owned(), source);
        }
        let content = self.known.entry(name.to_owned()).or_default();
        if !is_more {
            content.clear();
        }
        content.extend([said, "\n"]);
    }

    /// What `<( … )` says.
    fn process(&self, word: &str, variables: &Variables, steps: usize) -> Option<String> {
        let inner = word.strip_prefix("<(")?.strip_suffix(')')?;
        self.said_in(inner, variables, steps)
    }

    /// What the last command of a text says.
    fn said_in(&self, inner: &str, variables: &Variables, steps: usize) -> Option<String> {
        let steps = steps.checked_sub(1)?;
        if inner.len() > MAX_WORD {
            return None;
        }
        self.count(inner.len() + LOOK)?;
        let script = shell::lex(inner).ok()?;
        let outer = script.commands.iter().rposition(|command| command.depth == 0)?;
        let here = Here { text: inner, commands: &script.commands, index: outer, nesting: 0 };
        let said = self.said(&here, variables, steps)?;
        Some(self.replaced(&said, variables, steps))
    }

    /// A word with what its substitutions say, where their words say it.
    pub(super) fn substituted(&self, word: &str, variables: &Variables, nesting: usize) -> String {
        self.replaced(word, variables, MAX_STEPS.saturating_sub(nesting))
    }

    fn replaced(&self, word: &str, variables: &Variables, steps: usize) -> String {
        let mut out = String::with_capacity(word.len());
        let mut rest = word;
        while let Some(at) = rest.find(['$', '`']).filter(|_| word.len() <= MAX_WORD) {
            out.push_str(&rest[..at]);
            rest = &rest[at..];
            if !rest.starts_with('`') && (!rest.starts_with("$(") || rest.starts_with("$((")) {
                out.push('$');
                rest = &rest[1..];
                continue;
            }
            // One without its end: the others have none either.
            let Some((inner, length)) = substitution(rest) else { break };
            let is_decoder = |said: &String| said.starts_with("$(");
            match self.said_in(inner, variables, steps).filter(|said| !is_decoder(said)) {
                Some(said) => out.push_str(said.trim_end()),
                None => out.push_str(&rest[..length]),
            }
            rest = &rest[length..];
        }
        out + rest
    }

    /// Takes in what a command writes into a file.
    pub(super) fn written_by(&mut self, here: &Here<'_>, variables: &Variables) {
        let command = here.command();
        self.copied_by(command);
        let mut targets: Vec<(&str, bool)> = Vec::new();
        for to in &command.redirections {
            if matches!(to.operator, ">" | ">>" | ">|" | "&>" | "&>>") {
                targets.push((to.target.text.as_str(), to.operator.ends_with(">>")));
            }
        }
        if command.program() == Some("tee") {
            let files = command.words[1..].iter().filter(|word| !word.text.starts_with('-'));
            targets.extend(files.map(|word| (word.text.as_str(), false)));
        }
        if targets.is_empty() {
            return;
        }
        let Some(said) = self.said_by(here, variables) else { return };
        for (file, is_more) in targets {
            self.write(file, &said, is_more);
        }
    }
}

impl Looks {
    /// Looks at what a program runs that it reads; gives the commands that it makes of words which it reads.
    pub(super) fn fed(&mut self, words: &[String], here: &Here<'_>) -> Option<Vec<Vec<String>>> {
        let Some((program, rest)) = words.split_first() else { return Some(Vec::new()) };
        let (options, rest_of_it) = rest.split_at(script_at(program, rest));
        let argument = rest_of_it.first();
        let version = program.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.');
        let interpreter = INTERPRETERS.iter().find(|(name, _)| *name == version);
        if is_shell(program) || matches!(program.as_str(), "source" | "." | "at" | "batch" | "ssh")
        {
            let has_script = is_shell(program) && options.iter().any(|word| is_c(word));
            let is_told = options.iter().any(|word| is_short(word) && word.contains('s'));
            let argument = argument.filter(|_| !(is_shell(program) && is_told));
            let read = |looks: &Self| looks.read_by(program, argument, here);
            if !has_script && let Some(read) = read(self).filter(|read| !is_given(read)) {
                match program.as_str() {
                    "source" | "." => self.script(&read, here.nesting + 1)?,
                    _ => self.of_child(&read, &[], here.nesting + 1)?,
                }
            }
        } else if let Some((_, option)) = interpreter {
            if let Some(read) = self.read_by(program, argument, here) {
                let whole = [program.clone(), (*option).to_owned(), read];
                self.push_command(&whole, &SimpleCommand::default(), false)?;
            }
        } else if matches!(program.as_str(), "xargs" | "parallel") {
            let Some(read) = self.files.input_of(here, &self.variables) else {
                return Some(Vec::new());
            };
            let mut commands = vec![with_words(rest, &read)?];
            commands.extend(super::views::named_by_search(&commands[0]).collect::<Vec<_>>());
            return Some(commands);
        } else if let Some(content) = self.files.known.get(program).cloned() {
            match run_by(program, &content) {
                Some((name, option)) => {
                    let whole = [name.to_owned(), option.to_owned(), content];
                    self.push_command(&whole, &SimpleCommand::default(), false)?;
                }
                None => self.script(&content, here.nesting + 1)?,
            }
        }
        Some(Vec::new())
    }

    /// What a shell or an interpreter runs: the file that it is given, or its input.
    fn read_by(&self, program: &str, argument: Option<&String>, here: &Here<'_>) -> Option<String> {
        match argument.map(String::as_str) {
            None | Some("-" | "/dev/stdin" | "/dev/fd/0") => {
                self.files.input_of(here, &self.variables)
            }
            Some(_)
                if matches!(program, "ssh" | "at" | "batch")
                    || here.command().words.iter().any(|w| w.text == "-s") =>
            {
                self.files.input_of(here, &self.variables)
            }
            Some(file) => match self.files.process(file, &self.variables, MAX_STEPS) {
                Some(said) => Some(said),
                None => self.files.read(file).map(str::to_owned),
            },
        }
    }
}

/// The command of `xargs` with the words that it reads; nothing when they would be too many.
fn with_words(rest: &[String], read: &str) -> Option<Vec<String>> {
    let command = after_xargs(rest);
    let options = &rest[..rest.len() - command.len()];
    let sign = options.iter().position(|word| word == "-I").and_then(|at| options.get(at + 1));
    let own =
        options.iter().find_map(|word| word.strip_prefix("-I").filter(|sign| !sign.is_empty()));
    let braces = options.iter().any(|word| word == "-i").then_some("{}");
    if let Some(sign) = sign.map(String::as_str).or(own).or(braces) {
        let places: usize = command.iter().map(|word| word.matches(sign).count()).sum();
        let is_short = places.saturating_mul(read.len()) <= MAX_SAID;
        return is_short
            .then(|| command.iter().map(|word| word.replace(sign, read.trim())).collect());
    }
    let mut whole = command.to_vec();
    // A script is one word, whatever is in it.
    if whole.last().is_some_and(|word| word == "-c") {
        whole.push(read.trim().to_owned());
    } else {
        whole.extend(read.split_whitespace().map(str::to_owned));
    }
    Some(whole)
}

/// What `printf` makes of its words.
fn printed(words: &[&str]) -> String {
    let Some((format, mut words)) = words.split_first() else { return String::new() };
    let mut out = String::new();
    loop {
        let mut parts = format.chars();
        let before = words.len();
        while let Some(c) = parts.next() {
            match (c, parts.as_str().chars().next()) {
                ('%', Some('s' | 'b' | 'q' | 'd')) => {
                    parts.next();
                    if let Some((word, rest)) = words.split_first() {
                        out.push_str(word);
                        words = rest;
                    }
                }
                ('%', Some('%')) => {
                    parts.next();
                    out.push('%');
                }
                ('\\', Some('n')) => {
                    parts.next();
                    out.push('\n');
                }
                _ => out.push(c),
            }
        }
        if words.is_empty() || words.len() == before || out.len() > MAX_WORD {
            return out;
        }
    }
}

/// The text inside `$( )` or backquotes that begin here, and the bytes of the whole.
pub(super) fn substitution(text: &str) -> Option<(&str, usize)> {
    if let Some(inner) = text.strip_prefix('`') {
        let close = inner.find('`')?;
        return Some((&inner[..close], close + 2));
    }
    let inner = text.strip_prefix("$(")?;
    let mut depth = 1;
    for (at, byte) in inner.bytes().enumerate() {
        match byte {
            b'(' => depth += 1,
            b')' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return Some((&inner[..at], at + 3));
        }
    }
    None
}
