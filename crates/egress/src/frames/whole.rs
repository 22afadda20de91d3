//! One direction of a WebSocket from bytes to bytes, for the fuzz target `websocket`.

use std::{
    collections::VecDeque,
    future::ready,
    task::{Context, Poll},
};

use bytes::Bytes;
use keyless_core::Error;

use super::{
    Masking,
    relay::{Line, Relay},
};
use crate::passage::Change;

/// Carries what a client (or a server) sends. Gives what goes on to the other side, and whether the
/// frames were refused. With `read`, messages go through a change that changes nothing.
pub async fn relayed(bytes: &[u8], from_client: bool, read: bool) -> (Vec<u8>, bool) {
    let masking = if from_client { Masking::FromClient } else { Masking::FromServer };
    let (to, back) = (Line::new(Vec::new()), Line::new(Vec::new()));
    let relay = Relay::new(bytes, &to, &back, masking);
    let carried = relay.run(|_, _| read.then(Unchanged::default), |_| {}, ready(())).await;
    (to.into_inner().into_writer(), carried.is_err())
}

/// Gives what it takes.
#[derive(Default)]
struct Unchanged(VecDeque<Bytes>);

impl Change for Unchanged {
    fn take(&mut self, data: Bytes) {
        self.0.push_back(data);
    }

    fn end(&mut self) {}

    fn poll_give(&mut self, _: &mut Context<'_>) -> Poll<Result<Option<Bytes>, Error>> {
        Poll::Ready(Ok(self.0.pop_front()))
    }

    fn keeps_length(&self) -> bool {
        true
    }
}
