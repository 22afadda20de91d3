//! The packets that come before there are messages: length, then a code or the protocol's version.

use tokio::io::{AsyncRead, AsyncReadExt as _};

pub(in crate::door) const SSL_REQUEST: u32 = 80_877_103;
pub(in crate::door) const GSS_REQUEST: u32 = 80_877_104;
pub(super) const CANCEL_REQUEST: u32 = 80_877_102;
/// PostgreSQL's own bound, the length itself included.
const MAX_PACKET: usize = 10_000;

/// What no client of PostgreSQL sends.
pub(in crate::door) struct Garbled;

/// Reads one packet: its code, and all of it; nothing when the client has left.
pub(in crate::door) async fn read_packet(
    stream: &mut (impl AsyncRead + Unpin),
) -> Result<Option<(u32, Vec<u8>)>, Garbled> {
    let mut head = [0; 8];
    if stream.read_exact(&mut head).await.is_err() {
        return Ok(None);
    }
    let [a, b, c, d, code @ ..] = head;
    let length = usize::try_from(u32::from_be_bytes([a, b, c, d])).unwrap_or(usize::MAX);
    if !(head.len()..=MAX_PACKET).contains(&length) {
        return Err(Garbled);
    }
    let mut packet = head.to_vec();
    packet.resize(length, 0);
    stream.read_exact(&mut packet[head.len()..]).await.map_err(|_| Garbled)?;
    Ok(Some((u32::from_be_bytes(code), packet)))
}
