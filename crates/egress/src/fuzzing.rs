//! Ways for the fuzz targets into what reads an agent's bytes and has no other face. Nothing else calls
//! these. Source: reference/egress.md (e) 118.

pub use crate::{
    database::heard,
    door::parse_startup,
    frames::relayed,
    http2::is_head_under_way,
    swap::{body_calls, document_calls, resigned},
};
