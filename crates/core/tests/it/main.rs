//! What the compiler must refuse, and what holds for any input.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]
#![expect(clippy::disallowed_methods, reason = "these tests look at the source tree")]

mod audit_properties;
mod compile_fail;
mod errors_doc;
mod openings;
mod product;
