//! TLS toward the destination: native roots and the operator's own, verified before a byte of a
//! request is written, TLS 1.2 at least, no way to skip any of it.
//! Source: reference/egress.md (c) 11.

use std::{sync::Arc, time::Duration};

use keyless_core::{Code, Error, Host, SafeText};
use rustls::{
    AlertDescription, CertificateError, ClientConfig, PeerIncompatible, RootCertStore,
    client::Resumption,
    crypto::aws_lc_rs,
    pki_types::{CertificateDer, ServerName, pem::PemObject as _},
    version::{TLS12, TLS13},
};
use tokio::{net::TcpStream, time::timeout};
use tokio_rustls::{TlsConnector, client::TlsStream};

use super::ClientIdentity;

/// What we offer to the destination.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Alpn {
    /// HTTP/2, else HTTP/1.1.
    Any,
    /// HTTP/1.1 alone: a WebSocket's handshake.
    Http1,
    /// PostgreSQL's, which newer servers insist on where anything is offered.
    Postgres,
}

/// The roots that destinations are verified by, ready for use.
pub(crate) struct Roots {
    any: Arc<ClientConfig>,
    http1: Arc<ClientConfig>,
    postgres: Arc<ClientConfig>,
    /// Grows with each change, so that no connection outlives the roots it was verified by.
    pub(crate) generation: u64,
}

/// Why the roots can't be used.
#[derive(Debug, thiserror::Error)]
#[error("extra root {which}: {fault}")]
pub struct RootsError {
    /// Which of the extra roots, from 0.
    pub which: usize,
    /// What is wrong with it.
    pub fault: RootFault,
}

/// What is wrong with a root.
#[derive(Debug, thiserror::Error)]
pub enum RootFault {
    /// There is no PEM certificate in it.
    #[error("it holds no certificate in PEM")]
    NotPem,
    /// A certificate that can't be a root.
    #[error("its certificate can't be a root: {0}")]
    Unusable(rustls::Error),
}

impl Roots {
    /// Loads the machine's roots and adds `extra`, each a file's content of one or more PEM
    /// certificates.
    pub(crate) fn load(extra: &[Vec<u8>], generation: u64) -> Result<Self, RootsError> {
        let mut roots = RootCertStore::empty();
        // A machine without roots can still reach what `extra` names; every other destination
        // then fails to verify, with its own message.
        roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        for (which, pem) in extra.iter().enumerate() {
            add_pem(&mut roots, pem).map_err(|fault| RootsError { which, fault })?;
        }
        let mut config = ClientConfig::builder_with_provider(aws_lc_rs::default_provider().into())
            .with_protocol_versions(&[&TLS13, &TLS12])
            .expect("aws-lc-rs speaks TLS 1.2 and 1.3")
            .with_root_certificates(roots)
            .with_no_client_auth();
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        let http1 = Arc::new(config.clone());
        config.alpn_protocols = vec![b"postgresql".to_vec()];
        let postgres = Arc::new(config.clone());
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Ok(Self { any: Arc::new(config), http1, postgres, generation })
    }
}

fn add_pem(roots: &mut RootCertStore, pem: &[u8]) -> Result<(), RootFault> {
    let before = roots.len();
    for certificate in CertificateDer::pem_slice_iter(pem) {
        let certificate = certificate.map_err(|_| RootFault::NotPem)?;
        roots.add(certificate).map_err(RootFault::Unusable)?;
    }
    if roots.len() == before { Err(RootFault::NotPem) } else { Ok(()) }
}

impl Roots {
    /// How a connection is made by which `identity` proves itself, if the destination asks for it.
    pub(crate) fn config(
        &self,
        alpn: Alpn,
        identity: Option<&ClientIdentity>,
    ) -> Result<Arc<ClientConfig>, Error> {
        let config = match alpn {
            Alpn::Any => &self.any,
            Alpn::Http1 => &self.http1,
            Alpn::Postgres => &self.postgres,
        };
        let Some(identity) = identity else { return Ok(Arc::clone(config)) };
        let mut config = ClientConfig::clone(config);
        config.client_auth_cert_resolver = identity.certified()?;
        // Tickets are kept by host: a connection of another identity could come by one of these.
        config.resumption = Resumption::disabled();
        Ok(Arc::new(config))
    }
}

/// Shakes hands with `host` over `tcp`; when this returns, the destination has proven its name.
pub(crate) async fn connect(
    config: Arc<ClientConfig>,
    host: &Host,
    tcp: TcpStream,
    patience: Duration,
) -> Result<TlsStream<TcpStream>, Error> {
    let name = match host {
        Host::Ip(address) => ServerName::IpAddress((*address).into()),
        Host::Name(name) => ServerName::try_from(name.as_str().to_owned()).map_err(|_| {
            Error::with(Code::UpstreamTls, "the host can't stand in a certificate".into())
        })?,
    };
    let handshake = TlsConnector::from(config).connect(name, tcp);
    match timeout(patience, handshake).await {
        Ok(Ok(stream)) => Ok(stream),
        Ok(Err(error)) => Err(explain(&error)),
        Err(_) => Err(Error::with(Code::ConnectTimeout, "in the TLS handshake".into())),
    }
}

const NO_VERSION: &str = "it speaks no version of TLS that is still safe, which are 1.2 and 1.3";

/// Says which check failed, in our own words.
fn explain(error: &std::io::Error) -> Error {
    let inner = error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>());
    let words = match inner {
        Some(rustls::Error::InvalidCertificate(reason)) => match reason {
            CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
                "its certificate has expired"
            }
            CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
                "its certificate is not valid yet"
            }
            CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
                "its certificate is for another name"
            }
            CertificateError::UnknownIssuer => "its certificate is by an unknown authority",
            // The verifier's own error has no type here, but a name.
            CertificateError::Other(other) if other.to_string() == "CaUsedAsEndEntity" => {
                "the server's own certificate is marked as an authority's, also if it is among the roots; issue one with CA:FALSE (openssl: -addext basicConstraints=CA:FALSE)"
            }
            _ => "its certificate is not valid",
        },
        Some(
            rustls::Error::AlertReceived(AlertDescription::ProtocolVersion)
            | rustls::Error::PeerIncompatible(
                PeerIncompatible::ServerDoesNotSupportTls12Or13
                | PeerIncompatible::ServerTlsVersionIsDisabledByOurConfig,
            ),
        ) => return Error::with(Code::UpstreamProtocol, NO_VERSION.into()),
        Some(rustls::Error::AlertReceived(_)) => "it refused the handshake",
        Some(_) => "its handshake was not valid",
        None => {
            return Error::with(
                Code::UpstreamTls,
                SafeText::words("the connection broke in the handshake: ").and(error.kind()),
            );
        }
    };
    Error::with(Code::UpstreamTls, words.into())
}
