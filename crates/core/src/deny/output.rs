//! Where a command's output goes: before whoever asked, into a file, or into another program.
//!
//! Rules about placeholders ask it: `echo {{nl:a/B}} | docker login --password-stdin` hands a value over, and without the
//! pipe the same words only show it. What is not clear counts as shown.

use std::{borrow::Cow, cell::RefCell, collections::BTreeMap};

use serde::Deserialize;

use super::{
    feed::{FILTERS, Files, INTERPRETERS},
    here::{Here, SHOWERS},
    patterns,
    unwrap::{after_xargs, inside, is_c, is_shell, is_short, runs_another},
    variables::{Variables, bare},
};
use crate::shell::{Redirection, SimpleCommand, Word};

/// As many programs as are followed along pipes and groups.
const MAX_STEPS: usize = 64;
/// In how many commands the one is looked for in whose words another stands.
const MAX_BACK: usize = 256;
/// How deep programs that run others are followed.
const MAX_WRAPPERS: usize = 4;
/// As many words of a program that runs another are looked at for that one.
const MAX_WORDS: usize = 64;
/// The longest name of a program whose expansions are followed.
const MAX_NAME: usize = 256;

/// Programs that say what they are given.
const SAYERS: &[&str] = &["echo", "print", "printf"];
/// Further programs that show what they read, if changed.
const CHANGERS: &[&str] = &["dd", "gojq", "jaq", "jq", "sponge", "tee", "yq"];
/// Programs after which a value is no longer recognised.
pub(super) const ENCODERS: &[&str] = &[
    "base32", "base64", "basenc", "bzip2", "gzip", "hexdump", "od", "openssl", "rev", "tr",
    "uuencode", "xxd", "xz", "zstd",
];
/// What `openssl` does that no value can be had back from.
const OF_OPENSSL: &[&str] = &["dgst", "passwd", "req", "s_client", "verify", "x509"];
/// Encoders whose words name no files.
const OF_INPUT: &[&str] = &["openssl", "tr", "uuencode"];
/// Where an output is still seen.
const SEEN: &[&str] =
    &["1", "2", "/dev/fd/1", "/dev/fd/2", "/dev/stderr", "/dev/stdout", "/dev/tty"];

/// Where a command's output goes, as far as the text says it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Output {
    /// Into a program that takes it in, into a word of one, or nowhere.
    Elsewhere,
    /// Before whoever asked, in another form.
    Encoded,
    /// Into a file.
    Kept,
    /// Before whoever asked.
    Shown,
}

impl Output {
    /// Of a command in a script whose own output goes here.
    pub(super) fn of_inner(self, inner: Self) -> Self {
        match inner {
            Self::Encoded if self == Self::Shown => Self::Encoded,
            Self::Encoded | Self::Shown => self,
            Self::Elsewhere | Self::Kept => inner,
        }
    }
}

/// What a text says of the names of its programs.
pub(super) struct Names<'k> {
    pub(super) files: &'k Files,
    pub(super) variables: &'k Variables,
    /// What is known of the commands that were looked at, by their places.
    pub(super) seen: &'k RefCell<BTreeMap<usize, Reader>>,
}

/// What becomes of what a command reads.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reader {
    passes_on: bool,
    encodes: bool,
}

impl Names<'_> {
    /// What becomes of what this command reads: each is asked once, by all that are piped into it.
    fn reader(&self, here: &Here<'_>) -> Reader {
        let command = here.command();
        *self.seen.borrow_mut().entry(here.index).or_insert_with(|| Reader {
            passes_on: command.words.is_empty() || passes_on(command),
            encodes: self.encodes(command),
        })
    }

    /// A program's name as it is with what is known, and without what comes to nothing.
    fn known<'n>(&self, name: &'n str) -> Cow<'n, str> {
        if !name.contains(['$', '`']) || name.len() > MAX_NAME {
            return Cow::Borrowed(name);
        }
        let said = self.files.substituted(name, self.variables, 0);
        let said = self.variables.expanded(&said, 0, MAX_NAME).unwrap_or(said);
        Cow::Owned(bare(said.split_whitespace().next().unwrap_or_default()))
    }

    /// Whether a program, or one that it runs, makes something of a value by which it is not recognised.
    fn encodes(&self, command: &SimpleCommand) -> bool {
        let is_encoder = |(at, word): (usize, &Word)| {
            let known = self.known(&word.text);
            let verb = command.words.get(at + 1).map(|word| word.text.as_str());
            is_encoder(known.rsplit('/').next().unwrap_or(&known), verb)
        };
        let runs = command.program().is_some_and(runs_another);
        let words = command.words.iter().enumerate();
        words.take(if runs { MAX_WORDS } else { 1 }).any(is_encoder)
    }
}

impl Here<'_> {
    /// Where its output goes.
    pub(super) fn output(&self, names: &Names<'_>) -> Output {
        let (mut here, mut is_encoded) = (*self, names.reader(self).encodes);
        for _ in 0..MAX_STEPS {
            if let Some(goes) = redirected(here.command()) {
                return goes;
            }
            here = match here.taker() {
                Taker::Known(taker) => taker,
                Taker::None => break,
                Taker::Value => return Output::Elsewhere,
            };
            if keeps(here.command()) {
                return Output::Kept;
            }
            let reader = names.reader(&here);
            if !reader.passes_on {
                return Output::Elsewhere;
            }
            is_encoded |= reader.encodes;
        }
        if is_encoded { Output::Encoded } else { Output::Shown }
    }

    /// What takes up its output.
    fn taker(&self) -> Taker<Self> {
        let (command, rest) = (self.command(), self.index + 1);
        let at = |index| Self { index, ..*self };
        if command.pipes_into_next {
            let is_outer = |each: &SimpleCommand| each.depth <= command.depth;
            let next = self.commands[rest..].iter().position(is_outer).map(|next| at(rest + next));
            let between =
                next.and_then(|n| self.text.get(command.span.end..n.command().span.start));
            // A group reads it, of which any command may.
            let is_plain = between.is_some_and(|text| text.chars().all(|c| "|& \t\n".contains(c)));
            return next.filter(|_| is_plain).map_or(Taker::None, Taker::Known);
        }
        let after = self.after_group().filter(|after| after.command().depth == command.depth);
        if let Some(after) = after {
            return Taker::Known(after);
        }
        if command.depth == 0 {
            return Taker::None;
        }
        let is_around = |each: &SimpleCommand| {
            each.depth < command.depth && each.span.contains(&command.span.start)
        };
        let before = self.commands[..self.index].iter().rev().take(MAX_BACK);
        let around = before.zip((0..self.index).rev()).find(|(each, _)| is_around(each));
        match around {
            Some((each, _)) if !each.assignments.is_empty() && each.words.is_empty() => {
                Taker::Value
            }
            Some((each, index)) if !each.words.is_empty() => Taker::Known(at(index)),
            Some(_) | None => Taker::None,
        }
    }
}

/// What takes up an output.
enum Taker<T> {
    /// This command.
    Known(T),
    /// Whoever asked.
    None,
    /// A variable.
    Value,
}

/// Where a command's own redirections lead its output.
fn redirected(command: &SimpleCommand) -> Option<Output> {
    let mut goes = None;
    for to in command.redirections.iter().filter(|to| takes_output(to)) {
        let target = to.target.text.as_str();
        if !(target == "/dev/null" || target == "-" || target.starts_with(">(")) {
            return Some(Output::Kept);
        }
        goes = Some(Output::Elsewhere);
    }
    goes
}

/// Whether a redirection takes the standard output away from where it is seen.
pub(super) fn takes_output(to: &Redirection) -> bool {
    let is_output = to.operator.contains('>') && to.operator != "<>";
    is_output
        && to.descriptor.is_none_or(|number| number == 1)
        && !SEEN.contains(&to.target.text.as_str())
}

/// Whether a command shows what it reads or is given.
fn passes_on(command: &SimpleCommand) -> bool {
    shows_input(&words_of(command), MAX_WRAPPERS)
}

fn words_of(command: &SimpleCommand) -> Vec<String> {
    command.words.iter().map(|word| word.text.clone()).collect()
}

fn shows_input(words: &[String], left: usize) -> bool {
    let Some((program, rest)) = words.split_first() else { return false };
    let name = program.rsplit('/').next().unwrap_or(program);
    let Some(left) = left.checked_sub(1).filter(|_| !is_unclear(program)) else { return true };
    if let Some(shows) = shows_itself(name, rest) {
        return shows;
    }
    // Asked for a password, it takes the first line, and its program has words of its own.
    let takes_password =
        name == "sudo" && rest.iter().any(|word| is_short(word) && word.contains('S'));
    let mut commands = inside(words).commands.into_iter();
    commands.any(|inner| shows_input(&inner, left) && !(takes_password && inner.len() > 1))
}

/// Whether it is not known which program this name stands for.
fn is_unclear(program: &str) -> bool {
    let name = program.rsplit('/').next().unwrap_or(program);
    program.contains(['$', '`']) || (patterns::is_pattern(name) && !matches!(name, "[" | "[["))
}

/// Whether a program shows what it reads or is given; nothing where that is up to those that it may run.
fn shows_itself(name: &str, rest: &[String]) -> Option<bool> {
    let version = name.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.');
    if INTERPRETERS.iter().any(|(known, _)| *known == version) && !FILTERS.contains(&version) {
        // A script of its own is given what it reads; one in the words may be there to show it.
        return Some(rest.first().is_none_or(|word| word.starts_with('-') && word != "-m"));
    }
    let lists = [SAYERS, SHOWERS, FILTERS, CHANGERS];
    if is_shell(name)
        || is_encoder(name, rest.first().map(String::as_str))
        || lists.iter().any(|list| list.contains(&name))
    {
        return Some(true);
    }
    // The words of its command are judged with what it reads.
    (name == "xargs").then(|| after_xargs(rest).is_empty())
}

/// Whether a program shows what it reads; those that it runs are looked at themselves.
pub(super) fn is_reader(words: &[String]) -> bool {
    let Some((program, rest)) = words.split_first() else { return false };
    let name = program.rsplit('/').next().unwrap_or(program);
    let has_script = is_shell(name) && rest.iter().any(|word| is_c(word));
    let shows = || shows_itself(name, rest) == Some(true) && !SAYERS.contains(&name) && !has_script;
    is_unclear(program) || shows()
}

/// Whether such a program reads its standard input: no file is named that it would read in its place. A word behind an
/// option may be that option's, and an expansion nothing.
pub(super) fn reads_input(words: &[String], is_input: fn(&str) -> bool) -> bool {
    let name = words.first().and_then(|program| program.rsplit('/').next()).unwrap_or_default();
    if !(SHOWERS.contains(&name) || ENCODERS.contains(&name)) || OF_INPUT.contains(&name) {
        return true;
    }
    let is_option = |word: &str| word.starts_with('-') && !matches!(word, "-" | "--");
    let words = words.windows(2).map(|pair| (pair[0].as_str(), pair[1].as_str()));
    let behind = words.filter(|(before, word)| !is_option(before) && !is_option(word));
    let mut files = behind.map(|(_, word)| word).filter(|word| !word.contains(['$', '`']));
    let first = files.next();
    first.is_none_or(|first| is_input(first) || files.any(is_input))
}

/// Whether a command writes what it reads into a file that its words name.
fn keeps(command: &SimpleCommand) -> bool {
    let mut files = command.words.iter().skip(1).map(|word| word.text.as_str());
    let is_file =
        |word: &str| !word.starts_with(['-', '>']) && !SEEN.contains(&word) && word != "/dev/null";
    match name(command) {
        Some("tee" | "sponge") => files.any(is_file),
        Some("dd") => files.any(|word| word.strip_prefix("of=").is_some_and(is_file)),
        Some("sudo") => inside(&words_of(command)).commands.iter().any(|inner| {
            matches!(inner.first().map(String::as_str), Some("tee" | "sponge"))
                && inner[1..].iter().any(|word| is_file(word))
        }),
        _ => false,
    }
}

fn is_encoder(name: &str, verb: Option<&str>) -> bool {
    match name {
        "openssl" => !verb.is_some_and(|verb| OF_OPENSSL.contains(&verb)),
        name => ENCODERS.contains(&name) || patterns::stands_for(name, ENCODERS),
    }
}

fn name(command: &SimpleCommand) -> Option<&str> {
    command.program().and_then(|program| program.rsplit('/').next())
}
