//! A vault for this crate's tests.

use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use keyless_core::{
    ActionType,
    agent::{AgentType, AgentUri, Aid, TrustLevel},
};
use keyless_store::{AuditLog, Store};
use keyless_vault::{KdfCost, Passphrase, Vault};
use zeroize::Zeroizing;

use super::agents::{Registration, identity};

/// What the operator says of a new agent, which may do everything.
pub(super) fn registration(name: &str) -> Registration {
    Registration {
        agent_uri: AgentUri::parse(&format!("nl://acme.corp/{name}/1.0.0")).unwrap(),
        organization_id: "acme".to_owned(),
        agent_type: AgentType::CodingAssistant,
        trust_level: TrustLevel::L1,
        capabilities: vec![ActionType::Exec, ActionType::Template, ActionType::Delegate],
        scope: None,
        session_context: std::collections::BTreeMap::new(),
        life: SignedDuration::from_hours(1),
        registered_by: "ann".to_owned(),
    }
}

/// The identity of an agent that is registered nowhere.
pub(super) fn aid(name: &str) -> Aid {
    identity(registration(name), Timestamp::now()).unwrap()
}

/// An open vault in a folder of its own.
pub(crate) struct Scene {
    pub(crate) vault: Arc<Vault>,
    pub(crate) log: AuditLog,
    _folder: tempfile::TempDir,
}

impl Scene {
    pub(crate) async fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::create_or_open(&folder.path().join("store.db")).await.unwrap();
        let passphrase = Passphrase::new(Zeroizing::new("correct horse battery staple".to_owned()));
        let cheap = KdfCost::dangerously_cheap();
        let (vault, _) = Vault::create_with(store, passphrase, cheap).await.unwrap();
        let log = crate::operator::audit_log(&vault);
        Self { vault: Arc::new(vault), log, _folder: folder }
    }
}
