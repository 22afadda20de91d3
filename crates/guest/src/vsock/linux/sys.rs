//! `sockaddr_vm`, which rustix does not wrap.
#![expect(unsafe_code, reason = "a socket address that neither std nor rustix knows")]

use rustix::net::{
    AddressFamily, SocketAddrAny,
    addr::{SocketAddrArg, SocketAddrLen, SocketAddrOpaque},
};

use crate::vsock::VsockAddr;

/// `struct sockaddr_vm` of linux/vm_sockets.h; the last four bytes are flags and padding, all zero.
#[repr(C)]
#[derive(Clone, Copy)]
struct SockaddrVm {
    family: u16,
    reserved: u16,
    port: u32,
    cid: u32,
    zero: [u8; 4],
}

const LENGTH: SocketAddrLen = 16;
const _: () = assert!(size_of::<SockaddrVm>() == LENGTH as usize);

// SAFETY: the closure gets a pointer to a whole `SockaddrVm` on this stack frame and its length; it
// is plain data without padding, and valid for as long as the closure runs.
unsafe impl SocketAddrArg for VsockAddr {
    unsafe fn with_sockaddr<R>(
        &self,
        f: impl FnOnce(*const SocketAddrOpaque, SocketAddrLen) -> R,
    ) -> R {
        let family = AddressFamily::VSOCK.as_raw();
        let address =
            SockaddrVm { family, reserved: 0, port: self.port, cid: self.cid, zero: [0; 4] };
        f((&raw const address).cast(), LENGTH)
    }
}

/// The address of a vsock peer; `None` when it is of another family.
pub(super) fn vsock_addr(address: &SocketAddrAny) -> Option<VsockAddr> {
    if address.address_family() != AddressFamily::VSOCK || address.addr_len() < LENGTH {
        return None;
    }
    // SAFETY: the storage holds at least `addr_len` initialised bytes (checked above) and is aligned
    // for every kind of socket address; all bit patterns of `SockaddrVm` are valid.
    let read = unsafe { address.as_ptr().cast::<SockaddrVm>().read() };
    Some(VsockAddr { cid: read.cid, port: read.port })
}
