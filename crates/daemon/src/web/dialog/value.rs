//! A value: first or next, typed into a field that is masked, and where it may go.

use keyless_core::{Error, SecretPath, approval::Asked};
use keyless_vault::{KeptAt, Provider, Providers, Secret, SourceConfig, Variant};
use maud::{Markup, html};
use zeroize::Zeroizing;

use super::{
    FORM, Said, Scene,
    guide::{declared_guide, guide, link},
};
use crate::{
    operator::{Answer, Given, Known, Occasion, Shown, Typed, suggested_variable},
    providers::{places_at, places_in_words},
    web::{form::Fields, words::plain},
};

/// The field with the kind of token that the person chose.
const VARIANT: &str = "variant";

/// A value that a person is to type: an agent asked for it, or they want it themselves.
pub(super) struct Wanted<'a> {
    /// The visit's place.
    pub(super) place: &'a str,
    /// The secret; nothing while its name is typed as well.
    pub(super) path: Option<&'a SecretPath>,
    pub(super) occasion: Occasion,
    pub(super) known: Option<&'a Known>,
    pub(super) secret: Option<&'a Secret>,
    pub(super) providers: &'a Providers,
    /// The kind of token that the project says it is.
    pub(super) declared: Option<&'a str>,
    /// A value was refused for its looks: offer to take it all the same.
    pub(super) weak: bool,
    /// What takes a value of several lines, in a terminal.
    pub(super) from_file: String,
}

/// What an agent has asked for; nothing where it is no value.
pub(super) fn of_request<'a>(scene: &Scene<'a>) -> Option<Wanted<'a>> {
    let shown = scene.shown;
    Some(Wanted {
        place: &scene.visit.place,
        path: shown.path.as_ref(),
        occasion: Occasion::asked(&shown.asked)?,
        known: shown.known.as_ref(),
        secret: scene.secret,
        providers: scene.providers,
        declared: shown.declared_pattern(),
        weak: scene.weak,
        from_file: from_file(shown),
    })
}

/// What stands above the form: where it is kept, what it looks like, how to get it.
pub(super) fn around(wanted: &Wanted<'_>) -> Markup {
    let rotation = wanted.occasion == Occasion::Another;
    let known = catalogs(wanted);
    let upkeep = wanted.secret.map(|secret| &secret.metadata.upkeep);
    let every = upkeep.and_then(|upkeep| upkeep.rotate_every_days);
    let page = upkeep.and_then(|upkeep| upkeep.retrieval_url.as_deref());
    html! {
        dl .facts {
            div { dt { "Kept in" } dd { (kept(wanted.secret, wanted.known.and_then(|known| known.kept_at.as_ref()))) } }
            @if let Some(rule) = wanted.secret.and_then(|secret| secret.metadata.egress.as_ref()) {
                div { dt { "Goes into" } dd { (places_in_words(rule)) } }
            }
            @if let (true, Some(days)) = (rotation, every) {
                div { dt { "Cadence" } dd { "every " (days) " days" } }
            }
            @if let (true, Some(at)) = (rotation, wanted.secret.and_then(|secret| secret.rotated_at)) {
                div { dt { "Present value" } dd { "since " (at.strftime("%-d %B %Y").to_string()) } }
            }
        }
        @if let (Some(page), None) = (page, known) { p .links { (link(page, "Where to get it")) } }
        @if let Some((provider, variant)) = known {
            section .guide {
                @if provider.variants.len() > 1 { (choice(wanted, provider, variant)) } @else {
                    input type="hidden" name=(VARIANT) form=(FORM) value=(variant.id);
                }
                div #guide { (guide(provider, variant, rotation)) }
            }
        }
        @if let Some((provider, variant)) = declared(wanted) {
            section .guide { (declared_guide(provider, variant)) }
        }
    }
}

/// The fields.
pub(super) fn inputs(wanted: &Wanted<'_>) -> Markup {
    let rotation = wanted.occasion == Occasion::Another;
    let variant = catalogs(wanted).map(|(_, variant)| variant);
    let own = wanted.secret.and_then(|secret| secret.metadata.upkeep.format_regex.as_deref());
    let bound = wanted.known.is_some_and(|known| !known.to.is_empty());
    let named = wanted.known.is_some_and(|known| known.env.is_some());
    html! {
        div .field {
            label for="value" { @if rotation { "New value" } @else { "Value" } }
            div .reveal {
                input #value type="password" name="value" required autocomplete="off" spellcheck="false"
                    autocapitalize="off" data-value="" data-format=[own] data-lines=(wanted.from_file) aria-describedby="value-help";
                button type="button" .quiet data-reveal="value" aria-pressed="false" hidden { "Show" }
            }
            p #value-help .help aria-live="polite" data-default="The agent never sees it." {
                "The agent never sees it."
            }
        }
        @if !bound { (destinations(wanted, variant)) }
        @if !named { (variable(wanted.path, variant)) }
        @if rotation {
            label .tick { input type="checkbox" name="overwrite" required;
                "I understand that this overwrites the present value" }
        }
        label .tick data-weak="" hidden[!wanted.weak] {
            input type="checkbox" name="weak"; "Save it although it does not look like one"
        }
    }
}

/// The answer to a request; nothing of the value is in it.
pub(super) fn read(
    occasion: Occasion,
    providers: &Providers,
    fields: &mut Fields,
) -> Result<Said, Error> {
    let (given, value) = read_given(occasion, providers, fields)?;
    Ok((Answer::Value(given), Some(value)))
}

/// A value, and what goes with it.
pub(in crate::web) fn read_given(
    occasion: Occasion,
    providers: &Providers,
    fields: &mut Fields,
) -> Result<(Given, Zeroizing<Vec<u8>>), Error> {
    let value = fields.take("value");
    let typed = Typed {
        value: &value,
        to: fields.text("to"),
        env: fields.text("env"),
        overwrite: fields.is_ticked("overwrite"),
        allow_weak: fields.is_ticked("weak"),
    };
    let chosen = providers.variant(fields.text(VARIANT)).map(|(_, variant)| variant);
    typed.read(occasion, chosen)
}

/// What the catalog knows of it, by the vault's word alone: a manifest comes from the agent's side, and this fills in hosts.
fn catalogs<'a>(wanted: &Wanted<'a>) -> Option<(&'a Provider, &'a Variant)> {
    wanted.providers.of_secret(wanted.path?, vaults_pattern(wanted))
}

/// What Keyless says of the kind of token that the project names: to read, and for nothing else.
fn declared<'a>(wanted: &Wanted<'a>) -> Option<(&'a Provider, &'a Variant)> {
    let (path, vaults) = (wanted.path?, vaults_pattern(wanted));
    wanted.providers.guide_declared(path, vaults, wanted.declared)
}

fn vaults_pattern<'a>(wanted: &Wanted<'a>) -> Option<&'a str> {
    wanted.secret?.metadata.upkeep.pattern_id.as_deref()
}

/// Where a secret's value is kept.
pub(super) fn kept(secret: Option<&Secret>, at: Option<&KeptAt>) -> Markup {
    html! {
        @if let Some(at) = at { (plain(&at.in_words())) } @else { @match secret.map(|secret| &secret.metadata.source) {
            Some(SourceConfig::Routed { source: Some(name), .. }) => { "source " code { (name) } },
            Some(SourceConfig::Routed { .. }) => { "its source, as sources.toml says" },
            Some(SourceConfig::Env { variable }) => { "the broker’s variable " code { (variable) } },
            Some(SourceConfig::File { .. }) => { "a file of yours" },
            Some(SourceConfig::Local) | None => { "the sealed store on this machine" },
        } }
    }
}

fn choice(wanted: &Wanted<'_>, provider: &Provider, chosen: &Variant) -> Markup {
    let occasion = if wanted.occasion == Occasion::Another { "another" } else { "first" };
    let base = format!("/{}/guide/{occasion}/", wanted.place);
    html! {
        div .field {
            label for="variant" { "Kind of token" }
            select #variant name=(VARIANT) form=(FORM) data-guide=(base) {
                @for variant in &provider.variants {
                    option value=(variant.id) selected[variant.id == chosen.id] { (variant.display_name) }
                }
            }
        }
    }
}

fn destinations(wanted: &Wanted<'_>, variant: Option<&Variant>) -> Markup {
    let egress = variant.and_then(|variant| variant.egress.as_ref());
    let hosts: Vec<String> =
        egress.iter().flat_map(|egress| &egress.to).map(ToString::to_string).collect();
    let hint = egress.and_then(|egress| egress.to_hint.as_deref());
    let to = egress.map(|egress| egress.to.as_slice()).unwrap_or_default();
    let places = wanted.path.map(|path| places_at(wanted.providers, path, to));
    html! {
        div .field {
            label for="to" { "Hosts that may receive it" }
            input #to name="to" value=(hosts.join(", ")) placeholder=(hint.unwrap_or("api.example.com"))
                spellcheck="false" autocapitalize="off" autocomplete="off" aria-describedby="to-help";
            p #to-help .help { "Anywhere else only a placeholder arrives. As long as it is empty, nothing can use it." }
            @if let (Some(places), false) = (places, to.is_empty()) {
                p .help { "At these hosts it goes into " (plain(&places)) "." }
            }
            p .help { "At hosts of a service that the catalog knows it goes into the places of that service’s tokens, at any other into any part of a request." }
        }
    }
}

fn variable(path: Option<&SecretPath>, variant: Option<&Variant>) -> Markup {
    let known = variant.and_then(|variant| variant.env_var.as_ref()).map(ToString::to_string);
    let name = known.or_else(|| path.map(suggested_variable)).unwrap_or_default();
    html! {
        div .field {
            label for="env" { "Variable for its placeholder" }
            input #env name="env" value=(name) spellcheck="false" autocomplete="off" autocapitalize="off";
        }
    }
}

/// How a value of several lines is given, which no field of one line holds.
fn from_file(shown: &Shown) -> String {
    let overwrite = if matches!(shown.asked, Asked::Rotation { .. }) { " --overwrite" } else { "" };
    let bound = shown.known.as_ref().is_some_and(|known| !known.to.is_empty());
    let to = if bound { "" } else { " --to HOST" };
    format!("keyless approve {} --accept{overwrite}{to} --from-file FILE", shown.id)
}
