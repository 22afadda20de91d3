//! A poll that waits: a client that offers a progress token hears how its request stands until it is settled.
//!
//! Without a token every poll is answered at once; agents that only poll see no difference.

use std::time::Duration;

use keyless_core::Error;
use rmcp::{RoleServer, model::ProgressNotificationParam, service::RequestContext};
use tokio::time::{Instant, sleep};

use super::{Ask, Reply, Secrets, StatusKind, elicitation};

/// Between two looks: no faster than the spec lets agents poll.
const STEP: Duration = Duration::from_secs(2);
/// A client's own patience with one call is a minute at the least.
const PATIENCE: Duration = Duration::from_secs(25);

/// Asks `port`, and goes on asking for as long as a poll is watched and finds its request pending.
pub(crate) async fn ask(
    port: &dyn Secrets,
    ask: Ask,
    context: RequestContext<RoleServer>,
) -> Result<Reply, Error> {
    let token = context.meta.get_progress_token().filter(|_| matches!(ask, Ask::Poll { .. }));
    let Some(token) = token else {
        let reply = port.ask(ask).await?;
        if let Reply::Requested(requested) = &reply {
            elicitation::show(port, &requested.request_id, &context.peer).await;
        }
        return Ok(reply);
    };
    let until = Instant::now() + PATIENCE;
    loop {
        let reply = port.ask(ask.clone()).await?;
        let age = match &reply {
            Reply::Polled(polled) if polled.status.kind == StatusKind::Pending => {
                polled.age_seconds
            }
            _ => return Ok(reply),
        };
        if Instant::now() + STEP > until || context.ct.is_cancelled() {
            return Ok(reply);
        }
        let age = u32::try_from(age).unwrap_or(u32::MAX);
        let waits = ProgressNotificationParam::new(token.clone(), f64::from(age))
            .with_message("waiting for a person: keyless approve, keyless ui or keyless web");
        if context.peer.notify_progress(waits).await.is_err() {
            return Ok(reply);
        }
        tokio::select! {
            () = sleep(STEP) => {}
            () = context.ct.cancelled() => {}
        }
    }
}
