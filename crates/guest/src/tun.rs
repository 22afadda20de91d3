//! The loop between a TUN device and the reflector.

use std::{
    convert::Infallible,
    io,
    os::fd::OwnedFd,
    sync::Arc,
    time::{Duration, Instant},
};

use parking_lot::Mutex;
use tokio::io::Interest;

use crate::{
    reflect::{Reflected, Reflector},
    sys,
};

/// The largest packet that IPv4 has.
const PACKET: usize = 65_535;
/// How long to wait before trying a device again that failed.
const PAUSE: Duration = Duration::from_millis(10);

/// Reads packets from `device` (non-blocking, bare IP) and writes what the reflector makes of them,
/// until dropped. Fails when the device can't be watched.
pub async fn reflect_forever(
    device: OwnedFd,
    reflector: Arc<Mutex<Reflector>>,
) -> io::Result<Infallible> {
    let device = sys::watch(device, Interest::READABLE)?;
    let mut buffer = vec![0; PACKET];
    loop {
        let read = device
            .async_io(Interest::READABLE, |device| Ok(rustix::io::read(device, &mut buffer[..])?));
        let Ok(length) = read.await else {
            // Out of memory, or the device is down for a moment.
            tokio::time::sleep(PAUSE).await;
            continue;
        };
        let packet = &mut buffer[..length];
        let turned = reflector.lock().reflect(packet, Instant::now());
        // What the kernel does not take is lost, as packets are.
        let _ = match &turned {
            Reflected::Packet => rustix::io::write(&device, packet),
            Reflected::Answer(answer) => rustix::io::write(&device, answer),
            Reflected::Nothing => Ok(0),
        };
    }
}
