//! `$(( ))` and `(( ))`.

use std::collections::HashMap;

use super::{Context, MAX_DEPTH, ShellError, ShellErrorKind, Word, lexer::Lexer};

impl Lexer<'_> {
    /// Reads `(( … ))` here, where it is that and not two groups.
    pub(super) fn arithmetic_command(&mut self) -> Result<bool, ShellError> {
        let mut ignored = Word::default();
        self.arithmetic(&mut ignored, 0)
    }

    /// Reads `(( … ))` that begins `ahead` bytes from here. `false`, and nothing read, when it is none.
    pub(super) fn arithmetic(&mut self, word: &mut Word, ahead: usize) -> Result<bool, ShellError> {
        let began = self.at;
        let inner = began + ahead + 2;
        let Some(close) = self.arithmetic_end(began + ahead) else { return Ok(false) };
        if self.ends_in_quotes(inner, close)? {
            return Ok(false);
        }
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err(ShellError { at: began, kind: ShellErrorKind::TooDeep });
        }
        let end = std::mem::replace(&mut self.end, close);
        self.at = inner;
        let mut ignored = Word::default();
        while let Some(byte) = self.peek() {
            match byte {
                b'$' => self.dollar(&mut ignored, true)?,
                b'`' => self.backquotes(&mut ignored, true)?,
                _ => self.take_char(&mut ignored),
            }
        }
        self.depth -= 1;
        self.end = end;
        self.at = close + 2;
        self.note(began..self.at, Context::Arithmetic);
        word.text.push_str(&self.text[began..self.at]);
        Ok(true)
    }

    /// Where the two closing parentheses begin, if they stand together and close the two at `opening`.
    fn arithmetic_end(&mut self, opening: usize) -> Option<usize> {
        if !self.text.get(opening..self.end)?.starts_with("((") {
            return None;
        }
        let text = self.text;
        let ends = self.arithmetic_ends.get_or_insert_with(|| arithmetic_ends(text));
        ends.get(&opening).copied().filter(|close| close + 1 < self.end)
    }

    /// Parentheses in quotes end nothing: `((env; echo "))" ) )` is two groups. Each look is along the content, so all
    /// together may only be as long as a few texts.
    fn ends_in_quotes(&mut self, began: usize, close: usize) -> Result<bool, ShellError> {
        self.looked_along += close - began;
        if self.looked_along > self.text.len().saturating_mul(8) {
            return Err(ShellError { at: began, kind: ShellErrorKind::TooDeep });
        }
        Ok(is_quoted(self.text.as_bytes(), began, close))
    }
}

/// Whether quotes that open between `began` and `close` are still open there.
fn is_quoted(bytes: &[u8], began: usize, close: usize) -> bool {
    let (mut quote, mut at) = (None, began);
    while at < close {
        match (bytes[at], quote) {
            (b'\\', None | Some(b'"')) => at += 1,
            (byte @ (b'\'' | b'"'), None) => quote = Some(byte),
            (byte, Some(open)) if byte == open => quote = None,
            _ => {}
        }
        at += 1;
    }
    quote.is_some()
}

/// Where what begins with each `((` ends, if with `))`. Of all at once: looking for the end of each would
/// take a text of open parentheses the square of its length.
fn arithmetic_ends(text: &str) -> HashMap<usize, usize> {
    let bytes = text.as_bytes();
    let (mut open, mut ends, mut at) = (Vec::new(), HashMap::new(), 0);
    while let Some(byte) = bytes.get(at) {
        match byte {
            b'\\' => at += 1,
            b'(' => open.push(at),
            b')' => {
                let inner: Option<usize> = open.pop();
                if let Some(opening) = inner.and_then(|inner| inner.checked_sub(1))
                    && bytes[opening] == b'('
                    && bytes.get(at + 1) == Some(&b')')
                {
                    ends.insert(opening, at);
                }
            }
            _ => {}
        }
        at += 1;
    }
    ends
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The end of one `((`, which begins at `opening`.
    fn end_of(bytes: &[u8], opening: usize) -> Option<usize> {
        let (mut depth, mut at) = (2, opening + 2);
        while let Some(byte) = bytes.get(at) {
            match byte {
                b'\\' => at += 1,
                b'(' => depth += 1,
                b')' if depth == 2 => return (bytes.get(at + 1) == Some(&b')')).then_some(at),
                b')' => depth -= 1,
                _ => {}
            }
            at += 1;
        }
        None
    }

    proptest! {
        #[test]
        fn all_ends_at_once_are_those_of_each(text in r"[() \\]{0,24}") {
            let bytes = text.as_bytes();
            let ends = arithmetic_ends(&text);
            for opening in (0..bytes.len()).filter(|at| bytes[*at..].starts_with(b"((")) {
                prop_assert_eq!(ends.get(&opening).copied(), end_of(bytes, opening));
            }
        }
    }
}
