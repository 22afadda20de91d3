//! What agents may do by themselves: the grants, how much of each is used, and their end.

use keyless_core::grant::{GrantState, Permission};
use keyless_daemon::nl::grants::ShownGrant;
use ratatui::layout::Constraint;

use super::{Row, View, listed};
use crate::commands::{
    approve::visible,
    ui::{
        app::{Act, App},
        dialog::Deed,
        keys::Press,
        pieces::Piece,
        theme::Mood,
    },
};

pub(super) fn view(app: &App) -> View {
    View {
        title: "Grants".to_owned(),
        head: vec![
            ("State", Constraint::Length(9)),
            ("Uses", Constraint::Length(10)),
            ("Agent", Constraint::Fill(2)),
            ("Secrets", Constraint::Fill(2)),
        ],
        rows: app.seen.grants.iter().map(row).collect(),
        empty: "No grant was made. In a terminal: keyless grant create",
        about: "What it permits",
        detail: chosen(app).map(detail).unwrap_or_default(),
        keys: "d revoke",
    }
}

pub(super) fn press(app: &mut App, press: Press) -> Option<Act> {
    if press == Press::Char('d') {
        let shown = chosen(app)?;
        if shown.state != GrantState::Active {
            app.say("It permits nothing any more as it is.", Mood::Plain);
            return None;
        }
        let id = shown.grant.grant_id.clone();
        app.open(Deed::RevokeGrant(id));
    }
    None
}

fn chosen(app: &App) -> Option<&ShownGrant> {
    let chosen = app.chosen()?;
    app.seen.grants.iter().find(|shown| shown.grant.grant_id.as_str() == chosen)
}

fn row(shown: &ShownGrant) -> Row {
    let secrets = shown.grant.permissions.iter().map(|one| listed(&one.secrets, "none"));
    Row {
        cells: vec![
            shown.state.as_str().to_owned(),
            uses(shown).join(", "),
            visible(&shown.grant.agent_uri.to_string()),
            visible(&secrets.collect::<Vec<_>>().join("; ")),
        ],
        marked: (0, if shown.state == GrantState::Active { Mood::Good } else { Mood::Plain }),
    }
}

fn detail(shown: &ShownGrant) -> Vec<Piece> {
    let grant = &shown.grant;
    let mut pieces = vec![
        Piece::fact("Grant", visible(grant.grant_id.as_str())),
        Piece::fact("Agent", visible(&grant.agent_uri.to_string())),
        Piece::fact("State", shown.state.as_str()),
    ];
    for (permission, uses) in grant.permissions.iter().zip(uses(shown)) {
        pieces.push(Piece::Blank);
        pieces.extend(one(permission, uses));
    }
    pieces
}

fn one(permission: &Permission, uses: String) -> Vec<Piece> {
    let conditions = &permission.conditions;
    let actions: Vec<String> =
        permission.action_types.iter().map(|action| String::from(*action)).collect();
    let mut pieces = vec![
        Piece::fact("May", visible(&listed(&actions, "nothing"))),
        Piece::fact("With", visible(&listed(&permission.secrets, "none"))),
        Piece::fact("Reaching", listed(&conditions.allowed_hosts, "no host by itself")),
        Piece::fact("Until", conditions.valid_until.strftime("%Y-%m-%d %H:%M").to_string()),
        Piece::fact("Uses", uses),
    ];
    if conditions.require_human_approval {
        pieces.push(Piece::fact("Asks", "you, each time"));
    }
    pieces
}

/// Of each permission: `3 of 100`, and `no limit` where nobody counts.
fn uses(shown: &ShownGrant) -> Vec<String> {
    let each = shown.grant.permissions.iter().zip(&shown.used).map(|(permission, used)| {
        let most = permission.conditions.max_uses;
        most.map_or_else(|| "no limit".to_owned(), |most| format!("{used} of {most}"))
    });
    each.collect()
}
