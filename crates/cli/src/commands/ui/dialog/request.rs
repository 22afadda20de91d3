//! A request as it is read, and the form of those that want a permission.

use keyless_core::approval::{Asked, Field, Fields, WantedAction, WantedDeploy, WantedFile};
use keyless_daemon::{By, Known, Present, Shown, lasting};

use super::Form;
use crate::commands::{
    approve::visible,
    ui::{form::Word, pieces::Piece, rooms::listed, theme::Mood},
};

/// The buttons under a permission.
pub(super) fn permission_form(shown: &Shown) -> Form {
    let once = (Word::Once, "Allow once");
    let deny = (Word::Deny, "Deny");
    if shown.is_one_deed() {
        return Form::new(Vec::new(), &[deny, once]);
    }
    Form::new(Vec::new(), &[deny, (Word::Session, "Allow for this session"), once])
}

/// The whole request.
pub(in crate::commands::ui) fn pieces_of(shown: &Shown) -> Vec<Piece> {
    let is_secret = !matches!(shown.asked, Asked::ActionApproval { .. });
    let mut pieces = Vec::new();
    if let (Some(path), true) = (&shown.path, is_secret) {
        pieces.push(Piece::heading(path.to_string()));
    }
    let ago = lasting(shown.age_seconds);
    pieces.push(Piece::fact("Asked by", format!("{}, {ago} ago", visible(&shown.session))));
    if is_secret && shown.path.is_some() {
        pieces.push(Piece::fact("Goes to", goes_to(shown.known.as_ref())));
        if let Some(at) = shown.known.as_ref().and_then(|known| known.kept_at.as_ref()) {
            pieces.push(Piece::fact("Kept at", visible(&at.in_words())));
        }
    }
    match &shown.asked {
        Asked::ActionApproval { wanted } => action(&mut pieces, shown, wanted),
        Asked::DeployApply { wanted } => deploy(&mut pieces, wanted),
        Asked::MetadataProposal { fields, .. } | Asked::NewPathProposal { fields, .. } => {
            proposal(&mut pieces, shown, fields);
            unknown_pattern(&mut pieces, shown);
            kept(&mut pieces, shown);
        }
        Asked::Provision { .. } => {
            for field in [Field::Description, Field::RetrievalUrl] {
                if let Some(Present { text, by: By::Declaration }) = shown.present(field) {
                    let words = format!("{} (declared)", visible(&text));
                    pieces.push(Piece::fact(field.title(), words));
                }
            }
            unknown_pattern(&mut pieces, shown);
            kept(&mut pieces, shown);
            pieces.push(Piece::ours("It asks for the value."));
        }
        Asked::Rotation { .. } => {
            pieces.push(Piece::ours("It asks for another value in place of the present one."));
        }
        Asked::UseApproval { reason, deed, .. } => {
            if let Some(known) = &shown.known {
                pieces.push(Piece::fact("Asks", known.approve_on_use.in_words()));
            }
            if let Some(deed) = deed {
                pieces.push(Piece::fact("This one", visible(deed)));
            }
            said(&mut pieces, reason);
        }
    }
    if shown.asked.is_permission() {
        pieces.push(Piece::Blank);
        pieces.push(Piece::ours("A denial is remembered for ten minutes."));
    }
    pieces
}

fn unknown_pattern(pieces: &mut Vec<Piece>, shown: &Shown) {
    if let Some(unknown) = &shown.unknown_pattern {
        pieces.push(Piece::Fact("Beware", visible(&unknown.in_words()), Mood::Warn));
    }
}

/// What is declared and stays with the secret, once it is in the store.
fn kept(pieces: &mut Vec<Piece>, shown: &Shown) {
    let stays = |words: &str| format!("{words} (declared; stays with the secret)");
    if let Some(policy) = shown.kept_policy() {
        pieces.push(Piece::fact("Asks", stays(policy.in_words())));
    }
    for (field, now) in shown.kept_fields() {
        pieces.push(Piece::fact(field.title(), stays(&visible(&now))));
    }
}

/// An agent's words, marked as such.
fn said(pieces: &mut Vec<Piece>, words: &str) {
    pieces.push(Piece::Blank);
    pieces.push(Piece::heading("The agent’s words"));
    pieces.extend(Piece::theirs(words));
}

fn goes_to(known: Option<&Known>) -> String {
    match known {
        None => "not in the store yet".to_owned(),
        Some(known) => listed(&known.to, "no destination yet"),
    }
}

fn action(pieces: &mut Vec<Piece>, shown: &Shown, wanted: &WantedAction) {
    pieces.push(Piece::fact("Agent", visible(wanted.agent.as_str())));
    if let Some(issuer) = &wanted.acting_for {
        pieces.push(Piece::fact("For", visible(issuer.as_str())));
    }
    pieces.push(Piece::fact("Wants to", wanted.action.to_string()));
    for (path, known) in shown.secrets() {
        let to = match known {
            Some(known) if known.to.is_empty() => "into this action’s own jail".to_owned(),
            known => goes_to(known),
        };
        pieces.push(Piece::fact("With", format!("{path}: {to}")));
    }
    pieces.push(Piece::fact("Reaches", listed(&wanted.hosts, "no host by itself")));
    pieces.push(Piece::fact("Digest", wanted.sha256.clone()));
    pieces.push(Piece::Blank);
    pieces.push(Piece::heading("All that it would do, as the agent wrote it"));
    pieces.extend(Piece::theirs(&wanted.text));
    if let Some(purpose) = &wanted.purpose {
        said(pieces, purpose);
    }
}

fn deploy(pieces: &mut Vec<Piece>, wanted: &WantedDeploy) {
    pieces.push(Piece::fact("Project", visible(&wanted.project)));
    pieces.push(Piece::fact("From", visible(&wanted.repo)));
    let machine = format!("{}, machine {}", visible(&wanted.profile), visible(&wanted.machine));
    pieces.push(Piece::fact("Profile", machine));
    pieces.push(Piece::fact("Plan", visible(&wanted.plan_hash)));
    pieces.push(Piece::fact("Files", wanted.file_count().to_string()));
    pieces.push(Piece::Blank);
    pieces.push(Piece::heading("The config repo’s words: what agents would read"));
    wanted.files.iter().for_each(|file| one_file(pieces, file));
    if wanted.more_files > 0 {
        let words = format!("And {} more: keyless pack diff shows them.", wanted.more_files);
        pieces.push(Piece::ours(words));
    }
}

fn one_file(pieces: &mut Vec<Piece>, file: &WantedFile) {
    pieces.push(Piece::fact(file.op.as_str(), visible(&file.path)));
    if file.adopted {
        pieces.push(Piece::Fact("", "YOURS: it would be overwritten".to_owned(), Mood::Bad));
    }
    if file.edited {
        pieces.push(Piece::Fact("", "edited since it was deployed".to_owned(), Mood::Warn));
    }
    match &file.diff {
        Some(diff) => pieces.extend(Piece::diff(diff)),
        None => pieces.push(Piece::ours(
            "No lines are shown: it is no text, too long, or holds a credential.",
        )),
    }
}

/// What is known now beside what the agent proposes, field by field.
fn proposal(pieces: &mut Vec<Piece>, shown: &Shown, fields: &Fields) {
    for field in fields.present() {
        let now = match shown.present(field) {
            None => "nothing".to_owned(),
            Some(Present { text, by: By::Declaration }) => format!("{} (declared)", visible(&text)),
            Some(Present { text, by: By::Vault }) => visible(&text),
        };
        pieces.push(Piece::Blank);
        pieces.push(Piece::heading(field.title()));
        pieces.push(Piece::fact("Known now", now));
        pieces.push(Piece::ours("The agent says"));
        pieces.extend(Piece::theirs(&fields.text(field).unwrap_or_default()));
    }
    if fields.present().is_empty() {
        pieces.push(Piece::ours("The agent says nothing more about it."));
    }
}

#[cfg(test)]
mod tests {
    use keyless_core::approval::{RequestId, Status};
    use keyless_daemon::UnknownPattern;

    use super::*;

    #[test]
    fn a_pattern_that_nobody_knows_is_told() {
        let shown = |asked: Asked| Shown {
            id: RequestId::parse("prov-abababababab").unwrap(),
            path: Some(keyless_core::SecretPath::parse("team/npm/key").unwrap()),
            asked,
            session: "m-1".to_owned(),
            status: Status::Pending,
            age_seconds: 5,
            seconds_left: 295,
            known: None,
            unknown_pattern: Some(UnknownPattern {
                id: "npm-tokn\u{202e}".to_owned(),
                near: Some("npm-token".to_owned()),
            }),
            others: Vec::new(),
            also: Vec::new(),
        };
        for asked in [Asked::metadata(Fields::default()), Asked::provision()] {
            let pieces = pieces_of(&shown(asked));
            let told = pieces.iter().find_map(|piece| match piece {
                Piece::Fact("Beware", words, Mood::Warn) => Some(words.as_str()),
                _ => None,
            });
            let words = "No pattern is called npm-tokn\\u{202e}: nothing is checked or known by it. \
                         The nearest is npm-token.";
            assert_eq!(told, Some(words));
        }
    }
}
