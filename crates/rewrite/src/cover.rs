//! What waits at the end of a chunk whatever it holds, so that nobody learns by what waits how a
//! value begins.
//!
//! A scanner holds back bytes with which a pattern may begin. Where patterns are secret and the
//! text is not, that tells: who can have a server say `ghp_a`, then pause, sees by what has come
//! whether the value begins so, and gets it letter by letter. A large file that is made of guesses
//! does as well, since each of its frames ends somewhere. Under a cover the last bytes of a chunk wait
//! whenever they could be a part of *some* value, as many as the longest pattern could take.
//!
//! Line ends are never covered: lines and events must not wait for the next. So a value of several
//! lines has a cover for its first line alone.

/// The bytes that a cover takes for a part of a value.
#[derive(Clone, Copy, Default)]
pub(crate) struct Cover([u64; 4]);

impl Cover {
    /// A cover for these patterns. Of their bytes it gives away only the unusual ones.
    pub(crate) fn over<'a>(patterns: impl IntoIterator<Item = &'a [u8]>) -> Self {
        let mut cover = Self::default();
        (0..=u8::MAX).filter(|byte| is_usual(*byte)).for_each(|byte| cover.add(byte));
        for byte in patterns.into_iter().flatten().filter(|byte| !byte.is_ascii_control()) {
            cover.add(*byte);
        }
        cover
    }

    /// Where the covered end of `held` and `chunk` together begins: their length when there is none.
    pub(crate) fn begins(self, held: &[u8], chunk: &[u8], longest: usize) -> usize {
        let all = held.iter().chain(chunk).rev();
        let most = longest.saturating_sub(1);
        let covered = all.take(most).take_while(|byte| self.takes(**byte)).count();
        held.len() + chunk.len() - covered
    }

    fn add(&mut self, byte: u8) {
        self.0[usize::from(byte >> 6)] |= 1 << (byte & 63);
    }

    fn takes(self, byte: u8) -> bool {
        self.0[usize::from(byte >> 6)] >> (byte & 63) & 1 == 1
    }
}

/// What stands in tokens, and in their escapes. Brackets, quotes and commas end messages, and are
/// covered only where a value has them.
fn is_usual(byte: u8) -> bool {
    byte.is_ascii_graphic() && !b"\"'`<>()[]{},|".contains(&byte)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn waits(pattern: &str, held: &str, chunk: &str) -> usize {
        let cover = Cover::over([pattern.as_bytes()]);
        let all = held.len() + chunk.len();
        all - cover.begins(held.as_bytes(), chunk.as_bytes(), pattern.len())
    }

    #[test]
    fn the_end_of_a_text_waits_as_far_as_a_value_may_reach() {
        assert_eq!(waits("ghp_123", "", "said: other"), 5);
        assert_eq!(waits("ghp_123", "", "said: others_and_more"), 6);
        assert_eq!(waits("ghp_123", "a b", "c"), 2);
        assert_eq!(waits("ghp_123", "", ""), 0);
    }

    #[test]
    fn ends_of_messages_do_not_wait() {
        for text in ["data: x\n\n", "{\"a\":1}", "[x]", "<p>x</p>", "two words "] {
            assert_eq!(waits("ghp_123", "", text), 0, "{text}");
        }
        assert_eq!(waits("two }words", "", "a }"), 3);
        assert_eq!(waits("two\nlines", "", "a\n"), 0);
    }
}
