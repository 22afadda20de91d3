//! A dialog over the room: a request and its answer, a value, metadata, or the question whether a deed shall be done.
//!
//! What is true of a secret comes from the vault, what an agent says stands behind its bar, and a key that was meant for
//! something else decides nothing: the first button does nothing, and what opens a dialog is not its answer.

mod deed;
mod edit;
mod proposal;
mod request;
mod value;

use std::sync::Arc;

use keyless_core::{Code, Error, approval::Asked};
use keyless_daemon::{
    Answer, Occasion, Shown, Weight,
    vault::{Providers, Secret},
};

pub(in crate::commands) use self::value::ValueScene;
pub(super) use self::{deed::Deed, request::pieces_of};
use super::{
    app::Act,
    form::{Form, Word},
    keys::Press,
    pieces::Piece,
};
use crate::ui::in_sentences;

/// What a key led to.
pub(super) enum Outcome {
    Act(Act),
    Close,
}

/// A dialog.
pub(super) struct Dialog {
    pub(super) form: Form,
    about: About,
    /// The request has its answer, or its time is over.
    is_over: bool,
    /// Whether it was seen: keys that were pressed before are none of its own.
    pub(super) takes_keys: bool,
}

enum About {
    Deed(Deed),
    Metadata(Box<Secret>),
    Request(Box<Shown>, Option<ValueScene>),
    Value(ValueScene),
}

impl Dialog {
    fn new(form: Form, about: About) -> Self {
        Self { form, about, is_over: false, takes_keys: false }
    }

    /// The dialog of a request. `secret` is what the vault has of it.
    pub(super) fn of_request(
        shown: Shown,
        secret: Option<Secret>,
        providers: &Arc<Providers>,
    ) -> Self {
        let scene = ValueScene::of_request(&shown, secret, providers);
        let form = match (&shown.asked, &scene) {
            (_, Some(scene)) => scene.form(Some("Decline")),
            (Asked::MetadataProposal { fields, .. }, _) => proposal::fields_form(fields),
            (Asked::NewPathProposal { fields, .. }, _) => proposal::path_form(&shown, fields),
            _ => request::permission_form(&shown),
        };
        Self::new(form, About::Request(Box::new(shown), scene))
    }

    /// The dialog in which the operator gives a secret a value, asked by nobody; without one they add a secret.
    pub(super) fn of_value(secret: Option<Secret>, providers: &Arc<Providers>) -> Self {
        let path = secret.as_ref().map(|secret| secret.path.clone());
        let occasion = Occasion::of(secret.as_ref());
        let scene = ValueScene::new(path, secret, occasion, providers);
        Self::new(scene.form(None), About::Value(scene))
    }

    /// The dialog in which the operator changes what is known of a secret.
    pub(super) fn of_metadata(secret: Secret) -> Self {
        let form = edit::form(&secret.metadata);
        Self::new(form, About::Metadata(Box::new(secret)))
    }

    /// The question whether a deed shall be done.
    pub(super) fn of_deed(deed: Deed) -> Self {
        let form = Form::new(Vec::new(), &[(Word::Accept, deed.button())]);
        Self::new(form, About::Deed(deed))
    }

    /// What stands over it.
    pub(super) fn title(&self) -> String {
        match &self.about {
            About::Deed(deed) => deed.title().to_owned(),
            About::Metadata(_) => "What is known of it".to_owned(),
            About::Request(shown, _) => shown.heading().to_owned(),
            About::Value(scene) => scene.title().to_owned(),
        }
    }

    /// How long there is to answer.
    pub(super) fn time_left(&self) -> Option<String> {
        match &self.about {
            About::Request(_, _) if self.is_over => Some("over".to_owned()),
            About::Request(shown, _) => Some(format!("{} left", shown.clock())),
            _ => None,
        }
    }

    /// What is read in it.
    pub(super) fn body(&self) -> Vec<Piece> {
        match &self.about {
            About::Deed(deed) => deed.body(),
            About::Metadata(secret) => vec![Piece::heading(secret.path.to_string())],
            About::Request(shown, Some(scene)) => {
                let mut pieces = pieces_of(shown);
                pieces.extend(scene.body(&self.form));
                pieces
            }
            About::Request(shown, None) => pieces_of(shown),
            About::Value(scene) => {
                let mut pieces = vec![scene.heading()];
                pieces.extend(scene.body(&self.form));
                pieces
            }
        }
    }

    /// What is said of the field that a key goes to.
    pub(super) fn help(&self) -> String {
        let Some(field) = self.form.fields.get(self.form.at) else { return String::new() };
        match self.scene().and_then(|scene| scene.caption(&self.form, field)) {
            Some(caption) => caption,
            None => field.help.clone(),
        }
    }

    /// Takes over how its request is by now.
    pub(super) fn look(&mut self, waiting: &[Shown]) {
        let About::Request(shown, _) = &mut self.about else { return };
        match waiting.iter().find(|one| one.id == shown.id) {
            Some(now) => shown.seconds_left = now.seconds_left,
            None if self.is_over => {}
            None => {
                self.is_over = true;
                "It does not wait any more: it has its answer, or its time is over."
                    .clone_into(&mut self.form.fault);
            }
        }
    }

    /// Says that an act failed. What was typed stays.
    pub(super) fn refuse(&mut self, error: &Error) {
        if error.code() == Code::ValueWeak {
            value::offer_weak(&mut self.form);
        }
        self.form.fault = in_sentences(error);
    }

    /// What a key leads to.
    pub(super) fn press(&mut self, press: Press) -> Option<Outcome> {
        let word = self.form.press(press)?;
        if word == Word::Close {
            return Some(Outcome::Close);
        }
        match self.said(word) {
            Ok(act) => Some(Outcome::Act(act)),
            Err(error) => {
                self.refuse(&error);
                None
            }
        }
    }

    fn scene(&self) -> Option<&ValueScene> {
        match &self.about {
            About::Request(_, scene) => scene.as_ref(),
            About::Value(scene) => Some(scene),
            _ => None,
        }
    }

    fn said(&self, word: Word) -> Result<Act, Error> {
        match &self.about {
            About::Deed(deed) => Ok(deed.act()),
            About::Metadata(secret) => {
                let before = Box::new(secret.metadata.clone());
                let after = Box::new(edit::read(&self.form, &before)?);
                Ok(Act::Edit { path: secret.path.clone(), before, after })
            }
            About::Request(shown, scene) => self.answer(shown, scene.as_ref(), word),
            About::Value(scene) => {
                let (path, (given, value)) = (scene.path(&self.form)?, scene.read(&self.form)?);
                Ok(Act::Value { path, occasion: scene.occasion, given, value })
            }
        }
    }

    fn answer(&self, shown: &Shown, scene: Option<&ValueScene>, word: Word) -> Result<Act, Error> {
        let (answer, value) = match (word, scene, &shown.asked) {
            (Word::Once, _, _) => (Answer::AllowOnce, None),
            (Word::Session, _, _) => (Answer::AllowSession, None),
            (Word::Deny, _, _) => (Answer::Deny, None),
            (_, Some(scene), _) => {
                let (given, value) = scene.read(&self.form)?;
                (Answer::Value(given), Some(value))
            }
            (_, None, Asked::NewPathProposal { .. }) => {
                (proposal::read_registration(&self.form)?, None)
            }
            (_, None, _) => (proposal::read_fields(&self.form), None),
        };
        let weight = Weight::of_answer(shown, &answer);
        Ok(Act::Answer { id: shown.id.clone(), answer, value, weight })
    }
}

#[cfg(test)]
mod tests {
    use keyless_core::{ApproveOnUse, EgressRule, SecretPath};
    use keyless_daemon::{read_destinations, vault::Metadata};

    use super::{super::form::Kind, *};

    fn secret() -> Secret {
        let metadata = Metadata {
            egress: Some(EgressRule::to(read_destinations("a.test").unwrap())),
            approve_on_use: ApproveOnUse::Session,
            ..Metadata::default()
        };
        let at = "2026-01-02T03:04:05Z".parse().unwrap();
        let (created_at, updated_at, path) = (at, at, SecretPath::parse("team/a/key").unwrap());
        Secret { path, metadata, created_at, updated_at, version: None, rotated_at: None }
    }

    /// What saving comes to, once the field of that name holds this.
    fn saved(mut dialog: Dialog, name: &str, kind: Kind) -> Weight {
        dialog.form.fields.iter_mut().find(|field| field.name == name).unwrap().kind = kind;
        dialog.said(Word::Accept).ok().unwrap().weight()
    }

    #[test]
    fn a_host_more_takes_the_factor_as_at_the_page() {
        let edited = |name, kind| saved(Dialog::of_metadata(secret()), name, kind);
        let line = |text: &str| Kind::Line(text.to_owned());
        let asks = |at| Kind::Choice { options: Vec::new(), at };
        assert_eq!(edited("to", line("a.test, b.test")), Weight::Grave);
        assert_eq!(edited("asks", asks(0)), Weight::Grave);
        assert_eq!(edited("asks", asks(2)), Weight::Gives);
        assert_eq!(edited("description", line("For CI")), Weight::Gives);
    }

    #[test]
    fn a_first_value_gives_and_the_next_one_overwrites() {
        let providers = Arc::new(Providers::bundled());
        let typed = |secret| {
            let mut dialog = Dialog::of_value(secret, &providers);
            for field in &mut dialog.form.fields {
                match (&mut field.kind, field.name) {
                    (Kind::Hidden { text, .. }, _) => text.push_str("Qm7-xT4w9ZrK2bVp"),
                    (Kind::Line(text), "path") => "team/b/key".clone_into(text),
                    (Kind::Tick(is_on), _) => *is_on = true,
                    _ => {}
                }
            }
            (dialog.title(), dialog.said(Word::Accept).ok().unwrap().weight())
        };
        let kept = Secret { version: Some(1), ..secret() };
        let title = |text: &str| text.to_owned();
        assert_eq!(typed(None), (title("Add a secret"), Weight::Gives));
        assert_eq!(typed(Some(secret())), (title("Provision secret"), Weight::Gives));
        assert_eq!(typed(Some(kept)), (title("Rotate secret"), Weight::Grave));
    }
}
