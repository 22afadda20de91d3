//! Everything that can go wrong toward an agent or a person, as one closed list of codes.
//!
//! A code carries its own text, NL code, HTTP status, exit status and remediation: a row without
//! one of them does not compile. What happened inside stays in the crates' own errors; this is
//! what is told. Source: design.md, section 5; docs/errors.md is generated from it.

use std::fmt;

use serde::Serialize;

use crate::{path::SecretPath, reply::SafeText};

/// An error as it may be shown to an agent: a code and words that can't hold a value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Error {
    code: Code,
    detail: SafeText,
    beside: Option<Box<Beside>>,
}

/// What few errors say; apart, so that the others are small.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Beside {
    retry_after: Option<u64>,
    about: Option<SecretPath>,
}

/// What to do about an error, and who can.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Remediation {
    /// The party that can mend the error.
    pub actor: Actor,
    /// The next step, as a short imperative.
    pub action: &'static str,
    /// A sentence for the person in front of the screen.
    pub user_message: &'static str,
    /// Whether the same call may work later without a change.
    pub retryable: bool,
}

/// The party that can mend an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Actor {
    /// The agent, by asking for something else.
    Agent,
    /// The human who owns the secrets.
    Operator,
    /// Nobody here: wait, or look at the other side.
    Upstream,
}

/// How the process ends. Documented in docs/errors.md.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[repr(u8)]
pub enum Exit {
    /// Something failed that no other status names.
    Failure = 1,
    /// The arguments, a value or what a file says can't be used.
    Usage = 2,
    /// A secret or store is not there; a file is not there, or can't be read or written.
    NotFound = 3,
    /// Policy says no.
    Refused = 4,
    /// The store is locked, or the factor is wrong.
    Locked = 5,
    /// The store is damaged, half written or the disk is full.
    Store = 6,
    /// This machine lacks something.
    Environment = 7,
    /// The command is not executable.
    NotExecutable = 126,
    /// The command does not exist.
    CommandNotFound = 127,
}

macro_rules! codes {
    ($($(#[$doc:meta])* $variant:ident = $text:literal, $nl:literal, $http:literal, $exit:ident,
        $actor:ident, $retryable:literal, $action:literal, $message:literal;)*) => {
        /// A stable code. Each variant's text is its wire form.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum Code { $($(#[$doc])* $variant,)* }

        impl Code {
            /// Every code, for documentation and tests.
            pub const ALL: &[Self] = &[$(Self::$variant,)*];

            /// The stable text, such as `authority_mismatch`.
            pub fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $text,)* }
            }

            /// The NL Protocol's code.
            pub fn nl_code(self) -> &'static str {
                match self { $(Self::$variant => $nl,)* }
            }

            /// The HTTP status of an answer with this code.
            pub fn http_status(self) -> u16 {
                match self { $(Self::$variant => $http,)* }
            }

            /// The exit status of a command that ends with this code.
            pub fn exit(self) -> Exit {
                match self { $(Self::$variant => Exit::$exit,)* }
            }

            /// What to do about it.
            pub fn remediation(self) -> Remediation {
                match self { $(Self::$variant => Remediation {
                    actor: Actor::$actor, action: $action, user_message: $message, retryable: $retryable,
                },)* }
            }
        }
    };
}

codes! {
    /// A deny rule, or an allowlist that does not have it, stopped the action before anything ran.
    ActionBlocked = "action_blocked", "NL-E400", 403, Refused, Agent, false,
        "follow the safe alternative that the answer names",
        "Keyless stopped this before anything ran.";
    /// The broker ended while the action was under way.
    ActionInterrupted = "action_interrupted", "NL-EX01", 500, Failure, Agent, false,
        "find out what the action has done before it is sent again, under another request_id",
        "Keyless ended while the action was under way; nothing is known of how far it came.";
    /// The action ran longer than it may.
    ActionTimeout = "action_timeout", "NL-E303", 408, Failure, Agent, true,
        "give it more time (timeout_ms, at most 600000; --timeout SECONDS of keyless exec), or do less",
        "The action took too long and was ended.";
    /// An action of a type that does not exist.
    ActionUnknown = "action_unknown", "NL-E300", 400, Usage, Agent, false,
        "use exec, template, inject_stdin, inject_tempfile, sdk_proxy or delegate",
        "There is no action of that type.";
    /// An agent that would have more than the administrator who registers it.
    AgentExceeds = "agent_exceeds", "NL-E702", 403, Refused, Agent, false,
        "register an agent within your own bounds and under a name of its own, or have the operator do it: keyless agent register",
        "The agent would have more than who registers it.";
    /// The agent's registration has passed its end.
    AgentExpired = "agent_expired", "NL-E105", 401, Refused, Operator, false,
        "register the agent anew: keyless agent register",
        "The agent's registration has expired.";
    /// An address that can't be listened at: somebody does already, or it is none of this machine's.
    AddressUnusable = "address_unusable", "NL-E800", 409, Usage, Operator, false,
        "take another address or port; ss -ltnp shows who listens where",
        "The address can't be listened at.";
    /// The agent is registered and not active.
    AgentNotActive = "agent_not_active", "NL-E103", 403, Refused, Operator, false,
        "have the operator activate it: keyless agent activate",
        "The agent is not active.";
    /// The agent was revoked, which is for good.
    AgentRevoked = "agent_revoked", "NL-E104", 403, Refused, Operator, false,
        "register another agent: keyless agent register",
        "The agent was revoked.";
    /// The agent was suspended.
    AgentSuspended = "agent_suspended", "NL-E103", 403, Refused, Operator, false,
        "have the operator look at why, then keyless agent activate",
        "The agent is suspended.";
    /// No such agent, or not its credential; which of both is not told.
    AgentUnknown = "agent_unknown", "NL-E100", 401, Refused, Operator, false,
        "show the credential that registering gave",
        "The agent could not be authenticated.";
    /// The operator named an agent that is not registered.
    AgentUnregistered = "agent_unregistered", "NL-E100", 404, NotFound, Operator, false,
        "see which agents there are: keyless agent list",
        "There is no such agent.";
    /// `init` where a store already is.
    AlreadyInitialised = "already_initialised", "NL-E800", 409, Usage, Operator, false,
        "use the store that is there, or another KEYLESS_HOME",
        "There is already a Keyless store here; nothing was changed.";
    /// The destination's answer is over what is read of it.
    AnswerTooLarge = "answer_too_large", "NL-E305", 502, Failure, Agent, false,
        "ask for less at a time",
        "The destination's answer was larger than is read here.";
    /// What a person typed, ticked or sent does not fit what they were asked.
    AnswerUnfit = "answer_unfit", "NL-E800", 400, Usage, Operator, false,
        "answer once more, as what is asked wants it",
        "The answer can't be used; nothing was changed.";
    /// A person refused the use, and asking again at once is no answer to that.
    ApprovalDenied = "approval_denied", "NL-E204", 403, Refused, Operator, false,
        "do something else, or talk to the person; a denial can be lifted with keyless approve --take-back ID",
        "What was asked for was denied.";
    /// A person has to allow this use, and nobody has yet.
    ApprovalRequired = "approval_required", "NL-E204", 403, Refused, Operator, true,
        "have the person answer with keyless approve, then retry",
        "A person has to allow this first.";
    /// The attestation's time is over.
    AttestationExpired = "attestation_expired", "NL-E101", 401, Refused, Agent, true,
        "send a fresh attestation",
        "The agent's attestation has expired.";
    /// The attestation does not verify.
    AttestationInvalid = "attestation_invalid", "NL-E106", 401, Refused, Operator, false,
        "check its issuer, its key and what it says of the agent",
        "The agent's attestation could not be verified.";
    /// The attestation was shown by another agent before.
    AttestationReplayed = "attestation_replayed", "NL-E107", 401, Refused, Agent, false,
        "send an attestation of your own",
        "The agent's attestation was used before.";
    /// This agent has to show an attestation.
    AttestationRequired = "attestation_required", "NL-E101", 401, Refused, Agent, false,
        "send the attestation with the request",
        "The agent has to be attested and was not.";
    /// The log is asked for by somebody who may not read it.
    AuditQueryDenied = "audit_query_denied", "NL-E501", 403, Refused, Operator, false,
        "use keyless audit query as the operator",
        "Agents may not read the audit log.";
    /// The audit log is not what was written.
    AuditTampered = "audit_tampered", "NL-E500", 500, Store, Operator, false,
        "compare the log with a backup and find out who could write the store; keyless audit accept-break then goes on",
        "The audit log was changed behind Keyless's back.";
    /// The audit log can't be written, so nothing may be released.
    AuditUnavailable = "audit_unavailable", "NL-E502", 503, Store, Operator, true,
        "mend what is named (disk space, the store's file, the database server), then retry; keyless doctor looks at them",
        "Keyless could not write its audit log, and goes no further without it.";
    /// CONNECT target, SNI, `Host` and `:authority` name different hosts.
    AuthorityMismatch = "authority_mismatch", "NL-E205", 421, Refused, Agent, false,
        "send the request to the host that the connection was opened for",
        "The request named another host than its connection, which could leak a credential.";
    /// A copy of a vault that is damaged, encrypted to other keys, or not one.
    BackupUnusable = "backup_unusable", "NL-E800", 422, Usage, Operator, false,
        "see that the file is whole and that --identity names the key that it was encrypted to",
        "The copy of the vault can't be read.";
    /// A head, chunk or field that no careful parser takes.
    BadRequest = "bad_request", "NL-E800", 400, Usage, Agent, false,
        "correct what the message names, and send the request again",
        "The request was malformed and was not sent on.";
    /// A body digest header would no longer fit the swapped body.
    BodyDigest = "body_digest", "NL-E301", 400, Refused, Agent, false,
        "put the placeholder into a header, leave the digest header away, or send a long file in chunks",
        "The request says a digest or a length of what is in its body, which a swap there would break.";
    /// The request's Content-Encoding can't be decoded for the swap.
    BodyCoding = "body_coding", "NL-E804", 415, Refused, Agent, false,
        "send the body as identity, gzip, br, zstd or deflate",
        "The request body is coded in a way that Keyless can't look into.";
    /// The broker is there and does not answer.
    BrokerHangs = "broker_hangs", "NL-E305", 503, Environment, Operator, true,
        "end the process that the message names (kill -KILL), then keyless unlock; its sessions end with it",
        "Keyless's broker does not answer.";
    /// Nobody listens where the broker should.
    BrokerNotRunning = "broker_not_running", "NL-E305", 503, Locked, Operator, true,
        "have the person run keyless unlock, after keyless init where there is no store yet",
        "Keyless's broker is not running, so nothing can be asked.";
    /// The broker that runs is of another version, and the two don't understand each other.
    BrokerOutdated = "broker_outdated", "NL-E305", 503, Environment, Operator, false,
        "keyless lock, then keyless unlock: that starts the broker anew (a service: restart it)",
        "The broker that runs was started by another version of keyless.";
    /// What listens in the broker's place does not prove that it has opened the same vault.
    BrokerUnproven = "broker_unproven", "NL-E305", 503, Environment, Operator, false,
        "see what has operator.sock open (ss -xlp), end it, then keyless lock and keyless unlock",
        "What listens at operator.sock has not opened this vault, so nothing was told to it: another program may have taken the broker's place.";
    /// The agent was registered without this type of action.
    CapabilityMissing = "capability_missing", "NL-E108", 403, Refused, Operator, false,
        "register the agent with the capability it needs",
        "The agent may not do actions of this type.";
    /// An address of a token catalog lies inside the network.
    CatalogInternal = "catalog_internal", "NL-E205", 403, Refused, Operator, false,
        "put the file itself into catalog/ next to config.toml; listing host:port under [egress] internal_allowlist lets it be fetched, and lets agents go there",
        "A token catalog is not fetched from inside the network.";
    /// The catalog file is not usable.
    CatalogInvalid = "catalog_invalid", "NL-E800", 400, Usage, Operator, false,
        "correct the catalog at the place named",
        "The catalog could not be read; nothing was changed.";
    /// Somebody else has changed what a change was to be made to, since it was looked at.
    ChangedMeanwhile = "changed_meanwhile", "NL-E800", 409, Usage, Operator, false,
        "look at it as it is now, and change that",
        "Somebody else has changed it meanwhile; what they did stands.";
    /// A secret would go over cleartext http.
    Cleartext = "cleartext", "NL-E205", 403, Refused, Agent, false,
        "use https, or have the operator add an http:// destination",
        "The credential would have travelled unencrypted.";
    /// The command to run does not exist.
    CommandNotFound = "command_not_found", "NL-E800", 404, CommandNotFound, Operator, false,
        "check the command's name and PATH",
        "The command does not exist.";
    /// The machine's clock stands before 1970.
    ClockUnusable = "clock_unusable", "NL-E800", 500, Environment, Operator, false,
        "set the clock, and have a time service keep it: timedatectl set-ntp true",
        "This machine's clock can't be right, and Keyless goes by it.";
    /// The command to run can't be executed.
    CommandNotExecutable = "command_not_executable", "NL-E800", 403, NotExecutable, Operator, false,
        "make the file executable, or name its interpreter",
        "The command can't be executed.";
    /// Too many actions under this grant at once.
    ConcurrencyExceeded = "concurrency_exceeded", "NL-E206", 403, Refused, Agent, true,
        "wait until one of them has ended",
        "Too many actions are running at once.";
    /// The config file is not usable.
    ConfigInvalid = "config_invalid", "NL-E800", 400, Usage, Operator, false,
        "correct config.toml at the place named",
        "The configuration could not be read; nothing was changed.";
    /// The configuration leads values where nobody who has the factor has agreed to.
    ConfigUnagreed = "config_unagreed", "NL-E200", 403, Refused, Operator, false,
        "look at what it names; keyless unlock shows it and asks for your word, and takes it from there",
        "A setting leads values elsewhere or keeps the store open for longer, and nobody who has the factor has agreed to it.";
    /// The upstream refused the connection or is unreachable.
    ConnectFailed = "connect_failed", "NL-E305", 502, Failure, Upstream, true,
        "check that the host is up, then retry",
        "The destination could not be reached.";
    /// The upstream did not answer the connection in time.
    ConnectTimeout = "connect_timeout", "NL-E305", 504, Failure, Upstream, true,
        "retry later",
        "The destination did not answer in time.";
    /// The grant is for another context or network.
    ContextMismatch = "context_mismatch", "NL-E205", 403, Refused, Operator, false,
        "work where the grant is meant for, or ask for another grant",
        "The grant does not hold in this context.";
    /// The delegation token has no uses left.
    DelegationExhausted = "delegation_exhausted", "NL-E706", 429, Refused, Agent, false,
        "ask its issuer for another one",
        "The delegation is used up.";
    /// The delegation token's time is over.
    DelegationExpired = "delegation_expired", "NL-E705", 403, Refused, Agent, false,
        "ask its issuer for another one",
        "The delegation has expired.";
    /// No delegation token that this agent may use.
    DelegationInvalid = "delegation_invalid", "NL-E704", 400, Refused, Agent, false,
        "show the token that was issued to you",
        "The delegation token is not valid.";
    /// The delegation token was revoked, or one that it comes from.
    DelegationRevoked = "delegation_revoked", "NL-E707", 403, Refused, Agent, false,
        "ask its issuer for another one",
        "The delegation was revoked.";
    /// A delegation of more than its issuer has.
    DelegationSubset = "delegation_subset", "NL-E702", 403, Refused, Agent, false,
        "delegate a part of what you may do yourself",
        "The delegation asks for more than its issuer has.";
    /// A delegation that is passed on too often.
    DelegationTooDeep = "delegation_too_deep", "NL-E703", 403, Refused, Agent, false,
        "have an agent nearer to the origin do it",
        "The delegation has been passed on too often.";
    /// The operator named a delegation that does not exist.
    DelegationUnknown = "delegation_unknown", "NL-E700", 404, NotFound, Operator, false,
        "see which delegations there are: keyless delegation list",
        "There is no such delegation.";
    /// The egress policy names the hosts that may be reached, and this is none.
    DestinationNotListed = "destination_not_listed", "NL-E205", 403, Refused, Operator, false,
        "have the operator list the host, or use one that is listed",
        "Policy confines egress to listed hosts, and this is none of them.";
    /// A copy has other values or rules for secrets that are here, and nobody said which count.
    CopyDiffers = "copy_differs", "NL-E800", 409, Usage, Operator, false,
        "say --keep for what is here, or --replace for what the copy has",
        "The copy has other secrets under paths that are here; nothing was changed.";
    /// The disk is full.
    DiskFull = "disk_full", "NL-E502", 507, Store, Operator, true,
        "free disk space, or raise the limit on the size of files (ulimit -f), then retry",
        "The disk is full; nothing was changed.";
    /// The proxy is about to stop; what is under way may end, nothing begins.
    Draining = "draining", "NL-E206", 503, Failure, Agent, true,
        "retry in a few seconds, over a new connection",
        "This Keyless is shutting down; another one takes over.";
    /// The secret is of an environment that the grant leaves out.
    EnvironmentRestricted = "environment_restricted", "NL-E203", 403, Refused, Operator, false,
        "ask for a grant for this environment",
        "The grant is not for this environment.";
    /// A command disguised so that rules would not see it.
    EvasionBlocked = "evasion_blocked", "NL-E401", 403, Refused, Agent, false,
        "write the command plainly",
        "The command was disguised, so it was not run.";
    /// A file that was named says nothing that can be used.
    FileInvalid = "file_invalid", "NL-E800", 400, Usage, Operator, false,
        "correct the file at the place named",
        "A file that was named can't be understood; nothing was changed.";
    /// A placeholder toward a host that its secret does not name, where that is blocked.
    ForeignDestination = "foreign_destination", "NL-E205", 403, Refused, Operator, false,
        "send the request without the placeholder, or have the operator add the destination",
        "The credential is not meant for this host.";
    /// The grant has no uses left.
    GrantExhausted = "grant_exhausted", "NL-E202", 403, Refused, Operator, false,
        "ask for another grant: keyless grant create",
        "The grant is used up.";
    /// The grant's time is over.
    GrantExpired = "grant_expired", "NL-E201", 403, Refused, Operator, false,
        "ask for another grant: keyless grant create",
        "The grant has expired.";
    /// No grant covers this agent, type of action and secret.
    GrantMissing = "grant_missing", "NL-E200", 403, Refused, Operator, false,
        "ask for a grant: keyless grant create",
        "No grant allows this.";
    /// The operator named a grant that does not exist.
    GrantUnknown = "grant_unknown", "NL-E200", 404, NotFound, Operator, false,
        "see which grants there are: keyless grant list",
        "There is no such grant.";
    /// The grant's time has not begun.
    GrantNotYetValid = "grant_not_yet_valid", "NL-E201", 403, Refused, Agent, true,
        "retry when the grant begins",
        "The grant does not hold yet.";
    /// The deny rules can't be asked, so nothing runs.
    GuardUnavailable = "guard_unavailable", "NL-E402", 403, Refused, Operator, true,
        "correct guard.toml; keyless guard rules names the place",
        "The guard is not working, so no action runs.";
    /// The request head is over its limit.
    HeadTooLarge = "head_too_large", "NL-E803", 431, Usage, Agent, false,
        "send a head of at most 64 KiB and 100 fields",
        "The request head was too large.";
    /// The request head did not arrive in time.
    HeadTimeout = "head_timeout", "NL-E303", 408, Failure, Agent, true,
        "send the whole head at once",
        "The request head did not arrive in time.";
    /// A secret was asked for that nobody needs.
    HoneypotTouched = "honeypot_touched", "NL-E602", 403, Refused, Operator, false,
        "have the operator look at what the agent was told to do",
        "The agent asked for a secret that is a trap.";
    /// A verb of the operator's, in an agent's session.
    InsideSession = "inside_session", "NL-E100", 403, Locked, Operator, false,
        "run it outside of keyless run; what an agent has here is keyless mcp",
        "This is an agent's session, in which nothing of the operator's is to be had.";
    /// The destination resolves to an internal address.
    InternalDestination = "internal_destination", "NL-E205", 403, Refused, Operator, false,
        "have the operator list the exact host:port if it is meant to be reached",
        "The destination is inside the network, which agents may not reach.";
    /// Something that should not happen; the log names it.
    Internal = "internal", "NL-E500", 500, Failure, Operator, true,
        "retry; if it stays, report it with the log",
        "Keyless failed in a way it did not expect.";
    /// The action's jail could not be made.
    IsolationFailed = "isolation_failed", "NL-E307", 500, Environment, Operator, false,
        "change the kernel setting named",
        "The action could not be isolated, so it was not run.";
    /// A store, a secret or a copy of a vault that a later version has written.
    KeylessOutdated = "keyless_outdated", "NL-E500", 500, Environment, Operator, false,
        "update Keyless on this machine; keyless --version says which it is",
        "It was written by a newer Keyless, and this one leaves it alone.";
    /// A passphrase file that others may read, or that is not the caller's.
    KeyFileUnsafe = "key_file_unsafe", "NL-E800", 403, Usage, Operator, false,
        "make it yours and private: chown $USER FILE; chmod 600 FILE",
        "The file is not private to you, so Keyless won't trust it.";
    /// Removing the last thing that opens the store.
    LastEnvelope = "last_envelope", "NL-E800", 409, Usage, Operator, false,
        "add another one first: keyless vault envelope add",
        "Nothing else would open the store, so it stays.";
    /// A placeholder outside the locations that its secret allows.
    LocationNotAllowed = "location_not_allowed", "NL-E205", 403, Refused, Agent, false,
        "put the placeholder where the secret allows it",
        "The credential may not stand in that part of a request.";
    /// No unlocked broker and no passphrase.
    Locked = "locked", "NL-E305", 423, Locked, Operator, true,
        "run keyless unlock, or give --passphrase-file FILE",
        "The store is locked.";
    /// A store that has locked itself and that a code opens again.
    LockedForCode = "locked_for_code", "NL-E305", 423, Locked, Agent, true,
        "ask the operator for the code that their authenticator app shows, and unlock with it",
        "The store has locked itself; a code of the authenticator app opens it.";
    /// A project's manifest, or the operator's index, is not usable as a whole.
    ManifestInvalid = "manifest_invalid", "NL-E800", 400, Usage, Operator, false,
        "correct the file at the place named",
        "What the project or the index says of secrets could not be read.";
    /// A body of another type than the protocol's.
    MediaTypeUnsupported = "media_type_unsupported", "NL-E804", 415, Usage, Agent, false,
        "send application/nl-protocol+json or application/json",
        "The body's content type is not supported.";
    /// No message of the protocol.
    MessageMalformed = "message_malformed", "NL-E800", 400, Usage, Agent, false,
        "send a message as the specification has it; keyless schema shows what each looks like",
        "The message could not be read.";
    /// An id that was used for something else.
    MessageReplayed = "message_replayed", "NL-E802", 409, Refused, Agent, false,
        "give every message an id of its own",
        "The message's id was used before.";
    /// A message over the limit.
    MessageTooLarge = "message_too_large", "NL-E803", 413, Usage, Agent, false,
        "send at most 1 MiB",
        "The message is too large.";
    /// A message of a type that is not served here.
    MessageTypeUnknown = "message_type_unknown", "NL-E806", 400, Usage, Agent, false,
        "use a message type of the discovery document",
        "There is no message of that type.";
    /// The name does not exist.
    NameNotFound = "name_not_found", "NL-E305", 502, Failure, Upstream, true,
        "check the host name",
        "The destination's name could not be resolved.";
    /// The name servers did not answer in time.
    NameTimeout = "name_timeout", "NL-E305", 504, Failure, Upstream, true,
        "retry later",
        "The destination's name was not resolved in time.";
    /// Namespaces, nf_tables or seccomp are not to be had.
    JailUnavailable = "jail_unavailable", "NL-E307", 500, Environment, Operator, false,
        "change the kernel setting named, or use --no-jail knowing what is lost",
        "This machine does not let Keyless isolate the command.";
    /// The command of an action ended with a status other than 0.
    NonzeroExit = "nonzero_exit", "NL-EX01", 422, Failure, Agent, false,
        "read its output",
        "The command failed.";
    /// It needs a store or a person, and env-only mode has neither.
    NotAvailableInCi = "not_available_in_ci", "NL-E800", 403, Refused, Operator, false,
        "set the variable that holds the value, or run it without KEYLESS_CI and --ci",
        "Values come from the environment alone here, and nothing can be stored or asked.";
    /// No store here.
    NotInitialised = "not_initialised", "NL-E306", 404, NotFound, Operator, false,
        "run keyless init",
        "There is no Keyless store here yet.";
    /// git is not there, or does not do what it is asked.
    GitFailed = "git_failed", "NL-E800", 404, NotFound, Operator, false,
        "see that git is installed and git status works in this folder",
        "git could not be asked.";
    /// Nothing says where Keyless keeps its files.
    HomeUnset = "home_unset", "NL-E800", 404, NotFound, Operator, false,
        "export HOME=FOLDER with the absolute path of your own folder, or KEYLESS_HOME=FOLDER for Keyless alone",
        "Keyless can't tell where its files are.";
    /// A project without `.keyless/secrets.toml`, where one is needed.
    ManifestMissing = "manifest_missing", "NL-E800", 404, NotFound, Operator, false,
        "run it in the project's folder; keyless setup writes a manifest there",
        "This project has no manifest.";
    /// An action's output is over the limit, so it is withheld.
    OutputTooLarge = "output_too_large", "NL-E308", 500, Failure, Agent, false,
        "have the command print less",
        "The output was too large to be checked.";
    /// A passkey's answer that does not prove the operator.
    PasskeyRefused = "passkey_refused", "NL-E100", 401, Locked, Operator, false,
        "use the passphrase, or a passkey that stands under Passkeys on the page",
        "The passkey does not prove the operator.";
    /// A passphrase that is too short for a store.
    PassphraseWeak = "passphrase_weak", "NL-E800", 422, Usage, Operator, false,
        "take one of 12 characters or more; four words that nobody says together are easy to keep",
        "The passphrase is too short to keep a store with.";
    /// A text that is no secret's path.
    PathInvalid = "path_invalid", "NL-E800", 400, Usage, Agent, false,
        "write it as project/category/name, such as team/github/token: lower case, digits and single hyphens",
        "That is not the path of a secret.";
    /// A file or directory that was named is not there or can't be used.
    PathUnusable = "path_unusable", "NL-E800", 404, NotFound, Operator, false,
        "check the path and its permissions",
        "A file that was named can't be used.";
    /// A call that only the operator may make, on a connection that has not proven the factor.
    OperatorRequired = "operator_required", "NL-E100", 401, Locked, Operator, false,
        "prove the factor first: keyless approve asks for it",
        "Only the operator may do this.";
    /// A value that was not used in the few seconds that it was released for.
    PermitExpired = "permit_expired", "NL-E303", 503, Failure, Agent, true,
        "send the request again",
        "The credential was released for a few seconds, and they were over before it could be used.";
    /// A placeholder in a body, written with escapes.
    PlaceholderEscaped = "placeholder_escaped", "NL-E301", 400, Refused, Agent, false,
        "write the placeholder as it is, without escapes",
        "The placeholder was written with escapes, so it would have arrived as it is.";
    /// Something that begins like a placeholder and is none, or stands where none can.
    PlaceholderInvalid = "placeholder_invalid", "NL-E301", 400, Usage, Agent, false,
        "write it as the glossary of the protocol has it, such as {{nl:api/TOKEN}}",
        "A placeholder can't be used as it is written.";
    /// A TCP port that no agent's tool speaks HTTP on.
    PortRefused = "port_refused", "NL-E205", 403, Refused, Operator, false,
        "use the service's HTTPS interface, for git an https:// remote",
        "The port belongs to a protocol that Keyless does not carry.";
    /// A protocol that a value can't be put into, toward a host that some secret names.
    ProtocolRefused = "protocol_refused", "NL-E205", 403, Refused, Agent, false,
        "use the service's HTTPS interface, or an action that runs the client with the secret",
        "Keyless puts credentials into HTTP and the logins of PostgreSQL only, and this connection speaks something else.";
    /// A reference to a provider that is not set up here.
    ProviderNotConfigured = "provider_not_configured", "NL-E306", 400, Refused, Operator, false,
        "use a provider that docs/actions.md names",
        "The provider is not set up.";
    /// A provider or a pattern that the token catalog does not have.
    ProviderUnknown = "provider_unknown", "NL-E800", 404, NotFound, Operator, false,
        "see what the catalog has: keyless catalog list",
        "The catalog has no such provider or pattern.";
    /// Proxy-Authorization is missing, wrong or expired.
    ProxyAuthRequired = "proxy_auth_required", "NL-E100", 407, Refused, Agent, false,
        "use the proxy URL of this session",
        "The proxy does not know this session.";
    /// The session has used up what the operator lets it ask for.
    QuotaExceeded = "quota_exceeded", "NL-E202", 429, Refused, Agent, true,
        "wait a minute and ask for less, or ask the operator for a larger quota",
        "The session has used up its requests or bytes for now.";
    /// A connection by address, past all names.
    RawAddress = "raw_address", "NL-E205", 403, Refused, Agent, false,
        "connect by host name, or have the operator list the exact address:port",
        "Connections by address are carried only where the operator has listed the address.";
    /// A reference that several secrets fit.
    ReferenceAmbiguous = "reference_ambiguous", "NL-E304", 400, Usage, Agent, false,
        "use one of the qualified paths that the answer lists",
        "The reference fits several secrets.";
    /// What another agent was asked to do gave references to secrets.
    ReferenceInResult = "reference_in_result", "NL-E401", 403, Refused, Agent, false,
        "have it done so that its output has no {{nl:",
        "The other agent's result names secrets by reference, so it was withheld.";
    /// A request that the secret's rules about requests do not name.
    RuleDenied = "rule_denied", "NL-E205", 403, Refused, Operator, false,
        "send a request that the secret's allow rules name, or have the operator add one",
        "The credential may not be used for this request.";
    /// An action's output could not be checked, so it is withheld.
    SanitizeFailed = "sanitize_failed", "NL-E308", 500, Failure, Operator, true,
        "retry; if it stays, report it with the log",
        "The output could not be checked, so it is withheld.";
    /// The secret is outside what the agent was registered for.
    ScopeViolation = "scope_violation", "NL-E200", 403, Refused, Operator, false,
        "ask for a wider registration, or another secret",
        "The secret is outside the agent's scope.";
    /// The secret was revoked as compromised and has no new value yet.
    SecretCompromised = "secret_compromised", "NL-E302", 404, Refused, Operator, false,
        "have the operator give it a new value: keyless secret rotate",
        "The secret was compromised and waits for a new value.";
    /// A second secret under the same path.
    SecretExists = "secret_exists", "NL-E800", 409, Usage, Operator, false,
        "use keyless secret set or rotate, or another path",
        "A secret with this path exists; nothing was changed.";
    /// More requests to a person than one session may make.
    RateLimited = "rate_limited", "NL-E202", 429, Refused, Agent, true,
        "wait a minute before you ask again",
        "Too much was asked for in a minute.";
    /// What templates have made holds as much as it may.
    RenderedFull = "rendered_full", "NL-E206", 429, Refused, Agent, true,
        "wait until files are over (each is kept ten minutes), or render to the output_path of one that you need no more",
        "There is no room for another rendered file.";
    /// No git repository where one is needed.
    RepositoryMissing = "repository_missing", "NL-E800", 404, NotFound, Operator, false,
        "run it inside a git repository; git init makes one",
        "This folder lies in no git repository.";
    /// No such request, or one of another session.
    RequestNotFound = "request_not_found", "NL-E302", 404, NotFound, Agent, false,
        "use the request_id that you were given, or make a new request",
        "There is no such request.";
    /// A request that has its answer, or whose time is over.
    RequestSettled = "request_settled", "NL-E204", 409, Refused, Operator, false,
        "keyless approve --list says how it ended; if it is still needed, have the agent ask again",
        "The request is settled already; nothing was changed.";
    /// No such secret, or none that this session may see.
    SecretNotFound = "secret_not_found", "NL-E302", 404, NotFound, Operator, false,
        "check the path with keyless secret list",
        "There is no such secret.";
    /// A version that the secret never had, or has no more.
    SecretVersionUnknown = "secret_version_unknown", "NL-E302", 404, NotFound, Operator, false,
        "see which there are: keyless secret versions PATH",
        "The secret has no such version.";
    /// The secret's source gave no value.
    SecretUnavailable = "secret_unavailable", "NL-E305", 502, Failure, Operator, true,
        "run keyless source check",
        "The credential could not be fetched from where it is kept.";
    /// The secret was taken out of the session while it ran.
    SecretWithdrawn = "secret_withdrawn", "NL-E201", 403, Refused, Operator, false,
        "add the secret to the catalog again, or start a session that has it",
        "The credential was withdrawn.";
    /// The session has ended or was revoked.
    SessionEnded = "session_ended", "NL-E105", 403, Refused, Operator, false,
        "start a new session with keyless run",
        "The session has ended.";
    /// A session's secrets and its environment do not go together.
    SessionUnfit = "session_unfit", "NL-E800", 409, Usage, Operator, false,
        "mend what is named above, or name the secrets with --secret PATH; keyless secret list shows them",
        "The session can't be had as it was asked for, so nothing was run.";
    /// Nothing is on record of the session that was named.
    SessionUnknown = "session_unknown", "NL-E800", 404, NotFound, Operator, false,
        "find its name with keyless session list or keyless audit tail",
        "Nothing is on record of a session of that name.";
    /// A signature that can't be made anew, or was not made with this session's placeholders.
    SignatureRefused = "signature_refused", "NL-E301", 403, Refused, Agent, false,
        "sign with this session's placeholders, and the payload whole or unsigned",
        "The request's signature can't be made with the real key.";
    /// `sources.toml` is not usable.
    SourcesInvalid = "sources_invalid", "NL-E800", 400, Usage, Operator, false,
        "correct sources.toml at the place named",
        "What says where secrets are kept could not be read.";
    /// A source that sources.toml does not declare.
    SourceUnknown = "source_unknown", "NL-E306", 404, NotFound, Operator, false,
        "see which sources there are: keyless source list",
        "There is no such source.";
    /// Something that is to be done and is done already, or can't be as things stand.
    StateUnfit = "state_unfit", "NL-E800", 409, Usage, Operator, false,
        "look at how it stands now; there may be nothing to do",
        "That does not fit how things stand; nothing was changed.";
    /// The store's rows don't fit its commitment.
    StoreTampered = "store_tampered", "NL-E500", 500, Store, Operator, false,
        "restore the store from a backup; do not use its secrets before",
        "The store was changed behind Keyless's back.";
    /// The server that has the store lets this user not in, or not do what is needed.
    StoreRefused = "store_refused", "NL-E500", 503, Store, Operator, false,
        "correct [store] in config.toml (user, password_file, database), or have who runs the server allow it",
        "The database server of the store refuses it.";
    /// The server that has the store can't be reached, or is not to be trusted.
    StoreUnreachable = "store_unreachable", "NL-E500", 503, Store, Operator, true,
        "check that the server runs, and [store] in config.toml; Keyless connects again by itself",
        "The database server of the store can't be used.";
    /// The store can't be read or written.
    StoreUnusable = "store_unusable", "NL-E500", 500, Store, Operator, true,
        "check the file's permissions and disk, or restore a backup",
        "The store can't be read or written.";
    /// An answer counts for nothing any more in this process, and the store could not be told.
    TakenBackUnwritten = "taken_back_unwritten", "NL-E502", 507, Store, Operator, true,
        "free disk space, then take it back once more: else it counts again once this broker has ended (keyless doctor)",
        "The running broker goes by it no longer, but the store could not be written.";
    /// A prompt is needed and there is no terminal.
    TerminalRequired = "terminal_required", "NL-E800", 400, Usage, Operator, false,
        "run it in a terminal; where an option is named above, that does as well",
        "Keyless needs to ask you something and has no terminal.";
    /// What the agent has done before keeps it from acting.
    ThreatTooHigh = "threat_too_high", "NL-E600", 403, Refused, Operator, false,
        "have the operator look at the incidents, then keyless agent reset",
        "The agent's threat score is too high.";
    /// A message's time is no time, or too far from now.
    TimestampInvalid = "timestamp_invalid", "NL-E805", 400, Usage, Agent, false,
        "set the clock, and send the time in UTC with milliseconds",
        "The message's time is not right.";
    /// A token endpoint gave no token, or an answer that can't be sealed.
    TokenUnavailable = "token_unavailable", "NL-E305", 502, Failure, Operator, true,
        "check the secret's OAuth setting: token URL, client id, stored value",
        "No access token could be had for the credential.";
    /// No secret for codes is enrolled, or none is in memory.
    TotpUnavailable = "totp_unavailable", "NL-E100", 423, Locked, Operator, false,
        "have the person run keyless unlock",
        "The store can't be opened with a code now; it takes the passphrase.";
    /// More placeholders of one secret than it allows.
    TooManyOccurrences = "too_many_occurrences", "NL-E205", 403, Refused, Agent, false,
        "send the placeholder as often as the secret allows",
        "The credential stood in the request more often than allowed.";
    /// The connection limit is reached.
    TooManyConnections = "too_many_connections", "NL-E206", 503, Failure, Agent, true,
        "close idle connections, then retry",
        "Too many connections are open.";
    /// A code of the authenticator app while too many wrong ones have closed the gate.
    TotpClosed = "totp_closed", "NL-E100", 429, Locked, Agent, true,
        "wait as long as it says, then ask the operator for a fresh code",
        "Too many wrong tries: Keyless takes none for a while.";
    /// A code of the authenticator app that was used before.
    TotpReplayed = "totp_replayed", "NL-E100", 409, Locked, Agent, true,
        "ask the operator for the next code; each is good once",
        "That code was used already.";
    /// A wrong code of the authenticator app.
    TotpWrong = "totp_wrong", "NL-E100", 401, Locked, Agent, true,
        "ask the operator for the code that the app shows now",
        "The code is not right.";
    /// A debugger or tracer has hold of the process that is to open the store.
    Traced = "traced", "NL-E500", 500, Environment, Operator, false,
        "start it without the tracer (strace, gdb); where you started none, see what the named process is before you unlock",
        "Another process reads all that this one does, so the store was not opened.";
    /// It is answered over another kind of connection alone.
    TransportUnfit = "transport_unfit", "NL-E205", 421, Refused, Agent, false,
        "use the socket, stdio or TLS",
        "This is not answered over this connection.";
    /// A reference to another organization that is no partner.
    TrustDomainUnknown = "trust_domain_unknown", "NL-E700", 404, Refused, Operator, false,
        "use a secret of this organization",
        "The other organization is not known here.";
    /// The grant wants an agent of a higher trust level.
    TrustTooLow = "trust_too_low", "NL-E102", 403, Refused, Operator, false,
        "have the agent attested",
        "The agent's trust level is too low.";
    /// Looks like a placeholder but belongs to no secret of this session.
    UnknownPlaceholder = "unknown_placeholder", "NL-E301", 403, Refused, Agent, false,
        "use the placeholders of this session's environment",
        "The placeholder belongs to another session or was revoked.";
    /// An upgrade to something other than a WebSocket.
    UpgradeRefused = "upgrade_refused", "NL-E205", 403, Refused, Agent, false,
        "use HTTP/1.1, HTTP/2 or a WebSocket",
        "The connection would have become something Keyless can't look into.";
    /// The proxy that leads out can't be used.
    UpstreamProxyFailed = "upstream_proxy_failed", "NL-E305", 502, Failure, Operator, true,
        "check [egress.upstream_proxy] in config.toml: that its address answers, and that credential_file holds what it takes",
        "The proxy that leads out could not be used.";
    /// The upstream spoke no usable HTTP.
    UpstreamProtocol = "upstream_protocol", "NL-E305", 502, Failure, Upstream, true,
        "retry; if it stays, the server is at fault",
        "The destination gave no usable answer.";
    /// The upstream's certificate does not verify.
    UpstreamTls = "upstream_tls", "NL-E305", 502, Failure, Upstream, false,
        "check the server's certificate; a private root goes into [egress] extra_roots",
        "The destination could not prove who it is, so nothing was sent.";
    /// The arguments of a command or a call don't fit.
    Usage = "usage", "NL-E800", 400, Usage, Operator, false,
        "see keyless --help",
        "The arguments do not fit.";
    /// A first value for a secret that has one.
    ValueExists = "value_exists", "NL-E800", 409, Usage, Agent, false,
        "ask for another value with secrets_request_rotation",
        "The secret has a value already; nothing was changed.";
    /// Where the secret is kept took no value.
    ValueNotStored = "value_not_stored", "NL-E305", 502, Failure, Operator, false,
        "mend what the message names, or change the value where it is kept; keyless source check says how its source is",
        "The value could not be stored where the credential is kept.";
    /// A value that can't be used for its purpose.
    ValueRefused = "value_refused", "NL-E800", 422, Usage, Operator, false,
        "give the value as the service issued it, where it is kept",
        "The value can't be used as it is.";
    /// A new value that is the one which the secret has.
    ValueUnchanged = "value_unchanged", "NL-E800", 422, Usage, Operator, false,
        "give the new value that its service issued; --allow-weak takes this one all the same",
        "The value is the one that the secret has already, so nothing was rotated.";
    /// A value that looks like none, such as `changeme`.
    ValueWeak = "value_weak", "NL-E800", 422, Usage, Operator, false,
        "give the value as the service issued it, or say --allow-weak",
        "The value does not look like a secret, so it was not stored.";
    /// No variable of the environment holds a secret's value, and there is no other source.
    VariableMissing = "variable_missing", "NL-E305", 502, Failure, Operator, false,
        "set one of the variables that it names, in the job's own settings",
        "The environment holds no value for it.";
    /// A version of the protocol that is not spoken here.
    VersionUnsupported = "version_unsupported", "NL-E801", 400, Usage, Agent, false,
        "send nl_version 1.0",
        "The protocol's version is not supported.";
    /// A key file or code that is not the store's.
    WrongFactor = "wrong_factor", "NL-E100", 401, Locked, Operator, false,
        "use what keyless vault envelope list names, or the recovery phrase: keyless unlock --recovery",
        "What was given does not open the store.";
    /// A wrong passphrase.
    WrongPassphrase = "wrong_passphrase", "NL-E100", 401, Locked, Operator, false,
        "try again, or use the recovery phrase: keyless unlock --recovery",
        "The passphrase does not open the store.";
    /// 24 words that are not the store's, or that are no recovery phrase at all.
    WrongRecoveryPhrase = "wrong_recovery_phrase", "NL-E100", 401, Locked, Operator, false,
        "type the 24 words again as they were written down, in their order",
        "The recovery phrase does not open the store.";
}

impl Error {
    /// An error whose code says it all.
    pub fn new(code: Code) -> Self {
        Self::with(code, SafeText::default())
    }

    /// An error with words about this case.
    pub fn with(code: Code, detail: SafeText) -> Self {
        Self { code, detail, beside: None }
    }

    /// The stable code.
    pub fn code(&self) -> Code {
        self.code
    }

    /// The words about this case; may be empty.
    pub fn detail(&self) -> &SafeText {
        &self.detail
    }

    /// After how many seconds the same call may work, where that is known.
    pub fn retry_after(&self) -> Option<u64> {
        self.beside.as_ref()?.retry_after
    }

    /// With the number of seconds after which the same call may work.
    #[must_use]
    pub fn again_after(mut self, seconds: Option<u64>) -> Self {
        if seconds.is_some() || self.beside.is_some() {
            self.beside.get_or_insert_default().retry_after = seconds;
        }
        self
    }

    /// The secret whose use it is about, where it is about one's.
    pub fn secret(&self) -> Option<&SecretPath> {
        self.beside.as_ref()?.about.as_ref()
    }

    /// With the secret whose use it is about.
    #[must_use]
    pub fn about(mut self, secret: &SecretPath) -> Self {
        self.beside.get_or_insert_default().about = Some(secret.clone());
        self
    }

    /// One line: what happened, and where.
    pub fn message(&self) -> String {
        let what = self.code.remediation().user_message;
        match self.detail.as_str() {
            "" => what.to_owned(),
            detail => format!("{what} ({detail})"),
        }
    }
}

impl From<Code> for Error {
    fn from(code: Code) -> Self {
        Self::new(code)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message())
    }
}

impl std::error::Error for Error {}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn codes_are_stable_words_and_unique() {
        let texts: HashSet<&str> = Code::ALL.iter().map(|code| code.as_str()).collect();
        assert_eq!(texts.len(), Code::ALL.len());
        for code in Code::ALL {
            assert!(code.as_str().bytes().all(|b| b.is_ascii_lowercase() || b == b'_'));
            assert!((400..600).contains(&code.http_status()), "{}", code.as_str());
            let remediation = code.remediation();
            assert!(remediation.user_message.ends_with('.'), "{}", code.as_str());
            assert!(!remediation.action.ends_with('.'), "{}", code.as_str());
        }
    }

    #[test]
    fn a_message_says_what_and_where() {
        let error = Error::with(Code::PortRefused, SafeText::words("port ").number(25));
        let message = "The port belongs to a protocol that Keyless does not carry. (port 25)";
        assert_eq!(error.to_string(), message);
    }
}
