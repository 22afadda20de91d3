//! What an agent asks to be done: the action request of NL chapters 5 and 6, and its response.
//!
//! A request that parses is well formed: it has the fields of its type and no others, a timeout in
//! range, and nothing between braces that isn't a handle. Whether it may be done is decided
//! elsewhere. Source: spec/nl-protocol-level2.md, sections 5 to 7.

mod kind;
mod response;
mod wire;

use std::{collections::BTreeMap, time::Duration};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};

pub use self::{
    kind::{ActionType, UnknownActionType},
    response::{
        ActionFault, ActionResponse, ActionResult, Encoding, OutputEncoding, Status, Timing,
    },
    wire::ActionError,
};
use crate::{
    Handle, HandleError, TemplatePart,
    agent::AgentUri,
    database::{DATABASE_PROVIDER, DATABASE_SERVICE, DATABASE_WRITE},
    json_object::{maybe_whole, object, read_object},
    nl_message::{NL_VERSION, is_id},
    parse_template,
};

/// What a request without a timeout gets.
pub const DEFAULT_TIMEOUT: Duration = Duration::from_secs(30);
/// The timeouts that may be asked for.
pub const TIMEOUT_RANGE: std::ops::RangeInclusive<Duration> =
    Duration::from_secs(1)..=Duration::from_mins(10);

/// The most handles that one action may have, the same one counted as often as it stands there.
pub const MAX_HANDLES: usize = 256;

/// The most actions that come at once.
pub const MAX_BATCH: usize = 20;

/// One action request.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ActionRequest {
    /// The schema that it names, if any.
    #[serde(rename = "$schema", default, skip_serializing_if = "Option::is_none")]
    pub schema: Option<String>,
    /// Always `1.0`.
    pub nl_version: String,
    /// The agent's own name for this request, for idempotency.
    pub request_id: String,
    /// The agent that it says it comes from.
    #[serde(deserialize_with = "object")]
    pub agent: AgentClaim,
    /// What is to be done.
    pub action: Action,
}

/// What a request says of the agent that sends it; it is proven elsewhere.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AgentClaim {
    /// `nl://vendor/type/version`.
    pub agent_uri: String,
    /// The instance.
    pub instance_id: String,
    /// A JWT.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attestation: Option<String>,
}

/// One action.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "wire::WireAction", into = "wire::WireAction")]
pub struct Action {
    /// What is to be done.
    pub deed: Deed,
    /// Where simple references are looked up first.
    pub context: Option<ActionContext>,
    /// Why, in the agent's words.
    pub purpose: Option<String>,
    /// How long it may take; as asked for.
    pub timeout: Option<Duration>,
    /// Whether to check only.
    pub dry_run: bool,
    /// The approval that the agent was given for it.
    pub approval_token: Option<String>,
}

/// What is to be done.
#[derive(Clone, Debug, PartialEq)]
pub enum Deed {
    /// Another agent does it.
    Delegate {
        /// The other agent's URI.
        delegate_to: String,
        /// What it does.
        delegated_action: Box<Action>,
        /// What it may use for it.
        delegation_scope: DelegationScope,
    },
    /// A shell runs a command.
    Exec {
        /// The command.
        template: String,
    },
    /// A command gets a value on its standard input.
    InjectStdin {
        /// The command.
        command: String,
        /// The value's handle.
        secret_ref: String,
    },
    /// A command gets values in files.
    InjectTempfile {
        /// The command, in which `{{nl:NAME}}` is the file's path.
        command: String,
        /// The value's handle of each name.
        file_refs: BTreeMap<String, String>,
        /// Whether values keep their NUL bytes.
        binary: bool,
    },
    /// The API of a service is called.
    SdkProxy {
        /// The provider of the API.
        provider: String,
        /// Which of its services.
        service: String,
        /// Which of its operations.
        operation: String,
        /// What the operation takes.
        parameters: Map<String, Value>,
        /// The handle of what proves who calls.
        credentials_ref: String,
    },
    /// A file with values in it is made for later actions.
    Template {
        /// Its text.
        source: TemplateSource,
        /// Where it is put.
        output_path: Option<String>,
    },
}

/// Where the text of a template is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TemplateSource {
    /// The text itself.
    Inline(String),
    /// The path of a file with the text.
    Path(String),
}

/// What a delegate may use. A bound that is not known here must not be passed over.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DelegationScope {
    /// Patterns of references.
    pub secrets: Vec<String>,
    /// How often; once when absent.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "maybe_whole")]
    pub max_uses: Option<u64>,
    /// For how many seconds.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "maybe_whole")]
    pub ttl_seconds: Option<u64>,
}

/// What the agent says of its surroundings; never a reason to allow anything.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ActionContext {
    /// The project in which references are looked up first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub project: Option<String>,
    /// The environment in which references are looked up first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub environment: Option<String>,
}

impl ActionRequest {
    /// Reads a request; unlike serde's, the error tells a bad placeholder from a bad message.
    pub fn from_json(json: &Value) -> Result<Self, ActionError> {
        if json.get("type").is_some() && json.get("action").is_none() {
            let words = "this is an action alone: a request has it as `action`, beside `nl_version`, `request_id` and `agent`";
            return Err(ActionError::Shape(words.to_owned()));
        }
        let mut outline = json.clone();
        let action = outline.get_mut("action").map(Value::take).unwrap_or_default();
        let action = Action::from_json(action)?;
        outline["action"] = serde_json::json!({"type": "exec", "template": ""});
        let request: Self = read_object(outline).map_err(ActionError::Shape)?;
        request.check()?;
        Ok(Self { action, ..request })
    }

    /// What messages are held to at every other door.
    fn check(&self) -> Result<(), ActionError> {
        let faults = [
            (self.nl_version != NL_VERSION, "`nl_version` is 1.0"),
            (!is_id(&self.request_id), "`request_id` is 1 to 128 printable ASCII characters"),
            (
                AgentUri::parse(&self.agent.agent_uri).is_err(),
                "`agent.agent_uri` is an agent's URI, nl://vendor/type/version",
            ),
        ];
        let fault = faults.into_iter().find_map(|(fails, words)| fails.then_some(words));
        fault.map_or(Ok(()), |words| Err(ActionError::Shape(words.to_owned())))
    }
}

impl Action {
    /// Reads an action; unlike serde's, the error tells a bad placeholder from a bad message.
    pub fn from_json(json: Value) -> Result<Self, ActionError> {
        if !json.is_object() {
            return Err(ActionError::Shape("`action` is an object".to_owned()));
        }
        read_object::<wire::WireAction>(json).map_err(ActionError::Shape)?.try_into()
    }

    /// An action with nothing said but what is to be done.
    pub fn new(deed: Deed) -> Self {
        let (context, purpose, timeout, approval_token) = (None, None, None, None);
        Self { deed, context, purpose, timeout, dry_run: false, approval_token }
    }

    /// Its type.
    pub fn kind(&self) -> ActionType {
        match &self.deed {
            Deed::Delegate { .. } => ActionType::Delegate,
            Deed::Exec { .. } => ActionType::Exec,
            Deed::InjectStdin { .. } => ActionType::InjectStdin,
            Deed::InjectTempfile { .. } => ActionType::InjectTempfile,
            Deed::SdkProxy { .. } => ActionType::SdkProxy,
            Deed::Template { .. } => ActionType::Template,
        }
    }

    /// Whether it would change what it could also be held to read. What a database has no operation for changes nothing:
    /// it can't be done, and is refused as that, whatever a grant says of changes.
    pub fn writes(&self) -> bool {
        matches!(&self.deed, Deed::SdkProxy { provider, service, operation, .. }
            if (&**provider, &**service, &**operation)
                == (DATABASE_PROVIDER, DATABASE_SERVICE, DATABASE_WRITE))
    }

    /// What a shell is given of it, if it is given anything.
    pub fn command(&self) -> Option<&str> {
        match &self.deed {
            Deed::Exec { template: command }
            | Deed::InjectStdin { command, .. }
            | Deed::InjectTempfile { command, .. } => Some(command),
            Deed::Delegate { .. } | Deed::SdkProxy { .. } | Deed::Template { .. } => None,
        }
    }

    /// How long it may take.
    pub fn timeout(&self) -> Duration {
        self.timeout.unwrap_or(DEFAULT_TIMEOUT)
    }

    /// This action with `text` in place of its template; without effect on an action of another type. The caller has read
    /// the template's file.
    #[must_use]
    pub fn with_content(mut self, text: String) -> Self {
        if let Deed::Template { source, .. } = &mut self.deed {
            *source = TemplateSource::Inline(text);
        }
        self
    }

    /// Every secret that any field names, in order, each once. A template's file is not read here.
    pub fn handles(&self) -> Result<Vec<Handle>, HandleError> {
        let mut found = Vec::new();
        refuse("purpose", self.purpose.as_deref().unwrap_or_default())?;
        for said in self.context.iter().flat_map(|said| [&said.project, &said.environment]) {
            refuse("context", said.as_deref().unwrap_or_default())?;
        }
        match &self.deed {
            Deed::Delegate { delegate_to, delegated_action, .. } => {
                refuse("delegate_to", delegate_to)?;
                found = delegated_action.handles()?;
            }
            Deed::Exec { template } => collect(template, &mut found)?,
            Deed::InjectStdin { command, secret_ref } => {
                collect(command, &mut found)?;
                found.push(Handle::parse_alone("secret_ref", secret_ref)?);
            }
            Deed::InjectTempfile { command, file_refs, .. } => {
                collect(command, &mut found)?;
                found.retain(|handle| !file_refs.contains_key(handle.as_written()));
                for (name, text) in file_refs {
                    found.push(Handle::parse_alone(&format!("file_refs.{name}"), text)?);
                }
            }
            Deed::SdkProxy { provider, service, operation, parameters, credentials_ref } => {
                refuse("provider", provider)?;
                refuse("service", service)?;
                refuse("operation", operation)?;
                for (name, value) in parameters {
                    refuse("parameters", name)?;
                    collect_in(value, &mut found)?;
                }
                found.push(Handle::parse_alone("credentials_ref", credentials_ref)?);
            }
            Deed::Template { source, output_path } => {
                refuse("output_path", output_path.as_deref().unwrap_or_default())?;
                match source {
                    TemplateSource::Inline(text) => collect(text, &mut found)?,
                    TemplateSource::Path(path) => refuse("template_path", path)?,
                }
            }
        }
        within_limit(&found)?;
        Ok(once(found))
    }

    /// The secrets that stand in the parameters of a call, each once; none of what calls no service.
    pub fn handles_of_parameters(&self) -> Result<Vec<Handle>, HandleError> {
        let mut found = Vec::new();
        if let Deed::SdkProxy { parameters, .. } = &self.deed {
            parameters.values().try_for_each(|value| collect_in(value, &mut found))?;
        }
        Ok(once(found))
    }

    /// Names this action and no other, for approvals: SHA-256 of its JSON, in hex.
    pub fn hash(&self) -> String {
        let text = serde_json::to_value(self).map(|value| value.to_string()).unwrap_or_default();
        data_encoding::HEXLOWER.encode(&Sha256::digest(text.as_bytes()))
    }
}

fn once(found: Vec<Handle>) -> Vec<Handle> {
    let mut once: Vec<Handle> = Vec::with_capacity(found.len());
    for handle in found {
        if !once.contains(&handle) {
            once.push(handle);
        }
    }
    once
}

fn collect(text: &str, found: &mut Vec<Handle>) -> Result<(), HandleError> {
    found.extend(parse_template(text)?.into_iter().filter_map(|part| match part {
        TemplatePart::Handle(handle) => Some(handle),
        TemplatePart::Text(_) => None,
    }));
    within_limit(found)
}

fn within_limit(found: &[Handle]) -> Result<(), HandleError> {
    if found.len() > MAX_HANDLES { Err(HandleError::TooMany) } else { Ok(()) }
}

fn collect_in(value: &Value, found: &mut Vec<Handle>) -> Result<(), HandleError> {
    match value {
        Value::String(text) => collect(text, found),
        Value::Array(items) => items.iter().try_for_each(|item| collect_in(item, found)),
        Value::Object(members) => members.iter().try_for_each(|(name, value)| {
            refuse("parameters", name)?;
            collect_in(value, found)
        }),
        _ => Ok(()),
    }
}

fn refuse(field: &'static str, text: &str) -> Result<(), HandleError> {
    let mut found = Vec::new();
    collect(text, &mut found)?;
    if found.is_empty() { Ok(()) } else { Err(HandleError::Misplaced { field }) }
}

#[cfg(test)]
mod tests;
