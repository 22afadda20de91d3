//! Jails as Linux makes them.

// What a caller asks for.
mod reserve;
mod spawn;

// Between: a jail that waits for its job, what it is told, and who starts it.
mod channel;
mod keeper;
mod orders;
mod pipes;
mod standing;

// Inside: the jail's init, and what becomes the command.
mod console;
mod init;
mod starter;

// Inside: what the init builds.
mod bounds;
mod confine;
mod mounts;
mod network;
mod seccomp;
mod trust;

// Around it.
mod afresh;
mod diagnosis;
mod relay;
mod sys;
mod terminal;

pub use afresh::go_on_afresh;
pub use init::init_if_asked;
pub use mounts::area::is_inside;
pub use network::funnel::{DNS_PORT, FUNNEL_PORT, original_destination};
pub use network::machine::{
    EverythingDevice, MachineNetwork, make_everything_local, redirect_everything,
    route_everything_to_device,
};
pub use reserve::{Outlook, Reserve};
pub use spawn::{JailProcess, check, spawn};
pub use sys::account_home;
pub use sys::{
    clock_in_step, close_on_exec_above_stderr, hear_of_children, ignored_by_caller,
    jail_with_open_files, start_ignoring,
};
pub use trust::trust_on_this_machine;
