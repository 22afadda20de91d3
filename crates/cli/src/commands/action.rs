//! `keyless exec` and `keyless action`: what agents ask for, asked by a person.

use std::{
    io::{self, Write as _},
    path::Path,
    process::ExitCode,
    time::Duration,
};

use data_encoding::BASE64;
use keyless_core::{
    Code, Error, Exit, Reference, SafeText,
    action::{
        Action, ActionContext, ActionError, ActionRequest, ActionResponse, AgentClaim, Deed,
        MAX_BATCH, OutputEncoding, Status,
    },
};
use keyless_daemon::{
    Broker, Config, EgressDoor,
    nl::actions::{OwnActions, OwnTerms},
};
use serde_json::Value;

use super::{have_agreed, open_store, opened_vault, read_text};
use crate::{
    args::{ActionCommand, ExecArgs, RouteArgs, SubmitArgs, TermArgs},
    prompt,
    ui::Ui,
};

/// Runs a command line with placeholders; its streams and exit status pass through.
pub(super) async fn exec(ui: &Ui, args: ExecArgs) -> Result<ExitCode, Error> {
    let action = Action {
        timeout: Some(Duration::from_secs(args.timeout)),
        dry_run: args.dry_run,
        context: args
            .project
            .map(|project| ActionContext { project: Some(project), environment: None }),
        ..Action::new(Deed::Exec { template: args.template.join(" ") })
    };
    if let Some(bare) = bare_reference(action.command().unwrap_or_default()) {
        ui.warn(format!(
            "{{{{{bare}}}}} stays as it is written; a reference to a secret is {{{{nl:{bare}}}}}"
        ));
    }
    let actions = open(&args.terms).await?;
    let response = actions.submit(request(action)).await;
    if ui.is_json() {
        ui.machine(&json(&response)?);
        return Ok(status(&response));
    }
    for warning in &response.warnings {
        ui.warn(warning);
    }
    if let Some(result) = &response.result {
        // To a reader who has gone, nothing is to be said.
        let _ = io::stdout().write_all(&written(result.stdout.as_deref(), result.encoding));
        let _ = io::stderr().write_all(&written(result.stderr.as_deref(), result.encoding));
    }
    if response.redacted {
        ui.warn(match response.redacted_count {
            1 => "a value was taken out of the output".to_owned(),
            count => format!("{count} values were taken out of the output"),
        });
    }
    let ran = response.result.as_ref().is_some_and(|result| result.exit_code.is_some());
    match &response.error {
        Some(error) if !ran || response.status == Status::Timeout => {
            Ui::fault(&error.message, error.cause.map(|cause| cause.remediation().action));
        }
        _ => {}
    }
    if response.status == Status::DryRunOk {
        ui.line(&format!("It could be run. Secrets: {}", response.secrets_validated.join(", ")));
    }
    Ok(status(&response))
}

/// The first `{{category/NAME}}`, which is a reference but for `nl:`. What has no slash may be anybody's template.
fn bare_reference(command: &str) -> Option<&str> {
    let inside = command.split("{{").skip(1).filter_map(|rest| rest.split_once("}}"));
    let mut inside = inside.map(|(inside, _)| inside);
    inside.find(|text| text.contains('/') && Reference::parse(text).is_ok())
}

/// What the command wrote, from what the answer says.
fn written(output: Option<&str>, encoding: Option<OutputEncoding>) -> Vec<u8> {
    let output = output.unwrap_or_default().as_bytes();
    match encoding {
        Some(OutputEncoding::Base64) => BASE64.decode(output).unwrap_or_else(|_| output.to_vec()),
        None => output.to_vec(),
    }
}

/// Submits requests from a file; the responses go to standard output as JSON.
pub(super) async fn run(_: &Ui, command: ActionCommand) -> Result<ExitCode, Error> {
    let (args, dry_run) = match command {
        ActionCommand::DryRun(args) => (args, true),
        ActionCommand::Submit(args) => (args, false),
    };
    let SubmitArgs { terms, file } = args;
    let (mut requests, is_batch) = requests(&file)?;
    let actions = open(&terms).await?;
    for request in &mut requests {
        request.action.dry_run |= dry_run;
    }
    let responses = actions.submit_each(requests).await;
    let worst = responses.iter().find(|response| !is_good(response));
    let code = worst.map_or(ExitCode::SUCCESS, status);
    let text = match responses.as_slice() {
        [response] if !is_batch => json(response)?,
        all => serde_json::to_string_pretty(all).map_err(|_| Error::new(Code::Internal))?,
    };
    Ui::verbatim(&text);
    Ok(code)
}

async fn open(terms: &TermArgs) -> Result<OwnActions, Error> {
    let (places, store) = open_store().await?;
    let vault = opened_vault(store, &terms.factor, || prompt::factor(&terms.factor)).await?;
    let file = Config::load(&places.config_file())?;
    let RouteArgs { connect_to, extra_root } = &terms.routes;
    let agreed = have_agreed(&places, &vault, file, &terms.factor).await?;
    let config = agreed.with_flags(connect_to, extra_root)?;
    let vault = std::sync::Arc::new(keyless_daemon::with_sources(vault, &places, &config)?);
    let log = keyless_daemon::audit_log(&vault);
    let broker = Broker::new(EgressDoor::new(&config)?, vault, log);
    let own = OwnTerms {
        allowed_hosts: terms.host.clone(),
        working_directory: std::env::current_dir().ok(),
        tempfile_life: Some(config.nl.tempfile_life()),
        grace: config.nl.grace(),
        profile: config.nl.profile,
    };
    OwnActions::open(&broker, &places, own)
}

fn requests(file: &Path) -> Result<(Vec<ActionRequest>, bool), Error> {
    let text = read_text(file)?;
    let name =
        if file == Path::new("-") { "standard input".into() } else { file.to_string_lossy() };
    let fault = |code, place: &str, words: &str| {
        let told = SafeText::default().as_they_wrote(&name).as_they_wrote(place).and(": ");
        Error::with(code, told.as_they_wrote(words))
    };
    let unfit = |words: &str| fault(Code::MessageMalformed, "", words);
    let json: Value =
        serde_json::from_str(&text).map_err(|error| unfit(&format!("this is no JSON: {error}")))?;
    let read = |place: &str, json: &Value| {
        ActionRequest::from_json(json).map_err(|error| {
            let code = match &error {
                ActionError::Handle(_) => Code::PlaceholderInvalid,
                _ => Code::MessageMalformed,
            };
            fault(code, place, &error.to_string())
        })
    };
    match &json {
        Value::Array(all) if !(1..=MAX_BATCH).contains(&all.len()) => {
            Err(unfit(&format!("a list has 1 to {MAX_BATCH} requests")))
        }
        Value::Array(all) => {
            let each = (1..).zip(all).map(|(n, one)| read(&format!(", request {n}"), one));
            Ok((each.collect::<Result<_, _>>()?, true))
        }
        one => Ok((vec![read("", one)?], false)),
    }
}

fn request(action: Action) -> ActionRequest {
    ActionRequest {
        schema: None,
        nl_version: "1.0".to_owned(),
        request_id: "cli".to_owned(),
        agent: AgentClaim {
            agent_uri: format!("nl://keyless.dev/action/{}", env!("CARGO_PKG_VERSION")),
            instance_id: "operator".to_owned(),
            attestation: None,
        },
        action,
    }
}

fn is_good(response: &ActionResponse) -> bool {
    matches!(response.status, Status::DryRunOk | Status::Success)
}

/// The command's own exit status; 124 when its time was over, as `timeout` has it; the fault's where nothing ran.
fn status(response: &ActionResponse) -> ExitCode {
    let ran = response.result.as_ref().and_then(|result| result.exit_code);
    match (response.status, ran) {
        (Status::Timeout, _) => ExitCode::from(124),
        (_, Some(code)) => ExitCode::from(u8::try_from(code).unwrap_or(1)),
        _ if is_good(response) => ExitCode::SUCCESS,
        _ => {
            let cause = response.error.as_ref().and_then(|fault| fault.cause);
            ExitCode::from(cause.map_or(Exit::Failure, Code::exit) as u8)
        }
    }
}

fn json(response: &ActionResponse) -> Result<String, Error> {
    serde_json::to_string_pretty(response).map_err(|_| Error::new(Code::Internal))
}
