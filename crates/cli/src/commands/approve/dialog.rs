//! The questions that lead to an answer, kind by kind; and the answers that options give.

use keyless_core::{
    Code, Destination, Error, SafeText,
    approval::{Asked, Field, Fields},
};
use keyless_daemon::{
    Answer, ApproverHandle, Given, Shown, doubt_of_hosts, places_at, read_destinations, read_path,
    read_variable, suggested_variable,
    vault::{Metadata, Providers},
};
use zeroize::Zeroizing;

use super::{super::variable_named, typed, visible};
use crate::{
    args::{AnswerWord, ApproveArgs},
    prompt,
    rows::fitted,
    ui::Ui,
};

pub(super) type Said = (Answer, Option<Zeroizing<Vec<u8>>>);

/// A request, and what is known of what it is about.
#[derive(Clone, Copy)]
pub(super) struct About<'a> {
    pub(super) request: &'a Shown,
    /// The secret's metadata, as the store has it.
    pub(super) metadata: &'a Metadata,
    /// The token catalog, which says what a value looks like, and where in requests it goes.
    pub(super) known: &'a Providers,
}

/// A request about which a person is asked, as long as it waits.
pub(super) struct Dialog<'a> {
    pub(super) ui: &'a Ui,
    pub(super) approver: &'a mut ApproverHandle,
    pub(super) about: About<'a>,
}

impl About<'_> {
    /// That a value has not the form of its kind, and which that is; nothing of the value.
    fn misfit(self, value: &[u8]) -> Option<Error> {
        let path = self.request.path.as_ref()?;
        let words = keyless_daemon::misfit(self.known, path, self.metadata, value)?;
        Some(Error::with(Code::ValueWeak, words))
    }

    /// Says where in requests a value goes at hosts that are given with it, before it is typed.
    fn tell_places(self, ui: &Ui, to: &[Destination]) {
        if let (Some(path), false) = (&self.request.path, to.is_empty()) {
            ui.line(&fitted(&format!(
                "It goes into {}.",
                visible(&places_at(self.known, path, to))
            )));
        }
    }
}

/// The fields of a proposal that were taken over.
struct Chosen {
    fields: Vec<Field>,
    /// Whether one was refused in so many words: who only presses Enter has said nothing that is remembered.
    refused: bool,
}

impl Dialog<'_> {
    /// Asks the person. Fails as [`ApproverHandle::waiting`] does before the next question, once nothing could come of it.
    pub(super) async fn ask(&mut self) -> Result<Said, Error> {
        let request = self.about.request;
        match &request.asked {
            Asked::MetadataProposal { fields, .. } => {
                let answer = match self.choose(fields).await? {
                    Chosen { fields, refused: true } if fields.is_empty() => Answer::Deny,
                    Chosen { fields, .. } if fields.is_empty() => Answer::Cancel,
                    Chosen { fields, .. } => Answer::Apply { fields },
                };
                Ok((answer, None))
            }
            Asked::NewPathProposal { fields, .. } => Ok((self.new_path(fields).await?, None)),
            Asked::Provision { .. } => self.ask_value(None).await,
            Asked::Rotation { .. } => {
                let name = request.title();
                let sure =
                    format!("This overwrites the present value of {name}. Type yes to go on: ");
                self.ask_value(Some(&sure)).await
            }
            Asked::ActionApproval { .. }
            | Asked::DeployApply { .. }
            | Asked::UseApproval { .. } => Ok((self.ask_use().await?, None)),
        }
    }

    async fn ask_use(&mut self) -> Result<Answer, Error> {
        let one_deed = self.about.request.is_one_deed();
        let (question, words) = if one_deed {
            (
                "Allow it [o]nce, or [d]eny it? ",
                "o allows it this once, d denies it; Ctrl-C leaves it waiting",
            )
        } else {
            (
                "Allow it [o]nce, for the [s]ession, or [d]eny it? ",
                "o allows it this once, s until the session ends, d denies it; Ctrl-C leaves it waiting",
            )
        };
        // Whatever else is typed, Enter too, is a slip: a denial is remembered, and one deed is never for the session.
        self.typed_as(question, |answer| match answer {
            "o" | "once" => Ok(Answer::AllowOnce),
            "s" | "session" if !one_deed => Ok(Answer::AllowSession),
            "d" | "deny" => Ok(Answer::Deny),
            word if is_no(word) => Ok(Answer::Deny),
            _ => Err(Error::with(Code::AnswerUnfit, SafeText::words(words))),
        })
        .await
    }

    async fn ask_value(&mut self, sure: Option<&str>) -> Result<Said, Error> {
        let request = self.about.request;
        if let Some(question) = sure {
            match self.typed(question).await?.trim() {
                "yes" => {}
                word if is_no(word) => return Ok((Answer::Deny, None)),
                _ => return Ok((Answer::Cancel, None)),
            }
        }
        let (mut to, mut env) = (Vec::new(), None);
        if request.known.as_ref().is_none_or(|known| known.to.is_empty()) {
            let question = "Hosts that may receive it (api.example.com, ...; none for now): ";
            to = self.hosts(question).await?;
            self.about.tell_places(self.ui, &to);
        }
        let Some((value, allow_weak)) = self.value().await? else {
            self.ui.line("No value was typed.");
            return Ok((Answer::Cancel, None));
        };
        if !to.is_empty() && request.known.as_ref().is_none_or(|known| known.env.is_none()) {
            let suggested = request.path.as_ref().map(suggested_variable).unwrap_or_default();
            let question = format!("Variable for its placeholder [{suggested}]: ");
            let read =
                |answer: &str| read_variable(if answer.is_empty() { &suggested } else { answer });
            env = Some(self.typed_as(&question, read).await?);
        }
        Ok((Answer::Value(Given { to, env, allow_weak }), Some(value)))
    }

    /// Where the value may go. What is hardly a host may be a value that was pasted too early: it is shown by nobody.
    async fn hosts(&mut self, question: &str) -> Result<Vec<Destination>, Error> {
        loop {
            let typed = Zeroizing::new(self.typed(question).await?);
            let doubt = doubt_of_hosts(&typed, self.about.known);
            let error = match (read_destinations(typed.trim()), doubt) {
                (Ok(to), None) => return Ok(to),
                (Ok(to), Some(doubt)) => {
                    Ui::fault(
                        doubt,
                        Some("a value goes into the next question, where it is not shown"),
                    );
                    if self.confirmed("Take it as a host all the same? [y/N] ").await? {
                        return Ok(to);
                    }
                    continue;
                }
                (Err(error), _) => error,
            };
            Ui::fault(error.detail().as_str(), Some("give names such as api.example.com"));
        }
    }

    /// The value, and whether the person insists on it though it has not the form of its kind; nothing when the line is empty.
    async fn value(&mut self) -> Result<Option<(Zeroizing<Vec<u8>>, bool)>, Error> {
        loop {
            self.still_waits().await?;
            let Some(value) = prompt::value_or_nothing()? else { return Ok(None) };
            let Some(error) = self.about.misfit(&value) else { return Ok(Some((value, false))) };
            Ui::fault(error.detail().as_str(), None);
            if self.confirmed("Save it all the same? [y/N] ").await? {
                return Ok(Some((value, true)));
            }
        }
    }

    async fn confirmed(&mut self, question: &str) -> Result<bool, Error> {
        Ok(is_yes(self.typed(question).await?.trim()))
    }

    async fn new_path(&mut self, fields: &Fields) -> Result<Answer, Error> {
        let suggested = self.about.request.path.as_ref().ok_or(Code::Usage)?;
        let question = format!("Register it as [{suggested}] (Enter takes that, - refuses): ");
        let path = self
            .typed_as(&question, |answer| match answer {
                "-" => Ok(None),
                "" => Ok(Some(suggested.clone())),
                other => read_path(other).map(Some),
            })
            .await?;
        let Some(path) = path else { return Ok(Answer::Deny) };
        Ok(Answer::Register { path, fields: self.choose(fields).await?.fields })
    }

    /// An answer that `read` can use. What is wrong with one is told, and it is asked for again.
    async fn typed_as<T>(
        &mut self,
        question: &str,
        read: impl Fn(&str) -> Result<T, Error>,
    ) -> Result<T, Error> {
        loop {
            let error = match read(self.typed(question).await?.trim()) {
                Ok(answer) => return Ok(answer),
                Err(error) => error,
            };
            match error.code() {
                // It is no argument that does not fit: what is wrong with it says it all.
                Code::AnswerUnfit => Ui::fault(error.detail().as_str(), None),
                code => Ui::fault(&error.message(), Some(code.remediation().action)),
            }
        }
    }

    /// Field by field: what is not taken over expressly stays as it is.
    async fn choose(&mut self, fields: &Fields) -> Result<Chosen, Error> {
        let mut chosen = Chosen { fields: Vec::new(), refused: false };
        for field in fields.present() {
            let answer = self.typed(&format!("Take over {}? [y/N] ", field.as_str())).await?;
            match answer.trim() {
                word if is_yes(word) => chosen.fields.push(field),
                word => chosen.refused |= is_no(word),
            }
        }
        Ok(chosen)
    }

    /// A line that the person types.
    async fn typed(&mut self, question: &str) -> Result<String, Error> {
        self.still_waits().await?;
        typed(question)
    }

    /// Nobody types an answer that comes too late already.
    async fn still_waits(&mut self) -> Result<(), Error> {
        self.approver.waiting(&self.about.request.id).await.map(drop)
    }
}

fn is_yes(word: &str) -> bool {
    matches!(word, "y" | "Y" | "yes")
}

fn is_no(word: &str) -> bool {
    matches!(word, "n" | "N" | "no")
}

/// The answer that the options give, without a question but for the value.
pub(super) fn by_option(
    ui: &Ui,
    args: &ApproveArgs,
    word: AnswerWord,
    about: About<'_>,
) -> Result<Said, Error> {
    let request = about.request;
    refuse_idle(args, word, &request.asked)?;
    let answer = match (word, &request.asked) {
        (AnswerWord::Once | AnswerWord::Session, asked) if !asked.is_permission() => {
            let words = match asked {
                Asked::Provision { .. } => {
                    "it asks for a value: --accept --value-stdin gives one, --deny refuses"
                }
                Asked::Rotation { .. } => {
                    "it asks for a new value: --accept --overwrite --value-stdin gives one, --deny refuses"
                }
                _ => "it is a proposal: --accept takes it over, --deny refuses it",
            };
            return Err(Error::with(Code::Usage, SafeText::words(words)));
        }
        (AnswerWord::Once, _) => Answer::AllowOnce,
        (AnswerWord::Session, Asked::ActionApproval { .. } | Asked::DeployApply { .. }) => {
            let words =
                "it is allowed for this one time alone: --once allows it, --deny refuses it";
            return Err(Error::with(Code::Usage, SafeText::words(words)));
        }
        (AnswerWord::Session, _) => Answer::AllowSession,
        (AnswerWord::Deny, _) => Answer::Deny,
        (AnswerWord::Accept, Asked::MetadataProposal { fields, .. }) => {
            Answer::Apply { fields: fields.present() }
        }
        (AnswerWord::Accept, Asked::NewPathProposal { fields, .. }) => {
            let path = args.path.clone().or_else(|| request.path.clone()).ok_or(Code::Usage)?;
            Answer::Register { path, fields: fields.present() }
        }
        (AnswerWord::Accept, Asked::Rotation { .. }) if !args.overwrite => {
            let words = "--overwrite says that the present value may go";
            return Err(Error::with(Code::Usage, SafeText::words(words)));
        }
        (AnswerWord::Accept, Asked::Provision { .. } | Asked::Rotation { .. }) => {
            about.tell_places(ui, &args.to);
            let value = prompt::value(ui, &args.value)?;
            if let (Some(error), false) = (about.misfit(&value), args.value.allow_weak) {
                return Err(error);
            }
            let env = args.env.as_deref().map(variable_named).transpose()?;
            let (to, allow_weak) = (args.to.clone(), args.value.allow_weak);
            return Ok((Answer::Value(Given { to, env, allow_weak }), Some(value)));
        }
        (AnswerWord::Accept, _) => {
            let words = "it is allowed with --once; a use of a secret also with --session";
            return Err(Error::with(Code::Usage, SafeText::words(words)));
        }
    };
    Ok((answer, None))
}

/// Options of which nothing would come, and a value that would be lost, are told by name.
fn refuse_idle(args: &ApproveArgs, word: AnswerWord, asked: &Asked) -> Result<(), Error> {
    let takes_value = matches!(asked, Asked::Provision { .. } | Asked::Rotation { .. });
    let is_new_path = matches!(asked, Asked::NewPathProposal { .. });
    let is_first = matches!(asked, Asked::Provision { .. });
    let of_value = args.options_of_value();
    let idle = match word {
        AnswerWord::Accept if is_first && args.overwrite => Some("--overwrite"),
        AnswerWord::Accept if takes_value => args.path.is_some().then_some("--path"),
        AnswerWord::Accept if is_new_path => of_value,
        _ => of_value.or_else(|| args.path.is_some().then_some("--path")),
    };
    let Some(idle) = idle else { return Ok(()) };
    let why = if is_new_path && word == AnswerWord::Accept {
        ": a new path is registered without a value and without hosts; accept it without, then keyless secret set PATH"
    } else if idle == "--overwrite" && word == AnswerWord::Accept {
        ": the secret has no value yet that could go; accept it without; nothing was answered"
    } else {
        ": this answer has no use for it; nothing was answered"
    };
    Err(Error::with(Code::Usage, SafeText::words(idle).and(why)))
}
