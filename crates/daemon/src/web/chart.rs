//! Small charts, drawn here as SVG: no script, no style but the sheet's.

use maud::{Markup, html};

const HEIGHT: u64 = 64;
const STEP: u64 = 10;
const WIDTH: u64 = 120;

/// Bars over time: what went and what was refused, stacked.
pub(super) fn bars(values: &[(u64, u64)]) -> Markup {
    let most = values.iter().map(|(fine, refused)| fine + refused).max().unwrap_or(0).max(1);
    let width = STEP * values.len() as u64;
    let (fine, refused) = values.iter().fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
    let words = format!("{fine} requests and {refused} refusals in the last hour");
    html! {
        svg .chart role="img" aria-label=(words) viewBox=(format!("0 0 {width} {HEIGHT}"))
            preserveAspectRatio="none" {
            @for (index, (fine, refused)) in values.iter().enumerate() {
                @let x = STEP * index as u64;
                @let (tall, top) = (height(*fine, most), height(*refused, most));
                rect .base x=(x) y=(HEIGHT - 1) width=(STEP - 3) height="1" {}
                rect .fine x=(x) y=(HEIGHT - tall) width=(STEP - 3) height=(tall) {}
                rect .refused x=(x) y=(HEIGHT - tall - top) width=(STEP - 3) height=(top) {}
            }
        }
    }
}

/// One bar: a host's share of the busiest one's requests.
pub(super) fn share(fine: u64, refused: u64, most: u64) -> Markup {
    let width = |count: u64| count * WIDTH / most.max(1);
    html! {
        svg .share aria-hidden="true" viewBox=(format!("0 0 {WIDTH} 8")) preserveAspectRatio="none" {
            rect .fine x="0" y="0" width=(width(fine)) height="8" {}
            rect .refused x=(width(fine)) y="0" width=(width(refused)) height="8" {}
        }
    }
}

fn height(count: u64, most: u64) -> u64 {
    // What happened at all can be seen.
    if count == 0 { 0 } else { (count * (HEIGHT - 2) / most).max(2) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_stay_inside_their_chart() {
        let text = bars(&[(0, 0), (1000, 1), (3, 0)]).into_string();
        assert!(text.contains("1003 requests and 1 refusals"), "{text}");
        assert!(!text.contains("y=\"-"), "{text}");
    }
}
