//! Ways for the fuzz targets into what reads others' bytes and has no other face. Nothing else calls these.

pub use crate::source::read_keepass;
