//! A tool for a Rust agent framework: runs a command that uses secrets, and gets what may be seen of it.
//!
//! Nothing here ever holds a value: the model writes `{{nl:category/NAME}}`, and what comes back was looked through
//! for it. Inside `keyless run` it is the session's own agent and needs no variables; elsewhere a registered one.
//!
//! ```text
//! NL_SOCKET=… NL_AGENT_URI=… NL_INSTANCE_ID=… NL_AGENT_CREDENTIAL=nlk_… agent_framework 'curl … {{nl:api/TOKEN}}'
//! ```

use std::{env, process::ExitCode};

use keyless_client::{Client, Error};
use keyless_core::action::{Action, ActionResponse, Deed, Status};

/// What a framework hands to its model as a tool: `call` with the model's own words.
struct CommandTool(Client);

impl CommandTool {
    /// Runs a command. A refusal is an answer too: its words are for the model, which may do better.
    async fn call(&self, template: &str, purpose: &str) -> Result<ActionResponse, Error> {
        let deed = Deed::Exec { template: template.to_owned() };
        let action = Action { purpose: Some(purpose.to_owned()), ..Action::new(deed) };
        self.0.execute(&self.0.request(action)).await
    }
}

async fn run(template: &str) -> Result<Status, Error> {
    let tool = CommandTool(Client::from_environment().await?);
    let response = tool.call(template, "the example of docs/nl.md").await?;
    if let Some(output) = response.result.and_then(|result| result.stdout) {
        print!("{output}");
    }
    if let Some(fault) = response.error {
        let number = fault.nl_code.unwrap_or(fault.code);
        eprintln!("{number}: {} {}", fault.message, fault.suggestion.unwrap_or_default());
    }
    Ok(response.status)
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    match run(&env::args().nth(1).unwrap_or_default()).await {
        Ok(Status::Success) => return ExitCode::SUCCESS,
        Ok(_) => {}
        Err(error) => eprintln!("{error} {}", error.next_step().unwrap_or_default()),
    }
    ExitCode::FAILURE
}
