//! The built binary, driven as a user would: real clients, real servers on loopback, real jails.
//!
//! Every test lives in one [`world::World`]. When it ends, everything that came out (streams,
//! JSON, files of the agent, the store, the broker's `/proc` entries) is searched for the value.

#![expect(clippy::unwrap_used, reason = "what can't be set up is a failed test")]

/// The NL Protocol from outside, over every door.
mod nl;
/// A sidecar and its forwarders.
mod node;

/// AWS, as far as its protocols and signatures go.
mod aws;
/// The invocation of one command and what came out of it.
mod invocation;
/// KeePass databases.
mod keepass;
mod keyrings;
mod liveness;
/// A person at a pseudo-terminal.
mod terminal;
/// One home, one certificate authority, one value that nobody may see.
mod world;

/// NL's actions.
mod actions;
/// What helps, where somebody new stumbles.
mod advice;
/// What files say of where values go, and whose word that takes.
mod agreed;
/// The log of a session, and what tampering with it does.
mod audit;
/// What can't be used: a clear error, the documented exit status, nothing lost.
mod backup;
mod bad_input;
/// The token catalog.
mod catalog;
/// Without a store and without a person.
mod ci;
/// curl, git, Python, Node, npm and pip, with no setting of their own.
mod clients;
/// Inside a company: a proxy that leads out.
mod company;
/// As many connections as there may be.
mod crowd;
/// Databases that are logged in to with a placeholder.
mod databases;
/// `sources.toml` by commands.
mod declaring;
/// The story that `keyless demo` plays.
mod demo;
/// What `deploy/` has: unit, image, chart.
mod deploy;
/// What the desktop tells when an agent asks.
mod desktop;
/// Answers that have the value in a form that no server echoes.
mod disguises;
/// Whether everything is in order.
mod doctor;
/// Things that must never happen, tried by an agent.
mod exfiltration;
/// A sidecar in operation: reloads, withdrawal, metrics, logs, drain.
mod fleet;
/// The forwarder between guests and the sidecar.
mod forward;
/// What agents may do with which secrets.
mod grants;
/// The guard before every action.
mod guard;
/// A microVM guest's init, in namespaces and in a machine.
mod guest;
/// Where else Keyless is on this account.
mod homes;
/// What git asks before a commit.
mod hooks;
/// Values out of files and the environment, into the vault.
mod import;
/// Tables that fit the terminal, a word about what takes long.
mod manners;
/// Tools for agents, and the person who answers.
mod mcp;
/// Destinations that ask for a client certificate.
mod mtls;
/// Tokens that the agent never holds.
mod oauth;
/// agentpack's command line and envelopes.
mod pack;
/// The envelope of each command.
mod pack_envelopes;
/// The pack killed, on a full disk, many at once.
mod pack_faults;
/// The pack's tools for agents, through official clients.
mod pack_mcp;
/// Credentials in modules and in agents' settings, and their way into the vault.
mod pack_secrets;
/// Remotes, sync, events, scores.
mod pack_share;
/// A recorded session of agentpack 0.9.1, run again.
mod pack_vectors;
/// Exit, signals, streams, terminal, hidden files.
mod process;
/// What a project needs of the operator.
mod projects;
/// gRPC, other protocols, large repositories, package managers.
mod protocols;
/// The fleet's sidecar.
mod proxy;
/// What a secret may be used for inside its hosts.
mod rules;
/// What programs are told of the protocol's objects.
mod schemas;
/// Secrets from birth to removal.
mod secrets;
/// Who is at work, by command.
mod sessions;
/// A project comes to Keyless.
mod setup;
/// Keys that sign requests.
mod signing;
/// Sources beside the store.
mod sources;
/// Two brokers on one database server.
mod team;
/// The terminal, full screen.
mod terminal_ui;
/// The units, under systemd itself.
mod units;
/// The broker in the background.
mod unlock;
/// What opens the store, and what was removed.
mod vault;
/// `ok` and the exit status of what examines.
mod verdicts;
/// The approvals page in a browser, and those who have no business there.
mod web;
/// Names, addresses and zones, in a network of their own.
mod zones;
