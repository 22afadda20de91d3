//! What an agent proposes to be known: field by field, and the name of a new path, which is the person's.

use keyless_core::{
    Error,
    approval::{Field as Proposed, Fields},
};
use keyless_daemon::{Answer, Shown, read_path};

use super::Form;
use crate::commands::ui::form::{Field, Word};

const PATH: &str = "path";
/// What a path looks like.
pub(super) const PATH_HELP: &str = "project/category/name, lower case, digits, hyphens.";

/// A box for each proposed field.
pub(super) fn fields_form(fields: &Fields) -> Form {
    Form::new(
        ticks(fields).collect(),
        &[(Word::Deny, "Decline"), (Word::Accept, "Take over what is ticked")],
    )
}

pub(super) fn path_form(shown: &Shown, fields: &Fields) -> Form {
    let path = shown.path.as_ref().map(ToString::to_string).unwrap_or_default();
    let help = format!("The name is yours: {PATH_HELP}");
    let path = Field::line(PATH, "Path", &path).with_help(&help);
    let fields = std::iter::once(path).chain(ticks(fields)).collect();
    Form::new(fields, &[(Word::Deny, "Decline"), (Word::Accept, "Register")])
}

/// The boxes that are ticked.
pub(super) fn read_fields(form: &Form) -> Answer {
    let fields = ticked(form);
    if fields.is_empty() { Answer::Cancel } else { Answer::Apply { fields } }
}

pub(super) fn read_registration(form: &Form) -> Result<Answer, Error> {
    Ok(Answer::Register { path: read_path(form.text(PATH))?, fields: ticked(form) })
}

fn ticks(fields: &Fields) -> impl Iterator<Item = Field> {
    let tick =
        |field: Proposed| Field::tick(field.as_str(), &format!("take over: {}", field.title()));
    fields.present().into_iter().map(tick)
}

fn ticked(form: &Form) -> Vec<Proposed> {
    let names = form.fields.iter().map(|field| field.name).filter(|name| form.is_ticked(name));
    names.filter_map(Proposed::parse).collect()
}
