//! Where a command's output goes: before whoever asked, into a file, or into another program.
//!
//! Rules about placeholders ask it: `echo {{nl:a/B}} | docker login --password-stdin` hands a value over, and without the
//! pipe the same words only show it. What is not clear counts as shown.

use serde::Deserialize;

use super::{
    feed::{FILTERS, INTERPRETERS},
    here::{Here, SHOWERS},
    unwrap::{after_xargs, inside, is_shell, is_short},
};
use crate::shell::{Redirection, SimpleCommand};

/// As many programs as are followed along pipes and groups.
const MAX_STEPS: usize = 64;
/// In how many commands the one is looked for in whose words another stands.
const MAX_BACK: usize = 256;
/// How deep programs that run others are followed.
const MAX_WRAPPERS: usize = 4;

/// Programs that say what they are given.
const SAYERS: &[&str] = &["echo", "print", "printf"];
/// Further programs that show what they read, if changed.
const CHANGERS: &[&str] = &["dd", "gojq", "jaq", "jq", "sponge", "tee", "yq"];
/// Programs after which a value is no longer recognised.
const ENCODERS: &[&str] = &[
    "base32", "base64", "basenc", "bzip2", "gzip", "hexdump", "od", "openssl", "rev", "tr",
    "uuencode", "xxd", "xz", "zstd",
];
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

impl Here<'_> {
    /// Where its output goes.
    pub(super) fn output(&self) -> Output {
        let (mut here, mut is_encoded) = (*self, encodes(self.command()));
        for _ in 0..MAX_STEPS {
            if let Some(goes) = redirected(here.command()) {
                return goes;
            }
            here = match here.reader() {
                Reader::Known(reader) => reader,
                Reader::None => break,
                Reader::Value => return Output::Elsewhere,
            };
            let reader = here.command();
            if keeps(reader) {
                return Output::Kept;
            }
            if !reader.words.is_empty() && !passes_on(reader) {
                return Output::Elsewhere;
            }
            is_encoded |= encodes(reader);
        }
        if is_encoded { Output::Encoded } else { Output::Shown }
    }

    /// What takes up its output.
    fn reader(&self) -> Reader<Self> {
        let (command, rest) = (self.command(), self.index + 1);
        let at = |index| Self { index, ..*self };
        if command.pipes_into_next {
            let is_outer = |each: &SimpleCommand| each.depth <= command.depth;
            let next = self.commands[rest..].iter().position(is_outer).map(|next| at(rest + next));
            let between =
                next.and_then(|n| self.text.get(command.span.end..n.command().span.start));
            // A group reads it, of which any command may.
            let is_plain = between.is_some_and(|text| text.chars().all(|c| "|& \t\n".contains(c)));
            return next.filter(|_| is_plain).map_or(Reader::None, Reader::Known);
        }
        let after = self.after_group().filter(|after| after.command().depth == command.depth);
        if let Some(after) = after {
            return Reader::Known(after);
        }
        if command.depth == 0 {
            return Reader::None;
        }
        let is_around = |each: &SimpleCommand| {
            each.depth < command.depth && each.span.contains(&command.span.start)
        };
        let before = self.commands[..self.index].iter().rev().take(MAX_BACK);
        let around = before.zip((0..self.index).rev()).find(|(each, _)| is_around(each));
        match around {
            Some((each, _)) if !each.assignments.is_empty() && each.words.is_empty() => {
                Reader::Value
            }
            Some((each, index)) if !each.words.is_empty() => Reader::Known(at(index)),
            Some(_) | None => Reader::None,
        }
    }
}

/// What takes up an output.
enum Reader<T> {
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
    let words: Vec<String> = command.words.iter().map(|word| word.text.clone()).collect();
    shows_input(&words, MAX_WRAPPERS)
}

fn shows_input(words: &[String], left: usize) -> bool {
    let Some((program, rest)) = words.split_first() else { return false };
    let Some(left) = left.checked_sub(1).filter(|_| !program.contains(['$', '`'])) else {
        return true;
    };
    let name = program.rsplit('/').next().unwrap_or(program);
    let version = name.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.');
    if INTERPRETERS.iter().any(|(known, _)| *known == version) && !FILTERS.contains(&version) {
        // A script of its own is given what it reads; one in the words may be there to show it.
        return rest.first().is_none_or(|word| word.starts_with('-') && word != "-m");
    }
    let lists = [SAYERS, SHOWERS, FILTERS, CHANGERS, ENCODERS];
    if is_shell(name) || lists.iter().any(|list| list.contains(&name)) {
        return true;
    }
    // The words of its command are judged with what it reads.
    if name == "xargs" {
        return after_xargs(rest).is_empty();
    }
    // Asked for a password, it takes the first line, and its program has words of its own.
    let takes_password =
        name == "sudo" && rest.iter().any(|word| is_short(word) && word.contains('S'));
    let mut commands = inside(words).commands.into_iter();
    commands.any(|inner| shows_input(&inner, left) && !(takes_password && inner.len() > 1))
}

/// Whether a command writes what it reads into a file that its words name.
fn keeps(command: &SimpleCommand) -> bool {
    let mut files = command.words.iter().skip(1).map(|word| word.text.as_str());
    let is_file =
        |word: &str| !word.starts_with(['-', '>']) && !SEEN.contains(&word) && word != "/dev/null";
    let words: Vec<String> = command.words.iter().map(|word| word.text.clone()).collect();
    match name(command) {
        Some("tee" | "sponge") => files.any(is_file),
        Some("dd") => files.any(|word| word.strip_prefix("of=").is_some_and(is_file)),
        Some("sudo") => inside(&words).commands.iter().any(|inner| {
            matches!(inner.first().map(String::as_str), Some("tee" | "sponge"))
                && inner[1..].iter().any(|word| is_file(word))
        }),
        _ => false,
    }
}

fn encodes(command: &SimpleCommand) -> bool {
    name(command).is_some_and(|name| ENCODERS.contains(&name))
}

fn name(command: &SimpleCommand) -> Option<&str> {
    command.program().and_then(|program| program.rsplit('/').next())
}
