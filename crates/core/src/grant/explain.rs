//! Which grants would allow an action, and what the others lack.

use jiff::Timestamp;

use super::{
    Grant, GrantIndex, PermissionRef, Subject,
    evaluate::{Counts, Request, Said, conditions},
    verdict::DenyReason,
};

/// What one permission says about one secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Explained {
    /// The secret.
    pub subject: Subject,
    /// The permission.
    pub permission: PermissionRef,
    /// What is missing; nothing when it allows.
    pub lacks: Vec<Lack>,
}

/// Something that keeps a permission from allowing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Lack {
    /// It names other types of action.
    Action,
    /// It is another agent's or instance's.
    Agent,
    /// A person has to allow it first.
    Approval,
    /// A condition does not hold: the first that does not.
    Condition(DenyReason),
    /// Its grant was taken back.
    Revoked,
    /// It names other secrets.
    Secret,
}

/// Every permission's word about every secret of an action, the nearest first. What other organizations have granted is
/// none of this one's affair, and can't become it.
pub fn explain(
    request: &Request<'_>,
    grants: &GrantIndex,
    counts: &dyn Counts,
    now: Timestamp,
) -> Vec<Explained> {
    let mut all = Vec::new();
    for subject in request.subjects {
        let forms = subject.forms(request.categories);
        let from = all.len();
        let its = |grant: &&Grant| grant.organization_id == request.organization_id;
        for grant in grants.grants().iter().filter(its) {
            for (at, permission) in grant.permission_refs() {
                let named = permission.action_types.iter().any(|named| named.names(request.action));
                let secret = permission.secrets.iter().any(|pattern| pattern.matches(&forms));
                let theirs = grant.agent_uri == *request.agent_uri
                    && grant.instance_id.as_ref().is_none_or(|id| id == request.instance_id);
                let condition = match conditions(request, permission, subject, &at, counts, now) {
                    Said::Allow => None,
                    Said::Ask => Some(Lack::Approval),
                    Said::Deny(reason) => Some(Lack::Condition(reason)),
                };
                let lacks = [
                    (!theirs).then_some(Lack::Agent),
                    (!secret).then_some(Lack::Secret),
                    (!named).then_some(Lack::Action),
                    grant.revoked.then_some(Lack::Revoked),
                    condition,
                ];
                let lacks = lacks.into_iter().flatten().collect();
                all.push(Explained { subject: subject.clone(), permission: at, lacks });
            }
        }
        // One that is another agent's is further away than any of its own, and of these one that names other secrets,
        // whatever else it lacks.
        let is = |one: &Explained, lack| one.lacks.contains(&lack);
        all[from..].sort_by_key(|one| {
            (is(one, Lack::Agent), is(one, Lack::Secret), one.lacks.len(), one.lacks.clone())
        });
    }
    all
}

impl Lack {
    /// What is missing, for people.
    pub fn words(self) -> &'static str {
        match self {
            Self::Action => "it names other types of action",
            Self::Agent => "it is for another agent",
            Self::Approval => "a person has to allow the action",
            Self::Condition(reason) => reason.words(),
            Self::Revoked => "it was revoked",
            Self::Secret => "it names other secrets",
        }
    }
}
