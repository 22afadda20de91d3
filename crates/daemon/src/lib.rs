//! The broker: the only room that sees both sides of every port.
//!
//! It gives egress its values and its log, the jail its funnel, and the command line its answers.
//! Deliberately absent: words for people (`cli`), deciding (`core`), sealing (`vault`).
//! Source: design.md, sections 3 and 4.

// Where things are, and what the operator set
mod catalog_urls;
mod clock_watch;
mod config;
mod homes;
mod passphrase;
mod places;
mod providers;
mod reload;
mod sockets;

// The broker and its sessions
mod aliases;
mod alone;
mod approvals;
mod broker;
mod caution;
mod checkpoints;
mod declare;
mod deploys;
mod desktop;
mod minted;
pub mod nl;
mod owner;
mod permits;
mod requests;
mod session_book;
mod session_broker;
mod source_file;
mod sources;
mod store_place;
mod tokens;
mod values;
mod whole_file;
mod window;
mod withdrawal;

// What it does for whom
mod agent_client;
mod agent_secrets;
mod agreed;
mod egress_door;
mod environment;
mod explain;
mod fleet;
mod forward;
mod health;
mod http_credential;
mod inventory;
mod liveness;
mod log_breaks;
mod log_keeping;
mod looked_over;
mod metrics;
mod notes;
mod opening;
mod operator;
mod provenance;
mod run;
mod service;
mod service_files;
mod telemetry;
mod traces;
mod web;
mod wiped_text;

// What brings a project and a machine to it, and where there is no person
pub mod ci;
pub mod doctor;
pub mod setup;

// This process
mod hardening;
mod stop;
mod system;
mod systemd;

#[cfg(test)]
mod scene;

/// Whether a value is taken out of what comes back.
pub use keyless_action::is_looked_for;
/// The identity of an agent that speaks the NL Protocol.
pub use keyless_client::Identity;
/// The rules about one request, and the ports to which no request carries a value.
pub use keyless_egress::{Explanation, Question, never_carried};
/// Where a forwarder's streams go on to.
pub use keyless_guest::Link;
/// What becomes of a process that goes on in another one.
pub use keyless_jail::Front;
/// A jail's init is the same executable.
pub use keyless_jail::{close_on_exec_above_stderr, init_if_asked, own_logins};
/// Tools for agents.
pub use keyless_mcp as mcp;
/// The store below a vault.
pub use keyless_store::{
    AcceptedBreak, AuditQuery, LatestUse, Store, StorePlace, TamperedAt, VerifiedChain,
};
/// The vault's words, for the command line.
pub use keyless_vault as vault;

pub use crate::{
    agent_client::{AgentClient, ToolSession},
    agreed::{AgreedBy, AgreedConfig, Leads, agree, check_agreed, may_lack_agreement},
    alone::{end_run_alone, end_runs_alone, runs_alone},
    broker::{
        Broker, Inherited, OpenSession, SessionEnvironment, Variable, Wanted, missing_companions,
        open_bare_session, word_of_shared_variable,
    },
    catalog_urls::{
        Outcome as UrlOutcome, ProjectCatalogs, ProjectFile, Trust, UrlCatalogs, UrlReport,
    },
    caution::{Caution, manifest_of},
    checkpoints::{LogCheck, Unverified, VerifiedLog, sign_log, verify_log},
    clock_watch::refuse_unset_clock,
    config::{
        Activation, ApproveApply, Config, ConfigSource, DetectionWord, EgressConfig, LimitsConfig,
        NlConfig, NlTls, PackConfig, PolicyWord, parse_route,
    },
    declare::declare_instead,
    deploys::{DeployBy, DeployGate, DeployWord},
    egress_door::EgressDoor,
    environment::{inherited, is_of_sessions},
    explain::{Subject, explain},
    fleet::{CaFiles, Fleet, FleetListen, FleetSpec, ReloadState, fleet_placeholders, start_fleet},
    forward::{Forward, ForwardListen, ForwardSpec, start_forward},
    hardening::{die_by_signal, harden, harden_afresh, refuse_traced, settle_signals},
    homes::{OpenRun, files_of_all_homes, make_room, note_home, note_open_run, open_runs_see},
    http_credential::http_credential,
    inventory::{asked_at_least, asked_in_project, declared_variables, project_inventory},
    liveness::{Checked, LivenessConfig, LivenessVerdict},
    log_breaks::{BreaksSeen, accept_log_breaks},
    log_keeping::{AuditConfig, remove_old_log, rotate_log, rotate_log_keys},
    nl::{
        Agents, CREDENTIAL_NOTE, NlClient, OPERATOR, Registrar, Registration, registered,
        serve_nl_stdio,
    },
    notes::{Note, Notes, RequestNote},
    opening::open_vault,
    operator::{
        Answer, Approver, ApproverHandle, By, ChainState, CheckWhen, Edited, EgressView, Given,
        HOUR_BARS, Known, LOG_ACTIONS, LOG_OUTCOMES, LogView, LogWanted, LookedOver, Named,
        Occasion, Operator, Overview, Present, Proof, ProveAgain, RemoteApprover, Rotated,
        SecretRow, SecretState, SecretsView, SecretsWanted, Shown, SourcesView, Tally, Typed,
        UnknownPattern, UsedBy, Weight, ago, audit_log, audit_query, audit_tail, counted,
        create_store, decoy, doubt_of_hosts, lasting, list_secrets, next_at_hand, open_store,
        open_sure_store, page_link, password_alone, read_destinations, read_path, read_variable,
        refuse_existing_store, refuse_inside_session, show_secret, suggested_variable,
        to_the_minute, to_the_person,
    },
    passphrase::{
        names_of, read_passphrase_file, remember_passphrase_file, remembered_passphrase_files,
        unused_recovery_file,
    },
    places::{
        KEYLESS_HOME, KEYLESS_PASSPHRASE_FILE, Places, is_inside_session, keyless_home,
        unusable as path_unusable,
    },
    providers::{misfit, narrow, places_at, places_in_words, project_providers, providers},
    run::{
        Ended, Isolation, Ran, RunSpec, SessionHandle, absolute_paths, check_jail, run, run_inside,
        trust_ends_soon,
    },
    service::{
        OlderBroker, OwnTools, RemoteSession, SessionOffer, Status, UnlockingTurn, leave_lock,
        lock as lock_service, older_brokers, open_own_session, open_session as open_remote_session,
        reopen as reopen_service, serve, status as service_status, unlocking_turn,
    },
    session_book::{SessionKind, SessionRow},
    sockets::told_error,
    source_file::{NewSource, declare_source, lacking_of_source, undeclare_source},
    sources::{kept_at, with_sources},
    store_place::{StoreConfig, store_place, sure_store_place},
    system::this_program,
    traces::CollectorUrl,
    web::{WebConfig, WebTls},
    whole_file::{check_place, create_whole, write_whole},
    window::{Profile, Span, UnlockConfig, Window},
};
