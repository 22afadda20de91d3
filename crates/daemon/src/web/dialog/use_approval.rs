//! The use of a secret: what for, in the agent's words, and the one deed if it is about one.

use maud::{Markup, html};

use super::Scene;
use crate::web::words::{plain, said};

pub(super) fn render(scene: &Scene<'_>, reason: &str, deed: Option<&str>) -> Markup {
    let per_call = scene.shown.is_per_call();
    html! {
        @if let Some(deed) = deed {
            p .deed { span .label { "To allow this one request" } code { (plain(deed)) } }
        }
        (said(reason))
        p .help {
            "The value stays with Keyless and goes to the destinations above only. "
            @if per_call { "This secret is asked about at every use. " }
            "A denial is remembered for ten minutes."
        }
    }
}
