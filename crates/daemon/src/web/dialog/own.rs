//! A secret as the operator opens it: what is known of it, a value, other metadata. No agent has asked for it.

use keyless_core::{ApproveOnUse, Location};
use keyless_store::LatestUse;
use keyless_vault::{KeptAt, Metadata, Providers, Secret, SourceConfig};
use maud::{Markup, html};

use super::{
    FORM, Sheet, destinations, edit, once_more,
    value::{self, Wanted},
};
use crate::{
    operator::{Known, Occasion, ProveAgain, Weight, ago},
    web::{frame::word, pages::session_name, visitors::Visit, words::plain},
};

/// As many sessions are listed.
const USERS: usize = 6;

/// A secret that the operator has opened, or is about to add.
pub(in crate::web) struct Own<'a> {
    pub(in crate::web) visit: &'a Visit,
    /// The secret; nothing for a new one.
    pub(in crate::web) secret: Option<&'a Secret>,
    /// Where its value is looked for, if that is at a source.
    pub(in crate::web) kept_at: Option<KeptAt>,
    pub(in crate::web) act: Act,
    /// How often every secret is asked about at least.
    pub(in crate::web) floor: ApproveOnUse,
    pub(in crate::web) providers: &'a Providers,
    /// Its latest uses, the last one first.
    pub(in crate::web) uses: &'a [LatestUse],
    pub(in crate::web) prove_again: ProveAgain,
    /// A value was refused for its looks: offer to take it all the same.
    pub(in crate::web) weak: bool,
}

/// What the operator is about to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::web) enum Act {
    Edit,
    Look,
    Value,
}

impl Act {
    /// Reads the word of an address or a form.
    pub(in crate::web) fn parse(word: &str) -> Self {
        match word {
            "edit" => Self::Edit,
            "value" => Self::Value,
            _ => Self::Look,
        }
    }
}

/// The dialog over the inventory.
pub(in crate::web) fn render(own: &Own<'_>) -> Markup {
    let list = format!("/{}/secrets", own.visit.place);
    let path = own.secret.map(|secret| secret.path.to_string());
    let address = format!("{list}/{}", path.as_deref().unwrap_or("new"));
    let back = if own.act == Act::Look || path.is_none() { &list } else { &address };
    let (kind, inside) = match (own.act, own.secret) {
        (Act::Edit, Some(secret)) => ("Change what is known", edit::render(own, secret, &address)),
        (Act::Look, Some(secret)) => ("Secret", look(own, secret, &address)),
        (_, secret) => {
            let kind = match Occasion::of(secret) {
                Occasion::Another => "Rotate secret",
                Occasion::First => "Provision secret",
                Occasion::New => "Add a secret",
            };
            (kind, typing(own, &address))
        }
    };
    let title = path.as_deref().unwrap_or("A path of your own");
    Sheet { kind, title, back, is_wide: false }.around(&inside)
}

/// A value is typed.
fn typing(own: &Own<'_>, address: &str) -> Markup {
    let occasion = Occasion::of(own.secret);
    let known = own.secret.cloned().map(|secret| Known::of(secret, own.kept_at.clone(), own.floor));
    let wanted = Wanted {
        place: &own.visit.place,
        path: own.secret.map(|secret| &secret.path),
        occasion,
        known: known.as_ref(),
        secret: own.secret,
        providers: own.providers,
        declared: None,
        weak: own.weak,
        from_file: from_file(own.secret, occasion),
    };
    let rotation = occasion == Occasion::Another;
    let proof = own.prove_again.takes(Weight::of_value(occasion));
    let why = if rotation { "since this overwrites a value" } else { "to save it" };
    html! {
        @if own.secret.is_some() { (value::around(&wanted)) }
        form #(FORM) method="post" action=(address) data-live=(back_to(own)) {
            (word(own.visit))
            @if own.secret.is_none() { (new_path()) }
            (value::inputs(&wanted))
            (once_more(own.visit, proof, why))
            div .fault role="alert" data-fault="" hidden {}
            div .buttons {
                button .main name="act" value="value" {
                    @if rotation { "Overwrite the value" } @else { "Save" }
                }
            }
        }
    }
}

/// Where a saved form leads: to the inventory.
fn back_to(own: &Own<'_>) -> String {
    format!("/{}/secrets", own.visit.place)
}

fn new_path() -> Markup {
    html! {
        div .field {
            label for="path" { "Path" }
            input #path name="path" required spellcheck="false" autocapitalize="off" autocomplete="off"
                maxlength="255" placeholder="project/category/name"
                pattern="[a-z0-9]+(-[a-z0-9]+)*(/[a-z0-9]+(-[a-z0-9]+)*){2,}" aria-describedby="path-help";
            p #path-help .help { "project/category/name, lower case, digits, hyphens." }
        }
    }
}

/// How a value of several lines is given, which no field of one line holds.
fn from_file(secret: Option<&Secret>, occasion: Occasion) -> String {
    let path = secret.map_or("PATH", |secret| secret.path.as_str());
    match (secret, occasion) {
        (None, _) => format!("keyless secret add {path} --to HOST --env NAME --from-file FILE"),
        _ => format!("keyless secret rotate {path} --from-file FILE"),
    }
}

/// Everything that is known of it, and what can be done.
fn look(own: &Own<'_>, secret: &Secret, address: &str) -> Markup {
    let Metadata { description, env, upkeep, approve_on_use, source, .. } = &secret.metadata;
    let can_write = matches!(source, SourceConfig::Local | SourceConfig::Routed { .. });
    let rotation = Occasion::of(Some(secret)) == Occasion::Another;
    html! {
        @if let Some(words) = description { p .help { (plain(words)) } }
        dl .facts {
            div { dt { "May go to" } dd { (where_it_goes(secret)) } }
            div { dt { "Variable" } dd {
                @match env { Some(name) => { code { (name) } }, None => { span .none { "none" } } } } }
            div { dt { "Asks" } dd { (approve_on_use.tightened_by(own.floor).in_words()) } }
            div { dt { "Kept in" } dd { (value::kept(Some(secret), own.kept_at.as_ref())) } }
            @if let Some(version) = secret.version {
                div { dt { "Value" } dd { "version " (version)
                    @if let Some(at) = secret.rotated_at { ", since " (at.strftime("%-d %B %Y").to_string()) } } }
            }
            @if let Some(day) = upkeep.expires_at { div { dt { "Last day" } dd { (day) } } }
            @if let Some(days) = upkeep.rotate_every_days { div { dt { "Renewal" } dd { "every " (days) " days" } } }
            @if let Some(id) = &upkeep.pattern_id { div { dt { "Pattern" } dd { code { (plain(id)) } } } }
        }
        (used_by(own))
        form method="post" action=(address) {
            (word(own.visit))
            div .buttons {
                @if secret.version.is_some() || *source != SourceConfig::Local {
                    button name="act" value="check" { "Ask its service" }
                }
                a .button href={ (address) "?act=edit" } { "Change" }
                @if can_write {
                    a .button.main href={ (address) "?act=value" } {
                        @if rotation { "Give another value" } @else { "Give a value" }
                    }
                }
            }
        }
    }
}

/// The hosts, and where in which requests its placeholder is exchanged.
fn where_it_goes(secret: &Secret) -> Markup {
    let Some(rule) = &secret.metadata.egress else {
        return html! { span .none { "nowhere on the wire; into an action’s own jail" } };
    };
    let places: Vec<_> = rule.locations.iter().map(Location::as_str).collect();
    html! {
        (destinations(&rule.to))
        span .under { "in: " (places.join(", ")) }
        @for (what, rules) in [("only ", &rule.allow), ("asks at ", &rule.ask)] {
            @for rule in rules { span .under { (what) code { (rule) } } }
        }
    }
}

fn used_by(own: &Own<'_>) -> Markup {
    html! {
        h3 { "Used lately by" }
        @if own.uses.is_empty() { p .help { "Nobody, as far back as the log’s newest entries go." } }
        @else {
            ul .users {
                @for one in own.uses.iter().take(USERS) {
                    li {
                        (session_name(own.visit, &one.session_id)) " "
                        span .under { (plain(&one.agent_uri)) ", " (ago(one.at)) ", in " (one.entries)
                            @if one.entries == 1 { " entry" } @else { " entries" } }
                    }
                }
            }
            @if own.uses.len() > USERS { p .help { "And " (own.uses.len() - USERS) " more sessions." } }
        }
    }
}
