//! A tool for a Rust agent framework: runs a command that uses secrets, and gets what may be seen of it.
//!
//! `keyless-core` has the types of the protocol; what is spoken are lines of JSON over the socket that
//! `keyless serve` listens at. Nothing here ever holds a value: the model writes `{{nl:category/NAME}}`, and
//! what comes back was looked through for it.
//!
//! ```text
//! NL_SOCKET=… NL_AGENT_URI=… NL_INSTANCE_ID=… NL_AGENT_CREDENTIAL=nlk_… agent_framework 'curl … {{nl:api/TOKEN}}'
//! ```

use std::{
    env,
    error::Error,
    io::{BufRead as _, BufReader, Write as _},
    os::unix::net::UnixStream,
    process::ExitCode,
};

use jiff::Timestamp;
use keyless_core::{
    action::{Action, ActionRequest, ActionResponse, AgentClaim, Deed, Status},
    nl_message::{MessageType, NL_VERSION},
};
use serde_json::{Value, json};

/// What a framework hands to its model as a tool: `call` with the model's own words.
struct CommandTool {
    lines: BufReader<UnixStream>,
    claim: AgentClaim,
    sent: u32,
}

impl CommandTool {
    /// Connects as a registered agent (`keyless agent register`).
    fn connect(socket: &str, claim: AgentClaim, credential: &str) -> Result<Self, Box<dyn Error>> {
        let lines = BufReader::new(UnixStream::connect(socket)?);
        let mut tool = Self { lines, claim, sent: 0 };
        let mut hello = serde_json::to_value(&tool.claim)?;
        hello["credential"] = credential.into();
        let answer = tool.ask(MessageType::Handshake, &hello)?;
        match answer["status"].as_str() {
            Some("authenticated") => Ok(tool),
            _ => Err(answer["error"]["message"].as_str().unwrap_or("no handshake").into()),
        }
    }

    /// Runs a command. A refusal is an answer too: its words are for the model, which may do better.
    fn call(&mut self, template: &str, purpose: &str) -> Result<ActionResponse, Box<dyn Error>> {
        let mut action = Action::new(Deed::Exec { template: template.to_owned() });
        action.purpose = Some(purpose.to_owned());
        let request = ActionRequest {
            schema: None,
            nl_version: NL_VERSION.to_owned(),
            // The same id is done once, however often it is sent: a retry is safe.
            request_id: format!("req_{}_{}", std::process::id(), self.sent),
            agent: self.claim.clone(),
            action,
        };
        let answer = self.ask(MessageType::ActionRequest, &serde_json::to_value(&request)?)?;
        Ok(serde_json::from_value(answer)?)
    }

    fn ask(&mut self, kind: MessageType, payload: &Value) -> Result<Value, Box<dyn Error>> {
        self.sent += 1;
        let message = json!({
            "nl_version": NL_VERSION,
            "message_type": kind.as_str(),
            "message_id": format!("m-{}-{}", std::process::id(), self.sent),
            "timestamp": format!("{:.3}", Timestamp::now()),
            "payload": payload,
        });
        writeln!(self.lines.get_mut(), "{message}")?;
        let mut line = String::new();
        self.lines.read_line(&mut line)?;
        let mut answer: Value = serde_json::from_str(&line)?;
        Ok(answer["payload"].take())
    }
}

fn main() -> Result<ExitCode, Box<dyn Error>> {
    let template = env::args().nth(1).ok_or("say what to run")?;
    let claim = AgentClaim {
        agent_uri: env::var("NL_AGENT_URI")?,
        instance_id: env::var("NL_INSTANCE_ID")?,
        attestation: None,
    };
    let credential = env::var("NL_AGENT_CREDENTIAL")?;
    let mut tool = CommandTool::connect(&env::var("NL_SOCKET")?, claim, &credential)?;
    let response = tool.call(&template, "the example of docs/nl.md")?;
    if let Some(output) = response.result.and_then(|result| result.stdout) {
        print!("{output}");
    }
    if let Some(fault) = response.error {
        eprintln!("{}: {} {}", fault.code, fault.message, fault.suggestion.unwrap_or_default());
    }
    Ok(if response.status == Status::Success { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
