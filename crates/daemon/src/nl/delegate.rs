//! One agent's work done by another: tokens, and the `delegate` action.
//!
//! A token lets its subject use a part of what its issuer may use, under the issuer's own grants: those
//! are asked at every use, so that what the issuer loses the delegate loses too. The delegate acts by
//! its own credential and its own session; what comes back to the issuer is the result alone.

mod footing;

use std::sync::Arc;

use data_encoding::BASE64;
use jiff::{SignedDuration, Timestamp};
use keyless_core::{
    ActionType, Code, HandleTarget, SafeText,
    action::{Action, ActionResponse, ActionResult, Deed, DelegationScope, OutputEncoding},
    agent::{AgentUri, Aid, InstanceId},
    delegation::{
        MAX_LIFE, MAX_SINGLE_USE_LIFE, MIN_TRUST, Order, Presented, Token, TokenId, TokenScope,
        may_be_handed,
    },
    grant::{Categories, SecretPattern, Subject},
    nl_message::{MessageType, NlFault},
    read_object, whole_number,
};
use serde_json::{Map, Value, json};

use self::footing::Footing;
use super::{
    agents::named,
    answer::Outcome,
    approve::Approval,
    binding::{Binding, ShownProof},
    caller::{Acting, Caller},
    delegations::{Revoker, may_come},
    record::Account,
    resolve::{Meant, subjects},
    service::NlService,
    submit::{Allowed, Course, Done},
};

/// Who answers for agents that the operator registered.
const ROOT: &str = "human:operator";

/// The secrets of an action, and the categories of all.
struct Named {
    subjects: Vec<Subject>,
    categories: Categories,
}

impl NlService {
    /// `delegate`: makes a token for the other agent, has it do the work, and gives the result.
    pub(super) async fn delegate(
        &self,
        caller: &Caller,
        action: Action,
        account: &Account,
        course: &mut Course,
        is_watched: bool,
    ) -> Result<Done, NlFault> {
        let action = of_one_mind(action)?;
        // The issuer itself must be allowed to hand these secrets on.
        let Allowed { meant, allowance, is_asked } = self.allowed(caller, &action, course).await?;
        course.grants = allowance.grants().iter().map(ToString::to_string).collect();
        course.resolved_at = Some(Timestamp::now());
        let is_dry_run = action.dry_run;
        let Deed::Delegate { delegate_to, delegated_action, delegation_scope } = &action.deed
        else {
            return Err(Code::Internal.into());
        };
        let kind = delegated_action.kind();
        let Named { subjects, categories } = self.named(&meant).await?;
        // What it may not do itself it hands to nobody.
        caller.covers(kind, &subjects, &categories)?;
        let acts =
            |aid: &Aid, all: &[Aid], now| aid.is_in_force_below(now, |one| named(all, one)).is_ok();
        let subject = self.recipient(caller, delegate_to, acts).await?;
        within_own_bounds(&subject, kind, &subjects, &categories)?;
        let scope = scope(delegation_scope, vec![kind])?;
        if let Some(bait) = self.bait_in(caller, &scope).await? {
            course.about = vec![bait];
            return Err(Code::HoneypotTouched.into());
        }
        let footing = self.footing(caller, scope).await?;
        footing.scope.covers(kind, &subjects, &categories).map_err(|code| {
            let words = "delegated_action uses a secret that delegation_scope does not name";
            let fault = NlFault::new(code, SafeText::words(words));
            fault.suggesting(SafeText::words(
                "Name each secret of the action in delegation_scope.secrets.",
            ))
        })?;
        let (life, uses) = (delegation_scope.ttl_seconds, footing.scope.max_uses);
        let to = (&subject.agent_uri, Some(&subject.instance_id));
        let order = self.order(caller, to, &footing, life)?;
        // What it does is asked about and logged as what it hands on, and has to mean the same secrets.
        let theirs = self.allowed(caller, delegated_action, &mut Course::default()).await?;
        mean_the_same(&meant, &theirs.meant)?;
        let session = self.session_of(caller)?;
        // Where a service is called is for who does it, under the same grants.
        let hosts = Some(theirs.allowance.allowed_hosts());
        session.could_run(delegated_action, &account.action_id, &meant, hosts).await?;
        if is_dry_run {
            return Ok(Done::Checked);
        }
        // A watched agent's work waits for a person, whoever is to do it.
        let is_asked = is_asked || is_watched;
        if is_asked {
            // They are shown what it may reach there.
            let hosts = theirs.allowance.allowed_hosts();
            self.approve(Approval { caller, action: &action, meant: &meant, kept: &[], hosts })
                .await?;
        }
        let reservation = Arc::new(self.grants.reserve(&allowance, None).await?);
        let token = self.at_its_uses(caller, uses, self.issue(order)).await?;
        // The token has never left, and the delegate is who it was made for.
        let held = Arc::clone(&reservation);
        let binding = Binding::Issuers { was_asked_about: is_asked, held };
        let issuers = caller.everybody().cloned().collect();
        let acting = Acting { issuers, token: token.clone(), binding };
        let delegate = Caller {
            aid: subject,
            source_ip: caller.source_ip,
            delegation: token.chain.clone(),
            acting: Some(acting),
        };
        let id = format!("{}.delegated", account.correlation_id);
        let one = self.one(&delegate, Ok((**delegated_action).clone()), &id, Timestamp::now());
        // An action inside an action, and no deeper: a delegated one is no delegation.
        let outcome = Box::pin(one).await;
        course.ran = reservation.has_begun();
        drop(delegate);
        if let Some(reservation) = Arc::into_inner(reservation) {
            reservation.give_back().await;
        }
        self.take_back(caller, &token, course.ran).await;
        if !course.ran {
            // One that stays is over by itself soon, and has no uses where they were another token's.
            let _ = self
                .delegations
                .revoke(&token.token_id, Revoker::Operator, "its action did not begin")
                .await;
        }
        if result_of(&outcome).result.is_some_and(|result| names_secrets(&result)) {
            return Err(Code::ReferenceInResult.into());
        }
        Ok(Done::Delegated(Box::new(outcome)))
    }

    /// Whether the caller may hand on the work of an action that says no more than the secrets that it would use.
    pub(super) async fn could_delegate(
        &self,
        caller: &Caller,
        meant: &[Meant],
    ) -> Result<(), NlFault> {
        let named = |one: &Meant| {
            SecretPattern::parse(match one.handle.target() {
                HandleTarget::Provider { .. } => one.handle.as_written(),
                _ => one.path.as_str(),
            })
            .ok()
        };
        let secrets = meant.iter().filter_map(named).collect();
        let scope = TokenScope { secrets, actions: Vec::new(), max_uses: 1 };
        self.footing(caller, scope).await.map(drop)
    }

    /// `delegation_request`: a token whose id the issuer passes on.
    pub(super) async fn create_delegation(
        &self,
        caller: &Caller,
        payload: &Map<String, Value>,
    ) -> Result<Outcome, NlFault> {
        caller.aid.covers(ActionType::Delegate, &[], &Categories::default())?;
        let text = |key: &str| payload.get(key).and_then(Value::as_str);
        let to = text("delegate_to")
            .or_else(|| text("subject"))
            .ok_or_else(|| malformed("a delegation has delegate_to and delegation_scope"))?;
        let to: AgentUri = to.parse().map_err(|_| malformed("delegate_to is no agent's URI"))?;
        let wanted = payload.get("delegation_scope").or_else(|| payload.get("scope")).cloned();
        let mut wanted = wanted.unwrap_or_default();
        let actions = wanted.as_object_mut().and_then(|scope| scope.remove("actions"));
        let actions: Vec<ActionType> = match actions {
            None => vec![ActionType::Exec],
            Some(actions) => serde_json::from_value(actions)
                .map_err(|_| malformed("actions is a list of exec, template, inject_stdin, inject_tempfile, sdk_proxy, delegate"))?,
        };
        if wanted.get("resource_constraints").is_some() {
            // A bound that is not held to must not seem to be one.
            let words = "resource_constraints are not held to here: name fewer secrets and types";
            return Err(unsound(words));
        }
        let read: DelegationScope = read_object(wanted).map_err(|fault| {
            let words = SafeText::words(
                "delegation_scope is an object of secrets, actions, max_uses and ttl_seconds: ",
            );
            // `actions` was read before.
            let fault =
                fault.replace("expected one of `secrets`", "expected one of `secrets`, `actions`");
            NlFault::new(Code::MessageMalformed, words.as_they_wrote(&fault))
        })?;
        // Chapter 08 has it beside the scope, chapter 02 inside.
        let life = read.ttl_seconds.or_else(|| payload.get("ttl_seconds").and_then(whole_number));
        let scope = scope(&read, actions)?;
        if let Some(bait) = self.bait_in(caller, &scope).await? {
            return Err(self.touched(caller, ActionType::Delegate, bait).await);
        }
        if let Some(acting) = &caller.acting {
            let none = Categories::default();
            self.verify_delegation(caller, acting, ActionType::Delegate, &[], &none).await?;
        }
        // Who has not come yet may accept it once it has.
        self.recipient(caller, to.as_str(), may_come).await?;
        let footing = self.footing(caller, scope).await?;
        let order = self.order(caller, (&to, None), &footing, life)?;
        let uses = footing.scope.max_uses;
        let token = self.at_its_uses(caller, uses, self.issue(order)).await?;
        let body = json!({
            "token_id": token.token_id.as_str(),
            "expires_at": format!("{:.3}", token.expires_at),
            "delegation_depth_remaining": token.delegation_depth_remaining,
        });
        Ok(Outcome::done(MessageType::DelegationResponse, 201, body))
    }

    /// `x_keyless_accept_delegation`: its subject is told what a token is for, and how to prove that it is theirs.
    pub(super) async fn accept_delegation(
        &self,
        caller: &Caller,
        payload: &Map<String, Value>,
    ) -> Result<Outcome, NlFault> {
        let id = token_id(payload)?;
        let links = self.delegations.links(&id).await?;
        if let Some(token) = links.first().filter(|token| token.subject == caller.aid.agent_uri) {
            let issuer = self.agents.show(&token.issuer_instance).await;
            let issuer = issuer.map_err(|_| Code::DelegationInvalid)?;
            fits(&caller.aid, &issuer)?;
        }
        let (token, key) = self.delegations.accept(&id, &caller.aid).await?;
        let body = json!({
            "token_id": id.as_str(),
            "token_binding_key": key.as_str(),
            "issuer": token.issuer,
            "subject": token.subject,
            "scope": token.scope,
            "delegation_depth_remaining": token.delegation_depth_remaining,
            "expires_at": format!("{:.3}", token.expires_at),
        });
        Ok(Outcome::done(MessageType::XDelegation, 200, body))
    }

    /// `delegation_revoke`: a token of the caller's, or of its organization if it administers one, with all that came of it.
    pub(super) async fn revoke_delegation(
        &self,
        caller: &Caller,
        payload: &Map<String, Value>,
    ) -> Result<Outcome, NlFault> {
        let id = token_id(payload)?;
        let by = self.revoker(caller, &id).await?;
        let reason = payload.get("reason").and_then(Value::as_str).unwrap_or(match by {
            Revoker::Administrator(_) => "by an administrator",
            Revoker::Agent(_) | Revoker::Operator => "by its issuer",
        });
        let reason: String = reason.chars().take(200).collect();
        let cascade = self.delegations.revoke(&id, by, &reason).await.map_err(|error| {
            let fault = NlFault::from(error);
            // C-17: the number stands for several things, and says which.
            let is_unknown = fault.code() == Code::DelegationUnknown;
            if is_unknown { fault.with("reason", "delegation_not_found") } else { fault }
        })?;
        let body = json!({
            "token_id": id.as_str(), "status": "revoked", "cascade_count": cascade,
        });
        Ok(Outcome::done(MessageType::DelegationRevokeAck, 200, body))
    }

    /// What a caller acts under when its message shows a token.
    pub(super) async fn acting(&self, shown: &Map<String, Value>) -> Result<Acting, NlFault> {
        let id = token_id(shown)?;
        let (links, agents) = (self.delegations.links(&id).await?, self.agents.list().await?);
        let issuers = links.iter().map(|link| named(&agents, &link.issuer_instance));
        let issuers = issuers.collect::<Option<Vec<_>>>().ok_or(Code::DelegationInvalid)?;
        let token = links.into_iter().next().ok_or(Code::DelegationInvalid)?;
        let binding = match shown.get("binding_proof").and_then(Value::as_str) {
            Some(proof) => Binding::Shown(ShownProof::new(proof)),
            None => Binding::Missing,
        };
        Ok(Acting { issuers, token, binding })
    }

    /// Whether a token lets its presenter, who has shown a credential of its own and proves that it is theirs, do this.
    pub(super) async fn verify_delegation(
        &self,
        caller: &Caller,
        acting: &Acting,
        kind: ActionType,
        subjects: &[Subject],
        categories: &Categories,
    ) -> Result<(), NlFault> {
        let presented = Presented {
            agent_uri: &caller.aid.agent_uri,
            instance_id: &caller.aid.instance_id,
            source_ip: caller.source_ip,
            action: kind,
            subjects,
            categories,
        };
        let now = Timestamp::now();
        let agents = self.agents.list().await?;
        let is_active = |instance: &InstanceId| {
            let issuer = named(&agents, instance);
            issuer.is_some_and(|aid| aid.is_in_force_below(now, |one| named(&agents, one)).is_ok())
        };
        let id = &acting.token.token_id;
        let who = (&caller.aid.agent_uri, &caller.aid.instance_id);
        match &acting.binding {
            Binding::Issuers { .. } => {}
            Binding::Missing => return Err(unproven()),
            Binding::Shown(proof) => {
                let take = async |text: &str| self.delegations.take_proof(id, who, text, now).await;
                proof.once(take).await?;
            }
        }
        if let Some(issuer) = acting.issuers.first()
            && acting.token.subject == caller.aid.agent_uri
        {
            fits(&caller.aid, issuer)?;
        }
        let verified = self.delegations.verify(id, &presented, &is_active).await;
        verified.map(drop).map_err(|error| match error.code() {
            Code::DelegationSubset => beyond_token(&acting.token, kind),
            _ => error.into(),
        })
    }

    /// The agent of a URI that the caller may hand work to: of several the last of whom it `is_there`.
    async fn recipient(
        &self,
        caller: &Caller,
        uri: &str,
        is_there: impl Fn(&Aid, &[Aid], Timestamp) -> bool,
    ) -> Result<Aid, NlFault> {
        let (now, all) = (Timestamp::now(), self.agents.list().await?);
        // Who is in another organization, and whether there is anybody, is not told.
        let there = all.iter().rev().filter(|aid| {
            aid.agent_uri.as_str() == uri
                && aid.organization_id == caller.aid.organization_id
                && is_there(aid, &all, now)
        });
        let mut least = None;
        for aid in there {
            match fits(aid, &caller.aid) {
                Ok(()) => return Ok(aid.clone()),
                Err(fault) => least = Some(fault),
            }
        }
        Err(least.unwrap_or_else(|| {
            let words = SafeText::words("no active agent ").as_they_wrote(uri);
            let words = words.and(" of the organization ");
            let words = words.as_they_wrote(&caller.aid.organization_id);
            let suggestion = "Delegate to an agent of your organization that is registered and active: it is from \
                              its first message on, or by the operator's keyless agent activate.";
            let fault = NlFault::new(Code::DelegationInvalid, words);
            fault.suggesting(SafeText::words(suggestion))
        }))
    }

    /// What an action means, as bounds and scopes name it.
    async fn named(&self, meant: &[Meant]) -> Result<Named, NlFault> {
        let secrets = self.vault.list().await?;
        let categories = self.vault.categories().await?;
        Ok(Named { subjects: subjects(&self.vault, &secrets, meant), categories })
    }

    /// Takes as many uses of the token that the caller acts under as what it issues has, so that handing on makes no
    /// more of them; given back if it issues nothing.
    async fn at_its_uses(
        &self,
        caller: &Caller,
        max_uses: u64,
        issuing: impl Future<Output = Result<Token, NlFault>>,
    ) -> Result<Token, NlFault> {
        let Some(acting) = &caller.acting else { return issuing.await };
        let has = acting.token.scope.max_uses;
        if max_uses > has {
            let words = SafeText::words("the token that you act under has fewer uses than that: ");
            let fault = NlFault::new(Code::DelegationSubset, words.and(has));
            return Err(fault.suggesting(SafeText::words("Hand on fewer uses.")));
        }
        let id = &acting.token.token_id;
        self.delegations.take_uses(id, max_uses).await?;
        let issued = issuing.await;
        if issued.is_err() {
            self.delegations.give_uses_back(id, max_uses).await?;
        }
        issued
    }

    /// What an action that is over has left of its token, which was for it alone, goes back to the token of who handed
    /// it on.
    async fn take_back(&self, caller: &Caller, token: &Token, has_begun: bool) {
        let Some(acting) = &caller.acting else { return };
        let left = token.scope.max_uses.saturating_sub(has_begun.into());
        // What fails here leaves uses had that were not: on the side of less.
        if left > 0 && self.delegations.take_uses(&token.token_id, left).await.is_ok() {
            let _ = self.delegations.give_uses_back(&acting.token.token_id, left).await;
        }
    }

    async fn issue(&self, order: Order<'_>) -> Result<Token, NlFault> {
        Ok(self.delegations.create(order).await?)
    }

    /// What is asked to be handed on, if it can be at all.
    fn order<'a>(
        &'a self,
        caller: &'a Caller,
        subject: (&'a AgentUri, Option<&'a InstanceId>),
        footing: &'a Footing,
        ttl_seconds: Option<u64>,
    ) -> Result<Order<'a>, NlFault> {
        let order = Order {
            issuer: (&caller.aid.agent_uri, &caller.aid.instance_id),
            subject,
            scope: footing.scope.clone(),
            life: asked_life(ttl_seconds),
            root: ROOT,
            grant: &footing.grant,
            grant_until: footing.until,
            parent: caller.acting.as_ref().map(|acting| &acting.token),
            categories: &footing.categories,
            max_depth: self.max_depth,
        };
        match order.fault() {
            Some(words) => Err(unsound(words)),
            None => Ok(order),
        }
    }
}

/// How long a token is to live, by what was asked for.
pub(super) fn asked_life(ttl_seconds: Option<u64>) -> SignedDuration {
    let asked = ttl_seconds.map_or(MAX_SINGLE_USE_LIFE, |seconds| {
        SignedDuration::from_secs(i64::try_from(seconds).unwrap_or(i64::MAX))
    });
    asked.min(MAX_LIFE)
}

/// The same with one context and one limit of time for the handing on and for what is done.
fn of_one_mind(mut action: Action) -> Result<Action, NlFault> {
    let (outer, limit) = (action.context.clone(), action.timeout);
    let Deed::Delegate { delegated_action: inner, .. } = &mut action.deed else {
        return Err(Code::Internal.into());
    };
    match (&outer, &inner.context) {
        (Some(outer), Some(inner)) if outer != inner => {
            let words = "the delegate action has a context, and its delegated_action another one";
            let fault = NlFault::new(Code::MessageMalformed, SafeText::words(words));
            return Err(fault.suggesting(SafeText::words("Say it once, or the same in both.")));
        }
        (Some(_), None) => inner.context = outer,
        _ => action.context.clone_from(&inner.context),
    }
    if let Some(limit) = limit {
        inner.timeout = Some(inner.timeout().min(limit));
    }
    Ok(action)
}

/// Fails unless each reference stands for the same secret in both: which one it is depends on what grants name.
fn mean_the_same(handed_on: &[Meant], done: &[Meant]) -> Result<(), NlFault> {
    let differs = |one: &&Meant| {
        !done.iter().any(|other| other.handle == one.handle && other.path == one.path)
    };
    let Some(differing) = handed_on.iter().find(differs) else { return Ok(()) };
    let written = differing.handle.as_written();
    let words =
        SafeText::words("your grants let you hand on another secret than the action would use as ");
    let fault = NlFault::new(Code::ReferenceAmbiguous, words.as_they_wrote(written));
    let advice = "Write the whole path, PROJECT/ENVIRONMENT/CATEGORY/NAME.";
    Err(fault.with("secret_ref", written).suggesting(SafeText::words(advice)))
}

/// Whether an agent may be handed work by another one, and why not.
fn fits(subject: &Aid, issuer: &Aid) -> Result<(), NlFault> {
    may_be_handed(subject, issuer).map_err(|code| {
        let who = SafeText::default().as_they_wrote(subject.agent_uri.as_str());
        match code {
            Code::TrustTooLow => {
                let words = who.and(" is trusted ").and(subject.trust_level.as_str());
                let words = words.and(", and work is handed to agents of ");
                NlFault::new(code, words.and(MIN_TRUST.as_str()).and(" and above"))
                    .with("required", MIN_TRUST.as_str())
                    .suggesting(SafeText::words(
                        "Hand it to an agent that its organization vouches for (L1).",
                    ))
            }
            code => {
                NlFault::new(code, who.and(" is of another organization than who hands work on"))
            }
        }
    })
}

/// Whether another agent's own bounds cover what it is to do, said so that the one who asks knows whose they are.
fn within_own_bounds(
    subject: &Aid,
    kind: ActionType,
    subjects: &[Subject],
    categories: &Categories,
) -> Result<(), NlFault> {
    subject.covers(kind, subjects, categories).map_err(|code| {
        let who = SafeText::default().as_they_wrote(subject.agent_uri.as_str());
        let (words, suggestion) = match code {
            Code::CapabilityMissing => (
                who.and(" is not registered for ").and(kind.as_str()),
                "Hand it what it can do, or ask the operator to register it for that type.",
            ),
            _ => (
                who.and(" may not use all of these secrets by its own scope"),
                "Hand it what lies within its scope, or ask the operator to widen that.",
            ),
        };
        NlFault::new(code, words).suggesting(SafeText::words(suggestion))
    })
}

/// The result of another agent's action, for the one that asked for it.
pub(super) fn result_of(outcome: &Outcome) -> ActionResponse {
    serde_json::from_value(outcome.body().clone()).unwrap_or_default()
}

/// Whether a result has references in it, which whoever gets it could have resolved: results alone pass between agents
/// (reference/nl.md, section 7).
fn names_secrets(result: &ActionResult) -> bool {
    // The second is an alias of the first.
    const REFERENCES: [&[u8]; 2] = [b"{{nl:", b"{{vault:"];
    let has = |bytes: &[u8]| {
        REFERENCES.iter().any(|opening| bytes.windows(opening.len()).any(|part| part == *opening))
    };
    let is_in = |text: &str| match result.encoding {
        None => has(text.as_bytes()),
        // What can't be read is not passed on either.
        Some(OutputEncoding::Base64) => {
            BASE64.decode(text.as_bytes()).map_or(true, |bytes| has(&bytes))
        }
    };
    let data = result.data.as_ref().is_some_and(|data| has(data.to_string().as_bytes()));
    data || [&result.stdout, &result.stderr].into_iter().flatten().any(|text| is_in(text))
}

fn scope(wanted: &DelegationScope, actions: Vec<ActionType>) -> Result<TokenScope, NlFault> {
    let secrets: Result<Vec<SecretPattern>, _> =
        wanted.secrets.iter().map(|pattern| SecretPattern::parse(pattern)).collect();
    let secrets = secrets.map_err(|_| malformed("secrets is a list of patterns"))?;
    Ok(TokenScope { secrets, actions, max_uses: wanted.max_uses.unwrap_or(1) })
}

fn token_id(payload: &Map<String, Value>) -> Result<TokenId, NlFault> {
    let id = payload.get("token_id").and_then(Value::as_str).and_then(TokenId::parse);
    id.ok_or_else(|| Code::DelegationInvalid.into())
}

/// A token does not let its subject do this, or not with these secrets.
fn beyond_token(token: &Token, kind: ActionType) -> NlFault {
    let words = SafeText::words("the token that you act under is not for ");
    let words = if token.scope.actions.contains(&kind) {
        words.and("all of these secrets")
    } else {
        words.and("actions of type ").and(kind.as_str())
    };
    let advice = "Do what it is for, which you were told as you accepted it, or ask who gave it for another.";
    NlFault::new(Code::DelegationSubset, words).suggesting(SafeText::words(advice))
}

fn unproven() -> NlFault {
    let words = SafeText::words(
        "a token is shown with a binding_proof: accept the delegation (POST \
         /nl/v1/delegations/{token_id}/accept, or x_keyless_accept_delegation) to get the key for it",
    );
    NlFault::new(Code::DelegationInvalid, words)
}

/// A delegation that is well written and can't be made (chapter 08, 5.4.4).
fn unsound(words: &'static str) -> NlFault {
    let suggestion = SafeText::words("Ask for the delegation again, with that put right.");
    let fault = NlFault::new(Code::DelegationInvalid, SafeText::words(words));
    fault.suggesting(suggestion).at_status(422)
}

fn malformed(words: &'static str) -> NlFault {
    NlFault::new(Code::MessageMalformed, SafeText::words(words))
}

#[cfg(test)]
mod tests;
