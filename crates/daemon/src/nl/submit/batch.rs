//! Several actions in one message, done one after the other.
//!
//! Where some of them wait for a person, say, the same message goes on with those, and what was done is not done twice.

use std::sync::Arc;

use jiff::Timestamp;
use keyless_core::{
    Code, SafeText,
    action::MAX_BATCH,
    nl_message::{MessageType, NL_VERSION, NlFault, Shape},
};
use serde_json::{Map, Value, json};

use super::{MAX_ANSWER, Unread, parsed};
use crate::nl::{
    answer::Outcome,
    caller::Caller,
    rates::RateState,
    replays::Turn,
    service::{NlService, fingerprint_of},
};

impl NlService {
    /// Does the `actions` of a message.
    pub(super) async fn batch(
        &self,
        caller: &Caller,
        payload: &Map<String, Value>,
        actions: &Value,
        id: &str,
    ) -> Result<Outcome, NlFault> {
        let fits = |all: &&Vec<Value>| (1..=MAX_BATCH).contains(&all.len());
        let Some(actions) = actions.as_array().filter(fits) else {
            let words = SafeText::words("actions is a list of 1 to ").and(MAX_BATCH);
            return Err(NlFault::new(Code::MessageMalformed, words));
        };
        // Before any is done: a message that is refused has done nothing.
        let mut turns = Vec::with_capacity(actions.len());
        let mut left = MAX_ANSWER;
        for (number, action) in actions.iter().enumerate() {
            let turn = self.turn(caller, payload, (id, number), action).await?;
            if let Turn::Again(outcome) = &turn {
                left = left.saturating_sub(outcome.size());
            }
            turns.push(turn);
        }
        let mut responses = Vec::with_capacity(actions.len());
        let mut done = Vec::new();
        let (mut is_settled, mut rate) = (true, None);
        for (number, (action, turn)) in actions.iter().zip(turns).enumerate() {
            let outcome = match turn {
                Turn::Again(outcome) => outcome,
                Turn::First(first) => {
                    let outcome = self.nth(caller, action, (id, number), &mut rate).await;
                    let outcome = outcome.within(left);
                    left = left.saturating_sub(outcome.size());
                    let outcome = Arc::new(outcome);
                    if outcome.is_settled {
                        done.push((first, Arc::clone(&outcome)));
                    }
                    outcome
                }
            };
            is_settled &= outcome.is_settled;
            responses.push(outcome.render(Shape::Bare));
        }
        // Once all are done the whole answer is kept, which has them in it.
        for (first, outcome) in done.into_iter().filter(|_| !is_settled) {
            first.finish(&outcome, outcome.size());
        }
        let body = json!({ "nl_version": NL_VERSION, "request_id": id, "responses": responses });
        let outcome = Outcome::done(MessageType::ActionResponse, 200, body).counted(rate);
        Ok(if is_settled { outcome } else { outcome.unsettled() })
    }

    /// Whether an action of several was done already, when the same message came before.
    async fn turn(
        &self,
        caller: &Caller,
        payload: &Map<String, Value>,
        (id, number): (&str, usize),
        action: &Value,
    ) -> Result<Turn<'_>, NlFault> {
        // A token is shown with another proof each time.
        let token = payload.get("delegation").and_then(|shown| shown.get("token_id"));
        let kind = MessageType::ActionRequest;
        let print = fingerprint_of(&caller.aid, kind, &json!([token, action]));
        // Not with a dot, which may be in another request's own name.
        self.replays.enter(&format!("{id}\n{number}"), print).await
    }

    /// One action of several.
    async fn nth(
        &self,
        caller: &Caller,
        action: &Value,
        (id, number): (&str, usize),
        rate: &mut Option<RateState>,
    ) -> Outcome {
        // The message was counted for its first action.
        let counted = match number {
            0 => Ok(()),
            _ => self.count(caller).await.map(|state| *rate = Some(state)),
        };
        let (id, now) = (format!("{id}.{number}"), Timestamp::now());
        match counted {
            Ok(()) => self.one(caller, parsed(action.clone()).await, &id, now).await,
            Err(fault) => {
                let seen = self.flooded(caller, &fault).await;
                let fault = seen.map_or_else(NlFault::from, |()| fault);
                self.turned_away(caller, Unread::of(action, fault), 0, &id, now).await
            }
        }
    }
}
