//! The trust stores themselves, each with the session's certificate authority in it.

mod jks;
mod machine;
pub(super) mod nss;
mod pem;
pub(super) mod roots;
pub(super) mod stores;
mod subject_hash;

pub use machine::trust_on_this_machine;
