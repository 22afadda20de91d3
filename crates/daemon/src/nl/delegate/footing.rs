//! On which grant a delegation stands.

use jiff::Timestamp;
use keyless_core::{
    ActionType, Code, SafeText,
    delegation::TokenScope,
    grant::{Categories, GrantId, GrantState, Permission, SecretPattern, Subject},
    nl_message::NlFault,
};

use crate::nl::{caller::Caller, resolve::subject, service::NlService};

/// What may be handed on, and why.
pub(super) struct Footing {
    pub(super) scope: TokenScope,
    pub(super) categories: Categories,
    /// The grant that lets its issuer do all of it.
    pub(super) grant: GrantId,
    /// Until when that holds.
    pub(super) until: Timestamp,
}

impl NlService {
    /// The grant that lets the caller hand all of a scope on: of several the one that holds longest. A secret's name
    /// that no grant of theirs has in this form is taken for the secrets that it names to them.
    pub(super) async fn footing(
        &self,
        caller: &Caller,
        scope: TokenScope,
    ) -> Result<Footing, NlFault> {
        let grants = self.grants.refresh().await?.index;
        let secrets = self.vault.list().await?;
        let categories = Categories::of(secrets.iter().map(|secret| &secret.path));
        let theirs = |subject: &Subject| {
            let (kind, one) = (ActionType::Delegate, std::slice::from_ref(subject));
            caller.covers(kind, one, &categories).is_ok()
                && grants.names(caller.grantee(), kind, subject, &categories)
        };
        let visible = secrets.iter().filter(|secret| !secret.metadata.honeypot);
        let visible = visible.map(|secret| subject(&self.vault, secret));
        let visible: Vec<Subject> = visible.filter(theirs).collect();
        let in_full = TokenScope {
            secrets: scope
                .secrets
                .iter()
                .flat_map(|one| full(one, &visible, &categories))
                .collect(),
            ..scope.clone()
        };
        let parent = caller.acting.as_ref().map(|acting| &acting.token.scope);
        for scope in [scope, in_full] {
            if parent.is_some_and(|parent| !scope.is_within(parent, &categories)) {
                continue;
            }
            if let Some((grant, until)) = self.longest(caller, &scope, &categories).await? {
                return Ok(Footing { scope, categories, grant, until });
            }
        }
        let words = "no one grant of yours covers all of the delegation's scope";
        Err(NlFault::new(Code::DelegationSubset, SafeText::words(words)))
    }

    async fn longest(
        &self,
        caller: &Caller,
        scope: &TokenScope,
        categories: &Categories,
    ) -> Result<Option<(GrantId, Timestamp)>, NlFault> {
        let aid = caller.grantee();
        let now = Timestamp::now();
        let mut longest: Option<(GrantId, Timestamp)> = None;
        for shown in self.grants.list().await? {
            let grant = &shown.grant;
            let theirs = grant.agent_uri == aid.agent_uri
                && grant.organization_id == aid.organization_id
                && grant.instance_id.as_ref().is_none_or(|one| *one == aid.instance_id);
            if !theirs || shown.state != GrantState::Active {
                continue;
            }
            // One that is over, or has not begun, lets nobody do anything.
            let is_current = |one: &&Permission| {
                one.conditions.valid_from <= now && now <= one.conditions.valid_until
            };
            for permission in grant.permissions.iter().filter(is_current) {
                let until = permission.conditions.valid_until;
                let names = |kind: ActionType| {
                    permission.action_types.iter().any(|named| named.names(kind))
                };
                let acts =
                    names(ActionType::Delegate) && scope.actions.iter().all(|kind| names(*kind));
                let within = |wanted: &SecretPattern| {
                    let mut wide = permission.secrets.iter();
                    wide.any(|wide| wanted.is_within_by_form(wide, categories))
                };
                let is_longer = longest.as_ref().is_none_or(|(_, other)| until > *other);
                if acts && is_longer && scope.secrets.iter().all(within) {
                    longest = Some((grant.grant_id.clone(), until));
                }
            }
        }
        Ok(longest)
    }
}

/// A pattern without wildcards as the whole paths that it names; another as it is, so that nobody learns from it what
/// there is.
fn full(
    pattern: &SecretPattern,
    visible: &[Subject],
    categories: &Categories,
) -> Vec<SecretPattern> {
    let named = visible.iter().filter(|subject| pattern.matches(&subject.forms(categories)));
    let paths = named.filter_map(|subject| SecretPattern::parse(&subject.to_string()).ok());
    let paths: Vec<_> = paths.collect();
    if pattern.is_exact() && !paths.is_empty() { paths } else { vec![pattern.clone()] }
}
