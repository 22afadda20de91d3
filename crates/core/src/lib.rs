//! The words and the decisions of Keyless.
//!
//! Pure: no tokio, files, network, clock, environment or randomness; all of them are arguments
//! (clippy.toml bans the rest). Deliberately absent: how a value is stored (`vault`), how a request
//! is parsed (`egress`), how a person is asked (`cli`). Source: design.md, sections 1, 2 and 5.

// Names
mod alias;
mod authority;
mod destination;
mod forward;
mod handle;
mod host;
mod path;
mod placeholder;
mod reference;
mod session_id;

// Values, who may open them, and what is signed with them
mod permit;
mod secret;
mod sigv4;

// Decisions
pub mod action;
pub mod approval;
mod approve_on_use;
mod policy;
mod rule;
mod zone;

// What agents want to run, and who they are
pub mod agent;
pub mod database;
pub mod delegation;
pub mod deny;
pub mod grant;
pub mod shell;
pub mod threat;

// What is told and what is written down
pub mod audit;
mod error;
mod json_object;
mod json_size;
pub mod nl_message;
mod reply;
mod unique_members;

pub use keyless_rewrite::is_invisible;

pub use crate::{
    action::{ActionType, UnknownActionType},
    alias::{ALIAS_PREFIX, alias},
    approve_on_use::ApproveOnUse,
    authority::{Authority, AuthorityError, MAX_PREAMBLE_BYTES, Scheme},
    destination::{Destination, DestinationError},
    error::{Actor, Code, Error, Exit, Remediation},
    forward::{ForwardLine, ForwardLineError, ForwardToken, MAX_FORWARD_BYTES},
    handle::{
        Given, Grace, Had, Handle, HandleError, HandleTarget, TemplatePart, Version, parse_template,
    },
    host::{Host, HostError, HostName},
    json_object::{maybe_whole, read_object, whole_number},
    json_size::json_size,
    path::{PathError, SecretPath, SegmentFault},
    permit::{Permit, Uptime, Usage},
    placeholder::{
        LookAlike, LookAlikeError, PREFIX as PLACEHOLDER_PREFIX, Placeholder, PlaceholderForm,
        SessionKey,
    },
    policy::{
        Allowed, By, CheckBy, Consent, EgressUse, Held, PlaceVerdict, Verdict,
        allow_operators_action, allow_operators_eyes, decide_agents_check, decide_check,
        decide_egress, decide_grant, judge_place,
    },
    reference::{Reading, Reference, ReferenceError, Resolution, ShortReferences},
    reply::{AgentSafe, SafeText},
    rule::{
        BodyCalls, ClientAuth, EgressRule, GrantKind, HmacSigner, Injection, InjectionError,
        Location, Locations, OauthGrant, OauthGrantError, OnForeign, Otherwise, PathGlob,
        PathGlobError, Piece, REGISTERED_METHODS, RequestFacts, RequestRule, RequestRuleError,
        Sealing, SealingError, SignatureHash, Signer, SignerError, Slot, folded_parameter,
        is_method,
    },
    secret::{Binding, MIN_BOUND_BYTES, SecretValue, ValueError},
    session_id::{SessionId, SessionIdError},
    sigv4::{SIGV4_ALGORITHM, SigV4Chain, SigV4Request, SigV4Scope, SigV4Signer, sigv4_digest},
    unique_members::UniqueMembers,
    zone::{Zone, zone_of},
};
