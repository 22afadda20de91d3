//! All the ways in which a command line is looked at: as it is, and as each command that would run.

use std::{cell::RefCell, collections::BTreeMap, iter::Peekable, ops::Range, rc::Rc, slice};

use super::{
    Given,
    allowlist::{blanks_collapsed, listed},
    feed::Files,
    fold::collapsed,
    here::{Here, Quotes},
    output::{Names, Output},
    patterns,
    prose::{meant, unjudged},
    source::Source,
    unwrap::inside,
    variables::{Variables, emptied},
    verbs::verbs_first,
};
use crate::shell::{self, Dialect, Scope, ScopeKind, Script, ShellErrorKind, SimpleCommand, Word};

/// As many looks as one text may need; one that needs more can't be judged.
const MAX_VIEWS: usize = 20_000;
/// As many bytes as all looks together may have.
const MAX_BYTES: usize = 8 * 1024 * 1024;
/// How deep commands may stand in arguments of commands.
const MAX_NESTING: usize = 8;

/// What an entry of a table takes beside its texts, about.
pub(super) const ENTRY: usize = 64;
/// What runs a script in the shell itself.
const OWN: &[&str] = &["alias", "eval", "trap"];
/// As many words with patterns, or calls of functions, as are followed in one command or text.
pub(super) const MAX_PATTERNS: usize = 16;
/// One look at a text.
#[derive(Debug)]
pub(super) struct View {
    pub(super) text: String,
    pub(super) kind: Kind,
    /// Of a command, where its output goes.
    pub(super) output: Output,
    /// Whether the program's name was written with quotes or escapes.
    pub(super) is_disguised: bool,
}

/// What is looked at, and who does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// A simple command from its program on.
    Command,
    /// A simple command without what it only says: our rules' look, where it differs from [`Self::Command`].
    Meant,
    /// A command line without what it only says: our rules' look.
    Script,
    /// What is no command line.
    Text,
    /// The whole command line: an organization's rules' look.
    Whole,
    /// A simple command with what it only says: an organization's rules' look.
    Written,
}

/// All ways in which a text is looked at.
pub(super) struct Views {
    pub(super) looks: Vec<View>,
    /// Each simple command as it is written, for a list of what may run; nothing when a part of the text can't be read.
    pub(super) commands: Option<Vec<String>>,
}

/// All looks; nothing when there are too many.
pub(super) fn views(text: &str, is_command: bool, given: Given<'_>) -> Option<Views> {
    let mut looks = Looks {
        views: Vec::new(),
        commands: Some(Vec::new()),
        bytes: 0,
        variables: Variables::new(),
        aliases: BTreeMap::new(),
        files: Files::of(given),
        at_input: None,
        folder: None,
        output: Output::Shown,
        is_guess: false,
    };
    let kind = if is_command { Kind::Whole } else { Kind::Text };
    looks.push(collapsed(text), kind, false)?;
    if is_command {
        looks.script(text, 0)?;
    } else {
        looks.commands = Some(vec![blanks_collapsed(text)]);
    }
    Some(Views { looks: looks.views, commands: looks.commands })
}

pub(super) struct Looks {
    views: Vec<View>,
    commands: Option<Vec<String>>,
    bytes: usize,
    pub(super) variables: Variables,
    /// What `alias` makes of a program's name on later lines.
    pub(super) aliases: BTreeMap<String, String>,
    /// What the text itself has written into files.
    pub(super) files: Files,
    /// Where `cd` went, if what is there is worth a look.
    pub(super) folder: Option<Rc<str>>,
    /// Where the output goes of the command that is looked at.
    pub(super) output: Output,
    /// The secret that it reads at its standard input.
    pub(super) at_input: Option<Source>,
    /// Whether what is looked at is one of several things that a text may mean.
    is_guess: bool,
}

/// The words of a command in one of its meanings.
struct Reading {
    words: Vec<String>,
    /// Of each word whether patterns in it are the shell's.
    is_open: Vec<bool>,
    is_disguised: bool,
}

impl Looks {
    pub(super) fn script(&mut self, text: &str, nesting: usize) -> Option<()> {
        if nesting > MAX_NESTING {
            return None;
        }
        // A file that was written before is read anew at each call, and blanks are in none of its looks.
        self.charge(text.len())?;
        let script = match shell::lex(text) {
            Ok(script) => script,
            Err(error) if error.kind == ShellErrorKind::TooDeep => return None,
            // Half of what stands in it is not known, so that quotes may be missing; as it is written it was looked at.
            Err(_) if self.is_guess => return Some(()),
            Err(error) => return self.broken(text, error.at, nesting),
        };
        if !self.is_guess {
            self.list(text, &script)?;
        }
        self.each_command(text, &script, nesting)?;
        if script.is_ambiguous {
            let was_guess = std::mem::replace(&mut self.is_guess, true);
            self.otherwise(text, nesting, was_guess)?;
            self.is_guess = was_guess;
        }
        Some(())
    }

    /// A text as a shell without bash's additions reads it.
    fn otherwise(&mut self, text: &str, nesting: usize, was_guess: bool) -> Option<()> {
        self.charge(text.len())?;
        match shell::lex_as(text, Dialect::Posix) {
            Ok(script) => {
                if !was_guess {
                    self.list(text, &script)?;
                }
                self.each_command(text, &script, nesting)
            }
            Err(error) if error.kind == ShellErrorKind::TooDeep => None,
            Err(error) => {
                self.commands = None;
                self.before_fault(text, error.at, nesting).map(|_| ())
            }
        }
    }

    /// Takes in the commands of a script that runs.
    fn list(&mut self, text: &str, script: &Script) -> Option<()> {
        for command in &script.commands {
            let written = listed(text, command);
            self.charge(written.len())?;
            if let Some(all) = &mut self.commands {
                all.push(written);
            }
        }
        Some(())
    }

    fn each_command(&mut self, text: &str, script: &Script, nesting: usize) -> Option<()> {
        self.push(done(text, script), Kind::Script, false)?;
        self.remember_calls(text, script);
        let (of_script, input_before) = (self.output, self.at_input);
        let seen = RefCell::default();
        let mut scopes = Scopes { coming: script.scopes.iter().peekable(), open: Vec::new() };
        for index in 0..script.commands.len() {
            let here = Here { text, commands: &script.commands, index, nesting };
            scopes.reach(here.command(), self)?;
            let names = Names { files: &self.files, variables: &self.variables, seen: &seen };
            self.output = of_script.of_inner(here.output(&names));
            self.at_input = self.files.secret_at_input(&here);
            self.remember(&here)?;
            let taken = self.variables.taken();
            self.charge(taken)?;
            let was_guess = self.is_guess;
            for (at, Reading { words, is_disguised, .. }) in
                self.readings(&here)?.into_iter().enumerate()
            {
                self.is_guess = was_guess || at > 0;
                self.command(words, &here, is_disguised)?;
            }
            self.is_guess = true;
            self.called_otherwise(&here)?;
            self.is_guess = was_guess;
            if let Some(variables) = here.shown() {
                let shown = ["cat".to_owned(), "<<".to_owned(), variables];
                self.push_command(&shown, &SimpleCommand::default(), false)?;
            }
            self.files.written_by(&here, &self.variables);
            // What was said over and over is not judged.
            self.files.is_short()?;
        }
        scopes.close_until(usize::MAX, self)?;
        (self.output, self.at_input) = (of_script, input_before);
        Some(())
    }

    /// A command by what its name is an alias of. As in a shell, within that the same name is none.
    fn called_otherwise(&mut self, here: &Here<'_>) -> Option<()> {
        let Some(first) = here.command().words.first() else { return Some(()) };
        let Some((name, meant)) = self.aliases.remove_entry(&first.text) else { return Some(()) };
        let rest = here.text.get(first.span.end..here.command().span.end).unwrap_or_default();
        self.script(&format!("{meant}{rest}"), here.nesting + 1)?;
        self.aliases.insert(name, meant);
        Some(())
    }

    /// A text that no shell would take as a whole: bash still runs the lines before the fault. What the fault hides is
    /// looked at without quotes, in case that a shell reads it otherwise.
    fn broken(&mut self, text: &str, at: usize, nesting: usize) -> Option<()> {
        self.commands = None;
        let fault = self.before_fault(text, at, nesting)?;
        let bare = fault.chars().filter(|c| !matches!(c, '\'' | '"' | '\\'));
        let bare = bare.map(|c| if "()`{}[]".contains(c) { '\n' } else { c });
        let bare: String = bare.collect();
        self.push(collapsed(text), Kind::Script, false)?;
        self.script(&bare, nesting + 1)
    }

    /// Looks at the lines before the one in which a fault begins; gives the rest.
    fn before_fault<'t>(&mut self, text: &'t str, at: usize, nesting: usize) -> Option<&'t str> {
        let line = text.get(..at)?.rfind('\n').map_or(0, |end| end + 1);
        let (before, fault) = text.split_at(line);
        if line > 0 {
            self.script(before, nesting + 1)?;
        }
        Some(fault)
    }

    /// The words of a command: as they are written, and as a shell would make them of variables, substitutions, braces,
    /// patterns and its folder.
    fn readings(&mut self, here: &Here<'_>) -> Option<Vec<Reading>> {
        let command = here.command();
        let words: Vec<String> = command.words.iter().map(|word| word.text.clone()).collect();
        let written = Reading {
            words: here.literal(&words),
            is_open: command.words.iter().map(|word| here.is_open(word)).collect(),
            is_disguised: command.words.first().is_some_and(is_disguised),
        };
        let mut readings = vec![written];
        if words.iter().any(|word| word.contains(['$', '`', '{'])) {
            self.add_expanded(&mut readings, &words, here)?;
        }
        let last = readings.len() - 1;
        for of in if last == 0 { vec![0] } else { vec![0, last] } {
            self.add_named(&mut readings, of)?;
        }
        if let Some(folder) = &self.folder {
            let written = &readings[0];
            let inside =
                written.words.iter().enumerate().map(|(at, word)| match word.bytes().next() {
                    Some(b'-' | b'/' | b'~' | b'$') | None => word.clone(),
                    Some(_) if at == 0 => word.clone(),
                    Some(_) => format!("{folder}/{word}"),
                });
            let (words, is_open) = (inside.collect(), written.is_open.clone());
            readings.push(Reading { words, is_open, is_disguised: written.is_disguised });
            let last = readings.len() - 1;
            self.add_named(&mut readings, last)?;
        }
        Some(readings)
    }

    /// One more reading for each value that its variables may have.
    fn add_expanded(
        &mut self,
        readings: &mut Vec<Reading>,
        words: &[String],
        here: &Here<'_>,
    ) -> Option<()> {
        let mut expanded: Vec<(String, Quotes)> = Vec::new();
        for word in &here.command().words {
            let quotes = here.quotes(word);
            let own = match quotes {
                Quotes::Single => word.text.clone(),
                _ => self.files.substituted(&word.text, &self.variables, here.nesting),
            };
            match quotes {
                Quotes::None if own.contains('{') => {
                    expanded.extend(patterns::braces(&own)?.into_iter().map(|one| (one, quotes)));
                }
                _ => expanded.push((own, quotes)),
            }
        }
        let choices = expanded.iter().map(|(word, _)| self.variables.choices(word)).max();
        for choice in 0..choices.unwrap_or(0) {
            // As it is, and without what comes to nothing.
            let mut meanings = [(Vec::new(), Vec::new()), (Vec::new(), Vec::new())];
            let mut left = MAX_BYTES;
            for (word, quotes) in &expanded {
                let own = match quotes {
                    Quotes::Single => word.clone(),
                    _ => self.variables.expanded(word, choice, left)?,
                };
                left = left.checked_sub(own.len())?;
                let bare = if *quotes == Quotes::Single { own.clone() } else { emptied(&own) };
                for ((one, is_open), own) in meanings.iter_mut().zip([own, bare]) {
                    match quotes {
                        Quotes::None => one.extend(own.split_whitespace().map(str::to_owned)),
                        Quotes::Double | Quotes::Single => one.push(own),
                    }
                    is_open.resize(one.len(), *quotes == Quotes::None);
                }
            }
            let [as_it_is, bare] = meanings;
            let is_other = bare.0 != as_it_is.0;
            let other = is_other.then_some(bare);
            let all = std::iter::once(as_it_is).filter(|(one, _)| one != words).chain(other);
            for (words, is_open) in all {
                self.charge(words.iter().map(|word| word.len() + 1).sum())?;
                readings.push(Reading { words, is_open, is_disguised: true });
            }
        }
        Some(())
    }

    /// One more reading for each name with credentials that a pattern in this one may stand for.
    fn add_named(&mut self, readings: &mut Vec<Reading>, of: usize) -> Option<()> {
        let Reading { words, is_open, .. } = &readings[of];
        let is_glob =
            |at: usize| at > 0 && matches!(words[at - 1].as_str(), "-g" | "--glob" | "--iglob");
        let patterns = words.iter().enumerate().filter(|(at, word)| {
            patterns::is_pattern(word) && (is_open.get(*at) == Some(&true) || is_glob(*at))
        });
        let mut found = Vec::new();
        for (at, word) in patterns.take(MAX_PATTERNS) {
            let names = match at {
                0 => patterns::programs(word),
                _ => patterns::names(word, is_glob(at)),
            };
            found.extend(names.into_iter().map(|name| (at, name)));
        }
        let words = words.clone();
        for (at, name) in found {
            let mut named = words.clone();
            named[at] = name;
            self.charge(named.iter().map(|word| word.len() + 1).sum())?;
            readings.push(Reading { words: named, is_open: Vec::new(), is_disguised: true });
        }
        Some(())
    }

    pub(super) fn command(
        &mut self,
        words: Vec<String>,
        here: &Here<'_>,
        disguised: bool,
    ) -> Option<()> {
        let mut open = vec![(words, disguised)];
        while let Some((mut words, disguised)) = open.pop() {
            self.charge(words.iter().map(|word| word.len() + 1).sum())?;
            if let Some(first) = words.first_mut()
                && !first.starts_with('$')
            {
                let name = first.rsplit('/').next().unwrap_or(first).trim_start_matches('=');
                *first = if name.is_empty() { first.clone() } else { name.to_owned() };
            }
            let inside = inside(&words);
            if !inside.is_all && !is_only_settings(&words) {
                self.push_command(&words, here.command(), disguised)?;
                self.push_source(&words)?;
                for other in verbs_first(&words) {
                    self.push(collapsed(&other.join(" ")), Kind::Meant, disguised)?;
                }
            }
            let was_input = self.files.has_input;
            if !inside.scripts.is_empty() {
                self.files.has_input = self.has_input(here);
            }
            let was_guess = self.is_guess;
            self.is_guess |= inside.is_guess;
            let is_own = words.first().is_some_and(|name| OWN.contains(&name.as_str()));
            for (script, names) in inside.scripts {
                if is_own {
                    self.script(&script, here.nesting + 1)?;
                } else {
                    self.of_child(&script, &names, here.nesting + 1)?;
                }
            }
            self.is_guess = was_guess;
            self.files.has_input = was_input;
            let is_search =
                words.first().is_some_and(|name| matches!(name.as_str(), "find" | "fd"));
            for command in inside.commands {
                if is_search {
                    open.extend(named_by_search(&command).map(|named| (named, false)));
                }
                // Behind another program a pattern is the shell's as well.
                open.extend(named_programs(&command).map(|named| (named, true)));
                open.push((command, false));
            }
            open.extend(self.fed(&words, here)?.into_iter().map(|command| (command, false)));
        }
        Some(())
    }

    /// Looks at a script of another shell, with its words: what it sets is none of this one's.
    pub(super) fn of_child(
        &mut self,
        script: &str,
        words: &[String],
        nesting: usize,
    ) -> Option<()> {
        let aliases = self.aliases.iter().map(|(name, meant)| name.len() + meant.len() + ENTRY);
        self.charge(aliases.sum())?;
        let before = (self.aliases.clone(), self.folder.clone());
        self.variables.open();
        if let Some((zero, words)) = words.split_first() {
            self.variables.set_words(Some(zero), words);
        }
        self.script(script, nesting)?;
        self.variables.forget();
        (self.aliases, self.folder) = before;
        Some(())
    }

    /// The command with its redirections, once with their signs and once as arguments.
    pub(super) fn push_command(
        &mut self,
        words: &[String],
        command: &SimpleCommand,
        disguised: bool,
    ) -> Option<()> {
        self.charge(words.iter().map(|word| word.len() + 1).sum())?;
        let (written, meant) = (words.join(" "), meant(words).join(" "));
        self.push_both(&written, &meant, disguised)?;
        if command.redirections.is_empty() {
            return Some(());
        }
        let (mut signs, mut arguments) = (written.clone(), written);
        let (mut meant_signs, mut meant_arguments) = (meant.clone(), meant);
        for to in &command.redirections {
            signs.extend([" ", to.operator, &to.target.text]);
            arguments.extend([" ", &to.target.text]);
            // What a command writes it does not read, and a here-document's delimiter is no file.
            let is_input = matches!(to.operator, "<" | "<>");
            let is_said = to.operator.starts_with('>') || to.operator.starts_with('&');
            let target = if is_said { "_".to_owned() } else { self.read_from(&to.target.text)? };
            meant_signs.extend([" ", to.operator, &target]);
            if is_input {
                meant_arguments.extend([" ", &target]);
            }
        }
        self.push_both(&signs, &meant_signs, disguised)?;
        self.push_both(&arguments, &meant_arguments, disguised)
    }

    /// The file that a redirection names, as far as the text says it.
    fn read_from(&mut self, target: &str) -> Option<String> {
        let mut target = if target.contains('$') {
            self.variables.expanded(target, 0, MAX_BYTES)?
        } else {
            target.to_owned()
        };
        if let Some(folder) = &self.folder
            && !target.starts_with(['/', '~', '$', '<'])
        {
            target = format!("{folder}/{target}");
        }
        self.charge(target.len())?;
        Some(patterns::names(&target, false).into_iter().next().unwrap_or(target))
    }

    fn push_both(&mut self, written: &str, meant: &str, disguised: bool) -> Option<()> {
        if written == meant {
            return self.push(collapsed(written), Kind::Command, disguised);
        }
        self.push(collapsed(written), Kind::Written, disguised)?;
        self.push(collapsed(meant), Kind::Meant, disguised)
    }

    pub(super) fn push(&mut self, text: String, kind: Kind, is_disguised: bool) -> Option<()> {
        self.charge(text.len())?;
        if self.views.len() >= MAX_VIEWS {
            return None;
        }
        self.views.push(View { text, kind, output: self.output, is_disguised });
        Some(())
    }

    fn charge(&mut self, bytes: usize) -> Option<()> {
        self.bytes += bytes;
        (self.bytes <= MAX_BYTES).then_some(())
    }
}

/// The parts of a script whose variables are not those of what follows, or not surely.
struct Scopes<'s> {
    coming: Peekable<slice::Iter<'s, Scope>>,
    /// Where those end that are under way, what becomes of their variables, and the folder before them.
    open: Vec<(usize, ScopeKind, Option<Rc<str>>)>,
}

impl Scopes<'_> {
    /// Takes in that a command begins.
    fn reach(&mut self, command: &SimpleCommand, looks: &mut Looks) -> Option<()> {
        let at = command.span.start;
        self.close_until(at, looks)?;
        while let Some(scope) = self.coming.next_if(|scope| scope.range.start <= at) {
            if scope.range.end > at {
                self.begin(scope.range.end, scope.kind, looks);
            }
        }
        // What stands before a program is set for it alone, and stays only where that is part of the shell.
        if !command.assignments.is_empty() && !command.words.is_empty() {
            self.begin(command.span.end, ScopeKind::Perhaps, looks);
        }
        Some(())
    }

    fn begin(&mut self, end: usize, kind: ScopeKind, looks: &mut Looks) {
        looks.variables.open();
        self.open.push((end, kind, looks.folder.clone()));
    }

    /// What goes from one to that around it is charged: there may be as many of both as a text has room for.
    fn close_until(&mut self, at: usize, looks: &mut Looks) -> Option<()> {
        while let Some((_, kind, folder)) = self.open.pop_if(|(end, ..)| *end <= at) {
            match kind {
                ScopeKind::Own => {
                    looks.variables.forget();
                    looks.folder = folder;
                }
                ScopeKind::Perhaps => {
                    looks.variables.doubt();
                    looks.folder = looks.folder.take().or(folder);
                }
            }
            let taken = looks.variables.taken();
            looks.charge(taken)?;
        }
        Some(())
    }
}

/// The commands that a search runs, for each name with credentials that its pattern may stand for.
pub(super) fn named_by_search(command: &[String]) -> impl Iterator<Item = Vec<String>> + '_ {
    let patterns = command.iter().enumerate().filter(|(_, word)| patterns::is_pattern(word));
    patterns.take(MAX_PATTERNS).flat_map(move |(at, word)| {
        patterns::names(word, true).into_iter().map(move |name| {
            let mut named = command.to_vec();
            named[at] = name;
            named
        })
    })
}

/// A command for each program that its first word may stand for as a pattern.
fn named_programs(command: &[String]) -> impl Iterator<Item = Vec<String>> + '_ {
    let pattern = command.first().filter(|word| patterns::is_pattern(word));
    let programs = pattern.map(|word| patterns::programs(word)).unwrap_or_default();
    programs
        .into_iter()
        .map(|name| std::iter::once(name).chain(command[1..].iter().cloned()).collect())
}

/// The text without what its commands only say and without documents, unless commands stand in these.
fn done(text: &str, script: &Script) -> String {
    let mut said: Vec<Range<usize>> = Vec::new();
    for command in &script.commands {
        let bodies = command.redirections.iter().filter_map(|to| to.body.clone());
        said.extend(bodies);
        let words: Vec<String> = command.words.iter().map(|word| word.text.clone()).collect();
        said.extend(unjudged(&words).into_iter().map(|index| command.words[index].span.clone()));
    }
    let has_commands = |range: &Range<usize>| {
        let first = script.commands.partition_point(|command| command.span.start < range.start);
        script.commands.get(first).is_some_and(|command| command.span.start < range.end)
    };
    said.retain(|range| !range.is_empty() && !has_commands(range));
    // A pipe ends with its last command, unless that stands in a group.
    let ends = script.commands.windows(2).filter_map(|pair| {
        let between = text.get(pair[0].span.end..pair[1].span.start)?;
        let closes = [")", "}", "done", "fi", "esac"].iter().any(|sign| between.contains(sign));
        let is_end = !pair[0].pipes_into_next && pair[0].depth == pair[1].depth && !closes;
        is_end.then_some(pair[0].span.end..pair[0].span.end)
    });
    said.extend(ends);
    said.sort_by_key(|range| range.start);
    let (mut left, mut at) = (String::with_capacity(text.len()), 0);
    for range in &said {
        if range.start < at && !range.is_empty() {
            continue;
        }
        left.push_str(&collapsed(text.get(at..range.start).unwrap_or_default()));
        left.push_str(if range.is_empty() { "\n" } else { " _ " });
        at = range.end.max(at);
    }
    left + &collapsed(&text[at..])
}

/// `set` with options or words changes the shell and shows nothing.
fn is_only_settings(words: &[String]) -> bool {
    words.len() > 1 && words[0] == "set"
}

fn is_disguised(word: &Word) -> bool {
    !word.is_plain && !word.text.contains(['$', '`'])
}
