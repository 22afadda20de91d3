//! The test certificate authority: P-256, in memory, trusted by nobody who was not told its PEM.
//!
//! Not the session CA of the product (that is `keyless-egress`); this one plays the public web's part.

use std::{fs, io, path::Path, sync::Arc};

use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose, date_time_ymd,
};
use rustls::{
    ClientConfig, RootCertStore, ServerConfig,
    crypto::aws_lc_rs,
    pki_types::{CertificateDer, PrivateKeyDer},
};

/// A certificate authority for loopback origins. Clones share the key.
#[derive(Clone)]
pub struct TestCa {
    inner: Arc<Inner>,
}

struct Inner {
    issuer: Issuer<'static, KeyPair>,
    certificate: CertificateDer<'static>,
    pem: String,
}

/// A leaf certificate with its private key.
pub struct Leaf {
    /// The certificate, DER.
    pub certificate: CertificateDer<'static>,
    /// The certificate, PEM.
    pub certificate_pem: String,
    /// The private key, PKCS #8 in PEM.
    pub key_pem: String,
    key: KeyPair,
}

impl TestCa {
    /// Makes a fresh authority with a fresh key, valid from 2024 to 2040.
    pub fn new() -> Self {
        let key = KeyPair::generate().expect("P-256 keys need nothing but randomness");
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, "Keyless test CA");
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        params.not_before = date_time_ymd(2024, 1, 1);
        params.not_after = date_time_ymd(2040, 1, 1);
        let certificate = params.self_signed(&key).expect("fixed parameters always sign");
        Self {
            inner: Arc::new(Inner {
                pem: certificate.pem(),
                certificate: certificate.der().clone(),
                issuer: Issuer::new(params, key),
            }),
        }
    }

    /// Issues a leaf for DNS names and IP addresses, valid from 2024 to 2040.
    ///
    /// # Errors
    /// `InvalidInput` when a name is neither an IP address nor ASCII.
    pub fn issue(&self, names: &[impl AsRef<str>]) -> io::Result<Leaf> {
        self.issue_until(names, 2040)
    }

    /// Issues a certificate by which the client `name` proves itself, valid from 2024 to 2040.
    ///
    /// # Errors
    /// As [`TestCa::issue`].
    pub fn issue_client(&self, name: &str) -> io::Result<Leaf> {
        let mut params = CertificateParams::default();
        params.distinguished_name = rcgen::DistinguishedName::new();
        params.distinguished_name.push(DnType::CommonName, name);
        self.issue_for(params, ExtendedKeyUsagePurpose::ClientAuth, 2040)
    }

    /// Issues a leaf that ran out at the start of 2025.
    ///
    /// # Errors
    /// As [`TestCa::issue`].
    pub fn issue_expired(&self, names: &[impl AsRef<str>]) -> io::Result<Leaf> {
        self.issue_until(names, 2025)
    }

    fn issue_until(&self, names: &[impl AsRef<str>], year: i32) -> io::Result<Leaf> {
        let names: Vec<String> = names.iter().map(|name| name.as_ref().to_owned()).collect();
        let mut params = CertificateParams::new(names).map_err(invalid)?;
        params.distinguished_name = rcgen::DistinguishedName::new();
        self.issue_for(params, ExtendedKeyUsagePurpose::ServerAuth, year)
    }

    fn issue_for(
        &self,
        mut params: CertificateParams,
        purpose: ExtendedKeyUsagePurpose,
        year: i32,
    ) -> io::Result<Leaf> {
        params.not_before = date_time_ymd(2024, 1, 1);
        params.not_after = date_time_ymd(year, 1, 1);
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![purpose];
        // Python 3.13 verifies strictly and wants the authority's key identifier.
        params.use_authority_key_identifier_extension = true;
        let key = KeyPair::generate().map_err(invalid)?;
        let certificate = params.signed_by(&key, &self.inner.issuer).map_err(invalid)?;
        Ok(Leaf {
            certificate_pem: certificate.pem(),
            certificate: certificate.der().clone(),
            key_pem: key.serialize_pem(),
            key,
        })
    }

    /// Returns the authority's certificate in PEM: what a client has to trust.
    pub fn pem(&self) -> &str {
        &self.inner.pem
    }

    /// Returns the authority's certificate in DER.
    pub fn certificate(&self) -> &CertificateDer<'static> {
        &self.inner.certificate
    }

    /// Writes the authority's certificate as a PEM file.
    ///
    /// # Errors
    /// As [`fs::write`].
    pub fn write_pem(&self, path: &Path) -> io::Result<()> {
        fs::write(path, self.pem())
    }

    /// Returns a client configuration that trusts this authority alone and offers `alpn`.
    pub fn client_config(&self, alpn: &[&[u8]]) -> ClientConfig {
        let mut roots = RootCertStore::empty();
        roots.add(self.inner.certificate.clone()).expect("our own certificate parses");
        let mut config = ClientConfig::builder_with_provider(aws_lc_rs::default_provider().into())
            .with_safe_default_protocol_versions()
            .expect("aws-lc-rs speaks TLS 1.2 and 1.3")
            .with_root_certificates(roots)
            .with_no_client_auth();
        config.alpn_protocols = alpn.iter().map(|protocol| protocol.to_vec()).collect();
        config
    }
}

impl Default for TestCa {
    fn default() -> Self {
        Self::new()
    }
}

impl Leaf {
    /// Returns a server configuration that presents this leaf and offers `alpn`.
    ///
    /// # Errors
    /// `InvalidInput` when the key does not fit the certificate.
    pub fn server_config(&self, alpn: &[&[u8]]) -> io::Result<ServerConfig> {
        let key = PrivateKeyDer::try_from(self.key.serialize_der()).map_err(invalid)?;
        let mut config = ServerConfig::builder_with_provider(aws_lc_rs::default_provider().into())
            .with_safe_default_protocol_versions()
            .map_err(invalid)?
            .with_no_client_auth()
            .with_single_cert(vec![self.certificate.clone()], key)
            .map_err(invalid)?;
        config.alpn_protocols = alpn.iter().map(|protocol| protocol.to_vec()).collect();
        Ok(config)
    }
}

fn invalid(source: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, source)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_leaf_serves_names_and_addresses() {
        let leaf = TestCa::new().issue(&["api.allowed.test", "127.0.0.1"]).unwrap();
        assert!(leaf.server_config(&[b"h2"]).is_ok());
    }

    #[test]
    fn a_name_outside_ascii_is_refused() {
        assert!(TestCa::new().issue(&["b\u{fc}cher.test"]).is_err());
    }
}
