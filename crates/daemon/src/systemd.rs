//! Tells a service manager how far this process has come (`Type=notify`, sd_notify(3)).

use std::{
    env,
    os::{
        linux::net::SocketAddrExt as _,
        unix::net::{SocketAddr, UnixDatagram},
    },
};

/// Set by systemd: where to tell; a path, or `@` and an abstract name.
const NOTIFY_SOCKET: &str = "NOTIFY_SOCKET";

/// Tells `state`, such as `READY=1`. Nobody asked, or nobody listens: then nothing happens.
pub(crate) fn tell(state: &str) {
    let Some(place) = env::var_os(NOTIFY_SOCKET) else { return };
    let place = place.as_encoded_bytes();
    let address = match place.strip_prefix(b"@") {
        Some(name) => SocketAddr::from_abstract_name(name),
        None => SocketAddr::from_pathname(String::from_utf8_lossy(place).as_ref()),
    };
    if let (Ok(address), Ok(socket)) = (address, UnixDatagram::unbound()) {
        let _ = socket.send_to_addr(state.as_bytes(), &address);
    }
}
