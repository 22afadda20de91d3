//! What is not done, and why: on record, with the same care as what is.

use std::{sync::Arc, time::Instant};

use jiff::Timestamp;
use keyless_core::{
    Code,
    agent::InstanceId,
    nl_message::{Message, MessageType, Named, NlFault, Shape},
};
use serde_json::{Map, Value};

use super::{
    answer::{Answered, Outcome, message_id, refused},
    caller::{Caller, Presented},
    rates::RateState,
    record::Refusal,
    service::{NlService, request_id},
    submit::Unread,
};

/// Who is told of in the log as one, whoever they are: no instance has this name.
const NOBODY: &str = "";

impl NlService {
    /// Says why a message of a known agent is not done: what it wanted to do is on record with each try.
    pub(super) async fn refuse(
        &self,
        caller: &Caller,
        message: &Message,
        fault: NlFault,
        received: Timestamp,
    ) -> Result<Arc<Outcome>, NlFault> {
        let id = request_id(message);
        let unread = match not_done(message, fault) {
            Ok(unread) => unread,
            Err(fault) => {
                let refusal = Refusal::of(caller, message.kind, &message.payload, id);
                return Err(self.on_record(refusal, fault).await);
            }
        };
        let told = Box::pin(self.one(caller, Err(unread), &id, received)).await;
        Ok(Arc::new(told))
    }

    /// As [`Self::refuse`], for who sends too much: once a minute, or the log would be flooded with it.
    pub(super) async fn too_fast(
        &self,
        caller: &Caller,
        message: &Message,
        fault: NlFault,
        received: Timestamp,
    ) -> Result<Arc<Outcome>, NlFault> {
        let instance = caller.aid.instance_id.as_str();
        let id = request_id(message);
        let fault = match self.rates.tell_refusal(instance, Instant::now()) {
            None => fault,
            Some(before) => match not_done(message, fault) {
                Err(fault) => {
                    let refusal = Refusal::of(caller, message.kind, &message.payload, id);
                    self.on_record(refusal.after(before), fault).await
                }
                Ok(unread) => {
                    let told =
                        Box::pin(self.turned_away(caller, unread, before, &id, received)).await;
                    // In the form that those have that nothing is written of.
                    told.fault.unwrap_or_else(|| Code::Internal.into())
                }
            },
        };
        self.flooded(caller, &fault).await?;
        Err(fault)
    }

    /// What somebody is told who is nobody here. It is on record once a minute for all of them: it costs them nothing to
    /// come again, from wherever.
    pub(super) async fn unknown(
        &self,
        presented: &Presented,
        (kind, payload): (MessageType, &Map<String, Value>),
        fault: NlFault,
    ) -> NlFault {
        let is_nobody = fault.code() == Code::AgentUnknown;
        let told = is_nobody.then(|| self.rates.tell_refusal(NOBODY, Instant::now())).flatten();
        let Some(before) = told else { return fault };
        let refusal = Refusal::of_nobody(presented, kind, payload);
        self.on_record(refusal.after(before), fault).await
    }

    /// What a known agent is told that is not let in, on record once a minute: a greeting is counted nowhere, and what is one
    /// message too many is one of many.
    pub(super) async fn ungreeted(
        &self,
        instance: &InstanceId,
        refusal: Refusal,
        fault: NlFault,
    ) -> NlFault {
        match self.rates.tell_refusal(instance.as_str(), Instant::now()) {
            None => fault,
            Some(before) => self.on_record(refusal.after(before), fault).await,
        }
    }

    /// Answers what is no message, or none that could be read. Where it is known whose it is, it counts as one of theirs
    /// and is on record, as what else they are refused; so is what comes with a credential of which it is not, once a
    /// minute for all of them.
    pub(super) async fn refuse_unread(
        &self,
        presented: Option<&Presented>,
        (kind, named): (MessageType, Named),
        fault: NlFault,
        usual: Shape,
    ) -> Answered {
        let mut rate = None;
        let fault = match presented {
            None => fault,
            Some(presented) => {
                let kind = named.kind.unwrap_or(kind);
                self.unread(presented, (kind, &named), fault, &mut rate).await
            }
        };
        Answered { rate, ..refused(fault, named, usual) }
    }

    async fn unread(
        &self,
        presented: &Presented,
        (kind, named): (MessageType, &Named),
        fault: NlFault,
        rate: &mut Option<RateState>,
    ) -> NlFault {
        let sender = named.agent.iter().map(|agent| ("agent".to_owned(), agent.clone()));
        let payload: Map<String, Value> = sender.collect();
        let mut known = self.authenticated(presented, &payload).await;
        if known.is_err() && !payload.is_empty() {
            // What it says of its sender may be what is wrong with it; the door may know as well.
            known = self.authenticated(presented, &Map::new()).await;
        }
        let Ok((caller, _)) = known else {
            let now = Instant::now();
            let told =
                presented.credential.as_ref().and_then(|_| self.rates.tell_refusal(NOBODY, now));
            let Some(before) = told else { return fault };
            let refusal = Refusal::of_nobody(presented, kind, &payload).after(before);
            let refusal = refusal.called(named.unknown_kind.as_ref());
            return self.on_record(refusal, fault).await;
        };
        let id = named.request_id.clone().or_else(|| named.id.clone()).unwrap_or_else(message_id);
        let refusal = Refusal::of(&caller, kind, &payload, id);
        let refusal = refusal.called(named.unknown_kind.as_ref());
        match self.count(&caller).await {
            Ok(state) => {
                *rate = Some(state);
                self.on_record(refusal, fault).await
            }
            Err(fault) => {
                let fault = self.ungreeted(&caller.aid.instance_id, refusal, fault).await;
                self.flooded(&caller, &fault).await.map_or_else(NlFault::from, |()| fault)
            }
        }
    }

    /// Writes down why a message that asks for no action is not done. What can't be written down is not told.
    async fn on_record(&self, refusal: Refusal, fault: NlFault) -> NlFault {
        match self.log.append(refusal.draft(fault.code())).await {
            Ok(_) => fault,
            Err(error) => error.into(),
        }
    }
}

/// The action that a message asks for, of several the first, as one that is not done. A message that asks for none has
/// its fault alone.
fn not_done(message: &Message, fault: NlFault) -> Result<Unread, NlFault> {
    if message.kind != MessageType::ActionRequest {
        return Err(fault);
    }
    let several = message.payload.get("actions").and_then(|all| all.get(0));
    let action = message.payload.get("action").or(several).unwrap_or(&Value::Null);
    Ok(Unread::of(action, fault))
}
