//! What is not done, and why: on record, with the same care as what is.

use std::{sync::Arc, time::Instant};

use jiff::Timestamp;
use keyless_core::{
    Code,
    agent::InstanceId,
    nl_message::{Message, MessageType, NlFault},
};
use serde_json::{Map, Value};

use super::{
    answer::Outcome,
    caller::{Caller, Presented},
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
        let Some(before) = self.rates.tell_refusal(instance, Instant::now()) else {
            return Err(fault);
        };
        let id = request_id(message);
        let unread = match not_done(message, fault) {
            Ok(unread) => unread,
            Err(fault) => {
                let refusal = Refusal::of(caller, message.kind, &message.payload, id);
                return Err(self.on_record(refusal.after(before), fault).await);
            }
        };
        let told = Box::pin(self.turned_away(caller, unread, before, &id, received)).await;
        // In the form that those have that nothing is written of.
        Err(told.fault.unwrap_or_else(|| Code::Internal.into()))
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

    /// What a known agent is told that is not let in. A greeting is counted nowhere, so that it is on record once a minute.
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
