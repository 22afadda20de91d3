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
    /// The agent that asks, proven.
    pub agent_uri: &'a AgentUri,
    /// Which instance of it.
    pub instance_id: &'a InstanceId,
    /// The organization that the agent belongs to.
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
        let Best { said, used } = best(request, grants, counts, now, subject);
        match said {
            Said::Allow => {}
            Said::Ask => asks = true,
            Said::Deny(reason) => {
                let at = used.into_iter().next().map(|one| one.at);
                return Verdict::Deny(Denial { subject: Some(subject.clone()), reason, at });
            }
        }
        each.push((subject.clone(), used));
    }
    if asks {
        let first = |(subject, used): (_, Vec<Used<'_>>)| {
            used.into_iter().next().map(|one| (subject, one.at))
        };
        Verdict::Ask(Needed { each: each.into_iter().filter_map(first).collect() })
    } else {
        Verdict::Allow(allowance(request, each))
    }
}

/// The best answer for one secret, and the permissions that give it.
struct Best<'a> {
    said: Said,
    /// Of those that allow, each that lets it reach a host that those before it don't; where none names a
    /// host, the first. Of those that don't, the one that came nearest.
    used: Vec<Used<'a>>,
}

/// A permission, and the hosts that a value may reach under it.
struct Used<'a> {
    at: PermissionRef,
    hosts: &'a [Destination],
}

/// Whoever has two permissions may reach what either of them names: were it one of them alone, then which of
/// them would decide, and taking that one away could open a host.
fn best<'a>(
    request: &Request<'_>,
    grants: &'a GrantIndex,
    counts: &dyn Counts,
    now: Timestamp,
    subject: &Subject,
) -> Best<'a> {
    let forms = subject.forms(request.categories);
    let mut best = Best { said: Said::Deny(DenyReason::NoGrant), used: Vec::new() };
    for (grant, index, permission) in grants.candidates(request.agent_uri, &forms) {
        if !is_for(request, grant) || !names(request, permission, &forms) {
            continue;
        }
        let hosts = permission.conditions.allowed_hosts.as_slice();
        let is_allowed = matches!(best.said, Said::Allow);
        let is_reached = |host| best.used.iter().any(|one| one.hosts.contains(host));
        if is_allowed && hosts.iter().all(is_reached) {
            continue;
        }
        let at = PermissionRef { grant: grant.grant_id.clone(), index };
        let said = conditions(request, permission, subject, &at, counts, now);
        if rank(&said) > rank(&best.said) {
            best = Best { said, used: vec![Used { at, hosts }] };
        } else if is_allowed && matches!(said, Said::Allow) {
            best.used.retain(|one| !one.hosts.is_empty());
            best.used.push(Used { at, hosts });
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
    let address = |ranges: &Vec<super::IpRange>| {
        request.source_ip.is_some_and(|address| ranges.iter().any(|range| range.contains(address)))
    };
    let fails = [
        (now < is.valid_from, DenyReason::NotYetValid),
        (!is.is_in_time(now), DenyReason::Expired),
        (is.min_trust_level.is_some_and(|least| request.trust < least), DenyReason::TrustLevel),
        (!is.allowed_contexts.iter().all(context), DenyReason::Context),
        (!is.leaves_room_for(subject), DenyReason::Environment),
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

fn allowance(request: &Request<'_>, each: Vec<(Subject, Vec<Used<'_>>)>) -> Allowance {
    let all = || each.iter().flat_map(|(_, used)| used);
    let mut permissions: Vec<PermissionRef> = all().map(|one| one.at.clone()).collect();
    permissions.sort();
    permissions.dedup();
    // With several values inside, only what all of them may reach.
    let hosts_of = |used: &[Used<'_>]| -> Vec<Destination> {
        used.iter().flat_map(|one| one.hosts).cloned().collect()
    };
    let hosts = each.iter().map(|(_, used)| hosts_of(used));
    let mut allowed_hosts =
        hosts.reduce(|all, theirs| Destination::common(&all, &theirs)).unwrap_or_default();
    allowed_hosts.sort();
    allowed_hosts.dedup();
    let subjects = each.into_iter().map(|(subject, _)| subject).collect();
    Allowance { action: request.action, subjects, permissions, allowed_hosts }
}
