//! TLS on both sides: the session's own authority toward the client, verified roots toward the
//! destination.

mod authority;
mod ca_keys;
mod client;
mod identity;
mod leaves;
mod own_server;
mod sniff;

use keyless_core::{Code, Error};
use rustls::crypto::aws_lc_rs;

pub use self::{
    authority::AUTHORITY_LIFE,
    ca_keys::CaKeys,
    client::{RootFault, RootsError},
    own_server::{ServerFiles, ServerTls},
};
pub(crate) use self::{
    authority::CertificateAuthority,
    client::{Alpn, Roots, connect},
    identity::ClientIdentity,
    sniff::{FirstBytes, Prefixed, Spoken, accept, read_first},
};

/// Random bytes from the library that makes the keys.
pub(crate) fn random<const N: usize>() -> Result<[u8; N], Error> {
    let mut bytes = [0; N];
    let filled = aws_lc_rs::default_provider().secure_random.fill(&mut bytes);
    filled.map(|()| bytes).map_err(|_| Code::Internal.into())
}
