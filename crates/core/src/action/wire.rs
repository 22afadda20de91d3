//! An action as its JSON stands: one flat object whose fields depend on `type`.

use std::{collections::BTreeMap, time::Duration};

use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Map, Value};

use super::{
    Action, ActionContext, ActionType, Deed, DelegationScope, TIMEOUT_RANGE, TemplateSource,
};
use crate::{
    HandleError,
    json_object::{maybe_object, maybe_whole},
};

/// Why an object is not an action.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ActionError {
    /// What stands between braces is no handle, or stands where none may.
    #[error(transparent)]
    Handle(#[from] HandleError),
    /// A field that its type needs is not there.
    #[error("`{kind}` needs `{field}`")]
    Missing {
        /// The type.
        kind: ActionType,
        /// The field.
        field: &'static str,
    },
    /// A delegation inside a delegation.
    #[error("a delegated action can't be a delegation itself")]
    Nested,
    /// A shell's command ends at a NUL character.
    #[error("a command has no NUL character in it")]
    Nul,
    /// It isn't the object that it should be.
    #[error("{0}")]
    Shape(String),
    /// A field that its type does not have.
    #[error("`{kind}` has no `{field}`")]
    Superfluous {
        /// The type.
        kind: ActionType,
        /// The field.
        field: &'static str,
    },
    /// Shorter than a second or longer than ten minutes.
    #[error("`timeout_ms` is from 1000 to 600000")]
    Timeout,
    /// Only grants know it.
    #[error("`egress` is not an action")]
    Type,
    /// It does not say what it is.
    #[error("an action needs a `type`: {}", ActionType::ACTIONS.join(", "))]
    Untyped,
}

/// The flat object.
#[derive(Clone, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct WireAction {
    #[serde(rename = "type", deserialize_with = "kind")]
    kind: Option<ActionType>,
    #[serde(skip_serializing_if = "Option::is_none")]
    template: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    template_content: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    template_path: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    output_path: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    command: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    secret_ref: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    file_refs: Option<BTreeMap<String, String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    binary: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    provider: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    service: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    operation: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    parameters: Option<Map<String, Value>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    credentials_ref: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    delegate_to: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "maybe_object")]
    delegated_action: Option<Box<Action>>,
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "maybe_object")]
    delegation_scope: Option<DelegationScope>,
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "maybe_object")]
    context: Option<ActionContext>,
    #[serde(skip_serializing_if = "Option::is_none")]
    purpose: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "maybe_whole")]
    timeout_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    dry_run: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    approval_token: Option<String>,
}

impl TryFrom<WireAction> for Action {
    type Error = ActionError;

    fn try_from(mut wire: WireAction) -> Result<Self, ActionError> {
        let kind = wire.kind.ok_or(ActionError::Untyped)?;
        let action = Self {
            deed: wire.deed(kind)?,
            context: wire.context.take(),
            purpose: wire.purpose.take(),
            timeout: wire.timeout_ms.take().map(timeout).transpose()?,
            dry_run: wire.dry_run.take().unwrap_or(false),
            approval_token: wire.approval_token.take(),
        };
        if let Some(field) = wire.superfluous() {
            return Err(ActionError::Superfluous { kind, field });
        }
        if action.command().is_some_and(|command| command.contains('\0')) {
            return Err(ActionError::Nul);
        }
        action.handles()?;
        Ok(action)
    }
}

/// A type; who misspells one is told of those that are actions.
fn kind<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<ActionType>, D::Error> {
    let named = Option::<String>::deserialize(deserializer)?;
    let parsed = named.map(|name| {
        name.parse().map_err(|_| serde::de::Error::unknown_variant(&name, &ActionType::ACTIONS))
    });
    parsed.transpose()
}

fn timeout(milliseconds: u64) -> Result<Duration, ActionError> {
    let timeout = Duration::from_millis(milliseconds);
    if TIMEOUT_RANGE.contains(&timeout) { Ok(timeout) } else { Err(ActionError::Timeout) }
}

impl WireAction {
    /// Takes the fields that this type has.
    fn deed(&mut self, kind: ActionType) -> Result<Deed, ActionError> {
        let need =
            |field: Option<String>, name| field.ok_or(ActionError::Missing { kind, field: name });
        Ok(match kind {
            ActionType::Delegate => self.delegation()?,
            ActionType::Egress => return Err(ActionError::Type),
            ActionType::Exec => Deed::Exec { template: need(self.template.take(), "template")? },
            ActionType::InjectStdin => Deed::InjectStdin {
                command: need(self.command.take(), "command")?,
                secret_ref: need(self.secret_ref.take(), "secret_ref")?,
            },
            ActionType::InjectTempfile => Deed::InjectTempfile {
                command: need(self.command.take(), "command")?,
                file_refs: self
                    .file_refs
                    .take()
                    .filter(|files| !files.is_empty())
                    .ok_or(ActionError::Missing { kind, field: "file_refs" })?,
                binary: self.binary.take().unwrap_or(false),
            },
            ActionType::SdkProxy => Deed::SdkProxy {
                provider: need(self.provider.take(), "provider")?,
                service: need(self.service.take(), "service")?,
                operation: need(self.operation.take(), "operation")?,
                parameters: self.parameters.take().unwrap_or_default(),
                credentials_ref: need(self.credentials_ref.take(), "credentials_ref")?,
            },
            ActionType::Template => Deed::Template {
                source: match (self.template_content.take(), self.template_path.take()) {
                    (Some(text), None) => TemplateSource::Inline(text),
                    (None, Some(path)) => TemplateSource::Path(path),
                    (Some(_), Some(_)) => {
                        return Err(ActionError::Superfluous { kind, field: "template_path" });
                    }
                    (None, None) => {
                        return Err(ActionError::Missing { kind, field: "template_content" });
                    }
                },
                output_path: self.output_path.take(),
            },
        })
    }

    fn delegation(&mut self) -> Result<Deed, ActionError> {
        let missing = |field| ActionError::Missing { kind: ActionType::Delegate, field };
        let delegated_action = self.delegated_action.take();
        let delegated_action = delegated_action.ok_or(missing("delegated_action"))?;
        if delegated_action.kind() == ActionType::Delegate {
            return Err(ActionError::Nested);
        }
        Ok(Deed::Delegate {
            delegate_to: self.delegate_to.take().ok_or(missing("delegate_to"))?,
            delegated_action,
            delegation_scope: self.delegation_scope.take().ok_or(missing("delegation_scope"))?,
        })
    }

    /// A field that is left once a deed has taken its own.
    fn superfluous(&self) -> Option<&'static str> {
        let left = [
            ("template", self.template.is_some()),
            ("template_content", self.template_content.is_some()),
            ("template_path", self.template_path.is_some()),
            ("output_path", self.output_path.is_some()),
            ("command", self.command.is_some()),
            ("secret_ref", self.secret_ref.is_some()),
            ("file_refs", self.file_refs.is_some()),
            ("binary", self.binary.is_some()),
            ("provider", self.provider.is_some()),
            ("service", self.service.is_some()),
            ("operation", self.operation.is_some()),
            ("parameters", self.parameters.is_some()),
            ("credentials_ref", self.credentials_ref.is_some()),
            ("delegate_to", self.delegate_to.is_some()),
            ("delegated_action", self.delegated_action.is_some()),
            ("delegation_scope", self.delegation_scope.is_some()),
        ];
        left.into_iter().find_map(|(name, there)| there.then_some(name))
    }
}

impl From<Action> for WireAction {
    fn from(action: Action) -> Self {
        let mut wire = Self {
            kind: Some(action.kind()),
            context: action.context,
            purpose: action.purpose,
            timeout_ms: action.timeout.and_then(|time| u64::try_from(time.as_millis()).ok()),
            dry_run: action.dry_run.then_some(true),
            approval_token: action.approval_token,
            ..Self::default()
        };
        wire.put(action.deed);
        wire
    }
}

impl WireAction {
    fn put(&mut self, deed: Deed) {
        match deed {
            Deed::Delegate { delegate_to, delegated_action, delegation_scope } => {
                self.delegate_to = Some(delegate_to);
                self.delegated_action = Some(delegated_action);
                self.delegation_scope = Some(delegation_scope);
            }
            Deed::Exec { template } => self.template = Some(template),
            Deed::InjectStdin { command, secret_ref } => {
                self.command = Some(command);
                self.secret_ref = Some(secret_ref);
            }
            Deed::InjectTempfile { command, file_refs, binary } => {
                self.command = Some(command);
                self.file_refs = Some(file_refs);
                self.binary = binary.then_some(true);
            }
            Deed::SdkProxy { provider, service, operation, parameters, credentials_ref } => {
                self.provider = Some(provider);
                self.service = Some(service);
                self.operation = Some(operation);
                self.parameters = Some(parameters).filter(|parameters| !parameters.is_empty());
                self.credentials_ref = Some(credentials_ref);
            }
            Deed::Template { source, output_path } => {
                match source {
                    TemplateSource::Inline(text) => self.template_content = Some(text),
                    TemplateSource::Path(path) => self.template_path = Some(path),
                }
                self.output_path = output_path;
            }
        }
    }
}
