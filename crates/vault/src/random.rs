//! Randomness, from the operating system alone.

use keyless_core::{Code, Error, SafeText};

/// `N` random bytes.
pub(crate) fn bytes<const N: usize>() -> Result<[u8; N], Error> {
    let mut drawn = [0; N];
    getrandom::fill(&mut drawn).map_err(|_| {
        Error::with(Code::Internal, SafeText::words("the system gives no random numbers"))
    })?;
    Ok(drawn)
}
