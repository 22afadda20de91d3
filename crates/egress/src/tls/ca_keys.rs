//! An authority that outlives a process: a fleet's guests trust it from their image or snapshot, so a
//! sidecar that starts anew must sign with the same key. The key stays with the sidecar; guests and
//! forwarders never have it. Source: spec/egress-secret-proxy.md, decision 4 and "Security".

use std::{
    sync::Arc,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use keyless_core::{Code, Error, Host, SafeText};
use rcgen::{Issuer, KeyPair};
use rustls::{
    RootCertStore,
    client::{WebPkiServerVerifier, danger::ServerCertVerifier as _},
    crypto::aws_lc_rs,
    pki_types::{CertificateDer, ServerName, UnixTime, pem::PemObject as _},
};
use zeroize::Zeroizing;

use super::authority::{CertificateAuthority, self_signed};

/// A year: images and snapshots are rebuilt more often than that.
const LIFE: Duration = Duration::from_hours(24 * 365);

/// The host that one is tried with.
const CHECK: &str = "check.keyless.test";

/// A certificate authority's certificate and key, as two files hold them.
pub struct CaKeys {
    certificate_pem: String,
    key_pem: Zeroizing<String>,
}

impl CaKeys {
    /// Makes a new authority, valid for a year.
    pub fn make() -> Result<Self, Error> {
        let made = KeyPair::generate().map_err(|_| Error::from(Code::Internal))?;
        let key_pem = Zeroizing::new(made.serialize_pem());
        let (_, certificate) =
            self_signed(&made, "Keyless fleet authority", SystemTime::now(), LIFE)
                .map_err(|_| Code::Internal)?;
        Ok(Self { certificate_pem: certificate.pem(), key_pem })
    }

    /// Takes what two files hold. `Code::ConfigInvalid` says what is wrong: it must be one that signs
    /// certificates which verify, today and with this key.
    pub fn parse(certificate_pem: String, key_pem: Zeroizing<String>) -> Result<Self, Error> {
        let keys = Self { certificate_pem, key_pem };
        let authority = CertificateAuthority::load(&keys, 1)?;
        let host = Host::parse(CHECK).map_err(|_| Code::Internal)?;
        let leaf = authority.certificate_for(&host)?;
        let fits = verify(&leaf, &keys.certificate()?, CHECK, SystemTime::now());
        fits.map(|()| keys).map_err(|_| {
            unusable("its certificate does not vouch for what its key signs, or has run out")
        })
    }

    /// What guests have to trust, PEM.
    pub fn certificate_pem(&self) -> &str {
        &self.certificate_pem
    }

    /// The private key, PKCS #8 in PEM.
    pub fn key_pem(&self) -> &str {
        &self.key_pem
    }

    pub(super) fn certificate(&self) -> Result<CertificateDer<'static>, Error> {
        CertificateDer::from_pem_slice(self.certificate_pem.as_bytes())
            .map_err(|_| unusable("its certificate is not one in PEM"))
    }

    pub(super) fn issuer(&self) -> Result<Issuer<'static, KeyPair>, Error> {
        let key = KeyPair::from_pem(&self.key_pem)
            .map_err(|_| unusable("its key is not a private key in PEM (PKCS #8)"))?;
        Issuer::from_ca_cert_der(&self.certificate()?, key)
            .map_err(|_| unusable("its certificate can't be read"))
    }
}

/// As a guest would, with this authority as its only root.
pub(super) fn verify(
    leaf: &CertificateDer<'_>,
    root: &CertificateDer<'_>,
    name: &'static str,
    now: SystemTime,
) -> Result<(), rustls::Error> {
    let mut roots = RootCertStore::empty();
    roots.add(root.clone())?;
    let provider = Arc::new(aws_lc_rs::default_provider());
    let verifier = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider)
        .build()
        .map_err(|error| rustls::Error::General(error.to_string()))?;
    let name =
        ServerName::try_from(name).map_err(|error| rustls::Error::General(error.to_string()))?;
    let now = UnixTime::since_unix_epoch(now.duration_since(UNIX_EPOCH).unwrap_or_default());
    verifier.verify_server_cert(leaf, &[], &name, &[], now).map(drop)
}

fn unusable(why: &'static str) -> Error {
    Error::with(Code::ConfigInvalid, SafeText::words("the authority can't be used: ").and(why))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_that_was_kept_signs_what_its_guests_trust() {
        let made = CaKeys::make().unwrap();
        let again = CaKeys::parse(made.certificate_pem.clone(), made.key_pem.clone()).unwrap();
        let leaf = CertificateAuthority::load(&again, 1)
            .unwrap()
            .certificate_for(&Host::parse(CHECK).unwrap())
            .unwrap();
        verify(&leaf, &made.certificate().unwrap(), CHECK, SystemTime::now()).unwrap();
    }

    #[test]
    fn what_does_not_belong_together_is_refused() {
        let (one, two) = (CaKeys::make().unwrap(), CaKeys::make().unwrap());
        let refused = |certificate: &str, key: &str| {
            let key = Zeroizing::new(key.to_owned());
            CaKeys::parse(certificate.to_owned(), key).map(drop).unwrap_err().code()
        };
        assert_eq!(refused(&one.certificate_pem, &two.key_pem), Code::ConfigInvalid);
        assert_eq!(refused("no PEM", &two.key_pem), Code::ConfigInvalid);
        assert_eq!(refused(&one.certificate_pem, "no PEM"), Code::ConfigInvalid);
    }
}
