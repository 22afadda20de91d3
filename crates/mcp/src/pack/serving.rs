//! One call's way from the protocol to the port and back: progress on the way, the envelope at its end.

use rmcp::{
    Peer, RoleServer,
    model::{CallToolResult, ContentBlock, ProgressNotificationParam, ProgressToken},
    service::RequestContext,
};
use serde_json::{Map, Value};
use tokio::{sync::watch, task::JoinHandle};

use super::{Answered, Packs, TOOLS, Watch, arguments};

/// Under this key of a request's `_meta` a host may name the working directory, when it holds arguments to the schema.
const CWD_META: &str = "keyless/cwd";

/// Answers a call; `None` when there is no such tool.
pub(crate) async fn serve(
    port: &dyn Packs,
    name: &str,
    mut given: Map<String, Value>,
    context: RequestContext<RoleServer>,
) -> Option<CallToolResult> {
    let tool = TOOLS.iter().find(|row| row.name == name)?.tool;
    if let Some(cwd) = context.meta.get(CWD_META) {
        given.entry("cwd").or_insert_with(|| cwd.clone());
    }
    Some(result(match arguments::read(tool, given) {
        Ok(call) => {
            let (waiting, telling) = waiting(context);
            let answered = port.call(call, Box::new(waiting)).await;
            if let Some(telling) = telling {
                // Ends with the watch that the call held.
                let _ = telling.await;
            }
            answered
        }
        Err(refusal) => port.refuse(tool, refusal),
    }))
}

fn result(answered: Answered) -> CallToolResult {
    let text = vec![ContentBlock::text(answered.text)];
    let mut result =
        if answered.ok { CallToolResult::success(text) } else { CallToolResult::error(text) };
    result.structured_content = Some(answered.envelope);
    result
}

/// The client that waits.
struct Waiting<C> {
    is_cancelled: C,
    /// Where its progress goes, if it wants to hear of it. Only the latest counts.
    steps: Option<watch::Sender<(usize, usize)>>,
}

impl<C: Fn() -> bool + Send + Sync> Watch for Waiting<C> {
    fn progress(&self, done: usize, total: usize) {
        if let Some(steps) = &self.steps {
            steps.send_replace((done, total));
        }
    }

    fn is_cancelled(&self) -> bool {
        (self.is_cancelled)()
    }
}

fn waiting(context: RequestContext<RoleServer>) -> (impl Watch + 'static, Option<JoinHandle<()>>) {
    let RequestContext { ct, meta, peer, .. } = context;
    let (steps, telling) = match meta.get_progress_token() {
        Some(token) => {
            let (steps, seen) = watch::channel((0, 0));
            (Some(steps), Some(tokio::spawn(tell(peer, token, seen))))
        }
        None => (None, None),
    };
    (Waiting { is_cancelled: move || ct.is_cancelled(), steps }, telling)
}

/// Tells the latest of what was seen until nobody looks any more. What is told grows each time, as the protocol asks.
async fn tell(
    peer: Peer<RoleServer>,
    token: ProgressToken,
    mut seen: watch::Receiver<(usize, usize)>,
) {
    let mut told = 0;
    while seen.changed().await.is_ok() {
        let (done, total) = *seen.borrow_and_update();
        if done <= told {
            continue;
        }
        told = done;
        let mut progress = ProgressNotificationParam::new(token.clone(), float(done));
        progress.total = Some(float(total));
        if peer.notify_progress(progress).await.is_err() {
            return;
        }
    }
}

#[expect(clippy::cast_precision_loss, reason = "nobody deploys 2^52 files")]
fn float(count: usize) -> f64 {
    count as f64
}
