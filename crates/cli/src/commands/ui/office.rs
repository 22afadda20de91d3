//! Where the screen's answers come from and its acts go to: the broker, or this process where none runs, and the vault
//! that the operator has opened. No words of its own: each answer is drawn as it came.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use keyless_core::{ApproveOnUse, Code, Error};
use keyless_daemon::{
    AgreedBy, ApproverHandle, Config, Occasion, Operator, Overview, Places, Weight,
    vault::{Providers, Vault},
};

use super::{
    app::{Act, App},
    dialog::Dialog,
    rooms::Room,
    theme::Mood,
};
use crate::{commands::approve::told, ui::in_sentences};

/// How long the factor's proof holds, as at `operator.sock`.
const PROOF_LIFE: Duration = Duration::from_mins(10);
/// How often what changes by itself is asked for again.
const AGAIN: Duration = Duration::from_secs(2);
/// How often who used what: that is counted over the log's newest 20,000 entries.
const USES_AGAIN: Duration = Duration::from_secs(10);

/// The operator's place.
pub(super) struct Office {
    places: Places,
    vault: Arc<Vault>,
    approver: ApproverHandle,
    overview: Overview,
    providers: Arc<Providers>,
    proven: Instant,
    looked: Option<Instant>,
    uses_counted: Option<Instant>,
}

impl Office {
    /// At an open vault, which is the proof of the factor.
    pub(super) async fn open(places: Places, vault: Vault) -> Result<Self, Error> {
        let vault = Arc::new(vault);
        let approver = ApproverHandle::open(&places, Arc::clone(&vault)).await?;
        // As a broker would ask; a file that can't be read is told by whatever needs it.
        let floor = keyless_daemon::asked_at_least(&places).unwrap_or(ApproveOnUse::Never);
        let overview = Overview::new(Arc::clone(&vault)).asking_at_least(floor);
        // A catalog that can't be used is a matter of `keyless catalog`; what is bundled can.
        let voucher = vault.agreement_voucher();
        let providers = keyless_daemon::providers(&places, AgreedBy::Vault(&voucher));
        let providers = providers.unwrap_or_else(|_| Providers::bundled());
        let (providers, proven) = (Arc::new(providers), Instant::now());
        let (looked, uses_counted) = (None, None);
        Ok(Self { places, vault, approver, overview, providers, proven, looked, uses_counted })
    }

    /// Whether the factor has to be proven once more before an act: as the page would ask for it, `[web] prove_again`
    /// of config.toml included. What gives nothing takes no file.
    pub(super) fn wants_proof(&self, act: &Act) -> Result<bool, Error> {
        if act.weight() == Weight::Nothing {
            return Ok(false);
        }
        let setting = Config::load(&self.places.config_file())?.web.prove_again;
        Ok(setting.takes(act.weight()).is_due(self.proven.elapsed()))
    }

    /// Takes over what is new: what waits each time, the present room's every two seconds.
    ///
    /// [`Code::OperatorRequired`] when the proof of the factor is too old.
    pub(super) async fn look(&mut self, app: &mut App) -> Result<(), Error> {
        if self.proven.elapsed() > PROOF_LIFE {
            return Err(Code::OperatorRequired.into());
        }
        app.seen.waiting = self.approver.pending().await?;
        if self.looked.is_none_or(|looked| looked.elapsed() > AGAIN) {
            self.turn(app).await?;
        }
        app.settle();
        Ok(())
    }

    /// Asks for what the present room shows.
    pub(super) async fn turn(&mut self, app: &mut App) -> Result<(), Error> {
        let (overview, seen) = (&self.overview, &mut app.seen);
        match app.room {
            Room::Waiting => {}
            Room::Approvals => seen.standing = self.approver.standing().await?,
            Room::Secrets => {
                seen.secrets = Some(overview.secrets(&app.secrets_wanted).await?);
                if self.uses_counted.is_none_or(|counted| counted.elapsed() > USES_AGAIN) {
                    seen.uses = overview.latest_uses().await?;
                    self.uses_counted = Some(Instant::now());
                }
            }
            Room::Sessions => {
                seen.sessions = self.approver.sessions().await?;
                app.settle();
                app.seen.deeds = match app.chosen() {
                    Some(session) => overview.session_log(session).await?,
                    None => Vec::new(),
                };
            }
            Room::Grants => seen.grants = overview.grants().await?,
            Room::Log => seen.log = Some(overview.log(&app.log_wanted).await?),
            Room::Egress => seen.egress = Some(overview.egress().await?),
            // Each of them is a program or a server: they are asked when somebody comes to look.
            Room::Sources if seen.sources.is_some() && self.looked.is_some() => {}
            Room::Sources => seen.sources = Some(overview.sources().await?),
        }
        self.looked = Some(Instant::now());
        app.settle();
        Ok(())
    }

    /// Does what a key led to, and says so. An act of a dialog that fails leaves the dialog open, with why.
    pub(super) async fn perform(&mut self, app: &mut App, act: Act) -> Result<(), Error> {
        let is_of_dialog = app.dialog.is_some();
        match Box::pin(self.act(app, act)).await {
            Ok(Some(words)) => {
                app.dialog = None;
                app.say(words, Mood::Good);
                self.turn(app).await
            }
            Ok(None) => Ok(()),
            Err(error) if error.code() == Code::OperatorRequired => Err(error),
            Err(error) => {
                refuse(app, is_of_dialog, &error);
                Ok(())
            }
        }
    }

    async fn act(&mut self, app: &mut App, act: Act) -> Result<Option<String>, Error> {
        let words = match act {
            Act::Answer { id, answer, value, .. } => {
                let settled = self.approver.answer(&id, answer, value).await?;
                told(&settled).trim_end().to_owned()
            }
            Act::Check(path) => self.approver.check(&self.places, &path).await?.sentence(&path),
            Act::Edit { path, before, after } => {
                self.approver.change(&path, *before, *after).await?;
                format!("{path} is changed.")
            }
            Act::EndSession(id) => {
                self.approver.end_session(&id).await?;
                format!("Session {id} has ended.")
            }
            Act::OpenRequest(id) => {
                let found = app.seen.waiting.iter().find(|shown| shown.id == id).cloned();
                let shown = found.ok_or(Code::RequestSettled)?;
                let secret = match &shown.path {
                    Some(path) => self.vault.show(path).await.ok(),
                    None => None,
                };
                app.dialog = Some(Dialog::of_request(shown, secret, &self.providers));
                return Ok(None);
            }
            Act::OpenValue(path) => {
                let secret = match path {
                    Some(path) => Some(self.vault.show(&path).await?),
                    None => None,
                };
                app.dialog = Some(Dialog::of_value(secret, &self.providers));
                return Ok(None);
            }
            Act::Remove(path) => {
                Operator::new(Arc::clone(&self.vault)).remove(&path).await?;
                format!("{path} is removed; keyless secret restore brings it back.")
            }
            Act::RevokeGrant(id) => {
                let revoked = self.overview.grant_book().revoke(&id, None).await?;
                format!("{} permits nothing any more.", revoked.grant_id)
            }
            Act::TakeBack(id) => {
                self.approver.take_back(&id).await?;
                format!("{id} has no effect any more.")
            }
            Act::Value { path, occasion, given, value } => {
                self.approver.give(&path, occasion, given, value).await?;
                if occasion == Occasion::New {
                    app.choose(Some(path.to_string()));
                }
                let all = self.vault.list().await.unwrap_or_default();
                match keyless_daemon::word_of_shared_variable(&path, &all) {
                    Some(words) => format!("{path} has its value. {words}."),
                    None => {
                        format!("{path} has its value; running sessions take it up within seconds.")
                    }
                }
            }
            Act::VerifyChain => {
                app.seen.chain = Some(self.overview.chain().await);
                return Ok(None);
            }
            Act::Turn => {
                self.looked = None;
                self.turn(app).await?;
                return Ok(None);
            }
            // Those are the loop's.
            Act::Leave | Act::Lock => return Ok(None),
        };
        Ok(Some(words))
    }

    /// Closes the store here and at the broker, with every session that stands on it.
    pub(super) async fn lock(self) -> Result<(), Error> {
        self.vault.lock();
        keyless_daemon::lock_service(&self.places.agent_socket()).await.map(drop)
    }
}

/// Says why an act was not done: in its dialog, which stays open, if it is of one.
pub(super) fn refuse(app: &mut App, is_of_dialog: bool, error: &Error) {
    match app.dialog.as_mut().filter(|_| is_of_dialog) {
        Some(dialog) => dialog.refuse(error),
        None => app.say(in_sentences(error), Mood::Bad),
    }
}
