//! A deploy of agent configuration: the plan with its diff. All of it is what the agent's side and the config repo
//! say.

use keyless_core::approval::{WantedDeploy, WantedFile};
use maud::{Markup, html};

use crate::web::words::{diff, plain};

pub(super) fn render(wanted: &WantedDeploy) -> Markup {
    html! {
        dl .facts {
            div { dt { "Project" } dd { (plain(&wanted.project)) } }
            div { dt { "From" } dd { (plain(&wanted.repo)) } }
            div { dt { "Profile" } dd { (plain(&wanted.profile)) ", machine " (plain(&wanted.machine)) } }
            div { dt { "Plan" } dd { code { (plain(&wanted.plan_hash)) } } }
            div { dt { "Files" } dd { (wanted.file_count()) } }
        }
        section .quoted aria-label="The plan" {
            p .said-by { "The config repo’s words: what agents would read" }
            @for file in &wanted.files { (one_file(file)) }
            @if wanted.more_files > 0 {
                p .help { "And " (wanted.more_files) " more. " code { "keyless pack diff" } " shows them." }
            }
        }
        p .help {
            "Allowed once, for exactly this plan. A denial is remembered for ten minutes."
        }
    }
}

fn one_file(file: &WantedFile) -> Markup {
    html! {
        details .file open[file.diff.is_some()] {
            summary {
                span .op { (file.op.as_str()) } " " span .path { (plain(&file.path)) }
                @if file.adopted { span .warn { "Yours: it would be overwritten" } }
                @if file.edited { span .warn { "Edited since it was deployed" } }
            }
            @match &file.diff {
                Some(text) => { (diff(text.strip_suffix('\n').unwrap_or(text))) },
                None => { p .help { "No lines are shown: it is no text, too long, or holds a credential." } },
            }
        }
    }
}
