//! The one streaming multi-pattern engine of Keyless: the placeholder swap, the response scrub and
//! the output sanitizer all stand on it.
//!
//! Bytes arrive in any chunks, and the output is what it would have been on the whole. The leftmost
//! match wins, of those the longest; the engine goes over its input once and never looks at its own
//! output again. It holds back only bytes that a pattern may still cover, at most the longest
//! pattern less one, and nothing where no pattern can be starting; where the patterns are secret,
//! also what could be some other value, so that what waits tells nothing (`cover.rs`).
//!
//! Deliberately not here: what may be swapped where and for whom (`egress`), decoding of bodies
//! and of Basic credentials (`egress`), and anything that reads a file, a socket, the clock or the
//! environment (see `clippy.toml`). Follows spec/egress-secret-proxy.md (decision 3 and the risk
//! "placeholder spans a chunk boundary") and reference/egress.md, traps 13, 15 and 24.
//!
//! ```
//! use keyless_rewrite::Rewriter;
//!
//! let swap = Rewriter::new([(b"kloak_1".to_vec(), b"s3cret".to_vec())]);
//! let mut stream = swap.stream();
//! let mut out = Vec::new();
//! stream.feed(b"Bearer klo", &mut out);
//! assert_eq!((out.as_slice(), stream.held()), (&b"Bearer "[..], 3));
//! stream.feed(b"ak_1!", &mut out);
//! stream.finish(&mut out);
//! assert_eq!(out, b"Bearer s3cret!");
//! ```

// === What to look for ===
mod patterns;
// === Looking for it in a stream ===
mod cover;
mod scanner;
// === Looking for what line ends cut ===
mod wrapped;
// === Putting something else in its place ===
mod rewriter;
// === The forms in which a server echoes a value ===
mod encodings;
// === The forms in which a program gives it away ===
mod sanitized;
mod sanitizer;
// === What was taken out ===
mod tally;
// === What a text has that nobody sees ===
mod invisible;

/// The forms of one value, and the scrubber made of them.
pub use encodings::{Echo, MIN_ECHO, MIN_LINE, echoes, length_keeping_scrubber, scrubber};
/// Characters without ink: what programs leave away, and what a person does not see.
pub use invisible::{is_ignorable, is_invisible};
/// The patterns, built once and shared by every stream.
pub use patterns::{PatternId, PatternSet};
/// Patterns with their replacements, and one pass over one stream.
pub use rewriter::{RewriteStream, Rewriter};
/// Values in a text or a stream, in every form, and markers in their place.
pub use sanitized::{Lengths, Marking, SanitizedStream};
/// Values in the output of a program, and markers in their place.
pub use sanitizer::{Finding, FoundAs, MIN_SANITIZED, Sanitizer, merge_findings, redact};
/// The scanner beneath the rewriter, for callers who decide about each match themselves.
pub use scanner::{Piece, Scanner};
/// How often each value was taken out.
pub use tally::Tally;
