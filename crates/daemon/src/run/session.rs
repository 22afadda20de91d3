//! The session of a run: in this process, or at the service.

use std::{io, path::PathBuf, sync::Arc};

use futures_util::future::BoxFuture;
use keyless_core::{Code, Error, SafeText};
use keyless_egress::{Engine, Session};
use keyless_guest::{Carrier, PreambleCarrier};
use tokio::net::{TcpListener, TcpStream};

use crate::{
    alone::Entry,
    broker::{OpenSession, SessionEnvironment},
    places::Places,
    service::{OwnTools, RemoteSession},
};

/// A session, wherever its broker is.
pub enum SessionHandle {
    /// The broker is in this process, with a door for tools where there is a store.
    Local(OpenSession, Option<OwnTools>),
    /// The broker is a service.
    Remote(RemoteSession),
}

impl SessionHandle {
    /// What the command is started with.
    pub fn environment(&self) -> &SessionEnvironment {
        match self {
            Self::Local(session, _) => &session.environment,
            Self::Remote(session) => &session.offer().environment,
        }
    }

    /// The variables that are the session's own, or that it takes away.
    pub fn settled_variables(&self) -> impl Iterator<Item = &str> {
        let SessionEnvironment { variables, remove, .. } = self.environment();
        let own = variables.iter().map(|variable| variable.name.as_str());
        own.chain(remove.iter().map(String::as_str))
    }

    /// What the session's broker is called, if that is of another version than this program.
    pub fn other_version(&self) -> Option<String> {
        match self {
            Self::Local(..) => None,
            Self::Remote(session) => session.offer().other_version(),
        }
    }

    /// Where tools inside the jail ask. None without a store: there is nothing to ask about.
    pub(super) fn agent_socket(&self) -> Option<&PathBuf> {
        match self {
            Self::Local(_, tools) => tools.as_ref().map(OwnTools::socket),
            Self::Remote(session) => Some(&session.offer().agent_socket),
        }
    }

    pub(super) fn carrier(&self) -> Arc<dyn Carrier> {
        match self {
            Self::Local(open, _) => Arc::new(EngineCarrier {
                engine: Arc::clone(open.engine()),
                session: Arc::clone(&open.session),
            }),
            Self::Remote(session) => Arc::new(PreambleCarrier::new(session.offer().socket.clone())),
        }
    }

    /// The URL of a proxy for this session; starts one if the broker is here.
    pub(super) async fn proxy_url(&self) -> Result<String, Error> {
        match self {
            Self::Remote(session) => Ok(session.offer().proxy_url.clone()),
            Self::Local(open, _) => {
                let (listener, address) = loopback_listener().await?;
                tokio::spawn(Arc::clone(open.engine()).serve_proxy(listener));
                Ok(format!("http://{}@{address}", open.session.proxy_credential()))
            }
        }
    }

    /// An entry in `places` for as long as the run lasts, where its broker is here and has secrets.
    pub(super) fn entry(&self, places: Option<&Places>) -> Result<Option<Entry>, Error> {
        match (self, places) {
            (Self::Local(open, _), Some(places)) if !open.paths.is_empty() => {
                Entry::make(places, open.session.id(), &open.paths).map(Some)
            }
            _ => Ok(None),
        }
    }

    /// From here on nothing that the command asks for is done. What it has open is cut.
    pub(super) async fn close(&self) {
        if let Self::Local(open, tools) = self {
            open.engine().close(open.session.id());
            if let Some(tools) = tools {
                tools.close().await;
            }
        }
    }

    /// Ends it; gives whether its broker had done so before.
    pub(super) async fn end(self) -> Result<bool, Error> {
        match self {
            Self::Local(session, tools) => {
                if let Some(tools) = tools {
                    tools.close().await;
                }
                session.end_with_its_broker().await.map(|()| false)
            }
            Self::Remote(session) => Ok(session.end().await),
        }
    }
}

/// Hands the jail's connections to the engine in this process.
pub(crate) struct EngineCarrier {
    pub(crate) engine: Arc<Engine>,
    pub(crate) session: Arc<Session>,
}

impl Carrier for EngineCarrier {
    fn carry(&self, stream: TcpStream, target: keyless_guest::Target) -> BoxFuture<'static, ()> {
        let (engine, session) = (Arc::clone(&self.engine), Arc::clone(&self.session));
        let target = match target {
            keyless_guest::Target::Name(authority) => keyless_egress::Target::Name(authority),
            keyless_guest::Target::Raw(address) => keyless_egress::Target::RawAddress(address),
        };
        Box::pin(async move { engine.serve_stream(session, stream, target).await })
    }
}

/// A listener on a free loopback port, and its address.
pub(crate) async fn loopback_listener() -> Result<(TcpListener, std::net::SocketAddr), Error> {
    let unusable = |error: io::Error| {
        let detail = SafeText::words("no loopback port could be opened: ").and(error.kind());
        Error::with(Code::PathUnusable, detail)
    };
    let listener = TcpListener::bind("127.0.0.1:0").await.map_err(unusable)?;
    let address = listener.local_addr().map_err(unusable)?;
    Ok((listener, address))
}
