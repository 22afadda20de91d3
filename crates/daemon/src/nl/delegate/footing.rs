//! On which grants a delegation stands.

use jiff::Timestamp;
use keyless_core::{
    ActionType, Code, SafeText, SecretPath,
    delegation::TokenScope,
    grant::{Categories, GrantId, GrantState, Permission, SecretPattern, Subject},
    nl_message::NlFault,
};
use keyless_vault::Secret;

use super::unsound;
use crate::nl::{caller::Caller, resolve::subject, service::NlService};

/// What may be handed on, and why.
pub(super) struct Footing {
    pub(super) scope: TokenScope,
    pub(super) categories: Categories,
    /// Of the grants that let its issuer do all of it the one that ends first.
    pub(super) grant: GrantId,
    /// Until when that holds.
    pub(super) until: Timestamp,
}

impl NlService {
    /// A secret that is bait and that a scope names, not by a wildcard, and nothing else of the caller's with it.
    pub(super) async fn bait_in(
        &self,
        caller: &Caller,
        scope: &TokenScope,
    ) -> Result<Option<SecretPath>, NlFault> {
        let secrets = self.vault.list().await?;
        if !secrets.iter().any(|secret| secret.metadata.honeypot) {
            return Ok(None);
        }
        let grants = self.grants.refresh().await?.index;
        let categories = self.vault.categories().await?;
        let exact = || scope.secrets.iter().filter(|pattern| pattern.is_exact());
        for pattern in exact() {
            let named = secrets
                .iter()
                .filter(|secret| pattern.matches(&subject(&self.vault, secret).forms(&categories)));
            let (bait, real): (Vec<_>, Vec<_>) = named.partition(|one| one.metadata.honeypot);
            let is_theirs = |secret: &&Secret| {
                let subject = subject(&self.vault, secret);
                grants.names(caller.grantee(), ActionType::Delegate, &subject, &categories)
            };
            if let (Some(bait), false) = (bait.first(), real.iter().any(is_theirs)) {
                return Ok(Some(bait.path.clone()));
            }
        }
        Ok(None)
    }

    /// The grants that let the caller hand all of a scope on: of several the ones that hold longest. A secret's name
    /// that no grant of theirs has in this form is taken for the secrets that it names to them.
    pub(super) async fn footing(
        &self,
        caller: &Caller,
        scope: TokenScope,
    ) -> Result<Footing, NlFault> {
        if self.max_depth == 0 {
            let words =
                SafeText::words("work is not handed on here: [nl] max_delegation_depth is 0");
            let suggestion = SafeText::words("Do it yourself, or ask the operator.");
            return Err(NlFault::new(Code::DelegationTooDeep, words).suggesting(suggestion));
        }
        if scope.secrets.is_empty() {
            return Err(unsound("the scope names no secrets"));
        }
        let (grants, now) = (self.grants.refresh().await?.index, Timestamp::now());
        let secrets = self.vault.list().await?;
        let categories = self.vault.categories().await?;
        let theirs = |subject: &Subject| {
            let (kind, one) = (ActionType::Delegate, std::slice::from_ref(subject));
            caller.covers(kind, one, &categories).is_ok()
                && grants.shows(caller.grantee(), kind, (subject, &categories), now)
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
            if let Some((grant, until)) = self.together(caller, &scope, &categories).await? {
                return Ok(Footing { scope, categories, grant, until });
            }
        }
        let words = match parent {
            None => "your grants do not cover all of the delegation's scope",
            Some(_) => {
                "the token that you act under and the grants behind it do not cover all of the delegation's scope"
            }
        };
        Err(NlFault::new(Code::DelegationSubset, SafeText::words(words)))
    }

    /// Of the grants that together let the caller hand all of a scope on, the one that ends first; for each secret and
    /// each type of action the one that holds longest counts. They are asked again at every use.
    async fn together(
        &self,
        caller: &Caller,
        scope: &TokenScope,
        categories: &Categories,
    ) -> Result<Option<(GrantId, Timestamp)>, NlFault> {
        let current = self.current(caller).await?;
        let mut first: Option<(GrantId, Timestamp)> = None;
        let kinds = || scope.actions.iter().chain([&ActionType::Delegate]);
        let pairs =
            scope.secrets.iter().flat_map(|wanted| kinds().map(move |kind| (wanted, *kind)));
        for (wanted, kind) in pairs {
            let covers = |one: &Permission| {
                let mut wide = one.secrets.iter();
                one.action_types.iter().any(|named| named.names(kind))
                    && wide.any(|wide| wanted.is_within_by_form(wide, categories))
            };
            let longest = current.iter().filter(|(_, one)| covers(one));
            let longest = longest.max_by_key(|(_, one)| one.conditions.valid_until);
            let Some((grant, one)) = longest else { return Ok(None) };
            let until = one.conditions.valid_until;
            if first.as_ref().is_none_or(|(_, earlier)| until < *earlier) {
                first = Some((grant.clone(), until));
            }
        }
        Ok(first)
    }

    /// What the caller's grants permit at this moment. One that is over, or has not begun, lets nobody do anything.
    async fn current(&self, caller: &Caller) -> Result<Vec<(GrantId, Permission)>, NlFault> {
        let (aid, now) = (caller.grantee(), Timestamp::now());
        let mut current = Vec::new();
        for shown in self.grants.list().await? {
            let grant = shown.grant;
            let theirs = grant.agent_uri == aid.agent_uri
                && grant.organization_id == aid.organization_id
                && grant.instance_id.as_ref().is_none_or(|one| *one == aid.instance_id);
            if !theirs || shown.state != GrantState::Active {
                continue;
            }
            let is_current = |one: &Permission| one.conditions.is_in_time(now);
            let permissions = grant.permissions.into_iter().filter(is_current);
            current.extend(permissions.map(|one| (grant.grant_id.clone(), one)));
        }
        Ok(current)
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
