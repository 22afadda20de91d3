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

use keyless_core::{Code, Error, SafeText, approval::Asked};
use keyless_daemon::{
    Answer, Shown,
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
}

enum About {
    Deed(Deed),
    Metadata(Box<Secret>),
    Request(Box<Shown>, Option<ValueScene>),
    Value(ValueScene),
}

impl Dialog {
    /// The dialog of a request. `secret` is what the vault has of it.
    pub(super) fn of_request(
        shown: Shown,
        secret: Option<Secret>,
        providers: &Arc<Providers>,
    ) -> Self {
        let is_value = matches!(shown.asked, Asked::Provision | Asked::Rotation);
        let scene = shown.path.clone().filter(|_| is_value).map(|path| {
            let rotation = matches!(shown.asked, Asked::Rotation);
            ValueScene::new(path, secret, rotation, providers)
        });
        let form = match (&shown.asked, &scene) {
            (_, Some(scene)) => scene.form(Some("Decline")),
            (Asked::MetadataProposal { fields }, _) => proposal::fields_form(fields),
            (Asked::NewPathProposal { fields }, _) => proposal::path_form(&shown, fields),
            _ => request::permission_form(&shown),
        };
        Self { form, about: About::Request(Box::new(shown), scene), is_over: false }
    }

    /// The dialog in which the operator gives a secret a value, asked by nobody.
    pub(super) fn of_value(secret: Secret, providers: &Arc<Providers>) -> Self {
        let rotation = secret.version.is_some();
        let scene = ValueScene::new(secret.path.clone(), Some(secret), rotation, providers);
        Self { form: scene.form(None), about: About::Value(scene), is_over: false }
    }

    /// The dialog in which the operator changes what is known of a secret.
    pub(super) fn of_metadata(secret: Secret) -> Self {
        let form = edit::form(&secret.metadata);
        Self { form, about: About::Metadata(Box::new(secret)), is_over: false }
    }

    /// The question whether a deed shall be done.
    pub(super) fn of_deed(deed: Deed) -> Self {
        let form = Form::new(Vec::new(), &[(Word::Accept, deed.button())]);
        Self { form, about: About::Deed(deed), is_over: false }
    }

    /// What stands over it.
    pub(super) fn title(&self) -> String {
        match &self.about {
            About::Deed(deed) => deed.title().to_owned(),
            About::Metadata(_) => "What is known of it".to_owned(),
            About::Request(shown, _) => shown.heading().to_owned(),
            About::Value(scene) if scene.rotation => "Rotate secret".to_owned(),
            About::Value(_) => "Provision secret".to_owned(),
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
                let mut pieces = vec![Piece::heading(scene.path.to_string())];
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
        self.form.fault =
            format!("{} Next: {}.", error.message(), error.code().remediation().action);
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
                let metadata = Box::new(edit::read(&self.form, secret.metadata.clone())?);
                Ok(Act::Edit { path: secret.path.clone(), metadata })
            }
            About::Request(shown, scene) => self.answer(shown, scene.as_ref(), word),
            About::Value(scene) => {
                let (to, env, allow_weak, value) = scene.read(&self.form)?;
                let (path, again) = (scene.path.clone(), scene.rotation);
                Ok(Act::Value { path, to, env, value, allow_weak, again })
            }
        }
    }

    fn answer(&self, shown: &Shown, scene: Option<&ValueScene>, word: Word) -> Result<Act, Error> {
        let (answer, value) = match (word, scene, &shown.asked) {
            (Word::Once, _, _) => (Answer::AllowOnce, None),
            (Word::Session, _, _) => (Answer::AllowSession, None),
            (Word::Deny, _, asked) if asked.is_permission() => (Answer::Deny, None),
            (Word::Deny, _, _) => (Answer::Cancel, None),
            (_, Some(scene), _) => {
                let (to, env, allow_weak, value) = scene.read(&self.form)?;
                (Answer::Value { to, env, allow_weak }, Some(value))
            }
            (_, None, Asked::NewPathProposal { .. }) => (proposal::read_path(&self.form)?, None),
            (_, None, _) => (proposal::read_fields(&self.form), None),
        };
        let again = shown.asks_again(&answer);
        Ok(Act::Answer { id: shown.id.clone(), answer, value, again })
    }
}

fn usage(words: &'static str) -> Error {
    Error::with(Code::Usage, SafeText::words(words))
}
