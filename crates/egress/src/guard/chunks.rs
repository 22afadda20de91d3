//! Follows a chunked body to its end and refuses sizes and line ends that readers disagree on.
//! The decoding itself is hyper's.

use keyless_core::{Code, Error, SafeText};

use super::head::malformed;

/// The longest size line, extensions included.
const MAX_SIZE_LINE: usize = 4 << 10;
/// 2^60: more than anybody sends, and far from overflow.
const MAX_DIGITS: usize = 15;

/// Where in a chunked body the bytes stand.
pub(super) struct Chunks {
    state: State,
    bounds: TrailerBounds,
    trailer_bytes: usize,
    trailer_fields: usize,
}

/// How much may follow a chunked body. hyper has the same bounds, and would break off without a
/// word to the client.
#[derive(Clone, Copy)]
pub(super) struct TrailerBounds {
    pub(super) bytes: usize,
    pub(super) fields: usize,
}

/// What one call found.
pub(super) struct Progress {
    /// How many bytes belong to the body.
    pub(super) taken: usize,
    /// Its end, or what is wrong with it.
    pub(super) end: Option<Result<(), Error>>,
}

#[derive(Clone, Copy)]
enum State {
    Size {
        digits: usize,
        size: u64,
    },
    Extension {
        size: u64,
        length: usize,
    },
    SizeLineFeed {
        size: u64,
    },
    Data {
        left: u64,
    },
    DataReturn,
    DataLineFeed,
    /// At the beginning of a trailer line, or of the line that ends the body.
    LineStart,
    Trailer,
    TrailerLineFeed,
    LastLineFeed,
    Done,
}

impl Chunks {
    pub(super) fn new(bounds: TrailerBounds) -> Self {
        let state = State::Size { digits: 0, size: 0 };
        Self { state, bounds, trailer_bytes: 0, trailer_fields: 0 }
    }

    /// Follows `bytes` as far as the body goes.
    pub(super) fn take(&mut self, bytes: &[u8]) -> Progress {
        let mut taken = 0;
        while taken < bytes.len() {
            if let State::Data { left } = &mut self.state {
                let rest = bytes.len() - taken;
                let data = rest.min(usize::try_from(*left).unwrap_or(usize::MAX));
                *left -= data as u64;
                taken += data;
                if *left == 0 {
                    self.state = State::DataReturn;
                }
                continue;
            }
            match self.step(bytes[taken]) {
                Ok(state) => self.state = state,
                Err(error) => return Progress { taken, end: Some(Err(error)) },
            }
            taken += 1;
            if matches!(self.state, State::Done) {
                return Progress { taken, end: Some(Ok(())) };
            }
        }
        Progress { taken, end: None }
    }

    fn step(&mut self, byte: u8) -> Result<State, Error> {
        Ok(match (self.state, byte) {
            (State::Size { digits, size }, b) if b.is_ascii_hexdigit() && digits < MAX_DIGITS => {
                let digit = char::from(b).to_digit(16).expect("it is a hexadecimal digit");
                State::Size { digits: digits + 1, size: size << 4 | u64::from(digit) }
            }
            (State::Size { digits: 1.., size } | State::Extension { size, .. }, b'\r') => {
                State::SizeLineFeed { size }
            }
            (State::Size { digits: 1.., size }, b';' | b' ' | b'\t') => {
                State::Extension { size, length: 1 }
            }
            (State::Extension { size, length }, b)
                if length < MAX_SIZE_LINE && !matches!(b, b'\n' | b'\0') =>
            {
                State::Extension { size, length: length + 1 }
            }
            (State::SizeLineFeed { size: 0 } | State::TrailerLineFeed, b'\n') => State::LineStart,
            (State::SizeLineFeed { size }, b'\n') => State::Data { left: size },
            (State::DataReturn, b'\r') => State::DataLineFeed,
            (State::DataLineFeed, b'\n') => State::Size { digits: 0, size: 0 },
            (State::LineStart, b'\r') => State::LastLineFeed,
            (State::LastLineFeed, b'\n') => State::Done,
            (State::Trailer, b'\r') => State::TrailerLineFeed,
            (State::LineStart | State::Trailer, b) if !matches!(b, b'\n' | b'\0') => {
                let begins = matches!(self.state, State::LineStart);
                self.count_trailer(begins)?;
                State::Trailer
            }
            _ => return Err(malformed("its body is not in chunks as it says")),
        })
    }

    /// Counts one byte of a trailer; with the two bytes of its line's end where it `begins`.
    fn count_trailer(&mut self, begins: bool) -> Result<(), Error> {
        self.trailer_bytes += if begins { 3 } else { 1 };
        self.trailer_fields += usize::from(begins);
        let TrailerBounds { bytes, fields } = self.bounds;
        let fits = self.trailer_bytes + 2 < bytes && self.trailer_fields < fields;
        if fits {
            return Ok(());
        }
        let words = SafeText::words("its trailers come to ").and(fields).and(" fields or ");
        Err(Error::with(Code::HeadTooLarge, words.and(bytes >> 10).and(" KiB")))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const BOUNDS: TrailerBounds = TrailerBounds { bytes: 1024, fields: 50 };

    fn end_of(bytes: &[u8]) -> Option<Result<usize, Code>> {
        let progress = Chunks::new(BOUNDS).take(bytes);
        progress.end.map(|end| end.map(|()| progress.taken).map_err(|error| error.code()))
    }

    #[test]
    fn a_body_ends_where_it_ends() {
        assert_eq!(end_of(b"0\r\n\r\nGET"), Some(Ok(5)));
        assert_eq!(end_of(b"5;a=b\r\nhello\r\n0\r\nx: y\r\n\r\nGET"), Some(Ok(25)));
        assert_eq!(end_of(b"5\r\nhel"), None);
    }

    #[test]
    fn what_readers_disagree_on_is_refused() {
        let long = [b"1;".as_slice(), &[b'x'; 5000], b"\r\n"].concat();
        for bytes in [
            &b"FFFFFFFFFFFFFFFF1\r\n"[..],
            b"0x5\r\n",
            b"\r\n",
            b"-1\r\n",
            b"5\nhello",
            b"5;\n",
            b"1\r\nab\r\n",
            b"1\r\na\n",
            b"0\r\n\n",
            b"0\r\nx: y\n",
            &long,
        ] {
            assert_eq!(end_of(bytes), Some(Err(Code::BadRequest)), "{bytes:?}");
        }
    }

    #[test]
    fn trailers_are_bounded() {
        let many = [b"0\r\n".as_slice(), &b"x: y\r\n".repeat(50)].concat();
        let long = [b"0\r\nx: ".as_slice(), &[b'y'; 1024]].concat();
        for bytes in [&many, &long] {
            assert_eq!(end_of(bytes), Some(Err(Code::HeadTooLarge)));
        }
        let fine = [b"0\r\n".as_slice(), &b"x: y\r\n".repeat(49), b"\r\n"].concat();
        assert_eq!(end_of(&fine), Some(Ok(fine.len())));
    }

    proptest! {
        #[test]
        fn arrival_makes_no_difference(
            chunks in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 1..40), 0..6),
            cut in 1_usize..9,
        ) {
            let mut body = Vec::new();
            for chunk in &chunks {
                body.extend(format!("{:x}\r\n", chunk.len()).bytes());
                body.extend(chunk);
                body.extend(b"\r\n");
            }
            body.extend(b"0\r\n\r\n");
            let length = body.len();
            body.extend(b"POST /next");
            let (mut state, mut taken) = (Chunks::new(BOUNDS), 0);
            for piece in body.chunks(cut) {
                let progress = state.take(piece);
                taken += progress.taken;
                if let Some(end) = progress.end {
                    prop_assert_eq!(end, Ok(()));
                    break;
                }
            }
            prop_assert_eq!(taken, length);
        }
    }
}
