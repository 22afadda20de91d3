//! Many grants, found by agent and by how their patterns begin.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use jiff::Timestamp;

use super::{
    Grant, GrantId, Permission, PermissionRef, SecretPattern, Subject,
    pattern::{Categories, Forms, Key},
};
use crate::{
    action::ActionType,
    agent::{AgentUri, Aid},
};

/// Grants, ready to be asked.
#[derive(Clone, Debug, Default)]
pub struct GrantIndex {
    grants: Vec<Grant>,
    by_id: BTreeMap<GrantId, usize>,
    agents: HashMap<AgentUri, OfAgent>,
}

#[derive(Clone, Debug, Default)]
struct OfAgent {
    any: Vec<Slot>,
    first: HashMap<String, Vec<Slot>>,
    whole: HashMap<String, Vec<Slot>>,
}

/// A grant's place and its permission's.
type Slot = (u32, u32);

impl GrantIndex {
    /// An index of these grants; of two with one name the first counts.
    pub fn new(grants: impl IntoIterator<Item = Grant>) -> Self {
        let mut index = Self::default();
        for grant in grants {
            index.add(grant);
        }
        index
    }

    /// All grants, as they were given.
    pub fn grants(&self) -> &[Grant] {
        &self.grants
    }

    /// The grant of this name.
    pub fn get(&self, id: &GrantId) -> Option<&Grant> {
        self.by_id.get(id).map(|at| &self.grants[*at])
    }

    /// One permission.
    pub fn permission(&self, at: &PermissionRef) -> Option<&Permission> {
        self.get(&at.grant)?.permissions.get(at.index as usize)
    }

    /// Whether a permission still holds at `now`: its grant was not revoked, and it is in its time.
    pub fn holds(&self, at: &PermissionRef, now: Timestamp) -> bool {
        let is_in_force = self.get(&at.grant).is_some_and(|grant| !grant.revoked);
        is_in_force && self.permission(at).is_some_and(|one| one.conditions.is_in_time(now))
    }

    /// Whether some grant of this agent that was not revoked names a secret for an action, conditions aside.
    pub fn names(
        &self,
        aid: &Aid,
        action: ActionType,
        subject: &Subject,
        categories: &Categories,
    ) -> bool {
        self.some(aid, action, (subject, categories), |_| true)
    }

    /// As [`Self::names`], by one that is in its time and leaves room for the secret itself: the agent may see that it is
    /// there.
    pub fn shows(
        &self,
        aid: &Aid,
        action: ActionType,
        (subject, categories): (&Subject, &Categories),
        now: Timestamp,
    ) -> bool {
        self.some(aid, action, (subject, categories), |permission| {
            permission.conditions.is_in_time(now) && permission.conditions.leaves_room_for(subject)
        })
    }

    fn some(
        &self,
        aid: &Aid,
        action: ActionType,
        (subject, categories): (&Subject, &Categories),
        holds: impl Fn(&Permission) -> bool,
    ) -> bool {
        let forms = subject.forms(categories);
        self.candidates(&aid.agent_uri, &forms).any(|(grant, _, permission)| {
            is_of(grant, permission, aid, action)
                && permission.secrets.iter().any(|pattern| pattern.matches(&forms))
                && holds(permission)
        })
    }

    /// As [`Self::names`], of all that `wanted` names, whether or not it is there: who may use it is told when it is not.
    pub fn names_all(
        &self,
        aid: &Aid,
        action: ActionType,
        wanted: &SecretPattern,
        categories: &Categories,
    ) -> bool {
        let theirs = self.grants.iter().filter(|grant| grant.agent_uri == aid.agent_uri);
        let mut permissions =
            theirs.flat_map(|grant| grant.permissions.iter().map(move |one| (grant, one)));
        permissions.any(|(grant, permission)| {
            let mut patterns = permission.secrets.iter();
            is_of(grant, permission, aid, action)
                && patterns.any(|wide| wanted.is_within_by_form(wide, categories))
        })
    }

    /// The permissions whose patterns may name a secret, in the order of the grants.
    pub(super) fn candidates<'a>(
        &'a self,
        agent: &AgentUri,
        forms: &Forms<'_>,
    ) -> impl Iterator<Item = (&'a Grant, u32, &'a Permission)> {
        let mut slots: BTreeSet<Slot> = BTreeSet::new();
        if let Some(of_agent) = self.agents.get(agent) {
            slots.extend(&of_agent.any);
            for form in forms.each() {
                let first = form.split('/').next().unwrap_or_default();
                slots.extend(of_agent.first.get(first).into_iter().flatten());
                slots.extend(of_agent.whole.get(form).into_iter().flatten());
            }
        }
        slots.into_iter().map(|(grant, permission)| {
            let grant = &self.grants[grant as usize];
            (grant, permission, &grant.permissions[permission as usize])
        })
    }

    fn add(&mut self, grant: Grant) {
        if self.by_id.contains_key(&grant.grant_id) {
            return;
        }
        let at = self.grants.len();
        let place = u32::try_from(at).expect("memory ends before this many grants");
        let of_agent = self.agents.entry(grant.agent_uri.clone()).or_default();
        for (number, permission) in (0..).zip(&grant.permissions) {
            for pattern in &permission.secrets {
                let slots = match pattern.key() {
                    Key::Any => &mut of_agent.any,
                    Key::First(first) => of_agent.first.entry(first.to_owned()).or_default(),
                    Key::Whole(whole) => of_agent.whole.entry(whole.to_owned()).or_default(),
                };
                slots.push((place, number));
            }
        }
        self.by_id.insert(grant.grant_id.clone(), at);
        self.grants.push(grant);
    }
}

/// Whether a permission is this agent's, was not taken back and is for such an action, conditions aside.
fn is_of(grant: &Grant, permission: &Permission, aid: &Aid, action: ActionType) -> bool {
    !grant.revoked
        && grant.organization_id == aid.organization_id
        && grant.instance_id.as_ref().is_none_or(|instance| *instance == aid.instance_id)
        && permission.action_types.iter().any(|named| named.names(action))
}
