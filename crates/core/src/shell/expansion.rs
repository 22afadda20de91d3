//! Quotes, and what begins with a dollar sign or a backquote.

use super::{
    Context, Dialect, ShellError, ShellErrorKind, Word,
    lexer::{Lexer, Until},
    scope::ScopeKind,
};

impl Lexer<'_> {
    pub(super) fn single_quotes(&mut self, word: &mut Word) -> Result<(), ShellError> {
        let began = self.at;
        self.at += 1;
        let length = self.rest().find('\'').ok_or(unterminated_quote(began))?;
        word.text.push_str(&self.rest()[..length]);
        word.is_plain = false;
        self.note(self.at..self.at + length, Context::SingleQuoted);
        self.at += length + 1;
        Ok(())
    }

    pub(super) fn double_quotes(&mut self, word: &mut Word) -> Result<(), ShellError> {
        let began = self.at;
        self.at += 1;
        word.is_plain = false;
        loop {
            match self.peek().ok_or(unterminated_quote(began))? {
                b'"' => break,
                b'\\' => match self.peek_at(1) {
                    Some(b'\n') => self.at += 2,
                    Some(b'$' | b'`' | b'"' | b'\\') => {
                        self.at += 1;
                        self.take_char(word);
                    }
                    _ => self.take_char(word),
                },
                b'$' => self.dollar(word, true)?,
                b'`' => self.backquotes(word, true)?,
                _ => self.take_char(word),
            }
        }
        self.note(began + 1..self.at, Context::DoubleQuoted);
        self.at += 1;
        Ok(())
    }

    /// What begins with `$`. `in_quotes`: inside double quotes, or where the same rules hold.
    pub(super) fn dollar(&mut self, word: &mut Word, in_quotes: bool) -> Result<(), ShellError> {
        word.is_plain = false;
        match self.peek_at(1) {
            Some(b'\'') if !in_quotes && self.dialect == Dialect::Bash => self.dollar_quotes(word),
            Some(b'"') if !in_quotes => {
                self.at += 1;
                self.double_quotes(word)
            }
            Some(b'{') => self.parameter(word, in_quotes),
            Some(b'(') => {
                if self.arithmetic(word, 1)? {
                    return Ok(());
                }
                self.at += 2;
                self.substitution(word, 2)
            }
            _ => {
                self.take_char(word);
                Ok(())
            }
        }
    }

    /// The commands of `$( )`, `<( )` or `>( )`, whose `opener` bytes were taken.
    pub(super) fn substitution(
        &mut self,
        word: &mut Word,
        opener: usize,
    ) -> Result<(), ShellError> {
        let began = self.at;
        word.is_plain = false;
        self.depth += 1;
        self.list(Until::Paren)?;
        self.depth -= 1;
        self.note(began..self.at - 1, Context::Unquoted);
        self.note_scope(began - opener..self.at, ScopeKind::Own);
        word.text.push_str(&self.text[began - opener..self.at]);
        Ok(())
    }

    /// `` `…` ``. Without escapes its content is read where it stands; with them, as the shell unescapes it.
    pub(super) fn backquotes(
        &mut self,
        word: &mut Word,
        in_quotes: bool,
    ) -> Result<(), ShellError> {
        let began = self.at;
        word.is_plain = false;
        let kind = ShellErrorKind::UnterminatedSubstitution;
        let close = began
            + 1
            + closing_backquote(&self.text[began + 1..self.end])
                .ok_or(ShellError { at: began, kind })?;
        let inner = &self.text[began + 1..close];
        self.depth += 1;
        if inner.contains('\\') {
            let inner = unescaped(inner, in_quotes);
            let script = Lexer::new(&inner, self.depth, self.dialect).script()?;
            self.script.is_ambiguous |= script.is_ambiguous;
            for mut command in script.commands {
                command.stand_at(&(began..close + 1));
                self.script.commands.push(command);
            }
            self.note(began + 1..close, Context::Backquoted);
        } else {
            let end = std::mem::replace(&mut self.end, close);
            self.at = began + 1;
            self.list(Until::End)?;
            self.end = end;
            self.note(began + 1..close, Context::Unquoted);
        }
        self.depth -= 1;
        self.at = close + 1;
        self.note_scope(began..self.at, ScopeKind::Own);
        word.text.push_str(&self.text[began..self.at]);
        Ok(())
    }

    /// `${ … }`.
    fn parameter(&mut self, word: &mut Word, in_quotes: bool) -> Result<(), ShellError> {
        let began = self.at;
        self.at += 2;
        let mut ignored = Word::default();
        self.depth += 1;
        if self.depth > super::MAX_DEPTH {
            return Err(ShellError { at: began, kind: ShellErrorKind::TooDeep });
        }
        // A pattern's quotes count, also within double quotes.
        let has_quotes = !in_quotes || is_pattern(self.rest());
        loop {
            let kind = ShellErrorKind::UnterminatedSubstitution;
            match self.peek().ok_or(ShellError { at: began, kind })? {
                b'}' => break,
                b'\\' => {
                    self.at += 1;
                    self.take_char(&mut ignored);
                }
                b'\'' if has_quotes => self.single_quotes(&mut ignored)?,
                b'"' => self.double_quotes(&mut ignored)?,
                b'$' => self.dollar(&mut ignored, in_quotes)?,
                b'`' => self.backquotes(&mut ignored, in_quotes)?,
                _ => self.take_char(&mut ignored),
            }
        }
        self.depth -= 1;
        self.at += 1;
        self.note(began..self.at, Context::ParameterExpansion);
        word.text.push_str(&self.text[began..self.at]);
        Ok(())
    }

    /// `$'…'`, unescaped as bash does.
    fn dollar_quotes(&mut self, word: &mut Word) -> Result<(), ShellError> {
        let began = self.at;
        self.at += 2;
        // As a string ends for the shell: what follows a NUL is not there.
        let mut end = None;
        loop {
            match self.peek().ok_or(unterminated_quote(began))? {
                b'\'' => break,
                b'\\' => {
                    let (decoded, length) = ansi_c(&self.rest()[1..]);
                    // Where `$` is a character, the quotes end here.
                    self.script.is_ambiguous |= decoded == Some('\'');
                    if decoded == Some('\0') {
                        end = end.or(Some(word.text.len()));
                    }
                    word.text.extend(decoded);
                    self.at = self.end.min(self.at + 1 + length);
                }
                _ => self.take_char(word),
            }
        }
        word.text.truncate(end.unwrap_or(word.text.len()));
        self.note(began + 2..self.at, Context::DollarSingle);
        self.at += 1;
        Ok(())
    }
}

/// Whether what stands after `${` is a name with an operator that takes a pattern.
fn is_pattern(inner: &str) -> bool {
    let inner = inner.strip_prefix('!').unwrap_or(inner);
    let name = inner.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(inner.len());
    let special = name == 0 && inner.starts_with(['@', '*', '?', '$', '!', '-', '#']);
    let mut rest = &inner[if special { 1 } else { name }..];
    if rest.starts_with('[') {
        // Not farther than a subscript is long: each `${` looks.
        let close = rest.bytes().take(1024).position(|byte| byte == b']');
        rest = close.map_or("", |close| &rest[close + 1..]);
    }
    (name > 0 || special) && rest.starts_with(['#', '%', '/', '^', ','])
}

fn unterminated_quote(at: usize) -> ShellError {
    ShellError { at, kind: ShellErrorKind::UnterminatedQuote }
}

fn closing_backquote(text: &str) -> Option<usize> {
    let mut escaped = false;
    text.bytes().position(|byte| {
        let is_close = byte == b'`' && !escaped;
        escaped = byte == b'\\' && !escaped;
        is_close
    })
}

/// What the shell reads inside backquotes: a backslash is taken before `` ` ``, `\` and `$` (and `"` in quotes).
fn unescaped(inner: &str, in_quotes: bool) -> String {
    let mut text = String::with_capacity(inner.len());
    let mut left = inner.chars().peekable();
    while let Some(next) = left.next() {
        let taken = next == '\\'
            && left
                .peek()
                .is_some_and(|c| matches!(c, '`' | '\\' | '$') || (in_quotes && *c == '"'));
        text.push(if taken { left.next().unwrap_or(next) } else { next });
    }
    text
}

/// The character that an escape of `$'…'` means, and the bytes after the backslash that make it.
fn ansi_c(after: &str) -> (Option<char>, usize) {
    let Some(kind) = after.chars().next() else { return (None, 0) };
    let digits = |from: usize, most: usize, radix: u32| {
        let found: String =
            after[from..].chars().take(most).take_while(|c| c.is_digit(radix)).collect();
        let value = u32::from_str_radix(&found, radix).ok().and_then(char::from_u32);
        (value, from + found.len())
    };
    match kind {
        'n' => (Some('\n'), 1),
        't' => (Some('\t'), 1),
        'r' => (Some('\r'), 1),
        'e' | 'E' => (Some('\x1b'), 1),
        'x' => digits(1, 2, 16),
        'u' => digits(1, 4, 16),
        'U' => digits(1, 8, 16),
        '0'..='7' => digits(0, 3, 8),
        other => (Some(other), other.len_utf8()),
    }
}
