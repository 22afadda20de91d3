//! What stands around simple commands: reserved words, groups, functions, `case`, `[[ ]]`.

use super::{
    Context, Dialect, ShellError, ShellErrorKind, SimpleCommand, Word,
    lexer::{Lexer, List},
    scope::Sign,
};

/// After these the next word begins a command again.
const OPENERS: &[&str] = &["!", "time"];

impl Lexer<'_> {
    /// A word of the command that is under way, or one that says what comes.
    pub(super) fn word_of(&mut self, list: &mut List) -> Result<(), ShellError> {
        let word = if list.command.words.is_empty() { self.first_word()? } else { self.word()? };
        if word.span.is_empty() {
            // A byte that begins nothing, such as a lone `\r`; never stand still.
            self.at += 1;
            return Ok(());
        }
        if let Some(descriptor) = self.descriptor(&word) {
            return self.redirect(list, Some(descriptor));
        }
        self.note_descriptor(list, &word);
        let command = &mut list.command;
        if command.words.is_empty() {
            if let Some(length) = assigned_name(&self.text[word.span.clone()]) {
                let name = word.span.start..word.span.start + length;
                self.script.names.push(name);
                self.array()?;
                let span = word.span.start..self.at;
                begin_at(list, span.start);
                list.command.span.end = span.end;
                list.command.assignments.push(Word { span, ..word });
                return Ok(());
            }
            if word.is_plain && command.is_empty() {
                match word.text.as_str() {
                    // With options it is a program like others to whoever looks at what it runs.
                    "time" if self.rest().trim_start_matches([' ', '\t']).starts_with('-') => {}
                    "coproc" => {
                        self.coprocess_name();
                        return Ok(());
                    }
                    "{" | "if" | "while" | "until" => {
                        list.groups.push(word.span.start);
                        list.open_level(word.span.start);
                        return Ok(());
                    }
                    "}" | "fi" | "done" => {
                        self.close_level(list);
                        list.close_group(self.at);
                        return Ok(());
                    }
                    "then" | "else" | "elif" | "do" => {
                        self.begin_branch(list);
                        return Ok(());
                    }
                    opener if OPENERS.contains(&opener) => return Ok(()),
                    "esac" => {
                        self.close_level(list);
                        list.cases = list.cases.saturating_sub(1);
                        list.close_group(self.at);
                        return Ok(());
                    }
                    "function" => {
                        list.is_function = true;
                        return self.function_name();
                    }
                    "[[" if self.dialect == Dialect::Bash => return self.condition(list, word),
                    _ => {}
                }
            }
        }
        self.push(list, word)
    }

    /// A word that may be `NAME[…]=VALUE`: its subscript may have blanks and operators.
    fn first_word(&mut self) -> Result<Word, ShellError> {
        let began = self.at;
        let mut word = Word { span: began..began, text: String::new(), is_plain: true };
        let Some(length) = subscript(self.rest()) else { return self.word_from(word) };
        word.is_plain = false;
        while self.at < began + length {
            match self.text.as_bytes()[self.at] {
                b'$' => self.dollar(&mut word, true)?,
                b'`' => self.backquotes(&mut word, true)?,
                b'\'' => self.single_quotes(&mut word)?,
                b'"' => self.double_quotes(&mut word)?,
                _ => self.take_char(&mut word),
            }
        }
        self.word_from(word)
    }

    /// `coproc NAME { …; }`.
    fn coprocess_name(&mut self) {
        let rest = self.rest();
        let name = rest.trim_start_matches([' ', '\t']);
        let after = name.trim_start_matches(|c: char| c.is_ascii_alphanumeric() || c == '_');
        if after.len() < name.len() && after.trim_start_matches([' ', '\t']).starts_with(['{', '('])
        {
            self.at += rest.len() - after.len();
        }
    }

    fn push(&mut self, list: &mut List, word: Word) -> Result<(), ShellError> {
        begin_at(list, word.span.start);
        let command = &mut list.command;
        command.span.end = word.span.end;
        command.words.push(word);
        if !begins_plainly(command) {
            return Ok(());
        }
        let texts: Vec<&str> = command.words.iter().take(4).map(|w| w.text.as_str()).collect();
        match texts.as_slice() {
            ["for" | "select", _] => {
                let began = command.span.start;
                list.groups.push(began);
                list.open_level(began);
                let command = &list.command;
                let name = command.words[1].span.clone();
                self.note(name, Context::VariableName);
            }
            ["case", _, "in"] if command.words[2].is_plain => {
                let began = command.span.start;
                list.groups.push(began);
                list.open_level(began);
                self.finish(list, false);
                list.cases += 1;
                self.case_patterns(list)?;
            }
            _ => {}
        }
        Ok(())
    }

    pub(super) fn semicolon(&mut self, list: &mut List) -> Result<(), ShellError> {
        self.finish(list, false);
        self.end_part(list, Sign::End);
        let rest = self.rest();
        let arm = [";;&", ";;", ";&"].into_iter().find(|end| rest.starts_with(end));
        self.at += arm.map_or(1, str::len);
        if arm.is_some() && list.cases > 0 { self.case_patterns(list) } else { Ok(()) }
    }

    /// `(`: a group, an arithmetic command, or a function's empty list.
    pub(super) fn open(&mut self, list: &mut List) -> Result<(), ShellError> {
        if list.command.is_empty() && self.dialect == Dialect::Bash && self.arithmetic_command()? {
            self.script.is_ambiguous = true;
            list.begin_part();
            return Ok(());
        }
        let command = &list.command;
        let after = self.rest()[1..].trim_start_matches([' ', '\t']);
        if command.words.len() == 1 && after.starts_with(')') {
            list.command = SimpleCommand::default();
            list.is_function = true;
            self.at = self.end.min(self.at + self.rest().find(')').unwrap_or(0) + 1);
            return Ok(());
        }
        self.finish(list, false);
        list.groups.push(self.at);
        list.open_level(self.at);
        self.at += 1;
        list.open_parens += 1;
        Ok(())
    }

    /// Patterns up to their `)`, or `esac`.
    fn case_patterns(&mut self, list: &mut List) -> Result<(), ShellError> {
        let mut is_first = true;
        loop {
            self.skip_blanks();
            match self.peek() {
                None => return Ok(()),
                Some(b')') => {
                    self.at += 1;
                    self.begin_branch(list);
                    return Ok(());
                }
                Some(b'(' | b'|' | b'\n' | b';' | b'&' | b'<' | b'>') => self.at += 1,
                Some(b'#') => self.comment(),
                Some(_) => {
                    let before = self.at;
                    let word = self.word()?;
                    if is_first && word.is_plain && word.text == "esac" {
                        self.close_level(list);
                        list.cases = list.cases.saturating_sub(1);
                        list.close_group(self.at);
                        return Ok(());
                    }
                    is_first = false;
                    self.at = self.at.max(before + 1);
                }
            }
        }
    }

    /// `[[ … ]]`, in which `<`, `>`, `&&`, `||` and parentheses are operators of its own.
    fn condition(&mut self, list: &mut List, opener: Word) -> Result<(), ShellError> {
        let began = opener.span.start;
        begin_at(list, began);
        list.command.words.push(opener);
        let mut open_parens = 0_usize;
        loop {
            self.skip_blanks();
            let byte = self.peek();
            match byte {
                None => {
                    let kind = ShellErrorKind::UnterminatedSubstitution;
                    return Err(ShellError { at: began, kind });
                }
                Some(b'<' | b'>' | b'&' | b'|' | b'(' | b')' | b';' | b'\n') => {
                    match byte {
                        Some(b'(') => open_parens += 1,
                        Some(b')') => open_parens = open_parens.saturating_sub(1),
                        // To a shell without `[[` it ends a command; in parentheses, as of a pattern, it takes no text.
                        Some(b'&' | b'|' | b';' | b'\n') if open_parens == 0 => {
                            self.script.is_ambiguous = true;
                        }
                        _ => {}
                    }
                    self.at += 1;
                }
                Some(_) => {
                    let word = self.word()?;
                    let is_end = word.is_plain && word.text == "]]";
                    list.command.span.end = word.span.end;
                    list.command.words.push(word);
                    if is_end {
                        return Ok(());
                    }
                }
            }
        }
    }

    /// `function NAME [()]`.
    fn function_name(&mut self) -> Result<(), ShellError> {
        self.skip_blanks();
        self.word()?;
        self.skip_blanks();
        if self.rest().starts_with("()") {
            self.at += 2;
        }
        Ok(())
    }

    /// The words of `NAME=( … )`.
    fn array(&mut self) -> Result<(), ShellError> {
        let began = self.at;
        if self.peek() != Some(b'(') || !self.text[..began].ends_with('=') {
            return Ok(());
        }
        self.at += 1;
        loop {
            self.skip_blanks();
            match self.peek() {
                None => {
                    let kind = ShellErrorKind::UnterminatedSubstitution;
                    return Err(ShellError { at: began, kind });
                }
                Some(b')') => {
                    self.at += 1;
                    return Ok(());
                }
                Some(b'\n' | b'(' | b';' | b'&' | b'|' | b'<' | b'>') => self.at += 1,
                Some(b'#') => self.comment(),
                Some(_) => {
                    let began = self.at;
                    self.word()?;
                    let raw = &self.text[began..self.at];
                    if let Some(close) = raw.find("]=").filter(|_| raw.starts_with('[')) {
                        self.script.names.push(began..began + close + 1);
                    }
                }
            }
        }
    }
}

/// How long `NAME[…]` is that an assignment begins with here.
fn subscript(rest: &str) -> Option<usize> {
    /// No subscript is longer, and none is looked for any farther.
    const MAX_SUBSCRIPT: usize = 1024;
    let name = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_')?;
    if name == 0 || rest.as_bytes()[0].is_ascii_digit() || rest.as_bytes()[name] != b'[' {
        return None;
    }
    let mut depth = 0_usize;
    for (at, byte) in rest.bytes().enumerate().skip(name).take(MAX_SUBSCRIPT) {
        match byte {
            b'[' => depth += 1,
            b']' if depth == 1 => {
                let after = &rest[at + 1..];
                return (after.starts_with('=') || after.starts_with("+=")).then_some(at + 1);
            }
            b']' => depth -= 1,
            b'\n' => return None,
            _ => {}
        }
    }
    None
}

/// Whether the first word of a command may be a reserved one: it is neither quoted nor behind an assignment or a
/// redirection.
pub(super) fn begins_plainly(command: &SimpleCommand) -> bool {
    command.assignments.is_empty()
        && command.redirections.is_empty()
        && command.words.first().is_some_and(|word| word.is_plain)
}

pub(super) fn begin_at(list: &mut List, at: usize) {
    list.begin_part();
    if list.command.is_empty() {
        list.command.span = at..at;
        list.closed = None;
        list.command.group = list.piped.take().or(list.command.group.take());
    }
}

/// How long the name is, with its subscript, where `NAME=`, `NAME+=` or `NAME[…]=` is at the front.
fn assigned_name(raw: &str) -> Option<usize> {
    let name = raw.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(raw.len());
    if name == 0 || raw.as_bytes()[0].is_ascii_digit() {
        return None;
    }
    let subscript = match (raw[name..].starts_with('['), raw[name..].find(']')) {
        (true, Some(close)) => close + 1,
        _ => 0,
    };
    let rest = &raw[name + subscript..];
    (rest.starts_with('=') || rest.starts_with("+=")).then_some(name + subscript)
}
