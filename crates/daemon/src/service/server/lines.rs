//! The lines of a connection, in buffers that are wiped: an environment may hold credentials.

use std::io::Cursor;

use tokio::io::{AsyncRead, AsyncReadExt as _};
use zeroize::Zeroizing;

use super::super::protocol::MAX_LINE;

/// What is read at least at once.
const READ: usize = 4096;

/// Reads lines of at most [`MAX_LINE`] bytes.
pub(super) struct Lines<R> {
    from: R,
    /// What came and was not yet given.
    came: Zeroizing<Vec<u8>>,
}

impl<R: AsyncRead + Unpin> Lines<R> {
    pub(super) fn of(from: R) -> Self {
        Self { from, came: Zeroizing::default() }
    }

    /// The next line with its end; `None` where the stream ends or breaks off first, and for one that is too long.
    pub(super) async fn next(&mut self) -> Option<Zeroizing<Vec<u8>>> {
        let mut looked_at = 0;
        loop {
            if let Some(end) = self.came[looked_at..].iter().position(|byte| *byte == b'\n') {
                let rest = Zeroizing::new(self.came.split_off(looked_at + end + 1));
                return Some(core::mem::replace(&mut self.came, rest));
            }
            looked_at = self.came.len();
            if looked_at >= MAX_LINE {
                return None;
            }
            self.make_room();
            if self.from.read_buf(&mut *self.came).await.ok()? == 0 {
                return None;
            }
        }
    }

    /// What follows the lines that were given.
    pub(super) fn rest(self) -> impl AsyncRead + Send + Unpin
    where
        R: Send,
    {
        Cursor::new(self.came).chain(self.from)
    }

    /// Grows the buffer by itself, as one that does leaves what it held behind unwiped.
    fn make_room(&mut self) {
        if self.came.capacity() - self.came.len() < READ {
            let capacity = (self.came.capacity() * 2).max(self.came.len() + READ);
            let mut grown = Zeroizing::new(Vec::with_capacity(capacity));
            grown.extend_from_slice(&self.came);
            self.came = grown;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn lines_are_cut_however_they_come_and_the_rest_is_kept() {
        let long = "x".repeat(3 * READ);
        let text = format!("one\n\n{long}\ntwo\nand the rest");
        let mut lines = Lines::of(text.as_bytes());
        for expected in ["one\n", "\n", &format!("{long}\n"), "two\n"] {
            assert_eq!(lines.next().await.unwrap().as_slice(), expected.as_bytes());
        }
        let mut rest = String::new();
        lines.rest().read_to_string(&mut rest).await.unwrap();
        assert_eq!(rest, "and the rest");
    }

    #[tokio::test]
    async fn one_that_does_not_end_is_none() {
        assert!(Lines::of(&b"one"[..]).next().await.is_none());
        let endless = vec![b'x'; MAX_LINE + READ];
        assert!(Lines::of(endless.as_slice()).next().await.is_none());
    }
}
