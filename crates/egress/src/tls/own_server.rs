//! TLS where others connect to Keyless by its own name: a certificate of the operator's, from files.
//!
//! Files that change are taken up at the next connection; files that can't be used leave the last good ones in force.

use std::{
    fs,
    io::{self, BufReader},
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
    sync::Arc,
};

use keyless_core::{Code, Error, SafeText};
use parking_lot::Mutex;
use rustls::{
    RootCertStore, ServerConfig,
    crypto::aws_lc_rs,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject as _},
    server::WebPkiClientVerifier,
};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_rustls::TlsAcceptor;

/// Where a server's certificate and key lie.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerFiles {
    /// The chain, PEM, its own certificate first.
    pub certificate: PathBuf,
    /// Its key, PEM, the caller's own.
    pub key: PathBuf,
    /// Roots of which a client must show a certificate; nobody must when absent.
    pub client_ca: Option<PathBuf>,
}

/// A server that speaks TLS 1.2 and 1.3.
pub struct ServerTls {
    files: ServerFiles,
    state: Mutex<(Option<Look>, Arc<ServerConfig>)>,
}

/// What the files looked like when they were read: inode and time of change of each.
type Look = Vec<(u64, i64, i64)>;

impl ServerTls {
    /// Reads the files. [`Code::ConfigInvalid`] says which can't be used.
    pub fn load(files: ServerFiles) -> Result<Self, Error> {
        let look = files.look();
        let config = files.config()?;
        Ok(Self { files, state: Mutex::new((look, config)) })
    }

    /// Does the handshake.
    pub async fn accept<S: AsyncRead + AsyncWrite + Unpin>(
        &self,
        stream: S,
    ) -> io::Result<tokio_rustls::server::TlsStream<S>> {
        TlsAcceptor::from(self.current()).accept(stream).await
    }

    fn current(&self) -> Arc<ServerConfig> {
        let mut state = self.state.lock();
        let look = self.files.look();
        if look.is_some() && look != state.0 {
            if let Ok(config) = self.files.config() {
                state.1 = config;
            }
            state.0 = look;
        }
        Arc::clone(&state.1)
    }
}

impl ServerFiles {
    fn look(&self) -> Option<Look> {
        let files = [&self.certificate, &self.key].into_iter().chain(&self.client_ca);
        let look = files.map(|file| {
            let found = fs::metadata(file).ok()?;
            Some((found.ino(), found.mtime(), found.mtime_nsec()))
        });
        look.collect()
    }

    fn config(&self) -> Result<Arc<ServerConfig>, Error> {
        let chain = certificates(&self.certificate)?;
        let key = PrivateKeyDer::from_pem_reader(open(&self.key)?)
            .map_err(|_| unusable(&self.key, "holds no private key in PEM"))?;
        let provider = Arc::new(aws_lc_rs::default_provider());
        let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .map_err(|_| Code::Internal)?;
        let builder = match &self.client_ca {
            None => builder.with_no_client_auth(),
            Some(file) => {
                let mut roots = RootCertStore::empty();
                for root in certificates(file)? {
                    roots
                        .add(root)
                        .map_err(|_| unusable(file, "holds a root that can't be used"))?;
                }
                let verifier =
                    WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider).build();
                let verifier = verifier.map_err(|_| unusable(file, "holds no root"))?;
                builder.with_client_cert_verifier(verifier)
            }
        };
        let mut config = builder
            .with_single_cert(chain, key)
            .map_err(|_| unusable(&self.certificate, "does not belong to the key"))?;
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(Arc::new(config))
    }
}

fn certificates(file: &Path) -> Result<Vec<CertificateDer<'static>>, Error> {
    let read = CertificateDer::pem_reader_iter(open(file)?).collect::<Result<Vec<_>, _>>();
    match read {
        Ok(chain) if !chain.is_empty() => Ok(chain),
        _ => Err(unusable(file, "holds no certificate in PEM")),
    }
}

fn open(file: &Path) -> Result<BufReader<fs::File>, Error> {
    fs::File::open(file).map(BufReader::new).map_err(|error| {
        let place = SafeText::default().as_they_wrote(&file.to_string_lossy());
        Error::with(Code::PathUnusable, place.and(": ").and(error.kind()))
    })
}

fn unusable(file: &Path, why: &'static str) -> Error {
    let place = SafeText::default().as_they_wrote(&file.to_string_lossy());
    Error::with(Code::ConfigInvalid, place.and(" ").and(why))
}
