//! The operator's answers to what agents have asked: shown in full, applied, and on record.
//!
//! One service for the terminal, the page and the TUI; it stands behind a factor, wherever it is called
//! from. What is shown of a secret comes from the vault, and what an agent says is shown as its words and
//! nothing else. An answer is applied before it is recorded: a crash in between leaves a
//! request that expires, never an agent that was told more than was done. What the operator does to a secret by
//! themselves takes the same turn (`keeping`).

mod keeping;

use std::sync::Arc;

use jiff::Timestamp;
use keyless_core::{
    ApproveOnUse, Code, Error, SafeText, SecretPath,
    approval::{Asked, Decision, Field, Fields, Outcome, Request, RequestId, Status},
};
use keyless_vault::{Metadata, Providers, Vault};
use tokio::{sync::Mutex, task::spawn_blocking};
use zeroize::Zeroizing;

use super::{
    CheckWhen, Operator,
    given::{Given, Occasion},
    shown::{Answer, Known, Named, Shown, UnknownPattern},
};
use crate::{
    agreed::AgreedBy,
    broker::Broker,
    places::Places,
    providers::providers,
    requests::{Requests, about, is_good_for_session},
};

/// Shows requests and answers them.
pub struct Approver {
    operator: Operator,
    requests: Arc<Requests>,
    /// Two answers at once would both be applied, and one of them refused.
    turn: Mutex<()>,
    /// How often every secret is asked about at least.
    floor: ApproveOnUse,
    /// Where the operator's catalog and patterns are; without, what is bundled counts.
    places: Option<Places>,
}

impl Approver {
    /// At an unlocked vault, without a broker.
    pub fn new(vault: Arc<Vault>) -> Self {
        let log = super::audit_log(&vault);
        let requests = Arc::new(Requests::new(&vault, log.clone()));
        let floor = ApproveOnUse::Never;
        let (turn, places) = (Mutex::default(), None);
        Self { operator: Operator::with_log(vault, log), requests, turn, floor, places }
    }

    /// In the broker's own process.
    pub(crate) fn of(broker: &Broker) -> Self {
        let operator = Operator::with_log(Arc::clone(broker.vault()), broker.log().clone());
        let (requests, floor) = (Arc::clone(broker.requests()), ApproveOnUse::Never);
        Self { operator, requests, turn: Mutex::default(), floor, places: None }
    }

    /// This approver, where the profile asks about every secret at least as often as `floor` says.
    #[must_use]
    pub(crate) fn asking_at_least(self, floor: ApproveOnUse) -> Self {
        Self { floor, ..self }
    }

    /// Asks the services of values before they are saved, where the operator wants that.
    #[must_use]
    pub(crate) fn checking(self, places: &Places) -> Self {
        let operator = self.operator.checking(places, CheckWhen::AsConfigured);
        Self { operator, places: Some(places.clone()), ..self }
    }

    /// The requests that wait, oldest first.
    pub async fn pending(&self) -> Result<Vec<Shown>, Error> {
        self.shown(|request, now| request.status(now) == Status::Pending).await
    }

    /// One request that waits. [`Code::RequestSettled`] says which end it came to and when, [`Code::RequestNotFound`] that
    /// none of that name is known any more; both what can still be done.
    pub async fn waiting(&self, id: &RequestId) -> Result<Shown, Error> {
        let (now, found) = (Timestamp::now(), self.requests.pending(id).await);
        let error = match found {
            Ok(request) => return Ok(self.show(&request, now).await),
            Err(error) => error,
        };
        let words = match error.code() {
            Code::RequestNotFound => SafeText::words("none of the last hour is called ")
                .and(id)
                .and("; keyless approve --list shows what waits"),
            Code::RequestSettled if self.has_effect(id, now).await? => {
                let words = error.detail().clone().and(", and holds; keyless approve --take-back ");
                words.and(id).and(" ends that")
            }
            _ => return Err(error),
        };
        Err(Error::with(error.code(), words))
    }

    /// What still has an effect: approvals that hold, and denials that are remembered. A word for a session is there once,
    /// however many requests it has answered.
    pub async fn standing(&self) -> Result<Vec<Shown>, Error> {
        let now = Timestamp::now();
        let mut all = self.requests.all().await?;
        all.retain(|request| request.allows_use(now) || request.denies(now));
        let mut standing: Vec<(Request, Vec<RequestId>)> = Vec::new();
        // The one that was answered last stands for all: what it allows ends last.
        for request in all.into_iter().rev() {
            match standing.iter_mut().find(|(word, _)| is_same_word(word, &request)) {
                Some((_, also)) => also.insert(0, request.id),
                None => standing.push((request, Vec::new())),
            }
        }
        let mut shown = Vec::with_capacity(standing.len());
        for (request, also) in standing.into_iter().rev() {
            shown.push(Shown { also, ..self.show(&request, now).await });
        }
        Ok(shown)
    }

    async fn has_effect(&self, id: &RequestId, now: Timestamp) -> Result<bool, Error> {
        let all = self.requests.all().await?;
        let held = all.iter().find(|request| request.id == *id);
        Ok(held.is_some_and(|request| request.allows_use(now) || request.denies(now)))
    }

    /// One request, however it stands, and since when: when it was made, settled or over.
    pub(crate) async fn look(&self, id: &RequestId) -> Result<(Shown, Timestamp), Error> {
        let (request, now) = (self.requests.any(id).await?, Timestamp::now());
        let since = match (&request.settled, request.status(now)) {
            (Some(settled), _) => settled.at,
            (None, Status::Expired) => request.expires_at,
            (None, _) => request.created_at,
        };
        Ok((self.show(&request, now).await, since))
    }

    /// Applies an answer and records it. `value` goes with [`Answer::Value`] and nothing else.
    ///
    /// Fails with [`Code::RequestSettled`] when it is too late, and as the vault does when the answer can't be
    /// applied; then the request still waits. With [`Code::ValueNotStored`] it has failed: no other value would be taken.
    pub async fn answer(
        &self,
        id: &RequestId,
        answer: Answer,
        value: Option<Zeroizing<Vec<u8>>>,
    ) -> Result<Shown, Error> {
        let _turn = self.turn.lock().await;
        // Other processes answer too: without a broker, or at another one on the same server.
        let _everywhere = self.operator.vault.store().turn().await?;
        let request = self.requests.pending(id).await?;
        // Whether it fits at all is asked before anything is applied.
        request.settle(answer.probe(), Timestamp::now())?;
        let decision = match answer {
            Answer::AllowOnce => Decision::AllowOnce,
            Answer::AllowSession => self.allow_session(&request).await?,
            Answer::Apply { fields } => self.apply(&request, fields).await?,
            Answer::Cancel => Decision::Cancel,
            Answer::Deny => Decision::Deny,
            Answer::Register { path, fields } => self.register(&request, path, fields).await?,
            Answer::Value(given) => {
                let value = value.ok_or_else(misfit)?;
                self.fulfil(&request, given, value).await?;
                Decision::Fulfil(Outcome::default())
            }
        };
        let settled = self.requests.settle(id, decision).await?;
        self.requests.settle_alike(&settled).await?;
        Ok(self.show(&settled, Timestamp::now()).await)
    }

    /// Revokes an approval, or lifts a denial.
    pub async fn take_back(&self, id: &RequestId) -> Result<Shown, Error> {
        // At once, whoever is giving an answer. That one settles what is alike, here or in another process, and may have the
        // word of before: what it settled is over as well once it is done. Where the turn is not to be had, that is told.
        let over = self.requests.take_back(id).await?;
        let _turn = self.turn.lock().await;
        let _everywhere = self.operator.vault.store().turn().await?;
        self.requests.take_alike_back(&over).await?;
        Ok(self.show(&over, Timestamp::now()).await)
    }

    /// Gives the value that is asked for. Who asks is told where its place takes none.
    async fn fulfil(
        &self,
        request: &Request,
        given: Given,
        value: Zeroizing<Vec<u8>>,
    ) -> Result<(), Error> {
        let occasion = Occasion::asked(&request.asked).ok_or_else(misfit)?;
        let path = secret_of(request)?;
        let stored = match self.operator.vault.refuse_unwritable(path).await {
            // Declared and not in the store: it is added there.
            Err(error) if error.code() != Code::SecretNotFound => Err(error),
            _ => self.store(path, occasion, given, value, Some(&request.asked)).await,
        };
        if let Err(error) = &stored
            && error.code() == Code::ValueNotStored
        {
            self.requests.settle(&request.id, Decision::Fail(error.code())).await?;
        }
        stored
    }

    async fn allow_session(&self, request: &Request) -> Result<Decision, Error> {
        self.operator.vault.show(secret_of(request)?).await?;
        if self.show(request, Timestamp::now()).await.is_one_deed() {
            let words = about(request).and(" is asked for at every use; allow it once");
            return Err(Error::with(Code::AnswerUnfit, words));
        }
        Ok(Decision::AllowSession)
    }

    async fn apply(&self, request: &Request, fields: Vec<Field>) -> Result<Decision, Error> {
        let Asked::MetadataProposal { fields: proposed, .. } = &request.asked else {
            return Err(misfit());
        };
        let path = secret_of(request)?;
        let (mut metadata, there) = match self.operator.vault.show(path).await {
            Ok(secret) => (secret.metadata, true),
            // Declared and not kept here yet: what is known of it is, from now on.
            Err(error) if error.code() == Code::SecretNotFound => {
                let mut metadata = Metadata::default();
                keep_declared(&mut metadata, &request.asked);
                (metadata, false)
            }
            Err(error) => return Err(error),
        };
        let before = metadata.clone();
        take_over(&mut metadata, proposed, &fields)?;
        match (fields.is_empty(), there) {
            (true, _) => {}
            (false, true) => self.operator.set(path, &before, metadata).await?,
            (false, false) => self.operator.add(path, metadata, None).await?,
        }
        Ok(Decision::Fulfil(Outcome { applied_fields: Some(fields), final_path: None }))
    }

    async fn register(
        &self,
        request: &Request,
        path: SecretPath,
        fields: Vec<Field>,
    ) -> Result<Decision, Error> {
        let Asked::NewPathProposal { fields: proposed, .. } = &request.asked else {
            return Err(misfit());
        };
        let is_suggested = request.path.as_ref() == Some(&path);
        let there = match self.operator.vault.show(&path).await {
            // The store may have it for other projects: the person was shown that, and this session sees it from now on. Another
            // name is meant to be a new one.
            Ok(secret) if is_suggested => Some(secret.metadata),
            Ok(_) => None,
            Err(error) if error.code() == Code::SecretNotFound => None,
            Err(error) => return Err(error),
        };
        let mut metadata = there.clone().unwrap_or_default();
        // Nothing is declared of another name.
        if is_suggested && there.is_none() {
            keep_declared(&mut metadata, &request.asked);
        }
        take_over(&mut metadata, proposed, &fields)?;
        match there {
            None => self.operator.add(&path, metadata, None).await?,
            Some(_) if fields.is_empty() => {}
            Some(before) => self.operator.set(&path, &before, metadata).await?,
        }
        let outcome = Outcome { applied_fields: Some(fields), final_path: Some(path) };
        Ok(Decision::Fulfil(outcome))
    }

    async fn shown(
        &self,
        wanted: impl Fn(&Request, Timestamp) -> bool,
    ) -> Result<Vec<Shown>, Error> {
        let now = Timestamp::now();
        let mut all = Vec::new();
        for request in self.requests.all().await? {
            if wanted(&request, now) {
                all.push(self.show(&request, now).await);
            }
        }
        Ok(all)
    }

    async fn show(&self, request: &Request, now: Timestamp) -> Shown {
        let holds_until = request.settled.as_ref().and_then(|settled| settled.holds_until);
        let end = holds_until.unwrap_or(request.expires_at);
        let mut secrets = Vec::new();
        for path in secrets_of(request) {
            let (vault, floor) = (&self.operator.vault, self.floor_of(&request.asked));
            let known = vault.show(path).await.ok().map(|secret| {
                let kept_at = vault.kept_at(&secret);
                Known::of(secret, kept_at, floor)
            });
            secrets.push(Named { path: path.clone(), known });
        }
        let mut secrets = secrets.into_iter();
        let first = secrets.next();
        let (path, known) = first.map_or((None, None), |first| (Some(first.path), first.known));
        Shown {
            id: request.id.clone(),
            path,
            asked: request.asked.clone(),
            session: request.session.clone(),
            status: request.status(now),
            age_seconds: request.age_seconds(now),
            seconds_left: u64::try_from(end.duration_since(now).as_secs()).unwrap_or(0),
            known,
            unknown_pattern: self.unknown_pattern(&request.asked).await,
            others: secrets.collect(),
            also: Vec::new(),
        }
    }

    async fn unknown_pattern(&self, asked: &Asked) -> Option<UnknownPattern> {
        let id = match asked {
            Asked::MetadataProposal { fields, .. } | Asked::NewPathProposal { fields, .. } => {
                fields
            }
            Asked::Provision { declared, .. } => declared,
            _ => return None,
        };
        let (id, places) = (id.pattern_id.clone()?, self.places.clone());
        let voucher = self.operator.vault.agreement_voucher();
        let look = move || {
            // A catalog that can't be used is a matter of `keyless catalog`.
            let known =
                places.and_then(|places| providers(&places, AgreedBy::Vault(&voucher)).ok());
            UnknownPattern::of(&id, &known.unwrap_or_else(Providers::bundled))
        };
        spawn_blocking(look).await.ok()?
    }
}

impl Approver {
    /// How often what is asked about is asked about at least: a project may ask for more than the profile.
    fn floor_of(&self, asked: &Asked) -> ApproveOnUse {
        match asked {
            Asked::UseApproval { per_call: true, .. } => ApproveOnUse::PerCall,
            // Nobody is asked about a secret whose uses take no word; a deed may be one of those.
            Asked::UseApproval { deed: None, .. } => ApproveOnUse::Session.tightened_by(self.floor),
            _ => asked.policy().tightened_by(self.floor),
        }
    }
}

/// Whether one word for a session is why both hold.
fn is_same_word(one: &Request, other: &Request) -> bool {
    let is_word = |request: &Request| {
        request.settled.as_ref().is_some_and(|settled| settled.status == Status::Session)
    };
    is_word(one) && is_word(other) && is_good_for_session(one, other)
}

/// What is declared of a secret and asks for more care stays with it, wherever it is used from the moment it is stored.
fn keep_declared(metadata: &mut Metadata, asked: &Asked) {
    metadata.approve_on_use = metadata.approve_on_use.tightened_by(asked.policy());
    if let Some(declared) = asked.declared() {
        metadata.upkeep.expires_at = declared.expires_at;
        metadata.upkeep.rotate_every_days = declared.rotate_every_days;
    }
}

/// Puts the chosen fields of a proposal into metadata; only what was proposed can be chosen.
fn take_over(metadata: &mut Metadata, proposed: &Fields, chosen: &[Field]) -> Result<(), Error> {
    let there = proposed.present();
    if !chosen.iter().all(|field| there.contains(field)) {
        return Err(misfit());
    }
    let (own, theirs) = (&mut metadata.upkeep, proposed.clone());
    for field in chosen {
        match field {
            Field::Description => metadata.description.clone_from(&theirs.description),
            Field::ExpiresAt => own.expires_at = theirs.expires_at,
            Field::PatternId => own.pattern_id.clone_from(&theirs.pattern_id),
            Field::RetrievalUrl => own.retrieval_url.clone_from(&theirs.retrieval_url),
            Field::RotateEveryDays => own.rotate_every_days = theirs.rotate_every_days,
        }
    }
    Ok(())
}

/// The secrets that a request is about: an action may mean several, a deploy means none.
fn secrets_of(request: &Request) -> &[SecretPath] {
    match &request.asked {
        Asked::ActionApproval { wanted } => &wanted.secrets,
        _ => request.path.as_slice(),
    }
}

fn secret_of(request: &Request) -> Result<&SecretPath, Error> {
    request.path.as_ref().ok_or_else(misfit)
}

fn misfit() -> Error {
    Error::with(Code::AnswerUnfit, SafeText::words("the answer does not fit what is asked"))
}

#[cfg(test)]
mod tests {
    use keyless_core::Destination;

    use keyless_vault::SourceConfig;

    use super::*;
    use crate::scene::Scene;

    const SESSION: &str = "ses-1";

    fn path() -> SecretPath {
        SecretPath::parse("team/a/key").unwrap()
    }

    fn hosts(name: &str) -> Vec<Destination> {
        vec![Destination::parse(name).unwrap()]
    }

    /// A secret that is known, with or without a value, and somebody who answers for it.
    async fn approver(value: Option<&[u8]>) -> (Approver, Scene) {
        let scene = Scene::new().await;
        let approver = Approver::new(Arc::clone(&scene.vault));
        let value = value.map(|value| Zeroizing::new(value.to_vec()));
        approver.operator.add(&path(), Metadata::default(), value).await.unwrap();
        (approver, scene)
    }

    impl Approver {
        /// The policy that the store has of a secret.
        async fn asks(&self, path: &SecretPath) -> ApproveOnUse {
            self.operator.vault.show(path).await.unwrap().metadata.approve_on_use
        }
    }

    async fn ask(approver: &Approver, asked: Asked) -> RequestId {
        approver.requests.ask(SESSION, Some(&path()), asked, None).await.unwrap().id
    }

    async fn give(
        approver: &Approver,
        id: &RequestId,
        to: &str,
        value: &[u8],
    ) -> Result<Shown, Error> {
        let answer = Answer::Value(Given { to: hosts(to), ..Given::default() });
        approver.answer(id, answer, Some(Zeroizing::new(value.to_vec()))).await
    }

    #[tokio::test]
    async fn a_refused_value_leaves_the_hosts_open() {
        let (approver, _scene) = approver(None).await;
        let id = ask(&approver, Asked::provision()).await;
        for (value, code) in [("changeme-12", Code::ValueWeak), ("short", Code::ValueRefused)] {
            let refused = give(&approver, &id, "wrong.test", value.as_bytes()).await.unwrap_err();
            assert_eq!(refused.code(), code);
            let known = approver.operator.vault.show(&path()).await.unwrap();
            assert!(known.metadata.egress.is_none() && known.version.is_none());
        }
        give(&approver, &id, "right.test", b"Qm7-xT4w9ZrK2bVp").await.unwrap();
        let rule = approver.operator.vault.show(&path()).await.unwrap().metadata.egress;
        assert_eq!(rule.unwrap().to, hosts("right.test"));
    }

    /// No other value would be taken there either.
    #[tokio::test]
    async fn a_value_that_its_place_does_not_take_ends_the_request_as_failed() {
        let scene = Scene::new().await;
        let approver = Approver::new(Arc::clone(&scene.vault));
        let source = SourceConfig::Routed { source: Some("gone".to_owned()), reference: None };
        let metadata = Metadata { source, ..Metadata::default() };
        approver.operator.add(&path(), metadata, None).await.unwrap();
        let id = ask(&approver, Asked::rotation()).await;
        let refused = give(&approver, &id, "a.test", b"Qm7-xT4w9ZrK2bVp").await.unwrap_err();
        assert_eq!(refused.code(), Code::ValueNotStored);
        let settled = approver.requests.poll(SESSION, &id).await.unwrap();
        let status = settled.status(Timestamp::now());
        assert_eq!(status, Status::Failed { code: Code::ValueNotStored });
    }

    #[tokio::test]
    async fn a_tighter_policy_than_the_secrets_own_is_kept() {
        let (approver, _scene) = approver(Some(b"Qm7-xT4w9ZrK2bVp")).await;
        let reason = "to look".to_owned();
        let asked = Asked::UseApproval { reason, deed: None, per_call: true, occasion: None };
        let id = ask(&approver, asked).await;
        let refused = approver.answer(&id, Answer::AllowSession, None).await.unwrap_err();
        assert_eq!(refused.code(), Code::AnswerUnfit);
        approver.answer(&id, Answer::AllowOnce, None).await.unwrap();
    }

    /// What a person is told is what happens, not what the secret alone would say.
    #[tokio::test]
    async fn the_policy_in_force_is_shown() {
        let (approver, _scene) = approver(Some(b"Qm7-xT4w9ZrK2bVp")).await;
        let asks = |pending: Vec<Shown>| pending[0].known.as_ref().unwrap().approve_on_use;
        let asked = |per_call| Asked::UseApproval {
            reason: "x".to_owned(),
            deed: None,
            per_call,
            occasion: None,
        };
        // The project's word: nobody is asked about a use that takes none.
        let id = ask(&approver, asked(false)).await;
        assert_eq!(asks(approver.pending().await.unwrap()), ApproveOnUse::Session);
        approver.answer(&id, Answer::AllowOnce, None).await.unwrap();
        let id = ask(&approver, Asked::rotation()).await;
        assert_eq!(asks(approver.pending().await.unwrap()), ApproveOnUse::Never);
        let approver = approver.asking_at_least(ApproveOnUse::Session);
        assert_eq!(asks(approver.pending().await.unwrap()), ApproveOnUse::Session);
        approver.answer(&id, Answer::Cancel, None).await.unwrap();
        // The project's word, which the request carries.
        ask(&approver, asked(true)).await;
        assert_eq!(asks(approver.pending().await.unwrap()), ApproveOnUse::PerCall);
    }

    /// Also where nobody is asked to allow a use: the project may ask for more than the profile.
    #[tokio::test]
    async fn a_projects_policy_is_shown_with_a_rotation() {
        let (approver, _scene) = approver(Some(b"Qm7-xT4w9ZrK2bVp")).await;
        let declared =
            |asked: Asked| asked.with_declared(&Fields::default(), ApproveOnUse::PerCall);
        let description = Some("Words".to_owned());
        let fields = Fields { description, ..Fields::default() };
        for asked in [Asked::rotation(), Asked::metadata(fields)] {
            let id = ask(&approver, declared(asked)).await;
            let shown = approver.waiting(&id).await.unwrap();
            assert_eq!(shown.known.unwrap().approve_on_use, ApproveOnUse::PerCall);
            assert_eq!(approver.asks(&path()).await, ApproveOnUse::Never, "it is shown, no more");
        }
    }

    /// A project that asks for a person gets the secret into the store no looser than it has declared it.
    #[tokio::test]
    async fn a_declared_policy_stays_with_a_secret_that_is_stored_first() {
        let said = Fields { rotate_every_days: Some(90), ..Fields::default() };
        let value = b"Qm7-xT4w9ZrK2bVp";
        for there in [false, true] {
            let scene = Scene::new().await;
            let approver = Approver::new(Arc::clone(&scene.vault));
            if there {
                approver.operator.add(&path(), Metadata::default(), None).await.unwrap();
            }
            let asked = Asked::provision().with_declared(&said, ApproveOnUse::PerCall);
            let id = ask(&approver, asked).await;
            let shown = approver.waiting(&id).await.unwrap();
            assert_eq!(shown.kept_policy(), Some(ApproveOnUse::PerCall));
            give(&approver, &id, "a.test", value).await.unwrap();
            assert_eq!(approver.asks(&path()).await, ApproveOnUse::PerCall);
            let upkeep = scene.vault.show(&path()).await.unwrap().metadata.upkeep;
            // What its owner said of it stays.
            let days = if there { None } else { Some(90) };
            assert_eq!(upkeep.rotate_every_days, days);
            assert_eq!(shown.kept_fields().len(), usize::from(!there));
        }
    }

    #[tokio::test]
    async fn a_declared_policy_stays_with_what_is_proposed_of_a_path() {
        let fields = Fields { description: Some("Words".to_owned()), ..Fields::default() };
        let said = Fields { rotate_every_days: Some(90), ..Fields::default() };
        let (path, other) = (path(), SecretPath::parse("team/other/key").unwrap());
        let chosen = vec![Field::Description];
        let register = |path: &SecretPath| Answer::Register {
            path: path.clone(),
            fields: vec![Field::Description],
        };
        for (asked, answer, stored) in [
            (Asked::metadata(fields.clone()), Answer::Apply { fields: chosen }, &path),
            (Asked::new_path(fields.clone()), register(&path), &path),
            // Of another name nothing is declared.
            (Asked::new_path(fields), register(&other), &other),
        ] {
            let scene = Scene::new().await;
            let approver = Approver::new(Arc::clone(&scene.vault));
            let id = ask(&approver, asked.with_declared(&said, ApproveOnUse::Session)).await;
            approver.answer(&id, answer, None).await.unwrap();
            let metadata = scene.vault.show(stored).await.unwrap().metadata;
            let kept = (metadata.approve_on_use, metadata.upkeep.rotate_every_days);
            let (policy, days) = (ApproveOnUse::Session, Some(90));
            let nothing = (ApproveOnUse::Never, None);
            assert_eq!(kept, if *stored == path { (policy, days) } else { nothing });
            assert_eq!(metadata.description.as_deref(), Some("Words"));
        }
    }

    /// As where a second project uses what another one has stored.
    #[tokio::test]
    async fn a_path_that_the_store_has_is_accepted_under_its_own_name() {
        let (approver, scene) = approver(Some(b"Qm7-xT4w9ZrK2bVp")).await;
        let others = SecretPath::parse("team/other/key").unwrap();
        approver.operator.add(&others, Metadata::default(), None).await.unwrap();
        let fields = Fields { description: Some("Words".to_owned()), ..Fields::default() };
        let id = ask(&approver, Asked::new_path(fields)).await;
        assert_eq!(approver.waiting(&id).await.unwrap().heading(), "Let a session see a secret");
        let register = |path: &SecretPath, fields| Answer::Register { path: path.clone(), fields };
        let refused = approver.answer(&id, register(&others, vec![]), None).await.unwrap_err();
        assert_eq!(refused.code(), Code::SecretExists);
        let before = scene.vault.show(&path()).await.unwrap().version;
        let answer = register(&path(), vec![Field::Description]);
        assert_eq!(approver.answer(&id, answer, None).await.unwrap().status, Status::Ok);
        let settled = approver.requests.poll(SESSION, &id).await.unwrap().settled.unwrap();
        assert_eq!(settled.outcome.final_path, Some(path()));
        let secret = scene.vault.show(&path()).await.unwrap();
        assert_eq!(secret.metadata.description.as_deref(), Some("Words"));
        assert_eq!(secret.version, before, "its value stays");
    }

    /// Who comes too late is told what became of it, when, and what can still be done.
    #[tokio::test]
    async fn a_request_that_waits_no_more_says_why() {
        let (approver, _scene) = approver(Some(b"Qm7-xT4w9ZrK2bVp")).await;
        let id = ask(&approver, Asked::rotation()).await;
        assert_eq!(approver.waiting(&id).await.unwrap().status, Status::Pending);
        approver.answer(&id, Answer::Cancel, None).await.unwrap();
        let told = async |id: &RequestId| {
            let error = approver.waiting(id).await.unwrap_err();
            (error.code(), error.detail().as_str().to_owned())
        };
        let words = format!("{id} is cancelled: it was settled 0 s ago");
        assert_eq!(told(&id).await, (Code::RequestSettled, words));
        let asked = Asked::use_approval("x".to_owned());
        let life = Some(jiff::SignedDuration::from_millis(1));
        let late = approver.requests.ask("ses-2", Some(&path()), asked.clone(), life).await;
        let late = late.unwrap().id;
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        let (code, words) = told(&late).await;
        assert_eq!(code, Code::RequestSettled);
        assert!(words.contains(" is expired: its time was over "), "{words}");
        let id = ask(&approver, asked).await;
        approver.answer(&id, Answer::Deny, None).await.unwrap();
        let (_, words) = told(&id).await;
        let held = format!(", and holds; keyless approve --take-back {id} ends that");
        assert!(words.contains(" is denied: ") && words.ends_with(&held), "{words}");
        let unknown = RequestId::parse("prov-070707070707").unwrap();
        let (code, words) = told(&unknown).await;
        assert_eq!(code, Code::RequestNotFound);
        assert!(words.ends_with("keyless approve --list shows what waits"), "{words}");
    }

    /// Of a rule about requests: the next request would be asked about all the same.
    #[tokio::test]
    async fn one_deed_is_not_allowed_for_a_session() {
        let (approver, _scene) = approver(Some(b"Qm7-xT4w9ZrK2bVp")).await;
        let (reason, deed) = ("to look".to_owned(), Some("DELETE a.test:443/x".to_owned()));
        let id =
            ask(&approver, Asked::UseApproval { reason, deed, per_call: false, occasion: None })
                .await;
        let refused = approver.answer(&id, Answer::AllowSession, None).await.unwrap_err();
        assert_eq!(refused.code(), Code::AnswerUnfit);
        approver.answer(&id, Answer::AllowOnce, None).await.unwrap();
    }

    /// Each session that lacks a value asks for itself; a person is not shown what can't be accepted any more.
    #[tokio::test]
    async fn a_value_answers_all_who_wait_for_it() {
        let (approver, _scene) = approver(None).await;
        let id = ask(&approver, Asked::provision()).await;
        let asked = async |session: &str, asked: Asked| {
            approver.requests.ask(session, Some(&path()), asked, None).await.unwrap().id
        };
        let other = asked("session-of-another", Asked::provision()).await;
        let unlike = asked("session-of-another", Asked::rotation()).await;
        give(&approver, &id, "a.test", b"Qm7-xT4w9ZrK2bVp").await.unwrap();
        let status = async |id: &RequestId| {
            let all = approver.requests.all().await.unwrap();
            all.iter().find(|one| one.id == *id).map(|one| one.status(Timestamp::now()))
        };
        assert_eq!(status(&other).await, Some(Status::Ok));
        assert_eq!(status(&unlike).await, Some(Status::Pending));
    }

    /// A session that has given two reasons asks its person once; what they take back is gone whole.
    #[tokio::test]
    async fn a_word_for_the_session_answers_all_that_it_waits_for() {
        let (approver, _scene) = approver(Some(b"Qm7-xT4w9ZrK2bVp")).await;
        let asked = async |session: &str, reason: &str, per_call: bool| {
            let asked = Asked::UseApproval {
                reason: reason.to_owned(),
                deed: None,
                per_call,
                occasion: None,
            };
            approver.requests.ask(session, Some(&path()), asked, None).await.unwrap().id
        };
        let first = asked(SESSION, "to look", false).await;
        let second = asked(SESSION, "to write", false).await;
        let each_time = asked(SESSION, "to look", true).await;
        let of_another = asked("ses-2", "to look", false).await;
        approver.answer(&first, Answer::AllowSession, None).await.unwrap();
        let all = async |ids: [&RequestId; 2]| {
            let (all, now) = (approver.requests.all().await.unwrap(), Timestamp::now());
            let find = |id: &RequestId| all.iter().find(|one| one.id == *id).unwrap();
            ids.map(find).map(|request| (request.status(now), request.allows_use(now)))
        };
        assert_eq!(all([&first, &second]).await, [(Status::Session, true); 2]);
        assert_eq!(all([&each_time, &of_another]).await, [(Status::Pending, false); 2]);
        approver.take_back(&second).await.unwrap();
        assert_eq!(all([&first, &second]).await, [(Status::Session, false); 2]);
    }

    /// An answer settles what is alike after it is settled itself: what is taken back in between would hold again.
    /// At once, though an answer is being given, here or in another process; and what that allows alike is over behind it.
    #[tokio::test]
    async fn what_is_taken_back_is_over_at_once_and_what_an_answer_allows_alike_behind_it() {
        let (approver, _scene) = approver(Some(b"Qm7-xT4w9ZrK2bVp")).await;
        let asked = |reason: &str| Asked::use_approval(reason.to_owned());
        let allowed = async || {
            let all = approver.requests.all().await.unwrap();
            all.iter().filter(|one| one.allows_use(Timestamp::now())).count()
        };
        let brief = std::time::Duration::from_millis(50);
        for is_elsewhere in [false, true] {
            let id = ask(&approver, asked("to look")).await;
            approver.answer(&id, Answer::AllowSession, None).await.unwrap();
            let here = if is_elsewhere { None } else { Some(approver.turn.lock().await) };
            let elsewhere = if is_elsewhere {
                Some(approver.operator.vault.store().turn().await.unwrap())
            } else {
                None
            };
            let taking = approver.take_back(&id);
            tokio::pin!(taking);
            assert!(tokio::time::timeout(brief, &mut taking).await.is_err());
            assert_eq!(allowed().await, 0);
            let alike = ask(&approver, asked("to look again")).await;
            approver.requests.settle(&alike, Decision::AllowSession).await.unwrap();
            assert_eq!(allowed().await, 1);
            drop((here, elsewhere));
            taking.await.unwrap();
            assert_eq!(allowed().await, 0);
        }
    }

    #[tokio::test]
    async fn a_first_value_overwrites_none() {
        let (approver, _scene) = approver(Some(b"Qm7-xT4w9ZrK2bVp")).await;
        let id = ask(&approver, Asked::provision()).await;
        let refused = give(&approver, &id, "a.test", b"Hn3-yU8e5GsL6cDq").await.unwrap_err();
        assert_eq!(refused.code(), Code::StateUnfit);
        assert_eq!(approver.operator.vault.show(&path()).await.unwrap().version, Some(1));
        let id = ask(&approver, Asked::rotation()).await;
        give(&approver, &id, "a.test", b"Hn3-yU8e5GsL6cDq").await.unwrap();
    }
}
