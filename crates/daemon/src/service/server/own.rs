//! The broker of one run, in that run's own process: no socket but the one in its jail, and no session but its own.
//!
//! What an agent may do must not hang on who opened the store, so its tools are served by what serves them at the
//! service. The operator has no door here; answers to requests reach it through the store.

use std::{path::PathBuf, sync::Arc};

use futures_util::future::BoxFuture;
use keyless_core::Error;
use tokio::{sync::mpsc, task::AbortHandle};

use super::{Service, desk, sessions::Tools};
use crate::{
    broker::{Broker, Inherited, OpenSession, Wanted},
    caution::Caution,
    config::Config,
    nl::{NlService, end_unfit},
    places::Places,
    run::SessionHandle,
    session_broker::LAST_TRIES,
};

/// The door for the tools of a session whose broker is in this process.
pub struct OwnTools {
    service: Arc<Service>,
    tools: Tools,
    upkeep: AbortHandle,
}

/// Opens a session of a broker that is there for it alone, with a door for its tools. `hide` is what neither the
/// command nor an action of its agent is to see.
// Boxed, as what is awaited in another crate is compiled in that one, and the binary's own is not optimised.
pub fn open_own_session<'a>(
    broker: Broker,
    places: &'a Places,
    config: &'a Config,
    wanted: &'a Wanted,
    inherited: &'a [Inherited],
    manifest: Option<&'a str>,
    hide: Vec<PathBuf>,
) -> BoxFuture<'a, Result<SessionHandle, Error>> {
    Box::pin(async move {
        let caution = Caution::of(broker.vault(), &places.index_file(), manifest).await?;
        let open = broker.open_session(wanted, inherited, caution).await?;
        match OwnTools::open(broker, places, config, &open, manifest, hide).await {
            Ok(tools) => Ok(SessionHandle::Local(open, Some(tools))),
            Err(error) => {
                // Its start is on record.
                let _ = open.end_with_its_broker().await;
                Err(error)
            }
        }
    })
}

impl OwnTools {
    async fn open(
        broker: Broker,
        places: &Places,
        config: &Config,
        open: &OpenSession,
        manifest: Option<&str>,
        hide: Vec<PathBuf>,
    ) -> Result<Self, Error> {
        places.prepare_runtime()?;
        let hidden = broker.hidden().hide(hide);
        let nl = Arc::new(NlService::new(&broker, places, &config.nl)?);
        // What can't be written now is tried again by the next broker.
        let _ = nl.end_orphans().await;
        let upkeep = tokio::spawn(end_unfit(Arc::clone(&nl))).abort_handle();
        // Nothing closes the store before the run is over.
        let desk = desk(&broker, places, config.unlock.window(None)?.for_one_run());
        // It has a proxy only where it is asked for one.
        let nowhere = ([127, 0, 0, 1], 0).into();
        // Its routes and roots are those that it began with: nobody follows config.toml.
        let (looks, _) = mpsc::channel(1);
        let service = Arc::new(Service::new(broker, nl, &desk, nowhere, looks));
        let tools = service.open_tools(open, manifest, hidden).await;
        let tools = tools.inspect_err(|_| upkeep.abort())?;
        Ok(Self { service, tools, upkeep })
    }

    /// Where the tools inside the jail ask.
    pub(crate) fn socket(&self) -> &PathBuf {
        self.tools.socket()
    }

    /// Ends the agent that they are.
    pub(crate) async fn close(&self) {
        self.service.nl.end_actions(LAST_TRIES).await;
        self.service.close_tools(&self.tools).await;
        self.upkeep.abort();
    }
}
