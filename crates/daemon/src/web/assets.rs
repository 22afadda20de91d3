//! The style sheet, the scripts and the icon, embedded.

use axum::{
    extract::Path,
    http::{HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};

const SCRIPT: &str = "text/javascript; charset=utf-8";

/// Name, type, text.
const ALL: &[(&str, &str, &str)] = &[
    ("dialog.js", SCRIPT, include_str!("assets/dialog.js")),
    ("icon.svg", "image/svg+xml", include_str!("assets/icon.svg")),
    ("live.js", SCRIPT, include_str!("assets/live.js")),
    ("page.js", SCRIPT, include_str!("assets/page.js")),
    ("passkey.js", SCRIPT, include_str!("assets/passkey.js")),
    ("style.css", "text/css; charset=utf-8", include_str!("assets/style.css")),
    ("value.js", SCRIPT, include_str!("assets/value.js")),
];

/// Where an asset is.
pub(super) fn address(name: &str) -> String {
    format!("/assets/{name}")
}

pub(super) async fn serve(Path(name): Path<String>) -> Response {
    let Some((_, kind, text)) = ALL.iter().find(|(known, ..)| *known == name) else {
        return (StatusCode::NOT_FOUND, "There is no such file.\n").into_response();
    };
    let mut response = text.into_response();
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_together_is_small() {
        let bytes: usize = ALL.iter().map(|(_, _, text)| text.len()).sum();
        assert!(bytes < 40 * 1024, "{bytes}");
    }
}
