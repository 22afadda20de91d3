//! Who we are toward a destination that asks for a client certificate.

use std::sync::Arc;

use jiff::Timestamp;
use keyless_core::{Code, Error, SafeText};
use rustls::{
    crypto::aws_lc_rs,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject as _},
    sign::{CertifiedKey, SingleCertAndKey},
};
use sha2::{Digest as _, Sha256};

use crate::ports::Released;

/// A client's key with its certificates, under their permits.
pub(crate) struct ClientIdentity {
    key: Arc<Released>,
    /// The certificates, where they are not beside the key.
    chain: Option<Arc<Released>>,
    fingerprint: [u8; 32],
}

impl ClientIdentity {
    /// The identity of a key and its certificates, each in PEM.
    pub(crate) fn new(key: Arc<Released>, chain: Option<Arc<Released>>) -> Result<Self, Error> {
        let now = Timestamp::now();
        let mut hash = Sha256::new_with_prefix(key.open(now)?);
        if let Some(chain) = &chain {
            hash.update(chain.open(now)?);
        }
        Ok(Self { fingerprint: hash.finalize().into(), key, chain })
    }

    /// Differs where key or certificates do, so that no connection is kept for another identity.
    pub(crate) fn fingerprint(&self) -> [u8; 32] {
        self.fingerprint
    }

    /// The key, ready to sign one handshake.
    pub(super) fn certified(&self) -> Result<Arc<SingleCertAndKey>, Error> {
        let now = Timestamp::now();
        let key_pem = self.key.open(now)?;
        let chain_pem = match &self.chain {
            Some(chain) => chain.open(now)?,
            None => key_pem,
        };
        let chain = CertificateDer::pem_slice_iter(chain_pem).collect::<Result<Vec<_>, _>>();
        let chain = chain.ok().filter(|chain| !chain.is_empty());
        let chain = chain.ok_or_else(|| self.unusable("there are no certificates with it"))?;
        let key = PrivateKeyDer::from_pem_slice(key_pem)
            .map_err(|_| self.unusable("it holds no private key (PKCS #8, PKCS #1 or SEC 1)"))?;
        let certified = CertifiedKey::from_der(chain, key, &aws_lc_rs::default_provider())
            .map_err(|_| self.unusable("the key is not that of the first certificate"))?;
        Ok(Arc::new(SingleCertAndKey::from(certified)))
    }

    fn unusable(&self, why: &'static str) -> Error {
        let words = SafeText::words("the client key ").and(self.key.path()).and(": ").and(why);
        Error::with(Code::ValueRefused, words)
    }
}
