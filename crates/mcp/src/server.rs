//! The server of toolsets: its name, its tools, and a call's way to the port and back.

use std::{borrow::Cow, sync::Arc};

use keyless_core::Error;
use rmcp::{
    ErrorData, RoleServer, ServerHandler,
    model::{
        CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, CustomRequest,
        CustomResult, ErrorCode, Implementation, JsonObject, ListResourcesResult, ListToolsResult,
        PaginatedRequestParams, ProtocolVersion, ReadResourceRequestParams, ReadResourceResponse,
        ReadResourceResult, Resource, ResourcesCapability, ServerCapabilities, ServerConfig, Tool,
    },
    service::RequestContext,
};
use serde_json::Value;

use crate::{
    fault::Fault,
    logging::Logging,
    nl::{self, Nl},
    pack::{self, Packs},
    secrets::{self, Secrets},
};

/// A set of tools that is served together, under a name of its own.
#[derive(Clone)]
pub enum Toolset {
    /// Actions with secrets.
    Nl(Arc<dyn Nl>),
    /// Agent configuration as code.
    Pack(Arc<dyn Packs>),
    /// What agents may know of secrets, and ask of a person.
    Secrets(Arc<dyn Secrets>),
}

/// A server of one toolset, or of several together. Cheap to clone: over HTTP each session has its own.
pub struct Server {
    toolset: Toolset,
    others: Vec<Toolset>,
    /// What this session's client wants to hear.
    logging: Logging,
}

impl Clone for Server {
    /// For another session, whose client has asked for nothing yet.
    fn clone(&self) -> Self {
        let (toolset, others) = (self.toolset.clone(), self.others.clone());
        Self { toolset, others, logging: Logging::default() }
    }
}

const SECRETS_INSTRUCTIONS: &str = "\
Keyless holds the credentials; you never see their values, and need none: programs started through keyless run find \
placeholders in their environment, which are exchanged on the way to the hosts that a credential is for. When a \
secret is missing, ask for it with secrets_request_provision and poll. Never ask a person for a value or a passphrase \
in the chat, never look for one elsewhere, and take a denial for an answer.";

const PACK_INSTRUCTIONS: &str = "\
Agent configuration as code: plan, review, apply, roll back. To deploy, call deploy, show the person the plan, and call \
deploy_apply with the same arguments, yes=true and the confirm_token; it writes exactly that plan or nothing. Every \
answer is an envelope; when ok is false, errors[0].details.next_actions says what helps. Beside its schema every tool \
takes cwd, an absolute path, to work for another project than the one that the server was started in.";

const NL_INSTRUCTIONS: &str = "\
Keyless does things for you with credentials that you never see. Write {{nl:category/NAME}} where a secret belongs and \
send the action with nl_execute_action; nl_list_secrets tells what you may name. Results come with every value taken \
out. Never try to print, encode or move a value, and take a denial for an answer.";

impl Server {
    /// A server of `toolset`.
    pub fn new(toolset: Toolset) -> Self {
        Self { toolset, others: Vec::new(), logging: Logging::default() }
    }

    /// This server with another set of tools beside those that it has.
    #[must_use]
    pub fn and(mut self, other: Toolset) -> Self {
        self.others.push(other);
        self
    }

    fn toolsets(&self) -> impl Iterator<Item = &Toolset> {
        std::iter::once(&self.toolset).chain(&self.others)
    }

    async fn call(
        &self,
        name: &str,
        arguments: JsonObject,
        context: RequestContext<RoleServer>,
    ) -> Option<CallToolResult> {
        let served =
            self.toolsets().find(|toolset| toolset.tools().any(|tool| tool.name == name))?;
        let log = self.logging.of_call(name, &context);
        log.called().await;
        let result = match served {
            Toolset::Nl(port) => nl::call(port.as_ref(), name, arguments).await?,
            Toolset::Pack(port) => pack::serve(port.as_ref(), name, arguments, context).await?,
            Toolset::Secrets(port) => ask(port.as_ref(), name, arguments, context).await?,
        };
        log.ended(&result).await;
        Some(result)
    }

    fn tools(&self) -> Vec<Tool> {
        self.toolsets().flat_map(Toolset::tools).map(without_rust_formats).collect()
    }

    fn has_documents(&self) -> bool {
        self.toolsets().any(|toolset| matches!(toolset, Toolset::Nl(_)))
    }
}

impl Toolset {
    fn tools(&self) -> Box<dyn Iterator<Item = Tool>> {
        match self {
            Self::Nl(_) => Box::new(nl::TOOLS.iter().map(nl::TableRow::tool)),
            Self::Pack(_) => Box::new(pack::TOOLS.iter().map(pack::TableRow::advertised)),
            Self::Secrets(_) => Box::new(secrets::TOOLS.iter().map(secrets::TableRow::tool)),
        }
    }

    /// Its name as a server, its title, and what a model should know of it.
    fn about(&self) -> (&'static str, &'static str, &'static str) {
        match self {
            Self::Nl(_) => ("keyless-nl", "Keyless: actions", NL_INSTRUCTIONS),
            Self::Pack(_) => ("agentpack", "Keyless: agent configuration", PACK_INSTRUCTIONS),
            Self::Secrets(_) => ("keyless-secrets", "Keyless: secrets", SECRETS_INSTRUCTIONS),
        }
    }
}

/// The tool without the formats that JSON Schema does not know: clients warn of each.
fn without_rust_formats(mut tool: Tool) -> Tool {
    tool.input_schema = stripped(&tool.input_schema);
    tool.output_schema = tool.output_schema.as_deref().map(stripped);
    tool
}

fn stripped(schema: &JsonObject) -> Arc<JsonObject> {
    let mut schema = schema.clone();
    schema.values_mut().for_each(strip_rust_formats);
    Arc::new(schema)
}

fn strip_rust_formats(schema: &mut Value) {
    match schema {
        Value::Object(fields) => {
            // A property of that name has an object there.
            if let Some(format) = fields.get("format").and_then(Value::as_str)
                && ["int", "uint", "float", "double"].iter().any(|word| format.starts_with(word))
            {
                fields.remove("format");
            }
            fields.values_mut().for_each(strip_rust_formats);
        }
        Value::Array(items) => items.iter_mut().for_each(strip_rust_formats),
        _ => {}
    }
}

async fn ask(
    port: &dyn Secrets,
    name: &str,
    arguments: JsonObject,
    context: RequestContext<RoleServer>,
) -> Option<CallToolResult> {
    let answered = match secrets::ask_of(name, Value::Object(arguments))? {
        Ok(ask) => secrets::ask(port, ask, context).await,
        Err(error) => Err(error),
    };
    Some(match answered {
        Ok(reply) => {
            let text = ContentBlock::text(reply.text());
            let mut result = CallToolResult::success(vec![text]);
            result.structured_content = Some(reply.structured());
            result
        }
        Err(error) => refusal(&error),
    })
}

/// An error as text alone: some clients hold structured content to the schema of a success.
fn refusal(error: &Error) -> CallToolResult {
    let fault = serde_json::to_string(&Fault::from(error)).expect("a fault is plain data");
    CallToolResult::error(vec![ContentBlock::text(fault)])
}

impl ServerHandler for Server {
    fn get_info(&self) -> ServerConfig {
        let (name, title, mut instructions) = match self.toolset.about() {
            (name, title, words) if self.others.is_empty() => (name, title, words.to_owned()),
            (_, _, words) => ("keyless", "Keyless", words.to_owned()),
        };
        for other in &self.others {
            instructions = instructions + "\n\n" + other.about().2;
        }
        let mut about = Implementation::new(name, env!("CARGO_PKG_VERSION"));
        about.title = Some(title.to_owned());
        let mut capabilities = ServerCapabilities::builder().enable_tools().build();
        if self.has_documents() {
            capabilities.resources = Some(ResourcesCapability::default());
        }
        // For the toolset pack alone: what the spec names, and nothing else.
        if !matches!((&self.toolset, self.others.as_slice()), (Toolset::Pack(_), [])) {
            capabilities.logging = Some(JsonObject::new());
        }
        let mut config =
            ServerConfig::new(capabilities).with_server_info(about).with_instructions(instructions);
        // For a client that asks for a version that nobody knows.
        config.protocol_version = ProtocolVersion::V_2025_06_18;
        config
    }

    fn supported_protocol_versions(&self) -> Cow<'static, [ProtocolVersion]> {
        match (&self.toolset, self.others.as_slice()) {
            // What the spec names, and nothing else.
            (Toolset::Pack(_), []) => {
                Cow::Borrowed(&[ProtocolVersion::V_2025_06_18, ProtocolVersion::V_2025_03_26])
            }
            _ => Cow::Borrowed(ProtocolVersion::KNOWN_VERSIONS),
        }
    }

    #[expect(
        deprecated,
        reason = "SEP-2577 gives logging up; the revisions that clients speak have it"
    )]
    async fn set_level(
        &self,
        request: rmcp::model::SetLevelRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        self.logging.set(request.level);
        Ok(())
    }

    async fn list_tools(
        &self,
        page: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        refuse_cursor(page)?;
        Ok(ListToolsResult::with_all_items(self.tools()))
    }

    async fn list_resources(
        &self,
        page: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        refuse_cursor(page)?;
        let documents = nl::DOCUMENTS.iter().filter(|_| self.has_documents());
        let listed: Vec<Resource> = documents.map(nl::Document::listed).collect();
        Ok(ListResourcesResult::with_all_items(listed))
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        let document = nl::Document::read(&request.uri).filter(|_| self.has_documents());
        let document = document.ok_or_else(|| {
            let words = format!("there is no document {}", shown(&request.uri));
            ErrorData::resource_not_found(words, None)
        })?;
        Ok(ReadResourceResult::new(vec![document]).into())
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let arguments = request.arguments.unwrap_or_default();
        if let Some(result) = self.call(&request.name, arguments, context).await {
            Ok(result.into())
        } else {
            let words = format!("unknown tool: {}", shown(&request.name));
            Err(ErrorData::invalid_params(words, None))
        }
    }

    /// A method of ours whose parameters could not be read arrives here as a foreign one.
    async fn on_custom_request(
        &self,
        request: CustomRequest,
        _: RequestContext<RoleServer>,
    ) -> Result<CustomResult, ErrorData> {
        match request.method.as_str() {
            "logging/setLevel" | "resources/list" | "resources/read" | "tools/call"
            | "tools/list" => {
                let words = format!("the parameters of {} can't be read", request.method);
                Err(ErrorData::invalid_params(words, None))
            }
            other => {
                let words = format!("there is no method {}", shown(other));
                Err(ErrorData::new(ErrorCode::METHOD_NOT_FOUND, words, None))
            }
        }
    }
}

/// Lists come whole, and no cursor was ever given out.
fn refuse_cursor(page: Option<PaginatedRequestParams>) -> Result<(), ErrorData> {
    match page.and_then(|page| page.cursor).filter(|cursor| !cursor.is_empty()) {
        None => Ok(()),
        Some(_) => Err(ErrorData::invalid_params("no cursor was given out: leave it away", None)),
    }
}

/// What a client wrote, shortened and visible.
fn shown(text: &str) -> String {
    keyless_core::SafeText::default().as_they_wrote(text).as_str().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_schema_has_a_format_of_rusts_own() {
        for tool in secrets::TOOLS.iter().map(|row| without_rust_formats(row.tool())) {
            let text = serde_json::to_string(&tool).unwrap();
            assert!(!text.contains(r#""format":"uint"#), "{text}");
        }
        let validate = secrets::TOOLS.iter().find(|row| row.name == "secrets_validate").unwrap();
        let tool = without_rust_formats(validate.tool());
        let output = Value::Object((*tool.output_schema.unwrap()).clone());
        assert!(output["properties"]["format"].is_object(), "a property of that name stays");
    }
}
