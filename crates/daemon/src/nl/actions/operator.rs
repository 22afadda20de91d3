//! Actions that the operator runs from their own command line: the vault's key is their grant.

use std::{path::PathBuf, sync::Arc, time::Duration};

use jiff::Timestamp;
use keyless_action::{Limits, withheld_in_words};
use keyless_core::{
    Code, Destination, Error, Grace, SafeText,
    action::{
        Action, ActionFault, ActionRequest, ActionResponse, Deed, Status, TemplateSource, Timing,
    },
    allow_operators_action,
    audit::{Agent, NL_VERSION},
    nl_message::{NlFault, Profile},
};
use keyless_vault::Secret;
use uuid::Uuid;

use super::{
    super::{
        record::{Account, End, end_unwritten, stopped},
        replays::note_own,
    },
    ActionOrder, ActionOutcome, ActionSession, Asking, Standby, resolve_handles,
    versions::{older, warning},
};
use crate::{
    broker::{Broker, agent, session_id},
    nl::resolve::{names, places},
    owner::Owner,
    places::Places,
};

/// How the operator wants an action done.
#[derive(Clone, Debug, Default)]
pub struct OwnTerms {
    /// The hosts that a value in the jail may reach.
    pub allowed_hosts: Vec<Destination>,
    /// Where a command starts.
    pub working_directory: Option<PathBuf>,
    /// How long a command with a value in a file may take; the protocol's minute when absent.
    pub tempfile_life: Option<Duration>,
    /// For how long values that were replaced are given.
    pub grace: Grace,
    /// How it is marked where a value was taken out.
    pub profile: Profile,
}

/// The operator's actions, one after the other; a file that one renders, the next may use.
pub struct OwnActions {
    broker: Broker,
    agent: Arc<Agent>,
    session: ActionSession,
    terms: OwnTerms,
    /// While this lives, nobody else closes what is under way.
    owner: Owner,
}

impl OwnActions {
    /// For one run of the command line.
    pub fn open(broker: &Broker, places: &Places, terms: OwnTerms) -> Result<Self, Error> {
        let agent = agent("action", &session_id("o"));
        let mut limits = Limits { profile: terms.profile, ..Limits::default() };
        limits.tempfile_life = terms.tempfile_life.unwrap_or(limits.tempfile_life);
        // One command is run, and no other follows.
        let jails = Arc::new(Standby::keeping(0));
        let (own, name) = (agent.clone(), agent.session_id.clone());
        let session = ActionSession::open(broker, places, own, name, limits, terms.grace, &jails)?;
        let owner = Owner::begin(places, broker.vault().store().audit_chain())?;
        broker.log().of_broker(owner.id());
        Ok(Self { broker: broker.clone(), agent: Arc::new(agent), session, terms, owner })
    }

    /// Does actions one after the other, or checks that they could be done. Each is on record before it is told what came
    /// of it.
    pub async fn submit_each(&self, requests: Vec<ActionRequest>) -> Vec<ActionResponse> {
        let mut responses = Vec::with_capacity(requests.len());
        let mut left = requests.into_iter();
        while let Some(request) = left.next() {
            let fault = is_for_nothing(&request, left.as_slice()).then(gone_at_once);
            responses.push(self.submit_unless(request, fault).await);
        }
        responses
    }

    /// As [`Self::submit_each`], of one.
    pub async fn submit(&self, request: ActionRequest) -> ActionResponse {
        self.submit_unless(request, None).await
    }

    async fn submit_unless(
        &self,
        request: ActionRequest,
        fault: Option<NlFault>,
    ) -> ActionResponse {
        let action_id = format!("act_{}", Uuid::now_v7());
        let account = Account {
            log: self.broker.log().clone(),
            agent: Arc::clone(&self.agent),
            action_id: action_id.clone(),
            kind: Some(request.action.kind()),
            unknown_kind: None,
            correlation_id: format!("req-{}", Uuid::now_v7()),
            purpose: request.action.purpose.clone(),
            source_ip: None,
            is_dry_run: request.action.dry_run,
            delegation: Vec::new(),
            begun: Timestamp::now(),
        };
        let mut response = ActionResponse {
            schema: Some("https://nlprotocol.org/schemas/v1.0/action-response.json".to_owned()),
            nl_version: NL_VERSION.to_owned(),
            request_id: request.request_id,
            action_id,
            ..ActionResponse::default()
        };
        let mut end = End::default();
        let is_for_agents = matches!(request.action.deed, Deed::Delegate { .. });
        let fault = fault.or_else(|| is_for_agents.then(for_agents));
        let done = if let Some(fault) = fault {
            Err(fault)
        } else {
            let done = self.attempt(request.action, &account, &mut end, &mut response).await;
            done.map_err(NlFault::from)
        };
        if let Err(fault) = done {
            fail(&mut response, &fault);
        }
        end.code = response.error.as_ref().and_then(|fault| fault.cause);
        end.redacted_count = response.redacted_count;
        end.exit_code = response.result.as_ref().and_then(|result| result.exit_code);
        let has_begun = end.used;
        match account.close(end).await {
            Ok(audit_ref) => response.audit_ref = audit_ref,
            Err(error) => {
                self.owner.owe();
                response.result = None;
                fail(&mut response, &end_unwritten(error, has_begun));
            }
        }
        response
    }

    /// All secrets, and the places that handles name and no secret stands for.
    async fn visible(&self, action: &Action) -> Result<Vec<Secret>, Error> {
        let vault = self.broker.vault();
        let mut visible = vault.list().await?.to_vec();
        // What can't be read is told by whoever resolves them.
        let places = places(vault, &action.handles().unwrap_or_default()).await?;
        for place in places {
            vault.let_open(&place);
            visible.push(place);
        }
        Ok(visible)
    }

    async fn attempt(
        &self,
        action: Action,
        account: &Account,
        end: &mut End,
        response: &mut ActionResponse,
    ) -> Result<(), Error> {
        let action = with_text(action)?;
        let visible = self.visible(&action).await?;
        let mut resolved = resolve_handles(&action, self.broker.vault(), &visible)?;
        let kept = self.session.kept_in(&action, None).await;
        for one in kept.iter().flat_map(|file| &file.references) {
            if !resolved.contains(one) {
                resolved.push(one.clone());
            }
        }
        for (handle, path) in &resolved {
            let older = older(self.broker.vault(), handle, path, self.terms.grace).await?;
            response.warnings.extend(older.and_then(|given| warning(handle, given)));
        }
        end.about = resolved.iter().map(|(_, path)| path.clone()).collect();
        let names = names(resolved.iter().map(|(handle, path)| (handle, path)));
        let secrets = resolved.iter().map(|(handle, path)| (handle, path));
        let hosts = Some(self.terms.allowed_hosts.as_slice());
        let id = &account.action_id;
        let checked = self.session.could_run(&action, id, secrets, hosts).await?;
        if action.dry_run {
            response.status = Status::DryRunOk;
            response.secrets_validated = names;
            return Ok(());
        }
        let kind = action.kind();
        let allowed = resolved
            .into_iter()
            .map(|(handle, path)| (handle, allow_operators_action(&path, kind)))
            .collect();
        let resolved_at = Timestamp::now();
        let order = ActionOrder {
            action_id: response.action_id.clone(),
            correlation_id: account.correlation_id.clone(),
            checked,
            allowed,
            kept: kept.into_iter().map(|file| file.made_by).collect(),
            allowed_hosts: self.terms.allowed_hosts.clone(),
            permissions: Vec::new(),
            grants: None,
            working_directory: self.terms.working_directory.clone(),
            asking: Asking::Operator,
            foresight: None,
        };
        // What can't be put on record afterwards is better not begun.
        note_own(self.broker.vault().store(), id, self.owner.id()).await?;
        end.used = true;
        let outcome = self.session.run(order).await?;
        end.stopped = stopped(outcome.exit);
        end.note = end.note.take().or(withheld_in_words(&outcome.withheld));
        response.secrets_used = names;
        let (executed_at, completed_at) = (outcome.executed_at, outcome.completed_at);
        response.timing = Some(Timing::new(account.begun, resolved_at, executed_at, completed_at));
        fill(response, outcome);
        Ok(())
    }
}

fn fail(response: &mut ActionResponse, fault: &NlFault) {
    response.status = Status::stopped_by(fault.code());
    response.error = Some(ActionFault::from(fault));
}

/// `delegate` is between agents: here nobody is who hands on.
fn for_agents() -> NlFault {
    let words = "delegate hands an agent's work to another agent, and the command line is no agent";
    let advice =
        "Submit the delegated_action itself, or have an agent send the delegate to keyless serve.";
    NlFault::new(Code::ActionUnknown, SafeText::words(words)).suggesting(SafeText::words(advice))
}

/// Whether a request renders a file that none of those behind it names: the files of one run of the command line go with
/// it, and the machine has none of them.
fn is_for_nothing(request: &ActionRequest, behind: &[ActionRequest]) -> bool {
    let Deed::Template { output_path, .. } = &request.action.deed else { return false };
    let is_named = |path: &String| {
        let mut commands = behind.iter().filter_map(|later| later.action.command());
        commands.any(|command| command.contains(path.as_str()))
    };
    !request.action.dry_run && !output_path.as_ref().is_some_and(is_named)
}

fn gone_at_once() -> NlFault {
    let words = "the rendered file would be gone with this command: it is for the actions behind it, and none of them names it";
    let advice = "Send a list: the template with an output_path, then the action whose command reads that path. What a \
                  program of yours should read lies in no file: keyless run gives it placeholders.";
    NlFault::new(Code::Usage, SafeText::words(words)).suggesting(SafeText::words(advice))
}

/// Puts what came of an action into its response.
pub fn fill(response: &mut ActionResponse, outcome: ActionOutcome) {
    response.status = outcome.status;
    response.error = outcome.fault.as_ref().map(told);
    response.redacted_count = outcome.redactions.iter().map(|redaction| redaction.count).sum();
    response.redacted = response.redacted_count > 0;
    response.result = outcome.result;
    response.warnings.extend(outcome.warnings);
}

/// A template's file is the operator's own, so they may name any.
fn with_text(action: Action) -> Result<Action, Error> {
    let Deed::Template { source: TemplateSource::Path(path), .. } = &action.deed else {
        return Ok(action);
    };
    let text = std::fs::read_to_string(path).map_err(|error| {
        let words = SafeText::words("the template: ").and(error.kind());
        Error::with(Code::PathUnusable, words)
    })?;
    Ok(action.with_content(text))
}

fn told(error: &Error) -> ActionFault {
    ActionFault::from(&NlFault::from(error.clone()))
}
