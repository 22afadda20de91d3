//! Tells a service manager how far this process has come (`Type=notify`, sd_notify(3)).

use std::{env, os::unix::net::UnixDatagram};

use crate::system::notify_address;

/// Set by systemd: where to tell.
const NOTIFY_SOCKET: &str = "NOTIFY_SOCKET";

/// Tells `state`, such as `READY=1`. Nobody asked, or nobody listens: then nothing happens.
pub(crate) fn tell(state: &str) {
    let Some(place) = env::var_os(NOTIFY_SOCKET) else { return };
    let address = notify_address(place.as_encoded_bytes());
    if let (Ok(address), Ok(socket)) = (address, UnixDatagram::unbound()) {
        let _ = socket.send_to_addr(state.as_bytes(), &address);
    }
}
