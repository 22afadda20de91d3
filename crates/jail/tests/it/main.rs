//! What a command can and can't do in a jail, seen from inside, through `jail-probe`.

/// The scene: a command, who runs it, what came out.
mod scene;

/// What a command may use up of the machine.
mod bounds;
/// Capabilities, system calls, mounts: what can't be undone.
mod confinement;
/// Hidden and shown files, sockets, devices.
mod files;
/// Where connections and datagrams arrive.
mod network;
/// Exit, signals, streams, and that nothing survives.
mod process;
/// Jails that stand before their command comes.
mod reserve;
/// Job control through a pseudo-terminal.
mod terminal;
/// The session's CA in every trust store.
mod trust;
/// The setting that is missing is named, where a jail can't be made.
mod unavailable;
