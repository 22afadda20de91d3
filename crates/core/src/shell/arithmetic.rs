//! `$(( ))` and `(( ))`.

use super::{Context, ShellError, Word, lexer::Lexer};

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
        let Some(close) = self.arithmetic_end(ahead) else { return Ok(false) };
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
        self.end = end;
        self.at = close + 2;
        self.note(began..self.at, Context::Arithmetic);
        word.text.push_str(&self.text[began..self.at]);
        Ok(true)
    }

    /// Where the two closing parentheses begin, if they stand together and close these two.
    fn arithmetic_end(&self, ahead: usize) -> Option<usize> {
        let bytes = self.rest().as_bytes();
        if !bytes.get(ahead..)?.starts_with(b"((") {
            return None;
        }
        let (mut depth, mut index) = (2_usize, ahead + 2);
        while let Some(byte) = bytes.get(index) {
            match byte {
                b'\\' => index += 1,
                b'(' => depth += 1,
                b')' if depth == 2 => {
                    let closes = bytes.get(index + 1) == Some(&b')');
                    return closes.then_some(self.at + index);
                }
                b')' => depth -= 1,
                _ => {}
            }
            index += 1;
        }
        None
    }
}
