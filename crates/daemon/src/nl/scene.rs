//! A service and its agents, for the tests of this room.

use std::{sync::Arc, time::Duration};

use jiff::{SignedDuration, Timestamp};
use keyless_core::{
    ActionType, ApproveOnUse, SecretPath,
    agent::{AgentType, AgentUri, Aid, TrustLevel},
};
use keyless_vault::{Entries, Metadata};
use serde_json::{Value, json};

use super::{
    agents::{Registrar, Registration, identity},
    caller::Caller,
    service::NlService,
};
use crate::{
    broker::Broker,
    config::{Config, NlConfig},
    egress_door::EgressDoor,
    places::Places,
    scene::Scene,
};

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
        parent: None,
        metadata: std::collections::BTreeMap::new(),
        is_administrator: false,
    }
}

/// The identity of an agent that is registered nowhere.
pub(super) fn aid(name: &str) -> Aid {
    identity(registration(name), Timestamp::now()).unwrap()
}

/// A service with two secrets, `t/api/token` and `t/db/password`, and a home of its own.
pub(super) struct Served {
    pub(super) nl: Arc<NlService>,
    pub(super) folder: tempfile::TempDir,
}

impl Served {
    pub(super) async fn new() -> Self {
        let Scene { vault, log, folder } = Scene::new().await;
        for path in ["t/api/token", "t/db/password"] {
            vault
                .add(SecretPath::parse(path).unwrap(), Metadata::default(), None, Entries::untold())
                .await
                .unwrap();
        }
        let door = EgressDoor::new(&Config::default()).unwrap();
        let broker = Broker::new(door, vault, log);
        let nl =
            NlService::new(&broker, &Places::below(folder.path()), &NlConfig::default()).unwrap();
        Self { nl: Arc::new(nl), folder }
    }

    /// One more secret, `t/api/asked`, about each use of which a person is asked.
    pub(super) async fn add_asked(&self) {
        let asked = Metadata { approve_on_use: ApproveOnUse::PerCall, ..Metadata::default() };
        let path = SecretPath::parse("t/api/asked").unwrap();
        self.nl.vault.add(path, asked, None, Entries::untold()).await.unwrap();
    }

    /// Waits until a person is asked.
    pub(super) async fn until_asked(&self) {
        while self.nl.requests.all().await.unwrap().is_empty() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    /// An agent that has shown its credential, with a grant for everything that these types do.
    pub(super) async fn agent(&self, name: &str, may: &[ActionType], granted: &[&str]) -> Caller {
        self.enrolled(Registration { capabilities: may.to_vec(), ..registration(name) }, granted)
            .await
    }

    /// One that the operator has registered so.
    pub(super) async fn enrolled(&self, wanted: Registration, granted: &[&str]) -> Caller {
        let name = wanted.agent_uri.as_str().split('/').nth(3).unwrap_or_default().to_owned();
        let (aid, credential) = self.nl.agents.register(wanted, Registrar::Operator).await.unwrap();
        let (uri, instance) = (aid.agent_uri.as_str(), aid.instance_id.as_str());
        let aid = self.nl.agents.authenticate(uri, instance, &credential).await.unwrap();
        if !granted.is_empty() {
            self.grant(&format!("g-{name}"), &aid, granted, &["*"], json!({})).await;
        }
        Caller { aid, source_ip: None, delegation: Vec::new(), acting: None }
    }

    /// One more grant for everything, under these conditions.
    pub(super) async fn allow(&self, caller: &Caller, conditions: Value) {
        self.allow_types(caller, &["*"], conditions).await;
    }

    /// One more grant for everything that these types do, under these conditions.
    pub(super) async fn allow_types(&self, caller: &Caller, types: &[&str], conditions: Value) {
        self.grant("g-more", &caller.aid, types, &["*"], conditions).await;
    }

    /// One more grant of this name for everything that these types do, under these conditions.
    pub(super) async fn allow_as(
        &self,
        id: &str,
        caller: &Caller,
        types: &[&str],
        conditions: Value,
    ) {
        self.grant(id, &caller.aid, types, &["*"], conditions).await;
    }

    /// The organization's own rules from now on.
    pub(super) fn write_guard(&self, rules: &str) {
        let file = Places::below(self.folder.path()).guard_file();
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(file, rules).unwrap();
    }

    /// One more grant for what these patterns name.
    pub(super) async fn allow_secrets(&self, caller: &Caller, secrets: &[&str]) {
        self.grant("g-secrets", &caller.aid, &["*"], secrets, json!({})).await;
    }

    async fn grant(
        &self,
        id: &str,
        aid: &Aid,
        granted: &[&str],
        secrets: &[&str],
        conditions: Value,
    ) {
        let mut always =
            json!({ "valid_from": "2020-01-01T00:00:00Z", "valid_until": "2099-01-01T00:00:00Z" });
        let more = conditions.as_object().cloned().unwrap_or_default();
        always.as_object_mut().unwrap().extend(more);
        let grant = json!({
            "grant_id": id, "agent_uri": aid.agent_uri.as_str(), "organization_id": "acme",
            "granted_by": { "type": "human", "identifier": "ann", "granted_at": "2026-02-08T09:00:00Z" },
            "permissions": [{ "action_types": granted, "secrets": secrets, "conditions": always }],
        });
        self.nl.grants.create(serde_json::from_value(grant).unwrap()).await.unwrap();
    }
}
