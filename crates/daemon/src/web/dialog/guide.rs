//! What the operator's catalog says of a token: where to get it, step by step, and how it is renewed.

use keyless_vault::{Provider, Variant};
use maud::{Markup, html};

use crate::web::words::plain;

/// Steps, links and notes. `rotation` adds what is known of renewing it.
pub(in crate::web) fn guide(provider: &Provider, variant: &Variant, rotation: bool) -> Markup {
    html! {
        @if let Some(rule) = &variant.format_regex { span #format data-format=(rule) hidden {} }
        (way(provider, variant))
        @if let (true, Some(known)) = (rotation, &variant.rotation) {
            section .renewal aria-label="Renewal" {
                p { "Renewed every " (known.every_days) " days." }
                @if let Some(notes) = &known.notes { p .help { (plain(notes)) } }
                @if let Some(url) = &known.guide_url { p .links { (link(url, "How to renew it")) } }
            }
        }
    }
}

/// The guide for a kind of token that the project alone names, marked as that: nothing of the form follows from it.
pub(super) fn declared_guide(provider: &Provider, variant: &Variant) -> Markup {
    html! {
        p .help {
            "Declared by the project: " (plain(&provider.display_name)) ", " (plain(&variant.display_name))
            ". See that it is what you mean to give; where it may go is yours to say."
        }
        (way(provider, variant))
    }
}

/// How a token is got.
fn way(provider: &Provider, variant: &Variant) -> Markup {
    let retrieval = &variant.retrieval;
    html! {
        p { (plain(&variant.description)) }
        @if let Some(hint) = &variant.format_hint { p .help { "Format: " code { (plain(hint)) } } }
        p .links {
            @if let Some(page) = retrieval.page() { (link(page, &format!("Open {}", provider.display_name))) }
            @if let Some(docs) = &retrieval.docs_url { (link(docs, "Documentation")) }
        }
        ol .steps { @for step in &retrieval.steps { li { (plain(step)) } } }
        @if let Some(notes) = &retrieval.notes { p .help { (plain(notes)) } }
    }
}

/// A link that says where it goes; nobody there learns where it was followed.
pub(super) fn link(url: &str, words: &str) -> Markup {
    let host = url.strip_prefix("https://").and_then(|rest| rest.split('/').next());
    html! {
        @if let Some(host) = host {
            a href=(url) target="_blank" rel="noopener noreferrer" { (plain(words)) span .host { (host) } }
        }
    }
}

#[cfg(test)]
mod tests {
    use keyless_vault::Providers;

    use super::*;

    /// Reference, lines 88 to 90: what is about renewing is shown for a rotation alone, and without a page of the
    /// provider's there is no link to one.
    #[test]
    fn renewal_is_shown_for_a_rotation_and_links_where_there_is_a_page() {
        let providers = Providers::bundled();
        let (provider, variant) = providers.variant("aws-secret-key").unwrap();
        let mut noted = variant.clone();
        let known = noted.rotation.as_mut().unwrap();
        (known.guide_url, known.notes) = (None, Some("Both halves change.".to_owned()));
        for (variant, rotation, expected) in [
            (variant, false, [false, false, false]),
            (variant, true, [true, true, false]),
            (&noted, true, [true, false, true]),
        ] {
            let page = guide(provider, variant, rotation).into_string();
            let shown = ["every 90 days", "How to renew it", "Both halves change."];
            assert_eq!(shown.map(|words| page.contains(words)), expected, "{page}");
            assert!(page.contains("Open Amazon Web Services"), "{page}");
        }
    }
}
