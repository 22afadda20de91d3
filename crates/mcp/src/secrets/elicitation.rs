//! Shows a person the way to the page, through a client that offers it (elicitation, URL mode).
//!
//! Only where the operator has opened the page, and beside the answer, never instead of it: the tool replies at once,
//! what the client says is not waited for, and polling tells how the request stands. The link passes through the
//! agent's side and is worth nothing there: it opens one visit, in which the page asks for the operator's factor.
//! Source: <https://modelcontextprotocol.io/specification/2025-11-25/client/elicitation>

use keyless_core::approval::RequestId;
use rmcp::{
    RoleServer,
    model::{ElicitRequest, ElicitRequestParams, ProtocolVersion, ServerRequest},
    service::{Peer, PeerRequestOptions},
};

use super::{Ask, Page, Reply, Secrets};

const MESSAGE: &str = "An agent asks for something that only you can give. The page shows what, and takes your \
answer once you have proven that you are the operator.";

/// Sends the client the way to the page about a request that was made just now.
pub(super) async fn show(port: &dyn Secrets, request_id: &RequestId, peer: &Peer<RoleServer>) {
    if !is_offered(peer) {
        return;
    }
    let asked = port.ask(Ask::Page { request_id: request_id.clone() }).await;
    let Ok(Reply::Page(Page { url: Some(url) })) = asked else { return };
    let params = ElicitRequestParams::UrlElicitationParams {
        meta: None,
        message: MESSAGE.to_owned(),
        url: url.as_str().to_owned(),
        elicitation_id: request_id.to_string(),
    };
    let request = ServerRequest::ElicitRequest(ElicitRequest::new(params));
    // Sent, and not waited for: its answer says only whether the person went there.
    let sent = peer.send_cancellable_request(request, PeerRequestOptions::no_options()).await;
    if let Ok(handle) = sent {
        tokio::spawn(handle.await_response());
    }
}

/// Whether the client said so, in a version of the protocol in which servers ask clients.
fn is_offered(peer: &Peer<RoleServer>) -> bool {
    peer.peer_info().is_some_and(|client| {
        let elicitation = client.capabilities.elicitation.as_ref();
        client.protocol_version < ProtocolVersion::V_2026_07_28
            && elicitation.is_some_and(|elicitation| elicitation.url.is_some())
    })
}
