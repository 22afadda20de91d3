//! Who we are toward a destination that asks for a client certificate.

use std::sync::Arc;

use keyless_core::{Authority, Code, Error, SafeText, SecretPath};
use rustls::{
    crypto::aws_lc_rs,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject as _},
    sign::{CertifiedKey, SingleCertAndKey},
};
use sha2::{Digest as _, Sha256};
use zeroize::Zeroizing;

use crate::ports::Released;

/// A client's key with its certificates, for one request. They were opened as it began: it may wait for a person or for
/// others who dial before it dials, or have to dial again, and permits are over sooner.
pub(crate) struct ClientIdentity {
    path: SecretPath,
    key_pem: Zeroizing<Vec<u8>>,
    /// The certificates, where they are not beside the key.
    chain_pem: Option<Zeroizing<Vec<u8>>>,
    fingerprint: [u8; 32],
}

impl ClientIdentity {
    /// The identity of a key and its certificates toward `authority`, each in PEM.
    pub(crate) fn new(
        authority: &Authority,
        key: &Released,
        chain: Option<&Released>,
    ) -> Result<Self, Error> {
        let open = |released: &Released| {
            released.open_toward(authority).map(|pem| Zeroizing::new(pem.to_vec()))
        };
        let key_pem = open(key)?;
        let chain_pem = chain.map(open).transpose()?;
        let mut hash = Sha256::new_with_prefix(&key_pem);
        if let Some(chain) = &chain_pem {
            hash.update(chain);
        }
        Ok(Self {
            path: key.path().clone(),
            key_pem,
            chain_pem,
            fingerprint: hash.finalize().into(),
        })
    }

    /// Differs where key or certificates do, so that no connection is kept for another identity.
    pub(crate) fn fingerprint(&self) -> [u8; 32] {
        self.fingerprint
    }

    /// The key, ready to sign one handshake.
    pub(super) fn certified(&self) -> Result<Arc<SingleCertAndKey>, Error> {
        let Self { key_pem, chain_pem, .. } = self;
        let chain_pem = chain_pem.as_ref().unwrap_or(key_pem);
        let chain = CertificateDer::pem_slice_iter(chain_pem).collect::<Result<Vec<_>, _>>();
        let chain = chain.ok().filter(|chain| !chain.is_empty());
        let chain = chain.ok_or_else(|| self.unusable("there are no certificates with it"))?;
        let key = PrivateKeyDer::from_pem_slice(key_pem)
            .map_err(|_| self.unusable("it holds no private key (PKCS #8, PKCS #1 or SEC 1)"))?;
        let certified = CertifiedKey::from_der(chain, key, &aws_lc_rs::default_provider())
            .map_err(|error| self.unusable(misfit(&error)))?;
        Ok(Arc::new(SingleCertAndKey::from(certified)))
    }

    fn unusable(&self, why: &'static str) -> Error {
        let words = SafeText::words("the client key ").and(&self.path).and(": ").and(why);
        Error::with(Code::ValueRefused, words)
    }
}

/// Why a key and certificates, each of which could be read, are no client.
fn misfit(error: &rustls::Error) -> &'static str {
    match error {
        rustls::Error::InconsistentKeys(_) => "the key is not that of the first certificate",
        // The reason is of a crate below, and has words alone.
        rustls::Error::InvalidCertificate(why)
            if format!("{why:?}").contains("UnsupportedCertVersion") =>
        {
            "its first certificate is one of X.509 version 1, which is not taken: have it issued as version 3"
        }
        rustls::Error::InvalidCertificate(_) => "its first certificate can't be used",
        _ => "its private key can't be used",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `openssl x509 -req` without extensions makes version 1.
    const VERSION_1: &str = "\
-----BEGIN PRIVATE KEY-----
MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQgxo0vm7BnFKC2tyU0
549TKpsdIZ5oc//YPyaaEKGGqDOhRANCAATUPBBcv3hEuBFf9ZAQiHpz6JkNiYOq
7UVPHwE/eeZb3SEXySyiDCUgkDszUBmV02IJPGqvDkM3zXtEabyM0b/V
-----END PRIVATE KEY-----
-----BEGIN CERTIFICATE-----
MIIBFjCBvQIULMtSGqDcauaaM/TGaK0ghCJsB8UwCgYIKoZIzj0EAwIwDTELMAkG
A1UEAwwCdjEwIBcNMjYxMTI4MTUyODQ5WhgPMjEyNjExMDQxNTI4NDlaMA0xCzAJ
BgNVBAMMAnYxMFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAE1DwQXL94RLgRX/WQ
EIh6c+iZDYmDqu1FTx8BP3nmW90hF8ksogwlIJA7M1AZldNiCTxqrw5DN817RGm8
jNG/1TAKBggqhkjOPQQDAgNIADBFAiA8+P0Ay/wqptSxO8pDtK79AVbq9k5kaqou
63V6qN0uHQIhAKzJyCSETyxPeVTsC9ObT5oGBdxsrwoLBbDxLyK1hjkR
-----END CERTIFICATE-----
";

    #[test]
    fn a_certificate_of_version_1_is_told_as_one() {
        let identity = ClientIdentity {
            path: SecretPath::parse("team/corp/client-key").unwrap(),
            key_pem: Zeroizing::new(VERSION_1.into()),
            chain_pem: None,
            fingerprint: [0; 32],
        };
        let told = identity.certified().err().unwrap().message();
        assert!(told.contains("version 1, which is not taken"), "{told}");
    }
}
