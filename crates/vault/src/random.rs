//! Randomness, from the operating system alone.

use keyless_core::{Code, Error, SafeText};
use rustix::rand::{GetRandomFlags, getrandom};

/// `N` random bytes; `N` is at most 256, which the kernel gives whole.
pub(crate) fn bytes<const N: usize>() -> Result<[u8; N], Error> {
    const { assert!(N <= 256) };
    let mut drawn = [0; N];
    match getrandom(&mut drawn[..], GetRandomFlags::empty()) {
        Ok(count) if count == N => Ok(drawn),
        _ => {
            Err(Error::with(Code::Internal, SafeText::words("the system gives no random numbers")))
        }
    }
}
