//! Secrets that a command reads without naming them: at its standard input, in a file that it is given, in one that was
//! rendered or written before, and in here-documents.
//!
//! Only programs that pass on what they read are a source; what others do with a value is theirs.

use super::{
    feed::Files,
    here::Here,
    output::{Output, is_reader, reads_input},
    patterns,
    views::{Kind, Looks},
};
use crate::{Handle, shell::SimpleCommand};

/// What stands for a secret that a command reads.
pub(super) const SECRET: &str = "{{nl:_}}";
/// How a file begins that an encoder has written.
const ENCODED: &str = "$(";
/// As many files with secrets in them as a pattern is tried for.
const MAX_NAMED: usize = 16;
/// What a process calls its standard input.
const INPUTS: &[&str] = &["-", "/dev/fd/0", "/dev/stdin", "/proc/self/fd/0"];
/// Programs that put a file elsewhere as it is.
const COPIERS: &[&str] = &["cp", "install", "ln", "mv"];

/// A secret that a command reads, as it finds it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Source {
    /// As it is.
    Plain,
    /// As an encoder has made it.
    Encoded,
}

impl Source {
    /// What a text has in it.
    pub(super) fn of(text: &str) -> Option<Self> {
        let found = if text.starts_with(ENCODED) { Self::Encoded } else { Self::Plain };
        has_secret(text).then_some(found)
    }
}

impl Files {
    /// What stands at the standard input of a script, where an action gives it a secret there.
    pub(super) fn given_input(&self) -> Option<String> {
        self.has_input.then(|| SECRET.to_owned())
    }

    /// The content of a file that an action gives, whose path takes the place of this word.
    pub(super) fn given_file(&self, word: &str) -> Option<&'static str> {
        let (_, rest) = word.split_once("{{nl:").or_else(|| word.split_once("{{vault:"))?;
        let handle = Handle::parse(rest.split_once("}}")?.0).ok()?;
        self.given.contains(handle.as_written()).then_some(SECRET)
    }

    /// The secret in a file that a word names, be it behind a sign (`if=FILE`, `@FILE`) or as a pattern.
    fn secret_in(&self, word: &str) -> Option<Source> {
        if self.given_file(word).is_some() {
            return Some(Source::Plain);
        }
        let name = word.rsplit(['/', '=', '@']).next().unwrap_or(word);
        let is_meant = |known: &str| patterns::stands_for(name, &[known]);
        let meant = || {
            let known = self.sources.iter().take(MAX_NAMED).filter(|(known, _)| is_meant(known));
            known.map(|(_, source)| *source).max()
        };
        self.sources.get(name).copied().or_else(meant)
    }

    /// The secret that a command reads at its standard input, unless that is piped into it.
    pub(super) fn secret_at_input(&self, here: &Here<'_>) -> Option<Source> {
        let given = self.has_input.then_some(Source::Plain);
        match here.reads_from().map(|from| (&from.body, from.operator, from.target.text.as_str())) {
            Some((Some(body), ..)) => Source::of(here.text.get(body.clone())?),
            Some((None, "<" | "<>", file)) if is_input(file) => given,
            Some((None, "<" | "<>", file)) => self.secret_in(file),
            Some((None, _, text)) => Source::of(text),
            None if here.before().next().is_some() => None,
            None => given,
        }
    }

    /// The secret that a program passes on: one in a file that its words name, or what stands at its input.
    fn source(&self, words: &[String], at_input: Option<Source>) -> Option<Source> {
        if !is_reader(words) {
            return None;
        }
        let named = words.iter().skip(1).filter_map(|word| self.secret_in(word)).max();
        named.max(at_input.filter(|_| reads_input(words, is_input)))
    }

    /// What an encoder writes that reads this, if it has a secret in it.
    pub(super) fn encoded(&self, words: &[&str], read: Option<&str>) -> Option<String> {
        let is_named = words.iter().any(|word| self.secret_in(word).is_some());
        let has_secret = is_named || read.is_some_and(has_secret);
        has_secret.then(encoded)
    }

    /// Takes in a copy of a file with a secret in it.
    pub(super) fn copied_by(&mut self, command: &SimpleCommand) {
        let [program, files @ .., to] = command.words.as_slice() else { return };
        if COPIERS.contains(&program.text.as_str()) {
            let secrets = files.iter().filter_map(|file| self.secret_in(&file.text));
            match secrets.max() {
                Some(Source::Encoded) => self.write(&to.text, &encoded(), false),
                Some(Source::Plain) => self.write(&to.text, SECRET, false),
                None => {}
            }
        }
    }
}

impl Looks {
    /// Looks at a program that passes on a secret which its words do not say as if they did.
    pub(super) fn push_source(&mut self, words: &[String]) -> Option<()> {
        let Some(found) = self.files.source(words, self.at_input) else { return Some(()) };
        let before = self.output;
        if found == Source::Encoded && before == Output::Shown {
            self.output = Output::Encoded;
        }
        self.push(format!("{} <<< {SECRET}", words.join(" ")), Kind::Meant, false)?;
        self.output = before;
        Some(())
    }

    /// Whether a script that a command runs finds a secret at its standard input.
    pub(super) fn has_input(&self, here: &Here<'_>) -> bool {
        let is_piped = here.before().next().is_some();
        let piped = || self.files.input_of(here, &self.variables);
        self.at_input.is_some() || (is_piped && piped().is_some_and(|read| has_secret(&read)))
    }
}

fn encoded() -> String {
    format!("{ENCODED}{SECRET})")
}

/// Whether a text has a placeholder in it.
fn has_secret(text: &str) -> bool {
    text.contains("{{nl:") || text.contains("{{vault:")
}

/// Whether this is what a command reads that an action gives a secret, and nothing of its text.
pub(super) fn is_given(read: &str) -> bool {
    read.trim() == SECRET
}

fn is_input(file: &str) -> bool {
    INPUTS.contains(&file)
}
