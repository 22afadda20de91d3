//! The built binary, driven as a user would.
