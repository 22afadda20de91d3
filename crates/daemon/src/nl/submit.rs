//! One action, from its message to its answer: guard, bounds, references, grants, approval, execution,
//! and the entry in the log that is durable before the agent is told anything.

mod batch;
mod course;
mod file;
mod told;

use std::{path::PathBuf, sync::Arc, time::Duration};

use jiff::Timestamp;
use keyless_action::{Checked, Kept, withheld_in_words};
use keyless_core::{
    ActionType, Code, Handle, HandleTarget, SafeText, SecretPath,
    action::{Action, ActionResponse, Deed, Status, TemplateSource},
    grant::{Allowance, Categories, GrantIndex, Request, SecretPattern, Subject, Verdict},
    json_size,
    nl_message::{MessageType, NlFault},
    threat::Band,
};
use keyless_vault::{Secret, Vault};
use serde_json::{Map, Value, json};
use uuid::Uuid;

use self::{
    course::note_of_aliases,
    file::Hidden,
    told::{as_written, bad_handle, kind_of, read, response, text},
};
pub(super) use self::{
    course::{Ahead, Course, Done},
    told::{Unread, denied},
};
use super::{
    acting::Acting,
    actions::{ActionOrder, ActionOutcome, Asking, Foresight, concealed},
    answer::{Outcome, message_id},
    apart::{Weight, apart},
    approve::Approval,
    caller::Caller,
    record::{Account, End, end_unwritten, more_before, stopped},
    resolve::{Meant, View, missing, names, place_subject, places, subject, subjects},
    room::Place,
    service::NlService,
};

/// How soon a running action learns that one of its secrets is compromised.
const COMPROMISE_SEEN: Duration = Duration::from_millis(400);
/// What all of a message's actions may give, as JSON, in bytes.
const MAX_ANSWER: usize = (16 << 20) + (64 << 10);

/// What the grants allow.
pub(super) struct Allowed {
    /// The secrets that are meant.
    pub(super) meant: Vec<Meant>,
    pub(super) allowance: Allowance,
    /// Whether a person has to be asked first.
    pub(super) is_asked: bool,
}

/// An action that was tried, of which nobody knows yet.
struct Tried {
    account: Account,
    course: Course,
    done: Result<Done, NlFault>,
}

impl NlService {
    /// Begins the preparations for a message's command before it is read, which takes as long as they do; nothing for what
    /// runs none.
    pub(super) fn foresee(&self, payload: &Map<String, Value>) -> Option<Foresight> {
        let action = payload.get("action")?;
        let kind: ActionType = action.get("type")?.as_str()?.parse().ok()?;
        let is_dry_run = action.get("dry_run").and_then(Value::as_bool) == Some(true);
        (kind.runs_command() && !is_dry_run).then(|| self.begin_to_foresee())
    }

    fn begin_to_foresee(&self) -> Foresight {
        Foresight::begin(&self.broker, &self.places, &self.jails)
    }

    /// Does what an action message asks for: one action, or several one after the other.
    pub(super) async fn submit(
        &self,
        caller: &Caller,
        payload: &Map<String, Value>,
        id: &str,
        received: Timestamp,
        mut ahead: Ahead,
    ) -> Result<Outcome, NlFault> {
        if payload.contains_key("action") && payload.contains_key("actions") {
            let words = SafeText::words("a message has an action or actions, not both");
            return Err(NlFault::new(Code::MessageMalformed, words));
        }
        // Passed over, it would have done what was only to be looked at.
        if payload.contains_key("dry_run") {
            let words = SafeText::words("dry_run is a member of the action, not of the message");
            return Err(NlFault::new(Code::MessageMalformed, words));
        }
        let Some(actions) = payload.get("actions") else {
            let action = payload.get("action").cloned().unwrap_or_default();
            let action = parsed(action).await;
            let course = Course { ahead, ..Course::default() };
            let mut tried = self.tried(course, caller, action, id, received).await;
            // One that was begun before is no action, whatever this copy of it has come to.
            tried.course.ahead.noting.written().await?;
            return Ok(self.conclude(caller, tried).await.within(MAX_ANSWER));
        };
        ahead.noting.written().await?;
        self.batch(caller, payload, actions, id).await
    }

    /// One action, or why there is none.
    pub(super) async fn one(
        &self,
        caller: &Caller,
        read: Result<Action, Unread>,
        request_id: &str,
        received: Timestamp,
    ) -> Outcome {
        let tried = self.tried(Course::default(), caller, read, request_id, received).await;
        self.conclude(caller, tried).await
    }

    /// Whether an action may use its secrets, and why not: all that it is asked but for what its own command, call or text
    /// could be refused for, of which it says nothing.
    pub(super) async fn access(
        &self,
        caller: &Caller,
        action: &Action,
        request_id: &str,
        received: Timestamp,
    ) -> Outcome {
        let knowing = self.begun_by(caller).into_iter().collect();
        let mut course = Course { knowing, ..Course::default() };
        let account = self.account(caller, Some(action.kind()), request_id, received);
        let account = Account { is_dry_run: true, ..account };
        let done = Box::pin(self.may_use(caller, action, &mut course)).await;
        let done = done.map(|()| Done::Checked);
        self.conclude(caller, Tried { account, course, done }).await
    }

    async fn may_use(
        &self,
        caller: &Caller,
        action: &Action,
        course: &mut Course,
    ) -> Result<(), NlFault> {
        let (guard, unsaid) = (Arc::clone(&self.guard), action.clone());
        apart(Weight::of_action(action), move || guard.check_unsaid(&unsaid)).await??;
        self.may_act(caller).await?;
        let Allowed { meant, allowance, .. } = self.allowed(caller, action, course).await?;
        course.grants = allowance.grants().iter().map(ToString::to_string).collect();
        self.session_of(caller)?.may_use(&meant).await?;
        if matches!(action.deed, Deed::Delegate { .. }) {
            self.could_delegate(caller, &meant).await?;
        }
        Ok(())
    }

    async fn tried(
        &self,
        mut course: Course,
        caller: &Caller,
        read: Result<Action, Unread>,
        request_id: &str,
        received: Timestamp,
    ) -> Tried {
        let (kind, purpose, is_dry_run) = match &read {
            Ok(action) => (Some(action.kind()), action.purpose.clone(), action.dry_run),
            Err(unread) => (unread.kind, None, false),
        };
        let unknown_kind =
            read.as_ref().err().and_then(|unread| unread.unknown_kind.as_deref().cloned());
        let account = self.account(caller, kind, request_id, received);
        let account = Account { unknown_kind, purpose, is_dry_run, ..account };
        course.knowing.extend(self.begun_by(caller));
        if let Ok(action) = &read {
            course.note_aliases(&action.handles().unwrap_or_default());
        }
        let done = match read {
            Ok(action) => Box::pin(self.attempt(caller, action, &account, &mut course)).await,
            Err(unread) => Err(unread.fault),
        };
        Tried { account, course, done }
    }

    /// Why an action was not even looked at, as others of its agent before that were not written down. What it says of the
    /// agent is for the caller to count.
    pub(super) async fn turned_away(
        &self,
        caller: &Caller,
        unread: Unread,
        before: u64,
        request_id: &str,
        received: Timestamp,
    ) -> Outcome {
        let account = self.account(caller, unread.kind, request_id, received);
        let account = Account { unknown_kind: unread.unknown_kind.map(|kind| *kind), ..account };
        let knowing = self.begun_by(caller).into_iter().collect();
        let course = Course { note: more_before(before), knowing, ..Course::default() };
        let (response, fault) = response(&account, &course, Err(unread.fault));
        let account = account.cleaned(|text| course.cleaned(text));
        self.tell(&account, course, (response, 0), fault).await
    }

    /// What an agent is told that named bait outside of an action, once it is counted against it.
    pub(super) async fn touched(
        &self,
        caller: &Caller,
        kind: ActionType,
        bait: SecretPath,
    ) -> NlFault {
        let account = self.account(caller, Some(kind), &message_id(), Timestamp::now());
        let course = Course { about: vec![bait], ..Course::default() };
        let fault = NlFault::from(Code::HoneypotTouched);
        match self.watch(caller, &account, &course, Some(&fault)).await {
            Ok(_) => fault,
            Err(error) => error.into(),
        }
    }

    fn account(
        &self,
        caller: &Caller,
        kind: Option<ActionType>,
        request_id: &str,
        received: Timestamp,
    ) -> Account {
        Account {
            log: self.log.clone(),
            agent: Arc::new(caller.as_logged()),
            action_id: format!("act_{}", Uuid::new_v4()),
            kind,
            unknown_kind: None,
            correlation_id: request_id.to_owned(),
            purpose: None,
            source_ip: caller.source_ip,
            is_dry_run: false,
            delegation: caller.delegation.clone(),
            begun: received,
        }
    }

    /// Takes in what the end says of the agent, writes it down and makes the answer.
    async fn conclude(&self, caller: &Caller, tried: Tried) -> Outcome {
        let Tried { account, course, done } = tried;
        let (mut response, mut fault) = response(&account, &course, done);
        let account = account.cleaned(|text| course.cleaned(text));
        let redacted_count = response.redacted_count;
        match self.watch(caller, &account, &course, fault.as_ref()).await {
            Ok(None) => {}
            Ok(Some(withheld)) => {
                (response.status, response.result) = (Status::Denied, None);
                fault = Some(withheld);
            }
            Err(error) => {
                (response.status, response.result) = (Status::Error, None);
                fault = Some(error.into());
            }
        }
        self.tell(&account, course, (response, redacted_count), fault).await
    }

    /// Writes the end down and makes the answer; what can't be written down is not told.
    async fn tell(
        &self,
        account: &Account,
        course: Course,
        (mut response, redacted_count): (ActionResponse, u64),
        fault: Option<NlFault>,
    ) -> Outcome {
        let aliases = note_of_aliases(&course.aliases);
        let notes: Vec<String> =
            course.redacted_forms().into_iter().chain(aliases).chain(course.note.clone()).collect();
        let note = (!notes.is_empty()).then(|| course.cleaned(&notes.join("; ")));
        let has_begun = course.ran;
        let end = End {
            code: fault.as_ref().map(NlFault::code),
            rule_id: fault.as_ref().and_then(|fault| text(fault, "rule_id")),
            named: fault
                .as_ref()
                .and_then(|fault| text(fault, "secret_ref"))
                .map(|name| as_written(&course.cleaned(&name))),
            used: has_begun,
            grants: course.grants,
            redacted_count,
            exit_code: response.result.as_ref().and_then(|result| result.exit_code),
            stopped: course.stopped,
            note,
            about: course.about,
        };
        let fault = match account.close(end).await {
            Ok(audit_ref) => {
                response.audit_ref = audit_ref;
                fault
            }
            Err(error) => {
                (response.status, response.result) = (Status::Error, None);
                Some(end_unwritten(error, has_begun))
            }
        };
        let body = serde_json::to_value(&response).unwrap_or_default();
        match fault {
            None => Outcome::done(MessageType::ActionResponse, 200, body),
            Some(fault) => {
                let fault = fault.under(self.limits.profile);
                Outcome::failed(MessageType::ActionResponse, body, fault).of_begun(has_begun)
            }
        }
    }

    async fn attempt(
        &self,
        caller: &Caller,
        action: Action,
        account: &Account,
        course: &mut Course,
    ) -> Result<Done, NlFault> {
        let kept = self.kept_in(caller, &action).await;
        let action = match self.guarded(action, kept.clone()).await {
            Ok(action) => action,
            Err(Stopped { fault, handles }) => {
                return Err(self.bait_among(&handles, course).await.unwrap_or(fault));
            }
        };
        let is_handed_on = matches!(action.deed, Deed::Delegate { .. });
        // Before it is judged: what it may do is asked when its turn has come.
        if !action.dry_run && !is_handed_on {
            course.place = Some(self.entered(caller).await?);
        }
        let band = self.may_act(caller).await?;
        if is_handed_on {
            course.ahead.noting.written().await?;
            let is_watched = self.is_watched(caller, band).await?;
            return Box::pin(self.delegate(caller, action, account, course, is_watched)).await;
        }
        if !action.dry_run && action.kind().runs_command() && course.ahead.foresight.is_none() {
            course.ahead.foresight = Some(self.begin_to_foresee());
        }
        let Allowed { meant, allowance, is_asked } = self.allowed(caller, &action, course).await?;
        // A file may have come since the guard has looked.
        let is_new = course.kept.iter().any(|file| !kept.contains(file));
        let action = if is_new { self.guarded(action, course.kept.clone()).await? } else { action };
        // What can't be done takes nobody's time, and no use of a grant.
        let session = self.session_of(caller)?;
        course.knowing.push(session.shared());
        let hosts = Some(allowance.allowed_hosts());
        let checked = session.could_run(&action, &account.action_id, &meant, hosts).await?;
        session.check_room(&action, &account.action_id)?;
        course.ahead.noting.written().await?;
        // Whatever a watched agent does waits for a person, as if its grant had said so.
        let is_asked = is_asked || self.is_watched(caller, band).await?;
        // A file of the delegate's own is none that a person was shown with what was handed on.
        let was_asked = caller.was_asked_about() && course.kept.is_empty();
        if is_asked && !action.dry_run && !was_asked {
            let hosts = allowance.allowed_hosts();
            let kept = &course.kept;
            self.approve(Approval { caller, action: &action, meant: &meant, kept, hosts }).await?;
        }
        course.grants = allowance.grants().iter().map(ToString::to_string).collect();
        course.resolved_at = Some(Timestamp::now());
        if action.dry_run {
            if is_asked && !was_asked {
                course.warnings.push("a person will be asked before it is done".to_owned());
            }
            return Ok(Done::Checked);
        }
        let allowed = Allowed { meant, allowance, is_asked };
        self.run(caller, &session, checked, allowed, account, course)
            .await
            .map(|outcome| Done::Ran(Box::new(outcome)))
    }

    /// A place, once there is one; who was stopped while it waited is told why.
    async fn entered(&self, caller: &Caller) -> Result<Place, NlFault> {
        let instance = &caller.aid.instance_id;
        let place = self.room.enter(instance).await;
        if place.is_err()
            && let Ok(aid) = self.agents.show(instance).await
        {
            self.agents.in_force(&aid, Timestamp::now()).await?;
        }
        place
    }

    /// Whether a person is asked about all that the agent of this band does, or somebody whose work it does.
    async fn is_watched(&self, caller: &Caller, band: Band) -> Result<bool, NlFault> {
        let mut is_watched = band >= Band::Orange;
        for issuer in caller.everybody().skip(1) {
            is_watched =
                is_watched || self.detection.band(&issuer.instance_id).await? >= Band::Orange;
        }
        Ok(is_watched)
    }

    /// How the agent is to be dealt with, if it may still act: it may have been suspended since its message came, while
    /// earlier actions of it were done.
    async fn may_act(&self, caller: &Caller) -> Result<Band, NlFault> {
        let instance = &caller.aid.instance_id;
        let aid = self.agents.show(instance).await?;
        self.agents.in_force(&aid, Timestamp::now()).await?;
        match self.detection.band(instance).await? {
            Band::Red => Err(Code::ThreatTooHigh.into()),
            band => Ok(band),
        }
    }

    /// What the grants allow, and whether a person has to be asked first: then it is what it comes to once they have
    /// said so, so that nobody is asked about what can't be.
    pub(super) async fn allowed(
        &self,
        caller: &Caller,
        action: &Action,
        course: &mut Course,
    ) -> Result<Allowed, NlFault> {
        let (meant, verdict) = self.judge(caller, action, course, false).await?;
        let (meant, verdict, is_asked) = match verdict {
            Verdict::Ask(needed) => {
                course.grants = needed.each.iter().map(|(_, at)| at.grant.to_string()).collect();
                let (meant, verdict) = self.judge(caller, action, course, true).await?;
                (meant, verdict, true)
            }
            decided => (meant, decided, false),
        };
        match verdict {
            Verdict::Allow(allowance) => Ok(Allowed { meant, allowance, is_asked }),
            Verdict::Deny(denial) => {
                let fault = denied(&denial, &meant, action.kind());
                let fault = course.of_rendered(fault, &denial);
                Err(self.grants.with_window(fault, &denial))
            }
            Verdict::Ask(_) => Err(Code::ApprovalRequired.into()),
        }
    }

    /// The action with its text, if the guard lets it pass with these rendered files.
    async fn guarded(&self, mut action: Action, kept: Vec<Kept>) -> Result<Action, Stopped> {
        let (weight, guard) = (Weight::of_action(&action), Arc::clone(&self.guard));
        let hidden = match template(&mut action) {
            Some(TemplateSource::Path(_)) => {
                concealed(&self.places, &self.broker).await.map_err(NlFault::from)?
            }
            _ => Vec::new(),
        };
        let judging = move || {
            let path = with_text(&mut action, hidden)?;
            let Err(fault) = guard.check_action(&action, &kept) else { return Ok(action) };
            let handles = action.handles().unwrap_or_default();
            let fault = match path {
                None => fault,
                // The file's text is none of the agent's: it may have more in it than what the rule is about.
                Some(path) => fault.with("blocked_action", path),
            };
            Err(Stopped { fault, handles })
        };
        apart(weight, judging).await?
    }

    /// What is said of an action in place of why it was stopped, where it names bait and no other secret by that name.
    async fn bait_among(&self, handles: &[Handle], course: &mut Course) -> Option<NlFault> {
        let secrets = self.vault.list().await.ok()?;
        let (bait, real): (Vec<_>, Vec<_>) =
            secrets.iter().partition(|secret| secret.metadata.honeypot);
        let view = |visible| {
            let (vault, kind) = (&*self.vault, ActionType::Exec);
            View { vault, visible, dormant: Vec::new(), places: Vec::new(), context: None, kind }
        };
        refuse_bait(handles, &view(real), &view(bait), course).err()
    }

    /// Finds the secrets and asks the grants about them.
    pub(super) async fn judge(
        &self,
        caller: &Caller,
        action: &Action,
        course: &mut Course,
        approved: bool,
    ) -> Result<(Vec<Meant>, Verdict), NlFault> {
        // Bounds are the agent's own, grants those of who delegated to it.
        let (grantee, kind) = (caller.grantee(), action.kind());
        let secrets = self.vault.list().await?;
        let categories = self.vault.categories().await?;
        if let Some(acting) = &caller.acting {
            // Who has but heard a token's name learns nothing of what its issuer may name.
            self.verify_delegation(caller, acting, kind, &[], &categories).await?;
        }
        let grants = self.grants.refresh().await?;
        caller.covers(kind, &[], &categories)?;
        let handles = action.handles().map_err(|error| bad_handle(&error.to_string()))?;
        course.warn_of_aliases(&handles);
        let (bait, real): (Vec<_>, Vec<_>) =
            secrets.iter().partition(|secret| secret.metadata.honeypot);
        let asked = (&*grants.index, kind, &categories);
        let [visible, dormant, beyond] = named_by_grants(&self.vault, caller, asked, real);
        // What lies beyond the bounds is not looked for at its source either.
        let within = |one: &&Handle| leaves_room_for(&self.vault, caller, one, &categories);
        let at_sources = places(&self.vault, handles.iter().filter(within)).await?;
        let mut places = Vec::new();
        for place in &at_sources {
            let subject = place_subject(&self.vault, place);
            if grants.index.names(grantee, kind, &subject, &categories)
                && is_lent(caller, kind, &subject, &categories)
                && caller.covers(kind, std::slice::from_ref(&subject), &categories).is_ok()
            {
                self.vault.let_open(place);
                places.push(place);
            }
        }
        let (vault, context) = (&*self.vault, action.context.as_ref());
        let view = View { vault, visible, dormant, places, context, kind };
        let of = |visible, context| View {
            vault,
            visible,
            dormant: Vec::new(),
            places: Vec::new(),
            context,
            kind,
        };
        let (beyond, bait) = (of(beyond, context), of(bait, None));
        refuse_bait(&handles, &view, &bait, course)?;
        // By its words alone, so that it is no way to find out what there is.
        if let Some(handle) = handles.iter().find(|one| !view.finds(one) && !within(one)) {
            course.about = beyond.path_of(handle).cloned().into_iter().collect();
            return Err(beyond_bounds(caller, handle, said_of(handle)));
        }
        let is_missing = |one: &&Handle| {
            !view.finds(one) && is_granted_unseen(&grants.index, caller, kind, one, &categories)
        };
        if let Some(handle) = handles.iter().find(is_missing) {
            return Err(missing(handle.as_written()));
        }
        let unopened = handles.iter().find(|one| {
            !view.finds(one) && is_granted_unopened(&self.vault, &grants.index, caller, kind, one)
        });
        if let Some(handle) = unopened {
            let suggestion = "A grant names that place, but no secret is kept there and its source is not open to \
                              references: ask the operator to add a secret, or references in sources.toml.";
            let fault = missing(handle.as_written());
            return Err(fault.suggesting(SafeText::words(suggestion)));
        }
        let mut meant = view.resolve(handles)?;
        // What stands in a file that the command has is used by it as much as what it names itself.
        course.kept = self.kept_in(caller, action).await;
        for (handle, path) in course.kept.iter().flat_map(|file| &file.references) {
            if meant.iter().any(|one| one.handle == *handle && one.path == *path) {
                continue;
            }
            meant.push(Meant { handle: handle.clone(), path: path.clone() });
        }
        course.written = names(meant.iter().map(|one| (&one.handle, &one.path)));
        course.warn_of_versions(&self.vault, &meant, self.grace).await?;
        course.about = meant.iter().map(|meant| meant.path.clone()).collect();
        let subjects = subjects(&self.vault, &secrets, &meant);
        // What a file was rendered of may lie beyond its bounds by now.
        let covers = |one: &Subject| caller.covers(kind, std::slice::from_ref(one), &categories);
        let beyond = meant.iter().zip(&subjects).find(|(_, subject)| covers(subject).is_err());
        if let Some((meant, _)) = beyond {
            return Err(beyond_bounds(caller, &meant.handle, Some(place_of(&meant.path))));
        }
        let none = std::collections::BTreeMap::new();
        let request = Request {
            agent_uri: &grantee.agent_uri,
            instance_id: &grantee.instance_id,
            organization_id: &grantee.organization_id,
            trust: caller.trust_level(),
            action: kind,
            writes: action.writes(),
            subjects: &subjects,
            categories: &categories,
            contexts: grantee.session_context.as_ref().unwrap_or(&none),
            source_ip: caller.source_ip,
            approved,
        };
        let verdict = self.grants.evaluate(&grants, &request, caller.held());
        if let Some(acting) = &caller.acting {
            self.verify_delegation(caller, acting, kind, &subjects, &categories).await?;
        }
        Ok((meant, verdict))
    }

    async fn run(
        &self,
        caller: &Caller,
        session: &Acting,
        checked: Checked,
        Allowed { meant, allowance, .. }: Allowed,
        account: &Account,
        course: &mut Course,
    ) -> Result<ActionOutcome, NlFault> {
        let reservation = self.grants.reserve(&allowance, caller.held()).await?;
        if let Some(acting) = &caller.acting {
            self.delegations.take_uses(&acting.token.token_id, 1).await?;
        }
        let allowed_hosts = allowance.allowed_hosts().to_vec();
        let permissions = allowance.permissions().to_vec();
        let verdicts = allowance.into_allowed().into_iter().map(|(_, allowed)| allowed);
        let allowed = meant.into_iter().map(|meant| meant.handle).zip(verdicts).collect();
        // From here on the use counts, whatever becomes of it (8.4.2).
        let running = reservation.started();
        if let Some(held) = caller.held() {
            held.begin();
        }
        course.ran = true;
        let order = ActionOrder {
            action_id: account.action_id.clone(),
            correlation_id: account.correlation_id.clone(),
            checked,
            allowed,
            kept: course.kept.iter().map(|file| file.made_by.clone()).collect(),
            allowed_hosts,
            permissions,
            grants: Some(Arc::clone(&self.grants)),
            working_directory: None,
            asking: Asking::Agent,
            foresight: course.ahead.foresight.take(),
        };
        let is_lost = caller.acting.is_some() && account.kind == Some(ActionType::Template);
        let mut outcome = tokio::select! {
            outcome = Box::pin(session.run(order, course.place.take())) => outcome?,
            // Dropped, the action is ended with all that it has started (NL-2.19).
            fault = until_compromised(&self.vault, &course.about) => return Err(fault),
        };
        if is_lost {
            outcome.warnings.push("under a delegation a rendered file goes with its action".into());
        }
        course.redacted.clone_from(&outcome.redactions);
        course.note = course.note.take().or(withheld_in_words(&outcome.withheld));
        course.stopped = stopped(outcome.exit);
        drop(running);
        Ok(outcome)
    }
}

/// Why an action may not be done, and the handles in it: of a template's file those in its text.
struct Stopped {
    fault: NlFault,
    handles: Vec<Handle>,
}

impl From<NlFault> for Stopped {
    fn from(fault: NlFault) -> Self {
        Self { fault, handles: Vec::new() }
    }
}

impl From<Stopped> for NlFault {
    fn from(stopped: Stopped) -> Self {
        stopped.fault
    }
}

/// The secrets that grants name: those that they let be used now, those that they do not, and those beyond the bounds of who
/// acts.
fn named_by_grants<'s>(
    vault: &Vault,
    caller: &Caller,
    (grants, kind, categories): (&GrantIndex, ActionType, &Categories),
    secrets: Vec<&'s Secret>,
) -> [Vec<&'s Secret>; 3] {
    let (grantee, now) = (caller.grantee(), Timestamp::now());
    let (mut visible, mut dormant, mut beyond) = (Vec::new(), Vec::new(), Vec::new());
    for secret in secrets {
        let subject = subject(vault, secret);
        if !grants.names(grantee, kind, &subject, categories)
            || !is_lent(caller, kind, &subject, categories)
        {
            continue;
        }
        let covers = caller.covers(kind, std::slice::from_ref(&subject), categories);
        let list = match (covers, grants.shows(grantee, kind, (&subject, categories), now)) {
            (Err(_), _) => &mut beyond,
            (Ok(()), true) => &mut visible,
            (Ok(()), false) => &mut dormant,
        };
        list.push(secret);
    }
    [visible, dormant, beyond]
}

/// Whether who acts was lent this: of what a token does not name, its subject does not learn that there is any.
fn is_lent(caller: &Caller, kind: ActionType, subject: &Subject, categories: &Categories) -> bool {
    let one = std::slice::from_ref(subject);
    let covers =
        |acting: &super::caller::Acting| acting.token.scope.covers(kind, one, categories).is_ok();
    caller.acting.as_ref().is_none_or(covers)
}

/// Refuses what names bait and means none of what else is known.
fn refuse_bait(
    handles: &[Handle],
    known: &View<'_>,
    bait: &View<'_>,
    course: &mut Course,
) -> Result<(), NlFault> {
    let named = handles.iter().find(|one| !known.knows(one) && bait.finds(one));
    let Some(handle) = named else { return Ok(()) };
    course.about = bait.path_of(handle).cloned().into_iter().collect();
    Err(Code::HoneypotTouched.into())
}

/// A secret that lies beyond the bounds of who acts, and where they would have to reach.
fn beyond_bounds(caller: &Caller, handle: &Handle, needed: Option<Value>) -> NlFault {
    let words = SafeText::words("'").as_they_wrote(handle.as_written());
    let words = words.and("' lies beyond the agent's own scope, whatever its grants name");
    NlFault::new(Code::ScopeViolation, words)
        .with("kind", "aid_scope")
        .with("secret_ref", handle.as_written())
        .with("agent_scope", json!(caller.aid.scope))
        .with("required_scope", needed)
}

/// Where a secret is.
fn place_of(path: &SecretPath) -> Value {
    json!({
        "project": path.project(), "environment": path.environment(), "category": path.category(),
    })
}

/// Where a reference says that its secret is: what all of its readings have in common.
fn said_of(handle: &Handle) -> Option<Value> {
    let HandleTarget::Local(reference) = handle.target() else { return None };
    let mut readings = reference.readings().into_iter();
    let first = readings.next()?;
    let common = readings.fold(first, |mut common, other| {
        common.project = common.project.filter(|one| other.project.as_ref() == Some(one));
        common.environment =
            common.environment.filter(|one| other.environment.as_ref() == Some(one));
        common.category = common.category.filter(|one| other.category.as_ref() == Some(one));
        common
    });
    Some(json!(common))
}

/// Whether the bounds of who acts may leave room for what a handle names, by its words alone: whether or not it is there.
fn leaves_room_for(
    vault: &Vault,
    caller: &Caller,
    handle: &Handle,
    categories: &Categories,
) -> bool {
    match handle.target() {
        HandleTarget::Federated { .. } => true,
        HandleTarget::Local(reference) => caller.leaves_room_for(reference),
        HandleTarget::Provider { provider, path } => {
            let place = unopened_place(provider, path);
            let mut scopes = caller.everybody().filter_map(|aid| aid.scope.as_ref());
            !vault.has_provider(provider) || scopes.all(|scope| scope.covers(&place, categories))
        }
    }
}

/// A place of a source, of which no more is known than what it is called.
fn unopened_place(provider: &str, path: &str) -> Subject {
    let nowhere = SecretPath::parse("at-source/not/opened").expect("a path");
    Subject::of_place(nowhere, vec![format!("{provider}://{path}")])
}

/// Returns once one of these secrets must not be used any more.
async fn until_compromised(vault: &Vault, paths: &[SecretPath]) -> NlFault {
    loop {
        tokio::time::sleep(COMPROMISE_SEEN).await;
        for path in paths {
            if vault.show(path).await.is_ok_and(|secret| secret.is_compromised()) {
                return Code::SecretCompromised.into();
            }
        }
    }
}

/// Whether whatever a reference means may be used, so that no more is told by saying that there is nothing.
fn is_granted_unseen(
    grants: &GrantIndex,
    caller: &Caller,
    kind: ActionType,
    handle: &Handle,
    categories: &Categories,
) -> bool {
    let HandleTarget::Local(reference) = handle.target() else { return false };
    let Ok(wanted) = SecretPattern::parse(reference.as_written()) else { return false };
    let mut token = caller.acting.iter().map(|acting| &acting.token.scope.secrets);
    let is_handed_on = |secrets: &Vec<SecretPattern>| {
        secrets.iter().any(|wide| wanted.is_within_by_form(wide, categories))
    };
    token.all(is_handed_on) && grants.names_all(caller.grantee(), kind, &wanted, categories)
}

/// Whether a grant names this very place of a source, and nothing opens it: whoever has the grant is told why not.
fn is_granted_unopened(
    vault: &Vault,
    grants: &GrantIndex,
    caller: &Caller,
    kind: ActionType,
    handle: &Handle,
) -> bool {
    let HandleTarget::Provider { provider, path } = handle.target() else { return false };
    let place = unopened_place(provider, path);
    let is_granted = grants.names(caller.grantee(), kind, &place, &Categories::default());
    is_granted && caller.acting.is_none() && vault.has_provider(provider)
}

/// Reads an action, elsewhere if it is large.
async fn parsed(action: Value) -> Result<Action, Unread> {
    let weight = Weight::of_bytes(json_size(&action));
    let (kind, unknown_kind) = kind_of(&action);
    let read = apart(weight, move || read(action)).await;
    read.unwrap_or_else(|fault| Err(Unread { kind, unknown_kind, fault }))
}

/// The text of a template, of an action for another agent as well, so that what is judged is what is done.
fn template(action: &mut Action) -> Option<&mut TemplateSource> {
    match &mut action.deed {
        Deed::Delegate { delegated_action, .. } => template(delegated_action),
        Deed::Template { source, .. } => Some(source),
        _ => None,
    }
}

/// A template's file is read here, by the rights that everybody has, and not from what is `hidden`. Gives its path.
fn with_text(action: &mut Action, hidden: Vec<PathBuf>) -> Result<Option<String>, NlFault> {
    let Some(source) = template(action) else { return Ok(None) };
    let TemplateSource::Path(path) = source else { return Ok(None) };
    let text = file::read(path, &Hidden::with(hidden))?;
    let path = std::mem::take(path);
    *source = TemplateSource::Inline(text);
    Ok(Some(path))
}

#[cfg(test)]
mod tests;
