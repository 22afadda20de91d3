//! Placeholders that pass for a real token: its fixed characters, and others of the same kinds between them.
//!
//! ```text
//! SG.[22].[43]        letters and digits
//! pk_[8d]_[32A]       digits; capital letters and digits
//! sk-lf-[8x]-[4x]     lower hexadecimal
//! ```

/// A validated look-alike form.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LookAlike {
    pieces: Vec<Piece>,
}

/// A part of a look-alike.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Piece {
    /// Stands there as it is.
    Fixed(String),
    /// Differs from secret to secret.
    Random(Kind, usize),
}

/// The characters of a part that differs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Any,
    Capital,
    Digit,
    Hex,
}

/// Why a look-alike form can't be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LookAlikeError {
    /// The fixed part has characters that do not survive URLs and shells.
    #[error("the fixed part may have letters, digits, `_`, `-` and `.` only")]
    BadPrefix,
    /// What stands in brackets is no part.
    #[error(
        "a part that differs is [N], [Nx], [NA] or [Nd]: N characters, hex digits, capitals or digits"
    )]
    BadPart,
    /// Two secrets' placeholders could be told from each other by luck.
    #[error("the form leaves under 80 bits (14 characters) to differ in, so it could be guessed")]
    TooShort,
    /// Longer than any token we know.
    #[error("the form is longer than 512 characters")]
    TooLong,
}

const MAX_CHARACTERS: usize = 512;
const MIN_BITS: f64 = 80.0;

impl LookAlike {
    /// `length` characters that begin with `prefix`.
    pub fn new(prefix: &str, length: usize) -> Result<Self, LookAlikeError> {
        if length > MAX_CHARACTERS {
            return Err(LookAlikeError::TooLong);
        }
        let rest = length.checked_sub(prefix.len()).ok_or(LookAlikeError::TooShort)?;
        Self::checked(vec![Piece::Fixed(prefix.to_owned()), Piece::Random(Kind::Any, rest)])
    }

    /// Reads a form such as `SG.[22].[43]`.
    pub fn parse(form: &str) -> Result<Self, LookAlikeError> {
        let mut pieces = Vec::new();
        let mut rest = form;
        while let Some((fixed, after)) = rest.split_once('[') {
            let (part, after) = after.split_once(']').ok_or(LookAlikeError::BadPart)?;
            pieces.push(Piece::Fixed(fixed.to_owned()));
            pieces.push(Piece::random(part)?);
            rest = after;
        }
        pieces.push(Piece::Fixed(rest.to_owned()));
        Self::checked(pieces)
    }

    fn checked(pieces: Vec<Piece>) -> Result<Self, LookAlikeError> {
        let fits = |b: u8| b.is_ascii_alphanumeric() || b"_-.".contains(&b);
        let (mut length, mut bits) = (0_usize, 0.0);
        for piece in &pieces {
            match piece {
                Piece::Fixed(text) if !text.bytes().all(fits) => {
                    return Err(LookAlikeError::BadPrefix);
                }
                Piece::Fixed(text) => length += text.len(),
                Piece::Random(kind, count) => {
                    length = length.saturating_add(*count);
                    bits += kind.bits_each() * f64::from(u32::try_from(*count).unwrap_or(u32::MAX));
                }
            }
        }
        if length > MAX_CHARACTERS {
            return Err(LookAlikeError::TooLong);
        }
        if bits < MIN_BITS { Err(LookAlikeError::TooShort) } else { Ok(Self { pieces }) }
    }

    pub(super) fn pieces(&self) -> &[Piece] {
        &self.pieces
    }
}

impl Piece {
    fn random(part: &str) -> Result<Self, LookAlikeError> {
        let (count, kind) = match part.as_bytes().last() {
            Some(b'x') => (&part[..part.len() - 1], Kind::Hex),
            Some(b'A') => (&part[..part.len() - 1], Kind::Capital),
            Some(b'd') => (&part[..part.len() - 1], Kind::Digit),
            _ => (part, Kind::Any),
        };
        let count = count.parse().map_err(|_| LookAlikeError::BadPart)?;
        Ok(Self::Random(kind, count))
    }
}

impl Kind {
    pub(super) fn alphabet(self) -> &'static [u8] {
        match self {
            Self::Any => b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz",
            Self::Capital => b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ",
            Self::Digit => b"0123456789",
            Self::Hex => b"0123456789abcdef",
        }
    }

    fn bits_each(self) -> f64 {
        let size = u32::try_from(self.alphabet().len()).unwrap_or(1);
        f64::from(size).log2()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forms_read() {
        for form in ["SG.[22].[43]", "pk_[8d]_[32A]", "[32x]", "AKIA[16A]", "sk-lf-[8x]-[4x]-[12x]"]
        {
            assert!(LookAlike::parse(form).is_ok(), "{form}");
        }
        let (form, plain) = (LookAlike::parse("ghp_[36]"), LookAlike::new("ghp_", 40));
        assert_eq!(form.unwrap().pieces()[..2], plain.unwrap().pieces()[..]);
    }

    #[test]
    fn forms_that_can_not_be_used_are_refused() {
        for (form, why) in [
            ("a b[40]", LookAlikeError::BadPrefix),
            ("SG.[22", LookAlikeError::BadPart),
            ("[x]", LookAlikeError::BadPart),
            ("[-4]", LookAlikeError::BadPart),
            ("[40z]", LookAlikeError::BadPart),
            ("[é]", LookAlikeError::BadPart),
            ("plain", LookAlikeError::TooShort),
            ("[13]", LookAlikeError::TooShort),
            ("[19x]", LookAlikeError::TooShort),
            ("[24d]", LookAlikeError::TooShort),
            ("[513]", LookAlikeError::TooLong),
            ("[99999999999999999999]", LookAlikeError::BadPart),
        ] {
            assert_eq!(LookAlike::parse(form), Err(why), "{form}");
        }
    }
}
