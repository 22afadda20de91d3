//! The jail's network: loopback, routes that make every address local, and rules that turn every
//! connection to the funnel.
//!
//! Nothing leaves, since there is no other interface. With every address local, a connection to any
//! name or raw address is accepted at once by the funnel, which learns the wanted destination from
//! [`funnel::original_destination`]; a datagram to anything but DNS meets a closed port and is refused at
//! once. What the broker does with a connection is decided by the broker.

pub(crate) mod funnel;
pub(crate) mod machine;
mod netlink;
mod nft;
mod routes;

use crate::linux::channel::{During, Failure, Step};
use crate::outcome::FunnelSockets;

/// Sets up the network namespace that this process is in. Needs CAP_NET_ADMIN there.
pub(crate) fn build() -> Result<FunnelSockets, Failure> {
    routes::build()
        .during(Step::Network, || "set up the loopback interface and its routes".into())?;
    nft::install().during(Step::PacketFilter, || "install the nf_tables rules".into())?;
    FunnelSockets::bind().during(Step::Network, || "open the funnel's sockets".into())
}
