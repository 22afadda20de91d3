//! What the compiler must refuse, and what holds for any input.

mod audit_properties;
mod compile_fail;
