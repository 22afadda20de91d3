//! The types of messages that chapter 08 names.

macro_rules! message_types {
    ($($variant:ident = $word:literal),* $(,)?) => {
        /// What a message is. All that the protocol names can be read; the service says which it serves.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum MessageType {
            $(#[doc = concat!("`", $word, "`.")] $variant,)*
        }

        impl MessageType {
            /// Every type.
            pub const ALL: &[Self] = &[$(Self::$variant,)*];

            /// Its word on the wire.
            pub fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $word,)* }
            }
        }
    };
}

message_types! {
    ActionRequest = "action_request",
    ActionResponse = "action_response",
    AgentGet = "agent_get",
    AgentGetResponse = "agent_get_response",
    AgentRegister = "agent_register",
    AgentRegisterAck = "agent_register_ack",
    AuditQuery = "audit_query",
    AuditQueryResponse = "audit_query_response",
    DelegationRequest = "delegation_request",
    DelegationResponse = "delegation_response",
    DelegationRevoke = "delegation_revoke",
    DelegationRevokeAck = "delegation_revoke_ack",
    DiscoveryRequest = "discovery_request",
    DiscoveryResponse = "discovery_response",
    Error = "error",
    FederatedAction = "federated_action",
    FederatedResponse = "federated_response",
    FederationRevocation = "federation_revocation",
    FederationRevocationAck = "federation_revocation_ack",
    Handshake = "handshake",
    HandshakeAck = "handshake_ack",
    RevocationRequest = "revocation_request",
    RevocationResponse = "revocation_response",
    RotationNotification = "rotation_notification",
    // Ours: what chapter 08 has no messages for. MCP's tools ask so, a token's subject, and whose credential is old.
    XAcceptDelegation = "x_keyless_accept_delegation",
    XAccess = "x_keyless_access",
    XCheckAccess = "x_keyless_check_access",
    XCredential = "x_keyless_credential",
    XDelegation = "x_keyless_delegation",
    XListSecrets = "x_keyless_list_secrets",
    XRotateCredential = "x_keyless_rotate_credential",
    XSecrets = "x_keyless_secrets",
}

impl MessageType {
    /// The type of this word.
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|known| known.as_str() == word)
    }

    /// The type of the answer to a request of this type.
    #[must_use]
    pub fn answer(self) -> Self {
        match self {
            Self::ActionRequest => Self::ActionResponse,
            Self::AgentGet => Self::AgentGetResponse,
            Self::AgentRegister => Self::AgentRegisterAck,
            Self::AuditQuery => Self::AuditQueryResponse,
            Self::DelegationRequest => Self::DelegationResponse,
            Self::DelegationRevoke => Self::DelegationRevokeAck,
            Self::DiscoveryRequest => Self::DiscoveryResponse,
            Self::FederatedAction => Self::FederatedResponse,
            Self::FederationRevocation => Self::FederationRevocationAck,
            Self::Handshake => Self::HandshakeAck,
            Self::RevocationRequest => Self::RevocationResponse,
            Self::RotationNotification => Self::RotationNotification,
            Self::XAcceptDelegation => Self::XDelegation,
            Self::XCheckAccess => Self::XAccess,
            Self::XListSecrets => Self::XSecrets,
            Self::XRotateCredential => Self::XCredential,
            _ => Self::Error,
        }
    }
}
