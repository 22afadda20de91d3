//! A request in words: what is asked, by whom, about what; and what became of it.

use std::fmt::Write as _;

use keyless_core::{
    SafeText,
    approval::{Asked, Field, Fields, Status},
};
use keyless_daemon::{By, Known, Present, Shown, lasting};

use super::deed;
use crate::ui::table;

/// The most blanks side by side that stand as they are in code and diffs.
const MOST_BLANKS: usize = 40;

/// The whole request. Ends with a line end.
pub(super) fn describe(request: &Shown) -> String {
    let mut text = format!(
        "{}  {}  {} left\n",
        request.id,
        request.asked.word(),
        lasting(request.seconds_left)
    );
    if let (Some(path), false) = (&request.path, is_action(request)) {
        let _ = writeln!(text, "  Secret:    {path}");
        let _ = writeln!(text, "  Known:     {}", known(request.known.as_ref()));
        if let Some(at) = request.known.as_ref().and_then(|known| known.kept_at.as_ref()) {
            let _ = writeln!(text, "  Kept at:   {}", visible(&at.in_words()));
        }
    }
    let _ = writeln!(
        text,
        "  Asked by:  {}, {} ago",
        visible(&request.session),
        lasting(request.age_seconds)
    );
    match &request.asked {
        Asked::ActionApproval { wanted } => deed::action(&mut text, request, wanted),
        Asked::DeployApply { wanted } => deed::deploy(&mut text, wanted),
        Asked::UseApproval { reason, deed, .. } => {
            if let Some(deed) = deed {
                let _ = writeln!(text, "  To allow:  {}", visible(deed));
            }
            let _ = writeln!(text, "  It says:   {}", visible(reason));
        }
        Asked::MetadataProposal { fields, .. } | Asked::NewPathProposal { fields, .. } => {
            text.push_str(&proposal(request, fields));
            text.push_str(&unknown_pattern(request));
            kept(&mut text, request);
            if matches!(request.asked, Asked::NewPathProposal { .. }) && request.known.is_some() {
                text.push_str(
                    "  The store has it: if you accept, this session sees it from then on.\n",
                );
            }
        }
        Asked::Provision { .. } => {
            for field in [Field::Description, Field::RetrievalUrl] {
                if let Some(Present { text: now, by: By::Declaration }) = request.present(field) {
                    let _ = writeln!(text, "  Declared:  {}: {}", field.as_str(), visible(&now));
                }
            }
            text.push_str(&unknown_pattern(request));
            kept(&mut text, request);
            text.push_str("  It asks for the value.\n");
        }
        Asked::Rotation { .. } => {
            text.push_str("  It asks for another value in place of the present one.\n");
        }
    }
    text
}

fn is_action(request: &Shown) -> bool {
    matches!(request.asked, Asked::ActionApproval { .. })
}

/// What the vault knows, in one line.
pub(super) fn known(known: Option<&Known>) -> String {
    let Some(known) = known else { return "not in the store yet".to_owned() };
    let to: Vec<String> = known.to.iter().map(ToString::to_string).collect();
    let to = if to.is_empty() { "no destination".to_owned() } else { to.join(", ") };
    let env = known.env.as_ref().map_or_else(|| "no variable".to_owned(), ToString::to_string);
    let value = if known.has_value { "has a value" } else { "no value yet" };
    format!("{value}; goes to {to}; as {env}; asked for at use: {}", known.approve_on_use)
}

/// The proposed fields beside the present ones; of these, none are this request's words.
fn proposal(request: &Shown, fields: &Fields) -> String {
    let row = |field: Field| {
        let now = match request.present(field) {
            None => "-".to_owned(),
            Some(Present { text, by: By::Declaration }) => format!("{} (declared)", visible(&text)),
            Some(Present { text, by: By::Vault }) => visible(&text),
        };
        let new = fields.text(field).map(|text| visible(&text)).unwrap_or_default();
        vec![format!("  {}", field.as_str()), now, new]
    };
    let rows: Vec<_> = fields.present().into_iter().map(row).collect();
    if rows.is_empty() {
        return "  It says nothing about it.\n".to_owned();
    }
    table(&["  FIELD", "PRESENT", "PROPOSED BY THE AGENT"], &rows)
}

fn unknown_pattern(request: &Shown) -> String {
    let unknown = request.unknown_pattern.as_ref();
    unknown.map(|it| format!("  Beware:    {}\n", visible(&it.in_words()))).unwrap_or_default()
}

/// What is declared and stays with the secret, once it is in the store.
fn kept(text: &mut String, request: &Shown) {
    if let Some(policy) = request.kept_policy() {
        let _ =
            writeln!(text, "  Declared:  asked for at use: {policy}; that stays with the secret");
    }
    for (field, now) in request.kept_fields() {
        let name = field.as_str();
        let _ =
            writeln!(text, "  Declared:  {name}: {}; that stays with the secret", visible(&now));
    }
}

/// What became of it, as a sentence.
pub(in crate::commands) fn told(request: &Shown) -> String {
    let (id, title) = (&request.id, visible(&request.title()));
    let done = request.asked.participle();
    match request.status {
        Status::Cancelled => format!("{id}: nothing was changed.\n"),
        Status::Denied if !request.asked.is_permission() => {
            format!("{id}: nothing was changed, and nobody is asked the same again for a while.\n")
        }
        Status::Denied => {
            format!("{id}: {title} may not be {done}, and nobody is asked again for a while.\n")
        }
        Status::Expired => format!("{id}: the time was over.\n"),
        Status::Failed { code } => format!("{id}: {}\n", code.remediation().user_message),
        Status::Ok => format!("{id}: done.\n"),
        Status::Once => format!("{id}: {title} may be {done} once.\n"),
        Status::Pending => format!("{id}: still waits.\n"),
        Status::Session => {
            format!(
                "{id}: {title} may be used until the session ends, {} at most.\n",
                // The seconds that have passed since are no hour less.
                lasting(request.seconds_left.next_multiple_of(60))
            )
        }
    }
}

pub(super) fn standing_rows(standing: &[Shown]) -> Vec<Vec<String>> {
    let row = |request: &Shown| {
        vec![
            request.id.to_string(),
            request.status.as_str().to_owned(),
            about(request),
            visible(&request.session),
            request.left_in_words(),
        ]
    };
    standing.iter().map(row).collect()
}

/// What an answer that holds is about, and for how many requests it was given, or to what kind of them.
pub(in crate::commands) fn about(request: &Shown) -> String {
    let title = visible(&request.title());
    if !request.asked.is_permission() {
        return format!("{title} ({})", request.asked.word());
    }
    request.answers().map_or(title.clone(), |answers| format!("{title} ({answers})"))
}

/// Text of an agent on one line, with everything that can't be seen made visible, many blanks in a row among it.
pub(in crate::commands) fn visible(text: &str) -> String {
    SafeText::default().as_they_wrote_in_full(text).as_str().to_owned()
}

/// As [`visible`], for one line of a text that is laid out by blanks.
pub(in crate::commands) fn visible_line(line: &str) -> String {
    SafeText::default().as_they_laid_out(line, MOST_BLANKS).as_str().to_owned()
}

#[cfg(test)]
mod tests {
    use keyless_core::approval::{FileOp, PackVerb, WantedDeploy, WantedFile};
    use keyless_daemon::UnknownPattern;

    use super::*;

    fn request(asked: Asked) -> Shown {
        Shown {
            id: keyless_core::approval::RequestId::parse("prov-abababababab").unwrap(),
            path: Some(keyless_core::SecretPath::parse("team/jira/key").unwrap()),
            asked,
            session: "m-1".to_owned(),
            status: Status::Pending,
            age_seconds: 5,
            seconds_left: 295,
            known: None,
            unknown_pattern: None,
            others: Vec::new(),
            also: Vec::new(),
        }
    }

    #[test]
    fn an_agents_words_cannot_paint_the_screen() {
        let reason = "ok\u{1b}[2J\u{202e}evil\u{200b}\n  Secret:    team/other/path".to_owned();
        let text = describe(&request(Asked::use_approval(reason)));
        assert_eq!(
            text,
            "prov-abababababab  use  4 min left\n  Secret:    team/jira/key\n  Known:     not in the store yet\n  \
             Asked by:  m-1, 5 s ago\n  It says:   ok\\u{1b}[2J\\u{202e}evil\\u{200b}   Secret:    team/other/path\n"
        );
    }

    #[test]
    fn a_moment_later_an_approval_still_holds_for_its_hours() {
        let status = Status::Session;
        let told = told(&Shown { status, seconds_left: 28_799, ..request(Asked::provision()) });
        assert!(told.contains("until the session ends, 8 h at most"), "{told}");
    }

    #[test]
    fn present_and_proposed_stand_apart() {
        let fields = Fields { description: Some("present: fine".to_owned()), ..Fields::default() };
        let text = describe(&request(Asked::metadata(fields)));
        let plain = anstream::adapter::strip_str(&text).to_string();
        assert!(plain.contains("  FIELD        PRESENT  PROPOSED BY THE AGENT\n  description  -        present: fine\n"), "{plain}");
    }

    #[test]
    fn a_pattern_that_nobody_knows_is_told_with_the_nearest() {
        let near = |near: Option<&str>| {
            let pattern_id = Some("npm-tokn".to_owned());
            let near = near.map(str::to_owned);
            let unknown = UnknownPattern { id: "npm-tokn".to_owned(), near };
            describe(&Shown {
                unknown_pattern: Some(unknown),
                ..request(Asked::metadata(Fields { pattern_id, ..Fields::default() }))
            })
        };
        let told = "  Beware:    No pattern is called npm-tokn: nothing is checked or known by it.";
        assert!(near(None).ends_with(&format!("{told}\n")), "{}", near(None));
        let meant = near(Some("npm-token"));
        assert!(meant.ends_with(&format!("{told} The nearest is npm-token.\n")), "{meant}");
    }

    #[test]
    fn a_plans_lines_stay_behind_their_bar() {
        let diff =
            Some("--- a/x\n+++ b/x\n+ok\u{202e}\r\n  Secret:    team/other/path\n".to_owned());
        let path = "/home/u/.codex/AGENTS.md\n  create  /etc/x".to_owned();
        let file = WantedFile { op: FileOp::Update, path, adopted: true, edited: false, diff };
        let word = |text: &str| text.to_owned();
        let wanted = WantedDeploy {
            verb: PackVerb::Rollback,
            plan_hash: "0".repeat(64),
            project: word("/p"),
            repo: word("/r"),
            profile: word("default"),
            machine: word("m"),
            files: vec![file],
            more_files: 3,
        };
        let text = describe(&Shown {
            path: None,
            ..request(Asked::DeployApply { wanted: Box::new(wanted) })
        });
        assert!(text.contains("  rollback  "), "{text}");
        assert!(text.contains(
            "  update  /home/u/.codex/AGENTS.md   create  /etc/x  YOURS: it would be overwritten\n    | --- a/x\n    \
             | +++ b/x\n    | +ok\\u{202e}\\r\n    |   Secret:    team/other/path\n  and 3 more: "
        ), "{text}");
    }
}
