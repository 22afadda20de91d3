//! Decides an action: every secret needs one permission all of whose conditions hold.

use std::{collections::BTreeMap, net::IpAddr};

use jiff::Timestamp;

use super::{
    Grant, GrantIndex, Permission, PermissionRef, Subject,
    pattern::{Categories, Forms},
    verdict::{Allowance, Denial, DenyReason, Needed, Verdict},
};
use crate::{
    Destination,
    action::ActionType,
    agent::{AgentUri, InstanceId, TrustLevel},
};

/// An action, as the broker knows it.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// Who asks, proven.
    pub agent_uri: &'a AgentUri,
    /// Which instance of it.
    pub instance_id: &'a InstanceId,
    /// Whose agent it is.
    pub organization_id: &'a str,
    /// How well its origin is proven.
    pub trust: TrustLevel,
    /// What it asks for.
    pub action: ActionType,
    /// Whether it would change what it could also be held to read.
    pub writes: bool,
    /// The secrets, resolved.
    pub subjects: &'a [Subject],
    /// The categories of all secrets.
    pub categories: &'a Categories,
    /// The agent's surroundings, as the broker was told them when it was registered.
    pub contexts: &'a BTreeMap<String, String>,
    /// Where the request comes from, by the transport; nothing on this machine.
    pub source_ip: Option<IpAddr>,
    /// Whether a person has allowed this very action.
    pub approved: bool,
}

/// What was counted before.
pub trait Counts {
    /// Actions that were had under a permission.
    fn uses(&self, at: &PermissionRef) -> u64;
    /// Actions that are under way under it.
    fn running(&self, at: &PermissionRef) -> u32;
    /// Actions that began under it within 60 seconds.
    fn recent(&self, at: &PermissionRef) -> u32;
}

/// What one permission says about one secret.
pub(super) enum Said {
    Allow,
    Ask,
    Deny(DenyReason),
}

/// Decides. Looks only at grants whose patterns begin like the secrets.
pub fn evaluate(
    request: &Request<'_>,
    grants: &GrantIndex,
    counts: &dyn Counts,
    now: Timestamp,
) -> Verdict {
    let (mut each, mut asks) = (Vec::new(), false);
    for subject in request.subjects {
        match best(request, grants, counts, now, subject) {
            (Said::Allow, Some(at)) => each.push((subject.clone(), at)),
            (Said::Ask, Some(at)) => {
                asks = true;
                each.push((subject.clone(), at));
            }
            (Said::Deny(reason), at) => {
                let (subject, grant) = (Some(subject.clone()), at.map(|at| at.grant));
                return Verdict::Deny(Denial { subject, reason, grant });
            }
            (Said::Allow | Said::Ask, None) => {
                unreachable!("what is allowed is allowed by a permission")
            }
        }
    }
    if asks {
        Verdict::Ask(Needed { each })
    } else {
        Verdict::Allow(allowance(request, grants, each))
    }
}

/// The best answer for one secret, and the permission that gives it: of those that allow the first, of those
/// that do not the one that came nearest.
fn best(
    request: &Request<'_>,
    grants: &GrantIndex,
    counts: &dyn Counts,
    now: Timestamp,
    subject: &Subject,
) -> (Said, Option<PermissionRef>) {
    let forms = subject.forms(request.categories);
    let mut best = (Said::Deny(DenyReason::NoGrant), None);
    for (grant, index, permission) in grants.candidates(request.agent_uri, &forms) {
        if !is_for(request, grant) || !names(request, permission, &forms) {
            continue;
        }
        let at = PermissionRef { grant: grant.grant_id.clone(), index };
        let said = conditions(request, permission, subject, &at, counts, now);
        if rank(&said) > rank(&best.0) {
            best = (said, Some(at));
            if matches!(best.0, Said::Allow) {
                break;
            }
        }
    }
    best
}

/// Whether a grant is this agent's, and in force at all.
pub(super) fn is_for(request: &Request<'_>, grant: &Grant) -> bool {
    !grant.revoked
        && grant.agent_uri == *request.agent_uri
        && grant.organization_id == request.organization_id
        && grant.instance_id.as_ref().is_none_or(|instance| instance == request.instance_id)
}

fn names(request: &Request<'_>, permission: &Permission, forms: &Forms<'_>) -> bool {
    permission.action_types.iter().any(|named| named.names(request.action))
        && permission.secrets.iter().any(|pattern| pattern.matches(forms))
}

/// The conditions in their fixed order. A person is asked last: nobody should be asked about what can't be.
pub(super) fn conditions(
    request: &Request<'_>,
    permission: &Permission,
    subject: &Subject,
    at: &PermissionRef,
    counts: &dyn Counts,
    now: Timestamp,
) -> Said {
    let is = &permission.conditions;
    let context = |(key, value): (&String, &String)| request.contexts.get(key) == Some(value);
    let environment = |allowed: &Vec<String>| {
        allowed.iter().any(|name| name.eq_ignore_ascii_case(subject.path().environment()))
    };
    let address = |ranges: &Vec<super::IpRange>| {
        request.source_ip.is_some_and(|address| ranges.iter().any(|range| range.contains(address)))
    };
    let fails = [
        (now < is.valid_from, DenyReason::NotYetValid),
        (now > is.valid_until, DenyReason::Expired),
        (is.min_trust_level.is_some_and(|least| request.trust < least), DenyReason::TrustLevel),
        (!is.allowed_contexts.iter().all(context), DenyReason::Context),
        (!is.allowed_environments.as_ref().is_none_or(environment), DenyReason::Environment),
        (!is.allowed_ip_ranges.as_ref().is_none_or(address), DenyReason::Address),
        (request.writes && !is.allow_writes, DenyReason::Writes),
        (is.max_concurrent.is_some_and(|most| counts.running(at) >= most), DenyReason::Concurrency),
        (is.max_per_minute.is_some_and(|most| counts.recent(at) >= most), DenyReason::Rate),
        (is.max_uses.is_some_and(|most| counts.uses(at) >= most), DenyReason::Exhausted),
    ];
    match fails.into_iter().find(|(fails, _)| *fails) {
        Some((_, reason)) => Said::Deny(reason),
        None if is.require_human_approval && !request.approved => Said::Ask,
        None => Said::Allow,
    }
}

fn rank(said: &Said) -> (u8, Option<DenyReason>) {
    match said {
        Said::Allow => (2, None),
        Said::Ask => (1, None),
        Said::Deny(reason) => (0, Some(*reason)),
    }
}

fn allowance(
    request: &Request<'_>,
    grants: &GrantIndex,
    each: Vec<(Subject, PermissionRef)>,
) -> Allowance {
    let mut permissions: Vec<PermissionRef> = each.iter().map(|(_, at)| at.clone()).collect();
    permissions.sort();
    permissions.dedup();
    let mut hosts: Option<Vec<Destination>> = None;
    for at in &permissions {
        let theirs = grants.permission(at).map(|one| one.conditions.allowed_hosts.clone());
        let theirs = theirs.unwrap_or_default();
        // With several values inside, only what all of them may reach.
        hosts = Some(match hosts {
            None => theirs,
            Some(hosts) => hosts.into_iter().filter(|host| theirs.contains(host)).collect(),
        });
    }
    let allowed_hosts = hosts.unwrap_or_default();
    Allowance { action: request.action, each, permissions, allowed_hosts }
}
