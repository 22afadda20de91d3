//! The shortest useful proxy with hudsucker: one header's placeholder becomes the value.
//!
//! `hudsucker ORIGIN-ROOT.pem OWN-ROOT.pem` with `ORIGIN` (an address), `PLACEHOLDER` and `VALUE` in its
//! environment; prints where it listens and ends with its stdin.

use std::{env, error::Error, fs, io, net::SocketAddr, process, sync::Arc};

use hudsucker::{
    Body, HttpContext, HttpHandler, Proxy, RequestOrResponse,
    certificate_authority::RcgenAuthority,
    hyper::{Request, Uri, header::AUTHORIZATION},
    rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair},
    rustls::{
        ClientConfig, RootCertStore,
        crypto::aws_lc_rs,
        pki_types::{CertificateDer, pem::PemObject},
    },
};
use hyper_rustls::HttpsConnectorBuilder;
use hyper_util::rt::TokioIo;
use tokio::net::{TcpListener, TcpStream};

type Failure = Box<dyn Error + Send + Sync>;

#[derive(Clone)]
struct Swap {
    placeholder: Arc<str>,
    value: Arc<str>,
}

impl HttpHandler for Swap {
    async fn handle_request(
        &mut self,
        _: &HttpContext,
        mut request: Request<Body>,
    ) -> RequestOrResponse {
        if let Some(header) = request.headers_mut().get_mut(AUTHORIZATION)
            && let Ok(text) = header.to_str()
            && let Ok(swapped) = text.replace(&*self.placeholder, &self.value).try_into()
        {
            *header = swapped;
        }
        request.into()
    }
}

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let arguments: Vec<String> = env::args().collect();
    let [_, origin_root, own_root] = &arguments[..] else {
        return Err("ORIGIN-ROOT.pem OWN-ROOT.pem".into());
    };
    let origin: SocketAddr = env::var("ORIGIN")?.parse()?;
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(origin_root)?)?;
    let tls = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
        .with_safe_default_protocol_versions()?
        .with_root_certificates(roots)
        .with_no_client_auth();
    let to_origin = tower::service_fn(move |_: Uri| async move {
        let stream = TcpStream::connect(origin).await?;
        stream.set_nodelay(true)?;
        Ok::<_, io::Error>(TokioIo::new(stream))
    });
    let connector = HttpsConnectorBuilder::new()
        .with_tls_config(tls)
        .https_only()
        .enable_http1()
        .wrap_connector(to_origin);
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    let swap =
        Swap { placeholder: env::var("PLACEHOLDER")?.into(), value: env::var("VALUE")?.into() };
    let proxy = Proxy::builder()
        .with_listener(listener)
        .with_ca(RcgenAuthority::new(issuer(own_root)?, 1_000, aws_lc_rs::default_provider()))
        .with_http_connector(connector)
        .with_http_handler(swap)
        .build()?;
    end_with_stdin();
    println!("{address}");
    Ok(proxy.start().await?)
}

fn issuer(own_root: &str) -> Result<Issuer<'static, KeyPair>, Failure> {
    let key = KeyPair::generate()?;
    let mut params = CertificateParams::default();
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    fs::write(own_root, params.self_signed(&key)?.pem())?;
    Ok(Issuer::new(params, key))
}

/// Ends this process with its parent, whatever became of that.
fn end_with_stdin() {
    std::thread::spawn(|| {
        // Nothing is ever written there; an error is an end as well.
        let _ = io::Read::read(&mut io::stdin(), &mut [0]);
        process::exit(0);
    });
}
