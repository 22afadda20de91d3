//! Locks a value's pages in memory. The only unsafe code of `core`.
#![expect(unsafe_code, reason = "mlock takes a raw pointer")]

use rustix::mm;

/// Keeps `bytes` out of swap. Best effort: without the right or the quota (RLIMIT_MEMLOCK) the
/// value stays usable, as SECURITY.md says. Never unlocked: locks do not nest, so unlocking one value
/// would unlock its neighbours on the page.
pub(super) fn lock(bytes: &[u8]) {
    // SAFETY: the pointer and length describe a live slice; mlock does not change its content.
    let _ = unsafe { mm::mlock(bytes.as_ptr().cast_mut().cast(), bytes.len()) };
}
