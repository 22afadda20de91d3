//! The sources of `sources.toml`, over the one HTTP stack.

use std::sync::{Arc, OnceLock};

use keyless_core::{Authority, Code, Error, Scheme};
use keyless_egress::{Client, ClientRequest, Whose};
use keyless_vault::{
    Answer, HttpAnswer, HttpFault, HttpRequest, IndexFile, KeptAt, MAX_ANSWER_BYTES, Router,
    RouterConfig, Secret, SourceConfig, SourceHttp, Vault,
};
use zeroize::Zeroizing;

use crate::{
    agreed::{AgreedConfig, check_sources},
    config::Config,
    egress_door::engine_config,
    places::Places,
};

/// `vault`, with the sources that the operator declared beside it, and has agreed to where they are given something.
pub fn with_sources(vault: Vault, places: &Places, config: &AgreedConfig) -> Result<Vault, Error> {
    let sources = declared(places)?;
    check_sources(places, &vault, &sources)?;
    Ok(vault.with_router(router(sources, config)?))
}

/// Where a source is asked for the value of `secret`; nothing of one that no source keeps. Nobody is asked. Blocks.
///
/// Fails where the files that say so can't be used.
pub fn kept_at(places: &Places, secret: &Secret) -> Result<Option<KeptAt>, Error> {
    if !matches!(secret.metadata.source, SourceConfig::Routed { .. }) {
        return Ok(None);
    }
    Ok(router(declared(places)?, &Config::default())?.kept_at(secret))
}

fn declared(places: &Places) -> Result<RouterConfig, Error> {
    // A fault of the index is told where a project's secrets are read, and by the doctor.
    let index = IndexFile::load(&places.index_file()).unwrap_or_default();
    Ok(RouterConfig::load(&places.sources_file())?.with_variables_of(&index))
}

fn router(sources: RouterConfig, config: &Config) -> Result<Router, Error> {
    let http: Arc<dyn SourceHttp> =
        Arc::new(EgressHttp { config: config.clone(), client: OnceLock::new() });
    Router::new(sources, &http)
}

/// Requests of sources go out as the operator's own. Made at the first one: the machine's roots
/// take some milliseconds to read, and most stores have no source over HTTP.
struct EgressHttp {
    config: Config,
    client: OnceLock<Option<Client>>,
}

impl EgressHttp {
    fn client(&self) -> Result<&Client, HttpFault> {
        let make = || Client::new(engine_config(&self.config, None).ok()?).ok();
        self.client.get_or_init(make).as_ref().ok_or(HttpFault::Tls)
    }
}

impl SourceHttp for EgressHttp {
    fn send(&self, request: HttpRequest) -> Answer<'_, Result<HttpAnswer, HttpFault>> {
        Box::pin(async move {
            let (scheme, authority, target) = split(&request.url).ok_or(HttpFault::Protocol)?;
            let headers = request.headers.iter();
            let asked = ClientRequest {
                method: request.method,
                target,
                headers: headers.map(|(name, value)| (name.as_str(), value.as_str())).collect(),
                body: &request.body,
            };
            let sent =
                self.client()?.send(scheme, &authority, Whose::Operators, &asked, MAX_ANSWER_BYTES);
            let answer = sent.await.map_err(|error| fault(&error))?;
            Ok(HttpAnswer { status: answer.status, body: Zeroizing::new(answer.body) })
        })
    }
}

/// Scheme, authority and path of a URL without user or fragment.
fn split(url: &str) -> Option<(Scheme, Authority, &str)> {
    let (scheme, rest) = match url.split_once("://")? {
        ("https", rest) => (Scheme::Https, rest),
        ("http", rest) => (Scheme::Http, rest),
        _ => return None,
    };
    let end = rest.find('/').unwrap_or(rest.len());
    let authority = Authority::parse_for(&rest[..end], scheme).ok()?;
    let path = if end == rest.len() { "/" } else { &rest[end..] };
    (!path.contains('#')).then_some((scheme, authority, path))
}

fn fault(error: &Error) -> HttpFault {
    match error.code() {
        Code::Cleartext => HttpFault::Cleartext,
        Code::UpstreamTls => HttpFault::Tls,
        Code::ConnectTimeout | Code::NameTimeout => HttpFault::TimedOut,
        Code::AnswerTooLarge | Code::UpstreamProtocol | Code::BadRequest => HttpFault::Protocol,
        _ => HttpFault::Unreachable,
    }
}
